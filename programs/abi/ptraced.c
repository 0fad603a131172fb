/*
 * ptrace: attaching, stops, events, memory, registers, and what happens when one of the two goes away; steps
 * are in stepped.c. The same on Limen and on Linux. Called by tools/limen/src/test/programs.rs, on every
 * architecture.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tracer.h"
#include "common.h"

static volatile unsigned long word = 0x1234;
static const unsigned long constant[4] = {1, 2, 3, 4};

static int shows_word(void) {
    volatile const unsigned long *at = constant;
    return word == 0x5678 && at[1] == 77 ? 7 : 8;
}

static void memory(void) {
    unsigned long value = 0;
    pid_t pid = traced(shows_word);
    CHECK(trace(PEEKDATA, pid, (unsigned long)&word, (unsigned long)&value) == 0 && value == 0x1234);
    CHECK(trace(POKEDATA, pid, (unsigned long)&word, 0x5678) == 0 && word == 0x1234);
    CHECK(trace(POKEDATA, pid, (unsigned long)&constant[1], 77) == 0);
    CHECK(((volatile const unsigned long *)constant)[1] == 2);
    CHECK(trace(PEEKDATA, pid, 8, (unsigned long)&value) == -1 && errno == EIO);
    CHECK(trace(PEEKDATA, pid, (unsigned long)&word, 8) == -1 && errno == EFAULT);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0 && pread(fd, &value, sizeof value, (off_t)(unsigned long)&word) == sizeof value);
    CHECK(value == 0x5678);
    close(fd);
    CHECK(trace(CONT, pid, 0, 0) == 0 && await(pid) == 7 << 8);
}

/* Where the kernel's helpers are on 32-bit Arm is no memory for ptrace, but can be read in another way. */
static void helpers(void) {
#ifdef __arm__
    unsigned long at = 0xffff0fe0, value = 0, own = *(volatile unsigned long *)at;
    pid_t pid = traced(pauses);
    CHECK(trace(PEEKDATA, pid, at, (unsigned long)&value) == -1 && errno == EIO);
    CHECK(trace(POKEDATA, pid, at, own) == -1 && errno == EIO);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0 && pread(fd, &value, sizeof value, at) == -1 && errno == EIO);
    CHECK(pwrite(fd, &value, sizeof value, at) == -1 && errno == EIO);
    close(fd);
    struct iovec here = {&value, sizeof value}, there = {(void *)at, sizeof value};
    struct iovec end = {(void *)0xffff0ffe, 4}, before = {(void *)0xfffefffe, 4};
    CHECK(process_vm_readv(pid, &here, 1, &there, 1, 0) == sizeof value && value == own);
    CHECK(process_vm_readv(pid, &here, 1, &end, 1, 0) == 2);
    CHECK(process_vm_readv(pid, &here, 1, &before, 1, 0) == -1 && errno == EFAULT);
    CHECK(process_vm_writev(pid, &here, 1, &there, 1, 0) == -1 && errno == EFAULT);
    ended(pid);
#endif
}

