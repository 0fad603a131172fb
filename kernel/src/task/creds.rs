//! Credentials: the ids and capabilities with which a thread acts. Never changed once shared: a change makes
//! a new [`Creds`] and replaces the thread's pointer.

use super::ns::user::{self, UserRef};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// How many capabilities Linux defines (`CAP_LAST_CAP + 1`).
pub const CAP_COUNT: u32 = 41;
/// Every capability.
pub const CAP_ALL: u64 = (1 << CAP_COUNT) - 1;

/// Capability numbers (`linux/capability.h`).
#[allow(missing_docs, dead_code, reason = "Linux's list, whole")]
pub mod cap {
    pub const CHOWN: u32 = 0;
    pub const DAC_OVERRIDE: u32 = 1;
    pub const DAC_READ_SEARCH: u32 = 2;
    pub const FOWNER: u32 = 3;
    pub const FSETID: u32 = 4;
    pub const KILL: u32 = 5;
    pub const SETGID: u32 = 6;
    pub const SETUID: u32 = 7;
    pub const SETPCAP: u32 = 8;
    pub const LINUX_IMMUTABLE: u32 = 9;
    pub const NET_BIND_SERVICE: u32 = 10;
    pub const NET_BROADCAST: u32 = 11;
    pub const NET_ADMIN: u32 = 12;
    pub const NET_RAW: u32 = 13;
    pub const IPC_LOCK: u32 = 14;
    pub const IPC_OWNER: u32 = 15;
    pub const SYS_MODULE: u32 = 16;
    pub const SYS_RAWIO: u32 = 17;
    pub const SYS_CHROOT: u32 = 18;
    pub const SYS_PTRACE: u32 = 19;
    pub const SYS_PACCT: u32 = 20;
    pub const SYS_ADMIN: u32 = 21;
    pub const SYS_BOOT: u32 = 22;
    pub const SYS_NICE: u32 = 23;
    pub const SYS_RESOURCE: u32 = 24;
    pub const SYS_TIME: u32 = 25;
    pub const SYS_TTY_CONFIG: u32 = 26;
    pub const MKNOD: u32 = 27;
    pub const LEASE: u32 = 28;
    pub const AUDIT_WRITE: u32 = 29;
    pub const AUDIT_CONTROL: u32 = 30;
    pub const SETFCAP: u32 = 31;
    pub const SYSLOG: u32 = 34;
    pub const WAKE_ALARM: u32 = 35;
    pub const AUDIT_READ: u32 = 37;
    pub const CHECKPOINT_RESTORE: u32 = 40;
}

/// The capabilities for file systems: they follow the file system user id (`CAP_FS_SET`).
const FS_CAPS: u64 = 1 << cap::CHOWN
    | 1 << cap::MKNOD
    | 1 << cap::DAC_OVERRIDE
    | 1 << cap::DAC_READ_SEARCH
    | 1 << cap::FOWNER
    | 1 << cap::FSETID
    | 1 << cap::LINUX_IMMUTABLE
    | 1 << 32;

/// Secure bits (`linux/securebits.h`).
#[allow(missing_docs, reason = "the names are Linux's")]
pub mod securebits {
    pub const NOROOT: u32 = 1 << 0;
    pub const NO_SETUID_FIXUP: u32 = 1 << 2;
    pub const KEEP_CAPS: u32 = 1 << 4;
    pub const NO_CAP_AMBIENT_RAISE: u32 = 1 << 6;
    pub const ALL: u32 = 0xff;
    /// The lock bits. Each is the bit above the one that it locks.
    pub const LOCKS: u32 = 0xaa;
}

/// A thread's credentials.
#[derive(Clone, Debug)]
pub struct Creds {
    /// Real user id.
    pub uid: u32,
    /// Effective user id.
    pub euid: u32,
    /// Saved user id.
    pub suid: u32,
    /// User id for file access.
    pub fsuid: u32,
    /// Real group id.
    pub gid: u32,
    /// Effective group id.
    pub egid: u32,
    /// Saved group id.
    pub sgid: u32,
    /// Group id for file access.
    pub fsgid: u32,
    /// Supplementary groups, ascending. A `Vec`, since allocating it can fail with an error: there may be
    /// 65,536.
    pub groups: Arc<Vec<u32>>,
    /// Capabilities that the thread uses.
    pub effective: u64,
    /// Capabilities that the thread may add to the effective ones.
    pub permitted: u64,
    /// Capabilities that are kept when a file is executed that has them, too.
    pub inheritable: u64,
    /// Capabilities that exec can give at most.
    pub bounding: u64,
    /// Capabilities that are kept when any file is executed.
    pub ambient: u64,
    /// Secure bits ([`securebits`]).
    pub securebits: u32,
    /// The user namespace in which the capabilities count.
    pub user: UserRef,
}

