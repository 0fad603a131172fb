//! Access control lists of files (`crates/posix-acl`). They are kept with the extended attributes; a bit next
//! to the permission bits tells whether a file has one.

use crate::fs::inode::{FileType, Inode, Xattrs};
use crate::fs::path::Path;
use crate::fs::perm;
use crate::fs::xattr;
use crate::sync::SpinGuard;
use crate::task::ns::user;
use crate::task::{Creds, creds::cap, current};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_linux_abi::Errno;
use limen_posix_acl::{Acl, Error, Named, Parsed, Who, parse};

/// The access control lists of a file.
#[derive(Default)]
pub struct Acls {
    /// Its access list. The entries for owner, group class and others are in the mode.
    access: Option<Arc<Acl>>,
    /// A directory's default list: the access list of what is made in it.
    default: Option<Arc<Acl>>,
}

/// Which of the two lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// `system.posix_acl_access`.
    Access,
    /// `system.posix_acl_default`.
    Default,
}

impl Which {
    /// The list whose attribute is called `name`.
    pub fn named(name: &[u8]) -> Option<Self> {
        [Self::Access, Self::Default]
            .into_iter()
            .find(|w| w.name() == name)
    }
    /// The name of its attribute.
    pub fn name(self) -> &'static [u8] {
        match self {
            Self::Access => b"system.posix_acl_access",
            Self::Default => b"system.posix_acl_default",
        }
    }
}

impl Acls {
    fn slot(&mut self, which: Which) -> &mut Option<Arc<Acl>> {
        match which {
            Which::Access => &mut self.access,
            Which::Default => &mut self.default,
        }
    }
    fn get(&self, which: Which) -> Option<&Arc<Acl>> {
        match which {
            Which::Access => self.access.as_ref(),
            Which::Default => self.default.as_ref(),
        }
    }
    /// The names of the attributes of those that exist.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        [Which::Access, Which::Default]
            .into_iter()
            .filter(|which| self.get(*which).is_some())
            .map(|which| -> &[u8] { which.name() })
    }
}

impl Who for Creds {
    fn is_user(&self, uid: u32) -> bool {
        self.fsuid == uid
    }
    fn in_group(&self, gid: u32) -> bool {
        Creds::in_group(self, gid)
    }
}

fn errno(error: Error) -> Errno {
    match error {
        Error::Version => Errno::EOPNOTSUPP,
        Error::Malformed => Errno::EINVAL,
        Error::NoMemory => Errno::ENOMEM,
    }
}

/// `EOPNOTSUPP`: the file cannot have lists.
fn check_support(inode: &Inode) -> Result<(), Errno> {
    if xattr::has_storage(inode) && inode.sb.fs_type != "ramfs" && inode.kind != FileType::Symlink {
        Ok(())
    } else {
        Err(Errno::EOPNOTSUPP)
    }
}

/// A list and the mode with which it belongs together.
fn find(inode: &Inode, which: Which) -> Option<(Arc<Acl>, u32)> {
    let all = inode.lock_attributes();
    let acl = all.as_ref()?.acls.get(which)?.clone();
    Some((acl, inode.mode()))
}

/// The value of a list's attribute.
pub fn get(inode: &Inode, which: Which) -> Result<Vec<u8>, Errno> {
    check_support(inode)?;
    let (acl, mode) = find(inode, which).ok_or(Errno::ENODATA)?;
    let mut bytes = Vec::new();
    crate::mm::reserve::room_exact(&mut bytes, acl.size())?;
    let mode = (which == Which::Access).then_some(mode);
    let creds = current().creds();
    acl.encode_with(mode, &mut bytes, |named| match named {
        Named::User(kuid) => user::from_kuid(&creds.user, kuid),
        Named::Group(kgid) => user::from_kgid(&creds.user, kgid),
    });
    Ok(bytes)
}

