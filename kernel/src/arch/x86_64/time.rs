//! The monotonic counter (the TSC) and this CPU's one-shot timer event (the local APIC's timer).

use super::cpu::{self, Features, inb, outb, rdtsc};
use super::{apic, cpus};
use crate::sync::MAX_CPUS;
use core::sync::atomic::{AtomicU64, Ordering};

/// Counter value at [`now_ns`] zero.
static BASE: AtomicU64 = AtomicU64::new(0);
/// Nanoseconds per counter step, 32.32 fixed point.
static MULT: AtomicU64 = AtomicU64::new(0);
/// Timer steps per nanosecond, 32.32 fixed point.
static TIMER_MULT: AtomicU64 = AtomicU64::new(0);
/// When each CPU's event is due.
static DEADLINE: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(u64::MAX) }; MAX_CPUS];

/// `cpuid`: the hypervisor's name and its highest leaf; the rates it tells (TSC in kHz); the TSC's ratio to a
/// crystal and that crystal's rate.
const HYPERVISOR_LEAF: u32 = 0x4000_0000;
const HYPERVISOR_RATES_LEAF: u32 = 0x4000_0010;
const TSC_LEAF: u32 = 0x15;

/// LVT: the timer compares with the TSC.
const LVT_TSC_DEADLINE: u32 = 2 << 17;
/// The timer's divider: none.
const DIVIDE_BY_1: u32 = 0xb;
/// Longest programmed event in timer steps: the timer has 32 bits.
const LONGEST: u64 = 0x7fff_ffff;

/// Nanoseconds since boot, monotonic and the same on every CPU.
#[inline]
pub fn now_ns() -> u64 {
    let steps = rdtsc().wrapping_sub(BASE.load(Ordering::Relaxed));
    ((u128::from(steps) * u128::from(MULT.load(Ordering::Relaxed))) >> 32) as u64
}

/// What the vDSO needs to turn the counter (`rdtsc`) into nanoseconds: its value at time zero, and
/// nanoseconds per step as 32.32 fixed point.
pub fn clock_parameters() -> (u64, u64) {
    (BASE.load(Ordering::Relaxed), MULT.load(Ordering::Relaxed))
}

/// The counter, maybe read early.
#[inline(always)]
pub fn cycles() -> u64 {
    rdtsc()
}

/// The counter as a clock of traces.
pub const COUNTER: Option<(&str, fn() -> u64)> = Some(("x86-tsc", || rdtsc()));

/// Programs this CPU's event for `deadline_ns` (as [`now_ns`]; in the past: at once). `u64::MAX` turns it
/// off. When it fires, the architecture calls `crate::arch::above::timer_interrupt()` inside
/// `threshold::interrupt`. Interrupts are off.
pub fn set_event(deadline_ns: u64) {
    DEADLINE[cpus::cpu_id()].store(deadline_ns, Ordering::Relaxed);
    program(deadline_ns);
}

fn program(deadline_ns: u64) {
    if cpu::has(Features::TSC_DEADLINE) {
        let value = if deadline_ns == u64::MAX {
            0
        } else {
            let steps = (u128::from(deadline_ns) << 32) / u128::from(MULT.load(Ordering::Relaxed).max(1));
            // The counter takes more steps than there are nanoseconds: the farthest deadlines are beyond what
            // it can count to.
            let steps = steps.min(i64::MAX as u128) as u64 + 1;
            BASE.load(Ordering::Relaxed).saturating_add(steps)
        };
        // SAFETY: the register exists; the timer is in this mode (`start_cpu`).
        unsafe { cpu::wrmsr(cpu::MSR_TSC_DEADLINE, value) };
        return;
    }
    let count = if deadline_ns == u64::MAX {
        0
    } else {
        let ns = deadline_ns.saturating_sub(now_ns());
        let steps = (u128::from(ns) * u128::from(TIMER_MULT.load(Ordering::Relaxed))) >> 32;
        steps.min(u128::from(LONGEST)) as u64 + 1
    };
    apic::write(apic::TIMER_INITIAL, count as u32);
}

/// The timer interrupt.
pub fn event() {
    let deadline = &DEADLINE[cpus::cpu_id()];
    let at = deadline.load(Ordering::Relaxed);
    if at == u64::MAX {
        return;
    }
    // A far deadline is reached in several steps.
    if now_ns() < at {
        program(at);
        return;
    }
    deadline.store(u64::MAX, Ordering::Relaxed);
    crate::arch::above::timer_interrupt();
}

/// Prepares this CPU's timer.
pub fn start_cpu() {
    let mode = if cpu::has(Features::TSC_DEADLINE) {
        LVT_TSC_DEADLINE
    } else {
        0
    };
    apic::write(apic::TIMER_DIVIDE, DIVIDE_BY_1);
    apic::write(apic::LVT_TIMER, u32::from(apic::TIMER_VECTOR) | mode);
}

