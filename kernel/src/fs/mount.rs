//! Mounts: which tree hangs where. One table for all processes.

use crate::fs::dentry::Dentry;
use crate::fs::inode::FileType;
use crate::fs::path::Path;
use crate::fs::perm;
use crate::fs::superblock::find_fs_type;
use crate::sync::{Mutex, Once, SpinLock};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use limen_linux_abi::Errno;

/// `MS_RDONLY`.
pub const MS_RDONLY: u32 = 1;
/// `MS_NOSUID`.
pub const MS_NOSUID: u32 = 2;
/// `MS_NODEV`.
pub const MS_NODEV: u32 = 4;
/// `MS_NOEXEC`.
pub const MS_NOEXEC: u32 = 8;
/// `MS_REMOUNT`.
pub const MS_REMOUNT: u32 = 32;
/// `MS_NOSYMFOLLOW`.
pub const MS_NOSYMFOLLOW: u32 = 256;
/// `MS_NOATIME`.
pub const MS_NOATIME: u32 = 1024;
/// `MS_NODIRATIME`.
pub const MS_NODIRATIME: u32 = 2048;
/// `MS_BIND`.
pub const MS_BIND: u32 = 4096;
/// `MS_MOVE`.
pub const MS_MOVE: u32 = 8192;
/// `MS_REC`.
pub const MS_REC: u32 = 16384;
/// `MS_UNBINDABLE`, `MS_PRIVATE`, `MS_SLAVE`, `MS_SHARED`.
pub const MS_PROPAGATION: u32 = 0xf << 17;
/// `MS_RELATIME`.
pub const MS_RELATIME: u32 = 1 << 21;
/// Flags that belong to a mount.
const PER_MOUNT: u32 =
    MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOSYMFOLLOW | MS_NOATIME | MS_NODIRATIME | MS_RELATIME;
/// `MNT_FORCE`.
const MNT_FORCE: u32 = 1;
/// `MNT_DETACH`.
const MNT_DETACH: u32 = 2;
/// `MNT_EXPIRE`.
const MNT_EXPIRE: u32 = 4;
/// `UMOUNT_NOFOLLOW`.
pub const UMOUNT_NOFOLLOW: u32 = 8;

/// A tree hung up somewhere.
pub struct Mount {
    /// Number shown in `mountinfo`.
    pub id: u32,
    /// What is mounted.
    pub root: Arc<Dentry>,
    /// `MS_*` flags of this mount.
    flags: AtomicU32,
    /// What `mount` was told to mount.
    pub source: String,
    at: SpinLock<Option<Path>>,
    internal: bool,
}

/// How many mounts there may be (`/proc/sys/fs/mount-max`): a tree bound below itself has twice as many.
const MOUNT_MAX: usize = 100_000;

static NEXT_ID: AtomicU32 = AtomicU32::new(1);
/// Everything mounted, in order.
static LIST: SpinLock<Vec<Arc<Mount>>> = SpinLock::new(Vec::new());
/// Serialises changes of the tree of mounts.
static CHANGE: Mutex<()> = Mutex::new(());
static ROOT: Once<Path> = Once::new();

impl Mount {
    fn build(root: Arc<Dentry>, flags: u32, source: &[u8], internal: bool) -> Arc<Self> {
        root.inode.sb.mounts.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            root,
            flags: AtomicU32::new(flags & PER_MOUNT),
            source: String::from_utf8_lossy(source).into_owned(),
            at: SpinLock::new(None),
            internal,
        })
    }
    /// A mount for files outside any tree (pipes, sockets, anonymous files), with `MS_*` flags.
    pub fn new_internal(root: Arc<Dentry>, flags: u32) -> Arc<Self> {
        Self::build(root, flags, b"none", true)
    }
    /// Whether it is only for files outside any tree.
    pub fn is_internal(&self) -> bool {
        self.internal
    }
    /// Where it hangs; `None` for the first root and for what has been taken off.
    pub fn mountpoint(&self) -> Option<Path> {
        self.at.lock().clone()
    }
    /// `MS_*` flags.
    #[inline]
    pub fn flags(&self) -> u32 {
        self.flags.load(Ordering::Relaxed)
    }
    /// `EROFS` if the mount or the file system is read-only.
    #[inline]
    pub fn check_writable(&self) -> Result<(), Errno> {
        if (self.flags() | self.root.inode.sb.flags.load(Ordering::Relaxed)) & MS_RDONLY != 0 {
            Err(Errno::EROFS)
        } else {
            Ok(())
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let sb = &self.root.inode.sb;
        if sb.mounts.fetch_sub(1, Ordering::AcqRel) == 1 && !sb.persistent {
            let mut top = self.root.clone();
            while let Some(p) = top.parent() {
                top = p;
            }
            top.dismantle();
        }
    }
}

