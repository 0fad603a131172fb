//! The linear map of memory, and the kernel's other mappings, changed while everything runs on them: what may
//! be done with a range is taken or given, and blocks become smaller, and large again (`crates/linear-map`).
//!
//! Changes are made in any context, interrupts off included, with tables that are kept in reserve. Only where
//! the processor's rule wants that nobody uses a block whose size changes, other CPUs have to wait
//! ([`call::alone`]), and so must be able to: there a change that needs it comes from a thread.
//!
//! While others wait, what this CPU needs is not in the block: code, stack and statics are in the image or in
//! `mm::vmap`, both of which are mapped by pages, and the table with the block's entry is written through a
//! page of its own ([`Window`]) if it lies there.

pub(super) mod selftest;
pub(super) mod selftest_cost;
pub(super) mod selftest_faults;
mod set;
mod tables;

pub(in crate::mm) use set::each_run;
pub use set::{aliases, reset, set_executable, set_no_exec, set_present, set_read_only, set_writable};
pub(super) use set::{set_free, set_ordinary};

use super::frame::{self, FrameList};
use super::{PAGE_SIZE, PhysAddr, kernel_map as seen};
use crate::arch::{irq, kernel_map, mmu};
use crate::cmdline;
use crate::sched::{call, preempt};
use crate::sync::{IrqSpinGuard, IrqSpinLock};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use limen_entry::ThreadFlags;
use limen_linear_map::{
    self as linear_map, Access, Change, Edit, Error, MAX_RESERVE, Map, Mapped, Report, Reserve, Step, rule,
};
use limen_linux_abi::Errno;
use tables::{Live, MAP, Pool, Window, refill, write};

pub(super) use tables::{Need, Stretch, each_stretch, keep, wants};
pub use tables::{count as tables, count_linear as linear_tables, in_reserve};

/// Why a range is changed: who is counted as having split blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// `memfd_secret`.
    Secret,
    /// Code and constants of a module.
    Module,
    /// Memory that is read-only elsewhere.
    Alias,
    /// Blocks are not wanted at all.
    Pages,
    /// `debug_pagealloc`.
    PageAlloc,
    /// What only boot needed is given back.
    Init,
    /// A self-test.
    Test,
}

/// Their names, in debugfs.
pub const REASONS: [&str; 7] = ["secret", "module", "alias", "pages", "pagealloc", "init", "test"];

static REASON_SPLITS: [AtomicU64; REASONS.len()] = [const { AtomicU64::new(0) }; REASONS.len()];

/// How many blocks were split, by [`REASONS`].
pub fn splits() -> [u64; REASONS.len()] {
    core::array::from_fn(|n| REASON_SPLITS[n].load(Relaxed))
}

/// So many tables more than are needed are made when there are too few.
const SPARE: usize = MAX_RESERVE;

/// Whether this code may wait for other CPUs.
fn may_wait() -> bool {
    preempt::count() == 0 && irq::enabled()
}

/// What a change does at the end to what has become equal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Merge {
    Yes,
    No,
}

/// How a change is driven.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// Other CPUs go on. The lock is let go at pauses.
    Beside,
    /// Other CPUs wait, as long as sizes have to change.
    Alone,
}

/// Drives one change. `parks`: whether sizes still have to change in a way for which others must wait.
/// Returns the lock; `false`: it was left at a pause, because that has become so, or is not so any more.
fn drive<'a>(
    change: &mut Change,
    how: How,
    mut pool: IrqSpinGuard<'a, Pool>,
    surplus: &mut FrameList,
    parks: impl Fn() -> bool,
) -> (IrqSpinGuard<'a, Pool>, bool) {
    let mut window = Window::CLOSED;
    let mut whole = true;
    while let Some(step) = change.next(&Live) {
        match step {
            Step::Write { .. } => write(&mut window, &step),
            Step::Barrier => mmu::update_kernel(0, 0),
            Step::Invalidate {
                start,
                end,
                levels,
                tables,
            } => kernel_map::invalidate(start, end, levels, tables),
            Step::Free { table, .. } => pool.put(table, surplus),
            Step::Park { start, end } => window = Window::open(start, end),
            Step::Unpark => window.close(),
            Step::Pause => {
                if how == How::Beside {
                    drop(pool);
                    pool = MAP.lock();
                }
                if parks() != (how == How::Alone) {
                    whole = false;
                    break;
                }
            }
        }
    }
    while let Some(table) = change.rest().take() {
        pool.put(table, surplus);
    }
    (pool, whole)
}

