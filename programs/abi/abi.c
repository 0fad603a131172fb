/*
 * Differences between ABIs, checked with system calls directly: both generations of calls with times, 64-bit
 * offsets in registers, record locks and `statfs` in both widths, 16-bit ids, signal sets of one word,
 * terminal settings, socket options, directory entries, and changes of floating-point state by a handler. The
 * C library's own structures give the layouts, so the program is right wherever it compiles. Called by
 * tools/limen/src/test/programs.rs, on every architecture; on Linux it can be run by hand.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include "check.h"

/* A timespec of machine words, and one of 64-bit fields. */
struct narrow { long sec, nsec; };
struct wide { int64_t sec, nsec; };

static int64_t distance(int64_t a, int64_t b) { return a > b ? a - b : b - a; }

static void clocks(void) {
    struct narrow n = {0, -1};
    CHECK(syscall(SYS_clock_gettime, CLOCK_REALTIME, &n) == 0);
    CHECK(n.sec > 1700000000 && n.nsec >= 0 && n.nsec < 1000000000);
    struct timeval tv = {0, -1};
    CHECK(gettimeofday(&tv, NULL) == 0 && distance(tv.tv_sec, n.sec) < 5);
    CHECK(syscall(SYS_clock_getres, CLOCK_MONOTONIC, &n) == 0 && n.sec == 0 && n.nsec == 1);
    n = (struct narrow){0, 1000000};
    CHECK(syscall(SYS_nanosleep, &n, NULL) == 0);
    CHECK(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &n, NULL) == 0);
    n.nsec = 1000000000;
    CHECK(syscall(SYS_nanosleep, &n, NULL) == -1 && errno == EINVAL);
#ifdef SYS_clock_gettime64
    struct wide w = {0, -1};
    CHECK(syscall(SYS_clock_gettime64, CLOCK_REALTIME, &w) == 0 && distance(w.sec, tv.tv_sec) < 5);
    CHECK(w.nsec >= 0 && w.nsec < 1000000000);
    CHECK(syscall(SYS_clock_getres_time64, CLOCK_MONOTONIC, &w) == 0 && w.sec == 0 && w.nsec == 1);
    /* The upper half of the nanoseconds is padding. */
    w = (struct wide){0, 1000000 | (int64_t)0x5a5a5a5a << 32};
    CHECK(syscall(SYS_clock_nanosleep_time64, CLOCK_MONOTONIC, 0, &w, NULL) == 0);
    struct wide wires = {0, 1000000};
    int zero = 0;
    CHECK(syscall(SYS_futex_time64, &zero, 0, 0, &wires, NULL, 0) == -1 && errno == ETIMEDOUT);
    CHECK(syscall(SYS_ppoll_time64, NULL, 0, &wires, NULL, 8) == 0);
    wires.nsec = 1000000;
    CHECK(syscall(SYS_pselect6_time64, 0, NULL, NULL, NULL, &wires, NULL) == 0);
    uint64_t set = 1 << (SIGUSR1 - 1);
    wires = (struct wide){0, 1000000};
    CHECK(syscall(SYS_rt_sigtimedwait_time64, &set, NULL, &wires, 8) == -1 && errno == EAGAIN);
    CHECK(syscall(SYS_sched_rr_get_interval_time64, 0, &wires) == 0 && wires.sec == 0);
#endif
    int word = 0;
    n = (struct narrow){0, 1000000};
    CHECK(syscall(SYS_futex, &word, 0, 0, &n, NULL, 0) == -1 && errno == ETIMEDOUT);
    CHECK(syscall(SYS_ppoll, NULL, 0, &n, NULL, 8) == 0);
    struct tms tms;
    CHECK(times(&tms) != (clock_t)-1 && tms.tms_utime >= 0 && tms.tms_utime < 10000);
    struct rusage usage;
    memset(&usage, 0xa5, sizeof usage);
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0 && usage.ru_utime.tv_sec == 0 && usage.ru_maxrss > 0 &&
          usage.ru_nsignals == 0);
}

