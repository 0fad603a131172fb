//! PID namespaces (`docs/namespaces.md`): numbers below the initial namespace, its first process, its end.
//!
//! A [`PidNs`] maps its own numbers to the kernel-wide ones (`task/pid.rs`), and [`Numbers`] are all that one
//! thing has: a thread, the process that it leads, a group and a session together, as with the kernel-wide
//! number. A number in a namespace is taken before the kernel-wide one, stands for it afterwards, and is
//! given back with it.
//!
//! Locks: the table of kernel-wide numbers, then that of a namespace. Neither is held while anything else is
//! done.

use super::{Head, Kind, Next, Ns, NsRef, Room, Set, UserRef, user};
use crate::mm::reserve::{room_behind, room_exact};
use crate::sched::WaitQueue;
use crate::signal::{self, IGNORE, SIGCHLD, SIGHUP, SIGINT, SIGKILL, SigInfo};
use crate::sync::{IrqSpinLock, SpinLock};
use crate::task::creds::cap;
use crate::task::pid::{PID_MAX, RESERVED};
use crate::task::process::{TREE, init_process};
use crate::task::{CurrentTask, Process, Task, current, exit, pid, wait};
use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use limen_linux_abi::native::ioc;
use limen_linux_abi::{Errno, SysResult};

/// A PID namespace. `None`: the initial one.
pub type PidRef = Option<Arc<PidNs>>;

/// How deep PID namespaces may be nested, the initial one not counted (`MAX_PID_NS_LEVEL`).
pub const DEEPEST: u32 = 32;

/// How many numbers a leaf has.
const LEAF: usize = 256;
/// A number is taken, and stands for nothing yet.
const TAKEN: i32 = -1;

/// A PID namespace below the initial one.
pub struct PidNs {
    head: Head,
    parent: PidRef,
    level: u32,
    table: IrqSpinLock<Table>,
    /// Its first process waits here at its end until the others are gone.
    gone: WaitQueue,
    /// Its first process. Set once, under [`TREE`].
    init: SpinLock<Weak<Process>>,
    has_init: AtomicBool,
    /// Its first process ends, or has ended, which is set under [`TREE`]; or could not be made.
    dead: AtomicBool,
    /// With which signal `reboot` ends it. 0: it was not called.
    reboot: AtomicI32,
}

/// Which numbers are in use.
struct Table {
    last: i32,
    /// How many numbers there are with a thread, a process, or a fork that is to make one.
    counted: usize,
    leaves: Vec<Option<Leaf>>,
}

/// A leaf is there as long as the namespace.
struct Leaf {
    used: usize,
    /// The kernel-wide number for each. 0: it is free; [`TAKEN`].
    numbers: Box<[i32]>,
}

impl Table {
    fn get(&self, number: i32) -> i32 {
        let Ok(number) = usize::try_from(number) else {
            return 0;
        };
        let leaf = self.leaves.get(number / LEAF).and_then(Option::as_ref);
        leaf.map_or(0, |leaf| leaf.numbers[number % LEAF])
    }

    /// The first free number in `from..to`.
    fn find_free(&self, from: i32, to: i32) -> Option<i32> {
        let (mut number, to) = (from as usize, to as usize);
        while number < to {
            match self.leaves.get(number / LEAF) {
                Some(Some(leaf)) if leaf.used == LEAF => number = (number / LEAF + 1) * LEAF,
                Some(Some(leaf)) if leaf.numbers[number % LEAF] != 0 => number += 1,
                _ => return Some(number as i32),
            }
        }
        None
    }

    /// Takes a number. `false`: its leaf is missing and must be made first ([`PidNs::make_leaf`]).
    fn take(&mut self, number: i32) -> bool {
        let number = number as usize;
        let Some(Some(leaf)) = self.leaves.get_mut(number / LEAF) else {
            return false;
        };
        leaf.used += 1;
        leaf.numbers[number % LEAF] = TAKEN;
        self.counted += 1;
        true
    }

    fn set(&mut self, number: i32, to: i32) {
        let number = number as usize;
        if let Some(Some(leaf)) = self.leaves.get_mut(number / LEAF) {
            leaf.numbers[number % LEAF] = to;
            if to == 0 {
                leaf.used -= 1;
            }
        }
    }
}

/// Whether the caller may choose numbers in `ns` (`set_tid`, `ns_last_pid`).
pub fn may_choose(ns: &PidRef) -> bool {
    let creds = current().creds();
    match owner(ns) {
        None => creds.capable(cap::SYS_ADMIN) || creds.capable(cap::CHECKPOINT_RESTORE),
        owner => creds.capable_in(owner, cap::SYS_ADMIN) || creds.capable_in(owner, cap::CHECKPOINT_RESTORE),
    }
}

