//! epoll: a set of files, of which those that are ready are kept on a list.
//!
//! Each watched file has an item, which is a `Waiter` on the file's queues. A wake-up marks the item (puts it
//! on a list under a short interrupt-safe lock) and wakes threads that sleep in `epoll_wait`. The thread that
//! collects events locks the ready list, moves the marked items to it and polls the files again, so an
//! outdated mark costs one poll and nothing else.
//!
//! Lock order: an epoll instance's `ready`, its `items`, then locks of files; `marked` comes last. Epoll
//! files in epoll files have a limited depth and no cycles. An event passes each of them once, even if
//! several ways lead there.

mod nesting;

use self::nesting::Place;
use crate::fs::anon;
use crate::fs::file::{File, FileMode, FileOps, Watcher};
use crate::fs::poll::{self, PollEvents, PollTable, Timeout};
use crate::mm::reserve::{room, room_behind};
use crate::mm::user::{self as memory, Abi, UserPtr};
use crate::sched::{News, WaitQueue, Waiter};
use crate::sync::{IrqSpinLock, Mutex, MutexGuard};
use crate::task::current;
use crate::task::user::{self, Account};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::{Arc, Weak};
use core::fmt::Write;
use core::ops::Bound;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use limen_linux_abi::SysResult;
use limen_linux_abi::{EpollLayout, Errno, raw::general as abi};

const CTL_ADD: i32 = 1;
const CTL_DEL: i32 = 2;
const CTL_MOD: i32 = 3;
const EXCLUSIVE: u32 = 1 << 28;
const WAKEUP: u32 = 1 << 29;
const ONESHOT: u32 = 1 << 30;
const EDGE: u32 = 1 << 31;
/// What may be combined with `EPOLLEXCLUSIVE`: reading, writing, errors and hang-ups.
const WITH_EXCLUSIVE: u32 = 0x1d | EXCLUSIVE | WAKEUP | EDGE;
/// Flags that say how to report, not what.
const HOW: u32 = EXCLUSIVE | WAKEUP | ONESHOT | EDGE;
/// Events that are always reported.
const ALWAYS: u32 = PollEvents::ERR.union(PollEvents::HUP).bits();
/// Reading and writing.
const DIRECTIONS: u32 = PollEvents::IN.union(PollEvents::OUT).bits();
/// For an item that is marked here, not because another queue was woken.
const FIRST_HAND: News = News { key: 0, depth: 0 };

/// The key of an item: descriptor number, and address of the file.
type Key = (i32, usize);

/// How many files a user's instances may watch (`fs.epoll.max_user_watches`).
pub static MAX_WATCHES: AtomicUsize = AtomicUsize::new(0);

/// Sets the limit of watches so that they take at most 1/25 of memory.
pub fn init() {
    /// About how many bytes a watch takes.
    const COST: usize = 200;
    let bytes = (crate::mm::total_pages() / 25).saturating_mul(crate::mm::PAGE_SIZE);
    MAX_WATCHES.store(bytes / COST, Ordering::Relaxed);
}

