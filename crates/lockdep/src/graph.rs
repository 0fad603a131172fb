//! The classes, and the dependencies between them: *B was waited for while A was held*. Used only under the
//! validator's own lock.
//!
//! A dependency also has the modes of both ends, because readers do not always block each other: if B is
//! waited for as a recursive reader, and B is held only by readers, the chain does not continue through B. A
//! chain without such a gap is *strong*. Only strong closed chains can deadlock.
//!
//! Interrupts fit into the same picture. A class that is held with interrupts on can be interrupted, and an
//! interrupt may wait for any class for which interrupts wait. This is as if there were a dependency from
//! every class of the first kind to every class of the second. These are not stored: the validator looks for
//! a strong chain from a class of the second kind to one of the first. Waiting for the answer of another CPU,
//! which does not answer while it waits for a lock with interrupts off, is a second rule of the same form.

use crate::class::{ClassId, Key, Mode, SUBCLASSES, Site, Usage};

/// The modes of the two ends of a dependency. A set of them is kept for each pair of classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ends {
    /// The first class was held shared.
    pub held_shared: bool,
    /// The second was waited for as a recursive reader.
    pub waits_recursive: bool,
}

impl Ends {
    const ALL: [Ends; 4] = {
        let mut all = [Ends::of(Mode::Exclusive, Mode::Exclusive); 4];
        let mut i = 0;
        while i < 4 {
            all[i].held_shared = i & 2 != 0;
            all[i].waits_recursive = i & 1 != 0;
            i += 1;
        }
        all
    };
    const fn of(held: Mode, wanted: Mode) -> Self {
        Self {
            held_shared: !matches!(held, Mode::Exclusive),
            waits_recursive: matches!(wanted, Mode::SharedRecursive),
        }
    }
    fn bit(self) -> u8 {
        1 << ((self.held_shared as u8) << 1 | self.waits_recursive as u8)
    }
}

/// A class that is held or wanted, in which mode and where.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// The class.
    pub class: ClassId,
    /// How.
    pub mode: Mode,
    /// Where it was taken.
    pub site: Site,
}

#[derive(Clone, Copy)]
struct Node {
    key: Option<Key>,
    /// The next class with the same hash.
    next: u16,
    usage: Usage,
    /// Where each kind of usage was seen first.
    seen: [Option<Site>; 8],
    /// The first dependency from it, and to it.
    out: u16,
    into: u16,
}

impl Node {
    const EMPTY: Self = Self {
        key: None,
        next: 0,
        usage: Usage::NONE,
        seen: [None; 8],
        out: 0,
        into: 0,
    };
}

/// One dependency.
#[derive(Clone, Copy)]
pub(crate) struct Edge {
    pub from: u16,
    pub to: u16,
    ends: u8,
    next_out: u16,
    next_into: u16,
    /// Where the first was taken, and where the second was taken while the first was held.
    pub sites: Option<(Site, Site)>,
}

impl Edge {
    const EMPTY: Self = Self {
        from: 0,
        to: 0,
        ends: 0,
        next_out: 0,
        next_into: 0,
        sites: None,
    };
}

/// A class that a search has visited, and how.
#[derive(Clone, Copy)]
struct Visit {
    /// The last search that came here.
    round: u32,
    /// The dependency by which it came, and the visit from which.
    edge: u16,
    from: u16,
}

/// How many dependencies of a chain are shown.
const PATH_MAX: usize = 32;
const BUCKETS: usize = 256;

/// Which table is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Full {
    /// Room for classes.
    Classes,
    /// Room for dependencies.
    Dependencies,
    /// Room for locks held by one thread.
    Held,
}

/// What was found when knowledge was added.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    /// A strong closed chain. [`Graph::path`] leads from the wanted class to the held one.
    Circle { held: End },
    /// A strong chain (the path) from a class that was waited for to one that was held as that forbids.
    Inversion {
        safe: ClassId,
        safe_use: Usage,
        unsafe_: ClassId,
        unsafe_use: Usage,
    },
    /// A table is full.
    Full(Full),
}

/// Up to `C` classes, counting subclasses, and `E` dependencies.
pub struct Graph<const C: usize, const E: usize> {
    buckets: [u16; BUCKETS],
    nodes: [Node; C],
    classes: u16,
    edges: [Edge; E],
    edge_count: u16,
    visits: [[Visit; 2]; C],
    queue: [[u16; 2]; C],
    round: u32,
    path: [u16; PATH_MAX],
    path_len: usize,
}

