/* What tests of ptrace have in common: requests, and children that are traced. */
#pragma once
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* The requests, as the kernel numbers them: headers do not agree on how to declare them. */
#define TRACEME 0
#define PEEKDATA 2
#define PEEKUSER 3
#define POKEDATA 5
#define POKEUSER 6
#define CONT 7
#define KILL 8
#define SINGLESTEP 9
#define ATTACH 16
#define DETACH 17
#define SYSCALL 24
#define SETOPTIONS 0x4200
#define GETEVENTMSG 0x4201
#define GETSIGINFO 0x4202
#define SETSIGINFO 0x4203
#define GETREGSET 0x4204
#define SETREGSET 0x4205
#define SEIZE 0x4206
#define INTERRUPT 0x4207
#define LISTEN 0x4208
#define PEEKSIGINFO 0x4209
#define GETSIGMASK 0x420a
#define SETSIGMASK 0x420b
#define SECCOMP_GET_FILTER 0x420c
#define GET_SYSCALL_INFO 0x420e
#define GET_RSEQ_CONFIGURATION 0x420f

#define SYSGOOD 1
#define O_FORK 2
#define O_VFORK 4
#define O_CLONE 8
#define O_EXEC 0x10
#define O_VFORK_DONE 0x20
#define O_EXIT 0x40
#define O_EXITKILL 0x100000
#define STOP_EVENT 128
#define STATUS(signal, event) ((event) << 16 | (signal) << 8 | 0x7f)

static inline long trace(long request, pid_t pid, unsigned long addr, unsigned long data) {
    return syscall(SYS_ptrace, request, pid, addr, data);
}

static inline int await(pid_t pid) {
    int status = -1;
    return waitpid(pid, &status, __WALL) == pid ? status : -1;
}

static inline unsigned long message(pid_t pid) {
    unsigned long value = ~0ul;
    trace(GETEVENTMSG, pid, 0, (unsigned long)&value);
    return value;
}

/* A child that its parent traces, stopped, and that runs `body` when it goes on. */
static inline pid_t traced(int (*body)(void)) {
    pid_t pid = fork();
    if (pid == 0) {
        if (trace(TRACEME, 0, 0, 0) != 0) _exit(99);
        raise(SIGSTOP);
        _exit(body());
    }
    CHECK(await(pid) == STATUS(SIGSTOP, 0));
    return pid;
}

/* A child that nobody traces. */
static inline pid_t untraced(int (*body)(void)) {
    pid_t pid = fork();
    if (pid == 0) _exit(body());
    return pid;
}

static inline int pauses(void) {
    while (pause() < 0) continue;
    return 0;
}

static inline void ended(pid_t pid) {
    kill(pid, SIGKILL);
    CHECK(await(pid) == SIGKILL);
}

static inline int is_limen(void) {
    struct utsname name;
    return uname(&name) == 0 && strstr(name.version, "Limen") != NULL;
}
