//! Running a program that was taken.

use core::num::NonZeroU32;

use crate::MEM_WORDS;
use crate::program::WORDS;

/// How many instructions a conditional jump skips.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jump {
    pub jt: u8,
    pub jf: u8,
}

impl Jump {
    fn skip(self, condition: bool) -> usize {
        usize::from(if condition { self.jt } else { self.jf })
    }
}

/// An instruction as it is run: its code and its operand are one. The names are those of
/// [`crate::insn::code`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// `A = K`.
    LdImm(u32),
    /// `A` = a word of the data.
    LdAbs(u8),
    LdMem(u8),
    LdxImm(u32),
    LdxMem(u8),
    St(u8),
    Stx(u8),
    AddK(u32),
    AddX,
    SubK(u32),
    SubX,
    MulK(u32),
    MulX,
    DivK(NonZeroU32),
    DivX,
    OrK(u32),
    OrX,
    AndK(u32),
    AndX,
    XorK(u32),
    XorX,
    LshK(u8),
    LshX,
    RshK(u8),
    RshX,
    Neg,
    Ja(u16),
    JeqK(Jump, u32),
    JeqX(Jump),
    JgtK(Jump, u32),
    JgtX(Jump),
    JgeK(Jump, u32),
    JgeX(Jump),
    JsetK(Jump, u32),
    JsetX(Jump),
    RetK(u32),
    RetA,
    Tax,
    Txa,
}

// A program is as large as what the process handed over.
const _: () = assert!(size_of::<Step>() == 8);

/// What registers and memory hold: a number, or perhaps a number that is not known.
pub(crate) trait Value: Copy {
    /// A number that is known.
    fn of(number: u32) -> Self;
    /// The number, if it is known.
    fn get(self) -> Option<u32>;
    /// What `f` makes of it.
    fn map(self, f: impl FnOnce(u32) -> u32) -> Self;

    /// What `f` makes of it and another.
    fn with(self, other: Self, f: impl FnOnce(u32, u32) -> u32) -> Self;
}

impl Value for u32 {
    #[inline(always)]
    fn of(number: u32) -> Self {
        number
    }
    #[inline(always)]
    fn get(self) -> Option<u32> {
        Some(self)
    }
    #[inline(always)]
    fn map(self, f: impl FnOnce(u32) -> u32) -> Self {
        f(self)
    }
    #[inline(always)]
    fn with(self, other: Self, f: impl FnOnce(u32, u32) -> u32) -> Self {
        f(self, other)
    }
}

impl Value for Option<u32> {
    fn of(number: u32) -> Self {
        Some(number)
    }
    fn get(self) -> Option<u32> {
        self
    }
    fn map(self, f: impl FnOnce(u32) -> u32) -> Self {
        Option::map(self, f)
    }
    fn with(self, other: Self, f: impl FnOnce(u32, u32) -> u32) -> Self {
        self.zip(other).map(|(a, b)| f(a, b))
    }
}

/// Runs a program over data and calls `tick` for each instruction. `None`: what it returns depends on words
/// that are not known.
///
/// The iterator over what follows only ever gets shorter, so this ends whatever the program is. Indices are
/// masked where the types allow more than the checks do; a program that ends without a return, of which there
/// is none, returns 0.
#[inline(always)]
pub(crate) fn run<V: Value>(steps: &[Step], data: &[V; WORDS], mut tick: impl FnMut()) -> Option<u32> {
    let mut a = V::of(0);
    let mut x = V::of(0);
    let mut mem = [V::of(0); MEM_WORDS];
    let cell = |n: u8| usize::from(n) % MEM_WORDS;
    let mut rest = steps.iter();
    let mut next = rest.next();
    while let Some(step) = next {
        tick();
        let mut skip = 0;
        match *step {
            Step::LdImm(k) => a = V::of(k),
            Step::LdAbs(n) => a = data[usize::from(n) % WORDS],
            Step::LdMem(n) => a = mem[cell(n)],
            Step::LdxImm(k) => x = V::of(k),
            Step::LdxMem(n) => x = mem[cell(n)],
            Step::St(n) => mem[cell(n)] = a,
            Step::Stx(n) => mem[cell(n)] = x,
            Step::AddK(k) => a = a.map(|a| a.wrapping_add(k)),
            Step::AddX => a = a.with(x, u32::wrapping_add),
            Step::SubK(k) => a = a.map(|a| a.wrapping_sub(k)),
            Step::SubX => a = a.with(x, u32::wrapping_sub),
            Step::MulK(k) => a = a.map(|a| a.wrapping_mul(k)),
            Step::MulX => a = a.with(x, u32::wrapping_mul),
            Step::DivK(k) => a = a.map(|a| a / k),
            Step::DivX => match NonZeroU32::new(x.get()?) {
                Some(x) => a = a.map(|a| a / x),
                None => return Some(0),
            },
            Step::OrK(k) => a = a.map(|a| a | k),
            Step::OrX => a = a.with(x, |a, x| a | x),
            Step::AndK(k) => a = a.map(|a| a & k),
            Step::AndX => a = a.with(x, |a, x| a & x),
            Step::XorK(k) => a = a.map(|a| a ^ k),
            Step::XorX => a = a.with(x, |a, x| a ^ x),
            Step::LshK(k) => a = a.map(|a| a.wrapping_shl(k.into())),
            Step::LshX => a = a.with(x, u32::wrapping_shl),
            Step::RshK(k) => a = a.map(|a| a.wrapping_shr(k.into())),
            Step::RshX => a = a.with(x, u32::wrapping_shr),
            Step::Neg => a = a.map(u32::wrapping_neg),
            Step::Ja(k) => skip = k.into(),
            Step::JeqK(jump, k) => skip = jump.skip(a.get()? == k),
            Step::JeqX(jump) => skip = jump.skip(a.get()? == x.get()?),
            Step::JgtK(jump, k) => skip = jump.skip(a.get()? > k),
            Step::JgtX(jump) => skip = jump.skip(a.get()? > x.get()?),
            Step::JgeK(jump, k) => skip = jump.skip(a.get()? >= k),
            Step::JgeX(jump) => skip = jump.skip(a.get()? >= x.get()?),
            Step::JsetK(jump, k) => skip = jump.skip(a.get()? & k != 0),
            Step::JsetX(jump) => skip = jump.skip(a.get()? & x.get()? != 0),
            Step::RetK(k) => return Some(k),
            Step::RetA => return a.get(),
            Step::Tax => x = a,
            Step::Txa => a = x,
        }
        next = rest.nth(skip);
    }
    Some(0)
}
