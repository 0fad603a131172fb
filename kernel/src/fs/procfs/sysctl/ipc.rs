//! `/proc/sys/kernel`: limits of System V IPC; `/proc/sys/fs/mqueue`: limits of POSIX message queues.

use super::number::Hook;
use super::{Kind, Number, Setting};
use crate::ipc::mqueue::limits as mqueue;
use crate::ipc::{msg, sem, shm};
use core::sync::atomic::AtomicI32;

const MAX: i64 = i32::MAX as i64;
/// How many objects of a kind ids can tell apart (`IPCMNI`).
const IDS: i64 = 1 << 15;

static RMID_FORCED: Hook = Hook(|| shm::forced().into(), |value| shm::force(value as i32));
/// It has had no effect since Linux 3.19.
static AUTO_MSGMNI: AtomicI32 = AtomicI32::new(0);

/// How many messages a queue may have.
const fn messages(value: &'static AtomicI32) -> Number {
    Number::new(value, 1, mqueue::HARD_MSG_MAX as i64)
}
/// How long a message may be.
const fn size(value: &'static AtomicI32) -> Number {
    let min = mqueue::MIN_MSGSIZE_MAX as i64;
    Number::new(value, min, mqueue::HARD_MSGSIZE_MAX as i64)
}

/// The table.
pub static SETTINGS: &[Setting] = &[
    Setting::new("kernel/shmmax", 0o644, Kind::Longs(&[Number::long(&shm::MAX)])),
    Setting::new("kernel/shmall", 0o644, Kind::Longs(&[Number::long(&shm::ALL)])),
    Setting::new(
        "kernel/shmmni",
        0o644,
        Kind::Ints(&[Number::new(&shm::COUNT, 0, IDS)]),
    ),
    Setting::new(
        "kernel/shm_rmid_forced",
        0o644,
        Kind::Ints(&[Number::new(&RMID_FORCED, 0, 1)]),
    ),
    Setting::new(
        "kernel/msgmax",
        0o644,
        Kind::Ints(&[Number::new(&msg::MAX, 0, MAX)]),
    ),
    Setting::new(
        "kernel/msgmni",
        0o644,
        Kind::Ints(&[Number::new(&msg::MAX_QUEUES, 0, IDS)]),
    ),
    Setting::new(
        "kernel/auto_msgmni",
        0o644,
        Kind::Ints(&[Number::new(&AUTO_MSGMNI, 0, 1)]),
    ),
    Setting::new(
        "kernel/msgmnb",
        0o644,
        Kind::Ints(&[Number::new(&msg::MAX_OF_QUEUE, 0, MAX)]),
    ),
    Setting::new(
        "kernel/sem",
        0o644,
        Kind::Ints(&[
            Number::any(&sem::MAX_OF_SET),
            Number::any(&sem::MAX_OF_ALL),
            Number::any(&sem::MAX_OPERATIONS),
            Number::new(&sem::MAX_SETS, 0, IDS),
        ]),
    ),
    Setting::new(
        "fs/mqueue/queues_max",
        0o644,
        Kind::Ints(&[Number::any(&mqueue::QUEUES_MAX)]),
    ),
    Setting::new(
        "fs/mqueue/msg_max",
        0o644,
        Kind::Ints(&[messages(&mqueue::MSG_MAX)]),
    ),
    Setting::new(
        "fs/mqueue/msgsize_max",
        0o644,
        Kind::Ints(&[size(&mqueue::MSGSIZE_MAX)]),
    ),
    Setting::new(
        "fs/mqueue/msg_default",
        0o644,
        Kind::Ints(&[messages(&mqueue::MSG_DEFAULT)]),
    ),
    Setting::new(
        "fs/mqueue/msgsize_default",
        0o644,
        Kind::Ints(&[size(&mqueue::MSGSIZE_DEFAULT)]),
    ),
];
