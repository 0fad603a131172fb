//! System call numbers by ABI: each ABI is a list of names in number order.

/// One user-space ABI's system call numbering.
pub struct Abi {
    /// The name Linux's tools use for it (`x86_64`, `aarch64`, ...).
    pub name: &'static str,
    /// One past the largest number.
    pub limit: usize,
    /// The name of a number, `None` for a hole in the numbering.
    pub name_of: fn(usize) -> Option<&'static str>,
    /// The calls, from a number to another one, that code of its coprocessors does not have. `None`: there is
    /// no such view of its table.
    pub no_spu: Option<&'static [(usize, usize)]>,
}

/// Calls that the coprocessors of Cell processors (SPUs) do not have, in the table of 64-bit Power: those
/// that change the thread or its signals, and those that came later without them.
const NO_SPU: &[(usize, usize)] = &[
    (0, 2),
    (11, 11),
    (21, 21),
    (26, 26),
    (29, 30),
    (48, 48),
    (51, 52),
    (62, 62),
    (86, 88),
    (99, 100),
    (115, 115),
    (117, 117),
    (120, 120),
    (128, 129),
    (131, 131),
    (149, 149),
    (172, 178),
    (185, 185),
    (189, 189),
    (198, 200),
    (232, 232),
    (234, 235),
    (249, 249),
    (254, 254),
    (256, 256),
    (258, 281),
    (303, 303),
    (309, 310),
    (318, 318),
    (322, 324),
    (351, 354),
    (362, 363),
    (378, 379),
    (382, 392),
    (435, 435),
    (RSEQ_SLICE_YIELD, RSEQ_SLICE_YIELD),
];

/// Builds an ABI's dispatch table at compile time: entry `n` is the handler registered under the name that
/// number `n` has in the ABI, or `default`. `$module` is a module of the `syscalls` crate, `$handlers` a
/// constant slice of `(&str, T)` with `T: Copy`.
#[macro_export]
macro_rules! syscall_table {
    ($module:ident, $handlers:expr, $default:expr, $len:expr) => {{
        let mut table = [$default; $len];
        let mut n = 0;
        while n < $len {
            if let Some(sysno) = $crate::sysno::syscalls::$module::Sysno::new(n) {
                let name = $crate::sysno::handler(stringify!($module), sysno.name());
                let mut i = 0;
                while i < $handlers.len() {
                    if $crate::sysno::same($handlers[i].0, name) {
                        table[n] = $handlers[i].1;
                    }
                    i += 1;
                }
            }
            n += 1;
        }
        let mut n = 0;
        while n < $crate::sysno::NEWER.len() {
            let (number, name) = $crate::sysno::NEWER[n];
            let mut i = 0;
            while i < $handlers.len() {
                if $crate::sysno::same($handlers[i].0, name) {
                    table[number] = $handlers[i].1;
                }
                i += 1;
            }
            n += 1;
        }
        table
    }};
}

/// System calls that are newer than the crate's lists. Since 5.1 a new call has the same number in each of
/// these ABIs.
pub const NEWER: &[(usize, &str)] = &[(RSEQ_SLICE_YIELD, "rseq_slice_yield")];
/// The number of `rseq_slice_yield`.
pub const RSEQ_SLICE_YIELD: usize = 471;

/// Calls of 32-bit Arm's old ABI that are not the EABI's of the same number: those that only it has, and
/// those whose arguments or structures are others. By the names of their handlers.
pub const OABI: &[(usize, &str)] = &[
    (13, "time"),
    (22, "umount"),
    (25, "stime"),
    (27, "alarm"),
    (30, "utime"),
    (76, "old_getrlimit"),
    (82, "old_select"),
    (89, "old_readdir"),
    (90, "old_mmap"),
    (102, "socketcall"),
    (113, "syscall"),
    (117, "ipc"),
    (180, "pread64"),
    (181, "pwrite64"),
    (193, "truncate64"),
    (194, "ftruncate64"),
    (195, "stat64"),
    (196, "lstat64"),
    (197, "fstat64"),
    (221, "fcntl64"),
    (225, "readahead"),
    (251, "epoll_ctl"),
    (252, "epoll_wait"),
    (282, "bind"),
    (283, "connect"),
    (290, "sendto"),
    (296, "sendmsg"),
    (298, "semop"),
    (312, "semtimedop"),
    (327, "fstatat64"),
    (346, "epoll_pwait"),
    (441, "epoll_pwait2"),
];

pub use syscalls;

