//! epoll: a set of files, of which those that are ready are kept on a list.
//!
//! Each watched file has an item that is a `Waiter` on the file's queues. A wake-up puts the item on the ready list (a short
//! interrupt-safe lock) and wakes who sleeps on the epoll file; whoever collects asks the file again, so a stale entry costs a poll and
//! nothing else. Locks: an epoll's `turn`, its `items`, then files' own locks; `ready` is innermost. Epoll files in epoll files are bounded
//! in depth and free of cycles.

use crate::fs::anon;
use crate::fs::file::{File, FileOps, Watcher};
use crate::fs::poll::{self, PollEvents, PollTable, Timeout};
use crate::mm::user::{Abi, UserPtr};
use crate::sched::{WaitQueue, Waiter};
use crate::sync::{IrqSpinLock, Mutex};
use crate::syscall::SysResult;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
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
/// How deep epoll files may be nested.
const MAX_DEPTH: usize = 5;
/// Bytes of `struct epoll_event`: packed on x86-64 only.
const EVENT_SIZE: usize = size_of::<limen_linux_abi::native::EpollEvent>();

/// One watched file.
struct Item {
    epoll: Weak<Epoll>,
    fd: i32,
    file: Weak<File>,
    /// `EPOLL*`: what is asked for and how.
    events: AtomicU32,
    data: AtomicU64,
    /// On the ready list.
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
        if self.dead.load(Ordering::Acquire) || events & !(EDGE | ONESHOT | EXCLUSIVE | WAKEUP) == 0 {
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
    /// By descriptor number and file.
    items: Mutex<BTreeMap<(i32, usize), Arc<Item>>>,
    /// The files that may be ready.
    ready: IrqSpinLock<VecDeque<Arc<Item>>>,
    /// Who collects events: one at a time.
    turn: Mutex<()>,
    /// Who sleeps in `epoll_wait`, and who polls the epoll file.
    wait: WaitQueue,
    poll_wait: WaitQueue,
}

/// Only one change of nesting at a time, so that cycles are seen.
static NESTING: Mutex<()> = Mutex::new(());

impl Epoll {
    /// Puts an item on the ready list and wakes waiters. Any context.
    fn mark(&self, item: Arc<Item>) {
        if item.queued.swap(true, Ordering::AcqRel) {
            // Already there; but somebody may have gone to sleep since, having found it not ready.
            self.wake();
            return;
        }
        self.ready.lock().push_back(item);
        self.wake();
    }
    fn wake(&self) {
        self.wait.wake_one();
        self.poll_wait.wake_all();
    }
    fn forget(&self, item: &Arc<Item>) {
        let old = self.items.lock().remove(&(item.fd, item.file.as_ptr().addr()));
        self.ready.lock().retain(|i| !Arc::ptr_eq(i, item));
        drop(old);
    }

    fn has_candidates(&self) -> bool {
        !self.ready.lock().is_empty()
    }

    /// Whether an item is really ready: asks the files on the list, dropping those that are not.
    fn any_ready(&self) -> bool {
        let n = self.ready.lock().len();
        for _ in 0..n {
            let Some(item) = self.ready.lock().front().cloned() else {
                return false;
            };
            let is_ready = || {
                item.file.upgrade().is_some_and(|file| {
                    !item.dead.load(Ordering::Acquire) && file.poll(None).intersects(item.asked())
                })
            };
            if is_ready() {
                return true;
            }
            let mut ready = self.ready.lock();
            if ready.front().is_some_and(|f| Arc::ptr_eq(f, &item)) {
                ready.pop_front();
                item.queued.store(false, Ordering::Relaxed);
                drop(ready);
                // A wake-up between the question and this found it on the list and left it at that.
                fence(Ordering::SeqCst);
                if is_ready() {
                    self.mark(item);
                    return true;
                }
            }
        }
        false
    }

    /// Collects up to `max` events, asking each item on the list once.
    ///
    /// An item that is reported as long as the file is ready stays on the list while it is asked, and if it is alone there, that is all. One that
    /// is reported once is taken off first, so that a wake-up after the question puts it back.
    #[inline]
    fn collect(&self, max: usize, mut emit: impl FnMut(u32, u64) -> Result<(), Errno>) -> SysResult {
        let turn = self.turn.lock();
        let mut done = 0;
        let mut left = usize::MAX;
        let mut more = false;
        let mut result = Ok(());
        while done < max && left != 0 {
            let mut ready = self.ready.lock();
            let Some(first) = ready.front() else { break };
            let events = first.events.load(Ordering::Relaxed);
            let once = events & (EDGE | ONESHOT) != 0;
            let others = ready.len() - 1;
            left = left.min(others + 1) - 1;
            let item = if once {
                first.queued.store(false, Ordering::Relaxed);
                ready.pop_front()
            } else {
                Some(first.clone())
            };
            drop(ready);
            let Some(item) = item else { break };
            if once {
                fence(Ordering::SeqCst);
            }
            more = others != 0;
            let Some(found) = item.question(events) else {
                if !once {
                    self.take_off(item);
                }
                continue;
            };
            result = emit(found.bits(), item.data.load(Ordering::Relaxed));
            if result.is_err() {
                if once {
                    self.put_back(item);
                }
                break;
            }
            done += 1;
            if events & ONESHOT != 0 {
                item.events
                    .fetch_and(EDGE | ONESHOT | EXCLUSIVE | WAKEUP, Ordering::Relaxed);
            }
            if !once {
                more = true;
                if others != 0 {
                    self.rotate(&item);
                }
            }
        }
        drop(turn);
        if more && done != 0 {
            self.wait.wake_one();
        }
        if done != 0 { Ok(done) } else { result.map(|()| 0) }
    }

