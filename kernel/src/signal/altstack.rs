//! The alternate signal stack.

use super::deliver::{SS_AUTODISARM, SS_DISABLE, SS_ONSTACK, on_altstack};
use super::{AltStack, TaskSignals};
use limen_linux_abi::Errno;

/// The smallest alternate stack that Linux accepts, in bytes (`MINSIGSTKSZ`).
fn min_size() -> usize {
    crate::arch::signal::MIN_STACK_SIZE
}

impl TaskSignals {
    /// Replaces the alternate stack. `sp` is the stack pointer in user mode. `EPERM`: the thread runs on the
    /// old one; `EINVAL`: unknown flags; `ENOMEM`: the new one is too small.
    pub fn set_altstack(&mut self, new: AltStack, sp: usize) -> Result<(), Errno> {
        if on_altstack(&self.altstack, sp) && self.altstack.size != 0 {
            return Err(Errno::EPERM);
        }
        let mode = new.flags & !SS_AUTODISARM;
        if mode != SS_DISABLE && mode != SS_ONSTACK && mode != 0 {
            return Err(Errno::EINVAL);
        }
        if mode == SS_DISABLE {
            self.altstack = AltStack {
                sp: 0,
                flags: new.flags & SS_AUTODISARM,
                size: 0,
            };
            return Ok(());
        }
        if new.size < min_size() {
            return Err(Errno::ENOMEM);
        }
        self.altstack = AltStack {
            sp: new.sp,
            flags: new.flags & SS_AUTODISARM,
            size: new.size,
        };
        Ok(())
    }
}
