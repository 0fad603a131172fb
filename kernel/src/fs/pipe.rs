//! Pipes and FIFOs: a ring of pages between writers and readers.
//!
//! Each pipe has a sleeping lock, under which data is copied from and to user memory. What sleepers have to
//! check is kept in atomics, too.

use crate::fs::fasync::{Async, Band};
use crate::fs::file::FileMode;
use crate::fs::io::{IoDst, IoSrc};
use crate::fs::poll::PollEvents;
use crate::mm::{PAGE_SIZE, Page};
use crate::sched::WaitQueue;
use crate::sync::{Mutex, MutexGuard};
use crate::task::creds::cap;
use crate::task::user::Account;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use limen_linux_abi::{Errno, SysResult};

mod file;

pub use file::{MODE, create, of, open_fifo};

/// Writes of up to this many bytes are not mixed with others.
pub const PIPE_BUF: usize = 4096;
/// How many pages a new pipe has.
const DEFAULT_SLOTS: usize = 16;
/// How many pages a new pipe has if its user has too many.
const LEAST_SLOTS: usize = 2;
/// How many bytes an unprivileged user's pipe may have (`fs.pipe-max-size`).
pub static MAX_SIZE: AtomicU32 = AtomicU32::new(1 << 20);
/// How many pages an unprivileged user's pipes may have: above the first limit new pipes are small, above the
/// second they are refused. 0: no limit.
pub static USER_PAGES_SOFT: AtomicUsize = AtomicUsize::new(16384);
/// See [`USER_PAGES_SOFT`].
pub static USER_PAGES_HARD: AtomicUsize = AtomicUsize::new(0);

/// The size in bytes of a pipe for which `size` is asked: a power of two of pages. `None`: it is too large.
pub fn round_size(size: u64) -> Option<usize> {
    if size > 1 << 31 {
        return None;
    }
    Some((size as usize).max(PAGE_SIZE).next_power_of_two())
}

/// Whether the limits of its user hold for the running thread.
fn must_keep_to_limits() -> bool {
    let creds = crate::task::current().creds();
    !creds.capable(cap::SYS_RESOURCE) && !creds.capable(cap::SYS_ADMIN)
}

/// Whether `pages` exceed `limit`.
fn too_many(pages: usize, limit: &AtomicUsize) -> bool {
    let limit = limit.load(Ordering::Relaxed);
    limit != 0 && pages > limit
}

/// How many pages a new pipe gets, which are counted on the user's account. `ENFILE`.
fn first_slots(user: &Account) -> Result<usize, Errno> {
    let most = MAX_SIZE.load(Ordering::Relaxed) as usize / PAGE_SIZE;
    let limited = most < DEFAULT_SLOTS && !crate::task::current().creds().capable(cap::SYS_RESOURCE);
    let mut slots = if limited { most } else { DEFAULT_SLOTS };
    let mut pages = user.pipe_pages.fetch_add(slots, Ordering::Relaxed) + slots;
    if too_many(pages, &USER_PAGES_SOFT) && must_keep_to_limits() {
        let less = slots.min(LEAST_SLOTS);
        pages = user.pipe_pages.fetch_sub(slots - less, Ordering::Relaxed) - (slots - less);
        slots = less;
    }
    if too_many(pages, &USER_PAGES_HARD) && must_keep_to_limits() {
        user.pipe_pages.fetch_sub(slots, Ordering::Relaxed);
        return Err(Errno::ENFILE);
    }
    Ok(slots)
}

/// Some bytes of a page.
pub struct Buf {
    /// The page. If not `own`, it is shared with a file or another pipe.
    pub page: Page,
    /// The offset of the first byte.
    pub start: usize,
    /// How many bytes.
    pub len: usize,
    /// A packet (`O_DIRECT`): a read returns at most this, and drops what does not fit.
    pub packet: bool,
    /// The page belongs to this pipe alone, so that more may be written behind the bytes.
    pub own: bool,
}

