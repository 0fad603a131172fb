//! What can be read and set: `/sys/kernel/debug/rseq`, `/proc/<pid>/rseq`, the command line.

use super::{slice, stats};
use crate::fs::debugfs;
use crate::fs::pseudo::{self, Node, Text};
use crate::sched;
use crate::task::{self, Process, Task};
use alloc::sync::Arc;
use core::fmt::Write;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use limen_entry::ThreadFlags;
use limen_linux_abi::Errno;
use limen_rseq::slice::LENGTH_NS;

/// Why every thread's way out to user mode is looked at, whether there is something to do or not: bits of the two below.
static WATCH: AtomicU32 = AtomicU32::new(0);
/// To count it.
pub const COUNT: u32 = 1;
/// To check it (debug mode).
pub const DEBUG: u32 = 2;

/// Those that are on.
#[inline(always)]
pub fn watch() -> u32 {
    WATCH.load(Relaxed)
}

/// Whether ways out are counted, and with them what should never be.
#[inline(always)]
pub fn counting() -> bool {
    watch() & COUNT != 0
}

/// A switch as users write it.
pub fn switch(text: &str) -> Option<bool> {
    match text.trim() {
        "1" | "y" | "Y" | "on" => Some(true),
        "0" | "n" | "N" | "off" => Some(false),
        _ => None,
    }
}

/// Turns a reason on or off. Each thread's flag is set; its next way out that finds no reason left clears it.
fn set_watch(bit: u32, on: bool) {
    if !on {
        WATCH.fetch_and(!bit, Relaxed);
        return;
    }
    WATCH.fetch_or(bit, Relaxed);
    for process in task::all_processes() {
        for thread in process.threads() {
            thread.info.work.set(ThreadFlags::RSEQ);
        }
    }
}

fn store(bit: u32) -> impl Fn(&[u8]) -> Result<(), Errno> {
    move |bytes| {
        let text = core::str::from_utf8(bytes).map_err(|_| Errno::EINVAL)?;
        set_watch(bit, switch(text).ok_or(Errno::EINVAL)?);
        Ok(())
    }
}

fn show_stats(out: &mut Text) -> Result<(), Errno> {
    let mut sums = [0; stats::NAMES.len()];
    for cpu in sched::online().iter().filter_map(sched::cpu) {
        for (sum, (_, of_cpu, _)) in sums.iter_mut().zip(stats::NAMES) {
            *sum += of_cpu(&cpu.rseq).get();
        }
    }
    for process in task::all_processes() {
        for thread in process.threads() {
            for (sum, (_, _, of_thread)) in sums.iter_mut().zip(stats::NAMES) {
                *sum += of_thread(&thread.rseq.counts);
            }
        }
    }
    for (sum, (name, ..)) in sums.iter().zip(stats::NAMES) {
        let _ = writeln!(out, "{name:<8}{sum:16}");
    }
    Ok(())
}

fn set_length(bytes: &[u8]) -> Result<(), Errno> {
    let length: u32 = pseudo::parse(bytes)?;
    if !(LENGTH_NS.0..=LENGTH_NS.1).contains(&length) {
        return Err(Errno::new(34));
    }
    slice::LENGTH.store(length, Relaxed);
    Ok(())
}

/// Reads the command line and makes the files.
pub fn init() {
    slice::init();
    for (option, bit) in [("rseq_debug", DEBUG), ("rseq_stats", COUNT)] {
        if crate::boot::cmdline::value(option).and_then(switch) == Some(true) {
            set_watch(bit, true);
        }
    }
    debugfs::TREE.add("rseq/stats", Node::setting(show_stats, store(COUNT)));
    let debug = |out: &mut Text| {
        let on = if watch() & DEBUG != 0 { "Y" } else { "N" };
        let _ = writeln!(out, "{on}");
        Ok(())
    };
    debugfs::TREE.add("rseq/debug", Node::setting(debug, store(DEBUG)));
    let length = |out: &mut Text| {
        let _ = writeln!(out, "{}", slice::LENGTH.load(Relaxed));
        Ok(())
    };
    debugfs::TREE.add("rseq/slice_ext_nsec", Node::setting(length, set_length));
}

/// `/proc/<pid>/rseq`: what `task` has, and what was done for its process, ended threads included; of a thread (`only`) what was done for it.
pub fn show(
    process: &Arc<Process>,
    task: Option<&Arc<Task>>,
    only: bool,
    out: &mut Text,
) -> Result<(), Errno> {
    let area = task.and_then(|task| task.rseq.area());
    match area {
        None => {
            let _ = writeln!(out, "version:     none");
        }
        Some(area) => {
            let version = match area.mode() {
                limen_rseq::Mode::Legacy => "legacy",
                limen_rseq::Mode::Optimised => "optimised",
            };
            let _ = writeln!(
                out,
                "version:     {version}\naddress:     {:#x}\nlength:      {}\nsignature:   {:#010x}",
                area.at, area.len, area.signature
            );
        }
    }
    let mut sum = stats::Sums::default();
    if only {
        if let Some(task) = task {
            sum.add(&task.rseq.counts);
        }
    } else {
        sum.add(&process.rseq);
        for thread in process.threads() {
            sum.add(&thread.rseq.counts);
        }
    }
    let [preempted, migrated, signal, membarrier] = sum.aborts;
    let _ = writeln!(
        out,
        "ids:         {}\npreemption:  {preempted}\nmigration:   {migrated}\nsignal:      {signal}\nmembarrier:  {membarrier}\ngrants:      {}",
        sum.ids, sum.grants
    );
    Ok(())
}
