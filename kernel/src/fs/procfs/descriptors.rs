//! `/proc/<pid>/fd` and `/proc/<pid>/fdinfo`.

use super::process::{Subject, own, owner};
use crate::fs::fdtable::FdTable;
use crate::fs::file::File;
use crate::fs::inode::{FileType, Link};
use crate::fs::pseudo::{Directory, Node};
use alloc::format;
use alloc::sync::Arc;
use core::fmt::Write;
use limen_linux_abi::Errno;

/// The descriptors of a process: as links or, if `true`, as text about them.
pub struct Fds(pub Subject, pub bool);

fn table(subject: &Subject) -> Option<Arc<FdTable>> {
    subject.task()?.try_files()
}

/// The file behind `fd`, and its table. `EACCES`: the running thread may not inspect the process.
fn find(subject: &Subject, fd: i32) -> Result<(Arc<File>, Arc<FdTable>), Errno> {
    subject.look(|_| {
        let files = table(subject).ok_or(Errno::ENOENT)?;
        let file = files.get_any(fd).map_err(|_| Errno::ENOENT)?;
        Ok((file, files))
    })?
}

impl Directory for Fds {
    fn splices(&self) -> bool {
        false
    }
    fn get(&self, name: &[u8]) -> Option<Node> {
        let text = core::str::from_utf8(name).ok()?;
        let fd: i32 = text.parse().ok()?;
        if fd < 0 || format!("{fd}") != text {
            return None;
        }
        find(&self.0, fd).ok()?;
        let subject = self.0.clone();
        if self.1 {
            return Some(Node::File(
                0o444,
                Arc::new(move |out| {
                    let (file, files) = find(&subject, fd)?;
                    let cloexec = if files.cloexec(fd).unwrap_or(false) {
                        0o2000000
                    } else {
                        0
                    };
                    let _ = writeln!(
                        out,
                        "pos:\t{}\nflags:\t0{:o}\nmnt_id:\t{}\nino:\t{}",
                        // Without the lock: the file may be this very one, or a reader of it may be asleep.
                        file.pos.peek(),
                        file.flags() | cloexec,
                        file.path.mnt.id,
                        file.inode().ino
                    );
                    crate::fs::locks::show(&file, &files, &subject.ns, out);
                    file.ops().show_fdinfo_in(&file, &subject.ns, out);
                    Ok(())
                }),
                None,
            ));
        }
        Some(Node::Link(Arc::new(move || {
            let (file, _) = find(&subject, fd)?;
            Ok(Link::Jump(file.path.clone()))
        })))
    }
    fn list(&self, pos: u64, add: &mut dyn FnMut(&[u8], FileType, u64) -> bool) {
        let Ok(Some(files)) = self.0.look(|_| table(&self.0)) else {
            return;
        };
        let kind = if self.1 {
            FileType::Regular
        } else {
            FileType::Symlink
        };
        let mut from = pos.saturating_sub(2) as usize;
        while let Some((fd, _)) = files.next_open(from) {
            from = fd as usize + 1;
            if !add(format!("{fd}").as_bytes(), kind, from as u64 + 2) {
                return;
            }
        }
    }
    fn owner(&self) -> (u32, u32) {
        owner(&self.0)
    }
    fn own(&self, mode: u32) -> (u32, u32) {
        own(&self.0, mode)
    }
}