/// What the lock protects.
pub struct Ring {
    /// Filled buffers, oldest first.
    pub bufs: VecDeque<Buf>,
    /// How many buffers there may be, apart from those that are on their way ([`Slot`]).
    pub slots: usize,
    /// How many are on their way: the pipe is as large as both together.
    on_their_way: usize,
    /// A free page, kept for the next write.
    spare: Option<Page>,
}

/// A slot for a buffer that is taken out, or is yet to be put in: nobody else fills it meanwhile. It is given
/// back when it is dropped.
pub struct Slot<'a> {
    pipe: &'a Pipe,
    /// Whether something was in it: then it is news for writers that it is free.
    filled: bool,
}

impl Slot<'_> {
    /// Puts a buffer there.
    pub fn put(self, add: impl FnOnce(&mut VecDeque<Buf>)) {
        let pipe = self.pipe;
        core::mem::forget(self);
        let mut ring = pipe.lock();
        pipe.give_back_slot(&mut ring);
        add(&mut ring.bufs);
        pipe.changed(ring, true, false);
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let mut ring = self.pipe.lock();
        let full = ring.bufs.len() >= ring.slots;
        self.pipe.give_back_slot(&mut ring);
        self.pipe.changed(ring, false, full || self.filled);
    }
}

/// A pipe.
pub struct Pipe {
    ring: Mutex<Ring>,
    /// How many slots are filled.
    used: AtomicUsize,
    /// [`Ring::slots`].
    slots: AtomicUsize,
    readers: AtomicU32,
    writers: AtomicU32,
    /// How often it was opened for reading, and for writing. Opening a FIFO waits until the other count
    /// changes.
    reader_opens: AtomicU32,
    writer_opens: AtomicU32,
    read_wait: WaitQueue,
    write_wait: WaitQueue,
    readers_async: Async,
    writers_async: Async,
    /// The account on which its slots are counted.
    user: Arc<Account>,
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let slots = *self.slots.get_mut();
        self.user.pipe_pages.fetch_sub(slots, Ordering::Relaxed);
    }
}

impl Pipe {
    /// `ENFILE`: its user has too many pages in pipes.
    fn new() -> Result<Arc<Self>, Errno> {
        let user = crate::task::user::account();
        let slots = first_slots(&user)?;
        Ok(Arc::new(Self {
            ring: Mutex::new(Ring {
                bufs: VecDeque::new(),
                slots,
                on_their_way: 0,
                spare: None,
            }),
            used: AtomicUsize::new(0),
            slots: AtomicUsize::new(slots),
            readers: AtomicU32::new(0),
            writers: AtomicU32::new(0),
            reader_opens: AtomicU32::new(0),
            writer_opens: AtomicU32::new(0),
            read_wait: WaitQueue::new(),
            write_wait: WaitQueue::new(),
            readers_async: Async::new(),
            writers_async: Async::new(),
            user,
        }))
    }

