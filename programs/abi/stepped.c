/*
 * ptrace: single steps, over calls and forks, into handlers and back, into other programs. The same on Limen
 * and on Linux, which has none on 32-bit Arm. Called by tools/limen/src/test/programs.rs, on every
 * architecture.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <signal.h>
#include <sys/uio.h>

#include "tracer.h"

/* Where the kernel steps: on 32-bit Arm only Limen does. */
#ifdef __arm__
#define STEPS is_limen()
#else
#define STEPS 1
#endif
/* Where the next instruction's address is in NT_PRSTATUS. */
#ifdef __x86_64__
#define IP 16
#elif defined(__arm__)
#define IP 15
/* What of a function's address says which instructions are there. */
#define CODE 1ul
#else
#define IP 32
#endif
#ifndef CODE
#define CODE 0ul
#endif

static volatile unsigned long word = 0x1234;

static int calls(void) {
    syscall(SYS_getppid);
    return 0;
}

static int execs(void) {
    execl("/proc/self/exe", "stepped", "exits", (char *)NULL);
    return 1;
}

static void steps(void) {
    unsigned long registers[64], last = 0;
    pid_t pid = traced(calls);
    for (int n = 0; n < 20; n++) {
        struct iovec io = {registers, sizeof registers};
        siginfo_t info;
        CHECK(trace(SINGLESTEP, pid, 0, 0) == 0 && await(pid) == STATUS(SIGTRAP, 0));
        CHECK(trace(GETREGSET, pid, NT_PRSTATUS, (unsigned long)&io) == 0);
        CHECK(trace(GETSIGINFO, pid, 0, (unsigned long)&info) == 0 && info.si_signo == SIGTRAP);
        unsigned long ip = registers[IP];
#ifdef __x86_64__
        CHECK((registers[18] & 0x100) == 0);
#elif defined(__aarch64__)
        CHECK((registers[33] & 1 << 21) == 0);
#endif
        CHECK(ip != last);
        last = ip;
    }
    CHECK(trace(CONT, pid, 0, 0) == 0 && await(pid) == 0);
}

static int clones(void) {
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) _exit(5);
    int status = -1;
    return waitpid(pid, &status, 0) == pid && status == 5 << 8 ? 6 : 9;
}

/* The child of who is stepped through is not stepped through. */
static void steps_over_fork(void) {
    pid_t pid = traced(clones);
    int status = STATUS(SIGTRAP, 0);
    for (int n = 0; n < 100000 && WIFSTOPPED(status); n++) {
        unsigned long sig = WSTOPSIG(status) == SIGTRAP ? 0 : (unsigned long)WSTOPSIG(status);
        if (trace(SINGLESTEP, pid, 0, sig) != 0) break;
        status = await(pid);
    }
    CHECK(status == 6 << 8);
}

static void notes(int sig) { word = (unsigned long)sig; }

static int handles(void) {
    signal(SIGUSR1, notes);
    raise(SIGUSR1);
    return (int)word;
}

/* A step into a handler ends at its first instruction, and what the handler returns to is not stepped. */
static void steps_into_handler(void) {
    unsigned long registers[64];
    struct iovec io = {registers, sizeof registers};
    siginfo_t info;
    pid_t pid = traced(handles);
    CHECK(trace(CONT, pid, 0, 0) == 0 && await(pid) == STATUS(SIGUSR1, 0));
    CHECK(trace(SINGLESTEP, pid, 0, SIGUSR1) == 0 && await(pid) == STATUS(SIGTRAP, 0));
    CHECK(trace(GETSIGINFO, pid, 0, (unsigned long)&info) == 0 && info.si_code == SIGTRAP);
    CHECK(trace(GETREGSET, pid, NT_PRSTATUS, (unsigned long)&io) == 0);
    CHECK(registers[IP] == ((unsigned long)notes & ~CODE));
    CHECK(trace(SINGLESTEP, pid, 0, 0) == 0 && await(pid) == STATUS(SIGTRAP, 0));
    CHECK(trace(GETREGSET, pid, NT_PRSTATUS, (unsigned long)&io) == 0);
    CHECK(registers[IP] != ((unsigned long)notes & ~CODE));
    CHECK(trace(CONT, pid, 0, 0) == 0 && await(pid) == SIGUSR1 << 8);
}

/* Steps to the end: into a handler and back from it, and into another program. (A program begins with atomic
 * operations, whose loops do not end if each step ends their reservation.) */
static void steps_all_the_way(void) {
    int (*const bodies[])(void) = {handles, execs};
    const int ends_with[] = {SIGUSR1 << 8, 11 << 8};
#if defined(__x86_64__) || defined(__arm__)
    const int count_of = 2;
#else
    const int count_of = 1;
#endif
    for (int n = 0; n < count_of; n++) {
        pid_t pid = traced(bodies[n]);
        int status = STATUS(SIGTRAP, 0), handler = 0;
        for (int count = 0; count < 200000 && WIFSTOPPED(status); count++) {
            unsigned long registers[64];
            struct iovec io = {registers, sizeof registers};
            unsigned long sig = WSTOPSIG(status) == SIGTRAP ? 0 : (unsigned long)WSTOPSIG(status);
            if (trace(SINGLESTEP, pid, 0, sig) != 0) break;
            status = await(pid);
            if (WIFSTOPPED(status) && trace(GETREGSET, pid, NT_PRSTATUS, (unsigned long)&io) == 0)
                handler += registers[IP] == ((unsigned long)notes & ~CODE);
        }
        CHECK(status == ends_with[n] && handler == (n == 0));
    }
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) return 11;
    alarm(100);
    if (STEPS) {
        steps();
        steps_over_fork();
        steps_into_handler();
        steps_all_the_way();
    }
    return report();
}
