//! `events/SYSTEM/EVENT/`: the directories, and the files that are about several events.

use super::event_files::files;
use super::events::One;
use super::instance::{Names, setting, word};
use super::{BOTH, CHANGES, DIRECTORY, owner};
use crate::fs::inode::FileType;
use crate::fs::pseudo::{Changes, Directory, Node, Text};
use crate::tracing::Instance;
use crate::tracing::event::{Event, list};
use alloc::sync::Arc;
use limen_linux_abi::Errno;

/// `events/`: files, and a directory for each system.
pub struct Systems {
    instance: Arc<Instance>,
    files: Names<One>,
}

impl Systems {
    /// Of an instance, with these files.
    pub fn new(instance: Arc<Instance>, files: Names<One>) -> Self {
        Self { instance, files }
    }
}

impl Directory for Systems {
    fn get(&self, name: &[u8]) -> Option<Node> {
        let _ = list::all();
        let system = list::systems().find(|system| system.as_bytes() == name);
        match system {
            Some(system) => {
                let events = Events {
                    instance: self.instance.clone(),
                    system,
                };
                Some(Node::Directory(DIRECTORY, Arc::new(events)))
            }
            None => self.files.get(name),
        }
    }
    fn list(&self, pos: u64, add: &mut dyn FnMut(&[u8], FileType, u64) -> bool) {
        let mut last = pos;
        let mut full = false;
        self.files.list(pos, &mut |name, kind, next| {
            last = next;
            let added = add(name, kind, next);
            full |= !added;
            added
        });
        let own = self.files.0.len() as u64;
        let first = last.max(pos).saturating_sub(2 + own) as usize;
        if full {
            return;
        }
        for (n, system) in list::systems().enumerate().skip(first) {
            if !add(system.as_bytes(), FileType::Directory, own + n as u64 + 3) {
                return;
            }
        }
    }
    fn owner(&self) -> (u32, u32) {
        owner()
    }
    fn changes(&self) -> Option<&Changes> {
        Some(&CHANGES)
    }
}

/// A system's directory.
struct Events {
    instance: Arc<Instance>,
    system: &'static str,
}

const FILES: [&str; 2] = ["enable", "filter"];

impl Events {
    fn all(&self) -> impl Iterator<Item = &'static Event> + use<> {
        let system = self.system;
        list::made().iter().filter(move |event| event.system() == system)
    }
}

impl Directory for Events {
    fn get(&self, name: &[u8]) -> Option<Node> {
        let (instance, system) = (&self.instance, self.system);
        match name {
            b"enable" => Some(setting(
                BOTH,
                instance,
                move |instance, out| show_enabled(instance, |event| event.system() == system, out),
                move |instance, bytes| {
                    let on = on_or_off(bytes)?;
                    instance.turn_events(on, |event| event.system() == system)
                },
            )),
            b"filter" => Some(setting(
                BOTH,
                instance,
                move |instance, out| show_filter(instance, system, out),
                move |instance, bytes| instance.filter_system(system, bytes),
            )),
            _ => {
                let event = self
                    .all()
                    .find(|event| event.with_name(|own| own.as_bytes() == name))?;
                Some(Node::Directory(DIRECTORY, Arc::new(files(instance, event))))
            }
        }
    }
    fn list(&self, pos: u64, add: &mut dyn FnMut(&[u8], FileType, u64) -> bool) {
        let first = pos.saturating_sub(2) as usize;
        for (n, name) in FILES.iter().enumerate().skip(first) {
            if !add(name.as_bytes(), FileType::Regular, n as u64 + 3) {
                return;
            }
        }
        for (n, event) in self.all().enumerate().skip(first.saturating_sub(FILES.len())) {
            let next = (n + FILES.len()) as u64 + 3;
            if !event.with_name(|name| add(name.as_bytes(), FileType::Directory, next)) {
                return;
            }
        }
    }
    fn owner(&self) -> (u32, u32) {
        owner()
    }
    fn changes(&self) -> Option<&Changes> {
        Some(&CHANGES)
    }
}

/// What is written to an `enable` file.
pub fn on_or_off(bytes: &[u8]) -> Result<bool, Errno> {
    match word(bytes)? {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(Errno::EINVAL),
    }
}

/// `0`, `1`, or `X`: some of the events are on.
fn show_enabled(
    instance: &Arc<Instance>,
    is_meant: impl Fn(&Event) -> bool,
    out: &mut Text,
) -> Result<(), Errno> {
    let states = instance.events.states();
    let (mut on, mut off) = (false, false);
    for event in list::all()?.iter().filter(|event| is_meant(event)) {
        match states.get(event.id).is_some_and(|state| state.is_attached()) {
            true => on = true,
            false => off = true,
        }
    }
    out.add(match (on, off) {
        (false, false) => "?\n",
        (false, true) => "0\n",
        (true, false) => "1\n",
        (true, true) => "X\n",
    });
    Ok(())
}

/// `events/enable`.
pub fn show_all(instance: &Arc<Instance>, out: &mut Text) -> Result<(), Errno> {
    show_enabled(instance, |_| true, out)
}

/// `events/enable`.
pub fn store_all(instance: &Arc<Instance>, bytes: &[u8]) -> Result<(), Errno> {
    instance.turn_events(on_or_off(bytes)?, |_| true)
}

fn show_filter(instance: &Arc<Instance>, system: &str, out: &mut Text) -> Result<(), Errno> {
    const HELP: &str = "### global filter ###\n\
        # Use this to set filters for multiple events.\n\
        # Only events with the given fields will be affected.\n\
        # If no events are modified, an error message will be displayed here\n";
    let systems = instance.events.systems.lock();
    match systems.iter().find(|(of, ..)| *of == system) {
        None => out.add(HELP),
        Some((_, text, Some(error))) => {
            let _ = error.write(text, out);
        }
        Some((_, text, None)) => {
            out.add(text);
            out.add("\n");
        }
    }
    Ok(())
}
