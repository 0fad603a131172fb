/* PID namespaces: numbers at every border, the first process of one and its end, joining, chosen numbers. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/reboot.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "common.h"

#define FAILS(call, error) CHECK((errno = 0, (long)(call) == -1 && errno == (error)))

#ifndef __NR_clone3
#define __NR_clone3 435
#endif
#ifndef __NR_pidfd_open
#define __NR_pidfd_open 434
#endif
#ifndef __NR_pidfd_send_signal
#define __NR_pidfd_send_signal 424
#endif
#define PIDFD 3
#define GET_PID_FROM _IOR(0xb7, 6, int)
#define GET_TGID_FROM _IOR(0xb7, 7, int)
#define GET_PID_IN _IOR(0xb7, 8, int)
#define GET_TGID_IN _IOR(0xb7, 9, int)

struct arguments {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size,
        cgroup;
};

/* What parents and children tell each other. */
static struct { volatile int go, value[8]; } *shared;

static pid_t clone_with(unsigned long flags) { return syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0); }
static pid_t tid(void) { return syscall(SYS_gettid); }

static pid_t clone3(uint64_t flags, const pid_t *tids, size_t count) {
    struct arguments args = { .flags = flags, .exit_signal = SIGCHLD,
        .set_tid = (uintptr_t)tids, .set_tid_size = count };
    return syscall(__NR_clone3, &args, sizeof args);
}

static void end(void) { _exit(failed != 0); }

/* Runs `what` as the first process of a namespace; `flags` are further ones. Gives its number here. */
static pid_t in_new(void (*what)(void), unsigned long flags) {
    fflush(stdout);
    pid_t child = clone_with(CLONE_NEWPID | flags);
    if (child == 0) {
        failed = made = 0;
        what();
        fflush(stdout);
        end();
    }
    return child;
}

static pid_t forked(void (*what)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        failed = 0;
        what();
        fflush(stdout);
        end();
    }
    return child;
}

static int status_of(pid_t child) {
    int status = -1;
    return waitpid(child, &status, 0) == child ? status : -1;
}

/* The line `name` of a text file, without the name; "" if there is none. */
static const char *line_of(const char *path, const char *name) {
    static char text[8192], found[256];
    int fd = open(path, O_RDONLY), size = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    text[size > 0 ? size : 0] = 0;
    found[0] = 0;
    for (char *at = strtok(text, "\n"); at; at = strtok(NULL, "\n"))
        if (!strncmp(at, name, strlen(name))) snprintf(found, sizeof found, "%s", at + strlen(name));
    return found;
}

static const char *line_of_process(const char *proc, pid_t pid, const char *file, const char *name) {
    char path[96];
    snprintf(path, sizeof path, "%s/%d/%s", proc, pid, file);
    return line_of(path, name);
}

/* Numbers */

static void second_numbers(void) {
    CHECK(getpid() == 2 && tid() == 2 && getppid() == 1 && getpgrp() == 0);
    CHECK(setsid() == 2 && getsid(0) == 2 && getpgrp() == 2 && getsid(2) == 2 && getpgid(2) == 2);
    FAILS(setsid(), EPERM);
    FAILS(setpgid(0, 0), EPERM);
}

static void first_numbers(void) {
    int outside = shared->value[0];
    CHECK(getpid() == 1 && tid() == 1 && getppid() == 0);
    CHECK(getpgrp() == 0 && getpgid(0) == 0 && getpgid(1) == 0 && getsid(0) == 0 && getsid(1) == 0);
    CHECK(syscall(SYS_set_tid_address, 0) == 1);
    FAILS(kill(outside, 0), ESRCH);
    FAILS(getpgid(outside), ESRCH);
    FAILS(getsid(outside), ESRCH);
    FAILS(getpriority(PRIO_PROCESS, outside), ESRCH);
    FAILS(sched_getscheduler(outside), ESRCH);
    cpu_set_t set;
    FAILS(sched_getaffinity(outside, sizeof set, &set), ESRCH);
    FAILS(prlimit(outside, RLIMIT_CORE, NULL, NULL), ESRCH);
    FAILS(ptrace(PTRACE_ATTACH, outside, 0, 0), ESRCH);
    FAILS(syscall(SYS_tgkill, outside, outside, 0), ESRCH);
    FAILS(syscall(__NR_pidfd_open, outside, 0), ESRCH);
    FAILS(setpgid(outside, 0), ESRCH);
    FAILS(waitpid(outside, NULL, WNOHANG), ECHILD);
    FAILS(waitpid(-outside, NULL, WNOHANG), ECHILD);
    struct iovec iov = { &set, 1 };
    FAILS(process_vm_readv(outside, &iov, 1, &iov, 1, 0), ESRCH);
    clockid_t clock;
    CHECK(clock_getcpuclockid(1, &clock) == 0 && clock_getcpuclockid(outside, &clock) != 0);
    CHECK(kill(1, 0) == 0 && getpriority(PRIO_PROCESS, 1) == 0 && sched_getscheduler(1) == SCHED_OTHER);
    pid_t child = forked(second_numbers);
    CHECK(child == 2);
    siginfo_t info;
    CHECK(waitid(P_PID, 2, &info, WEXITED | WNOWAIT) == 0 && info.si_pid == 2 && info.si_status == 0);
    CHECK(kill(2, 0) == 0 && child_good(child));
    FAILS(kill(2, 0), ESRCH);
    CHECK(setpgid(0, 0) == 0 && getpgrp() == 1 && getpgid(1) == 1);
    pid_t words[2] = { 0, 0 };
    child = syscall(SYS_clone, CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | SIGCHLD, 0, &words[0],
#if defined(__x86_64__)
        &words[1], 0);
#else
        0, &words[1]);
#endif
    if (child == 0) _exit(words[1] != 3 || getpid() != 3 || getpgrp() != 1);
    CHECK(child == 3 && words[0] == 3 && child_good(child));
}

