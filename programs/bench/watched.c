/* Calls of threads that something watches: seccomp's filters and listeners, user dispatch. */
#define _GNU_SOURCE
#include "bench.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>
#include <unistd.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif

static int attach(struct sock_filter *program, unsigned short length, unsigned flags) {
    struct sock_fprog described = {length, program};
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    int got = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &described);
    MUST(got >= 0);
    return got;
}

/* The filter allows everything whatever it is. */
static void filter_all(long n) {
    struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    (void)n;
    attach(all, 1, 0);
    MEASURE(2000) syscall(SYS_getppid);
}

/* Fifty instructions run, since the last looks at an argument. */
static void filter_arguments(long n) {
    struct sock_filter program[50];
    const struct sock_filter number = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    (void)n;
    for (unsigned i = 0; i < 46; i += 2) {
        program[i] = number;
        program[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 100000 + i, 47 - i, 0);
    }
    program[46] = number;
    program[47] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args));
    program[48] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 0);
    program[49] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    attach(program, 50, 0);
    MEASURE(2000) syscall(SYS_getppid);
}

/* A process asks, its parent answers: received, answered, and the target goes on. */
static void listener(long n) {
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct seccomp_notif request;
    (void)n;
    /* The parent has the filter as well, and does not make the call. */
    int fd = attach(program, 4, SECCOMP_FILTER_FLAG_NEW_LISTENER);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) syscall(SYS_getppid);
    }
    MEASURE(500) {
        memset(&request, 0, sizeof request);
        MUST(ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &request) == 0);
        struct seccomp_notif_resp response = {.id = request.id, .val = 1};
        MUST(ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &response) == 0);
    }
    kill(child, SIGKILL);
}

static volatile char selector;

/* The selector lets the call pass. */
static void dispatch_allowed(long n) {
    (void)n;
    MUST(prctl(PR_SET_SYSCALL_USER_DISPATCH, 1, 0, 0, &selector) == 0);
    MEASURE(2000) syscall(SYS_getppid);
}

/* It does not: a handler decides what the call returns, here nothing. */
static void on_call(int number) {
    (void)number;
    selector = 0;
}
static void dispatch_blocked(long n) {
    struct sigaction action = {.sa_handler = on_call};
    (void)n;
    sigaction(SIGSYS, &action, NULL);
    MUST(prctl(PR_SET_SYSCALL_USER_DISPATCH, 1, 0, 0, &selector) == 0);
    MEASURE(500) {
        selector = 1;
        syscall(SYS_getppid);
    }
}

const struct row watched_rows[] = {
    {"filter-all", filter_all, 0},
    {"filter-arguments", filter_arguments, 0},
    {"listener", listener, 0},
    {"dispatch-allowed", dispatch_allowed, 0},
    {"dispatch-blocked", dispatch_blocked, 0},
    {0, 0, 0},
};
