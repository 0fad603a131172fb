//! What each CPU has for itself and the entry code must reach at once.

use crate::task::ThreadInfo;

/// A CPU's local block. The architecture keeps its address in a register. The lowest byte of that register
/// may hold something else, hence the alignment.
#[derive(Debug)]
#[repr(C, align(256))]
pub struct CpuLocal {
    /// Its own address (for processors that reach it through a segment).
    pub this: *const CpuLocal,
    /// The running thread.
    pub current: *const ThreadInfo,
    /// Where an entry from user mode puts its frame: the top of the running thread's kernel stack.
    pub kernel_stack_top: usize,
    /// Scratch words for the entry stub.
    pub scratch: [usize; 4],
    /// The top of this CPU's interrupt stack.
    pub irq_stack_top: usize,
    /// This CPU's number.
    pub id: usize,
    /// The scheduler's data of this CPU, null until the scheduler works.
    pub data: *const super::CpuData,
    /// Whose floating-point registers the processor's are; null: nobody's.
    pub float_owner: super::float::Whose,
    /// Saved vector registers, while the kernel uses them for a moment with interrupts off.
    pub lent: [u128; 4],
}
