/*
 * Calls every system call number with random and boundary arguments, to find out whether user space can hurt the kernel.
 *   hostile CALLS UID SEED
 * A supervisor starts two workers as user UID and replaces each that dies or hangs, until CALLS calls were made. Workers
 * count in shared memory, which a call may overwrite: the supervisor keeps the total to itself and believes a worker's count only
 * where it is possible. The exit status is 0 when the total was reached; how the workers ended does not matter.
 * Called by tools/limen/src/test/programs.rs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORKERS 2
#define NUMBERS 480 /* beyond the highest number of any of our architectures */
#define ROUND 4000  /* calls one worker makes before it is replaced */

struct shared {
    volatile uint32_t made[WORKERS]; /* calls of the running worker */
    volatile int number[WORKERS]; /* what each worker is in, for the report of a hang */
};

static struct shared *shared;
static uint64_t state;

static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/*
 * Left out, each for a reason that has nothing to do with the kernel's safety:
 *   reboot, kexec_*              end the machine, which is what they are for
 *   kill, tkill, tgkill, rt_*sigqueueinfo, pidfd_send_signal   with random targets they end the supervisor and the shell;
 *                                called below with the worker itself as the target
 *   exit, exit_group             end the worker before it has done anything
 *   pause, rt_sigsuspend, rt_sigtimedwait, ...   only wait; the alarm would end each worker there (called now and then)
 *   syslog, sethostname, setdomainname, settimeofday, clock_settime, adjtimex, swapon, swapoff, umount2, pivot_root,
 *   chroot, mount, move_mount, mount_setattr, unshare, setns, acct, init_module, finit_module, delete_module, vhangup, iopl, ioperm
 *                                as root they take away what the test itself stands on (its root, its shell's terminal)
 */
static int left_out(long n, int root) {
    switch (n) {
    case SYS_reboot:
    case SYS_kexec_load:
#ifdef SYS_kexec_file_load
    case SYS_kexec_file_load:
#endif
    case SYS_exit:
    case SYS_exit_group:
    case SYS_kill:
    case SYS_tkill:
    case SYS_tgkill:
    case SYS_rt_sigqueueinfo:
    case SYS_rt_tgsigqueueinfo:
    case 424: /* pidfd_send_signal */
    case SYS_rt_sigreturn:
        return 1;
#ifdef SYS_pause
    case SYS_pause:
#endif
    case SYS_rt_sigsuspend:
    case SYS_rt_sigtimedwait:
        return next() % 64 != 0;
#ifdef SYS_fork
    case SYS_fork:
    case SYS_vfork:
#endif
    case SYS_clone:
    case 435: /* clone3 */
        return next() % 8 != 0;
    }
    if (!root) return 0;
    switch (n) {
    case SYS_syslog:
    case SYS_sethostname:
    case SYS_setdomainname:
    case SYS_settimeofday:
    case SYS_clock_settime:
    case SYS_adjtimex:
    case SYS_clock_adjtime:
    case SYS_swapon:
    case SYS_swapoff:
    case SYS_umount2:
    case SYS_pivot_root:
    case SYS_chroot:
    case SYS_mount:
    case 429: /* move_mount */
    case 442: /* mount_setattr */
    case SYS_unshare:
    case SYS_setns:
    case SYS_acct:
    case SYS_init_module:
    case SYS_finit_module:
    case SYS_delete_module:
    case SYS_vhangup:
#ifdef SYS_iopl
    case SYS_iopl:
    case SYS_ioperm:
#endif
        return 1;
    }
    return 0;
}

static char *area;           /* readable and writable */
static char *edge;           /* the last bytes before an unmapped page */
static const char *text_only; /* readable */

static const char *const paths[] = {"/", "/proc/self/mem", "/proc/self/maps", "/dev/null", "/dev/zero", "file", "dir",
                                    "fifo", "/proc/self/fd/3", "", ".", "..", "/nonexistent/x", "link", "/tmp/h/new",
                                    "/proc/self/status", "/sys", "/dev/full", "/proc/1/stat"};

static long argument(void) {
    static const long boundaries[] = {0, 1, -1, 2, 3, 7, 8, 16, 64, 255, 4095, 4096, 4097, 65535, 65536, 0x7fffffff,
                                      0x80000000L, 0xffffffffL, (long)0x7fffffffffffffff, (long)0x8000000000000000UL,
                                      (long)0xffff800000000000UL, (long)0xffffffff81000000UL, (long)0xffff000000080000UL,
                                      0x00007ffffffff000L, 0x0000fffffffff000L, (long)0xdeadbeefdeadbeefUL, -4096, -100,
                                      0x1000, 0x10, 12, 0x40000000};
    switch (next() % 12) {
    case 0:
    case 1:
        return boundaries[next() % (sizeof boundaries / sizeof *boundaries)];
    case 2:
        return (long)next();
    case 3:
        return (long)(next() % 16);
    case 4:
        return (long)(area + next() % 8192);
    case 5:
        return (long)(edge - next() % 64);
    case 6:
        return (long)text_only;
    case 7:
        strcpy(area + 512, paths[next() % (sizeof paths / sizeof *paths)]);
        return (long)(area + 512);
    case 8:
        return (long)(1UL << next() % 64);
    case 9:
        return (long)(next() & 0xffff);
    case 10:
        /* A structure of pointers and small numbers. */
        for (int i = 0; i < 16; i++)
            ((long *)area)[i] = next() % 3 ? (long)(next() % 64) : (long)(area + next() % 4096);
        return (long)area;
    default:
        return (long)(next() % 4096);
    }
}

