//! [`DirectArc`]: a count of a `dyn` object that points at the object itself.

use alloc::sync::Arc;
use core::ops::Deref;
use core::ptr::NonNull;

/// An `Arc` for what is called often and copied seldom. `Arc<dyn Trait>` points at the counts in front of the object, and every call first works
/// out from the alignment in the vtable where the object begins; this one knows.
pub struct DirectArc<T: ?Sized>(NonNull<T>);

// SAFETY: it is an `Arc<T>`, kept as what `Arc::into_raw` gave; that is `Send` and `Sync` for such a `T`.
unsafe impl<T: ?Sized + Send + Sync> Send for DirectArc<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send + Sync> Sync for DirectArc<T> {}

impl<T: ?Sized> From<Arc<T>> for DirectArc<T> {
    fn from(counted: Arc<T>) -> Self {
        // SAFETY: an `Arc`'s object has an address.
        Self(unsafe { NonNull::new_unchecked(Arc::into_raw(counted).cast_mut()) })
    }
}

impl<T: ?Sized> Deref for DirectArc<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the count this handle owns keeps the object, which is only shared.
        unsafe { self.0.as_ref() }
    }
}

impl<T: ?Sized> Drop for DirectArc<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `Arc::into_raw`, and its count is given back here, once.
        drop(unsafe { Arc::from_raw(self.0.as_ptr()) });
    }
}
