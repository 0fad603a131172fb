//! The tree of mounts and how it changes: places, new mounts, binding, moving, `pivot_root`. What happens in
//! a mount with peers or slaves is repeated in those by [`super::spread`] and [`super::remove`].

use super::spread::{Kind, Tree, attach, copies_of, gather, mount_ns_loops};
use super::{
    LOCKED, MS_BIND, MS_MOVE, MS_PROPAGATION, MS_REC, MS_REMOUNT, Mount, PER_MOUNT, Table, UNBINDABLE,
    change_type, remount, table, visible,
};
use crate::fs::dentry::Dentry;
use crate::fs::inode::FileType;
use crate::fs::moves::Moving;
use crate::fs::path::Path;
use crate::fs::superblock::find_fs_type;
use crate::rcu::Shared;
use crate::sync::{Mutex, MutexGuard, SpinLock};
use alloc::sync::Arc;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{Ordering, fence};
use limen_linux_abi::Errno;
use limen_peer_groups::Groups;
use limen_range_tree::{Node, NodeBox, Range, RangeTree};

/// Held by the one thread that changes trees of mounts, with the groups of peers.
static CHANGE: Mutex<Groups<Shared<Mount>>> = Mutex::new(Groups::new());
/// All mounts by the address of the mount in which each is mounted. They change only while all mounts are
/// locked.
pub(super) static HANGING: SpinLock<Listed> = SpinLock::new(RangeTree::new());
/// The same by the address of the name on which each is mounted.
static NAMED: SpinLock<Listed> = SpinLock::new(RangeTree::new());
/// The names on which they are mounted, by the address of the process or thread below whose directory in
/// procfs a name is (`Subject::address`; 0: of none).
static OWNED: SpinLock<RangeTree<usize, Shared<Dentry>>> = SpinLock::new(RangeTree::new());
/// Mounts by some number and their addresses.
pub(super) type Listed = RangeTree<usize, Shared<Mount>>;
/// Where one is among them.
pub(super) type Place = (u64, usize);
/// The groups of peers.
pub(super) type Peers = Groups<Shared<Mount>>;