/// A watch, counted on its user's account until dropped.
struct Counted(Arc<Account>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.epoll_watches.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A watched file.
struct Item {
    /// Keeps it counted.
    _counted: Counted,
    epoll: Weak<Epoll>,
    fd: i32,
    file: Weak<File>,
    /// `EPOLL*`: which events to report, and how.
    events: AtomicU32,
    data: AtomicU64,
    /// Whether the file is an epoll file.
    nested: bool,
    /// Whether it is marked or on the ready list.
    queued: AtomicBool,
    /// It was removed: it is ignored from now on.
    dead: AtomicBool,
    me: Weak<Item>,
}

impl Item {
    fn waiter(self: &Arc<Self>) -> Arc<dyn Waiter> {
        self.clone()
    }
    /// The events to report, errors and hang-ups included. Empty after a report if it is `EPOLLONESHOT`.
    fn asked(&self) -> PollEvents {
        PollEvents::from_bits_truncate(self.events.load(Ordering::Relaxed) & !HOW)
    }
    /// Polls the file. Returns which of the events in `events` (the item's) it has, `None` for none.
    #[inline]
    fn question(&self, events: u32) -> Option<PollEvents> {
        let file = self.file.upgrade()?;
        if self.dead.load(Ordering::Relaxed) || events & !HOW == 0 {
            return None;
        }
        let found = poll::ask(&file, PollEvents::from_bits_truncate(events));
        (!found.is_empty()).then_some(found)
    }
    fn detach(self: &Arc<Self>, file: &File) {
        self.dead.store(true, Ordering::Release);
        file.poll(Some(&mut PollTable::removing(&self.waiter())));
    }
}

impl Waiter for Item {
    fn notify(&self, news: News) -> bool {
        let events = self.events.load(Ordering::Acquire);
        let exclusive = events & EXCLUSIVE != 0;
        let asked = events & !HOW;
        if self.dead.load(Ordering::Acquire) || asked == 0 || news.key != 0 && news.key & asked == 0 {
            return !exclusive;
        }
        let (Some(epoll), Some(me)) = (self.epoll.upgrade(), self.me.upgrade()) else {
            return !exclusive;
        };
        let sleeps = epoll.mark(me, news);
        // An exclusive watch has taken care of the event if a thread sleeps here, and if the event is not for
        // both directions at once and its direction is one that the item asks for.
        let direction = news.key & DIRECTIONS;
        !exclusive || sleeps && direction != DIRECTIONS && direction & !asked == 0
    }
}

impl Watcher for Item {
    fn file_closed(&self, file: &File) {
        let Some(me) = self.me.upgrade() else { return };
        me.detach(file);
        if let Some(epoll) = self.epoll.upgrade() {
            epoll.forget(&me);
        }
    }
}

/// An epoll instance.
pub struct Epoll {
    items: Mutex<BTreeMap<Key, Arc<Item>>>,
    /// The items that may be ready, the next one to be polled first. Locked by the one caller that collects
    /// events.
    ready: Mutex<VecDeque<Arc<Item>>>,
    /// Whether `ready` has items, and whether `marked` has some.
    any_ready: AtomicBool,
    any_marked: AtomicBool,
    /// The items that were marked since they were last moved to `ready`.
    marked: IrqSpinLock<VecDeque<Arc<Item>>>,
    /// Threads that sleep in `epoll_wait`; and those that poll the epoll file.
    wait: WaitQueue,
    poll_wait: WaitQueue,
    /// Whether those on `poll_wait` have been told and have not polled since.
    told: AtomicBool,
    place: Place,
    /// How many items are being added.
    adding: AtomicUsize,
    /// The account of the user who made it.
    user: Arc<Account>,
}

/// An item is about to be added.
struct Adding<'a>(&'a Epoll);

