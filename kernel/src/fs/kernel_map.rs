//! `/sys/kernel/debug/kernel_page_tables`: the leaves of the kernel's map.
//! `/sys/kernel/debug/check_wx_pages`: whether any of them can be written and executed.
//! `/sys/kernel/debug/kernel_map`: how the map may change, how many tables and leaves it has, and for whom
//! blocks were split.

use super::debugfs::TREE;
use super::pseudo::{Node, Text};
use crate::mm::{kernel_map, linear};
use core::fmt::Write;
use limen_linux_abi::Errno;

fn show(out: &mut Text) -> Result<(), Errno> {
    kernel_map::show(out);
    Ok(())
}

fn check(out: &mut Text) -> Result<(), Errno> {
    let verdict = if kernel_map::check() { "SUCCESS" } else { "FAILED" };
    let _ = writeln!(out, "{verdict}");
    Ok(())
}

fn figures(out: &mut Text) -> Result<(), Errno> {
    let _ = writeln!(out, "sizes {}", linear::sizes());
    let _ = writeln!(out, "tables {}", linear::tables());
    let _ = writeln!(out, "linear_tables {}", linear::linear_tables());
    let _ = writeln!(out, "reserve {}", linear::in_reserve());
    for (size, kib) in kernel_map::direct() {
        let size = size >> 10;
        let _ = writeln!(out, "leaves {size} {}", kib / size);
    }
    for (reason, splits) in linear::REASONS.iter().zip(linear::splits()) {
        let _ = writeln!(out, "splits {reason} {splits}");
    }
    Ok(())
}

/// Registers the files in debugfs.
pub fn init() {
    TREE.add("kernel_page_tables", Node::private(show));
    TREE.add("kernel_map", Node::private(figures));
    TREE.add("check_wx_pages", Node::private(check));
}