/// Calls with 16-bit and with 32-bit ids, as ABIs with both call them.
const IDS: &[(&str, &str)] = &[
    ("chown", "chown16"),
    ("lchown", "lchown16"),
    ("fchown", "fchown16"),
    ("getuid", "getuid16"),
    ("geteuid", "geteuid16"),
    ("getgid", "getgid16"),
    ("getegid", "getegid16"),
    ("setuid", "setuid16"),
    ("setgid", "setgid16"),
    ("setreuid", "setreuid16"),
    ("setregid", "setregid16"),
    ("setfsuid", "setfsuid16"),
    ("setfsgid", "setfsgid16"),
    ("setresuid", "setresuid16"),
    ("setresgid", "setresgid16"),
    ("getresuid", "getresuid16"),
    ("getresgid", "getresgid16"),
    ("getgroups", "getgroups16"),
    ("setgroups", "setgroups16"),
    ("chown32", "chown"),
    ("lchown32", "lchown"),
    ("fchown32", "fchown"),
    ("getuid32", "getuid"),
    ("geteuid32", "geteuid"),
    ("getgid32", "getgid"),
    ("getegid32", "getegid"),
    ("setuid32", "setuid"),
    ("setgid32", "setgid"),
    ("setreuid32", "setreuid"),
    ("setregid32", "setregid"),
    ("setfsuid32", "setfsuid"),
    ("setfsgid32", "setfsgid"),
    ("setresuid32", "setresuid"),
    ("setresgid32", "setresgid"),
    ("getresuid32", "getresuid"),
    ("getresgid32", "getresgid"),
    ("getgroups32", "getgroups"),
    ("setgroups32", "setgroups"),
];

/// System calls whose name in an ABI's list is not the name of the handler that does the same there. Where
/// words have 32 bits, `getuid` is a call with 16-bit ids, and the call that other ABIs call `getuid` is
/// `getuid32`. An empty name stands for a call that exists only with other word sizes.
const RENAMED: &[(&str, &[(&str, &str)])] = &[
    // The crate calls number 79 by its C library's name.
    ("aarch64", &[("fstatat", "newfstatat")]),
    ("arm", IDS),
    (
        "arm",
        &[
            ("_newselect", "select"),
            ("ugetrlimit", "getrlimit"),
            ("fcntl", "fcntl_old"),
            ("fcntl64", "fcntl"),
            ("arm_sync_file_range", "sync_file_range2"),
        ],
    ),
    // Others have handlers of their own (`syscall::compat`).
    ("x86", IDS),
    (
        "powerpc64",
        &[
            ("select", ""),
            ("_newselect", "select"),
            ("getrlimit", ""),
            ("ugetrlimit", "getrlimit"),
            ("sigaction", ""),
            ("sigreturn", ""),
            ("sigsuspend", ""),
            ("sigpending", ""),
            ("sigprocmask", ""),
            ("mmap2", ""),
            ("truncate64", ""),
            ("ftruncate64", ""),
            ("fcntl64", ""),
            ("sendfile64", ""),
        ],
    ),
];

/// The name of the handler for the call `name` of an ABI. `abi` is the name of its module in the `syscalls`
/// crate.
pub const fn handler(abi: &str, name: &'static str) -> &'static str {
    let mut i = 0;
    while i < RENAMED.len() {
        let (of, names) = RENAMED[i];
        let mut j = 0;
        while same(of, abi) && j < names.len() {
            if same(names[j].0, name) {
                return names[j].1;
            }
            j += 1;
        }
        i += 1;
    }
    name
}

/// Whether two names are equal, usable in constants.
pub const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

macro_rules! abis {
    ($($constant:ident = $module:ident, $no_spu:expr, $doc:literal;)*) => {
        $(#[doc = $doc]
        pub const $constant: Abi = Abi {
            name: stringify!($module),
            limit: syscalls::$module::Sysno::last().id() as usize + 1,
            name_of: |n| syscalls::$module::Sysno::new(n).map(|s| s.name()),
            no_spu: $no_spu,
        };)*
    };
}

abis! {
    X86_64 = x86_64, None, "The 64-bit x86 ABI.";
    AARCH64 = aarch64, None, "The arm64 ABI (the generic numbering).";
    ARM_EABI = arm, None, "The 32-bit Arm EABI.";
    POWERPC64 = powerpc64, Some(NO_SPU), "The 64-bit Power ABI.";
    I386 = x86, None, "The 32-bit x86 ABI.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_numbers() {
        assert_eq!((X86_64.name_of)(0), Some("read"));
        assert_eq!((X86_64.name_of)(110), Some("getppid"));
        assert_eq!((AARCH64.name_of)(63), Some("read"));
        assert_eq!((AARCH64.name_of)(173), Some("getppid"));
        assert_eq!(handler("aarch64", (AARCH64.name_of)(79).unwrap()), "newfstatat");
        assert_eq!(handler("arm", (ARM_EABI.name_of)(199).unwrap()), "getuid");
        assert_eq!(handler("arm", (ARM_EABI.name_of)(24).unwrap()), "getuid16");
        assert_eq!(handler("powerpc64", (POWERPC64.name_of)(24).unwrap()), "getuid");
        assert_eq!((ARM_EABI.name_of)(64), Some("getppid"));
        assert_eq!((POWERPC64.name_of)(64), Some("getppid"));
        assert_eq!((X86_64.name_of)(4000), None);
        assert_eq!((I386.name_of)(64), Some("getppid"));
        assert_eq!(handler("x86", (I386.name_of)(24).unwrap()), "getuid16");
        assert_eq!(handler("x86", (I386.name_of)(199).unwrap()), "getuid");
    }

    #[test]
    fn tables_are_built_by_name() {
        const HANDLERS: &[(&str, u8)] = &[("read", 1), ("getppid", 2)];
        const TABLE: [u8; 512] = crate::syscall_table!(aarch64, HANDLERS, 0u8, 512);
        assert_eq!((TABLE[63], TABLE[173], TABLE[0]), (1, 2, 0));
    }
}
