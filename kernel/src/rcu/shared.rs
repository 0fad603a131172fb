//! Counted objects that readers find without counting ([`Shared`]), and the places where they find them:
//! [`Slot`]s, and [`Held`] references and [`HeldSlot`]s in objects that are themselves found so.

use super::Reader;
use super::callbacks::{Link, call};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};

/// More references than this are a leak: the count must never wrap.
const MOST: usize = usize::MAX / 2;

/// What [`Shared`] needs of its value.
pub trait Retire: Send + Sync + Sized + 'static {
    /// The last reference is gone. Readers may still see the value; it is dropped after a grace period, in a
    /// thread of the kernel. Runs in the context in which the last reference was dropped.
    fn retire(&self, _: &Retiring) {}
    /// Readers may find the value from now on: calls [`Held::seen`] of each reference that they follow from
    /// there. Called before that, once or several times.
    fn seen(&self) {}
}

/// Shows that the last reference to an object is gone: only those who read can still see it.
pub struct Retiring(());

/// `link` comes first, so that its address is the object's.
#[repr(C)]
struct Object<T> {
    link: Link,
    count: AtomicUsize,
    /// How many [`Weak`] references there are, and one for all counted ones.
    weak: AtomicU32,
    /// Whether it ever was where readers find it. If not, it is freed with its last reference.
    seen: AtomicBool,
    value: ManuallyDrop<T>,
}

impl<T: Retire> Object<T> {
    /// Readers may find it from now on.
    #[inline]
    fn mark(&self) {
        if !self.seen.load(Ordering::Relaxed) {
            self.value.seen();
            // Whoever drops the last reference sees this: the caller has one, and drops it later.
            self.seen.store(true, Ordering::Relaxed);
        }
    }
    /// One more reference, unless the last one is gone.
    #[inline]
    fn count_one(&self) -> bool {
        let mut now = self.count.load(Ordering::Relaxed);
        while now != 0 {
            assert!(now < MOST, "too many references");
            match self
                .count
                .compare_exchange_weak(now, now + 1, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(other) => now = other,
            }
        }
        false
    }
}

/// A counted reference to a value. If readers ever could find the value, it is dropped a grace period after
/// the last reference, else with it.
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
    #[inline]
    pub fn new(value: T) -> Self {
        let object = Box::new(Object {
            link: Link::new(),
            count: AtomicUsize::new(1),
            weak: AtomicU32::new(1),
            seen: AtomicBool::new(false),
            value: ManuallyDrop::new(value),
        });
        Self::owning(NonNull::from(Box::leak(object)))
    }

    /// The first reference to `value`. `None`: there is no memory for it.
    pub fn try_new(value: T) -> Option<Self> {
        let mut room = Vec::new();
        room.try_reserve_exact(1).ok()?;
        room.push(Object {
            link: Link::new(),
            count: AtomicUsize::new(1),
            weak: AtomicU32::new(1),
            seen: AtomicBool::new(false),
            value: ManuallyDrop::new(value),
        });
        let one: Box<[Object<T>]> = room.into_boxed_slice();
        // A slice of one lies as the element does, so this is what a `Box` of it would have been.
        Some(Self::owning(NonNull::from(Box::leak(one)).cast()))
    }

    /// The first reference to a value that readers find in another way than by a [`Slot`].
    pub fn seen(value: T) -> Self {
        let this = Self::new(value);
        this.object().mark();
        this
    }

    /// Takes over a counted reference.
    #[inline(always)]
    fn owning(object: NonNull<Object<T>>) -> Self {
        Self {
            object,
            _owns: PhantomData,
        }
    }

    #[inline(always)]
    fn object(&self) -> &Object<T> {
        // SAFETY: the object lives as long as it is counted.
        unsafe { self.object.as_ref() }
    }

    /// Gives the counted reference away as a pointer.
    fn into_raw(self) -> *mut Object<T> {
        ManuallyDrop::new(self).object.as_ptr()
    }

    /// Whether both are the same object (as `Arc::ptr_eq`).
    #[inline(always)]
    pub fn ptr_eq(one: &Self, other: &Self) -> bool {
        one.object == other.object
    }

    /// The address of the value.
    #[inline(always)]
    pub fn address(this: &Self) -> usize {
        core::ptr::from_ref(&**this).addr()
    }

    /// How many counted references there are at this moment, with any that was counted before the caller's
    /// last write that all CPUs see in order.
    pub fn references(this: &Self) -> usize {
        fence(Ordering::SeqCst);
        this.object().count.load(Ordering::SeqCst)
    }

    /// A reference that does not keep the value.
    pub fn downgrade(this: &Self) -> Weak<T> {
        let before = this.object().weak.fetch_add(1, Ordering::Relaxed);
        assert!(before < u32::MAX / 2, "too many references");
        Weak(this.object)
    }

    /// For readers: what the caller's reference leads to.
    #[inline(always)]
    pub fn found<'r>(this: &'r Self, _: &'r Reader) -> Found<'r, T> {
        Found(this.object())
    }

    /// Drops a reference. If it was the last one, the value can be emptied before it is retired: with a long
    /// chain of values that refer to each other, dropping them would recurse.
    pub fn release(this: Self) -> Option<Last<T>> {
        let object = ManuallyDrop::new(this).object;
        // SAFETY: the reference is counted until here.
        if unsafe { object.as_ref() }.count.fetch_sub(1, Ordering::Release) != 1 {
            return None;
        }
        fence(Ordering::Acquire);
        Some(Last(object))
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
    #[inline(always)]
    fn clone(&self) -> Self {
        let before = self.object().count.fetch_add(1, Ordering::Relaxed);
        // Also found: a reference that was given up ([`Held`]), whose count may be 0.
        if before.wrapping_sub(1) >= MOST {
            wrong_count();
        }
        Self::owning(self.object)
    }
}

