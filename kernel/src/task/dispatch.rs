//! Syscall user dispatch (`PR_SET_SYSCALL_USER_DISPATCH`): what a thread has chosen. `filter::dispatch`
//! decides about each call with it. Only the thread itself uses its state.

use super::Task;
use crate::mm::user;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use limen_entry::SyscallWork;
use limen_linux_abi::Errno;

/// `PR_SYS_DISPATCH_OFF`.
const OFF: usize = 0;
/// `PR_SYS_DISPATCH_EXCLUSIVE_ON`: calls from everywhere but a range are dispatched.
const EXCLUSIVE_ON: usize = 1;
/// `PR_SYS_DISPATCH_INCLUSIVE_ON`: calls from a range are dispatched.
const INCLUSIVE_ON: usize = 2;

/// A thread's choice.
pub struct UserDispatch {
    /// The first address from which calls are never dispatched.
    from: AtomicUsize,
    /// How many such addresses there are. They may go on at address 0.
    len: AtomicUsize,
    /// The address of the byte that allows calls or blocks them. 0: none, all are blocked.
    selector: AtomicUsize,
    /// Whether the call that the thread is making was dispatched.
    rolled_back: AtomicBool,
}

impl UserDispatch {
    /// Off.
    pub const fn new() -> Self {
        Self {
            from: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            selector: AtomicUsize::new(0),
            rolled_back: AtomicBool::new(false),
        }
    }

    /// `prctl` by `task`, the running thread, whose state this is. `EINVAL`: there is no such mode, or the
    /// range is empty or ends beyond the last address. `EFAULT`: the selector is no user address.
    pub fn set(&self, task: &Task, mode: usize, [from, len, selector]: [usize; 3]) -> Result<(), Errno> {
        let ends_well = from.checked_add(len).is_some_and(|end| end > from);
        let (from, len) = match mode {
            OFF if [from, len, selector] == [0; 3] => (0, 0),
            EXCLUSIVE_ON if from == 0 || ends_well => (from, len),
            // The addresses that are not in the range.
            INCLUSIVE_ON if ends_well => (from + len, len.wrapping_neg()),
            _ => return Err(Errno::EINVAL),
        };
        if selector != 0 {
            user::check(selector, 1)?;
        }
        self.from.store(from, Relaxed);
        self.len.store(len, Relaxed);
        self.selector.store(selector, Relaxed);
        self.rolled_back.store(false, Relaxed);
        if mode == OFF {
            task.info.work.clear_syscall_work(SyscallWork::USER_DISPATCH);
        } else {
            task.info.work.set_syscall_work(SyscallWork::USER_DISPATCH);
        }
        Ok(())
    }

    /// Mode, selector, first address and length of the range, as a tracer reads them.
    pub fn choice(&self, task: &Task) -> [usize; 4] {
        let on = task.info.work.syscall_work().contains(SyscallWork::USER_DISPATCH);
        let [selector, from, len] = [&self.selector, &self.from, &self.len].map(|word| word.load(Relaxed));
        [if on { EXCLUSIVE_ON } else { OFF }, selector, from, len]
    }

    /// For exec by `task`, the running thread: off. (A new thread starts so.)
    pub fn forget(&self, task: &Task) {
        task.info.work.clear_syscall_work(SyscallWork::USER_DISPATCH);
    }

    /// Whether calls that go on at `ip` are never dispatched.
    #[inline]
    pub fn spares(&self, ip: usize) -> bool {
        ip.wrapping_sub(self.from.load(Relaxed)) < self.len.load(Relaxed)
    }

    /// The address of the selector, if there is one.
    #[inline]
    pub fn selector(&self) -> Option<usize> {
        Some(self.selector.load(Relaxed)).filter(|at| *at != 0)
    }

    /// The call that the thread is making was dispatched.
    pub fn roll_back(&self) {
        self.rolled_back.store(true, Relaxed);
    }

    /// Whether it was. Forgets it.
    pub fn take_rolled_back(&self) -> bool {
        self.rolled_back.swap(false, Relaxed)
    }
}
