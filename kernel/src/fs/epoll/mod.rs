//! epoll: a set of files, of which those that are ready are kept on a list.
//!
//! Each watched file has an item that is a `Waiter` on the file's queues. A wake-up marks the item (a list under a short interrupt-safe lock)
//! and wakes who sleeps on the epoll file; whoever collects has the ready list, takes the marked items over to it and asks the files again, so a
//! stale entry costs a poll and nothing else. Locks: an epoll's `ready`, its `items`, then files' own locks; `marked` is innermost. Epoll files
//! in epoll files are bounded in depth and free of cycles, and an event goes through each of them once, by however many ways it gets there.

mod nesting;

use self::nesting::Place;
use crate::fs::anon;
use crate::fs::file::{File, FileMode, FileOps, Watcher};
use crate::fs::poll::{self, PollEvents, PollTable, Timeout};
use crate::mm::user::{Abi, UserPtr};
use crate::sched::{WaitQueue, Waiter};
use crate::sync::{IrqSpinLock, Mutex, MutexGuard};
use crate::syscall::SysResult;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::{Arc, Weak};
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use limen_linux_abi::native::EpollEvent;
use limen_linux_abi::{Errno, raw::general as abi};

const CTL_ADD: i32 = 1;
const CTL_DEL: i32 = 2;
const CTL_MOD: i32 = 3;
const EXCLUSIVE: u32 = 1 << 28;
const WAKEUP: u32 = 1 << 29;
const ONESHOT: u32 = 1 << 30;
const EDGE: u32 = 1 << 31;
/// What may be asked for together with `EXCLUSIVE`: reading, writing, errors and ends.
const WITH_EXCLUSIVE: u32 = 0x1d | EXCLUSIVE | WAKEUP | EDGE;
/// Bytes of `struct epoll_event`: packed on x86-64 only.
const EVENT_SIZE: usize = size_of::<limen_linux_abi::native::EpollEvent>();

/// What an item is found by: descriptor number and file.
type Key = (i32, usize);

/// One watched file.
struct Item {
    epoll: Weak<Epoll>,
    fd: i32,
    file: Weak<File>,
    /// `EPOLL*`: what is asked for and how.
    events: AtomicU32,
    data: AtomicU64,
    /// The file is an epoll file.
    nested: bool,
    /// Marked or on the ready list.
    queued: AtomicBool,
    /// Removed: nothing counts any more.
    dead: AtomicBool,
    me: Weak<Item>,
}

