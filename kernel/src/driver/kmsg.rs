//! `/dev/kmsg` and `syslog(2)`: user space's view of the kernel log.

use crate::arch::irq;
use crate::fs::devices;
use crate::fs::file::{File, FileMode, FileOps};
use crate::fs::inode::Dev;
use crate::fs::io::{IoDst, IoSrc};
use crate::fs::poll::{PollEvents, PollTable};
use crate::log::{self, Cursor, LINE_MAX, Level, Record};
use crate::sched::{WaitQueue, preempt};
use crate::sync::SpinLock;
use crate::task::{creds::cap, current};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use limen_linux_abi::{Errno, SysResult, raw::general as abi};

/// `kernel.dmesg_restrict`: reading the log needs `CAP_SYSLOG`. On, as in Debian's Linux.
pub static RESTRICT: AtomicBool = AtomicBool::new(true);

/// `kernel.kptr_restrict`: if 2 or more, no program sees addresses of the kernel.
pub static HIDE_ADDRESSES: AtomicU8 = AtomicU8::new(0);

/// `EPERM` unless the running thread may do more with the log than write to it. `CAP_SYS_ADMIN` is accepted
/// as well, as in old versions of Linux.
fn may_read(only_look: bool) -> Result<(), Errno> {
    let creds = current().creds();
    let open = only_look && !RESTRICT.load(Relaxed);
    if open || creds.capable(cap::SYSLOG) || creds.capable(cap::SYS_ADMIN) {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// An open `/dev/kmsg`: a position in the log.
struct Kmsg(SpinLock<Cursor>);

/// Appends bytes as `/dev/kmsg` shows them: unprintable ones as `\x..`.
fn escape(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        if (b' '..0x7f).contains(byte) && *byte != b'\\' || *byte >= 0x80 {
            out.push(*byte);
        } else {
            let hex = |n: u8| char::from_digit(u32::from(n), 16).unwrap_or('0') as u8;
            out.extend([b'\\', b'x', hex(byte >> 4), hex(byte & 15)]);
        }
    }
}

impl FileOps for Kmsg {
    fn mode(&self) -> FileMode {
        FileMode::STREAM | FileMode::POLLS
    }
    fn read(&self, file: &File, dst: &mut IoDst<'_>, _: Option<u64>) -> SysResult {
        let mut text = [0; LINE_MAX];
        let (before, record) = loop {
            let mut cursor = self.0.lock();
            let before = *cursor;
            let (first, record) = log::with_ring(|r| (r.first().seq, r.read(&mut cursor, &mut text)));
            if before.seq < first {
                // Records were lost: reported once, and then reading continues at the oldest record.
                *cursor = log::with_ring(|r| r.first());
                return Err(Errno::EPIPE);
            }
            drop(cursor);
            if let Some(record) = record {
                break (before, record);
            }
            if file.nonblocking() {
                return Err(Errno::EAGAIN);
            }
            READERS.wait_until(|| log::written() > before.seq)?;
        };
        let mut out = Vec::new();
        let priority = u32::from(record.facility) << 3 | u32::from(record.level);
        let mut head = alloc::string::String::new();
        let _ = write!(head, "{},{},{},-;", priority, record.seq, record.time_ns / 1000);
        out.extend_from_slice(head.as_bytes());
        for (i, line) in text[..record.len].split(|b| *b == b'\n').enumerate() {
            if i > 0 {
                out.push(b'\n');
            }
            escape(line, &mut out);
        }
        out.push(b'\n');
        if out.len() > dst.remaining() {
            *self.0.lock() = before;
            return Err(Errno::EINVAL);
        }
        dst.put(&out)
    }

    fn write(&self, _: &File, src: &mut IoSrc<'_>, _: Option<u64>) -> SysResult {
        let total = src.remaining();
        if total > LINE_MAX {
            return Err(Errno::EINVAL);
        }
        let mut text = [0; LINE_MAX];
        let mut n = 0;
        while src.remaining() > 0 {
            n += src.take(&mut text[n..])?;
        }
        let mut text = &text[..n];
        let mut level = Level::from_priority(log::DEFAULT_MESSAGE_LEVEL.load(Relaxed).cast_unsigned());
        let mut facility = 1;
        if let Some((number, rest)) = priority(text) {
            level = Level::from_priority(number);
            // Programs cannot write in the name of the kernel (facility 0).
            facility = ((number >> 3) as u8).max(1);
            text = rest;
        }
        log::write_bytes(level, facility, text);
        Ok(total)
    }

    fn seek(&self, _: &File, offset: i64, whence: u32) -> Result<u64, Errno> {
        if offset != 0 {
            return Err(Errno::ESPIPE);
        }
        let to = match whence {
            0 => log::with_ring(|r| r.first()),
            2 => log::with_ring(|r| r.end()),
            // SEEK_DATA: after the last clear
            3 => *CLEARED.lock(),
            _ => return Err(Errno::EINVAL),
        };
        *self.0.lock() = to;
        Ok(0)
    }

    fn poll(&self, _: &File, table: Option<&mut PollTable<'_>>) -> PollEvents {
        if let Some(table) = table {
            table.register(&READERS);
        }
        let cursor = *self.0.lock();
        if log::with_ring(|r| r.first().seq) > cursor.seq {
            PollEvents::READABLE | PollEvents::ERR | PollEvents::PRI
        } else if log::written() > cursor.seq {
            PollEvents::READABLE
        } else {
            PollEvents::empty()
        }
    }
}

/// The `<number>` at the start of a message.
fn priority(text: &[u8]) -> Option<(u32, &[u8])> {
    let rest = text.strip_prefix(b"<")?;
    let end = rest.iter().position(|b| *b == b'>')?;
    let number = core::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    Some((number, &rest[end + 1..]))
}

/// The position up to which `syslog` has read, the position of the last clear, and the level from before
/// console output was turned off.
static READ: SpinLock<Cursor> = SpinLock::new(Cursor::START);
static CLEARED: SpinLock<Cursor> = SpinLock::new(Cursor::START);
static SAVED_LEVEL: SpinLock<Option<i32>> = SpinLock::new(None);

/// A record as `syslog` returns it: each line with priority and time.
fn show(record: &Record, text: &[u8], out: &mut Vec<u8>) {
    let mut head = alloc::string::String::new();
    let us = record.time_ns / 1000;
    let priority = u32::from(record.facility) << 3 | u32::from(record.level);
    let _ = write!(
        head,
        "<{}>[{:5}.{:06}] ",
        priority,
        us / 1_000_000,
        us % 1_000_000
    );
    for line in text.split(|b| *b == b'\n') {
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(line);
        out.push(b'\n');
    }
}

/// `syslog(2)`.
pub fn syslog(action: i32, buf: usize, len: i32) -> SysResult {
    // Reading all, and asking for the size.
    may_read(action == 3 || action == 10)?;
    match action {
        0 | 1 => Ok(0),
        2 => read(user_buffer(buf, len)?),
        3 | 4 => {
            let (addr, len) = user_buffer(buf, len)?;
            let n = read_all(addr, len)?;
            if action == 4 {
                clear();
            }
            Ok(n)
        }
        5 => {
            clear();
            Ok(0)
        }
        6 => {
            SAVED_LEVEL.lock().get_or_insert(log::console_level());
            log::set_console_level(log::LEAST_CONSOLE_LEVEL.load(Relaxed));
            Ok(0)
        }
        7 => {
            if let Some(level) = SAVED_LEVEL.lock().take() {
                log::set_console_level(level);
            }
            Ok(0)
        }
        8 => {
            if !(1..=8).contains(&len) {
                return Err(Errno::EINVAL);
            }
            *SAVED_LEVEL.lock() = None;
            log::set_console_level(len.max(log::LEAST_CONSOLE_LEVEL.load(Relaxed)));
            Ok(0)
        }
        9 => {
            let mut cursor = *READ.lock();
            let mut text = [0; LINE_MAX];
            let mut out = Vec::new();
            let mut total = 0;
            while let Some(record) = log::with_ring(|r| r.read(&mut cursor, &mut text)) {
                out.clear();
                show(&record, &text[..record.len], &mut out);
                total += out.len();
            }
            Ok(total)
        }
        10 => Ok(log::SIZE),
        _ => Err(Errno::EINVAL),
    }
}

fn user_buffer(buf: usize, len: i32) -> Result<(usize, usize), Errno> {
    if buf == 0 || len < 0 {
        return Err(Errno::EINVAL);
    }
    if len > 0 {
        crate::mm::user::check(buf, len as usize)?;
    }
    Ok((buf, len as usize))
}

fn clear() {
    *CLEARED.lock() = log::with_ring(|r| r.end());
}

/// Waits for records and reads as many as fit. A record that is longer than the buffer is cut.
fn read((addr, len): (usize, usize)) -> SysResult {
    if len == 0 {
        return Ok(0);
    }
    READERS.wait_until(|| log::written() > READ.lock().seq)?;
    let mut text = [0; LINE_MAX];
    let mut out = Vec::new();
    loop {
        let mut cursor = READ.lock();
        let mut next = *cursor;
        let Some(record) = log::with_ring(|r| r.read(&mut next, &mut text)) else {
            break;
        };
        let before = out.len();
        let lines = 1 + text[..record.len].iter().filter(|b| **b == b'\n').count();
        // Each line with priority and time.
        if crate::mm::reserve::room(&mut out, record.len + 40 * lines).is_err() {
            break;
        }
        show(&record, &text[..record.len], &mut out);
        if out.len() > len && before > 0 {
            out.truncate(before);
            break;
        }
        *cursor = next;
    }
    out.truncate(len);
    crate::mm::user::write_bytes(addr, &out)?;
    Ok(out.len())
}

/// Reads the newest records that fit, the oldest of them first.
fn read_all(addr: usize, len: usize) -> SysResult {
    let mut text = [0; LINE_MAX];
    let start = *CLEARED.lock();
    // First the length of all is computed, then the first one that fits.
    let mut total = 0;
    let mut cursor = start;
    let mut out = Vec::new();
    while let Some(record) = log::with_ring(|r| r.read(&mut cursor, &mut text)) {
        out.clear();
        show(&record, &text[..record.len], &mut out);
        total += out.len();
    }
    let mut done = 0;
    // Records that were logged meanwhile are left out.
    let end = cursor.seq;
    cursor = start;
    while cursor.seq < end {
        let Some(record) = log::with_ring(|r| r.read(&mut cursor, &mut text)) else {
            break;
        };
        out.clear();
        show(&record, &text[..record.len], &mut out);
        if total > len {
            total -= out.len().min(total);
            continue;
        }
        if done + out.len() > len {
            break;
        }
        crate::mm::user::write_bytes(addr + done, &out)?;
        done += out.len();
    }
    Ok(done)
}

/// Sleeping readers.
static READERS: WaitQueue = WaitQueue::new();

/// See [`log::Wake`].
fn wake_readers(in_interrupt: bool) -> bool {
    if READERS.is_empty() {
        return true;
    }
    if !(in_interrupt || irq::enabled() && preempt::count() == 0) {
        return false;
    }
    READERS.wake_all();
    true
}

/// Makes the device node.
pub fn init() {
    log::on_news(wake_readers);
    devices::register_char_device("kmsg", Dev::new(1, 11), 0o644, |_, flags| {
        if flags & abi::O_ACCMODE != abi::O_WRONLY {
            may_read(true)?;
        }
        Ok(Arc::new(Kmsg(SpinLock::new(log::with_ring(|r| r.first())))))
    });
}
