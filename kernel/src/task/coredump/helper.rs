//! The program to whose standard input core files go.

use crate::arch::frame::Frame;
use crate::fs::{File, FsContext, pipe};
use crate::sched::{WaitQueue, wake_new_task};
use crate::signal::{Actions, ProcessSignals};
use crate::sync::Once;
use crate::task::process::init_process;
use crate::task::rlimit::{Limit, which};
use crate::task::{ExitState, Process, current, exec, exit, start};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// A running helper.
pub(super) struct Helper {
    /// What is written here is its standard input.
    pub input: Arc<File>,
    /// Itself.
    pub process: Arc<Process>,
}

/// How its start went.
struct Started {
    result: Once<Result<(), Errno>>,
    waiter: WaitQueue,
}

/// Where the first process is, at the root of its tree.
pub(super) fn place() -> Option<Arc<FsContext>> {
    let first = init_process()?.leader()?.try_fs()?.copy();
    first.set_cwd(first.root());
    Some(first)
}

/// Starts the program `words[0]` as root, with these arguments, no environment and no other descriptors.
/// `core`: its `RLIMIT_CORE`. An error is that of exec. Sleeps.
pub(super) fn start(words: &[Vec<u8>], core: u64) -> Result<Helper, Errno> {
    let name = words.first().ok_or(Errno::ENOENT)?.clone();
    let words = words.to_vec();
    let (output, input) = pipe::create(0)?;
    let started = Arc::new(Started {
        result: Once::new(),
        waiter: WaitQueue::new(),
    });
    let told = started.clone();
    let run = move || {
        let mut frame = Frame::new_user(0, 0);
        let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let task = current();
        let result = task
            .files()
            .install(output, false)
            .and_then(|_| exec::kernel_execve(&mut frame, &words[0], &args, &[]));
        let _ = told.result.get_or_init(|| result.map(|_| ()));
        told.waiter.wake_all();
        if result.is_err() {
            exit::exit_group(127);
        }
        *task.start_frame.lock() = Some(Box::new(frame));
    };
    let signals = ProcessSignals::with(Actions::new()?, None);
    let place = place().ok_or(Errno::ENOENT)?;
    let base = name.rsplit(|byte| *byte == b'/').next().unwrap_or(&name);
    let task = start::process(base, signals, place, Box::new(run))?;
    let process = task.process.clone();
    process.limits.set(
        which::CORE,
        Limit {
            soft: core,
            hard: core,
        },
    );
    wake_new_task(&task);
    drop(task);
    let is_known = || started.result.get().is_some();
    started.waiter.wait_until_uninterruptible(is_known);
    match started.result.get() {
        Some(Err(errno)) => Err(*errno),
        _ => Ok(Helper { input, process }),
    }
}

/// Waits until the helper has ended, or the dump was killed. Sleeps.
pub(super) fn wait(helper: &Process) {
    let ended = || helper.exit_state() != ExitState::Alive;
    let _ = helper.exit_wait.wait_until_killable(ended);
}
