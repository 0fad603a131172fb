//! The tree of mounts and how it changes: `mount`, `umount2` and `pivot_root`.

use super::{
    CHANGES, MNT_DETACH, MNT_EXPIRE, MNT_FORCE, MS_BIND, MS_MOVE, MS_PROPAGATION, MS_REC, MS_REMOUNT, Mount,
    UMOUNT_NOFOLLOW, may_mount, remount,
};
use crate::fs::dentry::Dentry;
use crate::fs::inode::FileType;
use crate::fs::moves::Moving;
use crate::fs::path::Path;
use crate::fs::superblock::find_fs_type;
use crate::mm::reserve::room;
use crate::rcu::Shared;
use crate::sync::{Mutex, SpinLock};
use crate::task::{TaskFlags, current};
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use limen_linux_abi::Errno;
use limen_range_tree::{Node, NodeBox, Range, RangeTree};

/// How many mounts there may be (`/proc/sys/fs/mount-max`). A limit is needed: binding a tree below itself
/// doubles its mounts.
const MOUNT_MAX: usize = 100_000;

/// All mounts by number, and once more by the address of the mount in which each is mounted. They change only
/// while `CHANGE` is held.
pub(super) static LIST: SpinLock<Listed> = SpinLock::new(RangeTree::new());
static HANGING: SpinLock<Listed> = SpinLock::new(RangeTree::new());
/// Held by the one thread that changes the tree of mounts.
pub(super) static CHANGE: Mutex<()> = Mutex::new(());
/// Mounts by some number and their addresses.
pub(super) type Listed = RangeTree<usize, Shared<Mount>>;
/// Where one is among them.
pub(super) type Place = (u64, usize);

/// For one of them, where it is to be by `first`. `ENOMEM`.
pub(super) fn node(mnt: &Shared<Mount>, first: u64) -> Result<NodeBox<usize, Shared<Mount>>, Errno> {
    let range = Range {
        first,
        last: first,
        key: address(mnt) as usize,
        value: mnt.clone(),
    };
    Node::new(range).ok_or(Errno::ENOMEM)
}

fn address(mnt: &Shared<Mount>) -> u64 {
    Shared::address(mnt) as u64
}

/// The first mount behind a place, and its own.
pub(super) fn behind(list: &SpinLock<Listed>, place: Place) -> Option<(Place, Shared<Mount>)> {
    let list = list.lock();
    list.behind(place)
        .map(|found| (found.place(), found.value.clone()))
}

/// What it needs to be among those that hang, and among all.
struct Nodes {
    hanging: NodeBox<usize, Shared<Mount>>,
    listed: NodeBox<usize, Shared<Mount>>,
}

impl Nodes {
    /// For a new mount at `at`. `ENOMEM`.
    fn new(mnt: &Shared<Mount>, at: &Path) -> Result<Self, Errno> {
        Ok(Self {
            hanging: node(mnt, address(&at.mnt))?,
            listed: node(mnt, u64::from(mnt.id))?,
        })
    }
}

/// A made-up entry that was pinned for a mount. If the mount fails, the entry is unpinned, and the next
/// lookup makes it anew.
struct Pin(Option<Shared<Dentry>>);

impl Drop for Pin {
    fn drop(&mut self) {
        if let Some(dentry) = &self.0 {
            dentry.unpin();
        }
    }
}

/// Where something that is to be mounted at `at` goes: on top of what is mounted there. `ENOENT`: the name
/// was removed. The caller holds `CHANGE`.
fn place_for(mut at: Path) -> Result<(Path, Pin), Errno> {
    let mut pin = Pin(None);
    if !Shared::ptr_eq(&at.dentry, &at.mnt.root) {
        at.dentry = at.dentry.pinned()?;
        pin.0 = Some(at.dentry.clone());
    }
    at.cross_mounts();
    // A root was never a name that could have been removed.
    if at.dentry.is_unlinked() && !at.dentry.is_root() {
        return Err(Errno::ENOENT);
    }
    Ok((at, pin))
}

/// Whether one of the two is a directory and the other is not.
fn differ(at: &Path, root: &Dentry) -> bool {
    (at.dentry.inode.kind == FileType::Directory) != (root.inode.kind == FileType::Directory)
}

