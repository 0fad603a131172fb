//! User memory: typed pointers that the kernel cannot dereference by accident, and checked copies.

use crate::arch::{mmu::USER_END, uaccess};
use core::marker::PhantomData;
use limen_linux_abi::{Errno, Layout};

/// Types that may be copied byte for byte between kernel and user space: they have no padding that could leak
/// kernel memory, and every bit pattern is valid.
///
/// # Safety
/// The implementer has no padding bytes, no pointers, and accepts any bit pattern.
pub unsafe trait Plain: Copy + 'static {}

macro_rules! plain {
    // SAFETY: integers have no padding and accept any bits.
    ($($t:ty)*) => { $(unsafe impl Plain for $t {})* };
}
plain!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 isize);
// SAFETY: an array has no padding beyond its elements'.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

// SAFETY: an integer of 32 bits.
unsafe impl Plain for limen_linux_abi::id::Id32 {}
// SAFETY: an integer of 16 bits.
unsafe impl Plain for limen_linux_abi::id::Id16 {}

/// A pointer or a size in user memory: a machine word, or one of 32-bit programs.
pub trait Word: Plain {
    /// The largest size that a signed word holds.
    const LONGEST: usize;
    /// The number.
    fn get(self) -> usize;
    /// A number, cut to the width.
    fn put(number: usize) -> Self;
    /// The number that `bytes`, of at least its width, begin with.
    fn start_of(bytes: &[u8]) -> usize;
}

impl Word for usize {
    #[inline(always)]
    fn put(number: usize) -> Self {
        number
    }
    #[inline(always)]
    fn start_of(bytes: &[u8]) -> usize {
        usize::from_ne_bytes(core::array::from_fn(|n| bytes[n])).get()
    }
    const LONGEST: usize = isize::MAX as usize;
    #[inline(always)]
    fn get(self) -> usize {
        self
    }
}

impl Word for u32 {
    #[inline(always)]
    fn put(number: usize) -> Self {
        number as u32
    }
    #[inline(always)]
    fn start_of(bytes: &[u8]) -> usize {
        u32::from_ne_bytes(core::array::from_fn(|n| bytes[n])).get()
    }
    const LONGEST: usize = i32::MAX as usize;
    #[inline(always)]
    fn get(self) -> usize {
        self as usize
    }
}

/// A signed word in user memory: a machine word, or one of 32-bit programs.
pub trait Long: Plain {
    /// The number.
    fn wide(self) -> isize;
    /// A number, cut to the width.
    fn cut(number: isize) -> Self;
}

impl Long for isize {
    #[inline(always)]
    fn wide(self) -> isize {
        self
    }
    #[inline(always)]
    fn cut(number: isize) -> Self {
        number
    }
}

impl Long for i32 {
    #[inline(always)]
    fn wide(self) -> isize {
        self as isize
    }
    #[inline(always)]
    fn cut(number: isize) -> Self {
        number as i32
    }
}

/// A structure of the ABI, as it lies in user memory.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct Abi<T: Layout>(pub T);

// SAFETY: only `limen_linux_abi` implements `Layout`, for structures of integers and arrays of them without
// padding (asserted there).
unsafe impl<T: Layout> Plain for Abi<T> {}

/// A pointer into user memory as the program passed it: unchecked, may be null or point anywhere.
#[repr(transparent)]
pub struct UserPtr<T> {
    addr: usize,
    _type: PhantomData<*mut T>,
}

impl<T> Clone for UserPtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for UserPtr<T> {}

// SAFETY: it is a number only.
unsafe impl<T> Send for UserPtr<T> {}
// SAFETY: it is a number only.
unsafe impl<T> Sync for UserPtr<T> {}

impl<T> UserPtr<T> {
    /// From the address that the program passed.
    #[inline(always)]
    pub const fn new(addr: usize) -> Self {
        Self {
            addr,
            _type: PhantomData,
        }
    }
    /// The address, for system calls where the argument may be a number.
    #[inline(always)]
    pub const fn number(self) -> usize {
        self.addr
    }
    /// Whether it is null.
    #[inline(always)]
    pub const fn is_null(self) -> bool {
        self.addr == 0
    }
    /// `None` if null: for optional arguments.
    #[inline(always)]
    pub fn non_null(self) -> Option<Self> {
        if self.addr == 0 { None } else { Some(self) }
    }
    /// The same address as another type.
    #[inline(always)]
    pub const fn cast<U>(self) -> UserPtr<U> {
        UserPtr::new(self.addr)
    }
    /// `n` elements further.
    #[inline(always)]
    pub const fn add(self, n: usize) -> Self {
        Self::new(self.addr.wrapping_add(n.wrapping_mul(size_of::<T>())))
    }
}

