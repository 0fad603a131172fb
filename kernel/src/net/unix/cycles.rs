//! Sockets that are in flight (sent in messages and not received) only in each other's queues: no thread can
//! receive them any more, and nothing else closes them.
//!
//! A socket with as many references as flights is open nowhere: only a thread that receives a message with it
//! can reach it. If all messages with it wait in such sockets, and so on, it is lost, and its messages are
//! dropped. For this question no flight may begin or end or be copied meanwhile; for sockets that needs the
//! lock. Other references may come and go. But a reference to a socket can only be made from another one or
//! from a flight. So a socket that at any moment under the lock has no more references than flights has no
//! others until the lock is released.

use super::Sock;
use super::file::of;
use super::flight::Flight;
use crate::fs::file::File;
use crate::mm::reserve::{room, room_exact};
use crate::sync::Mutex;
use alloc::collections::BTreeMap;
use alloc::collections::VecDeque;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// With fewer sockets in flight nobody looks for lost ones before sending.
const FEW: usize = 16_000;

/// The file of a socket, in flight.
struct Flying {
    file: Weak<File>,
    sock: Weak<Sock>,
    /// How often it is in flight.
    times: usize,
}

/// The sockets in flight, by the addresses of their files.
static FLYING: Mutex<BTreeMap<usize, Flying>> = Mutex::new(BTreeMap::new());
/// How many there are. From a certain number on, senders look for lost ones.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static LIMIT: AtomicUsize = AtomicUsize::new(FEW);
/// Held by a thread that looks for lost sockets. `AGAIN`: it has to look once more.
static LOOKING: Mutex<()> = Mutex::new(());
static AGAIN: AtomicBool = AtomicBool::new(false);

/// Runs `change`, which begins or ends the flight of `files`, or copies them. If there are sockets among
/// them, no thread looks for lost ones meanwhile; `times` is how many more flights they have afterwards.
pub(super) fn while_nobody_looks<R>(files: &[Arc<File>], times: isize, change: impl FnOnce() -> R) -> R {
    if !files.iter().any(|file| of(file).is_ok()) {
        return change();
    }
    let mut flying = FLYING.lock();
    for file in files {
        let Ok(sock) = of(file) else { continue };
        let key = Arc::as_ptr(file).addr();
        let entry = flying.entry(key).or_insert_with(|| Flying {
            file: Arc::downgrade(file),
            sock: Arc::downgrade(sock),
            times: 0,
        });
        entry.times = entry.times.saturating_add_signed(times);
        if entry.times == 0 {
            flying.remove(&key);
        }
    }
    COUNT.store(flying.len(), Ordering::Relaxed);
    change()
}

/// Called before sockets are sent. Looks for lost ones if there are many.
pub(super) fn collect_if_many() {
    if COUNT.load(Ordering::Relaxed) >= LIMIT.load(Ordering::Relaxed) {
        collect();
        LIMIT.store((2 * COUNT.load(Ordering::Relaxed)).max(FEW), Ordering::Relaxed);
    }
}

/// A socket was closed: closes sockets in flight that are lost now.
pub(super) fn collect() {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return;
    }
    // A thread that is looking already (it may be this one) looks once more.
    AGAIN.store(true, Ordering::SeqCst);
    while AGAIN.load(Ordering::SeqCst) {
        let Some(looking) = LOOKING.try_lock() else { return };
        while AGAIN.swap(false, Ordering::SeqCst) {
            // Drops the messages, and the sockets in them, without the lock.
            drop(lost());
        }
        drop(looking);
    }
}

/// A candidate: a socket that is open nowhere.
struct Candidate {
    sock: Arc<Sock>,
    /// How many of its flights are in sockets that are not candidates.
    elsewhere: usize,
    /// The candidates that wait in its queues; some may be listed several times.
    holds: Vec<usize>,
    reached: bool,
}

/// Takes the messages out of sockets that nobody can reach. Finds none if memory is short.
fn lost() -> Vec<VecDeque<super::Message>> {
    let mut messages = Vec::new();
    let flying = FLYING.lock();
    let Some(mut all) = candidates(&flying) else {
        return messages;
    };
    // A candidate in flight elsewhere can be reached, and so can the sockets that wait in it.
    let mut next: Vec<usize> = Vec::new();
    if room_exact(&mut next, all.len()).is_err() || room_exact(&mut messages, all.len()).is_err() {
        return messages;
    }
    for (n, candidate) in all.iter_mut().enumerate() {
        if candidate.elsewhere != 0 {
            candidate.reached = true;
            next.push(n);
        }
    }
    while let Some(n) = next.pop() {
        let holds = core::mem::take(&mut all[n].holds);
        for held in holds {
            if !core::mem::replace(&mut all[held].reached, true) {
                next.push(held);
            }
        }
    }
    for candidate in all.iter().filter(|candidate| !candidate.reached) {
        // Only listeners have more than one queue. What finds no room here goes when the listener is closed.
        loop {
            let mut missing = 0;
            candidate.sock.each_queue(&mut |queue| {
                if queue.is_empty() {
                    return;
                }
                if messages.len() < messages.capacity() {
                    messages.push(core::mem::take(queue));
                } else {
                    missing += 1;
                }
            });
            if missing == 0 || room(&mut messages, missing).is_err() {
                break;
            }
        }
    }
    // Until the messages are dropped, they keep the sockets.
    drop(flying);
    messages
}

/// The sockets in flight that are open nowhere, and which of them wait in which. `None`: memory is short.
fn candidates(flying: &BTreeMap<usize, Flying>) -> Option<Vec<Candidate>> {
    let mut all: Vec<Candidate> = Vec::new();
    let mut keys: Vec<usize> = Vec::new();
    for (key, entry) in flying {
        if entry.file.strong_count() != entry.times {
            continue;
        }
        let Some(sock) = entry.sock.upgrade() else {
            continue;
        };
        room(&mut all, 1).ok()?;
        room(&mut keys, 1).ok()?;
        keys.push(*key);
        all.push(Candidate {
            sock,
            elsewhere: entry.times,
            holds: Vec::new(),
            reached: false,
        });
    }
    for n in 0..all.len() {
        let mut holds = Vec::new();
        loop {
            let mut missing = 0;
            all[n].sock.each_queue(&mut |queue| {
                for file in queue.iter().flat_map(|message| message.files.files()) {
                    // The keys are sorted.
                    if let Ok(held) = keys.binary_search(&Arc::as_ptr(file).addr()) {
                        if holds.len() < holds.capacity() {
                            holds.push(held);
                        } else {
                            missing += 1;
                        }
                    }
                }
            });
            if missing == 0 {
                break;
            }
            // Once more, with room for all: the socket must not be locked meanwhile.
            let needed = holds.len() + missing;
            holds.clear();
            room_exact(&mut holds, needed).ok()?;
        }
        for &held in &holds {
            all[held].elsewhere = all[held].elsewhere.saturating_sub(1);
        }
        all[n].holds = holds;
    }
    Some(all)
}

/// A copy of the files in flight, for a receiver that only looks at the message (`MSG_PEEK`).
pub(super) fn copy(flight: &Flight) -> Vec<Arc<File>> {
    while_nobody_looks(flight.files(), 0, || flight.files().to_vec())
}
