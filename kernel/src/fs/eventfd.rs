//! eventfd: a counter that can be waited for.

use crate::fs::anon;
use crate::fs::file::{File, FileMode, FileOps};
use crate::fs::io::{IoDst, IoSrc};
use crate::fs::poll::{PollEvents, PollTable};
use crate::sched::WaitQueue;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use limen_linux_abi::SysResult;
use limen_linux_abi::{Errno, raw::general as abi};

/// `EFD_SEMAPHORE`.
const SEMAPHORE: u32 = 1;
/// A limit that the counter does not reach.
const FULL: u64 = u64::MAX;

struct EventFd {
    count: AtomicU64,
    semaphore: bool,
    /// Its number in `/proc/<pid>/fdinfo`.
    id: u32,
    wait: WaitQueue,
}

/// The number of the next eventfd.
static NEXT_ID: AtomicU32 = AtomicU32::new(0);

impl FileOps for EventFd {
    fn read(&self, file: &File, dst: &mut IoDst<'_>, _: Option<u64>) -> SysResult {
        if dst.remaining() < 8 {
            return Err(Errno::EINVAL);
        }
        let take = |n: u64| if self.semaphore { 1 } else { n };
        loop {
            let taken = self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| {
                (n != 0).then(|| n - take(n))
            });
            if let Ok(before) = taken {
                self.wait.wake_one_key(PollEvents::OUT.bits());
                dst.put(&take(before).to_le_bytes())?;
                return Ok(8);
            }
            if file.nonblocking() {
                return Err(Errno::EAGAIN);
            }
            self.wait.wait_until(|| self.count.load(Ordering::Acquire) != 0)?;
        }
    }
    fn write(&self, file: &File, src: &mut IoSrc<'_>, _: Option<u64>) -> SysResult {
        if src.remaining() != 8 {
            return Err(Errno::EINVAL);
        }
        let mut raw = [0; 8];
        if src.take(&mut raw)? < 8 {
            return Err(Errno::EFAULT);
        }
        let n = u64::from_le_bytes(raw);
        if n == FULL {
            return Err(Errno::EINVAL);
        }
        let fits = |have: u64| have.checked_add(n).filter(|sum| *sum != FULL);
        loop {
            if self
                .count
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, fits)
                .is_ok()
            {
                self.wait.wake_one_key(PollEvents::IN.bits());
                return Ok(8);
            }
            if file.nonblocking() {
                return Err(Errno::EAGAIN);
            }
            self.wait
                .wait_until(|| fits(self.count.load(Ordering::Acquire)).is_some())?;
        }
    }
    fn poll(&self, _: &File, table: Option<&mut PollTable<'_>>) -> PollEvents {
        if let Some(t) = table {
            t.register(&self.wait);
        }
        let n = self.count.load(Ordering::Acquire);
        let mut events = PollEvents::empty();
        events.set(PollEvents::IN, n != 0);
        events.set(PollEvents::OUT, n < FULL - 1);
        events.set(PollEvents::ERR, n == FULL);
        events
    }
    fn show_fdinfo(&self, _: &File, out: &mut crate::fs::pseudo::Text) {
        use core::fmt::Write;
        let _ = writeln!(
            out,
            "eventfd-count: {:16x}\neventfd-id: {}",
            self.count.load(Ordering::Relaxed),
            self.id
        );
    }
}

/// `eventfd2`; the caller installs the file.
pub fn create(count: u32, flags: u32) -> Result<Arc<File>, Errno> {
    if flags & !(SEMAPHORE | abi::O_CLOEXEC | abi::O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    let ops = EventFd {
        count: AtomicU64::new(u64::from(count)),
        semaphore: flags & SEMAPHORE != 0,
        id: NEXT_ID.fetch_add(1, Ordering::Relaxed) & i32::MAX as u32,
        wait: WaitQueue::new(),
    };
    anon::file(
        "[eventfd]",
        Arc::new(ops),
        abi::O_RDWR | (flags & abi::O_NONBLOCK),
        FileMode::empty(),
    )
}
