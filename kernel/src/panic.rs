//! Kernel panic: stops the other CPUs, shows a report with a symbolised backtrace on every console, and ends the machine with a status the
//! host can tell apart. `panic=N`: after N seconds the machine restarts; `panic=0`: it stands still; otherwise it ends at once.

use crate::arch::interrupt::Ipi;
use crate::arch::{irq, smp};
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicUsize, Ordering};

/// The CPU that panics, plus one.
static OWNER: AtomicUsize = AtomicUsize::new(0);

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    irq::local_disable();
    let me = smp::cpu_id() + 1;
    match OWNER.compare_exchange(0, me, Ordering::SeqCst, Ordering::SeqCst) {
        Ok(_) => {}
        Err(owner) if owner == me => {
            // The report itself went wrong: no more formatting of anything complicated.
            crate::arch::console::write(b"\nKernel panic - not syncing: a panic inside a panic\n");
            crate::arch::platform::panic_exit()
        }
        Err(_) => stand_still(),
    }
    stop_others(me - 1);
    crate::log::enter_panic();
    log!(Emerg, "Kernel panic - not syncing: {}", info.message());
    if let Some(place) = info.location() {
        log!(
            Emerg,
            "CPU: {} at {}:{}:{}",
            me - 1,
            place.file(),
            place.line(),
            place.column()
        );
    }
    crate::trace::backtrace::print_here();
    log!(
        Emerg,
        "---[ end Kernel panic - not syncing: {} ]---",
        info.message()
    );
    crate::log::flush();
    end()
}

/// Asks every other CPU to stop and gives them a moment.
fn stop_others(me: usize) {
    for cpu in crate::sched::online().iter().filter(|cpu| *cpu != me) {
        crate::arch::interrupt::send_ipi(cpu, Ipi::Stop);
    }
    let until = crate::arch::time::now_ns() + 10_000_000;
    for _ in 0..1_000_000 {
        if smp::count() == 1 || crate::arch::time::now_ns() >= until {
            break;
        }
        irq::spin_hint();
    }
}

fn end() -> ! {
    match crate::boot::cmdline::value("panic").and_then(|v| v.parse::<i64>().ok()) {
        None => crate::arch::platform::panic_exit(),
        Some(0) => stand_still(),
        Some(seconds) => {
            if seconds > 0 {
                log!(Emerg, "Rebooting in {seconds} seconds..");
                let until = crate::arch::time::now_ns() + (seconds as u64).saturating_mul(1_000_000_000);
                while crate::arch::time::now_ns() < until {
                    irq::spin_hint();
                }
            }
            crate::arch::platform::reset()
        }
    }
}

fn stand_still() -> ! {
    loop {
        irq::spin_hint();
    }
}
