//! `trace_pipe_raw` and `snapshot_raw`: a CPU's pages as they are in the buffer, each of which is read once.

use super::READ;
use super::instance::special;
use crate::fs::file::{File, FileMode, FileOps};
use crate::fs::io::IoDst;
use crate::fs::poll::{PollEvents, PollTable};
use crate::fs::pseudo::Node;
use crate::sync::Mutex;
use crate::tracing::read::with_reader;
use crate::tracing::{Instance, Use};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use limen_linux_abi::{Errno, SysResult};

/// `trace_pipe_raw` of a CPU, or `snapshot_raw`.
pub fn file(instance: &Arc<Instance>, cpu: usize, snapshot: bool) -> Node {
    special(READ, instance, move |used, _| {
        Ok(Arc::new(Raw {
            used,
            cpu,
            snapshot,
            page: Mutex::new(Page::default()),
            woken: AtomicU32::new(0),
        }))
    })
}

/// A page that is being read.
#[derive(Default)]
struct Page {
    bytes: Vec<u8>,
    at: usize,
}

/// An open `trace_pipe_raw`.
struct Raw {
    used: Use,
    cpu: usize,
    snapshot: bool,
    page: Mutex<Page>,
    /// How often who waits for full pages was sent away.
    woken: AtomicU32,
}

impl Raw {
    /// Takes a page out of the buffer. `full`: only one on which nothing more will be written.
    fn take(&self, page: &mut Page, full: bool) -> Result<bool, Errno> {
        let buffer = super::trace::buffer(&self.used, self.snapshot);
        let size = buffer.layout().page();
        if page.bytes.len() != size {
            page.bytes = crate::mm::copy::zeroed(size)?;
        }
        let taken = with_reader(buffer, self.cpu, |reader| reader.read_page(&mut page.bytes, full));
        let any = taken.flatten().is_some();
        page.at = if any { 0 } else { size };
        Ok(any)
    }

    /// Whether as much is in the buffer as who takes many pages at once waits for.
    fn is_filled(&self) -> bool {
        let percent = self.used.percent.load(Relaxed) as usize;
        let buffer = super::trace::buffer(&self.used, self.snapshot);
        let filled = with_reader(buffer, self.cpu, |reader| {
            let bytes = reader.stats().bytes as usize;
            let all = reader.ring().pages() * buffer.layout().data();
            bytes != 0 && bytes / 100 >= all / 100 * percent / 100
        });
        filled.unwrap_or(false)
    }

    fn give(&self, dst: &mut IoDst<'_>, wait: bool, full: bool) -> SysResult {
        let woken = self.woken.load(Relaxed);
        loop {
            let sleeper = self.used.waiting.begin();
            {
                let mut page = self.page.lock();
                if page.at < page.bytes.len() || self.take(&mut page, full)? {
                    let n = dst.put(&page.bytes[page.at..])?;
                    page.at += n;
                    return Ok(n);
                }
            }
            if self.snapshot {
                return Ok(0);
            }
            if !wait {
                return Err(Errno::EAGAIN);
            }
            sleeper.sleep()?;
            // Who waits for full pages need not wait when recording ends.
            if full && (!self.used.is_on() || self.woken.load(Relaxed) != woken) {
                return Ok(0);
            }
        }
    }
}

impl FileOps for Raw {
    fn mode(&self) -> FileMode {
        FileMode::STREAM | FileMode::NO_PREAD | FileMode::POLLS | FileMode::SENDS
    }
    fn read(&self, file: &File, dst: &mut IoDst<'_>, _: Option<u64>) -> SysResult {
        self.give(dst, !file.nonblocking(), false)
    }
    fn splice_read(&self, file: &File, dst: &mut IoDst<'_>, _: Option<u64>, wait: bool) -> SysResult {
        self.give(dst, wait && !file.nonblocking(), true)
    }
    /// 0: who waits for full pages waits no longer.
    fn ioctl(&self, _: &File, cmd: u32, _: usize) -> SysResult {
        if cmd != 0 {
            return Err(Errno::ENOTTY);
        }
        self.woken.fetch_add(1, Relaxed);
        self.used.waiting.tell();
        Ok(0)
    }
    fn poll(&self, _: &File, table: Option<&mut PollTable<'_>>) -> PollEvents {
        if let Some(table) = table {
            table.register(&self.used.waiting.queue);
            self.used.waiting.watch();
        }
        if self.is_filled() {
            PollEvents::READABLE
        } else {
            PollEvents::empty()
        }
    }
}
