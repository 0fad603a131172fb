/*
 * ptrace and what is beside the tracee: its process's other threads and signals, the first process, memory
 * that others change meanwhile. The same on Limen and on Linux. Called by
 * tools/limen/src/test/programs.rs, on every architecture.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <time.h>

#include "tracer.h"

/* What the tracer and its tracees share. */
static struct {
    volatile int tid, taken, ready, quit;
} *shared;

static void *waits_for_usr1(void *unused) {
    shared->ready = 1;
    pauses();
    return unused;
}

static void takes(int sig) {
    (void)sig;
    shared->taken = (int)syscall(SYS_gettid);
}

static int has_two_threads(void) {
    pthread_t thread;
    signal(SIGUSR1, takes);
    if (pthread_create(&thread, NULL, waits_for_usr1, NULL) != 0) return 1;
    return pauses();
}

static int soon(volatile int *what) {
    for (int n = 0; n < 500 && !*what; n++) usleep(10000);
    return *what;
}

/* A signal for the process goes to a thread that can take it, not to one that its tracer has stopped. */
static void goes_to_another_thread(void) {
    shared->taken = shared->ready = 0;
    pid_t pid = untraced(has_two_threads);
    CHECK(soon(&shared->ready));
    usleep(50000);
    CHECK(trace(SEIZE, pid, 0, 0) == 0 && trace(INTERRUPT, pid, 0, 0) == 0);
    CHECK(await(pid) == STATUS(SIGTRAP, STOP_EVENT));
    CHECK(kill(pid, SIGUSR1) == 0);
    CHECK(soon(&shared->taken) && shared->taken != pid);
    ended(pid);
}

/* `SIGCONT` cancels a stop that the tracer has still to pass on, whatever other threads take meanwhile. */
static int stays(void) {
    pthread_t thread;
    /* SIGTSTP does not stop an orphaned group. */
    setpgid(0, 0);
    signal(SIGUSR1, takes);
    if (pthread_create(&thread, NULL, waits_for_usr1, NULL) != 0) return 1;
    while (!shared->quit) usleep(10000);
    return 7;
}

static pid_t other_thread(pid_t pid) {
    for (pid_t tid = pid + 1; tid < pid + 100; tid++)
        if (syscall(SYS_tgkill, pid, tid, 0) == 0) return tid;
    return 0;
}

static void cancelled_stop(void) {
    int status;
    shared->ready = shared->quit = shared->taken = 0;
    pid_t pid = untraced(stays);
    CHECK(soon(&shared->ready));
    pid_t other = other_thread(pid);
    CHECK(trace(SEIZE, pid, 0, 0) == 0 && trace(SEIZE, other, 0, 0) == 0);
    CHECK(syscall(SYS_tgkill, pid, pid, SIGTSTP) == 0 && await(pid) == STATUS(SIGTSTP, 0));
    CHECK(kill(pid, SIGCONT) == 0);
    CHECK(syscall(SYS_tgkill, pid, other, SIGUSR1) == 0);
    /* The other thread stops for what came of the SIGCONT and for its signal. */
    for (int n = 0; n < 500 && !shared->taken; n++) {
        usleep(10000);
        if (waitpid(other, &status, __WALL | WNOHANG) != other) continue;
        CHECK(WIFSTOPPED(status));
        CHECK(trace(CONT, other, 0, status >> 16 == 0 ? (unsigned long)WSTOPSIG(status) : 0) == 0);
    }
    CHECK(shared->taken == other);
    CHECK(trace(CONT, pid, 0, SIGTSTP) == 0);
    shared->quit = 1;
    /* They go on to their end. Before that they may stop to tell of the SIGCONT, but for no stop signal. */
    int last = -1;
    for (pid_t who; (who = waitpid(-1, &status, __WALL)) > 0;) {
        if (WIFSTOPPED(status)) {
            CHECK(WSTOPSIG(status) == SIGTRAP || WSTOPSIG(status) == SIGCONT);
            trace(CONT, who, 0, 0);
        } else if (who == pid) {
            last = status;
        }
    }
    CHECK(last == 7 << 8);
}

/* Requests to a stopped tracee work, however often `SIGCONT` is sent to it. */
static void continued_again_and_again(void) {
    pid_t pid = traced(pauses), sender = fork();
    if (sender == 0) {
        while (kill(pid, SIGCONT) == 0) continue;
        _exit(0);
    }
    unsigned long registers[64];
    int failed = 0;
    for (int n = 0; n < 20000; n++) {
        struct iovec io = {registers, sizeof registers};
        failed += trace(GETREGSET, pid, NT_PRSTATUS, (unsigned long)&io) != 0;
    }
    CHECK(failed == 0);
    kill(sender, SIGKILL);
    waitpid(sender, NULL, 0);
    ended(pid);
}

/* What the tracer writes while the tracee forks and writes to the same page. */
static unsigned long page[8192 / sizeof(unsigned long)] __attribute__((aligned(4096)));

static void *writes(void *unused) {
    volatile unsigned long *other = &page[64];
    while (!shared->quit) ++*other;
    return unused;
}

static int forks(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, writes, NULL) != 0) return 1;
    shared->ready = 1;
    while (!shared->quit) {
        pid_t pid = fork();
        if (pid == 0) _exit(0);
        waitpid(pid, NULL, 0);
    }
    return 0;
}