/// Changes `[start, end)`, by addresses as the tables count.
///
/// `EINVAL`: a leaf of the range would allow to write and to execute; what comes before it has been changed.
fn change(map: &Map, range: (u64, u64), edit: Edit, merge: Merge, why: Reason) -> Result<(), Errno> {
    let mut surplus = FrameList::new();
    loop {
        let done = attempts(map, range, edit, merge, why, &mut surplus);
        frame::free_list(core::mem::replace(&mut surplus, FrameList::new()));
        match done {
            Err(Wanted::Tables(wanted)) => {
                let more = refill(wanted + SPARE);
                if in_reserve() < wanted && more.is_err() {
                    return more;
                }
            }
            Err(Wanted::Nothing(errno)) => return Err(errno),
            Ok(()) => return Ok(()),
        }
    }
}

/// Why a change ends before it is done.
enum Wanted {
    /// It needs so many tables, and the reserve has fewer.
    Tables(usize),
    /// It cannot be done.
    Nothing(Errno),
}

/// [`change`], with the tables of the reserve only; `surplus` gets those that find no room in it. So it
/// allocates and frees nothing: the frame allocator itself calls it.
fn attempts(
    map: &Map,
    (start, end): (u64, u64),
    edit: Edit,
    merge: Merge,
    why: Reason,
    surplus: &mut FrameList,
) -> Result<(), Wanted> {
    let direct = is_direct(start);
    let resizes_alone = map.rule.parks(map.rule.table);
    // Where others would have to wait for it, what is equal is merged afterwards, if anything is.
    let merges = merge == Merge::Yes && !resizes_alone;
    let needs = || map.needs(&Live, start, end);
    let parks = || resizes_alone && needs().is_ok_and(|needs| needs.parks);
    let mut alone_now = false;
    let result = loop {
        let mut done = None;
        let mut attempt = |how| -> Result<(), Errno> {
            let mut pool = MAP.lock();
            let needs = needs().map_err(errno)?;
            if needs.parks && how != How::Alone {
                done = Some(Attempt::MustBeAlone);
                return Ok(());
            }
            if pool.count < needs.tables {
                done = Some(Attempt::Tables(needs.tables));
                return Ok(());
            }
            let mut reserve = Reserve::new();
            pool.take(&mut reserve, needs.tables);
            let mut change = Change::new(map, start, end, edit, reserve, merges);
            let (pool, whole) = drive(&mut change, how, pool, surplus, parks);
            drop(pool);
            note(change.report(), direct, why);
            done = Some(match change.outcome() {
                Ok(_) if whole => Attempt::Done,
                // The map changed at a pause.
                Ok(_) | Err(Error::NoTables) => Attempt::Again,
                Err(error) => return Err(errno(error)),
            });
            Ok(())
        };
        let mut result = Ok(());
        if alone_now {
            alone(&mut || result = attempt(How::Alone));
        } else {
            result = attempt(How::Beside);
        }
        match done {
            _ if result.is_err() => break result,
            Some(Attempt::Done) => break Ok(()),
            Some(Attempt::Tables(wanted)) => return Err(Wanted::Tables(wanted)),
            Some(Attempt::MustBeAlone) if !may_park() => return Err(Wanted::Nothing(Errno::EBUSY)),
            Some(Attempt::MustBeAlone) => alone_now = true,
            _ => alone_now = false,
        }
    };
    if merge == Merge::Yes && resizes_alone {
        if may_park() {
            merge_alone(map, start, end, direct);
        } else {
            put_off(start, end);
        }
    }
    result.map_err(Wanted::Nothing)
}

