//! The entries of a directory by name. Readers ([`crate::rcu::read`]) find an entry without a lock; the
//! directory's lock is held by whoever changes them.
//!
//! A reader who finds an entry has found the truth. One who does not must look again under the lock: while
//! entries are added, removed or sorted into a larger table, the rest of a chain may be out of sight.

use crate::fs::dentry::{Dentry, Name};
use crate::rcu::{Found, Reader, Retire, Shared, Slot, read};
use crate::sync::lockdep::fallible;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use limen_linux_abi::Errno;
use limen_name_table::{Key, Wanted};

/// From this number of entries on, a table takes much memory.
const MANY: usize = 256;
/// How many chains the first table has.
const FEW: usize = 4;

/// An entry. Its name never changes.
struct Entry {
    next: Slot<Entry>,
    key: Key,
    name: Name,
    /// Nothing once the entry is removed, so that the dentry need not wait for a grace period.
    dentry: Slot<Dentry>,
    /// Its place in listings.
    cookie: u64,
}

impl Retire for Entry {}

/// Chains of entries. Their number is a power of two.
pub struct Table(Box<[Slot<Entry>]>);

impl Retire for Table {}

impl Table {
    /// `ENOMEM`.
    fn with_chains(count: usize) -> Result<Shared<Self>, Errno> {
        let mut chains = Vec::new();
        fallible(|| chains.try_reserve_exact(count)).map_err(|_| Errno::ENOMEM)?;
        chains.resize_with(count, Slot::empty);
        Ok(Shared::new(Self(chains.into_boxed_slice())))
    }
    #[inline(always)]
    fn chain(&self, key: &Key) -> Option<&Slot<Entry>> {
        self.0.get(key.place(self.0.len()))
    }
    /// Puts an entry in front of its chain.
    fn push(&self, entry: Shared<Entry>) {
        if let Some(chain) = self.chain(&entry.key) {
            drop(entry.next.replace(chain.replace(None)));
            drop(chain.replace(Some(entry)));
        }
    }
    /// Takes the first entry out of a chain.
    fn pop(chain: &Slot<Entry>) -> Option<Shared<Entry>> {
        let first = chain.replace(None)?;
        chain.replace(first.next.replace(None));
        Some(first)
    }
    /// Moves all entries to another table.
    fn move_to(&self, other: &Self) {
        for chain in &self.0 {
            while let Some(entry) = Self::pop(chain) {
                other.push(entry);
            }
        }
    }
    /// Drops all entries, which nobody adds to any more.
    pub fn clear(&self) {
        for chain in &self.0 {
            while let Some(entry) = Self::pop(chain) {
                drop(entry.dentry.replace(None));
            }
        }
    }
}

/// The entries of a directory.
pub struct Children {
    table: Slot<Table>,
    /// How many there are. Written under the lock, read without.
    count: AtomicUsize,
}

impl Children {
    /// None.
    pub const fn new() -> Self {
        Self {
            table: Slot::empty(),
            count: AtomicUsize::new(0),
        }
    }
    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
    #[inline(always)]
    fn entry<'r>(&self, wanted: &Wanted<'_>, reader: &'r Reader) -> Option<&'r Entry> {
        let table = self.table.load(reader)?;
        let mut at = table.0.get(wanted.place(table.0.len()))?.load(reader);
        while let Some(entry) = at {
            if wanted.is(&entry.key, &entry.name) {
                return Some(entry);
            }
            at = entry.next.load(reader);
        }
        None
    }
    /// The entry with the wanted name. `None`: it is not there, or cannot be seen now; who holds the lock
    /// sees all.
    #[inline(always)]
    pub fn find<'r>(&self, wanted: &Wanted<'_>, reader: &'r Reader) -> Option<Found<'r, Dentry>> {
        self.entry(wanted, reader)?.dentry.found(reader)
    }

    // What follows needs the lock.

