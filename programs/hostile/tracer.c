/*
 * Tracers that do anything at all to their children and to others, to find out whether that can crash or hang
 * the kernel, or reach somebody who must not be reached.
 *   tracer REQUESTS UID SEED
 * Workers, which are user UID, make REQUESTS calls in all: requests of ptrace, known and not, with random
 * arguments, to their children and threads of these, and to a process of another user and to process 1, who
 * must never be reached; reads and writes of memory; waits. The children do what tracers find interesting:
 * calls, sleeps, threads, forks, executes, signals, random seccomp filters, a listener that is given random
 * answers. The exit status is 0 if the number was reached, the other user's process is unchanged, nobody got
 * at it or at process 1, and every process could be killed. Called by tools/limen/src/test/programs.rs.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORKERS 4
#define CHILDREN 3
#define ROUND 3000      /* requests of a worker before it is replaced */
#define PATIENCE 200    /* looks of 10 ms without a request after which a worker is killed */
#define MERCY 60        /* seconds within which what is killed must be gone */
#define AREA 65536      /* bytes to read from and write to */
#define WORDS 512       /* of the other user's secret */

struct shared {
    volatile uint32_t made[WORKERS];
    volatile uint32_t reached; /* requests that reached somebody else */
    volatile int how;          /* the last of them */
    volatile uint32_t done;    /* requests that succeeded */
};

/* What the other user's process has for the supervisor alone. */
struct other {
    volatile uint32_t beats;
    volatile uint32_t changed;
};

static struct shared *shared;
static struct other *other;
static uint64_t state;
static pid_t other_pid;
static int uid;
static char area[AREA] __attribute__((aligned(4096)));
static volatile unsigned long secret[WORDS];
static const char *self;

static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static uint64_t below(uint64_t n) {
    return next() % n;
}

static void seed(uint64_t with) {
    state = with * 0x9e3779b97f4a7c15ull | 1;
    for (int i = 0; i < 8; i++)
        next();
}

static void nap(long ns) {
    struct timespec time = {0, ns};

    nanosleep(&time, 0);
}

static unsigned long secret_word(int n) {
    return (unsigned long)n * 0x9e3779b1ul ^ 0x5a5a5a5aul;
}

/* Never ends: another user's process, which looks whether it still is what it was. */
static void be_other(void) {
    if (setgroups(0, 0) || setresgid(uid + 1, uid + 1, uid + 1) || setresuid(uid + 1, uid + 1, uid + 1))
        _exit(1);
    prctl(PR_SET_DUMPABLE, 1);
    for (int n = 0; n < WORDS; n++)
        secret[n] = secret_word(n);
    for (;;) {
        for (int n = 0; n < WORDS; n++)
            if (secret[n] != secret_word(n))
                other->changed++;
        other->beats++;
        nap(1000000);
    }
}

static void caught(int signal) {
    (void)signal;
}

static void *threads(void *unused) {
    for (;;) {
        getppid();
        nap(100000);
    }
    return unused;
}

/* A filter of random instructions, mostly such as there are. */
static void random_filter(void) {
    static const unsigned short codes[] = {0x20, 0x30, 0x28, 0x15, 0x25, 0x35, 0x45, 0x05, 0x06, 0x16, 0x80,
        0x00, 0x01, 0x02, 0x03, 0x60, 0x61, 0x04, 0x0c, 0x14, 0x24, 0x34, 0x44, 0x54, 0x64, 0x74, 0x84, 0x07,
        0x87};
    static const unsigned returns[] = {SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO | 5, SECCOMP_RET_TRACE | 3,
        SECCOMP_RET_TRAP, SECCOMP_RET_LOG, SECCOMP_RET_KILL_THREAD, SECCOMP_RET_USER_NOTIF, 0x12340000};
    struct sock_filter filter[24];
    unsigned length = 1 + below(24);

    for (unsigned n = 0; n < length; n++) {
        filter[n].code = below(20) ? codes[below(sizeof(codes) / sizeof(*codes))] : next();
        filter[n].jt = below(length + 1);
        filter[n].jf = below(length + 1);
        filter[n].k = filter[n].code == 0x06 ? returns[below(8)] : below(3) ? 4 * below(18) : next();
    }
    unsigned last = below(8) ? SECCOMP_RET_ALLOW : returns[below(8)];
    filter[length - 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, last);
    struct sock_fprog program = {below(50) ? length : below(5000), below(50) ? filter : (void *)area};
    syscall(SYS_seccomp, below(20) ? SECCOMP_SET_MODE_FILTER : below(6), below(3) ? 0 : below(64), &program);
}