static void timers(void) {
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct narrow set[2] = {{7, 5}, {1000, 3}}, got[2];
    memset(got, 0xa5, sizeof got);
    CHECK(syscall(SYS_timerfd_settime, fd, 0, set, NULL) == 0);
    CHECK(syscall(SYS_timerfd_gettime, fd, got) == 0);
    CHECK(got[0].sec == 7 && got[0].nsec == 5 && got[1].sec >= 990 && got[1].sec <= 1000);
#ifdef SYS_timerfd_settime64
    struct wide wset[2] = {{8, 5}, {(int64_t)1 << 33, 3}}, wgot[2];
    memset(wgot, 0xa5, sizeof wgot);
    CHECK(syscall(SYS_timerfd_settime64, fd, 0, wset, wgot) == 0 && wgot[0].sec == 7 && wgot[1].sec > 900);
    CHECK(syscall(SYS_timerfd_gettime64, fd, wgot) == 0 && wgot[0].sec == 8);
    CHECK(wgot[1].sec <= (int64_t)1 << 33 && wgot[1].sec > ((int64_t)1 << 33) - 60);
#endif
    close(fd);
    int id;
    struct sigevent event = {.sigev_notify = SIGEV_NONE, .sigev_signo = SIGALRM};
    CHECK(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &id) == 0);
    CHECK(syscall(SYS_timer_settime, id, 0, set, NULL) == 0);
    memset(got, 0xa5, sizeof got);
    CHECK(syscall(SYS_timer_gettime, id, got) == 0 && got[0].sec == 7 && got[1].sec >= 990);
#ifdef SYS_timer_settime64
    CHECK(syscall(SYS_timer_settime64, id, 0, wset, wgot) == 0 && wgot[0].sec == 7);
    CHECK(syscall(SYS_timer_gettime64, id, wgot) == 0 && wgot[0].sec == 8 && wgot[0].nsec == 5);
#endif
    CHECK(syscall(SYS_timer_delete, id) == 0);
    struct itimerval it = {{3, 4}, {500, 6}}, back;
    CHECK(setitimer(ITIMER_REAL, &it, NULL) == 0 && getitimer(ITIMER_REAL, &back) == 0);
    CHECK(back.it_interval.tv_sec == 3 && back.it_interval.tv_usec == 4 && back.it_value.tv_sec >= 490);
    CHECK(alarm(0) >= 490);
}

