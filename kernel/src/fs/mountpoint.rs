//! What is mounted on names. A name only knows how many mounts there are on it. What one of them is, is found
//! by the name and the mount in which the name is, in one table for all: a tree may be mounted many times, in
//! many namespaces, and what others mount on a name costs nobody time. Walks take no lock.

use crate::fs::mount::Mount;
use crate::mm;
use crate::mm::reserve::room_exact;
use crate::rcu::{Found, HeldSlot, Reader, Retire, Retiring, Shared, Slot, read};
use crate::sync::{Once, SpinLock};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};

/// A mount at a name.
struct Hung {
    /// The address of the mount in which the name is.
    below: usize,
    /// The address of the name's [`Mountpoint`].
    name: usize,
    /// Nothing once it is removed, so that the mount need not wait for a grace period.
    mnt: Slot<Mount>,
    /// Not changed any more once it is removed.
    next: HeldSlot<Hung>,
}

impl Retire for Hung {
    fn retire(&self, retiring: &Retiring) {
        // Who unmounts and mounts all the time would else make a list of removed ones, each of which is kept
        // by the one before it.
        self.next.give_up(retiring);
    }
}

impl Hung {
    #[inline(always)]
    fn is_at(&self, below: usize, name: usize) -> bool {
        self.below == below && self.name == name
    }
}

/// Some of all mounts. New ones come last, and one that is removed still leads to those behind it, so a
/// reader misses none but what comes or goes meanwhile.
struct Chain {
    first: Slot<Hung>,
    /// Held by who changes it.
    changes: SpinLock<()>,
}

impl Chain {
    #[inline(always)]
    fn find<'r>(&self, below: usize, name: usize, reader: &'r Reader) -> Option<&'r Hung> {
        let mut at = self.first.load(reader);
        while let Some(hung) = at
            && !hung.is_at(below, name)
        {
            at = hung.next.load(reader);
        }
        at
    }
}

/// All chains. Their number is a power of two.
static CHAINS: Once<Box<[Chain]>> = Once::new();

/// How much memory the machine has for each chain. With that, mounts that fill half of it are two in a chain.
const MEMORY_FOR_CHAIN: usize = 64 << 10;
/// How many chains there are at least and at most.
const CHAINS_RANGE: (usize, usize) = (64, 1 << 20);

/// Makes the table of all mounts.
pub fn init() {
    let wanted = mm::total_pages() / (MEMORY_FOR_CHAIN / mm::PAGE_SIZE).max(1);
    let (least, most) = CHAINS_RANGE;
    let mut count = wanted.clamp(least, most).next_power_of_two();
    let mut chains = Vec::new();
    // Memory may lie in pieces.
    while room_exact(&mut chains, count).is_err() && count > least {
        count /= 2;
    }
    chains.resize_with(count, || Chain {
        first: Slot::empty(),
        changes: SpinLock::new(()),
    });
    if CHAINS.set(chains.into_boxed_slice()).is_err() {
        warning!("There is a table of mounts already");
    }
}

/// The chain of what is mounted on a name in a mount, by their addresses.
#[inline(always)]
fn chain(below: usize, name: usize) -> Option<&'static Chain> {
    /// An odd number whose multiples have their bits well mixed.
    const MIX: usize = 0x9e37_79b9_7f4a_7c15_u64 as usize;
    let chains = CHAINS.get()?;
    let mixed = (below ^ name.rotate_left(usize::BITS / 2)).wrapping_mul(MIX);
    chains.get(mixed.rotate_left(usize::BITS / 2) & (chains.len() - 1))
}

/// The mounts at a name. Most names have none.
pub struct Mountpoint {
    /// How many there are, so that a load tells that there is none.
    count: AtomicU32,
}

impl Mountpoint {
    /// Nothing is mounted.
    pub const fn new() -> Self {
        Self {
            count: AtomicU32::new(0),
        }
    }
    /// Whether something is mounted here, in any of the mounts of this tree.
    #[inline(always)]
    pub fn is_used(&self) -> bool {
        self.count.load(Ordering::Acquire) != 0
    }
    #[inline(always)]
    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }
    /// The mount at this name in the mount at address `below`, for readers.
    #[inline(always)]
    pub fn found<'r>(&self, below: usize, reader: &'r Reader) -> Option<Found<'r, Mount>> {
        let name = self.address();
        let mnt = chain(below, name)?.find(below, name, reader)?.mnt.found(reader)?;
        mnt.value().used();
        Some(mnt)
    }
    /// The mount at this name in the mount `below`.
    pub fn find(&self, below: &Shared<Mount>) -> Option<Shared<Mount>> {
        let (below, name) = (Shared::address(below), self.address());
        let reader = read();
        let mnt = chain(below, name)?.find(below, name, &reader)?.mnt.get(&reader)?;
        mnt.used();
        Some(mnt)
    }
    /// Adds `mnt` in `below`, where nothing is mounted on this name.
    pub fn add(&self, below: &Shared<Mount>, mnt: Shared<Mount>) {
        let (below, name) = (Shared::address(below), self.address());
        let Some(chain) = chain(below, name) else { return };
        let new = Shared::new(Hung {
            below,
            name,
            mnt: Slot::new(mnt),
            next: HeldSlot::empty(),
        });
        let _changes = chain.changes.lock();
        let reader = read();
        let mut place = &chain.first;
        while let Some(hung) = place.load(&reader) {
            place = &hung.next;
        }
        drop(place.replace(Some(new)));
        self.count.fetch_add(1, Ordering::Release);
    }
    /// Replaces the mount in `below` by `mnt`.
    pub fn replace(&self, below: &Shared<Mount>, mnt: Shared<Mount>) {
        let (below, name) = (Shared::address(below), self.address());
        let Some(chain) = chain(below, name) else { return };
        let old = {
            let _changes = chain.changes.lock();
            let reader = read();
            chain
                .find(below, name, &reader)
                .and_then(|hung| hung.mnt.replace(Some(mnt)))
        };
        drop(old);
    }
    /// Removes the mount in `below`, if there is one.
    pub fn remove(&self, below: &Shared<Mount>) {
        self.remove_at(Shared::address(below));
    }
    /// Removes the mount in the one at address `below`, if there is one.
    pub fn remove_at(&self, below: usize) {
        let name = self.address();
        let Some(chain) = chain(below, name) else { return };
        let gone = {
            let _changes = chain.changes.lock();
            let reader = read();
            let mut place = &chain.first;
            while let Some(hung) = place.load(&reader)
                && !hung.is_at(below, name)
            {
                place = &hung.next;
            }
            let next = place.load(&reader).and_then(|hung| hung.next.get(&reader));
            let gone = place.replace(next);
            if gone.is_some() {
                self.count.fetch_sub(1, Ordering::Release);
            }
            gone.and_then(|hung| hung.mnt.replace(None))
        };
        // Perhaps the last reference; it is dropped without the lock.
        drop(gone);
    }
}
