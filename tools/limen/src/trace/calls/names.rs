//! What the numbers that programs pass to system calls are called. The values are those of Linux's headers
//! for user space; where processors differ they are chosen by the architecture.

use crate::arch::Arch;

/// Numbers and their names.
pub type Names = &'static [(u64, &'static str)];

/// How an argument is written.
#[derive(Clone, Copy)]
pub enum Style {
    /// Bits with names; the name of none of them.
    Flags(&'static str, &'static [Names]),
    /// One of these.
    One(Names),
    /// One of these in the bits of the mask, and flags.
    With(Names, u64, Names),
    /// The flags of `clone`, with a signal.
    Clone,
    Signal,
    /// A descriptor of a folder, or the working directory.
    Folder,
    Int,
    Unsigned,
    Octal,
    /// A number as wide as a register.
    Word,
    Hex,
    Address,
}

/// Flags of `open` that are alike everywhere, without the ways of access.
const OPEN: Names = &[
    (0o100, "O_CREAT"),
    (0o200, "O_EXCL"),
    (0o400, "O_NOCTTY"),
    (0o1000, "O_TRUNC"),
    (0o2000, "O_APPEND"),
    (0o4000, "O_NONBLOCK"),
    (0o4010000, "O_SYNC"),
    (0o10000, "O_DSYNC"),
    (0o20000, "O_ASYNC"),
    (0o1000000, "O_NOATIME"),
    (0o2000000, "O_CLOEXEC"),
    (0o10000000, "O_PATH"),
];
const OPEN_X86: Names = &[
    (0o20200000, "O_TMPFILE"),
    (0o40000, "O_DIRECT"),
    (0o100000, "O_LARGEFILE"),
    (0o200000, "O_DIRECTORY"),
    (0o400000, "O_NOFOLLOW"),
];
const OPEN_ARM: Names = &[
    (0o20040000, "O_TMPFILE"),
    (0o40000, "O_DIRECTORY"),
    (0o100000, "O_NOFOLLOW"),
    (0o200000, "O_DIRECT"),
    (0o400000, "O_LARGEFILE"),
];
const OPEN_POWER: Names = &[
    (0o20040000, "O_TMPFILE"),
    (0o40000, "O_DIRECTORY"),
    (0o100000, "O_NOFOLLOW"),
    (0o200000, "O_LARGEFILE"),
    (0o400000, "O_DIRECT"),
];
const ACCESS: Names = &[(0, "O_RDONLY"), (1, "O_WRONLY"), (2, "O_RDWR")];

const OPENS: [&[Names]; 3] = [&[OPEN, OPEN_X86], &[OPEN, OPEN_ARM], &[OPEN, OPEN_POWER]];

const PROTECTION: Names = &[(1, "PROT_READ"), (2, "PROT_WRITE"), (4, "PROT_EXEC")];
const MAP: Names = &[
    (3, "MAP_SHARED_VALIDATE"),
    (1, "MAP_SHARED"),
    (2, "MAP_PRIVATE"),
    (0x10, "MAP_FIXED"),
    (0x20, "MAP_ANONYMOUS"),
    (0x100, "MAP_GROWSDOWN"),
    (0x800, "MAP_DENYWRITE"),
    (0x8000, "MAP_POPULATE"),
    (0x10000, "MAP_NONBLOCK"),
    (0x20000, "MAP_STACK"),
    (0x40000, "MAP_HUGETLB"),
    (0x100000, "MAP_FIXED_NOREPLACE"),
];
const MAP_MOST: Names = &[(0x2000, "MAP_LOCKED"), (0x4000, "MAP_NORESERVE")];
const MAP_POWER: Names = &[(0x80, "MAP_LOCKED"), (0x40, "MAP_NORESERVE")];

