//! `/sys/kernel/debug/rcu`: what grace periods did since boot.

use super::pseudo::{Node, Text};
use crate::rcu;
use core::fmt::Write;
use limen_linux_abi::Errno;

fn show(out: &mut Text) -> Result<(), Errno> {
    let stats = rcu::stats();
    let mean = stats.total_ns.checked_div(stats.periods).unwrap_or(0);
    let rows = [
        ("grace_periods", stats.periods),
        ("mean_us", mean / 1000),
        ("longest_us", stats.longest_ns / 1000),
        ("asked", stats.asked),
        ("callbacks_run", stats.ran),
        ("callbacks_waiting", stats.waiting as u64),
        ("stalls", stats.stalls),
    ];
    for (name, value) in rows {
        let _ = writeln!(out, "{name:<18}{value:16}");
    }
    Ok(())
}

/// `synchronize` and `expedited` wait for a grace period.
fn store(text: &[u8]) -> Result<(), Errno> {
    match text.trim_ascii() {
        b"synchronize" => rcu::synchronize(),
        b"expedited" => rcu::synchronize_expedited(),
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}

/// Registers the file in debugfs.
pub fn init() {
    super::debugfs::TREE.add("rcu", Node::setting(show, store));
}
