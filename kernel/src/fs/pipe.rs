//! Pipes and FIFOs: a ring of pages between writers and readers.
//!
//! One sleeping lock per pipe (the copies to and from user memory happen under it); what sleepers look at is mirrored in atomics.

use crate::fs::anon;
use crate::fs::file::{File, FileMode, FileOps};
use crate::fs::inode::Inode;
use crate::fs::io::{IoDst, IoSrc};
use crate::fs::path::Path;
use crate::fs::poll::{PollEvents, PollTable};
use crate::mm::{PAGE_SIZE, Page, user::UserPtr};
use crate::sched::WaitQueue;
use crate::sync::{Mutex, MutexGuard};
use crate::syscall::SysResult;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use limen_linux_abi::native::ioctl::FIONREAD;
use limen_linux_abi::{Errno, raw::general as abi};

/// Writes up to this size are not interleaved with others'.
pub const PIPE_BUF: usize = 4096;
/// Pages of a new pipe.
const DEFAULT_SLOTS: usize = if PAGE_SIZE >= 65536 { 1 } else { 65536 / PAGE_SIZE };
/// The largest pipe an ordinary user may ask for (`/proc/sys/fs/pipe-max-size`).
const MAX_SIZE: usize = 1 << 20;

/// Some bytes of a page.
pub struct Buf {
    /// The page; shared with a file or another pipe if not `own`.
    pub page: Page,
    /// First byte.
    pub start: usize,
    /// Bytes.
    pub len: usize,
    /// A packet (`O_DIRECT`): one read takes at most this, and drops what doesn't fit.
    pub packet: bool,
    /// The page belongs to the pipe alone: more may be written behind the bytes.
    pub own: bool,
}

/// What the lock guards.
pub struct Ring {
    /// Filled buffers, oldest first.
    pub bufs: VecDeque<Buf>,
    /// How many there may be.
    pub slots: usize,
    /// A page kept for the next write.
    spare: Option<Page>,
}

/// A pipe.
pub struct Pipe {
    ring: Mutex<Ring>,
    /// Filled slots.
    used: AtomicUsize,
    slots: AtomicUsize,
    readers: AtomicU32,
    writers: AtomicU32,
    /// How often it was opened for reading and for writing: a FIFO's open waits for the other's to change.
    reader_opens: AtomicU32,
    writer_opens: AtomicU32,
    read_wait: WaitQueue,
    write_wait: WaitQueue,
}