static void offsets(void) {
    static const off64_t far = ((off64_t)1 << 32) + 12345;
    int fd = open("abi.file", O_RDWR | O_CREAT | O_TRUNC | O_LARGEFILE, 0644);
    CHECK(fd >= 0);
    CHECK(pwrite64(fd, "hello", 5, far) == 5);
    char text[8] = "";
    CHECK(pread64(fd, text, 8, far) == 5 && memcmp(text, "hello", 5) == 0);
    CHECK(lseek64(fd, far + 1, SEEK_SET) == far + 1 && read(fd, text, 8) == 4 &&
          memcmp(text, "ello", 4) == 0);
    CHECK(lseek64(fd, 0, SEEK_END) == far + 5);
    struct iovec vector[2] = {{text, 2}, {text + 2, 3}};
    CHECK(preadv64(fd, vector, 2, far) == 5 && memcmp(text, "hello", 5) == 0);
    CHECK(pwritev64(fd, vector, 2, far + 5) == 5 && lseek64(fd, 0, SEEK_END) == far + 10);
    CHECK(ftruncate64(fd, far + 3) == 0 && lseek64(fd, 0, SEEK_END) == far + 3);
    CHECK(truncate64("abi.file", far + 2) == 0 && lseek64(fd, 0, SEEK_END) == far + 2);
    CHECK(fallocate64(fd, FALLOC_FL_KEEP_SIZE, far, 100) == 0);
    CHECK(posix_fadvise64(fd, far, 100, POSIX_FADV_WILLNEED) == 0);
    CHECK(posix_fadvise64(fd, 0, 0, 77) == EINVAL);
    CHECK(readahead(fd, far, 100) == 0);
    CHECK(sync_file_range(fd, far, 100, SYNC_FILE_RANGE_WRITE) == 0);
    CHECK(sync_file_range(fd, far, 100, 0x1000) == -1 && errno == EINVAL);
    struct stat64 st;
    memset(&st, 0xa5, sizeof st);
    CHECK(fstat64(fd, &st) == 0 && st.st_size == far + 2 && st.st_nlink == 1 && S_ISREG(st.st_mode));
    CHECK(st.st_blksize == sysconf(_SC_PAGESIZE) && st.st_uid == getuid() && st.st_rdev == 0);
    ino64_t ino = st.st_ino;
    memset(&st, 0xa5, sizeof st);
    CHECK(stat64("abi.file", &st) == 0 && st.st_size == far + 2 && st.st_ino == ino);
    memset(&st, 0xa5, sizeof st);
    CHECK(lstat64("abi.file", &st) == 0 && st.st_ino == ino && distance(st.st_mtime, time(NULL)) < 60);
    /* Maps the end of the large file. */
    off64_t page = sysconf(_SC_PAGESIZE);
    char *map = mmap64(NULL, page, PROT_READ, MAP_SHARED, fd, far & ~(page - 1));
    CHECK(map != MAP_FAILED && memcmp(map + (far & (page - 1)), "he", 2) == 0);
    munmap(map, page);
#ifdef SYS__llseek
    /* Calls with 32-bit offsets return EOVERFLOW for this file. */
    if (sizeof(long) == 4) {
        CHECK(syscall(SYS_lseek, fd, 0, SEEK_END) == -1 && errno == EOVERFLOW);
        char raw[256];
        CHECK(syscall(SYS_fstat, fd, raw) == -1 && errno == EOVERFLOW);
        /* Before Linux 6.6, tmpfs lets it be opened all the same. */
        int again = syscall(SYS_openat, AT_FDCWD, "abi.file", O_RDONLY);
        CHECK(again >= 0 || errno == EOVERFLOW);
        again = syscall(SYS_openat, AT_FDCWD, "abi.near", O_RDWR | O_CREAT | O_TRUNC, 0600);
        CHECK(pwrite64(again, "x", 1, far) == -1 && errno == EFBIG);
        CHECK(pwrite64(again, "x", 1, 0x7ffffffe) == 1 && pwrite64(again, "x", 1, 0x7fffffff) == -1 &&
              errno == EFBIG);
    }
#endif
    off64_t from = far;
    int out = open("abi.copy", O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(sendfile64(out, fd, &from, 10) == 2 && from == far + 2);
    off_t near = 0;
    CHECK(sendfile(fd, out, &near, 10) == 2 && near == 2);
    loff_t a = 0, b = 100;
    CHECK(copy_file_range(out, &a, out, &b, 2, 0) == 2 && a == 2 && b == 102);
    /* Offsets beyond the largest number are refused. */
    int pipes[2], null = open("/dev/null", O_WRONLY);
    CHECK(pipe(pipes) == 0 && write(pipes[1], "hello", 5) == 5);
    a = INT64_MAX - 2;
    CHECK(splice(pipes[0], NULL, null, &a, 5, 0) == -1 && errno == EINVAL && a == INT64_MAX - 2);
    a = INT64_MAX - 5;
    CHECK(splice(pipes[0], NULL, null, &a, 5, 0) == 5);
    close(pipes[0]);
    close(pipes[1]);
    close(null);
    close(fd);
    close(out);
}

static void figures(void) {
    struct statfs sf;
    struct statfs64 sf64;
    memset(&sf, 0xa5, sizeof sf);
    memset(&sf64, 0xa5, sizeof sf64);
    CHECK(statfs("/proc", &sf) == 0 && statfs64("/proc", &sf64) == 0);
    CHECK((unsigned)sf.f_type == 0x9fa0 && (unsigned)sf64.f_type == 0x9fa0);
    CHECK(sf.f_namelen == 255 && sf64.f_namelen == 255 && sf.f_frsize == sf64.f_frsize &&
          sf.f_bsize == sf64.f_bsize);
    CHECK(sf64.f_bsize == sysconf(_SC_PAGESIZE));
    struct sysinfo info;
    memset(&info, 0xa5, sizeof info);
    CHECK(sysinfo(&info) == 0 && info.mem_unit >= 1 && info.procs > 0 && info.uptime < 100000);
    CHECK((uint64_t)info.totalram * info.mem_unit > 8 << 20 && info.freeram < info.totalram &&
          info.totalswap == 0);
    struct rlimit limit;
    struct rlimit64 limit64;
    CHECK(getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY);
    CHECK(getrlimit64(RLIMIT_AS, &limit64) == 0 && limit64.rlim_cur == RLIM64_INFINITY);
    limit = (struct rlimit){100, 200};
    CHECK(setrlimit(RLIMIT_CORE, &limit) == 0 && getrlimit64(RLIMIT_CORE, &limit64) == 0);
    CHECK(limit64.rlim_cur == 100 && limit64.rlim_max == 200);
    /* Entries of a directory, in both layouts. */
    int fd = open("/proc", O_RDONLY | O_DIRECTORY);
    char entries[4096];
    long n = syscall(SYS_getdents64, fd, entries, sizeof entries);
    CHECK(n > 0);
    struct dirent64 *d = (struct dirent64 *)entries;
    CHECK(strcmp(d->d_name, ".") == 0 && d->d_type == DT_DIR && d->d_reclen % 8 == 0);
#ifdef SYS_getdents
    lseek(fd, 0, SEEK_SET);
    struct old { unsigned long ino, next; unsigned short len; char name[]; } *o = (void *)entries;
    n = syscall(SYS_getdents, fd, entries, sizeof entries);
    CHECK(n > 0 && strcmp(o->name, ".") == 0 && ((char *)o)[o->len - 1] == DT_DIR &&
          o->len % sizeof(long) == 0);
    o = (void *)((char *)o + o->len);
    CHECK(strcmp(o->name, "..") == 0);
#endif
    close(fd);
}

static void locks(void) {
    int fd = open("abi.lock", O_RDWR | O_CREAT | O_TRUNC, 0644);
    struct flock narrow = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 20};
    CHECK(fcntl(fd, F_SETLK, &narrow) == 0);
    struct flock64 wide = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off64_t)5 << 32, .l_len = 7};
    CHECK(fcntl64(fd, F_SETLK64, &wide) == 0);
    pid_t child = fork();
    if (child == 0) {
        narrow = (struct flock){.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 15};
        failed = 0;
        CHECK(fcntl(fd, F_GETLK, &narrow) == 0 && narrow.l_type == F_WRLCK && narrow.l_pid == getppid());
        CHECK(narrow.l_start == 10 && narrow.l_len == 20);
        wide = (struct flock64){.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 100, .l_len = 0};
        CHECK(fcntl64(fd, F_GETLK64, &wide) == 0 && wide.l_type == F_WRLCK);
        CHECK(wide.l_start == (off64_t)5 << 32 && wide.l_len == 7 && wide.l_pid == getppid());
#ifdef SYS_fcntl64
        struct flock far = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 100, .l_len = 0};
        CHECK(syscall(SYS_fcntl64, fd, F_GETLK, &far) == -1 && errno == EOVERFLOW);
