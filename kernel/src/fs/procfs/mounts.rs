//! `/proc/<pid>/{mounts,mountinfo,mountstats}`: the mounts, as the process sees them. The first two can be
//! polled for changes.

use super::process::Subject;
use crate::fs::file::{File, FileMode, FileOps};
use crate::fs::inode::{Dev, FileType};
use crate::fs::io::IoDst;
use crate::fs::mount::{self, CHANGES};
use crate::fs::path::Path;
use crate::fs::poll::{PollEvents, PollTable};
use crate::fs::pseudo::{Node, Show, Text, text_file};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};
use limen_linux_abi::Errno;
use limen_linux_abi::SysResult;

/// Writes the mounts below a root.
type ShowMounts = fn(&Path, &mut Text) -> Result<(), Errno>;

fn text(
    subject: &Subject,
    show: ShowMounts,
) -> impl Fn(&mut Text) -> Result<(), Errno> + Send + Sync + use<> {
    let subject = subject.clone();
    move |out| {
        let root = subject.living()?.try_fs().ok_or(Errno::EINVAL)?.root();
        show(&root, out)
    }
}

/// `mountstats`, which only its owner may read.
pub fn stats(subject: &Subject) -> Node {
    let show: Show = Arc::new(text(subject, mount::show_mountstats));
    Node::File(0o400, show, None)
}

/// A text file that reports `POLLERR` and `POLLPRI` when mounts have changed since the last poll.
pub fn watched(subject: &Subject, show: ShowMounts) -> Node {
    let subject = subject.clone();
    let open = move |_| -> Result<Arc<dyn FileOps>, Errno> {
        Ok(Arc::new(Watched {
            text: text_file(text(&subject, show)),
            seen: AtomicU32::new(CHANGES.count()),
        }))
    };
    Node::Special(0o444, FileType::Regular, Dev::default(), Arc::new(open))
}

/// Such a file, opened.
struct Watched {
    text: Arc<dyn FileOps>,
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
        let now = CHANGES.count();
        let told = match table {
            // A caller that registers itself polls once more before it sleeps, and the change is reported
            // then.
            Some(table) => {
                table.register(&CHANGES.queue);
                self.seen.load(Ordering::Relaxed)
            }
            None => self.seen.swap(now, Ordering::Relaxed),
        };
        let mut events = PollEvents::READABLE;
        events.set(PollEvents::ERR | PollEvents::PRI, told != now);
        events
    }
}
