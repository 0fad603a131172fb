/*
 * Calls every system call number with random and boundary arguments, to find out whether user space can crash
 * or hang the kernel.
 *   hostile CALLS UID SEED [-v]
 * A supervisor keeps several workers per processor running as user UID until CALLS calls have been made. A
 * worker that waits in a call is interrupted by a signal and goes on; one that does not go on is killed, and
 * one that dies is replaced. Workers count in shared memory, which a call may overwrite: the supervisor has
 * its own total and accepts a worker's count only if it is possible. The exit status is 0 if the total was
 * reached, every worker could be killed and no process is left; a process that does not die is described. How
 * the workers ended does not matter. With -v it prints which calls took the time. Called by
 * tools/limen/src/test/programs.rs.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define WORKERS 12
#define NUMBERS 480   /* beyond the highest number of any of our architectures */
#define PRIVATE_CALLS 0xf0000 /* of 32-bit Arm */
#define CACHEFLUSH (PRIVATE_CALLS + 2) /* the first that does not end its caller */
#define GET_TLS (PRIVATE_CALLS + 6)    /* the last */
#define ROUND 4000    /* calls one worker makes before it is replaced */
#define TICK 10000000 /* ns between two looks at the workers */
#define PATIENCE 30   /* looks without a call after which a worker is killed */
#define DESCRIPTORS 28 /* a few more than `descriptors` opens */
#define MERCY 60     /* seconds within which a killed worker must be gone */
#define LOOKS 100    /* looks behind that before one that is not is a failure */

