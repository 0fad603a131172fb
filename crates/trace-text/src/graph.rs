//! The text of `function_graph`: calls and returns, nested, with durations.

use crate::entry::{GraphEntry, GraphReturn};
use crate::line::{self, Style};
use crate::{Entry, Form, Kind, World, latency, symbol_in};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use bitflags::bitflags;
use core::fmt::{self, Write};

bitflags! {
    /// The tracer's own options.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct GraphOptions: u32 {
        /// How many calls were too deep.
        const OVERRUN = 1;
        /// The CPU.
        const CPU = 2;
        /// Marks for long durations.
        const OVERHEAD = 4;
        /// The thread.
        const PROC = 8;
        /// How long a call took.
        const DURATION = 16;
        /// When it was.
        const ABS_TIME = 32;
        /// The function's name at its end, too.
        const TAIL = 64;
        /// What it returned.
        const RETVAL = 128;
        /// What it returned, always hexadecimal.
        const RETVAL_HEX = 256;
        /// Calls in interrupts.
        const IRQS = 512;
    }
}

/// Their names.
pub const NAMES: [(&str, GraphOptions); 10] = [
    ("funcgraph-overrun", GraphOptions::OVERRUN),
    ("funcgraph-cpu", GraphOptions::CPU),
    ("funcgraph-overhead", GraphOptions::OVERHEAD),
    ("funcgraph-proc", GraphOptions::PROC),
    ("funcgraph-duration", GraphOptions::DURATION),
    ("funcgraph-abstime", GraphOptions::ABS_TIME),
    ("funcgraph-irqs", GraphOptions::IRQS),
    ("funcgraph-tail", GraphOptions::TAIL),
    ("funcgraph-retval", GraphOptions::RETVAL),
    ("funcgraph-retval-hex", GraphOptions::RETVAL_HEX),
];

impl GraphOptions {
    /// What is on at first.
    pub const DEFAULT: Self = Self::CPU
        .union(Self::OVERHEAD)
        .union(Self::DURATION)
        .union(Self::IRQS);
}

/// Calls this deep are remembered until their return.
const DEPTH: usize = 50;
/// Columns of a thread.
const PROC: usize = 14;

/// What is known of a CPU.
struct OfCpu {
    pid: Option<i32>,
    depth: i32,
    entered: [u64; DEPTH],
}

/// The state of a text: what was written last of each CPU.
pub struct Graph {
    options: GraphOptions,
    cpus: BTreeMap<usize, Box<OfCpu>>,
}

impl Graph {
    /// Nothing was written.
    pub fn new(options: GraphOptions) -> Self {
        Self {
            options,
            cpus: BTreeMap::new(),
        }
    }

    fn has(&self, option: GraphOptions) -> bool {
        self.options.contains(option)
    }

    /// The lines in front.
    pub fn columns(&self, options: crate::Options, out: &mut dyn Write) -> fmt::Result {
        if !options.contains(crate::Options::CONTEXT_INFO) {
            return Ok(());
        }
        for (abs, cpu, proc, duration, calls) in [
            (
                "     TIME       ",
                " CPU",
                "  TASK/PID       ",
                "  DURATION   ",
                "               FUNCTION CALLS\n",
            ),
            (
                "      |         ",
                " |  ",
                "   |    |        ",
                "   |   |      ",
                "               |   |   |   |\n",
            ),
        ] {
            out.write_char('#')?;
            for (option, text) in [
                (GraphOptions::ABS_TIME, abs),
                (GraphOptions::CPU, cpu),
                (GraphOptions::PROC, proc),
                (GraphOptions::DURATION, duration),
            ] {
                if self.has(option) {
                    out.write_str(text)?;
                }
            }
            out.write_str(calls)?;
        }
        Ok(())
    }

