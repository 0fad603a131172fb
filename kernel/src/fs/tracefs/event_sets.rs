//! `set_event`, `available_events`, and the threads whose events are recorded.

use super::instance::{Row, shown, special};
use super::{BOTH, READ};
use crate::fs::pseudo::{Node, Text, setting_file};
use crate::tracing::Instance;
use crate::tracing::event::{Event, list};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;
use limen_linux_abi::{Errno, raw::general as abi};

pub const ROWS: &[Row] = &[
    Row {
        name: "available_events",
        only_top: false,
        node: |instance| {
            shown(READ, instance, |_, out| {
                list::all()?.iter().for_each(|event| name(event, out));
                Ok(())
            })
        },
    },
    Row {
        name: "set_event",
        only_top: false,
        node: |instance| {
            emptied(
                instance,
                |instance| instance.turn_events(false, |_| true),
                show_set,
                |instance, bytes| words(bytes).try_for_each(|word| instance.select_events(word)),
            )
        },
    },
    Row {
        name: "set_event_pid",
        only_top: false,
        node: |instance| pids::<false>(instance),
    },
    Row {
        name: "set_event_notrace_pid",
        only_top: false,
        node: |instance| pids::<true>(instance),
    },
];

type Show = fn(&Arc<Instance>, &mut Text) -> Result<(), Errno>;
type Store = fn(&Arc<Instance>, &[u8]) -> Result<(), Errno>;

/// A file that `empty` empties when it is opened to be written anew.
fn emptied(
    instance: &Arc<Instance>,
    empty: fn(&Arc<Instance>) -> Result<(), Errno>,
    show: Show,
    store: Store,
) -> Node {
    special(BOTH, instance, move |used, flags| {
        if flags & abi::O_TRUNC != 0 && flags & abi::O_ACCMODE != abi::O_RDONLY {
            empty(&used)?;
        }
        let used = Arc::new(used);
        let user = used.clone();
        Ok(setting_file(
            Arc::new(move |out| show(&used, out)),
            Some(Arc::new(move |bytes| store(&user, bytes))),
        ))
    })
}

/// The words that were written.
fn words(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0;
    bytes.split(is_space).filter(|word| !word.is_empty())
}

fn name(event: &Event, out: &mut Text) {
    event.with_name(|name| {
        let _ = writeln!(out, "{}:{name}", event.system());
    });
}

fn show_set(instance: &Arc<Instance>, out: &mut Text) -> Result<(), Errno> {
    let states = instance.events.states();
    for state in states.all().filter(|state| state.records()) {
        if let Some(event) = list::numbered(state.id) {
            name(event, out);
        }
    }
    Ok(())
}

/// `set_event_pid`, or (`NOT`) `set_event_notrace_pid`.
fn pids<const NOT: bool>(instance: &Arc<Instance>) -> Node {
    emptied(
        instance,
        |instance| instance.events.pids.change(NOT, true, &[], &[]),
        |instance, out| {
            for pid in instance.events.pids.list(NOT)? {
                let _ = writeln!(out, "{pid}");
            }
            Ok(())
        },
        |instance, bytes| {
            let mut add = Vec::new();
            for word in words(bytes) {
                let number = core::str::from_utf8(word)
                    .ok()
                    .and_then(|word| word.parse::<i32>().ok());
                crate::mm::reserve::room(&mut add, 1)?;
                add.push(number.filter(|pid| *pid >= 0).ok_or(Errno::EINVAL)?);
            }
            instance.events.pids.change(NOT, false, &add, &[])
        },
    )
}
