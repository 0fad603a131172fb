//! Room for collections that grow with what programs do. Whatever may become large asks here for room before
//! it takes a spinlock, and handles `ENOMEM`. Builds with lock validation report large allocations that are
//! made in any other way (`docs/lockdep.md`).

use crate::sync::lockdep::fallible;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::DerefMut;
use limen_linux_abi::Errno;

/// A collection that can reserve room and report that there is no memory for it.
pub trait Grow: Default {
    /// How many elements it has, and how many have room.
    fn has(&self) -> (usize, usize);
    /// Takes all elements of `other`. It has room for them.
    fn take_all(&mut self, other: &mut Self);
    /// Reserves room for `more` elements, perhaps for a few in addition. `false`: no memory.
    fn grow(&mut self, more: usize) -> bool;
    /// Reserves room for exactly `more` elements. `false`: no memory.
    fn grow_exact(&mut self, more: usize) -> bool;
}

macro_rules! grow {
    ($($list:ident),*) => {$(
        impl<T> Grow for $list<T> {
            fn has(&self) -> (usize, usize) {
                (self.len(), self.capacity())
            }
            fn take_all(&mut self, other: &mut Self) {
                self.append(other);
            }
            fn grow(&mut self, more: usize) -> bool {
                self.try_reserve(more).is_ok()
            }
            fn grow_exact(&mut self, more: usize) -> bool {
                self.try_reserve_exact(more).is_ok()
            }
        }
    )*};
}

grow!(Vec, VecDeque);

/// Runs `f`, which handles it if there is no memory for what it allocates: mechanisms in `crates/`, which
/// know nothing of the kernel.
#[inline]
pub fn handling<R>(f: impl FnOnce() -> R) -> R {
    fallible(f)
}

/// Reserves room for `more` further elements, perhaps for a few in addition. `ENOMEM`. May sleep.
#[inline]
pub fn room(what: &mut impl Grow, more: usize) -> Result<(), Errno> {
    let done = fallible(|| what.grow(more));
    if done { Ok(()) } else { Err(Errno::ENOMEM) }
}

/// Reserves room for exactly `more` further elements. `ENOMEM`. May sleep.
#[inline]
pub fn room_exact(what: &mut impl Grow, more: usize) -> Result<(), Errno> {
    let done = fallible(|| what.grow_exact(more));
    if done { Ok(()) } else { Err(Errno::ENOMEM) }
}

/// A copy of these bytes. `ENOMEM`. May sleep.
pub fn copy_of(bytes: &[u8]) -> Result<Vec<u8>, Errno> {
    let mut copy = Vec::new();
    room_exact(&mut copy, bytes.len())?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// Locks with `lock` and returns the guard; the collection that `list` finds behind it has room for `more`
/// further elements. Memory is allocated and freed without the lock, which may be a spinlock. `ENOMEM`. May
/// sleep.
pub fn room_behind<G, L>(
    lock: impl Fn() -> G,
    list: impl Fn(&mut G::Target) -> &mut L,
    more: usize,
) -> Result<G, Errno>
where
    G: DerefMut,
    L: Grow,
{
    loop {
        let mut guard = lock();
        let (len, room) = list(&mut guard).has();
        if room - len >= more {
            return Ok(guard);
        }
        drop(guard);
        let mut new = L::default();
        room_exact(&mut new, (len + more).max(2 * len).max(4))?;
        let mut guard = lock();
        let old = list(&mut guard);
        if new.has().1 >= old.has().0 {
            new.take_all(old);
            core::mem::swap(old, &mut new);
        }
        drop(guard);
    }
}