/// The user namespace that owns `ns`.
pub fn owner(ns: &PidRef) -> &UserRef {
    ns.as_ref().map_or(&None, |ns| &ns.head.owner)
}

/// The level of `ns`. 0: it is the initial one.
pub fn level(ns: &PidRef) -> u32 {
    ns.as_ref().map_or(0, |ns| ns.level)
}

/// Whether both are the same namespace.
pub fn same(a: &PidRef, b: &PidRef) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}

/// Whether `ns` is `above` or a descendant of it.
pub fn is_below(ns: &PidRef, above: &PidRef) -> bool {
    let mut at = ns;
    while level(at) > level(above) {
        let Some(ns) = at else { return false };
        at = &ns.parent;
    }
    same(at, above)
}

/// Calls `f` for `top` and each namespace from there down to `ns`, which is below it.
pub fn each_down_to(top: &PidRef, ns: &PidRef, f: &mut impl FnMut(&PidRef)) {
    if level(ns) > level(top)
        && let Some(made) = ns
    {
        each_down_to(top, &made.parent, f);
    }
    f(ns);
}

impl PidNs {
    /// A new namespace below `parent`, owned by `owner`. `ENOSPC`: it would be nested too deep; `ENOMEM`.
    pub fn new(parent: &PidRef, owner: UserRef) -> Result<Arc<Self>, Errno> {
        let level = level(parent) + 1;
        if level > DEEPEST {
            return Err(Errno::ENOSPC);
        }
        Ok(Arc::new(Self {
            head: Head::new(Kind::Pid, owner)?,
            parent: parent.clone(),
            level,
            table: IrqSpinLock::new(Table {
                last: 0,
                counted: 0,
                leaves: Vec::new(),
            }),
            gone: WaitQueue::new(),
            init: SpinLock::new(Weak::new()),
            has_init: AtomicBool::new(false),
            dead: AtomicBool::new(false),
            reboot: AtomicI32::new(0),
        }))
    }

    /// How deep it is. The initial one's children have 1.
    pub fn level(&self) -> u32 {
        self.level
    }

    /// Whether its first process ends, or has ended: nothing new comes into it.
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// Whether it or one above it is dead. Who kills a namespace walks over its numbers once, upwards: what
    /// comes into one below it, which may still be alive, could get a lower number there.
    pub(in crate::task) fn is_closed(&self) -> bool {
        self.is_dead() || self.parent.as_ref().is_some_and(|above| above.is_closed())
    }

    /// Whether it ever had a first process.
    pub fn has_init(&self) -> bool {
        self.has_init.load(Ordering::Acquire)
    }

    /// Its first process, until that has been waited for.
    pub fn init(&self) -> Option<Arc<Process>> {
        self.init.lock().upgrade()
    }

    /// `process` is its first one. [`TREE`] is locked.
    pub(in crate::task) fn set_init(&self, process: &Arc<Process>) {
        *self.init.lock() = Arc::downgrade(process);
        self.has_init.store(true, Ordering::Release);
    }

    /// The kernel-wide number of what has `number` here. For `task/pid.rs`, which has its table locked.
    pub(in crate::task) fn find(&self, number: i32) -> Option<i32> {
        let found = self.table.lock().get(number);
        (found > 0).then_some(found)
    }

    /// The first number from `from` that stands for something.
    pub(in crate::task) fn next(&self, from: i32) -> Option<i32> {
        let table = self.table.lock();
        let mut number = from.max(1) as usize;
        loop {
            match table.leaves.get(number / LEAF)? {
                Some(leaf) if leaf.used > 0 && leaf.numbers[number % LEAF] > 0 => return Some(number as i32),
                Some(leaf) if leaf.used > 0 => number += 1,
                _ => number = (number / LEAF + 1) * LEAF,
            }
        }
    }

    /// The number that was allocated last.
    pub(in crate::task) fn last(&self) -> i32 {
        self.table.lock().last
    }

    /// Makes the next number the first free one after `last`.
    pub(in crate::task) fn set_last(&self, last: i32) {
        self.table.lock().last = last;
    }