impl Item {
    fn waiter(self: &Arc<Self>) -> Arc<dyn Waiter> {
        self.clone()
    }
    fn asked(&self) -> PollEvents {
        PollEvents::from_bits_truncate(self.events.load(Ordering::Relaxed))
            | PollEvents::ERR
            | PollEvents::HUP
    }
    /// What the file has of what `events` (the item's) ask for, if anything.
    #[inline]
    fn question(&self, events: u32) -> Option<PollEvents> {
        let file = self.file.upgrade()?;
        if self.dead.load(Ordering::Relaxed) || events & !(EDGE | ONESHOT | EXCLUSIVE | WAKEUP) == 0 {
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
    fn notify(&self, key: u32) {
        if self.dead.load(Ordering::Acquire) || (key != 0 && key & self.asked().bits() == 0) {
            return;
        }
        if let (Some(epoll), Some(me)) = (self.epoll.upgrade(), self.me.upgrade()) {
            epoll.mark(me);
        }
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
    /// The items that may be ready, the next to be asked first. One caller collects events at a time, and has it.
    ready: Mutex<VecDeque<Arc<Item>>>,
    /// Whether `ready` has items, and whether `marked` has.
    any_ready: AtomicBool,
    any_marked: AtomicBool,
    /// The items that came to be ready since `ready` was last taken.
    marked: IrqSpinLock<VecDeque<Arc<Item>>>,
    /// Who sleeps in `epoll_wait`, and who polls the epoll file.
    wait: WaitQueue,
    poll_wait: WaitQueue,
    /// Those on `poll_wait` were told, and nobody has asked since.
    told: AtomicBool,
    place: Place,
}

impl Epoll {
    /// Puts an item on the list of marked ones and wakes waiters. Any context.
    fn mark(&self, item: Arc<Item>) {
        if item.queued.swap(true, Ordering::AcqRel) {
            // Already there; but somebody may have gone to sleep since, having found it not ready.
            self.wake();
            return;
        }
        {
            let mut marked = self.marked.lock();
            marked.push_back(item);
            self.any_marked.store(true, Ordering::Release);
        }
        self.wake();
    }
    /// Those who poll the epoll file hear of it once until one of them asks: they know already, and so does everybody further out.
    fn wake(&self) {
        self.wait.wake_one();
        if !self.poll_wait.is_empty() && !self.told.swap(true, Ordering::SeqCst) {
            self.poll_wait.wake_all();
        }
    }
    fn forget(&self, item: &Arc<Item>) {
        let old = self.items.lock().remove(&(item.fd, item.file.as_ptr().addr()));
        // Whoever has the list, who may be the caller, or has it next finds that the item is dead.
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

    /// Whether there is an item to ask.
    fn has_candidates(&self) -> bool {
        // In this order: `take_marked` sets the second before it clears the first.
        self.any_marked.load(Ordering::Acquire) || self.any_ready.load(Ordering::Acquire)
    }
    /// The marked items become the last of the ready ones.
    #[inline(never)]
    fn take_marked(&self, ready: &mut VecDeque<Arc<Item>>) {
        let mut marked = self.marked.lock();
        self.any_ready.store(true, Ordering::Release);
        self.any_marked.store(false, Ordering::Release);
        ready.append(&mut marked);
    }
    /// The next item to ask, and how many there are.
    fn first(&self) -> Option<(Arc<Item>, usize)> {
        // Never held while a file is asked, so the one held may be that of the epoll file that asks.
        let mut ready = self.ready.lock_nested(1);
        if self.any_marked.load(Ordering::Relaxed) {
            self.take_marked(&mut ready);
        }
        let first = ready.front().cloned();
        self.any_ready.store(first.is_some(), Ordering::Relaxed);
        Some((first?, ready.len()))
    }

    /// Whether an item is really ready: asks the files on the list, dropping those that are not.
    fn is_readable(&self) -> bool {
        if !self.has_candidates() {
            return false;
        }
        // Those that come to be ready meanwhile wake whoever asks.
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

    /// Delivers up to `max` events, at least one if there is one, to user memory at `to`; how many.
    ///
    /// An item that is reported as long as the file is ready stays on the list, and if it is alone there, which is most often, that is all.
    #[inline(always)]
    fn deliver(&self, to: UserPtr<Abi<EpollEvent>>, max: usize) -> SysResult {
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

    /// [`Epoll::deliver`], asking each item on the list once. One that is reported once is taken off before it is asked, so that a wake-up after the
    /// question marks it again.
    #[inline(never)]
    fn collect(
        &self,
        mut ready: MutexGuard<'_, VecDeque<Arc<Item>>>,
        mut to: UserPtr<Abi<EpollEvent>>,
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
    fn sleep(&self, to: UserPtr<Abi<EpollEvent>>, max: usize, timeout: Timeout) -> SysResult {
        let deadline = timeout.deadline();
        while self
            .wait
            .wait_until_deadline(deadline, || self.has_candidates())?
        {
            let got = self.deliver(to, max)?;
            if got != 0 {
                return Ok(got);
            }
        }
        Ok(0)
    }

    /// An item that was not ready has left the list. Whether it turned out to be ready after all.
    #[inline(never)]
    fn leave(&self, item: Arc<Item>) -> bool {
        item.queued.store(false, Ordering::Relaxed);
        // A wake-up between the question and this found it on the list and left it at that.
        fence(Ordering::SeqCst);
        let found = item.question(item.events.load(Ordering::Relaxed)).is_some();
        if found {
            self.mark(item);
        }
        found
    }
}

/// Asks the first item, which is reported once, and takes it off: whether there was something to report.
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
        // It could not be delivered: the first again, unless it is marked.
        if !item.queued.swap(true, Ordering::AcqRel) {
            ready.push_front(item);
        }
        return Err(e);
    }
    if events & ONESHOT != 0 {
        item.events
            .fetch_and(EDGE | ONESHOT | EXCLUSIVE | WAKEUP, Ordering::Relaxed);
    }
    Ok(true)
}

/// The first item becomes the last, for fairness.
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
        }
        // Before it looks: what comes later is told.
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
        // That of an epoll file that had the last reference to this one may be held.
        let ready = core::mem::take(&mut *self.0.ready.lock_nested(1));
        drop((marked, ready));
    }
    fn show_fdinfo(&self, _: &File, out: &mut crate::fs::pseudo::Text) {
        for item in self.0.items.lock().values() {
            let _ = writeln!(
                out,
                "tfd: {:8} events: {:8x} data: {:16x}",
                item.fd,
                item.events.load(Ordering::Relaxed),
                item.data.load(Ordering::Relaxed)
            );
        }
    }
}

/// `epoll_create1`; the caller installs the file.
pub fn create() -> Arc<File> {
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

/// Reads `epoll_ctl`'s `struct epoll_event`: events and data, nothing for what needs none.
pub fn read_event(op: i32, addr: usize) -> Result<(u32, u64), Errno> {
    if op == CTL_DEL {
        return Ok((0, 0));
    }
    let events = UserPtr::<u32>::new(addr).read()?;
    let data = UserPtr::<u64>::new(addr.wrapping_add(EVENT_SIZE - 8)).read()?;
    Ok((events, data))
}

/// Writes `struct epoll_event`.
#[inline(always)]
fn write_event(to: UserPtr<Abi<EpollEvent>>, events: u32, data: u64) -> Result<(), Errno> {
    // Some ABIs have padding between the two.
    let mut event = Abi(EpollEvent::default());
    (event.0.events, event.0.data) = (events, [data as u32, (data >> 32) as u32]);
    to.write(event)
}

/// `epoll_ctl`, with what [`read_event`] gave.
pub fn control(
    epfile: &Arc<File>,
    op: i32,
    fd: i32,
    file: &Arc<File>,
    event: (u32, u64),
) -> Result<(), Errno> {
    if !file.mode().contains(FileMode::POLLS) {
        return Err(Errno::EPERM);
    }
    let epoll = epoll_of(epfile)?;
    if Arc::ptr_eq(epfile, file) {
        return Err(Errno::EINVAL);
    }
    if event.0 & EXCLUSIVE != 0
        && (op == CTL_MOD || event.0 & !WITH_EXCLUSIVE != 0 || file.ops().epoll().is_some())
    {
        return Err(Errno::EINVAL);
    }
    let key = (fd, Arc::as_ptr(file).addr());
    match op {
        CTL_ADD => {
            let inner = file.ops().epoll();
            let nesting = inner.map(|inner| inner.nest_in(epoll)).transpose()?;
            let item = Arc::new_cyclic(|me| Item {
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
            {
                let mut items = epoll.items.lock();
                if items.contains_key(&key) {
                    return Err(Errno::EEXIST);
                }
                items.insert(key, item.clone());
            }
            if let Some(nesting) = nesting {
                nesting.done(&item);
            }
            let watcher: Arc<dyn Watcher> = item.clone();
            file.watch(Arc::downgrade(&watcher));
            let found = file.poll(Some(&mut PollTable::adding(&item.waiter())));
            if found.intersects(item.asked()) {
                epoll.mark(item);
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
            item.data.store(event.1, Ordering::Relaxed);
            item.events.store(event.0, Ordering::Release);
            if file.poll(None).intersects(item.asked()) {
                epoll.mark(item);
            }
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}

/// `epoll_wait`: events go to user memory at `to`.
#[inline]
pub fn wait(file: &File, to: usize, max: usize, timeout: Timeout) -> SysResult {
    let epoll = epoll_of(file)?;
    let to = UserPtr::new(to);
    let got = epoll.deliver(to, max)?;
    if got != 0 || timeout == Timeout::Now {
        return Ok(got);
    }
    epoll.sleep(to, max, timeout)
}
