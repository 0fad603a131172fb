//! Where bytes are read to and written from: a user buffer, a scatter list, or a slice of the kernel's. All
//! `FileOps::read` and `write` move their data through these types and need not know which it is.

use crate::mm::copy::{self, IoVec, UserRange};
use limen_linux_abi::Errno;

enum Mem<'a> {
    User(UserRange),
    Vector(Scattered<'a>),
    Out(&'a mut [u8]),
    In(&'a [u8]),
}

/// The unused part of a scatter list.
struct Scattered<'a> {
    addr: usize,
    /// How many bytes are left at `addr`.
    left: usize,
    rest: &'a [IoVec],
    /// How many bytes are left in all.
    remaining: usize,
}

impl<'a> Mem<'a> {
    #[inline(always)]
    fn user(addr: usize, len: usize) -> Result<Self, Errno> {
        if len > copy::MAX_RW {
            return Self::long(addr, len);
        }
        Ok(Self::User(UserRange::new(addr, len)?))
    }

    /// More bytes than one call moves.
    #[cold]
    fn long(addr: usize, len: usize) -> Result<Self, Errno> {
        let mut range = UserRange::new(addr, len)?;
        range.truncate(copy::MAX_RW);
        Ok(Self::User(range))
    }

    fn vector(list: &'a [IoVec]) -> Self {
        Self::Vector(Scattered {
            addr: 0,
            left: 0,
            rest: list,
            remaining: list.iter().map(|v| v.len).sum(),
        })
    }

    #[inline(always)]
    fn remaining(&self) -> usize {
        match self {
            Self::User(range) => range.len(),
            Self::Vector(list) => list.remaining,
            Self::Out(buf) => buf.len(),
            Self::In(buf) => buf.len(),
        }
    }
}

impl Scattered<'_> {
    /// Moves at most `n` bytes by calls of `move_(addr, offset, len) -> moved`, until a fault. `EFAULT`: not
    /// even one byte was moved.
    fn advance(
        &mut self,
        n: usize,
        mut move_: impl FnMut(usize, usize, usize) -> usize,
    ) -> Result<usize, Errno> {
        let n = n.min(self.remaining);
        let mut done = 0;
        while done < n {
            if self.left == 0 {
                let Some((first, tail)) = self.rest.split_first() else {
                    break;
                };
                (self.addr, self.left, self.rest) = (first.addr, first.len, tail);
                continue;
            }
            let want = self.left.min(n - done);
            let moved = move_(self.addr, done, want);
            self.addr += moved;
            self.left -= moved;
            done += moved;
            if moved < want {
                break;
            }
        }
        self.remaining -= done;
        if done == 0 && n != 0 {
            Err(Errno::EFAULT)
        } else {
            Ok(done)
        }
    }
}

/// Where a read puts its bytes.
pub struct IoDst<'a>(Mem<'a>);

impl<'a> IoDst<'a> {
    /// A user buffer. `EFAULT`: it is not in the user part.
    #[inline(always)]
    pub fn user(addr: usize, len: usize) -> Result<Self, Errno> {
        Ok(Self(Mem::user(addr, len)?))
    }
    /// A user scatter list, from `mm::copy::read_iovecs`.
    pub fn vector(list: &'a [IoVec]) -> Self {
        Self(Mem::vector(list))
    }
    /// A kernel buffer.
    pub fn kernel(buf: &'a mut [u8]) -> Self {
        Self(Mem::Out(buf))
    }
    /// How many bytes have room.
    #[inline(always)]
    pub fn remaining(&self) -> usize {
        self.0.remaining()
    }
    /// Copies as much of `data` as fits, and returns how many bytes. `EFAULT`: not even one byte was copied.
    #[inline]
    pub fn put(&mut self, data: &[u8]) -> Result<usize, Errno> {
        match &mut self.0 {
            Mem::User(range) => range.copy_out(data),
            _ => self.put_elsewhere(data),
        }
    }
    #[inline(never)]
    fn put_elsewhere(&mut self, data: &[u8]) -> Result<usize, Errno> {
        match &mut self.0 {
            Mem::Out(buf) => {
                let n = data.len().min(buf.len());
                let (head, tail) = core::mem::take(buf).split_at_mut(n);
                head.copy_from_slice(&data[..n]);
                *buf = tail;
                Ok(n)
            }
            Mem::Vector(list) => {
                list.advance(data.len(), |addr, at, n| copy::copy_out(addr, &data[at..at + n]))
            }
            Mem::User(_) | Mem::In(_) => Ok(0),
        }
    }
    /// Zeroes up to `n` bytes.
    #[inline]
    pub fn put_zeros(&mut self, n: usize) -> Result<usize, Errno> {
        match &mut self.0 {
            Mem::User(range) => range.clear(n),
            _ => self.put_zeros_elsewhere(n),
        }
    }
    /// Zeroes a single user buffer of at most `most` bytes, which is then used up. `None`: it is something
    /// else.
    #[inline]
    pub fn zero_few(&mut self, most: usize) -> Option<Result<usize, Errno>> {
        match &mut self.0 {
            Mem::User(range) if range.len() <= most => Some(range.clear_all()),
            _ => None,
        }
    }
    #[inline(never)]
    fn put_zeros_elsewhere(&mut self, n: usize) -> Result<usize, Errno> {
        match &mut self.0 {
            Mem::Out(buf) => {
                let n = n.min(buf.len());
                let (head, tail) = core::mem::take(buf).split_at_mut(n);
                head.fill(0);
                *buf = tail;
                Ok(n)
            }
            Mem::Vector(list) => list.advance(n, |addr, _, n| copy::clear(addr, n)),
            Mem::User(_) | Mem::In(_) => Ok(0),
        }
    }
}

