//! Which mounts see what is mounted, moved and unmounted in others: groups of peers, and who is a slave of
//! which group (`mount_namespaces(7)`).
//!
//! A member is in one of two roles. A peer belongs to a group, in which each sees what happens in the others.
//! A slave belongs to nobody's group; it sees what happens in that of its masters. A group may have masters
//! of its own, which is another group. What is in no role is no member: a private mount.
//!
//! Members are records in one table, and in lists by their numbers, so that going through all that an event
//! reaches needs no memory and no recursion.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec::Vec;
use core::num::NonZeroU32;

/// A number that means nothing.
const NONE: u32 = u32::MAX;

/// There is no memory for that many members or groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

/// A member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member(NonZeroU32);

impl Member {
    fn of(index: u32) -> Self {
        Self(NonZeroU32::MIN.saturating_add(index))
    }
    fn index(self) -> u32 {
        self.0.get() - 1
    }
    /// As a number that is not 0.
    pub fn number(self) -> u32 {
        self.0.get()
    }
    /// The member with that number. 0: none.
    pub fn from_number(number: u32) -> Option<Self> {
        NonZeroU32::new(number).map(Self)
    }
}

/// A group of peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group(u32);

impl Group {
    /// The number under which programs know it, from 1 up.
    pub fn id(self) -> u32 {
        self.0 + 1
    }
}

/// What a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// One of the peers of a group.
    Peer(Group),
    /// A slave of a group.
    Slave(Group),
}

/// Of which copy that was made before a new copy is to be a peer or a slave ([`Groups::source`]). The numbers
/// are those of [`Groups::mark`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The peers of the place have the copy already.
    Peer(u32),
    /// The nearest masters that have a copy.
    Slave(u32),
}

/// A list: its first and last entry.
#[derive(Clone, Copy)]
struct List {
    first: u32,
    last: u32,
}

const EMPTY: List = List {
    first: NONE,
    last: NONE,
};

/// The neighbours in a list.
#[derive(Clone, Copy)]
struct Links {
    before: u32,
    after: u32,
}

const ALONE: Links = Links {
    before: NONE,
    after: NONE,
};

struct Record<T> {
    value: T,
    role: Role,
    links: Links,
}

struct GroupRecord {
    /// Its masters' group, or [`NONE`].
    master: u32,
    /// Its place among the slave groups of that.
    links: Links,
    peers: List,
    slaves: List,
    groups: List,
    /// 0: none.
    mark: u32,
}

/// Entries of a table: in use, or free and followed by another free one.
enum Entry<R> {
    Used(R),
    Free(u32),
}

struct Table<R> {
    entries: Vec<Entry<R>>,
    free: u32,
    used: usize,
}

impl<R> Table<R> {
    const fn new() -> Self {
        Self {
            entries: Vec::new(),
            free: NONE,
            used: 0,
        }
    }
    fn reserve(&mut self, more: usize) -> Result<(), NoMemory> {
        let free = self.entries.len() - self.used;
        if self.used + more >= NONE as usize {
            return Err(NoMemory);
        }
        self.entries
            .try_reserve(more.saturating_sub(free))
            .map_err(|_| NoMemory)
    }
    /// Room for it has been reserved.
    fn add(&mut self, record: R) -> u32 {
        self.used += 1;
        let index = self.free;
        match self.entries.get_mut(index as usize) {
            Some(entry) => {
                if let Entry::Free(next) = *entry {
                    self.free = next;
                }
                *entry = Entry::Used(record);
                index
            }
            None => {
                self.entries.push(Entry::Used(record));
                (self.entries.len() - 1) as u32
            }
        }
    }
    fn remove(&mut self, index: u32) -> R {
        self.used -= 1;
        let free = Entry::Free(core::mem::replace(&mut self.free, index));
        match core::mem::replace(&mut self.entries[index as usize], free) {
            Entry::Used(record) => record,
            Entry::Free(_) => unreachable!("what is removed is in use"),
        }
    }
    fn get(&self, index: u32) -> &R {
        match &self.entries[index as usize] {
            Entry::Used(record) => record,
            Entry::Free(_) => unreachable!("an entry that is free is in no list"),
        }
    }
    fn get_mut(&mut self, index: u32) -> &mut R {
        match &mut self.entries[index as usize] {
            Entry::Used(record) => record,
            Entry::Free(_) => unreachable!("an entry that is free is in no list"),
        }
    }
}

