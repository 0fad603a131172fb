//! Copies to and from user memory that may end early (file I/O returns how much was copied), C strings, and
//! scatter lists. Used by the file system's `IoDst` and `IoSrc` and by system calls that take path names.
//!
//! All of these may sleep in a page fault, unless preemption is off: then they copy only what is present.

use super::user::{Word, check};
use crate::arch::uaccess;
use alloc::vec::Vec;
use core::mem::MaybeUninit;
use limen_linux_abi::Errno;

/// Longest path including its NUL (`PATH_MAX`).
pub const PATH_MAX: usize = 4096;
/// Bytes that most paths, and the lists of most polls, fit into: they need no memory from the heap.
const INLINE: usize = 192;

/// Copies to user memory. Returns how many bytes were copied (0 if the range is not in the user part).
#[inline]
pub fn copy_out(to: usize, from: &[u8]) -> usize {
    if check(to, from.len()).is_err() {
        return 0;
    }
    // SAFETY: `from` is a slice of the kernel's; the user range was checked.
    from.len() - unsafe { uaccess::copy_to_user(to, from.as_ptr(), from.len()) }
}

/// [`copy_out`] of the part that lies before the end of the user part.
#[cold]
pub fn copy_out_within(to: usize, from: &[u8]) -> usize {
    let room = crate::arch::mmu::USER_END.saturating_sub(to);
    copy_out(to, &from[..from.len().min(room)])
}

/// Copies from user memory. Returns how many bytes were copied (0 if the range is not in the user part).
#[inline]
pub fn copy_in(to: &mut [u8], from: usize) -> usize {
    if check(from, to.len()).is_err() {
        return 0;
    }
    // SAFETY: `to` is a slice of the kernel's; the user range was checked.
    to.len() - unsafe { uaccess::copy_from_user(to.as_mut_ptr(), from, to.len()) }
}

/// Zeroes user memory. Returns how many bytes were zeroed.
#[inline]
pub fn clear(to: usize, len: usize) -> usize {
    if check(to, len).is_err() {
        return 0;
    }
    // SAFETY: the user range was checked.
    len - unsafe { uaccess::clear_user(to, len) }
}

/// A range of user memory that was checked once. Each copy uses up its first part.
pub struct UserRange {
    addr: usize,
    len: usize,
}

impl UserRange {
    /// `EFAULT` if the range is not in the user part.
    #[inline(always)]
    pub fn new(addr: usize, len: usize) -> Result<Self, Errno> {
        check(addr, len)?;
        Ok(Self { addr, len })
    }
    /// How many bytes are left.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }
    /// Shortens the range to `len` bytes.
    #[inline(always)]
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
    /// Copies as much of `from` as fits, and returns how many bytes. `EFAULT` if not even one could be
    /// copied.
    #[inline(always)]
    pub fn copy_out(&mut self, from: &[u8]) -> Result<usize, Errno> {
        let (to, n) = self.take(from.len());
        // SAFETY: `from` is a slice of the kernel's; the range was checked.
        let missing = unsafe { uaccess::copy_to_user(to, from.as_ptr(), n) };
        self.moved(n, missing)
    }
    /// Fills as much of `to` as the range has, and returns how many bytes. `EFAULT` if not even one could be
    /// copied.
    #[inline(always)]
    pub fn copy_in(&mut self, to: &mut [u8]) -> Result<usize, Errno> {
        let (from, n) = self.take(to.len());
        // SAFETY: `to` is a slice of the kernel's; the range was checked.
        let missing = unsafe { uaccess::copy_from_user(to.as_mut_ptr(), from, n) };
        self.moved(n, missing)
    }
    /// Zeroes up to `n` bytes, and returns how many. `EFAULT` if not even one could be zeroed.
    #[inline(always)]
    pub fn clear(&mut self, n: usize) -> Result<usize, Errno> {
        let (at, n) = self.take(n);
        // SAFETY: the range was checked.
        let missing = unsafe { uaccess::clear_user(at, n) };
        self.moved(n, missing)
    }
    /// [`UserRange::clear`] for the whole range, which is used up even if that fails.
    #[inline(always)]
    pub fn clear_all(&mut self) -> Result<usize, Errno> {
        let n = core::mem::take(&mut self.len);
        // SAFETY: the range was checked.
        match unsafe { uaccess::clear_user(self.addr, n) } {
            0 => Ok(n),
            missing => some_moved(n, missing),
        }
    }
    /// Uses up at most `most` bytes before they are copied, and returns their address and number. So less has
    /// to be kept in registers during the copy.
    #[inline(always)]
    fn take(&mut self, most: usize) -> (usize, usize) {
        let (at, n) = (self.addr, self.len.min(most));
        self.addr += n;
        self.len -= n;
        (at, n)
    }
    /// The last `missing` of `n` used-up bytes could not be copied: gives them back. Returns how many were
    /// copied.
    #[inline(always)]
    fn moved(&mut self, n: usize, missing: usize) -> Result<usize, Errno> {
        if missing == 0 {
            Ok(n)
        } else {
            self.faulted(n, missing)
        }
    }
    #[cold]
    #[inline(never)]
    fn faulted(&mut self, n: usize, missing: usize) -> Result<usize, Errno> {
        self.addr -= missing;
        self.len += missing;
        some_moved(n, missing)
    }
}

