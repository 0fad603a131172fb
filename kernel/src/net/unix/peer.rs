//! Who sends, and who is at the other end: `struct ucred`, `SO_PEERCRED`, `SO_PEERGROUPS`.

use crate::task::creds::cap;
use crate::task::{current, find_process};
use alloc::sync::Arc;
use limen_linux_abi::Errno;

/// Process, user and group of a sender or peer (`struct ucred`).
pub type Cred = [u32; 3];

/// The running process's, as those it sends to see it: with its real ids.
pub(super) fn sender_cred() -> Cred {
    let task = current();
    let creds = task.creds();
    [task.tgid() as u32, creds.uid, creds.gid]
}

/// Whether the running process may say that it is `claimed`: with its own ids, or the capabilities to act as others. `ESRCH` if there is no
/// such process.
pub fn check_cred(claimed: Cred) -> Result<(), Errno> {
    let [pid, uid, gid] = claimed;
    let task = current();
    let creds = task.creds();
    let nobody = u32::MAX;
    if uid == nobody || gid == nobody {
        return Err(Errno::EINVAL);
    }
    let own_pid = pid == task.tgid() as u32;
    let may = (own_pid || creds.capable(cap::SYS_ADMIN))
        && ([creds.uid, creds.euid, creds.suid].contains(&uid) || creds.capable(cap::SETUID))
        && ([creds.gid, creds.egid, creds.sgid].contains(&gid) || creds.capable(cap::SETGID));
    if !may {
        return Err(Errno::EPERM);
    }
    if !own_pid && find_process(pid as i32).is_none() {
        return Err(Errno::ESRCH);
    }
    Ok(())
}

/// Who is at the other end of a connection.
#[derive(Clone)]
pub struct Identity {
    /// `SO_PEERCRED`.
    pub cred: Cred,
    /// `SO_PEERGROUPS`; none if nobody is there.
    pub groups: Option<Arc<[u32]>>,
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
    /// The running process, with the ids it acts under.
    pub(super) fn own() -> Self {
        let task = current();
        let creds = task.creds();
        Self {
            cred: [task.tgid() as u32, creds.euid, creds.egid],
            groups: Some(creds.groups.clone()),
        }
    }
}
