//! `limen run --trace`: what the guest's agent sets in tracefs, what is made of the trace that it sends, and
//! what is said when there is none. The agent's side is `programs/init/trace.c`.

mod calls;
mod dat;
mod flame;
mod html;
mod json;
mod near;
mod parcels;
mod parse;
mod refused;

pub use parcels::Parcels;

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::arch::Arch;
use crate::cli::TraceOptions;
use crate::session::{Ending, Outcome};

/// The most settings that the agent takes (programs/init/agent.h).
const MOST_SETTINGS: usize = 1024;
/// The most bytes of one name, for the agent's buffer.
const LONGEST: usize = 512;

/// What the trace is written as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    Text,
    /// Text, with system calls as strace shows them.
    Calls,
    Json,
    Html,
    /// For trace-cmd and KernelShark.
    Dat,
}

/// Where the trace goes.
struct Output {
    path: PathBuf,
    file: std::fs::File,
    /// It was made for this run and has nothing in it: it goes away when there is no trace.
    new: bool,
}

/// The option that a setting comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Trace,
    Graph,
    Events,
    Calls,
    Tracer,
}

/// One `key=value` for the agent.
struct Setting {
    key: &'static str,
    value: String,
    from: Option<(Source, String)>,
}

/// A trace that was asked for.
pub struct Wanted {
    settings: Vec<Setting>,
    format: Format,
    output: Option<Output>,
}

impl Wanted {
    /// Checks the options, and opens the file. `None` when no trace is asked for.
    pub fn new(options: &TraceOptions, own_init: bool) -> Result<Option<Wanted>> {
        let lists = [&options.trace, &options.trace_graph, &options.trace_events];
        if lists.iter().all(|list| list.is_empty()) && !options.trace_syscalls {
            if let Some(path) = &options.trace_out {
                bail!(
                    "--trace-out {}: say what is traced, with --trace, --trace-graph, --trace-events or \
                     --trace-syscalls",
                    path.display()
                );
            }
            return Ok(None);
        }
        if own_init {
            bail!(
                "--trace needs Limen's own init in the guest: leave --initrd out (--root brings a tree), or \
                 trace from your init, in /sys/kernel/tracing"
            );
        }
        for (option, list) in ["--trace", "--trace-graph", "--trace-events"].iter().zip(lists) {
            list.iter().try_for_each(|word| check(option, word))?;
        }
        let format = match &options.trace_out {
            Some(path) => format_of(path)?,
            None => Format::Text,
        };
        let format = match (format, options.trace_syscalls) {
            (Format::Text, true) if !options.trace_graph.is_empty() => bail!(
                "--trace-syscalls: its lines do not go with those of --trace-graph; leave one out, or give \
                 --trace-out FILE.html"
            ),
            (Format::Text, true) => Format::Calls,
            (format, _) => format,
        };
        let settings = settings(options, format);
        if settings.len() > MOST_SETTINGS {
            bail!("more than {MOST_SETTINGS} names to trace; give globs instead, such as 'vfs_*'");
        }
        let output = options.trace_out.as_ref().map(open).transpose()?;
        Ok(Some(Wanted {
            settings,
            format,
            output,
        }))
    }

    /// What the agent is told.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        self.settings.iter().map(|s| (s.key, s.value.clone())).collect()
    }

    /// Writes the trace of a run to where it goes, and says what is missing of it. An error when there is
    /// none because the guest refused a setting, or when it cannot be written.
    pub fn deliver(&mut self, outcome: &Outcome, arch: Arch) -> Result<()> {
        let given = &outcome.trace;
        if let Ending::Program(_) = outcome.ending {
            let is_page = matches!(self.format, Format::Json | Format::Html);
            let trace = is_page.then(|| parse::parse(&given.trace));
            let content = match (self.format, &trace) {
                (Format::Html, Some(trace)) => Some(html::page(trace).into_bytes()),
                (Format::Json, Some(trace)) => Some(json::page(trace).into_bytes()),
                (Format::Calls, _) => Some(calls::show(&given.trace, arch).into_bytes()),
                (Format::Dat, _) => dat::file(given, arch),
                _ => None,
            };
            let bytes = content.as_ref().unwrap_or(&given.trace);
            match &mut self.output {
                Some(output) => output.write(bytes)?,
                // Who closes standard error wants nothing of this either.
                None => drop(std::io::stderr().write_all(bytes)),
            }
            if let Some(unread) = trace.map(|t| t.unread).filter(|n| *n > 0) {
                eprintln!("limen: {unread} lines of the trace are of no known kind; a .txt file has them");
            }
            if let Some(line) = refused::loss(given) {
                eprintln!("limen: {line}");
            }
            return Ok(());
        }
        if let Some(output) = &self.output
            && output.new
        {
            let _ = std::fs::remove_file(&output.path);
        }
        match outcome.ending {
            Ending::NotTraced(number, errno) => {
                let setting = number.checked_sub(1).and_then(|n| self.settings.get(n));
                bail!("{}", refused::reason(setting, errno, &given.names))
            }
            Ending::NotStarted(_) => {}
            _ => eprintln!("limen: no trace: it is taken when the program has ended"),
        }
        Ok(())
    }
}

