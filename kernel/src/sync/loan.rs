//! Loans: threads use objects that a table holds without counting them, even if they share the table.
//!
//! A [`Lender`] is the table: numbered places, each with a counted object or none. Whoever changes places
//! locks it. Each thread that borrows has a word of its own, in its [`Borrower`]. To borrow, it stores the
//! object there and then looks at the place again. Whoever takes an object out of its place looks at the
//! words of all borrowers afterwards. Of the two, at least one sees what the other has written: the borrower
//! that the place has changed, or the taker that the object is in use. The taker then gives the borrower a
//! counted reference and says so in its word; the borrower drops it when it is done. So the last use of an
//! object ends it, and as long as nothing is taken out, a borrower writes only to its own word.
//!
//! A place knows whether its object was ever lent, in bit 0 of the pointer: taking another one out costs
//! nothing. Only under the lock an object is lent for the first time. A thread that borrows while it has
//! borrowed already counts the first object from then on, and its word is for the second one until that is
//! given back. A thread for which there was no room in the list of borrowers counts always.

use super::{SpinGuard, SpinLock};
use crate::arch::index;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;
use core::ops::{Deref, DerefMut};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// In a place: the object has been lent. In a borrower's word: it is not counted.
const LENT: usize = 1;

/// So many threads borrow from one lender at most; the others count. Who takes an object out looks at the
/// words of all of them, with preemption off.
const MOST: usize = 64;

/// A pointer with [`LENT`].
#[inline(always)]
fn lent<T>(object: *mut T) -> *mut T {
    const { assert!(align_of::<T>() > 2) };
    object.map_addr(|at| at | LENT)
}

/// A pointer from a place, without [`LENT`].
#[inline(always)]
fn plain<T>(found: *mut T) -> *mut T {
    found.map_addr(|at| at & !LENT)
}

/// A place for an object: its address and [`LENT`], or null. Owns a reference to the object.
pub struct Place<T>(AtomicPtr<T>);

impl<T> Place<T> {
    /// Makes `len` empty places in a list that is empty and has room for them.
    pub fn fill(places: &mut Vec<Self>, len: usize) {
        assert!(places.is_empty() && places.capacity() >= len);
        // SAFETY: there is room, and all zeros are a null pointer, which is an empty place.
        unsafe {
            places.as_mut_ptr().write_bytes(0, len);
            places.set_len(len);
        }
    }
    /// Its object.
    #[inline(always)]
    fn object(&self) -> Option<NonNull<T>> {
        NonNull::new(plain(self.0.load(Ordering::Relaxed)))
    }
}

impl<T> Drop for Place<T> {
    fn drop(&mut self) {
        if let Some(object) = self.object() {
            // SAFETY: the pointer came from `Arc::into_raw`, and the place owned its reference.
            drop(unsafe { Arc::from_raw(object.as_ptr()) });
        }
    }
}

/// What the lender's lock protects.
struct Ledger<T, S> {
    places: Vec<Place<T>>,
    /// Places that were replaced by more of them while there were borrowers, who may still look there. They
    /// are empty. Together they are no more than there are places now.
    outgrown: Vec<Vec<Place<T>>>,
    /// The list of borrowers, and its length.
    borrowers: *const Borrower<T>,
    count: usize,
    also: S,
}

// SAFETY: the pointer is to borrowers that stay where they are as long as they are in the list.
unsafe impl<T: Send + Sync, S: Send> Send for Ledger<T, S> {}

/// Numbered places for counted objects, with data `S` under the same lock.
pub struct Lender<T, S> {
    /// The places of the ledger, for borrowers. There are never less.
    places: AtomicPtr<Place<T>>,
    /// How many places there are. Set after `places`.
    len: AtomicUsize,
    ledger: SpinLock<Ledger<T, S>>,
}

