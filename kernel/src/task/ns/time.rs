//! Time namespaces: what they add to `CLOCK_MONOTONIC` and to `CLOCK_BOOTTIME` for the programs in them
//! (time_namespaces(7)). The kernel's own times never have it: system calls add it to what programs see, and
//! take it off what they say; what programs read without a call is in a page that each namespace has.
//!
//! A thread makes one for its children. It stands for what is written to `timens_offsets` until the first
//! process is in it.

use super::{Head, Kind, Next, Ns, NsRef, Room, Set, for_children};
use crate::mm::frame::For;
use crate::mm::reserve::room;
use crate::mm::{AddressSpace, Page, SpecialPages};
use crate::sync::SpinLock;
use crate::task::creds::cap;
use crate::task::exec::vdso;
use crate::task::{CurrentTask, Task, current, unshare};
use crate::time::{NSEC_PER_SEC, now_ns, raw_ns};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use limen_linux_abi::Errno;
use limen_vdso::ClockData;

/// A clock that namespaces set apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// `CLOCK_MONOTONIC`, `CLOCK_MONOTONIC_RAW` and `CLOCK_MONOTONIC_COARSE`.
    Monotonic,
    /// `CLOCK_BOOTTIME` and `CLOCK_BOOTTIME_ALARM`.
    Boottime,
}

impl Clock {
    /// The clock with number `id`. `None`: it is the same in all namespaces.
    #[inline]
    pub fn from_id(id: i32) -> Option<Self> {
        match id {
            1 | 4 | 6 => Some(Self::Monotonic),
            7 | 9 => Some(Self::Boottime),
            _ => None,
        }
    }
}

/// What a namespace adds, nanoseconds; [`Clock`] is the index.
type Offsets = [i64; 2];

/// A time namespace that was made.
struct TimeNs {
    head: Head,
    offsets: [AtomicI64; 2],
    /// A process is or was in it: its offsets stay as they are. Changes with `offsets` under `setting`.
    in_use: AtomicBool,
    setting: SpinLock<()>,
    /// What its programs read instead of making calls, and as they map it. `None`: there is no vDSO.
    page: Page,
    data: Option<Arc<SpecialPages>>,
}

impl TimeNs {
    fn new(owner: super::UserRef, offsets: Offsets) -> Result<Self, Errno> {
        let page = Page::alloc_zeroed(For::Kernel).ok_or(Errno::ENOMEM)?;
        page.shared::<ClockData>().set_namespace(offsets);
        Ok(Self {
            head: Head::new(Kind::Time, owner)?,
            offsets: offsets.map(AtomicI64::new),
            in_use: AtomicBool::new(false),
            setting: SpinLock::new(()),
            data: vdso::data_with(&page),
            page,
        })
    }
    fn offset(&self, clock: Clock) -> i64 {
        self.offsets[clock as usize].load(Ordering::Relaxed)
    }
    fn offsets(&self) -> Offsets {
        [self.offset(Clock::Monotonic), self.offset(Clock::Boottime)]
    }
    /// Sets offsets. `EACCES`: a process is or was in it.
    fn set(&self, new: &[(Clock, i64)]) -> Result<(), Errno> {
        let _setting = self.setting.lock();
        if self.in_use.load(Ordering::Relaxed) {
            return Err(Errno::EACCES);
        }
        for &(clock, offset) in new {
            self.offsets[clock as usize].store(offset, Ordering::Relaxed);
        }
        self.page.shared::<ClockData>().set_namespace(self.offsets());
        Ok(())
    }
    /// A process comes into it.
    fn enter(&self) {
        if !self.in_use.load(Ordering::Acquire) {
            let _setting = self.setting.lock();
            self.in_use.store(true, Ordering::Release);
        }
    }
}

impl Ns for TimeNs {
    fn kind(&self) -> Kind {
        Kind::Time
    }
    fn head(&self) -> &Head {
        &self.head
    }
    fn join(self: Arc<Self>, next: &mut Next) -> Result<(), Errno> {
        join(next, Some(self))
    }
}

/// `EUSERS`: other threads have the caller's memory, in which the clocks are those of its namespace.
fn join(next: &mut Next, ns: Option<Arc<dyn Ns>>) -> Result<(), Errno> {
    if unshare::shares_memory(&current()) {
        return Err(Errno::EUSERS);
    }
    next.join(Kind::Time, ns.clone())?;
    next.set.put_time_for_children(ns);
    Ok(())
}

/// How they are made.
pub(super) struct Maker;

impl Room for Maker {
    fn make(&self, next: &mut Next) -> Result<(), Errno> {
        let offsets = next
            .set
            .time_for_children()
            .made::<TimeNs>()
            .map_or([0; 2], |ns| ns.offsets());
        let new = TimeNs::new(next.user(), offsets)?;
        next.set.put_time_for_children(Some(Arc::new(new)));
        Ok(())
    }
    fn join_initial(&self, next: &mut Next) -> Result<(), Errno> {
        join(next, None)
    }
}

/// The clock data that programs with these namespaces read.
fn data_of(ns: &NsRef) -> Option<Arc<SpecialPages>> {
    match ns.made::<TimeNs>() {
        Some(ns) => ns.data.clone(),
        None => vdso::initial_data(),
    }
}

/// The clock data of a program that the running thread begins, if its children are not in the initial time
/// namespace.
pub fn data_for_children(task: &CurrentTask) -> Option<Arc<SpecialPages>> {
    let set = task.namespaces()?;
    set.time_for_children().made::<TimeNs>()?.data.clone()
}

