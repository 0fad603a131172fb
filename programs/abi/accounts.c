/*
 * The accounting of processes, and how their ends are reported: page faults of threads, processes, their
 * children and the machine; signals that would write a core file. Called by tools/limen/src/test/programs.rs,
 * on every architecture; on Linux it can be run by hand.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "common.h"

#define PAGES 60
/* Additional faults that may happen: a stack that grows, a buffer of the C library, a page with its locks. */
#define BESIDES 30

static long page;

static long faults(int who) {
    struct rusage usage;
    CHECK(getrusage(who, &usage) == 0 && usage.ru_majflt >= 0);
    return usage.ru_minflt;
}

/* Whether the count is the expected one or little more. */
static int about(long got, long wanted) { return got >= wanted && got < wanted + BESIDES; }

static char *fresh(int flags) {
    char *at = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

static void touch(char *at) {
    for (int i = 0; i < PAGES; i++) ((volatile char *)at)[i * page] = 1;
}

/* Fields 10 to 13 of a `stat`. */
static int four(const char *name, long counts[4]) {
    char text[1024];
    int fd = open(name, O_RDONLY);
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0) return 0;
    text[length] = 0;
    return sscanf(strrchr(text, ')'), ") %*c %*d %*d %*d %*d %*d %*u %ld %ld %ld %ld", counts, counts + 1,
                  counts + 2, counts + 3) == 4;
}

static long of_machine(void) {
    static char text[1 << 16];
    int fd = open("/proc/vmstat", O_RDONLY);
    size_t length = 0;
    for (ssize_t n; (n = read(fd, text + length, sizeof text - 1 - length)) > 0;) length += n;
    close(fd);
    text[length] = 0;
    const char *at = strstr(text, "\npgfault ");
    return at ? atol(at + 9) : -1;
}

static sigjmp_buf back;
static void segv(int n) {
    (void)n;
    siglongjmp(back, 1);
}

/* Faults of the process itself, and of the kernel on its behalf. */
static void own(void) {
    long before = faults(RUSAGE_SELF), machine = of_machine(), stat[4] = {0}, thread[4] = {0};
    char *at = fresh(0);
    touch(at);
    CHECK(about(faults(RUSAGE_SELF) - before, PAGES));
    CHECK(of_machine() >= machine + PAGES);
    before = faults(RUSAGE_SELF);
    touch(at);
    CHECK(about(faults(RUSAGE_SELF) - before, 0));
    CHECK(four("/proc/self/stat", stat) && four("/proc/thread-self/stat", thread));
    CHECK(about(faults(RUSAGE_SELF) - stat[0], 0) && about(thread[0] - stat[0], 0) &&
          stat[1] == faults(RUSAGE_CHILDREN));
    munmap(at, PAGES * page);

    /* Copies to pages that are not mapped yet. */
    at = fresh(0);
    before = faults(RUSAGE_SELF);
    int fd = open("/dev/zero", O_RDONLY);
    CHECK(read(fd, at, PAGES * page) == PAGES * page);
    close(fd);
    CHECK(about(faults(RUSAGE_SELF) - before, PAGES));
    munmap(at, PAGES * page);

    /* Pages populated by mmap, and pages locked: both count once. */
    before = faults(RUSAGE_SELF);
    at = fresh(MAP_POPULATE);
    CHECK(about(faults(RUSAGE_SELF) - before, PAGES));
    before = faults(RUSAGE_SELF);
    touch(at);
    CHECK(mlock(at, PAGES * page) == 0 && about(faults(RUSAGE_SELF) - before, 0));
    munlock(at, PAGES * page);

    /* A fault that becomes a signal is not counted as served. */
    signal(SIGSEGV, segv);
    CHECK(mprotect(at, PAGES * page, PROT_NONE) == 0);
    before = faults(RUSAGE_SELF);
    for (volatile int i = 0; i < 3 * BESIDES; i++)
        if (sigsetjmp(back, 1) == 0) *(volatile char *)at = 1;
    CHECK(about(faults(RUSAGE_SELF) - before, 0));
    signal(SIGSEGV, SIG_DFL);
    munmap(at, PAGES * page);
}

