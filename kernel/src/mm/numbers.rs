//! Numbers that are given to what programs make, and taken back when it goes: the lowest free one first.

use super::reserve;
use crate::sync::IrqSpinLock;
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// A bit for each number that is used, and a word below which none is free.
struct Used {
    bits: Vec<u64>,
    full: usize,
}

/// A range of numbers. What has one may go in an interrupt: a process has its PID namespace, credentials have
/// their user namespace.
pub struct Numbers {
    used: IrqSpinLock<Used>,
    first: u32,
    most: usize,
}

impl Numbers {
    /// `most` numbers, of which `first` is the lowest.
    pub const fn new(first: u32, most: usize) -> Self {
        Self {
            used: IrqSpinLock::new(Used {
                bits: Vec::new(),
                full: 0,
            }),
            first,
            most,
        }
    }

    /// Takes the lowest free number. `Ok(None)`: all are used; `ENOMEM`. May sleep.
    pub fn take(&self) -> Result<Option<u32>, Errno> {
        let mut used = reserve::room_behind(|| self.used.lock(), |used: &mut Used| &mut used.bits, 1)?;
        let from = used.full;
        let free = used.bits.iter().skip(from).position(|&word| word != u64::MAX);
        let word = free.map_or(used.bits.len(), |n| from + n);
        used.full = word;
        let bit = used.bits.get(word).map_or(0, |bits| bits.trailing_ones());
        let n = word * 64 + bit as usize;
        if n >= self.most {
            return Ok(None);
        }
        if word == used.bits.len() {
            used.bits.push(0);
        }
        used.bits[word] |= 1 << bit;
        Ok(Some(self.first + n as u32))
    }

    /// The number, which was taken, is free again.
    pub fn give_back(&self, number: u32) {
        let n = (number - self.first) as usize;
        let mut used = self.used.lock();
        used.bits[n / 64] &= !(1 << (n % 64));
        used.full = used.full.min(n / 64);
    }
}
