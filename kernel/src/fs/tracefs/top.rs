//! Files that are not about an instance: threads' names, the help.

use super::instance::{Row, number, setting, shown};
use super::{BOTH, READ};
use crate::fs::pseudo::Text;
use crate::tracing::{Instance, names, printk};
use alloc::sync::Arc;
use core::fmt::Write;
use limen_linux_abi::Errno;

pub const ROWS: &[Row] = &[
    Row {
        name: "README",
        only_top: true,
        node: |instance| shown(READ, instance, readme),
    },
    Row {
        name: "saved_cmdlines",
        only_top: true,
        node: |instance| shown(READ, instance, show_names),
    },
    Row {
        name: "saved_cmdlines_size",
        only_top: true,
        node: |instance| setting(BOTH, instance, show_most, store_most),
    },
    Row {
        name: "saved_tgids",
        only_top: true,
        node: |instance| shown(READ, instance, show_tgids),
    },
    Row {
        name: "printk_formats",
        only_top: true,
        node: |instance| shown(READ, instance, show_texts),
    },
];

fn show_names(_: &Arc<Instance>, out: &mut Text) -> Result<(), Errno> {
    names::each(|pid, _, comm| {
        let _ = write!(out, "{pid} ");
        out.add(comm.split(|byte| *byte == 0).next().unwrap_or_default());
        out.add("\n");
    });
    Ok(())
}

fn show_tgids(_: &Arc<Instance>, out: &mut Text) -> Result<(), Errno> {
    names::each(|pid, tgid, _| {
        let _ = writeln!(out, "{pid} {tgid}");
    });
    Ok(())
}

/// Texts to which records refer, by address; as strings of C's, for tools.
fn show_texts(_: &Arc<Instance>, out: &mut Text) -> Result<(), Errno> {
    printk::each(|address, text| {
        let _ = write!(out, "{address:#x} : \"");
        for byte in text {
            match byte {
                b'\n' => out.add("\\n"),
                b'\t' => out.add("\\t"),
                b'"' | b'\\' => out.add([b'\\', *byte]),
                byte => out.add([*byte]),
            }
        }
        out.add("\"\n");
    });
    Ok(())
}

fn show_most(_: &Arc<Instance>, out: &mut Text) -> Result<(), Errno> {
    let _ = writeln!(out, "{}", names::most());
    Ok(())
}

fn store_most(_: &Arc<Instance>, bytes: &[u8]) -> Result<(), Errno> {
    names::set_most(number(bytes)?.try_into().map_err(|_| Errno::EINVAL)?)
}

fn readme(_: &Arc<Instance>, out: &mut Text) -> Result<(), Errno> {
    out.add(README);
    Ok(())
}

const README: &str = "\
The trace of this kernel.

Reading
  trace\t\t\t- what was recorded; it stays there. Any write empties it
  trace_pipe\t\t- what was recorded; read once, and waited for
  per_cpu/cpuN/\t\t- the same of one CPU
  per_cpu/cpuN/trace_pipe_raw\t- pages as they are in the buffer (see events/header_page)
  per_cpu/cpuN/stats\t- counts

Recording
  tracing_on\t\t- 0: nothing is recorded
  current_tracer\t- one of available_tracers
  tracing_cpumask\t- which CPUs record
  trace_marker\t\t- what is written there is recorded
  trace_marker_raw\t- as trace_marker: a number (4 bytes), then any bytes
  trace_clock\t\t- which clock times are of
  trace_options, options/\t- how records are made and shown; \"no\" in front turns an option off

Buffers
  buffer_size_kb\t- kB for each CPU
  buffer_total_size_kb\t- kB in all
  buffer_subbuf_size_kb\t- kB of a page of the buffer
  buffer_percent\t- how full a buffer must be for who waits for many pages
  free_buffer\t\t- when it is closed the buffers are freed
  snapshot\t\t- 1: what is in the buffers goes there, 0: its memory is freed
  instances/\t\t- mkdir makes another trace, with buffers of its own

Threads
  saved_cmdlines, saved_tgids\t- names and processes of threads that were recorded
  saved_cmdlines_size\t- of how many threads that have ended
";