impl<const C: usize, const E: usize> Graph<C, E> {
    /// Without knowledge. All zeros, so that a static takes no room in the image.
    pub const fn new() -> Self {
        assert!(C >= 2 * SUBCLASSES && C * 2 <= 1 << 16 && E > 1 && E <= 1 << 16);
        Self {
            buckets: [0; BUCKETS],
            nodes: [Node::EMPTY; C],
            classes: 0,
            edges: [Edge::EMPTY; E],
            edge_count: 0,
            visits: [[Visit {
                round: 0,
                edge: 0,
                from: 0,
            }; 2]; C],
            queue: [[0; 2]; C],
            round: 0,
            path: [0; PATH_MAX],
            path_len: 0,
        }
    }

    /// The class with this key; a new one if there is none.
    pub(crate) fn class(&mut self, key: &Key) -> Result<ClassId, Full> {
        let bucket = key.hash() % BUCKETS;
        let mut at = self.buckets[bucket];
        while at != 0 {
            let node = &self.nodes[at as usize];
            if node.key.as_ref() == Some(key) {
                return Ok(ClassId(at));
            }
            at = node.next;
        }
        // Number 0 stands for "none", so the first block of subclasses is never used.
        let id = (self.classes as usize + 1) * SUBCLASSES;
        if id + SUBCLASSES > C {
            return Err(Full::Classes);
        }
        self.classes += 1;
        for n in 0..SUBCLASSES {
            self.nodes[id + n].key = Some(*key);
        }
        self.nodes[id].next = self.buckets[bucket];
        self.buckets[bucket] = id as u16;
        Ok(ClassId(id as u16))
    }

    /// How many classes and dependencies are known.
    pub fn size(&self) -> (usize, usize) {
        (self.classes as usize, self.edge_count as usize)
    }
    pub(crate) fn key(&self, class: ClassId) -> Option<&Key> {
        self.nodes[class.number()].key.as_ref()
    }
    pub(crate) fn usage(&self, class: ClassId) -> Usage {
        self.nodes[class.number()].usage
    }
    pub(crate) fn usage_site(&self, class: ClassId, usage: Usage) -> Option<Site> {
        self.nodes[class.number()].seen[usage.index()]
    }
    /// The chain that was found last, from its first dependency on.
    pub(crate) fn path(&self) -> impl DoubleEndedIterator<Item = &Edge> {
        self.path[..self.path_len]
            .iter()
            .map(|&e| &self.edges[e as usize])
    }

    fn find_edge(&self, from: ClassId, to: ClassId) -> Option<usize> {
        let mut at = self.nodes[from.number()].out as usize;
        while at != 0 {
            if self.edges[at].to == to.0 {
                return Some(at);
            }
            at = self.edges[at].next_out as usize;
        }
        None
    }

    /// `wanted` is waited for while `held` is held; they are different classes. `None`: harmless, as far as
    /// is known.
    pub(crate) fn depend(&mut self, held: End, wanted: End) -> Option<Found> {
        let ends = Ends::of(held.mode, wanted.mode);
        let known = self.find_edge(held.class, wanted.class);
        if known.is_some_and(|e| self.edges[e].ends & ends.bit() != 0) {
            return None;
        }
        // A chain from the wanted class back to the held one closes a circle if it is strong at both joints,
        // too.
        let target = held.class.0;
        let closes =
            |_: &Self, class: u16, recursive: bool| class == target && !(recursive && ends.held_shared);
        if self.search(wanted.class, ends.waits_recursive, closes) {
            return Some(Found::Circle { held });
        }
        match known {
            Some(e) => self.edges[e].ends |= ends.bit(),
            None => {
                let e = self.edge_count as usize + 1;
                if e >= E {
                    return Some(Found::Full(Full::Dependencies));
                }
                self.edge_count += 1;
                self.edges[e] = Edge {
                    from: held.class.0,
                    to: wanted.class.0,
                    ends: ends.bit(),
                    next_out: self.nodes[held.class.number()].out,
                    next_into: self.nodes[wanted.class.number()].into,
                    sites: Some((held.site, wanted.site)),
                };
                self.nodes[held.class.number()].out = e as u16;
                self.nodes[wanted.class.number()].into = e as u16;
            }
        }
        self.inversion_through(held.class)
    }

    /// `class` is used in one way that may be new. (If it is known, nothing happens.)
    pub(crate) fn mark(&mut self, class: ClassId, usage: Usage, site: Site) -> Option<Found> {
        let node = &mut self.nodes[class.number()];
        if node.usage.has(usage) {
            return None;
        }
        node.usage = node.usage.and(usage);
        node.seen[usage.index()] = Some(site);
        if usage.waits() {
            self.inversion_from(class, usage)
        } else {
            self.inversion_through(class)
        }
    }