/// `missing` of `n` bytes could not be copied because of a fault. Returns how many were, `EFAULT` if none.
#[cold]
fn some_moved(n: usize, missing: usize) -> Result<usize, Errno> {
    if n == missing {
        Err(Errno::EFAULT)
    } else {
        Ok(n - missing)
    }
}

/// Hands `look` a copy, which it may change, of the `len` bytes at `addr`. A short one lies on the stack.
/// `EFAULT`, `ENOMEM`.
#[inline]
pub fn with_bytes<R>(
    addr: usize,
    len: usize,
    look: impl FnOnce(&mut [u8]) -> Result<R, Errno>,
) -> Result<R, Errno> {
    check(addr, len)?;
    let mut few = [MaybeUninit::<u8>::uninit(); INLINE];
    let mut many = Vec::new();
    let room = if len <= INLINE {
        &mut few[..len]
    } else {
        crate::mm::reserve::room_exact(&mut many, len)?;
        &mut many.spare_capacity_mut()[..len]
    };
    // SAFETY: there is room for `len` bytes; the range was checked.
    if unsafe { uaccess::copy_from_user(room.as_mut_ptr().cast(), addr, len) } != 0 {
        return Err(Errno::EFAULT);
    }
    // SAFETY: all of them were written.
    look(unsafe { core::slice::from_raw_parts_mut(room.as_mut_ptr().cast(), len) })
}

/// Records (such as directory entries) that are collected on the stack and copied to user space together. The
/// memory behind them is not initialised.
pub struct Records<const N: usize> {
    room: [MaybeUninit<u8>; N],
    len: usize,
    most: usize,
}

/// How many zeroes a record may end with, in bytes.
const PADDING: usize = 16;

impl<const N: usize> Records<N> {
    /// No records. They will take at most `most` bytes, and at most `N`.
    #[inline(always)]
    pub fn new(most: usize) -> Self {
        Self {
            room: [MaybeUninit::uninit(); N],
            len: 0,
            most: most.min(N),
        }
    }
    /// The length in bytes of a record of `parts` bytes and `end` zeroes, rounded up to a multiple of
    /// `align`, a power of two.
    #[inline(always)]
    pub const fn len_of(parts: usize, (end, align): (usize, usize)) -> usize {
        (parts + end + align - 1) & !(align - 1)
    }
    /// Adds a record of `head`, `body` and zeroes, [`Self::len_of`] bytes long and at least 16. `last`
    /// replaces the last zero if there are two or more. `false`: there is no room for it.
    #[inline(always)]
    pub fn add(&mut self, head: &[u8], body: &[u8], last: u8, (end, align): (usize, usize)) -> bool {
        let stop = self.len + Self::len_of(head.len() + body.len(), (end, align));
        if stop > self.most || end + align > PADDING {
            return false;
        }
        // SAFETY: `len` is at most `most`, which is at most `N`.
        let record = unsafe { self.room.get_unchecked_mut(self.len..stop) };
        // Together these write the whole record: the zeroes begin before the end of the body. A part that may
        // call a function comes last.
        let Some(zeroes) = record.last_chunk_mut() else {
            return false;
        };
        *zeroes = [MaybeUninit::new(0); PADDING];
        if end > 1 {
            zeroes[PADDING - 1].write(last);
        }
        let Some((at_head, rest)) = record.split_at_mut_checked(head.len()) else {
            return false;
        };
        let Some(at_body) = rest.get_mut(..body.len()) else {
            return false;
        };
        at_head.write_copy_of_slice(head);
        self.len = stop;
        put_few(at_body, body);
        true
    }
    /// The bytes of all records.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: what was added was written.
        unsafe { self.room[..self.len].assume_init_ref() }
    }
}

/// Copies `from` to `to`, which has the same length. A short one, as most names are, is copied as two words
/// that may overlap.
#[inline(always)]
fn put_few(to: &mut [MaybeUninit<u8>], from: &[u8]) {
    fn ends<const N: usize>(to: &mut [MaybeUninit<u8>], from: &[u8]) -> Option<()> {
        let (first, last) = (*from.first_chunk::<N>()?, *from.last_chunk::<N>()?);
        *to.first_chunk_mut()? = first.map(MaybeUninit::new);
        *to.last_chunk_mut()? = last.map(MaybeUninit::new);
        Some(())
    }
    let done = match from.len() {
        4..=8 => ends::<4>(to, from),
        9..=16 => ends::<8>(to, from),
        1..=2 => ends::<1>(to, from),
        _ => None,
    };
    if done.is_none() {
        to.write_copy_of_slice(from);
    }
}

/// A string copied from user space. A short one lies on the stack.
pub struct UserString {
    inline: [MaybeUninit<u8>; INLINE],
    len: usize,
    heap: Option<Vec<u8>>,
}