/// All mounts are locked.
pub(super) struct Change(Option<MutexGuard<'static, Peers>>);

/// Locks all mounts. May sleep.
pub(super) fn change() -> Change {
    Change(Some(CHANGE.lock()))
}

impl Deref for Change {
    type Target = Peers;
    fn deref(&self) -> &Peers {
        self.0.as_ref().expect("locked until it is dropped")
    }
}

impl DerefMut for Change {
    fn deref_mut(&mut self) -> &mut Peers {
        self.0.as_mut().expect("locked until it is dropped")
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        self.0 = None;
        // With the one in `end`: whoever could not lock is seen here, or finds it unlocked.
        fence(Ordering::SeqCst);
        if table::any_ended() {
            clean();
        }
    }
}

/// Unmounts what is mounted in namespaces that have ended, unless another thread has locked all mounts, which
/// does that afterwards.
#[cold]
pub(super) fn clean() {
    while table::any_ended() {
        let Some(mut peers) = CHANGE.try_lock() else {
            return;
        };
        while let Some(ended) = table::ended() {
            let root = ended.root.lock().take();
            if let Some(root) = root {
                super::remove::take_all(&mut peers, root, false);
            }
        }
        drop(peers);
        fence(Ordering::SeqCst);
    }
}

/// For one of them, where it is to be by `first`. `ENOMEM`.
pub(super) fn node(mnt: &Shared<Mount>, first: u64) -> Result<NodeBox<usize, Shared<Mount>>, Errno> {
    node_of(mnt, first, mnt.clone())
}

/// For a value that belongs to one of them. `ENOMEM`.
fn node_of<V>(mnt: &Shared<Mount>, first: u64, value: V) -> Result<NodeBox<usize, V>, Errno> {
    let range = Range {
        first,
        last: first,
        key: address(mnt) as usize,
        value,
    };
    Node::new(range).ok_or(Errno::ENOMEM)
}

pub(super) fn address(mnt: &Shared<Mount>) -> u64 {
    Shared::address(mnt) as u64
}

/// The first mount behind a place, and its own.
pub(super) fn behind(list: &SpinLock<Listed>, place: Place) -> Option<(Place, Shared<Mount>)> {
    let list = list.lock();
    list.behind(place)
        .map(|found| (found.place(), found.value.clone()))
}

/// What was done to a name for a mount, which is undone if the mount fails. It is dropped while all mounts
/// are locked.
#[derive(Default)]
pub(super) struct Pin {
    /// A made-up entry that was pinned. Once it is not, the next lookup makes it anew.
    pinned: Option<Shared<Dentry>>,
    /// A name that was covered ([`cover`]).
    covered: Option<Shared<Dentry>>,
}

impl Drop for Pin {
    fn drop(&mut self) {
        if let Some(name) = &self.covered {
            uncovered(name);
        }
        if let Some(dentry) = &self.pinned {
            dentry.unpin();
        }
    }
}

/// Whether a place is the root of its mount.
pub(super) fn is_mounted(place: &Path) -> bool {
    Shared::ptr_eq(&place.dentry, &place.mnt.root)
}

/// Where something that is to be mounted at `at` goes: on top of what is mounted there. `ENOENT`: the name
/// was removed, or the process or thread is gone below whose directory it is. `EINVAL`: it is in another
/// namespace. The caller has locked all mounts.
pub(super) fn place_for(mut at: Path) -> Result<(Path, Pin), Errno> {
    let mut pin = Pin::default();
    if !is_mounted(&at) {
        // A name that is gone is not even pinned for a moment: somebody else may have its number.
        if at.dentry.subject().is_some_and(|subject| !subject.exists()) {
            return Err(Errno::ENOENT);
        }
        at.dentry = at.dentry.pinned()?;
        pin.pinned = Some(at.dentry.clone());
    }
    at.cross_mounts();
    // A root was never a name that could have been removed.
    if at.dentry.is_unlinked() && !at.dentry.is_root() {
        return Err(Errno::ENOENT);
    }
    at.mnt.check_mine()?;
    cover(&at.dentry)?;
    pin.covered = Some(at.dentry.clone());
    Ok((at, pin))
}

/// Something is to be mounted on a name: if that is in the directory of a process or thread, what is there
/// goes with that. `ENOENT`: that is gone. The caller has locked all mounts.
pub(super) fn cover(name: &Shared<Dentry>) -> Result<(), Errno> {
    name.subject().map_or(Ok(()), |subject| subject.cover())
}

/// Something is not mounted on a name any more: if that was the last in the directory of a process or thread,
/// nothing is to be done at its end. The caller has locked all mounts.
pub(super) fn uncovered(name: &Shared<Dentry>) {
    if let Some(subject) = name.subject()
        && name_of(subject.address()).is_none()
    {
        subject.uncover();
    }
}

/// One of the names below the directory of the process or thread at this address on which something is
/// mounted. The caller has locked all mounts.
pub(super) fn name_of(subject: usize) -> Option<Shared<Dentry>> {
    let list = OWNED.lock();
    let found = list.behind((subject as u64, 0));
    found
        .filter(|found| found.first == subject as u64)
        .map(|found| found.value.clone())
}

/// Whether one of the two is a directory and the other is not.
pub(super) fn differ(at: &Path, root: &Dentry) -> bool {
    (at.dentry.inode.kind == FileType::Directory) != (root.inode.kind == FileType::Directory)
}

/// Mounts `mnt`, which is in the lists, at `at`, where nothing is mounted. Returns where it was mounted
/// before; it still is there, too, but no longer in the lists. `ENOENT`: the name was removed meanwhile. The
/// caller has locked all mounts.
pub(super) fn hang(mnt: &Shared<Mount>, at: Path) -> Result<Option<Path>, Errno> {
    // Set first: from the moment at which a walk can enter the mount, it must find the way up.
    let old = mnt.at.lock().replace(at.clone());
    let result = at.dentry.while_named(|| {
        at.dentry.mounted.add(&at.mnt, mnt.clone());
        // Who removes names looks for it in the lists.
        relist(mnt, old.as_ref(), &at);
    });
    match result {
        Ok(()) => Ok(old),
        Err(e) => {
            *mnt.at.lock() = old;
            Err(e)
        }
    }
}

/// [`hang`] of a mount that is mounted nowhere, at a name that others have been mounted on just now: if it is
/// removed meanwhile, by who does not see those, whoever removes it unmounts this one as well.
pub(super) fn hang_too(mnt: &Shared<Mount>, at: Path) {
    *mnt.at.lock() = Some(at.clone());
    at.dentry.mounted.add(&at.mnt, mnt.clone());
}

/// Unmounts what is mounted at `at`, if given. The caller has locked all mounts.
pub(super) fn clear(at: Option<Path>) {
    if let Some(at) = at {
        at.dentry.mounted.remove(&at.mnt);
        uncovered(&at.dentry);
        at.dentry.unpin();
    }
}

/// Among those that hang, `mnt` hangs in another one from now on: the one at `to`.
pub(super) fn relist(mnt: &Shared<Mount>, from: Option<&Path>, to: &Path) {
    let Some(from) = from else { return };
    let key = address(mnt) as usize;
    let (from, numbers) = (Numbers::of(from), Numbers::of(to));
    move_to(&HANGING, (from.above, key), numbers.above, None);
    move_to(&NAMED, (from.name, key), numbers.name, None);
    move_to(
        &OWNED,
        (from.subject, key),
        numbers.subject,
        Some(to.dentry.clone()),
    );
}

/// Moves what is at a place of a list to another number, perhaps with a new value. The former value is not
/// the last reference.
fn move_to<V>(list: &SpinLock<RangeTree<usize, V>>, place: Place, number: u64, value: Option<V>) {
    let mut list = list.lock();
    if let Some(mut node) = list.remove(place) {
        let range = node.range_mut();
        (range.first, range.last) = (number, number);
        if let Some(value) = value {
            range.value = value;
        }
        list.insert(node);
    }
}

/// The numbers by which what is mounted at a place is in the lists.
struct Numbers {
    /// In [`HANGING`].
    above: u64,
    /// In [`NAMED`].
    name: u64,
    /// In [`OWNED`].
    subject: u64,
}

impl Numbers {
    fn of(at: &Path) -> Self {
        Self {
            above: address(&at.mnt),
            name: Shared::address(&at.dentry) as u64,
            subject: at.dentry.subject().map_or(0, |subject| subject.address() as u64),
        }
    }
}

/// What a mount needs to be in the lists of those that hang.
pub(super) struct Hanging {
    hanging: ListNode,
    named: ListNode,
    owned: NodeBox<usize, Shared<Dentry>>,
}

type ListNode = NodeBox<usize, Shared<Mount>>;

impl Hanging {
    /// For a mount at a place. `ENOMEM`.
    pub fn at(mnt: &Shared<Mount>, at: &Path) -> Result<Self, Errno> {
        let numbers = Numbers::of(at);
        Ok(Self {
            hanging: node(mnt, numbers.above)?,
            named: node(mnt, numbers.name)?,
            owned: node_of(mnt, numbers.subject, at.dentry.clone())?,
        })
    }
    /// Adds it to the lists. The caller has locked all mounts.
    pub fn list(self) {
        HANGING.lock().insert(self.hanging);
        NAMED.lock().insert(self.named);
        OWNED.lock().insert(self.owned);
    }
}

/// A mount at a place hangs no longer there. What is returned drops references to it. The caller has locked
/// all mounts.
pub(super) fn unlist_at(mnt: &Shared<Mount>, at: &Path) -> Option<Hanging> {
    let key = address(mnt) as usize;
    let numbers = Numbers::of(at);
    // A mount is in all of them or in none.
    Some(Hanging {
        hanging: HANGING.lock().remove((numbers.above, key))?,
        named: NAMED.lock().remove((numbers.name, key))?,
        owned: OWNED.lock().remove((numbers.subject, key))?,
    })
}

/// How many mounts are looked at before others may have the list.
const PIECE: usize = 64;

/// Whether `f` is true of one of the mounts on a name, in any mount of its tree. It takes no reference, which
/// would make a mount busy for who unmounts it.
pub(super) fn any_on(name: &Dentry, f: impl Fn(&Mount) -> bool) -> bool {
    let number = core::ptr::from_ref(name).addr() as u64;
    let mut last = (number, 0);
    loop {
        let list = NAMED.lock();
        for _ in 0..PIECE {
            let Some(found) = list.behind(last).filter(|found| found.first == number) else {
                return false;
            };
            if f(&found.value) {
                return true;
            }
            last = found.place();
        }
    }
}

/// One of the mounts on a name, in any mount of its tree. The caller has locked all mounts.
pub(super) fn one_on(name: &Dentry) -> Option<Shared<Mount>> {
    let number = core::ptr::from_ref(name).addr() as u64;
    let found = behind(&NAMED, (number, 0));
    found.and_then(|((first, _), mnt)| (first == number).then_some(mnt))
}

/// Takes a mount, which is mounted at `at` if anywhere, out of the lists. What is returned drops references
/// to it. The caller has locked all mounts.
pub(super) fn unlist(mnt: &Shared<Mount>, at: Option<&Path>) -> Unlisted {
    let hung = at.and_then(|at| unlist_at(mnt, at));
    let table = mnt.table.lock().take();
    let listed = table.as_ref().and_then(|table| {
        let place = (u64::from(mnt.id), address(mnt) as usize);
        table.list.lock().remove(place)
    });
    Unlisted {
        table,
        _nodes: (hung, listed),
    }
}

/// Of a mount that was taken out of the lists.
pub(super) struct Unlisted {
    /// The table in which it was.
    pub table: Option<Arc<Table>>,
    _nodes: (Option<Hanging>, Option<ListNode>),
}

/// The first mount directly below `mnt` behind an address. The caller has locked all mounts.
pub(super) fn child(mnt: &Shared<Mount>, after: usize) -> Option<(usize, Shared<Mount>)> {
    let above = address(mnt);
    let found = behind(&HANGING, (above, after));
    found.and_then(|((first, key), child)| (first == above).then_some((key, child)))
}

/// The mounts directly below `mnt`. The caller has locked all mounts.
pub(super) fn children(mnt: &Shared<Mount>) -> impl Iterator<Item = Shared<Mount>> {
    let mut last = 0;
    core::iter::from_fn(move || {
        let (key, found) = child(mnt, last)?;
        last = key;
        Some(found)
    })
}

/// Mounts a new instance of `fs_type` at `at`.
fn mount_new(fs_type: &[u8], source: &[u8], at: Path, flags: u32, data: &str) -> Result<(), Errno> {
    let fs = find_fs_type(fs_type)?;
    if !fs.may_mount() {
        return Err(Errno::EPERM);
    }
    let root = (fs.mount)(source, data)?;
    let mut peers = change();
    let mnt = Mount::build(root.clone(), flags, source, false);
    if fs.revealing {
        mnt.set_state(visible::check(fs, flags & PER_MOUNT)?, 0);
    }
    let (at, _pin) = place_for(at)?;
    let again = is_mounted(&at) && Shared::ptr_eq(&at.dentry, &root);
    if again && !root.inode.sb.ops.stands_for_many() {
        return Err(Errno::EBUSY);
    }
    attach(&mut peers, Tree::of(mnt)?, at, Kind::New)
}

/// `MS_BIND`.
fn bind(from: &Path, at: Path, all: bool) -> Result<(), Errno> {
    if mount_ns_loops(&from.dentry) {
        return Err(Errno::EINVAL);
    }
    let mut peers = change();
    let (at, _pin) = place_for(at)?;
    if from.mnt.is(UNBINDABLE) {
        return Err(Errno::EINVAL);
    }
    // The files of namespaces are in no tree.
    if super::namespace::of_file(&from.dentry).is_none() {
        from.mnt.check_mine()?;
    }
    let originals = if all {
        gather(&from.mnt, &from.dentry, |mnt| match mnt.is(UNBINDABLE) {
            true if mnt.is(LOCKED) => Err(Errno::EPERM),
            unbindable => Ok(!unbindable),
        })?
    } else {
        let covers = |mnt: Shared<Mount>| {
            mnt.is(LOCKED)
                && mnt
                    .mountpoint()
                    .is_some_and(|at| at.dentry.is_below(&from.dentry))
        };
        if children(&from.mnt).any(covers) {
            // What they hide would be seen.
            return Err(Errno::EINVAL);
        }
        Tree::of(from.mnt.clone())?
    };
    let copies = copies_of(&originals, Some(&from.dentry))?;
    copies.root().set_state(0, LOCKED);
    attach(&mut peers, copies, at, Kind::New)
}

/// `mount(2)`, with arguments copied and paths resolved. The caller resolves `source` only for operations
/// that need a place.
pub fn do_mount(
    source: &[u8],
    source_path: impl FnOnce() -> Result<Path, Errno>,
    at: Path,
    fs_type: &[u8],
    flags: u32,
    data: &str,
) -> Result<(), Errno> {
    if flags & MS_REMOUNT != 0 {
        return remount(&at, flags, data);
    }
    if flags & MS_BIND != 0 {
        return bind(&source_path()?, at, flags & MS_REC != 0);
    }
    if flags & MS_PROPAGATION != 0 {
        return change_type(&at, flags);
    }
    if flags & MS_MOVE != 0 {
        let from = source_path()?;
        return move_mount(&from, at);
    }
    mount_new(fs_type, source, at, flags, data)
}

/// Whether `mnt` is in a mount whose peers would not see it go.
pub(super) fn is_in_shared(peers: &Peers, mnt: &Mount) -> bool {
    mnt.mountpoint().is_some_and(|at| is_shared(peers, &at.mnt))
}

/// Whether it has peers, or may get some.
pub(super) fn is_shared(peers: &Peers, mnt: &Mount) -> bool {
    mnt.member().is_some_and(|member| peers.shared(member).is_some())
}

/// `MS_MOVE`.
fn move_mount(from: &Path, at: Path) -> Result<(), Errno> {
    let mut peers = change();
    let (at, _pin) = place_for(at)?;
    from.mnt.check_mine()?;
    if !is_mounted(from)
        || from.mnt.is(LOCKED)
        || from.mnt.mountpoint().is_none()
        || differ(&at, &from.mnt.root)
        || is_in_shared(&peers, &from.mnt)
    {
        return Err(Errno::EINVAL);
    }
    let tree = gather(&from.mnt, &from.dentry, |_| Ok(true))?;
    if is_shared(&peers, &at.mnt) && tree.any(|mnt| mnt.is(UNBINDABLE)) {
        return Err(Errno::EINVAL);
    }
    if tree.any(|mnt| mount_ns_loops(&mnt.root)) {
        return Err(Errno::ELOOP);
    }
    // A mount cannot be moved below itself.
    let mut place = Some(at.clone());
    while let Some(p) = place {
        if Shared::ptr_eq(&p.mnt, &from.mnt) {
            return Err(Errno::ELOOP);
        }
        place = p.mnt.mountpoint();
    }
    attach(&mut peers, tree, at, Kind::Moved)
}

/// `pivot_root(2)`.
pub fn pivot_root(new_root: Path, put_old: Path) -> Result<(), Errno> {
    let root = crate::fs::context::current_root();
    let peers = change();
    let (put_old, _pin) = place_for(put_old)?;
    if is_shared(&peers, &put_old.mnt)
        || is_in_shared(&peers, &new_root.mnt)
        || is_in_shared(&peers, &root.mnt)
        || new_root.mnt.is(LOCKED)
    {
        return Err(Errno::EINVAL);
    }
    root.mnt.check_mine()?;
    new_root.mnt.check_mine()?;
    if new_root.dentry.is_unlinked() {
        return Err(Errno::ENOENT);
    }
    if Shared::ptr_eq(&new_root.mnt, &root.mnt) || Shared::ptr_eq(&put_old.mnt, &root.mnt) {
        return Err(Errno::EBUSY);
    }
    let Some(root_at) = root.mnt.mountpoint() else {
        return Err(Errno::EINVAL);
    };
    if !is_mounted(&root) || !is_mounted(&new_root) || new_root.mnt.mountpoint().is_none() {
        return Err(Errno::EINVAL);
    }
    // The mounts above the root must stay above it, or mounts would form a circle.
    if !put_old.is_under(&new_root)? || !new_root.is_under(&root)? {
        return Err(Errno::EINVAL);
    }
    // For a moment the mounts form a circle, in which walkers would go round as long as this thread waits.
    crate::sync::without_preemption(|| {
        let _moving = Moving::begin();
        // In the lists something is on that name all the time.
        let from = new_root.mnt.mountpoint();
        relist(&new_root.mnt, from.as_ref(), &root_at);
        if let Err(e) = hang(&root.mnt, put_old) {
            if let Some(from) = &from {
                relist(&new_root.mnt, Some(&root_at), from);
            }
            return Err(e);
        }
        root_at.dentry.mounted.replace(&root_at.mnt, new_root.mnt.clone());
        let old = new_root.mnt.at.lock().replace(root_at);
        clear(old);
        Ok::<(), Errno>(())
    })?;
    // The new one at the top cannot be taken away if the old one could not.
    if root.mnt.is(LOCKED) {
        new_root.mnt.set_state(LOCKED, 0);
        root.mnt.set_state(0, LOCKED);
    }
    table::with_current(|table| table.changes.announce());
    for p in crate::task::all_processes() {
        for t in p.threads() {
            let Some(fs) = t.try_fs() else { continue };
            if fs.is_at(&root) {
                fs.replace(&root, &new_root);
            }
        }
    }
    Ok(())
}
