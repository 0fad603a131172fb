//! Breakpoints and watchpoints of the processor (Arm manual for A-profile, D2), for tracers.
//!
//! A CPU gets a thread's registers on the thread's way to user mode (`ThreadFlags::DEBUG`). They stay there
//! when another thread comes, whose first hit finds that it is not meant and turns them off. In the kernel
//! none of them matches.

use super::sysreg;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};
use limen_linux_abi::Errno;

/// The most of each kind: four bits say how many a processor has.
pub const MOST: usize = 16;
/// How many of each kind threads can have. No processor of this kind has more.
const BREAKS: usize = 6;
const WATCHES: usize = 4;

/// Bits of control registers (`DBGBCR_EL1`, `DBGWCR_EL1`), and of what tracers see: enabled; in user mode
/// only.
const ENABLED: u32 = 1;
const USER: u32 = 2 << 1;
/// The kinds in bits 3 and 4: execution, or loads, stores and both.
const KIND: u32 = 3 << 3;

/// `MDSCR_EL1`: user mode's debug communication channel traps; breakpoints and watchpoints; single steps.
const TDCC: u64 = 1 << 12;
const MDE: u64 = 1 << 15;
const SS: u64 = 1;

/// Writes number `n` of a kind, if the processor has that many.
macro_rules! numbered {
    ($kind:literal, $n:expr, $have:expr, $pair:expr, [$($i:literal)+]) => {{
        let (at, control): (u64, u32) = $pair;
        let control = u64::from(control);
        match $n {
            $(
                // SAFETY: nothing here matches in the kernel; what user mode meets is its own or is passed
                // over.
                $i if $i < $have => unsafe {
                    asm!(
                        concat!("msr dbg", $kind, "cr", $i, "_el1, xzr"),
                        concat!("msr dbg", $kind, "vr", $i, "_el1, {at}"),
                        concat!("msr dbg", $kind, "cr", $i, "_el1, {control}"),
                        at = in(reg) at, control = in(reg) control, options(nomem, nostack, preserves_flags)
                    )
                }
            )+
            _ => {}
        }
    }};
}

/// `ID_AA64DFR0_EL1`, of the boot CPU.
static IDENTITY: AtomicU64 = AtomicU64::new(0);

/// How many breakpoints and watchpoints threads can have.
pub fn available() -> (usize, usize) {
    let id = IDENTITY.load(Ordering::Relaxed);
    let [breaks, watches] = [12, 20].map(|at: u32| (id >> at & 15) as usize + 1);
    (breaks.min(BREAKS), watches.min(WATCHES))
}

/// The debug architecture.
pub fn version() -> u32 {
    (IDENTITY.load(Ordering::Relaxed) & 15) as u32
}

fn set_break(n: usize, pair: (u64, u32)) {
    numbered!("b", n, available().0, pair, [0 1 2 3 4 5]);
}

fn set_watch(n: usize, pair: (u64, u32)) {
    numbered!("w", n, available().1, pair, [0 1 2 3]);
}

/// On every CPU: none is on, and they can be used.
pub fn init() {
    IDENTITY.store(sysreg::read!("id_aa64dfr0_el1"), Ordering::Relaxed);
    off();
    step_user(false);
}

/// Single steps in user mode of this CPU: on only for a thread that is stepped. The switch to it turns them
/// on. Another thread's first step turns them off, which costs that thread nothing but time.
#[cold]
pub fn step_user(on: bool) {
    // SAFETY: in the kernel there are no debug exceptions (`MDSCR_EL1.KDE`), and on a step in user mode that
    // nobody asked for the exception's handler calls this.
    unsafe { sysreg::write!("mdscr_el1", TDCC | MDE | if on { SS } else { 0 }) };
}

/// Turns all of this CPU off. Interrupts are off.
#[cold]
pub fn off() {
    for n in 0..BREAKS {
        set_break(n, (0, 0));
    }
    for n in 0..WATCHES {
        set_watch(n, (0, 0));
    }
    sysreg::isb();
}

/// A breakpoint or watchpoint as a tracer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Where.
    pub at: u64,
    /// Enabled, rights, kind, and bits of bytes from there on (bits 5 to 12).
    pub control: u32,
}

impl Point {
    const NONE: Self = Self { at: 0, control: 0 };

    fn bytes(self) -> u32 {
        self.control >> 5 & 0xff
    }

    /// Whether the processor can do it, and threads may ask for it. `EINVAL`.
    pub fn check(self, watches: bool) -> Result<Self, Errno> {
        let bytes = self.bytes();
        let executes = self.control & KIND == 0;
        let control = self.control & (ENABLED | KIND | 0xff << 5) | USER;
        let kept = Self { control, ..self };
        if self.at as usize >= super::mmu::USER_END {
            return Err(Errno::EINVAL);
        }
        if !self.is_on() {
            return Ok(if self == Self::NONE { self } else { kept });
        }
        // The bytes are neighbours.
        let run = bytes >> bytes.trailing_zeros().min(31);
        if executes == watches || bytes == 0 || run & (run + 1) != 0 {
            return Err(Errno::EINVAL);
        }
        Ok(kept)
    }

    /// The first byte that is meant, and how many there are.
    fn range(self) -> (u64, u32) {
        let bytes = self.bytes();
        let first = self.at.wrapping_add(bytes.trailing_zeros().into());
        (first, bytes.count_ones())
    }

    /// As the processor has it: eight bytes, and a bit for each of them; or an instruction.
    fn registers(self) -> (u64, u32) {
        let kept = self.control & (ENABLED | USER | KIND);
        if self.control & KIND == 0 {
            return (self.at & !3, kept | 0xf << 5);
        }
        let (first, count) = self.range();
        let bytes = ((1u32 << count) - 1) << (first & 7) & 0xff;
        (first & !7, kept | bytes << 5)
    }

    fn is_on(self) -> bool {
        self.control & ENABLED != 0
    }
}

/// A thread's.
#[derive(Debug)]
pub struct Registers {
    breaks: [Point; BREAKS],
    watches: [Point; WATCHES],
}

impl Registers {
    /// None.
    pub const NONE: Self = Self {
        breaks: [Point::NONE; BREAKS],
        watches: [Point::NONE; WATCHES],
    };

    /// Whether there are any for the processor.
    pub fn is_used(&self) -> bool {
        let all = self.breaks.iter().chain(&self.watches);
        all.copied().any(Point::is_on)
    }

    /// Makes them this CPU's. Interrupts are off.
    #[cold]
    pub fn load(&self) {
        for (n, point) in self.breaks.iter().enumerate() {
            set_break(n, point.registers());
        }
        for (n, point) in self.watches.iter().enumerate() {
            set_watch(n, point.registers());
        }
        sysreg::isb();
    }

    /// Whether the thread that is about to execute what is at `pc` wanted to hear of that.
    pub(super) fn stops_at(&self, pc: usize) -> bool {
        let mut on = self.breaks.iter().filter(|point| point.is_on());
        on.any(|point| point.at & !3 == pc as u64)
    }

    /// Whether it wanted to hear of accesses. (The address that the processor reports need not be one that is
    /// watched, only one of the same access.)
    pub(super) fn watches(&self) -> bool {
        self.watches.iter().any(|point| point.is_on())
    }

    /// The kind `watches`, as tracers set them.
    pub(super) fn points(&mut self, watches: bool) -> &mut [Point] {
        if watches {
            &mut self.watches
        } else {
            &mut self.breaks
        }
    }
}