static void refusals(void) {
    CHECK(trace(ATTACH, getpid(), 0, 0) == -1 && errno == EPERM);
    CHECK(trace(ATTACH, 0x3fffffff, 0, 0) == -1 && errno == ESRCH);
    pid_t pid = untraced(pauses);
    CHECK(trace(CONT, pid, 0, 0) == -1 && errno == ESRCH);
    CHECK(trace(SEIZE, pid, 1, 0) == -1 && errno == EIO);
    CHECK(trace(SEIZE, pid, 0, 1 << 25) == -1 && errno == EIO);
    CHECK(trace(SEIZE, pid, 0, 0) == 0);
    CHECK(trace(SEIZE, pid, 0, 0) == -1 && errno == EPERM);
    CHECK(trace(ATTACH, pid, 0, 0) == -1 && errno == EPERM);
    /* It runs. */
    CHECK(trace(DETACH, pid, 0, 0) == -1 && errno == ESRCH && trace(CONT, pid, 0, 0) == -1 && errno == ESRCH);
    CHECK(trace(LISTEN, pid, 0, 0) == -1 && errno == ESRCH);
    CHECK(trace(INTERRUPT, pid, 0, 0) == 0 && await(pid) == STATUS(SIGTRAP, STOP_EVENT));
    CHECK(trace(SETOPTIONS, pid, 0, 1 << 25) == -1 && errno == EINVAL);
    CHECK(trace(0x5678, pid, 0, 0) == -1 && errno == EIO && trace(CONT, pid, 0, 65) == -1 && errno == EIO);
    CHECK(trace(DETACH, pid, 0, 65) == -1 && errno == EIO && trace(DETACH, pid, 0, 0) == 0);
    CHECK(trace(DETACH, pid, 0, 0) == -1 && errno == ESRCH);
    CHECK(waitpid(pid, NULL, WNOHANG) == 0);
    ended(pid);
}

static int takes_signals(void) {
    int got = 0;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGUSR1, SIG_IGN);
    raise(SIGUSR1);
    raise(SIGTERM);
    siginfo_t info;
    struct timespec soon = {0, 0};
    got = sigtimedwait(&set, &info, &soon);
    return got == SIGUSR2 ? 3 : 4;
}

static void signals(void) {
    siginfo_t info;
    uint64_t mask = 0;
    pid_t pid = traced(takes_signals);
    CHECK(trace(GETSIGINFO, pid, 0, (unsigned long)&info) == 0 && info.si_signo == SIGSTOP);
    CHECK(info.si_code == SI_TKILL && info.si_pid == pid);
    CHECK(trace(CONT, pid, 0, 0) == 0);
    /* An ignored signal is seen, too. */
    CHECK(await(pid) == STATUS(SIGUSR1, 0) && trace(CONT, pid, 0, SIGUSR1) == 0);
    /* One is replaced by another, which is blocked and so becomes pending. */
    CHECK(await(pid) == STATUS(SIGTERM, 0));
    CHECK(trace(GETSIGMASK, pid, 8, (unsigned long)&mask) == 0 && mask == 1ull << (SIGUSR2 - 1));
    CHECK(trace(GETSIGMASK, pid, 4, (unsigned long)&mask) == -1 && errno == EINVAL);
    CHECK(trace(GETSIGINFO, pid, 0, (unsigned long)&info) == 0 && info.si_signo == SIGTERM);
    info.si_errno = 5;
    CHECK(trace(SETSIGINFO, pid, 0, (unsigned long)&info) == 0);
    info.si_errno = 0;
    CHECK(trace(GETSIGINFO, pid, 0, (unsigned long)&info) == 0 && info.si_errno == 5);
    CHECK(trace(CONT, pid, 0, SIGUSR2) == 0 && await(pid) == 3 << 8);
}

static void group_stops(void) {
    siginfo_t info;
    pid_t pid = untraced(pauses);
    CHECK(trace(SEIZE, pid, 0, 0) == 0);
    CHECK(kill(pid, SIGSTOP) == 0 && await(pid) == STATUS(SIGSTOP, 0));
    CHECK(trace(CONT, pid, 0, SIGSTOP) == 0 && await(pid) == STATUS(SIGSTOP, STOP_EVENT));
    CHECK(trace(GETSIGINFO, pid, 0, (unsigned long)&info) == 0);
    CHECK(info.si_code == (SIGSTOP | STOP_EVENT << 8));
    CHECK(trace(LISTEN, pid, 0, 0) == 0 && waitpid(pid, NULL, WNOHANG | __WALL) == 0);
    CHECK(trace(CONT, pid, 0, 0) == -1 && errno == ESRCH);
    CHECK(kill(pid, SIGCONT) == 0 && await(pid) == STATUS(SIGTRAP, STOP_EVENT));
    CHECK(trace(CONT, pid, 0, 0) == 0 && await(pid) == STATUS(SIGCONT, 0));
    CHECK(trace(DETACH, pid, 0, 0) == 0);
    /* Attached to while it is stopped: it goes over from one stop to the other. */
    int status = 0;
    CHECK(kill(pid, SIGSTOP) == 0 && waitpid(pid, &status, WUNTRACED) == pid && status == STATUS(SIGSTOP, 0));
    CHECK(trace(ATTACH, pid, 0, 0) == 0 && await(pid) == STATUS(SIGSTOP, 0));
    CHECK(trace(GETSIGINFO, pid, 0, (unsigned long)&info) == -1 && errno == EINVAL);
    CHECK(trace(CONT, pid, 0, 0) == 0 && await(pid) == STATUS(SIGSTOP, 0));
    CHECK(trace(GETSIGINFO, pid, 0, (unsigned long)&info) == 0 && info.si_signo == SIGSTOP);
    CHECK(trace(DETACH, pid, 0, 0) == 0);
    ended(pid);
}