static void numbers(void) {
    shared->value[0] = getpid();
    pid_t child = in_new(first_numbers, 0);
    CHECK(child > 1 && child_good(child));
}

/* How many levels there are. */
static void deeper(void) {
    shared->value[0]++;
    pid_t child = in_new(deeper, 0);
    if (child < 0) {
        shared->value[1] = errno;
        return;
    }
    CHECK(child == 2 && child_good(child));
}

static void levels(void) {
    shared->value[0] = shared->value[1] = 0;
    pid_t child = in_new(deeper, 0);
    CHECK(child > 0 && child_good(child));
    CHECK(shared->value[0] >= 16 && shared->value[0] <= 32 && shared->value[1] == ENOSPC);
}

/* clone, unshare */

static int waits_in_vfork(void *unused) {
    (void)unused;
    _exit(getpid() == 1 ? 7 : 1);
}

static void init_with_siblings(void) {
    FAILS(clone_with(CLONE_PARENT), EINVAL);
}

static void flags(void) {
    FAILS(syscall(SYS_clone, CLONE_NEWPID | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM, 0, 0, 0, 0), EINVAL);
    static char stack[65536] __attribute__((aligned(16)));
    pid_t child = clone(waits_in_vfork, stack + sizeof stack, CLONE_VM | CLONE_VFORK | CLONE_NEWPID | SIGCHLD,
        NULL);
    CHECK(child > 1 && status_of(child) == 7 << 8);
    child = in_new(init_with_siblings, 0);
    CHECK(child_good(child));
}

static void is_first(void) { CHECK(getpid() == 1 && getppid() == 0); while (!shared->go) pause_ms(1); }
static void is_first_at_once(void) { CHECK(getpid() == 1); }
static void is_second(void) { CHECK(getpid() == 2 && getppid() == 0); }
static void is_third(void) { CHECK(getpid() == 3 && getppid() == 0); pause(); }

static void *nothing(void *unused) { return unused; }

static void unsharing(void) {
    char link[64], other[64];
    shared->go = 0;
    int own = getpid();
    CHECK(unshare(CLONE_NEWPID) == 0 && getpid() == own);
    FAILS(unshare(CLONE_NEWPID), EINVAL);
    FAILS(clone_with(CLONE_NEWPID), EINVAL);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, nothing, NULL) == EINVAL);
    FAILS(readlink("/proc/self/ns/pid_for_children", link, sizeof link), ENOENT);
    pid_t first = forked(is_first);
    CHECK(first > 1);
    ssize_t size = readlink("/proc/self/ns/pid_for_children", link, sizeof link);
    CHECK(size > 6 && !strncmp(link, "pid:[", 5));
    CHECK(readlink("/proc/self/ns/pid", other, sizeof other) > 6 && strncmp(link, other, size));
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/pid", first);
    CHECK(readlink(path, other, sizeof other) == size && !strncmp(link, other, size));
    pid_t second = forked(is_second);
    CHECK(second > 1 && child_good(second));
    pid_t third = forked(is_third);
    shared->go = 1;
    // The first one ends only when the third is gone, whose parent is here.
    siginfo_t info;
    CHECK(waitid(P_PID, third, &info, WEXITED | WNOWAIT) == 0 && info.si_status == SIGKILL);
    pause_ms(20);
    CHECK(waitpid(first, NULL, WNOHANG) == 0);
    CHECK(status_of(third) == SIGKILL && child_good(first));
    FAILS(fork(), ENOMEM);
    FAILS(clone3(0, NULL, 0), ENOMEM);
    CHECK(pthread_create(&thread, NULL, nothing, NULL) == EINVAL);
    _exit(failed != 0);
}

/* A first process that could not be made is the last one. */
static void in_vain(void) {
    pid_t taken[2] = { 1, getpid() };
    CHECK(unshare(CLONE_NEWPID) == 0);
    FAILS(clone3(0, taken, 2), EEXIST);
    pid_t child = forked(is_first_at_once);
    CHECK(child_good(child));
    FAILS(fork(), ENOMEM);
}

static void in_vain_for_good(void) {
    CHECK(unshare(CLONE_NEWPID) == 0);
    FAILS(syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, 8, 0, 0), EFAULT);
    FAILS(fork(), ENOMEM);
}

/* Signals */

static volatile sig_atomic_t got, got_pid, got_code;
static void note(int sig, siginfo_t *info, void *context) {
    (void)context;
    got = sig, got_pid = info->si_pid, got_code = info->si_code;
}
static void handle(int sig) {
    struct sigaction action = { .sa_sigaction = note, .sa_flags = SA_SIGINFO };
    sigaction(sig, &action, NULL);
}

static void kills_first(void) {
    CHECK(kill(1, SIGTERM) == 0 && kill(1, SIGKILL) == 0 && kill(1, SIGSTOP) == 0 && kill(1, SIGSEGV) == 0);
    CHECK(kill(1, SIGUSR1) == 0 && kill(-1, SIGKILL) == -1 && errno == ESRCH);
}

static void protected(void) {
    handle(SIGUSR1), handle(SIGUSR2), handle(SIGCHLD);
    CHECK(kill(1, SIGTERM) == 0 && kill(1, SIGKILL) == 0 && kill(getpid(), SIGSTOP) == 0);
    CHECK(raise(SIGTERM) == 0);
    CHECK(kill(1, SIGUSR1) == 0 && got == SIGUSR1 && got_pid == 1 && got_code == SI_USER);
    got = 0;
    sigset_t block, old;
    sigemptyset(&block), sigaddset(&block, SIGCHLD);
    sigprocmask(SIG_BLOCK, &block, &old);
    pid_t child = forked(kills_first);
    CHECK(SOON(got == SIGUSR1) && got_pid == 2);
    sigprocmask(SIG_SETMASK, &old, NULL);
    CHECK(SOON(got == SIGCHLD) && got_pid == 2 && got_code == CLD_EXITED);
    CHECK(child_good(child));
    // A blocked signal stays, even without a handler, and is dropped when it is taken.
    sigaddset(&block, SIGTERM), sigaddset(&block, SIGINT);
    sigprocmask(SIG_BLOCK, &block, NULL);
    sigset_t pending;
    CHECK(kill(1, SIGTERM) == 0 && sigpending(&pending) == 0 && sigismember(&pending, SIGTERM));
    sigprocmask(SIG_SETMASK, &old, NULL);
    got = 0;
    shared->go = 1;
    while (got != SIGUSR2) pause_ms(1);
    shared->value[1] = got_pid, shared->value[2] = got_code;
    shared->go = 2;
    for (;;) pause();
}

