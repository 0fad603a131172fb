//! Reading kernel stacks for a backtrace, which must never fault.

use crate::arch::smp;

/// The word at `addr`, if a backtrace that came from the stack frame at `from` may read it: it lies further
/// up on the same stack, or on the running thread's own.
pub fn stack_word(from: usize, addr: usize) -> Option<usize> {
    let size = 1 << super::STACK_SHIFT;
    if !addr.is_multiple_of(size_of::<usize>()) || addr <= crate::arch::mmu::USER_END {
        return None;
    }
    // SAFETY: the local block of this CPU is always valid.
    let top = unsafe { (*smp::cpu_local()).kernel_stack_top };
    let same = addr >= from && addr - from < size && addr & !(size - 1) == from & !(size - 1);
    let own = addr < top && top - addr <= size;
    if !same && !own {
        return None;
    }
    // SAFETY: the address lies in the same aligned block as a frame of a kernel stack in use, or on the stack
    // of the running thread. Such a block is as large as a stack and mapped as a whole; for boot stacks it is
    // in the image.
    Some(unsafe { (addr as *const usize).read_volatile() })
}
