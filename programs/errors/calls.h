/*
 * The calls, and the values for each argument. Calls that Limen does not have on purpose (docs/abi.md) are
 * not here, nor are calls that would end the test: those that reach other processes, or the machine.
 */
#ifndef LIMEN_ERRORS_CALLS_H
#define LIMEN_ERRORS_CALLS_H

#include "values.h"

/* On some architectures, 64-bit arguments are passed in other registers. */
#if __SIZEOF_LONG__ == 8
#define SYS_llseek SYS_lseek
#endif
/* The name on 32-bit Arm. */
#ifndef SYS_getrlimit
#define SYS_getrlimit SYS_ugetrlimit
#endif

/*
 * On 32-bit Arm, Linux never returns from a write from a buffer that ends after four bytes, and a read of a
 * hundred bytes into it returns 0.
 */
#ifdef __arm__
#define BUFFER FEW_MEMORY
#else
#define BUFFER MEMORY
#endif
/*
 * Debian's Linux for 32-bit Arm is built without transparent huge pages, and does not know advice 14 and 15.
 */
#ifdef __arm__
#define ADVICE OF(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 17, 18, 19, 20, 21, 24, 26, -1)
#else
#define ADVICE OF(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 24, 26, -1)
#endif

/* Commands about objects of System V IPC; on 32-bit Arm they say that their structures are the new ones. */
#ifdef __arm__
#define NEW(command) (0x100 | (command))
#else
#define NEW(command) (command)
#endif
#define OBJECT OF(0, 1, 99, -1, 32768)

