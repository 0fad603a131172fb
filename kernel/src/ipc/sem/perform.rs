//! Doing operations, all of a call or none.

use super::{LARGEST, Operations, SEM_UNDO, State, Waiting};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;
use limen_linux_abi::Errno;
use limen_linux_abi::abi::ipc::Sembuf;

/// Why operations were not done.
pub(super) enum Failure {
    /// The operation at this place has to wait.
    Blocks(usize),
    /// They never can be.
    Error(Errno),
}

impl State {
    /// The operations that wait, of those that change something or of the others.
    pub(super) fn queue(&mut self, changes: bool) -> &mut VecDeque<Arc<Waiting>> {
        if changes {
            &mut self.changing
        } else {
            &mut self.for_zero
        }
    }

    /// Does all operations, or none.
    pub(super) fn perform(&mut self, operations: &Operations) -> Result<(), Failure> {
        let list = &operations.list;
        for (at, op) in list.iter().enumerate() {
            if let Err(failure) = self.one(at, op, operations) {
                for op in list[..at].iter().rev() {
                    self.take_back(op, operations);
                }
                return Err(failure);
            }
        }
        for op in list {
            self.semaphores[usize::from(op.sem_num)]
                .pid
                .clone_from(&operations.pid);
        }
        Ok(())
    }

    fn one(&mut self, at: usize, op: &Sembuf, operations: &Operations) -> Result<(), Failure> {
        let semaphore = &mut self.semaphores[usize::from(op.sem_num)];
        let value = semaphore.value + i32::from(op.sem_op);
        if op.sem_op == 0 && value != 0 || value < 0 {
            return Err(Failure::Blocks(at));
        }
        if value > LARGEST {
            return Err(Failure::Error(Errno::ERANGE));
        }
        if op.sem_flg & SEM_UNDO != 0
            && let Some(undo) = &operations.undo
        {
            undo.adjust(usize::from(op.sem_num), -i32::from(op.sem_op))
                .map_err(Failure::Error)?;
        }
        semaphore.value = value;
        Ok(())
    }

    fn take_back(&mut self, op: &Sembuf, operations: &Operations) {
        self.semaphores[usize::from(op.sem_num)].value -= i32::from(op.sem_op);
        if op.sem_flg & SEM_UNDO != 0
            && let Some(undo) = &operations.undo
        {
            undo.take_back(usize::from(op.sem_num), -i32::from(op.sem_op));
        }
    }

    /// Does what has become possible since `changed` was done.
    pub(super) fn go_on(&mut self, changed: &[Sembuf]) {
        if changed
            .iter()
            .any(|op| self.semaphores[usize::from(op.sem_num)].value == 0)
        {
            self.wake_for_zero();
        }
        self.wake_changing();
    }

    /// Does what has become possible since any semaphores were set.
    pub(super) fn go_on_all(&mut self) {
        self.wake_for_zero();
        self.wake_changing();
    }

    /// Whether `waiting` is over, which is told then.
    fn tries(&mut self, waiting: &Waiting) -> bool {
        let result = match self.perform(&waiting.operations) {
            Ok(()) => Ok(()),
            Err(Failure::Error(errno)) => Err(errno),
            Err(Failure::Blocks(at)) if waiting.operations.list[at].sem_flg & super::NOWAIT != 0 => {
                Err(Errno::EAGAIN)
            }
            Err(Failure::Blocks(at)) => {
                waiting.blocks.store(at, Relaxed);
                return false;
            }
        };
        if result.is_ok() {
            self.otime = super::now();
        }
        waiting.ends(result);
        true
    }

    /// Wakes those that wait for zeros only.
    fn wake_for_zero(&mut self) {
        let mut at = 0;
        while let Some(waiting) = self.for_zero.get(at).cloned() {
            if self.tries(&waiting) {
                self.for_zero.remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// Does the first of the changing operations that can be done, until none can.
    fn wake_changing(&mut self) {
        let mut at = 0;
        while let Some(waiting) = self.changing.get(at).cloned() {
            if !self.tries(&waiting) {
                at += 1;
                continue;
            }
            self.changing.remove(at);
            if waiting.result() == Some(Ok(0)) {
                let zero = |op: &Sembuf| self.semaphores[usize::from(op.sem_num)].value == 0;
                if waiting.operations.list.iter().any(zero) {
                    self.wake_for_zero();
                }
                // Those before it may be possible now.
                at = 0;
            }
        }
    }

    /// The set is removed: all that wait are told.
    pub(super) fn end_all(&mut self) {
        for waiting in self.for_zero.drain(..).chain(self.changing.drain(..)) {
            waiting.ends(Err(Errno::EIDRM));
        }
    }

    /// How many threads wait at semaphore `number`: for zero, or for a larger value.
    pub(super) fn waiters(&self, number: usize, zero: bool) -> usize {
        let waits = |waiting: &&Arc<Waiting>| {
            let op = &waiting.operations.list[waiting.blocks.load(Relaxed)];
            usize::from(op.sem_num) == number && if zero { op.sem_op == 0 } else { op.sem_op < 0 }
        };
        self.for_zero.iter().chain(&self.changing).filter(waits).count()
    }
}
