//! `/proc/sys/fs`.

use super::number::Hook;
use super::{Kind, Number, Setting};
use crate::fs::locks::leases;
use crate::fs::{count, epoll, fdtable, inotify, mount, perm, pipe};
use crate::mm::space::SUID_DUMPABLE;
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};

const MIN: i64 = i32::MIN as i64;
const MAX: i64 = i32::MAX as i64;
/// The largest value of a signed machine word.
const LONG_MAX: i64 = isize::MAX as i64;

static OPEN_FILES: Hook = Hook(count::files, |_| ());
static NO_FREE_FILES: Hook = Hook(|| 0, |_| ());
static FILE_MAX: Hook = Hook(
    || count::FILE_MAX.load(Relaxed) as i64,
    |most| count::FILE_MAX.store(most as usize, Relaxed),
);
/// The owner of files whose owner's id does not fit into 16 bits. No file system here needs it.
static OVERFLOW_UID: AtomicI32 = AtomicI32::new(65534);
static OVERFLOW_GID: AtomicI32 = AtomicI32::new(65534);

/// The settings.
pub static SETTINGS: &[Setting] = &[
    Setting::new(
        "fs/file-max",
        0o644,
        Kind::Longs(&[Number::new(&FILE_MAX, 0, LONG_MAX)]),
    ),
    Setting::new(
        "fs/file-nr",
        0o444,
        Kind::Longs(&[
            Number::long(&OPEN_FILES),
            Number::long(&NO_FREE_FILES),
            Number::long(&FILE_MAX),
        ]),
    ),
    Setting::new(
        "fs/nr_open",
        0o644,
        Kind::Ints(&[Number::new(
            &fdtable::NR_OPEN,
            usize::BITS as i64,
            fdtable::NR_OPEN_MAX as i64,
        )]),
    ),
    Setting::new(
        "fs/pipe-max-size",
        0o644,
        Kind::Size(&pipe::MAX_SIZE, |size| pipe::round_size(size).map(|n| n as u64)),
    ),
    Setting::new(
        "fs/pipe-user-pages-soft",
        0o644,
        Kind::Longs(&[Number::long(&pipe::USER_PAGES_SOFT)]),
    ),
    Setting::new(
        "fs/pipe-user-pages-hard",
        0o644,
        Kind::Longs(&[Number::long(&pipe::USER_PAGES_HARD)]),
    ),
    Setting::new(
        "fs/inotify/max_queued_events",
        0o644,
        Kind::Ints(&[Number::new(&inotify::MAX_QUEUE, 0, MAX)]),
    ),
    Setting::new(
        "fs/inotify/max_user_instances",
        0o644,
        Kind::Longs(&[Number::new(&inotify::MAX_INSTANCES, 0, MAX)]),
    ),
    Setting::new(
        "fs/inotify/max_user_watches",
        0o644,
        Kind::Longs(&[Number::new(&inotify::MAX_WATCHES, 0, MAX)]),
    ),
    Setting::new(
        "user/max_inotify_instances",
        0o644,
        Kind::Longs(&[Number::new(&inotify::MAX_INSTANCES, 0, MAX)]),
    ),
    Setting::new(
        "user/max_inotify_watches",
        0o644,
        Kind::Longs(&[Number::new(&inotify::MAX_WATCHES, 0, MAX)]),
    ),
    Setting::new(
        "fs/epoll/max_user_watches",
        0o644,
        Kind::Longs(&[Number::new(&epoll::MAX_WATCHES, 0, LONG_MAX)]),
    ),
    Setting::new(
        "fs/leases-enable",
        0o644,
        Kind::Ints(&[Number::new(&leases::ENABLED, MIN, MAX)]),
    ),
    Setting::new(
        "fs/lease-break-time",
        0o644,
        Kind::Ints(&[Number::new(&leases::BREAK_TIME, MIN, MAX)]),
    ),
    Setting::new(
        "fs/suid_dumpable",
        0o644,
        Kind::Ints(&[Number::new(&SUID_DUMPABLE, 0, 2)]),
    ),
    Setting::new(
        "fs/protected_hardlinks",
        0o644,
        Kind::Ints(&[Number::new(&perm::PROTECTED_HARDLINKS, 0, 1)]),
    ),
    Setting::new(
        "fs/protected_symlinks",
        0o644,
        Kind::Ints(&[Number::new(&perm::PROTECTED_SYMLINKS, 0, 1)]),
    ),
    Setting::new(
        "fs/protected_fifos",
        0o644,
        Kind::Ints(&[Number::new(&perm::PROTECTED_FIFOS, 0, 2)]),
    ),
    Setting::new(
        "fs/protected_regular",
        0o644,
        Kind::Ints(&[Number::new(&perm::PROTECTED_REGULAR, 0, 2)]),
    ),
    Setting::new(
        "fs/mount-max",
        0o644,
        Kind::Ints(&[Number::new(&mount::MOUNT_MAX, 1, MAX)]),
    ),
    Setting::new(
        "fs/overflowuid",
        0o644,
        Kind::Ints(&[Number::new(&OVERFLOW_UID, 0, 65535)]),
    ),
    Setting::new(
        "fs/overflowgid",
        0o644,
        Kind::Ints(&[Number::new(&OVERFLOW_GID, 0, 65535)]),
    ),
];
