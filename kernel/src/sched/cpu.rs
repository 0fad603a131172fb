//! What each CPU has for itself and its entry code must reach at once.

use crate::task::ThreadInfo;

/// A CPU's local block. The architecture keeps a register pointing to it, which may have to share that register's lowest byte.
#[derive(Debug)]
#[repr(C, align(256))]
pub struct CpuLocal {
    /// Its own address (for processors that reach it through a segment).
    pub this: *const CpuLocal,
    /// The running thread.
    pub current: *const ThreadInfo,
    /// Where entries from user mode put their frame: the top of the running thread's kernel stack.
    pub kernel_stack_top: usize,
    /// Words of scratch for the entry stub.
    pub scratch: [usize; 4],
    /// The top of this CPU's interrupt stack.
    pub irq_stack_top: usize,
    /// This CPU's number.
    pub id: usize,
    /// What the scheduler has for this CPU; null until it works.
    pub data: *const super::CpuData,
    /// What vector registers held that the kernel uses for a moment, with interrupts off.
    pub lent: [u128; 4],
}