static int forks(void) {
    pid_t pid = fork();
    if (pid == 0) _exit(5);
    int status = -1;
    return waitpid(pid, &status, 0) == pid && status == 5 << 8 ? 6 : 9;
}

static void fork_events(void) {
    pid_t pid = traced(forks);
    CHECK(trace(SETOPTIONS, pid, 0, O_FORK | O_EXIT) == 0 && trace(CONT, pid, 0, 0) == 0);
    CHECK(await(pid) == STATUS(SIGTRAP, 1));
    pid_t child = message(pid);
    CHECK(child > 0 && await(child) == STATUS(SIGSTOP, 0));
    CHECK(trace(CONT, pid, 0, 0) == 0 && trace(CONT, child, 0, 0) == 0);
    CHECK(await(child) == STATUS(SIGTRAP, 6) && message(child) == 5 << 8);
    CHECK(trace(CONT, child, 0, 0) == 0 && await(child) == 5 << 8);
    int status = await(pid);
    if (status == STATUS(SIGCHLD, 0)) {
        CHECK(trace(CONT, pid, 0, SIGCHLD) == 0);
        status = await(pid);
    }
    CHECK(status == STATUS(SIGTRAP, 6) && message(pid) == 6 << 8);
    CHECK(trace(CONT, pid, 0, 0) == 0 && await(pid) == 6 << 8);
}

static int vforks(void) {
    pid_t pid = vfork();
    if (pid == 0) _exit(0);
    return waitpid(pid, NULL, 0) == pid ? 2 : 3;
}

static void vfork_events(void) {
    pid_t pid = traced(vforks);
    CHECK(trace(SETOPTIONS, pid, 0, O_VFORK | O_VFORK_DONE) == 0 && trace(CONT, pid, 0, 0) == 0);
    CHECK(await(pid) == STATUS(SIGTRAP, 2));
    pid_t child = message(pid);
    CHECK(await(child) == STATUS(SIGSTOP, 0) && trace(DETACH, child, 0, 0) == 0);
    CHECK(trace(CONT, pid, 0, 0) == 0);
    int status = await(pid);
    CHECK(status == STATUS(SIGTRAP, 5) && message(pid) == (unsigned long)child);
    CHECK(trace(DETACH, pid, 0, 0) == 0 && await(pid) == 2 << 8);
}

static int execs(void) {
    execl("/proc/self/exe", "ptraced", "exits", (char *)NULL);
    return 1;
}

static void exec_events(void) {
    pid_t pid = traced(execs);
    CHECK(trace(SETOPTIONS, pid, 0, O_EXEC) == 0 && trace(CONT, pid, 0, 0) == 0);
    CHECK(await(pid) == STATUS(SIGTRAP, 4) && message(pid) == (unsigned long)pid);
    CHECK(trace(CONT, pid, 0, 0) == 0 && await(pid) == 11 << 8);
    /* Without the option it gets a signal. */
    pid = traced(execs);
    siginfo_t info;
    CHECK(trace(CONT, pid, 0, 0) == 0 && await(pid) == STATUS(SIGTRAP, 0));
    CHECK(trace(GETSIGINFO, pid, 0, (unsigned long)&info) == 0 && info.si_code == SI_USER);
    CHECK(trace(CONT, pid, 0, 0) == 0 && await(pid) == 11 << 8);
}

