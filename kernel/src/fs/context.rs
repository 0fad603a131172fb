//! The root directory, working directory and umask of a process. `CLONE_FS` shares them, fork copies them.

use crate::fs::dentry::Dentry;
use crate::fs::mount::Mount;
use crate::fs::path::Path;
use crate::rcu::{Held, Reader, Retire, Retiring, Shared, Slot, read};
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
    fn new(path: Path) -> Shared<Self> {
        Shared::new(Self {
            mnt: Held::new(path.mnt),
            dentry: Held::new(path.dentry),
        })
    }
    fn path(&self) -> Path {
        Path {
            mnt: self.mnt.clone(),
            dentry: self.dentry.clone(),
        }
    }
    fn is_at(&self, path: &Path) -> bool {
        self.dentry.is(&path.dentry) && self.mnt.is(&path.mnt)
    }
}

impl Retire for Place {
    fn retire(&self, retiring: &Retiring) {
        self.dentry.give_up(retiring);
        self.mnt.give_up(retiring);
    }
    fn seen(&self) {
        self.dentry.seen();
        self.mnt.seen();
    }
}

/// Root, working directory, umask.
pub struct FsContext {
    /// Where absolute path names begin. Never empty.
    root: Slot<Place>,
    /// Where relative path names begin. Never empty.
    cwd: Slot<Place>,
    /// Held by who changes one of them, and by who wants both as they are at one moment.
    changes: SpinLock<()>,
    umask: AtomicU32,
}

/// A counted reference to what `slot` holds, which is not empty.
fn held(slot: &Slot<Place>) -> Shared<Place> {
    slot.get(&read()).expect("a context has its places")
}

impl FsContext {
    fn with(root: Shared<Place>, cwd: Shared<Place>, umask: u32) -> Arc<Self> {
        Arc::new(Self {
            root: Slot::new(root),
            cwd: Slot::new(cwd),
            changes: SpinLock::new(()),
            umask: AtomicU32::new(umask),
        })
    }
    /// At the root of the first mount, umask 022.
    pub fn initial() -> Arc<Self> {
        let root = Place::new(crate::fs::mount::initial_root());
        Self::with(root.clone(), root, 0o022)
    }
    /// A copy, for a new process.
    pub fn copy(&self) -> Arc<Self> {
        let (root, cwd) = {
            let _changes = self.changes.lock();
            (held(&self.root), held(&self.cwd))
        };
        Self::with(root, cwd, self.umask())
    }
    /// For readers: the root, or the working directory.
    #[inline(always)]
    pub fn place<'r>(&self, root: bool, reader: &'r Reader) -> Option<&'r Place> {
        let slot = if root { &self.root } else { &self.cwd };
        slot.load(reader)
    }
    /// The root.
    pub fn root(&self) -> Path {
        held(&self.root).path()
    }
    /// The working directory.
    pub fn cwd(&self) -> Path {
        held(&self.cwd).path()
    }
    /// Root and working directory as they are at one moment.
    pub fn both(&self) -> (Path, Path) {
        let _changes = self.changes.lock();
        (self.root(), self.cwd())
    }
    fn set(&self, slot: &Slot<Place>, path: Path) {
        let new = Place::new(path);
        let old = {
            let _changes = self.changes.lock();
            slot.replace(Some(new))
        };
        drop(old);
    }
    /// `chroot`.
    pub fn set_root(&self, root: Path) {
        self.set(&self.root, root);
    }
    /// `chdir`.
    pub fn set_cwd(&self, cwd: Path) {
        self.set(&self.cwd, cwd);
    }
    /// Whether its root or its working directory is `place`.
    pub fn is_at(&self, place: &Path) -> bool {
        let reader = read();
        [true, false]
            .iter()
            .any(|root| self.place(*root, &reader).is_some_and(|own| own.is_at(place)))
    }
    /// `pivot_root`: root or working directory is changed to `to` if it is `from`.
    pub fn replace(&self, from: &Path, to: &Path) {
        let new = Place::new(to.clone());
        let mut old = (None, None);
        let changes = self.changes.lock();
        if held(&self.root).is_at(from) {
            old.0 = self.root.replace(Some(new.clone()));
        }
        if held(&self.cwd).is_at(from) {
            old.1 = self.cwd.replace(Some(new));
        }
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
