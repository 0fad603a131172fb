//! Who sends, and who is at the other end: `struct ucred`, `SO_PEERCRED`, `SO_PEERGROUPS`.

use alloc::sync::Arc;

/// Process, user and group of a sender or peer (`struct ucred`).
pub type Cred = [u32; 3];

/// The running process's.
pub fn own_cred() -> Cred {
    let task = crate::task::current();
    let creds = task.creds();
    [task.tgid() as u32, creds.euid, creds.egid]
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
    /// The running process.
    pub(super) fn own() -> Self {
        Self {
            cred: own_cred(),
            groups: Some(crate::task::current().creds().groups.clone()),
        }
    }
}