/// Mounts `mnt` at `at`, where nothing is mounted. Returns where it was mounted before; it still is there,
/// too. `ENOENT`: the name was removed meanwhile. The caller holds `CHANGE`.
fn hang(mnt: &Shared<Mount>, at: Path) -> Result<Option<Path>, Errno> {
    // Set first: from the moment at which a walk can enter the mount, it must find the way up.
    let old = mnt.at.lock().replace(at.clone());
    match at
        .dentry
        .while_named(|| at.dentry.mounted.add(&at.mnt, mnt.clone()))
    {
        Ok(()) => Ok(old),
        Err(e) => {
            *mnt.at.lock() = old;
            Err(e)
        }
    }
}

/// Unmounts what is mounted at `at`, if given. The caller holds `CHANGE`.
fn clear(at: Option<Path>) {
    if let Some(at) = at {
        at.dentry.mounted.remove(&at.mnt);
        at.dentry.unpin();
    }
}

/// The mounts to be made below a new one, each with its place and its nodes.
type Below = Vec<(Shared<Mount>, Path, Nodes)>;

/// Mounts `mnt` at `at`, and the mounts `below` in it. `ENOSPC`: there would be too many mounts. The caller
/// holds `CHANGE`.
fn attach(mnt: Shared<Mount>, at: Path, below: Below) -> Result<(), Errno> {
    if differ(&at, &mnt.root) {
        return Err(Errno::ENOTDIR);
    }
    if LIST.lock().len() + below.len() + 1 > MOUNT_MAX {
        return Err(Errno::ENOSPC);
    }
    let nodes = Nodes::new(&mnt, &at)?;
    let _moving = Moving::begin();
    hang(&mnt, at)?;
    list(&mnt, nodes);
    for (mnt, at, nodes) in below {
        // `mnt` is mounted there, so it is not freed.
        hang(&mnt, at)?;
        list(&mnt, nodes);
    }
    CHANGES.announce();
    Ok(())
}

/// Adds a mount to the lists.
fn list(mnt: &Mount, nodes: Nodes) {
    mnt.listed.store(true, Ordering::Relaxed);
    HANGING.lock().insert(nodes.hanging);
    LIST.lock().insert(nodes.listed);
}

/// Among those that hang, `mnt` hangs in another one from now on: the one at `to`.
fn relist(mnt: &Shared<Mount>, from: Option<&Path>, to: &Path) {
    let Some(from) = from else { return };
    let mut list = HANGING.lock();
    if let Some(mut node) = list.remove((address(&from.mnt), address(mnt) as usize)) {
        let range = node.range_mut();
        (range.first, range.last) = (address(&to.mnt), address(&to.mnt));
        list.insert(node);
    }
}

/// Unmounts `mnt` and removes it from the lists. The caller holds `CHANGE`.
fn detach(mnt: &Shared<Mount>) {
    let key = address(mnt) as usize;
    let at = mnt.at.lock().take();
    let hung = at
        .as_ref()
        .and_then(|at| HANGING.lock().remove((address(&at.mnt), key)));
    clear(at);
    mnt.listed.store(false, Ordering::Relaxed);
    let listed = LIST.lock().remove((u64::from(mnt.id), key));
    drop((hung, listed));
}

/// The first mount directly below `mnt` behind an address. The caller holds `CHANGE`.
fn child(mnt: &Shared<Mount>, after: usize) -> Option<(usize, Shared<Mount>)> {
    let above = address(mnt);
    let found = behind(&HANGING, (above, after));
    found.and_then(|((first, key), child)| (first == above).then_some((key, child)))
}

/// Mounts a new instance of `fs_type` at `at`.
fn mount_new(fs_type: &[u8], source: &[u8], at: Path, flags: u32, data: &str) -> Result<(), Errno> {
    let fs = find_fs_type(fs_type)?;
    let root = (fs.mount)(source, data)?;
    let _change = CHANGE.lock();
    let (at, _pin) = place_for(at)?;
    at.mnt.check_listed()?;
    let again = Shared::ptr_eq(&at.dentry, &at.mnt.root) && Shared::ptr_eq(&at.dentry, &root);
    if again && !root.inode.sb.ops.stands_for_many() {
        return Err(Errno::EBUSY);
    }
    attach(Mount::build(root, flags, source, false), at, Vec::new())
}

