//! Signals read from a descriptor.

use crate::fs::anon;
use crate::fs::file::{File, FileMode, FileOps};
use crate::fs::io::IoDst;
use crate::fs::poll::{PollEvents, PollTable};
use crate::signal::{self, SigInfo, SigSet, info, mask};
use crate::sync::SpinLock;
use crate::task::current;
use alloc::sync::Arc;
use limen_linux_abi::Errno;
use limen_linux_abi::SysResult;

/// The size in bytes of `struct signalfd_siginfo`.
const RECORD: usize = 128;
/// The flags `signalfd4` knows: `SFD_CLOEXEC`, `SFD_NONBLOCK`.
const CLOEXEC: u32 = 0o2_000_000;
const NONBLOCK: u32 = 0o4000;

struct SignalFd {
    set: SpinLock<SigSet>,
}

impl SignalFd {
    fn pending(&self) -> bool {
        let set = *self.set.lock();
        let task = current();
        let shared = task.process.signals.lock();
        let own = task.signals.lock();
        !own.pending.set().or(shared.pending.set()).and(set).is_empty()
    }
}

impl FileOps for SignalFd {
    fn read(&self, file: &File, dst: &mut IoDst<'_>, _: Option<u64>) -> SysResult {
        let mut records = dst.remaining() / RECORD;
        if records == 0 {
            return Err(Errno::EINVAL);
        }
        let mut done = 0;
        let actions = current().process.signals.lock().actions.clone();
        while records > 0 {
            let set = *self.set.lock();
            match mask::take(&current(), set) {
                Some(info) => {
                    if let Err(e) = dst.put(&record(&info)) {
                        return if done > 0 { Ok(done) } else { Err(e) };
                    }
                    done += RECORD;
                    records -= 1;
                }
                None if done > 0 => break,
                None if file.nonblocking() => return Err(Errno::EAGAIN),
                None => actions.signalfd.wait_until(|| self.pending())?,
            }
        }
        Ok(done)
    }

    fn poll(&self, _: &File, table: Option<&mut PollTable<'_>>) -> PollEvents {
        if let Some(table) = table {
            let actions = current().process.signals.lock().actions.clone();
            table.register(&actions.signalfd);
        }
        if self.pending() {
            PollEvents::IN
        } else {
            PollEvents::empty()
        }
    }
    fn show_fdinfo(&self, _: &File, out: &mut crate::fs::pseudo::Text) {
        use core::fmt::Write;
        let set = *self.set.lock();
        let _ = writeln!(out, "sigmask:\t{:016x}", set.0);
    }
}

/// `struct signalfd_siginfo`.
fn record(info: &SigInfo) -> [u8; RECORD] {
    let mut out = [0; RECORD];
    let mut put = |at: usize, value: &[u8]| out[at..at + value.len()].copy_from_slice(value);
    put(0, &info.signal().to_ne_bytes());
    put(4, &info.errno().to_ne_bytes());
    put(8, &info.code().to_ne_bytes());
    let fault = SigSet::of(&[
        signal::SIGSEGV,
        signal::SIGBUS,
        signal::SIGILL,
        signal::SIGFPE,
        signal::SIGTRAP,
    ]);
    if info.code() == info::code::TIMER {
        put(24, &info.pid().to_ne_bytes());
        put(32, &info.uid().to_ne_bytes());
    } else if fault.has(info.signal()) && !info.is_from_user() {
        put(72, &(info.addr() as u64).to_ne_bytes());
    } else {
        put(12, &info.pid().to_ne_bytes());
        put(16, &info.uid().to_ne_bytes());
    }
    if info.signal() == signal::SIGCHLD && !info.is_from_user() {
        put(40, &info.status().to_ne_bytes());
    } else if info.is_from_user() {
        put(44, &info.status().to_ne_bytes());
        put(48, &(info.value() as u64).to_ne_bytes());
    }
    out
}

/// `signalfd4`: a new descriptor if `fd` is -1, else another set for an existing one.
pub fn open(fd: i32, set: SigSet, flags: u32) -> SysResult {
    if flags & !(CLOEXEC | NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    let set = set.minus(SigSet::UNBLOCKABLE);
    let task = current();
    if fd != -1 {
        let file = task.file(fd)?;
        let signalfd = file.ops().downcast::<SignalFd>().ok_or(Errno::EINVAL)?;
        *signalfd.set.lock() = set;
        let actions = task.process.signals.lock().actions.clone();
        actions.signalfd.wake_all();
        return Ok(fd as usize);
    }
    /// `O_RDWR`.
    const RDWR: u32 = 2;
    let file = anon::file(
        "[signalfd]",
        Arc::new(SignalFd {
            set: SpinLock::new(set),
        }),
        RDWR | flags & NONBLOCK,
        FileMode::NO_WRITE,
    )?;
    task.files()
        .install(file, flags & CLOEXEC != 0)
        .map(|fd| fd as usize)
}