/// Sets a list to the value of its attribute; `None` removes it.
pub fn set(path: &Path, which: Which, bytes: Option<&[u8]>) -> Result<(), Errno> {
    path.mnt.check_writable()?;
    let inode = &path.dentry.inode;
    if !xattr::has_storage(inode) {
        return Err(Errno::EOPNOTSUPP);
    }
    let mut parsed = bytes.map_or(Ok(None), parse).map_err(errno)?;
    check_support(inode)?;
    if which == Which::Default && inode.kind != FileType::Directory {
        return if parsed.is_some() {
            Err(Errno::EACCES)
        } else {
            Ok(())
        };
    }
    let creds = current().creds();
    if !perm::owner_or_capable(inode, &creds) {
        return Err(Errno::EPERM);
    }
    if let Some(parsed) = &mut parsed {
        let convert = |named| match named {
            Named::User(id) => user::make_kuid(&creds.user, id),
            Named::Group(id) => user::make_kgid(&creds.user, id),
        };
        parsed.convert(convert).map_err(errno)?;
    }
    let acl = parsed.map(Parsed::check).transpose().map_err(errno)?;
    let mode = acl.as_ref().filter(|_| which == Which::Access).map(Acl::mode);
    let kept = acl.filter(|acl| which == Which::Default || !acl.is_mode());
    let kept = kept.map(Arc::new);
    let still = inode.lock_attributes();
    if !perm::owner_or_capable(inode, &creds) {
        return Err(Errno::EPERM);
    }
    let drop_group =
        which == Which::Access && !creds.in_group(inode.gid()) && !perm::capable(&creds, inode, cap::FSETID);
    put(inode, still, which, kept, |old| {
        let new = mode.map_or(old, |bits| old & !0o777 | bits);
        if drop_group { new & !0o2000 } else { new }
    });
    inode.touch_changed();
    crate::fs::inotify::attrib_at(&path.dentry);
    Ok(())
}

/// Stores a list and changes the mode with it; `all` are the inode's locked attributes.
fn put(
    inode: &Inode,
    mut all: SpinGuard<'_, Option<Box<Xattrs>>>,
    which: Which,
    acl: Option<Arc<Acl>>,
    mode: impl Fn(u32) -> u32,
) {
    let bit = match which {
        Which::Access => Inode::HAS_ACL,
        Which::Default => Inode::HAS_DEFAULT_ACL,
    };
    let there = acl.is_some();
    let old = match (&mut *all, acl) {
        (None, None) => None,
        (all, acl) => core::mem::replace(all.get_or_insert_default().acls.slot(which), acl),
    };
    inode.change_mode(|word| {
        let word = word & !0o7777 | mode(word & 0o7777);
        if there { word | bit } else { word & !bit }
    });
    // The old list is dropped without the lock.
    drop(all);
    drop(old);
}

/// The access list that a new file in `dir` gets.
#[cold]
pub fn default_of(dir: &Inode) -> Option<Arc<Acl>> {
    find(dir, Which::Default).map(|(acl, _)| acl)
}

/// Gives a new file the list that it inherits. Its mode has been made with [`Acl::inherit`].
#[cold]
pub fn give(inode: &Inode, acl: Arc<Acl>) {
    if inode.kind == FileType::Directory {
        put(
            inode,
            inode.lock_attributes(),
            Which::Default,
            Some(acl.clone()),
            |mode| mode,
        );
    }
    if !acl.is_mode() {
        put(inode, inode.lock_attributes(), Which::Access, Some(acl), |mode| {
            mode
        });
    }
}

/// Whether the access list allows all of `mask` to a user who is not the owner. `Err`: there is no list, or
/// its mask allows nothing, so the permission bits decide, which are in it. A list that was removed took its
/// mask along: the bits of before would give it to the group.
#[cold]
#[inline(never)]
pub fn allows(inode: &Inode, mask: u32, creds: &Creds) -> Result<bool, u32> {
    let (acl, mode) = {
        let all = inode.lock_attributes();
        let acl = all.as_ref().and_then(|all| all.acls.get(Which::Access)).cloned();
        (acl, inode.mode())
    };
    match acl {
        Some(acl) if mode & 0o070 != 0 => Ok(acl.allows(mode, inode.gid(), creds, mask)),
        _ => Err(mode),
    }
}
