/*
 * What kernels once did wrong where programs enter and leave them (docs/entry.md), as a program sees it:
 * calls that a tracer emulates, returns from handlers that look like interrupted calls, calls that are none,
 * the number of a call that runs again. The same on Limen and on Linux. Called by
 * tools/limen/src/test/programs.rs, on every architecture.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "seccomp.h"
#include "tracer.h"

#include "common.h"

#define CALL_STOP STATUS(SIGTRAP | 0x80, 0)
/* Not an error that a call can have: the code of an interrupted one. */
#define RESTART 512

/* The requests for emulation, two numbers that are none here, and where a result is among the registers. */
#if defined(__x86_64__)
enum { EMULATE = 31, NONE = 29, NONE_TOO = 0x22, WORDS = 27, RESULT = 10 };
#define PC(context) (context)->uc_mcontext.gregs[REG_RIP]
#define VALUE(context) (context)->uc_mcontext.gregs[REG_RAX]
#elif defined(__aarch64__)
enum { EMULATE = 31, NONE = 29, NONE_TOO = 30, WORDS = 34, RESULT = 0 };
#define PC(context) (context)->uc_mcontext.pc
#define VALUE(context) (context)->uc_mcontext.regs[0]
#elif defined(__arm__)
/* 31 is PTRACE_GETFDPIC, for a kernel that has such programs. Linux has no emulation here. */
enum { EMULATE = 32, NONE = 31, NONE_TOO = 34, WORDS = 18, RESULT = 0 };
#define PC(context) (context)->uc_mcontext.arm_pc
#define VALUE(context) (context)->uc_mcontext.arm_r0
#else
enum { EMULATE = 29, NONE = 31, NONE_TOO = 32, WORDS = 48, RESULT = 3 };
#define PC(context) (context)->uc_mcontext.gp_regs[32]
#define VALUE(context) (context)->uc_mcontext.gp_regs[3]
#endif

#ifdef __arm__
#define EMULATES is_limen()
#else
#define EMULATES 1
#endif

/* --- emulated calls: whether a call is emulated was decided before its tracer was told of it */

static int masks(void) {
    pid_t self = getpid();
    umask(022);
    syscall(SYS_kill, self, SIGSTOP);
    long first = syscall(SYS_umask, 07), second = syscall(SYS_umask, 05), third = syscall(SYS_umask, 03);
    /* Which of the first two ran is seen by what the next one finds. */
    if (third == 05 && second == 022 && first == 044) return 1;
    if (third == 07 && first == 022 && second == 044) return 2;
    if (third == 022 && first == 044 && second == 044) return 3;
    return 4;
}

/* A child that is about to make these calls. */
static pid_t about_to(void) {
    pid_t pid = traced(masks);
    CHECK(trace(SETOPTIONS, pid, 0, SYSGOOD) == 0 && trace(CONT, pid, 0, 0) == 0);
    CHECK(await(pid) == STATUS(SIGSTOP, 0));
    return pid;
}

/* It goes on by `request`, and stops at a call: on its way in (1) or out (2). */
static void to_call(pid_t pid, long request, unsigned long way) {
    CHECK(trace(request, pid, 0, 0) == 0 && await(pid) == CALL_STOP && message(pid) == way);
}

static void result(pid_t pid, unsigned long value) {
    unsigned long registers[WORDS];
    struct iovec io = {registers, sizeof registers};
    CHECK(trace(GETREGSET, pid, NT_PRSTATUS, (unsigned long)&io) == 0);
    registers[RESULT] = value;
    CHECK(trace(SETREGSET, pid, NT_PRSTATUS, (unsigned long)&io) == 0);
}

static void ends_with(pid_t pid, int status) {
    CHECK(trace(CONT, pid, 0, 0) == 0 && await(pid) == status << 8);
}

static void emulation(void) {
    if (!EMULATES) return;
    /* No longer wanted at the stop: this call is emulated all the same, the next is not. */
    pid_t pid = about_to();
    to_call(pid, EMULATE, 1);
    result(pid, 044);
    ends_with(pid, 1);
    /* Calls are traced from then on: this one's end as well. */
    pid = about_to();
    to_call(pid, EMULATE, 1);
    result(pid, 044);
    to_call(pid, SYSCALL, 2);
    ends_with(pid, 1);
    /* Wanted only at the stop: this call runs, its end is no stop, and the next is emulated. */
    pid = about_to();
    to_call(pid, SYSCALL, 1);
    to_call(pid, EMULATE, 1);
    result(pid, 044);
    ends_with(pid, 2);
    /* Wanted throughout. */
    pid = about_to();
    to_call(pid, EMULATE, 1);
    result(pid, 044);
    to_call(pid, EMULATE, 1);
    result(pid, 044);
    ends_with(pid, 3);
}

/* Another architecture's numbers for it are not taken for it. */
static void numbers(void) {
    pid_t pid = about_to();
    CHECK(trace(NONE, pid, 0, 0) == -1 && errno == EIO);
    CHECK(trace(NONE_TOO, pid, 0, 0) == -1 && errno == EIO);
    /* It still stands where it stood. */
    CHECK(waitpid(pid, NULL, WNOHANG | __WALL) == 0);
    to_call(pid, SYSCALL, 1);
    ended(pid);
}

