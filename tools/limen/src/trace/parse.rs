//! Reads the text of a trace: lines of `function`, of events, and of `function_graph` with the options
//! `funcgraph-abstime` and `funcgraph-proc`. What is no such line is counted and left out.

use std::collections::HashMap;

/// A trace.
#[derive(Default, Debug)]
pub struct Trace {
    pub threads: Vec<Thread>,
    /// Calls that returned or were still running at the end, in the order of their returns.
    pub calls: Vec<Call>,
    /// Functions and events at one time, in the order of the lines.
    pub marks: Vec<Mark>,
    /// Lines that were not understood.
    pub unread: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Thread {
    pub number: u64,
    /// The number of its process, where the trace has it.
    pub process: Option<u64>,
    /// Its name; the last one, when it changes.
    pub name: String,
}

/// A call of a function, from `function_graph`. Times are nanoseconds.
#[derive(Debug, PartialEq, Eq)]
pub struct Call {
    /// An index into `threads`.
    pub thread: usize,
    pub cpu: u64,
    pub start: u64,
    pub end: u64,
    pub depth: usize,
    pub name: String,
    /// It had not returned when the trace ended.
    pub open: bool,
}

/// A call of a function without its end, or an event. Times are nanoseconds.
#[derive(Debug, PartialEq, Eq)]
pub struct Mark {
    /// An index into `threads`.
    pub thread: usize,
    pub cpu: u64,
    pub at: u64,
    pub name: String,
    /// The caller of a function, the fields of an event.
    pub detail: String,
    pub event: bool,
}

/// A call that has not returned.
struct Open {
    name: String,
    start: u64,
    cpu: u64,
}

#[derive(Default)]
struct Reader {
    trace: Trace,
    index: HashMap<u64, usize>,
    /// For each thread: its calls, and its last time.
    open: Vec<(Vec<Open>, u64)>,
}

/// The most calls of a thread within each other; Linux keeps 50.
const DEEPEST: usize = 1000;

/// Reads a trace.
pub fn parse(text: &[u8]) -> Trace {
    let mut reader = Reader::default();
    for line in String::from_utf8_lossy(text).lines() {
        if line.starts_with('#') || line.trim().is_empty() {
            continue;
        }
        if reader.graph(line).or_else(|| reader.plain(line)).is_none() && !is_furniture(line) {
            reader.trace.unread += 1;
        }
    }
    reader.finish()
}

/// Lines around the others: changes of threads and marks of interrupts with `function_graph`, stacks, where
/// records of a CPU begin or are lost.
fn is_furniture(line: &str) -> bool {
    let line = line.trim();
    line.starts_with("CPU:")
        || line.starts_with("##### CPU")
        || line.starts_with("-----")
        || line.contains(" => ")
        || line.starts_with("=> ")
        || line.contains("====")
}

/// `123.456789`, or a number alone (a clock that counts), as nanoseconds.
fn time(text: &str) -> Option<u64> {
    let (seconds, part) = match text.split_once('.') {
        Some((seconds, part)) => (seconds, part),
        None => return text.parse().ok(),
    };
    if part.is_empty() || part.len() > 9 || !part.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let part = part.parse::<u64>().ok()? * 10u64.pow(9 - part.len() as u32);
    seconds
        .parse::<u64>()
        .ok()?
        .checked_mul(1_000_000_000)?
        .checked_add(part)
}

/// `NAME-NUMBER`.
fn task(text: &str) -> Option<(&str, u64)> {
    let (name, number) = text.trim().rsplit_once('-')?;
    Some((name, number.parse().ok()?))
}

/// A line of a function or an event. The time is in nanoseconds.
pub struct Line<'a> {
    pub name: &'a str,
    pub number: u64,
    pub process: Option<u64>,
    pub cpu: u64,
    pub at: u64,
    pub what: &'a str,
}

impl<'a> Line<'a> {
    /// `NAME-NUMBER [(PROCESS)] [CPU] FLAGS TIME: WHAT`.
    pub fn read(line: &'a str) -> Option<Self> {
        // The name may have brackets, too.
        for (place, _) in line.match_indices('[') {
            let (cpu, rest) = line[place + 1..].split_once(']').unwrap_or_default();
            let Ok(cpu) = cpu.parse::<u64>() else {
                continue;
            };
            let mut who = line[..place].trim();
            let mut process = None;
            if let Some((front, inner)) = who.strip_suffix(')').and_then(|w| w.rsplit_once('(')) {
                process = inner.trim().parse().ok();
                who = front;
            }
            let Some((name, number)) = task(who) else {
                continue;
            };
            let rest = rest.trim_start();
            let (first, after) = rest.split_once(' ').unwrap_or_default();
            let timed = |word: &str| word.strip_suffix(':').and_then(time);
            let (at, what) = match timed(first) {
                Some(at) => (at, after),
                None => {
                    let (second, after) = after.trim_start().split_once(' ').unwrap_or_default();
                    let Some(at) = timed(second) else {
                        continue;
                    };
                    (at, after)
                }
            };
            return Some(Self {
                name,
                number,
                process,
                cpu,
                at,
                what: what.trim(),
            });
        }
        None
    }
}

