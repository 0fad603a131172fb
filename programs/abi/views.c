/*
 * Views of the system call table (docs/views.md): a thread that has only some calls, for good. Called by
 * tools/limen/src/test/programs.rs, on every architecture. Linux has nothing like it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include "check.h"
#include "common.h"

enum { SET_VIEW = 0x4c560001, GET_VIEW = 0x4c560002, LIST = 0, SPU = 1, SIGNAL = 1 };

static unsigned char all[64];

static void leave_out(unsigned char *list, int number) { list[number / 8] &= ~(1 << number % 8); }

/* A list without getppid, and without getuid. */
static int narrow(int without_uid, unsigned long flags) {
    unsigned char list[64];
    memcpy(list, all, sizeof list);
    leave_out(list, SYS_getppid);
    if (without_uid) leave_out(list, SYS_getuid);
    return prctl(SET_VIEW, LIST, list, sizeof list, flags);
}

static int absent(long number) {
    errno = 0;
    return syscall(number) == -1 && errno == ENOSYS;
}

static void *in_thread(void *arg) {
    (void)arg;
    CHECK(absent(SYS_getppid) && syscall(SYS_getpid) == getpid());
    /* A thread's own choice does not change its siblings'. */
    CHECK(narrow(1, 0) == 0 && absent(SYS_getuid));
    return NULL;
}

static void lists(void) {
    unsigned char shown[64];
    CHECK(prctl(GET_VIEW, shown, sizeof shown, 0, 0) == 0);
    CHECK(narrow(0, 2) == -1 && errno == EINVAL);
    CHECK(prctl(SET_VIEW, LIST, all, 65, 0) == -1 && errno == EINVAL);
    CHECK(prctl(SET_VIEW, LIST, 4, 64, 0) == -1 && errno == EFAULT);
    CHECK(prctl(SET_VIEW, 2, all, 64, 0) == -1 && errno == EINVAL);
    CHECK(getppid() > 0 && narrow(0, 0) == 0 && absent(SYS_getppid) && syscall(SYS_getuid) == 0);
    CHECK(prctl(GET_VIEW, shown, sizeof shown, 0, 0) == 1);
    CHECK(!(shown[SYS_getppid / 8] >> SYS_getppid % 8 & 1) && shown[SYS_getpid / 8] >> SYS_getpid % 8 & 1);
    /* What is gone stays gone. */
    CHECK(prctl(SET_VIEW, LIST, all, 64, 0) == 0 && absent(SYS_getppid));
    pthread_t other;
    CHECK(pthread_create(&other, NULL, in_thread, NULL) == 0 && pthread_join(other, NULL) == 0);
    CHECK(syscall(SYS_getuid) == 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK(absent(SYS_getppid));
        execl("/proc/self/exe", "views", "again", NULL);
        _exit(99);
    }
    CHECK(child_good(child));
    /* A call that is interrupted goes on. */
    child = fork();
    if (child == 0) {
        memset(all, 0, sizeof all);
        int few[] = {SYS_exit_group, SYS_clock_nanosleep};
        for (unsigned i = 0; i < sizeof few / sizeof *few; i++) all[few[i] / 8] |= 1 << few[i] % 8;
        struct timespec time = {5, 0};
        if (prctl(SET_VIEW, LIST, all, 64, 0) != 0) _exit(1);
        _exit(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &time, &time) != 0);
    }
    CHECK(SOON(thread_state(child) == 'S'));
    CHECK(kill(child, SIGSTOP) == 0 && SOON(thread_state(child) == 'T') && kill(child, SIGCONT) == 0);
    CHECK(child_good(child));
}

static volatile int number, code, error;

static void on_signal(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    number = info->si_syscall, code = info->si_code, error = info->si_errno;
}

static void signals(void) {
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSYS, &action, NULL) == 0 && narrow(0, SIGNAL) == 0);
    syscall(SYS_getppid);
    CHECK(number == SYS_getppid && code == 1 && error == ENOSYS);
    unsigned char shown[64];
    CHECK(prctl(GET_VIEW, shown, sizeof shown, 0, 0) == 3);
}

static void rights(void) {
    CHECK(setuid(1000) == 0 && narrow(0, 0) == -1 && errno == EACCES);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && narrow(0, 0) == 0 && absent(SYS_getppid));
}

static void coprocessor(void) {
#ifdef __powerpc64__
    unsigned char shown[64];
    CHECK(prctl(SET_VIEW, SPU, all, 64, 0) == -1 && errno == EINVAL);
    CHECK(prctl(SET_VIEW, SPU, 0, 0, 0) == 0 && syscall(SYS_getpid) > 0 && syscall(SYS_getuid) == 0);
    CHECK(absent(SYS_execve) && absent(SYS_mount) && absent(SYS_rt_sigaction) && absent(SYS_clone));
    CHECK(prctl(GET_VIEW, shown, sizeof shown, 0, 0) == 1 && shown[SYS_read / 8] >> SYS_read % 8 & 1);
    /* Not even this. */
    errno = 0;
    syscall(SYS_exit_group, 1);
    CHECK(errno == ENOSYS);
    fflush(stdout);
    /* The one way out that it has. */
    kill(getpid(), failed ? SIGTERM : SIGKILL);
#else
    CHECK(prctl(SET_VIEW, SPU, 0, 0, 0) == -1 && errno == EINVAL);
#endif
}

/* Each in a process of its own, since nothing is undone. */
static void apart(void (*test)(void), int status_wanted) {
    int status = -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        test();
        fflush(stdout);
        _exit(failed);
    }
    CHECK(waitpid(child, &status, 0) == child && status == status_wanted);
}

int main(int argc, char **argv) {
    memset(all, 0xff, sizeof all);
    if (argc > 1 && strcmp(argv[1], "again") == 0) {
        CHECK(absent(SYS_getppid));
        return failed;
    }
    if (prctl(GET_VIEW, all, 0, 0, 0) == -1) {
        CHECK(errno == EINVAL);
        return report();
    }
    apart(lists, 0);
    apart(signals, 0);
    apart(rights, 0);
#ifdef __powerpc64__
    apart(coprocessor, SIGKILL);
#else
    apart(coprocessor, 0);
#endif
    return report();
}