impl<T, S> Lender<T, S> {
    /// Without places.
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub fn new(also: S) -> Self {
        Self {
            places: AtomicPtr::new(ptr::null_mut()),
            len: AtomicUsize::new(0),
            ledger: SpinLock::new(Ledger {
                places: Vec::new(),
                outgrown: Vec::new(),
                borrowers: ptr::null(),
                count: 0,
                also,
            }),
        }
    }
    /// Takes the lock.
    #[inline]
    #[cfg_attr(feature = "lockdep", track_caller)]
    pub fn lock(&self) -> LenderGuard<'_, T, S> {
        LenderGuard {
            lender: self,
            ledger: self.ledger.lock(),
        }
    }
    /// What the lock protects beside the places, through exclusive access to the lender.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.ledger.get_mut().also
    }
    /// Puts an object into a place, which must exist and be empty, through exclusive access to the lender.
    pub fn set(&mut self, at: usize, object: Arc<T>) {
        let place = self.ledger.get_mut().places[at].0.get_mut();
        debug_assert!(place.is_null());
        *place = Arc::into_raw(object).cast_mut();
    }
    /// The object in a place, without the lock.
    ///
    /// # Safety
    /// Nobody changes the places meanwhile, and nobody takes the object out while the reference lives.
    #[inline(always)]
    pub unsafe fn peek(&self, at: usize) -> Option<&T> {
        // SAFETY: the caller's promise.
        let places = unsafe { &self.ledger.peek().places };
        // SAFETY: the place owns a reference to the object, and the caller promises that it stays.
        index::get(places, at)?
            .object()
            .map(|object| unsafe { object.as_ref() })
    }
}

impl<T, S> Drop for Lender<T, S> {
    fn drop(&mut self) {
        let borrowers = self.ledger.get_mut().borrowers;
        assert!(borrowers.is_null(), "a lender ends before its borrowers");
    }
}

/// The right of the holder of a [`Lender`]'s lock.
pub struct LenderGuard<'a, T, S> {
    lender: &'a Lender<T, S>,
    ledger: SpinGuard<'a, Ledger<T, S>>,
}

impl<T, S> Deref for LenderGuard<'_, T, S> {
    type Target = S;
    #[inline(always)]
    fn deref(&self) -> &S {
        &self.ledger.also
    }
}

impl<T, S> DerefMut for LenderGuard<'_, T, S> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut S {
        &mut self.ledger.also
    }
}

