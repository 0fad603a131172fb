//! Counted objects that readers find without counting ([`Shared`]), and the places where they find them
//! ([`Slot`]).

use super::Reader;
use super::callbacks::{Link, call};
use alloc::boxed::Box;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};

/// More references than this are a leak: the count must never wrap.
const MOST: usize = usize::MAX / 2;

/// What [`Shared`] needs of its value.
pub trait Retire: Send + Sync + 'static {
    /// The last reference is gone. Readers may still see the value; it is dropped after a grace period, in a
    /// thread of the kernel. Runs in the context in which the last reference was dropped.
    fn retire(&self) {}
}

/// `link` comes first, so that its address is the object's.
#[repr(C)]
struct Object<T> {
    link: Link,
    count: AtomicUsize,
    value: T,
}

/// A counted reference to a value that is dropped a grace period after the last reference.
pub struct Shared<T: Retire> {
    object: NonNull<Object<T>>,
    _owns: PhantomData<T>,
}

// SAFETY: like an `Arc`; the value is dropped in another thread, and `T` is `Send` and `Sync`.
unsafe impl<T: Retire> Send for Shared<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Retire> Sync for Shared<T> {}

impl<T: Retire> Shared<T> {
    /// The first reference to `value`.
    pub fn new(value: T) -> Self {
        let object = Box::new(Object {
            link: Link::new(),
            count: AtomicUsize::new(1),
            value,
        });
        Self::owning(NonNull::from(Box::leak(object)))
    }

    /// Takes over a counted reference.
    fn owning(object: NonNull<Object<T>>) -> Self {
        Self {
            object,
            _owns: PhantomData,
        }
    }

    fn object(&self) -> &Object<T> {
        // SAFETY: the object lives as long as it is counted.
        unsafe { self.object.as_ref() }
    }

    /// Gives the counted reference away as a pointer.
    fn into_raw(self) -> *mut Object<T> {
        core::mem::ManuallyDrop::new(self).object.as_ptr()
    }

    /// Whether both are the same object.
    pub fn is(&self, other: &Self) -> bool {
        self.object == other.object
    }
}

impl<T: Retire> Deref for Shared<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.object().value
    }
}

impl<T: Retire> Clone for Shared<T> {
    #[inline]
    fn clone(&self) -> Self {
        let before = self.object().count.fetch_add(1, Ordering::Relaxed);
        assert!(before < MOST, "too many references");
        Self::owning(self.object)
    }
}

impl<T: Retire> Drop for Shared<T> {
    #[inline]
    fn drop(&mut self) {
        if self.object().count.fetch_sub(1, Ordering::Release) == 1 {
            last(self.object);
        }
    }
}

/// The last reference is gone.
#[cold]
#[inline(never)]
fn last<T: Retire>(object: NonNull<Object<T>>) {
    fence(Ordering::Acquire);
    // SAFETY: nobody counts the object any more, and nobody can begin to; only this thread ends it. The value
    // is dropped by `free`, later.
    unsafe {
        object.as_ref().value.retire();
        call(object.as_ptr().cast::<Link>(), free::<T>);
    }
}

/// The grace period after the last reference is over.
///
/// # Safety
/// `link` is that of an `Object<T>` which nobody can find any more.
unsafe fn free<T>(link: *mut Link) {
    // SAFETY: the object came from a `Box`, and its link is its first field.
    drop(unsafe { Box::from_raw(link.cast::<Object<T>>()) });
}

/// A place that holds one reference or none, which readers look at without a lock. Writers change it under a
/// lock of their own.
pub struct Slot<T: Retire> {
    object: AtomicPtr<Object<T>>,
    _owns: PhantomData<Shared<T>>,
}

impl<T: Retire> Slot<T> {
    /// Holds nothing.
    pub const fn empty() -> Self {
        Self {
            object: AtomicPtr::new(ptr::null_mut()),
            _owns: PhantomData,
        }
    }

    /// What it holds, as long as the caller reads.
    #[inline(always)]
    pub fn load<'r>(&self, _: &'r Reader) -> Option<&'r T> {
        super::must_read();
        let object = self.object.load(Ordering::Acquire);
        // SAFETY: the slot's reference kept the object alive when it was found. It is freed a grace period
        // after the last reference, and the caller began to read before that one was dropped.
        unsafe { object.as_ref() }.map(|object| &object.value)
    }

    /// A counted reference to what it holds.
    #[inline]
    pub fn get(&self, _: &Reader) -> Option<Shared<T>> {
        super::must_read();
        loop {
            let object = NonNull::new(self.object.load(Ordering::Acquire))?;
            // SAFETY: as in `load`.
            let count = unsafe { &object.as_ref().count };
            let mut now = count.load(Ordering::Relaxed);
            while now != 0 {
                assert!(now < MOST, "too many references");
                match count.compare_exchange_weak(now, now + 1, Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => return Some(Shared::owning(object)),
                    Err(other) => now = other,
                }
            }
            // The last reference is gone, so the slot holds something else by now.
        }
    }

    /// Puts another reference there, or none, and returns the former one. The new value is complete for
    /// readers who find it.
    #[inline]
    pub fn replace(&self, new: Option<Shared<T>>) -> Option<Shared<T>> {
        let new = new.map_or(ptr::null_mut(), Shared::into_raw);
        NonNull::new(self.object.swap(new, Ordering::AcqRel)).map(Shared::owning)
    }
}

impl<T: Retire> Drop for Slot<T> {
    fn drop(&mut self) {
        self.replace(None);
    }
}
