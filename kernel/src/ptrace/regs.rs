//! A tracee's registers, and its single steps.

use crate::arch::frame::Frame;
use crate::arch::register_set::{Areas, Base, Copies, RegisterSet, Step, VaryingSet};
use crate::arch::regset::{self, SETS, VARYING};
use crate::arch::switch::Context;
use crate::mm::copy::zeroed;
use crate::mm::user::{UserPtr, read_bytes, write_bytes};
use crate::sched::{TaskState, inspect};
use crate::task::Task;
use alloc::sync::Arc;
use limen_entry::ThreadFlags;
use limen_linux_abi::{Errno, SysResult};

/// Runs `f` with the registers of a tracee in a stop. `ESRCH`: it is in none any more.
pub fn with<R>(task: &Arc<Task>, f: impl FnOnce(&mut Frame, &mut Context) -> R) -> Result<R, Errno> {
    let mut f = Some(f);
    loop {
        super::settle(task)?;
        let result = inspect::with_registers(task, TaskState::TRACED, |frame, context| {
            let f = f.take()?;
            if task.trace.take_step() {
                // The trap flag was the tracer's, and is not the program's.
                regset::stepping(frame, context, None);
            }
            let result = f(frame, context);
            if context.debug.is_used() {
                task.info.work.set(ThreadFlags::DEBUG);
            }
            Some(result)
        });
        if let Some(Some(result)) = result {
            return Ok(result);
        }
        // It was woken in between. It may have looked whether it is to go on, and have stayed in its stop.
    }
}

/// The tracee is to trap after its next instruction or branch, or not. `EIO`: the processor cannot do that.
pub fn step(task: &Arc<Task>, step: Option<Step>) -> Result<(), Errno> {
    with(task, |frame, context| {
        if step.is_none() {
            return Ok(());
        }
        let was = regset::stepping(frame, context, step).ok_or(Errno::EIO)?;
        task.trace.set_step(!was);
        if regset::STEPS_BY_SOFTWARE {
            // The tracee begins the step itself.
            task.info.work.set(ThreadFlags::NOTIFY_RESUME);
        }
        Ok(())
    })?
}

/// The set with the number `note`, which has a size. `EINVAL`; the architecture's error for one that it knows
/// and threads never have.
fn find(note: usize) -> Result<&'static RegisterSet, Errno> {
    let mut sets = SETS.iter();
    let set = sets.find(|set| note != 0 && set.note as usize == note && (set.size)() != 0);
    set.ok_or_else(|| {
        let never = regset::NEVER.iter().find(|(notes, _)| notes.contains(&note));
        never.map_or(Errno::EINVAL, |(_, errno)| *errno)
    })
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

/// Copies at most `len` bytes of a set whose size is the thread's to or from the address `at`. Returns how
/// many that would be of the largest.
fn copy_varying(task: &Arc<Task>, set: &VaryingSet, at: usize, len: usize, write: bool) -> SysResult {
    let most = (set.most)();
    let len = len.min(most);
    if write {
        let mut bytes = zeroed(len)?;
        read_bytes(&mut bytes, at)?;
        let mut room = (set.room)(&bytes)?;
        with(task, |_, context| (set.set)(context, &bytes, &mut room))??;
    } else {
        let mut bytes = zeroed(most)?;
        let has = with(task, |_, context| {
            let has = (set.len)(context).min(most);
            (set.get)(context, &mut bytes[..has]);
            has
        })?;
        write_bytes(at, &bytes[..len.min(has)])?;
    }
    Ok(len)
}

/// `PTRACE_GETREGSET` and `PTRACE_SETREGSET`: the set's number, and where the vector is.
pub fn set_in_vector(task: &Arc<Task>, note: usize, vector: usize, write: bool) -> SysResult {
    let place = UserPtr::<[usize; 2]>::new(vector);
    let [base, len] = place.read()?;
    let varying = |set: &&VaryingSet| set.note as usize == note && (set.most)() != 0;
    if let Some(set) = VARYING.iter().find(varying) {
        if !len.is_multiple_of(set.unit) {
            return Err(Errno::EINVAL);
        }
        let done = copy_varying(task, set, base, len, write)?;
        place.write([base, done])?;
        return Ok(0);
    }
    let set = find(note)?;
    if !len.is_multiple_of(4) {
        return Err(Errno::EINVAL);
    }
    let done = copy(task, set, base, len, write)?;
    place.write([base, done])?;
    Ok(0)
}

