//! Mounting where others see it: what is mounted, bound or moved into a mount appears in its peers and their
//! slaves, too. All copies, with their places in the lists, are made before anything is changed.

use super::tree::{
    Hanging, Peers, children, clear, cover, differ, hang, hang_too, is_shared, node, relist, unlist,
};
use super::{LOCK_ATIME, LOCKED, LOCKS, Mount, Table, namespace, table};
use crate::fs::dentry::Dentry;
use crate::fs::moves::Moving;
use crate::fs::path::Path;
use crate::mm::reserve::{handling, room};
use crate::rcu::Shared;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use limen_linux_abi::Errno;
use limen_peer_groups::{Role, Source};
use limen_range_tree::NodeBox;

/// A mount of a tree, and where it is in that.
pub(super) struct Limb {
    pub mnt: Shared<Mount>,
    /// Which of the tree it is mounted in, and on which name. The first one is mounted outside.
    pub above: usize,
    pub on: Shared<Dentry>,
    /// What it is a copy of.
    pub like: Option<Shared<Mount>>,
}

/// Mounts below each other. A mount comes behind the one in which it is mounted.
pub(super) struct Tree(pub Vec<Limb>);

impl Tree {
    /// With one mount. `ENOMEM`.
    pub fn of(mnt: Shared<Mount>) -> Result<Self, Errno> {
        let mut limbs = Vec::new();
        room(&mut limbs, 1)?;
        limbs.push(Limb {
            on: mnt.root.clone(),
            mnt,
            above: 0,
            like: None,
        });
        Ok(Self(limbs))
    }
    /// The mount above all others.
    pub fn root(&self) -> &Shared<Mount> {
        &self.0[0].mnt
    }
    /// Where one of them that is not the root is mounted.
    fn place_of(&self, limb: &Limb) -> Path {
        Path {
            mnt: self.0[limb.above].mnt.clone(),
            dentry: limb.on.clone(),
        }
    }
    pub fn any(&self, f: impl Fn(&Mount) -> bool) -> bool {
        self.0.iter().any(|limb| f(&limb.mnt))
    }
}

/// `root`, and the mounts below its name `from`, but for those that `take` refuses, and what is in those. An
/// error of `take`; `ENOMEM`. The caller has locked all mounts.
pub(super) fn gather(
    root: &Shared<Mount>,
    from: &Shared<Dentry>,
    take: impl Fn(&Mount) -> Result<bool, Errno>,
) -> Result<Tree, Errno> {
    let mut tree = Tree::of(root.clone())?;
    let mut above = 0;
    while let Some(limb) = tree.0.get(above) {
        let into = limb.mnt.clone();
        for mnt in children(&into) {
            let Some(at) = mnt.mountpoint() else { continue };
            if above == 0 && !at.dentry.is_below(from) || !take(&mnt)? {
                continue;
            }
            room(&mut tree.0, 1)?;
            tree.0.push(Limb {
                mnt,
                above,
                on: at.dentry,
                like: None,
            });
        }
        above += 1;
    }
    Ok(tree)
}

/// A copy of a tree, mounted nowhere. `root`: what its first mount shows, if not the same. `ENOMEM`.
pub(super) fn copies_of(tree: &Tree, root: Option<&Shared<Dentry>>) -> Result<Tree, Errno> {
    let mut copies = Vec::new();
    room(&mut copies, tree.0.len())?;
    for (i, limb) in tree.0.iter().enumerate() {
        let shown = root.filter(|_| i == 0).unwrap_or(&limb.mnt.root);
        copies.push(Limb {
            mnt: limb.mnt.copy_at(shown.clone())?,
            above: limb.above,
            on: limb.on.clone(),
            like: Some(limb.mnt.clone()),
        });
    }
    Ok(Tree(copies))
}

/// The user namespace that owns a mount's namespace has fewer rights than the one from which the mount comes:
/// it cannot take away what protects files, or uncover what is covered.
pub(super) fn lock(tree: &Tree) {
    for (i, limb) in tree.0.iter().enumerate() {
        let flags = limb.mnt.flags();
        let mut locks = LOCK_ATIME | if i == 0 { 0 } else { LOCKED };
        for (flag, bit) in LOCKS {
            if flags & flag != 0 {
                locks |= bit;
            }
        }
        limb.mnt.set_state(locks, 0);
    }
}