/// What is in lists.
trait Linked {
    fn links(&mut self) -> &mut Links;
}
impl<T> Linked for Record<T> {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}
impl Linked for GroupRecord {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl<R: Linked> Table<R> {
    /// Adds an entry at the end of `list`.
    fn link(&mut self, list: &mut List, index: u32) {
        *self.get_mut(index).links() = Links {
            before: list.last,
            after: NONE,
        };
        match list.last {
            NONE => list.first = index,
            last => self.get_mut(last).links().after = index,
        }
        list.last = index;
    }
    /// Removes an entry from `list`.
    fn unlink(&mut self, list: &mut List, index: u32) {
        let Links { before, after } = core::mem::replace(self.get_mut(index).links(), ALONE);
        match before {
            NONE => list.first = after,
            before => self.get_mut(before).links().after = after,
        }
        match after {
            NONE => list.last = before,
            after => self.get_mut(after).links().before = before,
        }
    }
}

/// All members and groups. `T` is what a member stands for.
pub struct Groups<T> {
    members: Table<Record<T>>,
    groups: Table<GroupRecord>,
}

impl<T> Default for Groups<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Groups<T> {
    /// No members.
    pub const fn new() -> Self {
        Self {
            members: Table::new(),
            groups: Table::new(),
        }
    }
    /// Room for that many new members and groups, so that making them cannot fail.
    pub fn reserve(&mut self, members: usize, groups: usize) -> Result<(), NoMemory> {
        self.members.reserve(members)?;
        self.groups.reserve(groups)
    }
    /// What a member stands for.
    pub fn value(&self, member: Member) -> &T {
        &self.members.get(member.index()).value
    }
    /// Its role.
    pub fn role(&self, member: Member) -> Role {
        self.members.get(member.index()).role
    }
    /// The group of which it is a peer. `None`: it is a slave only.
    pub fn shared(&self, member: Member) -> Option<Group> {
        match self.role(member) {
            Role::Peer(group) => Some(group),
            Role::Slave(_) => None,
        }
    }
    /// The group of which it, or its group, is a slave.
    pub fn master(&self, member: Member) -> Option<Group> {
        match self.role(member) {
            Role::Peer(group) => self.master_of(group),
            Role::Slave(group) => Some(group),
        }
    }
    /// The group of which this one is a slave.
    pub fn master_of(&self, group: Group) -> Option<Group> {
        let master = self.groups.get(group.0).master;
        (master != NONE).then_some(Group(master))
    }
    /// The peers of a group.
    pub fn peers(&self, group: Group) -> impl Iterator<Item = Member> {
        let mut next = self.groups.get(group.0).peers.first;
        core::iter::from_fn(move || {
            let index = next;
            if index == NONE {
                return None;
            }
            next = self.members.get(index).links.after;
            Some(Member::of(index))
        })
    }

    fn list_of(groups: &mut Table<GroupRecord>, role: Role) -> &mut List {
        match role {
            Role::Peer(group) => &mut groups.get_mut(group.0).peers,
            Role::Slave(group) => &mut groups.get_mut(group.0).slaves,
        }
    }
    fn enter(&mut self, index: u32, role: Role) {
        self.members.get_mut(index).role = role;
        self.members.link(Self::list_of(&mut self.groups, role), index);
    }
    fn new_member(&mut self, value: T, role: Role) -> Member {
        let index = self.members.add(Record {
            value,
            role,
            links: ALONE,
        });
        self.enter(index, role);
        Member::of(index)
    }
    /// An empty group, a slave of `master`.
    fn new_group(&mut self, master: u32) -> Group {
        let index = self.groups.add(GroupRecord {
            master: NONE,
            links: ALONE,
            peers: EMPTY,
            slaves: EMPTY,
            groups: EMPTY,
            mark: 0,
        });
        self.obey(index, master);
        Group(index)
    }
    /// A group that has no masters becomes a slave of `master`, if that is one.
    fn obey(&mut self, group: u32, master: u32) {
        self.groups.get_mut(group).master = master;
        if master != NONE {
            let mut list = self.groups.get(master).groups;
            self.groups.link(&mut list, group);
            self.groups.get_mut(master).groups = list;
        }
    }
    /// The inverse of `obey`.
    fn leave_master(&mut self, group: u32) {
        let master = core::mem::replace(&mut self.groups.get_mut(group).master, NONE);
        if master != NONE {
            let mut list = self.groups.get(master).groups;
            self.groups.unlink(&mut list, group);
            self.groups.get_mut(master).groups = list;
        }
    }
    /// Takes a member out of its list. `gone` gets what was a slave of its group and is private from now on.
    fn leave(&mut self, member: Member, gone: &mut impl FnMut(T)) {
        let role = self.role(member);
        self.members
            .unlink(Self::list_of(&mut self.groups, role), member.index());
        if let Role::Peer(group) = role {
            self.dissolve_if_empty(group, gone);
        }
    }
    /// The slaves of a group without peers become those of its masters.
    fn dissolve_if_empty(&mut self, group: Group, gone: &mut impl FnMut(T)) {
        if self.groups.get(group.0).peers.first != NONE {
            return;
        }
        let master = self.groups.get(group.0).master;
        self.leave_master(group.0);
        loop {
            let slave = self.groups.get(group.0).slaves.first;
            if slave == NONE {
                break;
            }
            self.members
                .unlink(&mut self.groups.get_mut(group.0).slaves, slave);
            if master == NONE {
                gone(self.members.remove(slave).value);
            } else {
                self.enter(slave, Role::Slave(Group(master)));
            }
        }
        loop {
            let slave = self.groups.get(group.0).groups.first;
            if slave == NONE {
                break;
            }
            self.leave_master(slave);
            self.obey(slave, master);
        }
        self.groups.remove(group.0);
    }

