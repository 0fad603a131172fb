//! Which socket is bound to which abstract name, in each network namespace. Names are looked up without a
//! lock (`rcu::glance`): a lookup writes nothing but the count of the socket that it finds.
//!
//! The table is a tree of branches, each for four bits of a name's hash, with leaves where names part. The
//! hash is keyed by random numbers, so a program cannot make names that meet.

use super::name::Name;
use super::{Kind, Sock};
use crate::rcu::{Shown, glance};
use crate::sync::{Lazy, Mutex};
use alloc::sync::{Arc, Weak};
#[expect(
    deprecated,
    reason = "there is no other keyed hash without the standard library"
)]
use core::hash::SipHasher;
use core::hash::{Hash, Hasher};
use core::ptr;
use limen_linux_abi::Errno;

/// Bits of the hash for each branch.
const BITS: u32 = 4;

/// The branches and leaves under a branch.
type Places = [Shown<Node>; 1 << BITS];

enum Node {
    Branch(Places),
    Leaf(Leaf),
}

struct Leaf {
    hash: u64,
    /// The network namespace in which it is a name (`NetRef::number`).
    net: u32,
    kind: Kind,
    name: Name,
    sock: Weak<Sock>,
    /// Another leaf with the same hash.
    next: Shown<Node>,
}

impl Leaf {
    fn is(&self, net: u32, kind: Kind, name: &[u8]) -> bool {
        self.kind == kind && self.net == net && *self.name == *name
    }
}

const fn no_places() -> Places {
    [const { Shown::empty() }; 1 << BITS]
}

static ROOT: Places = no_places();
/// Held by whoever changes the tree.
static CHANGES: Mutex<()> = Mutex::new(());
static KEYS: Lazy<[u64; 2]> = Lazy::new(|| {
    let mut keys = [0; 16];
    crate::random::fill(&mut keys);
    let all = u128::from_ne_bytes(keys);
    [all as u64, (all >> 64) as u64]
});

#[expect(deprecated, reason = "as above")]
fn hash(net: u32, kind: Kind, name: &[u8]) -> u64 {
    let mut hasher = SipHasher::new_with_keys(KEYS[0], KEYS[1] ^ u64::from(net));
    (kind as u8, name).hash(&mut hasher);
    hasher.finish()
}

/// Which of a branch's places `hash` belongs to. `depth`: how many branches are above.
fn index(hash: u64, depth: u32) -> usize {
    (hash >> (depth * BITS)) as usize % (1 << BITS)
}

/// What `ask` says of the leaf with this name. It is a part of the glance.
fn look<R>(net: u32, kind: Kind, name: &[u8], ask: impl FnOnce(&Leaf) -> Option<R>) -> Option<R> {
    let hash = hash(net, kind, name);
    let glance = glance();
    let mut node = ROOT[index(hash, 0)].look(&glance)?;
    let mut depth = 1;
    loop {
        match node {
            Node::Branch(places) => node = places[index(hash, depth)].look(&glance)?,
            Node::Leaf(leaf) if leaf.hash == hash && leaf.is(net, kind, name) => return ask(leaf),
            Node::Leaf(leaf) => node = leaf.next.look(&glance)?,
        }
        depth += 1;
    }
}

/// The socket of `kind` that is bound to an abstract name in the network namespace `net`.
pub(super) fn find(net: u32, kind: Kind, name: &[u8]) -> Option<Arc<Sock>> {
    look(net, kind, name, |leaf| leaf.sock.upgrade())
}

/// Binds a socket to an abstract name. `EADDRINUSE`: another one is bound to it.
pub(super) fn claim(name: Name, sock: &Arc<Sock>) -> Result<(), Errno> {
    let (net, kind) = (sock.net.number(), sock.kind);
    let hash = hash(net, kind, &name);
    let _changes = CHANGES.lock();
    if find(net, kind, &name).is_some() {
        return Err(Errno::EADDRINUSE);
    }
    // One that went without having been closed.
    remove(&ROOT[index(hash, 0)], 1, hash, &|leaf| leaf.is(net, kind, &name));
    let leaf = Leaf {
        hash,
        net,
        kind,
        name,
        sock: Arc::downgrade(sock),
        next: Shown::empty(),
    };
    insert(&ROOT, 0, leaf);
    Ok(())
}

/// Releases the name if it is an abstract one to which the socket is bound. May sleep.
pub(super) fn release(name: &Name, sock: &Sock) {
    let is_theirs = |leaf: &Leaf| ptr::eq(leaf.sock.as_ptr(), sock);
    let net = sock.net.number();
    // A socket that was accepted has the name of its listener.
    let bound =
        name.first() == Some(&0) && look(net, sock.kind, name, |leaf| Some(is_theirs(leaf))) == Some(true);
    if bound {
        let hash = hash(net, sock.kind, name);
        let _changes = CHANGES.lock();
        remove(&ROOT[index(hash, 0)], 1, hash, &is_theirs);
    }
}

/// Adds a leaf below `places`, which `depth` branches are above.
fn insert(places: &Places, depth: u32, leaf: Leaf) {
    let place = &places[index(leaf.hash, depth)];
    let found = place.get(&glance());
    let new = match found {
        None => Node::Leaf(leaf),
        Some(node) => match &*node {
            Node::Branch(places) => return insert(places, depth + 1, leaf),
            Node::Leaf(other) if other.hash == leaf.hash => {
                drop(leaf.next.replace(Some(node.clone())));
                Node::Leaf(leaf)
            }
            Node::Leaf(other) => {
                let places = no_places();
                drop(places[index(other.hash, depth + 1)].replace(Some(node.clone())));
                // Nobody sees the branch before it has both.
                insert(&places, depth + 1, leaf);
                Node::Branch(places)
            }
        },
    };
    drop(place.replace(Some(Arc::new(new))));
}

/// Removes the leaf with this hash for which `which` is true, at `place` or below it. `depth`: how many
/// branches are above.
fn remove(place: &Shown<Node>, depth: u32, hash: u64, which: &dyn Fn(&Leaf) -> bool) {
    let found = place.get(&glance());
    let Some(node) = found else { return };
    match &*node {
        Node::Branch(places) => {
            remove(&places[index(hash, depth)], depth + 1, hash, which);
            if places.iter().all(Shown::is_empty) {
                drop(place.replace(None));
            }
        }
        Node::Leaf(leaf) if leaf.hash == hash && which(leaf) => {
            let next = leaf.next.get(&glance());
            drop(place.replace(next));
        }
        Node::Leaf(leaf) => remove(&leaf.next, depth, hash, which),
    }
}
