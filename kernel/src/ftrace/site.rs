//! The sites: which target each of them calls. Targets change while all CPUs run. A site's slot always has
//! the address of a target that is there: it is written before the instruction that calls, and a CPU that has
//! executed that instruction but not yet read the slot finds what is there then. From before it reads the
//! slot until the target's handler has returned, preemption is off, so that a grace period waits for it.
//!
//! Sites have numbers: those of the image, from 0, then those of modules ([`texts`]).

use super::direct;
use super::target::{NOTHING, Target};
use super::texts::{self, Place};
use crate::arch::patch;
use crate::arch::site_table::{self, TABLE};
use crate::arch::sites::{self, Entry, PHASES, Saved, Value};
use crate::mm::reserve::{room, room_exact};
use crate::mm::text::{Writable, exchange};
use crate::rcu;
use crate::sched::{on_each_cpu, online};
use crate::sync::Mutex;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::Ordering::{Relaxed, Release};
use limen_linux_abi::Errno;

#[allow(improper_ctypes, reason = "what it calls knows what a target is made of")]
unsafe extern "C" {
    /// Calls all targets of one's list (`Target::many`), which it finds in its second word, with what it is
    /// called with itself.
    pub safe fn trace_each(ip: usize, parent: usize, target: &Target, entry: &Entry);
    /// The same, with all registers on the stack, where [`register`] finds them.
    pub safe fn trace_saved(ip: usize, parent: usize, target: &Target, entry: &Entry);
}

/// The register with DWARF's number `n`, as it was at the beginning of the function that `target` traces and
/// that was called with `entry`. `None`: that is not known; a target that asked for them has all that say
/// something there.
pub fn register(target: &Target, entry: &Entry, n: usize) -> Option<usize> {
    if target.kind().needs_regs() {
        // SAFETY: such targets are called by `trace_saved` (`change` refuses them otherwise).
        unsafe { Saved::of(entry) }.register(n)
    } else {
        entry.register(n)
    }
}

/// What is in the slots of sites that nobody traces: the address of a target.
pub fn nothing() -> usize {
    &raw const NOTHING as usize
}

/// A site's new target. `None`: its function is not traced any more.
pub type Change = (usize, Option<Arc<Target>>);

/// The targets, by site; empty as long as nothing was traced.
static TARGETS: Mutex<Vec<Option<Arc<Target>>>> = Mutex::new(Vec::new());

/// How many the image has.
pub fn count() -> usize {
    TABLE.len()
}

/// The address of site `n`, as its targets are told. `None`: there is none.
pub fn address(n: usize) -> Option<usize> {
    place(n).map(|place| sites::ip(place.site))
}

/// The first number that no site has, nor one above it.
pub fn bound() -> usize {
    texts::bound()
}

fn place(n: usize) -> Option<Place> {
    let of_image = |site| Place {
        text: 0,
        site,
        to: sites::trampoline(site),
    };
    TABLE.site(n).map(of_image).or_else(|| texts::place(n))
}

/// The number of the site of the function in which `address` is, if it has one: `end` is the address behind
/// the function.
pub fn find(address: usize, end: usize) -> Option<usize> {
    let n = TABLE.search(address);
    match TABLE.site(n) {
        Some(site) if sites::ip(site) < end => Some(n),
        _ => texts::find(address, end),
    }
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

/// A site that is changed.
struct Changed<'a> {
    n: usize,
    place: Place,
    new: &'a Option<Arc<Target>>,
}

/// Where the sites of a text are written.
struct Writing {
    /// As in [`Place`].
    text: usize,
    pages: Writable,
}

