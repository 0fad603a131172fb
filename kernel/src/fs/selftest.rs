//! The room's own tests (see `boot::selftest`).

use super::children::Children;
use super::dentry::{Dentry, Name};
use super::mount::initial_root;
use crate::check;
use crate::rcu::{self, Shared, read};
use crate::sched::{CpuSet, WaitQueue, current, online, policy, spawn_kthread, yield_now};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use limen_name_table::Wanted;

/// The room's tests.
pub const TESTS: &[crate::selftest::Test] = &[
    ("a directory's names are those of a map", as_a_map),
    ("readers find a name while others change", readers),
    (
        "what crosses the threshold is counted exactly",
        super::entry::counts_exactly,
    ),
];

fn dentry(name: &[u8]) -> Shared<Dentry> {
    let root = initial_root().dentry;
    Dentry::new(&root, name, root.inode.clone())
}

fn as_a_map() -> Result<(), &'static str> {
    let children = Children::new();
    let mut map = BTreeMap::<Vec<u8>, (Shared<Dentry>, u64)>::new();
    check!(!children.has(b"x") && children.remove(b"x").is_none() && children.get(b"").is_none());
    let mut chance = 1u32;
    for step in 0..20_000u64 {
        chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let name = format!("{:x}", chance >> 8 & 0x3ff).into_bytes();
        let known = map.get(&name);
        check!(children.has(&name) == known.is_some());
        match known {
            Some((dentry, _)) => {
                check!(children.is(&name, dentry));
                check!(
                    children
                        .get(&name)
                        .is_some_and(|found| Shared::ptr_eq(&found, dentry))
                );
            }
            None => check!(children.get(&name).is_none()),
        }
        match chance >> 28 {
            // It grows first, and then becomes small again.
            0..6 if known.is_some() => {
                let ours = children
                    .remove(&name)
                    .ok_or("a name that is there was not removed")?;
                let theirs = map.remove(&name).ok_or("it was in the map")?;
                check!(Shared::ptr_eq(&ours.0, &theirs.0) && ours.1 == theirs.1);
            }
            6 if known.is_some() => {
                let new = dentry(&name);
                let ours = children.replace(&name, new.clone());
                let ours = ours.ok_or("a name that is there was not replaced")?;
                let theirs = map.get_mut(&name).ok_or("it was in the map")?;
                check!(Shared::ptr_eq(&ours.0, &theirs.0) && ours.1 == theirs.1);
                theirs.0 = new;
            }
            _ if known.is_none() && step < 15_000 => {
                if children.must_grow() {
                    let room = Children::room_for(2 * children.len());
                    drop(children.move_to(room.map_err(|_| "no memory")?));
                    check!(!children.must_grow());
                }
                children.reserve().map_err(|_| "no memory")?;
                let new = dentry(&name);
                children.insert(Name::from(&name[..]), new.clone(), step);
                map.insert(name, (new, step));
            }
            _ => {}
        }
        check!(children.len() == map.len());
    }
    for (name, (dentry, _)) in &map {
        check!(children.is(name, dentry));
    }
    let all = children.take().ok_or("there were names")?;
    all.clear();
    check!(children.len() == 0 && map.keys().all(|name| !children.has(name)));
    // The test and nobody else has them now, though readers may still look at them.
    check!(map.values().all(|(dentry, _)| Shared::references(dentry) == 1));
    Ok(())
}

fn readers() -> Result<(), &'static str> {
    const KEPT: [&[u8]; 4] = [b"a", b"some-name", b"lib", b"0123456789abcdef"];
    struct Place {
        children: Children,
        kept: [Shared<Dentry>; KEPT.len()],
        over: AtomicBool,
        found: AtomicUsize,
        wrong: AtomicUsize,
        ended: AtomicUsize,
        wait: WaitQueue,
    }
    let place = Arc::new(Place {
        children: Children::new(),
        kept: KEPT.map(dentry),
        over: AtomicBool::new(false),
        found: AtomicUsize::new(0),
        wrong: AtomicUsize::new(0),
        ended: AtomicUsize::new(0),
        wait: WaitQueue::new(),
    });
    for (cookie, (name, dentry)) in KEPT.iter().zip(&place.kept).enumerate() {
        place.children.reserve().map_err(|_| "no memory")?;
        place
            .children
            .insert(Name::from(*name), dentry.clone(), cookie as u64);
    }
    let cpus = online();
    for n in cpus.iter() {
        let place = place.clone();
        spawn_kthread("selftest", move || {
            let _ = policy::set_affinity(&current(), CpuSet::single(n));
            while !place.over.load(Acquire) {
                for (name, kept) in KEPT.iter().zip(&place.kept) {
                    let reader = read();
                    // It may be out of sight, but never another one.
                    if let Some(found) = place.children.find(&Wanted::new(name), &reader) {
                        place.found.fetch_add(1, Relaxed);
                        if !found.is(Shared::found(kept, &reader)) {
                            place.wrong.fetch_add(1, Relaxed);
                        }
                    }
                }
                yield_now();
            }
            place.ended.fetch_add(1, Release);
            place.wait.wake_all();
        });
    }
    // This thread is the only one that changes the names, so it needs no lock.
    for round in 0..4 {
        for n in 0..300 {
            let name = format!("{round}-{n}");
            if place.children.must_grow() {
                let room = Children::room_for(2 * place.children.len()).map_err(|_| "no memory")?;
                drop(place.children.move_to(room));
            }
            place.children.reserve().map_err(|_| "no memory")?;
            place
                .children
                .insert(Name::from(name.as_bytes()), dentry(name.as_bytes()), 9);
            check!(
                KEPT.iter()
                    .zip(&place.kept)
                    .all(|(name, kept)| place.children.is(name, kept))
            );
            if n % 16 == 0 {
                yield_now();
            }
        }
        for n in 0..300 {
            check!(place.children.remove(format!("{round}-{n}").as_bytes()).is_some());
            if n % 16 == 0 {
                yield_now();
            }
        }
    }
    while place.found.load(Relaxed) < 100 {
        yield_now();
    }
    place.over.store(true, Release);
    place
        .wait
        .wait_until_uninterruptible(|| place.ended.load(Acquire) == cpus.count());
    rcu::barrier();
    check!(place.wrong.load(Relaxed) == 0 && place.children.len() == KEPT.len());
    Ok(())
}