/// Makes `root` the first root.
pub fn init(root: Arc<Dentry>) {
    let mnt = Mount::build(root.clone(), 0, b"rootfs", false);
    LIST.lock().push(mnt.clone());
    if ROOT.set(Path { mnt, dentry: root }).is_err() {
        warning!("The root is already there");
    }
}

/// The first root: where init starts.
pub fn initial_root() -> Path {
    ROOT.get().expect("fs::init has run").clone()
}

/// Where something mounted at `at` will hang: on top of what hangs there. `ENOENT` if the name is gone.
fn place_for(mut at: Path) -> Result<Path, Errno> {
    at.cross_mounts();
    if at.dentry.is_unlinked() {
        return Err(Errno::ENOENT);
    }
    Ok(at)
}

/// Whether one is a directory and the other is not.
fn differ(at: &Path, root: &Dentry) -> bool {
    (at.dentry.inode.kind == FileType::Directory) != (root.inode.kind == FileType::Directory)
}

/// Hangs `mnt` up at `at`, where nothing hangs and which has been pinned: nothing can go wrong any more. The caller holds `CHANGE`.
fn hang(mnt: &Arc<Mount>, at: Path) {
    *mnt.at.lock() = Some(at.clone());
    at.dentry.mounted.add(&at.mnt, mnt.clone());
}

/// Hangs a new mount up at `at`, then what is to hang below it. `ENOSPC` if that is too much. The caller holds `CHANGE`.
fn attach(mnt: Arc<Mount>, at: Path, below: Vec<(Arc<Mount>, Path)>) -> Result<(), Errno> {
    let at = place_for(at)?;
    if differ(&at, &mnt.root) {
        return Err(Errno::ENOTDIR);
    }
    at.dentry.pin()?;
    {
        let mut list = LIST.lock();
        let new = below.len() + 1;
        if list.len() + new > MOUNT_MAX {
            return Err(Errno::ENOSPC);
        }
        list.try_reserve(new).map_err(|_| Errno::ENOMEM)?;
        list.push(mnt.clone());
        list.extend(below.iter().map(|(mnt, _)| mnt.clone()));
    }
    hang(&mnt, at);
    for (mnt, at) in below {
        hang(&mnt, at);
    }
    Ok(())
}

/// Takes `mnt` off its place. The caller holds `CHANGE`.
fn detach(mnt: &Arc<Mount>, forget: bool) {
    let at = mnt.at.lock().take();
    if let Some(at) = at {
        at.dentry.mounted.remove(&at.mnt);
    }
    if forget {
        let mut list = LIST.lock();
        let old = list
            .iter()
            .position(|m| Arc::ptr_eq(m, mnt))
            .map(|i| list.remove(i));
        drop(list);
        drop(old);
    }
}

/// Mounts directly below `mnt`.
fn children(mnt: &Arc<Mount>) -> Vec<Arc<Mount>> {
    let all = LIST.lock().clone();
    all.into_iter()
        .filter(|m| m.mountpoint().is_some_and(|p| Arc::ptr_eq(&p.mnt, mnt)))
        .collect()
}