impl<T, S> LenderGuard<'_, T, S> {
    /// How many places there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.ledger.places.len()
    }
    /// The object in a place.
    #[inline(always)]
    pub fn get(&self, at: usize) -> Option<&T> {
        let object = index::get(&self.ledger.places, at)?.object()?;
        // SAFETY: the place owns a reference to the object, and changes only through the guard.
        Some(unsafe { object.as_ref() })
    }
    /// A counted reference to the object in a place.
    #[inline(always)]
    pub fn get_counted(&self, at: usize) -> Option<Arc<T>> {
        let object = index::get(&self.ledger.places, at)?.object()?;
        // SAFETY: as in `get`; the place's reference was an `Arc`.
        Some(unsafe { counted(object) })
    }
    /// Puts an object into a place, which must exist, and returns the one that was there.
    #[inline(always)]
    pub fn put(&mut self, at: usize, object: Arc<T>) -> Option<Arc<T>> {
        self.replace(&self.ledger.places[at].0, Arc::into_raw(object).cast_mut())
    }
    /// Takes the object out of a place, if there are both.
    #[inline(always)]
    pub fn take(&mut self, at: usize) -> Option<Arc<T>> {
        self.replace(&index::get(&self.ledger.places, at)?.0, ptr::null_mut())
    }
    #[inline(always)]
    fn replace(&self, place: &AtomicPtr<T>, new: *mut T) -> Option<Arc<T>> {
        let old = place.load(Ordering::Relaxed);
        if old.addr() & LENT != 0 {
            return Some(take_back(self.ledger.borrowers, place, new));
        }
        place.store(new, Ordering::Relaxed);
        // SAFETY: the place owned a reference, which is now the caller's. Nobody has borrowed it.
        (!old.is_null()).then(|| unsafe { Arc::from_raw(old) })
    }
    /// How much room [`Self::move_to`] needs in its second list.
    pub fn outgrown(&self) -> usize {
        if self.ledger.count == 0 || self.ledger.places.is_empty() {
            0
        } else {
            self.ledger.outgrown.len() + 1
        }
    }
    /// Moves all objects to `places`, which are empty and more than there were. `outgrown` is empty and has
    /// [`Self::outgrown`] room. What is returned is to be dropped without the lock.
    pub fn move_to(
        &mut self,
        places: Vec<Place<T>>,
        mut outgrown: Vec<Vec<Place<T>>>,
    ) -> impl Sized + use<T, S> {
        let wanted = self.outgrown();
        let ledger = &mut *self.ledger;
        assert!(places.len() >= ledger.places.len() && outgrown.capacity() >= wanted);
        for (from, to) in ledger.places.iter().zip(&places) {
            // A borrower who looked here before the object left had stored it in its word before, so whoever
            // takes it out of its new place sees that. Later ones find nothing here, and take the lock.
            let object = if wanted == 0 {
                // There are no borrowers, and the lock is held. The old place gives its reference away.
                let object = from.0.load(Ordering::Relaxed);
                from.0.store(ptr::null_mut(), Ordering::Relaxed);
                object
            } else {
                from.0.swap(ptr::null_mut(), Ordering::SeqCst)
            };
            to.0.store(object, Ordering::Relaxed);
        }
        let mut old = mem::replace(&mut ledger.places, places);
        // The places are seen no later than that there are so many.
        let first = ledger.places.as_ptr().cast_mut();
        self.lender.places.store(first, Ordering::Release);
        self.lender.len.store(ledger.places.len(), Ordering::Release);
        if wanted != 0 {
            outgrown.append(&mut ledger.outgrown);
            outgrown.push(mem::take(&mut old));
            mem::swap(&mut outgrown, &mut ledger.outgrown);
        }
        (old, outgrown)
    }
}

/// [`LenderGuard::replace`] of an object that was lent: whoever uses it gets a reference.
#[cold]
#[inline(never)]
fn take_back<T>(borrowers: *const Borrower<T>, place: &AtomicPtr<T>, new: *mut T) -> Arc<T> {
    // Before the words are read, in one order of all such accesses (`Borrower::borrow`).
    let old = plain(place.swap(new, Ordering::SeqCst));
    // SAFETY: the place owned a reference, which is now this one.
    let object = unsafe { Arc::from_raw(old) };
    let mut next = borrowers;
    // SAFETY: a borrower in the list exists, and leaves it under the lock only, which the caller holds.
    while let Some(borrower) = unsafe { next.as_ref() } {
        let word = &borrower.word;
        if word.load(Ordering::SeqCst) == lent(old) {
            let theirs = object.clone();
            match word.compare_exchange(lent(old), old, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => mem::forget(theirs),
                // It has just given it back.
                Err(_) => drop(theirs),
            }
        }
        next = borrower.next.load(Ordering::Relaxed);
    }
    object
}

/// One more reference to an object that is in an `Arc`.
///
/// # Safety
/// There is a counted reference that lives on meanwhile.
#[inline(always)]
unsafe fn counted<T>(object: NonNull<T>) -> Arc<T> {
    // SAFETY: the caller's promise.
    unsafe {
        Arc::increment_strong_count(object.as_ptr());
        Arc::from_raw(object.as_ptr())
    }
}

/// A thread's part: what it has borrowed. Used by the thread itself, with one lender at a time.
pub struct Borrower<T> {
    /// The object that the thread has borrowed last: with [`LENT`] it is not counted, without a reference
    /// belongs to the thread. Null: none. [`STRANGER`].
    word: AtomicPtr<T>,
    /// Whether the thread is in the lender's list. Only it itself asks.
    listed: AtomicBool,
    /// In the lender's list.
    next: AtomicPtr<Borrower<T>>,
}

