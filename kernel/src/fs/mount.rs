//! Mounts: what each is, and what may be done with it. Each namespace has a table of its mounts (`table`);
//! all of them change under one lock (`tree`), with what that means for the mounts that are told of it
//! (`spread`, `remove`). Walks know nothing of namespaces: a mount's copies hang on the same names, but in
//! other mounts.

use crate::fs::dentry::Dentry;
use crate::fs::inotify;
use crate::fs::mountpoint;
use crate::fs::path::Path;
use crate::rcu::{Held, Retire, Retiring, Shared};
use crate::sync::{Once, SpinLock};
use crate::task::ns::{Kind, UserRef, provide, user};
use crate::task::{TaskFlags, current};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use limen_linux_abi::Errno;
use limen_peer_groups::Member;

mod change;
mod namespace;
mod remove;
mod shown;
mod spread;
mod stuck;
mod table;
mod tree;
mod visible;

pub use change::{change_type, remount};
pub use namespace::{MountNs, Mounts, is_chrooted};
pub use remove::{check_unmount_flags, forget, is_local, to_umount, umount, uncover};
pub use shown::{for_roots_below, show_mountinfo, show_mounts, show_mountstats};
use stuck::Stuck;
pub use table::{MOUNT_MAX, Table, may_mount};
use tree::change;
pub use tree::{do_mount, pivot_root};

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
/// `MS_SILENT`.
const MS_SILENT: u32 = 32768;
/// `MS_UNBINDABLE`.
const MS_UNBINDABLE: u32 = 1 << 17;
/// `MS_SLAVE`.
const MS_SLAVE: u32 = 1 << 19;
/// `MS_SHARED`.
const MS_SHARED: u32 = 1 << 20;
/// `MS_UNBINDABLE`, `MS_PRIVATE`, `MS_SLAVE`, `MS_SHARED`.
pub const MS_PROPAGATION: u32 = 0xf << 17;
/// `MS_RELATIME`.
pub const MS_RELATIME: u32 = 1 << 21;
/// `MS_STRICTATIME`.
const MS_STRICTATIME: u32 = 1 << 24;
/// When the times of access change. A remount that names none of them leaves that as it is.
const ACCESS_TIMES: u32 = MS_NOATIME | MS_NODIRATIME | MS_RELATIME | MS_STRICTATIME;
/// Those of them by which mounts differ here.
const ACCESS_KINDS: u32 = MS_NOATIME | MS_NODIRATIME;
/// Flags that belong to a mount.
const PER_MOUNT: u32 =
    MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOSYMFOLLOW | MS_NOATIME | MS_NODIRATIME | MS_RELATIME;
/// `UMOUNT_NOFOLLOW`.
pub const UMOUNT_NOFOLLOW: u32 = 8;

/// A bit of [`Mount::state`]: it is not moved or unmounted without what it is mounted in (Linux:
/// `MNT_LOCKED`).
const LOCKED: u32 = 1;
/// It is left out when what is above it is bound elsewhere.
const UNBINDABLE: u32 = 2;
/// When its times of access change must stay as it is.
const LOCK_ATIME: u32 = 4;
/// These stay set ([`LOCKS`]).
const LOCK_READONLY: u32 = 8;
const LOCK_NOSUID: u32 = 16;
const LOCK_NODEV: u32 = 32;
const LOCK_NOEXEC: u32 = 64;
/// Flags of a mount, and the bits that lock them.
const LOCKS: [(u32, u32); 4] = [
    (MS_RDONLY, LOCK_READONLY),
    (MS_NOSUID, LOCK_NOSUID),
    (MS_NODEV, LOCK_NODEV),
    (MS_NOEXEC, LOCK_NOEXEC),
];

