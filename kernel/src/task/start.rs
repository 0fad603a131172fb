//! Processes that the kernel starts: the first one, and programs that help it. They have no parent.

use super::ns::pid::Id;
use super::session::{ProcessGroup, Session, member_node};
use super::thread::{KernelFunction, NewTask};
use super::{Process, Task, TaskFlags, fork, pid, rlimit, root_creds, user};
use crate::arch::frame::Frame;
use crate::arch::switch::Context;
use crate::fs::{FdTable, FsContext};
use crate::mm::KernelStack;
use crate::sched::entity::{ContextCell, SchedEntity};
use crate::signal::{ProcessSignals, TaskSignals};
use alloc::sync::{Arc, Weak};
use limen_linux_abi::Errno;

/// A process of root's with one thread, which has not started. Its thread runs `function` in kernel mode and
/// then the program that this has executed. `ENOMEM`, `EAGAIN`. May sleep.
pub(super) fn process(
    name: &[u8],
    signals: ProcessSignals,
    fs: Arc<FsContext>,
    function: KernelFunction,
) -> Result<Arc<Task>, Errno> {
    let stack = KernelStack::new().ok_or(Errno::ENOMEM)?;
    let context = Context::new(stack.top(), &Frame::new_user(0, 0));
    let tid = pid::allocate()?;
    user::charge(&root_creds(), user::Limit::NONE).inspect_err(|_| pid::release(tid))?;
    let session = Session::new(Id::NONE);
    let group = ProcessGroup::new(Id::NONE, session);
    let mut signals = signals;
    let mut own = TaskSignals::new(None);
    let account = Some(user::Counts::of(&root_creds()));
    // Until now the process is counted on no user's account.
    let _ = (
        signals.pending.charge_to(account.clone()),
        own.pending.charge_to(account),
    );
    let limits = rlimit::Limits::new(fork::max_threads() / 2);
    let process = Process::new(tid, &Weak::new(), group.clone(), limits, signals, 0, None);
    let node = member_node(&process);
    process.enter_group(group.reserve(), node);
    let mut comm = [0; 16];
    let len = name.len().min(comm.len() - 1);
    comm[..len].copy_from_slice(&name[..len]);
    let task = Task::new(NewTask {
        tid,
        numbers: None,
        process: process.clone(),
        flags: TaskFlags::KTHREAD,
        context: ContextCell::new(context),
        sched: SchedEntity::new(),
        stack,
        creds: root_creds(),
        mm: None,
        files: Some(FdTable::new()),
        fs: Some(fs),
        namespaces: None,
        comm,
        signals: own,
        exit_signal: 0,
    });
    process.with_threads(|threads| threads.push(task.clone()));
    pid::register(&task, true);
    super::patch::inherit(&task);
    *task.kernel_function.lock() = Some(function);
    Ok(task)
}
