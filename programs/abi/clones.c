/*
 * Threads and processes in /proc and at their creation: what each file shows for threads and for processes,
 * the system call in which a sleeper waits, errors of clone3, what a child inherits. Called by
 * tools/limen/src/test/programs.rs, on every architecture; on Linux it can be run by hand, as root.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "common.h"

#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x1000
#endif

/* Reads a file of /proc/PID as a string; returns its length, or -1 with errno. */
static int read_proc(pid_t pid, const char *name, char *to, int room) {
    char path[80];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY), n = -1, error;
    if (fd >= 0) n = read(fd, to, room - 1);
    error = errno;
    to[n > 0 ? n : 0] = 0;
    if (fd >= 0) close(fd);
    errno = error;
    return n;
}

/* Writes a file of /proc/PID. */
static int write_proc(pid_t pid, const char *name, const char *text) {
    char path[80];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_WRONLY);
    int n = fd < 0 ? -1 : write(fd, text, strlen(text)), error = errno;
    if (fd >= 0) close(fd);
    errno = error;
    return n;
}

/* The rest of the line of a file that starts with `key`. */
static const char *line_of(pid_t pid, const char *name, const char *key) {
    static char text[8192];
    char start[40];
    if (read_proc(pid, name, text, sizeof text) <= 0) return "";
    snprintf(start, sizeof start, "\n%s:\t", key);
    char *at = strstr(text, start);
    if (!at) return "";
    at += strlen(start);
    at[strcspn(at, "\n")] = 0;
    return at;
}

static long number_of(pid_t pid, const char *name, const char *key) {
    return strtol(line_of(pid, name, key), NULL, 10);
}

/* Field `n` (from 1) of `stat` after the name, as a number. */
static long long stat_field(pid_t pid, const char *name, int n) {
    char text[2048], *at;
    if (read_proc(pid, name, text, sizeof text) <= 0) return -99;
    if (n == 1) return atoi(text);
    at = strrchr(text, ')');
    for (int i = 2; at && i < n; i++) at = strchr(at + 1, ' ');
    return at ? strtoll(at + 1, NULL, 10) : -99;
}

static int go[2];
static volatile pid_t tid;

static void *member(void *unused) {
    sigset_t set;
    char byte;
    (void)unused;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_SETMASK, &set, NULL);
    prctl(PR_SET_NAME, "member");
    prctl(PR_SET_TIMERSLACK, 4321);
    syscall(SYS_setresuid, -1, 77, -1);
    syscall(SYS_setresuid, -1, 0, -1);
    tid = syscall(SYS_gettid);
    CHECK(syscall(SYS_read, go[0], &byte, 1) == 1);
    return NULL;
}

/* Waits until thread `t` sleeps. */
static void asleep(pid_t t) {
    char text[512];
    for (int i = 0; i < 2000; i++) {
        if (read_proc(t, "stat", text, sizeof text) > 0 && strstr(text, ") S ")) return;
        usleep(1000);
    }
    CHECK(!"asleep");
}

