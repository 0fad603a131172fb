//! The running process's resource limits that concern memory, in bytes.

use crate::task::rlimit::which;

fn soft(n: usize) -> u64 {
    crate::sched::current().process.limits.soft(n)
}

/// `RLIMIT_STACK`.
pub(super) fn stack() -> u64 {
    soft(which::STACK)
}
/// `RLIMIT_AS`.
pub(super) fn address_space() -> u64 {
    soft(which::AS)
}
/// `RLIMIT_DATA`.
pub(super) fn data() -> u64 {
    soft(which::DATA)
}
/// `RLIMIT_MEMLOCK`.
pub(super) fn memlock() -> u64 {
    soft(which::MEMLOCK)
}
