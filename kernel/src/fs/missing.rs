//! Which files programs looked for and did not find, for whoever puts a root file system together:
//! `/sys/kernel/debug/limen/missing`, if `limen.missing` is on the command line. Without that nothing is
//! recorded.
//!
//! The last such names, in the order in which they were first looked for, one per line, as the program gave
//! them (relative ones behind the working directory). Unprintable bytes are octal. Memory is allocated once,
//! at boot.

use crate::fs::debugfs;
use crate::fs::lookup::AT_FDCWD;
use crate::fs::pseudo::{Node, Text};
use crate::mm::reserve::room;
use crate::sync::SpinLock;
use crate::task::current;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use limen_linux_abi::Errno;

/// How many bytes of names are kept.
const ROOM: usize = 32 << 10;
/// How many names are recognised as kept already.
const KNOWN: usize = 1024;

static ON: AtomicBool = AtomicBool::new(false);
static KEPT: SpinLock<Kept> = SpinLock::new(Kept {
    lines: VecDeque::new(),
    known: Vec::new(),
});

struct Kept {
    /// Whole lines; at most [`ROOM`] bytes.
    lines: VecDeque<u8>,
    /// The hash of each kept line, at a place that follows from the hash. If two names want the same place,
    /// one may be kept twice.
    known: Vec<u64>,
}

/// FNV-1a. Zero marks an empty place.
#[derive(Clone, Copy)]
struct Hash(u64);

impl Hash {
    const NEW: Self = Self(0xcbf2_9ce4_8422_2325);
    fn with(self, byte: u8) -> Self {
        Self((self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    }
    fn of(bytes: &[u8]) -> Self {
        bytes.iter().fold(Self::NEW, |hash, byte| hash.with(*byte))
    }
    fn place(self) -> usize {
        (self.0 >> 32) as usize % KNOWN
    }
}

impl Kept {
    /// Keeps a line, which ends with its only newline.
    fn keep(&mut self, line: &[u8]) {
        let hash = Hash::of(line);
        if self.known.is_empty() || self.known[hash.place()] == hash.0 || line.len() > ROOM {
            return;
        }
        while self.lines.len() + line.len() > ROOM {
            self.forget_first();
        }
        self.lines.extend(line);
        self.known[hash.place()] = hash.0;
    }

    fn forget_first(&mut self) {
        let mut hash = Hash::NEW;
        while let Some(byte) = self.lines.pop_front() {
            hash = hash.with(byte);
            if byte == b'\n' {
                break;
            }
        }
        let known = &mut self.known[hash.place()];
        if *known == hash.0 {
            *known = 0;
        }
    }
}

/// Records that looking for `path` from descriptor `dirfd` ended with `error`, if that is `ENOENT` and
/// recording is on.
#[cold]
#[inline(never)]
pub fn note(error: Errno, dirfd: i32, path: &[u8]) {
    // A name relative to an open directory is left out: the program found that directory itself.
    if error != Errno::ENOENT || !ON.load(Relaxed) || path.is_empty() || path[0] != b'/' && dirfd != AT_FDCWD
    {
        return;
    }
    let mut name = Vec::new();
    if path[0] != b'/' {
        let Ok(from) = current().fs().cwd().display() else {
            return;
        };
        name = from;
        if room(&mut name, 1).is_err() {
            return;
        }
        name.push(b'/');
    }
    if let Ok(line) = line(&name, path) {
        KEPT.lock().keep(&line);
    }
}

/// The line for `path`, behind `from`.
fn line(from: &[u8], path: &[u8]) -> Result<Vec<u8>, Errno> {
    let mut line = Vec::new();
    // An unprintable byte takes four bytes.
    room(&mut line, 4 * (from.len() + path.len()) + 1)?;
    for byte in from.iter().chain(path) {
        if byte.is_ascii_graphic() && *byte != b'\\' {
            line.push(*byte);
        } else {
            let digit = |shift: u8| b'0' + (byte >> shift & 7);
            line.extend_from_slice(&[b'\\', digit(6), digit(3), digit(0)]);
        }
    }
    line.push(b'\n');
    Ok(line)
}

fn show(out: &mut Text) -> Result<(), Errno> {
    let mut copy: Vec<u8> = Vec::new();
    crate::mm::reserve::room_exact(&mut copy, ROOM)?;
    let kept = KEPT.lock();
    let (first, second) = kept.lines.as_slices();
    copy.extend_from_slice(first);
    copy.extend_from_slice(second);
    drop(kept);
    out.add(&copy);
    Ok(())
}

/// Allocates memory and makes the file, if the command line asks for it.
pub fn init() {
    if !crate::cmdline::flag("limen.missing") {
        return;
    }
    let room = Kept {
        lines: VecDeque::with_capacity(ROOM),
        known: vec![0; KNOWN],
    };
    *KEPT.lock() = room;
    debugfs::TREE.add("limen/missing", Node::text(show));
    ON.store(true, Relaxed);
}