/* Answers to a listener, most of them wrong. */
static void *answers(void *fd) {
    struct {
        struct seccomp_notif call;
        char more[256];
    } got;
    struct seccomp_notif_resp answer;
    struct seccomp_notif_addfd added;
    int listener = (int)(intptr_t)fd;

    seed(time(0) ^ getpid());
    for (;;) {
        memset(&got, below(10) ? 0 : 1, sizeof(got));
        if (below(4))
            ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &got);
        answer.id = below(4) ? got.call.id : next();
        answer.val = next();
        answer.error = below(2) ? 0 : (int)next();
        answer.flags = below(4) ? 0 : below(4);
        memset(&added, 0, sizeof(added));
        added.id = below(4) ? got.call.id : next();
        added.flags = below(4);
        added.srcfd = below(8);
        added.newfd = below(64);
        added.newfd_flags = below(2) ? O_CLOEXEC : next();
        switch (below(6)) {
        case 0:
            ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &added);
            break;
        case 1:
            ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &answer.id);
            break;
        case 2:
            ioctl(listener, next(), area);
            break;
        }
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    }
    return 0;
}

static void listen_to(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {4, filter};
    unsigned killable = below(2) ? SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV : 0;
    unsigned flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | killable;
    int fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    pthread_t thread;

    if (fd < 0)
        _exit(0);
    /* It is made with this thread's filter, which lets everything but one call pass. */
    pthread_create(&thread, 0, answers, (void *)(intptr_t)fd);
    for (int n = 0; n < 10000; n++)
        syscall(SYS_getppid);
}

/* Never returns: what a child does. */
static void be_child(int kind) {
    struct rlimit few = {64, 64};
    pthread_t thread;

    munmap(shared, sizeof(*shared));
    munmap(other, sizeof(*other));
    seed(getpid() * 77u + time(0));
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (nice(10) < 0 && below(2))
        nap(1000);
    setrlimit(RLIMIT_NPROC, &few);
    signal(SIGUSR1, caught);
    if (below(3) == 0)
        ptrace(PTRACE_TRACEME, 0, 0, 0);
    switch (kind) {
    case 0:
        for (;;) {
            syscall(SYS_getppid);
            sched_yield();
        }
    case 1:
        for (;;)
            nap(2000000);
    case 2:
        for (int n = 0; n < 3; n++)
            pthread_create(&thread, 0, threads, 0);
        for (int n = 0; n < 200; n++)
            nap(1000000);
        _exit(0);
    case 3:
        for (;;) {
            pid_t child = below(2) ? fork() : vfork();
            if (child == 0)
                _exit(7);
            waitpid(child, 0, 0);
        }
    case 4:
        for (;;) {
            raise(below(2) ? SIGUSR1 : below(2) ? SIGSTOP : SIGTSTP);
            nap(100000);
        }
    case 5:
        nap(1000000);
        execl(self, self, "child", (char *)0);
        _exit(0);
    case 6:
        for (int n = 0; n < 300; n++) {
            random_filter();
            getuid();
            open("/", O_RDONLY | O_CLOEXEC);
        }
        _exit(0);
    default:
        listen_to();
        _exit(0);
    }
}

