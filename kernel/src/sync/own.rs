//! [`OwnSlot`]: a counted object a thread holds, which the thread itself reaches without a lock and others see through one.
//! `task` keeps descriptors, directories and credentials in such slots; `sched::CurrentTask` is who may use the owner's side.

use super::SpinLock;
use alloc::sync::Arc;
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicPtr, Ordering, fence};

/// A thread's handle of a `T`. Anybody may ask for a count of it; only the thread itself (or whoever makes it) replaces it.
pub struct OwnSlot<T> {
    shared: SpinLock<Option<Arc<T>>>,
    /// The same, for the owner.
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
    /// Replaces it; returns the old one, to be dropped by the caller.
    pub fn replace(&self, value: Option<Arc<T>>) -> Option<Arc<T>> {
        let mut shared = self.shared.lock();
        self.raw.store(pointer(&value), Ordering::Relaxed);
        core::mem::replace(&mut *shared, value)
    }
    /// The owner's view, without the lock: a counted reference.
    ///
    /// # Safety
    /// The running thread owns the slot.
    #[inline(always)]
    pub unsafe fn own(&self) -> Option<Arc<T>> {
        // SAFETY: the caller's promise.
        unsafe { self.view() }.map(|value| Arc::clone(&value))
    }
    /// The owner's look at what a lock inside the object protects, without taking it if the object is only the owner's ([`Self::sole`]). `look`
    /// is short and takes no lock. `None` if the slot is empty.
    ///
    /// # Safety
    /// The running thread owns the slot.
    #[inline(always)]
    pub unsafe fn look<L, R>(
        &self,
        lock: impl for<'a> FnOnce(&'a T) -> &'a SpinLock<L>,
        look: impl FnOnce(&L) -> R,
    ) -> Option<R> {
        // SAFETY: the caller's promise; `look` replaces nothing.
        let Some(value) = (unsafe { self.sole() }) else {
            return self.look_shared(lock, look);
        };
        // SAFETY: only the running thread could change it, and it does not: `look` takes no lock.
        Some(look(unsafe { lock(value).peek() }))
    }
    /// [`Self::look`] where others hold a count, too: by itself, or its callers would be made of it mostly.
    #[inline(never)]
    fn look_shared<L, R>(
        &self,
        lock: impl for<'a> FnOnce(&'a T) -> &'a SpinLock<L>,
        look: impl FnOnce(&L) -> R,
    ) -> Option<R> {
        self.get().map(|value| look(&lock(&value).lock()))
    }
    /// The owner's view of an object of which nobody else holds a count: whoever gets one while the view lives can only look, since sharing the
    /// object for more is up to the owner, who is here. (Or waits until the view is over: `sched::settle`.) `None` if the slot is
    /// empty or others hold one, too.
    ///
    /// # Safety
    /// The running thread owns the slot, and does not replace its contents while the view lives.
    #[inline(always)]
    pub unsafe fn sole(&self) -> Option<&T> {
        let raw = self.raw.load(Ordering::Relaxed);
        // SAFETY: the slot holds a count of what `raw` points to, and the caller promises that it stays; it is not taken over.
        let value = (!raw.is_null()).then(|| ManuallyDrop::new(unsafe { Arc::from_raw(raw) }))?;
        if Arc::strong_count(&value) != 1 {
            return None;
        }
        // What the last other holder wrote came before it gave its count back.
        fence(Ordering::Acquire);
        // SAFETY: as above.
        Some(unsafe { &*raw })
    }
    /// The object, not counted.
    ///
    /// # Safety
    /// The running thread owns the slot, and does not replace its contents while the view lives.
    #[inline(always)]
    unsafe fn view(&self) -> Option<ManuallyDrop<Arc<T>>> {
        let raw = self.raw.load(Ordering::Relaxed);
        // SAFETY: the slot holds a count of what `raw` points to, and the caller promises that it stays; it is not taken over.
        (!raw.is_null()).then(|| ManuallyDrop::new(unsafe { Arc::from_raw(raw) }))
    }
}
