//! The root directory, working directory and umask of a process. `CLONE_FS` shares them, fork copies them.

use crate::fs::dentry::Dentry;
use crate::fs::mount::Mount;
use crate::fs::path::Path;
use crate::rcu::{Found, Held, Reader, Retire, Retiring, Shared, Slot, read};
use crate::sync::SpinLock;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};

/// A place that readers find.
pub struct Place {
    /// The mount.
    pub mnt: Held<Mount>,
    /// The name.
    pub dentry: Held<Dentry>,
}

impl Place {
    fn new(path: Path) -> Self {
        Self {
            mnt: Held::new(path.mnt),
            dentry: Held::new(path.dentry),
        }
    }
    /// As a path, counted.
    pub fn path(&self) -> Path {
        Path {
            mnt: self.mnt.clone(),
            dentry: self.dentry.clone(),
        }
    }
    fn is_at(&self, path: &Path) -> bool {
        Shared::ptr_eq(&self.dentry, &path.dentry) && Shared::ptr_eq(&self.mnt, &path.mnt)
    }
}

/// Root and working directory as they are at one moment. A process that is forked shares its parent's until
/// one of them changes its own.
pub struct Places {
    /// Where absolute path names begin.
    pub root: Place,
    /// Where relative path names begin.
    pub cwd: Place,
}

impl Retire for Places {
    fn retire(&self, retiring: &Retiring) {
        for place in [&self.cwd, &self.root] {
            place.dentry.give_up(retiring);
            place.mnt.give_up(retiring);
        }
    }
    fn seen(&self) {
        for place in [&self.cwd, &self.root] {
            place.dentry.seen();
            place.mnt.seen();
        }
    }
}

/// Root, working directory, umask.
pub struct FsContext {
    /// Never empty.
    places: Slot<Places>,
    /// Held by who changes them.
    changes: SpinLock<()>,
    umask: AtomicU32,
}

impl FsContext {
    #[inline(always)]
    fn with(places: Shared<Places>, umask: u32) -> Arc<Self> {
        Arc::new(Self {
            places: Slot::new(places),
            changes: SpinLock::new(()),
            umask: AtomicU32::new(umask),
        })
    }
    /// At the root of the first mount, umask 022.
    pub fn initial() -> Arc<Self> {
        let root = crate::fs::mount::initial_root();
        let places = Places {
            root: Place::new(root.clone()),
            cwd: Place::new(root),
        };
        Self::with(Shared::new(places), 0o022)
    }
    /// A copy, for a new process.
    pub fn copy(&self) -> Arc<Self> {
        Self::with(self.held(), self.umask())
    }
    /// For readers: root and working directory.
    #[inline(always)]
    pub fn places<'r>(&self, reader: &'r Reader) -> Option<Found<'r, Places>> {
        self.places.found(reader)
    }
    /// Root and working directory, counted.
    fn held(&self) -> Shared<Places> {
        self.places.get(&read()).expect("a context has its places")
    }
    /// The root.
    pub fn root(&self) -> Path {
        self.held().root.path()
    }
    /// The working directory.
    pub fn cwd(&self) -> Path {
        self.held().cwd.path()
    }
    /// Root and working directory as they are at one moment.
    pub fn both(&self) -> (Path, Path) {
        let held = self.held();
        (held.root.path(), held.cwd.path())
    }
    /// Changes what `new` makes of the present places: root and working directory.
    fn change(&self, new: impl FnOnce(Path, Path) -> (Path, Path)) {
        let changes = self.changes.lock();
        let (root, cwd) = self.both();
        let (root, cwd) = new(root, cwd);
        let places = Places {
            root: Place::new(root),
            cwd: Place::new(cwd),
        };
        let old = self.places.replace(Some(Shared::new(places)));
        drop(changes);
        drop(old);
    }
    /// `chroot`.
    pub fn set_root(&self, root: Path) {
        // What is replaced is held until the lock is given back.
        let held = self.held();
        self.change(|_, cwd| (root, cwd));
        drop(held);
    }
    /// `chdir`.
    pub fn set_cwd(&self, cwd: Path) {
        let held = self.held();
        self.change(|root, _| (root, cwd));
        drop(held);
    }
    /// Whether its root or its working directory is `place`.
    pub fn is_at(&self, place: &Path) -> bool {
        let held = self.held();
        held.root.is_at(place) || held.cwd.is_at(place)
    }
    /// `pivot_root`: root or working directory is changed to `to` if it is `from`.
    pub fn replace(&self, from: &Path, to: &Path) {
        let moved = |at: Path| if at == *from { to.clone() } else { at };
        self.change(|root, cwd| (moved(root), moved(cwd)));
    }
    /// Root and working directory become what `new` makes of them.
    pub fn move_to(&self, new: impl Fn(Path) -> Path) {
        let held = self.held();
        self.change(|root, cwd| (new(root), new(cwd)));
        drop(held);
    }
    /// Root and working directory become those of `other`, for all who share them.
    pub fn move_like(&self, other: &Self) {
        let changes = self.changes.lock();
        let old = self.places.replace(Some(other.held()));
        drop(changes);
        drop(old);
    }
    /// The umask.
    #[inline]
    pub fn umask(&self) -> u32 {
        self.umask.load(Ordering::Relaxed)
    }
    /// Sets the umask and returns the old one.
    pub fn set_umask(&self, mask: u32) -> u32 {
        self.umask.swap(mask & 0o777, Ordering::Relaxed)
    }
}

/// The running task's root.
pub fn current_root() -> Path {
    crate::task::current().root()
}