/// `sys_NAME(ARGUMENTS)` or `sys_NAME -> RESULT`: the name, and the rest.
fn system_call(what: &str) -> Option<(&str, &str)> {
    let end = what.strip_prefix("sys_")?.find(['(', ' '])? + 4;
    let (name, rest) = what.split_at(end);
    let is_call = rest.ends_with(')') && rest.starts_with('(') || rest.starts_with(" -> 0x");
    is_call.then_some((name, rest))
}

impl Reader {
    /// The index of a thread.
    fn thread(&mut self, name: &str, number: u64, process: Option<u64>) -> usize {
        // The idle threads of all CPUs have the number 0.
        let index = *self.index.entry(number).or_insert_with(|| {
            self.trace.threads.push(Thread {
                number,
                process: None,
                name: String::new(),
            });
            self.open.push((Vec::new(), 0));
            self.trace.threads.len() - 1
        });
        let thread = &mut self.trace.threads[index];
        if thread.name != name && name != "<...>" || thread.name.is_empty() {
            thread.name = name.to_owned();
        }
        thread.process = process.or(thread.process);
        index
    }

    /// A line of a function or an event.
    fn plain(&mut self, line: &str) -> Option<()> {
        let line = Line::read(line)?;
        let thread = self.thread(line.name, line.number, line.process);
        self.mark(thread, line.cpu, line.at, line.what);
        Some(())
    }

    fn mark(&mut self, thread: usize, cpu: u64, at: u64, what: &str) {
        let function = what.split_once(" <-").filter(|(name, _)| !name.contains(": "));
        let event = || system_call(what).or_else(|| what.split_once(": "));
        let (name, detail) = function.or_else(event).unwrap_or((what, ""));
        self.open[thread].1 = self.open[thread].1.max(at);
        self.trace.marks.push(Mark {
            thread,
            cpu,
            at,
            name: name.trim_end_matches(':').to_owned(),
            detail: detail.trim().to_owned(),
            event: function.is_none(),
        });
    }

    /// `TIME | CPU) NAME-NUMBER | DURATION | WHAT`.
    fn graph(&mut self, line: &str) -> Option<()> {
        let mut parts = line.splitn(4, '|');
        let at = time(parts.next()?.trim())?;
        let (cpu, who) = parts.next()?.split_once(')')?;
        let cpu = cpu.trim().parse().ok()?;
        let (name, number) = task(who)?;
        let duration = duration(parts.next()?);
        let what = parts.next()?.trim();
        let thread = self.thread(name, number, None);
        let depth = self.open[thread].0.len();
        self.open[thread].1 = self.open[thread].1.max(at);
        if let Some(event) = what.strip_prefix("/*") {
            self.mark(thread, cpu, at, event.trim_end_matches("*/").trim());
        } else if let Some(rest) = what.strip_prefix('}') {
            let of_line = || {
                rest.trim()
                    .trim_start_matches("/*")
                    .trim_end_matches("*/")
                    .trim()
                    .to_owned()
            };
            let (name, start) = match self.open[thread].0.pop() {
                Some(open) => (open.name, open.start),
                // It was called before the trace began.
                None => (of_line(), at.saturating_sub(duration.unwrap_or(0))),
            };
            let name = if name.is_empty() { "?".to_owned() } else { name };
            self.call(thread, cpu, (start, at), depth.saturating_sub(1), name);
        } else {
            let name = what.split(['(', '{', ';']).next().unwrap_or_default().trim();
            // A name may have braces: `open::{closure#0}() {`.
            let name = match what.rfind("()") {
                Some(end) => what[..end].trim(),
                None => name,
            };
            if name.is_empty() || what.starts_with('=') || what.starts_with('<') && name.contains("==") {
                return None;
            }
            if what.ends_with('{') {
                if depth < DEEPEST {
                    self.open[thread].0.push(Open {
                        name: name.to_owned(),
                        start: at,
                        cpu,
                    });
                }
            } else {
                let end = at.saturating_add(duration.unwrap_or(0));
                self.call(thread, cpu, (at, end), depth, name.to_owned());
            }
        }
        Some(())
    }

    fn call(&mut self, thread: usize, cpu: u64, (start, end): (u64, u64), depth: usize, name: String) {
        self.open[thread].1 = self.open[thread].1.max(end);
        self.trace.calls.push(Call {
            thread,
            cpu,
            start,
            end: end.max(start),
            depth,
            name,
            open: false,
        });
    }

    /// Ends the calls that have not returned at the last time of their threads.
    fn finish(mut self) -> Trace {
        for (thread, (calls, last)) in self.open.into_iter().enumerate() {
            for (depth, call) in calls.into_iter().enumerate().rev() {
                self.trace.calls.push(Call {
                    thread,
                    cpu: call.cpu,
                    start: call.start,
                    end: last.max(call.start),
                    depth,
                    name: call.name,
                    open: true,
                });
            }
        }
        self.trace
    }
}

/// `! 123.456 us`, as nanoseconds.
fn duration(text: &str) -> Option<u64> {
    let number = text.trim().strip_suffix("us")?.trim();
    let number = number.rsplit(' ').next()?;
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    if part.len() > 3 {
        return None;
    }
    let part = part.parse::<u64>().ok()? * 10u64.pow(3 - part.len() as u32);
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(part)
}

#[cfg(test)]
#[path = "parse_tests.rs"]
pub mod tests;
