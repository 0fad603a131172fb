//! [`OwnSlot`]: a counted object that a thread holds. The thread itself uses it without a lock; other threads
//! get a counted reference under a lock.
//!
//! `task` keeps descriptors, directories and credentials in such slots. The owner's side is used only through
//! `sched::CurrentTask`.

use super::SpinLock;
use alloc::sync::Arc;
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicPtr, Ordering, fence};

/// A thread's reference to a `T`. Any thread may ask for a counted reference. Only the owner (or the thread
/// that makes the owner) replaces it.
pub struct OwnSlot<T> {
    shared: SpinLock<Option<Arc<T>>>,
    /// The same object, for the owner.
    raw: AtomicPtr<T>,
}

fn pointer<T>(value: &Option<Arc<T>>) -> *mut T {
    value
        .as_ref()
        .map_or(core::ptr::null_mut(), |v| Arc::as_ptr(v).cast_mut())
}

impl<T> OwnSlot<T> {
    /// For a new thread.
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub fn new(value: Option<Arc<T>>) -> Self {
        Self {
            raw: AtomicPtr::new(pointer(&value)),
            shared: SpinLock::new(value),
        }
    }
    /// A counted reference.
    pub fn get(&self) -> Option<Arc<T>> {
        self.shared.lock().clone()
    }
    /// Whether it is `value`.
    pub fn holds(&self, value: &Arc<T>) -> bool {
        self.shared.lock().as_ref().is_some_and(|v| Arc::ptr_eq(v, value))
    }
    /// Replaces the object and returns the old one, which the caller drops.
    pub fn replace(&self, value: Option<Arc<T>>) -> Option<Arc<T>> {
        let mut shared = self.shared.lock();
        self.raw.store(pointer(&value), Ordering::Relaxed);
        core::mem::replace(&mut *shared, value)
    }
    /// A counted reference for the owner, without the lock.
    ///
    /// # Safety
    /// The running thread owns the slot.
    #[inline(always)]
    pub unsafe fn own(&self) -> Option<Arc<T>> {
        // SAFETY: the caller's promise.
        unsafe { self.view() }.map(|value| Arc::clone(&value))
    }
    /// The object, for the owner, and whether nobody else holds a reference to it. If so, a thread that gets
    /// one while the view lives can only read through it: for more the object would have to be shared, which
    /// only its owner does, and the owner is here. `None`: the slot is empty.
    ///
    /// # Safety
    /// The running thread owns the slot, and does not replace its contents while the view lives.
    #[inline(always)]
    pub unsafe fn own_and_sole(&self) -> Option<(&T, bool)> {
        let raw = self.raw.load(Ordering::Relaxed);
        // SAFETY: the slot holds a reference to what `raw` points to, and the caller promises that it stays.
        // This handle does not own the reference.
        let value = (!raw.is_null()).then(|| ManuallyDrop::new(unsafe { Arc::from_raw(raw) }))?;
        let sole = Arc::strong_count(&value) == 1;
        if sole {
            // Other holders wrote before they dropped their references: these writes must be visible now.
            fence(Ordering::Acquire);
        }
        // SAFETY: as for `value` above.
        Some((unsafe { &*raw }, sole))
    }
    /// The object, for the owner, if nobody else holds a reference to it. `None`: the slot is empty, or
    /// others hold a reference.
    ///
    /// # Safety
    /// As for [`Self::own_and_sole`].
    #[inline(always)]
    pub unsafe fn sole(&self) -> Option<&T> {
        // SAFETY: the caller's promise.
        match unsafe { self.own_and_sole() } {
            Some((value, true)) => Some(value),
            _ => None,
        }
    }
    /// The object, without a reference counted.
    ///
    /// # Safety
    /// The running thread owns the slot, and does not replace its contents while the view lives.
    #[inline(always)]
    pub unsafe fn own_ref(&self) -> Option<&T> {
        // SAFETY: the slot holds a reference to the object, and the caller promises that it stays.
        unsafe { self.raw.load(Ordering::Relaxed).as_ref() }
    }
    /// [`Self::own_ref`] as an `Arc` that is not to be dropped.
    ///
    /// # Safety
    /// As for [`Self::own_ref`].
    #[inline(always)]
    unsafe fn view(&self) -> Option<ManuallyDrop<Arc<T>>> {
        let raw = self.raw.load(Ordering::Relaxed);
        // SAFETY: the slot holds a reference to what `raw` points to, and the caller promises that it stays.
        // This handle does not own the reference.
        (!raw.is_null()).then(|| ManuallyDrop::new(unsafe { Arc::from_raw(raw) }))
    }
}