static void written_while_forking(void) {
    shared->ready = shared->quit = 0;
    prctl(PR_SET_DUMPABLE, 1);
    pid_t pid = untraced(forks);
    CHECK(soon(&shared->ready));
    int lost = 0;
    time_t end = time(NULL) + 20;
    for (unsigned long n = 1; n <= 60000 && time(NULL) < end; n++) {
        unsigned long now = 0;
        struct iovec from = {&n, sizeof n}, to = {&page[0], sizeof n}, back = {&now, sizeof now};
        if (process_vm_writev(pid, &from, 1, &to, 1, 0) != sizeof n) break;
        if (process_vm_readv(pid, &back, 1, &to, 1, 0) != sizeof n) break;
        lost += now != n;
    }
    CHECK(lost == 0);
    shared->quit = 1;
    CHECK(await(pid) == 0);
}

/* The first process is not killed by `PTRACE_KILL`, nor by anything after its tracer stepped it. */
static void steps_the_first(void) {
    int status;
    if (geteuid() != 0 || trace(SEIZE, 1, 0, 0) != 0) return;
    CHECK(trace(INTERRUPT, 1, 0, 0) == 0);
    CHECK(waitpid(1, &status, __WALL) == 1 && status == STATUS(SIGTRAP, STOP_EVENT));
    CHECK(trace(KILL, 1, 0, 0) == 0);
#ifndef __arm__
    CHECK(trace(SINGLESTEP, 1, 0, 0) == 0);
    usleep(100000);
    /* It may be in a call, which the step does not end. */
    if (waitpid(1, &status, __WALL | WNOHANG) != 1) {
        CHECK(trace(INTERRUPT, 1, 0, 0) == 0 && waitpid(1, &status, __WALL) == 1);
    }
    CHECK(WIFSTOPPED(status));
#endif
    CHECK(trace(DETACH, 1, 0, 0) == 0);
    /* It is as unkillable as before. */
    CHECK(kill(1, SIGTERM) == 0 && kill(1, SIGKILL) == 0);
    usleep(100000);
    CHECK(kill(1, 0) == 0);
}

static int calls(void) {
    for (int n = 0; n < 3; n++) syscall(SYS_getppid);
    return 0;
}

/* What a single step over a system call says. */
static void step_over_call(void) {
#ifdef __arm__
    /* Linux has no steps there. */
    if (!is_limen()) return;
#endif
    int found = 0, status = STATUS(SIGTRAP, 0);
    siginfo_t info;
    pid_t pid = traced(calls);
    for (int n = 0; n < 400 && WIFSTOPPED(status); n++) {
        if (trace(SINGLESTEP, pid, 0, 0) != 0) break;
        status = await(pid);
        if (!WIFSTOPPED(status) || trace(GETSIGINFO, pid, 0, (unsigned long)&info) != 0) break;
#ifdef __x86_64__
        found += info.si_code == TRAP_BRKPT;
#else
        found += info.si_code == SI_USER && info.si_pid == 0;
#endif
    }
    CHECK(found >= 3);
    if (WIFSTOPPED(status)) ended(pid);
}

#ifdef __x86_64__
#include <asm/prctl.h>
#include <sys/user.h>

static int cannot_tell_time(void) {
    prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
    raise(SIGUSR2);
    int how = 0;
    prctl(PR_GET_TSC, &how);
    return how == PR_TSC_SIGSEGV ? 3 : 4;
}

/* Segments: their bases by `PTRACE_ARCH_PRCTL`, and selectors that have nothing of the kernel's. */
static void segments(void) {
    struct user_regs_struct registers;
    struct iovec io = {&registers, sizeof registers};
    unsigned long base = 1;
    pid_t pid = traced(cannot_tell_time);
    CHECK(trace(CONT, pid, 0, 0) == 0 && await(pid) == STATUS(SIGUSR2, 0));
    CHECK(trace(GETREGSET, pid, NT_PRSTATUS, (unsigned long)&io) == 0);
    CHECK(registers.ds == 0 && registers.es == 0);
    CHECK(trace(30, pid, (unsigned long)&base, ARCH_GET_FS) == 0 && base == registers.fs_base);
    CHECK(trace(30, pid, (unsigned long)&base, ARCH_GET_GS) == 0 && base == 0);
    CHECK(trace(30, pid, 0x1000, ARCH_SET_GS) == 0);
    CHECK(trace(30, pid, (unsigned long)&base, ARCH_GET_GS) == 0 && base == 0x1000);
    CHECK(trace(30, pid, ~0ul, ARCH_SET_GS) == -1 && errno == EPERM);
    CHECK(trace(30, pid, 0, 0x9999) == -1 && errno == EINVAL);
    CHECK(trace(30, pid, 8, ARCH_GET_FS) == -1 && errno == EFAULT);
    CHECK(trace(SETREGSET, pid, NT_PRSTATUS, (unsigned long)&io) == 0);
    CHECK(trace(CONT, pid, 0, 0) == 0 && await(pid) == 3 << 8);
}
#endif

int main(void) {
    alarm(100);
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 1;
    goes_to_another_thread();
    cancelled_stop();
    continued_again_and_again();
    written_while_forking();
    steps_the_first();
    step_over_call();
#ifdef __x86_64__
    segments();
#endif
    return report();
}
