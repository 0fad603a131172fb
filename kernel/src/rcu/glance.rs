//! Glances: readers that are so short that writers spin until they have ended (`limen_rcu::Glances`), and the
//! places at which they look ([`Shown`]). For tables whose objects come and go more often than they are
//! looked up, so that a grace period for each of them would cost more than looking without one saves: if
//! nobody reads at that moment, what is taken out is dropped at once.

use super::{Reader, read};
use crate::arch::smp;
use crate::sync::{MAX_CPUS, without_preemption};
use alloc::sync::Arc;
use core::marker::PhantomData;
use core::mem;
use core::ops::Deref;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use limen_rcu::{Atomics, Glances, Native};

/// A CPU's word, on a line that only this CPU writes.
#[repr(align(64))]
struct Line(Glances<Native>);

static CPUS: [Line; MAX_CPUS] = [const { Line(Glances::new()) }; MAX_CPUS];

/// A short reader. While it exists, what it finds in a [`Shown`] is not dropped: whoever takes it out spins.
/// So it must not take locks, nor wait, nor drop what a `Shown` had. It is a [`Reader`], too.
#[must_use]
pub struct Glance {
    inner: Option<limen_rcu::Glance>,
    reader: Reader,
}

/// Begins to look. In any context but an NMI handler, and idle.
#[inline(always)]
pub fn glance() -> Glance {
    let reader = read();
    Glance {
        inner: Some(CPUS[smp::cpu_id()].0.enter()),
        reader,
    }
}

impl Deref for Glance {
    type Target = Reader;
    #[inline(always)]
    fn deref(&self) -> &Reader {
        &self.reader
    }
}

impl Drop for Glance {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            CPUS[smp::cpu_id()].0.leave(inner);
        }
    }
}

/// Waits until all glances have ended that may have found what was just taken out. With one CPU there is
/// none: a glance is never preempted. (The caller's own, which is a mistake, is found.)
#[inline(always)]
fn wait() {
    if smp::count() > 1 || CPUS[0].0.reads().is_some() {
        wait_for_all();
    }
}

#[inline(never)]
fn wait_for_all() {
    Native::fence();
    for (n, cpu) in CPUS.iter().enumerate().take(smp::count()) {
        if let Some(seen) = cpu.0.reads() {
            spin(n, seen);
        }
    }
}

/// Waits until CPU `n` has ended the glance `seen`.
#[cold]
#[inline(never)]
fn spin(n: usize, seen: usize) {
    let cpu = &CPUS[n].0;
    while !cpu.has_ended(seen) {
        let own = without_preemption(|| smp::cpu_id() == n && !cpu.has_ended(seen));
        assert!(!own, "a glance waits for itself");
        crate::arch::irq::spin_hint();
    }
}

/// A place that holds one counted reference or none, and at which everybody looks without a lock.
pub struct Shown<T> {
    object: AtomicPtr<T>,
    _owns: PhantomData<Arc<T>>,
}

/// What a [`Shown`] had until now. Dropping it waits for the glances that see it; not in a glance, and not
/// with interrupts off.
#[must_use]
pub struct Former<T>(Option<Arc<T>>);

fn raw<T>(object: Option<Arc<T>>) -> *mut T {
    object.map_or(ptr::null_mut(), |object| Arc::into_raw(object).cast_mut())
}

impl<T> Shown<T> {
    /// Holds nothing.
    pub const fn empty() -> Self {
        Self {
            object: AtomicPtr::new(ptr::null_mut()),
            _owns: PhantomData,
        }
    }

    /// Holds this.
    #[inline(always)]
    pub fn new(object: Option<Arc<T>>) -> Self {
        Self {
            object: AtomicPtr::new(raw(object)),
            _owns: PhantomData,
        }
    }

    /// Whether it holds nothing.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.object.load(Ordering::Relaxed).is_null()
    }

    /// What it holds, as long as the caller looks.
    #[inline(always)]
    pub fn look<'g>(&'g self, _: &'g Glance) -> Option<&'g T> {
        // SAFETY: the reference that the place had when the object was found is dropped after `wait`, which
        // waits for the caller's glance: the glance began before, or it would not have found the object.
        unsafe { self.object.load(Ordering::Acquire).as_ref() }
    }

    /// A counted reference to what it holds.
    #[inline(always)]
    pub fn get(&self, glance: &Glance) -> Option<Arc<T>> {
        // SAFETY: the place's reference, of which `look` speaks, came from `Arc::into_raw`.
        self.look(glance).map(|object| unsafe { counted(object) })
    }

    /// Puts a reference there if it holds none. Two threads must not do that at the same time: one of the
    /// objects would never be dropped. The object is complete for those who find it.
    #[inline(always)]
    pub fn show(&self, object: Arc<T>) {
        if self.is_empty() {
            self.object.store(raw(Some(object)), Ordering::Release);
        }
    }

    /// Puts another reference there, or none, and returns the former one. The new object is complete for
    /// those who find it.
    #[inline(always)]
    pub fn replace(&self, new: Option<Arc<T>>) -> Former<T> {
        let old = self.object.swap(raw(new), Ordering::AcqRel);
        // SAFETY: the place had a counted reference, which `Former` takes over.
        Former((!old.is_null()).then(|| unsafe { Arc::from_raw(old) }))
    }

    /// What it holds, for the thread that replaces it, which needs no glance.
    ///
    /// # Safety
    /// Only the running thread replaces it, and does not do so while the reference lives.
    #[inline(always)]
    pub unsafe fn own(&self) -> Option<&T> {
        // SAFETY: the place has a counted reference, and the caller promises that it stays.
        unsafe { self.object.load(Ordering::Relaxed).as_ref() }
    }

    /// What it holds, where others replace it, too, but never make it go away.
    ///
    /// # Safety
    /// Whatever takes the object's place while the reference lives holds the object, and nothing takes that
    /// one's place but what holds it in turn.
    #[inline(always)]
    pub unsafe fn kept(&self) -> Option<&T> {
        // SAFETY: the place has a counted reference to the object, or to one that holds it.
        unsafe { self.object.load(Ordering::Acquire).as_ref() }
    }

    /// [`Self::own`], counted.
    ///
    /// # Safety
    /// Only the running thread replaces it.
    #[inline(always)]
    pub unsafe fn own_counted(&self) -> Option<Arc<T>> {
        // SAFETY: the caller's promise; the place's reference came from `Arc::into_raw`.
        unsafe { self.own().map(|object| counted(object)) }
    }
}

/// One more reference to an object.
///
/// # Safety
/// It is in an `Arc`, and there is a counted reference that lives on meanwhile.
#[inline(always)]
unsafe fn counted<T>(object: &T) -> Arc<T> {
    // SAFETY: the caller's promise.
    unsafe {
        Arc::increment_strong_count(object);
        Arc::from_raw(object)
    }
}

impl<T> Former<T> {
    /// There was nothing.
    pub const fn nothing() -> Self {
        Self(None)
    }
}

impl<T> Drop for Shown<T> {
    fn drop(&mut self) {
        let object = *self.object.get_mut();
        if !object.is_null() {
            // SAFETY: the place has a counted reference. Nobody looks at a place that is dropped; what it
            // showed before was waited for.
            drop(unsafe { Arc::from_raw(object) });
        }
    }
}

impl<T> Drop for Former<T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0.is_some() {
            wait();
            drop(mem::take(&mut self.0));
        }
    }
}