impl Pipe {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            ring: Mutex::new(Ring {
                bufs: VecDeque::new(),
                slots: DEFAULT_SLOTS,
                spare: None,
            }),
            used: AtomicUsize::new(0),
            slots: AtomicUsize::new(DEFAULT_SLOTS),
            readers: AtomicU32::new(0),
            writers: AtomicU32::new(0),
            reader_opens: AtomicU32::new(0),
            writer_opens: AtomicU32::new(0),
            read_wait: WaitQueue::new(),
            write_wait: WaitQueue::new(),
        })
    }

    /// The pipe's contents, locked.
    pub fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock()
    }
    /// The same while another pipe of a lower address is locked.
    pub fn lock_second(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock_nested(1)
    }
    /// After the contents were changed under the lock: tells sleepers.
    pub fn changed(&self, ring: MutexGuard<'_, Ring>, readers: bool, writers: bool) {
        self.used.store(ring.bufs.len(), Ordering::Release);
        drop(ring);
        if readers {
            self.read_wait.wake_all();
        }
        if writers {
            self.write_wait.wake_all();
        }
    }
    /// Whether a writer could come no more.
    pub fn no_writers(&self) -> bool {
        self.writers.load(Ordering::Acquire) == 0
    }
    /// Whether nobody reads any more.
    pub fn no_readers(&self) -> bool {
        self.readers.load(Ordering::Acquire) == 0
    }
    fn has_data(&self) -> bool {
        self.used.load(Ordering::Acquire) != 0
    }
    fn has_room(&self) -> bool {
        self.used.load(Ordering::Acquire) < self.slots.load(Ordering::Relaxed)
    }
    /// Sleeps until there is something to read, which another reader may take first; `false` at end of file, `EAGAIN` if it would sleep but may not.
    pub fn wait_data(&self, nonblock: bool) -> Result<bool, Errno> {
        if !self.has_data() && !self.no_writers() {
            if nonblock {
                return Err(Errno::EAGAIN);
            }
            self.read_wait
                .wait_until(|| self.has_data() || self.no_writers())?;
        }
        // Asked in this order: what the last writer left is seen.
        let ended = self.no_writers();
        Ok(self.has_data() || !ended)
    }
    /// Sleeps until a slot is free; `EPIPE` (with `SIGPIPE`) without readers.
    pub fn wait_room(&self, nonblock: bool) -> Result<(), Errno> {
        if !self.has_room() && !self.no_readers() {
            if nonblock {
                return Err(Errno::EAGAIN);
            }
            self.write_wait
                .wait_until(|| self.has_room() || self.no_readers())?;
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
        if mode.contains(FileMode::READ) && self.readers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.write_wait.wake_all();
        }
        if mode.contains(FileMode::WRITE) && self.writers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.read_wait.wake_all();
        }
        if self.no_readers() && self.no_writers() {
            let mut ring = self.ring.lock();
            // A FIFO nobody has open forgets what was in it; somebody may have opened it meanwhile and written.
            if self.no_readers() && self.no_writers() {
                ring.bufs.clear();
                self.used.store(0, Ordering::Release);
            }
        }
    }

    /// Bytes waiting (`FIONREAD`).
    pub fn bytes(&self) -> usize {
        self.ring.lock().bufs.iter().map(|b| b.len).sum()
    }
    /// Capacity in bytes (`F_GETPIPE_SZ`).
    pub fn size(&self) -> usize {
        self.slots.load(Ordering::Relaxed) * PAGE_SIZE
    }
    /// `F_SETPIPE_SZ`: the new capacity.
    pub fn set_size(&self, size: usize, privileged: bool) -> SysResult {
        if size > 1 << 31 {
            return Err(Errno::EINVAL);
        }
        let slots = size.div_ceil(PAGE_SIZE).max(1).next_power_of_two();
        if slots * PAGE_SIZE > MAX_SIZE && slots > self.slots.load(Ordering::Relaxed) && !privileged {
            return Err(Errno::EPERM);
        }
        let mut ring = self.ring.lock();
        if ring.bufs.len() > slots {
            return Err(Errno::EBUSY);
        }
        ring.slots = slots;
        self.slots.store(slots, Ordering::Relaxed);
        self.changed(ring, false, true);
        Ok(slots * PAGE_SIZE)
    }

    /// Takes bytes out: what is there, at most `dst.remaining()`.
    #[inline(always)]
    pub fn read(&self, dst: &mut IoDst<'_>, nonblock: bool) -> SysResult {
        if dst.remaining() == 0 {
            return Ok(0);
        }
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
                    freed = true;
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
                self.changed(ring, false, freed);
                return if done != 0 {
                    Ok(done)
                } else {
                    Err(error.unwrap_or(Errno::EFAULT))
                };
            }
            drop(ring);
            if !self.wait_data(nonblock)? {
                return Ok(0);
            }
        }
    }

    /// `vmsplice`: waits for the first room and puts in what there is room for, of at least a byte.
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
            // Without an error another writer was faster.
            result?;
        }
    }

    /// Puts bytes in, sleeping for room as long as there are readers.
    fn write(&self, src: &mut IoSrc<'_>, nonblock: bool, packets: bool) -> SysResult {
        let mut done = 0;
        if src.remaining() == 0 {
            return Ok(0);
        }
        self.check_readers()?;
        let atomic = src.remaining() <= PIPE_BUF;
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
            self.changed(ring, done != before, false);
            match result {
                Err(e) => return if done != 0 { Ok(done) } else { Err(e) },
                Ok(()) if src.remaining() == 0 => return Ok(done),
                Ok(()) => {}
            }
            match self.wait_room(nonblock) {
                Ok(()) => {}
                Err(e) => return if done != 0 { Ok(done) } else { Err(e) },
            }
        }
    }
}

/// Moves from `src` into the ring until one of them is exhausted. What goes into a page goes there whole or, if its memory faults, not at all.
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

/// An end of a pipe, or a FIFO opened in any way.
pub struct PipeFile {
    /// The pipe.
    pub pipe: Arc<Pipe>,
    mode: FileMode,
    /// A reader that opened before any writer came sees no hang-up until one has come and gone.
    seen_writers: u32,
}

