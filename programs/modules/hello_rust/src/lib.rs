//! The smallest useful module in Rust: a parameter, lines of the log, a file in /proc, a timer, pages.

#![no_std]

use core::cell::UnsafeCell;
use core::fmt::Write;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed};
use limen::{Pages, Proc, Text, Timer};

limen::module!(name: "hello_rust", license: "Dual MIT/GPL", init: start, exit: end);
limen::modinfo!(DESCRIPTION, "description", "greets, in Rust");
limen::param!(
    /// How often it greets.
    static TIMES: AtomicI32 = 1, "times:int", "times", 0o644
);

static TICKS: AtomicU32 = AtomicU32::new(0);

/// What is there from `init` to `exit`.
struct Held(UnsafeCell<Option<(Proc, Timer)>>);

// SAFETY: only `start` and `end` use it, which the kernel calls one after the other.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

fn show(out: &mut Text) {
    for n in 0..TIMES.load(Relaxed) {
        let _ = writeln!(out, "hello from Rust, {n}");
    }
    let _ = writeln!(out, "ticks {}", TICKS.load(Relaxed));
}

fn tick() {
    TICKS.fetch_add(1, Relaxed);
}

fn start() -> Result<(), i32> {
    let mut pages = Pages::new(4)?;
    pages.fill(0x5a);
    let sum = pages.while_read_only(|bytes| bytes.iter().map(|byte| u32::from(*byte)).sum::<u32>())?;
    if sum != 4 * 4096 * 0x5a {
        return Err(limen::EIO);
    }
    let file = Proc::create(c"hello_rust", 0o444, show)?;
    let timer = Timer::create(tick)?;
    timer.start(1_000_000);
    // SAFETY: see `Held`.
    unsafe { *HELD.0.get() = Some((file, timer)) };
    limen::info!("hello_rust: loaded, {} times", TIMES.load(Relaxed));
    Ok(())
}

fn end() {
    // SAFETY: see `Held`.
    drop(unsafe { (*HELD.0.get()).take() });
    limen::info!("hello_rust: unloaded, {} ticks", TICKS.load(Relaxed));
}
