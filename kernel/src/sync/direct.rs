//! [`DirectArc`]: a reference to a `dyn` object that points at the object itself.

use alloc::sync::Arc;
use core::ops::Deref;
use core::ptr::NonNull;

/// An `Arc` for an object whose methods are called often and which is rarely cloned. An `Arc<dyn Trait>`
/// points at the counts in front of the object, and each call first computes from the alignment in the vtable
/// where the object begins. This one points at the object.
pub struct DirectArc<T: ?Sized>(NonNull<T>);

// SAFETY: it is an `Arc<T>`, kept as the pointer from `Arc::into_raw`. An `Arc` of such a `T` is `Send` and
// `Sync`.
unsafe impl<T: ?Sized + Send + Sync> Send for DirectArc<T> {}
// SAFETY: as for `Send`.
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
        // SAFETY: this handle's reference keeps the object alive, and only shared references to it exist.
        unsafe { self.0.as_ref() }
    }
}

impl<T: ?Sized> Drop for DirectArc<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `Arc::into_raw`, and its reference is dropped here, once.
        drop(unsafe { Arc::from_raw(self.0.as_ptr()) });
    }
}
