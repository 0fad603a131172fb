//! The list of all events: those that are declared one by one, then two for each system call that the native
//! ABI has and the kernel does.

use super::listen::Listeners;
use crate::arch::NATIVE_ABI;
use crate::mm::reserve::room_exact;
use crate::rcu::Slot;
use crate::sync::{Mutex, Once};
use alloc::vec::Vec;
use core::fmt::{self, Write};
use limen_linux_abi::Errno;
use limen_trace_events::print::Program;
use limen_trace_events::syscalls::{self, Call, End, Name};
use limen_trace_events::{Description, FIRST_ID, Field, events};
use limen_trace_text::Kind;

const _: () = assert!(FIRST_ID > Kind::LAST.0);

/// What an event is.
#[derive(Clone, Copy)]
pub enum Which {
    /// Declared, at this place of the crate's list.
    Declared(usize),
    /// One end of a system call.
    Call(End, Call),
}

/// An event.
pub struct Event {
    /// Its number.
    pub id: u16,
    /// What it is.
    pub which: Which,
    /// Who listens.
    pub(super) listeners: Slot<Listeners>,
    /// Held while that changes.
    pub(super) changing: Mutex<()>,
    program: Once<Program>,
}

/// The fields of an event.
#[allow(clippy::large_enum_variant, reason = "nearly all events are those of calls")]
pub enum Fields {
    /// Those of a declared one.
    Declared(&'static [Field]),
    /// Those of a system call.
    Call(syscalls::Fields),
}

impl core::ops::Deref for Fields {
    type Target = [Field];
    fn deref(&self) -> &[Field] {
        match self {
            Self::Declared(fields) => fields,
            Self::Call(fields) => fields,
        }
    }
}

struct List {
    events: Vec<Event>,
    /// Where the two of each system call are, by its number. 0: it has none.
    calls: Vec<u16>,
}

static LIST: Once<List> = Once::new();

fn event(place: usize, which: Which) -> Event {
    Event {
        id: FIRST_ID + place as u16,
        which,
        listeners: Slot::empty(),
        changing: Mutex::new(()),
        program: Once::new(),
    }
}

fn make() -> Result<List, Errno> {
    let number = |n: usize| (NATIVE_ABI.name_of)(n).filter(|_| crate::syscall::has(n));
    let count = (0..NATIVE_ABI.limit).filter_map(number).count();
    let mut list = List {
        events: Vec::new(),
        calls: Vec::new(),
    };
    room_exact(&mut list.events, events::ALL.len() + 2 * count)?;
    room_exact(&mut list.calls, NATIVE_ABI.limit)?;
    for place in 0..events::ALL.len() {
        list.events.push(event(place, Which::Declared(place)));
    }
    for n in 0..NATIVE_ABI.limit {
        let place = list.events.len();
        let Some(name) = number(n) else {
            list.calls.push(0);
            continue;
        };
        list.calls.push(place as u16);
        let call = Call::of(name);
        list.events.push(event(place, Which::Call(End::Enter, call)));
        list.events.push(event(place + 1, Which::Call(End::Exit, call)));
    }
    Ok(list)
}

/// All events; the list is made at first use. `ENOMEM`. May sleep.
pub fn all() -> Result<&'static [Event], Errno> {
    if LIST.get().is_none() {
        let _ = LIST.set(make()?);
    }
    Ok(made())
}

/// Makes what evaluates the text of each event, for those who cannot allocate. `ENOMEM`. May sleep.
pub(in crate::tracing) fn make_programs() -> Result<(), Errno> {
    for event in all()? {
        if let Which::Declared(place) = event.which {
            event.program(place).ok_or(Errno::ENOMEM)?;
        }
    }
    Ok(())
}

/// All events; none if nobody ever asked for one. In any context.
#[inline]
pub fn made() -> &'static [Event] {
    LIST.get().map_or(&[], |list| &list.events)
}

/// The event with this number.
pub fn numbered(id: u16) -> Option<&'static Event> {
    made().get(usize::from(id.checked_sub(FIRST_ID)?))
}

/// The event of a system call. In any context.
pub(super) fn of_call(number: usize, end: End) -> Option<&'static Event> {
    let list = LIST.get()?;
    let place = usize::from(*list.calls.get(number)?);
    if place == 0 {
        return None;
    }
    list.events.get(place + usize::from(end == End::Exit))
}

/// The names of all systems, in the order of their events.
pub fn systems() -> impl Iterator<Item = &'static str> {
    let declared = events::ALL.iter().map(|event| event.system);
    let mut last = "";
    declared.chain([syscalls::SYSTEM]).filter(move |system| {
        let new = *system != last;
        last = system;
        new
    })
}

/// The event with this name.
pub fn named(system: &[u8], name: &[u8]) -> Option<&'static Event> {
    made()
        .iter()
        .find(|event| event.system().as_bytes() == system && event.is_named(name))
}

/// A short text.
struct Short {
    bytes: [u8; 64],
    len: usize,
}

impl Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let to = self
            .bytes
            .get_mut(self.len..self.len + text.len())
            .ok_or(fmt::Error)?;
        to.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}

impl Event {
    fn description(place: usize) -> &'static Description {
        events::ALL[place]
    }

    /// The system that it belongs to.
    pub fn system(&self) -> &'static str {
        match self.which {
            Which::Declared(place) => Self::description(place).system,
            Which::Call(..) => syscalls::SYSTEM,
        }
    }

    /// Calls `f` with its name.
    pub fn with_name<R>(&self, f: impl FnOnce(&str) -> R) -> R {
        let (end, call) = match self.which {
            Which::Declared(place) => return f(Self::description(place).name),
            Which::Call(end, call) => (end, call),
        };
        let mut short = Short {
            bytes: [0; 64],
            len: 0,
        };
        let _ = write!(short, "{}", Name(end, call));
        f(core::str::from_utf8(&short.bytes[..short.len]).unwrap_or_default())
    }

    fn is_named(&self, name: &[u8]) -> bool {
        self.with_name(|own| own.as_bytes() == name)
    }

    /// Its fields.
    pub fn fields(&self) -> Fields {
        match self.which {
            Which::Declared(place) => Fields::Declared(Self::description(place).fields),
            Which::Call(end, call) => Fields::Call(call.fields(end)),
        }
    }

    /// Writes its `format` file.
    pub fn write_format(&self, out: &mut dyn Write) -> fmt::Result {
        match self.which {
            Which::Declared(place) => Self::description(place).write_format(self.id, out),
            Which::Call(end, call) => call.write_format(end, self.id, out),
        }
    }

    /// What evaluates its `print fmt`, of a declared one. `None`: there is no memory. May sleep.
    pub(super) fn program(&self, place: usize) -> Option<&Program> {
        if self.program.get().is_none() {
            let description = Self::description(place);
            let made = Program::new(description.print, description.fields).ok()?;
            let _ = self.program.set(made);
        }
        self.program.get()
    }
}
