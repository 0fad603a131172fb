//! Stops: a tracee stops for its tracer, is made to, and goes on.

use super::{Event, Options, Stop, left_step};
use crate::arch::frame::Frame;
use crate::arch::regset;
use crate::sched::{self, TaskState, entity::with_current_context};
use crate::signal::{
    self, ActionFlags, Besides, IGNORE, SIGCHLD, SIGTRAP, SigInfo, info::code, stop as job_control,
};
use crate::task::ns::user::uid_shown;
use crate::task::{CurrentTask, Task, Usage, current};
use alloc::sync::Arc;
use core::hint::black_box;
use limen_entry::{Frame as _, SyscallWork, ThreadFlags};
use limen_linux_abi::Errno;

/// `PTRACE_EVENTMSG_SYSCALL_ENTRY` and `_EXIT`.
const CALL_ENTRY: usize = 1;
const CALL_EXIT: usize = 2;

/// What a stop is about.
struct Notice {
    code: i32,
    info: Option<SigInfo>,
    message: usize,
    /// It takes part in the stop of its process, if there is one.
    group: bool,
    /// It is the last one of a thread that ends: that it was killed does not keep it from stopping.
    exit: bool,
}

/// How a stop ended.
enum Ended {
    /// It did not stop: it is not traced (any more), or was killed.
    NotBegun,
    /// The tracer wants this signal, whose details may be these. 0: none.
    Signal(i32, Option<SigInfo>),
}

/// The details of what is no signal.
fn details(task: &Task, signal: u32, code: i32) -> SigInfo {
    SigInfo::from_sender(signal, code, task.own_tid(), uid_shown(task.creds().uid))
}

/// The running thread stops until its tracer lets it go on, or it is killed. With no lock held.
fn stop(task: &CurrentTask, what: Notice) -> Ended {
    let process = &task.process;
    let code = what.code;
    let complete = {
        let mut shared = process.signals.lock();
        let killed = task.killed.load(core::sync::atomic::Ordering::Relaxed);
        if !task.trace.is_traced() || killed && !what.exit {
            return Ended::NotBegun;
        }
        let mut own = task.signals.lock_under(&shared);
        let takes_part = what.group && own.besides.contains(Besides::STOP);
        let counted = takes_part && !own.besides.contains(Besides::UNCOUNTED);
        if takes_part {
            own.besides.remove(Besides::STOP | Besides::UNCOUNTED);
        }
        let mut state = task.trace.state.lock_under(&shared);
        state.trap_stop = false;
        if code >> 8 == Event::Stop as i32 {
            state.trap_notify = false;
        }
        if !state.trap_notify {
            own.besides.remove(Besides::TRAP);
        }
        state.message = what.message;
        state.stop = Some(Stop {
            code,
            untold: true,
            info: what.info,
            listening: false,
            over: None,
        });
        drop((own, state));
        task.sched.set_state(TaskState::TRACED);
        if counted {
            job_control::count_stopped(&mut shared)
        } else {
            None
        }
    };
    tell_tracer(task, code, what.group);
    if let Some(sig) = complete {
        job_control::tell_real_parent(task, sig);
    }
    loop {
        sched::schedule();
        let shared = process.signals.lock();
        let mut state = task.trace.state.lock_under(&shared);
        let over = state.stop.as_ref().is_none_or(|stop| stop.over.is_some());
        if over {
            let stop = state.stop.take();
            drop(state);
            let own = task.signals.lock_under(&shared);
            signal::recalculate(task, &shared, &own);
            return stop.map_or(Ended::NotBegun, |stop| {
                Ended::Signal(stop.over.unwrap_or(0), stop.info)
            });
        }
        drop(state);
        task.sched.set_state(TaskState::TRACED);
    }
}

/// Tells the tracer that the running thread has stopped.
fn tell_tracer(task: &CurrentTask, code: i32, group: bool) {
    let Some(tracer) = task.trace.tracer() else { return };
    let parent = &tracer.process;
    let action = parent.signals.lock().actions.get(SIGCHLD);
    if action.handler != IGNORE && !action.flags.contains(ActionFlags::NOCLDSTOP) {
        let why = if group {
            code::CLD_STOPPED
        } else {
            code::CLD_TRAPPED
        };
        let usage = Usage::of_task(task);
        let info = SigInfo::child(
            why,
            task.number_in(&parent.pid_ns),
            task.creds().uid,
            code & 0x7f,
            usage.user_ticks(),
            usage.system_ticks(),
        );
        signal::send_to_process(parent, SIGCHLD, info);
    }
    parent.child_wait.wake_all();
}

