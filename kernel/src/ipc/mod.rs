//! System V IPC: shared memory, semaphores, message queues. `ids` has the tables of objects, `object` what
//! all have, `perm` who may do what with one, `show` the files under `/proc/sysvipc`, `ns` the namespaces,
//! each of which has tables of its own. And POSIX message queues: `mqueue`.
//!
//! Each object has a spinlock of its own, and operations on it take no other. The locks of a table come after
//! it: what an object's lock protects may be taken out of its table. User memory is copied without any.

#![forbid(unsafe_code)]

mod ids;
pub mod mqueue;
pub mod msg;
pub mod ns;
mod object;
mod perm;
pub mod sem;
pub mod shm;
pub mod show;

pub use perm::Permissions;

use crate::task::ns::pid::Id;

/// `IPC_RMID`, `IPC_SET`, `IPC_STAT`, `IPC_INFO`: commands that all three have.
pub const IPC_RMID: i32 = 0;
/// See [`IPC_RMID`].
pub const IPC_SET: i32 = 1;
/// See [`IPC_RMID`].
pub const IPC_STAT: i32 = 2;
/// See [`IPC_RMID`].
pub const IPC_INFO: i32 = 3;
/// Do not wait.
pub const IPC_NOWAIT: u32 = 0o4000;

/// Seconds of `CLOCK_REALTIME`.
fn now() -> i64 {
    (crate::time::realtime_ns() / 1_000_000_000) as i64
}

/// What the running process is called by.
fn tgid() -> Id {
    crate::task::current().process.id()
}

/// Boot.
pub fn init() {
    ns::init();
    crate::task::adjustments::made_by(sem::new_adjustments);
    crate::task::exit::tell_of_creators(crate::task::exit::Creators {
        end: shm::creator_ends,
        moves: shm::creator_moves,
    });
}
