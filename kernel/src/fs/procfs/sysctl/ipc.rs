//! `/proc/sys/kernel`: limits of System V IPC; `/proc/sys/fs/mqueue`: limits of POSIX message queues.

use super::number::Hook;
use super::{Kind, Number, Setting, Value};
use crate::ipc::mqueue::limits as mqueue;
use crate::ipc::ns::Own;
use crate::ipc::shm;

const MAX: i64 = i32::MAX as i64;
/// How many objects of a kind ids can tell apart (`IPCMNI`).
const IDS: i64 = 1 << 15;

/// `shm_rmid_forced`.
impl Value for shm::Table {
    fn get(&self) -> i64 {
        self.forced().into()
    }
    fn set(&self, value: i64) {
        self.force(value as i32);
    }
}

/// It has had no effect since Linux 3.19: what is written is forgotten.
static AUTO_MSGMNI: Hook = Hook(|| 0, |_| ());

/// How many messages a queue may have.
const fn messages(value: for<'a> fn(&'a Own) -> &'a dyn Value) -> Number {
    Number::of_ipc(value, 1, mqueue::HARD_MSG_MAX as i64)
}
/// How long a message may be.
const fn size(value: for<'a> fn(&'a Own) -> &'a dyn Value) -> Number {
    let min = mqueue::MIN_MSGSIZE_MAX as i64;
    Number::of_ipc(value, min, mqueue::HARD_MSGSIZE_MAX as i64)
}

/// The table.
pub static SETTINGS: &[Setting] = &[
    Setting::new(
        "kernel/shmmax",
        0o644,
        Kind::Longs(&[Number::of_ipc(|ns| &ns.shm().max, i64::MIN, i64::MAX)]),
    ),
    Setting::new(
        "kernel/shmall",
        0o644,
        Kind::Longs(&[Number::of_ipc(|ns| &ns.shm().all, i64::MIN, i64::MAX)]),
    ),
    Setting::new(
        "kernel/shmmni",
        0o644,
        Kind::Ints(&[Number::of_ipc(|ns| &ns.shm().count, 0, IDS)]),
    ),
    Setting::new(
        "kernel/shm_rmid_forced",
        0o644,
        Kind::Ints(&[Number::of_ipc(|ns| ns.shm(), 0, 1)]),
    ),
    Setting::new(
        "kernel/msgmax",
        0o644,
        Kind::Ints(&[Number::of_ipc(|ns| &ns.msg().max, 0, MAX)]),
    ),
    Setting::new(
        "kernel/msgmni",
        0o644,
        Kind::Ints(&[Number::of_ipc(|ns| &ns.msg().max_queues, 0, IDS)]),
    ),
    Setting::new(
        "kernel/auto_msgmni",
        0o644,
        Kind::Ints(&[Number::new(&AUTO_MSGMNI, 0, 1)]),
    ),
    Setting::new(
        "kernel/msgmnb",
        0o644,
        Kind::Ints(&[Number::of_ipc(|ns| &ns.msg().max_of_queue, 0, MAX)]),
    ),
    Setting::new(
        "kernel/sem",
        0o644,
        Kind::Ints(&[
            Number::of_ipc(|ns| &ns.sem().max_of_set, i32::MIN as i64, MAX),
            Number::of_ipc(|ns| &ns.sem().max_of_all, i32::MIN as i64, MAX),
            Number::of_ipc(|ns| &ns.sem().max_operations, i32::MIN as i64, MAX),
            Number::of_ipc(|ns| &ns.sem().max_sets, 0, IDS),
        ]),
    ),
    Setting::new(
        "fs/mqueue/queues_max",
        0o644,
        Kind::Ints(&[Number::of_ipc(|ns| &ns.limits().queues_max, i32::MIN as i64, MAX)]),
    ),
    Setting::new(
        "fs/mqueue/msg_max",
        0o644,
        Kind::Ints(&[messages(|ns| &ns.limits().msg_max)]),
    ),
    Setting::new(
        "fs/mqueue/msgsize_max",
        0o644,
        Kind::Ints(&[size(|ns| &ns.limits().msgsize_max)]),
    ),
    Setting::new(
        "fs/mqueue/msg_default",
        0o644,
        Kind::Ints(&[messages(|ns| &ns.limits().msg_default)]),
    ),
    Setting::new(
        "fs/mqueue/msgsize_default",
        0o644,
        Kind::Ints(&[size(|ns| &ns.limits().msgsize_default)]),
    ),
];
