//! A tracee's signals: the one that it stopped for, those that are pending, its mask.

use crate::mm::user::UserPtr;
use crate::signal::{self, SigInfo, SigSet, info};
use crate::task::{Task, current};
use alloc::sync::Arc;
use limen_linux_abi::{Errno, SysResult};

/// `PTRACE_PEEKSIGINFO_SHARED`: those of the process.
const SHARED: u32 = 1;

/// The details of the tracee's stop. `EINVAL`: it has none.
pub fn of_stop(task: &Arc<Task>) -> Result<SigInfo, Errno> {
    let mut state = task.trace.state();
    let found = state.stopped().ok_or(Errno::ESRCH)?.info;
    found.ok_or(Errno::EINVAL)
}

/// `PTRACE_GETSIGINFO`.
pub fn details(task: &Arc<Task>, to: usize) -> SysResult {
    of_stop(task)?.write_to(to)?;
    Ok(0)
}

/// The tracee's stop gets other details. `EINVAL`: it has none.
pub fn set_of_stop(task: &Arc<Task>, new: SigInfo) -> SysResult {
    let _shared = task.process.signals.lock();
    let mut state = task.trace.state();
    let stop = state.stopped().ok_or(Errno::ESRCH)?;
    *stop.info.as_mut().ok_or(Errno::EINVAL)? = new;
    Ok(0)
}

/// `PTRACE_SETSIGINFO`.
pub fn set_details(task: &Arc<Task>, from: usize) -> SysResult {
    let sig = UserPtr::<u32>::new(from).read()?;
    set_of_stop(task, SigInfo::read_from(from, sig)?)
}

/// `PTRACE_PEEKSIGINFO`: the arguments are at `from`, the details go to `to`. Returns how many.
pub fn peek(task: &Arc<Task>, from: usize, to: usize) -> SysResult {
    let [low, high, flags, count] = UserPtr::<[u32; 4]>::new(from).read()?;
    let first = u64::from_ne_bytes({
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&low.to_ne_bytes());
        bytes[4..].copy_from_slice(&high.to_ne_bytes());
        bytes
    });
    if flags & !SHARED != 0 || (count as i32) < 0 {
        return Err(Errno::EINVAL);
    }
    let mut done = 0;
    while done < count as usize {
        let Some(number) = usize::try_from(first)
            .ok()
            .and_then(|first| first.checked_add(done))
        else {
            break;
        };
        let found = {
            let shared = task.process.signals.lock();
            match flags & SHARED != 0 {
                true => shared.pending.nth(number),
                false => task.signals.lock_under(&shared).pending.nth(number),
            }
        };
        let Some(mut found) = found else { break };
        found.settle();
        if let Err(error) = found.write_to(to.wrapping_add(done * info::SIZE)) {
            return if done > 0 { Ok(done) } else { Err(error) };
        }
        done += 1;
        if current().signal_pending() {
            break;
        }
    }
    Ok(done)
}

/// `PTRACE_GETSIGMASK`.
pub fn mask(task: &Arc<Task>, size: usize, to: usize) -> SysResult {
    if size != size_of::<u64>() {
        return Err(Errno::EINVAL);
    }
    let mask = {
        let own = task.signals.lock();
        own.saved.unwrap_or(own.blocked)
    };
    UserPtr::new(to).write(mask.0)?;
    Ok(0)
}

/// `PTRACE_SETSIGMASK`.
pub fn set_mask(task: &Arc<Task>, size: usize, from: usize) -> SysResult {
    if size != size_of::<u64>() {
        return Err(Errno::EINVAL);
    }
    let mask = SigSet(UserPtr::<u64>::new(from).read()?).minus(SigSet::UNBLOCKABLE);
    let shared = task.process.signals.lock();
    let mut own = task.signals.lock_under(&shared);
    task.trace.state_under(&shared).stopped().ok_or(Errno::ESRCH)?;
    own.blocked = mask;
    own.saved = None;
    signal::recalculate(task, &shared, &own);
    Ok(0)
}