#endif
        wide = (struct flock64){
            .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = ((off64_t)5 << 32) + 3, .l_len = 1};
        CHECK(fcntl64(fd, F_OFD_SETLK, &wide) == -1 && errno == EAGAIN);
        _exit(failed);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    close(fd);
}

static void ids(void) {
#if defined SYS_getuid32
    CHECK(syscall(SYS_getuid) == 0 && syscall(SYS_getuid32) == 0);
    pid_t child = fork();
    if (child == 0) {
        failed = 0;
        CHECK(chown("abi.lock", 70000, 60000) == 0);
        struct stat st;
        CHECK(stat("abi.lock", &st) == 0 && st.st_uid == 70000 && st.st_gid == 60000);
        CHECK(syscall(SYS_chown, "abi.lock", 0xffff, 123) == 0);
        CHECK(stat("abi.lock", &st) == 0 && st.st_uid == 70000 && st.st_gid == 123);
        unsigned groups[2] = {5, 80000};
        unsigned short small[2] = {0, 0};
        CHECK(syscall(SYS_setgroups32, 2, groups) == 0);
        CHECK(syscall(SYS_getgroups, 2, small) == 2 && small[0] == 5 && small[1] == 65534);
        CHECK(syscall(SYS_setresgid, 0xffff, 77, 0xffff) == 0 && getegid() == 77 && getgid() == 0);
        CHECK(setresuid(70000, 70000, 70000) == 0);
        CHECK(syscall(SYS_getuid) == 65534 && syscall(SYS_getuid32) == 70000);
        unsigned short r, e, s;
        CHECK(syscall(SYS_getresuid, &r, &e, &s) == 0 && r == 65534 && s == 65534);
        _exit(failed);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
#endif
}

static volatile sig_atomic_t seen;
static void handler(int sig) { seen = sig; }
static void informed(int sig, siginfo_t *info, void *context) {
    (void)context;
    seen = sig +
           1000 * (info->si_code == SI_QUEUE && info->si_value.sival_int == 4711 && info->si_pid == getpid());
}

static void signals(void) {
    struct sigaction action = {.sa_sigaction = informed, .sa_flags = SA_SIGINFO}, old;
    CHECK(sigaction(SIGRTMIN + 20, &action, NULL) == 0);
    CHECK(sigaction(SIGRTMIN + 20, NULL, &old) == 0 && old.sa_sigaction == informed &&
          (old.sa_flags & SA_SIGINFO));
    sigqueue(getpid(), SIGRTMIN + 20, (union sigval){.sival_int = 4711});
    CHECK(seen == SIGRTMIN + 20 + 1000);
    /* A signal set with a signal in its upper half. */
    sigset_t set, was;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 20);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    raise(SIGRTMIN + 20);
    CHECK(sigpending(&was) == 0 && sigismember(&was, SIGRTMIN + 20) == 1 &&
          sigismember(&was, SIGRTMIN + 19) == 0);
    siginfo_t info;
    CHECK(sigwaitinfo(&set, &info) == SIGRTMIN + 20 && info.si_signo == SIGRTMIN + 20 &&
          info.si_pid == getpid());
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    signal(SIGUSR1, handler);
#ifdef SYS_sigprocmask
    unsigned long word = 1ul << (SIGUSR1 - 1), before = 0;
    if (syscall(SYS_sigprocmask, SIG_BLOCK, &word, &before) == 0) {
        CHECK((before & word) == 0);
        raise(SIGUSR1);
        CHECK(syscall(SYS_sigpending, &before) == 0 && before == word && seen != SIGUSR1);
        CHECK(syscall(SYS_sigsuspend, 0, 0, 0ul) == -1 && errno == EINTR && seen == SIGUSR1);
        CHECK(syscall(SYS_sigprocmask, SIG_UNBLOCK, &word, &before) == 0 && before == word);
    } else {
        CHECK(errno == ENOSYS && sizeof(long) == 8);
    }
#endif
    seen = 0;
    CHECK(kill(getpid(), SIGUSR1) == 0 && seen == SIGUSR1);
    /* waitid's information about a child. */
    pid_t child = fork();
    if (child == 0) _exit(42);
    memset(&info, 0xa5, sizeof info);
    CHECK(waitid(P_PID, child, &info, WEXITED) == 0 && info.si_pid == child && info.si_status == 42);
    CHECK(info.si_signo == SIGCHLD && info.si_code == CLD_EXITED && info.si_uid == getuid());
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536}, stacked;
    CHECK(sigaltstack(&stack, NULL) == 0 && sigaltstack(NULL, &stacked) == 0);
    CHECK(stacked.ss_sp == stack.ss_sp && stacked.ss_size == 65536 && stacked.ss_flags == 0);
    stack.ss_flags = SS_DISABLE;
    CHECK(sigaltstack(&stack, NULL) == 0);
}

