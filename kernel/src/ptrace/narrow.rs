//! Requests by the call of 32-bit programs: words of 32 bits, and their `siginfo_t`. Registers cannot be
//! asked for by it.

use super::{
    CONT, DETACH, GET_SYSCALL_INFO, GETEVENTMSG, GETSIGINFO, GETSIGMASK, LISTEN, PEEKDATA, PEEKTEXT,
    POKEDATA, POKETEXT, REQUESTS, SET_SYSCALL_INFO, SETOPTIONS, SETSIGINFO, SETSIGMASK, SINGLESTEP, SYSCALL,
    memory, of_stopped, signals,
};
use crate::mm::user::{UserPtr, write_bytes};
use crate::signal::SigInfo;
use crate::task::Task;
use alloc::sync::Arc;
use limen_linux_abi::{Errno, SysResult};

/// As `ptrace`, by the call of 32-bit programs. `EIO`: no such request, or none of those.
pub fn ptrace(request: i32, pid: i32, addr: usize, data: usize) -> SysResult {
    super::ptrace_by(request as isize, pid, addr, data, of_stopped_narrow)
}

/// A request to a tracee that is in a stop.
fn of_stopped_narrow(request: isize, task: &Arc<Task>, addr: usize, data: usize) -> SysResult {
    match request {
        PEEKTEXT | PEEKDATA => memory::peek_narrow(task, addr, data),
        POKETEXT | POKEDATA => memory::poke_narrow(task, addr, data as u32),
        GETEVENTMSG => {
            let message = task.trace.state().message;
            UserPtr::new(data).write(message as u32)?;
            Ok(0)
        }
        GETSIGINFO => {
            write_bytes(data, &signals::of_stop(task)?.narrow_bytes())?;
            Ok(0)
        }
        SETSIGINFO => {
            let sig = UserPtr::<u32>::new(data).read()?;
            signals::set_of_stop(task, SigInfo::read_narrow_from(data, sig)?)
        }
        // These mean the same.
        CONT | SYSCALL | SINGLESTEP | DETACH | SETOPTIONS | LISTEN | GETSIGMASK | SETSIGMASK
        | GET_SYSCALL_INFO | SET_SYSCALL_INFO => of_stopped(request, task, addr, data),
        _ if is_same(request) => of_stopped(request, task, addr, data),
        _ => Err(Errno::EIO),
    }
}

/// Whether a request of the architecture's own means the same.
fn is_same(request: isize) -> bool {
    let Ok(number) = i32::try_from(request) else {
        return false;
    };
    let areas = REQUESTS.areas.as_ref();
    REQUESTS.sysemu.contains(&number) || areas.is_some_and(|areas| [areas.get, areas.set].contains(&number))
}