/// Signal-delivery-stop: the running thread has taken the signal in `info`. Returns whether it, or what the
/// tracer made of it, is to be delivered now.
#[cold]
pub fn before_delivery(task: &CurrentTask, info: &mut SigInfo) -> bool {
    let signal = info.signal();
    let ended = stop(
        task,
        Notice {
            code: signal as i32,
            info: Some(*info),
            message: 0,
            group: false,
            exit: false,
        },
    );
    let Ended::Signal(wanted, changed) = ended else {
        return true;
    };
    let Ok(Some(wanted)) = signal::parse_signal(wanted) else {
        return false;
    };
    if let Some(changed) = changed {
        *info = changed;
    }
    if !info.is_of_signal(wanted) {
        let (pid, uid) = match task.trace.tracer() {
            Some(tracer) => (
                tracer.process.number_in(task.pid_ns()),
                uid_shown(tracer.creds().uid),
            ),
            None => (0, 0),
        };
        *info = SigInfo::user(wanted, pid, uid);
    }
    if task.signals.lock().blocked.has(wanted) {
        info.mean_ids();
        signal::send_to_task(task, wanted, *info);
        return false;
    }
    true
}

/// The running thread is to stop, for a group-stop or because its tracer wants it to.
#[cold]
pub fn trap(task: &CurrentTask) {
    let group = {
        let shared = task.process.signals.lock();
        let mut own = task.signals.lock_under(&shared);
        if shared.stop_signal.is_none() && !task.trace.options().contains(Options::SEIZED) {
            // The stop is over already. Who has just attached may wait for this thread to arrive in it.
            let mut state = task.trace.state.lock_under(&shared);
            (state.trap_stop, state.trap_notify) = (false, false);
            own.besides.remove(Besides::TRAP);
            drop((own, state, shared));
            if let Some(tracer) = task.trace.tracer() {
                tracer.process.child_wait.wake_all();
            }
            return;
        }
        shared.stop_signal
    };
    let signal = group.unwrap_or(SIGTRAP);
    let (code, info) = if task.trace.options().contains(Options::SEIZED) {
        let code = signal as i32 | (Event::Stop as i32) << 8;
        (code, Some(details(task, signal, code)))
    } else {
        (signal as i32, None)
    };
    stop(
        task,
        Notice {
            code,
            info,
            message: 0,
            group: true,
            exit: false,
        },
    );
}

/// The running thread is traced and its process is stopping: it will [`trap`]. Both locks are held. Returns
/// whether it listened (`PTRACE_LISTEN`): its stop is over, and the caller wakes it.
pub fn notify(task: &Task, own: &mut signal::TaskSignals, anew: bool) -> bool {
    if task.killed.load(core::sync::atomic::Ordering::Relaxed) {
        return false;
    }
    let mut state = task.trace.state.lock();
    if anew {
        state.trap_notify = true;
    } else {
        state.trap_stop = true;
    }
    own.besides.insert(Besides::TRAP);
    task.info.work.set(ThreadFlags::SIGPENDING);
    match &mut state.stop {
        Some(stop) if stop.listening => {
            stop.over.get_or_insert(0);
            true
        }
        _ => false,
    }
}

/// `task`, which is traced, is being killed: its stop ends. Its process's signals are locked.
pub fn kills(task: &Task) {
    let mut state = task.trace.state.lock();
    (state.trap_stop, state.trap_notify) = (false, false);
    if let Some(stop) = &mut state.stop {
        stop.over.get_or_insert(0);
    }
}

fn stop_for(task: &CurrentTask, code: i32, message: usize, exit: bool) -> i32 {
    let ended = stop(
        task,
        Notice {
            code,
            info: Some(details(task, SIGTRAP, code)),
            message,
            group: false,
            exit,
        },
    );
    match ended {
        Ended::NotBegun => 0,
        Ended::Signal(signal, _) => signal,
    }
}

/// An event of the running thread, for which it stops if its tracer asked for it.
#[cold]
pub fn event(event: Event, message: usize) {
    let task = current();
    let asked = Options::from_bits_retain(1 << event as u32);
    if task.trace.options().contains(asked) {
        let code = SIGTRAP as i32 | (event as i32) << 8;
        stop_for(&task, code, message, event == Event::Exit);
    }
}

/// The running thread, whose number was `old`, begins a program, whose registers are `frame`.
#[cold]
pub fn exec(frame: &mut Frame, old: i32) {
    black_box(&mut *frame);
    let task = current();
    let options = task.trace.options();
    if options.contains(Options::EXEC) {
        let seen = match task.trace.tracer() {
            Some(tracer) if old == task.tgid() => task.process.number_in(tracer.pid_ns()),
            Some(tracer) => task.first_number_in(old, tracer.pid_ns()),
            None => old,
        };
        event(Event::Exec, seen as usize);
    } else if options.contains(Options::TRACED) && !options.contains(Options::SEIZED) {
        let info = SigInfo::user(SIGTRAP, task.process.own_tgid, task.creds().uid);
        signal::send_to_task(&task, SIGTRAP, info);
    }
    black_box(frame);
}