static uintptr_t any_word(void) {
    static const uintptr_t words[] = {0, 1, 8, 64, 4096, UINTPTR_MAX, UINTPTR_MAX - 7, INTPTR_MAX,
        (uintptr_t)INTPTR_MIN, 0xffff0000u, 0xfffffff0u};

    switch (below(6)) {
    case 0:
        return words[below(sizeof(words) / sizeof(*words))];
    case 1:
        return next();
    case 2:
        return below(1024);
    case 3:
        return (uintptr_t)area + below(AREA);
    case 4:
        return (uintptr_t)secret + below(sizeof(secret));
    default:
        return (uintptr_t)be_child + below(4096);
    }
}

static int any_request(void) {
    static const int known[] = {PTRACE_PEEKTEXT, PTRACE_PEEKDATA, PTRACE_PEEKUSER, PTRACE_POKETEXT,
        PTRACE_POKEDATA, PTRACE_POKEUSER, PTRACE_CONT, PTRACE_SINGLESTEP, PTRACE_ATTACH, PTRACE_DETACH,
        PTRACE_SYSCALL, PTRACE_SETOPTIONS, PTRACE_GETEVENTMSG, PTRACE_GETSIGINFO, PTRACE_SETSIGINFO,
        PTRACE_GETREGSET, PTRACE_SETREGSET, PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_LISTEN,
        PTRACE_PEEKSIGINFO, PTRACE_GETSIGMASK, PTRACE_SETSIGMASK, PTRACE_SECCOMP_GET_FILTER,
        0x420d /* seccomp metadata */, 0x420e /* call info */, 0x420f /* rseq */,
        0x4210 /* user dispatch */, 0x4211, 31, 32, 33};

    switch (below(12)) {
    case 0:
        return next();
    case 1:
        return below(64);
    case 2:
        return 0x4200 + below(32);
    default:
        return known[below(sizeof(known) / sizeof(*known))];
    }
}

/* Somebody whom the worker must not reach was: a request said so. */
static void reached(int how) {
    shared->reached++;
    shared->how = how;
}

/* Another thread of a process, or itself. */
static pid_t thread_of(pid_t pid) {
    char path[64];
    pid_t found = pid;

    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    DIR *dir = opendir(path);
    if (!dir)
        return pid;
    for (struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_name[0] != '.' && below(2))
            found = atoi(entry->d_name);
    closedir(dir);
    return found;
}

/* Memory of a process by other ways. */
static void memory(pid_t pid, int foreign) {
    struct iovec here = {area + below(AREA / 2), below(8192)}, there = {(void *)any_word(), below(8192)};
    char path[64];
    ssize_t n;

    switch (below(4)) {
    case 0:
        n = process_vm_readv(pid, &here, 1, &there, 1, below(20) ? 0 : next());
        break;
    case 1:
        n = process_vm_writev(pid, &here, 1, &there, 1, 0);
        break;
    default:
        snprintf(path, sizeof(path), "/proc/%d/%s", pid, below(2) ? "mem" : below(2) ? "syscall" : "stack");
        int fd = open(path, (below(2) ? O_RDWR : O_RDONLY) | O_CLOEXEC);
        if (fd < 0)
            return;
        n = below(2) ? pread(fd, area, below(8192), any_word()) : pwrite(fd, area, below(8192), any_word());
        close(fd);
    }
    if (foreign && n > 0)
        reached(-1);
}