/// Where a write takes its bytes from.
pub struct IoSrc<'a>(Mem<'a>);

impl<'a> IoSrc<'a> {
    /// A user buffer. `EFAULT`: it is not in the user part.
    #[inline(always)]
    pub fn user(addr: usize, len: usize) -> Result<Self, Errno> {
        Ok(Self(Mem::user(addr, len)?))
    }
    /// A user scatter list, from `mm::copy::read_iovecs`.
    pub fn vector(list: &'a [IoVec]) -> Self {
        Self(Mem::vector(list))
    }
    /// A kernel buffer.
    pub fn kernel(buf: &'a [u8]) -> Self {
        Self(Mem::In(buf))
    }
    /// How many bytes are left.
    #[inline(always)]
    pub fn remaining(&self) -> usize {
        self.0.remaining()
    }
    /// Fills as much of `to` as there is, and returns how many bytes. `EFAULT`: not even one byte was copied.
    #[inline]
    pub fn take(&mut self, to: &mut [u8]) -> Result<usize, Errno> {
        match &mut self.0 {
            Mem::User(range) => range.copy_in(to),
            _ => self.take_elsewhere(to),
        }
    }
    /// Fills as much of `to` as there is. `EFAULT`: not all of it was copied.
    #[inline]
    pub fn take_whole(&mut self, to: &mut [u8]) -> Result<usize, Errno> {
        let want = to.len().min(self.remaining());
        if self.take(to)? == want {
            Ok(want)
        } else {
            Err(Errno::EFAULT)
        }
    }
    #[inline(never)]
    fn take_elsewhere(&mut self, to: &mut [u8]) -> Result<usize, Errno> {
        match &mut self.0 {
            Mem::In(buf) => {
                let n = to.len().min(buf.len());
                let (head, tail) = buf.split_at(n);
                to[..n].copy_from_slice(head);
                *buf = tail;
                Ok(n)
            }
            Mem::Vector(list) => {
                list.advance(to.len(), |addr, at, n| copy::copy_in(&mut to[at..at + n], addr))
            }
            Mem::User(_) | Mem::Out(_) => Ok(0),
        }
    }
    /// Uses all bytes up (`/dev/null`).
    #[inline(always)]
    pub fn discard(&mut self) -> usize {
        let n = self.0.remaining();
        self.0 = Mem::In(&[]);
        n
    }
    /// Shortens what is left to `n` bytes.
    pub fn truncate(&mut self, n: usize) {
        match &mut self.0 {
            Mem::User(range) => range.truncate(n),
            Mem::Vector(list) => list.remaining = list.remaining.min(n),
            Mem::In(buf) => *buf = &buf[..n.min(buf.len())],
            Mem::Out(_) => {}
        }
    }
}

impl crate::mm::cache::Sink for IoDst<'_> {
    #[inline]
    fn remaining(&self) -> usize {
        IoDst::remaining(self)
    }
    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        IoDst::put(self, bytes)
    }
}

impl crate::mm::cache::Source for IoSrc<'_> {
    #[inline]
    fn remaining(&self) -> usize {
        IoSrc::remaining(self)
    }
    #[inline]
    fn take(&mut self, to: &mut [u8]) -> Result<usize, Errno> {
        IoSrc::take(self, to)
    }
}
