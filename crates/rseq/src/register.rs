//! The rules of the `rseq` system call.

use crate::{ALIGN, FEATURE_SIZE, Mode, ORIGINAL_SIZE};
use limen_linux_abi::Errno;

/// `RSEQ_FLAG_UNREGISTER`.
pub const UNREGISTER: u32 = 1 << 0;
/// `RSEQ_FLAG_SLICE_EXT_DEFAULT_ON`: registering turns time-slice extensions on.
pub const SLICE_EXT_DEFAULT_ON: u32 = 1 << 1;

/// A registered `struct rseq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// Its address; not 0.
    pub at: usize,
    /// The length it was registered with.
    pub len: u32,
    /// The word that must be in front of an abort handler.
    pub signature: u32,
}

impl Area {
    /// How it is treated.
    #[inline(always)]
    pub fn mode(&self) -> Mode {
        if self.len == ORIGINAL_SIZE {
            Mode::Legacy
        } else {
            Mode::Optimised
        }
    }
}

/// What a valid call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Registers the area for the thread. `slices`: with time-slice extensions on.
    Register {
        /// The area.
        area: Area,
        /// See `SLICE_EXT_DEFAULT_ON`.
        slices: bool,
    },
    /// The thread no longer has an area.
    Unregister,
}

/// Checks `rseq(at, len, flags, signature)` of a thread whose area is `current`, in an address space that
/// ends at `user_end`.
pub fn judge(
    current: Option<Area>,
    (at, len, flags, signature): (usize, u32, u32, u32),
    user_end: usize,
) -> Result<Action, Errno> {
    if flags & UNREGISTER != 0 {
        if flags != UNREGISTER {
            return Err(Errno::EINVAL);
        }
        return match current {
            Some(area) if area.at == at && area.len == len => {
                if area.signature == signature {
                    Ok(Action::Unregister)
                } else {
                    Err(Errno::EPERM)
                }
            }
            _ => Err(Errno::EINVAL),
        };
    }
    if flags & !SLICE_EXT_DEFAULT_ON != 0 {
        return Err(Errno::EINVAL);
    }
    if let Some(area) = current {
        return Err(if area.at != at || area.len != len {
            Errno::EINVAL
        } else if area.signature != signature {
            Errno::EPERM
        } else {
            Errno::EBUSY
        });
    }
    let align = match len {
        ORIGINAL_SIZE => ORIGINAL_SIZE as usize,
        FEATURE_SIZE.. => ALIGN,
        _ => return Err(Errno::EINVAL),
    };
    if at % align != 0 {
        return Err(Errno::EINVAL);
    }
    // A null pointer means that nothing is registered, so it cannot be an area's address.
    if at == 0 || len as usize > user_end || at > user_end - len as usize {
        return Err(Errno::EFAULT);
    }
    let area = Area { at, len, signature };
    Ok(Action::Register {
        area,
        slices: flags & SLICE_EXT_DEFAULT_ON != 0 && area.mode() == Mode::Optimised,
    })
}
