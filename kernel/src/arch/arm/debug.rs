//! Breakpoints and watchpoints of the processor (ARMv7 manual, C3, C11): what tracers ask for, and where
//! single steps end.
//!
//! The processor has no single step: QEMU and later processors lack the breakpoint that matches everywhere
//! but at one address. A step by software (`regset::begin_step`) ends at a breakpoint at the address behind
//! the instruction instead. It is not in memory, where other threads and forked processes would meet it, but
//! in a register of the CPU, which belongs to the thread.
//!
//! A CPU gets a thread's registers on the thread's way to user mode (`ThreadFlags::DEBUG`). They stay there
//! when another thread comes, whose first hit finds that it is not meant and turns them off. In the kernel
//! none of them matches.

use super::sysreg::isb;
use core::arch::asm;
use limen_linux_abi::Errno;

/// The most of each kind: four bits say how many a processor has.
pub const MOST: usize = 16;
/// How many breakpoints a step has at most.
pub const STEPS: usize = limen_arm_step::STOPS;
/// How many of each kind threads can have. No processor of this kind has more.
const BREAKS: usize = 6;
const WATCHES: usize = 4;

/// Bits of control registers (`DBGBCR`, `DBGWCR`), and of what tracers see: enabled; in user mode only.
const ENABLED: u32 = 1;
const USER: u32 = 2 << 1;
/// The kinds in bits 3 and 4 as tracers see them: execution, or loads, stores and both.
const KIND: u32 = 3 << 3;
/// `DBGDSCR.MDBGEN`.
const MONITOR: u32 = 1 << 15;

/// Reads or writes a register of the debug coprocessor.
macro_rules! cp14 {
    (read $crn:literal, $crm:literal, $op2:literal) => {{
        let value: u32;
        // SAFETY: reading has no side effect.
        unsafe {
            asm!(
                concat!("mrc p14, 0, {}, ", $crn, ", ", $crm, ", ", $op2), out(reg) value,
                options(nomem, nostack, preserves_flags)
            )
        };
        value
    }};
    (write $crn:literal, $crm:literal, $op2:literal, $value:expr) => {{
        let value: u32 = $value;
        // SAFETY: nothing here matches in the kernel; what user mode meets is its own or is passed over.
        unsafe {
            asm!(
                concat!("mcr p14, 0, {}, ", $crn, ", ", $crm, ", ", $op2), in(reg) value,
                options(nomem, nostack, preserves_flags)
            )
        };
    }};
}

/// Writes number `n` of a kind, if the processor has that many.
macro_rules! numbered {
    ($value:literal, $control:literal, $n:expr, $have:expr, $pair:expr, [$($i:literal $crm:literal)+]) => {{
        let (at, control): (u32, u32) = $pair;
        match $n {
            $(
                $i if $i < $have => {
                    cp14!(write "c0", $crm, $control, 0);
                    if control & ENABLED != 0 {
                        cp14!(write "c0", $crm, $value, at);
                        cp14!(write "c0", $crm, $control, control);
                    }
                }
            )+
            _ => {}
        }
    }};
}

/// How many breakpoints and watchpoints the processor has, and its debug architecture (`DBGDIDR`).
fn have() -> (usize, usize, u32) {
    let id = cp14!(read "c0", "c0", 0);
    let [breaks, watches] = [24, 28].map(|at: u32| (id >> at & 15) as usize + 1);
    (breaks.min(BREAKS), watches.min(WATCHES), id >> 16 & 15)
}

/// How many of each kind tracers can use: the last breakpoints are for steps.
pub fn available() -> (usize, usize) {
    let (breaks, watches, _) = have();
    (breaks.saturating_sub(STEPS), watches)
}

/// What `PTRACE_GETHBPREGS` says of them: debug architecture, bytes of a watchpoint, how many there are.
pub fn information() -> u32 {
    let (breaks, watches) = available();
    have().2 << 24 | 8 << 16 | (watches as u32) << 8 | breaks as u32
}

fn set_break(n: usize, pair: (u32, u32)) {
    numbered!(4, 5, n, have().0, pair, [0 "c0" 1 "c1" 2 "c2" 3 "c3" 4 "c4" 5 "c5"]);
}

fn set_watch(n: usize, pair: (u32, u32)) {
    numbered!(6, 7, n, have().1, pair, [0 "c0" 1 "c1" 2 "c2" 3 "c3"]);
}

/// On every CPU: none is on, and they can be used.
pub fn init() {
    cp14!(write "c1", "c0", 4, 0); // DBGOSLAR: unlocked
    cp14!(write "c1", "c3", 4, 0); // DBGOSDLR
    isb();
    off();
    let status = cp14!(read "c0", "c1", 0);
    cp14!(write "c0", "c2", 2, status | MONITOR);
    isb();
}

/// Turns all of this CPU off.
#[cold]
pub fn off() {
    for n in 0..BREAKS {
        set_break(n, (0, 0));
    }
    for n in 0..WATCHES {
        set_watch(n, (0, 0));
    }
    isb();
}

/// A breakpoint or watchpoint as a tracer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Where.
    pub at: u32,
    /// Enabled, rights, kind, and a bit for each byte from there on (bits 5 to 12).
    pub control: u32,
}

impl Point {
    const NONE: Self = Self { at: 0, control: 0 };