impl Output {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = match self.file.metadata() {
            // A pipe or a device has no length.
            Ok(meta) if meta.is_file() => self.file.set_len(0),
            _ => Ok(()),
        };
        written
            .and_then(|()| self.file.write_all(bytes))
            .with_context(|| format!("cannot write the trace to {}", self.path.display()))
    }
}

/// Opens the file before the guest is booted; what it has stays until there is a trace.
fn open(path: &PathBuf) -> Result<Output> {
    let open = |new| {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(new).open(path)
    };
    let (file, new) = match open(true) {
        Ok(file) => (Ok(file), true),
        Err(why) if why.kind() == std::io::ErrorKind::AlreadyExists => (open(false), false),
        Err(why) => (Err(why), false),
    };
    let file = file.with_context(|| {
        format!(
            "--trace-out {}: cannot write this file; give one in a directory that you can write to",
            path.display()
        )
    })?;
    Ok(Output {
        path: path.clone(),
        file,
        new,
    })
}

/// The format that belongs to a file's name.
fn format_of(path: &std::path::Path) -> Result<Format> {
    match path.extension().and_then(|e| e.to_str()) {
        Some("json") => Ok(Format::Json),
        Some("html" | "htm") => Ok(Format::Html),
        Some("dat") => Ok(Format::Dat),
        None | Some("txt" | "log" | "trace" | "out") => Ok(Format::Text),
        // A device has no format.
        Some(_) if path.starts_with("/dev") => Ok(Format::Text),
        Some(other) => bail!(
            "--trace-out {}: no such format as .{other}; there are .txt (text), .json (Perfetto, \
             chrome://tracing), .html (a page by itself) and .dat (trace-cmd, KernelShark)",
            path.display()
        ),
    }
}

/// Checks one name or glob.
fn check(option: &str, word: &str) -> Result<()> {
    let example = if option == "--trace-events" {
        "sched:sched_switch"
    } else {
        "'vfs_*'"
    };
    if word.is_empty() {
        bail!("{option}: an empty name; give one such as {example}, several with commas");
    }
    if word.len() > LONGEST {
        bail!(
            "{option}: a name of {} letters; at most {LONGEST} are taken",
            word.len()
        );
    }
    if let Some(bad) = word
        .chars()
        .find(|c| !c.is_ascii_graphic() || "'\"\\`;|!(),/".contains(*c))
    {
        bail!(
            "{option} {word:?}: {bad:?} is in no name; give one such as {example}, with * and ? for what may \
             be anything, several with commas"
        );
    }
    let brackets = word.matches('[').count();
    if brackets != word.matches(']').count() {
        bail!("{option} {word:?}: a [ without its ]; a glob such as 'vfs_[rw]*' has both");
    }
    Ok(())
}