#ifdef __powerpc64__
/*
 * Makes the interrupted program continue with an invalid operation both pending and enabled: FEX, VX, VXSOFT,
 * VE.
 */
static void set_control(int sig, siginfo_t *info, void *context) {
    (void)sig, (void)info;
    ucontext_t *interrupted = context;
    uint64_t control = 0x60000480;
    memcpy(&interrupted->uc_mcontext.fp_regs[32], &control, sizeof control);
}

/*
 * The program gets SIGFPE or continues; the kernel, which loads these registers, must not get an exception.
 */
static void floating(void) {
    pid_t child = fork();
    if (child == 0) {
        struct sigaction action = {.sa_sigaction = set_control, .sa_flags = SA_SIGINFO};
        sigaction(SIGUSR1, &action, NULL);
        raise(SIGUSR1);
        /* Other programs run, and the registers are loaded again. */
        for (int n = 0; n < 3; n++) usleep(1000);
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGFPE));
}
#endif

#ifdef __arm__
/*
 * Loads several registers from an unaligned address: the processor traps, and the kernel emulates the load.
 */
static void unaligned(void) {
    static unsigned char bytes[64];
    for (unsigned n = 0; n < sizeof bytes; n++) bytes[n] = (unsigned char)(n * 5 + 1);
    uint32_t expected[4], got[4], pair[2];
    memcpy(expected, bytes + 3, sizeof expected);
    unsigned char *at = bytes + 3;
    __asm__ volatile("ldmia %[at]!, {r4, r5, r6, r7}\n\tstmia %[to], {r4, r5, r6, r7}"
                     : [at] "+r"(at)
                     : [to] "r"(got)
                     : "r4", "r5", "r6", "r7", "memory");
    CHECK(memcmp(got, expected, sizeof got) == 0 && at == bytes + 3 + 16);
    at = bytes + 21;
    __asm__ volatile("mov r4, #1\n\tmov r5, #2\n\tmov r6, #3\n\tstmdb %[at]!, {r4, r5, r6}"
                     : [at] "+r"(at)
                     :
                     : "r4", "r5", "r6", "memory");
    memcpy(got, bytes + 9, 12);
    CHECK(got[0] == 1 && got[1] == 2 && got[2] == 3 && at == bytes + 9);
    CHECK(bytes[8] == 8 * 5 + 1 && bytes[21] == 21 * 5 + 1);
    __asm__ volatile("ldrd r4, r5, [%[at], #4]\n\tstrd r4, r5, [%[to]]"
                     :
                     : [at] "r"(bytes + 9), [to] "r"(bytes + 42)
                     : "r4", "r5", "memory");
    memcpy(pair, bytes + 42, sizeof pair);
    CHECK(pair[0] == 2 && pair[1] == 3);
}
#endif