impl<T: Plain> UserPtr<T> {
    /// Reads the value. `EFAULT`: it cannot be read. May sleep in a fault.
    #[inline]
    pub fn read(self) -> Result<T, Errno> {
        let mut value = core::mem::MaybeUninit::<T>::uninit();
        self.read_into(&mut value).map(|value| *value)
    }
    /// [`UserPtr::read`] of a large value, directly into the caller's memory. After `EFAULT` part of it may
    /// have been written.
    #[inline]
    pub fn read_into(self, to: &mut core::mem::MaybeUninit<T>) -> Result<&mut T, Errno> {
        check(self.addr, size_of::<T>())?;
        // SAFETY: the range was checked.
        unsafe { read_checked(self.addr, to) }
    }
    /// Writes the value. `EFAULT`: it cannot be written. May sleep in a fault.
    #[inline]
    pub fn write(self, value: T) -> Result<(), Errno> {
        self.write_from(&value)
    }
    /// [`UserPtr::write`] of a large value, without copying it first.
    #[inline]
    pub fn write_from(self, value: &T) -> Result<(), Errno> {
        check(self.addr, size_of::<T>())?;
        // SAFETY: the range was checked.
        unsafe { write_checked(self.addr, value) }
    }
}

/// A large value that is written where it lies, one member after the other.
pub struct InOrder<'a, T: Plain> {
    place: &'a mut core::mem::MaybeUninit<T>,
    /// How many of its bytes are written.
    done: usize,
}

impl<'a, T: Plain> InOrder<'a, T> {
    /// Nothing is written yet.
    #[inline(always)]
    pub const fn new(place: &'a mut core::mem::MaybeUninit<T>) -> Self {
        Self { place, done: 0 }
    }
    /// Writes the member at `offset`, which is the next one.
    #[inline(always)]
    pub fn put<M: Plain>(&mut self, offset: usize, member: M) {
        assert!(offset == self.done && size_of::<M>() <= size_of::<T>() - offset);
        // SAFETY: the member lies in the value.
        unsafe {
            self.place
                .as_mut_ptr()
                .byte_add(offset)
                .cast::<M>()
                .write_unaligned(member)
        };
        self.done += size_of::<M>();
    }
    /// Writes zeros to what is left, which must be aligned words.
    #[inline(always)]
    pub fn put_zeros(&mut self) {
        const { assert!(align_of::<T>() >= align_of::<u64>()) };
        assert!(self.done.is_multiple_of(align_of::<u64>()));
        while self.done < size_of::<T>() {
            assert!(size_of::<u64>() <= size_of::<T>() - self.done);
            // Volatile: else the compiler would call a function to store so many zeros.
            // SAFETY: the word lies in the value and is aligned.
            unsafe {
                self.place
                    .as_mut_ptr()
                    .byte_add(self.done)
                    .cast::<u64>()
                    .write_volatile(0)
            };
            self.done += size_of::<u64>();
        }
    }
    /// The value, of which everything is written.
    #[inline(always)]
    pub fn all(self) -> &'a T {
        assert!(self.done == size_of::<T>());
        // SAFETY: all bytes were written, and `T` accepts any bits.
        unsafe { self.place.assume_init_ref() }
    }
}

/// # Safety
/// `addr..addr + size_of::<T>()` lies in the user part.
#[inline(always)]
unsafe fn read_checked<T: Plain>(addr: usize, to: &mut core::mem::MaybeUninit<T>) -> Result<&mut T, Errno> {
    let place = to.as_mut_ptr();
    // SAFETY: `to` has room for a `T`; the range was checked.
    let read = unsafe {
        // One or two words are moved quicker by single accesses than by a copy.
        match size_of::<T>() {
            4 => uaccess::get_u32(addr).map(|word| place.cast::<u32>().write_unaligned(word)),
            8 => uaccess::get_u64(addr).map(|word| place.cast::<u64>().write_unaligned(word)),
            16 => uaccess::get_pair(addr).map(|pair| place.cast::<[u64; 2]>().write_unaligned(pair)),
            size => (uaccess::copy_from_user(place.cast(), addr, size) == 0).then_some(()),
        }
    };
    match read {
        // SAFETY: all bytes were written, and `T` accepts any bits.
        Some(()) => Ok(unsafe { to.assume_init_mut() }),
        None => Err(Errno::EFAULT),
    }
}

/// # Safety
/// `addr..addr + size_of::<T>()` lies in the user part.
#[inline(always)]
unsafe fn write_checked<T: Plain>(addr: usize, value: &T) -> Result<(), Errno> {
    let value = &raw const *value;
    // SAFETY: `value` is readable for its size; the range was checked.
    let written = unsafe {
        match size_of::<T>() {
            4 => uaccess::put_u32(addr, value.cast::<u32>().read_unaligned()),
            8 => uaccess::put_u64(addr, value.cast::<u64>().read_unaligned()),
            12 => {
                uaccess::put_u64(addr, value.cast::<u64>().read_unaligned())
                    && uaccess::put_u32(addr + 8, value.cast::<u32>().add(2).read_unaligned())
            }
            16 => uaccess::put_pair(addr, value.cast::<[u64; 2]>().read_unaligned()),
            size => uaccess::copy_to_user(addr, value.cast(), size) == 0,
        }
    };
    if written { Ok(()) } else { Err(Errno::EFAULT) }
}