static void signals(void) {
    shared->go = 0;
    siginfo_t info;
    pid_t child = in_new(protected, 0);
    CHECK(SOON(shared->go == 1));
    CHECK(kill(child, SIGTERM) == 0);
    CHECK(kill(child, SIGUSR2) == 0 && SOON(shared->go == 2));
    CHECK(shared->value[1] == 0 && shared->value[2] == SI_USER);
    CHECK(kill(child, SIGSTOP) == 0);
    int status = 0;
    CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    CHECK(kill(child, SIGCONT) == 0 && waitpid(child, &status, WCONTINUED) == child && WIFCONTINUED(status));
    CHECK(waitpid(child, &status, WNOHANG) == 0);
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(waitid(P_PID, child, &info, WEXITED) == 0 && info.si_pid == child && info.si_code == CLD_KILLED);
}

static volatile int *volatile bad = (int *)8;
static void faults(void) { *bad = 1; }
static void ignores_faults(void) { signal(SIGSEGV, SIG_IGN), *bad = 1; }

static void fatal(void) {
    struct rlimit none = { 0, 0 };
    setrlimit(RLIMIT_CORE, &none);
    CHECK(WTERMSIG(status_of(in_new(faults, 0))) == SIGSEGV);
    CHECK(WTERMSIG(status_of(in_new(ignores_faults, 0))) == SIGSEGV);
}

static void sleeps(void) { for (;;) pause(); }

static void kills_all(void) {
    pid_t one = forked(sleeps), two = forked(sleeps);
    CHECK(kill(-1, SIGKILL) == 0 && status_of(one) == SIGKILL && status_of(two) == SIGKILL);
}

static void everyone(void) {
    pid_t bystander = forked(sleeps);
    CHECK(child_good(in_new(kills_all, 0)));
    CHECK(waitpid(bystander, NULL, WNOHANG) == 0);
    kill(bystander, SIGKILL), status_of(bystander);
}

/* Orphans */

static void orphan(void) {
    pid_t child = fork();
    if (child == 0) {
        pid_t mine = getppid();
        shared->go = 1;
        if (!SOON(getppid() != mine)) _exit(1);
        shared->value[0] = getppid();
        shared->go = 2;
        _exit(0);
    }
    CHECK(SOON(shared->go == 1));
}

static void subreaper(void) {
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    shared->go = 0;
    pid_t child = forked(orphan);
    CHECK(child_good(child));
    CHECK(SOON(shared->go == 2) && shared->value[0] == getpid() && wait(NULL) > 0);
}

static void reaps(void) {
    shared->go = 0;
    pid_t child = forked(orphan);
    CHECK(child_good(child));
    CHECK(SOON(shared->go == 2) && shared->value[0] == 1 && wait(NULL) == 3);
    CHECK(child_good(forked(subreaper)));
}

static void orphans(void) {
    // Nobody outside is their new parent, not even who asked for it.
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    CHECK(child_good(in_new(reaps, 0)));
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

/* The end */

static int ends[2];

static void many(void) {
    close(ends[0]);
    signal(SIGCHLD, SIG_DFL);
    for (int n = 0; n < 5; n++)
        if (fork() == 0) {
            signal(SIGTERM, SIG_IGN);
            if (n == 3) {
                pid_t deep = clone_with(CLONE_NEWPID);
                if (deep == 0 && fork() >= 0) for (;;) pause();
            }
            if (n == 4) _exit(0);
            for (;;) pause();
        }
    pause_ms(20);
    _exit(9);
}

static void the_end(void) {
    CHECK(pipe(ends) == 0);
    pid_t child = in_new(many, 0);
    close(ends[1]);
    CHECK(status_of(child) == 9 << 8);
    // All writers are gone.
    struct pollfd poll_for = { ends[0], POLLIN, 0 };
    CHECK(poll(&poll_for, 1, 0) == 1 && poll_for.revents == POLLHUP);
    close(ends[0]);
    CHECK(pipe(ends) == 0);
    child = in_new(sleeps, 0);
    close(ends[1]);
    CHECK(kill(child, SIGKILL) == 0 && status_of(child) == SIGKILL);
    close(ends[0]);
}

static void *sleeps_on(void *unused) { for (;;) pause(); return unused; }

/* Its first thread ends before the others, and a forked one that is traced from outside has to be let go. */
static void threads_end(void) {
    pthread_t thread;
    for (int n = 0; n < 3; n++) CHECK(pthread_create(&thread, NULL, sleeps_on, NULL) == 0);
    pid_t child = fork();
    if (child == 0) for (;;) pause();
    shared->value[0] = child;
    shared->go = 1;
    syscall(SYS_exit, 0);
}

static void threads(void) {
    shared->go = 0;
    pid_t child = in_new(threads_end, 0);
    CHECK(SOON(shared->go == 1) && shared->value[0] == 5);
    CHECK(waitpid(child, NULL, WNOHANG) == 0);
    CHECK(kill(child, SIGKILL) == 0 && status_of(child) == SIGKILL);
}

static void restarts(void) { if (getpid() == 1) syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2,
    LINUX_REBOOT_CMD_RESTART, NULL); pause_ms(10000); }
