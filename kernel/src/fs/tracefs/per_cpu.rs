//! `per_cpu/cpuN/`: the files of one CPU's buffer.

use super::instance::{Names, Row, setting, shown};
use super::{BOTH, CHANGES, DIRECTORY, READ, owner, settings, snapshot, trace};
use super::{pipe, raw};
use crate::arch::smp;
use crate::fs::inode::FileType;
use crate::fs::pseudo::{Changes, Directory, Node, Text};
use crate::tracing::Instance;
use crate::tracing::read::with_reader;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;
use limen_linux_abi::Errno;
use limen_trace_text::line::{self, Time};

pub const ROWS: &[Row] = &[Row {
    name: "per_cpu",
    only_top: false,
    node: |instance| Node::Directory(DIRECTORY, Arc::new(Cpus(instance.clone()))),
}];

/// The directory of CPUs.
struct Cpus(Arc<Instance>);

impl Directory for Cpus {
    fn get(&self, name: &[u8]) -> Option<Node> {
        let cpu = (0..smp::count()).find(|cpu| format!("cpu{cpu}").as_bytes() == name)?;
        let files = Names(files(&self.0, cpu), |file| (file.2)(&file.0, file.1));
        Some(Node::Directory(DIRECTORY, Arc::new(files)))
    }
    fn list(&self, pos: u64, add: &mut dyn FnMut(&[u8], FileType, u64) -> bool) {
        for cpu in pos.saturating_sub(2) as usize..smp::count() {
            if !add(
                format!("cpu{cpu}").as_bytes(),
                FileType::Directory,
                cpu as u64 + 3,
            ) {
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

/// A file of a CPU, and how to make it.
type One = (Arc<Instance>, usize, fn(&Arc<Instance>, usize) -> Node);

fn files(instance: &Arc<Instance>, cpu: usize) -> Vec<(&'static str, One)> {
    let all: [(&str, fn(&Arc<Instance>, usize) -> Node); 7] = [
        ("trace_pipe", |instance, cpu| pipe::file(instance, Some(cpu))),
        ("trace", |instance, cpu| trace::file(instance, Some(cpu))),
        ("trace_pipe_raw", |instance, cpu| raw::file(instance, cpu, false)),
        ("stats", |instance, cpu| {
            shown(READ, instance, move |instance, out| stats(instance, cpu, out))
        }),
        ("buffer_size_kb", |instance, cpu| {
            setting(
                BOTH,
                instance,
                move |instance, out| {
                    settings::write_size(out, (instance.size(cpu).0, None));
                    Ok(())
                },
                move |instance, bytes| settings::store_size(instance, Some(cpu), bytes),
            )
        }),
        ("snapshot", |instance, cpu| snapshot::file(instance, Some(cpu))),
        ("snapshot_raw", |instance, cpu| raw::file(instance, cpu, true)),
    ];
    all.map(|(name, make)| (name, (instance.clone(), cpu, make)))
        .into()
}

fn stats(instance: &Arc<Instance>, cpu: usize, out: &mut Text) -> Result<(), Errno> {
    let stats = with_reader(&instance.main, cpu, |reader| reader.stats()).unwrap_or_default();
    let style = instance.clock().style();
    let _ = writeln!(out, "entries: {}", stats.entries);
    let _ = writeln!(out, "overrun: {}", stats.overrun);
    let _ = writeln!(out, "commit overrun: {}", stats.commit_overrun);
    let _ = writeln!(out, "bytes: {}", stats.bytes);
    let clock = instance.clock();
    for (name, time) in [
        ("oldest event ts", stats.oldest.unwrap_or(0)),
        ("now ts", clock.now()),
    ] {
        let _ = write!(out, "{name}:");
        let _ = match style {
            Time::Nanoseconds => line::time(time, style, out),
            Time::Count => write!(out, " {time}"),
        };
        out.add("\n");
    }
    let _ = writeln!(out, "dropped events: {}", stats.dropped);
    let _ = writeln!(out, "read events: {}", stats.read);
    Ok(())
}
