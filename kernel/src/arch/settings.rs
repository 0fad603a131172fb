//! Settings under `/proc/sys` that only a processor has.

/// A whole number that is set there.
pub struct Setting {
    /// Its path below `/proc/sys`.
    pub path: &'static str,
    /// Whether it is there at all. Boot.
    pub is_there: fn() -> bool,
    /// Thread.
    pub get: fn() -> i64,
    /// `false`: it cannot be that. Thread.
    pub set: fn(i64) -> bool,
}
