//! `trace`: the records as text, which stay where they are.

use super::BOTH;
use super::instance::{Row, special};
use crate::fs::file::{File, FileMode, FileOps};
use crate::fs::io::{IoDst, IoSrc};
use crate::fs::long_text::long_file;
use crate::fs::pseudo::{Node, Text};
use crate::sync::Mutex;
use crate::tracing::buffer::Buffer;
use crate::tracing::read::{self, Only, Walk};
use crate::tracing::tracers::Look;
use crate::tracing::{Instance, Names, Use};
use alloc::sync::Arc;
use limen_linux_abi::{Errno, SysResult, raw::general as abi};
use limen_trace_text::head::Head;
use limen_trace_text::line::{self, Style};
use limen_trace_text::{Entry, Options};

pub const ROWS: &[Row] = &[Row {
    name: "trace",
    only_top: false,
    node: |instance| file(instance, None),
}];

/// `trace` of all CPUs, or one.
pub fn file(instance: &Arc<Instance>, only: Only) -> Node {
    special(BOTH, instance, move |used, flags| {
        if flags & abi::O_TRUNC != 0 && flags & abi::O_ACCMODE != abi::O_RDONLY {
            used.clear(only)?;
        }
        let reads = flags & abi::O_ACCMODE != abi::O_WRONLY;
        let pauses = reads && used.options().contains(Options::PAUSE_ON_TRACE);
        if pauses {
            used.pause();
        }
        let used = Arc::new(used);
        Ok(Arc::new(TraceFile {
            text: text(used.clone(), false, only),
            used,
            pauses,
        }))
    })
}

/// An open `trace`.
struct TraceFile {
    text: Arc<dyn FileOps>,
    used: Arc<Use>,
    /// Recording is off as long as it is open.
    pauses: bool,
}

impl FileOps for TraceFile {
    fn mode(&self) -> FileMode {
        FileMode::SENDS
    }
    fn read(&self, file: &File, dst: &mut IoDst<'_>, pos: Option<u64>) -> SysResult {
        self.text.read(file, dst, pos)
    }
    /// Emptying it is all that writing does, and opening has done that.
    fn write(&self, _: &File, src: &mut IoSrc<'_>, _: Option<u64>) -> SysResult {
        Ok(src.discard())
    }
    fn seek(&self, file: &File, offset: i64, whence: u32) -> Result<u64, Errno> {
        self.text.seek(file, offset, whence)
    }
    fn release(&self, _: &File) {
        if self.pauses {
            self.used.go_on();
        }
    }
}

/// Where a reader is.
struct Progress {
    walk: Walk,
    /// Whether lines say where CPUs' buffers begin, and those of which it is known.
    annotates: bool,
    started: u64,
    /// The first record's time.
    start: u64,
    graph: limen_trace_text::graph::Graph,
}

/// What it reads: the buffer, or the snapshot's.
pub fn buffer(instance: &Instance, snapshot: bool) -> &Buffer {
    if snapshot { &instance.spare } else { &instance.main }
}

/// The text of a buffer: the lines in front, then those of each record.
pub fn text(used: Arc<Use>, snapshot: bool, only: Only) -> Arc<dyn FileOps> {
    let progress = Mutex::new(None);
    long_file(move |place, out| {
        let mut progress = progress.lock();
        if place == 0 {
            *progress = Some(begin(&used, snapshot, only, out)?);
            return Ok(Some(1));
        }
        let Some(progress) = progress.as_mut() else {
            return Ok(None);
        };
        Ok(one(&used, buffer(&used, snapshot), progress, out)?.map(|()| place + 1))
    })
}

fn begin(instance: &Instance, snapshot: bool, only: Only, out: &mut Text) -> Result<Progress, Errno> {
    let buffer = buffer(instance, snapshot);
    let (options, tracer) = (instance.options(), instance.tracer());
    let (entries, written) = read::counts(buffer, only);
    let head = Head {
        tracer: tracer.name(),
        entries,
        written,
        cpus: crate::sched::online().count(),
    };
    let graph = limen_trace_text::graph::Graph::new(instance.graph_options());
    let walk = Walk::new(buffer, only)?;
    let _ = head.tracer(out);
    if snapshot && entries == 0 {
        super::snapshot::help(instance, only, out);
    } else if tracer.look() == Look::Graph {
        let _ = graph.columns(options, out);
    } else {
        let _ = head.columns(options, out);
    }
    Ok(Progress {
        walk,
        annotates: options.contains(Options::ANNOTATE) && entries != written,
        started: 0,
        start: read::oldest(buffer, only),
        graph,
    })
}

/// The lines of the next record.
fn one(
    instance: &Instance,
    buffer: &Buffer,
    progress: &mut Progress,
    out: &mut Text,
) -> Result<Option<()>, Errno> {
    let looks = instance.tracer().look();
    let Progress {
        walk,
        annotates,
        started,
        start,
        graph,
    } = progress;
    let mut style = style(instance, *start);
    walk.next(buffer, |step| {
        let cpu = step.entry.cpu;
        let _ = line::lost(cpu, step.lost, out);
        if *annotates && *started >> cpu & 1 == 0 {
            *started |= 1 << cpu;
            if step.before != 0 {
                let _ = line::started(cpu, out);
            }
        }
        style.next = step.next;
        if looks == Look::Graph {
            let both = graph.line(&step.entry, step.same_cpu.as_ref(), &style, out);
            return both.unwrap_or(false);
        }
        let _ = line::line(&step.entry, &style, out);
        false
    })
}

/// How an instance's lines look.
pub fn style(instance: &Instance, start: u64) -> Style<'static> {
    Style {
        world: &Names,
        options: instance.options(),
        time: instance.clock().style(),
        start,
        next: None,
    }
}

/// The line of a record that is consumed.
pub fn consumed(instance: &Instance, entry: &Entry<'_>, lost: u64, out: &mut Text) {
    let _ = line::lost(entry.cpu, lost, out);
    let _ = line::line(entry, &style(instance, 0), out);
}