static int calls(void) {
    syscall(SYS_getppid);
    return 0;
}

struct call_info {
    uint8_t op, pad[3];
    uint32_t arch;
    uint64_t ip, sp, nr, args[6];
    uint64_t more;
};

static void system_calls(void) {
    struct call_info info;
    int seen = 0, stops = 0;
    pid_t pid = traced(calls);
    CHECK(trace(GET_SYSCALL_INFO, pid, sizeof info, (unsigned long)&info) == 24 && info.op == 0);
    CHECK(trace(SETOPTIONS, pid, 0, SYSGOOD) == 0);
    for (;;) {
        if (trace(SYSCALL, pid, 0, 0) != 0) break;
        int status = await(pid);
        if (status != STATUS(SIGTRAP | 0x80, 0)) {
            CHECK(status == 0);
            break;
        }
        stops++;
        CHECK(message(pid) == (stops % 2 ? 1 : 2));
        long size = trace(GET_SYSCALL_INFO, pid, sizeof info, (unsigned long)&info);
        CHECK(size == (stops % 2 ? 80 : 33) && info.op == (stops % 2 ? 1 : 2));
        if (info.op == 1 && info.nr == SYS_getppid) seen = 1;
        if (info.op == 2 && seen == 1) {
            CHECK(info.nr == (uint64_t)getpid());
            seen = 2;
        }
    }
    CHECK(seen == 2 && stops % 2 == 1);
}

static void registers(void) {
    static unsigned long before[1024], after[1024];
    struct iovec io = {before, sizeof before};
    pid_t pid = traced(pauses);
    CHECK(trace(GETREGSET, pid, NT_PRSTATUS, (unsigned long)&io) == 0 && io.iov_len >= 18 * sizeof(long));
    size_t size = io.iov_len;
    CHECK(trace(SETREGSET, pid, NT_PRSTATUS, (unsigned long)&io) == 0 && io.iov_len == size);
    io.iov_base = after;
    io.iov_len = sizeof after;
    CHECK(trace(GETREGSET, pid, NT_PRSTATUS, (unsigned long)&io) == 0 && io.iov_len == size);
    CHECK(memcmp(before, after, size) == 0);
    io.iov_len = 2 * sizeof(long);
    CHECK(trace(GETREGSET, pid, NT_PRSTATUS, (unsigned long)&io) == 0 && io.iov_len == 2 * sizeof(long));
    CHECK(trace(GETREGSET, pid, 0x7777, (unsigned long)&io) == -1 && errno == EINVAL);

    /* Requests for one kind of registers copy so many bytes, and no more. */
    static const struct {
        int request;
        size_t size;
    } kinds[] = {
#if defined(__x86_64__)
        {12, 27 * 8}, {14, 512},
#elif defined(__arm__)
        {12, 18 * 4}, {27, 32 * 8 + 4},
#elif defined(__powerpc64__)
        {12, 44 * 8}, {14, 33 * 8}, {18, 33 * 16 + 4}, {22, 44 * 8}, {27, 32 * 8},
#endif
        {0, 0},
    };
    unsigned char *bytes = (unsigned char *)after;
    for (int n = 0; kinds[n].size; n++)
        for (int fill = 0; fill < 0x100; fill += 0xff) {
            memset(after, fill, sizeof after);
            CHECK(trace(kinds[n].request, pid, 0, (unsigned long)after) == 0);
            CHECK(bytes[kinds[n].size] == fill && bytes[kinds[n].size + 15] == fill);
        }
    ended(pid);
}