static void powers_off(void) { if (fork() == 0 && getpid() == 2) syscall(SYS_reboot, LINUX_REBOOT_MAGIC1,
    LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_POWER_OFF, NULL); pause_ms(10000); }
static void not_reboot(void) {
    FAILS(syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_CAD_OFF, NULL),
        EINVAL);
    FAILS(syscall(SYS_reboot, 1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_RESTART, NULL), EINVAL);
}

static void reboots(void) {
    CHECK(status_of(in_new(restarts, 0)) == SIGHUP);
    CHECK(status_of(in_new(powers_off, 0)) == SIGINT);
    CHECK(child_good(in_new(not_reboot, 0)));
}

/* Joining */

static int above;

static void stays(void) {
    FAILS(setns(above, CLONE_NEWPID), EINVAL);
    shared->go = 1;
    for (;;) pause();
}

static void joined(void) { CHECK(getpid() > 1 && getppid() == 0 && getpgrp() == 0 && kill(1, 0) == 0); }

static void joining(void) {
    shared->go = 0;
    above = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
    CHECK(above >= 0);
    pid_t child = in_new(stays, 0);
    CHECK(SOON(shared->go == 1));
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/pid", child);
    int fd = open(path, O_RDONLY | O_CLOEXEC), own = getpid();
    FAILS(setns(fd, CLONE_NEWUTS), EINVAL);
    CHECK(setns(fd, CLONE_NEWPID) == 0 && getpid() == own);
    CHECK(child_good(forked(joined)));
    FAILS(unshare(CLONE_NEWPID), EINVAL);
    CHECK(setns(fd, 0) == 0 && setns(above, CLONE_NEWPID) == 0);
    pid_t outside = fork();
    if (outside == 0) _exit(getppid() != own);
    CHECK(child_good(outside));
    int pidfd = syscall(__NR_pidfd_open, child, 0);
    CHECK(pidfd >= 0 && setns(pidfd, CLONE_NEWPID) == 0 && child_good(forked(joined)));
    CHECK(setns(above, CLONE_NEWPID) == 0);
    pid_t user = fork();
    if (user == 0) {
        failed = 0;
        CHECK(setresuid(65534, 65534, 65534) == 0);
        FAILS(setns(fd, CLONE_NEWPID), EPERM);
        FAILS(unshare(CLONE_NEWPID), EPERM);
        FAILS(clone_with(CLONE_NEWPID), EPERM);
        end();
    }
    CHECK(child_good(user));
    if (ioctl(fd, GET_PID_IN, own) == -1 && errno == ENOTTY) {
        printf("no NS_GET_PID_IN_PIDNS\n");
    } else {
        FAILS(ioctl(fd, GET_PID_IN, own), ESRCH);
        FAILS(ioctl(fd, GET_PID_FROM, 99), ESRCH);
        FAILS(ioctl(fd, GET_PID_FROM, 0), ESRCH);
        CHECK(ioctl(fd, GET_PID_IN, child) == 1 && ioctl(fd, GET_TGID_IN, child) == 1);
        CHECK(ioctl(fd, GET_PID_FROM, 1) == child && ioctl(fd, GET_TGID_FROM, 1) == child);
        CHECK(ioctl(above, GET_PID_IN, own) == own);
        int uts = open("/proc/self/ns/uts", O_RDONLY);
        FAILS(ioctl(uts, GET_PID_IN, own), EINVAL);
        close(uts);
    }
    kill(child, SIGKILL), status_of(child);
    // It stays what it is, without any process.
    CHECK(setns(fd, CLONE_NEWPID) == 0);
    FAILS(fork(), ENOMEM);
    CHECK(setns(above, CLONE_NEWPID) == 0);
    close(fd), close(above), close(pidfd);
}

/* Chosen numbers */

/* A number that nothing has. */
static pid_t unused(void) {
    pid_t child = fork();
    if (child == 0) _exit(0);
    status_of(child);
    return child;
}

static void expect(uint64_t flags, const pid_t *tids, size_t count, int error, int line) {
    fflush(stdout);
    errno = 0;
    pid_t child = clone3(flags, tids, count);
    if (child == 0) _exit(0);
    if (error) {
        check(child == -1 && errno == error, "clone3 fails as it should", __func__, line);
    } else {
        check(child > 0 && (flags & CLONE_NEWPID || child == tids[0]), "clone3", __func__, line);
    }
    if (child > 0) status_of(child);
}
#define EXPECT(flags, count, error, ...) expect(flags, (pid_t[]){ __VA_ARGS__ }, count, error, __LINE__)

static void chosen_inside(void) {
    pid_t outside = shared->value[0];
    EXPECT(0, 1, EEXIST, 1);
    EXPECT(0, 1, 0, 4242);
    EXPECT(0, 1, 0, 77);
    EXPECT(0, 2, EEXIST, 42, shared->value[1]);
    EXPECT(0, 2, 0, 43, outside);
    EXPECT(CLONE_NEWPID, 3, 0, 1, 44, outside);
    EXPECT(CLONE_NEWPID, 2, 0, 1, 45);
    EXPECT(CLONE_NEWPID, 1, EINVAL, 2);
    EXPECT(CLONE_NEWPID, 3, EEXIST, 1, 1, outside);
    EXPECT(CLONE_NEWPID, 3, EINVAL, 1, 46, 0);
    pid_t child = fork();
    CHECK(child > 0 || getpid() != 78);
    if (child == 0) _exit(0);
    status_of(child);
    // In the namespace all is allowed to who is somebody there, but not above it.
    child = fork();
    if (child == 0) {
        failed = 0;
        CHECK(setresuid(65534, 65534, 65534) == 0);
        EXPECT(0, 1, EPERM, 50);
        EXPECT(0, 1, EINVAL, 0);
        end();
    }
    CHECK(child_good(child));
}