const AT: Names = &[
    (0x100, "AT_SYMLINK_NOFOLLOW"),
    (0x200, "AT_EACCESS"),
    (0x400, "AT_SYMLINK_FOLLOW"),
    (0x800, "AT_NO_AUTOMOUNT"),
    (0x1000, "AT_EMPTY_PATH"),
    (0x2000, "AT_STATX_FORCE_SYNC"),
    (0x4000, "AT_STATX_DONT_SYNC"),
];
const REMOVE: Names = &[(0x200, "AT_REMOVEDIR")];
const MODES: Names = &[(4, "R_OK"), (2, "W_OK"), (1, "X_OK")];
const SEEK: Names = &[
    (0, "SEEK_SET"),
    (1, "SEEK_CUR"),
    (2, "SEEK_END"),
    (3, "SEEK_DATA"),
    (4, "SEEK_HOLE"),
];
const FCNTL: Names = &[
    (0, "F_DUPFD"),
    (1, "F_GETFD"),
    (2, "F_SETFD"),
    (3, "F_GETFL"),
    (4, "F_SETFL"),
    (5, "F_GETLK"),
    (6, "F_SETLK"),
    (7, "F_SETLKW"),
    (8, "F_SETOWN"),
    (9, "F_GETOWN"),
    (10, "F_SETSIG"),
    (11, "F_GETSIG"),
    (12, "F_GETLK64"),
    (13, "F_SETLK64"),
    (14, "F_SETLKW64"),
    (36, "F_OFD_GETLK"),
    (37, "F_OFD_SETLK"),
    (38, "F_OFD_SETLKW"),
    (1024, "F_SETLEASE"),
    (1025, "F_GETLEASE"),
    (1026, "F_NOTIFY"),
    (1030, "F_DUPFD_CLOEXEC"),
    (1031, "F_SETPIPE_SZ"),
    (1032, "F_GETPIPE_SZ"),
    (1033, "F_ADD_SEALS"),
    (1034, "F_GET_SEALS"),
];
/// Those of them that take nothing.
const ALONE: [u64; 7] = [1, 3, 9, 11, 1025, 1032, 1034];
const CLOSES: Names = &[(1, "FD_CLOEXEC")];
const FAMILIES: Names = &[
    (0, "AF_UNSPEC"),
    (1, "AF_UNIX"),
    (2, "AF_INET"),
    (10, "AF_INET6"),
    (16, "AF_NETLINK"),
    (17, "AF_PACKET"),
];
const SOCKETS: Names = &[
    (1, "SOCK_STREAM"),
    (2, "SOCK_DGRAM"),
    (3, "SOCK_RAW"),
    (4, "SOCK_RDM"),
    (5, "SOCK_SEQPACKET"),
];
const SOCKET_FLAGS: Names = &[(0o4000, "SOCK_NONBLOCK"), (0o2000000, "SOCK_CLOEXEC")];
const SHUTDOWN: Names = &[(0, "SHUT_RD"), (1, "SHUT_WR"), (2, "SHUT_RDWR")];
const CLOCKS: Names = &[
    (0, "CLOCK_REALTIME"),
    (1, "CLOCK_MONOTONIC"),
    (2, "CLOCK_PROCESS_CPUTIME_ID"),
    (3, "CLOCK_THREAD_CPUTIME_ID"),
    (4, "CLOCK_MONOTONIC_RAW"),
    (5, "CLOCK_REALTIME_COARSE"),
    (6, "CLOCK_MONOTONIC_COARSE"),
    (7, "CLOCK_BOOTTIME"),
    (11, "CLOCK_TAI"),
];
const WAIT: Names = &[
    (1, "WNOHANG"),
    (2, "WUNTRACED"),
    (4, "WEXITED"),
    (8, "WCONTINUED"),
    (0x0100_0000, "WNOWAIT"),
    (0x2000_0000, "__WNOTHREAD"),
    (0x4000_0000, "__WALL"),
    (0x8000_0000, "__WCLONE"),
];
const FUTEX: Names = &[
    (0, "FUTEX_WAIT"),
    (1, "FUTEX_WAKE"),
    (3, "FUTEX_REQUEUE"),
    (4, "FUTEX_CMP_REQUEUE"),
    (5, "FUTEX_WAKE_OP"),
    (6, "FUTEX_LOCK_PI"),
    (7, "FUTEX_UNLOCK_PI"),
    (8, "FUTEX_TRYLOCK_PI"),
    (9, "FUTEX_WAIT_BITSET"),
    (10, "FUTEX_WAKE_BITSET"),
    (11, "FUTEX_WAIT_REQUEUE_PI"),
    (12, "FUTEX_CMP_REQUEUE_PI"),
    (13, "FUTEX_LOCK_PI2"),
];
const FUTEX_FLAGS: Names = &[(128, "FUTEX_PRIVATE_FLAG"), (256, "FUTEX_CLOCK_REALTIME")];
const MASK: Names = &[(0, "SIG_BLOCK"), (1, "SIG_UNBLOCK"), (2, "SIG_SETMASK")];
const CLONE: Names = &[
    (0x100, "CLONE_VM"),
    (0x200, "CLONE_FS"),
    (0x400, "CLONE_FILES"),
    (0x800, "CLONE_SIGHAND"),
    (0x1000, "CLONE_PIDFD"),
    (0x2000, "CLONE_PTRACE"),
    (0x4000, "CLONE_VFORK"),
    (0x8000, "CLONE_PARENT"),
    (0x1_0000, "CLONE_THREAD"),
    (0x2_0000, "CLONE_NEWNS"),
    (0x4_0000, "CLONE_SYSVSEM"),
    (0x8_0000, "CLONE_SETTLS"),
    (0x10_0000, "CLONE_PARENT_SETTID"),
    (0x20_0000, "CLONE_CHILD_CLEARTID"),
    (0x40_0000, "CLONE_DETACHED"),
    (0x80_0000, "CLONE_UNTRACED"),
    (0x100_0000, "CLONE_CHILD_SETTID"),
];
const ADVICE: Names = &[
    (0, "MADV_NORMAL"),
    (1, "MADV_RANDOM"),
    (2, "MADV_SEQUENTIAL"),
    (3, "MADV_WILLNEED"),
    (4, "MADV_DONTNEED"),
    (8, "MADV_FREE"),
    (14, "MADV_HUGEPAGE"),
    (15, "MADV_NOHUGEPAGE"),
];
const EPOLL: Names = &[(1, "EPOLL_CTL_ADD"), (2, "EPOLL_CTL_DEL"), (3, "EPOLL_CTL_MOD")];
const RANDOM: Names = &[(1, "GRND_NONBLOCK"), (2, "GRND_RANDOM"), (4, "GRND_INSECURE")];
const MEMFD: Names = &[(1, "MFD_CLOEXEC"), (2, "MFD_ALLOW_SEALING"), (4, "MFD_HUGETLB")];
const EVENTFD: Names = &[
    (1, "EFD_SEMAPHORE"),
    (0o4000, "EFD_NONBLOCK"),
    (0o2000000, "EFD_CLOEXEC"),
];
const MOVES: Names = &[
    (1, "MREMAP_MAYMOVE"),
    (2, "MREMAP_FIXED"),
    (4, "MREMAP_DONTUNMAP"),
];
const RENAMES: Names = &[
    (1, "RENAME_NOREPLACE"),
    (2, "RENAME_EXCHANGE"),
    (4, "RENAME_WHITEOUT"),
];
const LOCKS: Names = &[(1, "LOCK_SH"), (2, "LOCK_EX"), (4, "LOCK_NB"), (8, "LOCK_UN")];
const LIMITS: Names = &[
    (0, "RLIMIT_CPU"),
    (1, "RLIMIT_FSIZE"),
    (2, "RLIMIT_DATA"),
    (3, "RLIMIT_STACK"),
    (4, "RLIMIT_CORE"),
    (5, "RLIMIT_RSS"),
    (6, "RLIMIT_NPROC"),
    (7, "RLIMIT_NOFILE"),
    (8, "RLIMIT_MEMLOCK"),
    (9, "RLIMIT_AS"),
    (10, "RLIMIT_LOCKS"),
    (11, "RLIMIT_SIGPENDING"),
    (12, "RLIMIT_MSGQUEUE"),
    (13, "RLIMIT_NICE"),
    (14, "RLIMIT_RTPRIO"),
    (15, "RLIMIT_RTTIME"),
];
const PRCTL: Names = &[
    (1, "PR_SET_PDEATHSIG"),
    (2, "PR_GET_PDEATHSIG"),
    (3, "PR_GET_DUMPABLE"),
    (4, "PR_SET_DUMPABLE"),
    (15, "PR_SET_NAME"),
    (16, "PR_GET_NAME"),
    (22, "PR_SET_SECCOMP"),
    (23, "PR_CAPBSET_READ"),
    (24, "PR_CAPBSET_DROP"),
    (36, "PR_SET_CHILD_SUBREAPER"),
    (38, "PR_SET_NO_NEW_PRIVS"),
    (39, "PR_GET_NO_NEW_PRIVS"),
];
const X86: Names = &[
    (0x1001, "ARCH_SET_GS"),
    (0x1002, "ARCH_SET_FS"),
    (0x1003, "ARCH_GET_FS"),
    (0x1004, "ARCH_GET_GS"),
];
const SIGNALS: [&str; 32] = [
    "0", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
    "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
    "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

fn open(arch: Arch) -> &'static [Names] {
    match arch {
        Arch::X86_64 => OPENS[0],
        Arch::Arm64 | Arch::Arm => OPENS[1],
        Arch::Powerpc64 => OPENS[2],
    }
}

