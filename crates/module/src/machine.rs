//! What the loader must be told of a processor.

use crate::Fault;
use crate::read;
use crate::sites::WayOf;

/// The width of a file's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `ELFCLASS32`.
    Bits32,
    /// `ELFCLASS64`.
    Bits64,
}

impl Class {
    /// Bytes of an address.
    pub const fn word(self) -> usize {
        match self {
            Self::Bits32 => 4,
            Self::Bits64 => 8,
        }
    }
}

/// Where the constant is that a relocation adds to the symbol's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addends {
    /// In the relocation (`SHT_RELA`).
    Apart,
    /// In the place that is changed (`SHT_REL`).
    InPlace,
}

/// The symbol of a relocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its value: before addresses are known, the offset in its part.
    pub value: u64,
    /// Whether the module defines it, in a section.
    pub own: bool,
    /// Whether what it names is known to be code: an exported symbol, or a function of the module.
    pub code: bool,
    /// `st_other`.
    pub other: u8,
}

/// What is to be changed.
#[derive(Debug)]
pub struct Site<'b> {
    /// The section's bytes from the place on.
    pub bytes: &'b mut [u8],
    /// The address of the first.
    pub address: u64,
    /// The relocation's constant, if it has one.
    pub addend: i64,
    /// [`Machine::base`].
    pub base: u64,
}

impl Site<'_> {
    /// Reads 32 bits.
    pub fn word(&self) -> Result<u32, Fault> {
        read::u32_at(self.bytes, 0).ok_or(Fault::Outside)
    }
    /// Writes bytes.
    pub fn put<const N: usize>(&mut self, bytes: [u8; N]) -> Result<(), Fault> {
        read::put(self.bytes, bytes).ok_or(Fault::Outside)
    }
    /// Replaces the bits of `mask` in the 32-bit word by those of `bits`.
    pub fn insert(&mut self, mask: u32, bits: u32) -> Result<(), Fault> {
        let word = self.word()?;
        self.put((word & !mask | bits & mask).to_le_bytes())
    }
}

/// A branch that may need a veneer, or an instruction that needs something else in a veneer's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// What is added to the symbol's value, before the place is subtracted.
    pub addend: i64,
    /// Bits of the symbol's value that say something else than where it is.
    pub mask: u64,
    /// What must be added to value and addend so that it is the address of the instruction branched to.
    pub bias: i64,
    /// The shortest and the longest distance that the instruction can hold.
    pub reach: (i64, i64),
    /// Whether the instruction can go there at all, if it is near enough.
    pub direct: bool,
    /// Which of the processor's veneers it needs.
    pub variant: u8,
}

/// How a branch is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The distance: value, addend, minus the place.
    pub distance: i64,
    /// Whether it goes to a veneer.
    pub veneer: bool,
}

impl Branch {
    /// The distance without a veneer, from `place`.
    pub fn distance(&self, target: &Target, place: u64) -> i64 {
        (target.value & !self.mask)
            .wrapping_add_signed(self.addend)
            .wrapping_sub(place) as i64
    }
    /// Whether that will do.
    pub fn near(&self, distance: i64) -> bool {
        self.direct && (self.reach.0..=self.reach.1).contains(&distance)
    }
    /// Decides on the way to `target`. `veneer` returns the address of the veneer that goes to an address.
    pub fn way(
        &self,
        target: &Target,
        place: u64,
        veneer: &mut dyn FnMut(&Branch, u64) -> Option<u64>,
    ) -> Result<Way, Fault> {
        let distance = self.distance(target, place);
        if self.near(distance) {
            return Ok(Way {
                distance,
                veneer: false,
            });
        }
        let to = target
            .value
            .wrapping_add_signed(self.addend.wrapping_add(self.bias));
        let veneer = veneer(self, to).ok_or(Fault::Overflow)?;
        let distance = veneer
            .wrapping_add_signed(self.bias.wrapping_neg())
            .wrapping_sub(place) as i64;
        if !(self.reach.0..=self.reach.1).contains(&distance) {
            return Err(Fault::Overflow);
        }
        Ok(Way {
            distance,
            veneer: true,
        })
    }
}