    /// The entry called `name`.
    pub fn get(&self, name: &[u8]) -> Option<Shared<Dentry>> {
        self.find(&Wanted::new(name), &read())?.get()
    }
    /// Whether there is an entry called `name`.
    pub fn has(&self, name: &[u8]) -> bool {
        self.find(&Wanted::new(name), &read()).is_some()
    }
    /// Whether `dentry` is the entry called `name`.
    pub fn is(&self, name: &[u8], dentry: &Shared<Dentry>) -> bool {
        let reader = read();
        let found = self.find(&Wanted::new(name), &reader);
        found.is_some_and(|found| found.is(Shared::found(dentry, &reader)))
    }
    /// Whether adding a name needs much memory, which is better allocated without the lock: see
    /// [`Self::room_for`].
    #[inline]
    pub fn must_grow(&self) -> bool {
        let count = self.len();
        count >= MANY && self.chains() <= count
    }
    fn chains(&self) -> usize {
        self.table.load(&read()).map_or(0, |table| table.0.len())
    }
    /// An empty table for `count` entries. `ENOMEM`. Needs no lock.
    pub fn room_for(count: usize) -> Result<Shared<Table>, Errno> {
        Table::with_chains(count.next_power_of_two())
    }
    /// Moves all entries into another table. The former one is returned, to be dropped without the lock.
    pub fn move_to(&self, new: Shared<Table>) -> Option<Shared<Table>> {
        let old = self.table.replace(Some(new.clone()));
        if let Some(old) = &old {
            old.move_to(&new);
        }
        old
    }
    /// Makes room for one more. `ENOMEM`, and nothing has changed.
    pub fn reserve(&self) -> Result<(), Errno> {
        let (count, chains) = (self.len(), self.chains());
        if chains == 0 {
            drop(self.move_to(Table::with_chains(FEW)?));
        } else if count >= chains && count < MANY {
            // Without more chains they only get longer.
            if let Ok(new) = Table::with_chains(2 * chains) {
                drop(self.move_to(new));
            }
        }
        Ok(())
    }
    /// Adds `dentry` under a free name. [`Self::reserve`] was called before.
    pub fn insert(&self, name: Name, dentry: Shared<Dentry>, cookie: u64) {
        let key = Wanted::new(&name).key();
        let entry = Shared::new(Entry {
            next: Slot::empty(),
            key,
            name,
            dentry: Slot::new(dentry),
            cookie,
        });
        if let Some(table) = self.table.get(&read()) {
            table.push(entry);
            self.count.store(self.len() + 1, Ordering::Relaxed);
        }
    }
    /// Removes the entry called `name`, and returns its dentry and cookie.
    pub fn remove(&self, name: &[u8]) -> Option<(Shared<Dentry>, u64)> {
        let wanted = Wanted::new(name);
        let reader = read();
        let table = self.table.load(&reader)?;
        let mut place = table.0.get(wanted.place(table.0.len()))?;
        loop {
            let entry = place.load(&reader)?;
            if wanted.is(&entry.key, &entry.name) {
                break;
            }
            place = &entry.next;
        }
        let entry = Table::pop(place)?;
        self.count.store(self.len() - 1, Ordering::Relaxed);
        Some((entry.dentry.replace(None)?, entry.cookie))
    }
    /// Replaces the dentry of the entry called `name`. Returns the former one and the cookie.
    pub fn replace(&self, name: &[u8], dentry: Shared<Dentry>) -> Option<(Shared<Dentry>, u64)> {
        let reader = read();
        let entry = self.entry(&Wanted::new(name), &reader)?;
        Some((entry.dentry.replace(Some(dentry))?, entry.cookie))
    }
    /// Takes all entries away, to be cleared and dropped without the lock.
    pub fn take(&self) -> Option<Shared<Table>> {
        self.count.store(0, Ordering::Relaxed);
        self.table.replace(None)
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        if let Some(table) = self.take() {
            table.clear();
        }
    }
}
