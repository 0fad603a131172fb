//! `/proc/<pid>/uid_map`, `gid_map`, `projid_map` and `setgroups`: the ids of the task's user namespace, as
//! they are seen from the namespace of whoever opened the file.

use super::process::Subject;
use crate::fs::file::{File, FileOps};
use crate::fs::inode::{Dev, FileType};
use crate::fs::io::{IoDst, IoSrc};
use crate::fs::pseudo::{Node, Text, seek, text_file};
use crate::mm::{PAGE_SIZE, copy};
use crate::task::creds::cap;
use crate::task::current;
use crate::task::ns::user::{self, Ids, Opener};
use alloc::sync::Arc;
use core::fmt::Write;
use limen_linux_abi::{Errno, SysResult, raw::general as abi};

/// What a file is about.
#[derive(Clone, Copy)]
enum What {
    Map(Ids),
    SetGroups,
}

/// `uid_map`.
pub fn users(subject: &Subject) -> Node {
    node(subject, What::Map(Ids::Users))
}

/// `gid_map`.
pub fn groups(subject: &Subject) -> Node {
    node(subject, What::Map(Ids::Groups))
}

/// `projid_map`.
pub fn projects(subject: &Subject) -> Node {
    node(subject, What::Map(Ids::Projects))
}

/// `setgroups`.
pub fn setgroups(subject: &Subject) -> Node {
    node(subject, What::SetGroups)
}

fn node(subject: &Subject, what: What) -> Node {
    let subject = subject.clone();
    let open = move |flags: u32| {
        let task = subject.task().ok_or(Errno::EINVAL)?;
        let opener = Arc::new(Opener {
            creds: current().creds(),
            ns: task.creds().user.clone(),
        });
        let writes = flags & abi::O_ACCMODE != abi::O_RDONLY;
        if matches!(what, What::SetGroups) && writes && !opener.creds.capable_in(&opener.ns, cap::SYS_ADMIN) {
            return Err(Errno::EACCES);
        }
        let of = opener.clone();
        let text = text_file(move |out| show(&of, what, out));
        let file: Arc<dyn FileOps> = Arc::new(IdFile { opener, what, text });
        Ok(file)
    };
    Node::Special(0o644, FileType::Regular, Dev::default(), Arc::new(open))
}

fn show(opener: &Opener, what: What, out: &mut Text) -> Result<(), Errno> {
    let ids = match what {
        What::Map(ids) => ids,
        What::SetGroups => {
            let allowed = user::lets_setgroups(&opener.ns);
            out.add(if allowed { "allow\n" } else { "deny\n" });
            return Ok(());
        }
    };
    user::shown_map(opener, ids, |extent| {
        // A lack of memory is told when the text is complete.
        let _ = writeln!(out, "{:10} {:10} {:10}", extent.first, extent.lower, extent.count);
    });
    Ok(())
}

/// An open file.
struct IdFile {
    opener: Arc<Opener>,
    what: What,
    text: Arc<dyn FileOps>,
}

impl IdFile {
    /// Writes all of `src`, which stands at `at`. Returns how long it was.
    fn write_at(&self, src: &mut IoSrc<'_>, at: u64) -> SysResult {
        /// `deny`, blanks, and a line's end.
        const SHORT: usize = 8;
        let most = match self.what {
            What::Map(_) => {
                user::may_write_map(&self.opener)?;
                PAGE_SIZE
            }
            What::SetGroups => SHORT,
        };
        let len = src.remaining();
        if at != 0 || len >= most {
            return Err(Errno::EINVAL);
        }
        let mut bytes = copy::zeroed(len)?;
        let mut n = 0;
        while n < len {
            n += src.take(&mut bytes[n..])?;
        }
        match self.what {
            What::Map(ids) => user::write_map(&self.opener, ids, &bytes)?,
            What::SetGroups => user::write_setgroups(&self.opener.ns, is_allow(&bytes)?)?,
        }
        Ok(len)
    }
}

/// Whether `text` is "allow", not "deny". `EINVAL`: it is neither.
fn is_allow(text: &[u8]) -> Result<bool, Errno> {
    let text = text.split(|&b| b == 0).next().unwrap_or(text);
    match text.trim_ascii_end() {
        b"allow" => Ok(true),
        b"deny" => Ok(false),
        _ => Err(Errno::EINVAL),
    }
}

impl FileOps for IdFile {
    fn read(&self, file: &File, dst: &mut IoDst<'_>, pos: Option<u64>) -> SysResult {
        self.text.read(file, dst, pos)
    }
    fn write(&self, file: &File, src: &mut IoSrc<'_>, pos: Option<u64>) -> SysResult {
        if pos.is_some() {
            return Err(Errno::ESPIPE);
        }
        let mut pos = file.pos.lock();
        let n = self.write_at(src, *pos)?;
        *pos = n as u64;
        Ok(n)
    }
    fn seek(&self, file: &File, offset: i64, whence: u32) -> Result<u64, Errno> {
        seek(file, offset, whence)
    }
}
