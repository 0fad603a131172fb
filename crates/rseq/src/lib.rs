//! Restartable sequences (`rseq(2)`): all decisions. The kernel's room `rseq` keeps a thread's state,
//! accesses user memory and calls this crate. Tests on the host run the same code with a model of user memory
//! that faults at any access.
//!
//! * [`register`]: the rules of the system call, with every error;
//! * [`event`]: what has happened to a thread since it entered the kernel, and what must be done about it
//!   before it is in user mode again;
//! * [`update`]: doing it: identifiers and critical section, in an order that may fault at any access and
//!   can be repeated;
//! * [`section`]: what to do with a critical section;
//! * [`mod@slice`]: time-slice extensions;
//! * [`cid`]: concurrency ids.
//!
//! An area of 32 bytes is *legacy*: the kernel corrects whatever it says after each switch and before each
//! signal handler, because programs overwrite it and rely on that (tcmalloc). A longer one is *optimised*:
//! only the kernel may write its identifiers, and it writes them only when they change.

#![no_std]
#![forbid(unsafe_code)]

pub mod cid;
pub mod event;
pub mod register;
pub mod section;
pub mod slice;
pub mod update;

pub use event::{Event, Mode, Work};
pub use register::{Action, Area};
pub use section::{Fatal, Section, Verdict};
pub use update::{Done, Fault, Ids, Memory, Said, Seen, Stop};

/// The size of the original `struct rseq`; an area of this size is a legacy one.
pub const ORIGINAL_SIZE: u32 = 32;
/// How many bytes of `struct rseq` this kernel knows (`AT_RSEQ_FEATURE_SIZE`). It includes a reserved byte,
/// to differ from the original size.
pub const FEATURE_SIZE: u32 = 33;
/// The alignment of an area that is longer than the original one (`AT_RSEQ_ALIGN`).
pub const ALIGN: usize = 64;

/// Offsets in `struct rseq`.
pub mod field {
    /// `cpu_id_start`: an index that may be used before it is checked. `cpu_id` follows it.
    pub const CPU_ID_START: usize = 0;
    /// `cpu_id`.
    pub const CPU_ID: usize = 4;
    /// `rseq_cs`: 64 bits, the address of the critical section's description.
    pub const RSEQ_CS: usize = 8;
    /// `flags`.
    pub const FLAGS: usize = 16;
    /// `node_id`. `mm_cid` follows it.
    pub const NODE_ID: usize = 20;
    /// `mm_cid`.
    pub const MM_CID: usize = 24;
    /// `slice_ctrl`: request and granted, a byte each, and 16 unused bits.
    pub const SLICE_CTRL: usize = 28;
}

/// `rseq.flags`: time-slice extensions are available to the thread (`PR_RSEQ_SLICE_EXTENSION`).
pub const SLICE_EXT_AVAILABLE: u32 = 1 << 4;
/// `rseq.flags`: the thread has turned them on.
pub const SLICE_EXT_ENABLED: u32 = 1 << 5;
/// `cpu_id` of a thread that is not registered (`RSEQ_CPU_ID_UNINITIALIZED`).
pub const CPU_ID_UNINITIALISED: u32 = u32::MAX;