/// Whether a name is the file of a mount namespace that is not younger than the running task's: if that were
/// bound in here, namespaces could keep each other alive.
pub(super) fn mount_ns_loops(dentry: &Dentry) -> bool {
    namespace::mounts_of_file(dentry).is_some_and(|table| table::with_current(|mine| mine.seq >= table.seq))
}

/// Whether a name is the file of a mount namespace. Copies of trees leave those out.
pub(super) fn is_mount_ns(dentry: &Dentry) -> bool {
    namespace::mounts_of_file(dentry).is_some()
}

/// Whom a copy resembles.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum As {
    /// It is what the original is: private, a peer, a slave.
    Same,
    /// It is a slave of the original.
    Slave,
    /// It is a slave of the original if that has peers, else what that is.
    SharedToSlave,
}

/// A copy takes its role. There is room for it in `peers`.
pub(super) fn adopt(peers: &mut Peers, limb: &Limb, how: As) {
    let Some(member) = limb.like.as_ref().and_then(|like| like.member()) else {
        return;
    };
    let slave = match how {
        As::Same => false,
        As::Slave => true,
        As::SharedToSlave => matches!(peers.role(member), Role::Peer(_)),
    };
    let new = if slave {
        peers.add_slave(member, limb.mnt.clone())
    } else {
        peers.add_like(member, limb.mnt.clone())
    };
    limb.mnt.set_member(Some(new));
}

/// A mount gets peers from now on. There is room for a member and a group.
pub(super) fn share(peers: &mut Peers, mnt: &Shared<Mount>) {
    match mnt.member() {
        Some(member) => peers.share(member),
        None => mnt.set_member(Some(peers.add_shared(mnt.clone()))),
    }
    mnt.set_state(0, super::UNBINDABLE);
}

/// What a mount needs to be in the lists.
pub(super) struct Nodes {
    hanging: Option<Hanging>,
    listed: NodeBox<usize, Shared<Mount>>,
}

/// For all of a tree. `outside`: where its first mount is mounted. `ENOMEM`.
pub(super) fn nodes_for(tree: &Tree, outside: Option<&Path>) -> Result<Vec<Nodes>, Errno> {
    let mut all = Vec::new();
    room(&mut all, tree.0.len())?;
    for (i, limb) in tree.0.iter().enumerate() {
        let inside = (i > 0).then(|| tree.place_of(limb));
        let at = inside.as_ref().or(outside);
        all.push(Nodes {
            hanging: at.map(|at| Hanging::at(&limb.mnt, at)).transpose()?,
            listed: node(&limb.mnt, u64::from(limb.mnt.id))?,
        });
    }
    Ok(all)
}

/// Puts a tree together that nobody can reach yet: adds its mounts to the lists, as those of a namespace, and
/// mounts all but its root where they belong. The root only learns its place `at`. Whoever comes to the root
/// later finds covered what the others cover, and all of it in that namespace.
fn put_together(tree: &Tree, nodes: Vec<Nodes>, into: &Arc<Table>, at: Option<Path>) {
    *tree.root().at.lock() = at;
    for (limb, nodes) in tree.0.iter().zip(nodes) {
        *limb.mnt.table.lock() = Some(into.clone());
        if let Some(hanging) = nodes.hanging {
            hanging.list();
        }
        into.list.lock().insert(nodes.listed);
    }
    for limb in &tree.0[1..] {
        hang_too(&limb.mnt, tree.place_of(limb));
    }
}

/// The inverse of [`put_together`], of a tree that nobody has reached.
fn take_apart(tree: &Tree) {
    for (i, limb) in tree.0.iter().enumerate().rev() {
        let at = limb.mnt.at.lock().take();
        drop(unlist(&limb.mnt, at.as_ref()));
        if i > 0 {
            clear(at);
        }
    }
}

/// A copy that appears in another mount.
struct Copy {
    at: Path,
    table: Arc<Table>,
    tree: Tree,
    nodes: Vec<Nodes>,
    /// The copy of which this is a peer or a slave: its number from 1 up. 0: what is mounted.
    source: u32,
    slave: bool,
    shared: bool,
}

/// What becomes of a tree.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Its mounts are new.
    New,
    /// It is mounted elsewhere.
    Moved,
}