    /// What a tracer says. Without a control word it is for four bytes, and not enabled.
    pub fn new(at: u32, control: u32, watches: bool) -> Self {
        let kind = if watches { KIND } else { 0 };
        let control = match (at, control) {
            (0, 0) => 0,
            (_, 0) => 0xf << 5 | kind | USER,
            _ => control,
        };
        Self { at, control }
    }

    fn bytes(self) -> u32 {
        self.control >> 5 & 0xff
    }

    /// Whether the processor can do it, and threads may ask for it. `EINVAL`.
    pub fn check(self, watches: bool) -> Result<Self, Errno> {
        let executes = self.control & KIND == 0;
        let len = self.bytes().count_ones();
        let fits = match (executes, self.bytes()) {
            (true, 0b11 | 0b1111) => self.at.is_multiple_of(2) && (len == 2 || self.at.is_multiple_of(4)),
            (false, 0b1 | 0b11 | 0b1111) => self.at & 3 <= 4 - len,
            (false, 0xff) => self.at.is_multiple_of(8),
            _ => false,
        };
        let kept = self.control & (ENABLED | KIND | 0xff << 5) | USER;
        if self == Self::NONE {
            return Ok(self);
        }
        if executes == watches || !fits || self.at as usize >= super::mmu::USER_END {
            return Err(Errno::EINVAL);
        }
        Ok(Self {
            control: kept,
            ..self
        })
    }

    /// As the processor has it: a word (or two), and a bit for each byte of it.
    fn registers(self) -> (u32, u32) {
        let word = if self.bytes() == 0xff { 7 } else { 3 };
        let bytes = (self.bytes() << (self.at & word)) << 5;
        (self.at & !word, self.control & (ENABLED | USER | KIND) | bytes)
    }

    fn is_on(self) -> bool {
        self.control & ENABLED != 0
    }
}

/// A thread's.
#[derive(Debug)]
pub struct Registers {
    /// Of a step: the address, with [`THUMB`] if it is an address in Thumb code; 0: none.
    steps: [u32; STEPS],
    breaks: [Point; BREAKS],
    watches: [Point; WATCHES],
    /// It is to do a single step.
    pub(super) wanted: bool,
}

/// The lowest bit of an address in Thumb code.
pub const THUMB: u32 = 1;

/// Which breakpoint or watchpoint was hit.
pub enum Hit {
    /// A step is done.
    Step,
    /// One of a tracer's, by the number that `si_errno` has.
    Point(i32),
}

impl Registers {
    /// None.
    pub const NONE: Self = Self {
        steps: [0; STEPS],
        breaks: [Point::NONE; BREAKS],
        watches: [Point::NONE; WATCHES],
        wanted: false,
    };

    /// Whether there are any for the processor.
    pub fn is_used(&self) -> bool {
        let all = self.breaks.iter().chain(&self.watches);
        self.steps[0] != 0 || all.copied().any(Point::is_on)
    }

    /// Makes them this CPU's. Interrupts are off.
    #[cold]
    pub fn load(&self) {
        let (breaks, ..) = have();
        let first = breaks.saturating_sub(STEPS);
        for (n, point) in self.breaks.iter().enumerate().take(first) {
            set_break(n, point.registers());
        }
        for (n, at) in self.steps.iter().enumerate() {
            let bytes = match at & 3 {
                0 => 0xf,
                THUMB => 3,
                _ => 0xc,
            };
            let control = if *at != 0 { ENABLED | USER | bytes << 5 } else { 0 };
            set_break(first + n, (at & !3, control));
        }
        for (n, point) in self.watches.iter().enumerate() {
            set_watch(n, point.registers());
        }
        isb();
    }

    /// A step ends at any of these.
    pub(super) fn set_steps(&mut self, at: impl Iterator<Item = u32>) {
        self.steps = [0; STEPS];
        for (step, at) in self.steps.iter_mut().zip(at) {
            *step = at;
        }
    }

    /// What the thread has met that is about to execute what is at `pc`. `None`: nothing of its own.
    pub(super) fn at(&mut self, pc: u32, thumb: bool) -> Option<Hit> {
        if self.steps.contains(&(pc | u32::from(thumb))) {
            self.steps = [0; STEPS];
            self.wanted = false;
            return Some(Hit::Step);
        }
        let found = self
            .breaks
            .iter()
            .position(|point| point.is_on() && point.at == pc)?;
        Some(Hit::Point(2 * found as i32 + 1))
    }

    /// What it has met with an access to memory at `address`.
    pub(super) fn accessed(&self, address: u32) -> Option<Hit> {
        // The address may be any of those that were accessed: the nearest is meant.
        let distance = |point: &Point| {
            let end = point.at.wrapping_add(point.bytes().count_ones());
            if (point.at..end).contains(&address) {
                0
            } else {
                point.at.abs_diff(address)
            }
        };
        let on = self.watches.iter().enumerate().filter(|(_, point)| point.is_on());
        let (found, _) = on.min_by_key(|(_, point)| distance(point))?;
        Some(Hit::Point(-(2 * found as i32 + 1)))
    }

    /// Forgets all that a tracer asked for.
    pub(super) fn forget(&mut self) {
        *self = Self::NONE;
    }

    /// The place of breakpoint `n`, or of watchpoint `n`.
    pub(super) fn point(&mut self, watches: bool, n: usize) -> Option<&mut Point> {
        if watches {
            self.watches.get_mut(n)
        } else {
            self.breaks.get_mut(n)
        }
    }
}
