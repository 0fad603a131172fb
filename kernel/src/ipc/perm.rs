//! Who may do what with an object.

use crate::task::creds::{Creds, cap};
use crate::task::ns::user::{self, UserRef};
use limen_linux_abi::Errno;
use limen_linux_abi::abi::ipc;

pub use ipc::Permissions;

/// Reading, for owner, group and others.
pub const READ: u32 = 0o444;
/// Writing, for owner, group and others.
pub const WRITE: u32 = 0o222;

/// An object's owner, creator and mode, under the object's lock.
pub struct Perm {
    /// The key under which it is found, 0 (`IPC_PRIVATE`) for none.
    pub key: i32,
    /// The owner.
    pub uid: u32,
    /// The owner's group.
    pub gid: u32,
    cuid: u32,
    cgid: u32,
    /// Permissions, and bits of the object's kind above them.
    pub mode: u32,
    /// The user namespace that owns the object's namespace: where it takes capabilities.
    of: UserRef,
    /// It was removed: whoever still has a reference must not use it.
    pub gone: bool,
}

impl Perm {
    /// Of an object that the running thread makes. `of`: the user namespace that owns the table.
    pub fn new(key: i32, flags: u32, of: &UserRef) -> Self {
        let creds = crate::task::current().creds();
        Self {
            key,
            uid: creds.euid,
            gid: creds.egid,
            cuid: creds.euid,
            cgid: creds.egid,
            mode: flags & 0o777,
            of: of.clone(),
            gone: false,
        }
    }

    /// `EACCES` unless the running thread may do what the bits of `wanted` say, in the places of owner, group
    /// or others.
    pub fn allow(&self, creds: &Creds, wanted: u32) -> Result<(), Errno> {
        let wanted = wanted >> 6 | wanted >> 3 | wanted;
        let granted = if creds.euid == self.cuid || creds.euid == self.uid {
            self.mode >> 6
        } else if creds.in_group(self.cgid) || creds.in_group(self.gid) {
            self.mode >> 3
        } else {
            self.mode
        };
        if wanted & !granted & 7 != 0 && !creds.capable_in(&self.of, cap::IPC_OWNER) {
            return Err(Errno::EACCES);
        }
        Ok(())
    }

    /// The same for an object that is to be used: `EIDRM` if it was removed.
    pub fn check(&self, creds: &Creds, wanted: u32) -> Result<(), Errno> {
        self.allow(creds, wanted)?;
        self.check_there()
    }

    /// `EIDRM` if the object was removed.
    pub fn check_there(&self) -> Result<(), Errno> {
        if self.gone { Err(Errno::EIDRM) } else { Ok(()) }
    }

    /// Whether `creds` are the owner's or the creator's.
    pub fn is_owner(&self, creds: &Creds) -> bool {
        creds.euid == self.cuid || creds.euid == self.uid
    }

    /// `EPERM` unless the running thread may change or remove the object; `EIDRM`.
    pub fn check_owner(&self, creds: &Creds) -> Result<(), Errno> {
        if self.is_owner(creds) || creds.capable_in(&self.of, cap::SYS_ADMIN) {
            self.check_there()
        } else {
            Err(Errno::EPERM)
        }
    }

    /// `IPC_SET`. `EINVAL`: an id that no user of the caller's namespace has.
    pub fn set(&mut self, new: &Permissions) -> Result<(), Errno> {
        (self.uid, self.gid) = (user::uid_meant(new.uid)?, user::gid_meant(new.gid)?);
        self.mode = self.mode & !0o777 | new.mode & 0o777;
        Ok(())
    }

    /// As programs see them; `id` is the object's.
    pub fn shown(&self, id: i32) -> Permissions {
        Permissions {
            key: self.key,
            uid: user::uid_shown(self.uid),
            gid: user::gid_shown(self.gid),
            cuid: user::uid_shown(self.cuid),
            cgid: user::gid_shown(self.cgid),
            mode: self.mode,
            seq: id as u32 >> super::ids::INDEX_BITS,
        }
    }
}
