//! A tracee's memory, word by word.

use crate::mm::AddressSpace;
use crate::mm::user::UserPtr;
use crate::task::{Task, access};
use alloc::sync::Arc;
use limen_linux_abi::{Errno, SysResult};

/// The memory, if the tracer may use it. `EIO`: it may not, or there is none.
fn space(task: &Arc<Task>) -> Result<Arc<AddressSpace>, Errno> {
    let mm = task.mm().ok_or(Errno::EIO)?;
    // What not even its user may read is for tracers that may trace anybody where it was executed.
    if mm.dumpable() || task.trace.may_trace_in(&access::owner(&mm)) {
        Ok(mm)
    } else {
        Err(Errno::EIO)
    }
}

/// `PTRACE_PEEKDATA`: the word at `addr` is written to the address `to`.
pub fn peek(task: &Arc<Task>, addr: usize, to: usize) -> SysResult {
    let mut word = [0; size_of::<usize>()];
    if space(task)?.access_remote(addr, &mut word, false, true) != word.len() {
        return Err(Errno::EIO);
    }
    UserPtr::new(to).write(usize::from_ne_bytes(word))?;
    Ok(0)
}

/// `PTRACE_POKEDATA`: changes the word at `addr`.
pub fn poke(task: &Arc<Task>, addr: usize, word: usize) -> SysResult {
    let mut word = word.to_ne_bytes();
    if space(task)?.access_remote(addr, &mut word, true, true) != word.len() {
        return Err(Errno::EIO);
    }
    Ok(0)
}

/// [`peek`] of a word of 32 bits.
pub fn peek_narrow(task: &Arc<Task>, addr: usize, to: usize) -> SysResult {
    let mut word = [0; 4];
    if space(task)?.access_remote(addr, &mut word, false, true) != word.len() {
        return Err(Errno::EIO);
    }
    UserPtr::new(to).write(word)?;
    Ok(0)
}

/// [`poke`] of a word of 32 bits.
pub fn poke_narrow(task: &Arc<Task>, addr: usize, word: u32) -> SysResult {
    let mut word = word.to_ne_bytes();
    if space(task)?.access_remote(addr, &mut word, true, true) != word.len() {
        return Err(Errno::EIO);
    }
    Ok(0)
}
