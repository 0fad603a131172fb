//! Records: the fields that all have in front, and those of Linux's fixed kinds.

use bitflags::bitflags;

/// Bytes of the fields in front.
pub const COMMON: usize = 8;
/// Bytes of a `long`.
pub const LONG: usize = size_of::<usize>();

/// The kinds that are not events with a name of their own (`enum trace_type`). Events' numbers are above
/// [`Kind::LAST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind(pub u16);

impl Kind {
    /// A function was called.
    pub const FUNCTION: Self = Self(1);
    /// A chain of calls in the kernel.
    pub const STACK: Self = Self(4);
    /// A marker.
    pub const PRINT: Self = Self(5);
    /// Text of the kernel: where its format is, and the arguments.
    pub const BPRINT: Self = Self(6);
    /// A function returned.
    pub const GRAPH_RETURN: Self = Self(10);
    /// A function was called that is to return.
    pub const GRAPH_ENTRY: Self = Self(11);
    /// A chain of calls of a program.
    pub const USER_STACK: Self = Self(12);
    /// Text of the kernel that is always the same: where it is.
    pub const BPUTS: Self = Self(14);
    /// A binary marker.
    pub const RAW_DATA: Self = Self(18);
    /// The last number that is not an event's.
    pub const LAST: Self = Self(31);
}

bitflags! {
    /// `common_flags`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Flags: u8 {
        /// Interrupts were off.
        const IRQS_OFF = 1;
        /// A lazy reschedule was due.
        const NEED_RESCHED_LAZY = 2;
        /// A reschedule was due.
        const NEED_RESCHED = 4;
        /// In the handler of an interrupt.
        const HARDIRQ = 8;
        /// In a soft interrupt.
        const SOFTIRQ = 16;
        /// Preemption was due.
        const PREEMPT_RESCHED = 32;
        /// In an NMI handler.
        const NMI = 64;
        /// Soft interrupts were off.
        const BH_OFF = 128;
    }
}

/// The fields that all records have in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Common {
    /// What it is.
    pub kind: Kind,
    /// Where it was recorded.
    pub flags: Flags,
    /// How often preemption was off (lower 4 bits), and migration (upper 4).
    pub preempt_count: u8,
    /// The thread, 0 for idle.
    pub pid: i32,
}

impl Common {
    /// As two words of a record.
    #[inline(always)]
    pub const fn words(self) -> [u32; 2] {
        let kind = self.kind.0.to_ne_bytes();
        let first = [kind[0], kind[1], self.flags.bits(), self.preempt_count];
        [u32::from_ne_bytes(first), self.pid as u32]
    }

    /// From the beginning of a record.
    pub fn parse(data: &[u8]) -> Option<Self> {
        let [a, b, flags, preempt_count, pid @ ..] = *data.first_chunk::<COMMON>()?;
        Some(Self {
            kind: Kind(u16::from_ne_bytes([a, b])),
            flags: Flags::from_bits_retain(flags),
            preempt_count,
            pid: i32::from_ne_bytes(pid),
        })
    }
}

/// A record that was read.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The CPU that recorded it.
    pub cpu: usize,
    /// When, in the trace clock's units.
    pub time: u64,
    /// The fields in front.
    pub common: Common,
    /// All of it.
    pub data: &'a [u8],
}

impl<'a> Entry<'a> {
    /// A record. `None`: it is too short to be one.
    pub fn new(cpu: usize, time: u64, data: &'a [u8]) -> Option<Self> {
        Some(Self {
            cpu,
            time,
            common: Common::parse(data)?,
            data,
        })
    }

    /// The `long` at `at`, 0 if it is not there.
    pub fn long(&self, at: usize) -> u64 {
        let bytes = self.data.get(at..).and_then(<[u8]>::first_chunk::<LONG>);
        bytes.map_or(0, |bytes| usize::from_ne_bytes(*bytes) as u64)
    }

    /// The 64 bits at `at`, 0 if they are not there.
    pub fn u64(&self, at: usize) -> u64 {
        let bytes = self.data.get(at..).and_then(<[u8]>::first_chunk);
        bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }

    /// The 32 bits at `at`, 0 if they are not there.
    pub fn u32(&self, at: usize) -> u32 {
        let bytes = self.data.get(at..).and_then(<[u8]>::first_chunk);
        bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }

    /// What is behind `at`.
    pub fn rest(&self, at: usize) -> &'a [u8] {
        self.data.get(at..).unwrap_or_default()
    }

    /// The text from `at` to its zero.
    pub fn text(&self, at: usize) -> &'a [u8] {
        let rest = self.rest(at);
        let end = rest.iter().position(|byte| *byte == 0);
        &rest[..end.unwrap_or(rest.len())]
    }

    /// What a function's return says, if it is one.
    pub fn graph_return(&self) -> Option<GraphReturn> {
        (self.common.kind == Kind::GRAPH_RETURN).then(|| GraphReturn {
            func: self.long(COMMON),
            retval: self.long(COMMON + LONG),
            depth: self.u32(COMMON + 2 * LONG) as i32,
            overrun: self.u32(COMMON + 2 * LONG + 4),
            call_time: self.u64(COMMON + 2 * LONG + 8),
            return_time: self.u64(COMMON + 2 * LONG + 16),
        })
    }

    /// What a function's call says that is to return, if it is one.
    pub fn graph_entry(&self) -> Option<GraphEntry> {
        (self.common.kind == Kind::GRAPH_ENTRY).then(|| GraphEntry {
            func: self.long(COMMON),
            depth: self.u32(COMMON + LONG) as i32,
        })
    }
}

/// Words of an address.
pub const LONG_WORDS: usize = LONG / 4;
/// Words of a function's record, without those in front.
pub const FUNCTION_WORDS: usize = 2 * LONG_WORDS;
/// Words of a call's record, without those in front.
pub const GRAPH_ENTRY_WORDS: usize = LONG_WORDS + 1;
/// Words of a return's record, without those in front.
pub const GRAPH_RETURN_WORDS: usize = 2 * LONG_WORDS + 6;

/// Puts an address into words from `at` on.
#[inline(always)]
const fn put_long(words: &mut [u32], at: usize, value: usize) {
    let bytes = value.to_ne_bytes();
    let mut n = 0;
    while n < LONG_WORDS {
        let word = [bytes[4 * n], bytes[4 * n + 1], bytes[4 * n + 2], bytes[4 * n + 3]];
        words[at + n] = u32::from_ne_bytes(word);
        n += 1;
    }
}

const fn put_u64(words: &mut [u32], at: usize, value: u64) {
    let [a, b, c, d, e, f, g, h] = value.to_ne_bytes();
    words[at] = u32::from_ne_bytes([a, b, c, d]);
    words[at + 1] = u32::from_ne_bytes([e, f, g, h]);
}

/// The words of a function's record.
#[inline(always)]
pub const fn function(ip: usize, parent_ip: usize) -> [u32; FUNCTION_WORDS] {
    let mut words = [0; FUNCTION_WORDS];
    put_long(&mut words, 0, ip);
    put_long(&mut words, LONG_WORDS, parent_ip);
    words
}

/// A call of a function that is to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphEntry {
    /// The function.
    pub func: u64,
    /// How many calls that are traced it is in.
    pub depth: i32,
}

impl GraphEntry {
    /// The words of its record.
    #[inline(always)]
    pub const fn words(self) -> [u32; GRAPH_ENTRY_WORDS] {
        let mut words = [0; GRAPH_ENTRY_WORDS];
        put_long(&mut words, 0, self.func as usize);
        words[LONG_WORDS] = self.depth as u32;
        words
    }
}

/// The return of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphReturn {
    /// The function.
    pub func: u64,
    /// What it returned.
    pub retval: u64,
    /// How many calls that are traced it is in.
    pub depth: i32,
    /// How many calls were too deep to be traced.
    pub overrun: u32,
    /// When it was called, in the trace clock's units.
    pub call_time: u64,
    /// When it returned.
    pub return_time: u64,
}

impl GraphReturn {
    /// The words of its record.
    #[inline(always)]
    pub const fn words(self) -> [u32; GRAPH_RETURN_WORDS] {
        let mut words = [0; GRAPH_RETURN_WORDS];
        put_long(&mut words, 0, self.func as usize);
        put_long(&mut words, LONG_WORDS, self.retval as usize);
        words[2 * LONG_WORDS] = self.depth as u32;
        words[2 * LONG_WORDS + 1] = self.overrun;
        put_u64(&mut words, 2 * LONG_WORDS + 2, self.call_time);
        put_u64(&mut words, 2 * LONG_WORDS + 4, self.return_time);
        words
    }
}