/// How the argument `name` of a call is written; `command` is the value of its argument `cmd`.
pub fn style(call: &str, name: &str, c_type: &str, command: Option<u64>, arch: Arch) -> Style {
    let call = call.strip_suffix("_time64").unwrap_or(call);
    match (call, name) {
        ("open" | "openat" | "dup3" | "pipe2" | "epoll_create1" | "inotify_init1", "flags") => Style::Flags(
            if call.starts_with("open") { "O_RDONLY" } else { "0" },
            open(arch),
        ),
        ("fcntl" | "fcntl64", "cmd") => Style::One(FCNTL),
        ("fcntl" | "fcntl64", "arg") => match command {
            Some(0 | 1030) => Style::Int,
            Some(2) => Style::Flags("0", &[CLOSES]),
            Some(4) => Style::Flags("O_RDONLY", open(arch)),
            _ => Style::Hex,
        },
        ("mmap" | "mmap2" | "mprotect" | "pkey_mprotect", "prot") => Style::Flags("PROT_NONE", &[PROTECTION]),
        ("mmap" | "mmap2", "flags") if arch == Arch::Powerpc64 => Style::Flags("0", &[MAP, MAP_POWER]),
        ("mmap" | "mmap2", "flags") => Style::Flags("0", &[MAP, MAP_MOST]),
        ("mmap" | "mmap2", "fd") => Style::Int,
        ("unlinkat", "flag") => Style::Flags("0", &[REMOVE]),
        ("newfstatat" | "fstatat64" | "statx" | "faccessat2" | "linkat" | "fchmodat2" | "execveat", _)
        | ("fchownat" | "utimensat" | "name_to_handle_at", _)
            if name.starts_with("flag") =>
        {
            Style::Flags("0", &[AT])
        }
        ("access" | "faccessat" | "faccessat2", "mode") => Style::Flags("F_OK", &[MODES]),
        ("lseek" | "_llseek" | "llseek", "whence") => Style::One(SEEK),
        ("socket" | "socketpair", "family") => Style::One(FAMILIES),
        ("socket" | "socketpair", "type") => Style::With(SOCKETS, 0xf, SOCKET_FLAGS),
        ("accept4", "flags") => Style::Flags("0", &[SOCKET_FLAGS]),
        ("shutdown", "how") => Style::One(SHUTDOWN),
        ("wait4" | "waitid", "options") => Style::Flags("0", &[WAIT]),
        ("futex", "op") => Style::With(FUTEX, 0x7f, FUTEX_FLAGS),
        ("rt_sigprocmask" | "sigprocmask", "how") => Style::One(MASK),
        ("clone", "clone_flags") => Style::Clone,
        ("madvise", "behavior") => Style::One(ADVICE),
        ("epoll_ctl", "op") => Style::One(EPOLL),
        ("getrandom", "flags") => Style::Flags("0", &[RANDOM]),
        ("memfd_create", "flags") => Style::Flags("0", &[MEMFD]),
        ("eventfd2", "flags") => Style::Flags("0", &[EVENTFD]),
        ("mremap", "flags") => Style::Flags("0", &[MOVES]),
        ("renameat2", "flags") => Style::Flags("0", &[RENAMES]),
        ("flock", "cmd") => Style::Flags("0", &[LOCKS]),
        ("prlimit64" | "getrlimit" | "setrlimit" | "ugetrlimit", "resource") => Style::One(LIMITS),
        ("prctl", "option") => Style::One(PRCTL),
        ("arch_prctl", "option") => Style::One(X86),
        ("kill" | "tkill" | "tgkill" | "rt_sigaction" | "rt_sigqueueinfo", "sig")
        | ("rt_tgsigqueueinfo" | "pidfd_send_signal", "sig") => Style::Signal,
        (_, "which_clock" | "clockid") => Style::One(CLOCKS),
        ("ioctl", "cmd") => Style::Hex,
        _ => plain(name, c_type),
    }
}