    /// Looks for a chain through `class`, from a class that was waited for in some way to one that was held
    /// as that forbids (the rule of [`Usage`]).
    fn inversion_through(&mut self, class: ClassId) -> Option<Found> {
        let used = self.before(class);
        for i in 0..used {
            let safe = ClassId(self.queue[i / 2][i % 2]);
            for usage in self.usage(safe).each().filter(|u| u.waits()) {
                if let Some(found) = self.inversion_from(safe, usage) {
                    return Some(found);
                }
                // Each search uses the queue, so it is filled again.
                self.before(class);
            }
        }
        None
    }

    /// Looks for a strong chain from `safe`, which was waited for as `usage` says, to a class held as that
    /// forbids.
    fn inversion_from(&mut self, safe: ClassId, usage: Usage) -> Option<Found> {
        let [alone, shared] = usage.forbids();
        let mut found = (0, alone);
        let hit = |graph: &Self, class: u16, recursive: bool| {
            let states = graph.nodes[class as usize].usage;
            // A reader that holds it blocks only waits that are not a recursive reader's.
            let held = if states.has(alone) {
                alone
            } else if states.has(shared) && !recursive {
                shared
            } else {
                return false;
            };
            found = (class, held);
            true
        };
        self.search(safe, usage.is_read(), hit).then_some(())?;
        Some(Found::Inversion {
            safe,
            safe_use: usage,
            unsafe_: ClassId(found.0),
            unsafe_use: found.1,
        })
    }

    /// Follows strong chains from `start`, breadth first, until `hit` accepts a class and the way in which it
    /// is waited for at the end of the chain. `path` then has the shortest such chain.
    fn search(
        &mut self,
        start: ClassId,
        recursive: bool,
        mut hit: impl FnMut(&Self, u16, bool) -> bool,
    ) -> bool {
        self.round += 1;
        let round = self.round;
        let (mut first, mut last) = (0, 0);
        let mut reach = |graph: &mut Self, class: u16, recursive: bool, edge: u16, from: u16| {
            let visit = &mut graph.visits[class as usize][recursive as usize];
            if visit.round != round {
                *visit = Visit { round, edge, from };
                graph.queue[last / 2][last % 2] = class << 1 | recursive as u16;
                last += 1;
            }
            last
        };
        let mut end = reach(self, start.0, recursive, 0, 0);
        while first < end {
            let place = self.queue[first / 2][first % 2];
            first += 1;
            let (class, recursive) = (place >> 1, place & 1 != 0);
            if hit(self, class, recursive) {
                self.trace(place);
                return true;
            }
            let mut at = self.nodes[class as usize].out;
            while at != 0 {
                let edge = self.edges[at as usize];
                for ends in Ends::ALL {
                    if edge.ends & ends.bit() != 0 && !(recursive && ends.held_shared) {
                        end = reach(self, edge.to, ends.waits_recursive, at, place);
                    }
                }
                at = edge.next_out;
            }
        }
        false
    }

    /// Writes the way to `place` in the last search to `path`.
    fn trace(&mut self, place: u16) {
        let mut length = 0;
        let back = |graph: &Self, place: u16| graph.visits[(place >> 1) as usize][(place & 1) as usize];
        let mut at = place;
        while back(self, at).edge != 0 {
            length += 1;
            at = back(self, at).from;
        }
        self.path_len = length.min(PATH_MAX);
        at = place;
        for i in (0..length).rev() {
            let visit = back(self, at);
            if let Some(slot) = self.path.get_mut(i) {
                *slot = visit.edge;
            }
            at = visit.from;
        }
    }

    /// Collects in `queue` `class` and all classes from which a chain of any kind leads to it. Returns how
    /// many.
    fn before(&mut self, class: ClassId) -> usize {
        self.round += 1;
        let round = self.round;
        let (mut first, mut last) = (0, 1);
        self.queue[0][0] = class.0;
        self.visits[class.number()][0].round = round;
        while first < last {
            let at = self.queue[first / 2][first % 2];
            first += 1;
            let mut edge = self.nodes[at as usize].into;
            while edge != 0 {
                let Edge { from, next_into, .. } = self.edges[edge as usize];
                let visit = &mut self.visits[from as usize][0];
                if visit.round != round {
                    visit.round = round;
                    self.queue[last / 2][last % 2] = from;
                    last += 1;
                }
                edge = next_into;
            }
        }
        last
    }
}

impl<const C: usize, const E: usize> Default for Graph<C, E> {
    fn default() -> Self {
        Self::new()
    }
}