impl FileOps for PipeFile {
    fn read(&self, file: &File, dst: &mut IoDst<'_>, _: Option<u64>) -> SysResult {
        self.pipe.read(dst, file.nonblocking())
    }
    fn write(&self, file: &File, src: &mut IoSrc<'_>, _: Option<u64>) -> SysResult {
        let flags = file.flags();
        self.pipe
            .write(src, flags & abi::O_NONBLOCK != 0, flags & abi::O_DIRECT != 0)
    }
    fn poll(&self, _: &File, table: Option<&mut PollTable<'_>>) -> PollEvents {
        let p = &self.pipe;
        if let Some(table) = table {
            if self.mode.contains(FileMode::READ) {
                table.register(&p.read_wait);
            }
            if self.mode.contains(FileMode::WRITE) {
                table.register(&p.write_wait);
            }
        }
        let mut events = PollEvents::empty();
        if self.mode.contains(FileMode::READ) {
            // First: who is told of the end is told of what was left before it as well.
            if p.no_writers() && p.writer_opens.load(Ordering::Relaxed) != self.seen_writers {
                events |= PollEvents::HUP;
            }
            if p.has_data() {
                events |= PollEvents::READABLE;
            }
        }
        if self.mode.contains(FileMode::WRITE) {
            if p.has_room() {
                events |= PollEvents::WRITABLE;
            }
            if p.no_readers() {
                events |= PollEvents::ERR;
            }
        }
        events
    }
    fn ioctl(&self, _: &File, cmd: u32, arg: usize) -> SysResult {
        match cmd {
            FIONREAD => UserPtr::<i32>::new(arg)
                .write(self.pipe.bytes() as i32)
                .map(|()| 0),
            _ => Err(Errno::ENOTTY),
        }
    }
    fn release(&self, _: &File) {
        self.pipe.sub(self.mode);
    }
}

/// What every pipe is.
pub const MODE: FileMode = FileMode::STREAM
    .union(FileMode::NO_PREAD)
    .union(FileMode::POLLS)
    .union(FileMode::RECEIVES);

fn mode_of(flags: u32) -> FileMode {
    match flags & abi::O_ACCMODE {
        abi::O_RDONLY => FileMode::READ,
        abi::O_WRONLY => FileMode::WRITE,
        abi::O_RDWR => FileMode::READ | FileMode::WRITE,
        _ => FileMode::empty(),
    }
}

/// `pipe2`: the reading and the writing end.
pub fn create(flags: u32) -> (Arc<File>, Arc<File>) {
    let pipe = Pipe::new();
    let place = anon::pipe_place();
    *place.dentry.inode.pipe.lock() = Arc::downgrade(&pipe);
    let end = |access: u32, path: Path| {
        let mode = mode_of(access);
        pipe.add(mode);
        let ops = Arc::new(PipeFile {
            pipe: pipe.clone(),
            mode,
            seen_writers: 0,
        });
        let keep = flags & (abi::O_NONBLOCK | abi::O_DIRECT);
        File::new(ops, path, access | keep, MODE)
    };
    let reader = end(abi::O_RDONLY, place.clone());
    (reader, end(abi::O_WRONLY, place))
}

/// Opens a FIFO: waits for the other side as POSIX says. A pipe opened again through `/proc` (a shell's process
/// substitution) never waits: its other side may have come and gone already.
pub fn open_fifo(inode: &Arc<Inode>, flags: u32) -> Result<Arc<dyn FileOps>, Errno> {
    let pipe = {
        let mut known = inode.pipe.lock();
        match known.upgrade() {
            Some(pipe) => pipe,
            None => {
                let pipe = Pipe::new();
                *known = Arc::downgrade(&pipe);
                pipe
            }
        }
    };
    let mode = mode_of(flags);
    if mode.is_empty() {
        return Err(Errno::EINVAL);
    }
    let nonblock = flags & abi::O_NONBLOCK != 0;
    let mut seen_writers = 0;
    if anon::is_pipe(inode) {
        pipe.add(mode);
        return Ok(Arc::new(PipeFile {
            pipe,
            mode,
            seen_writers,
        }));
    }
    // Whether the other side has to be waited for is asked before this side can be seen: from then on the other may open, do all it wants and close.
    let (reader_opens, writer_opens) = (
        pipe.reader_opens.load(Ordering::Acquire),
        pipe.writer_opens.load(Ordering::Acquire),
    );
    let (no_readers, no_writers) = (pipe.no_readers(), pipe.no_writers());
    if mode == FileMode::WRITE && nonblock && no_readers {
        return Err(Errno::ENXIO);
    }
    pipe.add(mode);
    pipe.read_wait.wake_all();
    pipe.write_wait.wake_all();
    let waited = if mode == FileMode::READ && no_writers {
        if nonblock {
            seen_writers = writer_opens;
            Ok(())
        } else {
            pipe.read_wait
                .wait_until(|| pipe.writer_opens.load(Ordering::Acquire) != writer_opens)
        }
    } else if mode == FileMode::WRITE && no_readers {
        pipe.write_wait
            .wait_until(|| pipe.reader_opens.load(Ordering::Acquire) != reader_opens)
    } else {
        Ok(())
    };
    if let Err(e) = waited {
        pipe.sub(mode);
        return Err(e);
    }
    Ok(Arc::new(PipeFile {
        pipe,
        mode,
        seen_writers,
    }))
}

/// The pipe behind a file, if it is one.
pub fn of(file: &File) -> Option<&Arc<Pipe>> {
    file.ops().downcast::<PipeFile>().map(|p| &p.pipe)
}