/// What the agent sets, in this order. It has stopped the trace before, and starts it afterwards.
fn settings(options: &TraceOptions, format: Format) -> Vec<Setting> {
    let mut all = Vec::new();
    let mut add = |key, value: String, from| all.push(Setting { key, value, from });
    let graph = !options.trace_graph.is_empty();
    let functions = graph || !options.trace.is_empty();
    // Children are followed where the kernel can; else all processes are shown.
    let mut tries: Vec<&str> = Vec::new();
    if functions {
        tries.extend(["options/function-fork 1", "set_ftrace_pid @pid", ""]);
    }
    if !options.trace_events.is_empty() || options.trace_syscalls {
        tries.extend(["options/event-fork 1", "set_event_pid @pid", ""]);
    }
    if matches!(format, Format::Json | Format::Html) {
        tries.extend(["options/record-tgid 1", ""]);
    }
    if graph {
        // With times and threads, the lines of a call can be told apart.
        tries.extend(["options/funcgraph-abstime 1", "", "options/funcgraph-proc 1", ""]);
    }
    if format == Format::Dat {
        add("trace-raw", "1".into(), None);
    }
    add("trace-names", "available_filter_functions".into(), None);
    for glob in &options.trace {
        let from = Some((Source::Trace, glob.clone()));
        add("trace", format!("set_ftrace_filter {glob}"), from);
    }
    for glob in &options.trace_graph {
        let from = Some((Source::Graph, glob.clone()));
        add("trace", format!("set_graph_function {glob}"), from);
    }
    add("trace-names", "available_tracers".into(), None);
    if functions {
        let tracer = if graph { "function_graph" } else { "function" };
        let from = Some((Source::Tracer, tracer.to_owned()));
        add("trace", format!("current_tracer {tracer}"), from);
    }
    for value in tries {
        // When a trial fails, what comes next is left out: the empty ones set nothing.
        let key = if value.is_empty() {
            "trace-names"
        } else {
            "trace-try"
        };
        add(key, value.to_owned(), None);
    }
    add("trace-names", "available_events".into(), None);
    for event in &options.trace_events {
        let from = Some((Source::Events, event.clone()));
        add("trace", format!("set_event {event}"), from);
    }
    if options.trace_syscalls {
        let from = Some((Source::Calls, "syscalls:*".to_owned()));
        add("trace", "set_event syscalls:*".to_owned(), from);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(trace: &[&str], graph: &[&str], events: &[&str]) -> TraceOptions {
        let own = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
        TraceOptions {
            trace: own(trace),
            trace_graph: own(graph),
            trace_events: own(events),
            trace_syscalls: false,
            trace_out: None,
        }
    }

    #[test]
    fn names_are_checked() {
        for good in [
            "vfs_*",
            "Node::open",
            "open::{closure#0}",
            "*[rw]ead?",
            ":mod:ext4",
            "<T>::f",
        ] {
            assert!(check("--trace", good).is_ok(), "{good}");
        }
        for bad in ["", "a b", "a\nb", "é", "!x", "a;b", "[a", "a|b", &"x".repeat(600)] {
            assert!(check("--trace", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn formats_go_by_the_name() {
        let of = |name: &str| format_of(std::path::Path::new(name)).ok();
        assert_eq!(of("a.json"), Some(Format::Json));
        assert_eq!(of("a.b.html"), Some(Format::Html));
        assert_eq!(of("a.txt"), Some(Format::Text));
        assert_eq!(of("a"), Some(Format::Text));
        assert_eq!(of("/dev/fd/3.x"), Some(Format::Text));
        assert_eq!(of("a.dat"), Some(Format::Dat));
        assert_eq!(of("a.xyz"), None);
        let why = format_of(std::path::Path::new("a.xyz")).map_err(|e| e.to_string());
        assert!(why.is_err_and(|e| e.contains(".json") && !e.contains('\n')));
    }

    #[test]
    fn a_trial_that_fails_leaves_no_other_setting_out() {
        let all = options(&["a*", "b"], &["c"], &["sched:*"]);
        for format in [Format::Text, Format::Html] {
            let settings = settings(&all, format);
            for pair in settings.windows(2).filter(|pair| pair[0].key == "trace-try") {
                assert!(pair[1].value.is_empty() || pair[1].value.ends_with("@pid"));
            }
            let values: Vec<&str> = settings.iter().map(|s| &*s.value).collect();
            let place = |value: &str| values.iter().position(|v| *v == value);
            assert!(place("set_ftrace_filter b") < place("current_tracer function_graph"));
            assert!(place("set_event sched:*").is_some() && place("set_graph_function c").is_some());
        }
    }

    #[test]
    fn nothing_is_traced_unless_asked_for() {
        let none = options(&[], &[], &[]);
        assert!(Wanted::new(&none, false).is_ok_and(|w| w.is_none()));
        let mut only_file = options(&[], &[], &[]);
        only_file.trace_out = Some("/dev/null".into());
        assert!(Wanted::new(&only_file, false).is_err());
        assert!(Wanted::new(&options(&["x"], &[], &[]), true).is_err());
        let mut calls = options(&[], &[], &[]);
        calls.trace_syscalls = true;
        let wanted = Wanted::new(&calls, false)
            .ok()
            .flatten()
            .map(|wanted| wanted.settings());
        let last = wanted.and_then(|settings| settings.last().cloned());
        assert_eq!(last, Some(("trace", "set_event syscalls:*".to_owned())));
        calls.trace_graph.push("x".into());
        assert!(Wanted::new(&calls, false).is_err());
    }
}
