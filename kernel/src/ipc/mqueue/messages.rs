//! The messages of a queue: the most urgent one comes first, of several with one priority the oldest. A tree
//! has a level for each priority that messages have, and a level has a list of them.
//!
//! Putting a message there allocates nothing: there must be a place, and a node for another level
//! ([`Messages::lacks`], [`Messages::take_room`]).

use crate::mm::reserve::room_exact;
use alloc::vec::Vec;
use limen_linux_abi::Errno;
use limen_range_tree::{Key, Node, NodeBox, Range, RangeTree};

/// Priorities are below this one (`MQ_PRIO_MAX`).
pub const PRIORITIES: u32 = 32768;
/// How many places the first list has.
const FEW: usize = 8;
/// No place.
const NONE: u32 = u32::MAX;

/// A message.
pub struct Message {
    /// Its text.
    pub text: Vec<u8>,
    /// Its priority, below [`PRIORITIES`]; more is more urgent.
    pub priority: u32,
}

/// A message and the place of the next one of its priority, or no message and the next free place.
struct Slot {
    message: Option<Message>,
    next: u32,
}

/// The messages of one priority, of which there is at least one: the oldest and the newest.
struct Level {
    first: u32,
    last: u32,
}

/// There is one level for a priority. No ranges of them are looked up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Only;

impl Key for Only {
    const RANGES: bool = false;
}

type LevelNode = NodeBox<Only, Level>;

/// What a list has no room for: places for messages (how many there are to be), and another level.
#[derive(Clone, Copy)]
pub struct Lack {
    slots: usize,
    level: bool,
}

/// Memory for that.
pub struct Room {
    slots: Vec<Slot>,
    level: Option<LevelNode>,
}

impl Room {
    /// `ENOMEM`. May sleep.
    pub fn new(lack: Lack) -> Result<Self, Errno> {
        let mut slots = Vec::new();
        room_exact(&mut slots, lack.slots)?;
        let level = match lack.level {
            true => Some(spare_level().ok_or(Errno::ENOMEM)?),
            false => None,
        };
        Ok(Self { slots, level })
    }
}

fn spare_level() -> Option<LevelNode> {
    Node::new(Range {
        first: 0,
        last: 0,
        key: Only,
        value: Level {
            first: NONE,
            last: NONE,
        },
    })
}

/// The messages.
pub struct Messages {
    /// The most urgent ones first.
    levels: RangeTree<Only, Level>,
    slots: Vec<Slot>,
    /// The first free place.
    free: u32,
    /// A node for the next level.
    spare: Option<LevelNode>,
    count: usize,
    bytes: usize,
}

impl Messages {
    /// None.
    pub const fn new() -> Self {
        Self {
            levels: RangeTree::new(),
            slots: Vec::new(),
            free: NONE,
            spare: None,
            count: 0,
            bytes: 0,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }
    /// How long all texts are together, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What is missing so that any message may be put there. `None`: nothing.
    pub fn lacks(&self) -> Option<Lack> {
        let full = self.free == NONE && self.slots.len() == self.slots.capacity();
        let lack = Lack {
            slots: if full { (2 * self.slots.len()).max(FEW) } else { 0 },
            level: self.spare.is_none(),
        };
        (full || lack.level).then_some(lack)
    }

    /// Takes what it needs. What it does not need, or needs no longer, stays in `room`.
    pub fn take_room(&mut self, room: &mut Room) {
        if room.slots.capacity() > self.slots.capacity() {
            room.slots.append(&mut self.slots);
            core::mem::swap(&mut room.slots, &mut self.slots);
        }
        if self.spare.is_none() {
            self.spare = room.level.take();
        }
    }

    fn place_of(priority: u32) -> (u64, Only) {
        (u64::from((PRIORITIES - 1).saturating_sub(priority)), Only)
    }

    /// Puts a message there. [`Self::lacks`] has found that nothing is missing.
    pub fn push(&mut self, message: Message) {
        let place = Self::place_of(message.priority);
        self.count += 1;
        self.bytes += message.text.len();
        let slot = Slot {
            message: Some(message),
            next: NONE,
        };
        let at = match self.slots.get_mut(self.free as usize) {
            Some(free) => {
                let at = self.free;
                self.free = free.next;
                *free = slot;
                at
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        if let Some(level) = self.levels.value_mut(place) {
            let last = core::mem::replace(&mut level.last, at);
            if let Some(last) = self.slots.get_mut(last as usize) {
                last.next = at;
            }
        } else if let Some(mut node) = self.spare.take() {
            *node.range_mut() = Range {
                first: place.0,
                last: place.0,
                key: Only,
                value: Level { first: at, last: at },
            };
            self.levels.insert(node);
        }
    }

    /// Takes out the first message.
    pub fn pop(&mut self) -> Option<Message> {
        let level = self.levels.first()?;
        let (place, at) = (level.place(), level.value.first);
        let is_last = at == level.value.last;
        let slot = self.slots.get_mut(at as usize)?;
        let next = core::mem::replace(&mut slot.next, self.free);
        let message = slot.message.take()?;
        self.free = at;
        if is_last {
            // The next level need not be allocated.
            let node = self.levels.remove(place);
            self.spare = self.spare.take().or(node);
        } else if let Some(level) = self.levels.value_mut(place) {
            level.first = next;
        }
        self.count -= 1;
        self.bytes -= message.text.len();
        Some(message)
    }
}