impl Drop for Adding<'_> {
    fn drop(&mut self) {
        self.0.adding.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Epoll {
    /// Marks an item and wakes sleepers. Returns whether a thread slept in `epoll_wait`. In any context.
    fn mark(&self, item: Arc<Item>, news: News) -> bool {
        // Wakes even if the item is marked already: a thread may have found it not ready and gone to sleep
        // since.
        if !item.queued.swap(true, Ordering::AcqRel) {
            let mut marked = self.marked.lock();
            marked.push_back(item);
            self.any_marked.store(true, Ordering::Release);
        }
        self.wake(news)
    }
    /// Those that poll the epoll file are told once, until one of them polls it: until then they, and all
    /// epoll files further out, know already.
    fn wake(&self, news: News) -> bool {
        let sleeps = !self.wait.is_empty();
        if sleeps {
            self.wait.wake_one();
        }
        if !self.poll_wait.is_empty() && !self.told.swap(true, Ordering::SeqCst) {
            self.poll_wait.wake_one_after(News {
                key: PollEvents::READABLE.bits(),
                ..news
            });
        }
        sleeps
    }
    /// Counts one more watch, of the file with key `key`, on the user's account. `ENOSPC`: there may be no
    /// more; `EEXIST` instead if the file is watched already.
    fn count_one(&self, key: &Key) -> Result<Counted, Errno> {
        if user::take_one(&self.user.epoll_watches, MAX_WATCHES.load(Ordering::Relaxed)) {
            Ok(Counted(self.user.clone()))
        } else if self.items.lock().contains_key(key) {
            Err(Errno::EEXIST)
        } else {
            Err(Errno::ENOSPC)
        }
    }
    /// Room in both lists for all items and those that are being added: they are marked where nobody may wait
    /// for memory. What is there already may have been removed, so it counts for nothing.
    fn make_room(&self) -> Result<Adding<'_>, Errno> {
        self.adding.fetch_add(1, Ordering::AcqRel);
        let adding = Adding(self);
        let count = {
            let items = self.items.lock();
            items.len() + self.adding.load(Ordering::Acquire)
        };
        room(&mut *self.ready.lock_nested(1), count)?;
        room_behind(|| self.marked.lock(), |marked| marked, count)?;
        Ok(adding)
    }
    fn forget(&self, item: &Arc<Item>) {
        let old = self.items.lock().remove(&(item.fd, item.file.as_ptr().addr()));
        // If another thread has locked the list (or the caller itself), that one, or the next, finds the item
        // dead.
        if let Some(mut ready) = self.ready.try_lock() {
            self.drop_item(&mut ready, item);
        }
        drop(old);
    }
    fn drop_item(&self, ready: &mut VecDeque<Arc<Item>>, item: &Arc<Item>) {
        let others = |i: &Arc<Item>| !Arc::ptr_eq(i, item);
        ready.retain(others);
        self.marked.lock().retain(others);
    }

    /// The first of its items behind `last` for which `which` is true.
    fn next_item(&self, last: Option<Key>, which: impl Fn(&Item) -> bool) -> Option<(Key, Arc<Item>)> {
        let items = self.items.lock();
        let mut rest = items.range((last.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded));
        rest.find(|(_, item)| which(item))
            .map(|(key, item)| (*key, item.clone()))
    }

    /// Whether there is an item to poll.
    fn has_candidates(&self) -> bool {
        // In this order, since `take_marked` sets `any_ready` before it clears `any_marked`.
        self.any_marked.load(Ordering::Acquire) || self.any_ready.load(Ordering::Acquire)
    }
    /// Moves the marked items to the end of the ready list.
    #[inline(never)]
    fn take_marked(&self, ready: &mut VecDeque<Arc<Item>>) {
        let mut marked = self.marked.lock();
        self.any_ready.store(true, Ordering::Release);
        self.any_marked.store(false, Ordering::Release);
        ready.append(&mut marked);
    }
    /// The next item to poll, and how many there are.
    fn first(&self) -> Option<(Arc<Item>, usize)> {
        // `ready` is never locked while a file is polled, so another one that is held is that of an outer
        // epoll file.
        let mut ready = self.ready.lock_nested(1);
        if self.any_marked.load(Ordering::Relaxed) {
            self.take_marked(&mut ready);
        }
        let first = ready.front().cloned();
        self.any_ready.store(first.is_some(), Ordering::Relaxed);
        Some((first?, ready.len()))
    }

    /// Whether an item is really ready: polls the files on the list and drops those that are not.
    fn is_readable(&self) -> bool {
        if !self.has_candidates() {
            return false;
        }
        // Items that are marked meanwhile wake the caller again.
        let mut left = usize::MAX;
        while let Some((item, there)) = self.first() {
            if left == 0 {
                break;
            }
            left = left.min(there) - 1;
            let found = item.question(item.events.load(Ordering::Relaxed));
            if found.is_some() {
                return true;
            }
            let mut ready = self.ready.lock_nested(1);
            if ready.front().is_some_and(|f| Arc::ptr_eq(f, &item)) {
                ready.pop_front();
                drop(ready);
                if self.leave(item) {
                    return true;
                }
            }
        }
        false
    }

    /// Writes up to `max` events to user memory at `to`, and returns how many: at least one if there is one.
    ///
    /// An item that is neither edge-triggered nor `EPOLLONESHOT` stays on the list. Most often it is the only
    /// item, and there is nothing else to do.
    #[inline(always)]
    fn deliver<E: EpollLayout>(&self, to: UserPtr<Abi<E>>, max: usize) -> SysResult {
        let mut ready = self.ready.lock();
        if self.any_marked.load(Ordering::Relaxed) {
            self.take_marked(&mut ready);
        }
        if ready.len() == 1
            && let Some(only) = ready.front()
            && let events = only.events.load(Ordering::Relaxed)
            && events & (EDGE | ONESHOT) == 0
            && let Some(found) = only.question(events)
        {
            let result = write_event(to, found.bits(), only.data.load(Ordering::Relaxed));
            drop(ready);
            self.wait.wake_one();
            return result.map(|()| 1);
        }
        self.collect(ready, to, max)
    }

    /// [`Epoll::deliver`] in general: polls each item on the list once. An edge-triggered item is taken off
    /// before its file is polled, so that a later wake-up marks it again.
    #[inline(never)]
    fn collect<E: EpollLayout>(
        &self,
        mut ready: MutexGuard<'_, VecDeque<Arc<Item>>>,
        mut to: UserPtr<Abi<E>>,
        max: usize,
    ) -> SysResult {
        let mut emit = |events, data| {
            write_event(to, events, data)?;
            to = to.add(1);
            Ok(())
        };
        let mut done = 0;
        let mut left = ready.len();
        let mut result = Ok(());
        while done < max && left != 0 {
            left -= 1;
            let Some(first) = ready.front() else { break };
            let events = first.events.load(Ordering::Relaxed);
            if events & (EDGE | ONESHOT) != 0 {
                match collect_once(&mut ready, &mut emit) {
                    Ok(found) => done += usize::from(found),
                    Err(e) => {
                        result = Err(e);
                        break;
                    }
                }
                continue;
            }
            let Some(found) = first.question(events) else {
                if let Some(item) = ready.pop_front() {
                    self.leave(item);
                }
                continue;
            };
            result = emit(found.bits(), first.data.load(Ordering::Relaxed));
            if result.is_err() {
                break;
            }
            if ready.len() > 1 {
                rotate(&mut ready);
            }
            done += 1;
        }
        let more = !ready.is_empty();
        if !more {
            self.any_ready.store(false, Ordering::Relaxed);
        }
        drop(ready);
        if more {
            self.wait.wake_one();
        }
        if done != 0 { Ok(done) } else { result.map(|()| 0) }
    }

    /// Waits for events, and delivers them.
    #[inline(never)]
    fn sleep<E: EpollLayout>(&self, to: UserPtr<Abi<E>>, max: usize, timeout: Timeout) -> SysResult {
        let deadline = timeout.deadline();
        while self
            .wait
            .wait_until_deadline_exclusive(deadline, || self.has_candidates())?
        {
            let got = self.deliver(to, max)?;
            if got != 0 {
                return Ok(got);
            }
        }
        Ok(0)
    }

    /// An item whose file was not ready leaves the list. Returns whether it is ready after all.
    #[inline(never)]
    fn leave(&self, item: Arc<Item>) -> bool {
        item.queued.store(false, Ordering::Relaxed);
        // A wake-up after the poll and before this found the item on the list and did not mark it: poll once
        // more.
        fence(Ordering::SeqCst);
        let found = item.question(item.events.load(Ordering::Relaxed)).is_some();
        if found {
            self.mark(item, FIRST_HAND);
        }
        found
    }
}