#ifdef __powerpc64__
/* Registers of which each is a set; sets that threads can have and these do not, and sets that none has. */
static void lonely_registers(void) {
    enum { TAR = 0x103, PPR, DSCR, EBB, PMU, TM };
    static const unsigned long values[3] = {0x12345678, 2ul << 50, 3};
    unsigned long got[8];
    pid_t pid = traced(pauses);
    for (int n = TAR; n <= DSCR; n++) {
        struct iovec in = {(void *)&values[n - TAR], 8}, out = {got, sizeof got};
        CHECK(trace(SETREGSET, pid, n, (unsigned long)&in) == 0 && in.iov_len == 8);
        CHECK(trace(GETREGSET, pid, n, (unsigned long)&out) == 0 && out.iov_len == 8);
        CHECK(got[0] == values[n - TAR]);
    }
    struct iovec out = {got, sizeof got};
    CHECK(trace(GETREGSET, pid, EBB, (unsigned long)&out) == -1 && errno == ENODATA);
    CHECK(trace(GETREGSET, pid, TM, (unsigned long)&out) == -1 && errno == ENODEV);
    out.iov_len = 40;
    CHECK(trace(GETREGSET, pid, PMU, (unsigned long)&out) == 0 && out.iov_len == 40);
    /* The USER area has the one, and nothing behind it. */
    CHECK(trace(PEEKUSER, pid, 44 * 8, (unsigned long)got) == 0 && got[0] == 3);
    CHECK(trace(PEEKUSER, pid, 45 * 8, (unsigned long)got) == -1 && errno == EIO);
    CHECK(trace(PEEKUSER, pid, 48 * 8, (unsigned long)got) == 0);
    ended(pid);
}
#endif

/* A tracer that ends: its tracee goes on, or is killed. */
static void tracers_end(void) {
    for (int kills = 0; kills < 2; kills++) {
        pid_t pid = untraced(pauses);
        pid_t tracer = fork();
        if (tracer == 0) {
            int good = trace(SEIZE, pid, 0, kills ? O_EXITKILL : 0) == 0 && trace(INTERRUPT, pid, 0, 0) == 0
                && await(pid) == STATUS(SIGTRAP, STOP_EVENT);
            _exit(good ? 0 : 1);
        }
        CHECK(await(tracer) == 0);
        if (!kills) {
            CHECK(waitpid(pid, NULL, WNOHANG) == 0);
            kill(pid, SIGTERM);
        }
        CHECK(await(pid) == (kills ? SIGKILL : SIGTERM));
    }
}

/* Runs until it is told to end. */
static int reads(void) {
    char byte;
    return read(0, &byte, 1) == 1 ? 5 : 6;
}

/* A child that runs `body`, whose standard input is a pipe of which the other end is `*in`. */
static pid_t with_input(int (*body)(void), int *in) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[0], 0);
        close(ends[0]);
        close(ends[1]);
        _exit(body());
    }
    close(ends[0]);
    *in = ends[1];
    return pid;
}

/* Makes calls until its standard input ends. */
static int asks(void) {
    char byte;
    fcntl(0, F_SETFL, O_NONBLOCK);
    while (read(0, &byte, 1) < 0) usleep(1000);
    return 3;
}

/* A tracer that ends before it has been told of a stop, or of the end of a step. */
static void tracers_end_early(void) {
    int in = -1;
    pid_t pid = with_input(asks, &in);
    pid_t tracer = fork();
    if (tracer == 0) {
        if (trace(SEIZE, pid, 0, SYSGOOD) != 0 || trace(INTERRUPT, pid, 0, 0) != 0) _exit(1);
        if (await(pid) != STATUS(SIGTRAP, STOP_EVENT) || trace(SYSCALL, pid, 0, 0) != 0) _exit(1);
        usleep(50000);
        _exit(0);
    }
    CHECK(await(tracer) == 0);
    close(in);
    CHECK(await(pid) == 3 << 8);
    /* On Linux the trap kills it. */
    if (!is_limen()) return;
    pid = with_input(reads, &in);
    usleep(50000);
    tracer = fork();
    if (tracer == 0) {
        if (trace(SEIZE, pid, 0, 0) != 0 || trace(INTERRUPT, pid, 0, 0) != 0) _exit(1);
        if (await(pid) != STATUS(SIGTRAP, STOP_EVENT) || trace(SINGLESTEP, pid, 0, 0) != 0) _exit(1);
        usleep(50000);
        _exit(0);
    }
    CHECK(await(tracer) == 0 && write(in, "x", 1) == 1 && await(pid) == 5 << 8);
    close(in);
}