/// A stop at the entry or the exit of a system call, with the registers `frame`.
fn call(task: &CurrentTask, frame: &mut Frame, message: usize) {
    let options = task.trace.options();
    if !options.contains(Options::TRACED) {
        return;
    }
    let good = if options.contains(Options::SYSGOOD) {
        0x80
    } else {
        0
    };
    let kept = regset::begin_stop(frame, message == CALL_EXIT);
    // The tracer changes it meanwhile.
    black_box(&mut *frame);
    let wanted = stop_for(task, SIGTRAP as i32 | good, message, false);
    black_box(&mut *frame);
    regset::end_stop(frame, kept);
    if let Ok(Some(signal)) = signal::parse_signal(wanted) {
        signal::send_to_task(task, signal, SigInfo::kernel(signal));
    }
}

/// The stop before a system call. Returns whether the call may go on.
#[cold]
pub fn call_enter(frame: &mut Frame) -> bool {
    let task = current();
    call(&task, frame, CALL_ENTRY);
    regset::changed_at_entry(frame);
    !task.fatal_signal_pending()
}

/// The stop behind a system call; `step`: a single step over it instead.
#[cold]
pub fn call_exit(frame: &mut Frame, step: bool) {
    if step && !left_step(frame) {
        signal::force(
            SIGTRAP,
            match regset::STEP_OVER_CALL {
                Some(code) => SigInfo::fault(SIGTRAP, code, frame.ip()),
                None => SigInfo::user(SIGTRAP, 0, 0),
            },
        );
    } else if !step {
        call(&current(), frame, CALL_EXIT);
    }
}

/// The running thread is about to enter a handler: whether it is stepped. The handler's frame does not say
/// so.
pub fn before_handler(task: &CurrentTask, frame: &mut Frame) -> bool {
    let steps = task.trace.take_step();
    if steps {
        with_current_context(|context| regset::stepping(frame, context, None));
    }
    steps && task.trace.is_traced()
}

/// It is stepped and has entered a handler: the step is done.
#[cold]
pub fn handler_entered(task: &CurrentTask, frame: &mut Frame) {
    black_box(&mut *frame);
    stop_for(task, SIGTRAP as i32, 0, false);
    black_box(frame);
}

/// A seccomp filter wants the tracer to decide about the call in `frame`. Returns whether it goes on: `None`,
/// there is no tracer that asked for that.
#[cold]
pub fn seccomp(frame: &mut Frame, data: u16) -> Option<bool> {
    let task = current();
    if !task.trace.options().contains(Options::SECCOMP) {
        return None;
    }
    regset::begin_filter_stop(frame);
    black_box(&mut *frame);
    event(Event::Seccomp, data.into());
    black_box(&mut *frame);
    regset::end_filter_stop(frame);
    Some(!task.fatal_signal_pending() && frame.syscall_number() >= 0)
}

/// How a tracee goes on.
pub(super) fn go_on(
    task: &Arc<Task>,
    signal: i32,
    set: SyscallWork,
    clear: SyscallWork,
) -> Result<(), Errno> {
    let shared = task.process.signals.lock();
    let mut state = task.trace.state.lock_under(&shared);
    let stop = state.stopped().ok_or(Errno::ESRCH)?;
    stop.over = Some(signal);
    task.info.work.clear_syscall_work(clear);
    task.info.work.set_syscall_work(set);
    drop((state, shared));
    sched::wake_task(task, TaskState::TRACED);
    Ok(())
}

/// A tracee goes on with `signal`, and with these bits of system call work, out of all that are a tracer's.
/// `ESRCH`: it is not stopped.
pub fn resume(task: &Arc<Task>, signal: i32, work: SyscallWork) -> Result<(), Errno> {
    let all = SyscallWork::TRACE
        .union(SyscallWork::EMU)
        .union(SyscallWork::EXIT_TRAP);
    go_on(task, signal, work, all.difference(work))
}

/// `PTRACE_INTERRUPT`: a tracee that was seized is to stop.
pub fn interrupt(task: &Arc<Task>) {
    let listening = {
        let shared = task.process.signals.lock();
        if !task.trace.is_traced() {
            return;
        }
        let mut own = task.signals.lock_under(&shared);
        notify(task, &mut own, false)
    };
    if listening {
        sched::wake_task(task, TaskState::TRACED);
    } else {
        signal::wake(task, false);
    }
}

/// `PTRACE_LISTEN`: a tracee that was seized stays in its stop, and stops anew when its process continues.
/// `EIO`: it is in no such stop; `ESRCH`.
pub fn listen(task: &Arc<Task>) -> Result<(), Errno> {
    let anew = {
        let shared = task.process.signals.lock();
        let mut state = task.trace.state.lock_under(&shared);
        let anew = state.trap_notify;
        let stop = state.stopped().ok_or(Errno::ESRCH)?;
        let of_event = |info: &SigInfo| info.code() >> 8 == Event::Stop as i32;
        if !stop.info.as_ref().is_some_and(of_event) {
            return Err(Errno::EIO);
        }
        stop.listening = true;
        if anew {
            stop.over = Some(0);
        }
        anew
    };
    if anew {
        sched::wake_task(task, TaskState::TRACED);
    }
    Ok(())
}
