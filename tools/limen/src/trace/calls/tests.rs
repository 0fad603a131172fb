use super::show;
use crate::arch::Arch;

/// Lines of a trace, each with what is in front.
fn trace(lines: &[(u32, &str)]) -> Vec<u8> {
    let mut all = String::from("# tracer: nop\n#\n");
    for (n, (pid, what)) in lines.iter().enumerate() {
        all += &format!("   a b-{pid}       [000] .l...     8.{n:06}: {what}\n");
    }
    all.into_bytes()
}

fn one(arch: Arch, begin: &str, end: &str) -> String {
    let text = show(&trace(&[(7, begin), (7, end)]), arch);
    text.strip_prefix("a b-7 ").unwrap_or(&text).trim_end().to_owned()
}

#[test]
fn calls_end_where_they_end() {
    let lines = [
        (7, "sys_write -> 0x1"),
        (7, "sys_execve(filename: 10 \"/bin/x\", argv: 20, envp: 30)"),
        (
            7,
            "sys_wait4(upid: ffffffff, stat_addr: 0, options: 40000001, ru: 0)",
        ),
        (9, "sys_clone -> 0x0"),
        (9, "sys_getpid()"),
        (9, "sched_switch: a b c"),
        (9, "sys_getpid -> 0x9"),
        (9, "sys_exit_group(error_code: 1)"),
        (7, "sys_wait4 -> 0x9"),
        (7, "sys_pause()"),
    ];
    assert_eq!(
        show(&trace(&lines), Arch::X86_64),
        "a b-7 execve(\"/bin/x\", 0x20, 0x30) = 0\n\
         a b-9 sched_switch: a b c\n\
         a b-9 getpid() = 9\n\
         a b-9 exit_group(1) = ?\n\
         a b-7 wait4(-1, NULL, WNOHANG|__WALL, NULL) = 9\n\
         a b-7 pause() = ?\n"
    );
}

#[test]
fn arguments_have_names() {
    let path = "dfd: ffffffffffffff9c, filename: 55 \"/a, flags: \"b\", ";
    for (arch, flags) in [
        (Arch::X86_64, 0o200000),
        (Arch::Arm64, 0o40000),
        (Arch::Powerpc64, 0o40000),
    ] {
        let begin = format!("sys_openat({path}flags: {:x}, mode: 0)", flags | 0o2000000);
        // A text that has the next name in it is cut there, as a reader of the trace would.
        assert!(one(arch, &begin, "sys_openat -> 0x3").starts_with("openat(AT_FDCWD, 0x55"));
        let begin = format!(
            "sys_openat(dfd: ffffff9c, filename: 0x55 \"/a (b) \"c\"\", flags: {:x}, mode: 0)",
            flags | 0o2000000
        );
        assert_eq!(
            one(arch, &begin, "sys_openat -> 0xfffffffffffffffe"),
            "openat(AT_FDCWD, \"/a (b) \"c\"\", O_RDONLY|O_DIRECTORY|O_CLOEXEC) = -1 ENOENT (no such file or \
             directory)"
        );
    }
    let long = format!(
        "sys_openat(dfd: 3, filename: 5 \"{}...\", flags: 241, mode: 1a4)",
        "x".repeat(60)
    );
    assert_eq!(
        one(Arch::Arm, &long, "sys_openat -> 0xfffffff2"),
        format!(
            "openat(3, \"{}\"..., O_WRONLY|O_CREAT|O_TRUNC, 0644) = -1 EFAULT (bad address)",
            "x".repeat(60)
        )
    );
    let cases = [
        ("sys_brk(brk: 0)", "0xc42000", "brk(NULL) = 0xc42000"),
        (
            "sys_newfstat(fd: 1, statbuf: 7f00)",
            "0x0",
            "fstat(1, 0x7f00) = 0",
        ),
        ("sys_kill(pid: ffffffff, sig: f)", "0x0", "kill(-1, SIGTERM) = 0"),
        (
            "sys_clone(clone_flags: 1200011, newsp: 0, parent_tidptr: 0, child_tidptr: c0, tls: 0)",
            "0x3",
            "clone(CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID|SIGCHLD, NULL, NULL, 0xc0, NULL) = 3",
        ),
        ("sys_fcntl(fd: 1, cmd: 1, arg: a)", "0x0", "fcntl(1, F_GETFD) = 0"),
        (
            "sys_fcntl(fd: 1, cmd: 406, arg: a)",
            "0xa",
            "fcntl(1, F_DUPFD_CLOEXEC, 10) = 10",
        ),
        (
            "sys_fcntl(fd: 1, cmd: 4, arg: 802)",
            "0x0",
            "fcntl(1, F_SETFL, O_RDWR|O_NONBLOCK) = 0",
        ),
        (
            "sys_mmap(addr: 0, len: 1000, prot: 3, flags: 22, fd: ffffffff, off: 0)",
            "0x7f00",
            "mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f00",
        ),
        (
            "sys_socket(family: 1, type: 80002, protocol: 0)",
            "0x4",
            "socket(AF_UNIX, SOCK_DGRAM|SOCK_CLOEXEC, 0) = 4",
        ),
        (
            "sys_futex(uaddr: 8, op: 80, val: 2, utime: 0, uaddr2: 0, val3: 0)",
            "0xfffffffffffffe00",
            "futex(0x8, FUTEX_WAIT|FUTEX_PRIVATE_FLAG, 2, NULL, NULL, 0) = ? ERESTARTSYS",
        ),
        (
            "sys_access(filename: 0, mode: 5)",
            "0x0",
            "access(NULL, X_OK|R_OK) = 0",
        ),
        (
            "sys_close(fd: ffffffff)",
            "0xfffffffffffffff7",
            "close(-1) = -1 EBADF (bad file descriptor)",
        ),
    ];
    for (begin, result, shown) in cases {
        let name = begin.split('(').next().unwrap_or_default();
        assert_eq!(one(Arch::X86_64, begin, &format!("{name} -> {result}")), shown);
    }
}
