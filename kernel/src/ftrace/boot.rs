//! Traces that begin with the kernel: the words of the command line that are about tracers and functions.

use super::function::Functions;
use super::ops::errno;
use super::{graph, names};
use crate::cmdline;
use crate::mm::reserve::handling;
use crate::tracing::{self, Instance, tracers};
use alloc::sync::Arc;
use limen_linux_abi::Errno;
use limen_trace_sites::command::{self, Command, File};
use limen_trace_sites::filter::Which;
use limen_trace_sites::hash::Hash;

/// What is chosen before the tracer begins: a word, and where its functions go.
const CHOSEN: [(&str, File, Which); 4] = [
    ("ftrace_filter", File::Notrace, Which::Filter),
    ("ftrace_notrace", File::Notrace, Which::Notrace),
    ("ftrace_graph_filter", File::Graph, Which::Filter),
    ("ftrace_graph_notrace", File::Graph, Which::Notrace),
];

/// Does what the command line says. Boot, when all CPUs run and functions that only boot needs are gone.
pub fn init() {
    for (name, file, which) in CHOSEN {
        if let Some(words) = cmdline::value(name) {
            tell(name, words, choose(words, file, which));
        }
    }
    if let Some(depth) = cmdline::value("ftrace_graph_max_depth") {
        let set = depth
            .parse()
            .map_err(|_| Errno::EINVAL)
            .and_then(graph::set_max_depth);
        tell("ftrace_graph_max_depth", depth, set);
    }
    if cmdline::flag("alloc_snapshot") {
        tell(
            "alloc_snapshot",
            "",
            tracing::top().and_then(|top| top.allocate_snapshot()),
        );
    }
    if let Some(name) = cmdline::value("ftrace") {
        tell("ftrace", name, begin(name));
    }
    for word in cmdline::words() {
        if let Some(instance) = word.strip_prefix("trace_instance=") {
            tell("trace_instance", instance, make(instance));
        }
    }
}

/// What was traced at boot is kept, and nothing after it recorded, if the command line wants that. Boot,
/// before the first program.
pub fn booted() {
    tracing::console::booted();
    if cmdline::flag("traceoff_after_boot")
        && let Some(top) = tracing::made()
    {
        top.turn(false);
    }
}

/// Says what went wrong.
fn tell(name: &str, value: &str, result: Result<(), Errno>) {
    match result {
        Ok(()) => {}
        Err(Errno::ENOMEM) => warning!("{name}: no memory for {value}"),
        Err(_) if name == "ftrace" => {
            let known = tracers::registered();
            let mut list = alloc::string::String::new();
            for tracer in known {
                list.push_str(if list.is_empty() { "" } else { ", " });
                list.push_str(tracer.name());
            }
            warning!("ftrace: there is no tracer {value}; known are {list}");
        }
        Err(_) => warning!("{name}: cannot be {value}"),
    }
}

/// Functions, with commas between, are chosen for the top instance, or for the graph.
fn choose(words: &str, file: File, which: Which) -> Result<(), Errno> {
    let names = names::known()?;
    let mut hash = Hash::new();
    for word in words.split(',').filter(|word| !word.is_empty()) {
        let Command::Select(select) = command::parse(word.as_bytes(), file).map_err(errno)? else {
            return Err(Errno::EINVAL);
        };
        if handling(|| hash.apply(&names, &select)).is_err() {
            warning!("ftrace: there is no function {word}");
        }
    }
    if file == File::Graph {
        return graph::set_hash(which, hash);
    }
    let top = tracing::top()?;
    Functions::of(top)?.set_hash(top, which, hash)
}

/// The top instance's tracer begins.
fn begin(name: &str) -> Result<(), Errno> {
    tracing::top()?.set_tracer(tracers::named(name).ok_or(Errno::EINVAL)?)
}

/// Makes an instance: its name, and events that are on in it, with commas between.
fn make(text: &str) -> Result<(), Errno> {
    let mut words = text.split(',');
    let name = words.next().unwrap_or_default();
    if name.is_empty() || name.contains('/') {
        return Err(Errno::EINVAL);
    }
    let instance: Arc<Instance> = tracing::make(name.as_bytes())?;
    for word in words.filter(|word| !word.is_empty()) {
        if instance.select_events(word.as_bytes()).is_err() {
            warning!("trace_instance {name}: there is no event {word}");
        }
    }
    Ok(())
}