/// How an argument is written that says nothing more than its type.
fn plain(name: &str, c_type: &str) -> Style {
    let c_type = c_type.strip_prefix("const ").unwrap_or(c_type);
    match (name, c_type) {
        ("dfd" | "olddfd" | "newdfd" | "from_dfd" | "to_dfd", _) => Style::Folder,
        ("fd" | "oldfd" | "newfd" | "fildes" | "epfd", _) => Style::Int,
        (_, "umode_t" | "mode_t") => Style::Octal,
        ("flags" | "mask" | "sig", "unsigned int" | "unsigned long" | "u32") => Style::Hex,
        (_, "unsigned int" | "u32" | "__u32") => Style::Unsigned,
        (_, "size_t" | "ssize_t" | "loff_t" | "off_t" | "long" | "time_t") => Style::Word,
        ("addr" | "start" | "brk" | "newsp" | "new_addr" | "tls", "unsigned long") => Style::Address,
        ("len" | "old_len" | "new_len" | "size" | "off" | "pgoff" | "count", "unsigned long") => Style::Word,
        (_, "unsigned long" | "u64" | "__u64") => Style::Hex,
        _ => Style::Int,
    }
}

/// Whether flags of `open` say that the file is made.
pub fn creates(flags: u64) -> bool {
    flags & (0o100 | 0o20000000) != 0
}