/// The copies that appear elsewhere when `tree` is mounted at `at`, which has peers. `ENOSPC`, `ENOMEM`;
/// `EINVAL`: what is mounted is a mount namespace, of which there are no copies.
fn copies(peers: &mut Peers, tree: &Tree, at: &Path) -> Result<Vec<Copy>, Errno> {
    let Some(origin) = at.mnt.member() else {
        return Ok(Vec::new());
    };
    let mut copies = Vec::new();
    // Groups that have copies are marked with the number of one: from 2 up, as 1 is what is mounted.
    if let Some(group) = peers.shared(origin) {
        peers.mark(group, 1);
    }
    let result = collect(peers, tree, at, &mut copies);
    let mut next = Some(origin);
    while let Some(member) = next {
        if let Some(group) = peers.shared(member) {
            peers.mark(group, 0);
        }
        next = peers.reached(origin, (member != origin).then_some(member));
    }
    result.map(|()| copies)
}

fn collect(peers: &mut Peers, tree: &Tree, at: &Path, copies: &mut Vec<Copy>) -> Result<(), Errno> {
    let Some(origin) = at.mnt.member() else {
        return Ok(());
    };
    let mut last = None;
    let mut kept: Option<Tree> = None;
    while let Some(member) = peers.reached(origin, last) {
        last = Some(member);
        let into = peers.value(member).clone();
        if !at.dentry.is_below(&into.root) {
            continue;
        }
        let Some(source) = peers.source(member) else {
            continue;
        };
        let (source, slave) = match source {
            Source::Peer(mark) => (mark - 1, false),
            Source::Slave(mark) => (mark - 1, true),
        };
        if kept.is_none() {
            kept = Some(kept_of(tree)?);
        }
        let Some(kept) = &kept else { continue };
        let table = into.table()?;
        table.count(kept.0.len())?;
        let copied = copies_of(kept, None)?;
        copied.root().set_state(0, LOCKED);
        let place = Path {
            mnt: into,
            dentry: at.dentry.clone(),
        };
        let nodes = nodes_for(&copied, Some(&place))?;
        room(copies, 1)?;
        let own = peers.shared(member);
        copies.push(Copy {
            at: place,
            table,
            tree: copied,
            nodes,
            source,
            slave,
            shared: own.is_some(),
        });
        if let Some(own) = own.filter(|_| slave) {
            peers.mark(own, copies.len() as u32 + 1);
        }
    }
    Ok(())
}

/// What is copied of a tree. `EINVAL`: nothing.
fn kept_of(tree: &Tree) -> Result<Tree, Errno> {
    let mut kept = Vec::new();
    room(&mut kept, tree.0.len())?;
    let mut places = Vec::new();
    room(&mut places, tree.0.len())?;
    for (i, limb) in tree.0.iter().enumerate() {
        let above: Option<usize> = if i == 0 { Some(0) } else { places[limb.above] };
        let Some(above) = above.filter(|_| !is_mount_ns(&limb.mnt.root)) else {
            places.push(None);
            continue;
        };
        places.push(Some(kept.len()));
        kept.push(Limb {
            mnt: limb.mnt.clone(),
            above,
            on: limb.on.clone(),
            like: None,
        });
    }
    if kept.is_empty() {
        return Err(Errno::EINVAL);
    }
    Ok(Tree(kept))
}

/// Mounts a tree at `at`, where nothing is mounted, and its copies wherever that is seen. `ENOTDIR`,
/// `ENOSPC`, `ENOMEM`, `ENOENT`: nothing has happened. The caller has locked all mounts.
pub(super) fn attach(peers: &mut Peers, tree: Tree, at: Path, kind: Kind) -> Result<(), Errno> {
    if differ(&at, &tree.root().root) {
        return Err(Errno::ENOTDIR);
    }
    let into = at.mnt.table()?;
    let mut prepared = Vec::new();
    let result = attach_counted(peers, tree, at, kind, &into, &mut prepared);
    into.counted();
    for copy in &prepared {
        copy.table.counted();
    }
    result
}