#[cold]
#[inline(never)]
fn wrong_count() -> ! {
    panic!("too many references, or one that was given up");
}

impl<T: Retire> Drop for Shared<T> {
    #[inline(always)]
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
    drop(Last(object));
}

/// A value whose last reference is gone, and which is retired when this is dropped.
pub struct Last<T: Retire>(NonNull<Object<T>>);

impl<T: Retire> Deref for Last<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: nobody frees the object before it is retired.
        unsafe { &self.0.as_ref().value }
    }
}

impl<T: Retire> Drop for Last<T> {
    fn drop(&mut self) {
        self.retire(&Retiring(()));
        let link = self.0.as_ptr().cast::<Link>();
        // SAFETY: nobody counts the object any more, and nobody can begin to; only this thread ends it. If
        // readers may see the value, it is dropped by `free` later, else nobody can have it.
        unsafe {
            if self.0.as_ref().seen.load(Ordering::Relaxed) {
                call(link, free::<T>);
            } else {
                free::<T>(link);
            }
        }
    }
}

/// Nobody can see the value any more.
///
/// # Safety
/// `link` is that of an `Object<T>` that has been retired, and nobody reads the value.
unsafe fn free<T: Retire>(link: *mut Link) {
    let object = link.cast::<Object<T>>();
    // SAFETY: as the caller promises; the value is dropped once.
    unsafe {
        ManuallyDrop::drop(&mut (*object).value);
        free_memory(NonNull::new_unchecked(object));
    }
}

/// One [`Weak`] reference less, or what all counted ones had: the last frees the memory.
///
/// # Safety
/// The caller had it.
unsafe fn free_memory<T>(object: NonNull<Object<T>>) {
    // SAFETY: the object came from a `Box`, whose value has been dropped when nothing else is left.
    unsafe {
        let weak = &object.as_ref().weak;
        if weak.load(Ordering::Acquire) == 1 || weak.fetch_sub(1, Ordering::AcqRel) == 1 {
            drop(Box::from_raw(object.as_ptr()));
        }
    }
}

/// A reference that does not keep the value.
pub struct Weak<T: Retire>(NonNull<Object<T>>);

// SAFETY: as for `Shared`.
unsafe impl<T: Retire> Send for Weak<T> {}
// SAFETY: as for `Shared`.
unsafe impl<T: Retire> Sync for Weak<T> {}

impl<T: Retire> Weak<T> {
    /// A counted reference. `None`: the last one is gone.
    pub fn upgrade(&self) -> Option<Shared<T>> {
        // SAFETY: the reference keeps the memory. The value is looked at only if it is counted.
        let counted = unsafe { (*self.0.as_ptr()).count_one() };
        counted.then(|| Shared::owning(self.0))
    }
}

impl<T: Retire> Drop for Weak<T> {
    fn drop(&mut self) {
        // SAFETY: this was a reference.
        unsafe { free_memory(self.0) }
    }
}

/// A value that a reader has found, without counting it.
pub struct Found<'r, T: Retire>(&'r Object<T>);

impl<T: Retire> Clone for Found<'_, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: Retire> Copy for Found<'_, T> {}

impl<'r, T: Retire> Found<'r, T> {
    /// The value.
    #[inline(always)]
    pub fn value(self) -> &'r T {
        &self.0.value
    }
    /// A counted reference. `None`: the last one is gone.
    #[inline(always)]
    pub fn get(self) -> Option<Shared<T>> {
        self.0.count_one().then(|| Shared::owning(NonNull::from(self.0)))
    }
    /// Whether both are the same value.
    #[inline(always)]
    pub fn is(self, other: Found<'_, T>) -> bool {
        ptr::eq(self.0, other.0)
    }
}

/// A counted reference that is part of an object. When that object is retired, this is given up at once, so
/// that what it leads to may be retired, too; readers who found the object before still follow it.
pub struct Held<T: Retire> {
    reference: ManuallyDrop<Shared<T>>,
    given_up: AtomicBool,
}