    /// The pipe's contents, locked.
    pub fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock()
    }
    /// [`Pipe::lock`] while another pipe at a lower address is locked.
    pub fn lock_second(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock_nested(1)
    }
    /// Takes a free slot, if there is one: one that was `filled`, or is to be.
    pub fn take_slot(&self, ring: &mut Ring, filled: bool) -> Option<Slot<'_>> {
        if ring.bufs.len() >= ring.slots {
            return None;
        }
        ring.slots -= 1;
        ring.on_their_way += 1;
        self.slots.store(ring.slots, Ordering::Relaxed);
        Some(Slot { pipe: self, filled })
    }
    fn give_back_slot(&self, ring: &mut Ring) {
        ring.slots += 1;
        ring.on_their_way -= 1;
        self.slots.store(ring.slots, Ordering::Relaxed);
    }
    /// The contents were changed under the lock: unlocks, wakes sleepers and signals owners.
    pub fn changed(&self, ring: MutexGuard<'_, Ring>, readers: bool, writers: bool) {
        self.settle(ring, readers, writers);
        if readers {
            self.readers_async.tell(Band::In);
        }
        if writers {
            self.writers_async.tell(Band::Out);
        }
    }
    /// The contents were changed under the lock: unlocks and wakes sleepers.
    #[inline(always)]
    fn settle(&self, ring: MutexGuard<'_, Ring>, readers: bool, writers: bool) {
        self.used.store(ring.bufs.len(), Ordering::Release);
        drop(ring);
        if readers {
            self.wake_reader();
        }
        if writers {
            self.wake_writer();
        }
    }
    /// There is something to read: wakes one sleeping reader. If that leaves something, it wakes the next
    /// one.
    fn wake_reader(&self) {
        self.read_wait.wake_one_key(PollEvents::READABLE.bits());
    }
    /// There is room to write: wakes one sleeping writer. If that leaves room, it wakes the next one.
    fn wake_writer(&self) {
        self.write_wait.wake_one_key(PollEvents::WRITABLE.bits());
    }
    /// Whether no file is open for writing.
    pub fn no_writers(&self) -> bool {
        self.writers.load(Ordering::Acquire) == 0
    }
    /// Whether no file is open for reading.
    pub fn no_readers(&self) -> bool {
        self.readers.load(Ordering::Acquire) == 0
    }
    fn has_data(&self) -> bool {
        self.used.load(Ordering::Acquire) != 0
    }
    fn has_room(&self) -> bool {
        self.used.load(Ordering::Acquire) < self.slots.load(Ordering::Relaxed)
    }
    /// Sleeps until there is something to read, which another reader may take first. `false`: the pipe ends
    /// here; `EAGAIN`: it would have to sleep, but `nonblock`.
    pub fn wait_data(&self, nonblock: bool) -> Result<bool, Errno> {
        self.wait_data_as::<false>(nonblock)
    }
    /// [`Pipe::wait_data`], as an exclusive sleeper or not.
    #[inline(always)]
    fn wait_data_as<const EXCLUSIVE: bool>(&self, nonblock: bool) -> Result<bool, Errno> {
        if !self.has_data() && !self.no_writers() {
            if nonblock {
                return Err(Errno::EAGAIN);
            }
            let ready = || self.has_data() || self.no_writers();
            if EXCLUSIVE {
                self.read_wait.wait_until_exclusive(ready)?;
            } else {
                self.read_wait.wait_until(ready)?;
            }
        }
        // The writers are checked first: what the last one wrote must not be missed.
        let ended = self.no_writers();
        Ok(self.has_data() || !ended)
    }
    /// Sleeps until a slot is free. `EPIPE` (and `SIGPIPE`): there are no readers.
    pub fn wait_room(&self, nonblock: bool) -> Result<(), Errno> {
        self.wait_room_as::<false>(nonblock)
    }
    /// [`Pipe::wait_room`], as an exclusive sleeper or not.
    #[inline(always)]
    fn wait_room_as<const EXCLUSIVE: bool>(&self, nonblock: bool) -> Result<(), Errno> {
        if !self.has_room() && !self.no_readers() {
            if nonblock {
                return Err(Errno::EAGAIN);
            }
            let ready = || self.has_room() || self.no_readers();
            if EXCLUSIVE {
                self.write_wait.wait_until_exclusive(ready)?;
            } else {
                self.write_wait.wait_until(ready)?;
            }
        }
        self.check_readers()
    }
    fn check_readers(&self) -> Result<(), Errno> {
        if self.no_readers() {
            crate::fs::fcntl::signal_current(13);
            return Err(Errno::EPIPE);
        }
        Ok(())
    }

    fn add(&self, mode: FileMode) {
        if mode.contains(FileMode::READ) {
            self.readers.fetch_add(1, Ordering::AcqRel);
            self.reader_opens.fetch_add(1, Ordering::AcqRel);
        }
        if mode.contains(FileMode::WRITE) {
            self.writers.fetch_add(1, Ordering::AcqRel);
            self.writer_opens.fetch_add(1, Ordering::AcqRel);
        }
    }
    fn sub(&self, mode: FileMode) {
        if mode.contains(FileMode::READ) {
            self.readers.fetch_sub(1, Ordering::AcqRel);
        }
        if mode.contains(FileMode::WRITE) {
            self.writers.fetch_sub(1, Ordering::AcqRel);
        }
        if self.no_readers() != self.no_writers() {
            self.read_wait.wake_all();
            self.write_wait.wake_all();
            self.readers_async.tell(Band::In);
            self.writers_async.tell(Band::Out);
        }
        if self.no_readers() && self.no_writers() {
            let mut ring = self.ring.lock();
            // A FIFO that nobody has open loses its contents. It may have been opened and written to
            // meanwhile.
            if self.no_readers() && self.no_writers() {
                ring.bufs.clear();
                self.used.store(0, Ordering::Release);
            }
        }
    }

    /// How many bytes can be read (`FIONREAD`).
    pub fn bytes(&self) -> usize {
        self.ring.lock().bufs.iter().map(|b| b.len).sum()
    }
    /// The size in bytes (`F_GETPIPE_SZ`).
    pub fn size(&self) -> usize {
        let ring = self.ring.lock();
        (ring.slots + ring.on_their_way) * PAGE_SIZE
    }
    /// `F_SETPIPE_SZ`. Returns the new size in bytes.
    pub fn set_size(&self, size: usize, privileged: bool) -> SysResult {
        let slots = round_size(size as u64).ok_or(Errno::EINVAL)? / PAGE_SIZE;
        let most = MAX_SIZE.load(Ordering::Relaxed) as usize / PAGE_SIZE;
        let mut ring = self.ring.lock();
        let before = ring.slots + ring.on_their_way;
        if slots > most && slots > before && !privileged {
            return Err(Errno::EPERM);
        }
        let pages = self.user.pipe_pages.load(Ordering::Relaxed) + slots - before;
        if slots > before
            && (too_many(pages, &USER_PAGES_HARD) || too_many(pages, &USER_PAGES_SOFT))
            && must_keep_to_limits()
        {
            return Err(Errno::EPERM);
        }
        if ring.bufs.len() + ring.on_their_way > slots {
            return Err(Errno::EBUSY);
        }
        if slots > before {
            // And for what comes back to a full pipe (`splice`).
            let more = slots - ring.bufs.len() + 1;
            crate::mm::reserve::room_exact(&mut ring.bufs, more)?;
        }
        self.user
            .pipe_pages
            .fetch_add(slots.wrapping_sub(before), Ordering::Relaxed);
        ring.slots = slots - ring.on_their_way;
        self.slots.store(ring.slots, Ordering::Relaxed);
        self.changed(ring, false, true);
        Ok(slots * PAGE_SIZE)
    }

    /// Reads what there is, at most `dst.remaining()` bytes.
    #[inline(always)]
    pub fn read(&self, dst: &mut IoDst<'_>, nonblock: bool) -> SysResult {
        if dst.remaining() == 0 {
            return Ok(0);
        }
        let mut slept = false;
        loop {
            let mut ring = self.ring.lock();
            let mut done = 0;
            let mut error = None;
            let mut freed = false;
            while let Some(buf) = ring.bufs.front_mut() {
                let n = buf.len.min(dst.remaining());
                match dst.put(&buf.page.bytes()[buf.start..buf.start + n]) {
                    Ok(m) => {
                        buf.start += m;
                        buf.len -= m;
                        done += m;
                        if m < n {
                            error = Some(Errno::EFAULT);
                        }
                    }
                    Err(e) => error = Some(e),
                }
                let packet = buf.packet;
                if buf.len == 0 || (packet && error.is_none()) {
                    freed |= ring.bufs.len() >= ring.slots;
                    if let Some(old) = ring.bufs.pop_front()
                        && old.own
                    {
                        ring.spare = Some(old.page);
                    }
                }
                if packet || error.is_some() || dst.remaining() == 0 {
                    break;
                }
            }
            if done != 0 || error.is_some() {
                let left = slept && !ring.bufs.is_empty();
                self.settle(ring, left, freed);
                return if done != 0 {
                    Ok(done)
                } else {
                    Err(error.unwrap_or(Errno::EFAULT))
                };
            }
            drop(ring);
            slept = true;
            if !self.wait_data_as::<true>(nonblock)? {
                return Ok(0);
            }
        }
    }

    /// `vmsplice`: waits for room and writes as much as there is room for, at least a byte.
    pub fn write_some(&self, src: &mut IoSrc<'_>, nonblock: bool) -> SysResult {
        loop {
            self.wait_room(nonblock)?;
            let mut ring = self.ring.lock();
            let mut done = 0;
            let result = fill(&mut ring, src, false, false, &mut done);
            self.changed(ring, done != 0, false);
            if done != 0 {
                return Ok(done);
            }
            // If there was no error, another writer has taken the room: wait again.
            result?;
        }
    }

    /// Writes all bytes. Sleeps when there is no room, as long as there are readers.
    fn write(&self, src: &mut IoSrc<'_>, nonblock: bool, packets: bool) -> SysResult {
        let mut done = 0;
        if src.remaining() == 0 {
            return Ok(0);
        }
        self.check_readers()?;
        let atomic = src.remaining() <= PIPE_BUF;
        let mut slept = false;
        loop {
            let mut ring = self.ring.lock();
            if self.no_readers() {
                drop(ring);
                return if done != 0 {
                    Ok(done)
                } else {
                    self.check_readers().map(|()| 0)
                };
            }
            let before = done;
            let result = fill(&mut ring, src, packets, atomic, &mut done);
            let more = slept && ring.bufs.len() < ring.slots;
            self.settle(ring, done != before, more);
            match result {
                Err(e) => return if done != 0 { Ok(done) } else { Err(e) },
                Ok(()) if src.remaining() == 0 => return Ok(done),
                Ok(()) => {}
            }
            if done != before && !nonblock {
                self.readers_async.tell(Band::In);
            }
            slept = true;
            match self.wait_room_as::<true>(nonblock) {
                Ok(()) => {}
                Err(e) => return if done != 0 { Ok(done) } else { Err(e) },
            }
        }
    }
}