static void terminals(void) {
    int master, slave;
    struct termios t, u;
    struct winsize size = {24, 80, 0, 0}, got;
    if (openpty(&master, &slave, NULL, NULL, &size) != 0) {
        CHECK(!"openpty");
        return;
    }
    CHECK(ioctl(slave, TIOCGWINSZ, &got) == 0 && got.ws_row == 24 && got.ws_col == 80);
    memset(&t, 0xa5, sizeof t);
    CHECK(tcgetattr(slave, &t) == 0);
    CHECK(t.c_cc[VINTR] == 3 && t.c_cc[VEOF] == 4 && t.c_cc[VERASE] == 0177 && t.c_cc[VSUSP] == 032 &&
          t.c_cc[VSTART] == 021);
    CHECK((t.c_iflag & (ICRNL | IXON)) == (ICRNL | IXON) && (t.c_oflag & (OPOST | ONLCR)) == (OPOST | ONLCR));
    CHECK((t.c_cflag & CSIZE) == CS8 && (t.c_cflag & CREAD) && cfgetospeed(&t) == B38400);
    CHECK((t.c_lflag & (ISIG | ICANON | ECHO | IEXTEN)) == (ISIG | ICANON | ECHO | IEXTEN) &&
          !(t.c_lflag & (NOFLSH | TOSTOP)));
    t.c_lflag &= ~(ICANON | ECHO);
    t.c_oflag &= ~OPOST;
    t.c_cc[VMIN] = 2;
    t.c_cc[VTIME] = 5;
    t.c_cflag |= HUPCL | PARENB;
    cfsetispeed(&t, B115200);
    cfsetospeed(&t, B115200);
    CHECK(tcsetattr(slave, TCSADRAIN, &t) == 0 && tcgetattr(slave, &u) == 0);
    CHECK(u.c_lflag == t.c_lflag && u.c_oflag == t.c_oflag && u.c_cc[VMIN] == 2 && u.c_cc[VTIME] == 5);
    CHECK(cfgetospeed(&u) == B115200);
    int n = -1;
    CHECK(write(master, "ab", 2) == 2);
    struct pollfd ready = {slave, POLLIN, 0};
    CHECK(poll(&ready, 1, 5000) == 1 && ioctl(slave, FIONREAD, &n) == 0 && n == 2);
    char text[4];
    CHECK(read(slave, text, 4) == 2 && memcmp(text, "ab", 2) == 0);
    CHECK(tcflush(slave, TCIOFLUSH) == 0 && tcdrain(slave) == 0);
    CHECK(ioctl(master, TIOCGPTN, &n) == 0 && n >= 0);
    n = 1;
    CHECK(ioctl(master, FIONBIO, &n) == 0 && read(master, text, 1) == -1 && errno == EAGAIN);
    CHECK(ioctl(master, FIOCLEX) == 0 && fcntl(master, F_GETFD) == FD_CLOEXEC);
    CHECK(ioctl(slave, TIOCGPGRP, &n) == -1 && errno == ENOTTY);
    close(master);
    close(slave);
}

