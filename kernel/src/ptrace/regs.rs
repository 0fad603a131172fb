//! A tracee's registers, and its single steps.

use crate::arch::frame::Frame;
use crate::arch::register_set::RegisterSet;
use crate::arch::regset::{self, SETS};
use crate::arch::switch::Context;
use crate::mm::copy::zeroed;
use crate::mm::user::{UserPtr, read_bytes, write_bytes};
use crate::sched::{TaskState, inspect};
use crate::task::Task;
use alloc::sync::Arc;
use limen_linux_abi::{Errno, SysResult};

/// Runs `f` with the registers of a tracee in a stop. `ESRCH`: it is in none any more.
pub fn with<R>(task: &Arc<Task>, f: impl FnOnce(&mut Frame, &mut Context) -> R) -> Result<R, Errno> {
    super::settle(task)?;
    inspect::with_registers(task, TaskState::TRACED, |frame, context| {
        if task.trace.take_step() {
            // The trap flag was the tracer's, and is not the program's.
            regset::stepping(frame, context, false);
        }
        f(frame, context)
    })
    .ok_or(Errno::ESRCH)
}

/// The tracee is to trap after its next instruction, or not. Returns whether the processor can do that.
pub fn step(task: &Arc<Task>, on: bool) -> Result<bool, Errno> {
    with(task, |frame, context| {
        if !on {
            return true;
        }
        match regset::stepping(frame, context, true) {
            None => false,
            Some(was) => {
                task.trace.set_step(!was);
                true
            }
        }
    })
}

/// The set with the number `note`, which has a size. `EINVAL`.
fn find(note: usize) -> Result<&'static RegisterSet, Errno> {
    let mut sets = SETS.iter();
    let set = sets.find(|set| note != 0 && set.note as usize == note && (set.size)() != 0);
    set.ok_or(Errno::EINVAL)
}

/// Copies at most `len` bytes of a set to or from the address `at`. Returns how many.
fn copy(task: &Arc<Task>, set: &RegisterSet, at: usize, len: usize, write: bool) -> SysResult {
    let size = (set.size)();
    let len = len.min(size);
    let mut bytes = zeroed(size)?;
    if write && len == size {
        read_bytes(&mut bytes, at)?;
    } else {
        with(task, |frame, context| (set.get)(frame, context, &mut bytes))?;
    }
    if !write {
        write_bytes(at, &bytes[..len])?;
        return Ok(len);
    }
    if len < size {
        read_bytes(&mut bytes[..len], at)?;
    }
    with(task, |frame, context| (set.set)(frame, context, &bytes))??;
    Ok(len)
}

/// `PTRACE_GETREGSET` and `PTRACE_SETREGSET`: the set's number, and where the vector is.
pub fn set_in_vector(task: &Arc<Task>, note: usize, vector: usize, write: bool) -> SysResult {
    let place = UserPtr::<[usize; 2]>::new(vector);
    let [base, len] = place.read()?;
    let set = find(note)?;
    if !len.is_multiple_of(4) {
        return Err(Errno::EINVAL);
    }
    let done = copy(task, set, base, len, write)?;
    place.write([base, done])?;
    Ok(0)
}

/// Requests that copy a whole set, by its place in the list.
pub fn whole_set(task: &Arc<Task>, set: usize, at: usize, write: bool) -> SysResult {
    let set = SETS.get(set).ok_or(Errno::EIO)?;
    copy(task, set, at, usize::MAX, write)?;
    Ok(0)
}

/// A word of the `USER` area: its set and place there. `EIO`: there is no such word.
fn user_word(offset: usize) -> Result<(&'static RegisterSet, usize), Errno> {
    if !offset.is_multiple_of(size_of::<usize>()) {
        return Err(Errno::EIO);
    }
    let (set, at) = regset::user_word(offset).ok_or(Errno::EIO)?;
    Ok((SETS.get(set).ok_or(Errno::EIO)?, at))
}

/// Whether `offset` is that of a word of the `USER` area that is always zero, such as a debug register's.
fn is_zero(offset: usize) -> bool {
    let aligned = offset.is_multiple_of(size_of::<usize>());
    aligned && (0..regset::USER_SIZE).contains(&offset) && regset::user_word(offset).is_none()
}

/// `PTRACE_PEEKUSR`.
pub fn peek(task: &Arc<Task>, offset: usize, to: usize) -> SysResult {
    if is_zero(offset) {
        UserPtr::<usize>::new(to).write(0)?;
        return Ok(0);
    }
    let (set, at) = user_word(offset)?;
    let mut bytes = zeroed((set.size)())?;
    with(task, |frame, context| (set.get)(frame, context, &mut bytes))?;
    let word = crate::arch::register_set::word(&bytes, at / size_of::<usize>());
    UserPtr::new(to).write(word)?;
    Ok(0)
}

/// `PTRACE_POKEUSR`.
pub fn poke(task: &Arc<Task>, offset: usize, word: usize) -> SysResult {
    if is_zero(offset) && word == 0 {
        return Ok(0);
    }
    let (set, at) = user_word(offset)?;
    let mut bytes = zeroed((set.size)())?;
    with(task, |frame, context| {
        (set.get)(frame, context, &mut bytes);
        if let Some(to) = bytes.get_mut(at..at + size_of::<usize>()) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        (set.set)(frame, context, &bytes)
    })??;
    Ok(0)
}
