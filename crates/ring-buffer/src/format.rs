//! Linux's page and event format, as `events/header_page` and `events/header_event` describe it.
//!
//! A page begins with the time of its first event's base (u64) and `commit`, a `long`: the bytes of data
//! behind it, and on pages that are handed out two flags. An event begins with a word of `type_len` (5 bits)
//! and `time_delta` (27 bits), the time since the event in front of it.

use alloc::format;
use alloc::string::String;

/// An event's kind: not an event, or one that was discarded; the next word is the bytes from it on.
pub const PADDING: u32 = 29;
/// The next word holds the higher bits of a time difference.
pub const TIME_EXTEND: u32 = 30;
/// The next word holds the higher bits of a time, of which there are [`TIME_BITS`] in all.
pub const TIME_STAMP: u32 = 31;
/// Bits of a time or a difference that has a word of its own.
pub const TIME_BITS: u32 = DELTA_BITS + 32;
/// The most words of data whose number is the kind itself. 0: the next word is their bytes and its own.
pub const DATA_MAX: u32 = 28;
/// Bits of `time_delta`.
pub const DELTA_BITS: u32 = 27;
/// In `commit`: events were lost in front of this page.
pub const MISSED_EVENTS: u64 = 1 << 31;
/// In `commit`: their number follows the data, as a `long`.
pub const MISSED_STORED: u64 = 1 << 30;

const DELTA_MASK: u32 = (1 << DELTA_BITS) - 1;

/// The first word of an event.
#[inline(always)]
pub(crate) const fn header(kind: u32, delta: u32) -> u32 {
    if cfg!(target_endian = "big") {
        kind << DELTA_BITS | delta
    } else {
        delta << 5 | kind
    }
}

/// Kind and time difference of a first word.
pub(crate) const fn parts(header: u32) -> (u32, u64) {
    if cfg!(target_endian = "big") {
        (header >> DELTA_BITS, (header & DELTA_MASK) as u64)
    } else {
        (header & 31, (header >> 5) as u64)
    }
}

/// The lower bits of a time or difference, for the first word, and the higher ones, for the next. What is
/// above [`TIME_BITS`] is left out.
pub(crate) const fn split(time: u64) -> (u32, u32) {
    (time as u32 & DELTA_MASK, (time >> DELTA_BITS) as u32)
}

/// Sizes of a page, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    page: usize,
    long: usize,
}

impl Layout {
    /// Pages of `page` bytes (a multiple of 8, from 64 to 64 KiB) on a target whose `long` has `long` bytes
    /// (4 or 8).
    pub const fn new(page: usize, long: usize) -> Option<Self> {
        if page < 64 || page > 64 << 10 || !page.is_multiple_of(8) || (long != 4 && long != 8) {
            return None;
        }
        Some(Self { page, long })
    }

    /// Pages of `page` bytes on this target.
    pub const fn native(page: usize) -> Option<Self> {
        Self::new(page, size_of::<usize>())
    }

    /// Of a whole page.
    pub const fn page(self) -> usize {
        self.page
    }

    /// Of a `long`.
    pub const fn long(self) -> usize {
        self.long
    }

    /// Of what is in front of the data.
    pub const fn header(self) -> usize {
        8 + self.long
    }

    /// Of the data.
    pub const fn data(self) -> usize {
        self.page - self.header()
    }

    /// The most bytes of data in one event: it fits on a page with the longest header and a time stamp.
    pub const fn max_event(self) -> usize {
        self.data() - 16
    }

    /// The text of `events/header_page`. `char` is unsigned, as in kernels since Linux 6.2.
    pub fn header_page(self) -> String {
        let row = |field: &str, offset: usize, size: usize, signed: u8| {
            format!("\tfield: {field};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n")
        };
        row("u64 timestamp", 0, 8, 0)
            + &row("local_t commit", 8, self.long, 1)
            + &row("int overwrite", 8, 1, 1)
            + &row("char data", self.header(), self.data(), 0)
    }
}

/// The text of `events/header_event`.
pub fn header_event() -> String {
    let bits = |name: &str, bits: u32| format!("\t{name:<12}:{bits:>5} bits\n");
    let kind = |name: &str, kind: u32| format!("\t{name} : type == {kind}\n");
    String::from("# compressed entry header\n")
        + &bits("type_len", 5)
        + &bits("time_delta", DELTA_BITS)
        + &bits("array", 32)
        + "\n"
        + &kind("padding    ", PADDING)
        + &kind("time_extend", TIME_EXTEND)
        + &kind("time_stamp", TIME_STAMP)
        + &format!("\tdata max type_len  == {DATA_MAX}\n")
}
