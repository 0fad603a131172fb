//! System calls that newer ones have replaced, for the ABIs that are older than these: signal sets of one
//! word, and calls that are another one with a fixed argument.

use crate::mm::user::UserPtr;
use crate::sched::policy;
use crate::signal::{self, Action, ActionFlags, SigSet, mask, parse_signal};
use crate::task::wait::WaitOptions;
use crate::task::{creds::cap, current};
use limen_linux_abi::Errno;

/// `set` with its first word replaced.
fn with_word(set: SigSet, word: usize) -> SigSet {
    SigSet(set.0 & !(usize::MAX as u64) | word as u64)
}

/// The first word of `set`.
fn word(set: SigSet) -> usize {
    set.0 as usize
}

fn change_mask(how: impl FnOnce(SigSet) -> SigSet) -> SigSet {
    let task = current();
    let old = task.signals.lock().blocked;
    signal::set_mask(&task, how(old));
    old
}

crate::syscalls! {
    fn sigaction(sig: i32, new: UserPtr<[usize; 4]>, old: UserPtr<[usize; 4]>) {
        let sig = parse_signal(sig)?.ok_or(Errno::EINVAL)?;
        let new = match new.non_null() {
            Some(new) => {
                let [handler, mask, flags, restorer] = new.read()?;
                let flags = ActionFlags::of(flags as u32);
                Some(Action { handler, flags, restorer, mask: SigSet(mask as u64) })
            }
            None => None,
        };
        let was = mask::action(sig, new)?;
        if let Some(old) = old.non_null() {
            old.write([was.handler, word(was.mask), was.flags.bits() as usize, was.restorer])?;
        }
        Ok(0)
    }

    fn signal(sig: i32, handler: usize) {
        let sig = parse_signal(sig)?.ok_or(Errno::EINVAL)?;
        let flags = ActionFlags::RESETHAND | ActionFlags::NODEFER;
        let new = Action { handler, flags, ..Action::default() };
        Ok(mask::action(sig, Some(new))?.handler)
    }

    fn sigprocmask(how: i32, new: UserPtr<usize>, old: UserPtr<usize>) {
        let was = match new.non_null() {
            Some(new) => {
                let new = new.read()?;
                let set = SigSet(new as u64);
                match how {
                    0 => change_mask(|now| now.or(set)),
                    1 => change_mask(|now| now.minus(set)),
                    2 => change_mask(|now| with_word(now, new)),
                    _ => return Err(Errno::EINVAL),
                }
            }
            None => change_mask(|now| now),
        };
        if let Some(old) = old.non_null() {
            old.write(word(was))?;
        }
        Ok(0)
    }

    fn sigpending(to: UserPtr<usize>) {
        to.write(word(mask::pending()))?;
        Ok(0)
    }

    // The mask is the third argument; the first two are unused.
    fn sigsuspend(_restart: usize, _old: usize, mask: usize) {
        mask::suspend(SigSet(mask as u64))
    }

    fn sgetmask() {
        Ok(word(change_mask(|now| now)) as u32 as usize)
    }

    fn ssetmask(mask: u32) {
        Ok(word(change_mask(|_| SigSet(mask.into()))) as u32 as usize)
    }

    fn waitpid(pid: i32, status: UserPtr<i32>, options: u32) {
        let options = WaitOptions::from_bits(options).ok_or(Errno::EINVAL)?;
        let Some(report) = super::task::wait_for(pid, options)? else { return Ok(0) };
        if let Some(status) = status.non_null() {
            status.write(report.status)?;
        }
        Ok(report.pid as usize)
    }

    fn nice(step: i32) {
        let task = current();
        let old = task.sched.nice();
        let new = old.saturating_add(step.clamp(-40, 40)).clamp(-20, 19);
        if new < old && !super::sched::nice_allowed(&task, new) && !task.creds().capable(cap::SYS_NICE) {
            return Err(Errno::EPERM);
        }
        policy::set_nice(&task, new);
        Ok(0)
    }

    fn umount(target: usize) {
        super::mount::do_umount(target, 0)
    }
}
