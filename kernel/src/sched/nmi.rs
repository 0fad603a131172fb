//! Interrupts that come where others are off (NMIs of x86_64, FIQs of the Arms), as CPUs send them to each
//! other: a CPU is asked, and counts where it was. Only tests ask: the self-test, and a storm that
//! `limen.nmi_storm=MICROSECONDS` starts, with that pause between two rounds of all CPUs.

use super::{online, spawn_kthread};
use crate::arch::nofault::get_kernel_nofault;
use crate::arch::{interrupt, irq, smp, time};
use crate::check;
use crate::selftest::Test;
use crate::sync::{MAX_CPUS, without_interrupts};
use crate::time::{NSEC_PER_SEC, sleep_until};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Whether a CPU was asked and has not answered.
static ASKED: [AtomicBool; MAX_CPUS] = [const { AtomicBool::new(false) }; MAX_CPUS];
/// How often each was asked in kernel mode, and in user mode.
static CAME: [[AtomicUsize; 2]; MAX_CPUS] = [const { [const { AtomicUsize::new(0) }; 2] }; MAX_CPUS];
/// Whether the self-test wants a fault in the next one.
static FAULTS: AtomicBool = AtomicBool::new(false);
/// Whether another began in the middle of that one, or there was no fault.
static FAILED: AtomicBool = AtomicBool::new(false);
/// For so long it goes on after its fault.
const HELD_NS: u64 = NSEC_PER_SEC / 100;
const NO_NMIS: &str = "the machine has no NMIs";
/// Within this a CPU answers: it holds NMIs off for moments only, but a virtual one may stand still.
const PATIENCE_NS: u64 = 60 * NSEC_PER_SEC;

/// In an NMI: whether another CPU asked this one. `from_user`: what it interrupted was user mode.
#[inline(always)]
#[allow(dead_code, reason = "not every processor has NMIs")]
pub fn came(from_user: bool) -> bool {
    let cpu = smp::cpu_id();
    let asked = ASKED[cpu].load(Ordering::Acquire);
    if asked {
        CAME[cpu][usize::from(from_user)].fetch_add(1, Ordering::Relaxed);
        if FAULTS.swap(false, Ordering::Relaxed) {
            fault_inside(cpu);
        } else {
            ASKED[cpu].store(false, Ordering::Release);
        }
    }
    asked
}

/// Asks CPU `cpu` and waits for its answer. One caller at a time. In any context but an NMI.
fn ask(cpu: usize) -> Result<(), &'static str> {
    ASKED[cpu].store(true, Ordering::Release);
    if !interrupt::send_nmi(cpu) {
        ASKED[cpu].store(false, Ordering::Release);
        return Err(NO_NMIS);
    }
    let until = time::now_ns() + PATIENCE_NS;
    while ASKED[cpu].load(Ordering::Acquire) {
        if time::now_ns() > until {
            return Err("an NMI did not come");
        }
        irq::spin_hint();
    }
    Ok(())
}

/// How many came to all CPUs in kernel mode, and in user mode.
fn counted() -> [usize; 2] {
    let sum = |mode: usize| CAME.iter().map(|cpu| cpu[mode].load(Ordering::Relaxed)).sum();
    [sum(0), sum(1)]
}

/// The self-tests.
pub const TESTS: &[Test] = &[
    ("NMIs among CPUs", among_cpus),
    ("a fault in an NMI", fault_in_nmi),
];

/// In an NMI: faults, and asks for the next, which must not come before the end of this one; that one
/// answers.
#[cold]
fn fault_inside(cpu: usize) {
    let before = CAME[cpu][0].load(Ordering::Relaxed);
    // SAFETY: the first page of user mode is nobody's memory.
    let read = unsafe { get_kernel_nofault(8) };
    interrupt::send_nmi(cpu);
    let until = time::now_ns() + HELD_NS;
    while time::now_ns() < until {
        irq::spin_hint();
    }
    let other = CAME[cpu][0].load(Ordering::Relaxed) != before;
    FAILED.store(other || read.is_some(), Ordering::Relaxed);
}

fn fault_in_nmi() -> Result<(), &'static str> {
    for _ in 0..5 {
        let asked = without_interrupts(|| {
            FAULTS.store(true, Ordering::Relaxed);
            ask(smp::cpu_id())
        });
        if asked == Err(NO_NMIS) {
            FAULTS.store(false, Ordering::Relaxed);
            return Ok(());
        }
        asked?;
        check!(!FAILED.load(Ordering::Relaxed));
    }
    Ok(())
}

fn among_cpus() -> Result<(), &'static str> {
    const ROUNDS: usize = 200;
    let total = || counted().iter().sum::<usize>();
    if ask(0) == Err(NO_NMIS) {
        return Ok(());
    }
    let before = total();
    for _ in 0..ROUNDS {
        for cpu in online().iter() {
            ask(cpu)?;
        }
    }
    check!(total() - before == ROUNDS * online().count());
    // Interrupts are off, and it comes all the same; where NMIs can be held off, it comes afterwards.
    for _ in 0..ROUNDS {
        without_interrupts(|| ask(smp::cpu_id()))?;
        without_interrupts(|| {
            let held = irq::raw_save_nmis();
            let here = smp::cpu_id();
            ASKED[here].store(true, Ordering::Release);
            let sent = interrupt::send_nmi(here);
            irq::raw_restore(held);
            let until = time::now_ns() + PATIENCE_NS;
            while ASKED[here].load(Ordering::Acquire) && time::now_ns() < until {
                irq::spin_hint();
            }
            check!(sent && !ASKED[here].load(Ordering::Acquire));
            Ok(())
        })?;
    }
    check!(total() - before == ROUNDS * (online().count() + 2));
    Ok(())
}

/// Starts the storm, if the command line asks for one. All CPUs are there.
pub fn start_storm() {
    if let Some(pause) = crate::cmdline::value("limen.nmi_storm").and_then(|us| us.parse::<u64>().ok()) {
        spawn_kthread("nmi_storm", move || storm(pause * 1000));
    }
}

/// Asks all CPUs, time and again, and says once a second how many came and where.
fn storm(pause_ns: u64) {
    let before: usize = counted().iter().sum();
    let (mut sent, mut said) = (0, 0);
    loop {
        for cpu in online().iter() {
            if let Err(what) = ask(cpu) {
                return log!(Err, "nmi storm: CPU {cpu}: {what}");
            }
            sent += 1;
        }
        let now = time::now_ns();
        if now > said + NSEC_PER_SEC {
            let [kernel, user] = counted();
            if kernel + user - before != sent {
                return log!(Err, "nmi storm: {sent} sent, {} came", kernel + user - before);
            }
            log!(Info, "nmi storm: {user} in user mode, {kernel} in kernel mode");
            said = now;
        }
        // Whatever wakes it early, the next round is due.
        sleep_until(now + pause_ns).unwrap_or_default();
    }
}
