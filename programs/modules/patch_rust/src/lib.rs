//! A live patch in Rust: replaces what /proc/cmdline shows. A tracer counts how often that is called.

#![no_std]

use core::cell::UnsafeCell;
use core::fmt::Write;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use limen::{Patched, Registers, Text, Tracer};

limen::module!(name: "patch_rust", license: "Dual MIT/GPL", init: start, exit: end);

static CALLS: AtomicU32 = AtomicU32::new(0);

/// What is there from `init` to `exit`.
struct Held(UnsafeCell<Option<Tracer>>);

// SAFETY: only `start` and `end` use it, which the kernel calls one after the other.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

extern "C" fn shown(out: *mut limen::sys::Opaque) {
    // SAFETY: the kernel calls it with a text that is read, as the function that it replaces.
    let mut out = unsafe { Text::from_handle(out) };
    let _ = writeln!(out, "patch_rust: this has been live patched");
}

fn trace(_ip: usize, _parent: usize, registers: &mut Registers) {
    if registers.argument(0).is_some() {
        CALLS.fetch_add(1, Relaxed);
    }
}

fn start() -> Result<(), i32> {
    let tracer = Tracer::register(c"cmdline_proc_show", Tracer::SAVE_REGS, trace)?;
    // SAFETY: see `Held`.
    unsafe { *HELD.0.get() = Some(tracer) };
    // SAFETY: it takes and returns what the kernel's function does.
    let enabled = unsafe {
        limen::patch(
            &[Patched::kernel(c"cmdline_proc_show", shown as *const u8)],
            false,
        )
    };
    if enabled.is_err() {
        // SAFETY: see `Held`.
        drop(unsafe { (*HELD.0.get()).take() });
    }
    enabled
}

fn end() {
    // SAFETY: see `Held`.
    drop(unsafe { (*HELD.0.get()).take() });
    limen::info!("patch_rust: called {} times", CALLS.load(Relaxed));
}
