//! The system calls of 32-bit programs, which 64-bit ones make as well (`docs/int80.md`): a table of its own.
//!
//! Most calls mean the same in both ABIs once their arguments are where the native handlers look for them:
//! those in [`SAME`] are made with a copy of the registers, so that the program's stay as they are. Times
//! have words of 32 bits here (`NARROW` of each file). What has other structures is in the files of this
//! folder, and what changes all registers (`WHOLE`) works on the program's own.

use super::table::{self, LEN};
use super::{Handler, no_call};
use crate::arch::frame::Frame;
use crate::arch::{index, syscalls};
use limen_linux_abi::sysno::{self, syscalls::x86::Sysno};

mod file;
mod ipc;
mod memory;
mod process;
mod signal;
mod socket;

/// A call.
#[derive(Clone, Copy)]
struct Entry {
    handler: Handler,
    /// It works on the program's registers, and finds its arguments there by itself.
    whole: bool,
}

/// The own handlers of this folder.
const LISTS: &[&[(&str, Handler)]] = &[
    file::HANDLERS,
    ipc::HANDLERS,
    memory::HANDLERS,
    process::HANDLERS,
    signal::HANDLERS,
    socket::HANDLERS,
];

/// Calls that work on the program's registers.
const WHOLE: &[&[(&str, Handler)]] = &[process::WHOLE, signal::WHOLE];

/// Calls with times that are the same but for the width of those.
const NARROW: &[&[(&str, Handler)]] = &[
    super::futex::NARROW,
    super::mqueue::NARROW,
    super::poll::NARROW,
    super::sched::NARROW,
    super::stat::NARROW,
    super::time::NARROW,
];

/// Calls that the native handlers do, given the arguments.
const SAME: &[&str] = &[
    "restart_syscall",
    "exit",
    "exit_group",
    "read",
    "write",
    "open",
    "openat",
    "openat2",
    "creat",
    "close",
    "close_range",
    "waitpid",
    "link",
    "linkat",
    "unlink",
    "unlinkat",
    "chdir",
    "fchdir",
    "chroot",
    "mknod",
    "mknodat",
    "chmod",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "getpid",
    "getppid",
    "gettid",
    "getpgrp",
    "getpgid",
    "getsid",
    "setsid",
    "setpgid",
    "mount",
    "umount",
    "umount2",
    "pivot_root",
    "alarm",
    "pause",
    "access",
    "faccessat",
    "faccessat2",
    "nice",
    "sync",
    "syncfs",
    "fsync",
    "fdatasync",
    "kill",
    "tkill",
    "tgkill",
    "rename",
    "renameat",
    "renameat2",
    "mkdir",
    "mkdirat",
    "rmdir",
    "dup",
    "dup2",
    "dup3",
    "pipe",
    "pipe2",
    "brk",
    "ioctl",
    "umask",
    "ustat",
    "sgetmask",
    "ssetmask",
    "sethostname",
    "setdomainname",
    "uname",
    "symlink",
    "symlinkat",
    "readlink",
    "readlinkat",
    "reboot",
    "munmap",
    "mprotect",
    "madvise",
    "mincore",
    "msync",
    "mlock",
    "mlock2",
    "munlock",
    "mlockall",
    "munlockall",
    "remap_file_pages",
    "getpriority",
    "setpriority",
    "ioprio_get",
    "ioprio_set",
    "syslog",
    "vhangup",
    "modify_ldt",
    "init_module",
    "finit_module",
    "delete_module",
    "personality",
    "_llseek",
    "flock",
    "sched_setparam",
    "sched_getparam",
    "sched_setscheduler",
    "sched_getscheduler",
    "sched_setattr",
    "sched_getattr",
    "sched_setaffinity",
    "sched_yield",
    "sched_get_priority_max",
    "sched_get_priority_min",
    "getcpu",
    "poll",
    "rt_sigprocmask",
    "rt_sigpending",
    "rt_sigsuspend",
    "signalfd",
    "signalfd4",
    "getcwd",
    "capget",
    "capset",
    "sendfile64",
    "getdents64",
    "setxattr",
    "lsetxattr",
    "fsetxattr",
    "getxattr",
    "lgetxattr",
    "fgetxattr",
    "listxattr",
    "llistxattr",
    "flistxattr",
    "removexattr",
    "lremovexattr",
    "fremovexattr",
    "epoll_create",
    "epoll_create1",
    "epoll_ctl",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "set_tid_address",
    "timer_getoverrun",
    "timer_delete",
    "timerfd_create",
    "inotify_init",
    "inotify_init1",
    "inotify_add_watch",
    "inotify_rm_watch",
    "unshare",
    "setns",
    "splice",
    "tee",
    "eventfd",
    "eventfd2",
    "prlimit64",
    "name_to_handle_at",
    "open_by_handle_at",
    "kcmp",
    "getrandom",
    "memfd_create",
    "memfd_secret",
    "socket",
    "socketpair",
    "bind",
    "connect",
    "listen",
    "accept4",
    "getsockname",
    "getpeername",
    "sendto",
    "recvfrom",
    "shutdown",
    "getsockopt",
    "setsockopt",
    "membarrier",
    "copy_file_range",
    "statx",
    "rseq",
    "rseq_slice_yield",
    "semget",
    "shmget",
    "shmdt",
    "msgget",
    "clock_adjtime64",
    "clock_gettime64",
    "clock_settime64",
    "clock_getres_time64",
    "clock_nanosleep_time64",
    "timer_gettime64",
    "timer_settime64",
    "timerfd_gettime64",
    "timerfd_settime64",
    "utimensat_time64",
    "ppoll_time64",
    "futex_time64",
    "sched_rr_get_interval_time64",
    "semtimedop_time64",
    "mq_unlink",
    "mq_timedsend_time64",
    "mq_timedreceive_time64",
    "pidfd_open",
    "pidfd_getfd",
    "process_mrelease",
    "futex_wake",
    "futex_wait",
    "futex_waitv",
    "futex_requeue",
    // With the ids of both widths.
    "chown",
    "lchown",
    "fchown",
    "getuid",
    "geteuid",
    "getgid",
    "getegid",
    "setuid",
    "setgid",
    "setreuid",
    "setregid",
    "setfsuid",
    "setfsgid",
    "setresuid",
    "setresgid",
    "getresuid",
    "getresgid",
    "getgroups",
    "setgroups",
    "chown32",
    "lchown32",
    "fchown32",
    "fchownat",
    "getuid32",
    "geteuid32",
    "getgid32",
    "getegid32",
    "setuid32",
    "setgid32",
    "setreuid32",
    "setregid32",
    "setfsuid32",
    "setfsgid32",
    "setresuid32",
    "setresgid32",
    "getresuid32",
    "getresgid32",
    "getgroups32",
    "setgroups32",
];