/// Why [`Borrower::borrow`] failed: its word still has an object which was taken out of its place just then.
pub struct Stale(bool);

impl Stale {
    /// It failed for another reason, or was not called.
    pub const NO: Self = Self(false);
}

/// What a borrower had in its word before [`Borrower::borrow_slowly`].
#[must_use]
pub struct Before<T>(*mut T);

/// The word of a thread that is not in its lender's list.
const STRANGER: usize = 2;

impl<T> Borrower<T> {
    /// For a new thread.
    pub const fn new() -> Self {
        Self {
            word: AtomicPtr::new(ptr::without_provenance_mut(STRANGER)),
            listed: AtomicBool::new(false),
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Borrows the object in a place, without the lock. It stays until it is given back
    /// ([`Self::give_back`]). If that cannot be done, the error is for [`Self::borrow_slowly`], which must be
    /// called then.
    ///
    /// # Safety
    /// The running thread owns the borrower, which stays where it is. It borrows from no other lender and
    /// does not end before it has left this one ([`Self::leave`]), which exists until then.
    #[inline(always)]
    pub unsafe fn borrow<S>(&self, lender: &Lender<T, S>, at: usize) -> Result<NonNull<T>, Stale> {
        let len = lender.len.load(Ordering::Acquire);
        let places = lender.places.load(Ordering::Acquire);
        if at >= len || !self.word.load(Ordering::Relaxed).is_null() {
            return Err(Stale(false));
        }
        // SAFETY: there are at least `len` places. The lender keeps them as long as there are borrowers, and
        // the thread is one: its word is null.
        let place = unsafe { &(*places.add(index::below(at, len))).0 };
        let found = place.load(Ordering::Acquire);
        if found.addr() & LENT == 0 {
            return Err(Stale(false));
        }
        // Before the place is read again, in one order of all such accesses (`take_back`).
        self.word.store(found, Ordering::SeqCst);
        if place.load(Ordering::SeqCst) != found {
            return Err(Stale(true));
        }
        // SAFETY: with `LENT` it is not null, and an object's address is not 1.
        Ok(unsafe { NonNull::new_unchecked(found.wrapping_byte_sub(LENT)) })
    }

    /// [`Self::borrow`] with the lock. `None`: the place is empty, or there is none. What has been borrowed
    /// is given back with [`Self::give_back`] and then [`Self::go_back`].
    ///
    /// # Safety
    /// As for [`Self::borrow`], which the same thread has just called and which has returned `stale`.
    #[inline(never)]
    pub unsafe fn borrow_slowly<S>(
        &self,
        lender: &Lender<T, S>,
        at: usize,
        stale: Stale,
    ) -> Option<(NonNull<T>, Before<T>)> {
        if stale.0 {
            // SAFETY: it was borrowed, and is not used.
            unsafe { self.give_back(()) };
        }
        let mut guard = lender.lock();
        if !self.is_listed() {
            self.enter(&mut guard.ledger);
        }
        let place = index::get(&guard.ledger.places, at)?;
        let object = place.object()?;
        let mut before = self.word.load(Ordering::Relaxed);
        if !self.is_listed() {
            // What the word had before, if anything, is counted, too.
            // SAFETY: the place has a reference. The new one belongs to the thread.
            mem::forget(unsafe { counted(object) });
            self.word.store(object.as_ptr(), Ordering::Relaxed);
            return Some((object, Before(before)));
        }
        if before.addr() & LENT != 0 {
            before = plain(before);
            // SAFETY: nobody has taken the object out of its place, or the word would not have `LENT`. The
            // new reference belongs to the thread.
            unsafe { Arc::increment_strong_count(before) };
        }
        // Nobody looks at the word or takes the object out before the lock is released.
        place.0.store(lent(object.as_ptr()), Ordering::Release);
        self.word.store(lent(object.as_ptr()), Ordering::Release);
        Some((object, Before(before)))
    }

    /// After [`Self::give_back`] of what [`Self::borrow_slowly`] returned.
    ///
    /// # Safety
    /// The running thread owns the borrower, and nothing was borrowed in between that is not given back.
    pub unsafe fn go_back(&self, before: Before<T>) {
        // `Release`: whoever sees that the object is no longer used may end it.
        self.word.store(before.0, Ordering::Release);
    }

    /// What was borrowed last.
    ///
    /// # Safety
    /// The running thread owns the borrower, and has not given it back.
    pub unsafe fn borrowed(&self) -> NonNull<T> {
        // SAFETY: the caller's promise: the word has the object.
        unsafe { NonNull::new_unchecked(plain(self.word.load(Ordering::Relaxed))) }
    }

    /// Enters the list of borrowers, if it has room.
    fn enter<S>(&self, ledger: &mut Ledger<T, S>) {
        if ledger.count == MOST {
            return;
        }
        ledger.count += 1;
        self.next.store(ledger.borrowers.cast_mut(), Ordering::Relaxed);
        ledger.borrowers = self;
        self.listed.store(true, Ordering::Relaxed);
        self.word.store(ptr::null_mut(), Ordering::Relaxed);
    }

    #[inline(always)]
    fn is_listed(&self) -> bool {
        self.listed.load(Ordering::Relaxed)
    }

    /// Gives back what was borrowed last. Returns `result`, which no register has to keep meanwhile.
    ///
    /// # Safety
    /// The running thread owns the borrower, and has not given it back.
    #[inline(always)]
    pub unsafe fn give_back<R>(&self, result: R) -> R {
        // `Release`: whoever sees that it is no longer used may end it.
        let object = self.word.swap(ptr::null_mut(), Ordering::AcqRel);
        if object.addr() & LENT != 0 {
            result
        } else {
            self.drop_counted(object, result)
        }
    }

    /// Drops the reference to what the thread has given back. Returns `result`.
    #[cold]
    #[inline(never)]
    fn drop_counted<R>(&self, object: *mut T, result: R) -> R {
        if !self.is_listed() {
            // The object's end must not find a word that looks like a borrower's.
            self.word
                .store(ptr::without_provenance_mut(STRANGER), Ordering::Relaxed);
        }
        // SAFETY: it was borrowed, and the word said that it is counted: a reference belongs to the thread.
        drop(unsafe { Arc::from_raw(object) });
        result
    }

    /// The thread will have nothing more to do with the lender.
    ///
    /// # Safety
    /// The running thread owns the borrower. It is the lender from which it has borrowed, if it has.
    pub unsafe fn leave<S>(&self, lender: &Lender<T, S>) {
        if !self.is_listed() {
            return;
        }
        let word = self.word.load(Ordering::Relaxed);
        assert!(word.is_null(), "a thread leaves with what it has borrowed");
        let mut guard = lender.lock();
        let next = self.next.load(Ordering::Relaxed);
        if ptr::eq(guard.ledger.borrowers, self) {
            guard.ledger.borrowers = next;
        } else {
            let mut before = guard.ledger.borrowers;
            // SAFETY: a borrower in the list exists, and leaves it under the lock only.
            while let Some(borrower) = unsafe { before.as_ref() } {
                before = borrower.next.load(Ordering::Relaxed);
                if ptr::eq(before, self) {
                    borrower.next.store(next, Ordering::Relaxed);
                }
            }
        }
        guard.ledger.count -= 1;
        self.listed.store(false, Ordering::Relaxed);
        self.word
            .store(ptr::without_provenance_mut(STRANGER), Ordering::Relaxed);
    }
}

impl<T> Drop for Borrower<T> {
    fn drop(&mut self) {
        let word = self.word.get_mut().addr();
        assert!(word == STRANGER, "a thread ends before it has left its lender");
    }
}
