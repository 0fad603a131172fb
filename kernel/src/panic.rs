//! Kernel panic: stops the other CPUs, writes a report with a backtrace to every console, and ends the
//! machine with a status that tells the host. `panic=N`: the machine restarts after N seconds; `panic=0`: it
//! stops for ever; without it, it ends at once.

#![forbid(unsafe_code)]

use crate::arch::interrupt::Ipi;
use crate::arch::{irq, smp};
use crate::sync::Once;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};

/// The number of the panicking CPU plus one, 0 for none.
static OWNER: AtomicUsize = AtomicUsize::new(0);

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    irq::local_disable();
    let me = smp::cpu_id() + 1;
    match OWNER.compare_exchange(0, me, Ordering::SeqCst, Ordering::SeqCst) {
        Ok(_) => {}
        Err(owner) if owner == me => {
            // The report itself failed: formats nothing more.
            crate::arch::console::write(b"\nKernel panic - not syncing: a panic inside a panic\n");
            crate::arch::platform::panic_exit()
        }
        Err(_) => stand_still(),
    }
    stop_others(me - 1);
    crate::log::enter_panic(&crate::arch::LOG);
    log!(Emerg, "Kernel panic - not syncing: {}", info.message());
    if let Some(place) = info.location() {
        log!(
            Emerg,
            "CPU: {} {} at {}:{}:{}",
            me - 1,
            Tainted(tainted()),
            place.file(),
            place.line(),
            place.column()
        );
    }
    crate::trace::backtrace::print(crate::arch::stack::here());
    if let Some(f) = LAST.get() {
        f();
    }
    log!(
        Emerg,
        "---[ end Kernel panic - not syncing: {} ]---",
        info.message()
    );
    crate::log::flush();
    end()
}

/// Who has something to show at a panic.
static LAST: Once<fn()> = Once::new();

/// When the kernel panics `f` is called, with all other CPUs stopped and interrupts off: it waits for no lock
/// and allocates nothing. Boot.
pub fn when_panicking(f: fn()) {
    let _ = LAST.set(f);
}

/// Asks every other CPU to stop, and waits a short time.
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

/// `kernel.panic`, if it was set.
static TIMEOUT: AtomicI32 = AtomicI32::new(NOT_SET);
const NOT_SET: i32 = i32::MIN;

/// After how many seconds the machine restarts: at once if negative, never if 0. The value that was set, else
/// the command line's.
pub fn timeout() -> Option<i64> {
    match TIMEOUT.load(Ordering::Relaxed) {
        NOT_SET => crate::cmdline::value("panic").and_then(|v| v.parse().ok()),
        set => Some(set.into()),
    }
}

/// Sets [`timeout`].
pub fn set_timeout(seconds: i32) {
    TIMEOUT.store(seconds.max(NOT_SET + 1), Ordering::Relaxed);
}

/// `kernel.tainted`: what root, and modules, have marked this kernel with.
static TAINTED: AtomicU32 = AtomicU32::new(0);
/// The letters of the bits, the lowest first.
const MARKS: &[u8; 19] = b"PFSRMBUDAWCIOELKXTN";

/// The bits that are set.
pub fn tainted() -> u32 {
    TAINTED.load(Ordering::Relaxed)
}

/// Sets the bits in `marks`. Unknown bits are ignored.
pub fn taint(marks: u32) {
    TAINTED.fetch_or(marks & ((1 << MARKS.len()) - 1), Ordering::Relaxed);
}

/// Shows in a report which bits are set.
struct Tainted(u32);

impl core::fmt::Display for Tainted {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.0 == 0 {
            return f.write_str("Not tainted");
        }
        f.write_str("Tainted: ")?;
        for (bit, mark) in MARKS.iter().enumerate() {
            if self.0 >> bit & 1 != 0 {
                core::fmt::Write::write_char(f, char::from(*mark))?;
            }
        }
        Ok(())
    }
}

fn end() -> ! {
    match timeout() {
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