/// `LEN` bytes of user memory whose address is checked once, to be read and written in pieces at offsets.
#[derive(Clone, Copy)]
pub struct UserBlock<const LEN: usize> {
    addr: usize,
}

#[allow(
    dead_code,
    reason = "signal frames are what uses it, and each architecture's needs less than all of it"
)]
impl<const LEN: usize> UserBlock<LEN> {
    /// `EFAULT` if the block does not lie in the user part.
    #[inline(always)]
    pub fn new(addr: usize) -> Result<Self, Errno> {
        check(addr, LEN)?;
        Ok(Self { addr })
    }
    /// A block whose address was checked before.
    ///
    /// # Safety
    /// It was.
    #[inline(always)]
    pub(in crate::mm) const unsafe fn checked(addr: usize) -> Self {
        Self { addr }
    }
    /// Its address.
    #[inline(always)]
    pub fn addr(self) -> usize {
        self.addr
    }
    /// Reads the value at `offset`. `EFAULT`: it cannot be read.
    #[inline(always)]
    pub fn read<T: Plain>(self, offset: usize) -> Result<T, Errno> {
        let mut value = core::mem::MaybeUninit::uninit();
        self.read_into(offset, &mut value).map(|value| *value)
    }
    /// [`UserBlock::read`] of a large value. After `EFAULT` part of it may have been written.
    #[inline(always)]
    pub fn read_into<T: Plain>(
        self,
        offset: usize,
        to: &mut core::mem::MaybeUninit<T>,
    ) -> Result<&mut T, Errno> {
        assert!(offset <= LEN && size_of::<T>() <= LEN - offset);
        // SAFETY: the value lies in the block, which was checked.
        unsafe { read_checked(self.addr + offset, to) }
    }
    /// Writes `value` at `offset`. `EFAULT`: it cannot be written.
    #[inline(always)]
    pub fn write<T: Plain>(self, offset: usize, value: &T) -> Result<(), Errno> {
        assert!(offset <= LEN && size_of::<T>() <= LEN - offset);
        // SAFETY: the value lies in the block, which was checked.
        unsafe { write_checked(self.addr + offset, value) }
    }
}

/// `EFAULT` unless `addr..addr + len` lies in the user part (Linux: `access_ok`).
#[inline(always)]
pub fn check(addr: usize, len: usize) -> Result<(), Errno> {
    if len <= USER_END && addr <= USER_END - len {
        Ok(())
    } else {
        Err(Errno::EFAULT)
    }
}

/// Copies from user memory. `EFAULT` unless all of it could be copied.
#[inline]
pub fn read_bytes(to: &mut [u8], from: usize) -> Result<(), Errno> {
    check(from, to.len())?;
    // SAFETY: `to` is a slice of the kernel's; the user range was checked.
    let left = unsafe { uaccess::copy_from_user(to.as_mut_ptr(), from, to.len()) };
    if left != 0 { Err(Errno::EFAULT) } else { Ok(()) }
}

/// Copies to user memory. `EFAULT` unless all of it could be copied.
#[inline]
pub fn write_bytes(to: usize, from: &[u8]) -> Result<(), Errno> {
    check(to, from.len())?;
    // SAFETY: `from` is a slice of the kernel's; the user range was checked.
    let left = unsafe { uaccess::copy_to_user(to, from.as_ptr(), from.len()) };
    if left != 0 { Err(Errno::EFAULT) } else { Ok(()) }
}

/// Copies the last two bytes of each element of `from` to those of the array at user address `to`; other
/// bytes of the array are not written. `EFAULT` unless all could be copied.
pub fn write_tails(to: usize, from: &[[u8; 8]]) -> Result<(), Errno> {
    check(to, size_of_val(from))?;
    if from.is_empty() {
        return Ok(());
    }
    // SAFETY: the last of the words ends where `from` does; the range was checked.
    let done = unsafe { uaccess::put_u16s(to + 6, from.as_ptr().cast::<u8>().add(6), from.len()) };
    if done { Ok(()) } else { Err(Errno::EFAULT) }
}

/// `arch::uaccess::exchange_rseq` for the `struct rseq` at `at`. `EFAULT`: it cannot be accessed; part of it
/// may have been written then.
#[inline(always)]
pub fn exchange_rseq(at: usize, ids: [u64; 2]) -> Result<[u64; 3], Errno> {
    check(at, 32)?;
    // SAFETY: the range was checked.
    unsafe { uaccess::exchange_rseq(at, ids) }.ok_or(Errno::EFAULT)
}
