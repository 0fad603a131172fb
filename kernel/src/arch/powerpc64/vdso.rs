//! The vDSO's code for powerpc64: runs in user mode, from a copy. It is position-independent, calls nothing,
//! and finds its data page two pages below itself (the header page is in between). Its functions tell errors
//! as system calls by `sc` do: positive, with `CR0.SO`.

pub use super::super::vdso_calls::text;
use super::super::vdso_calls::{vdso_clock_getres, vdso_clock_gettime, vdso_gettimeofday};
use super::cache::order_instructions;
use super::signal::{self, SIGNAL_STACK};
use super::spr;
use core::arch::{asm, naked_asm};
use limen_vdso::unwind::{Registers, Saved, SignalFrame};

/// `clock_gettime`.
pub const CLOCK_GETTIME: usize = 246;
/// `clock_getres`.
pub const CLOCK_GETRES: usize = 247;
/// `gettimeofday`.
pub const GETTIMEOFDAY: usize = 78;

/// The version of every symbol.
pub const VERSION: &str = "LINUX_2.6.15";

/// Signal handlers return to the second instruction. Unwinders that do not read [`SIGNAL_FRAME`] look for
/// what is there. Some take what follows for a frame of Linux 2.4, which has a trampoline and behind it the
/// address of the context, unless that is this.
#[unsafe(naked)]
#[unsafe(link_section = ".vdso.text")]
extern "C" fn sigtramp() {
    naked_asm!(
        "nop",
        "addi 1, 1, {}",
        "li 0, 172",
        "sc",
        ".long 0, 0, 0",
        ".quad 0, -21 * 8",
        const SIGNAL_STACK
    )
}

/// Bytes of the stack frame of an exported function: as much as its caller may use below the stack pointer
/// (288), and room for the frame that the function calls itself with.
const FRAME: usize = 352;
/// Where in that frame the return address is kept: in the part that is the function's own.
const RETURN_ADDRESS: usize = 48;

/// C libraries call these without a stack frame of their own, with what they keep in the red zone and the
/// return address where a callee would put it: a frame that spares both. What the functions return is a
/// result, or a negative error.
macro_rules! exported {
    ($($name:literal $entry:ident $function:ident),* $(,)?) => {
        $(
            #[unsafe(naked)]
            #[unsafe(link_section = ".vdso.text")]
            extern "C" fn $entry() {
                naked_asm!(
                    "mflr 0",
                    "stdu 1, -{frame}(1)",
                    "std 0, {kept}(1)",
                    "bl {function}",
                    "ld 0, {kept}(1)",
                    "addi 1, 1, {frame}",
                    "mtlr 0",
                    // Bit 3 of the condition register is `CR0.SO`: no error, unless the result is negative.
                    "crclr 3",
                    "cmpdi 1, 3, 0",
                    "bgelr 1",
                    "neg 3, 3",
                    "crset 3",
                    "blr",
                    function = sym $function, frame = const FRAME, kept = const RETURN_ADDRESS
                )
            }
        )*
        /// Exported functions: name, address in the kernel image, size as told to debuggers.
        pub const SYMBOLS: &[(&str, fn() -> usize, usize)] = &[
            ("__kernel_sigtramp_rt64", handlers_return, 12),
            $(($name, || $entry as *const () as usize, 64)),*
        ];
    };
}
exported! {
    "__kernel_clock_gettime" clock_gettime_entry vdso_clock_gettime,
    "__kernel_gettimeofday" gettimeofday_entry vdso_gettimeofday,
    "__kernel_clock_getres" clock_getres_entry vdso_clock_getres,
    "__kernel_time" time_entry time,
    "__kernel_getcpu" getcpu_entry getcpu,
    "__kernel_get_tbfreq" frequency_entry frequency,
    "__kernel_sync_dicache" sync_entry sync,
}

/// `time`.
#[unsafe(link_section = ".vdso.text")]
extern "C" fn time(to: *mut usize) -> isize {
    let mut now = [0; 2];
    vdso_gettimeofday(now.as_mut_ptr(), core::ptr::null_mut());
    if !to.is_null() {
        // SAFETY: the caller's pointer; a wild one is the caller's fault, in user mode.
        unsafe { to.write(now[0]) };
    }
    now[0] as isize
}

