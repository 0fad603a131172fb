//! `SEM_UNDO`: what a thread's end adds to semaphores. Threads share it with `CLONE_SYSVSEM`; the last one's
//! end does it.

use super::{LARGEST, Set};
use crate::ipc::{now, tgid};
use crate::mm::reserve;
use crate::sync::{Mutex, SpinLock};
use crate::task::adjustments::{self, Shared};
use crate::task::current;
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// Adjustments of one set. Its lock comes after the set's.
pub(super) struct Undo(SpinLock<Vec<i16>>);

impl Undo {
    /// Adds to the adjustment of semaphore `number`. `ERANGE`: it would become too large.
    pub(super) fn adjust(&self, number: usize, by: i32) -> Result<(), Errno> {
        let adjustment = &mut self.0.lock()[number];
        let new = i32::from(*adjustment) + by;
        *adjustment = i16::try_from(new).map_err(|_| Errno::ERANGE)?;
        Ok(())
    }
    /// Takes back what [`Undo::adjust`] has added.
    pub(super) fn take_back(&self, number: usize, by: i32) {
        let adjustment = &mut self.0.lock()[number];
        *adjustment = (i32::from(*adjustment) - by) as i16;
    }
    /// Forgets the adjustment of one semaphore, or of all.
    pub(super) fn forget(&self, number: Option<usize>) {
        let mut adjustments = self.0.lock();
        match number {
            Some(number) => adjustments[number] = 0,
            None => adjustments.fill(0),
        }
    }
}

/// All adjustments of a thread, and of those that share them. Dropped with the last of these.
#[derive(Default)]
struct Adjustments(Mutex<Vec<(Arc<Set>, Arc<Undo>)>>);

/// For a thread that has none yet.
pub fn new_adjustments() -> Shared {
    Arc::new(Adjustments::default())
}

/// Where the running thread's operations on `set` note what is to be undone. `EIDRM`, `ENOMEM`.
pub(super) fn of(set: &Arc<Set>) -> Result<Arc<Undo>, Errno> {
    let task = current();
    let own = adjustments::get_or_make(&task).ok_or(Errno::ENOMEM)?;
    let adjustments = own.downcast::<Adjustments>().map_err(|_| Errno::ENOMEM)?;
    let mut list = adjustments.0.lock();
    if let Some((_, undo)) = list.iter().find(|(other, _)| Arc::ptr_eq(other, set)) {
        return Ok(undo.clone());
    }
    // Those of sets that were removed.
    list.retain(|(set, _)| !set.state.lock().perm.gone);
    reserve::room(&mut *list, 1)?;
    let mut values = Vec::new();
    reserve::room_exact(&mut values, set.count)?;
    values.resize(set.count, 0);
    let undo = Arc::new(Undo(SpinLock::new(values)));
    {
        let mut state = reserve::room_behind(|| set.state.lock(), |state| &mut state.undos, 1)?;
        if state.perm.gone {
            return Err(Errno::EIDRM);
        }
        state.undos.push(undo.clone());
    }
    list.push((set.clone(), undo.clone()));
    Ok(undo)
}

impl Drop for Adjustments {
    fn drop(&mut self) {
        let all = core::mem::take(&mut *self.0.lock());
        for (set, undo) in all {
            let mut state = set.state.lock();
            if state.perm.gone {
                continue;
            }
            state.undos.retain(|other| !Arc::ptr_eq(other, &undo));
            for (semaphore, &by) in state.semaphores.iter_mut().zip(&*undo.0.lock()) {
                if by != 0 {
                    semaphore.value = (semaphore.value + i32::from(by)).clamp(0, LARGEST);
                    semaphore.pid = tgid();
                }
            }
            state.otime = now();
            state.go_on_all();
        }
    }
}