impl<T: Retire> Held<T> {
    /// Holds `reference`.
    #[inline]
    pub fn new(reference: Shared<T>) -> Self {
        Self {
            reference: ManuallyDrop::new(reference),
            given_up: AtomicBool::new(false),
        }
    }
    /// The object that this is part of is being retired. From here on it is for readers only, with
    /// [`Held::found`].
    pub fn give_up(&self, _: &Retiring) {
        if !self.given_up.swap(true, Ordering::Relaxed) {
            // SAFETY: the reference is dropped once. What it leads to is freed a grace period later if
            // readers may follow it, and they found the object before that.
            drop(unsafe { ptr::read(&*self.reference) });
        }
    }
    /// Readers find the object that this is part of, and follow this.
    pub fn seen(&self) {
        self.reference.object().mark();
    }
    /// For a reader who found the object that this is part of: what it leads to.
    #[inline(always)]
    pub fn found<'r>(&'r self, _: &'r Reader) -> Found<'r, T> {
        super::must_read();
        Found(self.reference.object())
    }
}

impl<T: Retire> Deref for Held<T> {
    type Target = Shared<T>;
    #[inline(always)]
    fn deref(&self) -> &Shared<T> {
        &self.reference
    }
}

impl<T: Retire> Drop for Held<T> {
    fn drop(&mut self) {
        if !*self.given_up.get_mut() {
            // SAFETY: it is dropped once.
            unsafe { ManuallyDrop::drop(&mut self.reference) };
        }
    }
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

    /// Holds `first`.
    #[inline]
    pub fn new(first: Shared<T>) -> Self {
        first.object().mark();
        Self {
            object: AtomicPtr::new(first.into_raw()),
            _owns: PhantomData,
        }
    }

    /// What it holds, as long as the caller reads.
    #[inline(always)]
    pub fn load<'r>(&self, reader: &'r Reader) -> Option<&'r T> {
        self.found(reader).map(Found::value)
    }

    /// What it holds, to be counted perhaps.
    #[inline(always)]
    pub fn found<'r>(&self, _: &'r Reader) -> Option<Found<'r, T>> {
        super::must_read();
        let object = self.object.load(Ordering::Acquire);
        // SAFETY: the slot's reference kept the object alive when it was found. It is freed a grace period
        // after the last reference, and the caller began to read before that one was dropped.
        unsafe { object.as_ref() }.map(Found)
    }

    /// A counted reference to what it holds.
    #[inline]
    pub fn get(&self, reader: &Reader) -> Option<Shared<T>> {
        loop {
            if let Some(counted) = self.found(reader)?.get() {
                return Some(counted);
            }
            // The last reference is gone, so the slot holds something else by now.
        }
    }

    /// Puts another reference there, or none, and returns the former one. The new value is complete for
    /// readers who find it.
    #[inline]
    pub fn replace(&self, new: Option<Shared<T>>) -> Option<Shared<T>> {
        if let Some(new) = &new {
            new.object().mark();
        }
        let new = new.map_or(ptr::null_mut(), Shared::into_raw);
        NonNull::new(self.object.swap(new, Ordering::AcqRel)).map(Shared::owning)
    }
}

impl<T: Retire> Drop for Slot<T> {
    fn drop(&mut self) {
        if let Some(object) = NonNull::new(*self.object.get_mut()) {
            drop(Shared::owning(object));
        }
    }
}

/// A [`Slot`] that is part of an object which readers find. When that object is retired, its reference is
/// given up at once, as [`Held`] does: objects that were taken out of a list one after the other would else
/// be freed only one in each grace period.
pub struct HeldSlot<T: Retire> {
    slot: Slot<T>,
    given_up: AtomicBool,
}

impl<T: Retire> HeldSlot<T> {
    /// Holds nothing.
    pub const fn empty() -> Self {
        Self {
            slot: Slot::empty(),
            given_up: AtomicBool::new(false),
        }
    }
    /// The object that this is part of is being retired. From here on it is for readers only, who found the
    /// object before, with [`Slot::load`]; nobody changes it.
    pub fn give_up(&self, _: &Retiring) {
        if !self.given_up.swap(true, Ordering::Relaxed)
            && let Some(object) = NonNull::new(self.slot.object.load(Ordering::Acquire))
        {
            // What it leads to is freed a grace period later, as it was found in a slot, and who follows
            // this began to read before.
            drop(Shared::owning(object));
        }
    }
}

impl<T: Retire> Deref for HeldSlot<T> {
    type Target = Slot<T>;
    #[inline(always)]
    fn deref(&self) -> &Slot<T> {
        &self.slot
    }
}

impl<T: Retire> Drop for HeldSlot<T> {
    fn drop(&mut self) {
        if *self.given_up.get_mut() {
            // The reference is not this one's any more.
            *self.slot.object.get_mut() = ptr::null_mut();
        }
    }
}
