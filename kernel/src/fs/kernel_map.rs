//! `/sys/kernel/debug/kernel_page_tables`: the leaves of the kernel's map. `/sys/kernel/debug/check_wx_pages`:
//! whether any of them can be written and executed.

use super::debugfs::TREE;
use super::pseudo::{Node, Text};
use crate::mm::kernel_map;
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

/// Registers the files in debugfs.
pub fn init() {
    TREE.add("kernel_page_tables", Node::private(show));
    TREE.add("check_wx_pages", Node::private(check));
}
