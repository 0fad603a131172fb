//! `/proc/sys/net`.

use super::{Kind, Number, Setting};

/// The settings.
pub static SETTINGS: &[Setting] = &[Setting::new(
    "net/core/somaxconn",
    0o644,
    Kind::Ints(&[Number::of_net(
        |net| &net.settings().max_backlog,
        0,
        i32::MAX as i64,
    )]),
)];