/// A mount: a tree, and the place at which it is mounted.
pub struct Mount {
    /// Number shown in `mountinfo`.
    pub id: u32,
    /// The root of the part of the tree that it shows.
    pub root: Held<Dentry>,
    /// `MS_*` flags of this mount.
    flags: AtomicU32,
    /// The source, as given to `mount`.
    pub source: Arc<str>,
    at: SpinLock<Option<Path>>,
    /// The namespace's table in which it is. Only then mounts below it may change.
    table: SpinLock<Option<Arc<Table>>>,
    /// [`LOCKED`] and so on. Changes while all mounts are locked.
    state: AtomicU32,
    /// Who it is in the groups of peers; 0: it is private. Changes while all mounts are locked.
    member: AtomicU32,
    /// For who has locked all mounts, and leaves 0 there.
    mark: AtomicU32,
    /// What still hangs in it after it was unmounted.
    stuck: SpinLock<Stuck>,
    internal: bool,
    /// Nobody has used it since `MNT_EXPIRE`.
    expiring: AtomicBool,
    /// How many files are open for writing through it.
    writers: AtomicU32,
}

static NEXT_ID: AtomicU32 = AtomicU32::new(1);
static ROOT: Once<Path> = Once::new();

impl Mount {
    fn value(root: Shared<Dentry>, flags: u32, source: Arc<str>, internal: bool) -> Self {
        root.inode.sb.mounts.fetch_add(1, Ordering::Relaxed);
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            root: Held::new(root),
            flags: AtomicU32::new(flags & PER_MOUNT),
            source,
            at: SpinLock::new(None),
            table: SpinLock::new(None),
            state: AtomicU32::new(0),
            member: AtomicU32::new(0),
            mark: AtomicU32::new(0),
            stuck: SpinLock::new(Stuck::NOTHING),
            internal,
            expiring: AtomicBool::new(false),
            writers: AtomicU32::new(0),
        }
    }
    fn build(root: Shared<Dentry>, flags: u32, source: &[u8], internal: bool) -> Shared<Self> {
        let source = Arc::from(&*alloc::string::String::from_utf8_lossy(source));
        Shared::new(Self::value(root, flags, source, internal))
    }
    /// One that shows `root`, and else is as this one. `ENOMEM`.
    fn copy_at(&self, root: Shared<Dentry>) -> Result<Shared<Self>, Errno> {
        let value = Self::value(root, self.flags(), self.source.clone(), false);
        let sb = value.root.inode.sb.clone();
        value.state.store(self.state(), Ordering::Relaxed);
        Shared::try_new(value).ok_or_else(|| {
            // The one that is copied shows it, too, so this was not the last.
            sb.mounts.fetch_sub(1, Ordering::AcqRel);
            Errno::ENOMEM
        })
    }
    fn state(&self) -> u32 {
        self.state.load(Ordering::Relaxed)
    }
    fn is(&self, bit: u32) -> bool {
        self.state() & bit != 0
    }
    /// Sets bits of its state and takes others away. The caller has locked all mounts.
    fn set_state(&self, set: u32, clear: u32) {
        self.state.store((self.state() | set) & !clear, Ordering::Relaxed);
    }
    fn member(&self) -> Option<Member> {
        Member::from_number(self.member.load(Ordering::Relaxed))
    }
    fn set_member(&self, member: Option<Member>) {
        self.member
            .store(member.map_or(0, Member::number), Ordering::Relaxed);
    }
    /// The table of the namespace in which it is. `EINVAL` for a mount that was unmounted, and for one of
    /// files outside any tree.
    fn table(&self) -> Result<Arc<Table>, Errno> {
        self.table.lock().clone().ok_or(Errno::EINVAL)
    }
    /// Whether it is in the namespace of the running task. Set-user-ID files in others' mounts are ordinary
    /// ones.
    pub fn is_mine(&self) -> bool {
        table::with_current(|mine| {
            self.table
                .lock()
                .as_ref()
                .is_some_and(|table| Arc::ptr_eq(table, mine))
        })
    }
    /// `EINVAL` for a mount that is not in the namespace of the running task.
    fn check_mine(&self) -> Result<(), Errno> {
        if self.is_mine() {
            Ok(())
        } else {
            Err(Errno::EINVAL)
        }
    }
    /// A walk has come to it.
    #[inline(always)]
    pub fn used(&self) {
        if self.expiring.load(Ordering::Relaxed) {
            self.stays();
        }
    }
    /// It does not expire, unless that is what the walk is for.
    #[cold]
    #[inline(never)]
    fn stays(&self) {
        if !current().flags().contains(TaskFlags::EXPIRES_MOUNT) {
            self.expiring.store(false, Ordering::Relaxed);
        }
    }
    /// A mount for files outside any tree (pipes, sockets, anonymous files), with `MS_*` flags. Its source is
    /// the name of its file system.
    pub fn new_internal(root: Shared<Dentry>, flags: u32) -> Shared<Self> {
        let source = root.inode.sb.fs_type;
        Self::build(root, flags, source.as_bytes(), true)
    }
    /// Whether it is a mount for files outside any tree.
    pub fn is_internal(&self) -> bool {
        self.internal
    }
    /// Whether it shows its whole tree, not only a directory of it.
    pub fn shows_all(&self) -> bool {
        self.root.is_root()
    }
    /// Where it is mounted. `None` for the first root, and for a mount that was unmounted.
    pub fn mountpoint(&self) -> Option<Path> {
        self.at.lock().clone()
    }
    /// `MS_*` flags.
    #[inline]
    pub fn flags(&self) -> u32 {
        self.flags.load(Ordering::Relaxed)
    }
    /// Whether device files in it can be opened: not those of a file system that a user namespace has filled.
    pub fn has_devices(&self) -> bool {
        let sb = &self.root.inode.sb;
        self.flags() & MS_NODEV == 0 && (sb.owner.is_none() || sb.fs_type == "devpts")
    }
    /// Whether set-user-ID programs in it give a task in this user namespace their owners' ids.
    pub fn gives_ids(&self, to: &UserRef) -> bool {
        self.flags() & MS_NOSUID == 0 && user::is_within(to, &self.root.inode.sb.owner) && self.is_mine()
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
    /// A file is opened for writing: counts it, so that nobody makes the mount read-only meanwhile. `EROFS`.
    /// The inverse is [`Mount::put_write`]. May sleep.
    pub fn get_write(&self) -> Result<(), Errno> {
        // Counted before it looks; who makes it read-only says so before it looks at the count.
        self.count_write();
        let flags = [&self.flags, &self.root.inode.sb.flags].map(|flags| flags.load(Ordering::SeqCst));
        if (flags[0] | flags[1]) & MS_RDONLY == 0 {
            return Ok(());
        }
        self.put_write();
        // Perhaps somebody is just finding out that it cannot be made read-only.
        let _change = change();
        self.check_writable()?;
        self.count_write();
        Ok(())
    }
    fn count_write(&self) {
        self.writers.fetch_add(1, Ordering::SeqCst);
        self.root.inode.sb.writers.fetch_add(1, Ordering::SeqCst);
    }
    /// The inverse of [`Mount::get_write`].
    pub fn put_write(&self) {
        self.writers.fetch_sub(1, Ordering::Release);
        self.root.inode.sb.writers.fetch_sub(1, Ordering::Release);
    }
}

impl Retire for Mount {
    fn retire(&self, retiring: &Retiring) {
        self.let_stuck_go();
        self.leave();
        let at = self.at.lock().take();
        drop(at);
        self.root.give_up(retiring);
    }
    fn seen(&self) {
        self.root.seen();
    }
}

impl Mount {
    /// It shows its file system no more.
    fn leave(&self) {
        let sb = &self.root.inode.sb;
        if sb.mounts.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        inotify::all_unmounted(sb);
        if !sb.persistent {
            inotify::ended(sb);
            let mut top = self.root.clone();
            while let Some(p) = top.parent() {
                top = p;
            }
            top.dismantle();
        }
    }
}

/// Makes `root` the first root.
pub fn init(root: Shared<Dentry>) {
    mountpoint::init();
    let mnt = Mount::build(root.clone(), 0, b"rootfs", false);
    table::init(&mnt);
    provide(Kind::Mnt, &namespace::Maker);
    if ROOT.set(Path { mnt, dentry: root }).is_err() {
        warning!("The root is already there");
    }
}

/// The root of the first mount, where init starts.
pub fn initial_root() -> Path {
    ROOT.get().expect("fs::init has run").clone()
}