    /// The first item was not ready.
    #[inline(never)]
    fn take_off(&self, item: Arc<Item>) {
        {
            let mut ready = self.ready.lock();
            if !ready.front().is_some_and(|first| Arc::ptr_eq(first, &item)) {
                return;
            }
            item.queued.store(false, Ordering::Relaxed);
            ready.pop_front()
        };
        // A wake-up between the question and this found it on the list and left it at that.
        fence(Ordering::SeqCst);
        if item.question(item.events.load(Ordering::Relaxed)).is_some() {
            self.mark(item);
        }
    }

    /// An item whose event could not be delivered is the first again.
    #[inline(never)]
    fn put_back(&self, item: Arc<Item>) {
        let mut ready = self.ready.lock();
        if !item.queued.swap(true, Ordering::AcqRel) {
            ready.push_front(item);
        }
    }

    /// The first item becomes the last, for fairness.
    fn rotate(&self, item: &Arc<Item>) {
        let mut ready = self.ready.lock();
        if ready.front().is_some_and(|first| Arc::ptr_eq(first, item)) {
            ready.rotate_left(1);
        }
    }

    /// Whether `target` can be reached from here, and how deep the nesting is.
    fn depth_to(&self, target: *const Epoll, depth: usize) -> Result<usize, Errno> {
        if core::ptr::eq(self, target) || depth > MAX_DEPTH {
            return Err(Errno::ELOOP);
        }
        let inner: Vec<Arc<File>> = self
            .items
            .lock()
            .values()
            .filter_map(|i| i.file.upgrade())
            .collect();
        let mut deepest = depth;
        for file in inner {
            if let Some(inner) = file.ops().epoll() {
                deepest = deepest.max(inner.depth_to(target, depth + 1)?);
            }
        }
        Ok(deepest)
    }
}

/// The operations of an epoll file.
struct EpollFile(Arc<Epoll>);

impl FileOps for EpollFile {
    fn poll(&self, _: &File, table: Option<&mut PollTable<'_>>) -> PollEvents {
        if let Some(table) = table {
            table.register(&self.0.poll_wait);
        }
        if self.0.any_ready() {
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
        let ready = core::mem::take(&mut *self.0.ready.lock());
        drop(ready);
    }
    fn show_fdinfo(&self, _: &File, out: &mut String) {
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
        ready: IrqSpinLock::new(VecDeque::new()),
        turn: Mutex::new(()),
        wait: WaitQueue::new(),
        poll_wait: WaitQueue::new(),
    });
    anon::file("[eventpoll]", Arc::new(EpollFile(epoll)), abi::O_RDWR)
}

fn epoll_of(file: &File) -> Result<&Arc<Epoll>, Errno> {
    file.ops().epoll().ok_or(Errno::EINVAL)
}

/// Reads `struct epoll_event`: events and data.
fn read_event(addr: usize) -> Result<(u32, u64), Errno> {
    let events = UserPtr::<u32>::new(addr).read()?;
    let data = UserPtr::<u64>::new(addr.wrapping_add(EVENT_SIZE - 8)).read()?;
    Ok((events, data))
}

/// `epoll_ctl`.
pub fn control(epfile: &Arc<File>, op: i32, fd: i32, file: &Arc<File>, event: usize) -> Result<(), Errno> {
    let event = if op == CTL_DEL { (0, 0) } else { read_event(event)? };
    if matches!(
        file.inode().kind,
        crate::fs::FileType::Regular | crate::fs::FileType::Directory
    ) && !file.path.mnt.is_internal()
        || file.is_regular() && file.inode().pages.is_some()
    {
        return Err(Errno::EPERM);
    }
    if Arc::ptr_eq(epfile, file) {
        epoll_of(epfile)?;
        return Err(Errno::EINVAL);
    }
    let epoll = epoll_of(epfile)?;
    let key = (fd, Arc::as_ptr(file).addr());
    match op {
        CTL_ADD => {
            if event.0 & EXCLUSIVE != 0 && file.ops().epoll().is_some() {
                return Err(Errno::EINVAL);
            }
            let _nesting = match file.ops().epoll() {
                Some(inner) => {
                    let guard = NESTING.lock();
                    inner.depth_to(Arc::as_ptr(epoll), 1)?;
                    Some(guard)
                }
                None => None,
            };
            let item = Arc::new_cyclic(|me| Item {
                epoll: Arc::downgrade(epoll),
                fd,
                file: Arc::downgrade(file),
                events: AtomicU32::new(event.0),
                data: AtomicU64::new(event.1),
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
            epoll.ready.lock().retain(|i| !Arc::ptr_eq(i, &item));
        }
        CTL_MOD => {
            let item = epoll.items.lock().get(&key).cloned().ok_or(Errno::ENOENT)?;
            if (event.0 | item.events.load(Ordering::Relaxed)) & EXCLUSIVE != 0 {
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
pub fn wait(file: &File, to: usize, max: usize, timeout: Timeout) -> SysResult {
    let epoll = epoll_of(file)?;
    let to = UserPtr::<Abi<EpollEvent>>::new(to);
    let mut deadline = None;
    loop {
        let mut n = 0;
        let got = epoll.collect(max, |events, data| {
            // Some ABIs have padding between the two.
            let mut event = Abi(EpollEvent::default());
            (event.0.events, event.0.data) = (events, [data as u32, (data >> 32) as u32]);
            to.add(n).write(event)?;
            n += 1;
            Ok(())
        })?;
        if got != 0 || timeout == Timeout::Now {
            return Ok(got);
        }
        let deadline = *deadline.get_or_insert_with(|| timeout.deadline());
        if !epoll
            .wait
            .wait_until_deadline(deadline, || epoll.has_candidates())?
        {
            return Ok(0);
        }
    }
}