static void choosing(void) {
    pid_t free = unused(), max = 4194304;
    FILE *text = fopen("/proc/sys/kernel/pid_max", "r");
    CHECK(text && fscanf(text, "%d", &max) == 1);
    if (text) fclose(text);
    pid_t many[34] = { free };
    expect(0, many, 33, EINVAL, __LINE__);
    expect(0, many, 34, EINVAL, __LINE__);
    expect(0, many, 0, EINVAL, __LINE__);
    expect(0, NULL, 1, EINVAL, __LINE__);
    expect(0, (pid_t *)8, 1, EFAULT, __LINE__);
    EXPECT(0, 1, EINVAL, 0);
    EXPECT(0, 1, EINVAL, -1);
    EXPECT(0, 1, EINVAL, max);
    EXPECT(0, 1, EINVAL, max + 1);
    EXPECT(0, 1, EEXIST, 1);
    EXPECT(0, 1, EEXIST, getpid());
    EXPECT(0, 1, 0, free);
    EXPECT(CLONE_NEWPID, 1, 0, 1);
    EXPECT(CLONE_NEWPID, 2, 0, 1, free);
    EXPECT(CLONE_NEWPID, 1, EINVAL, 2);
    EXPECT(CLONE_NEWPID, 2, EINVAL, free, 1);
    EXPECT(CLONE_NEWPID, 2, EEXIST, 1, getpid());
    EXPECT(CLONE_NEWPID, 2, EINVAL, 1, -1);
    shared->value[0] = free, shared->value[1] = getpid();
    CHECK(child_good(in_new(chosen_inside, 0)));
    pid_t child = fork();
    if (child == 0) {
        failed = 0;
        CHECK(setresuid(65534, 65534, 65534) == 0);
        EXPECT(0, 1, EPERM, free);
        EXPECT(0, 1, EPERM, 1);
        end();
    }
    CHECK(child_good(child));
}

/* pidfds and procfs */

static int inherited;

static void with_pidfd(void) {
    FAILS(syscall(__NR_pidfd_send_signal, inherited, 0, NULL, 0), EINVAL);
    int own = syscall(__NR_pidfd_open, 1, 0);
    CHECK(own >= 0 && syscall(__NR_pidfd_send_signal, own, 0, NULL, 0) == 0);
    shared->go = 1;
    while (shared->go != 2) pause_ms(1);
}

static void pidfds(void) {
    char path[64], want[64];
    shared->go = 0;
    inherited = syscall(__NR_pidfd_open, getpid(), 0);
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", inherited);
    CHECK(atoi(line_of(path, "Pid:")) == getpid());
    pid_t child = in_new(with_pidfd, 0);
    CHECK(SOON(shared->go == 1));
    int fd = syscall(__NR_pidfd_open, child, 0);
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    CHECK(atoi(line_of(path, "Pid:")) == child);
    snprintf(want, sizeof want, "\t%d\t1", child);
    CHECK(!strcmp(line_of(path, "NSpid:"), want));
    CHECK(!strcmp(line_of_process("/proc", child, "status", "NSpid:"), want));
    CHECK(!strcmp(line_of_process("/proc", child, "status", "NStgid:"), want));
    snprintf(want, sizeof want, "\t%d\t0", getpgrp());
    CHECK(!strcmp(line_of_process("/proc", child, "status", "NSpgid:"), want));
    snprintf(want, sizeof want, "\t%d\t0", getsid(0));
    CHECK(!strcmp(line_of_process("/proc", child, "status", "NSsid:"), want));
    CHECK(syscall(__NR_pidfd_send_signal, fd, 0, NULL, 0) == 0);
    shared->go = 2;
    siginfo_t info;
    CHECK(waitid(PIDFD, fd, &info, WEXITED | WNOWAIT) == 0 && info.si_pid == child && info.si_status == 0);
    CHECK(atoi(line_of(path, "Pid:")) == child);
    CHECK(child_good(child));
    CHECK(!strcmp(line_of(path, "Pid:"), "\t-1") && !strcmp(line_of(path, "NSpid:"), "\t-1"));
    FAILS(syscall(__NR_pidfd_send_signal, fd, 0, NULL, 0), ESRCH);
    close(fd), close(inherited);
}

static char where[64];

static int count_numbers(const char *path) {
    DIR *dir = opendir(path);
    int found = 0;
    for (struct dirent *one; dir && (one = readdir(dir));)
        found += one->d_name[0] >= '1' && one->d_name[0] <= '9';
    if (dir) closedir(dir);
    return found;
}

static void mounts(void) {
    char path[128], text[64] = "";
    shared->value[0] = mount("proc", where, "proc", 0, NULL) == 0 ? 0 : errno;
    if (shared->value[0] == 0) {
        snprintf(path, sizeof path, "%s/self", where);
        CHECK(readlink(path, text, sizeof text) == 1 && text[0] == '1');
        snprintf(path, sizeof path, "%s/thread-self", where);
        CHECK(readlink(path, text, sizeof text) == 8 && !strncmp(text, "1/task/1", 8));
        CHECK(!strcmp(line_of_process(where, 1, "status", "NSpid:"), "\t1"));
        CHECK(!strcmp(line_of_process(where, 1, "status", "PPid:"), "\t0"));
        CHECK(count_numbers(where) == 1);
        pid_t child = forked(sleeps);
        CHECK(count_numbers(where) == 2);
        CHECK(!strcmp(line_of_process(where, 2, "status", "PPid:"), "\t1"));
        snprintf(path, sizeof path, "%s/%d", where, shared->value[1]);
        CHECK(access(path, F_OK) == -1 || shared->value[1] < 3);
        snprintf(path, sizeof path, "%s/1/task/1/children", where);
        int fd = open(path, O_RDONLY);
        // Not every Linux has it.
        CHECK(fd < 0 || (read(fd, text, 2) == 2 && !strncmp(text, "2 ", 2)));
        close(fd);
        kill(child, SIGKILL), status_of(child);
        CHECK(count_numbers(where) == 1);
    }
    shared->go = 1;
    while (shared->go != 2) pause_ms(1);
}

