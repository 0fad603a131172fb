//! `/proc/sys/vm`.

use super::number::{Fixed, Hook};
use super::{Kind, Number, Setting};
use crate::mm::{commit, limits::MAX_MAP_COUNT, limits::MMAP_MIN_ADDR};
use crate::task::creds::cap;
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};

/// Either the ratio or the size is used; the other one is 0.
static OVERCOMMIT_RATIO: Hook = Hook(
    || commit::OVERCOMMIT_RATIO.load(Relaxed).into(),
    |percent| {
        commit::OVERCOMMIT_RATIO.store(percent as i32, Relaxed);
        commit::OVERCOMMIT_KBYTES.store(0, Relaxed);
    },
);
static OVERCOMMIT_KBYTES: Hook = Hook(
    || commit::OVERCOMMIT_KBYTES.load(Relaxed) as i64,
    |kib| {
        commit::OVERCOMMIT_KBYTES.store(kib as usize, Relaxed);
        commit::OVERCOMMIT_RATIO.store(0, Relaxed);
    },
);

/// How eagerly dirty pages are written to disk, and pages swapped out. There is neither here.
static SWAPPINESS: AtomicI32 = AtomicI32::new(60);
static DIRTY_RATIO: AtomicI32 = AtomicI32::new(20);
static DIRTY_BACKGROUND_RATIO: AtomicI32 = AtomicI32::new(10);
static DIRTY_WRITEBACK: AtomicI32 = AtomicI32::new(500);
static DIRTY_EXPIRE: AtomicI32 = AtomicI32::new(3000);
static CACHE_PRESSURE: AtomicI32 = AtomicI32::new(100);
static HUGE_PAGES: AtomicU64 = AtomicU64::new(0);
/// There are no caches that could be dropped.
static DROP_CACHES: Fixed = Fixed(0);

const MAX: i64 = i32::MAX as i64;

/// The settings.
pub static SETTINGS: &[Setting] = &[
    Setting::new(
        "vm/max_map_count",
        0o644,
        Kind::Ints(&[Number::new(&MAX_MAP_COUNT, 0, MAX)]),
    ),
    Setting::new(
        "vm/overcommit_memory",
        0o644,
        Kind::Ints(&[Number::new(&commit::OVERCOMMIT, 0, 2)]),
    ),
    Setting::new(
        "vm/overcommit_ratio",
        0o644,
        Kind::Ints(&[Number::any(&OVERCOMMIT_RATIO)]),
    ),
    Setting::new(
        "vm/overcommit_kbytes",
        0o644,
        Kind::Longs(&[Number::long(&OVERCOMMIT_KBYTES)]),
    ),
    Setting::new(
        "vm/panic_on_oom",
        0o644,
        Kind::Ints(&[Number::new(&crate::task::oom::PANIC, 0, 2)]),
    ),
    Setting::new(
        "vm/drop_caches",
        0o200,
        Kind::Ints(&[Number::new(&DROP_CACHES, 1, 4)]),
    ),
    Setting::new(
        "vm/mmap_min_addr",
        0o644,
        Kind::Longs(&[Number::long(&MMAP_MIN_ADDR)]),
    )
    .with_privilege(cap::SYS_RAWIO),
    Setting::new(
        "vm/swappiness",
        0o644,
        Kind::Ints(&[Number::new(&SWAPPINESS, 0, 200)]),
    ),
    Setting::new(
        "vm/dirty_ratio",
        0o644,
        Kind::Ints(&[Number::new(&DIRTY_RATIO, 0, 100)]),
    ),
    Setting::new(
        "vm/dirty_background_ratio",
        0o644,
        Kind::Ints(&[Number::new(&DIRTY_BACKGROUND_RATIO, 0, 100)]),
    ),
    Setting::new(
        "vm/dirty_writeback_centisecs",
        0o644,
        Kind::Unsigned(Number::new(&DIRTY_WRITEBACK, 0, MAX)),
    ),
    Setting::new(
        "vm/dirty_expire_centisecs",
        0o644,
        Kind::Ints(&[Number::new(&DIRTY_EXPIRE, 0, MAX)]),
    ),
    Setting::new(
        "vm/vfs_cache_pressure",
        0o644,
        Kind::Ints(&[Number::new(&CACHE_PRESSURE, 0, MAX)]),
    ),
    // There are no huge pages.
    Setting::new(
        "vm/nr_hugepages",
        0o644,
        Kind::Longs(&[Number::long(&Hook(|| HUGE_PAGES.load(Relaxed) as i64, |_| ()))]),
    ),
];