    /// Takes a number: `wanted`, or any. Errors as [`pid::allocate_in`].
    fn take(self: &Arc<Self>, wanted: Option<i32>) -> Result<i32, Errno> {
        let max = PID_MAX.load(Ordering::Relaxed);
        if let Some(number) = wanted {
            if number < 1 || number >= max || number != 1 && !self.has_init() {
                return Err(Errno::EINVAL);
            }
            if !may_choose(&Some(self.clone())) {
                return Err(Errno::EPERM);
            }
        }
        loop {
            let mut table = self.table.lock();
            let number = match wanted {
                Some(number) if table.get(number) != 0 => return Err(Errno::EEXIST),
                Some(number) => number,
                None => {
                    let from = table.last + 1;
                    let floor = if from > RESERVED { RESERVED } else { 1 };
                    let from = from.min(max);
                    let free = table.find_free(from, max);
                    free.or_else(|| table.find_free(floor, from))
                        .ok_or(Errno::EAGAIN)?
                }
            };
            if table.take(number) {
                if wanted.is_none() {
                    table.last = number;
                }
                return Ok(number);
            }
            drop(table);
            self.make_leaf(number)?;
        }
    }

    /// Makes the leaf for `number`. `ENOMEM`.
    #[cold]
    fn make_leaf(&self, number: i32) -> Result<(), Errno> {
        let at = number as usize / LEAF;
        let mut numbers = Vec::new();
        room_exact(&mut numbers, LEAF)?;
        numbers.resize(LEAF, 0);
        let numbers = numbers.into_boxed_slice();
        let len = self.table.lock().leaves.len();
        let more = (at + 1).saturating_sub(len);
        let mut table = room_behind(|| self.table.lock(), |table| &mut table.leaves, more)?;
        if table.leaves.len() <= at {
            table.leaves.resize_with(at + 1, || None);
        }
        if table.leaves[at].is_none() {
            table.leaves[at] = Some(Leaf { used: 0, numbers });
        }
        Ok(())
    }

    /// How many numbers are counted.
    fn counted(&self) -> usize {
        self.table.lock().counted
    }
}

impl Ns for PidNs {
    fn kind(&self) -> Kind {
        Kind::Pid
    }
    fn head(&self) -> &Head {
        &self.head
    }
    fn parent(&self) -> Option<NsRef> {
        Some(as_ns(&self.parent))
    }
    fn join(self: Arc<Self>, next: &mut Next) -> Result<(), Errno> {
        join(Some(self), next)
    }
}

/// The PID namespace of a task, until its number is gone.
pub fn of_task(task: &Task) -> NsRef {
    as_ns(task.pid_ns())
}

/// The PID namespace of a task's children, whose namespaces are `set`. `None`: it has no first process yet.
pub fn for_children(set: Option<&Set>) -> Option<NsRef> {
    let ns = of_children(set);
    ns.as_ref().is_none_or(|ns| ns.has_init()).then(|| as_ns(&ns))
}

/// A PID namespace as one of any kind.
pub fn as_ns(ns: &PidRef) -> NsRef {
    match ns {
        None => NsRef::Initial(Kind::Pid),
        Some(ns) => NsRef::Made(ns.clone()),
    }
}

/// The PID namespace of the children of a thread with these namespaces.
pub fn of_children(set: Option<&Set>) -> PidRef {
    set.and_then(|set| set.counted(Kind::Pid))
}

/// Whether children of the running thread are in another namespace than itself.
pub fn has_others_for_children() -> bool {
    let me = current();
    match me.namespaces() {
        None => false,
        Some(set) => !same(&of_children(Some(set)), me.pid_ns()),
    }
}

/// `setns`: the children that the caller makes from now on are to be in `ns`. `EPERM`; `EINVAL`: it is
/// neither the caller's nor below it.
fn join(ns: PidRef, next: &mut Next) -> Result<(), Errno> {
    next.may_join(owner(&ns))?;
    if !is_below(&ns, current().pid_ns()) {
        return Err(Errno::EINVAL);
    }
    next.set.put(Kind::Pid, ns.map(|ns| ns as Arc<dyn Ns>));
    Ok(())
}

/// Makes and joins PID namespaces.
struct Rooms;

impl Room for Rooms {
    fn make(&self, next: &mut Next) -> Result<(), Errno> {
        let parent = of_children(Some(&next.set));
        let maker = next.user();
        if !same(&parent, current().pid_ns()) || !user::is_within(&maker, owner(&parent)) {
            return Err(Errno::EINVAL);
        }
        next.set.put(Kind::Pid, Some(PidNs::new(&parent, maker)?));
        Ok(())
    }
    fn join_initial(&self, next: &mut Next) -> Result<(), Errno> {
        join(None, next)
    }
}

/// Boot.
pub fn init() {
    super::provide(Kind::Pid, &Rooms);
}

/// All numbers below the initial namespace that belong together.
pub struct Numbers {
    ns: Arc<PidNs>,
    /// By level: those of the namespace and all above it, but the initial one.
    levels: Vec<i32>,
}