static void procfs(void) {
    char path[128], text[64];
    shared->go = 0, shared->value[1] = getpid();
    snprintf(where, sizeof where, "/tmp/pidns.%d", getpid());
    if (mkdir(where, 0700) != 0) snprintf(where, sizeof where, "/pidns.%d", getpid()), mkdir(where, 0700);
    pid_t child = in_new(mounts, 0);
    CHECK(SOON(shared->go == 1));
    if (shared->value[0] == 0) {
        // What is shown depends on who mounted it.
        snprintf(path, sizeof path, "%s/self", where);
        FAILS(readlink(path, text, sizeof text), ENOENT);
        snprintf(path, sizeof path, "%s/thread-self", where);
        FAILS(readlink(path, text, sizeof text), ENOENT);
        CHECK(count_numbers(where) == 1);
        CHECK(!strcmp(line_of_process(where, 1, "status", "NSpid:"), "\t1"));
    } else {
        printf("procfs: not mounted (error %d)\n", shared->value[0]);
    }
    shared->go = 2;
    CHECK(child_good(child));
    if (shared->value[0] == 0) CHECK(count_numbers(where) == 0);
    while (umount2(where, MNT_DETACH) == 0) {}
    rmdir(where);
}

/* What is kept and told later */

static int pair[2], file_with_lock, queue, set_of, segment;

static pid_t sender_on(int fd) {
    char byte, control[CMSG_SPACE(sizeof(struct ucred))];
    struct iovec iov = { &byte, 1 };
    struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
        .msg_controllen = sizeof control };
    struct ucred cred = { -1, 0, 0 };
    if (recvmsg(fd, &h, 0) != 1) return -2;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&h); c; c = CMSG_NXTHDR(&h, c))
        if (c->cmsg_type == SCM_CREDENTIALS) memcpy(&cred, CMSG_DATA(c), sizeof cred);
    return cred.pid;
}

static int send_as(int fd, pid_t pid) {
    char byte = 'x', control[CMSG_SPACE(sizeof(struct ucred))] = "";
    struct iovec iov = { &byte, 1 };
    struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
        .msg_controllen = sizeof control };
    struct cmsghdr *c = CMSG_FIRSTHDR(&h);
    struct ucred cred = { pid, getuid(), getgid() };
    c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_CREDENTIALS, c->cmsg_len = CMSG_LEN(sizeof cred);
    memcpy(CMSG_DATA(c), &cred, sizeof cred);
    return sendmsg(fd, &h, 0);
}

static void kept_inside(void) {
    struct ucred cred;
    socklen_t size = sizeof cred;
    CHECK(getsockopt(pair[1], SOL_SOCKET, SO_PEERCRED, &cred, &size) == 0 && cred.pid == 0);
    CHECK(sender_on(pair[1]) == 0);
    CHECK(write(pair[1], "x", 1) == 1 && send_as(pair[1], 1) == 1);
    FAILS(send_as(pair[1], 4321), ESRCH);
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1 };
    CHECK(fcntl(file_with_lock, F_GETLK, &lock) == 0 && lock.l_type == F_WRLCK && lock.l_pid == 0);
    lock = (struct flock){ .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 1 };
    CHECK(fcntl(file_with_lock, F_SETLK, &lock) == 0);
    CHECK(fcntl(pair[1], F_GETOWN) == 0 && fcntl(pair[1], F_SETOWN, 1) == 0 && fcntl(pair[1], F_GETOWN) == 1);
    FAILS(fcntl(pair[1], F_SETOWN, 4321), ESRCH);
    struct { long type; char text[1]; } message = { 1, "x" };
    struct msqid_ds ds;
    CHECK(msgctl(queue, IPC_STAT, &ds) == 0 && ds.msg_lspid == 0);
    CHECK(msgsnd(queue, &message, 1, 0) == 0 && msgctl(queue, IPC_STAT, &ds) == 0 && ds.msg_lspid == 1);
    CHECK(semctl(set_of, 0, GETPID) == 0);
    struct sembuf up = { 0, 1, 0 };
    CHECK(semop(set_of, &up, 1) == 0 && semctl(set_of, 0, GETPID) == 1);
    struct shmid_ds shm;
    CHECK(shmctl(segment, IPC_STAT, &shm) == 0 && shm.shm_cpid == 0);
    void *at = shmat(segment, NULL, 0);
    CHECK(at != (void *)-1 && shmctl(segment, IPC_STAT, &shm) == 0 && shm.shm_lpid == 1 && shmdt(at) == 0);
    unsigned word = 0;
    CHECK(syscall(SYS_futex, &word, FUTEX_LOCK_PI, 0, NULL, NULL, 0) == 0 && word == 1);
    CHECK(syscall(SYS_futex, &word, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0) == 0 && word == 0);
    word = 4321;
    FAILS(syscall(SYS_futex, &word, FUTEX_LOCK_PI, 0, NULL, NULL, 0), ESRCH);
    shared->go = 1;
    while (shared->go != 2) pause_ms(1);
}

