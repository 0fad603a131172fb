//! The credentials of senders and peers: `struct ucred`, `SO_PEERCRED`, `SO_PEERGROUPS`.

use crate::task::creds::cap;
use crate::task::ns::user;
use crate::task::{current, find_process};
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// Process, user and group id of a sender or peer (`struct ucred`).
pub type Cred = [u32; 3];

/// The running process's, as receivers see them: with its real ids.
pub(in crate::net) fn sender_cred() -> Cred {
    let task = current();
    let creds = task.creds();
    [task.tgid() as u32, creds.uid, creds.gid]
}

/// What the kernel has for `claimed`, if the running process may send that as its credentials. `EINVAL`: an
/// id is not mapped in its user namespace. `EPERM` unless the ids are its own or it has the capabilities to
/// change to others. `ESRCH`: there is no such process.
pub fn check_cred(claimed: Cred) -> Result<Cred, Errno> {
    let [pid, uid, gid] = claimed;
    let task = current();
    let creds = task.creds();
    let (uid, gid) = (user::uid_meant(uid)?, user::gid_meant(gid)?);
    let own_pid = pid == task.tgid() as u32;
    let may = (own_pid || creds.capable(cap::SYS_ADMIN))
        && ([creds.uid, creds.euid, creds.suid].contains(&uid) || creds.capable_own(cap::SETUID))
        && ([creds.gid, creds.egid, creds.sgid].contains(&gid) || creds.capable_own(cap::SETGID));
    if !may {
        return Err(Errno::EPERM);
    }
    if !own_pid && find_process(pid as i32).is_none() {
        return Err(Errno::ESRCH);
    }
    Ok([pid, uid, gid])
}

/// Credentials as the running program sees them. Ids that nobody has stay: there is no peer.
pub fn shown([pid, kuid, kgid]: Cred) -> Cred {
    const NOBODY: u32 = u32::MAX;
    let uid = if kuid == NOBODY {
        NOBODY
    } else {
        user::uid_shown(kuid)
    };
    let gid = if kgid == NOBODY {
        NOBODY
    } else {
        user::gid_shown(kgid)
    };
    [pid, uid, gid]
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
            cred: [0, u32::MAX, u32::MAX],
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
            cred: [task.tgid() as u32, creds.euid, creds.egid],
            groups: Some(creds.groups.clone()),
        }
    }
}