/* The files in /proc of a thread that is not the leader. */
static void threads(void) {
    char path[64], text[512], want[64];
    struct stat st;
    pthread_t thread;
    unsigned long args[8];
    int nr;
    CHECK(pipe(go) == 0 && pthread_create(&thread, NULL, member, NULL) == 0);
    while (!tid) usleep(1000);
    asleep(tid);
    snprintf(path, sizeof path, "task/%d/status", tid);
    CHECK(number_of(tid, "status", "Pid") == tid && number_of(tid, "status", "Tgid") == getpid());
    CHECK(number_of(tid, "status", "NSpid") == tid && number_of(tid, "status", "Threads") == 2);
    CHECK(strcmp(line_of(tid, "status", "SigBlk"), "0000000000000800") == 0);
    CHECK(strcmp(line_of(getpid(), "status", "SigBlk"), "0000000000000800") != 0);
    CHECK(strcmp(line_of(getpid(), path, "SigBlk"), "0000000000000800") == 0 &&
          number_of(getpid(), path, "Pid") == tid);
    CHECK(read_proc(tid, "comm", text, sizeof text) == 7 && strcmp(text, "member\n") == 0);
    CHECK(read_proc(getpid(), "comm", text, sizeof text) > 0 && strcmp(text, "member\n") != 0);
    CHECK(stat_field(tid, "stat", 1) == tid && stat_field(getpid(), "stat", 1) == getpid());
    /* Fields of the group (number of threads, parent) and of the thread (blocked signals, exit signal). */
    CHECK(stat_field(tid, "stat", 4) == getppid() && stat_field(tid, "stat", 20) == 2);
    CHECK(stat_field(tid, "stat", 32) == 0x800 && stat_field(getpid(), "stat", 32) != 0x800);
    CHECK(stat_field(tid, "stat", 38) == -1 && stat_field(getpid(), "stat", 38) == SIGCHLD);
    /* Whether it waits is shown for a single thread only, not for a whole process. */
    snprintf(path, sizeof path, "task/%d/stat", tid);
    CHECK(stat_field(getpid(), path, 35) == 1 && stat_field(tid, "stat", 35) == 0);
    /* /proc/TID exists, though it is not listed, and has all threads of the process. */
    snprintf(path, sizeof path, "/proc/%d/task/%d", tid, getpid());
    CHECK(stat(path, &st) == 0 && S_ISDIR(st.st_mode));
    /* Timer slack belongs to a thread, but the file only exists in /proc/TID, not in task/TID. */
    CHECK(read_proc(tid, "timerslack_ns", text, sizeof text) == 5 && strcmp(text, "4321\n") == 0);
    CHECK(write_proc(tid, "timerslack_ns", "1234\n") == 5 &&
          read_proc(tid, "timerslack_ns", text, sizeof text) == 5 && strcmp(text, "1234\n") == 0);
    CHECK(write_proc(tid, "timerslack_ns", "0") == 1 &&
          read_proc(tid, "timerslack_ns", text, sizeof text) > 0 && atol(text) == prctl(PR_GET_TIMERSLACK));
    CHECK(write_proc(tid, "timerslack_ns", "x") == -1 && errno == EINVAL);
    snprintf(path, sizeof path, "task/%d/timerslack_ns", tid);
    CHECK(read_proc(getpid(), path, text, sizeof text) == -1 && errno == ENOENT);
    /* The system call in which it sleeps. */
    CHECK(read_proc(tid, "syscall", text, sizeof text) > 0);
    CHECK(sscanf(text, "%d %lx %lx %lx %lx %lx %lx %lx %lx", &nr, args, args + 1, args + 2, args + 3,
                 args + 4, args + 5, args + 6, args + 7) == 9);
    CHECK(nr == SYS_read && args[0] == (unsigned long)go[0] && args[2] == 1 && args[6] != 0 && args[7] != 0);
    CHECK(read_proc(getpid(), "syscall", text, sizeof text) > 0 && sscanf(text, "%d ", &nr) == 1 &&
          nr == SYS_read);
    /* After the thread's end, reading its open status file fails with ESRCH. */
    snprintf(path, sizeof path, "/proc/%d/status", tid);
    int fd = open(path, O_RDONLY);
    CHECK(write(go[1], "x", 1) == 1 && pthread_join(thread, NULL) == 0);
    snprintf(want, sizeof want, "/proc/%d", tid);
    CHECK(SOON(stat(want, &st) == -1 && errno == ENOENT));
    CHECK(read(fd, text, sizeof text) == -1 && errno == ESRCH);
    close(fd);
    close(go[0]);
    close(go[1]);
}

static int ended[2];

static void *survivor(void *unused) {
    char byte;
    (void)unused;
    CHECK(read(ended[0], &byte, 1) == 0);
    usleep(50000);
    syscall(SYS_exit_group, 5);
    return NULL;
}