/// Each site of `changes`, which are numbers in ascending order, gets its new target. When it returns no CPU
/// is in a target that has been replaced, but for direct calls, which may sleep; and the next call of each
/// function sees its new one. Those that there are not are left out. Thread; may sleep.
/// `ENOMEM`: nothing has changed; `EINVAL`: one needs all registers and is no [`Target::many`].
pub fn change(changes: &[Change]) -> Result<(), Errno> {
    let bare = |new: &Option<Arc<Target>>| new.as_ref().is_some_and(|new| new.kind().needs_regs());
    if changes.iter().any(|(_, new)| bare(new)) {
        return Err(Errno::EINVAL);
    }
    let mut targets = TARGETS.lock();
    let end = bound();
    if targets.len() < end {
        let more = end - targets.len();
        room_exact(&mut *targets, more)?;
        targets.resize(end, None);
    }
    let mut all = Vec::new();
    room_exact(&mut all, changes.len())?;
    all.extend(changes.iter().filter_map(|(n, new)| {
        Some(Changed {
            n: *n,
            place: place(*n)?,
            new,
        })
    }));
    let mut former = Vec::new();
    let mut begins = Vec::new();
    let mut ends = Vec::new();
    for list in [&mut begins, &mut ends] {
        room_exact(list, all.len())?;
    }
    room_exact(&mut former, all.len())?;
    let mut foreign = Vec::new();
    room_exact(&mut foreign, all.iter().filter(|one| one.place.text != 0).count())?;
    let mut writings = Vec::new();
    for one in all.chunk_by(|a, b| a.place.text == b.place.text) {
        let at = |one: &Changed<'_>| [sites::slot(one.place.site), sites::place(one.place.site)];
        let first = one.iter().flat_map(at).min().unwrap_or(0);
        let last = one.iter().flat_map(at).max().unwrap_or(0);
        room(&mut writings, 1)?;
        writings.push(Writing {
            text: one.first().map_or(0, |one| one.place.text),
            pages: Writable::new(first..last + size_of::<u64>())?,
        });
    }
    let store = |place: Place, target: usize| {
        let pages = pages_of(&writings, place);
        // SAFETY: the target is kept below, until a grace period after it was replaced, or never freed.
        unsafe { pages.pointer(sites::slot(place.site)) }.store(target, Release);
    };
    for one in &all {
        if let Some(new) = one.new {
            store(one.place, Arc::as_ptr(new) as usize);
        }
        match (targets.get(one.n), one.new) {
            (Some(None), Some(_)) => begins.push(one.place),
            (Some(Some(_)), None) => ends.push(one.place),
            _ => {}
        }
    }
    switch(&writings, &begins, true, &mut foreign);
    switch(&writings, &ends, false, &mut foreign);
    for one in &all {
        if one.new.is_none() {
            store(one.place, nothing());
        }
        if let Some(target) = targets.get_mut(one.n) {
            former.extend(core::mem::replace(target, one.new.clone()));
        }
    }
    drop(writings);
    drop(targets);
    if !former.is_empty() {
        rcu::synchronize();
        direct::release(former);
    }
    Ok(())
}

/// Sites of a module are gone, and nobody executes them: what they referred to is dropped when no CPU is in
/// it. They are not written. May sleep.
pub fn forget(sites: Range<usize>) {
    let is_traced = |targets: &Vec<Option<Arc<Target>>>| {
        let mut own = targets.iter().skip(sites.start).take(sites.len());
        own.any(Option::is_some)
    };
    if !is_traced(&TARGETS.lock()) {
        return;
    }
    rcu::synchronize();
    for n in sites {
        let former = TARGETS.lock().get_mut(n).and_then(Option::take);
        direct::release(former);
    }
}

/// The writable pages of a site.
fn pages_of(writings: &[Writing], place: Place) -> &Writable {
    let at = writings.partition_point(|writing| writing.text < place.text);
    &writings[at].pages
}

/// All of `list` call their targets from now on, or do not, as every CPU sees it. `foreign` has room for
/// those of modules.
fn switch(writings: &[Writing], list: &[Place], call: bool, foreign: &mut Vec<usize>) {
    if list.is_empty() {
        return;
    }
    foreign.clear();
    foreign.extend(
        list.iter()
            .filter(|place| place.text != 0)
            .map(|place| place.site),
    );
    foreign.sort_unstable();
    let at = |one: &Place| (pages_of(writings, *one), sites::place(one.site));
    let settle = || on_each_cpu(online(), &patch::synchronize);
    site_table::while_changing(foreign, settle, || {
        exchange(PHASES, list, at, |one, phase| {
            let (pages, place) = at(one);
            // SAFETY: the architecture says what may be written there, in this order; all CPUs see each phase
            // before the next.
            let word = unsafe { pages.word(place) };
            let new = sites::word(one.site, one.to, word.load(Relaxed), call, phase);
            word.store(new, Release);
        });
    });
}
