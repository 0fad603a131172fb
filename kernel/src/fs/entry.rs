//! `/sys/kernel/debug/entry`: counters of the threshold between user and kernel, on all processors the same.

use super::debugfs::TREE;
use super::pseudo::{self, Node, Text};
use crate::check;
use crate::jump_label;
use crate::mm::PAGE_SIZE;
use crate::mm::user::read_bytes;
use crate::sched::{self, crossings};
use core::fmt::Write;
use limen_entry::Crossing;
use limen_linux_abi::Errno;

/// A line for each counter: its name, the sum, and what each CPU counted.
fn show(out: &mut Text) -> Result<(), Errno> {
    let cpus = || sched::online().iter().filter_map(sched::cpu);
    let _ = write!(out, "{:<15}{:>16}", "", "sum");
    for cpu in cpus() {
        let _ = write!(out, "{:>13}{:<3}", "cpu", cpu.id);
    }
    let _ = writeln!(out);
    for (name, what) in crossings::NAMES {
        let sum = cpus()
            .map(|cpu| cpu.crossings.get(what))
            .fold(0, u64::wrapping_add);
        let _ = write!(out, "{name:<15}{sum:16}");
        for cpu in cpus() {
            let _ = write!(out, "{:16}", cpu.crossings.get(what));
        }
        let _ = writeln!(out);
    }
    Ok(())
}

fn show_enable(out: &mut Text) -> Result<(), Errno> {
    let _ = writeln!(
        out,
        "{}",
        u8::from(jump_label::is_turned_on(crossings::KEY as usize))
    );
    Ok(())
}

/// `1`: from the end of the call on all is counted; `0`: nothing is. `EINVAL`, `ENOMEM`. May sleep.
fn enable(text: &[u8]) -> Result<(), Errno> {
    let key = crossings::KEY as usize;
    let on = match pseudo::parse::<u8>(text)? {
        0 => false,
        1 => true,
        _ => return Err(Errno::EINVAL),
    };
    match on {
        true => jump_label::enable(key)?,
        false => jump_label::disable(key),
    }
    Ok(())
}

/// Registers the files in debugfs.
pub fn init() {
    TREE.add("entry/stats", Node::text(show));
    TREE.add("entry/enable", Node::setting(show_enable, enable));
}

/// The room's test: all CPUs count while that is on, and none does while it is off.
pub(super) fn counts_exactly() -> Result<(), &'static str> {
    const TIMES: u64 = 1000;
    let key = crossings::KEY as usize;
    let sum = |what| {
        let counts = sched::online().iter().filter_map(sched::cpu);
        counts.map(|cpu| cpu.crossings.get(what)).sum::<u64>()
    };
    // No call is restarted before there are programs: this counter is the test's alone.
    let count = || {
        sched::on_each_cpu(sched::online(), &|| {
            (0..TIMES).for_each(|_| crossings::count::<{ Crossing::Restart as usize }>());
        });
    };
    let was = jump_label::is_turned_on(key);
    jump_label::disable(key);
    let before = sum(Crossing::Restart);
    count();
    check!(sum(Crossing::Restart) == before && !jump_label::is_turned_on(key));
    check!(jump_label::enable(key).is_ok() && jump_label::is_turned_on(key));
    let (windows, faults) = (sum(Crossing::Window), sum(Crossing::KernelFault));
    count();
    check!(sum(Crossing::Restart) == before + TIMES * sched::online().iter().count() as u64);
    check!(sum(Crossing::Window) == windows);
    // A thread of the kernel has no memory of a program: the window is opened in vain.
    let mut bytes = [0; 64];
    check!(read_bytes(&mut bytes, PAGE_SIZE) == Err(Errno::EFAULT));
    check!(sum(Crossing::Window) == windows + 1 && sum(Crossing::KernelFault) > faults);
    if !was {
        jump_label::disable(key);
    }
    Ok(())
}
