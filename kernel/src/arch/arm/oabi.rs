//! The ABI before the EABI (`docs/oabi.md`): which call it is, says the instruction, `swi 0x900000 + n`. Only
//! threads of such programs look at it.

use super::frame::{Frame, OLD_BASE as BASE};
use super::step::Code;
use crate::arch::OldAbi;
use crate::task::{calls, current};
use limen_arm_step::Memory;

/// `AUDIT_ARCH_ARM` with a bit that no other ABI has: Linux has no number for it.
pub const OLD_ABI: Option<OldAbi> = Some(OldAbi {
    audit_arch: super::AUDIT_ARCH | 1 << 28,
    first: BASE,
});

/// What an instruction `swi` says.
const OPERAND: u32 = 0xff_ffff;

/// What [`find_call`] found out about a call, in its frame. Frames of threads that do not ask have anything
/// there.
mod found {
    /// A call of the EABI.
    pub const NEW: usize = 0;
    /// A call of the old ABI.
    pub const OLD: usize = 1;
    /// Its instruction could not be read.
    pub const NOTHING: usize = 2;
}

/// Whether a program whose ELF header has these flags and this entry point is of the old ABI. `None`: no
/// processor that the kernel runs on can execute it.
pub fn program_is_old(flags: u32, entry: usize) -> Option<bool> {
    /// `EF_ARM_EABI_MASK`; without a version it is the old ABI.
    const VERSION: u32 = 0xff00_0000;
    /// `EF_ARM_APCS_26`: the processor's state is part of the program counter.
    const APCS_26: u32 = 8;
    // Code is aligned; an odd address means Thumb.
    if entry & 3 == 2 {
        return None;
    }
    match flags & VERSION {
        0 if flags & APCS_26 != 0 => None,
        version => Some(version == 0),
    }
}

/// A thread of such a program makes a call: puts its number into the frame. `false`: the instruction cannot
/// be read any more; the program goes on there, where fetching it fails as well. Thread; may sleep.
#[cold]
pub fn find_call(frame: &mut Frame) -> bool {
    frame.found = found::NEW;
    // In Thumb the number is in r7, whatever the instruction says: that has too few bits.
    if frame.thumb() {
        return true;
    }
    let at = frame.previous();
    let Some(instruction) = Code::user().word(at as u32) else {
        frame.pc = at;
        frame.forget_syscall();
        frame.found = found::NOTHING;
        return false;
    };
    let operand = (instruction & OPERAND) as usize;
    if operand != 0 {
        // What is not of the old ABI is beyond all its calls.
        frame.syscallno = (BASE + (operand ^ BASE)) as isize;
        frame.found = found::OLD;
    }
    true
}

/// Whether [`find_call`] could not find out which call it is.
pub fn was_not_made(frame: &Frame) -> bool {
    frame.found == found::NOTHING && frame.syscallno < 0
}

/// Whether the call is one of the old ABI, in a thread of an old program. (A tracer may have made it one of
/// the EABI, by its number.)
pub fn is_old_call(frame: &Frame) -> bool {
    frame.found == found::OLD && frame.syscallno >= BASE as isize
}

/// The number in its ABI's table of the running thread's call, and which ABI that is.
#[cold]
pub(super) fn place(frame: &Frame) -> (usize, bool) {
    let number = frame.syscallno as usize;
    if calls::is_old(&current(), frame) {
        (number - BASE, true)
    } else {
        (number, false)
    }
}