/// Requests that copy the beginning of a set, to or from the address `at`.
pub fn beginning(task: &Arc<Task>, copies: &Copies, at: usize, write: bool) -> SysResult {
    let set = SETS.get(copies.of).ok_or(Errno::EIO)?;
    copy(task, set, at, copies.len, write)?;
    Ok(0)
}

/// The part `number` of a set, copied to or from the address `at`. `EIO`: the number is negative; `EINVAL`.
pub fn area(task: &Arc<Task>, areas: &Areas, number: usize, at: usize, write: bool) -> SysResult {
    if (number as i32) < 0 {
        return Err(Errno::EIO);
    }
    let set = SETS.get(areas.of).ok_or(Errno::EIO)?;
    let mut part = zeroed(areas.len)?;
    if write {
        read_bytes(&mut part, at)?;
    }
    let begin = (areas.at)(number as i32 as usize)?;
    let mut bytes = zeroed((set.size)())?;
    with(task, |frame, context| {
        (set.get)(frame, context, &mut bytes);
        let Some(own) = bytes.get_mut(begin..begin + areas.len) else {
            return Err(Errno::EINVAL);
        };
        if write {
            own.copy_from_slice(&part);
            return (set.set)(frame, context, &bytes);
        }
        part.copy_from_slice(own);
        Ok(())
    })??;
    if !write {
        write_bytes(at, &part)?;
    }
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
    read_word(task, set, at, to)
}

/// Writes the word at byte `at` of a set to the address `to`.
fn read_word(task: &Arc<Task>, set: &RegisterSet, at: usize, to: usize) -> SysResult {
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
    change_word(task, set, at, word)
}

/// Gives a set another word at byte `at`.
fn change_word(task: &Arc<Task>, set: &RegisterSet, at: usize, word: usize) -> SysResult {
    change_words(task, set, &[(at, word)])
}

/// `PTRACE_ARCH_PRCTL`: reads a segment's base to the address `addr`, or makes it `addr`. `EPERM`: that is no
/// user address.
pub fn segment_base(task: &Arc<Task>, place: Base, addr: usize, write: bool) -> SysResult {
    let set = SETS.first().ok_or(Errno::EIO)?;
    let at = |word: usize| word * size_of::<usize>();
    if !write {
        return read_word(task, set, at(place.base), addr);
    }
    let changed = change_words(task, set, &[(at(place.base), addr), (at(place.selector), 0)]);
    changed.map_err(|e| if e == Errno::EIO { Errno::EPERM } else { e })
}

/// Gives a set other words at these bytes.
fn change_words(task: &Arc<Task>, set: &RegisterSet, words: &[(usize, usize)]) -> SysResult {
    let mut bytes = zeroed((set.size)())?;
    with(task, |frame, context| {
        (set.get)(frame, context, &mut bytes);
        for (at, word) in words {
            if let Some(to) = bytes.get_mut(*at..at + size_of::<usize>()) {
                to.copy_from_slice(&word.to_ne_bytes());
            }
        }
        (set.set)(frame, context, &bytes)
    })??;
    Ok(0)
}

/// Requests for a word that has a number. The data is a pointer to it. `EINVAL`: there is no such word.
pub fn numbered_word(task: &Arc<Task>, place: Option<(usize, usize)>, data: usize, write: bool) -> SysResult {
    let (set, at) = place.ok_or(Errno::EINVAL)?;
    let set = SETS.get(set).ok_or(Errno::EIO)?;
    if write {
        change_word(task, set, at, UserPtr::<usize>::new(data).read()?)
    } else {
        read_word(task, set, at, data)
    }
}