/// Copies of the mounts below `from`, each with its place in `to` or in an earlier copy. The copies are not
/// of them hangs yet: what is bound below itself would find its copies among what is to be copied. `ENOSPC`,
/// `ENOMEM`.
fn copies_below(from: &Path, to: &Shared<Mount>) -> Result<Below, Errno> {
    let mut copies = Below::new();
    let mut todo = Vec::new();
    room(&mut todo, 1)?;
    todo.push((from.clone(), to.clone()));
    while let Some((from, to)) = todo.pop() {
        let mut last = 0;
        while let Some((key, mnt)) = child(&from.mnt, last) {
            last = key;
            let Some(dentry) = mnt.mountpoint().map(|at| at.dentry) else {
                continue;
            };
            if !dentry.is_below(&from.dentry) {
                continue;
            }
            if copies.len() > MOUNT_MAX {
                return Err(Errno::ENOSPC);
            }
            let copy = Mount::build(mnt.root.clone(), mnt.flags(), mnt.source.as_bytes(), false);
            let place = Path {
                mnt: to.clone(),
                dentry,
            };
            let nodes = Nodes::new(&copy, &place)?;
            room(&mut copies, 1)?;
            copies.push((copy.clone(), place, nodes));
            let below = Path {
                dentry: mnt.root.clone(),
                mnt,
            };
            room(&mut todo, 1)?;
            todo.push((below, copy));
        }
    }
    Ok(copies)
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
        let from = source_path()?;
        let _change = CHANGE.lock();
        let (at, _pin) = place_for(at)?;
        at.mnt.check_listed()?;
        // The file of a namespace is in no tree.
        if from.dentry.inode.ops.namespace().is_none() {
            from.mnt.check_listed()?;
        }
        let mnt = Mount::build(
            from.dentry.clone(),
            from.mnt.flags(),
            from.mnt.source.as_bytes(),
            false,
        );
        let copies = match flags & MS_REC {
            0 => Vec::new(),
            _ => copies_below(&from, &mnt)?,
        };
        return attach(mnt, at, copies);
    }
    if flags & MS_PROPAGATION != 0 {
        // With one namespace every mount is private, and asking for that is no error.
        return if Shared::ptr_eq(&at.dentry, &at.mnt.root) {
            Ok(())
        } else {
            Err(Errno::EINVAL)
        };
    }
    if flags & MS_MOVE != 0 {
        let from = source_path()?;
        return move_mount(&from, at);
    }
    mount_new(fs_type, source, at, flags, data)
}

/// `MS_MOVE`.
fn move_mount(from: &Path, at: Path) -> Result<(), Errno> {
    let _change = CHANGE.lock();
    let (at, _pin) = place_for(at)?;
    at.mnt.check_listed()?;
    from.mnt.check_listed()?;
    if !Shared::ptr_eq(&from.dentry, &from.mnt.root)
        || from.mnt.mountpoint().is_none()
        || differ(&at, &from.mnt.root)
    {
        return Err(Errno::EINVAL);
    }
    // A mount cannot be moved below itself.
    let mut place = Some(at.clone());
    while let Some(p) = place {
        if Shared::ptr_eq(&p.mnt, &from.mnt) {
            return Err(Errno::ELOOP);
        }
        place = p.mnt.mountpoint();
    }
    let _moving = Moving::begin();
    let old = hang(&from.mnt, at.clone())?;
    relist(&from.mnt, old.as_ref(), &at);
    clear(old);
    CHANGES.announce();
    Ok(())
}

