//! The running thread.

use crate::arch::smp;
use crate::task::Task;
use alloc::sync::Arc;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;

/// The running thread, without touching its count. Not to be sent anywhere.
pub struct CurrentTask {
    task: ManuallyDrop<Arc<Task>>,
    _local: PhantomData<*const ()>,
}

/// The running thread. Valid once `sched::init` has run.
#[inline(always)]
pub fn current() -> CurrentTask {
    // SAFETY: every running thread is a `Task` in an `Arc` (`info` is its first field) and owns a count of itself until it has been
    // switched away from for the last time; the count is not taken over, because the handle is never dropped.
    let task = ManuallyDrop::new(unsafe { Arc::from_raw(smp::current().cast::<Task>()) });
    CurrentTask {
        task,
        _local: PhantomData,
    }
}

impl Deref for CurrentTask {
    type Target = Arc<Task>;
    #[inline(always)]
    fn deref(&self) -> &Arc<Task> {
        &self.task
    }
}
