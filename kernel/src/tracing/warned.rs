//! What happened before a warning stays in the trace: with `traceoff_on_warning`, a word of the command line
//! and a setting, the first warning ends the recording of the top instance.

use super::made;
use super::printk;
use crate::{cmdline, log};
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};

/// The setting: any number but 0 is yes.
pub static SETTING: AtomicI32 = AtomicI32::new(0);

/// A CPU is about to end recording.
static BUSY: AtomicBool = AtomicBool::new(false);

/// What the command line says. Boot.
pub(super) fn init() {
    log::when_warned(disable_trace_on_warning);
    let word = cmdline::words().filter_map(|word| word.strip_prefix("traceoff_on_warning"));
    if word.last().is_some_and(|rest| !matches!(rest, "=0" | "=off")) {
        SETTING.store(1, Relaxed);
    }
}

/// The kernel warns of something wrong in itself. Any context.
fn disable_trace_on_warning() {
    // What it does itself may be warned of.
    if SETTING.load(Relaxed) == 0 || BUSY.swap(true, Relaxed) {
        return;
    }
    let ip = disable_trace_on_warning as *const () as usize;
    printk::print(ip, b"Disabling tracing due to warning\n");
    if let Some(top) = made() {
        top.turn_quietly(false);
    }
    BUSY.store(false, Relaxed);
}
