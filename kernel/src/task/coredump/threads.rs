//! The threads of a process that is dumped: they end, and stop on their way, with their registers.

use crate::sched::{TaskState, WaitQueue, inspect};
use crate::signal;
use crate::task::{CurrentTask, Task, TaskFlags, exit};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use limen_entry::ThreadFlags;

/// A core dump that is going on. The process has it in its signals.
pub struct Dump {
    signal: u32,
    dumper: Arc<Task>,
    /// How many threads have not stopped yet.
    left: AtomicUsize,
    /// The dumper waits here for them.
    stopped: WaitQueue,
    over: AtomicBool,
    /// They wait here for the end of the dump.
    released: WaitQueue,
}

impl Dump {
    /// The running thread, killed by `signal`, begins a dump: from now on its process ends. `None`: it is
    /// ending already, or becomes another program.
    pub fn begin(task: &CurrentTask, signal: u32) -> Option<Arc<Self>> {
        let process = &task.process;
        let dump = Arc::new(Self {
            signal,
            dumper: (**task).clone(),
            left: AtomicUsize::new(0),
            stopped: WaitQueue::new(),
            over: AtomicBool::new(false),
            released: WaitQueue::new(),
        });
        let mut shared = process.signals.lock();
        if shared.group_exit.is_some() || shared.exec.is_some() {
            return None;
        }
        shared.group_exit = Some(exit::status_of_signal(signal, false));
        shared.dump = Some(dump.clone());
        let mut left = 0;
        for thread in process.threads_under(&shared).iter() {
            // One that ends already has nothing to tell any more.
            if !Arc::ptr_eq(thread, task) && !thread.flags().contains(TaskFlags::EXITING) {
                thread.set_flags(TaskFlags::DUMPED);
                left += 1;
            }
        }
        dump.left.store(left, Ordering::Relaxed);
        signal::kill_threads(process, Some(task));
        // Only `SIGKILL` reaches the process from now on, and that sets it again, under the same lock.
        task.info.work.clear(ThreadFlags::SIGPENDING);
        drop(shared);
        Some(dump)
    }

    /// Waits until all other threads have stopped. `false`: the dump was killed.
    pub fn others_have_stopped(&self) -> bool {
        let none_left = || self.left.load(Ordering::Acquire) == 0;
        self.stopped.wait_until_killable(none_left).is_ok()
    }

    /// `SIGKILL` was sent to the process: the dump ends early. The process's signals are locked.
    pub fn kill(&self) {
        self.dumper.killed.store(true, Ordering::Relaxed);
        signal::wake(&self.dumper, true);
    }

    /// The dump ends. `written`: the wait status tells of a core file.
    pub fn end(&self, task: &CurrentTask, written: bool) {
        let own = {
            let mut shared = task.process.signals.lock();
            if written && shared.group_exit == Some(exit::status_of_signal(self.signal, false)) {
                shared.group_exit = Some(exit::status_of_signal(self.signal, true));
            }
            shared.dump.take()
        };
        self.over.store(true, Ordering::Release);
        self.released.wake_all();
        drop(own);
    }
}

/// The running thread, which ends, stops until its process's dump has ended. Sleeps.
#[cold]
pub fn park(task: &CurrentTask) {
    let dump = task.process.signals.lock().dump.clone();
    if let Some(dump) = dump {
        if dump.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            dump.stopped.wake_all();
        }
        let over = || dump.over.load(Ordering::Acquire);
        dump.released.wait_until_uninterruptible(over);
    }
    task.clear_flags(TaskFlags::DUMPED);
}

/// Waits until `task`, which has told that it stops, is off its CPU. `false`: the dump was killed. Sleeps.
pub(super) fn wait_off_cpu(dumper: &CurrentTask, task: &Arc<Task>) -> bool {
    while !inspect::wait_off_cpu(task, TaskState::UNINTERRUPTIBLE) {
        if dumper.fatal_signal_pending() {
            return false;
        }
        inspect::pause();
    }
    true
}