impl Creds {
    /// Those of the first process: root, with every capability.
    pub fn root() -> Self {
        Self {
            uid: 0,
            euid: 0,
            suid: 0,
            fsuid: 0,
            gid: 0,
            egid: 0,
            sgid: 0,
            fsgid: 0,
            groups: Arc::new(Vec::new()),
            effective: CAP_ALL,
            permitted: CAP_ALL,
            inheritable: 0,
            bounding: CAP_ALL,
            ambient: 0,
            securebits: 0,
            user: None,
        }
    }

    /// Whether capability `cap` is effective in the initial user namespace: for what belongs to the machine.
    #[inline]
    pub fn capable(&self, cap: u32) -> bool {
        self.effective & (1 << cap) != 0 && self.user.is_none()
    }

    /// Whether capability `cap` is effective in their own user namespace: for what concerns only the thread
    /// that has them.
    #[inline]
    pub fn capable_own(&self, cap: u32) -> bool {
        self.effective & (1 << cap) != 0
    }

    /// Whether capability `cap` is effective in `ns`, the user namespace that owns what it is needed for.
    #[inline]
    pub fn capable_in(&self, ns: &UserRef, cap: u32) -> bool {
        match ns {
            None => self.capable(cap),
            Some(_) => user::has_cap(self, ns, cap),
        }
    }

    /// Whether capability `cap` is effective for a file of this owner and group: their namespace must know
    /// both (`capable_wrt_inode_uidgid`).
    #[inline]
    pub fn capable_for(&self, kuid: u32, kgid: u32, cap: u32) -> bool {
        self.effective & (1 << cap) != 0 && user::maps_both(&self.user, kuid, kgid)
    }

    /// The kernel's id of the root of their namespace. All ones if it has none: no thread has that id.
    #[inline]
    fn root_uid(&self) -> u32 {
        match &self.user {
            None => 0,
            ns => user::root_uid(ns).unwrap_or(u32::MAX),
        }
    }

    /// Whether `uid` is the root of their namespace.
    #[inline]
    pub fn is_root(&self, uid: u32) -> bool {
        uid == self.root_uid()
    }

    /// Whether `gid` is the file-access group or a supplementary one (`in_group_p`).
    pub fn in_group(&self, gid: u32) -> bool {
        gid == self.fsgid || self.groups.binary_search(&gid).is_ok()
    }

    /// Changes the capabilities as a change of the real, effective and saved user ids from those of `old`
    /// requires.
    pub fn fix_caps_after_setuid(&mut self, old: &Creds) {
        if self.securebits & securebits::NO_SETUID_FIXUP != 0 {
            return;
        }
        let root = old.root_uid();
        let had_root = [old.uid, old.euid, old.suid].contains(&root);
        let has_root = [self.uid, self.euid, self.suid].contains(&root);
        if had_root && !has_root {
            if self.securebits & securebits::KEEP_CAPS == 0 {
                self.permitted = 0;
                self.effective = 0;
            }
            // Linux clears the ambient set even if `PR_SET_KEEPCAPS` keeps the others.
            self.ambient = 0;
        }
        if old.euid == root && self.euid != root {
            self.effective = 0;
        }
        if old.euid != root && self.euid == root {
            self.effective = self.permitted;
        }
    }

    /// Changes the capabilities as a change of the file system user id requires.
    pub fn fix_caps_after_setfsuid(&mut self, old: &Creds) {
        if self.securebits & securebits::NO_SETUID_FIXUP != 0 {
            return;
        }
        let root = old.root_uid();
        if old.fsuid == root && self.fsuid != root {
            self.effective &= !FS_CAPS;
        }
        if old.fsuid != root && self.fsuid == root {
            self.effective |= self.permitted & FS_CAPS;
        }
    }
}
