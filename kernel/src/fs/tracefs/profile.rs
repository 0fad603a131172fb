//! `function_profile_enabled`, and `trace_stat/functionN`: how often functions were called on CPU N.

use super::instance::{Row, number, setting, shown};
use super::{BOTH, CHANGES, DIRECTORY, READ, owner};
use crate::arch::smp;
use crate::fs::inode::FileType;
use crate::fs::pseudo::{Changes, Directory, Node, Text};
use crate::ftrace::{names, profile};
use crate::tracing::Instance;
use alloc::format;
use alloc::sync::Arc;
use core::fmt::Write;
use limen_linux_abi::Errno;
use limen_trace_sites::Names;
use limen_trace_sites::profile::Line;

pub const ROWS: &[Row] = &[
    Row {
        name: "function_profile_enabled",
        only_top: true,
        node: |instance| setting(BOTH, instance, show_on, store_on),
    },
    Row {
        name: "trace_stat",
        only_top: true,
        node: |instance| Node::Directory(DIRECTORY, Arc::new(Cpus(instance.clone()))),
    },
];

fn show_on(_: &Arc<Instance>, out: &mut Text) -> Result<(), Errno> {
    let _ = writeln!(out, "{}", u8::from(profile::is_on()));
    Ok(())
}

fn store_on(_: &Arc<Instance>, bytes: &[u8]) -> Result<(), Errno> {
    profile::turn(number(bytes)? != 0)
}

/// `trace_stat`.
struct Cpus(Arc<Instance>);

fn name(cpu: usize) -> alloc::string::String {
    format!("function{cpu}")
}

impl Directory for Cpus {
    fn get(&self, wanted: &[u8]) -> Option<Node> {
        let cpu = (0..smp::count()).find(|cpu| name(*cpu).as_bytes() == wanted)?;
        Some(shown(READ, &self.0, move |_, out| show(cpu, out)))
    }
    fn list(&self, pos: u64, add: &mut dyn FnMut(&[u8], FileType, u64) -> bool) {
        for cpu in pos.saturating_sub(2) as usize..smp::count() {
            if !add(name(cpu).as_bytes(), FileType::Regular, cpu as u64 + 3) {
                return;
            }
        }
    }
    fn owner(&self) -> (u32, u32) {
        owner()
    }
    fn changes(&self) -> Option<&Changes> {
        Some(&CHANGES)
    }
}

fn show(cpu: usize, out: &mut Text) -> Result<(), Errno> {
    let names = names::known()?;
    out.add(profile::BY.header());
    for (site, total) in profile::sorted(cpu)? {
        if let Some(name) = names.name(site) {
            let line = Line {
                function: name.function,
                total,
                by: profile::BY,
            };
            let _ = write!(out, "{line}");
        }
    }
    Ok(())
}