static void kept(void) {
    int on = 1;
    shared->go = 0;
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
    CHECK(setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0);
    CHECK(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0);
    CHECK(fcntl(pair[1], F_SETOWN, getpid()) == 0);
    file_with_lock = memfd_create("locks", 0);
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1 };
    CHECK(fcntl(file_with_lock, F_SETLK, &lock) == 0);
    queue = msgget(IPC_PRIVATE, 0600), set_of = semget(IPC_PRIVATE, 1, 0600);
    segment = shmget(IPC_PRIVATE, 4096, 0600);
    CHECK(queue >= 0 && set_of >= 0 && segment >= 0);
    struct { long type; char text[1]; } message = { 1, "x" };
    CHECK(msgsnd(queue, &message, 1, 0) == 0 && semctl(set_of, 0, SETVAL, 1) == 0);
    CHECK(semctl(set_of, 0, GETPID) == getpid());
    CHECK(write(pair[0], "x", 1) == 1);
    pid_t child = in_new(kept_inside, 0);
    CHECK(SOON(shared->go == 1));
    CHECK(sender_on(pair[0]) == child && sender_on(pair[0]) == child);
    lock = (struct flock){ .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 1 };
    CHECK(fcntl(file_with_lock, F_GETLK, &lock) == 0 && lock.l_type == F_WRLCK && lock.l_pid == child);
    CHECK(fcntl(pair[1], F_GETOWN) == child);
    struct msqid_ds ds;
    struct shmid_ds shm;
    CHECK(msgctl(queue, IPC_STAT, &ds) == 0 && ds.msg_lspid == child);
    CHECK(semctl(set_of, 0, GETPID) == child);
    CHECK(shmctl(segment, IPC_STAT, &shm) == 0 && shm.shm_lpid == child && shm.shm_cpid == getpid());
    shared->go = 2;
    CHECK(child_good(child));
    // Also after its end.
    CHECK(msgctl(queue, IPC_STAT, &ds) == 0 && ds.msg_lspid == child);
    msgctl(queue, IPC_RMID, NULL), semctl(set_of, 0, IPC_RMID), shmctl(segment, IPC_RMID, NULL);
    close(pair[0]), close(pair[1]), close(file_with_lock);
}

/* Tracers */

static void traced(void) {
    CHECK(kill(1, SIGUSR1) == 0);
    pid_t child = fork();
    if (child == 0) _exit(0);
    CHECK(child == 2);
    status_of(child);
}

static void starts_traced(void) {
    CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
    raise(SIGSTOP);
    traced();
}

static void tracers(void) {
    int status = 0;
    unsigned long message = 0;
    pid_t child = in_new(starts_traced, 0);
    // Its tracer sees what the first process ignores.
    CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    CHECK(ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACEFORK | PTRACE_O_EXITKILL) == 0);
    CHECK(ptrace(PTRACE_CONT, child, 0, 0) == 0);
    siginfo_t info;
    CHECK(waitpid(child, &status, 0) == child && WSTOPSIG(status) == SIGUSR1);
    CHECK(ptrace(PTRACE_GETSIGINFO, child, 0, &info) == 0 && info.si_pid == 1);
    CHECK(ptrace(PTRACE_CONT, child, 0, 0) == 0);
    CHECK(waitpid(child, &status, 0) == child && status >> 8 == (SIGTRAP | PTRACE_EVENT_FORK << 8));
    CHECK(ptrace(PTRACE_GETEVENTMSG, child, 0, &message) == 0 && message > 2);
    CHECK(waitpid(message, &status, __WALL) == (pid_t)message && WIFSTOPPED(status));
    CHECK(ptrace(PTRACE_DETACH, message, 0, 0) == 0 && ptrace(PTRACE_CONT, child, 0, 0) == 0);
    CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGCHLD);
    CHECK(ptrace(PTRACE_DETACH, child, 0, 0) == 0 && child_good(child));
}

/* exec by a thread that is not the first */

static char *self;

static void *executes(void *unused) {
    (void)unused;
    execl(self, self, "second", NULL);
    _exit(9);
}

static void exec_in_thread(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, executes, NULL) == 0);
    for (;;) pause();
}

static void first_of_exec(void) {
    pid_t child = forked(exec_in_thread);
    CHECK(child == 2 && child_good(child));
    // Numbers go on, and the thread's is free.
    child = fork();
    if (child == 0) _exit(getpid() != 4);
    CHECK(child == 4 && child_good(child));
}

static void execs(void) { CHECK(child_good(in_new(first_of_exec, 0))); }

/* The number that was given last */

static void last_inside(void) {
    int fd = open("/proc/sys/kernel/ns_last_pid", O_RDWR);
    if (fd < 0) return;
    char text[16] = "";
    CHECK(pread(fd, text, sizeof text - 1, 0) > 0 && atoi(text) == 1);
    CHECK(pwrite(fd, "99", 2, 0) == 2);
    pid_t child = fork();
    if (child == 0) _exit(getpid() != 100);
    CHECK(child == 100 && child_good(child));
    memset(text, 0, sizeof text);
    CHECK(pread(fd, text, sizeof text - 1, 0) > 0 && atoi(text) == 100);
    close(fd);
}

static void last_number(void) { CHECK(child_good(in_new(last_inside, 0))); }

/* Death signals, and groups that reach into a namespace */

static void wants_death_signal(void) {
    handle(SIGUSR1);
    pid_t child = fork();
    if (child == 0) {
        failed = 0;
        handle(SIGUSR2);
        prctl(PR_SET_PDEATHSIG, SIGUSR2);
        shared->go = 1;
        CHECK(SOON(got == SIGUSR2) && got_pid == 2 && getppid() == 1);
        shared->value[0] = failed;
        shared->go = 2;
        _exit(failed);
    }
    CHECK(SOON(shared->go == 1));
}

static void first_of_group(void) {
    shared->go = 0;
    CHECK(child_good(forked(wants_death_signal)));
    CHECK(SOON(shared->go == 2) && shared->value[0] == 0);
    while (wait(NULL) > 0) {}
    // A signal for the group from outside comes, too.
    handle(SIGUSR1);
    got = 0;
    shared->go = 3;
    CHECK(SOON(got == SIGUSR1) && got_pid == 0);
}

static void groups(void) {
    pid_t leader = fork();
    if (leader == 0) {
        failed = 0;
        CHECK(setpgid(0, 0) == 0);
        signal(SIGUSR1, SIG_IGN);
        pid_t child = in_new(first_of_group, 0);
        CHECK(SOON(shared->go == 3) && kill(0, SIGUSR1) == 0 && child_good(child));
        FAILS(setpgid(child, 0), ESRCH);
        child = in_new(sleeps, 0);
        CHECK(setpgid(child, 0) == 0 && getpgid(child) == child && kill(-child, SIGKILL) == 0);
        CHECK(status_of(child) == SIGKILL);
        end();
    }
    CHECK(child_good(leader));
}