/// Moves data from `src` into the ring until one of them is used up. The bytes for one page are moved
/// completely or, if user memory faults, not at all.
#[inline(always)]
fn fill(
    ring: &mut Ring,
    src: &mut IoSrc<'_>,
    packets: bool,
    atomic: bool,
    done: &mut usize,
) -> Result<(), Errno> {
    if let Some(last) = ring.bufs.back_mut()
        && last.own
        && !packets
        && !last.packet
    {
        let end = last.start + last.len;
        let room = PAGE_SIZE - end;
        if room != 0 && (src.remaining() <= room || !atomic) {
            let n = room.min(src.remaining());
            src.take_whole(&mut last.page.bytes()[end..end + n])?;
            last.len += n;
            *done += n;
        }
    }
    while src.remaining() != 0 && ring.bufs.len() < ring.slots {
        let page = match ring.spare.take() {
            Some(page) => page,
            None => crate::mm::alloc_page().ok_or(Errno::ENOMEM)?,
        };
        let n = if packets { PIPE_BUF } else { PAGE_SIZE }.min(src.remaining());
        if let Err(e) = src.take_whole(&mut page.bytes()[..n]) {
            ring.spare = Some(page);
            return Err(e);
        }
        ring.bufs.push_back(Buf {
            page,
            start: 0,
            len: n,
            packet: packets,
            own: true,
        });
        *done += n;
    }
    Ok(())
}