/* A leader that ended before its other threads is a zombie until the process is waited for. */
static void leaders(void) {
    char text[4096], path[64];
    int status;
    CHECK(pipe(ended) == 0);
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        close(ended[1]);
        pthread_create(&thread, NULL, survivor, NULL);
        syscall(SYS_exit, 3);
    }
    for (int i = 0; i < 2000 && line_of(child, "status", "State")[0] != 'Z'; i++) usleep(1000);
    CHECK(strcmp(line_of(child, "status", "State"), "Z (zombie)") == 0);
    CHECK(number_of(child, "status", "Pid") == child && number_of(child, "status", "Threads") == 2);
    CHECK(read_proc(child, "maps", text, sizeof text) == 0);
    snprintf(path, sizeof path, "/proc/%d/exe", child);
    CHECK(readlink(path, text, sizeof text) == -1 && errno == ENOENT);
    snprintf(path, sizeof path, "/proc/%d/task/%d/status", child, child);
    CHECK(access(path, F_OK) == 0);
    CHECK(waitpid(child, &status, WNOHANG) == 0);
    close(ended[1]);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 5);
    close(ended[0]);
}

/* A child that has come to user mode and makes no call. */
static pid_t counting(void) {
    int shared = MAP_SHARED | MAP_ANONYMOUS;
    volatile int *count = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, shared, -1, 0);
    pid_t child = fork();
    if (child == 0)
        for (;;) ++*count;
    CHECK(SOON(*count));
    munmap((void *)count, sizeof *count);
    return child;
}

/* What is said of threads in calls (/proc/PID/syscall, stack, wchan), and to whom. */
static void calls_of_others(void) {
    char text[512];
    int status, nr;
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    asleep(child);
    CHECK(read_proc(child, "syscall", text, sizeof text) > 0 && sscanf(text, "%d", &nr) == 1 && nr >= 0);
    /* The names of functions are the kernel's own, but there is one in which it waits. */
    CHECK(read_proc(child, "wchan", text, sizeof text) > 1);
    CHECK(isalpha((unsigned char)*text) || *text == '_');
    CHECK(strpbrk(text, " \n+<") == NULL);
    CHECK(read_proc(child, "stack", text, sizeof text) > 0 && strncmp(text, "[<0>] ", 6) == 0);
    CHECK(strstr(text + 1, "\n[<0>] ") != NULL && text[strlen(text) - 1] == '\n');
    CHECK(read_proc(getpid(), "wchan", text, sizeof text) == 1 && *text == '0');
    pid_t other = fork();
    if (other == 0) {
        failed = 0;
        char path[2][64];
        int fd[2];
        for (int i = 0; i < 2; i++) {
            snprintf(path[i], sizeof *path, "/proc/%d/%s", child, i ? "stack" : "syscall");
            CHECK((fd[i] = open(path[i], O_RDONLY)) >= 0);
        }
        CHECK(setresuid(1234, 1234, 1234) == 0);
        for (int i = 0; i < 2; i++) {
            CHECK(read(fd[i], text, sizeof text) == -1 && errno == EPERM);
            CHECK(open(path[i], O_RDONLY) == -1 && errno == EACCES);
        }
        CHECK(read_proc(child, "wchan", text, sizeof text) == 1 && *text == '0');
        _exit(failed);
    }
    CHECK(waitpid(other, &status, 0) == other && status == 0);
    /* A thread that runs in user mode has no system call to show. */
    other = counting();
    CHECK(read_proc(other, "syscall", text, sizeof text) > 0 && strcmp(text, "running\n") == 0);
    CHECK(read_proc(other, "wchan", text, sizeof text) == 1 && *text == '0');
    kill(other, SIGKILL);
    waitpid(other, &status, 0);
    /* A stopped thread is in no system call. */
    other = counting();
    kill(other, SIGSTOP);
    waitpid(other, &status, WUNTRACED);
    unsigned long sp, pc;
    CHECK(read_proc(other, "syscall", text, sizeof text) > 0 &&
          sscanf(text, "%d %lx %lx %lx", &nr, &sp, &pc, &sp) == 3 && nr == -1);
    kill(other, SIGKILL);
    waitpid(other, &status, 0);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
}

