//! `/proc/sys/net`.

use super::{Kind, Number, Setting};
use core::sync::atomic::AtomicI32;

/// The most connections that may wait, in any family.
pub static MAX_BACKLOG: AtomicI32 = AtomicI32::new(4096);

/// The settings.
pub static SETTINGS: &[Setting] = &[Setting::new(
    "net/core/somaxconn",
    0o644,
    Kind::Ints(&[Number::new(&MAX_BACKLOG, 0, i32::MAX as i64)]),
)];