    /// The lines of a record. `next`: the one behind it on its CPU, if there is one. `true`: that was
    /// included, since a function returned that called none.
    pub fn line(
        &mut self,
        entry: &Entry<'_>,
        next: Option<&Entry<'_>>,
        style: &Style<'_>,
        out: &mut dyn Write,
    ) -> Result<bool, fmt::Error> {
        if let Some(call) = entry.graph_entry() {
            let leaf = next.filter(|next| next.common.pid == entry.common.pid);
            let leaf = leaf
                .and_then(Entry::graph_return)
                .filter(|end| end.func == call.func);
            self.front(entry, style, out)?;
            match leaf {
                Some(end) => self.leaf(entry.cpu, &call, &end, style, out)?,
                None => self.begin(entry.cpu, &call, style, out)?,
            }
            return Ok(leaf.is_some());
        }
        if let Some(end) = entry.graph_return() {
            self.front(entry, style, out)?;
            self.end(entry.cpu, &end, style, out)?;
            return Ok(false);
        }
        match entry.common.kind {
            Kind::FUNCTION | Kind::STACK => line::line(entry, style, out)?,
            _ => self.comment(entry, style, out)?,
        }
        Ok(false)
    }

    fn of(&mut self, cpu: usize) -> &mut OfCpu {
        self.cpus.entry(cpu).or_insert_with(|| {
            Box::new(OfCpu {
                pid: None,
                depth: 0,
                entered: [0; DEPTH],
            })
        })
    }

    /// The columns in front, and lines about another thread than before.
    fn front(&mut self, entry: &Entry<'_>, style: &Style<'_>, out: &mut dyn Write) -> fmt::Result {
        let (cpu, pid) = (entry.cpu, entry.common.pid);
        let former = self.of(cpu).pid.replace(pid);
        if let Some(former) = former.filter(|former| *former != pid) {
            out.write_str(" ------------------------------------------\n")?;
            write!(out, " {cpu}) ")?;
            thread(style.world, former, out)?;
            out.write_str(" => ")?;
            thread(style.world, pid, out)?;
            out.write_str("\n ------------------------------------------\n\n")?;
        }
        if !style.options.contains(crate::Options::CONTEXT_INFO) {
            return Ok(());
        }
        if self.has(GraphOptions::ABS_TIME) {
            line::time(entry.time, style.time, out)?;
            out.write_str(" |  ")?;
        }
        if self.has(GraphOptions::CPU) {
            write!(out, " {cpu}) ")?;
        }
        if self.has(GraphOptions::PROC) {
            thread(style.world, pid, out)?;
            out.write_str(" | ")?;
        }
        if style.options.contains(crate::Options::LATENCY_FMT) {
            for column in line::state(&entry.common) {
                out.write_char(column)?;
            }
            out.write_char(' ')?;
        }
        Ok(())
    }

    /// The column of durations. `None`: there is none.
    fn duration(&self, time: Option<u64>, style: &Style<'_>, out: &mut dyn Write) -> fmt::Result {
        let shown = style.options.contains(crate::Options::CONTEXT_INFO) && self.has(GraphOptions::DURATION);
        let Some(time) = time.filter(|_| shown) else {
            return if shown {
                out.write_str("              |  ")
            } else {
                Ok(())
            };
        };
        let mark = if self.has(GraphOptions::OVERHEAD) {
            latency::mark(time.div_ceil(1000))
        } else {
            ' '
        };
        write!(out, "{mark} ")?;
        let (usecs, nsecs) = (time / 1000, time % 1000);
        let digits = usecs.checked_ilog10().unwrap_or(0) as usize + 1;
        let mut len = digits;
        if digits < 7 {
            let shown = 3.min(7 - digits);
            let [hundreds, tens, ones] = [nsecs / 100, nsecs / 10 % 10, nsecs % 10];
            write!(out, "{usecs}.")?;
            for digit in [hundreds, tens, ones].iter().take(shown) {
                write!(out, "{digit}")?;
            }
            len += shown + 1;
        } else {
            write!(out, "{usecs}")?;
        }
        write!(out, " us {:space$}|  ", "", space = 8usize.saturating_sub(len))
    }

    fn leaf(
        &mut self,
        cpu: usize,
        call: &GraphEntry,
        end: &GraphReturn,
        style: &Style<'_>,
        out: &mut dyn Write,
    ) -> fmt::Result {
        let of = self.of(cpu);
        of.depth = call.depth - 1;
        if let Some(entered) = of.entered.get_mut(call.depth as usize) {
            *entered = 0;
        }
        self.duration(Some(end.return_time.wrapping_sub(end.call_time)), style, out)?;
        indent(call.depth, out)?;
        symbol_in(Form::Module, style.world, style.options, call.func, out)?;
        out.write_str("();")?;
        if self.returns() {
            out.write_str(" /*")?;
            self.returned(end, out)?;
            out.write_str(" */")?;
        }
        out.write_char('\n')
    }

