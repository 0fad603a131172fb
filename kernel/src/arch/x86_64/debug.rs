//! Debug registers (manual, volume 3, chapter "Debug, branch profile, TSC"): breakpoints, watchpoints, and
//! steps from branch to branch.
//!
//! A CPU gets a thread's registers on the thread's way to user mode (`ThreadFlags::DEBUG`). They stay there
//! when another thread comes, or the kernel itself touches the memory: the handler, which finds that it was
//! not meant, turns them off. Only addresses of user mode are ever in them.

use super::cpu::{rdmsr, read_register, write_register, wrmsr};
use super::mmu::USER_END;
use crate::arch::register_set::Step;
use core::sync::atomic::{AtomicBool, Ordering};
use limen_linux_abi::Errno;

/// The numbers of the registers that hold no address.
const STATUS: usize = 6;
const CONTROL: usize = 7;

/// How many words the set of them has.
pub const WORDS: usize = 8;

/// `DR6`: which of the four was hit, and a single step.
pub const HITS: usize = 0xf;
pub const STEP: usize = 1 << 14;
/// What it holds when nothing happened: bits of the reserved ones, and those that mean something if clear.
pub const NOTHING: usize = 0xffff_0ff0;

/// Bits of `DR7` that programs cannot set. One of those that have no meaning is always set.
const RESERVED: usize = !0xffff_03ff;
const ALWAYS: usize = 1 << 10;

/// What one of the four is for, in `DR7`.
const EXECUTION: usize = 0;
const PORTS: usize = 2;

/// `IA32_DEBUGCTL`, and its bit for steps from branch to branch.
const MSR_DEBUGCTL: u32 = 0x1d9;
const BTF: u64 = 2;

/// Whether the processor has that bit: QEMU does not.
static BLOCKS: AtomicBool = AtomicBool::new(false);

/// On every CPU.
pub fn init() {
    // SAFETY: every processor with 64-bit mode has the register; the bit means nothing while no trap flag is
    // set.
    unsafe {
        wrmsr(MSR_DEBUGCTL, BTF);
        BLOCKS.store(rdmsr(MSR_DEBUGCTL) & BTF != 0, Ordering::Relaxed);
        wrmsr(MSR_DEBUGCTL, 0);
    }
}

/// What happened, which this CPU then forgets. Interrupts are off.
pub fn take_status() -> usize {
    // SAFETY: resetting the status, which nobody else asks for, has no other effect.
    unsafe {
        let status = read_register!("dr6");
        write_register!("dr6", NOTHING);
        status
    }
}

/// Turns this CPU's off. Interrupts are off.
#[cold]
pub fn off() {
    // SAFETY: nothing is watched any more.
    unsafe { write_register!("dr7", ALWAYS) }
}

/// A thread's.
#[derive(Debug)]
pub struct Registers {
    addresses: [usize; 4],
    control: usize,
    /// `DR7` as it was written, whatever has no meaning.
    written: usize,
    /// `DR6` as tracers see it, but for what is always so.
    status: usize,
    /// It is stepped through.
    steps: Option<Step>,
}

/// Whether number `n` is on, what it is for, and its length in bytes.
fn decode(control: usize, n: usize) -> (bool, usize, usize) {
    let bits = control >> (16 + 4 * n) & 0xf;
    let len = [1, 2, 8, 4][bits >> 2];
    (control >> (2 * n) & 3 != 0, bits & 3, len)
}

/// Whether a program may have number `n` so. `EINVAL`.
fn check(control: usize, n: usize, address: usize) -> Result<(), Errno> {
    let (on, kind, len) = decode(control, n);
    let len = if on { len } else { 1 };
    let last = address.checked_add(len - 1).ok_or(Errno::EINVAL)?;
    let fits = !on || kind != PORTS && (kind != EXECUTION || len == 1);
    if last >= USER_END || !fits || !address.is_multiple_of(len) {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

impl Registers {
    /// None.
    pub const NONE: Self = Self {
        addresses: [0; 4],
        control: 0,
        written: 0,
        status: 0,
        steps: None,
    };

    /// Whether there are any for the processor.
    pub fn is_used(&self) -> bool {
        self.control & 0xff != 0 || self.steps.is_some() && BLOCKS.load(Ordering::Relaxed)
    }

    /// Makes them this CPU's. Interrupts are off.
    #[cold]
    pub fn load(&self) {
        off();
        // SAFETY: all are addresses of user mode.
        unsafe {
            let [a, b, c, d] = self.addresses;
            write_register!("dr0", a);
            write_register!("dr1", b);
            write_register!("dr2", c);
            write_register!("dr3", d);
            write_register!("dr7", self.control | ALWAYS);
            if BLOCKS.load(Ordering::Relaxed) {
                wrmsr(
                    MSR_DEBUGCTL,
                    if self.steps == Some(Step::Block) { BTF } else { 0 },
                );
            }
        }
    }

    /// How it is stepped through. `None`: the processor cannot do that.
    pub(super) fn set_steps(&mut self, steps: Option<Step>) -> Option<()> {
        if steps == Some(Step::Block) && !BLOCKS.load(Ordering::Relaxed) {
            return None;
        }
        self.steps = steps;
        Some(())
    }

    /// As tracers see them, by number.
    pub(super) fn words(&self) -> [usize; WORDS] {
        let [a, b, c, d] = self.addresses;
        [a, b, c, d, 0, 0, self.status ^ NOTHING, self.written]
    }

    /// Number `n` becomes `word`. `EINVAL`: no program may have that; `EIO`: there is no such register.
    pub(super) fn set(&mut self, n: usize, word: usize) -> Result<(), Errno> {
        match (n, self.addresses.get_mut(n)) {
            (_, Some(address)) => {
                check(self.control, n, word)?;
                *address = word;
            }
            (STATUS, _) => self.status = word ^ NOTHING,
            (CONTROL, _) => {
                let control = word & !RESERVED;
                for (n, address) in self.addresses.iter().enumerate() {
                    check(control, n, *address)?;
                }
                (self.control, self.written) = (control, word);
            }
            _ => return Err(Errno::EIO),
        }
        Ok(())
    }

    /// Which of the four that were hit are the thread's, and whether one of these stands for an instruction
    /// that has not been executed yet.
    pub(super) fn own_hits(&self, status: usize) -> (usize, bool) {
        let mut hits = 0;
        let mut before = false;
        for n in (0..4).filter(|n| status >> n & 1 != 0) {
            let (on, kind, _) = decode(self.control, n);
            hits |= usize::from(on) << n;
            before |= on && kind == EXECUTION;
        }
        (hits, before)
    }

    /// The thread met what is not its own; if it is not traced, it has none any more.
    pub(super) fn forget_left(&mut self, traced: bool) {
        if !traced {
            *self = Self::NONE;
        }
    }

    /// What happened to the thread last.
    pub(super) fn note(&mut self, status: usize) {
        self.status = status;
    }
}