/* What the kernel tells of a child is right whoever runs then. */

static volatile sig_atomic_t got_uid;
static void note_child(int sig, siginfo_t *info, void *context) {
    got_uid = info->si_uid;
    note(sig, info, context);
}

static void told_later(void) {
    struct sigaction action = { .sa_sigaction = note_child, .sa_flags = SA_SIGINFO };
    sigaction(SIGCHLD, &action, NULL);
    got = 0;
    pid_t child = fork();
    if (child == 0) {
        CHECK(setresuid(1234, 1234, 1234) == 0 && send_as(pair[1], 2) == 1);
        while (shared->go != 1) pause_ms(1);
        end();
    }
    CHECK(child == 2 && SOON(got == SIGCHLD));
    CHECK(got_code == CLD_EXITED && got_pid == 2 && got_uid == 1234);
    CHECK(child_good(child));
}

/* A tracer outside has to let the child go first: it waits for it, or ends. */
static void traces_inner(void) {
    siginfo_t info;
    CHECK(ptrace(PTRACE_SEIZE, shared->value[0], 0, 0) == 0);
    shared->go = 1;
    CHECK(waitid(P_PID, shared->value[0], &info, WEXITED | WNOWAIT | __WALL) == 0);
    CHECK(info.si_code == CLD_EXITED);
    pause_ms(20);
    if (shared->value[1]) CHECK(waitpid(shared->value[0], NULL, __WALL) == shared->value[0]);
}

static void told_by_tracer(void) {
    int on = 1;
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
    CHECK(setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0);
    for (int waits = 0; waits < 2; waits++) {
        shared->go = 0, shared->value[1] = waits;
        pid_t child = in_new(told_later, 0);
        shared->value[0] = sender_on(pair[0]);
        CHECK(shared->value[0] > 2 && child_good(forked(traces_inner)) && child_good(child));
    }
    close(pair[0]), close(pair[1]);
}

/* A thread that does not block a signal does not let it through to the first process. */

static void *takes_all(void *unused) {
    sigset_t none;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    shared->go = 1;
    for (;;) pause();
    return unused;
}

static void kills_twice(void) { CHECK(kill(1, SIGTERM) == 0 && kill(1, SIGQUIT) == 0); }

static void blocks_in_leader(void) {
    sigset_t block, pending;
    pthread_t thread;
    sigemptyset(&block), sigaddset(&block, SIGTERM), sigaddset(&block, SIGQUIT);
    CHECK(sigprocmask(SIG_BLOCK, &block, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, takes_all, NULL) == 0 && SOON(shared->go == 1));
    CHECK(child_good(forked(kills_twice)));
    CHECK(SOON(sigpending(&pending) == 0 && !sigismember(&pending, SIGTERM) &&
        !sigismember(&pending, SIGQUIT)));
    pause_ms(20);
    _exit(failed ? 1 : 5);
}

/* But who says of itself that the kernel kills it is killed, as on Linux. */
static void kills_itself(void) {
    siginfo_t info = { .si_code = SI_KERNEL };
    CHECK(syscall(SYS_rt_sigqueueinfo, 1, SIGTERM, &info) == 0);
    shared->go = 1;
    syscall(SYS_rt_sigqueueinfo, 1, SIGKILL, &info);
    pause_ms(1000);
}

static void unkillable(void) {
    shared->go = 0;
    CHECK(status_of(in_new(blocks_in_leader, 0)) == 5 << 8);
    shared->go = 0;
    CHECK(status_of(in_new(kills_itself, 0)) == SIGKILL && shared->go == 1);
}

/* Whoever is in a namespace that ends cannot escape into a new one below it. */

static void makes_more(void) {
    // If one does escape nobody waits for it at the other end of a pipe.
    close(1);
    // Lower than its own: behind whoever walks upwards.
    for (pid_t low = 2;; low = low < 60 ? low + 1 : 2) {
        pid_t tids[2] = { 1, low };
        pid_t child = clone3(CLONE_NEWPID, tids, 2);
        if (child == 0) for (;;) pause();
        if (child > 0 && low % 4) kill(child, SIGKILL), waitpid(child, NULL, 0);
    }
}

static void full(void) {
    signal(SIGCHLD, SIG_DFL);
    for (int n = 2; n < 60; n++) if (fork() == 0) _exit(0);
    while (waitpid(-1, NULL, 0) > 0) {}
    for (int n = 0; n < 8; n++) if (fork() == 0) makes_more();
    pause_ms(10 + shared->value[0]);
    _exit(3);
}

static void no_escape(void) {
    for (int n = 0; n < 20; n++) {
        shared->value[0] = n;
        pid_t child = in_new(full, 0);
        int status = -1;
        pid_t ended = 0;
        CHECK(SOON((ended = waitpid(child, &status, WNOHANG)) != 0) && ended == child && status == 3 << 8);
        if (ended != child) return;
    }
}

int main(int argc, char **argv) {
    self = argv[0];
    if (argc > 1 && !strcmp(argv[1], "second")) return !(getpid() == 2 && tid() == 2 && getppid() == 1);
    if (access("/proc/self/exe", F_OK) == 0) self = "/proc/self/exe";
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    numbers();
    levels();
    flags();
    CHECK(child_good(forked(unsharing)));
    CHECK(child_good(forked(in_vain)) && child_good(forked(in_vain_for_good)));
    signals();
    fatal();
    everyone();
    orphans();
    the_end();
    threads();
    reboots();
    joining();
    choosing();
    pidfds();
    procfs();
    kept();
    tracers();
    execs();
    last_number();
    groups();
    told_by_tracer();
    unkillable();
    no_escape();
    return report();
}
