//! The options of `trace_options`: names, and which are on at first.

use bitflags::bitflags;

bitflags! {
    /// Options of an instance.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Options: u32 {
        /// `func <-parent` instead of `func`.
        const PRINT_PARENT = 1 << 0;
        /// `func+0x12/0x34` instead of `func`.
        const SYM_OFFSET = 1 << 1;
        /// The address behind the name.
        const SYM_ADDR = 1 << 2;
        /// Long lines, with the latency format.
        const VERBOSE = 1 << 3;
        /// Numbers as they were recorded.
        const RAW = 1 << 4;
        /// Hexadecimal numbers as they were recorded.
        const HEX = 1 << 5;
        /// A line says where a CPU's first event follows others that were lost.
        const ANNOTATE = 1 << 6;
        /// Of markers only what was written.
        const PRINTK_MSG_ONLY = 1 << 7;
        /// The columns in front of the event.
        const CONTEXT_INFO = 1 << 8;
        /// Times since the beginning, and marks for long gaps.
        const LATENCY_FMT = 1 << 9;
        /// Threads' names are kept.
        const RECORD_CMD = 1 << 10;
        /// Threads' processes are kept.
        const RECORD_TGID = 1 << 11;
        /// A full buffer loses its oldest events instead of the new ones.
        const OVERWRITE = 1 << 12;
        /// Recording is off when `free_buffer` is closed.
        const STOP_ON_FREE = 1 << 13;
        /// The columns of interrupts, preemption and so on.
        const IRQ_INFO = 1 << 14;
        /// Markers are recorded.
        const MARKERS = 1 << 15;
        /// What is written to the top marker is recorded here as well.
        const COPY_MARKER = 1 << 16;
        /// Nothing is recorded while `trace` is open.
        const PAUSE_ON_TRACE = 1 << 17;
        /// New threads inherit that their events are recorded.
        const EVENT_FORK = 1 << 18;
        /// New threads inherit that their functions are recorded.
        const FUNCTION_FORK = 1 << 19;
        /// Functions are traced.
        const FUNCTION = 1 << 20;
        /// Behind every event comes the kernel's stack.
        const STACKTRACE = 1 << 21;
        /// Text of the kernel is recorded.
        const PRINTK = 1 << 22;
    }
}

/// Names in the order in which `trace_options` shows them.
pub const NAMES: [(&str, Options); 23] = [
    ("print-parent", Options::PRINT_PARENT),
    ("sym-offset", Options::SYM_OFFSET),
    ("sym-addr", Options::SYM_ADDR),
    ("verbose", Options::VERBOSE),
    ("raw", Options::RAW),
    ("hex", Options::HEX),
    ("trace_printk", Options::PRINTK),
    ("annotate", Options::ANNOTATE),
    ("printk-msg-only", Options::PRINTK_MSG_ONLY),
    ("context-info", Options::CONTEXT_INFO),
    ("latency-format", Options::LATENCY_FMT),
    ("stacktrace", Options::STACKTRACE),
    ("record-cmd", Options::RECORD_CMD),
    ("record-tgid", Options::RECORD_TGID),
    ("overwrite", Options::OVERWRITE),
    ("disable_on_free", Options::STOP_ON_FREE),
    ("irq-info", Options::IRQ_INFO),
    ("markers", Options::MARKERS),
    ("copy_trace_marker", Options::COPY_MARKER),
    ("pause-on-trace", Options::PAUSE_ON_TRACE),
    ("event-fork", Options::EVENT_FORK),
    ("function-fork", Options::FUNCTION_FORK),
    ("function-trace", Options::FUNCTION),
];

impl Options {
    /// What is on in a new instance.
    pub const DEFAULT: Self = Self::PRINT_PARENT
        .union(Self::PRINTK)
        .union(Self::ANNOTATE)
        .union(Self::CONTEXT_INFO)
        .union(Self::RECORD_CMD)
        .union(Self::OVERWRITE)
        .union(Self::IRQ_INFO)
        .union(Self::MARKERS)
        .union(Self::FUNCTION);

    /// Those that only the top instance has.
    pub const TOP_ONLY: Self = Self::RECORD_CMD.union(Self::PRINTK_MSG_ONLY).union(Self::PRINTK);

    /// The option with this name.
    pub fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|row| row.0 == name).map(|row| row.1)
    }
}

/// Takes an option as it is written to `trace_options`: its name, and whether it is on, or off (`no` in
/// front).
pub fn parse(word: &str) -> (&str, bool) {
    match word.strip_prefix("no") {
        Some(name) if Options::named(word).is_none() => (name, false),
        _ => (word, true),
    }
}
