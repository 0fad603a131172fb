//! The ends of pipes as open files, and opening FIFOs.

use super::Pipe;
use crate::fs::anon;
use crate::fs::fasync::{Async, Band};
use crate::fs::file::{File, FileMode, FileOps};
use crate::fs::inode::Inode;
use crate::fs::io::{IoDst, IoSrc};
use crate::fs::path::Path;
use crate::fs::poll::{PollEvents, PollTable};
use crate::mm::user::UserPtr;
use crate::rcu::Shared;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use limen_linux_abi::SysResult;
use limen_linux_abi::native::ioctl::FIONREAD;
use limen_linux_abi::{Errno, raw::general as abi};

/// An end of a pipe, or an open FIFO.
pub struct PipeFile {
    /// The pipe.
    pub pipe: Arc<Pipe>,
    mode: FileMode,
    /// The number of opens for writing when this was opened. As long as no writer has come since, a reader of
    /// a FIFO sees no hang-up.
    seen_writers: u32,
}

impl FileOps for PipeFile {
    fn read(&self, file: &File, dst: &mut IoDst<'_>, _: Option<u64>) -> SysResult {
        let result = self.pipe.read(dst, file.nonblocking());
        // Nothing was read if nothing was asked for, or if a signal came first.
        if self.pipe.writers_async.any()
            && result != Err(Errno::ERESTARTSYS)
            && (result != Ok(0) || dst.remaining() != 0)
        {
            self.pipe.writers_async.tell(Band::Out);
        }
        result
    }
    fn write(&self, file: &File, src: &mut IoSrc<'_>, _: Option<u64>) -> SysResult {
        let flags = file.flags();
        let result = self
            .pipe
            .write(src, flags & abi::O_NONBLOCK != 0, flags & abi::O_DIRECT != 0);
        if result != Ok(0) {
            self.pipe.readers_async.tell(Band::In);
        }
        result
    }
    fn asyncs(&self, with: &mut dyn FnMut(&Async)) -> bool {
        if self.mode.contains(FileMode::READ) {
            with(&self.pipe.readers_async);
        }
        if self.mode.contains(FileMode::WRITE) {
            with(&self.pipe.writers_async);
        }
        true
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
            // Checked first: whoever is told that the writers are gone must also be told of the data that
            // they left.
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

/// The properties of every pipe.
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

/// `pipe2`. Returns the reading and the writing end. `ENFILE`.
pub fn create(flags: u32) -> Result<(Arc<File>, Arc<File>), Errno> {
    crate::fs::count::may_open()?;
    let pipe = Pipe::new()?;
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
    Ok((reader, end(abi::O_WRONLY, place)))
}

/// Opens a FIFO. Waits for the other side as POSIX says. A pipe that is opened again through `/proc` (process
/// substitution of a shell) never waits, since its other side may have come and gone.
pub fn open_fifo(inode: &Shared<Inode>, flags: u32) -> Result<Arc<dyn FileOps>, Errno> {
    let pipe = {
        let mut known = inode.pipe.lock();
        match known.upgrade() {
            Some(pipe) => pipe,
            None => {
                let pipe = Pipe::new().map_err(|_| Errno::ENOMEM)?;
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
    // The counts are read before this side can be seen: from then on the other side may open, do all its work
    // and close.
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

/// The pipe behind a file, if there is one.
pub fn of(file: &File) -> Option<&Arc<Pipe>> {
    file.ops().downcast::<PipeFile>().map(|p| &p.pipe)
}