/// How an attempt at a change ended.
enum Attempt {
    Done,
    /// It is to go on, as the map is now.
    Again,
    /// Others have to wait.
    MustBeAlone,
    /// The reserve has fewer tables than that.
    Tables(usize),
}

/// Whether an address, as the tables count, is in the linear map.
fn is_direct(addr: u64) -> bool {
    let area = &kernel_map::areas()[0];
    (area.start..area.end).contains(&addr)
}

/// Counts what a change has done.
fn note(report: &Report, direct: bool, why: Reason) {
    seen::note(report, direct);
    let split: u32 = report.splits.iter().sum();
    REASON_SPLITS[why as usize].fetch_add(u64::from(split), Relaxed);
}

fn errno(error: Error) -> Errno {
    match error {
        Error::Unaligned | Error::WriteAndExecute => Errno::EINVAL,
        Error::Refused => Errno::EBUSY,
        Error::NoTables => Errno::ENOMEM,
        Error::Occupied => Errno::EEXIST,
    }
}

/// Whether other CPUs can be made to wait here: in threads; and as long as there are none.
fn may_park() -> bool {
    !STARTED.load(Relaxed) || may_wait()
}

/// Whether there are, or may be, other CPUs.
static STARTED: AtomicBool = AtomicBool::new(false);

/// Runs `f` while other CPUs wait.
fn alone(f: &mut (dyn FnMut() + Send)) {
    if STARTED.load(Relaxed) {
        call::alone(f);
    } else {
        f();
    }
}

/// Merges the blocks around `[start, end)` that have become equal, while other CPUs wait.
fn merge_alone(map: &Map, start: u64, end: u64, direct: bool) {
    for level in 1..=map.largest {
        let size = map.geometry.level(level).size();
        let mut at = start & !(size - 1);
        while at < end {
            if can_merge(map, at, level, (start, end)) {
                let mut surplus = FrameList::new();
                let mut change = Change::merge(map, at, at + size);
                alone(&mut || drop(drive(&mut change, How::Alone, MAP.lock(), &mut surplus, || true)));
                frame::free_list(surplus);
                seen::note(change.report(), direct);
            }
            at += size;
        }
    }
}

/// A range of the linear map in which blocks may have become equal while other CPUs could not be made to
/// wait.
static PUT_OFF: IrqSpinLock<Option<(u64, u64)>> = IrqSpinLock::new(None);

/// `[start, end)` is merged by the running thread on its way to user mode, or by the next one that calls
/// [`merge_put_off`]. In any context.
fn put_off(start: u64, end: u64) {
    let mut range = PUT_OFF.lock();
    let (first, last) = range.unwrap_or((start, end));
    *range = Some((first.min(start), last.max(end)));
    preempt::current_info().work.set(ThreadFlags::NOTIFY_RESUME);
}

/// Merges what was put off. May sleep.
pub fn merge_put_off() {
    let range = PUT_OFF.lock().take();
    if let Some((start, end)) = range {
        merge_alone(&map(), start, end, true);
    }
}

/// Whether the table at `at` can become a block of `level`, after a change of `range`. Nothing of the image's
/// surroundings can: what merging needs is there.
fn can_merge(map: &Map, at: u64, level: usize, range: (u64, u64)) -> bool {
    let size = map.geometry.level(level).size();
    let image = kernel_map::image();
    let addr = |phys| kernel_map::address(mmu::phys_to_virt(PhysAddr::new(phys)) as usize);
    let apart = at + size <= addr(image.text) || at >= addr(image.end);
    let _lock = MAP.lock();
    apart && map.merges(&Live, at, level, range)
}

/// Takes and gives what may be done with `pages` pages of the linear map from the one at `phys` on. Errors:
/// `ENOMEM`; `EBUSY` if other CPUs would have to wait and this code may not. In any context.
fn change_linear(phys: PhysAddr, pages: usize, edit: Edit, why: Reason) -> Result<(), Errno> {
    if mmu::HIGH_MEMORY && phys.as_u64() >= mmu::linear_end() {
        return Ok(());
    }
    change(&map(), range(phys, pages), edit, Merge::Yes, why)
}

