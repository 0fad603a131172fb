//! Looking at kernel stacks from a backtrace, which must not fault whatever it finds.

use crate::arch::smp;

/// The word at `addr`, if a backtrace that came from the frame at `from` may look there: further up on the same stack, or on the running thread's own.
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
    // SAFETY: the address lies in the same aligned block as a live frame of a kernel stack (blocks are as large as a stack and mapped as a whole
    // or, for the boot stacks, inside the image), or on the stack of the running thread.
    Some(unsafe { (addr as *const usize).read_volatile() })
}