const fn has(names: &[&str], name: &str) -> bool {
    let mut i = 0;
    while i < names.len() {
        if sysno::same(names[i], name) {
            return true;
        }
        i += 1;
    }
    false
}

const fn in_list(list: &[(&str, Handler)], name: &str) -> Option<Handler> {
    let mut i = 0;
    while i < list.len() {
        if sysno::same(list[i].0, name) {
            return Some(list[i].1);
        }
        i += 1;
    }
    None
}

const fn in_lists(lists: &[&[(&str, Handler)]], name: &str) -> Option<Handler> {
    let mut i = 0;
    while i < lists.len() {
        if let Some(handler) = in_list(lists[i], name) {
            return Some(handler);
        }
        i += 1;
    }
    None
}

/// The call of this name.
const fn by_name(name: &'static str) -> Entry {
    let mut whole = true;
    let mut found = in_lists(WHOLE, name);
    if found.is_none() {
        whole = false;
        found = in_lists(LISTS, name);
    }
    if found.is_none() {
        found = in_lists(NARROW, name);
    }
    if found.is_none() && has(SAME, name) {
        found = in_list(&table::HANDLERS, sysno::handler("x86", name));
    }
    match found {
        Some(handler) => Entry { handler, whole },
        None => Entry {
            handler: no_call,
            whole: false,
        },
    }
}

#[allow(long_running_const_eval, reason = "some thousand steps, at most a second")]
static TABLE: [Entry; LEN] = {
    let mut all = [Entry {
        handler: no_call as Handler,
        whole: false,
    }; LEN];
    let mut n = 0;
    while n < LEN {
        if let Some(sysno) = Sysno::new(n) {
            all[n] = by_name(sysno.name());
        }
        n += 1;
    }
    n = 0;
    while n < sysno::NEWER.len() {
        all[sysno::NEWER[n].0] = by_name(sysno::NEWER[n].1);
        n += 1;
    }
    all
};

/// Argument `n` (from 0): the lower half of its register.
fn arg(frame: &Frame, n: usize) -> usize {
    syscalls::call_arg(frame, n) as u32 as usize
}

/// Runs system call `number` and stores its result in the frame. May sleep, and may not return.
pub fn dispatch(frame: &mut Frame, number: usize) {
    let result = match index::get(&TABLE, number) {
        Some(Entry { handler, whole: true }) => handler(frame),
        Some(entry) => {
            let mut own = frame.clone();
            for n in 0..6 {
                own.set_arg(n, arg(frame, n));
            }
            (entry.handler)(&mut own)
        }
        None => no_call(frame),
    };
    frame.set_raw_result(result);
}
