//! The sites: which target each of them calls. Targets change while all CPUs run. A site's slot always has
//! the address of a target that is there: it is written before the instruction that calls, and a CPU that has
//! executed that instruction but not yet read the slot finds what is there then. From before it reads the
//! slot until the target's handler has returned, preemption is off, so that a grace period waits for it.

use super::target::{NOTHING, Target};
use crate::arch::patch;
use crate::arch::site_table::TABLE;
use crate::arch::sites::{self, Entry, PHASES, Value};
use crate::mm::PAGE_SIZE;
use crate::mm::reserve::room_exact;
use crate::mm::text::Writable;
use crate::rcu;
use crate::sched::{on_each_cpu, online};
use crate::sync::Mutex;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Relaxed, Release};
use limen_linux_abi::Errno;

#[allow(improper_ctypes, reason = "what it calls knows what a target is made of")]
unsafe extern "C" {
    /// Calls all targets of one's list (`Target::many`), which it finds in its second word, with what it is
    /// called with itself.
    pub safe fn trace_each(ip: usize, parent: usize, target: &Target, entry: &mut Entry);
}

/// A site's new target. `None`: its function is not traced any more.
pub type Change = (usize, Option<Arc<Target>>);

/// The targets, by site; empty as long as nothing was traced.
static TARGETS: Mutex<Vec<Option<Arc<Target>>>> = Mutex::new(Vec::new());

/// How many there are.
pub fn count() -> usize {
    TABLE.len()
}

/// The address of site `n`, as its targets are told. `None`: there is none.
pub fn address(n: usize) -> Option<usize> {
    TABLE.site(n).map(sites::ip)
}

/// The number of the site of the function in which `address` is, if it has one: `end` is the address behind
/// the function.
pub fn find(address: usize, end: usize) -> Option<usize> {
    let n = TABLE.search(address);
    (self::address(n)? < end).then_some(n)
}

/// Whether all sites are as the compiler and the build made them, and nothing is traced. Boot.
pub fn are_intact() -> bool {
    (0..count()).filter_map(|n| TABLE.site(n)).all(|site| {
        let aligned = sites::slot(site).is_multiple_of(size_of::<usize>());
        // SAFETY: the table's addresses are of the image's text, and the word lies in one page.
        let now = unsafe { (sites::place(site) as *const Value).read() };
        aligned && sites::is_off(now)
    })
}

/// Each site of `changes`, which are numbers in ascending order, gets its new target. When it returns no CPU
/// is in a target that has been replaced, and the next call of each function sees its new one. Thread; may
/// sleep.
/// `ENOMEM`: nothing has changed.
pub fn change(changes: &[Change]) -> Result<(), Errno> {
    let mut targets = TARGETS.lock();
    if targets.is_empty() {
        room_exact(&mut *targets, count())?;
        targets.resize(count(), None);
    }
    let mut former = Vec::new();
    let mut begins = Vec::new();
    let mut ends = Vec::new();
    for list in [&mut begins, &mut ends] {
        room_exact(list, changes.len())?;
    }
    room_exact(&mut former, changes.len())?;
    let all = || {
        changes
            .iter()
            .filter_map(|(n, new)| Some((*n, TABLE.site(*n)?, new)))
    };
    let first = all()
        .map(|(_, site, _)| sites::slot(site).min(sites::place(site)))
        .min();
    let last = all()
        .map(|(_, site, _)| sites::slot(site).max(sites::place(site)))
        .max();
    let (Some(first), Some(last)) = (first, last) else {
        return Ok(());
    };
    let text = Writable::new(first..last + size_of::<u64>())?;
    for (n, site, new) in all() {
        if let Some(new) = new {
            // SAFETY: the target is kept below, until a grace period after it was replaced.
            unsafe { text.pointer(sites::slot(site)) }.store(Arc::as_ptr(new) as usize, Release);
        }
        match (&targets[n], new) {
            (None, Some(_)) => begins.push(site),
            (Some(_), None) => ends.push(site),
            _ => {}
        }
    }
    switch(&text, &begins, true);
    switch(&text, &ends, false);
    for (n, site, new) in all() {
        if new.is_none() {
            // SAFETY: it is never freed.
            unsafe { text.pointer(sites::slot(site)) }.store(&raw const NOTHING as usize, Release);
        }
        former.extend(core::mem::replace(&mut targets[n], new.clone()));
    }
    drop(text);
    drop(targets);
    if !former.is_empty() {
        rcu::synchronize();
    }
    Ok(())
}

/// All of `list` call their targets from now on, or do not, as every CPU sees it.
fn switch(text: &Writable, list: &[usize], call: bool) {
    if list.is_empty() {
        return;
    }
    // The last phase comes twice: an emulator (QEMU before 8.1) may have read what was there before while it
    // translated, and keep that until there is another store. After all CPUs were interrupted none still
    // does.
    for phase in (0..PHASES).chain([PHASES - 1]) {
        for (n, site) in list.iter().enumerate() {
            let place = sites::place(*site);
            // SAFETY: the architecture says what may be written there, in this order; all CPUs see each phase
            // before the next.
            let word = unsafe { text.word(place) };
            word.store(sites::word(*site, word.load(Relaxed), call, phase), Release);
            // Once for each page, with its last.
            let next = list.get(n + 1).map(|site| sites::place(*site) / PAGE_SIZE);
            if next != Some(place / PAGE_SIZE) {
                text.written(place);
            }
        }
        on_each_cpu(online(), &patch::synchronize);
    }
}