static const struct call calls[] = {
    /* Reading and writing. */
    CALL(read, 0, FD, BUFFER, OF(0, 1, 8, 100, -1)),
    CALL(write, 0, WRITABLE, BUFFER, OF(0, 1, 8, 100, -1)),
    /* Linux 6.1 and 6.12 differ in whether more than eight bytes may be written to an eventfd. */
    CALL(write, 0, FD, BUFFER, OF(0, 1, 8, -1)),
    /* They also differ in whether the file or the vector is checked first. */
    CALL(readv, 0, READABLE, MEMORY, OF(0, 1, 2, 1024, 1025, -1)),
    CALL(writev, 0, WRITABLE, MEMORY, OF(0, 1, 2, 1024, 1025, -1)),
    CALL(readv, 0, FD, OF(OPEN), OF(0, 1, 2, 1024)),
    CALL(writev, 0, FD, OF(OPEN), OF(0, 1, 2, 1024)),
    CALL(pread64, 0, FD, FEW_MEMORY, FEW_SIZES, OFFSET(0, 5, -1, 0x7fffffff)),
    CALL(pwrite64, 0, FEW_FD, FEW_MEMORY, FEW_SIZES, OFFSET(0, 5, -1, 0x7fffffff)),
    CALL(preadv2, 0, FEW_READABLE, FEW_MEMORY, OF(0, 1, 1025), OF(0, -1, -2), OF(0), OF(0, 1, 8, 16, 0x80)),
    CALL(preadv2, 0, FEW_FD, OF(OPEN), OF(0, 1), OF(0, -1, -2), OF(0), OF(0, 1, 8, 16, 0x80)),
    CALL(pwritev2, 0, FEW_WRITABLE, FEW_MEMORY, OF(0, 1, 1025), OF(0, -1, -2), OF(0), OF(0, 1, 8, 16, 0x80)),
    CALL(pwritev2, 0, FEW_FD, OF(OPEN), OF(0, 1), OF(0, -1, -2), OF(0), OF(0, 1, 8, 16, 0x80)),
    CALL(lseek, 0, FD, OF(0, 5, -1, 0x7fffffff), OF(0, 1, 2, 3, 4, 5, -1)),
    CALL(sendfile, 0, FD, FD, OF(0, HOLE, OPEN, JUNK), OF(8)),
    CALL(splice, 0, FEW_FD, OF(0, HOLE, OPEN), FEW_FD, OF(0, OPEN), OF(0, 8), OF(0, 2, 16, -1)),
    CALL(tee, 0, FD, FD, OF(0, 8), OF(0, 2, -1)),
    CALL(vmsplice, 0, FD, MEMORY, OF(0, 1, 1025), OF(0, 2, -1)),
    CALL(copy_file_range, 0, FEW_FD, OF(0, HOLE, OPEN), FEW_FD, OF(0, OPEN), OF(0, 8), OF(0, 1)),
    CALL(fsync, 0, FD),
    CALL(fdatasync, 0, FD),
    CALL(syncfs, 0, FD),
    CALL(readahead, 0, FD, OFFSET(0, -1), OF(0, 8)),
    CALL(fallocate, CHANGES, FEW_FD, OF(0, 1, 2, 3, 8, 16, 32, 0x80, -1), OFFSET(0, -1), OFFSET(0, 10, -1)),
    CALL(ftruncate, CHANGES, FD, OF(0, 10, -1)),
    CALL(truncate, CHANGES, PATH, OF(0, 10, -1)),
#if !defined(__arm__)
    CALL(fadvise64, 0, FD, OF(0, -1), OF(0, 10, -1), OF(0, 3, 5, 6, -1)),
#endif
#ifdef SYS_sync_file_range
    CALL(sync_file_range, 0, FD, OF(0, -1), OF(0, 10, -1), OF(0, 7, 8)),
#endif

    /* Descriptors. */
    CALL(close, CHANGES, FD),
    CALL(close_range, CHANGES, OF(100, 200, -1), OF(99, 150, 300, -1), OF(0, 2, 4, 8, -1)),
    CALL(dup, CHANGES, FD),
    CALL(dup3, CHANGES, FEW_FD, OF(-1, 20, 255, 256), OF(0, 02000000, 1)),
#ifdef SYS_dup2
    CALL(dup2, CHANGES, FEW_FD, OF(-1, 20, 255, 256, 0x7fffffff)),
#endif
    CALL(fcntl, CHANGES, FD, OF(F_DUPFD, F_DUPFD_CLOEXEC), OF(0, 100, 255, 256, -1)),
    CALL(fcntl, 0, FD, OF(F_GETFD, F_SETFD, F_GETFL, F_SETFL), OF(0, 1, 3, 02000, 040000 OLDER_ONLY(-1))),
    CALL(fcntl, 0, FD, OF(F_GETLK, F_SETLK, F_OFD_GETLK, F_OFD_SETLK), MEMORY),
    CALL(fcntl, 0, FD, OF(F_SETOWN), OF(0, 1, -1, 999999)),
    CALL(fcntl, 0, FD, OF(F_SETSIG), OF(0, 1, 65, -1)),
    CALL(fcntl, 0, FD, OF(F_GETOWN_EX, F_SETOWN_EX, F_GET_RW_HINT, F_SET_RW_HINT), MEMORY),
    CALL(fcntl, 0, FD, OF(F_SETPIPE_SZ, F_GETPIPE_SZ), OF(0, 4096, 65536, 1 << 20, 1 << 21, -1)),
    CALL(fcntl, 0, FD, OF(F_ADD_SEALS, F_GET_SEALS), OF(0, 1, 2, 16 OLDER_ONLY(-1))),
    CALL(fcntl, 0, FEW_FD, OF(5000, -1, 12, 13), OF(0, OPEN)),
    CALL(flock, 0, FD, OF(0, 1, 4, 5, 6, 8, 9, 32, 64, -1)),
    CALL(ioctl, VARIES, OF(FD_EPOLL), OF(0x5401, 0x5421, 0xdeadbeef), FEW_MEMORY),
    CALL(ioctl, 0, READABLE, OF(0x5401, 0x541b, 0x5421, 0x5450, 0x5451, 0x5413, 0x540f, 0x5429, 0xdeadbeef),
         FEW_MEMORY),

    /* Opening. */
    CALL(openat, CHANGES, FEW_FROM, PATH,
         OF(0, 1, 2, 3, O_CREAT, O_CREAT | O_EXCL, O_TRUNC | 1, O_DIRECTORY, O_NOFOLLOW, O_PATH,
            O_PATH | O_NOFOLLOW, O_CREAT | O_DIRECTORY, O_TMPFILE | 2, O_TMPFILE, 0x10000000, O_NONBLOCK | 1),
         OF(0644)),
    CALL(openat2, CHANGES, FEW_FROM, FEW_PATHS, MEMORY, OF(0, 8, 23, 24, 32, 4096, 4097)),
    CALL(memfd_create, CHANGES, PATH, OF(0, 1, 2, 3, 0x80000000L)),
    CALL(pipe2, CHANGES, MEMORY, OF(0, 02000000, 04000, 040000, 1, -1)),
    CALL(eventfd2, CHANGES, OF(0, 1, -1), OF(0, 1, 2, 04000, 02000000, -1)),
    CALL(epoll_create1, CHANGES, OF(0, 1, 02000000, -1)),
    CALL(epoll_ctl, CHANGES, FEW_EPOLL, OF(0, 1, 2, 3, 4), FD, FEW_MEMORY),
    CALL(epoll_pwait, 0, FD, FEW_MEMORY, OF(0, 1, -1, 0x7fffffff), OF(0), FEW_MEMORY, OF(8, 4)),
    CALL(inotify_init1, CHANGES, OF(0, 1, 04000, 02000000, -1)),
    CALL(inotify_add_watch, CHANGES, FD, FEW_PATHS, OF(0, 1, 0xfff, 0x01000000, 0x20000000, 0x1000, -1)),
    CALL(inotify_rm_watch, CHANGES, FD, OF(0, 1, -1)),
    CALL(signalfd4, CHANGES, FD, FEW_MEMORY, OF(8, 0, 4), OF(0, 1, 04000)),
    CALL(timerfd_create, CHANGES, OF(0, 1, 2, 3, 4, 7, 8, 9, 11, 12, -1), OF(0, 1, 04000, 02000000)),
    CALL(timerfd_settime, CHANGES, FD, OF(0, 1, 2, 3, 4), MEMORY, FEW_MEMORY),
    CALL(timerfd_gettime, 0, FD, MEMORY),
    CALL(pidfd_open, CHANGES | HIDES, OF(0, -1, 1, 999999), OF(0, 04000, 1, -1)),
    CALL(pidfd_getfd, CHANGES, FD, OF(-1, 20, 200), OF(0, 1)),
    CALL(pidfd_send_signal, CHANGES, FD, OF(0, 65, -1), MEMORY, OF(0, 8)),

    /* Waiting. */
    CALL(ppoll, 0, MEMORY, OF(0, 1, 2, 300, -1), OF(HOLE, FIXED, JUNK), OF(0, HOLE, JUNK), OF(8, 4)),
    CALL(pselect6, 0, OF(0, 1, 20, 1024, -1), FEW_MEMORY, OF(0, HOLE), OF(0), OF(OPEN, JUNK, HOLE),
         OF(0, HOLE, OPEN)),
#ifdef SYS_poll
    CALL(poll, 0, MEMORY, OF(0, 1, 2, 300, -1), OF(0)),
#endif

    /* Files by name. */
    CALL(faccessat, 0, FROM, PATH, OF(0, 1, 2, 4, 7, 8, -1)),
    CALL(faccessat2, 0, FROM, PATH, OF(0, 4, 8), OF(0, 0x100, 0x200, 0x1000, 1)),
#ifdef SYS_newfstatat
    CALL(newfstatat, 0, FROM, PATH, FEW_MEMORY, OF(0, 0x100, 0x800, 1)),
    CALL(newfstatat, 0, FROM, OF(PATH_AT(0), PATH_AT(1)), FEW_MEMORY, OF(0x1000)),
#endif
#ifdef SYS_fstatat64
    CALL(fstatat64, 0, FROM, PATH, FEW_MEMORY, OF(0, 0x100, 0x800, 1)),
    CALL(fstatat64, 0, FROM, OF(PATH_AT(0), PATH_AT(1)), FEW_MEMORY, OF(0x1000)),
#endif
    CALL(statx, 0, FROM, OF(PATH_AT(0), PATH_AT(1)), OF(0x1000), OF(0), FEW_MEMORY),
    CALL(statx, 0, FROM, FEW_PATHS, OF(0, 0x100, 0x2000, 0x6000, 1), OF(0, 0x7ff, 0x80000000L), FEW_MEMORY),
    CALL(statfs, 0, PATH, MEMORY),
    CALL(fstatfs, 0, FD, MEMORY),
    CALL(fstat, 0, FD, MEMORY),
    CALL(readlinkat, 0, FROM, PATH, FEW_MEMORY, OF(-1, 0, 1, 100)),
    CALL(getdents64, 0, FD, MEMORY, OF(0, 1, 16, 24, 4096, -1)),
    CALL(getcwd, 0, MEMORY, OF(0, 1, 5, 100, -1)),
    CALL(chdir, CHANGES, PATH),
    CALL(fchdir, CHANGES, FD),
    CALL(chroot, CHANGES, PATH),
    CALL(mkdirat, CHANGES, FROM, PATH, OF(0755)),
    CALL(mknodat, CHANGES, FEW_FROM, PATH,
         OF(0, 0100644, 0010644, 0140644, 0020644, 0060644, 0040755, 0120777, 0170000), OF(0, 0x103)),
    CALL(symlinkat, CHANGES, FEW_PATHS, FEW_FROM, PATH),
    CALL(linkat, CHANGES, FEW_FROM, PATH, OF(-1, AT_FDCWD), FEW_PATHS, OF(0, 0x400, 1 OLDER_ONLY(0x1000))),
    CALL(unlinkat, CHANGES, FROM, PATH, OF(0, 0x200, 1)),
    CALL(renameat2, CHANGES, OF(AT_FDCWD), PATH, OF(AT_FDCWD), PATH, OF(0, 1, 2)),
    CALL(renameat2, CHANGES, FEW_FROM, FEW_PATHS, FEW_FROM, FEW_PATHS, OF(0, 3, 8)),
    CALL(fchmodat, 0, FROM, PATH, OF(0600, 07777)),
    CALL(fchmod, 0, FD, OF(0600, 07777)),
    CALL(fchownat, CHANGES, FEW_FROM, PATH, OF(-1, USER), OF(-1), OF(0, 0x100, 1)),
    CALL(fchown, CHANGES, FD, OF(-1, 0, USER), OF(-1, 0, USER)),
    CALL(utimensat, 0, FROM, PATH, MEMORY, OF(0, 0x100, 0x1000, 1)),
    CALL(mount, CHANGES, OF(0, PATH_AT(1)), FEW_PATHS, FEW_PATHS, OF(0, 32), OF(0, HOLE)),
    CALL(umount2, CHANGES, FEW_PATHS, OF(0, 2, 8, 4, 64)),
    CALL(pivot_root, CHANGES, FEW_PATHS, FEW_PATHS),
    CALL(getxattr, 0, FEW_PATHS, PATH, FEW_MEMORY, OF(0, 100)),
    CALL(setxattr, CHANGES | VARIES, FEW_PATHS, FEW_PATHS, FEW_MEMORY, OF(0, 10, 65537), OF(0, 1, 2, 3, 4)),
    CALL(listxattr, 0, PATH, FEW_MEMORY, OF(0, 100)),
    CALL(removexattr, VARIES, FEW_PATHS, PATH),
    CALL(fgetxattr, 0, FD, FEW_PATHS, FEW_MEMORY, OF(0, 100)),
    CALL(execve, CHANGES | VARIES, PATH, FEW_MEMORY, FEW_MEMORY),
    CALL(execveat, CHANGES | VARIES, FEW_FROM, FEW_PATHS, OF(0, HOLE, OPEN), OF(0, HOLE, OPEN),
         OF(0, 0x100, 0x1000, 1)),

    /* Memory. */
#ifdef SYS_mmap2
    CALL(mmap2, CHANGES | HIDES, OF(0, OPEN, OPEN + 1, -4096), OF(0, 1, -1), OF(1, 7),
         OF(0, 1, 2, 0x10, 0x12, 0x22, 0x32, 0x21, 3), OF(-1, FD_FILE, FD_WRITE_ONLY, FD_DIR, FD_PATH),
         OF(0, -1)),
#else
    CALL(mmap, CHANGES | HIDES, OF(0, OPEN, OPEN + 1, -4096), OF(0, 1, -1), OF(1, 7),
         OF(0, 1, 2, 0x10, 0x12, 0x22, 0x32, 0x21, 3), OF(-1, FD_FILE, FD_WRITE_ONLY, FD_DIR, FD_PATH),
         OF(0, 1)),
#endif
    CALL(munmap, CHANGES, OF(0, HOLE, OPEN, OPEN + 1, -4096), OF(0, 1, 4096, -1)),
    CALL(mprotect, CHANGES, OF(0, HOLE, OPEN, OPEN + 1), OF(0, 1, 0x10000, 0x20000),
         OF(0, 1, 7, 8, 64, 0x01000000, 0x03000000)),
    CALL(remap_file_pages, CHANGES, OF(0, HOLE, OPEN, FIXED, OPEN + 1), OF(0, 1, 0x10000, -1), OF(0, 1),
         OF(0, 1, -1), OF(0, 0x10000)),
    CALL(mremap, CHANGES | HIDES, OF(0, HOLE, OPEN, OPEN + 1), OF(0, 0x10000, 0x20000),
         OF(0, 1, 0x8000, 0x20000, -1), OF(0, 1, 2, 3, 4, 5, 8), OF(OPEN, 0x27000001)),
    CALL(madvise, CHANGES, OF(0, HOLE, OPEN, OPEN + 1), OF(0, 1, 0x10000, 0x20000, -1), ADVICE),
    CALL(madvise, CHANGES, OF(0, OPEN, OPEN + 1), OF(0, 1, 0x10000), OF(22, 23)),
    CALL(mlock, CHANGES, OF(0, HOLE, OPEN, OPEN + 1, SHUT), OF(0, 1, 0x10000, 0x20000, -1)),
    CALL(mlock2, CHANGES, OF(0, HOLE, OPEN, SHUT), OF(0, 1, 0x20000), OF(0, 1, 2, -1)),
    CALL(munlock, CHANGES, OF(0, HOLE, OPEN, OPEN + 1), OF(0, 1, 0x10000, 0x20000, -1)),
    CALL(mlockall, CHANGES, OF(0, 1, 2, 4, 5, 8, -1)),
    CALL(msync, 0, OF(0, HOLE, OPEN, OPEN + 1), OF(0, 1, 0x10000, 0x20000, -1), OF(0, 1, 2, 3, 4, 5, 6, 8)),
    CALL(mincore, 0, OF(0, HOLE, OPEN, OPEN + 1), OF(0, 1, 0x10000, 0x20000, -1), MEMORY),
    CALL(process_vm_readv, 0, OF(0, 999999, -1), FEW_MEMORY, OF(0, 1, 1025), FEW_MEMORY, OF(0, 1, 1025),
         OF(0, 1)),
    CALL(membarrier, CHANGES, OF(1, 2, 8, 16, 64, 256, 1024, -1), OF(0, 1), OF(0, -1)),

    /* Signals. */
    CALL(rt_sigaction, CHANGES, OF(0, 1, 9, 19, 32, 64, 65, -1), MEMORY, MEMORY, OF(8, 4, 16)),
    CALL(rt_sigprocmask, CHANGES, OF(0, 1, 2, 3, -1), MEMORY, MEMORY, OF(8, 4, 16)),
    CALL(rt_sigpending, 0, MEMORY, OF(0, 4, 8, 9, 16)),
    CALL(rt_sigtimedwait, 0, MEMORY, MEMORY, OF(OPEN, HOLE, JUNK), OF(8, 4)),
    CALL(rt_sigqueueinfo, CHANGES, OF(0, -1, 999999), OF(0, 10, 65, -1), MEMORY),
    CALL(rt_tgsigqueueinfo, CHANGES, OF(0, -1, 999999), OF(0, -1, 999999), OF(0, 10, 65, -1), FEW_MEMORY),
    CALL(sigaltstack, CHANGES, MEMORY, MEMORY),
    CALL(kill, CHANGES, OF(999999, -999999), OF(0, 1, 64, 65, -1)),
    CALL(tgkill, CHANGES, OF(0, -1, 1, 999999), OF(0, -1, 1, 999999), OF(0, 65, -1)),
    CALL(tkill, CHANGES, OF(0, -1, 999999), OF(0, 65, -1)),

    /* Processes. */
    CALL(wait4, 0, OF(0, -1, 1, 999999, -999999, 0x80000000L), FEW_MEMORY, OF(0, 1, 2, 4, 8, 0x20000000, -1),
         FEW_MEMORY),
    CALL(waitid, 0, OF(0, 1, 2, 3, 4, -1), OF(0, -1, 1, 999999, FD_FILE, FD_PIDFD), FEW_MEMORY,
         OF(0, 1, 4, 5, 0x01000004, 0x10), FEW_MEMORY),
    CALL(setpgid, CHANGES, OF(0, -1, 1, 999999), OF(0, -1, 1, 999999)),
    CALL(getpgid, HIDES, OF(0, -1, 1, 999999)),
    CALL(getsid, HIDES, OF(0, -1, 1, 999999)),
    CALL(getrusage, 0, OF(0, 1, -1, -2, 2), MEMORY),
    CALL(prlimit64, CHANGES, OF(0, 999999, -1), OF(1, 7, 15, 16, -1), MEMORY, MEMORY),
    CALL(getrlimit, 0, OF(0, 7, 15, 16, -1), MEMORY),
    CALL(setrlimit, CHANGES, OF(1, 7, 15, 16, -1), MEMORY),
    CALL(getpriority, 0, OF(0, 1, 3, -1), OF(0, -1, 999999)),
    CALL(setpriority, CHANGES, OF(0, 1, 3, -1), OF(0, -1, 999999), OF(0, -1, 5)),
    CALL(unshare, CHANGES, OF(0, 0x200, 0x400, 0x800, 0x10000, 0x100, 1)),
    CALL(clone3, CHANGES | HIDES, MEMORY, OF(0, 8, 63, 64, 88, 4096, 4097)),
    CALL(get_robust_list, 0, OF(0, -1, 1, 999999), MEMORY, MEMORY),
    CALL(set_robust_list, 0, MEMORY, OF(0, 12, 24, 32)),
    CALL(kcmp, HIDES, OF(0, 1, 999999), OF(0, 1, 999999), OF(0, 1, 2, 8, -1), OF(20, 200), OF(20, 200)),
    CALL(prctl, CHANGES,
         OF(1, 2, 3, 4, 7, 8, 15, 16, 21, 23, 24, 28, 29, 30, 36, 37, 38, 39, 40, 41, 42, 47, 9999, -1),
         OF(0, 1, 2, 9, 65, HOLE, OPEN, -1), OF(0, 1), OF(0), OF(0)),
    CALL(seccomp, CHANGES, OF(1, 2, 3, 4, -1), OF(0, 1, 6, 8, 9, 25, 32, 64, -1), MEMORY),
    CALL(personality, CHANGES, OF(0, 8, 0x0400000, -1)),

    /* Identities. */
    CALL(setuid, CHANGES, OF(0, USER, 5, -1)),
    CALL(setgid, CHANGES, OF(0, USER, 5, -1)),
    CALL(setresuid, CHANGES, OF(0, USER, 5, -1), OF(0, USER, 5, -1), OF(0, USER, 5, -1)),
    CALL(setresgid, CHANGES, OF(0, USER, 5, -1), OF(0, USER, 5, -1), OF(0, USER, 5, -1)),
    CALL(setreuid, CHANGES, OF(0, USER, 5, -1), OF(0, USER, 5, -1)),
    CALL(setfsuid, 0, OF(0, USER, 5, -1)),
    CALL(getresuid, 0, MEMORY, FEW_MEMORY, FEW_MEMORY),
    CALL(getgroups, 0, OF(-1, 0, 1, 65536), MEMORY),
    CALL(setgroups, CHANGES, OF(-1, 0, 1, 65536, 65537), MEMORY),
    CALL(capget, 0, MEMORY, MEMORY),
    CALL(capset, CHANGES, MEMORY, MEMORY),

    /* Scheduling and time. */
    CALL(sched_setscheduler, CHANGES, OF(0, -1, 999999), OF(0, 1, 2, 3, 4, 5, 6, 7, 0x40000000, -1), MEMORY),
    CALL(sched_getscheduler, 0, OF(0, -1, 999999)),
    CALL(sched_setparam, CHANGES, OF(0, -1, 999999), MEMORY),
    CALL(sched_getparam, 0, OF(0, -1, 999999), MEMORY),
    CALL(sched_setattr, CHANGES, OF(0, -1, 999999), MEMORY, OF(0, 1)),
    CALL(sched_getattr, 0, OF(0, -1, 999999), MEMORY, OF(0, 47, 48, 56, 4096, 4097), OF(0, 1)),
    CALL(sched_setaffinity, CHANGES, OF(0, -1, 999999), OF(0, 1, 8, 1024, -1), MEMORY),
    CALL(sched_getaffinity, 0, OF(0, -1, 999999), OF(0, 1, 8, 128, -1), MEMORY),
    CALL(sched_get_priority_max, 0, OF(0, 1, 2, 3, 4, 5, 6, -1 OLDER_ONLY(7))),
    CALL(sched_rr_get_interval, 0, OF(0, -1, 999999), MEMORY),
    CALL(ioprio_get, 0, OF(0, 1, 2, 4), OF(0, -1, 999999)),
    CALL(ioprio_set, CHANGES | VARIES, OF(0, 1, 2, 4), OF(0, 999999),
         OF(0, 0x2004, 0x2008, 0x4007, 0x6000, 0x8000, -1)),
    CALL(getcpu, HIDES, MEMORY, MEMORY, FEW_MEMORY),
    CALL(clock_gettime, 0,
         OF(0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 15, 16, -1, -2, -6, -7, 99 OLDER_ONLY(8, 9)), MEMORY),
    CALL(clock_getres, 0, OF(0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 15, 16, -1, -2, -6, -7, 99 OLDER_ONLY(8, 9)),
         MEMORY),
    CALL(clock_settime, CHANGES, OF(1, 2, 3, 4, 5, 6, 7, 9, 11, 16, -1, -2, 99), MEMORY),
    CALL(clock_nanosleep, 0, OF(0, 1, 3, 4, 5, 7, 11, 12, -1, -2, 99 OLDER_ONLY(8, 9)), OF(0, 1, 2), MEMORY,
         FEW_MEMORY),
    CALL(nanosleep, 0, MEMORY, MEMORY),
    CALL(gettimeofday, 0, MEMORY, MEMORY),
    CALL(settimeofday, CHANGES, OF(0, HOLE, JUNK), MEMORY),
    CALL(getitimer, 0, OF(1, 2, 3, -1), MEMORY),
    CALL(setitimer, CHANGES, OF(0, 1, 2, 3, -1), MEMORY, MEMORY),
    CALL(timer_create, CHANGES, OF(0, 1, 2, 3, 4, 5, 7, 11, 12, 99), MEMORY, MEMORY),
    CALL(timer_settime, CHANGES, OF(0, -1, 99), OF(0, 1, 2), MEMORY, FEW_MEMORY),
    CALL(timer_gettime, 0, OF(0, -1, 99), MEMORY),
    CALL(timer_delete, 0, OF(0, -1, 99)),
    CALL(times, HIDES, MEMORY),
    CALL(clock_adjtime, CHANGES | HIDES, OF(0, 1, 11, -1, -2, 99), OF(0, HOLE, FIXED, OPEN)),

    /* Futexes. */
    CALL(futex, 0, OF(0, HOLE, -4096, OPEN, JUNK), OF(8, 8 | 128), OF(1), OF(0), OF(0), OF(0)),
    CALL(futex, 0, OF(0, HOLE, -4096, OPEN, JUNK, FIXED, SHUT),
         OF(0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 128, 256), OF(1, 2), FEW_MEMORY,
         OF(0, OPEN, OPEN + 1), OF(0, 1)),
    CALL(futex, 0, OF(OPEN + 1, OPEN + 2, -4096), OF(0, 1, 3, 4, 6, 9, 11), OF(1), OF(0, OPEN),
         OF(0, OPEN, HOLE), OF(0, 1)),
    CALL(futex_waitv, 0, MEMORY, OF(0, 1, 128, 129), OF(0, 1), OF(0, OPEN, HOLE, JUNK), OF(0, 1, 2)),

    /* Sockets. */
    CALL(socket, CHANGES, OF(0, 1, 46, -1, 99), OF(0, 1, 2, 3, 5, 6, 04001, 02000001, 0x100001, -1),
         OF(0, 1, 2, -1)),
    CALL(socketpair, CHANGES, OF(0, 1, 99), OF(0, 1, 2, 5, 04001, -1), OF(0, 1, 2), MEMORY),
    CALL(bind, CHANGES, FD, FEW_MEMORY, OF(0, 1, 2, 3, 20, 110, 111, 128, 129, -1)),
    CALL(connect, CHANGES, FD, FEW_MEMORY, OF(0, 1, 2, 3, 20, 110, 111, 128, 129, -1)),
    CALL(listen, CHANGES, FD, OF(0, 1, -1)),
    CALL(accept4, CHANGES, FD, FEW_MEMORY, MEMORY, OF(0, 04000, 1)),
    CALL(getsockname, 0, FD, FEW_MEMORY, MEMORY),
    CALL(getpeername, 0, FD, FEW_MEMORY, MEMORY),
    CALL(sendto, 0, FD, FEW_MEMORY, OF(0, 8), OF(0x40, 0x44), OF(0, HOLE, JUNK, OPEN), OF(0, 2, 110, 129)),
    CALL(recvfrom, 0, FD, FEW_MEMORY, OF(0, 8), OF(0x40, 0x41, 0x42, 0x2040), OF(0, HOLE, OPEN),
         OF(0, HOLE, OPEN, JUNK)),
    CALL(sendmsg, 0, FD, MEMORY, OF(0x40, 0x41, 0x80000040L)),
    CALL(recvmsg, 0, FD, MEMORY, OF(0x40, 0x41, 0x80000040L)),
    CALL(sendmmsg, 0, FD, MEMORY, OF(0, 1, 2, -1), OF(0x40, 0x80000040L)),
    CALL(recvmmsg, 0, FD, FEW_MEMORY, OF(0, 1, -1), OF(0x40, 0x80000040L), OF(0, HOLE, JUNK, OPEN)),
    CALL(shutdown, CHANGES, FD, OF(0, 1, 2, 3, -1)),
    CALL(getsockopt, 0, FEW_FD, OF(0, 1, 6, 41, -1),
         OF(1, 2, 3, 4, 7, 8, 9, 13, 16, 17, 20, 30, 38, 39, 59, 9999), FEW_MEMORY, FEW_MEMORY),
    CALL(setsockopt, CHANGES | VARIES, FEW_FD, OF(0, 1, 6, -1),
         OF(1, 2, 3, 4, 7, 8, 9, 13, 16, 17, 20, 30, 38, 39, 9999), FEW_MEMORY, OF(0, 1, 4, 8, 16, -1)),

    /* System V IPC: of each kind there are objects 0, which all may use, and 1, which only root may. */
    CALL(shmget, HIDES, OF(0, 1, 2, 99), OF(0, 1, 4096, 4097, -1), OF(0, 0600, 01000, 01600, 03600)),
    CALL(shmat, CHANGES | HIDES, OBJECT, OF(0, 1, OPEN, OPEN + 1, HOLE, -4096),
         OF(0, 010000, 020000, 040000, 060000, 0100000, -1)),
    CALL(shmdt, CHANGES, OF(0, 1, HOLE, OPEN, OPEN + 1, -4096)),
    CALL(shmctl, 0, OBJECT, OF(NEW(1), NEW(2), NEW(3), NEW(11), NEW(12), NEW(13), NEW(14), NEW(15), NEW(99)),
         MEMORY),
    CALL(shmctl, 0, OF(99, -1, 32768), OF(NEW(0)), OF(0)),
    CALL(semget, HIDES, OF(0, 1, 2, 99), OF(0, 1, 2, 250, 32000, 32001, -1), OF(0, 0600, 01600, 03600)),
    CALL(semctl, 0, OBJECT, OF(0, 1, 5, -1),
         OF(NEW(1), NEW(2), NEW(3), NEW(12), NEW(13), NEW(14), NEW(15), NEW(16), NEW(17), NEW(18), NEW(19),
            NEW(20), NEW(99)),
         OF(0, HOLE, 32767, 32768, JUNK, OPEN)),
    CALL(semctl, 0, OF(99, -1, 32768), OF(0, 5), OF(NEW(0)), OF(0)),
#ifdef SYS_semop
    CALL(semop, 0, OBJECT, FEW_MEMORY, OF(0, 1, 2, 500, 501, -1)),
#endif
    CALL(semtimedop, 0, OBJECT, FEW_MEMORY, OF(0, 1, 501), MEMORY),
    CALL(msgget, HIDES, OF(0, 1, 2, 99), OF(0, 0600, 01600, 03600)),
    CALL(msgsnd, 0, OBJECT, OF(0, HOLE, OPEN, EDGE, JUNK, PATH_AT(1)), OF(0, 1, 8192, 8193, -1), OF(04000)),
    CALL(msgrcv, 0, OBJECT, OF(0, HOLE, OPEN), OF(0, 1, -1), OF(0, 1, -1),
         OF(04000, 014000, 024000, 040000, 044000, 064000)),
    CALL(msgctl, 0, OBJECT, OF(NEW(1), NEW(2), NEW(3), NEW(11), NEW(12), NEW(13), NEW(99)), MEMORY),
    CALL(msgctl, 0, OF(99, -1, 32768), OF(NEW(0)), OF(0)),

    /* POSIX message queues. */
    CALL(mq_open, CHANGES | HIDES, PATH, OF(0, 1, 2, 3, 0100, 0102, 0103, 0300, 0303), OF(0600), MEMORY),
    CALL(mq_unlink, CHANGES, PATH),
    CALL(mq_timedsend, 0, QUEUES, FEW_MEMORY, OF(0, 1, 8, 9, -1), OF(0, 32767, 32768), MEMORY),
    CALL(mq_timedreceive, 0, QUEUES, FEW_MEMORY, OF(0, 7, 8, -1), FEW_MEMORY, MEMORY),
    CALL(mq_notify, 0, QUEUES, MEMORY),
    CALL(mq_getsetattr, 0, QUEUES, MEMORY, MEMORY),

    /* The rest. */
    CALL(uname, 0, MEMORY),
    CALL(sysinfo, 0, MEMORY),
    CALL(getrandom, 0, BUFFER, OF(0, 8, 100), OF(0, 1, 2, 3, 4, 6, 8)),
    CALL(sethostname, CHANGES, MEMORY, OF(0, 8, 64, 65, -1)),
    CALL(setdomainname, CHANGES, MEMORY, OF(0, 8, 64, 65, -1)),
    CALL(syslog, HIDES, OF(-1, 2, 6, 7, 8, 9, 11), MEMORY, OF(0, -1)),
};

#endif