/* A child that asks to be traced while its parent ends. It is always waited for. */
static void parents_end(void) {
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    int lost = 0;
    for (int round = 0; round < 100; round++) {
        pid_t parent = fork();
        if (parent == 0) {
            if (fork() == 0) {
                for (volatile int spin = 0; spin < round * 50; spin++) continue;
                trace(TRACEME, 0, 0, 0);
                _exit(7);
            }
            _exit(0);
        }
        CHECK(await(parent) == 0);
        int status = -1;
        /* The other one is ours now. */
        for (int looks = 0; looks < 5000 && waitpid(-1, &status, WNOHANG) == 0; looks++) usleep(1000);
        lost += status != 7 << 8;
    }
    CHECK(lost == 0);
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 0) == 0);
}

/* Who attaches to a stopped process that is continued at the same time does not wait for ever. */
static void attach_and_continue(void) {
    int status, bad = 0;
    pid_t pid = untraced(pauses);
    for (int round = 0; round < 100; round++) {
        kill(pid, SIGSTOP);
        bad += waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status);
        pid_t tracer = fork();
        if (tracer == 0) _exit(trace(ATTACH, pid, 0, 0) == 0 ? 0 : 1);
        for (volatile int spin = 0; spin < round * 200; spin++) continue;
        kill(pid, SIGCONT);
        bad += await(tracer) != 0;
    }
    CHECK(bad == 0);
    ended(pid);
}

static void never_ends(int sig) {
    (void)sig;
    for (;;) continue;
}

/* A stop that a tracer asks for while its tracee is stopped for a signal comes before the handler runs. */
static void interrupted_before_handler(void) {
    struct sigaction action = {.sa_handler = never_ends}, old;
    int status = 0;
    CHECK(sigaction(SIGUSR1, &action, &old) == 0);
    pid_t pid = untraced(pauses);
    CHECK(sigaction(SIGUSR1, &old, NULL) == 0);
    CHECK(trace(SEIZE, pid, 0, 0) == 0 && kill(pid, SIGUSR1) == 0 && await(pid) == STATUS(SIGUSR1, 0));
    CHECK(trace(INTERRUPT, pid, 0, 0) == 0 && trace(CONT, pid, 0, SIGUSR1) == 0);
    CHECK(SOON(waitpid(pid, &status, WNOHANG) == pid) && status == STATUS(SIGTRAP, 128));
    ended(pid);
}

static void *ends_at_once(void *arg) { return arg; }

static int makes_thread(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, ends_at_once, NULL) != 0) return 1;
    pthread_join(thread, NULL);
    return 4;
}

static volatile sig_atomic_t told;

static void counts(int sig) { told += sig == SIGCHLD; }

static int ends(void) { return 0; }

