//! The system call about the kernel log.

use crate::driver::kmsg;
use crate::syscalls;

syscalls! {
    /// `syslog`: reads and controls the kernel log.
    fn syslog(action: i32, buf: usize, len: i32) { kmsg::syslog(action, buf, len) }
}
