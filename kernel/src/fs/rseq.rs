//! Files of restartable sequences: `/sys/kernel/debug/rseq`, `/proc/<pid>/rseq`.

use super::pseudo::{self, Node, Text};
use crate::rseq::{COUNT, DEBUG, NAMES, SLICE_LENGTH, Sums, set_watch, switch, watch};
use crate::sched;
use crate::task::{self, Process, Task};
use alloc::sync::Arc;
use core::fmt::Write;
use core::sync::atomic::Ordering::Relaxed;
use limen_linux_abi::Errno;
use limen_rseq::slice::LENGTH_NS;

fn store(bit: u32) -> impl Fn(&[u8]) -> Result<(), Errno> {
    move |bytes| {
        let text = core::str::from_utf8(bytes).map_err(|_| Errno::EINVAL)?;
        set_watch(bit, switch(text).ok_or(Errno::EINVAL)?);
        Ok(())
    }
}

fn show_stats(out: &mut Text) -> Result<(), Errno> {
    let mut sums = [0; NAMES.len()];
    for cpu in sched::online().iter().filter_map(sched::cpu) {
        for (sum, (_, of_cpu, _)) in sums.iter_mut().zip(NAMES) {
            *sum += of_cpu(&cpu.rseq).get();
        }
    }
    for process in task::all_processes() {
        for thread in process.threads() {
            for (sum, (_, _, of_thread)) in sums.iter_mut().zip(NAMES) {
                *sum += of_thread(&thread.rseq.counts);
            }
        }
    }
    for (sum, (name, ..)) in sums.iter().zip(NAMES) {
        let _ = writeln!(out, "{name:<8}{sum:16}");
    }
    Ok(())
}

fn set_length(bytes: &[u8]) -> Result<(), Errno> {
    let length: u32 = pseudo::parse(bytes)?;
    if !(LENGTH_NS.0..=LENGTH_NS.1).contains(&length) {
        return Err(Errno::new(34));
    }
    SLICE_LENGTH.store(length, Relaxed);
    Ok(())
}

/// Registers the files in debugfs.
pub fn init() {
    super::debugfs::TREE.add("rseq/stats", Node::setting(show_stats, store(COUNT)));
    let debug = |out: &mut Text| {
        let on = if watch() & DEBUG != 0 { "Y" } else { "N" };
        let _ = writeln!(out, "{on}");
        Ok(())
    };
    super::debugfs::TREE.add("rseq/debug", Node::setting(debug, store(DEBUG)));
    let length = |out: &mut Text| {
        let _ = writeln!(out, "{}", SLICE_LENGTH.load(Relaxed));
        Ok(())
    };
    super::debugfs::TREE.add("rseq/slice_ext_nsec", Node::setting(length, set_length));
}

/// `/proc/<pid>/rseq`: the area of `task`, and the counters of its process, ended threads included; for a
/// single thread (`only`) its own counters.
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
    let mut sum = Sums::default();
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
        "ids:         {}\npreemption:  {preempted}\nmigration:   {migrated}\nsignal:      \
         {signal}\nmembarrier:  {membarrier}\ngrants:      {}",
        sum.ids, sum.grants
    );
    Ok(())
}
