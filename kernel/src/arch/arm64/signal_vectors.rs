//! SVE's record in signal frames (`sve_context`), and the one that leads to it if it does not fit behind the
//! others (`extra_context`).

use super::sve;
use super::vectors;
use crate::mm::user::{UserPtr, read_bytes, write_bytes};
use alloc::vec::Vec;
use limen_linux_abi::Errno;

pub const SVE_MAGIC: u32 = 0x5356_4501;
pub const EXTRA_MAGIC: u32 = 0x4558_5401;
/// Bytes of the record without registers.
pub const HEADER: usize = 16;
pub const EXTRA_SIZE: usize = 32;
/// Bytes that an end mark takes.
pub const END: usize = 16;
/// Bytes of a fault's and of the floating-point record, which come before.
const BEFORE: usize = 528 + 16;
/// The registers are those of streaming mode, which nobody has.
const FLAG_SM: u16 = 1;

/// Bytes of the record with registers, for vectors of this length, bytes.
fn size_with_registers(length: usize) -> usize {
    (HEADER + sve::registers_size(length)).next_multiple_of(16)
}

/// The most bytes that all records can take. 0: there is no SVE, and they fit into what every frame has.
pub fn most() -> usize {
    if sve::is_there() {
        BEFORE + EXTRA_SIZE + END + size_with_registers(sve::longest()) + END
    } else {
        0
    }
}

/// Where the running thread's record goes, as bytes behind where records begin.
pub struct Place {
    /// Where the record of the extra space goes, if it is needed.
    extra: Option<usize>,
    at: usize,
    size: usize,
    /// With registers.
    live: bool,
}

impl Place {
    /// Behind `behind` bytes of others; every frame has room for `room` bytes. `None`: there is no SVE.
    pub fn find(behind: usize, room: usize) -> Option<Self> {
        if !sve::is_there() {
            return None;
        }
        let live = vectors::is_running_live();
        let size = if live {
            size_with_registers(vectors::running_length())
        } else {
            HEADER
        };
        // There must be room for the way to extra space in any case.
        let fits = behind + size <= room - EXTRA_SIZE - END;
        let (extra, at) = if fits {
            (None, behind)
        } else {
            (Some(behind), behind + EXTRA_SIZE + END)
        };
        Some(Self {
            extra,
            at,
            size,
            live,
        })
    }

    /// Where all records end.
    pub fn end(&self) -> usize {
        self.at + self.size + END
    }

    /// Writes it and what belongs to it; records begin at `records`. `EFAULT`.
    pub fn write(&self, records: usize) -> Result<(), Errno> {
        let head = |magic: u32, size: usize| u64::from(magic) | (size as u64) << 32;
        let words = |at: usize| UserPtr::<[u64; 2]>::new(records.wrapping_add(at));
        if let Some(extra) = self.extra {
            let begins = records.wrapping_add(self.at) as u64;
            words(extra).write([head(EXTRA_MAGIC, EXTRA_SIZE), begins])?;
            words(extra + 16).write([(self.size + END) as u64, 0])?;
            words(extra + EXTRA_SIZE).write([0; 2])?;
        }
        let length = vectors::running_length() as u64;
        words(self.at).write([head(SVE_MAGIC, self.size), length])?;
        if self.live {
            let at = records.wrapping_add(self.at + HEADER);
            vectors::with_running(|registers| write_bytes(at, registers))?;
        }
        UserPtr::new(records.wrapping_add(self.at + self.size)).write(0u64)
    }
}

/// Reads the record of `size` bytes at `at` for the running thread: its registers, but for the lower parts of
/// vectors. `None`: it has none. `EINVAL`: it does not fit the thread; `EFAULT`, `ENOMEM`. Thread.
pub fn read(at: usize, size: usize) -> Result<Option<Vec<u128>>, Errno> {
    let [length, flags, _, _] = UserPtr::<[u16; 4]>::new(at.wrapping_add(8)).read()?;
    let length = usize::from(length);
    if flags & FLAG_SM != 0 || length != vectors::running_length() {
        return Err(Errno::EINVAL);
    }
    if size <= HEADER {
        return Ok(None);
    }
    if size < HEADER + sve::registers_size(length) {
        return Err(Errno::EINVAL);
    }
    let mut memory = vectors::room(length)?;
    read_bytes(vectors::bytes(&mut memory, length), at.wrapping_add(HEADER))?;
    Ok(Some(memory))
}