struct shared {
    volatile uint32_t made[WORKERS]; /* calls of the running worker */
    volatile int number[WORKERS];    /* what each worker is in */
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
 *   reboot, kexec_*, rtas        end the machine, which is what they are for
 *   kill, tkill, tgkill, rt_*sigqueueinfo, pidfd_send_signal   with random targets they end the supervisor
 *                                and the shell; `to_itself` calls them with the worker as the target
 *   exit, exit_group             end the worker before it has done anything
 *   rt_sigreturn, sigreturn      end it as well; `signalled` returns from signals with damaged frames
 *   pause, rt_sigsuspend, ...    only wait, and clone only makes processes (called now and then)
 *   0xf0000 and higher           on 32-bit Arm: most end the worker, and starting one is hundreds of calls'
 *                                work (called now and then)
 *   syslog, sethostname, setdomainname, settimeofday, clock_settime, stime, adjtimex, swapon, swapoff,
 *   umount, umount2, pivot_root, chroot, mount, move_mount, mount_setattr, unshare, setns, acct, init_module,
 *   finit_module, delete_module, vhangup, iopl, ioperm
 *                                as root they take away what the test itself stands on (its root, its
 *                                shell's terminal)
 */
static int left_out(long n, int root) {
#if defined(__arm__)
    if ((unsigned long)n >= PRIVATE_CALLS && (n < CACHEFLUSH || n > GET_TLS)) return next() % 64 != 0;
#endif
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
#ifdef SYS_sigreturn
    case SYS_sigreturn:
#endif
#ifdef SYS_rtas
    case SYS_rtas:
#endif
        return 1;
#ifdef SYS_pause
    case SYS_pause:
#endif
#ifdef SYS_sigsuspend
    case SYS_sigsuspend:
#endif
    case SYS_rt_sigsuspend:
    case SYS_rt_sigtimedwait:
    case 421: /* rt_sigtimedwait_time64 */
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
    case 404: /* clock_settime64 */
    case 405: /* clock_adjtime64 */
#ifdef SYS_stime
    case SYS_stime:
#endif
#ifdef SYS_umount
    case SYS_umount:
#endif
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

/*
 * The number, plus one, of the argument that names a process which the call may end, stop or starve; 0: none.
 * Root may do this to any process, but the supervisor and the shell must survive: the argument becomes the
 * worker itself.
 */
static int target(long n) {
    switch (n) {
    case SYS_prlimit64:
    case SYS_process_vm_writev:
    case SYS_sched_setscheduler:
    case SYS_sched_setparam:
    case SYS_sched_setaffinity:
    case SYS_sched_setattr:
    case SYS_setpgid:
    case SYS_migrate_pages:
    case SYS_move_pages:
        return 1;
    case SYS_ptrace:
    case SYS_setpriority:
    case SYS_ioprio_set:
        return 2;
    }
    return 0;
}

static char *area;           /* readable and writable */
static char *edge;           /* the last bytes before an unmapped page */
static const char *text_only; /* readable */

static const char *const paths[] = {"/",
                                    "/proc/self/mem",
                                    "/proc/self/maps",
                                    "/dev/null",
                                    "/dev/zero",
                                    "file",
                                    "dir",
                                    "fifo",
                                    "/proc/self/fd/3",
                                    "",
                                    ".",
                                    "..",
                                    "/nonexistent/x",
                                    "link",
                                    "/tmp/h/new",
                                    "/proc/self/status",
                                    "/sys",
                                    "/dev/full",
                                    "/proc/1/stat",
                                    "/dev/ptmx",
                                    "/dev/tty",
                                    "/tmp",
                                    "/proc/self/task",
                                    "/dev/pts/0",
                                    "/proc/self/environ",
                                    "/dev/urandom",
                                    "dir/below"};

/* A path, at one of two addresses, for calls with two paths. */
static long path(void) {
    char *at = area + 512 + next() % 2 * 64;
    strcpy(at, paths[next() % (sizeof paths / sizeof *paths)]);
    return (long)at;
}

static long argument(int position) {
    static const long boundaries[] = {0,
                                      1,
                                      -1,
                                      2,
                                      3,
                                      7,
                                      8,
                                      16,
                                      64,
                                      255,
                                      4095,
                                      4096,
                                      4097,
                                      65535,
                                      65536,
                                      0x7fffffff,
                                      0x80000000L,
                                      0xffffffffL,
                                      (long)0x7fffffffffffffff,
                                      (long)0x8000000000000000UL,
                                      (long)0xffff800000000000UL,
                                      (long)0xffffffff81000000UL,
                                      (long)0xffff000000080000UL,
                                      (long)0x00007ffffffff000LL,
                                      (long)0x0000fffffffff000LL,
                                      (long)0xdeadbeefdeadbeefULL,
                                      -4096,
                                      -100,
                                      0x1000,
                                      0x10,
                                      12,
                                      0x40000000};
    /*
     * The first argument of most calls is a descriptor or a path, then comes memory: with random values few
     * calls would get beyond their first check.
     */
    uint64_t likely = next() % 8;
    if (position == 0 && likely < 3) return (long)(next() % DESCRIPTORS);
    if (position < 2 && likely == 3) return path();
    if (position > 0 && likely == 4) return (long)(area + next() % 8 * 1024);
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
        return path();
    case 8:
        return (long)(1ULL << next() % 64);
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

static void nothing(int signal) { (void)signal; }

/* A handler that damages the signal frame it returns to. */
static void signalled(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    uint64_t *words = context;
    for (uint64_t left = next() % 4; left > 0; left--)
        words[next() % (sizeof(ucontext_t) / 8)] =
            next() % 2 ? (uint64_t)argument(5) : words[0] ^ 1ULL << next() % 64;
}

/* A timer that interrupts the worker if it waits. Calls may disable it, so it is set again and again. */
static void stay_awake(void) {
    struct sigaction action = {.sa_handler = nothing};
    sigset_t none;
    sigaction(SIGALRM, &action, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Calls that name a process, with the worker itself. */
static void to_itself(pid_t self) {
    struct sigaction action = {.sa_sigaction = signalled,
                               .sa_flags = SA_SIGINFO | (next() % 2 ? SA_RESTART : SA_NODEFER)};
    long number = (long)(next() % 66);
    switch (next() % 8) {
    case 0:
    case 1:
    case 2:
        sigaction(SIGUSR1, &action, NULL);
        kill(self, SIGUSR1);
        break;
    case 3:
        if (number == SIGKILL || number == SIGSTOP) break;
        syscall(SYS_kill, self, number);
        break;
    case 4:
        if (number == SIGKILL || number == SIGSTOP) break;
        syscall(SYS_tgkill, self, self, number);
        break;
    case 5:
        syscall(SYS_rt_sigqueueinfo, self, SIGRTMIN + number % 8, argument(3));
        break;
    case 6:
        syscall(SYS_rt_tgsigqueueinfo, self, self, SIGRTMIN + number % 8, argument(3));
        break;
    case 7:
        syscall(SYS_rt_sigprocmask, SIG_BLOCK, area, NULL, 8);
        break;
    }
}

/* Restores what the test depends on and calls made by root may have changed. */
static void mend(void) {
    static const struct {
        const char *name;
        unsigned minor;
    } devices[] = {{"/dev/null", 3}, {"/dev/zero", 5}, {"/dev/full", 7}};
    struct stat is;
    for (int i = 0; i < 3; i++) {
        if (lstat(devices[i].name, &is) == 0 && S_ISCHR(is.st_mode) && (is.st_mode & 0666) == 0666) continue;
        unlink(devices[i].name);
        rmdir(devices[i].name);
        umask(0);
        mknod(devices[i].name, S_IFCHR | 0666, makedev(1, devices[i].minor));
    }
    mkdir("/tmp/h", 0777);
    if (chdir("/tmp/h")) errno = 0;
    unlink("file"), rmdir("file");
    unlink("dir");
    unlink("fifo"), rmdir("fifo");
}

/* Descriptors of several types, from number 0 on. */
static void descriptors(void) {
    int pair[2], terminal;
    struct itimerspec soon = {{0, 1000000}, {0, 1000000}};
    sigset_t some;
    for (int i = 0; i < 64; i++) close(i);
    sigemptyset(&some);
    sigaddset(&some, SIGUSR2);
    terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    if (unlockpt(terminal) == 0) open(ptsname(terminal), O_RDWR | O_NOCTTY);
    open("/dev/null", O_RDWR);
    open("file", O_RDWR | O_CREAT, 0666);
    mkdir("dir", 0777);
    mkfifo("fifo", 0666);
    if (symlink("link", "link")) errno = 0;
    open("dir", O_RDONLY | O_DIRECTORY);
    open("fifo", O_RDWR | O_NONBLOCK);
    open("/proc/self/maps", O_RDONLY);
    if (pipe(pair)) errno = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) errno = 0;
    epoll_create1(0);
    eventfd(3, 0);
    timerfd_settime(timerfd_create(CLOCK_MONOTONIC, 0), 0, &soon, NULL);
    signalfd(-1, &some, 0);
    inotify_init1(IN_NONBLOCK);
    memfd_create("m", 0);
    socket(AF_UNIX, SOCK_DGRAM, 0);
}

static void worker(int slot, int uid, uint64_t seed) {
    struct rlimit processes = {60, 60}, size = {1 << 20, 1 << 20}, memory = {64 << 20, 64 << 20},
                  none = {0, 0};
    state = seed * 0x9e3779b97f4a7c15u + 1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setsid();
    for (int i = 1; i < NSIG; i++) {
        if (i != SIGSEGV && i != SIGBUS && i != SIGILL && i != SIGFPE && i != SIGTRAP && i != SIGSYS)
            signal(i, nothing);
        else signal(i, SIG_DFL);
    }
    /* Nothing else is mapped nearby: a long read into the area must not overwrite the counts. */
    area = mmap(NULL, 16 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    area =
        mmap(area + (8 << 20), 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    edge = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(edge + page, page);
    edge += page;
    text_only = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mend();
    descriptors();
    setrlimit(RLIMIT_FSIZE, &size);
    setrlimit(RLIMIT_AS, &memory);
    setrlimit(RLIMIT_CORE, &none);
    if (uid) {
        if (setgroups(0, NULL) || setgid((gid_t)uid) || setuid((uid_t)uid)) _exit(9);
    }
    setrlimit(RLIMIT_NPROC, &processes);
    pid_t self = getpid(), supervisor = getppid();
    for (int i = 0; i < ROUND; i++) {
        long n =
            next() % 8 ? (long)(next() % NUMBERS) : (long)(next() % 2 ? (long)next() : (long)(next() % 2048));
#if defined(__arm__)
        if (next() % 64 == 0) n = PRIVATE_CALLS + (long)(next() % 16);
#endif
        long a[6];
        if (i % 64 == 0) stay_awake();
        if (next() % 256 == 0) to_itself(self);
        if (left_out(n, uid == 0)) continue;
        for (int j = 0; j < 6; j++) a[j] = argument(j);
        int aim = target(n);
        if (aim && (uint32_t)a[aim - 1] <= (uint32_t)supervisor) a[aim - 1] = self;
        shared->number[slot] = (int)n;
        shared->made[slot] = shared->made[slot] + 1;
#ifdef SYS_vfork
        /* The child of vfork shares this stack: it must not overwrite the return address of `syscall`. */
        if (n == SYS_vfork) {
            if (vfork() == 0) _exit(0);
            continue;
        }
#endif
        syscall(n, a[0], a[1], a[2], a[3], a[4], a[5]);
        if (getpid() != self) _exit(0); /* a child of one of the calls */
    }
    _exit(0);
}

/* The supervisor's data about a worker. */
struct known {
    pid_t pid;        /* -1: there is none */
    uint32_t made;    /* its calls at the last look */
    int idle;         /* looks since its last one */
    time_t killed;    /* when it was killed, or 0 */
};

static struct known workers[WORKERS];
static uint64_t waits[NUMBERS + 1]; /* looks that found a worker where the last one had found it, per call */
static uint64_t kills[NUMBERS + 1]; /* workers killed there */

/* The number of calls that worker `slot` made, if its count is possible. */
static uint32_t made(int slot) {
    uint32_t n = shared->made[slot];
    return n <= ROUND ? n : 0;
}

static int number(int slot) {
    unsigned n = (unsigned)shared->number[slot];
    return n < NUMBERS ? (int)n : NUMBERS;
}

static time_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

static void start(int slot, int uid, uint64_t seed) {
    shared->made[slot] = 0;
    workers[slot] = (struct known){.pid = fork()};
    if (workers[slot].pid == 0) worker(slot, uid, seed);
}

/* Prints a child that does not die, with each of its threads: its state, its tracer, what it waits in. */
static void describe(int pid) {
    static const char *const files[] = {"status", "syscall", "wchan", "stack"};
    char name[300], text[2048];
    snprintf(name, sizeof name, "/proc/%d/task", pid);
    DIR *tasks = opendir(name);
    struct dirent *entry;
    while (tasks && (entry = readdir(tasks))) {
        if (atoi(entry->d_name) <= 0) continue;
        printf("does not die: %d, thread %s\n", pid, entry->d_name);
        for (int i = 0; i < 4; i++) {
            snprintf(name, sizeof name, "/proc/%d/task/%.20s/%s", pid, entry->d_name, files[i]);
            int fd = open(name, O_RDONLY);
            ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
            close(fd);
            printf("%s: %.*s\n", files[i], n > 0 ? (int)n : 0, text);
        }
    }
    if (tasks) closedir(tasks);
}

/* Interrupts a worker that waits, kills it if that does not help, and fails if it does not die. */
static void look_after(int slot) {
    struct known *w = &workers[slot];
    uint32_t calls = made(slot);
    if (w->killed) {
        if (now() - w->killed > MERCY) {
            printf("worker %d cannot be killed in call %d\n", w->pid, shared->number[slot]);
            describe(w->pid);
            exit(1);
        }
    } else if (calls != w->made) {
        w->made = calls;
        w->idle = 0;
    } else if (++w->idle < PATIENCE) {
        waits[number(slot)]++;
        kill(w->pid, SIGALRM);
    } else {
        kills[number(slot)]++;
        kill(w->pid, SIGKILL);
        w->killed = now();
    }
}

/*
 * Kills all children, including orphans of dead workers, until there are none. Returns how many there were,
 * or -1 if some do not die.
 */
static int sweep(void) {
    time_t began = now();
    int left = 0, looks = 0;
    while (waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD) {
        /* Time alone is no proof: the host may have stood still. */
        int late = now() - began > MERCY && ++looks > LOOKS;
        DIR *proc = opendir("/proc");
        struct dirent *entry;
        while (proc && (entry = readdir(proc))) {
            char name[300], line[256] = "", *end;
            int pid = atoi(entry->d_name), parent = 0;
            if (pid <= 0) continue;
            snprintf(name, sizeof name, "/proc/%d/stat", pid);
            int fd = open(name, O_RDONLY);
            if (fd >= 0 && read(fd, line, sizeof line - 1) > 0 && (end = strrchr(line, ')')) != NULL)
                sscanf(end + 1, " %*c %d", &parent);
            close(fd);
            if (parent == getpid() && kill(pid, SIGKILL) == 0) left++;
            if (parent == getpid() && late) describe(pid);
        }
        if (proc) closedir(proc);
        if (late) return -1;
        usleep(2000);
    }
    return left;
}

static void report(uint64_t calls, time_t seconds) {
    printf("%llu calls a second; call: looks that found a worker waiting, workers killed\n",
           (unsigned long long)(calls / (uint64_t)(seconds ? seconds : 1)));
    for (int shown = 0; shown < 25; shown++) {
        int most = 0;
        for (int n = 0; n <= NUMBERS; n++)
            if (waits[n] + 30 * kills[n] > waits[most] + 30 * kills[most]) most = n;
        if (waits[most] + kills[most] == 0) break;
        printf("%4d: %llu %llu\n", most, (unsigned long long)waits[most], (unsigned long long)kills[most]);
        waits[most] = kills[most] = 0;
    }
}

/* System V objects stay when those who made them are gone, with megabytes of semaphores: takes all away. */
static void remove_objects(void) {
    struct shmid_ds segment;
    struct semid_ds semaphores;
    struct msqid_ds queue;
    /* Calls with these commands give the highest place in the table, and the id of what is at a place. */
    int last = shmctl(0, SHM_INFO, &segment), id;
    for (int i = 0; i <= last; i++)
        if ((id = shmctl(i, SHM_STAT, &segment)) >= 0) shmctl(id, IPC_RMID, NULL);
    last = semctl(0, 0, SEM_INFO, &semaphores);
    for (int i = 0; i <= last; i++)
        if ((id = semctl(i, 0, SEM_STAT, &semaphores)) >= 0) semctl(id, 0, IPC_RMID);
    last = msgctl(0, MSG_INFO, &queue);
    for (int i = 0; i <= last; i++)
        if ((id = msgctl(i, MSG_STAT, &queue)) >= 0) msgctl(id, IPC_RMID, NULL);
}

int main(int argc, char **argv) {
    uint64_t wanted = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;
    int uid = argc > 2 ? atoi(argv[2]) : 0;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    int verbose = argc > 4;
    uint64_t calls = 0, rounds = 0;
    time_t began = now();
    struct timespec tick = {0, TICK}, look = {0, 0};
    sigset_t child;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < WORKERS; i++) workers[i].pid = -1;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (int i = 1; i < NSIG; i++)
        if (i != SIGCHLD) signal(i, SIG_IGN);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    while (calls < wanted) {
        int status;
        pid_t gone;
        struct timespec t;
        for (int i = 0; i < WORKERS; i++)
            if (workers[i].pid < 0) start(i, uid, seed++), rounds++;
        sigtimedwait(&child, NULL, &tick);
        while ((gone = waitpid(-1, &status, WNOHANG)) > 0) {
            if (WIFSTOPPED(status)) {
                kill(gone, SIGKILL); /* it asked to be traced */
                continue;
            }
            for (int i = 0; i < WORKERS; i++) {
                if (workers[i].pid == gone) {
                    workers[i].pid = -1;
                    calls += made(i);
                }
            }
        }
        clock_gettime(CLOCK_MONOTONIC, &t);
        if (t.tv_sec > look.tv_sec || (t.tv_sec == look.tv_sec && t.tv_nsec >= look.tv_nsec)) {
            look = t;
            look.tv_nsec += TICK;
            if (look.tv_nsec >= 1000000000) look.tv_sec++, look.tv_nsec -= 1000000000;
            for (int i = 0; i < WORKERS; i++)
                if (workers[i].pid > 0) look_after(i);
        }
    }
    int left = sweep();
    mend();
    remove_objects();
    if (verbose) report(calls, now() - began);
    printf("calls %llu\nrounds %llu\n", (unsigned long long)calls, (unsigned long long)rounds);
    if (left < 0) printf("processes that do not die\n");
    return left < 0;
}
