//! `events/`: how pages and records are laid out (`header_page`, `header_event`, `ftrace/*/format`).

use super::event_dirs::{Systems, show_all, store_all};
use super::instance::{Names, Row, setting, shown};
use super::{BOTH, DIRECTORY, READ};
use crate::fs::pseudo::Node;
use crate::tracing::Instance;
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_ring_buffer::format::header_event;
use limen_trace_text::entry::LONG;
use limen_trace_text::format::{ALL, Fixed};

pub const ROWS: &[Row] = &[Row {
    name: "events",
    only_top: false,
    node: |instance| {
        let systems = Systems::new(instance.clone(), Names(events(instance), file));
        Node::Directory(DIRECTORY, Arc::new(systems))
    },
}];

/// A file of an instance, and how to make it.
pub type One = (Arc<Instance>, fn(&Arc<Instance>) -> Node);

fn file(one: &One) -> Node {
    (one.1)(&one.0)
}

fn events(instance: &Arc<Instance>) -> Vec<(&'static str, One)> {
    let all: [(&str, fn(&Arc<Instance>) -> Node); 4] = [
        ("header_page", |instance| {
            shown(READ, instance, |instance, out| {
                out.add(instance.main.layout().header_page());
                Ok(())
            })
        }),
        ("header_event", |instance| {
            shown(READ, instance, |_, out| {
                out.add(header_event());
                Ok(())
            })
        }),
        ("enable", |instance| setting(BOTH, instance, show_all, store_all)),
        ("ftrace", |instance| {
            let all = ALL.iter().map(|fixed| (fixed.name, (instance.clone(), fixed)));
            Node::Directory(DIRECTORY, Arc::new(Names(all.collect(), kind)))
        }),
    ];
    all.map(|(name, make)| (name, (instance.clone(), make))).into()
}

/// The directory of a fixed kind of record.
fn kind(one: &(Arc<Instance>, &'static Fixed)) -> Node {
    let files = Vec::from([("format", (one.clone(), false)), ("id", (one.clone(), true))]);
    let names = Names(files, |((instance, fixed), id)| {
        let (fixed, id) = (*fixed, *id);
        shown(READ, instance, move |_, out| {
            if id {
                out.add(alloc::format!("{}\n", fixed.kind.0));
            } else {
                out.add(fixed.text(LONG));
            }
            Ok(())
        })
    });
    Node::Directory(DIRECTORY, Arc::new(names))
}