fn attach_counted(
    peers: &mut Peers,
    mut tree: Tree,
    at: Path,
    kind: Kind,
    into: &Arc<Table>,
    prepared: &mut Vec<Copy>,
) -> Result<(), Errno> {
    let shared = is_shared(peers, &at.mnt);
    let mut nodes = Vec::new();
    if kind == Kind::New {
        into.count(tree.0.len())?;
        nodes = nodes_for(&tree, Some(&at))?;
    }
    if shared {
        *prepared = copies(peers, &tree, &at).inspect_err(|_| forget_counts(peers, &at))?;
    }
    let most = tree.0.len() * (prepared.len() + 1);
    handling(|| peers.reserve(most, most)).map_err(|_| Errno::ENOMEM)?;
    if kind == Kind::New {
        put_together(&tree, nodes, into, Some(at.clone()));
    }
    for copy in &mut *prepared {
        let nodes = core::mem::take(&mut copy.nodes);
        put_together(&copy.tree, nodes, &copy.table, Some(copy.at.clone()));
    }
    let _moving = Moving::begin();
    let old = hang(tree.root(), at.clone()).inspect_err(|_| {
        if kind == Kind::New {
            take_apart(&tree);
        }
        for copy in &*prepared {
            take_apart(&copy.tree);
        }
    })?;
    match kind {
        Kind::New => {
            for limb in &tree.0 {
                adopt(peers, limb, As::Same);
            }
        }
        Kind::Moved => clear(old),
    }
    if shared {
        for limb in &tree.0 {
            share(peers, &limb.mnt);
        }
    }
    into.changes.announce();
    for i in 0..prepared.len() {
        let (before, rest) = prepared.split_at_mut(i);
        let Some(copy) = rest.first_mut() else { break };
        if copy.source > 0 {
            let source = &before[copy.source as usize - 1];
            for (limb, like) in copy.tree.0.iter_mut().zip(&source.tree.0) {
                limb.like = Some(like.mnt.clone());
            }
        }
        commit(peers, copy);
    }
    for limb in &mut tree.0 {
        limb.like = None;
    }
    Ok(())
}

/// The preparation of copies has failed: nobody counts on them.
fn forget_counts(peers: &Peers, at: &Path) {
    let Some(origin) = at.mnt.member() else { return };
    let mut last = None;
    while let Some(member) = peers.reached(origin, last) {
        last = Some(member);
        if let Ok(table) = peers.value(member).table() {
            table.counted();
        }
    }
}

/// A copy, which is put together, appears in its mount. What was mounted there is on top of it.
fn commit(peers: &mut Peers, copy: &Copy) {
    let how = if copy.slave { As::Slave } else { As::Same };
    for limb in &copy.tree.0 {
        adopt(peers, limb, how);
        if copy.shared {
            share(peers, &limb.mnt);
        }
    }
    let foreign = table::with_current(|mine| !copy.table.has_owner_of(mine));
    if foreign {
        lock(&copy.tree);
    }
    let root = copy.tree.root();
    root.set_state(0, LOCKED);
    let place = &copy.at;
    match place.dentry.mounted.find(&place.mnt) {
        Some(over) => {
            let top = Path {
                mnt: root.clone(),
                dentry: root.root.clone(),
            };
            // Of a process that is gone nothing goes any more.
            let _ = cover(&top.dentry);
            let old = over.at.lock().replace(top.clone());
            relist(&over, old.as_ref(), &top);
            top.dentry.mounted.add(&top.mnt, over);
            place.dentry.mounted.replace(&place.mnt, root.clone());
        }
        None => hang_too(root, place.clone()),
    }
    copy.table.changes.announce();
}

/// The tree of a namespace for a new one. `like` of each is the original. With `slaves`, what happens in the
/// copy does not reach the original.
pub(super) fn copy_namespace(
    peers: &mut Peers,
    root: &Shared<Mount>,
    table: &Arc<Table>,
    slaves: bool,
) -> Result<Tree, Errno> {
    let originals = gather(root, &root.root, |mnt| Ok(!is_mount_ns(&mnt.root)))?;
    let tree = copies_of(&originals, None)?;
    let nodes = nodes_for(&tree, None)?;
    handling(|| peers.reserve(tree.0.len(), 0)).map_err(|_| Errno::ENOMEM)?;
    if slaves {
        lock(&tree);
    }
    put_together(&tree, nodes, table, None);
    for limb in &tree.0 {
        adopt(peers, limb, if slaves { As::SharedToSlave } else { As::Same });
    }
    *table.root.lock() = Some(tree.root().clone());
    Ok(tree)
}

/// Only for who has locked all mounts: a note at a mount.
impl Mount {
    pub(super) fn note(&self, note: u32) {
        self.mark.store(note, Ordering::Relaxed);
    }
    pub(super) fn noted(&self) -> u32 {
        self.mark.load(Ordering::Relaxed)
    }
}