/* A tracer that wants no zombies of its children gets those of its tracees, and hears of each end once. */
static void unwanted(void) {
    struct sigaction action = {.sa_handler = counts, .sa_flags = SA_RESTART | SA_NOCLDWAIT}, old;
    CHECK(sigaction(SIGCHLD, &action, &old) == 0);
    pid_t pid = traced(ends);
    told = 0;
    CHECK(trace(CONT, pid, 0, 0) == 0 && await(pid) == 0 && told == 1 && await(pid) == -1 && errno == ECHILD);
    action.sa_handler = SIG_IGN;
    CHECK(sigaction(SIGCHLD, &action, NULL) == 0);
    pid = traced(makes_thread);
    CHECK(trace(SETOPTIONS, pid, 0, O_CLONE) == 0 && trace(CONT, pid, 0, 0) == 0);
    CHECK(await(pid) == STATUS(SIGTRAP, 3));
    pid_t thread = message(pid);
    CHECK(await(thread) == STATUS(SIGSTOP, 0) && trace(CONT, pid, 0, 0) == 0);
    CHECK(trace(CONT, thread, 0, 0) == 0);
    int status = await(thread);
    CHECK((status == 0 || status == 4 << 8) && await(pid) == 4 << 8);
    /* Whose tracer goes is nobody's. */
    pid = traced(pauses);
    CHECK(trace(DETACH, pid, 0, 0) == 0 && kill(pid, SIGTERM) == 0 && await(pid) == -1 && errno == ECHILD);
    CHECK(sigaction(SIGCHLD, &old, NULL) == 0);
}

static int traces_peer(void) {
    pid_t peer;
    if (read(0, &peer, sizeof peer) != sizeof peer || trace(SEIZE, peer, 0, O_EXIT) != 0) return 1;
    return pauses();
}

/* A child that may do more than its parent cannot be traced by it. */
static void more_rights(void) {
    pid_t parent = fork();
    if (parent == 0) {
        int ends[2], status = -1;
        char byte;
        if (pipe(ends) != 0) _exit(2);
        pid_t pid = fork();
        if (pid == 0) {
            if (read(ends[0], &byte, 1) != 1) _exit(3);
            _exit(trace(TRACEME, 0, 0, 0) == -1 && errno == EPERM ? 0 : 4);
        }
        if (setuid(1000) != 0 || write(ends[1], "x", 1) != 1) _exit(5);
        _exit(waitpid(pid, &status, 0) != pid || status != 0);
    }
    CHECK(parent > 0 && await(parent) == 0);
}

/* Two that trace each other stop at their ends, where nobody can let them go on: on Linux, for ever. */
static void each_other(void) {
    int in[2];
    pid_t pids[2];
    if (!is_limen()) return;
    for (int n = 0; n < 2; n++) pids[n] = with_input(traces_peer, &in[n]);
    for (int n = 0; n < 2; n++) CHECK(write(in[n], &pids[1 - n], sizeof *pids) == sizeof *pids);
    usleep(100000);
    for (int n = 0; n < 2; n++) CHECK(kill(pids[n], SIGKILL) == 0);
    for (int n = 0; n < 2; n++) CHECK(await(pids[n]) == SIGKILL && close(in[n]) == 0);
}

/* The child of one process ends while another traces it: the tracer waits first. */
static void two_who_wait(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t pid = untraced(pauses);
    pid_t tracer = fork();
    if (tracer == 0) {
        char go = trace(SEIZE, pid, 0, 0) == 0;
        if (write(ends[1], &go, 1) != 1) _exit(1);
        int status = await(pid);
        usleep(100000);
        _exit(status == SIGTERM ? 0 : status == STATUS(SIGTERM, 0) && trace(CONT, pid, 0, SIGTERM) == 0
            && await(pid) == SIGTERM ? 0 : 1);
    }
    char go = 0;
    CHECK(read(ends[0], &go, 1) == 1 && go == 1);
    CHECK(kill(pid, SIGTERM) == 0 && await(tracer) == 0 && await(pid) == SIGTERM);
    close(ends[0]);
    close(ends[1]);
}

static void threads(void) {
    pid_t pid = traced(makes_thread);
    CHECK(trace(SETOPTIONS, pid, 0, O_CLONE) == 0 && trace(CONT, pid, 0, 0) == 0);
    CHECK(await(pid) == STATUS(SIGTRAP, 3));
    pid_t thread = message(pid);
    CHECK(thread > pid && await(thread) == STATUS(SIGSTOP, 0));
    CHECK(trace(CONT, pid, 0, 0) == 0 && trace(CONT, thread, 0, 0) == 0);
    /* Its own status, or its process's if that has ended meanwhile. */
    int status = await(thread);
    CHECK((status == 0 || status == 4 << 8) && trace(CONT, thread, 0, 0) == -1 && errno == ESRCH);
    CHECK(await(pid) == 4 << 8);
}