    fn begin(
        &mut self,
        cpu: usize,
        call: &GraphEntry,
        style: &Style<'_>,
        out: &mut dyn Write,
    ) -> fmt::Result {
        let of = self.of(cpu);
        of.depth = call.depth;
        if let Some(entered) = of.entered.get_mut(call.depth as usize) {
            *entered = call.func;
        }
        self.duration(None, style, out)?;
        indent(call.depth, out)?;
        symbol_in(Form::Module, style.world, style.options, call.func, out)?;
        out.write_str("() {\n")
    }

    fn end(&mut self, cpu: usize, end: &GraphReturn, style: &Style<'_>, out: &mut dyn Write) -> fmt::Result {
        let of = self.of(cpu);
        of.depth = end.depth - 1;
        // If the call was lost, the name says what ends here.
        let entered = of.entered.get_mut(end.depth as usize).map(core::mem::take);
        let names = self.has(GraphOptions::TAIL) || entered.is_some_and(|func| func != end.func);
        self.duration(Some(end.return_time.wrapping_sub(end.call_time)), style, out)?;
        indent(end.depth, out)?;
        out.write_char('}')?;
        if names || self.returns() {
            out.write_str(" /*")?;
            if names {
                out.write_char(' ')?;
                symbol_in(Form::Module, style.world, style.options, end.func, out)?;
            }
            self.returned(end, out)?;
            out.write_str(" */")?;
        }
        out.write_char('\n')?;
        if self.has(GraphOptions::OVERRUN) {
            writeln!(out, " (Overruns: {})", end.overrun)?;
        }
        Ok(())
    }

    /// Whether results are shown.
    fn returns(&self) -> bool {
        self.has(GraphOptions::RETVAL)
    }

    /// A result: an error as a negative number.
    fn returned(&self, end: &GraphReturn, out: &mut dyn Write) -> fmt::Result {
        if !self.returns() {
            return Ok(());
        }
        let value = end.retval;
        // An `int` leaves the upper half of a long register 0.
        let wide = value as usize as isize as i64;
        let narrow = if value >> 32 == 0 { value as u32 as i32 } else { 0 };
        let error = match (wide, narrow) {
            _ if self.has(GraphOptions::RETVAL_HEX) => None,
            (-4095..=-1, _) => Some(wide),
            (_, -4095..=-1) => Some(i64::from(narrow)),
            _ => None,
        };
        match error {
            Some(error) => write!(out, " ret={error}"),
            None => write!(out, " ret=0x{value:x}"),
        }
    }

    /// A record that is neither call nor return.
    fn comment(&mut self, entry: &Entry<'_>, style: &Style<'_>, out: &mut dyn Write) -> fmt::Result {
        self.front(entry, style, out)?;
        self.duration(None, style, out)?;
        let depth = self.of(entry.cpu).depth;
        if depth > 0 {
            indent(depth + 1, out)?;
        }
        let mut text = String::new();
        if line::is_text(entry) {
            line::message(entry, style.world, &mut text)?;
        } else {
            line::body(entry, style, &mut text)?;
        }
        writeln!(out, "/* {} */", text.strip_suffix('\n').unwrap_or(&text))
    }
}

fn indent(depth: i32, out: &mut dyn Write) -> fmt::Result {
    write!(out, "{:width$}", "", width = 2 * depth.clamp(0, 1 << 12) as usize)
}

/// A thread's name, of which seven letters are shown, and its number, in the middle of its column.
fn thread(world: &dyn World, pid: i32, out: &mut dyn Write) -> fmt::Result {
    let mut room = [0; 16];
    let name = line::comm(world, pid, &mut room);
    let end = name.char_indices().nth(7).map_or(name.len(), |(at, _)| at);
    let name = &name[..end];
    let digits = pid.checked_ilog10().unwrap_or(0) as usize + 1;
    let space = PROC.saturating_sub(name.chars().count() + digits + 1);
    let before = space / 2;
    write!(
        out,
        "{:before$}{name}-{pid}{:after$}",
        "",
        "",
        after = space - before
    )
}
