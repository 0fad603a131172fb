//! The alternate signal stack.

use super::AltStack;
use super::deliver::{SS_AUTODISARM, SS_DISABLE, SS_ONSTACK, on_altstack};
use crate::task::CurrentTask;
use limen_linux_abi::Errno;

/// The least size of an alternate stack Linux accepts (`MINSIGSTKSZ`).
fn min_size() -> usize {
    crate::arch::signal::MIN_STACK_SIZE
}

/// Replaces the alternate stack; `sp` is the stack pointer in user mode.
pub fn set(task: &CurrentTask, new: AltStack, sp: usize) -> Result<(), Errno> {
    let mut own = task.signals.lock();
    if on_altstack(&own.altstack, sp) && own.altstack.size != 0 {
        return Err(Errno::EPERM);
    }
    let mode = new.flags & !SS_AUTODISARM;
    if mode != SS_DISABLE && mode != SS_ONSTACK && mode != 0 {
        return Err(Errno::EINVAL);
    }
    if mode == SS_DISABLE {
        own.altstack = AltStack {
            sp: 0,
            flags: new.flags & SS_AUTODISARM,
            size: 0,
        };
        return Ok(());
    }
    if new.size < min_size() {
        return Err(Errno::ENOMEM);
    }
    own.altstack = AltStack {
        sp: new.sp,
        flags: new.flags & SS_AUTODISARM,
        size: new.size,
    };
    Ok(())
}