/// Whether a command of `fcntl` takes nothing.
pub fn fcntl_is_alone(command: u64) -> bool {
    ALONE.contains(&command)
}

/// Names of bits; what has none is a number behind them.
pub fn flags(value: u64, zero: &str, tables: &[Names]) -> String {
    let (mut left, mut names) = (value, Vec::new());
    if zero == "O_RDONLY" {
        let access = ACCESS.iter().find(|(of, _)| *of == left & 3);
        names.extend(access.map(|(_, name)| (*name).to_owned()));
        left &= if access.is_some() { !3 } else { !0 };
    }
    // Those of several bits come before those of which they consist.
    let mut all: Vec<&(u64, &str)> = tables.iter().copied().flatten().collect();
    all.sort_by_key(|(bits, _)| (std::cmp::Reverse(bits.count_ones()), *bits));
    let mut found: Vec<&(u64, &str)> = Vec::new();
    for one in all {
        if left & one.0 == one.0 {
            left &= !one.0;
            found.push(one);
        }
    }
    found.sort_by_key(|(bits, _)| *bits);
    names.extend(found.iter().map(|(_, name)| (*name).to_owned()));
    if left != 0 {
        names.push(format!("{left:#x}"));
    }
    match names.is_empty() {
        true => zero.to_owned(),
        false => names.join("|"),
    }
}

/// One of `values` in the bits of `mask`, and flags.
pub fn with(value: u64, values: Names, mask: u64, bits: Names) -> String {
    let one = values.iter().find(|(of, _)| *of == value & mask);
    let one = one.map_or_else(|| (value & mask).to_string(), |(_, name)| (*name).to_owned());
    match value & !mask {
        0 => one,
        left => format!("{one}|{}", flags(left, "0", &[bits])),
    }
}

/// The flags of `clone`.
pub fn clone(value: u64) -> String {
    let names = flags(value & 0xffff_ff00, "0", &[CLONE]);
    match (value as u32 & 0xff, &*names) {
        (0, names) => names.to_owned(),
        (number, "0") => signal(number),
        (number, names) => format!("{names}|{}", signal(number)),
    }
}

/// A signal's name.
pub fn signal(number: u32) -> String {
    match (number, SIGNALS.get(number as usize)) {
        (0, _) => "0".to_owned(),
        (_, Some(name)) => format!("SIG{name}"),
        (32..=64, None) => format!("SIGRT_{}", number - 32),
        (_, None) => number.cast_signed().to_string(),
    }
}

/// What a call returns inside of the kernel when it is to begin anew.
pub fn restart(number: i64) -> &'static str {
    match number {
        512 => "ERESTARTSYS",
        513 => "ERESTARTNOINTR",
        514 => "ERESTARTNOHAND",
        516 => "ERESTART_RESTARTBLOCK",
        _ => "ENOIOCTLCMD",
    }
}
