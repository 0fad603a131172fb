//! `/proc/<pid>/timens_offsets`: what the time namespace of the process's children adds to clocks
//! (time_namespaces(7)).

use super::process::Subject;
use crate::fs::file::{File, FileOps};
use crate::fs::inode::{Dev, FileType};
use crate::fs::io::{IoDst, IoSrc};
use crate::fs::pseudo::{Node, Text, seek, text_file};
use crate::mm::reserve::room;
use crate::mm::{PAGE_SIZE, copy};
use crate::task::ns::time::{self, Clock};
use crate::task::{Creds, current};
use crate::time::NSEC_PER_SEC;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;
use limen_linux_abi::{Errno, SysResult};

/// Lines that are taken from one write: one for each clock.
const LINES: usize = 2;

/// The file.
pub fn node(subject: &Subject) -> Node {
    let subject = subject.clone();
    let open = move |_| {
        let of = subject.clone();
        let file: Arc<dyn FileOps> = Arc::new(Offsets {
            subject: subject.clone(),
            opener: current().creds(),
            text: text_file(move |out| show(&of, out)),
        });
        Ok(file)
    };
    Node::Special(0o644, FileType::Regular, Dev::default(), Arc::new(open))
}

fn show(subject: &Subject, out: &mut Text) -> Result<(), Errno> {
    let task = subject.living()?;
    let (_, offsets) = time::offsets_for_children(&task).ok_or(Errno::ESRCH)?;
    for (name, offset) in ["monotonic", "boottime"].into_iter().zip(offsets) {
        let second = NSEC_PER_SEC as i64;
        let (seconds, rest) = (offset.div_euclid(second), offset.rem_euclid(second));
        // A lack of memory is told when the text is complete.
        let _ = writeln!(out, "{name:<10} {seconds:10} {rest:9}");
    }
    Ok(())
}

/// An open file.
struct Offsets {
    subject: Subject,
    opener: Arc<Creds>,
    text: Arc<dyn FileOps>,
}

/// A line: a clock's name or number, seconds, and nanoseconds. What follows counts for nothing. `None`: it is
/// something else.
fn parse(line: &[u8]) -> Option<(Clock, i64, u32)> {
    let mut words = core::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let clock = match words.next()? {
        "monotonic" | "1" => Clock::Monotonic,
        "boottime" | "7" => Clock::Boottime,
        _ => return None,
    };
    let seconds = words.next()?.parse().ok()?;
    let rest = words.next()?.parse().ok()?;
    (u64::from(rest) < NSEC_PER_SEC).then_some((clock, seconds, rest))
}

impl Offsets {
    /// Writes `src`, which stands at `at`. Returns how much of it was taken. `EINVAL`: not so from the
    /// beginning of the file, or not in lines; `EPERM`, `ERANGE`, `EACCES`: see [`time::set_offsets`].
    fn write_at(&self, src: &mut IoSrc<'_>, at: u64) -> SysResult {
        let len = src.remaining();
        if at != 0 || len >= PAGE_SIZE {
            return Err(Errno::EINVAL);
        }
        let mut bytes = copy::zeroed(len)?;
        let mut n = 0;
        while n < len {
            n += src.take(&mut bytes[n..])?;
        }
        let mut taken = 0;
        let mut offsets = Vec::new();
        room(&mut offsets, LINES)?;
        for line in bytes.split_inclusive(|&b| b == b'\n').take(LINES) {
            offsets.push(parse(line).ok_or(Errno::EINVAL)?);
            taken += line.len();
        }
        if offsets.is_empty() {
            return Err(Errno::EINVAL);
        }
        let task = self.subject.living()?;
        let (ns, _) = time::offsets_for_children(&task).ok_or(Errno::ESRCH)?;
        time::may_set_offsets(&self.opener, &ns)?;
        time::set_offsets(&ns, &offsets)?;
        Ok(taken)
    }
}

impl FileOps for Offsets {
    fn read(&self, file: &File, dst: &mut IoDst<'_>, pos: Option<u64>) -> SysResult {
        self.text.read(file, dst, pos)
    }
    fn write(&self, file: &File, src: &mut IoSrc<'_>, pos: Option<u64>) -> SysResult {
        if pos.is_some() {
            return Err(Errno::ESPIPE);
        }
        let mut pos = file.pos.lock();
        let n = self.write_at(src, *pos)?;
        *pos += n as u64;
        Ok(n)
    }
    fn seek(&self, file: &File, offset: i64, whence: u32) -> Result<u64, Errno> {
        seek(file, offset, whence)
    }
}