/// Where memory is in the linear map, as the tables count.
fn range(phys: PhysAddr, pages: usize) -> (u64, u64) {
    let start = kernel_map::address(mmu::phys_to_virt(phys) as usize);
    (start, start + (pages * PAGE_SIZE) as u64)
}

/// The map, as it may be changed.
fn map() -> Map {
    let map = kernel_map::map();
    if !FIXED.load(Relaxed) {
        return map;
    }
    Map {
        rule: rule::FIXED,
        largest: 0,
        groups: false,
        ..map
    }
}

/// How sizes change, in a word for debugfs: in one store, while others wait, or never.
pub fn sizes() -> &'static str {
    let rule = map().rule;
    match rule.table {
        linear_map::Resize::Never => "fixed",
        how if rule.parks(how) => "alone",
        _ => "live",
    }
}

/// Whether all leaves are pages, for good.
static FIXED: AtomicBool = AtomicBool::new(false);

/// An edit that only makes leaves begin and end where it does.
const NOTHING: Edit = Edit {
    clear: Access::empty(),
    set: Access::empty(),
};

/// Makes smaller leaves of all leaves of the linear map of which `ends` says where those are to begin and
/// end, once or again. There are no groups afterwards. Boot: nobody else changes the map.
fn divide(ends: impl Fn(&Mapped, u64) -> Option<(u64, u64)>) -> Result<(), Errno> {
    let map = Map {
        groups: false,
        ..kernel_map::map()
    };
    let area = &kernel_map::areas()[0];
    let page = map.geometry.level(0).size();
    let mut at = area.start;
    let next = |at| {
        let mut leaves = map.leaves(&Live, at, area.end);
        leaves.find_map(|found| Some((found.addr, ends(&found, page)?)))
    };
    while let Some((addr, range)) = next(at) {
        change(&map, range, NOTHING, Merge::No, Reason::Pages)?;
        at = addr;
    }
    Ok(())
}

/// Makes pages of all blocks of the linear map.
#[unsafe(link_section = ".init.text")]
fn to_pages() -> Result<(), Errno> {
    divide(|found, page| {
        let middle = (found.addr + page, found.addr + 2 * page);
        (found.level > 0 || found.leaf.grouped).then_some(middle)
    })
}

/// Sizes will not change live any more: makes the map one that other CPUs can wait for. Boot, thread, as long
/// as nothing else changes the map. Errors: `EBUSY` with `debug_pagealloc`, which changes it where nobody can
/// wait; `ENOMEM`.
pub fn before_alone() -> Result<(), Errno> {
    if frame::debug_pagealloc::is_wanted() && !FIXED.load(Relaxed) {
        return Err(Errno::EBUSY);
    }
    tables::reserve_window()?;
    // Groups are not made then.
    divide(|found, _| {
        found
            .leaf
            .grouped
            .then_some((found.addr, found.addr + found.size))
    })
}

/// Boot CPU, when memory can be allocated: the reserve, and a map of pages if it is asked for.
#[unsafe(link_section = ".init.text")]
pub(super) fn init() {
    tables::init();
    let map = kernel_map::map();
    let alone = map.rule.parks(map.rule.table) || map.groups && map.rule.parks(map.rule.group);
    // Frames are freed where nobody can wait for other CPUs.
    let debug = frame::debug_pagealloc::is_wanted();
    if kernel_map::wants_pages() || cmdline::value("kernel_map") == Some("pages") || debug && alone {
        to_pages().expect("no memory for a map of pages");
        FIXED.store(true, Relaxed);
    }
    seen::init();
}

/// Other CPUs will start.
pub fn start() {
    STARTED.store(true, Relaxed);
    set::complain();
    // Not earlier: what brings up the machine leaves little stack for changes.
    if frame::debug_pagealloc::is_wanted() {
        crate::sync::without_interrupts(frame::debug_pagealloc::start);
    }
}