/// A processor's relocations, and what else is its own in objects.
pub trait Machine {
    /// `e_machine`.
    const NUMBER: u16;
    /// The class of its objects.
    const CLASS: Class;
    /// Where its relocations have their constants.
    const ADDENDS: Addends;
    /// The size and the alignment in bytes of a veneer; 0 if there are none.
    const VENEER: (u64, u64);
    /// How far the call in a site reaches, in bytes, in both directions.
    const SITE_REACH: i64;
    /// How many veneers calls in sites may need: one for each trampoline.
    const SITE_VENEERS: u64;
    /// Of which variant they are: it leaves alone what the trampoline is to find.
    const SITE_VENEER: u8 = 0;
    /// The name of the symbol that means [`Machine::base`], empty if there is none.
    const BASE_SYMBOL: &'static [u8] = b"";

    /// Whether an object with these `e_flags` can be a module.
    fn flags_fit(flags: u32) -> bool {
        let _ = flags;
        true
    }
    /// Whether a section is only needed until `init` has run.
    fn is_init(name: &[u8]) -> bool {
        name.starts_with(b".init")
    }
    /// Whether a symbol names nothing of the program (mapping symbols).
    fn is_marker(name: &[u8]) -> bool {
        let _ = name;
        false
    }
    /// The address of the first instruction of a function with this value.
    fn code_address(value: u64) -> u64 {
        value
    }
    /// Whether an undefined symbol means nothing in a kernel, and is 0.
    fn is_ignored(name: &[u8]) -> bool {
        let _ = name;
        false
    }
    /// An address that relocations may be relative to. `section` finds the address of one of the module.
    fn base(section: &dyn Fn(&[u8]) -> Option<u64>) -> u64 {
        let _ = section;
        0
    }
    /// The branch at the start of `bytes`, if a relocation of `kind` there is one of a branch that may go
    /// through a veneer.
    fn branch(kind: u32, bytes: &[u8], addend: i64, target: &Target) -> Option<Branch>;
    /// Writes a veneer that goes to `to` into `bytes`, which has room for one.
    fn write_veneer(bytes: &mut [u8], variant: u8, to: u64);
    /// Makes the site of a function ready: `bytes` begin where the compiler's list says, at `address`.
    /// `nothing` is for the slot. Returns the site, and what it is to call. `None`: it is not as the compiler
    /// is to leave it, and nothing was written.
    fn make_site(bytes: &mut [u8], address: u64, nothing: u64, way: WayOf<'_>) -> Option<(u64, u64)>;
    /// Makes one relocation. `veneer` is for [`Branch::way`].
    fn relocate(
        site: &mut Site<'_>,
        kind: u32,
        target: &Target,
        veneer: &mut dyn FnMut(&Branch, u64) -> Option<u64>,
    ) -> Result<(), Fault>;
}

/// Whether `value` is a signed number of `bits` bits.
pub(crate) fn signed(value: i64, bits: u32) -> Result<i64, Fault> {
    if value >> (bits - 1) == value >> 63 {
        Ok(value)
    } else {
        Err(Fault::Overflow)
    }
}

/// Whether `value` is a number of `bits` bits without a sign.
pub(crate) fn unsigned(value: u64, bits: u32) -> Result<u64, Fault> {
    if value >> bits == 0 {
        Ok(value)
    } else {
        Err(Fault::Overflow)
    }
}

/// Whether `value` is a number of `bits` bits, with a sign or without.
pub(crate) fn either(value: i64, bits: u32) -> Result<i64, Fault> {
    signed(value, bits).or_else(|_| unsigned(value as u64, bits).map(|v| v as i64))
}

/// Whether `value` is a multiple of `unit`, a power of two.
pub(crate) fn aligned(value: i64, unit: i64) -> Result<i64, Fault> {
    if value & (unit - 1) == 0 {
        Ok(value)
    } else {
        Err(Fault::Misaligned)
    }
}