/* A request, with arguments that mostly fit it. */
static void request(pid_t pid, int foreign) {
    struct iovec vector = {area + below(AREA / 2), below(1024)};
    int what = any_request();
    uintptr_t at = any_word(), data = below(4) ? (uintptr_t)area + below(AREA / 2) : any_word();

    switch (what) {
    case PTRACE_GETREGSET:
    case PTRACE_SETREGSET: {
        static const int sets[] = {1, 2, 3, 4, 0x200, 0x201, 0x202, 0x100, 0x101, 0x102, 0x103, 0x104, 0x105,
            0x106, 0x107, 0x10a, 0x400, 0x401, 0x402, 0x403, 0x404, 0x405, 0x406, 0x42e62b7, 0x46e62b7f};
        at = below(8) ? (uintptr_t)sets[below(sizeof(sets) / sizeof(*sets))] : at;
        if (below(8))
            data = (uintptr_t)&vector;
        /* Mostly a set as it is, with a few bits changed. */
        if (what == PTRACE_SETREGSET && below(4)) {
            struct iovec whole = {area, 4096};
            if (ptrace(PTRACE_GETREGSET, pid, at, &whole) == 0 && whole.iov_len) {
                area[below(whole.iov_len)] ^= 1 << below(8);
                vector = whole;
                data = (uintptr_t)&vector;
            }
        }
        break;
    }
    case PTRACE_PEEKTEXT:
    case PTRACE_PEEKDATA:
    case PTRACE_PEEKUSER:
    case PTRACE_POKETEXT:
    case PTRACE_POKEDATA:
    case PTRACE_POKEUSER:
        if (below(4))
            at = what % 3 == 0 ? 8 * below(40) : (uintptr_t)area + 8 * below(AREA / 8);
        break;
    case PTRACE_SETOPTIONS:
    case PTRACE_SEIZE:
        at = below(4) ? 0 : at;
        data = below(4) ? next() & 0x3000ff : data;
        break;
    case PTRACE_CONT:
    case PTRACE_SYSCALL:
    case PTRACE_SINGLESTEP:
    case PTRACE_DETACH:
    case 31:
    case 32:
    case 33:
        data = below(2) ? 0 : below(70);
        break;
    }
    errno = 0;
    long result = syscall(SYS_ptrace, what, pid, at, data);
    if (result == 0)
        __atomic_fetch_add(&shared->done, 1, __ATOMIC_RELAXED);
    if (foreign && result == 0 && what != PTRACE_TRACEME)
        reached(what);
}

/* A child, which mostly is traced from the beginning. */
static pid_t start_child(void) {
    int kind = below(8);
    pid_t pid = fork();

    if (pid == 0)
        be_child(kind);
    if (pid > 0 && below(8))
        ptrace(below(4) ? PTRACE_SEIZE : PTRACE_ATTACH, pid, 0, below(2) ? 0 : next() & 0x1000ff);
    return pid;
}

/* Has it stop, mostly. */
static void stop(pid_t pid) {
    ptrace(PTRACE_INTERRUPT, pid, 0, 0);
    for (int look = 0; look < 3; look++) {
        if (waitpid(pid, 0, WNOHANG | __WALL) == pid)
            return;
        sched_yield();
    }
}

/* Several requests to it, between a stop and going on. */
static void requests_to(pid_t pid, int foreign, int me) {
    if (!foreign && below(8))
        stop(pid);
    for (int n = 1 + below(12); n > 0; n--) {
        if (!foreign && below(3) == 0)
            stop(pid);
        if (below(12) == 0)
            memory(pid, foreign);
        else
            request(pid, foreign);
        shared->made[me]++;
    }
    if (!foreign && below(4))
        ptrace(below(2) ? PTRACE_CONT : PTRACE_SYSCALL, pid, 0, below(2) ? 0 : below(65));
    if (!foreign && below(8) == 0)
        kill(pid, below(4) ? SIGCONT : below(32));
}

/* Never returns: makes requests. */
static void work(int me, int requests) {
    pid_t children[CHILDREN] = {0};
    int root = uid == 0;

    munmap(other, sizeof(*other));
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!root && (setgroups(0, 0) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid)))
        _exit(1);
    /* Whoever changes its user cannot be traced, nor its children. */
    prctl(PR_SET_DUMPABLE, 1);
    for (size_t n = 0; n < AREA; n++)
        area[n] = next();
    while (shared->made[me] < (uint32_t)requests) {
        int which = below(CHILDREN);

        if (children[which] <= 0)
            children[which] = start_child();
        pid_t target = children[which];
        int foreign = 0;
        if (!root && below(16) == 0) {
            target = below(4) ? other_pid : 1;
            foreign = 1;
        } else if (below(4) == 0) {
            target = thread_of(target);
        }
        if (target <= 0) {
            shared->made[me]++;
            continue;
        }
        requests_to(target, foreign, me);
        int status;
        for (pid_t dead; below(3) == 0 && (dead = waitpid(-1, &status, WNOHANG | __WALL | WUNTRACED)) > 0;) {
            if (WIFSTOPPED(status) && below(2))
                ptrace(PTRACE_CONT, dead, 0, below(2) ? WSTOPSIG(status) : 0);
            if (!WIFSTOPPED(status))
                for (int c = 0; c < CHILDREN; c++)
                    if (children[c] == dead)
                        children[c] = 0;
        }
        if (below(50) == 0 && children[which] > 0) {
            kill(children[which], SIGKILL);
            if (below(2))
                children[which] = 0;
        }
    }
    _exit(0);
}

