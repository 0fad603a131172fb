//! `trace_options` and `options/`.

use super::instance::{Names, Row, number, setting, word};
use super::{BOTH, DIRECTORY};
use crate::fs::pseudo::{Node, Text};
use crate::tracing::{Instance, tracers};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;
use limen_linux_abi::Errno;
use limen_trace_text::Options;
use limen_trace_text::options::{NAMES, parse};

pub const ROWS: &[Row] = &[
    Row {
        name: "trace_options",
        only_top: false,
        node: |instance| setting(BOTH, instance, show, store),
    },
    Row {
        name: "options",
        only_top: false,
        node: |instance| Node::Directory(DIRECTORY, Arc::new(Names(all(instance), file))),
    },
];

/// An option: of the instance, or of a tracer, by its number there.
#[derive(Clone)]
enum Which {
    Own(Options),
    Tracer(&'static dyn crate::tracing::Tracer, usize),
}

/// An option of an instance.
type One = (Arc<Instance>, Which);

/// All options of an instance, by name.
fn all(instance: &Arc<Instance>) -> Vec<(&'static str, One)> {
    let own = NAMES.iter().map(|(name, option)| (*name, Which::Own(*option)));
    let tracers = tracers::registered().into_iter().flat_map(|tracer| {
        let names = tracer.options().iter().enumerate();
        names.map(move |(n, name)| (*name, Which::Tracer(tracer, n)))
    });
    let top = instance.is_top();
    own.filter(|(_, which)| {
        top || !matches!(which, Which::Own(option) if Options::TOP_ONLY.contains(*option))
    })
    .chain(tracers)
    .map(|(name, which)| (name, (instance.clone(), which)))
    .collect()
}

fn is_on((instance, which): &One) -> bool {
    match which {
        Which::Own(option) => instance.options().contains(*option),
        Which::Tracer(tracer, number) => tracer.option(instance, *number),
    }
}

fn turn((instance, which): &One, on: bool) -> Result<(), Errno> {
    match which {
        Which::Own(option) => instance.set_option(*option, on),
        Which::Tracer(tracer, number) => {
            let _locked = instance.lock();
            tracer.set_option(instance, *number, on)
        }
    }
}

fn file(one: &One) -> Node {
    let (shown, stored) = (one.clone(), one.clone());
    setting(
        BOTH,
        &one.0,
        move |_, out| {
            let _ = writeln!(out, "{}", u8::from(is_on(&shown)));
            Ok(())
        },
        move |_, bytes| match number(bytes)? {
            on @ 0..2 => turn(&stored, on == 1),
            _ => Err(Errno::EINVAL),
        },
    )
}

/// Shown are the instance's own options and those of the tracer that it has.
fn show(instance: &Arc<Instance>, out: &mut Text) -> Result<(), Errno> {
    let tracer = instance.tracer();
    for (name, one) in all(instance) {
        let shown = match one.1 {
            Which::Own(_) => true,
            Which::Tracer(of, _) => of.name() == tracer.name(),
        };
        if shown {
            let no = if is_on(&one) { "" } else { "no" };
            let _ = writeln!(out, "{no}{name}");
        }
    }
    Ok(())
}

fn store(instance: &Arc<Instance>, bytes: &[u8]) -> Result<(), Errno> {
    let (name, on) = parse(word(bytes)?);
    let found = all(instance).into_iter().find(|row| row.0 == name);
    turn(&found.ok_or(Errno::EINVAL)?.1, on)
}