/// One pair of counters, read close together: TSC and nanoseconds or timer steps elapsed.
fn sample() -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..4 {
        let before = rdtsc();
        let timer = apic::read(apic::TIMER_CURRENT);
        let after = rdtsc();
        if after.wrapping_sub(before) < best.0 {
            best = (
                after.wrapping_sub(before),
                before.wrapping_add(after.wrapping_sub(before) / 2),
                timer,
            );
        }
    }
    (best.1, u64::from(u32::MAX - best.2))
}

/// Finds the rates of TSC and local timer. Boot CPU, once, with the local APIC reachable.
#[unsafe(link_section = ".init.text")]
pub fn calibrate() {
    const GHZ: u64 = 1_000_000_000;
    BASE.store(rdtsc(), Ordering::Relaxed);
    apic::write(apic::TIMER_DIVIDE, DIVIDE_BY_1);
    apic::write(apic::LVT_TIMER, apic::LVT_MASKED);
    apic::write(apic::TIMER_INITIAL, u32::MAX);
    let (tsc_hz, timer_hz) = match known_timer_rate() {
        Some(timer_hz) => {
            // A tenth of a millisecond shows whether the TSC is the same clock (QEMU's instruction counting);
            // if not, two milliseconds.
            let measure = |ns: u64| {
                let (tsc0, t0) = sample();
                let mut now = (tsc0, t0);
                while now.1 - t0 < ns * timer_hz / GHZ {
                    now = sample();
                }
                ((u128::from(now.0 - tsc0) * u128::from(timer_hz)) / u128::from(now.1 - t0)) as u64
            };
            let mut hz = measure(100_000);
            if hz.abs_diff(timer_hz) < timer_hz / 200 {
                hz = timer_hz;
            } else {
                hz = known_tsc_rate().unwrap_or_else(|| measure(2_000_000));
            }
            (hz, timer_hz)
        }
        None => {
            let (tsc0, t0) = sample();
            wait_10ms_by_pit();
            let (tsc1, t1) = sample();
            (known_tsc_rate().unwrap_or((tsc1 - tsc0) * 100), (t1 - t0) * 100)
        }
    };
    apic::write(apic::TIMER_INITIAL, 0);
    MULT.store(
        ((u128::from(GHZ) << 32) / u128::from(tsc_hz.max(1))) as u64,
        Ordering::Relaxed,
    );
    TIMER_MULT.store(
        ((u128::from(timer_hz) << 32) / u128::from(GHZ)) as u64,
        Ordering::Relaxed,
    );
    start_cpu();
}

/// The local timer's rate where the hypervisor fixes it: QEMU and KVM count nanoseconds.
fn known_timer_rate() -> Option<u64> {
    if !cpu::has(Features::HYPERVISOR) {
        return None;
    }
    let leaf = core::arch::x86_64::__cpuid(HYPERVISOR_LEAF);
    let mut name = [0u8; 12];
    name[..4].copy_from_slice(&leaf.ebx.to_le_bytes());
    name[4..8].copy_from_slice(&leaf.ecx.to_le_bytes());
    name[8..].copy_from_slice(&leaf.edx.to_le_bytes());
    matches!(&name, b"TCGTCGTCGTCG" | b"KVMKVMKVM\0\0\0").then_some(1_000_000_000)
}

/// The TSC's rate where processor or hypervisor tell it.
fn known_tsc_rate() -> Option<u64> {
    if cpu::has(Features::HYPERVISOR) {
        let base = core::arch::x86_64::__cpuid(HYPERVISOR_LEAF);
        if base.eax >= HYPERVISOR_RATES_LEAF {
            let khz = u64::from(core::arch::x86_64::__cpuid(HYPERVISOR_RATES_LEAF).eax);
            if khz != 0 {
                return Some(khz * 1000);
            }
        }
        return None;
    }
    let leaf = cpu::cpuid(TSC_LEAF, 0);
    (leaf.eax != 0 && leaf.ebx != 0 && leaf.ecx != 0)
        .then(|| u64::from(leaf.ecx) * u64::from(leaf.ebx) / u64::from(leaf.eax))
}

/// Waits with channel 2 of the interval timer (1,193,182 Hz), whose output port 0x61 shows.
fn wait_10ms_by_pit() {
    const COUNT: u16 = 11932;
    const CHANNEL_2: u16 = 0x42;
    const COMMAND: u16 = 0x43;
    /// Channel 2, both bytes of the count, output high when it has counted to 0.
    const CHANNEL_2_ONCE: u8 = 0xb0;
    const CONTROL: u16 = 0x61;
    /// Bits of the control port.
    const GATE: u8 = 1 << 0;
    const SPEAKER: u8 = 1 << 1;
    const OUTPUT: u8 = 1 << 5;
    // SAFETY: the channel drives only the speaker, which stays off.
    unsafe {
        outb(CONTROL, inb(CONTROL) & !SPEAKER | GATE);
        outb(COMMAND, CHANNEL_2_ONCE);
        outb(CHANNEL_2, COUNT as u8);
        outb(CHANNEL_2, (COUNT >> 8) as u8);
        // Bounded, should there be no such timer.
        for _ in 0..10_000_000u32 {
            if inb(CONTROL) & OUTPUT != 0 {
                break;
            }
        }
    }
}