impl UserString {
    /// Reads a NUL-terminated string shorter than `max` bytes. `ENAMETOOLONG`: there is no NUL before that;
    /// `EFAULT`: it cannot be read.
    #[inline]
    pub fn read(addr: usize, max: usize) -> Result<Self, Errno> {
        let mut s = Self {
            inline: [MaybeUninit::uninit(); INLINE],
            len: 0,
            heap: None,
        };
        match read_string(addr, max, &mut s.inline)? {
            Ok(n) => s.len = n,
            Err(long) => s.heap = Some(long),
        }
        Ok(s)
    }

    /// The bytes, without the NUL.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.heap {
            Some(v) => v,
            // SAFETY: the first `len` bytes were written by the copy.
            None => unsafe { core::slice::from_raw_parts(self.inline.as_ptr().cast(), self.len) },
        }
    }
}

/// Reads a string into `few` and returns its length; a longer one into memory of its own.
#[inline]
fn read_string(
    addr: usize,
    max: usize,
    few: &mut [MaybeUninit<u8>; INLINE],
) -> Result<Result<usize, Vec<u8>>, Errno> {
    let room = limit(addr, INLINE.min(max))?;
    // SAFETY: `few` has room for `room` bytes; `limit` kept the range inside the user part.
    let n = unsafe { uaccess::copy_string_from_user(few.as_mut_ptr().cast(), addr, room) }
        .ok_or(Errno::EFAULT)?;
    if n < room {
        Ok(Ok(n))
    } else {
        read_long_string(addr, max).map(Err)
    }
}

#[cold]
fn read_long_string(addr: usize, max: usize) -> Result<Vec<u8>, Errno> {
    let mut v = Vec::new();
    let room = limit(addr, max)?;
    crate::mm::reserve::room_exact(&mut v, room)?;
    // SAFETY: the vector has capacity for `room` bytes; `limit` kept the range inside the user part.
    let n = unsafe { uaccess::copy_string_from_user(v.as_mut_ptr(), addr, room) }.ok_or(Errno::EFAULT)?;
    if n >= room {
        return Err(if room < max {
            Errno::EFAULT
        } else {
            Errno::ENAMETOOLONG
        });
    }
    // SAFETY: the first `n` bytes were written.
    unsafe { v.set_len(n) };
    Ok(v)
}

/// A path argument: see [`UserString::read`].
#[inline]
pub fn read_path(addr: usize) -> Result<UserString, Errno> {
    UserString::read(addr, PATH_MAX)
}

/// Reads a path argument and hands it to `walk`. For the most frequent system calls: the string is not moved
/// again.
#[inline]
pub fn with_path<R>(addr: usize, walk: impl FnOnce(&[u8]) -> Result<R, Errno>) -> Result<R, Errno> {
    let mut few = [MaybeUninit::uninit(); INLINE];
    let long;
    walk(match read_string(addr, PATH_MAX, &mut few)? {
        // SAFETY: the first `n` bytes were written.
        Ok(n) => unsafe { core::slice::from_raw_parts(few.as_ptr().cast(), n) },
        Err(path) => {
            long = path;
            long.as_slice()
        }
    })
}

fn limit(addr: usize, max: usize) -> Result<usize, Errno> {
    let end = crate::arch::mmu::USER_END;
    if addr >= end {
        Err(Errno::EFAULT)
    } else {
        Ok(max.min(end - addr))
    }
}

/// One element of a scatter list (`struct iovec`).
#[derive(Clone, Copy, Debug)]
pub struct IoVec {
    /// User address.
    pub addr: usize,
    /// Bytes.
    pub len: usize,
}

/// Reads `count` iovecs. `EINVAL`: there are more than 1024, or a length is negative. Lengths are reduced so
/// that their sum is at most `MAX_RW_COUNT`.
pub fn read_iovecs<W: Word>(addr: usize, count: usize) -> Result<Vec<IoVec>, Errno> {
    if count > 1024 {
        return Err(Errno::EINVAL);
    }
    let mut list = Vec::new();
    crate::mm::reserve::room_exact(&mut list, count)?;
    let mut left = MAX_RW;
    for i in 0..count {
        let [base, len] = super::user::UserPtr::<[W; 2]>::new(addr)
            .add(i)
            .read()?
            .map(W::get);
        if len > W::LONGEST {
            return Err(Errno::EINVAL);
        }
        check(base, len)?;
        let len = len.min(left);
        left -= len;
        list.push(IoVec { addr: base, len });
    }
    Ok(list)
}

/// How many bytes one read or write moves at most (`MAX_RW_COUNT`).
pub const MAX_RW: usize = 0x7fff_ffff & !(super::PAGE_SIZE - 1);

/// `len` zero bytes, where a program chose `len`. `ENOMEM` instead of a panic.
pub fn zeroed(len: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::new();
    crate::mm::reserve::room_exact(&mut bytes, len)?;
    bytes.resize(len, 0);
    Ok(bytes)
}