/// Takes the first item, which is edge-triggered or `EPOLLONESHOT`, off the list and polls it. Returns
/// whether there was an event to report.
#[inline(never)]
fn collect_once(
    ready: &mut VecDeque<Arc<Item>>,
    emit: &mut impl FnMut(u32, u64) -> Result<(), Errno>,
) -> Result<bool, Errno> {
    let Some(item) = ready.pop_front() else {
        return Ok(false);
    };
    let events = item.events.load(Ordering::Relaxed);
    item.queued.store(false, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    let Some(found) = item.question(events) else {
        return Ok(false);
    };
    if let Err(e) = emit(found.bits(), item.data.load(Ordering::Relaxed)) {
        // The event could not be written to user memory: the item becomes the first again, unless it is
        // marked.
        if !item.queued.swap(true, Ordering::AcqRel) {
            ready.push_front(item);
        }
        return Err(e);
    }
    if events & ONESHOT != 0 {
        item.events.fetch_and(HOW, Ordering::Relaxed);
    }
    Ok(true)
}

/// Moves the first item to the end, so that other items get their turn.
#[inline(never)]
fn rotate(ready: &mut VecDeque<Arc<Item>>) {
    ready.rotate_left(1);
}

/// The operations of an epoll file.
struct EpollFile(Arc<Epoll>);

impl FileOps for EpollFile {
    fn poll(&self, _: &File, table: Option<&mut PollTable<'_>>) -> PollEvents {
        if let Some(table) = table {
            table.register(&self.0.poll_wait);
            // Whoever removes it may have `ready` locked: another epoll file that watched this one ends with
            // the file that this one has just polled.
            if table.removes() {
                return PollEvents::empty();
            }
        }
        // Cleared before polling: later events are told again.
        self.0.told.store(false, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.0.is_readable() {
            PollEvents::READABLE
        } else {
            PollEvents::empty()
        }
    }
    fn epoll(&self) -> Option<&Arc<Epoll>> {
        Some(&self.0)
    }
    fn release(&self, _: &File) {
        let items = core::mem::take(&mut *self.0.items.lock());
        for item in items.into_values() {
            if let Some(file) = item.file.upgrade() {
                item.detach(&file);
            }
        }
        let marked = core::mem::take(&mut *self.0.marked.lock());
        // An outer epoll file that held the last reference to this one may have its `ready` locked.
        let ready = core::mem::take(&mut *self.0.ready.lock_nested(1));
        drop((marked, ready));
    }
    fn show_fdinfo(&self, _: &File, out: &mut crate::fs::pseudo::Text) {
        let mut last = None;
        // One after the other: there may be very many. Not locked for longer: this may be the end of a file.
        while let Some((key, item)) = self.0.next_item(last, |_| true) {
            last = Some(key);
            let Some(file) = item.file.upgrade() else { continue };
            if current().fatal_signal_pending() {
                return;
            }
            let _ = writeln!(
                out,
                "tfd: {:8} events: {:8x} data: {:16x}  pos:{} ino:{:x} sdev:{:x}",
                item.fd,
                item.events.load(Ordering::Relaxed),
                item.data.load(Ordering::Relaxed),
                file.pos.peek(),
                file.inode().ino,
                file.inode().sb.dev.raw(),
            );
        }
    }
}

/// `epoll_create1`; the caller installs the file. `ENFILE`.
pub fn create() -> Result<Arc<File>, Errno> {
    let epoll = Arc::new(Epoll {
        items: Mutex::new(BTreeMap::new()),
        ready: Mutex::new(VecDeque::new()),
        any_ready: AtomicBool::new(false),
        any_marked: AtomicBool::new(false),
        marked: IrqSpinLock::new(VecDeque::new()),
        wait: WaitQueue::new(),
        poll_wait: WaitQueue::new(),
        told: AtomicBool::new(false),
        place: Place::new(),
        adding: AtomicUsize::new(0),
        user: user::account(),
    });
    anon::file(
        "[eventpoll]",
        Arc::new(EpollFile(epoll)),
        abi::O_RDWR,
        FileMode::NO_READ | FileMode::NO_WRITE,
    )
}

fn epoll_of(file: &File) -> Result<&Arc<Epoll>, Errno> {
    file.ops().epoll().ok_or(Errno::EINVAL)
}

/// Reads the `struct epoll_event` of `epoll_ctl`: events and data; zeros for an `op` that needs none.
pub fn read_event<E: EpollLayout>(op: i32, addr: usize) -> Result<(u32, u64), Errno> {
    if op == CTL_DEL {
        return Ok((0, 0));
    }
    let events = UserPtr::<u32>::new(addr).read()?;
    let data = UserPtr::<u64>::new(addr.wrapping_add(size_of::<E>() - 8)).read()?;
    Ok((events, data))
}

/// The address of the file that `epfile` watches under descriptor number `fd`, after skipping `skip` others
/// (`kcmp`). `EINVAL`, `ENOENT`.
pub fn watched(epfile: &File, fd: i32, skip: usize) -> Result<usize, Errno> {
    let items = epoll_of(epfile)?.items.lock();
    let mut same = items.range((fd, 0)..=(fd, usize::MAX));
    same.nth(skip).map(|(key, _)| key.1).ok_or(Errno::ENOENT)
}

/// Writes `struct epoll_event`.
#[inline(always)]
fn write_event<E: EpollLayout>(to: UserPtr<Abi<E>>, events: u32, data: u64) -> Result<(), Errno> {
    to.write(Abi(E::new(events, data)))
}

/// `epoll_ctl`, with the result of [`read_event`].
pub fn control(epfile: &File, op: i32, fd: i32, file: &Arc<File>, event: (u32, u64)) -> Result<(), Errno> {
    if !file.mode().contains(FileMode::POLLS) {
        return Err(Errno::EPERM);
    }
    let epoll = epoll_of(epfile)?;
    if core::ptr::eq(epfile, Arc::as_ptr(file)) {
        return Err(Errno::EINVAL);
    }
    if event.0 & EXCLUSIVE != 0
        && (op == CTL_MOD || event.0 & !WITH_EXCLUSIVE != 0 || file.ops().epoll().is_some())
    {
        return Err(Errno::EINVAL);
    }
    let key = (fd, Arc::as_ptr(file).addr());
    let event = (event.0 | ALWAYS, event.1);
    match op {
        CTL_ADD => {
            let inner = file.ops().epoll();
            let nesting = inner.map(|inner| inner.nest_in(epoll)).transpose()?;
            let counted = epoll.count_one(&key)?;
            let item = Arc::new_cyclic(|me| Item {
                _counted: counted,
                epoll: Arc::downgrade(epoll),
                fd,
                file: Arc::downgrade(file),
                events: AtomicU32::new(event.0),
                data: AtomicU64::new(event.1),
                nested: inner.is_some(),
                queued: AtomicBool::new(false),
                dead: AtomicBool::new(false),
                me: me.clone(),
            });
            let adding = epoll.make_room()?;
            let watcher: Arc<dyn Watcher> = item.clone();
            file.watch(Arc::downgrade(&watcher))?;
            {
                let mut items = epoll.items.lock();
                if items.contains_key(&key) {
                    return Err(Errno::EEXIST);
                }
                items.insert(key, item.clone());
            }
            drop(adding);
            if let Some(nesting) = nesting {
                nesting.done(&item);
            }
            let waiter = item.waiter();
            let mut table = if event.0 & EXCLUSIVE != 0 {
                PollTable::adding_exclusively(&waiter)
            } else {
                PollTable::adding(&waiter)
            };
            let found = file.poll(Some(&mut table));
            if item.dead.load(Ordering::Acquire) {
                // Another thread removed the item before it was on all queues.
                item.detach(file);
            } else if found.intersects(item.asked()) {
                epoll.mark(item, FIRST_HAND);
            }
        }
        CTL_DEL => {
            let item = epoll.items.lock().remove(&key).ok_or(Errno::ENOENT)?;
            item.detach(file);
            epoll.drop_item(&mut epoll.ready.lock(), &item);
        }
        CTL_MOD => {
            let item = epoll.items.lock().get(&key).cloned().ok_or(Errno::ENOENT)?;
            if item.events.load(Ordering::Relaxed) & EXCLUSIVE != 0 {
                return Err(Errno::EINVAL);
            }
            {
                // Not while the old settings are being reported: an `EPOLLONESHOT` report would turn off the
                // new ones.
                let _reporting = epoll.ready.lock();
                item.data.store(event.1, Ordering::Relaxed);
                item.events.store(event.0, Ordering::Release);
            }
            if file.poll(None).intersects(item.asked()) {
                epoll.mark(item, FIRST_HAND);
            }
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}

/// `epoll_wait`. Events are written to user memory at `to`.
#[inline]
pub fn wait<E: EpollLayout>(file: &File, to: usize, max: usize, timeout: Timeout) -> SysResult {
    let epoll = epoll_of(file)?;
    let place = UserPtr::<Abi<E>>::new(to);
    let got = epoll.deliver(place, max)?;
    if got != 0 {
        return Ok(got);
    }
    // Events could be written nowhere: that is an error now, not when there are some.
    memory::check(to, max * size_of::<E>())?;
    if timeout == Timeout::Now {
        return Ok(0);
    }
    epoll.sleep(place, max, timeout)
}