/// `EINVAL` if `umount2` does not know one of the flags.
pub fn check_unmount_flags(flags: u32) -> Result<(), Errno> {
    if flags & !(MNT_FORCE | MNT_DETACH | MNT_EXPIRE | UMOUNT_NOFOLLOW) != 0 {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// What `walk` finds for `umount2` with `flags`: to let a mount expire is not to use it.
pub fn to_umount<T>(flags: u32, walk: impl FnOnce() -> T) -> T {
    if flags & MNT_EXPIRE == 0 {
        return walk();
    }
    let me = current();
    me.set_flags(TaskFlags::EXPIRES_MOUNT);
    let found = walk();
    me.clear_flags(TaskFlags::EXPIRES_MOUNT);
    found
}

/// `umount2(2)`.
pub fn umount(path: Path, flags: u32) -> Result<(), Errno> {
    may_mount()?;
    let Path { mnt, dentry } = path;
    if !Shared::ptr_eq(&dentry, &mnt.root) {
        return Err(Errno::EINVAL);
    }
    drop(dentry);
    let _change = CHANGE.lock();
    mnt.check_listed()?;
    if mnt.mountpoint().is_none() {
        return Err(Errno::EINVAL);
    }
    let expire = flags & MNT_EXPIRE != 0;
    if expire && flags & (MNT_FORCE | MNT_DETACH) != 0 {
        return Err(Errno::EINVAL);
    }
    if flags & MNT_DETACH != 0 {
        detach_all(mnt, Moving::begin());
        return Ok(());
    }
    // A walk that counts a reference looks afterwards whether this has begun ([`Seen::is_still_counted`]).
    let moving = Moving::begin();
    // The mountpoint, the two lists and `path` hold a reference each. Another one means that the mount is in
    // use.
    if child(&mnt, 0).is_some() || Shared::references(&mnt) > 4 {
        return Err(Errno::EBUSY);
    }
    // The first time it is only marked.
    if expire && !mnt.expiring.swap(true, Ordering::Relaxed) {
        return Err(Errno::EAGAIN);
    }
    detach_all(mnt, moving);
    Ok(())
}

/// Unmounts a mount and all mounts below it. The caller holds `CHANGE`.
fn detach_all(mnt: Shared<Mount>, moving: Moving) {
    let mut at = mnt.clone();
    // What hangs lowest goes first: the way back up needs no memory.
    loop {
        while let Some((_, below)) = child(&at, 0) {
            at = below;
        }
        let above = at.mountpoint().map(|at| at.mnt);
        detach(&at);
        if Shared::ptr_eq(&at, &mnt) {
            break;
        }
        let Some(above) = above else { break };
        at = above;
    }
    CHANGES.announce();
    // Freeing the mount, if nobody has it, is none of it.
    drop((at, moving));
}

/// `pivot_root(2)`.
pub fn pivot_root(new_root: Path, put_old: Path) -> Result<(), Errno> {
    let root = crate::fs::context::current_root();
    let _change = CHANGE.lock();
    let (put_old, _pin) = place_for(put_old)?;
    root.mnt.check_listed()?;
    new_root.mnt.check_listed()?;
    if new_root.dentry.is_unlinked() {
        return Err(Errno::ENOENT);
    }
    if Shared::ptr_eq(&new_root.mnt, &root.mnt) || Shared::ptr_eq(&put_old.mnt, &root.mnt) {
        return Err(Errno::EBUSY);
    }
    let is_root = |p: &Path| Shared::ptr_eq(&p.dentry, &p.mnt.root);
    let Some(root_at) = root.mnt.mountpoint() else {
        return Err(Errno::EINVAL);
    };
    if !is_root(&root) || !is_root(&new_root) || new_root.mnt.mountpoint().is_none() {
        return Err(Errno::EINVAL);
    }
    // The mounts above the root must stay above it, or mounts would form a circle.
    if !put_old.is_under(&new_root)? || !new_root.is_under(&root)? {
        return Err(Errno::EINVAL);
    }
    // For a moment the mounts form a circle, in which walkers would go round as long as this thread waits.
    crate::sync::without_preemption(|| {
        let _moving = Moving::begin();
        hang(&root.mnt, put_old.clone())?;
        relist(&root.mnt, Some(&root_at), &put_old);
        root_at.dentry.mounted.replace(&root_at.mnt, new_root.mnt.clone());
        let old = new_root.mnt.at.lock().replace(root_at.clone());
        relist(&new_root.mnt, old.as_ref(), &root_at);
        clear(old);
        Ok::<(), Errno>(())
    })?;
    CHANGES.announce();
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

/// Unmounts what is mounted on names that no longer exist.
pub fn forget(gone: impl Fn(&Shared<Dentry>) -> bool) {
    let _change = CHANGE.lock();
    let mut last = (0, 0);
    while let Some((place, mnt)) = behind(&LIST, last) {
        last = place;
        if mnt.mountpoint().is_some_and(|at| gone(&at.dentry)) {
            detach_all(mnt, Moving::begin());
        }
    }
}
