//! Calls to the hypervisor (PAPR, chapter 14). The numbers are PAPR's.

use core::arch::asm;

/// Success.
pub const SUCCESS: isize = 0;
/// Busy: call again.
pub const BUSY: isize = 1;

/// `H_GET_TERM_CHAR`: takes bytes from a terminal.
pub const GET_TERM_CHAR: usize = 0x54;
/// `H_PUT_TERM_CHAR`: gives bytes to a terminal.
pub const PUT_TERM_CHAR: usize = 0x58;
/// `H_EOI`: an interrupt was handled.
pub const EOI: usize = 0x64;
/// `H_CPPR`: interrupts of which priorities this CPU takes.
pub const CPPR: usize = 0x68;
/// `H_IPI`: the priority at which a CPU is interrupted by others, or that it no longer is.
pub const IPI: usize = 0x6c;
/// `H_XIRR`: takes the most urgent interrupt.
pub const XIRR: usize = 0x74;
/// `H_CEDE`: turns interrupts on and sleeps until there is one.
pub const CEDE: usize = 0xe0;
/// `H_VIO_SIGNAL`: turns a virtual device's interrupt on or off.
pub const VIO_SIGNAL: usize = 0x104;
/// `H_SET_MODE`: how interrupts arrive.
pub const SET_MODE: usize = 0x31c;
/// `H_REGISTER_PROC_TBL`: where the process table is.
pub const REGISTER_PROCESS_TABLE: usize = 0x37c;
/// QEMU's door to its RTAS.
pub const RTAS: usize = 0xf000;

/// Calls `function`; status and the first three results.
#[inline(always)]
pub fn call(function: usize, a: usize, b: usize, c: usize, d: usize) -> (isize, [usize; 3]) {
    let status: isize;
    let (x, y, z): (usize, usize, usize);
    // SAFETY: the hypervisor keeps what the ABI of functions keeps; what the functions used here write is the
    // caller's.
    unsafe {
        asm!(
            "sc 1",
            inlateout("r3") function => status,
            inlateout("r4") a => x,
            inlateout("r5") b => y,
            inlateout("r6") c => z,
            inlateout("r7") d => _,
            out("r0") _, lateout("r8") _, lateout("r9") _, lateout("r10") _, lateout("r11") _,
            lateout("r12") _,
            out("ctr") _, out("xer") _, out("cr0") _, out("cr1") _, out("cr5") _, out("cr6") _, out("cr7") _,
            options(nostack)
        );
    }
    (status, [x, y, z])
}