/* Kills what the workers left. Whether all of it is gone. */
static int all_gone(void) {
    for (int look = 0; look < MERCY * 20; look++) {
        if (uid != 0) {
            pid_t killer = fork();
            if (killer == 0) {
                if (setresuid(uid, uid, uid))
                    _exit(1);
                kill(-1, SIGKILL);
                _exit(0);
            }
        }
        int left = 0;
        for (;;) {
            pid_t dead = waitpid(-1, 0, WNOHANG | __WALL);
            if (dead < 0)
                break;
            if (dead == 0) {
                left = 1;
                break;
            }
        }
        if (!left)
            return 1;
        /* The supervisor is the parent of all that lost theirs. */
        char path[64];
        snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
        FILE *file = fopen(path, "r");
        int pid;
        while (file && fscanf(file, "%d", &pid) == 1)
            kill(pid, SIGKILL);
        if (file)
            fclose(file);
        nap(50000000);
    }
    return 0;
}

int main(int argc, char **argv) {
    static pid_t workers[WORKERS];
    static uint32_t seen[WORKERS], idle[WORKERS];
    uint64_t total = 0, rounds = 0;

    self = argv[0];
    if (argc == 2 && !strcmp(argv[1], "child")) {
        nap(1000000);
        return 0;
    }
    if (argc != 4) {
        fprintf(stderr, "usage: tracer REQUESTS UID SEED\n");
        return 2;
    }
    uint64_t wanted = strtoull(argv[1], 0, 0);
    uid = atoi(argv[2]);
    uint64_t with = strtoull(argv[3], 0, 0);
    shared = mmap(0, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    other = mmap(0, sizeof(*other), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    other_pid = fork();
    if (other_pid == 0)
        be_other();
    while (total < wanted) {
        for (int n = 0; n < WORKERS; n++) {
            uint32_t made = shared->made[n];
            idle[n] = made == seen[n] ? idle[n] + 1 : 0;
            if (made >= seen[n] && made <= ROUND + 16)
                total += made - seen[n];
            seen[n] = made;
            if (workers[n] && idle[n] > PATIENCE)
                kill(workers[n], SIGKILL);
            if (workers[n] == 0) {
                shared->made[n] = seen[n] = idle[n] = 0;
                pid_t pid = fork();
                if (pid == 0) {
                    seed(with * 1000 + ++rounds * WORKERS + n);
                    work(n, ROUND);
                }
                rounds++;
                workers[n] = pid > 0 ? pid : 0;
            }
        }
        nap(10000000);
        for (pid_t dead; (dead = waitpid(-1, 0, WNOHANG | __WALL)) > 0;) {
            if (dead == other_pid) {
                printf("the other user's process has ended\n");
                return 1;
            }
            for (int n = 0; n < WORKERS; n++)
                if (workers[n] == dead)
                    workers[n] = 0;
        }
    }
    uint32_t beats = other->beats;
    nap(100000000);
    int lives = other->beats != beats;
    kill(other_pid, SIGKILL);
    int gone = all_gone();
    printf("%llu requests of %llu workers, %u done, reached %u (request %d), ", (unsigned long long)total,
        (unsigned long long)rounds, shared->done, shared->reached, shared->how);
    printf("other user's process %s, changed %u times; %s\n", lives ? "lives" : "is stopped", other->changed,
        gone ? "all gone" : "SOMEBODY IS LEFT");
    return shared->reached || !lives || other->changed || !gone;
}
