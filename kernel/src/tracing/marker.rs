//! Markers: what programs write into the trace themselves (`trace_marker`, `trace_marker_raw`).

use super::printk::fill;
use super::record::common;
use super::{Instance, all};
use crate::mm::PAGE_SIZE;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use limen_linux_abi::Errno;
use limen_trace_text::entry::{COMMON, LONG};
use limen_trace_text::{Kind, Options};

/// How much of one write is kept, bytes.
pub const MOST: usize = 4096;
const _: () = assert!(MOST <= PAGE_SIZE);

/// How many instances get what is written to the top marker, too.
static COPIES: AtomicU32 = AtomicU32::new(0);

/// An instance begins or ceases to be one of those.
pub(super) fn copies(begins: bool) {
    if begins {
        COPIES.fetch_add(1, Relaxed);
    } else {
        COPIES.fetch_sub(1, Relaxed);
    }
}

/// The place from which markers come: the `ip` of their records.
#[inline(never)]
fn tracing_mark_write(instance: &Instance, text: &[u8]) -> bool {
    print(instance, tracing_mark_write as *const () as usize, text)
}

/// Records text that comes from `ip`, of at most [`Instance::marker_room`] bytes, and sees to it that it ends
/// its line. As [`Instance::record_with`].
pub(super) fn print(instance: &Instance, ip: usize, text: &[u8]) -> bool {
    let end = !text.ends_with(b"\n");
    let len = LONG + text.len() + usize::from(end) + 1;
    instance.record_with(common(Kind::PRINT, 0), len, |words| {
        let bytes = ip.to_ne_bytes().into_iter().chain(text.iter().copied());
        fill(words, bytes.chain(end.then_some(b'\n')));
    })
}

/// Whether markers come from there.
pub fn is_marker(address: usize) -> bool {
    address == tracing_mark_write as *const () as usize
}

impl Instance {
    /// Bytes that a record of this instance can have behind the fields that all have.
    fn room(&self) -> usize {
        self.main.layout().max_event() - COMMON
    }

    /// How much of a marker of `len` bytes fits.
    pub fn marker_room(&self, len: usize) -> usize {
        len.min(MOST).min(self.room() - LONG - 2)
    }

    /// Records text that a program wrote, of at most [`Self::marker_room`] bytes. `EINVAL`: markers are off.
    /// `EBADF`: recording is off. May sleep.
    pub fn mark(&self, text: &[u8]) -> Result<(), Errno> {
        if !self.options().contains(Options::MARKERS) {
            return Err(Errno::EINVAL);
        }
        self.make_least()?;
        if !tracing_mark_write(self, text) && !self.is_on() {
            return Err(Errno::EBADF);
        }
        if self.is_top() && COPIES.load(Relaxed) != 0 {
            for other in all() {
                if other.options().contains(Options::COPY_MARKER) && other.make_least().is_ok() {
                    tracing_mark_write(&other, text);
                }
            }
        }
        Ok(())
    }

    /// Records bytes that a program wrote, of which the first four are a number. `EINVAL`: there are fewer
    /// than that, or too many, or markers are off. `EBADF`: recording is off.
    pub fn mark_raw(&self, bytes: &[u8]) -> Result<(), Errno> {
        if !self.options().contains(Options::MARKERS) || bytes.len() < 4 || bytes.len() > self.room() {
            return Err(Errno::EINVAL);
        }
        self.make_least()?;
        let recorded = self.record_with(common(Kind::RAW_DATA, 0), bytes.len(), |words| {
            for (word, bytes) in words.iter().zip(bytes.chunks(4)) {
                let mut four = [0; 4];
                four[..bytes.len()].copy_from_slice(bytes);
                word.store(u32::from_ne_bytes(four), Relaxed);
            }
        });
        if recorded || self.is_on() {
            Ok(())
        } else {
            Err(Errno::EBADF)
        }
    }
}