impl Numbers {
    /// Takes numbers in `ns` and above, but for the initial namespace. Errors as [`pid::allocate_in`].
    pub(in crate::task) fn take(ns: &Arc<PidNs>, set: &[i32]) -> Result<Arc<Self>, Errno> {
        let depth = ns.level as usize;
        let mut numbers = Self {
            ns: ns.clone(),
            levels: Vec::new(),
        };
        room_exact(&mut numbers.levels, depth)?;
        numbers.levels.resize(depth, 0);
        let mut at = Some(ns);
        let mut wanted = set.iter().copied();
        while let Some(ns) = at {
            match ns.take(wanted.next()) {
                Ok(number) => numbers.levels[ns.level as usize - 1] = number,
                Err(error) => {
                    numbers.uncount();
                    numbers.give_back();
                    numbers.tell_of_end();
                    return Err(error);
                }
            }
            at = ns.parent.as_ref();
        }
        Ok(Arc::new(numbers))
    }

    /// The namespace of whoever has them.
    pub fn ns(&self) -> &Arc<PidNs> {
        &self.ns
    }

    /// The number in that namespace.
    pub fn own(&self) -> i32 {
        self.levels.last().copied().unwrap_or(0)
    }

    /// The number in `ns`. 0: there is none.
    pub fn in_ns(&self, ns: &PidNs) -> i32 {
        let mut at = &self.ns;
        while at.level > ns.level {
            let Some(above) = &at.parent else { return 0 };
            at = above;
        }
        match core::ptr::eq(&raw const **at, ns) {
            true => self.levels[ns.level as usize - 1],
            false => 0,
        }
    }

    /// Calls `f` for each namespace in which there is a number, with its table locked.
    fn each(&self, f: impl Fn(&PidNs, &mut Table, i32)) {
        let mut at = Some(&self.ns);
        while let Some(ns) = at {
            let number = self.levels[ns.level as usize - 1];
            if number != 0 {
                f(ns, &mut ns.table.lock(), number);
            }
            at = ns.parent.as_ref();
        }
    }

    /// They belong to the kernel-wide number from now on.
    pub(in crate::task) fn stand_for(&self, number: i32) {
        self.each(|_, table, own| table.set(own, number));
    }

    /// There is neither a thread nor a process with them any more.
    pub(in crate::task) fn uncount(&self) {
        self.each(|ns, table, _| {
            table.counted -= 1;
            // There were not all numbers for the first process: another one can be made.
            if !ns.has_init() {
                table.last = 0;
            }
        });
    }

    /// They are gone; if the first process should have had them, it could not be made, and the namespace will
    /// have none.
    pub(in crate::task) fn end_without_init(&self) {
        if !self.ns.has_init() {
            self.ns.dead.store(true, Ordering::Release);
        }
    }

    /// They are free again.
    pub(in crate::task) fn give_back(&self) {
        self.each(|_, table, own| table.set(own, 0));
    }

    /// Wakes those who wait until nothing is left in a namespace. With no table locked.
    #[cold]
    pub(in crate::task) fn tell_of_end(&self) {
        let mut at = Some(&self.ns);
        while let Some(ns) = at {
            if ns.is_dead() {
                ns.gone.wake_all();
            }
            at = ns.parent.as_ref();
        }
    }
}

/// A thread, process, group or session to be named in whichever namespace it is asked for, also after its
/// end.
#[derive(Clone, Default)]
pub struct Id {
    /// The kernel-wide number. 0: nothing.
    pub number: i32,
    numbers: Option<Arc<Numbers>>,
}

impl Id {
    /// Nothing.
    pub const NONE: Self = Self {
        number: 0,
        numbers: None,
    };

    /// What has these numbers.
    pub fn new(number: i32, numbers: &Option<Arc<Numbers>>) -> Self {
        Self {
            number,
            numbers: numbers.clone(),
        }
    }

    /// The kernel-wide number, and those in namespaces below the initial one.
    pub fn into_parts(self) -> (i32, Option<Arc<Numbers>>) {
        (self.number, self.numbers)
    }

    /// The number in `ns`. 0: there is none.
    #[inline]
    pub fn seen_from(&self, ns: &PidRef) -> i32 {
        number_in(self.number, &self.numbers, ns)
    }

    /// The number in the caller's namespace. 0: there is none.
    #[inline]
    pub fn here(&self) -> i32 {
        self.seen_from(current().pid_ns())
    }
}

/// The number in `ns` of what has the kernel-wide `number` and `numbers`.
#[inline]
pub(in crate::task) fn number_in(number: i32, numbers: &Option<Arc<Numbers>>, ns: &PidRef) -> i32 {
    match ns {
        None => number,
        Some(ns) => number_below(numbers, ns),
    }
}

