//! `/proc/<pid>/{mounts,mountinfo,mountstats}`: the mounts, as the process sees them. The first two can be
//! polled for changes.

use super::process::Subject;
use crate::fs::file::{File, FileMode, FileOps};
use crate::fs::inode::{Dev, FileType};
use crate::fs::io::IoDst;
use crate::fs::mount::{self, Mounts};
use crate::fs::path::Path;
use crate::fs::poll::{PollEvents, PollTable};
use crate::fs::pseudo::{Node, Text, text_file};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};
use limen_linux_abi::Errno;
use limen_linux_abi::SysResult;

/// Writes the mounts of a namespace below a root.
type ShowMounts = fn(&Mounts, &Path, &mut Text) -> Result<(), Errno>;

/// The mounts that a process sees, at the moment at which its file is opened. `EINVAL`: it has ended.
fn seen_by(subject: &Subject) -> Result<(Mounts, Path), Errno> {
    let task = subject.living()?;
    let set = task.namespaces();
    let root = task.try_fs().ok_or(Errno::EINVAL)?.root();
    Ok((Mounts::of(set.as_deref()), root))
}

/// `mountstats`, which only its owner may read.
pub fn stats(subject: &Subject) -> Node {
    let subject = subject.clone();
    let open = move |_| -> Result<Arc<dyn FileOps>, Errno> {
        let (mounts, root) = seen_by(&subject)?;
        Ok(text_file(move |out: &mut Text| {
            mount::show_mountstats(&mounts, &root, out)
        }))
    };
    Node::Special(0o400, FileType::Regular, Dev::default(), Arc::new(open))
}

/// A text file that reports `POLLERR` and `POLLPRI` when mounts of the namespace have changed since the last
/// poll. It keeps the namespace.
pub fn watched(subject: &Subject, show: ShowMounts) -> Node {
    let subject = subject.clone();
    let open = move |_| -> Result<Arc<dyn FileOps>, Errno> {
        let (mounts, root) = seen_by(&subject)?;
        let seen = AtomicU32::new(mounts.table().changes.count());
        let shown = mounts.clone();
        Ok(Arc::new(Watched {
            text: text_file(move |out: &mut Text| show(&shown, &root, out)),
            mounts,
            seen,
        }))
    };
    Node::Special(0o444, FileType::Regular, Dev::default(), Arc::new(open))
}

/// Such a file, opened.
struct Watched {
    text: Arc<dyn FileOps>,
    mounts: Mounts,
    /// How many changes have been reported.
    seen: AtomicU32,
}

impl FileOps for Watched {
    fn mode(&self) -> FileMode {
        FileMode::POLLS
    }
    fn read(&self, file: &File, dst: &mut IoDst<'_>, pos: Option<u64>) -> SysResult {
        self.text.read(file, dst, pos)
    }
    fn seek(&self, file: &File, offset: i64, whence: u32) -> Result<u64, Errno> {
        self.text.seek(file, offset, whence)
    }
    fn poll(&self, _: &File, table: Option<&mut PollTable<'_>>) -> PollEvents {
        let now = self.mounts.table().changes.count();
        let told = match table {
            // A caller that registers itself polls once more before it sleeps, and the change is reported
            // then.
            Some(table) => {
                table.register(&self.mounts.table().changes.queue);
                self.seen.load(Ordering::Relaxed)
            }
            None => self.seen.swap(now, Ordering::Relaxed),
        };
        let mut events = PollEvents::READABLE;
        events.set(PollEvents::ERR | PollEvents::PRI, told != now);
        events
    }
}
