//! The files of one event.

use super::event_dirs::on_or_off;
use super::instance::{Names, setting, shown};
use super::{BOTH, READ};
use crate::fs::pseudo::{Node, Text};
use crate::tracing::Instance;
use crate::tracing::event::Event;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;
use limen_linux_abi::Errno;
use limen_trace_events::trigger;

/// A file, and how to make it.
pub type One = (
    Arc<Instance>,
    &'static Event,
    fn(&Arc<Instance>, &'static Event) -> Node,
);

/// The files of `event` in an instance.
pub fn files(instance: &Arc<Instance>, event: &'static Event) -> Names<One> {
    let all: [(&str, fn(&Arc<Instance>, &'static Event) -> Node); 5] = [
        ("enable", |instance, event| {
            setting(
                BOTH,
                instance,
                move |instance, out| show_enable(instance, event, out),
                move |instance, bytes| instance.turn_event(event, on_or_off(bytes)?),
            )
        }),
        ("filter", |instance, event| {
            setting(
                BOTH,
                instance,
                move |instance, out| show_filter(instance, event, out),
                move |instance, bytes| instance.filter_event(event, bytes),
            )
        }),
        ("trigger", |instance, event| {
            setting(
                BOTH,
                instance,
                move |instance, out| show_triggers(instance, event, out),
                move |instance, bytes| store_trigger(instance, event, bytes),
            )
        }),
        ("format", |instance, event| {
            shown(READ, instance, move |_, out| {
                let _ = event.write_format(out);
                Ok(())
            })
        }),
        ("id", |instance, event| {
            shown(READ, instance, move |_, out| {
                let _ = writeln!(out, "{}", event.id);
                Ok(())
            })
        }),
    ];
    let all = all.map(|(name, make)| (name, (instance.clone(), event, make)));
    Names(Vec::from(all), |(instance, event, make)| make(instance, event))
}

fn show_enable(instance: &Arc<Instance>, event: &Event, out: &mut Text) -> Result<(), Errno> {
    let states = instance.events.states();
    let state = states.get(event.id);
    out.add(if state.is_some_and(|state| state.records()) {
        "1"
    } else {
        "0"
    });
    // Triggers may change it.
    out.add(if state.is_some_and(|state| state.softly > 0) {
        "*\n"
    } else {
        "\n"
    });
    Ok(())
}

fn show_filter(instance: &Arc<Instance>, event: &Event, out: &mut Text) -> Result<(), Errno> {
    let states = instance.events.states();
    let state = states.get(event.id);
    if let Some((text, error)) = state.and_then(|state| state.refused.as_ref()) {
        let _ = error.write(text, out);
        return Ok(());
    }
    match state.and_then(|state| state.filter.as_ref()) {
        Some(filter) => out.add(filter.text()),
        None => out.add("none"),
    }
    out.add("\n");
    Ok(())
}

fn show_triggers(instance: &Arc<Instance>, event: &Event, out: &mut Text) -> Result<(), Errno> {
    if !instance.write_triggers(event, out) {
        out.add(trigger::NONE);
    }
    Ok(())
}

fn store_trigger(instance: &Arc<Instance>, event: &Event, bytes: &[u8]) -> Result<(), Errno> {
    for line in bytes.split(|byte| matches!(byte, b'\n' | 0)) {
        if !line.trim_ascii().is_empty() {
            instance.trigger_event(event, line)?;
        }
    }
    Ok(())
}