static void sockets(void) {
    int pair[2], n = 1, sent[2], from = open("/dev/null", O_RDONLY);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
#ifdef SYS_socketcall
    {
        /* socketpair, send, recv, getsockopt; an unknown number; arguments that are not mapped. */
        int fds[2], type = 0;
        unsigned len = sizeof type;
        char got[4] = "";
        long four[] = {AF_UNIX, SOCK_SEQPACKET, 0, (long)fds};
        CHECK(syscall(SYS_socketcall, 8, four) == 0);
        long send[] = {fds[0], (long)"abc", 3, 0}, receive[] = {fds[1], (long)got, 4, MSG_DONTWAIT};
        CHECK(syscall(SYS_socketcall, 9, send) == 3);
        CHECK(syscall(SYS_socketcall, 10, receive) == 3 && got[2] == 'c');
        CHECK(syscall(SYS_socketcall, 10, receive) == -1 && errno == EAGAIN);
        long option[] = {fds[0], SOL_SOCKET, SO_TYPE, (long)&type, (long)&len};
        CHECK(syscall(SYS_socketcall, 15, option) == 0 && type == SOCK_SEQPACKET);
        CHECK(syscall(SYS_socketcall, 0, four) == -1 && errno == EINVAL);
        CHECK(syscall(SYS_socketcall, 21, four) == -1 && errno == EINVAL);
        CHECK(syscall(SYS_socketcall, 8, (long *)8) == -1 && errno == EFAULT);
        close(fds[0]), close(fds[1]);
    }
#endif
    struct timeval wait = {0, 20000}, got = {9, 9};
    socklen_t len = sizeof got;
    CHECK(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) == 0);
    CHECK(getsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &got, &len) == 0 && got.tv_sec == 0 &&
          got.tv_usec == 20000);
    CHECK(recv(pair[0], &n, 1, 0) == -1 && errno == EAGAIN);
    CHECK(setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &n, sizeof n) == 0);
    struct ucred cred = {0};
    len = sizeof cred;
    CHECK(getsockopt(pair[0], SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 && cred.pid == getpid());
    union { struct cmsghdr head; char room[256]; } control;
    struct iovec part = {"x", 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = CMSG_SPACE(sizeof sent)};
    memset(&control, 0, sizeof control);
    control.head = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof sent), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    sent[0] = sent[1] = from;
    memcpy(CMSG_DATA(&control.head), sent, sizeof sent);
    CHECK(sendmsg(pair[1], &message, 0) == 1);
    char byte;
    part = (struct iovec){&byte, 1};
    memset(&control, 0xa5, sizeof control);
    message = (struct msghdr){
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    CHECK(recvmsg(pair[0], &message, 0) == 1 && byte == 'x' && message.msg_flags == 0);
    int creds = 0, files = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_type == SCM_CREDENTIALS && c->cmsg_len == CMSG_LEN(sizeof cred)) {
            memcpy(&cred, CMSG_DATA(c), sizeof cred);
            creds += cred.pid == getpid() && cred.uid == getuid();
        }
        if (c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof sent)) {
            memcpy(sent, CMSG_DATA(c), sizeof sent);
            files += fcntl(sent[0], F_GETFD) == 0 && fcntl(sent[1], F_GETFD) == 0 && sent[0] != from;
        }
    }
    CHECK(creds == 1 && files == 1);
    struct mmsghdr many[2] = {{.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}},
                              {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}}};
    CHECK(sendmmsg(pair[1], many, 2, 0) == 2 && many[1].msg_len == 1);
    CHECK(ioctl(pair[0], FIONREAD, &n) == 0 && n == 2);
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0x123456789abcdef0}, out[2];
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, pair[0], &event) == 0);
    memset(out, 0xa5, sizeof out);
    CHECK(epoll_wait(epoll, out, 2, 100) == 1 && out[0].events == EPOLLIN &&
          out[0].data.u64 == 0x123456789abcdef0);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(pair[0], &set);
    struct timeval zero = {0, 0};
    CHECK(select(pair[0] + 1, &set, NULL, NULL, &zero) == 1 && FD_ISSET(pair[0], &set));
    FD_CLR(pair[0], &set);
    int high = fcntl(pair[0], F_DUPFD, 60);
    FD_SET(high, &set);
    CHECK(select(high + 1, &set, NULL, NULL, &zero) == 1 && FD_ISSET(high, &set) && !FD_ISSET(pair[0], &set));
}