/// `getcpu`: all CPUs are of node 0.
#[unsafe(link_section = ".vdso.text")]
extern "C" fn getcpu(cpu: *mut u32, node: *mut u32) -> isize {
    // No function of the library's: in a kernel that is not optimised as a whole, that would be a call of
    // what is not copied with this code.
    let is_wanted = |to: *mut u32| to as usize != 0;
    if is_wanted(cpu) {
        // SAFETY: the caller's pointer: a wild one is the caller's fault, in user mode.
        unsafe { *cpu = spr::read!(spr::USPRG3) as u32 };
    }
    if is_wanted(node) {
        // SAFETY: the caller's pointer: a wild one is the caller's fault, in user mode.
        unsafe { *node = 0 };
    }
    0
}

/// Steps of the time base per second.
#[unsafe(link_section = ".vdso.text")]
extern "C" fn frequency() -> isize {
    512_000_000
}

/// New code can be executed: instruction caches snoop, so one line orders them.
#[unsafe(link_section = ".vdso.text")]
extern "C" fn sync(from: *const u8) -> isize {
    order_instructions(from);
    0
}

/// Where handlers return to.
fn handlers_return() -> usize {
    sigtramp as *const () as usize + 4
}

/// Signal handlers return through this trampoline.
pub fn sigreturn() -> Option<usize> {
    Some(handlers_return())
}

/// Where the context has a word of the register file, from the stack pointer as a handler returns.
const fn context_word(register: u8, word: usize) -> Saved {
    Saved {
        register,
        at: SIGNAL_STACK + signal::GENERAL + 8 * word,
        behind: None,
    }
}

/// What the trampoline's signal frame has, by the numbers that DWARF has in `.eh_frame` for this processor:
/// the general registers, where it was interrupted (67), `LR` (65), `CTR` (66), `CR` (70), the registers of
/// floating point from 32 on and of vectors from 77 on.
pub const SIGNAL_FRAME: Option<SignalFrame> = Some(SignalFrame {
    trampoline: || sigtramp as *const () as usize,
    size: 16,
    taken_after: 8,
    stack: SIGNAL_STACK,
    stack_pointer: context_word(1, 1),
    return_register: 67,
    registers: &[
        Registers(context_word(0, 0), 32, 8),
        Registers(context_word(67, 32), 1, 8),
        Registers(context_word(66, 35), 1, 8),
        Registers(context_word(65, 36), 1, 8),
        Registers(context_word(70, 38), 1, 8),
        Registers(context_word(32, 48), 32, 8),
        Registers(
            Saved {
                register: 77,
                at: SIGNAL_STACK + signal::VECTORS_AT,
                behind: Some(0),
            },
            32,
            16,
        ),
    ],
});

/// Where this copy of the code begins.
#[inline(always)]
pub fn own_start() -> usize {
    let start: usize;
    // SAFETY: only computes the address of this copy of the code.
    unsafe {
        asm!(
            "addpcis {0}, 0",
            "2:",
            "addis {0}, {0}, (__vdso_text_start - 2b)@ha",
            "addi {0}, {0}, (__vdso_text_start - 2b)@l",
            out(reg_nonzero) start, options(pure, nomem, nostack, preserves_flags)
        );
    }
    start
}

/// The counter the clocks are made of.
#[inline(always)]
pub fn counter() -> u64 {
    spr::read!(spr::TB) as u64
}

/// A system call, for what the data cannot answer.
#[inline(always)]
pub fn syscall2(number: usize, a: usize, b: usize) -> isize {
    let result;
    // SAFETY: a system call made for the caller, with the caller's arguments.
    unsafe {
        asm!("sc", "bns+ 2f", "neg 3, 3", "2:",
            inlateout("r0") number => _, inlateout("r3") a => result, inlateout("r4") b => _,
            out("r5") _, out("r6") _, out("r7") _, out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            out("r12") _,
            out("ctr") _, out("xer") _, out("cr0") _, out("cr1") _, out("cr5") _, out("cr6") _, out("cr7") _,
            options(nostack));
    }
    result
}