struct arguments {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size,
        cgroup;
};

static long clone3(struct arguments *a, size_t size) {
    long pid = syscall(SYS_clone3, a, size);
    if (pid == 0) _exit(0);
    return pid;
}

static int lowest_fd(void) {
    int fd = dup(0);
    close(fd);
    return fd;
}

/* Errors of clone3, and that no child or descriptor is left afterwards. */
static void refusals(void) {
    int fd = lowest_fd(), status, word = -1;
    pid_t tids[2] = {1, 1};
    struct arguments a = {.flags = CLONE_PIDFD, .pidfd = 16, .exit_signal = SIGCHLD};
    CHECK(clone3(&a, sizeof a) == -1 && errno == EFAULT);
    CHECK(lowest_fd() == fd);
    CHECK(waitpid(-1, &status, 0) == -1 && errno == ECHILD);
    a.pidfd = (uintptr_t)&word;
    pid_t child = clone3(&a, sizeof a);
    CHECK(child > 0 && word == fd && fcntl(fd, F_GETFD) == FD_CLOEXEC && waitpid(child, &status, 0) == child);
    close(fd);
    /* The address for the parent's copy of the id may be invalid. */
    a = (struct arguments){.flags = CLONE_PARENT_SETTID, .parent_tid = 16, .exit_signal = SIGCHLD};
    child = clone3(&a, sizeof a);
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    /* Two results at one address. */
    a = (struct arguments){.flags = CLONE_PARENT_SETTID | CLONE_PIDFD,
                           .parent_tid = (uintptr_t)&word,
                           .pidfd = (uintptr_t)&word,
                           .exit_signal = SIGCHLD};
    CHECK(clone3(&a, sizeof a) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_clone, CLONE_PARENT_SETTID | CLONE_PIDFD | SIGCHLD, 0, &word, 0, 0) == -1 &&
          errno == EINVAL);
    /* No pidfd for a thread, and none with CLONE_DETACHED. */
    a = (struct arguments){.flags = CLONE_PIDFD | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM,
                           .pidfd = (uintptr_t)&word};
    CHECK(clone3(&a, sizeof a) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_clone, CLONE_PIDFD | 0x400000 | SIGCHLD, 0, &word, 0, 0) == -1 && errno == EINVAL);
    /* Sizes. */
    a = (struct arguments){.exit_signal = SIGCHLD};
    CHECK(clone3(&a, 63) == -1 && errno == EINVAL);
    CHECK(clone3(&a, 65536 * 2) == -1 && errno == E2BIG);
    struct { struct arguments a; uint64_t more; } longer = {a, 0};
    child = clone3(&longer.a, sizeof longer);
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    longer.more = 1;
    CHECK(clone3(&longer.a, sizeof longer) == -1 && errno == E2BIG);
    child = clone3(&a, 64);
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(syscall(SYS_clone3, 16, 64) == -1 && errno == EFAULT);
    /* Signals, stacks, flags. */
    a.exit_signal = 65;
    CHECK(clone3(&a, sizeof a) == -1 && errno == EINVAL);
    a = (struct arguments){.flags = 0x10, .exit_signal = SIGCHLD};
    CHECK(clone3(&a, sizeof a) == -1 && errno == EINVAL);
    a.flags = 1ull << 40;
    CHECK(clone3(&a, sizeof a) == -1 && errno == EINVAL);
    a = (struct arguments){.stack = 4096, .exit_signal = SIGCHLD};
    CHECK(clone3(&a, sizeof a) == -1 && errno == EINVAL);
    a = (struct arguments){.stack_size = 4096, .exit_signal = SIGCHLD};
    CHECK(clone3(&a, sizeof a) == -1 && errno == EINVAL);
    a = (struct arguments){.flags = CLONE_PARENT, .exit_signal = SIGCHLD};
    CHECK(clone3(&a, sizeof a) == -1 && errno == EINVAL);
    /* Ids chosen by the caller (set_tid). */
    a = (struct arguments){.set_tid = (uintptr_t)tids, .exit_signal = SIGCHLD};
    CHECK(clone3(&a, sizeof a) == -1 && errno == EINVAL);
    a.set_tid_size = 33;
    CHECK(clone3(&a, sizeof a) == -1 && errno == EINVAL);
    a.set_tid_size = 2;
    CHECK(clone3(&a, sizeof a) == -1 && errno == EINVAL);
    a.set_tid_size = 1;
    CHECK(clone3(&a, sizeof a) == -1 && errno == EEXIST);
    tids[0] = 0;
    CHECK(clone3(&a, sizeof a) == -1 && errno == EINVAL);
    a.set_tid = 16;
    CHECK(clone3(&a, sizeof a) == -1 && errno == EFAULT);
    a = (struct arguments){.set_tid_size = 1, .exit_signal = SIGCHLD};
    CHECK(clone3(&a, sizeof a) == -1 && errno == EINVAL);
    /* An invalid cgroup; a structure too old to have that field. */
    a = (struct arguments){.flags = 0x200000000ull, .cgroup = 0, .exit_signal = SIGCHLD};
    CHECK(clone3(&a, sizeof a) == -1 && errno == EBADF);
    CHECK(clone3(&a, 80) == -1 && errno == EINVAL);
    a.flags |= CLONE_SIGHAND;
    CHECK(clone3(&a, sizeof a) == -1 && errno == EINVAL);
    /* clone takes any number as the exit signal; the child is then one that waitpid finds with __WCLONE. */
    child = syscall(SYS_clone, 200, 0, 0, 0, 0);
    if (child == 0) _exit(7);
    CHECK(child > 0 && waitpid(child, &status, __WALL) == child && WEXITSTATUS(status) == 7);
    CHECK(lowest_fd() == fd && waitpid(-1, &status, __WALL) == -1 && errno == ECHILD);
    /* For an ordinary user, an invalid id is found before the missing permission. */
    child = fork();
    if (child == 0) {
        failed = 0;
        tids[0] = 0;
        CHECK(setresuid(1234, 1234, 1234) == 0);
        a = (struct arguments){.set_tid = (uintptr_t)tids, .set_tid_size = 1, .exit_signal = SIGCHLD};
        CHECK(clone3(&a, sizeof a) == -1 && errno == EINVAL);
        tids[0] = 1;
        CHECK(clone3(&a, sizeof a) == -1 && errno == EPERM);
        _exit(failed);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* Timer slack: a child starts with its creator's current value, which is also its default. */
static void slack(void) {
    int status;
    CHECK(prctl(PR_SET_TIMERSLACK, 0) == 0);
    long first = prctl(PR_GET_TIMERSLACK);
    CHECK(prctl(PR_SET_TIMERSLACK, 7777) == 0 && prctl(PR_GET_TIMERSLACK) == 7777);
    pid_t child = fork();
    if (child == 0) {
        failed = 0;
        CHECK(prctl(PR_GET_TIMERSLACK) == 7777 && prctl(PR_SET_TIMERSLACK, 5) == 0 &&
              prctl(PR_GET_TIMERSLACK) == 5);
        CHECK(prctl(PR_SET_TIMERSLACK, 0) == 0 && prctl(PR_GET_TIMERSLACK) == 7777);
        _exit(failed);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(prctl(PR_SET_TIMERSLACK, 0) == 0 && prctl(PR_GET_TIMERSLACK) == first);
}

enum { FILES_FILE, VM, FILES, FS, SIGHAND, IO, SYSVSEM, EPOLL_TFD };

static long kcmp(pid_t a, pid_t b, int kind, unsigned long x, unsigned long y) {
    return syscall(SYS_kcmp, a, b, kind, x, y);
}

/* A child that shares `flags` and waits. */
static pid_t sharing(unsigned long flags) {
    pid_t child = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
    if (child == 0)
        for (;;) pause();
    return child;
}

static int pauses(void *arg) {
    (void)arg;
    while (pause() < 0) continue;
    return 0;
}

/* One that shares the memory, and so needs a stack of its own. */
static pid_t sharing_memory(void) {
    static char stack[65536] __attribute__((aligned(16)));
    return clone(pauses, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
}

static void end(pid_t child) {
    int status;
    kill(child, SIGKILL);
    CHECK(waitpid(child, &status, 0) == child);
}

/* One that has ended has nothing, and is there until it is waited for. */
static void comparing_dead(void) {
    pid_t me = getpid(), dead[2];
    siginfo_t info;
    for (int i = 0; i < 2; i++) {
        dead[i] = sharing(0);
        kill(dead[i], SIGKILL);
        CHECK(waitid(P_PID, dead[i], &info, WEXITED | WNOWAIT) == 0);
    }
    for (int kind = VM; kind <= FS; kind++)
        CHECK(kcmp(me, dead[0], kind, 0, 0) > 0 && kcmp(dead[0], dead[1], kind, 0, 0) == 0);
    CHECK(kcmp(dead[0], dead[1], SIGHAND, 0, 0) > 0 && kcmp(dead[0], dead[0], SIGHAND, 0, 0) == 0);
    CHECK(kcmp(dead[0], dead[1], IO, 0, 0) == 0 && kcmp(me, dead[0], SYSVSEM, 0, 0) == 0);
    CHECK(kcmp(me, dead[0], FILES_FILE, 0, 0) == -1 && errno == EBADF);
    CHECK(kcmp(me, dead[0], 99, 0, 0) == -1 && errno == EINVAL);
    int status;
    for (int i = 0; i < 2; i++) CHECK(waitpid(dead[i], &status, 0) == dead[i]);
    CHECK(kcmp(me, dead[0], VM, 0, 0) == -1 && errno == ESRCH);
}

/* kcmp: equal for shared objects; a consistent order for others. */
static void comparing(void) {
    pid_t me = getpid(), child = sharing(0);
    /* No operation has been made yet that needs one. */
    CHECK(kcmp(me, child, IO, 0, 0) == 0);
    CHECK(syscall(SYS_ioprio_set, 1, 0, 2 << 13 | 5) == 0);
    CHECK(kcmp(me, child, IO, 0, 0) > 0 && kcmp(me, child, IO, 0, 0) + kcmp(child, me, IO, 0, 0) == 3);
    for (int kind = VM; kind <= SIGHAND; kind++) {
        long order = kcmp(me, child, kind, 0, 0);
        CHECK((order == 1 || order == 2) && kcmp(child, me, kind, 0, 0) == 3 - order &&
              kcmp(me, me, kind, 0, 0) == 0);
    }
    CHECK(kcmp(me, child, SYSVSEM, 0, 0) == 0);
    end(child);
    /* Inherited objects are copies, so they are not equal. */
    child = sharing(0);
    CHECK(kcmp(me, child, IO, 0, 0) > 0 && syscall(SYS_ioprio_get, 1, child) == (2 << 13 | 5));
    CHECK(syscall(SYS_ioprio_set, 1, child, 2 << 13 | 6) == 0 &&
          syscall(SYS_ioprio_get, 1, 0) == (2 << 13 | 5));
    end(child);
    child = sharing(CLONE_IO);
    CHECK(kcmp(me, child, IO, 0, 0) == 0);
    CHECK(syscall(SYS_ioprio_set, 1, child, 2 << 13 | 3) == 0 &&
          syscall(SYS_ioprio_get, 1, 0) == (2 << 13 | 3));
    end(child);
    child = sharing(CLONE_FS);
    CHECK(kcmp(me, child, FS, 0, 0) == 0 && kcmp(me, child, FILES, 0, 0) != 0);
    end(child);
    child = sharing(CLONE_FILES);
    CHECK(kcmp(me, child, FILES, 0, 0) == 0 && kcmp(me, child, FILES_FILE, 1, 1) == 0 &&
          kcmp(me, child, FILES_FILE, 1, 99) == -1 && errno == EBADF);
    end(child);
    CHECK(kcmp(me, me, 8, 0, 0) == -1 && errno == EINVAL);
    CHECK(kcmp(me, INT_MAX, 8, 0, 0) == -1 && errno == ESRCH);
    /* Files in an epoll file. */
    int ep = epoll_create1(0), ends[2];
    struct epoll_event event = {.events = EPOLLIN};
    CHECK(pipe(ends) == 0 && epoll_ctl(ep, EPOLL_CTL_ADD, ends[0], &event) == 0);
    unsigned slot[3] = {ep, ends[0], 0};
    CHECK(kcmp(me, me, EPOLL_TFD, ends[0], (unsigned long)slot) == 0);
    CHECK(kcmp(me, me, EPOLL_TFD, ends[1], (unsigned long)slot) > 0);
    slot[2] = 1;
    CHECK(kcmp(me, me, EPOLL_TFD, ends[0], (unsigned long)slot) == -1 && errno == ENOENT);
    slot[1] = ends[1];
    CHECK(kcmp(me, me, EPOLL_TFD, ends[0], (unsigned long)slot) == -1 && errno == ENOENT);
    slot[0] = ends[0];
    CHECK(kcmp(me, me, EPOLL_TFD, ends[0], (unsigned long)slot) == -1 && errno == EINVAL);
    slot[0] = 999;
    CHECK(kcmp(me, me, EPOLL_TFD, ends[0], (unsigned long)slot) == -1 && errno == EBADF);
    CHECK(kcmp(me, me, EPOLL_TFD, ends[0], 16) == -1 && errno == EFAULT);
    close(ep);
    close(ends[0]);
    close(ends[1]);
    CHECK(syscall(SYS_ioprio_set, 1, 0, 0) == 0);
    /* An object shared with another process cannot be unshared alone. */
    child = sharing_memory();
    CHECK(unshare(CLONE_VM) == -1 && errno == EINVAL && unshare(CLONE_SIGHAND) == 0);
    end(child);
    CHECK(unshare(CLONE_VM) == 0);
}

/* oom_score_adj: an ordinary user can lower it to the value a privileged one has set. */
static void oom(void) {
    char text[64];
    int status;
    pid_t child = fork();
    if (child == 0) {
        failed = 0;
        CHECK(write_proc(getpid(), "oom_score_adj", "300\n") == 4);
        CHECK(read_proc(getpid(), "oom_adj", text, sizeof text) > 0 && atoi(text) == 5);
        CHECK(write_proc(getpid(), "oom_adj", "15") == 2 &&
              read_proc(getpid(), "oom_score_adj", text, sizeof text) > 0 && atoi(text) == 1000);
        CHECK(write_proc(getpid(), "oom_adj", "-18") == -1 && errno == EINVAL);
        CHECK(write_proc(getpid(), "oom_score_adj", "1001") == -1 && errno == EINVAL);
        CHECK(write_proc(getpid(), "oom_score_adj", "100") == 3);
        CHECK(setresuid(1234, 1234, 1234) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0);
        CHECK(write_proc(getpid(), "oom_score_adj", "500") == 3 &&
              write_proc(getpid(), "oom_score_adj", "100") == 3);
        CHECK(write_proc(getpid(), "oom_score_adj", "99") == -1 && errno == EACCES);
        CHECK(write_proc(getpid(), "oom_adj", "0") == -1 && errno == EACCES);
        _exit(failed);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    signal(SIGALRM, SIG_DFL);
    alarm(120);
    refusals();
    slack();
    comparing();
    comparing_dead();
    threads();
    leaders();
    calls_of_others();
    oom();
    return report();
}