static void kills(void) {
    /* In a stop. */
    pid_t pid = traced(pauses);
    CHECK(kill(pid, SIGKILL) == 0 && await(pid) == SIGKILL);
    /* At the exit event, too. */
    pid = traced(pauses);
    CHECK(trace(SETOPTIONS, pid, 0, O_EXIT) == 0 && kill(pid, SIGKILL) == 0);
    CHECK(await(pid) == STATUS(SIGTRAP, 6) && message(pid) == SIGKILL);
    CHECK(trace(CONT, pid, 0, 0) == 0 && await(pid) == SIGKILL);
}

static void status_line(void) {
    char path[64], text[4096];
    pid_t pid = traced(pauses);
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    close(fd);
    snprintf(path, sizeof path, "\nTracerPid:\t%d\n", getpid());
    CHECK(strstr(text, path) != NULL && strstr(text, "\nState:\tt (tracing stop)\n") != NULL);
    ended(pid);
}

static struct sock_filter allow[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
                                     BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};

static int filters_itself(void) {
    struct sock_fprog program = {2, allow};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 1;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return 1;
    raise(SIGSTOP);
    return 2;
}

static void filters(void) {
    struct sock_filter seen[2];
    pid_t pid = traced(filters_itself);
    CHECK(trace(SECCOMP_GET_FILTER, pid, 0, 0) == -1 && errno == EINVAL);
    CHECK(trace(CONT, pid, 0, 0) == 0 && await(pid) == STATUS(SIGSTOP, 0));
    CHECK(trace(SECCOMP_GET_FILTER, pid, 1, 0) == -1 && errno == ENOENT);
    CHECK(trace(SECCOMP_GET_FILTER, pid, 0, 0) == 2);
    CHECK(trace(SECCOMP_GET_FILTER, pid, 0, 8) == -1 && errno == EFAULT);
    CHECK(trace(SECCOMP_GET_FILTER, pid, 0, (unsigned long)seen) == 2);
    CHECK(memcmp(seen, allow, sizeof seen) == 0);
    CHECK(trace(CONT, pid, 0, 0) == 0 && await(pid) == 2 << 8);
}

static char *thread_pointer(void) {
#ifdef __powerpc64__
    register char *r13 __asm__("r13");
    __asm__("" : "=r"(r13));
    return r13;
#else
    return __builtin_thread_pointer();
#endif
}

static void restartable_sequences(void) {
    struct {
        uint64_t at;
        uint32_t size, signature, flags, pad;
    } area = {.flags = 1, .pad = 1};
    pid_t pid = traced(pauses);
    CHECK(trace(GET_RSEQ_CONFIGURATION, pid, sizeof area, (unsigned long)&area) == 24);
    CHECK(area.at == (unsigned long)(thread_pointer() + __rseq_offset));
    CHECK(area.size >= 20 && area.signature == RSEQ_SIG && area.flags == 0 && area.pad == 0);
    area.size = 0;
    CHECK(trace(GET_RSEQ_CONFIGURATION, pid, 8, (unsigned long)&area) == 24 && area.size == 0);
    ended(pid);
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) return 11;
    alarm(100);
    memory();
    helpers();
    refusals();
    signals();
    group_stops();
    fork_events();
    vfork_events();
    exec_events();
    system_calls();
    registers();
#ifdef __powerpc64__
    lonely_registers();
#endif
    tracers_end();
    tracers_end_early();
    parents_end();
    attach_and_continue();
    interrupted_before_handler();
    unwanted();
    each_other();
    more_rights();
    two_who_wait();
    threads();
    kills();
    status_line();
    filters();
    restartable_sequences();
    return report();
}