/// Whether the running task may change what is mounted (`EPERM`).
pub fn may_mount() -> Result<(), Errno> {
    if crate::task::current().creds().capable(perm::CAP_SYS_ADMIN) {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// A new instance of `fs_type` at `at`.
pub fn mount_new(fs_type: &[u8], source: &[u8], at: Path, flags: u32, data: &str) -> Result<(), Errno> {
    let fs = find_fs_type(fs_type)?;
    let root = (fs.mount)(source, data)?;
    let _change = CHANGE.lock();
    attach(Mount::build(root, flags, source, false), at, Vec::new())
}

/// Copies of the mounts below `from`, each with its place in `to` or in another copy, which come first. None of them hangs yet: what is bound below
/// itself would find its copies among what is to be copied.
fn copies_below(from: &Path, to: &Arc<Mount>) -> Vec<(Arc<Mount>, Path)> {
    let mut hanging = BTreeMap::<usize, Vec<_>>::new();
    let all = LIST.lock().clone();
    for mnt in all {
        if let Some(at) = mnt.mountpoint() {
            let on = hanging.entry(Arc::as_ptr(&at.mnt).addr()).or_default();
            on.push((mnt, at.dentry));
        }
    }
    let mut copies = Vec::new();
    let mut todo = alloc::vec![(from.clone(), to.clone())];
    while let Some((from, to)) = todo.pop() {
        for (mnt, dentry) in hanging.remove(&Arc::as_ptr(&from.mnt).addr()).unwrap_or_default() {
            if !dentry.is_below(&from.dentry) {
                continue;
            }
            let copy = Mount::build(mnt.root.clone(), mnt.flags(), mnt.source.as_bytes(), false);
            let place = Path {
                mnt: to.clone(),
                dentry,
            };
            copies.push((copy.clone(), place));
            let below = Path {
                dentry: mnt.root.clone(),
                mnt,
            };
            todo.push((below, copy));
        }
    }
    copies
}

/// `mount(2)`, arguments copied and paths resolved: `source` is resolved by the caller only where the operation needs a place.
pub fn do_mount(
    source: &[u8],
    source_path: impl FnOnce() -> Result<Path, Errno>,
    at: Path,
    fs_type: &[u8],
    flags: u32,
    data: &str,
) -> Result<(), Errno> {
    if flags & MS_REMOUNT != 0 {
        if !Arc::ptr_eq(&at.dentry, &at.mnt.root) {
            return Err(Errno::EINVAL);
        }
        let sb = &at.mnt.root.inode.sb;
        if flags & MS_BIND == 0 {
            sb.ops.remount(data)?;
            let _ = sb.flags.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |f| {
                Some((f & !MS_RDONLY) | (flags & MS_RDONLY))
            });
        }
        at.mnt.flags.store(flags & PER_MOUNT, Ordering::Relaxed);
        return Ok(());
    }
    if flags & MS_BIND != 0 {
        let from = source_path()?;
        let _change = CHANGE.lock();
        let mnt = Mount::build(
            from.dentry.clone(),
            from.mnt.flags(),
            from.mnt.source.as_bytes(),
            false,
        );
        let copies = match flags & MS_REC {
            0 => Vec::new(),
            _ => copies_below(&from, &mnt),
        };
        return attach(mnt, at, copies);
    }
    if flags & MS_PROPAGATION != 0 {
        // One name space: every mount is private, and saying so is no error.
        return if Arc::ptr_eq(&at.dentry, &at.mnt.root) {
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
pub fn move_mount(from: &Path, at: Path) -> Result<(), Errno> {
    let _change = CHANGE.lock();
    let at = place_for(at)?;
    if !Arc::ptr_eq(&from.dentry, &from.mnt.root)
        || from.mnt.mountpoint().is_none()
        || differ(&at, &from.mnt.root)
    {
        return Err(Errno::EINVAL);
    }
    // Not into itself.
    let mut place = Some(at.clone());
    while let Some(p) = place {
        if Arc::ptr_eq(&p.mnt, &from.mnt) {
            return Err(Errno::ELOOP);
        }
        place = p.mnt.mountpoint();
    }
    at.dentry.pin()?;
    detach(&from.mnt, false);
    hang(&from.mnt, at);
    Ok(())
}

/// `EINVAL` for flags of `umount2` that are none.
pub fn check_unmount_flags(flags: u32) -> Result<(), Errno> {
    if flags & !(MNT_FORCE | MNT_DETACH | MNT_EXPIRE | UMOUNT_NOFOLLOW) != 0 {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// `umount2(2)`.
pub fn umount(path: Path, flags: u32) -> Result<(), Errno> {
    may_mount()?;
    let Path { mnt, dentry } = path;
    if !Arc::ptr_eq(&dentry, &mnt.root) {
        return Err(Errno::EINVAL);
    }
    drop(dentry);
    let _change = CHANGE.lock();
    if mnt.mountpoint().is_none() {
        return Err(Errno::EINVAL);
    }
    if flags & MNT_DETACH != 0 {
        let mut todo = alloc::vec![mnt];
        while let Some(m) = todo.pop() {
            todo.extend(children(&m));
            detach(&m, true);
        }
        return Ok(());
    }
    // The table, the list and our own path hold one count each; anything beyond is a user.
    if !children(&mnt).is_empty() || Arc::strong_count(&mnt) > 3 {
        return Err(Errno::EBUSY);
    }
    detach(&mnt, true);
    Ok(())
}

/// `pivot_root(2)`.
pub fn pivot_root(new_root: Path, put_old: Path) -> Result<(), Errno> {
    let root = crate::fs::context::current_root();
    let _change = CHANGE.lock();
    let put_old = place_for(put_old)?;
    if new_root.dentry.is_unlinked() {
        return Err(Errno::ENOENT);
    }
    if Arc::ptr_eq(&new_root.mnt, &root.mnt) || Arc::ptr_eq(&put_old.mnt, &root.mnt) {
        return Err(Errno::EBUSY);
    }
    let is_root = |p: &Path| Arc::ptr_eq(&p.dentry, &p.mnt.root);
    let Some(root_at) = root.mnt.mountpoint() else {
        return Err(Errno::EINVAL);
    };
    if !is_root(&root) || !is_root(&new_root) || new_root.mnt.mountpoint().is_none() {
        return Err(Errno::EINVAL);
    }
    let mut place = put_old.clone();
    while place != new_root {
        place = place.up().ok_or(Errno::EINVAL)?;
    }
    put_old.dentry.pin()?;
    detach(&new_root.mnt, false);
    detach(&root.mnt, false);
    hang(&root.mnt, put_old);
    hang(&new_root.mnt, root_at);
    for p in crate::task::all_processes() {
        for t in p.threads() {
            let Some(fs) = t.try_fs() else { continue };
            if fs.is_at(&root) {
                // Now that we hold a count, the thread takes the lock to look at its places; a look it had begun before must be over.
                crate::sched::settle(&t);
                fs.replace(&root, &new_root);
            }
        }
    }
    Ok(())
}

/// A mount line's options.
fn options(m: &Mount, out: &mut String) {
    let f = m.flags();
    let ro = (f | m.root.inode.sb.flags.load(Ordering::Relaxed)) & MS_RDONLY != 0;
    out.push_str(if ro { "ro" } else { "rw" });
    for (bit, name) in [
        (MS_NOSUID, ",nosuid"),
        (MS_NODEV, ",nodev"),
        (MS_NOEXEC, ",noexec"),
        (MS_NOSYMFOLLOW, ",nosymfollow"),
        (MS_NOATIME, ",noatime"),
        (MS_NODIRATIME, ",nodiratime"),
    ] {
        if f & bit != 0 {
            out.push_str(name);
        }
    }
    if f & MS_NOATIME == 0 && m.root.inode.sb.fs_type != "rootfs" {
        out.push_str(",relatime");
    }
}

/// Spaces and the like become octal, as in `/proc/mounts`.
fn escape(text: &[u8], out: &mut String) {
    use core::fmt::Write;
    for c in text.utf8_chunks() {
        for ch in c.valid().chars() {
            match ch {
                ' ' | '\t' | '\n' | '\\' | '#' => {
                    let _ = write!(out, "\\{:03o}", ch as u32);
                }
                _ => out.push(ch),
            }
        }
        if !c.invalid().is_empty() {
            out.push('?');
        }
    }
}

/// Calls `f` with each mount below `root` and its place as seen from there.
fn for_each(root: &Path, mut f: impl FnMut(&Arc<Mount>, &[u8])) -> Result<(), Errno> {
    let all = LIST.lock().clone();
    for m in &all {
        let (name, reached) = Path {
            mnt: m.clone(),
            dentry: m.root.clone(),
        }
        .absolute(root)?;
        if reached {
            f(m, &name);
        }
    }
    Ok(())
}

/// `/proc/<pid>/mounts` as seen from `root`.
pub fn show_mounts(root: &Path, out: &mut String) -> Result<(), Errno> {
    for_each(root, |m, name| {
        let sb = &m.root.inode.sb;
        escape(m.source.as_bytes(), out);
        out.push(' ');
        escape(name, out);
        out.push(' ');
        out.push_str(sb.fs_type);
        out.push(' ');
        options(m, out);
        sb.ops.show_options(out);
        out.push_str(" 0 0\n");
    })
}

/// `/proc/<pid>/mountinfo` as seen from `root`.
pub fn show_mountinfo(root: &Path, out: &mut String) -> Result<(), Errno> {
    use core::fmt::Write;
    for_each(root, |m, name| {
        let sb = &m.root.inode.sb;
        let parent = m.mountpoint().map_or(m.id, |p| p.mnt.id);
        let _ = write!(out, "{} {} {}:{} ", m.id, parent, sb.dev.major(), sb.dev.minor());
        let mut inside = Vec::new();
        let mut d = m.root.clone();
        while let (Some(p), n) = d.position() {
            inside.push(n);
            d = p;
        }
        if inside.is_empty() {
            out.push('/');
        }
        for n in inside.iter().rev() {
            out.push('/');
            escape(n, out);
        }
        out.push(' ');
        escape(name, out);
        out.push(' ');
        options(m, out);
        let _ = write!(out, " - {} ", sb.fs_type);
        escape(m.source.as_bytes(), out);
        let ro = sb.flags.load(Ordering::Relaxed) & MS_RDONLY != 0;
        out.push_str(if ro { " ro" } else { " rw" });
        sb.ops.show_options(out);
        out.push('\n');
    })
}
