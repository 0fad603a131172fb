//! The root directory, working directory and umask of a process. `CLONE_FS` shares them, fork copies them.

use crate::fs::path::Path;
use crate::sync::SpinLock;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};

/// What the context's lock protects.
pub struct Places {
    /// Where absolute path names begin.
    pub root: Path,
    /// Where relative path names begin.
    pub cwd: Path,
}

impl Places {
    /// The root of the first mount.
    #[cold]
    pub fn initial() -> Self {
        let root = crate::fs::mount::initial_root();
        Self {
            cwd: root.clone(),
            root,
        }
    }
}

/// Root, working directory, umask.
pub struct FsContext {
    places: SpinLock<Places>,
    umask: AtomicU32,
}

impl FsContext {
    /// At the root of the first mount, umask 022.
    pub fn initial() -> Arc<Self> {
        Arc::new(Self {
            places: SpinLock::new(Places::initial()),
            umask: AtomicU32::new(0o022),
        })
    }
    /// A copy, for a new process.
    pub fn copy(&self) -> Arc<Self> {
        let p = self.places.lock();
        let places = Places {
            root: p.root.clone(),
            cwd: p.cwd.clone(),
        };
        Arc::new(Self {
            places: SpinLock::new(places),
            umask: AtomicU32::new(self.umask()),
        })
    }
    /// The lock around the directories. For [`OwnSlot::look`](crate::sync::OwnSlot::look).
    #[inline(always)]
    pub fn places(&self) -> &SpinLock<Places> {
        &self.places
    }
    /// The root.
    pub fn root(&self) -> Path {
        self.places.lock().root.clone()
    }
    /// The working directory.
    pub fn cwd(&self) -> Path {
        self.places.lock().cwd.clone()
    }
    /// Root and working directory as they are at one moment.
    pub fn both(&self) -> (Path, Path) {
        let p = self.places.lock();
        (p.root.clone(), p.cwd.clone())
    }
    /// `chroot`.
    pub fn set_root(&self, root: Path) {
        let old = core::mem::replace(&mut self.places.lock().root, root);
        drop(old);
    }
    /// `chdir`.
    pub fn set_cwd(&self, cwd: Path) {
        let old = core::mem::replace(&mut self.places.lock().cwd, cwd);
        drop(old);
    }
    /// Whether its root or its working directory is `place`.
    pub fn is_at(&self, place: &Path) -> bool {
        let p = self.places.lock();
        p.root == *place || p.cwd == *place
    }
    /// `pivot_root`: root or working directory is changed to `to` if it is `from`.
    pub fn replace(&self, from: &Path, to: &Path) {
        let mut old = (None, None);
        let mut p = self.places.lock();
        if p.root == *from {
            old.0 = Some(core::mem::replace(&mut p.root, to.clone()));
        }
        if p.cwd == *from {
            old.1 = Some(core::mem::replace(&mut p.cwd, to.clone()));
        }
        drop(p);
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