    /// A private one becomes a peer in a new group. Room for a member and a group has been reserved.
    pub fn add_shared(&mut self, value: T) -> Member {
        let group = self.new_group(NONE);
        self.new_member(value, Role::Peer(group))
    }
    /// A slave becomes a peer in a new group, whose masters are those that it had. Room for a group has been
    /// reserved. Nothing happens to one that is a peer.
    pub fn share(&mut self, member: Member) {
        if let Role::Slave(master) = self.role(member) {
            self.members
                .unlink(&mut self.groups.get_mut(master.0).slaves, member.index());
            let group = self.new_group(master.0);
            self.enter(member.index(), Role::Peer(group));
        }
    }
    /// Adds one in the role that `other` has. Room for a member has been reserved.
    pub fn add_like(&mut self, other: Member, value: T) -> Member {
        self.new_member(value, self.role(other))
    }
    /// Adds a slave of the group of `other`, or of its masters if it is a slave only. Room for a member has
    /// been reserved.
    pub fn add_slave(&mut self, other: Member, value: T) -> Member {
        let (Role::Peer(group) | Role::Slave(group)) = self.role(other);
        self.new_member(value, Role::Slave(group))
    }
    /// A peer becomes a slave: of its former peers, else of its group's masters; without those it is private,
    /// and no member any more. A slave stays what it is. `gone` gets what is no member from now on: perhaps
    /// this, and the slaves of a group that has ended.
    pub fn make_slave(&mut self, member: Member, gone: &mut impl FnMut(T)) {
        let Role::Peer(group) = self.role(member) else {
            return;
        };
        let peers = self.groups.get(group.0).peers;
        if peers.first != peers.last {
            self.members
                .unlink(&mut self.groups.get_mut(group.0).peers, member.index());
            self.enter(member.index(), Role::Slave(group));
            return;
        }
        match self.groups.get(group.0).master {
            NONE => self.remove(member, gone),
            master => {
                self.leave(member, gone);
                self.enter(member.index(), Role::Slave(Group(master)));
            }
        }
    }
    /// A member becomes private. `gone` gets what is no member from now on: this, and the slaves of a group
    /// that has ended with it.
    pub fn remove(&mut self, member: Member, gone: &mut impl FnMut(T)) {
        self.leave(member, gone);
        gone(self.members.remove(member.index()).value);
    }

    /// Whom an event in `origin` reaches, one after the other: the member behind `at`, the first for `None`.
    /// Groups come before their slaves, and the members of a group one behind the other.
    pub fn reached(&self, origin: Member, at: Option<Member>) -> Option<Member> {
        let Role::Peer(root) = self.role(origin) else {
            return None;
        };
        let found = match at {
            None => Some(self.groups.get(root.0).peers.first),
            Some(at) => self.behind(at, root),
        };
        match found.filter(|index| *index != NONE).map(Member::of) {
            Some(member) if member == origin => self.behind(origin, root).map(Member::of),
            other => other,
        }
    }
    /// The member behind `at` in the group `root` and all that obey it.
    fn behind(&self, at: Member, root: Group) -> Option<u32> {
        let record = self.members.get(at.index());
        if record.links.after != NONE {
            return Some(record.links.after);
        }
        let mut group = match record.role {
            Role::Peer(group) => {
                let slave = self.groups.get(group.0).slaves.first;
                if slave != NONE {
                    return Some(slave);
                }
                group.0
            }
            Role::Slave(group) => group.0,
        };
        let mut next = self.groups.get(group).groups.first;
        loop {
            if next != NONE {
                return Some(self.groups.get(next).peers.first);
            }
            if group == root.0 {
                return None;
            }
            next = self.groups.get(group).links.after;
            group = self.groups.get(group).master;
        }
    }

