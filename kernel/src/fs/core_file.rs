//! The file that a core dump is written to: what may be there before, and whose it is.

use crate::fs::file::File;
use crate::fs::inode::FileType;
use crate::fs::lookup::{AT_FDCWD, walker};
use crate::fs::names;
use crate::fs::open::{self, How};
use crate::fs::regular;
use crate::fs::walk::{LastKind, Walk};
use crate::task::current;
use alloc::sync::Arc;
use limen_linux_abi::{Errno, raw::general as abi};

/// Permission bits of a core file.
const MODE: u32 = 0o600;

/// Makes the core file `path` of the running thread's process, and opens it. A file of that name is removed
/// before, or with `keep` is an error: what root writes for others must not replace anything. `EPERM`: what
/// is there then is not a file that only its owner, the running thread, can use. Sleeps.
pub fn create(path: &[u8], keep: bool) -> Result<Arc<File>, Errno> {
    if !keep {
        // Mostly there is none.
        let _ = remove(path);
    }
    let how = How {
        flags: abi::O_CREAT | abi::O_RDWR | abi::O_NOFOLLOW | abi::O_LARGEFILE | abi::O_EXCL,
        mode: MODE,
        resolve: Walk::empty(),
    };
    let file = open::open(AT_FDCWD, path, &how)?;
    let inode = file.inode();
    let (mode, uid, _) = inode.identity();
    let own = inode.kind == FileType::Regular
        && inode.nlink() == 1
        && uid == current().creds().fsuid
        && mode & 0o677 == MODE;
    if !own {
        return Err(Errno::EPERM);
    }
    Ok(file)
}

fn remove(path: &[u8]) -> Result<(), Errno> {
    let mut walk = walker(AT_FDCWD, path, Walk::empty())?;
    let mut text = walk.text(path);
    let last = walk.parent(&mut text)?;
    let LastKind::Name(range) = &last.kind else {
        return Err(Errno::EISDIR);
    };
    let name = text.get(range);
    names::remove(&walk.cur, name, &walk.creds(), false, last.slash)
}

/// Makes the file as long as what was written and the hole behind it. Sleeps.
pub fn set_length(file: &File, length: u64) -> Result<(), Errno> {
    if file.inode().size() < length {
        regular::set_size(file.inode(), length)?;
    }
    Ok(())
}