#[cold]
#[inline(never)]
fn number_below(numbers: &Option<Arc<Numbers>>, ns: &PidNs) -> i32 {
    numbers.as_ref().map_or(0, |numbers| numbers.in_ns(ns))
}

/// Who gets the children of an ending process of `ns`: the first process, of the nearest namespace that has
/// one other than `ending`.
pub(in crate::task) fn reaper(ns: &PidRef, ending: &Arc<Process>) -> Option<Arc<Process>> {
    let mut at = ns;
    while let Some(ns) = at {
        if let Some(init) = ns.init()
            && !Arc::ptr_eq(&init, ending)
        {
            return Some(init);
        }
        at = &ns.parent;
    }
    init_process()
}

/// The last thread of a process ends. If that is the first process of its namespace, kills all others in it
/// and waits until they are gone.
#[inline]
pub(in crate::task) fn init_may_end(task: &CurrentTask) {
    if task.process.numbers.is_some() && task.process.is_ns_init() {
        init_ends(task);
    }
}

#[cold]
#[inline(never)]
fn init_ends(task: &CurrentTask) {
    let process = &task.process;
    let Some(ns) = &process.pid_ns else { return };
    {
        // A fork is known before that, and found below, or fails.
        let _tree = TREE.lock();
        ns.dead.store(true, Ordering::Release);
    }
    {
        // Children that end from now on, or come here as orphans, need nobody who waits for them.
        let shared = process.signals.lock();
        shared.actions.table.lock_under(&shared)[SIGCHLD as usize - 1].handler = IGNORE;
    }
    let mut from = 2;
    while let Some((number, other)) = pid::next_process_in(&process.pid_ns, from) {
        signal::send_to_process(&other, SIGKILL, SigInfo::kernel(SIGKILL));
        from = number + 1;
    }
    // Also those that a tracer outside has to let go first.
    wait::for_all();
    // Others have parents outside. The numbers of the process itself, and of its last thread, stay.
    let own = if task.tid() == process.tgid { 1 } else { 2 };
    ns.gone.wait_until_uninterruptible(|| ns.counted() <= own);
    let reboot = ns.reboot.load(Ordering::Relaxed);
    if reboot != 0 {
        process.signals.lock().group_exit = Some(exit::status_of_signal(reboot as u32, false));
    }
}

/// `reboot` in a namespace below the initial one: ends it. `halts`: not to start again. Does not return.
pub fn reboot(ns: &Arc<PidNs>, halts: bool) -> ! {
    let sig = if halts { SIGINT } else { SIGHUP };
    ns.reboot.store(sig as i32, Ordering::Relaxed);
    if let Some(init) = ns.init() {
        signal::send_to_process(&init, SIGKILL, SigInfo::kernel(SIGKILL));
    }
    exit::exit_thread(exit::status_of_exit(0))
}

/// `NS_GET_PID_FROM_PIDNS`.
const PID_FROM: u32 = ioc::read(0xb7, 6, size_of::<i32>());
/// `NS_GET_TGID_FROM_PIDNS`.
const TGID_FROM: u32 = ioc::read(0xb7, 7, size_of::<i32>());
/// `NS_GET_PID_IN_PIDNS`.
const PID_IN: u32 = ioc::read(0xb7, 8, size_of::<i32>());
/// `NS_GET_TGID_IN_PIDNS`.
const TGID_IN: u32 = ioc::read(0xb7, 9, size_of::<i32>());

/// Whether `request` of `ioctl` is one of [`translate`]'s, which are for PID namespaces only.
pub fn translates(request: u32) -> bool {
    (PID_FROM..=TGID_IN).contains(&request)
}

/// `NS_GET_PID_FROM_PIDNS` and its sisters, which translate `number` between `ns` and the caller's namespace.
/// `ESRCH`: nothing has the number, or it is not seen from there; `ENOTTY`: `request` is another one.
pub fn translate(ns: &PidRef, request: u32, number: i32) -> SysResult {
    let me = current();
    let (from, to) = match request {
        PID_FROM | TGID_FROM => (ns, me.pid_ns()),
        PID_IN | TGID_IN => (me.pid_ns(), ns),
        _ => return Err(Errno::ENOTTY),
    };
    let seen = pid::find_task_in(from, number).map_or(0, |task: Arc<Task>| match request {
        PID_FROM | PID_IN => task.number_in(to),
        _ => task.process.number_in(to),
    });
    if seen > 0 {
        Ok(seen as usize)
    } else {
        Err(Errno::ESRCH)
    }
}
