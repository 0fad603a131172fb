//! The objects of one kind, by id and by key. An id is an index, and a sequence number that makes ids of
//! removed objects stay invalid for long: indices are given out in turns, and each turn has a new number.
//!
//! Lookups by id take the lock of one of many shards for a moment. Whoever looks for a key, or makes an
//! object, takes `making`, which may sleep. Removing needs spinlocks only.

use super::object::{Object, Stat, State};
use super::perm::{Permissions, READ};
use crate::mm::reserve;
use crate::sync::{Mutex, Once, SpinLock};
use crate::task::audit;
use crate::task::audit::details::{self, Ownership, Special};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use limen_linux_abi::{Errno, SysResult};

/// How many bits of an id are the index (`IPCMNI_SHIFT`).
pub const INDEX_BITS: u32 = 15;
/// How many objects of a kind there may be.
const MOST: usize = 1 << INDEX_BITS;
/// A turn has at least so many indices (`ipc_min_cycle`).
const SHORTEST_TURN: usize = 64;
const SHARDS: usize = 64;
/// `IPC_CREAT`.
const CREATE: u32 = 0o1000;
/// `IPC_EXCL`.
const EXCLUSIVE: u32 = 0o2000;

/// Which indices and keys are used.
struct Used {
    keys: BTreeMap<i32, usize>,
    /// Empty until the first object is made.
    bits: Vec<u64>,
    count: usize,
    next: usize,
    last: Option<usize>,
    seq: u32,
}

/// A slot for each index that a shard has room for.
type Shard<T> = Vec<Option<Arc<T>>>;

/// All objects of a kind.
pub struct Ids<T> {
    making: Mutex<()>,
    used: SpinLock<Used>,
    /// Made with the first object: most systems have none.
    shards: Once<Vec<SpinLock<Shard<T>>>>,
}

impl Used {
    fn next_used(&self, from: usize) -> Option<usize> {
        let mut word = from / 64;
        let mut bits = *self.bits.get(word)? & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            bits = *self.bits.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    fn next_free(&self, from: usize, end: usize) -> Option<usize> {
        let mut word = from / 64;
        let mut bits = !*self.bits.get(word)? & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            bits = !*self.bits.get(word)?;
        }
        let found = word * 64 + bits.trailing_zeros() as usize;
        (found < end).then_some(found)
    }

    /// Takes an index, and gives the id. `ENOSPC`: all are used.
    fn take(&mut self) -> Result<i32, Errno> {
        let end = (self.count * 3 / 2).clamp(SHORTEST_TURN, MOST);
        let index = self
            .next_free(self.next, end)
            .or_else(|| self.next_free(0, end))
            .ok_or(Errno::ENOSPC)?;
        if self.last.is_some_and(|last| index <= last) {
            // Ids are positive.
            self.seq = (self.seq + 1) & (i32::MAX as u32 >> INDEX_BITS);
        }
        self.last = Some(index);
        self.next = index + 1;
        self.bits[index / 64] |= 1 << (index % 64);
        self.count += 1;
        Ok((self.seq << INDEX_BITS) as i32 | index as i32)
    }

    fn give_back(&mut self, index: usize, key: i32) {
        self.bits[index / 64] &= !(1 << (index % 64));
        self.count -= 1;
        self.forget_key(index, key);
    }

    fn forget_key(&mut self, index: usize, key: i32) {
        if self.keys.get(&key) == Some(&index) {
            self.keys.remove(&key);
        }
    }
}

/// Audit is to tell of the object that the running thread's call is about, and what the call sets.
fn tell<T: Object>(object: &T, new: Option<(&Permissions, u64)>) {
    if !audit::wants_details() {
        return;
    }
    let now = {
        let mut state = object.state().lock();
        let perm = state.perm();
        Ownership {
            uid: perm.uid,
            gid: perm.gid,
            mode: perm.mode,
        }
    };
    let new = new.map(|(new, bytes)| {
        let Permissions { uid, gid, mode, .. } = *new;
        (Ownership { uid, gid, mode }, bytes)
    });
    details::special(Special::Ipc { now, new });
}

fn index_of(id: i32) -> usize {
    id as usize & (MOST - 1)
}

