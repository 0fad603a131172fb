//! ptrace, the tracer's side: what a tracer asks of its tracees. The system call comes here; stops and links
//! are `task::ptrace`'s.
//!
//! Nearly all requests are for a tracee in a stop. Each looks at that itself, in one step with what it does:
//! a tracee that is killed leaves its stop at any time. Registers are its frame and its context, used while
//! it is off its CPU and cannot be woken (`sched::inspect`). What a request does not know is `EIO`.

#![forbid(unsafe_code)]

mod calls;
mod filters;
mod memory;
pub mod narrow;
mod regs;
mod signals;

use crate::arch::register_set::Step;
use crate::arch::regset::REQUESTS;
use crate::mm::user::UserPtr;
use crate::sched::{TaskState, inspect};
use crate::signal::{self, SIGKILL, SigInfo, parse_signal};
use crate::task::pid::find_task_here;
use crate::task::ptrace::{self as tracing, Options};
use crate::task::{Task, audit, current};
use alloc::sync::Arc;
use limen_entry::SyscallWork;
use limen_linux_abi::{Errno, SysResult};

const TRACEME: isize = 0;
const PEEKTEXT: isize = 1;
const PEEKDATA: isize = 2;
const PEEKUSR: isize = 3;
const POKETEXT: isize = 4;
const POKEDATA: isize = 5;
const POKEUSR: isize = 6;
const CONT: isize = 7;
const KILL: isize = 8;
const SINGLESTEP: isize = 9;
const ATTACH: isize = 16;
const DETACH: isize = 17;
const SYSCALL: isize = 24;
const SETOPTIONS: isize = 0x4200;
const GETEVENTMSG: isize = 0x4201;
const GETSIGINFO: isize = 0x4202;
const SETSIGINFO: isize = 0x4203;
const GETREGSET: isize = 0x4204;
const SETREGSET: isize = 0x4205;
const SEIZE: isize = 0x4206;
const INTERRUPT: isize = 0x4207;
const LISTEN: isize = 0x4208;
const PEEKSIGINFO: isize = 0x4209;
const GETSIGMASK: isize = 0x420a;
const SETSIGMASK: isize = 0x420b;
const SECCOMP_GET_FILTER: isize = 0x420c;
const SECCOMP_GET_METADATA: isize = 0x420d;
const GET_SYSCALL_INFO: isize = 0x420e;
const GET_RSEQ_CONFIGURATION: isize = 0x420f;
const SET_DISPATCH: isize = 0x4210;
const GET_DISPATCH: isize = 0x4211;
const SET_SYSCALL_INFO: isize = 0x4212;

/// The options in `data`. `unknown`: the error for those that there are not.
fn options(data: usize, unknown: Errno) -> Result<Options, Errno> {
    if data & !(Options::SETTABLE.bits() as usize) != 0 {
        return Err(unknown);
    }
    let options = Options::from_bits_retain(data as u32);
    if options.contains(Options::SUSPEND_SECCOMP) {
        filters::may_suspend()?;
    }
    Ok(options)
}

/// `ptrace`. May sleep.
pub fn ptrace(request: isize, pid: i32, addr: usize, data: usize) -> SysResult {
    ptrace_by(request, pid, addr, data, of_stopped)
}

/// The same, with what does requests to a tracee that is in a stop.
#[inline(always)]
fn ptrace_by(
    request: isize,
    pid: i32,
    addr: usize,
    data: usize,
    of_stopped: impl FnOnce(isize, &Arc<Task>, usize, usize) -> SysResult,
) -> SysResult {
    if request == TRACEME {
        tracing::traceme()?;
        return Ok(0);
    }
    let task = find_task_here(pid).ok_or(Errno::ESRCH)?;
    if matches!(request, ATTACH | SEIZE) && audit::wants_details() {
        audit::details::target(&task);
    }
    match request {
        ATTACH => tracing::attach(&task, Options::TRACED)?,
        SEIZE => {
            if addr != 0 {
                return Err(Errno::EIO);
            }
            let options = options(data, Errno::EIO)?;
            tracing::attach(&task, options.union(Options::TRACED | Options::SEIZED))?;
        }
        _ => {
            if !tracing::is_tracer(&task) {
                return Err(Errno::ESRCH);
            }
            return of_tracee(request, &task, addr, data, of_stopped);
        }
    }
    Ok(0)
}

/// A request to one's own tracee.
#[inline(always)]
fn of_tracee(
    request: isize,
    task: &Arc<Task>,
    addr: usize,
    data: usize,
    of_stopped: impl FnOnce(isize, &Arc<Task>, usize, usize) -> SysResult,
) -> SysResult {
    match request {
        KILL => {
            // Not forced: the first process is not killed.
            let tracer = crate::task::current();
            let info = SigInfo::user(SIGKILL, tracer.process.own_tgid, tracer.creds().uid);
            signal::send_to_task(task, SIGKILL, info);
        }
        INTERRUPT => {
            // Not for the state that it is in, but still only if it was seized.
            if !task.trace.options().contains(Options::SEIZED) {
                return Err(Errno::EIO);
            }
            tracing::interrupt(task);
        }
        _ => {
            settle(task)?;
            return of_stopped(request, task, addr, data);
        }
    }
    Ok(0)
}

