//! Where a task keeps its address space, and how the running thread uses its own without counting a
//! reference.

use super::space::AddressSpace;
use crate::sync::IrqSpinLock;
use alloc::sync::Arc;
use core::marker::PhantomData;
use core::ops::Deref;
use core::sync::atomic::{AtomicPtr, Ordering};

/// A task's address space. Others get a counted reference. Only the task itself, or the thread that makes it,
/// replaces it.
pub struct MmSlot {
    /// An interrupt-safe lock: the scheduler takes it under a run queue's lock, which interrupt handlers
    /// take, too.
    owned: IrqSpinLock<Option<Arc<AddressSpace>>>,
    /// The same address space, for the task itself.
    raw: AtomicPtr<AddressSpace>,
}

fn pointer(mm: &Option<Arc<AddressSpace>>) -> *mut AddressSpace {
    mm.as_ref()
        .map_or(core::ptr::null_mut(), |mm| Arc::as_ptr(mm).cast_mut())
}

impl MmSlot {
    /// For a new task.
    pub fn new(mm: Option<Arc<AddressSpace>>) -> Self {
        if let Some(mm) = &mm {
            mm.users.fetch_add(1, Ordering::Relaxed);
        }
        Self {
            raw: AtomicPtr::new(pointer(&mm)),
            owned: IrqSpinLock::new(mm),
        }
    }
    /// A counted reference.
    pub fn get(&self) -> Option<Arc<AddressSpace>> {
        self.owned.lock().clone()
    }
    /// Replaces it and returns the old one. If no other task has the old one, its pages are freed at once,
    /// even if a CPU still has it loaded. May sleep.
    pub fn replace(&self, mm: Option<Arc<AddressSpace>>) -> Option<Arc<AddressSpace>> {
        if let Some(mm) = &mm {
            mm.users.fetch_add(1, Ordering::Relaxed);
        }
        let mut owned = self.owned.lock();
        self.raw.store(pointer(&mm), Ordering::Relaxed);
        let old = core::mem::replace(&mut *owned, mm);
        drop(owned);
        if let Some(old) = &old
            && old.users.fetch_sub(1, Ordering::AcqRel) == 1
        {
            old.release_pages();
        }
        old
    }
    /// The address space, not counted. For the thread itself, and for the scheduler about a thread that does
    /// not run: only the thread replaces it, and until then the slot holds a reference.
    #[inline(always)]
    pub(crate) fn peek(&self) -> Option<&AddressSpace> {
        // SAFETY: the slot holds a reference to what `raw` points to, until one of the callers above replaces
        // it.
        unsafe { self.raw.load(Ordering::Relaxed).as_ref() }
    }
}

impl Drop for MmSlot {
    fn drop(&mut self) {
        if self.owned.get_mut().is_some() {
            drop(self.replace(None));
        }
    }
}

/// The running thread's address space, not counted. Must not be used after exec or exit.
pub struct CurrentSpace {
    space: &'static AddressSpace,
    _local: PhantomData<*const ()>,
}

impl Deref for CurrentSpace {
    type Target = AddressSpace;
    #[inline(always)]
    fn deref(&self) -> &AddressSpace {
        self.space
    }
}

/// The running thread's address space; `None` for kernel threads.
#[inline(always)]
pub fn current_space() -> Option<CurrentSpace> {
    let task = crate::sched::current();
    // SAFETY: the running thread's slot holds a reference to what `raw` points to, and only the thread itself
    // replaces it.
    let space = unsafe { task.mm_slot().raw.load(Ordering::Relaxed).as_ref() }?;
    Some(CurrentSpace {
        space,
        _local: PhantomData,
    })
}
