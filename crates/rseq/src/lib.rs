//! Restartable sequences (`rseq(2)`): everything about them that is a decision. The kernel's `rseq` room keeps a thread's state, reaches user memory
//! and calls this; host tests run the same code against a model of user memory that faults where they like.
//!
//! * [`register`]: the system call's rules, every errno;
//! * [`event`]: what happened to a thread since it entered the kernel, and what must be done about it before it is in user mode again;
//! * [`update`]: doing it: identifiers, critical section, in an order that may fail at any access and be run again;
//! * [`section`]: what becomes of a critical section;
//! * [`slice`]: time-slice extensions;
//! * [`cid`]: concurrency ids.
//!
//! An area of 32 bytes is *legacy*: whatever it says is written again after each switch and before each signal handler, because programs overwrite it
//! and rely on that (tcmalloc). A longer one is *optimised*: its identifiers are the kernel's to write, and are written when they change.

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
pub use update::{Done, Fault, Ids, Memory, Seen, Stop};

/// The size of the original `struct rseq`; an area of this size is a legacy one.
pub const ORIGINAL_SIZE: u32 = 32;
/// The size of what this kernel knows of `struct rseq` (`AT_RSEQ_FEATURE_SIZE`): up to and including a reserved byte, so that it differs from the original
/// size.
pub const FEATURE_SIZE: u32 = 33;
/// What an area longer than the original one must be aligned to (`AT_RSEQ_ALIGN`).
pub const ALIGN: usize = 64;

/// Offsets in `struct rseq`.
pub mod field {
    /// `cpu_id_start`: an index that may be used before it is checked, and `cpu_id` behind it.
    pub const CPU_ID_START: usize = 0;
    /// `cpu_id`.
    pub const CPU_ID: usize = 4;
    /// `rseq_cs`: 64 bits, where the critical section is described.
    pub const RSEQ_CS: usize = 8;
    /// `flags`.
    pub const FLAGS: usize = 16;
    /// `node_id`, and `mm_cid` behind it.
    pub const NODE_ID: usize = 20;
    /// `mm_cid`.
    pub const MM_CID: usize = 24;
    /// `slice_ctrl`: request and granted, a byte each, and 16 bits of nothing.
    pub const SLICE_CTRL: usize = 28;
}

/// `rseq.flags`: the thread may ask for time-slice extensions (`PR_RSEQ_SLICE_EXTENSION`).
pub const SLICE_EXT_AVAILABLE: u32 = 1 << 4;
/// `rseq.flags`: it has.
pub const SLICE_EXT_ENABLED: u32 = 1 << 5;
/// `cpu_id` of a thread that is not registered (`RSEQ_CPU_ID_UNINITIALIZED`).
pub const CPU_ID_UNINITIALISED: u32 = u32::MAX;