static void *thread(void *unused) {
    long before = faults(RUSAGE_THREAD), stat[4] = {0};
    char *at = fresh(0);
    touch(at);
    CHECK(about(faults(RUSAGE_THREAD) - before, PAGES));
    CHECK(four("/proc/thread-self/stat", stat) && about(faults(RUSAGE_THREAD) - stat[0], 0));
    munmap(at, PAGES * page);
    return unused;
}

/* Faults of a thread are its own, and after its end its process's. */
static void threads(void) {
    long mine = faults(RUSAGE_THREAD), all = faults(RUSAGE_SELF);
    pthread_t id;
    CHECK(pthread_create(&id, NULL, thread, NULL) == 0 && pthread_join(id, NULL) == 0);
    CHECK(about(faults(RUSAGE_THREAD) - mine, 0));
    CHECK(about(faults(RUSAGE_SELF) - all, PAGES));
}

/* A child's faults are added when it is waited for, with those of its own children. */
static void children(void) {
    long before = faults(RUSAGE_CHILDREN), machine = of_machine();
    struct rusage usage;
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        pid_t grandchild = fork();
        touch(fresh(0));
        if (grandchild == 0) _exit(0);
        _exit(waitpid(grandchild, NULL, 0) != grandchild || faults(RUSAGE_CHILDREN) < PAGES);
    }
    siginfo_t info;
    CHECK(waitid(P_PID, child, &info, WEXITED | WNOWAIT) == 0);
    CHECK(faults(RUSAGE_CHILDREN) == before);
    CHECK(wait4(child, &status, 0, &usage) == child && status == 0 && usage.ru_minflt >= 2 * PAGES);
    CHECK(faults(RUSAGE_CHILDREN) - before == usage.ru_minflt);
    long stat[4] = {0};
    CHECK(four("/proc/self/stat", stat) && stat[1] == faults(RUSAGE_CHILDREN));
    CHECK(of_machine() >= machine + 2 * PAGES);
}

/* Sends `sig` to a process that waits for its vforked child; only a fatal signal ends this wait. */
static void in_vfork(int sig, int at_once) {
    siginfo_t info = {0};
    int status = -1, forked[2], go[2];
    char byte;
    CHECK(pipe(forked) == 0 && pipe(go) == 0);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        pid_t grandchild = vfork();
        if (grandchild == 0) _exit(write(forked[1], "x", 1) != 1 || read(go[0], &byte, 1) != 1);
        pause_ms(2000);
        _exit(7);
    }
    CHECK(read(forked[0], &byte, 1) == 1 && kill(child, sig) == 0);
    int how = WEXITED | WNOWAIT | WNOHANG;
    if (!at_once) pause_ms(150);
    if (at_once) CHECK(SOON(waitid(P_PID, child, &info, how) == 0 && info.si_pid == child));
    else CHECK(waitid(P_PID, child, &info, how) == 0 && info.si_pid == 0);
    /* The grandchild goes on only now. */
    CHECK(write(go[1], "x", 1) == 1);
    for (int i = 0; i < 2; i++) close(forked[i]), close(go[i]);
    CHECK(waitid(P_PID, child, &info, WEXITED | WNOWAIT) == 0);
    /* No core file is written, and CLD_DUMPED is not reported. */
    CHECK(info.si_pid == child && info.si_code == CLD_KILLED && info.si_status == sig);
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == sig &&
          !WCOREDUMP(status));
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    page = sysconf(_SC_PAGESIZE);
    own();
    threads();
    children();
    in_vfork(SIGTERM, 1);
    /*
     * A process that would write a core file must take the signal itself, so this waits for the end of vfork.
     */
    in_vfork(SIGQUIT, 0);
    return report();
}
