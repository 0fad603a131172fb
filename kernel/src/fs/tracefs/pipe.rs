//! `trace_pipe`: the records as text, each of which is read once. A read waits until there are some.

use super::READ;
use super::instance::{Row, special};
use super::trace::{consumed, style};
use crate::fs::file::{File, FileMode, FileOps};
use crate::fs::io::IoDst;
use crate::fs::poll::{PollEvents, PollTable};
use crate::fs::pseudo::{Node, Text};
use crate::mm::PAGE_SIZE;
use crate::sync::Mutex;
use crate::tracing::read::{self, Only};
use crate::tracing::tracers::Look;
use crate::tracing::{Instance, Use};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use limen_linux_abi::{Errno, SysResult};
use limen_trace_text::graph::Graph;
use limen_trace_text::line;

pub const ROWS: &[Row] = &[Row {
    name: "trace_pipe",
    only_top: false,
    node: |instance| file(instance, None),
}];

/// `trace_pipe` of all CPUs, or one. Opening gives `EBUSY` if it is open already, or one for a part of it.
pub fn file(instance: &Arc<Instance>, only: Only) -> Node {
    special(READ, instance, move |used, _| {
        let bits = only.map_or(u64::MAX, |cpu| 1 << cpu);
        {
            let mut pipes = used.pipes.lock();
            if *pipes & bits != 0 {
                return Err(Errno::EBUSY);
            }
            *pipes |= bits;
        }
        let graph = Graph::new(used.graph_options());
        Ok(Arc::new(Pipe {
            used,
            only,
            bits,
            has_read: AtomicBool::new(false),
            rest: Mutex::new(Rest {
                text: Vec::new(),
                at: 0,
                graph,
                room: Vec::new(),
            }),
        }))
    })
}

/// Text that was not asked for yet, and what the next line depends on.
struct Rest {
    text: Vec<u8>,
    at: usize,
    graph: Graph,
    room: Vec<u8>,
}

/// An open `trace_pipe`.
struct Pipe {
    used: Use,
    only: Only,
    bits: u64,
    /// Whether anything was read: only then does it end when recording is turned off.
    has_read: AtomicBool,
    rest: Mutex<Rest>,
}

impl Pipe {
    /// Makes text of what there is, about a page or `most` bytes of it. `false`: there is nothing.
    fn fill(&self, rest: &mut Rest, most: usize) -> Result<bool, Errno> {
        let mut text = Text::default();
        let enough = most.min(PAGE_SIZE);
        let graph = self.used.tracer().look() == Look::Graph;
        while text.len() < enough {
            if graph {
                let (room, graph) = (&mut rest.room, &mut rest.graph);
                let taken = read::consume_pair(&self.used.main, self.only, room, |entry, lost, next| {
                    let _ = line::lost(entry.cpu, lost, &mut text);
                    let both = graph.line(entry, next, &style(&self.used, 0), &mut text);
                    both.unwrap_or(false)
                });
                if taken?.is_none() {
                    break;
                }
                continue;
            }
            let before = text.len();
            let taken = read::consume(&self.used.main, self.only, |entry, lost| {
                consumed(&self.used, entry, lost, &mut text);
                // A later one is for the next read, if this does not fit.
                let take = before == 0 || text.len() <= enough;
                if !take {
                    text.truncate(before);
                }
                take
            });
            if taken != Some(true) {
                break;
            }
        }
        let any = text.len() != 0;
        (rest.text, rest.at) = (text.whole()?, 0);
        Ok(any)
    }

    fn give(&self, dst: &mut IoDst<'_>, wait: bool) -> SysResult {
        if dst.remaining() == 0 {
            return Ok(0);
        }
        loop {
            let sleeper = self.used.waiting.begin();
            {
                let mut rest = self.rest.lock();
                if rest.at < rest.text.len() || self.fill(&mut rest, dst.remaining())? {
                    let n = dst.put(&rest.text[rest.at..])?;
                    rest.at += n;
                    self.has_read.store(true, Relaxed);
                    return Ok(n);
                }
            }
            if !wait {
                return Err(Errno::EAGAIN);
            }
            if self.has_read.load(Relaxed) && !self.used.is_on() {
                return Ok(0);
            }
            sleeper.sleep()?;
        }
    }
}

impl FileOps for Pipe {
    fn mode(&self) -> FileMode {
        FileMode::STREAM | FileMode::NO_PREAD | FileMode::POLLS | FileMode::SENDS
    }
    fn read(&self, file: &File, dst: &mut IoDst<'_>, _: Option<u64>) -> SysResult {
        self.give(dst, !file.nonblocking())
    }
    fn splice_read(&self, file: &File, dst: &mut IoDst<'_>, _: Option<u64>, wait: bool) -> SysResult {
        self.give(dst, wait && !file.nonblocking())
    }
    fn poll(&self, _: &File, table: Option<&mut PollTable<'_>>) -> PollEvents {
        poll(&self.used, self.only, table)
    }
    fn release(&self, _: &File) {
        *self.used.pipes.lock() &= !self.bits;
    }
}

/// Whether there are records to be consumed.
pub fn poll(instance: &Instance, only: Only, table: Option<&mut PollTable<'_>>) -> PollEvents {
    if let Some(table) = table {
        table.register(&instance.waiting.queue);
        instance.waiting.watch();
    }
    if read::is_empty(&instance.main, only) {
        PollEvents::empty()
    } else {
        PollEvents::READABLE
    }
}