    /// Notes a number for a group, which is not 0; 0 takes the note away.
    pub fn mark(&mut self, group: Group, number: u32) {
        self.groups.get_mut(group.0).mark = number;
    }
    /// What the copy for `member` is to be, which an event in a marked group reaches: by the mark of its own
    /// group, or of the nearest masters that have one.
    pub fn source(&self, member: Member) -> Option<Source> {
        let (mut group, own) = match self.role(member) {
            Role::Peer(group) => (group.0, true),
            Role::Slave(group) => (group.0, false),
        };
        let mut first = own;
        while group != NONE {
            let record = self.groups.get(group);
            match record.mark {
                0 => {}
                mark if first => return Some(Source::Peer(mark)),
                mark => return Some(Source::Slave(mark)),
            }
            first = false;
            group = record.master;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::String;
    use std::vec;

    fn all(groups: &Groups<char>, origin: Member) -> String {
        let mut text = String::new();
        let mut at = None;
        while let Some(next) = groups.reached(origin, at) {
            text.push(*groups.value(next));
            at = Some(next);
        }
        text
    }
    fn none(gone: char) {
        panic!("{gone} is gone");
    }
    fn room() -> Groups<char> {
        let mut groups = Groups::new();
        assert_eq!(groups.reserve(100, 100), Ok(()));
        groups
    }

    #[test]
    fn peers_reach_each_other() {
        let mut g = room();
        let a = g.add_shared('a');
        assert_eq!(all(&g, a), "");
        let b = g.add_like(a, 'b');
        let c = g.add_like(b, 'c');
        assert_eq!(all(&g, a), "bc");
        assert_eq!(all(&g, b), "ac");
        assert_eq!(all(&g, c), "ab");
        let mut gone = vec![];
        g.remove(a, &mut |x| gone.push(x));
        assert_eq!((gone, all(&g, b)), (vec!['a'], "c".into()));
        assert_eq!(g.shared(b).map(Group::id), Some(1));
    }

    #[test]
    fn slaves_hear_but_do_not_tell() {
        let mut g = room();
        let a = g.add_shared('a');
        let b = g.add_like(a, 'b');
        let s = g.add_slave(a, 's');
        let t = g.add_slave(b, 't');
        g.share(t);
        let u = g.add_like(t, 'u');
        let v = g.add_slave(u, 'v');
        assert_eq!(all(&g, a), "bstuv");
        assert_eq!(all(&g, b), "astuv");
        assert_eq!(all(&g, s), "");
        assert_eq!(all(&g, t), "uv");
        assert_eq!(all(&g, u), "tv");
        assert_eq!(all(&g, v), "");
        assert_eq!(
            (g.master(s), g.master(t), g.master(a)),
            (g.shared(a), g.shared(a), None)
        );
        assert_eq!(g.master(v), g.shared(u));
    }

    #[test]
    fn deep_and_wide() {
        let mut g = room();
        let a = g.add_shared('a');
        let b = g.add_slave(a, 'b');
        g.share(b);
        let c = g.add_slave(b, 'c');
        g.share(c);
        let d = g.add_slave(a, 'd');
        g.share(d);
        let e = g.add_slave(b, 'e');
        g.share(e);
        assert_eq!(all(&g, a), "bced");
        assert_eq!(all(&g, b), "ce");
    }

    #[test]
    fn the_last_peer_hands_its_slaves_over() {
        let mut g = room();
        let a = g.add_shared('a');
        let b = g.add_slave(a, 'b');
        g.share(b);
        let c = g.add_slave(b, 'c');
        let d = g.add_slave(b, 'd');
        g.share(d);
        let mut gone = vec![];
        g.remove(b, &mut |x| gone.push(x));
        assert_eq!(gone, ['b']);
        assert_eq!(all(&g, a), "cd");
        assert_eq!((g.master(c), g.master(d)), (g.shared(a), g.shared(a)));
        g.remove(a, &mut |x| gone.push(x));
        // `c` was only a slave: it is private now. `d` has no masters any more.
        assert_eq!(gone, ['b', 'c', 'a']);
        assert_eq!((g.master(d), all(&g, d)), (None, "".into()));
    }

    #[test]
    fn a_peer_becomes_a_slave() {
        let mut g = room();
        let a = g.add_shared('a');
        let b = g.add_like(a, 'b');
        let c = g.add_slave(b, 'c');
        g.make_slave(b, &mut none);
        assert_eq!(all(&g, a), "cb");
        assert_eq!(g.role(b), Role::Slave(g.shared(a).unwrap()));
        // The only peer of a group with masters, with slaves of its own.
        g.share(b);
        let d = g.add_slave(b, 'd');
        g.make_slave(b, &mut none);
        assert_eq!((g.master(b), g.master(d)), (g.shared(a), g.shared(a)));
        // The only one of a group without masters becomes private, and so do its slaves.
        let mut gone = vec![];
        g.make_slave(a, &mut |x| gone.push(x));
        gone.sort();
        assert_eq!(gone, ['a', 'b', 'c', 'd']);
        let _ = c;
    }

    #[test]
    fn numbers_are_used_again() {
        let mut g = room();
        let a = g.add_shared('a');
        let b = g.add_shared('b');
        assert_eq!(g.shared(b).map(Group::id), Some(2));
        g.remove(a, &mut |_| ());
        let c = g.add_shared('c');
        assert_eq!(g.shared(c).map(Group::id), Some(1));
        assert_eq!(Member::from_number(c.number()), Some(c));
        assert_eq!(Member::from_number(0), None);
    }

    #[test]
    fn copies_follow_the_nearest_masters_that_have_one() {
        let mut g = room();
        let a = g.add_shared('a');
        let b = g.add_slave(a, 'b');
        g.share(b);
        let c = g.add_slave(b, 'c');
        g.share(c);
        let d = g.add_like(c, 'd');
        let s = g.add_slave(c, 's');
        g.mark(g.shared(a).unwrap(), 1);
        assert_eq!(g.source(a), Some(Source::Peer(1)));
        assert_eq!(g.source(b), Some(Source::Slave(1)));
        // The place is not in `b`, so it has no copy.
        assert_eq!(g.source(c), Some(Source::Slave(1)));
        g.mark(g.shared(c).unwrap(), 2);
        assert_eq!(g.source(d), Some(Source::Peer(2)));
        assert_eq!(g.source(s), Some(Source::Slave(2)));
        let (x, y) = (g.shared(a).unwrap(), g.shared(c).unwrap());
        g.mark(x, 0);
        g.mark(y, 0);
        assert_eq!(g.source(s), None);
    }

    #[test]
    fn what_an_event_reaches_is_what_a_search_finds() {
        // All kinds of changes by a small random number generator; the walk is compared with a simple one.
        let mut seed = 12345u32;
        let mut random = move |below: u32| {
            seed = seed.wrapping_mul(1664525).wrapping_add(1013904223);
            (seed >> 8) % below
        };
        let mut g: Groups<u32> = Groups::new();
        let mut live: Vec<(u32, Member)> = Vec::new();
        let mut next = 0;
        for _ in 0..20000 {
            assert_eq!(g.reserve(1, 1), Ok(()));
            let pick = (!live.is_empty()).then(|| random(live.len() as u32) as usize);
            let mut gone = Vec::new();
            match (random(7), pick) {
                (0, _) => {
                    live.push((next, g.add_shared(next)));
                    next += 1;
                }
                (1, Some(i)) if live.len() < 40 => {
                    live.push((next, g.add_like(live[i].1, next)));
                    next += 1;
                }
                (2, Some(i)) if live.len() < 40 => {
                    live.push((next, g.add_slave(live[i].1, next)));
                    next += 1;
                }
                (3, Some(i)) => g.share(live[i].1),
                (4, Some(i)) => g.make_slave(live[i].1, &mut |x| gone.push(x)),
                (5, Some(i)) => g.remove(live[i].1, &mut |x| gone.push(x)),
                _ => {}
            }
            live.retain(|(value, _)| !gone.contains(value));
            for (_, origin) in &live {
                let mut reached = Vec::new();
                let mut at = None;
                while let Some(found) = g.reached(*origin, at) {
                    reached.push(*g.value(found));
                    at = Some(found);
                }
                let mut expected = Vec::new();
                if let Some(root) = g.shared(*origin) {
                    for (value, member) in &live {
                        let mut group = match g.role(*member) {
                            Role::Peer(group) | Role::Slave(group) => Some(group),
                        };
                        while group.is_some_and(|now| now != root) {
                            group = group.and_then(|now| g.master_of(now));
                        }
                        if group.is_some() && member != origin {
                            expected.push(*value);
                        }
                    }
                }
                reached.sort();
                expected.sort();
                assert_eq!(reached, expected);
            }
        }
    }
}