/* --- a return from a handler is no call, whatever it leaves where results are */

static volatile unsigned long went_on, came_at, came_with, left;
static volatile int also, times;

/* SIGUSR1's: the call that it interrupted had a result, and now has one that asks for the call once more. */
static void leaves_code(int sig, siginfo_t *info, void *data) {
    ucontext_t *context = data;
    (void)sig, (void)info;
    times++;
    went_on = PC(context);
    VALUE(context) = -RESTART;
#ifdef __powerpc64__
    /* The older of the two instructions for calls has errors positive, and says so by a condition. */
    if ((context->uc_mcontext.gp_regs[40] & 0xfff0) != 0x3000) {
        VALUE(context) = RESTART;
        context->uc_mcontext.gp_regs[38] |= 1ul << 28;
    }
#endif
    left = VALUE(context);
    /* Comes when this handler returns. */
    if (also != 0) kill(getpid(), also);
}

static void sees_code(int sig, siginfo_t *info, void *data) {
    ucontext_t *context = data;
    (void)sig, (void)info;
    came_at = PC(context);
    came_with = VALUE(context);
}

static void no_second_restart(void) {
    /* One that has a handler, two that are ignored without one, none. */
    static const int signals[] = {SIGUSR2, SIGWINCH, SIGCONT, 0};
    struct sigaction leaves = {.sa_sigaction = leaves_code, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct sigaction sees = {.sa_sigaction = sees_code, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigfillset(&leaves.sa_mask);
    CHECK(sigaction(SIGUSR1, &leaves, NULL) == 0 && sigaction(SIGUSR2, &sees, NULL) == 0);
    for (size_t n = 0; n < COUNT(signals); n++) {
        also = signals[n];
        times = 0;
        came_at = came_with = 0;
        errno = 0;
        CHECK(syscall(SYS_kill, getpid(), SIGUSR1) == -1 && errno == RESTART);
        CHECK(times == 1);
        if (also == SIGUSR2) CHECK(came_at == went_on && came_with == left);
    }
}

/* --- what is no call, and who gives it a result */

#ifndef __arm__
static int none(void) {
    pid_t self = getpid();
    syscall(SYS_kill, self, SIGSTOP);
    errno = 0;
    long value = syscall(-1);
    return value == -1 ? errno : (int)value;
}
#endif

static void no_call(void) {
    /* On 32-bit Arm it is no number at all, but an instruction that is none. */
#ifndef __arm__
    errno = 0;
    CHECK(syscall(-1) == -1 && errno == ENOSYS);
    /* A tracer that only looks. */
    pid_t pid = traced(none);
    CHECK(trace(SETOPTIONS, pid, 0, SYSGOOD) == 0 && trace(CONT, pid, 0, 0) == 0);
    CHECK(await(pid) == STATUS(SIGSTOP, 0));
    to_call(pid, SYSCALL, 1);
    to_call(pid, SYSCALL, 2);
    ends_with(pid, ENOSYS);
    /* One that gives it a result, which it has, but on powerpc64. */
    pid = traced(none);
    CHECK(trace(SETOPTIONS, pid, 0, SYSGOOD) == 0 && trace(CONT, pid, 0, 0) == 0);
    CHECK(await(pid) == STATUS(SIGSTOP, 0));
    to_call(pid, SYSCALL, 1);
    result(pid, 99);
#ifdef __powerpc64__
    ends_with(pid, ENOSYS);
#else
    ends_with(pid, 99);
#endif
#endif
    /* A filter's result is that of the call, even if the number is none: nothing, a value, an error. */
    static const int results[] = {0, EPERM, 99};
    for (size_t n = 0; n < COUNT(results); n++) {
        pid_t child = fork();
        if (child == 0) {
            if (no_new_privs() != 0 || attach_for(0, -1, SECCOMP_RET_ERRNO | results[n]) != 0) _exit(200);
            errno = 0;
            long value = syscall(-1);
            _exit(results[n] == 0 ? value != 0 : value != -1 || errno != results[n]);
        }
        CHECK(child_good(child));
    }
}

/* --- a call that runs again with the time that is left is restart_syscall, to filters as well */

static int sleeps(void) {
    struct timespec nap = {5, 0};
    if (no_new_privs() != 0 || attach_for(0, SYS_restart_syscall, SECCOMP_RET_ERRNO | 77) != 0) return 200;
    return syscall(SYS_nanosleep, &nap, NULL) == -1 ? errno : 0;
}

static void restarted_number(void) {
    int status = -1;
    pid_t pid = untraced(sleeps);
    CHECK(SOON(thread_state(pid) == 'S') && kill(pid, SIGSTOP) == 0);
    CHECK(waitpid(pid, &status, WUNTRACED) == pid && status == STATUS(SIGSTOP, 0));
    CHECK(kill(pid, SIGCONT) == 0 && await(pid) == 77 << 8);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    alarm(100);
    emulation();
    numbers();
    no_second_restart();
    no_call();
    restarted_number();
    return report();
}
