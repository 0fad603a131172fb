//! Events as lines of the log, in addition to the trace: `tp_printk`, a word of the command line without
//! which the setting `tracepoint_printk` stays 0, as on Linux. Whoever turns on events that come often may
//! not get anything else done.

use super::dump::MOST;
use super::event::list;
use super::names;
use crate::arch::{irq, smp};
use crate::cmdline;
use crate::log::{self, Level, Line};
use crate::sync::MAX_CPUS;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicI32};
use limen_trace_text::Entry;

/// The setting, and whether it can be another than 0.
static ON: AtomicI32 = AtomicI32::new(0);
static CAN_BE: AtomicBool = AtomicBool::new(false);

/// CPUs that are writing a line: what that meets has none.
static WRITING: [AtomicBool; MAX_CPUS] = [const { AtomicBool::new(false) }; MAX_CPUS];

/// The setting.
pub fn setting() -> i32 {
    ON.load(Relaxed)
}

/// Changes it, if the command line allows that.
pub fn set(value: i32) {
    if CAN_BE.load(Relaxed) {
        ON.store(value, Relaxed);
    }
}

/// What the command line says. Boot.
pub(super) fn init() {
    let word = cmdline::words().filter_map(|word| word.strip_prefix("tp_printk"));
    let wanted = |rest: &&str| !rest.starts_with('_') && !matches!(*rest, "=0" | "=off");
    if word.filter(wanted).last().is_none() {
        return;
    }
    if list::make_programs().is_err() {
        warning!("tp_printk: no memory");
        return;
    }
    CAN_BE.store(true, Relaxed);
    ON.store(1, Relaxed);
}

/// The first program starts. Boot.
pub fn booted() {
    if cmdline::flag("tp_printk_stop_on_boot") {
        set(0);
    }
}

/// An event is recorded: writes what it says to the log. Any context.
#[inline(always)]
pub(super) fn write(record: &[u8]) {
    if ON.load(Relaxed) != 0 {
        write_line(record);
    }
}

#[cold]
#[inline(never)]
fn write_line(record: &[u8]) {
    let flags = irq::local_save();
    let cpu = smp::cpu_id();
    let writing = &WRITING[cpu];
    if !writing.swap(true, Relaxed) {
        if let Some(entry) = Entry::new(cpu, 0, record) {
            let mut line = Line::<MOST>::new();
            // What does not fit is cut off.
            let _ = names::event(&entry, &mut line);
            // The event may come while this CPU holds a console's own lock.
            log::write_later(Level::Warning, line.bytes());
        }
        writing.store(false, Relaxed);
    }
    irq::local_restore(flags);
}