static void memory(void) {
    size_t page = sysconf(_SC_PAGESIZE);
    char *p = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_POPULATE, -1, 0);
    CHECK(p != MAP_FAILED);
    unsigned char core[4] = {0};
    CHECK(mincore(p, 4 * page, core) == 0 && (core[0] & 1) && (core[3] & 1));
    CHECK(mmap(p, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED &&
          errno == EEXIST);
    char *locked = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0);
    CHECK(locked != MAP_FAILED && mincore(locked, page, core) == 0 && (core[0] & 1));
    CHECK(mlockall(MCL_CURRENT | MCL_FUTURE) == 0 && munlockall() == 0);
    CHECK(mlockall(MCL_ONFAULT) == -1 && errno == EINVAL);
    CHECK(mremap(p, 4 * page, 8 * page, MREMAP_MAYMOVE) != MAP_FAILED);
    CHECK(open("/", O_RDONLY | O_DIRECTORY | O_NOFOLLOW) >= 0);
    CHECK(open("abi.lock", O_RDONLY | O_DIRECTORY) == -1 && errno == ENOTDIR);
    unlink("abi.link");
    CHECK(symlink("abi.lock", "abi.link") == 0 && open("abi.link", O_RDONLY | O_NOFOLLOW) == -1 &&
          errno == ELOOP);
    int fd = open(".", O_TMPFILE | O_RDWR, 0600);
    CHECK(fd >= 0);
    int flags = fcntl(fd, F_GETFL);
    CHECK((flags & O_ACCMODE) == O_RDWR && fcntl(fd, F_SETFL, O_APPEND | O_NONBLOCK) == 0);
    CHECK((fcntl(fd, F_GETFL) & (O_APPEND | O_NONBLOCK)) == (O_APPEND | O_NONBLOCK));
    int pipes[2];
    CHECK(pipe2(pipes, O_CLOEXEC | O_DIRECT) == 0 && (fcntl(pipes[1], F_GETFL) & O_DIRECT));
    struct timespec set[2] = {{1000000000, 7}, {1500000000, 9}};
    struct stat st;
    CHECK(utimensat(AT_FDCWD, "abi.lock", set, 0) == 0 && stat("abi.lock", &st) == 0);
    CHECK(st.st_atim.tv_sec == 1000000000 && st.st_atim.tv_nsec == 7 && st.st_mtim.tv_sec == 1500000000 &&
          st.st_mtim.tv_nsec == 9);
    struct timeval micro[2] = {{1100000000, 7}, {1200000000, 9}};
    CHECK(utimes("abi.lock", micro) == 0 && stat("abi.lock", &st) == 0 && st.st_mtim.tv_nsec == 9000);
    CHECK(st.st_atim.tv_sec == 1100000000);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    clocks();
    timers();
    offsets();
    figures();
    locks();
    ids();
    signals();
#ifdef __powerpc64__
    floating();
#endif
#ifdef __arm__
    unaligned();
#endif
    terminals();
    sockets();
    memory();
    return report();
}
