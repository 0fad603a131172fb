//! Where bytes go to and come from: a user buffer, a user scatter list, or a kernel slice. Every `FileOps::read` and `write` moves its
//! data through these, so that a file need not know who asked.

use crate::mm::copy::{self, IoVec};
use limen_linux_abi::Errno;

enum Mem<'a> {
    User(usize),
    Vector {
        addr: usize,
        left: usize,
        rest: &'a [IoVec],
    },
    Out(&'a mut [u8]),
    In(&'a [u8]),
}

/// The common part of both directions.
struct Cursor<'a> {
    mem: Mem<'a>,
    remaining: usize,
}

impl<'a> Cursor<'a> {
    fn vector(list: &'a [IoVec]) -> Self {
        let remaining = list.iter().map(|v| v.len).sum();
        Self {
            mem: Mem::Vector {
                addr: 0,
                left: 0,
                rest: list,
            },
            remaining,
        }
    }

    /// Moves `n` bytes at most to or from the user buffer with `move_(addr, len) -> moved`, if it is one; `EFAULT` if not one moved.
    #[inline(always)]
    fn plain(&mut self, n: usize, move_: impl FnOnce(usize, usize) -> usize) -> Option<Result<usize, Errno>> {
        let Mem::User(addr) = &mut self.mem else {
            return None;
        };
        let n = n.min(self.remaining);
        let moved = move_(*addr, n);
        *addr += moved;
        self.remaining -= moved;
        Some(if moved == 0 && n != 0 {
            Err(Errno::EFAULT)
        } else {
            Ok(moved)
        })
    }

    /// The same over a scatter list, with `move_(addr, offset, len) -> moved`; stops at a fault.
    fn scattered(
        &mut self,
        n: usize,
        mut move_: impl FnMut(usize, usize, usize) -> usize,
    ) -> Result<usize, Errno> {
        let Mem::Vector { addr, left, rest } = &mut self.mem else {
            return Ok(0);
        };
        let n = n.min(self.remaining);
        let mut done = 0;
        while done < n {
            if *left == 0 {
                let Some((first, tail)) = rest.split_first() else {
                    break;
                };
                (*addr, *left, *rest) = (first.addr, first.len, tail);
                continue;
            }
            let want = (*left).min(n - done);
            let moved = move_(*addr, done, want);
            *addr += moved;
            *left -= moved;
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
pub struct IoDst<'a>(Cursor<'a>);

impl<'a> IoDst<'a> {
    /// A user buffer.
    #[inline(always)]
    pub fn user(addr: usize, len: usize) -> Self {
        Self(Cursor {
            mem: Mem::User(addr),
            remaining: len.min(copy::MAX_RW),
        })
    }
    /// A user scatter list, as `mm::copy::read_iovecs` gives it.
    pub fn vector(list: &'a [IoVec]) -> Self {
        Self(Cursor::vector(list))
    }
    /// A kernel buffer.
    pub fn kernel(buf: &'a mut [u8]) -> Self {
        let remaining = buf.len();
        Self(Cursor {
            mem: Mem::Out(buf),
            remaining,
        })
    }
    /// Room left.
    #[inline(always)]
    pub fn remaining(&self) -> usize {
        self.0.remaining
    }
    /// Copies as much of `data` as fits; `EFAULT` if not one byte arrived.
    #[inline]
    pub fn put(&mut self, data: &[u8]) -> Result<usize, Errno> {
        let plain = self
            .0
            .plain(data.len(), |addr, n| copy::copy_out(addr, &data[..n]));
        plain.unwrap_or_else(|| self.put_elsewhere(data))
    }
    #[inline(never)]
    fn put_elsewhere(&mut self, data: &[u8]) -> Result<usize, Errno> {
        if let Mem::Out(buf) = &mut self.0.mem {
            let n = data.len().min(buf.len());
            let (head, tail) = core::mem::take(buf).split_at_mut(n);
            head.copy_from_slice(&data[..n]);
            *buf = tail;
            self.0.remaining -= n;
            return Ok(n);
        }
        self.0
            .scattered(data.len(), |addr, at, n| copy::copy_out(addr, &data[at..at + n]))
    }
    /// Zeroes up to `n` bytes.
    #[inline]
    pub fn put_zeros(&mut self, n: usize) -> Result<usize, Errno> {
        let plain = self.0.plain(n, copy::clear);
        plain.unwrap_or_else(|| self.put_zeros_elsewhere(n))
    }
    #[inline(never)]
    fn put_zeros_elsewhere(&mut self, n: usize) -> Result<usize, Errno> {
        if let Mem::Out(buf) = &mut self.0.mem {
            let n = n.min(buf.len());
            let (head, tail) = core::mem::take(buf).split_at_mut(n);
            head.fill(0);
            *buf = tail;
            self.0.remaining -= n;
            return Ok(n);
        }
        self.0.scattered(n, |addr, _, n| copy::clear(addr, n))
    }
}

/// Where a write takes its bytes from.
pub struct IoSrc<'a>(Cursor<'a>);

impl<'a> IoSrc<'a> {
    /// A user buffer.
    #[inline(always)]
    pub fn user(addr: usize, len: usize) -> Self {
        Self(Cursor {
            mem: Mem::User(addr),
            remaining: len.min(copy::MAX_RW),
        })
    }
    /// A user scatter list, as `mm::copy::read_iovecs` gives it.
    pub fn vector(list: &'a [IoVec]) -> Self {
        Self(Cursor::vector(list))
    }
    /// A kernel buffer.
    pub fn kernel(buf: &'a [u8]) -> Self {
        Self(Cursor {
            mem: Mem::In(buf),
            remaining: buf.len(),
        })
    }
    /// Bytes left.
    #[inline(always)]
    pub fn remaining(&self) -> usize {
        self.0.remaining
    }
    /// Copies as much as there is into `to`; `EFAULT` if not one byte came.
    #[inline]
    pub fn take(&mut self, to: &mut [u8]) -> Result<usize, Errno> {
        let plain = self
            .0
            .plain(to.len(), |addr, n| copy::copy_in(&mut to[..n], addr));
        match plain {
            Some(result) => result,
            None => self.take_elsewhere(to),
        }
    }
    #[inline(never)]
    fn take_elsewhere(&mut self, to: &mut [u8]) -> Result<usize, Errno> {
        if let Mem::In(buf) = &mut self.0.mem {
            let n = to.len().min(buf.len());
            let (head, tail) = buf.split_at(n);
            to[..n].copy_from_slice(head);
            *buf = tail;
            self.0.remaining -= n;
            return Ok(n);
        }
        self.0
            .scattered(to.len(), |addr, at, n| copy::copy_in(&mut to[at..at + n], addr))
    }
    /// Drops everything (what `/dev/null` does with it).
    #[inline(always)]
    pub fn discard(&mut self) -> usize {
        core::mem::take(&mut self.0.remaining)
    }
    /// Makes it end after `n` more bytes.
    pub fn truncate(&mut self, n: usize) {
        if let Mem::In(buf) = &mut self.0.mem {
            *buf = &buf[..n.min(buf.len())];
        }
        self.0.remaining = self.0.remaining.min(n);
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
