//! Signals. Handlers that these calls set run in 32-bit code, with frames of their own, whatever they
//! interrupt.

use super::super::{Handler, signal as native, time};
use crate::mm::user::{UserPtr, write_bytes};
use crate::signal::{self, Action, ActionFlags, AltStack, SigInfo, SigSet, mask, parse_signal, shown_flags};
use crate::task::current;
use limen_linux_abi::Errno;

/// Calls that work on the program's registers: the returns from handlers. The frame is complete then: its
/// result register has the value from before the signal.
pub const WHOLE: &[(&str, Handler)] = &[
    ("sigreturn", |frame| {
        signal::sigreturn_compat(frame, false);
        frame.result()
    }),
    ("rt_sigreturn", |frame| {
        signal::sigreturn_compat(frame, true);
        frame.result()
    }),
];

/// The action of these words.
fn action(handler: u32, flags: u32, restorer: u32, mask: u64) -> Action {
    Action {
        handler: handler as usize,
        flags: ActionFlags::of(flags) | ActionFlags::COMPAT,
        restorer: restorer as usize,
        mask: SigSet(mask),
    }
}

/// The lower half of a set.
fn word(set: SigSet) -> u32 {
    set.0 as u32
}

fn timed_wait<T: time::TimeWord>(
    set: UserPtr<u64>,
    at: usize,
    timeout: UserPtr<[T; 2]>,
    size: usize,
) -> Result<usize, Errno> {
    native::check_set_size(size)?;
    let set = SigSet(set.read()?);
    let deadline = match timeout.non_null() {
        None => None,
        Some(timeout) => Some(crate::time::now_ns().saturating_add(time::read_timespec(timeout)?)),
    };
    let info = mask::timed_wait(set, deadline)?;
    if at != 0 {
        write_bytes(at, &info.narrow_bytes())?;
    }
    Ok(info.signal() as usize)
}

crate::syscalls! {
    fn rt_sigaction(sig: i32, new: UserPtr<[u32; 5]>, old: UserPtr<[u32; 5]>, size: usize) {
        native::check_set_size(size)?;
        let new = match new.non_null() {
            Some(new) => {
                let [handler, flags, restorer, low, high] = new.read()?;
                Some(action(handler, flags, restorer, u64::from(high) << 32 | u64::from(low)))
            }
            None => None,
        };
        let sig = parse_signal(sig)?.ok_or(Errno::EINVAL)?;
        let was = mask::action(sig, new)?;
        if let Some(old) = old.non_null() {
            let mask = was.mask.0;
            old.write([was.handler as u32, was.flags.shown(), was.restorer as u32, mask as u32,
                (mask >> 32) as u32])?;
        }
        Ok(0)
    }
    fn sigaction(sig: i32, new: UserPtr<[u32; 4]>, old: UserPtr<[u32; 4]>) {
        let sig = parse_signal(sig)?.ok_or(Errno::EINVAL)?;
        let new = match new.non_null() {
            Some(new) => {
                let [handler, mask, flags, restorer] = new.read()?;
                Some(action(handler, flags, restorer, mask.into()))
            }
            None => None,
        };
        let was = mask::action(sig, new)?;
        if let Some(old) = old.non_null() {
            old.write([was.handler as u32, word(was.mask), was.flags.shown(), was.restorer as u32])?;
        }
        Ok(0)
    }
    fn signal(sig: i32, handler: u32) {
        let sig = parse_signal(sig)?.ok_or(Errno::EINVAL)?;
        let flags = ActionFlags::RESETHAND | ActionFlags::NODEFER;
        let new = action(handler, flags.bits(), 0, 0);
        Ok(mask::action(sig, Some(new))?.handler as u32 as usize)
    }
    fn sigprocmask(how: i32, new: UserPtr<u32>, old: UserPtr<u32>) {
        let task = current();
        let blocked = task.signals.lock().blocked;
        if let Some(new) = new.non_null() {
            let set = SigSet(new.read()?.into());
            signal::set_mask(&task, match how {
                0 => blocked.or(set),
                1 => blocked.minus(set),
                2 => SigSet(blocked.0 & !u64::from(u32::MAX) | set.0),
                _ => return Err(Errno::EINVAL),
            });
        }
        if let Some(old) = old.non_null() {
            old.write(word(blocked))?;
        }
        Ok(0)
    }
    fn sigpending(to: UserPtr<u32>) {
        to.write(word(mask::pending()))?;
        Ok(0)
    }
    // The mask is the third argument; the first two are unused.
    fn sigsuspend(_restart: usize, _old: usize, mask: u32) {
        mask::suspend(SigSet(mask.into()))
    }
    fn sigaltstack(call: &mut Call, new: UserPtr<[u32; 3]>, old: UserPtr<[u32; 3]>) {
        let task = current();
        let sp = call.frame.sp();
        let previous = task.signals.lock().altstack;
        if let Some(new) = new.non_null() {
            let [at, flags, size] = new.read()?;
            let stack = AltStack { sp: at as usize, flags, size: size as usize };
            task.signals.lock().set_altstack(stack, sp)?;
        }
        if let Some(old) = old.non_null() {
            old.write([previous.sp as u32, shown_flags(&previous, sp), previous.size as u32])?;
        }
        Ok(0)
    }
    fn rt_sigtimedwait(set: UserPtr<u64>, at: usize, timeout: UserPtr<[i32; 2]>, size: usize) {
        timed_wait(set, at, timeout, size)
    }
    fn rt_sigtimedwait_time64(set: UserPtr<u64>, at: usize, timeout: UserPtr<[i64; 2]>, size: usize) {
        timed_wait(set, at, timeout, size)
    }
    fn rt_sigqueueinfo(tgid: i32, sig: i32, info: usize) {
        native::queue_info(tgid, sig, SigInfo::read_narrow_from(info, sig as u32)?)
    }
    fn rt_tgsigqueueinfo(tgid: i32, tid: i32, sig: i32, info: usize) {
        native::queue_info_to_thread((tgid, tid), sig, SigInfo::read_narrow_from(info, sig as u32)?)
    }
    fn pidfd_send_signal(fd: i32, sig: i32, info: usize, flags: u32) {
        native::send_by_pidfd(fd, sig, info, flags, SigInfo::read_narrow_from)
    }
}