impl<T: Object> Ids<T> {
    /// Without objects.
    pub const fn new() -> Self {
        Self {
            making: Mutex::new(()),
            used: SpinLock::new(Used {
                keys: BTreeMap::new(),
                bits: Vec::new(),
                count: 0,
                next: 0,
                last: None,
                seq: 0,
            }),
            shards: Once::new(),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.used.lock().count
    }

    /// The largest index in use; 0 without any, as Linux says.
    pub fn highest(&self) -> usize {
        let used = self.used.lock();
        let word = used.bits.iter().rposition(|&word| word != 0);
        word.map_or(0, |word| word * 64 + used.bits[word].ilog2() as usize)
    }

    fn shard(&self, index: usize) -> Option<&SpinLock<Shard<T>>> {
        self.shards.get()?.get(index % SHARDS)
    }

    /// Makes room for the first object. `making` is held. `ENOMEM`.
    fn prepare(&self) -> Result<(), Errno> {
        if self.shards.get().is_some() {
            return Ok(());
        }
        let (mut bits, mut shards) = (Vec::new(), Vec::new());
        reserve::room_exact(&mut bits, MOST / 64)?;
        bits.resize(MOST / 64, 0);
        reserve::room_exact(&mut shards, SHARDS)?;
        shards.resize_with(SHARDS, || SpinLock::new(Vec::new()));
        self.used.lock().bits = bits;
        let _ = self.shards.set(shards);
        Ok(())
    }

    fn at(&self, index: usize) -> Result<Arc<T>, Errno> {
        let shard = self.shard(index).ok_or(Errno::EINVAL)?.lock();
        let slot = shard.get(index / SHARDS).and_then(Option::as_ref);
        slot.cloned().ok_or(Errno::EINVAL)
    }

    fn with_id(&self, id: i32) -> Result<Arc<T>, Errno> {
        let object = self.at(index_of(id))?;
        if object.id().load(Relaxed) == id {
            Ok(object)
        } else {
            Err(Errno::EINVAL)
        }
    }

    /// The object with this id, which the running thread's call is about. `EINVAL`: there is none. It may be
    /// removed at any time, which is to be looked at under its lock. May sleep.
    pub fn find(&self, id: i32) -> Result<Arc<T>, Errno> {
        let object = self.with_id(id)?;
        tell(&*object, None);
        Ok(object)
    }

    /// The same for a call that sets the object's permissions, and how many bytes a queue may have.
    pub fn find_to_set(&self, id: i32, new: &Permissions, bytes: u64) -> Result<Arc<T>, Errno> {
        let object = self.with_id(id)?;
        tell(&*object, Some((new, bytes)));
        Ok(object)
    }

    /// Describes an object; gives the result of the call, too. `EINVAL`, `EACCES`, `EIDRM`. May sleep.
    pub fn describe<R>(
        &self,
        id: i32,
        stat: Stat,
        shown: impl FnOnce(&T, &T::State) -> R,
    ) -> Result<(usize, R), Errno> {
        let object = if stat.by_index {
            self.at(index_of(id))?
        } else {
            self.with_id(id)?
        };
        tell(&*object, None);
        let wanted = if stat.any { 0 } else { READ };
        let shown = object.with(wanted, |state| Ok(shown(&object, state)))?;
        let id = if stat.by_index {
            object.id().load(Relaxed)
        } else {
            0
        };
        Ok((id as usize, shown))
    }

    /// Calls `f` with each object.
    pub fn each(&self, mut f: impl FnMut(&T)) {
        let mut from = 0;
        while let Some((index, object)) = self.next(from) {
            from = index + 1;
            f(&object);
        }
    }

    /// The first object whose index is at least `from`, and its index.
    fn next(&self, mut from: usize) -> Option<(usize, Arc<T>)> {
        loop {
            let index = self.used.lock().next_used(from)?;
            if let Ok(object) = self.at(index) {
                return Some((index, object));
            }
            from = index + 1;
        }
    }

    /// The id of the object with `key`, or of a new one that `make` makes. `fits` says whether an object that
    /// is there is what the caller wants. Errors: theirs; `ENOENT`, `EEXIST`, `EACCES`; `ENOSPC`: there are
    /// `limit` objects.
    pub fn get(
        &self,
        key: i32,
        flags: u32,
        limit: usize,
        fits: impl FnOnce(&T) -> Result<(), Errno>,
        make: impl FnOnce() -> Result<Arc<T>, Errno>,
    ) -> SysResult {
        let _making = self.making.lock();
        if key != 0 {
            let index = self.used.lock().keys.get(&key).copied();
            let there = index.and_then(|index| self.at(index).ok());
            // One that is just being removed is none.
            let there = there.filter(|object| {
                let mut state = object.state().lock();
                let perm = state.perm();
                !perm.gone && perm.key == key
            });
            if let Some(object) = there {
                if flags & (CREATE | EXCLUSIVE) == CREATE | EXCLUSIVE {
                    return Err(Errno::EEXIST);
                }
                fits(&object)?;
                tell(&*object, None);
                let creds = crate::task::current().creds();
                object.state().lock().perm().allow(&creds, flags)?;
                return Ok(object.id().load(Relaxed) as usize);
            }
            if flags & CREATE == 0 {
                return Err(Errno::ENOENT);
            }
        }
        self.prepare()?;
        let object = make()?;
        self.add(key, limit, &object)
    }

    fn add(&self, key: i32, limit: usize, object: &Arc<T>) -> SysResult {
        let id = {
            let mut used = self.used.lock();
            if used.count >= limit.min(MOST) {
                return Err(Errno::ENOSPC);
            }
            let id = used.take()?;
            // Before anybody can find the object by its id, and remove it.
            if key != 0 {
                used.keys.insert(key, index_of(id));
            }
            id
        };
        let index = index_of(id);
        let (shard, slot) = (self.shard(index).ok_or(Errno::ENOSPC)?, index / SHARDS);
        // `making` is held, so no shard grows meanwhile.
        let missing = (slot + 1).saturating_sub(shard.lock().len());
        let room = reserve::room_behind(|| shard.lock(), |slots: &mut Shard<T>| slots, missing);
        let mut slots = match room {
            Ok(slots) => slots,
            Err(errno) => {
                self.used.lock().give_back(index, key);
                return Err(errno);
            }
        };
        object.id().store(id, Relaxed);
        while slots.len() <= slot {
            slots.push(None);
        }
        slots[slot] = Some(object.clone());
        Ok(id as usize)
    }

    /// Takes an object out, which had `key`. Its lock may be held: the caller drops what is returned without.
    pub fn remove(&self, object: &T, key: i32) -> Option<Arc<T>> {
        let index = index_of(object.id().load(Relaxed));
        let gone = self
            .shard(index)
            .and_then(|shard| shard.lock().get_mut(index / SHARDS).and_then(Option::take));
        self.used.lock().give_back(index, key);
        gone
    }

    /// The object is no longer found by `key`. Its lock may be held.
    pub fn forget_key(&self, object: &T, key: i32) {
        let index = index_of(object.id().load(Relaxed));
        self.used.lock().forget_key(index, key);
    }
}