/// Threads with the memory `mm` are in another time namespace from now on.
pub(super) fn enter(ns: &NsRef, mm: Option<&AddressSpace>) {
    if let Some(made) = ns.made::<TimeNs>() {
        made.enter();
    }
    if let (Some(mm), Some(data)) = (mm, data_of(ns)) {
        mm.replace_special(&data);
    }
}

/// The namespaces of a new process with memory of its own, which its maker would have it begin with: it is in
/// the time namespace that is for children.
#[inline]
pub fn for_new_process(set: Option<Arc<Set>>, mm: Option<&AddressSpace>) -> Option<Arc<Set>> {
    match set {
        Some(set) if !set.time_for_children().is(&set.reference(Kind::Time)) => {
            let mut own = (*set).clone();
            let ns = own.enter_time_for_children();
            enter(&ns, mm);
            own.shared()
        }
        set => set,
    }
}

/// The running thread begins a program, whose memory has the right data already: it is in the time namespace
/// that is for children.
pub fn begin_program(task: &CurrentTask) {
    let set = task.counted_namespaces();
    if set.is_some() {
        let own = for_new_process(set.clone(), None);
        let changes = own.as_ref().map(Arc::as_ptr) != set.as_ref().map(Arc::as_ptr);
        drop(set);
        if changes {
            task.set_namespaces(own);
        }
    }
}

/// What the namespace of the running thread adds to a clock, nanoseconds.
#[inline(always)]
fn added(clock: Option<Clock>) -> i64 {
    match current().namespaces() {
        None => 0,
        Some(set) => added_in(set, clock),
    }
}

#[cold]
#[inline(never)]
fn added_in(set: &Set, clock: Option<Clock>) -> i64 {
    match (set.get::<TimeNs>(Kind::Time), clock) {
        (Some(ns), Some(clock)) => ns.offset(clock),
        _ => 0,
    }
}

/// A time of the clock with number `id`, nanoseconds, as the running thread's namespace shows it.
#[inline(always)]
pub fn shown(id: i32, ns: u64) -> u64 {
    match current().namespaces() {
        None => ns,
        Some(set) => ns.wrapping_add_signed(added_in(set, Clock::from_id(id))),
    }
}

/// [`shown`] of a time of `CLOCK_BOOTTIME`.
pub fn shown_boottime(ns: u64) -> u64 {
    ns.wrapping_add_signed(added(Some(Clock::Boottime)))
}

/// When the machine booted, nanoseconds of `CLOCK_REALTIME`, as the running thread's namespace shows it.
pub fn shown_boot() -> u64 {
    let boot = crate::time::realtime_ns().saturating_sub(now_ns());
    boot.saturating_add_signed(added(Some(Clock::Boottime)).saturating_neg())
}

/// The time that the running thread means with a time of the clock with number `id`, nanoseconds. What is
/// before the machine's boot is 1: it is over, and not "never".
#[inline(always)]
pub fn meant(id: i32, ns: u64) -> u64 {
    match current().namespaces() {
        None => ns,
        Some(set) => meant_in(set, Clock::from_id(id), ns),
    }
}

#[cold]
#[inline(never)]
fn meant_in(set: &Set, clock: Option<Clock>, ns: u64) -> u64 {
    match added_in(set, clock) {
        0 => ns,
        added => ns.saturating_add_signed(added.saturating_neg()).max(1),
    }
}

/// The namespace for a thread's children, and what it adds to the two clocks, for `timens_offsets`. `None`:
/// the thread has ended.
pub fn offsets_for_children(task: &Task) -> Option<(NsRef, Offsets)> {
    let ns = for_children(task, Kind::Time)?;
    let offsets = ns.made::<TimeNs>().map_or([0; 2], |ns| ns.offsets());
    Some((ns, offsets))
}

/// `EPERM` unless who has `creds` may set what a namespace adds: `CAP_SYS_TIME` in its owner.
pub fn may_set_offsets(creds: &crate::task::Creds, ns: &NsRef) -> Result<(), Errno> {
    let may = creds.capable_in(&ns.owner(), cap::SYS_TIME);
    if may { Ok(()) } else { Err(Errno::EPERM) }
}

/// Sets what a namespace adds to clocks: seconds and nanoseconds. `ERANGE`: a clock would show a time before
/// 0, or one that is too late; `EACCES`: a process is or was in it, or it is the initial one.
pub fn set_offsets(ns: &NsRef, new: &[(Clock, i64, u32)]) -> Result<(), Errno> {
    /// No clock can be set later than this at first, seconds: half of what can be told in nanoseconds.
    const LATEST: i64 = i64::MAX / NSEC_PER_SEC as i64 / 2;
    let mut offsets = alloc::vec::Vec::new();
    room(&mut offsets, new.len())?;
    for &(clock, seconds, nanoseconds) in new {
        let offset = seconds
            .checked_mul(NSEC_PER_SEC as i64)
            .and_then(|ns| ns.checked_add(i64::from(nanoseconds)))
            .ok_or(Errno::ERANGE)?;
        // The clock that is not steered has the same offset, and may be behind the other.
        let now = now_ns().min(raw_ns()) as i64;
        let then = now.checked_add(offset).ok_or(Errno::ERANGE)?;
        if then < 0 || then / NSEC_PER_SEC as i64 > LATEST {
            return Err(Errno::ERANGE);
        }
        offsets.push((clock, offset));
    }
    ns.made::<TimeNs>().ok_or(Errno::EACCES)?.set(&offsets)
}