static void worker(int slot, int uid, uint64_t seed) {
    struct rlimit processes = {60, 60}, size = {1 << 20, 1 << 20}, memory = {160 << 20, 160 << 20}, none = {0, 0};
    struct itimerval alarm_after = {{1, 0}, {3, 0}};
    int pair[2];
    state = seed * 0x9e3779b97f4a7c15u + 1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setsid();
    signal(SIGALRM, SIG_DFL);
    /* Nothing else lies near: a long read into the area must not reach the counts. */
    area = mmap(NULL, 64 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    area = mmap(area + (32 << 20), 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    edge = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(edge + 4096, 4096);
    edge += 4096;
    text_only = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* Descriptors of several kinds to be misused. */
    open("file", O_RDWR | O_CREAT, 0666);
    mkdir("dir", 0777);
    mkfifo("fifo", 0666);
    if (symlink("link", "link")) errno = 0;
    open("dir", O_RDONLY | O_DIRECTORY);
    open("fifo", O_RDWR | O_NONBLOCK);
    open("/dev/zero", O_RDWR);
    open("/proc/self/maps", O_RDONLY);
    if (pipe(pair)) errno = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) errno = 0;
    setrlimit(RLIMIT_FSIZE, &size);
    setrlimit(RLIMIT_AS, &memory);
    setrlimit(RLIMIT_CORE, &none);
    if (uid) {
        if (setgroups(0, NULL) || setgid((gid_t)uid) || setuid((uid_t)uid)) _exit(9);
    }
    setrlimit(RLIMIT_NPROC, &processes);
    setitimer(ITIMER_REAL, &alarm_after, NULL);
    pid_t self = getpid();
    for (int i = 0; i < ROUND; i++) {
        long n = next() % 8 ? (long)(next() % NUMBERS) : (long)(next() % 2 ? (long)next() : (long)(next() % 2048));
        long a[6];
        if (left_out(n, uid == 0)) {
            /* Signals to itself, most of which it survives by not having them. */
            if (next() % 16 == 0) syscall(SYS_rt_sigprocmask, SIG_BLOCK, area, NULL, 8);
            continue;
        }
        for (int j = 0; j < 6; j++) a[j] = argument();
        shared->number[slot] = (int)n;
        shared->made[slot] = shared->made[slot] + 1;
        syscall(n, a[0], a[1], a[2], a[3], a[4], a[5]);
        if (getpid() != self) _exit(0); /* a child of one of the calls */
    }
    _exit(0);
}

/* What worker `slot` made, as far as its count can be true. */
static uint64_t made(int slot) {
    uint32_t n = shared->made[slot];
    return n <= ROUND ? n : 0;
}

static pid_t start(int slot, int uid, uint64_t seed) {
    shared->made[slot] = 0;
    pid_t child = fork();
    if (child == 0) worker(slot, uid, seed);
    return child;
}

int main(int argc, char **argv) {
    uint64_t wanted = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;
    int uid = argc > 2 ? atoi(argv[2]) : 0;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    uint64_t calls = 0;
    pid_t workers[WORKERS];
    time_t began[WORKERS];
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < WORKERS; i++) workers[i] = -1;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    while (calls < wanted) {
        for (int i = 0; i < WORKERS; i++) {
            if (workers[i] < 0) {
                workers[i] = start(i, uid, seed++);
                began[i] = time(NULL);
                if (workers[i] < 0) usleep(10000);
            } else if (time(NULL) - began[i] > 15) {
                /* It masked its alarm: not the kernel's fault. */
                kill(workers[i], SIGKILL);
                began[i] = time(NULL);
            }
        }
        int status;
        pid_t gone = waitpid(-1, &status, WNOHANG);
        if (gone <= 0) {
            usleep(2000);
            continue;
        }
        for (int i = 0; i < WORKERS; i++) {
            if (workers[i] == gone) {
                kill(-gone, SIGKILL); /* what it forked, in its session's group */
                workers[i] = -1;
                calls += made(i);
            }
        }
    }
    for (int i = 0; i < WORKERS; i++)
        if (workers[i] > 0) kill(-workers[i], SIGKILL), kill(workers[i], SIGKILL);
    if (uid) {
        /* Whatever escaped its group. */
        pid_t sweep = fork();
        if (sweep == 0) {
            if (setuid((uid_t)uid) == 0) kill(-1, SIGKILL);
            _exit(0);
        }
    }
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
    printf("calls %llu\n", (unsigned long long)calls);
    return 0;
}