/// Waits until a tracee that is in a stop is off its CPU. `ESRCH`: it is in none, or listens, or the caller
/// is killed.
fn settle(task: &Arc<Task>) -> Result<(), Errno> {
    while task.trace.state().stopped().is_some() && !current().fatal_signal_pending() {
        if inspect::wait_off_cpu(task, TaskState::TRACED) {
            return Ok(());
        }
        // It has just been woken, and looks whether it is to go on.
        inspect::pause();
    }
    Err(Errno::ESRCH)
}

fn of_stopped(request: isize, task: &Arc<Task>, addr: usize, data: usize) -> SysResult {
    match request {
        PEEKTEXT | PEEKDATA => memory::peek(task, addr, data),
        POKETEXT | POKEDATA => memory::poke(task, addr, data),
        PEEKUSR => regs::peek(task, addr, data),
        POKEUSR => regs::poke(task, addr, data),
        GETREGSET | SETREGSET => regs::set_in_vector(task, addr, data, request == SETREGSET),
        CONT | SYSCALL | SINGLESTEP => resume(request, task, data),
        DETACH => detach(task, data),
        SETOPTIONS => {
            task.trace.set_options(options(data, Errno::EINVAL)?);
            Ok(0)
        }
        GETEVENTMSG => {
            let message = task.trace.state().message;
            UserPtr::new(data).write(message)?;
            Ok(0)
        }
        LISTEN => {
            if !task.trace.options().contains(Options::SEIZED) {
                return Err(Errno::EIO);
            }
            tracing::listen(task)?;
            Ok(0)
        }
        GETSIGINFO => signals::details(task, data),
        SETSIGINFO => signals::set_details(task, data),
        PEEKSIGINFO => signals::peek(task, addr, data),
        GETSIGMASK => signals::mask(task, addr, data),
        SETSIGMASK => signals::set_mask(task, addr, data),
        SECCOMP_GET_FILTER => filters::program(task, addr, data),
        SECCOMP_GET_METADATA => filters::metadata(task, addr, data),
        GET_SYSCALL_INFO => calls::info(task, addr, data),
        SET_SYSCALL_INFO => calls::set_info(task, addr, data),
        GET_RSEQ_CONFIGURATION => calls::rseq(task, addr, data),
        GET_DISPATCH => calls::dispatch(task, addr, data),
        SET_DISPATCH => calls::set_dispatch(task, addr, data),
        _ => of_architecture(request, task, addr, data),
    }
}

/// Requests whose numbers depend on the architecture.
fn of_architecture(request: isize, task: &Arc<Task>, addr: usize, data: usize) -> SysResult {
    let Ok(number) = i32::try_from(request) else {
        return Err(Errno::EIO);
    };
    if REQUESTS.sysemu.contains(&number) || REQUESTS.block_step == Some(number) {
        return resume(request, task, data);
    }
    if number > 0
        && let Some(copies) = REQUESTS
            .sets
            .iter()
            .find(|copies| [copies.get, copies.set].contains(&number))
    {
        return regs::beginning(task, copies, data, copies.set == number);
    }
    if let Some(words) = &REQUESTS.words
        && [words.get, words.set].contains(&number)
    {
        let place = (words.set_and_place)(addr as isize);
        return regs::numbered_word(task, place, data, number == words.set);
    }
    if let Some((_, asked)) = REQUESTS.bases.filter(|(own, _)| *own == number) {
        let (write, base) = asked(data as i32).ok_or(Errno::EINVAL)?;
        return regs::segment_base(task, base, addr, write);
    }
    if let Some(areas) = &REQUESTS.areas
        && [areas.get, areas.set].contains(&number)
    {
        return regs::area(task, areas, addr, data, number == areas.set);
    }
    if REQUESTS.set_syscall == Some(number) {
        return calls::set_number(task, data);
    }
    Err(Errno::EIO)
}

/// A signal for a tracee that goes on. `EIO`: there is no such signal.
fn signal_to_deliver(data: usize) -> Result<i32, Errno> {
    let number = i32::try_from(data).map_err(|_| Errno::EIO)?;
    parse_signal(number).map_err(|_| Errno::EIO)?;
    Ok(number)
}

fn resume(request: isize, task: &Arc<Task>, data: usize) -> SysResult {
    let signal = signal_to_deliver(data)?;
    let [emulate, emulate_step] = REQUESTS.sysemu.map(|number| number as isize);
    let blocks = REQUESTS
        .block_step
        .is_some_and(|number| number as isize == request);
    let work = match request {
        _ if blocks => SyscallWork::EXIT_TRAP,
        SYSCALL => SyscallWork::TRACE,
        SINGLESTEP => SyscallWork::EXIT_TRAP,
        _ if request == emulate => SyscallWork::EMU,
        _ if request == emulate_step => SyscallWork::EMU.union(SyscallWork::EXIT_TRAP),
        _ => SyscallWork::empty(),
    };
    let step = if blocks { Step::Block } else { Step::Instruction };
    regs::step(task, work.contains(SyscallWork::EXIT_TRAP).then_some(step))?;
    tracing::resume(task, signal, work)?;
    Ok(0)
}

fn detach(task: &Arc<Task>, data: usize) -> SysResult {
    let signal = signal_to_deliver(data)?;
    regs::step(task, None)?;
    tracing::detach(task, signal)?;
    Ok(0)
}
