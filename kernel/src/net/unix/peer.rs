//! The credentials of senders and peers: `struct ucred`, `SO_PEERCRED`, `SO_PEERGROUPS`.

use crate::task::creds::cap;
use crate::task::ns::pid::{self, Id};
use crate::task::ns::user;
use crate::task::{current, pid::find_process_here};
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// Process, user and group id of a sender or peer.
#[derive(Clone, Default)]
pub struct Cred {
    /// The process.
    pub pid: Id,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

impl Cred {
    /// The kernel.
    pub const KERNEL: Self = Self {
        pid: Id::NONE,
        uid: 0,
        gid: 0,
    };

    /// `struct ucred` as the running program sees it. Ids that nobody has stay: there is no peer.
    pub fn shown(&self) -> [u32; 3] {
        const NOBODY: u32 = u32::MAX;
        let uid = match self.uid {
            NOBODY => NOBODY,
            uid => user::uid_shown(uid),
        };
        let gid = match self.gid {
            NOBODY => NOBODY,
            gid => user::gid_shown(gid),
        };
        [self.pid.here() as u32, uid, gid]
    }
}

impl PartialEq for Cred {
    fn eq(&self, other: &Self) -> bool {
        (self.pid.number, self.uid, self.gid) == (other.pid.number, other.uid, other.gid)
    }
}

/// The running process's, as receivers see them: with its real ids.
pub(in crate::net) fn sender_cred() -> Cred {
    let task = current();
    let creds = task.creds();
    Cred {
        pid: task.process.id(),
        uid: creds.uid,
        gid: creds.gid,
    }
}

/// What the kernel has for `claimed`, if the running process may send that as its credentials. `EINVAL`: an
/// id is not mapped in its user namespace. `EPERM` unless the ids are its own or it has the capabilities to
/// change to others. `ESRCH`: there is no such process.
pub fn check_cred(claimed: [u32; 3]) -> Result<Cred, Errno> {
    let [pid, uid, gid] = claimed;
    let task = current();
    let creds = task.creds();
    let (uid, gid) = (user::uid_meant(uid)?, user::gid_meant(gid)?);
    let own_pid = pid == task.process.own_tgid as u32;
    let may = (own_pid || creds.capable_in(pid::owner(task.pid_ns()), cap::SYS_ADMIN))
        && ([creds.uid, creds.euid, creds.suid].contains(&uid) || creds.capable_own(cap::SETUID))
        && ([creds.gid, creds.egid, creds.sgid].contains(&gid) || creds.capable_own(cap::SETGID));
    if !may {
        return Err(Errno::EPERM);
    }
    let pid = match own_pid {
        true => task.process.id(),
        false => find_process_here(pid as i32).ok_or(Errno::ESRCH)?.id(),
    };
    Ok(Cred { pid, uid, gid })
}

/// The credentials of the other end of a connection.
#[derive(Clone)]
pub struct Identity {
    /// `SO_PEERCRED`.
    pub cred: Cred,
    /// `SO_PEERGROUPS`. `None`: there is no peer.
    pub groups: Option<Arc<Vec<u32>>>,
}

impl Default for Identity {
    fn default() -> Self {
        Self {
            cred: Cred {
                pid: Id::NONE,
                uid: u32::MAX,
                gid: u32::MAX,
            },
            groups: None,
        }
    }
}

impl Identity {
    /// The running process, with its effective ids.
    pub(super) fn own() -> Self {
        let task = current();
        let creds = task.creds();
        Self {
            cred: Cred {
                pid: task.process.id(),
                uid: creds.euid,
                gid: creds.egid,
            },
            groups: Some(creds.groups.clone()),
        }
    }
}
