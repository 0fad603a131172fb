/*
 * Results of system calls for processes with the largest number of groups, for threads with children, and for
 * shared memory; settings under /proc/sys that root can change as on Linux. Called by
 * tools/limen/src/test/programs.rs, on every architecture; on Linux it can be run by hand, as root.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"

#ifndef __WNOTHREAD
#define __WNOTHREAD 0x20000000
#endif

#define GROUPS 65536

/* A whole file, however it is read; to be freed. */
static char *whole(const char *path) {
    int fd = open(path, O_RDONLY);
    size_t size = 0, room = 1 << 16;
    char *text = malloc(room);
    ssize_t n;
    while (fd >= 0 && (n = read(fd, text + size, room - size - 1)) > 0) {
        size += n;
        if (room - size < 4096) text = realloc(text, room *= 2);
    }
    if (fd >= 0) close(fd);
    text[size] = 0;
    return text;
}

/* Checks the results for a process with all those groups. */
static void told_of_groups(const gid_t *groups) {
    static gid_t back[GROUPS];
    int pair[2];
    socklen_t size = 4;
    CHECK(getgroups(GROUPS, back) == GROUPS && memcmp(back, groups, sizeof back) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK(getsockopt(pair[0], SOL_SOCKET, 59 /* SO_PEERGROUPS */, back, &size) == -1 && errno == ERANGE);
    CHECK(size == sizeof back);
    memset(back, 0, sizeof back);
    CHECK(getsockopt(pair[0], SOL_SOCKET, 59, back, &size) == 0 && size == sizeof back);
    CHECK(memcmp(back, groups, sizeof back) == 0);
    close(pair[0]);
    close(pair[1]);
    char *text = whole("/proc/self/status"), *line = strstr(text, "\nGroups:\t"), *at;
    int n = 0;
    CHECK(line != NULL);
    for (at = line ? line + 9 : text; n < GROUPS && strtoul(at, &at, 10) == groups[n]; n++) {}
    CHECK(n == GROUPS && at[0] == ' ' && at[1] == '\n');
    CHECK(strstr(at, "\nThreads:\t1\n") && strstr(at, "\nnonvoluntary_ctxt_switches:\t"));
    free(text);
}

static void many_groups(void) {
    static gid_t groups[GROUPS];
    int status;
    pid_t child = fork();
    if (child == 0) {
        failed = 0;
        /* In descending order: the kernel sorts them. */
        for (int i = 0; i < GROUPS; i++) groups[i] = 100000 + GROUPS - i;
        CHECK(setgroups(GROUPS, groups) == 0);
        for (int i = 0; i < GROUPS; i++) groups[i] = 100001 + i;
        told_of_groups(groups);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            failed = 0;
            CHECK(setresuid(1234, 1234, 1234) == 0);
            told_of_groups(groups);
            _exit(failed);
        }
        CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0);
        _exit(failed);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* Settings. */
static int put(const char *name, const char *text) {
    char path[100];
    snprintf(path, sizeof path, "/proc/sys/%s", name);
    int fd = open(path, O_WRONLY);
    int n = fd < 0 ? -1 : write(fd, text, strlen(text)), error = errno;
    if (fd >= 0) close(fd);
    errno = error;
    return n;
}

static long number(const char *name) {
    char path[100];
    snprintf(path, sizeof path, "/proc/sys/%s", name);
    char *text = whole(path);
    long value = *text ? atol(text) : -1;
    free(text);
    return value;
}

static void as_user(void (*what)(void)) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        failed = 0;
        CHECK(setresgid(70001, 70001, 70001) == 0 && setresuid(70000, 70000, 70000) == 0);
        what();
        _exit(failed);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* Whether a page can be mapped at exactly this address. */
static int page_at(unsigned long at) {
    int page = getpagesize();
    void *got = mmap((void *)at, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return got == (void *)at && munmap(got, page) == 0;
}

static void low_is_free(void) {
    CHECK(page_at(3L * getpagesize()));
    CHECK(put("vm/mmap_min_addr", "4096") == -1 && errno == EACCES);
}

static void low_is_not(void) {
    CHECK(!page_at(0x80000 - getpagesize()) && errno == EPERM);
    /* An address that is only a hint is moved up to this one. */
    void *at = (void *)(3L * getpagesize());
    void *got = mmap(at, getpagesize(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(got != MAP_FAILED && (unsigned long)got >= 0x80000);
    if (sizeof(long) == 8) CHECK((unsigned long)got == 0x80000);
}

static void narrow(void) {
#ifdef SYS_getuid32
    CHECK(syscall(SYS_getuid) == 1000 && syscall(SYS_getgid) == 2000);
#endif
    CHECK(put("kernel/tainted", "1") == -1 && errno == EACCES);
}

static int alarm_timer;

/* Permission to set an alarm timer is checked for the caller, not for the process that opened the timer. */
static void no_alarms(void) {
    struct itimerspec in_a_while = {{0, 0}, {100, 0}};
    CHECK(timerfd_settime(alarm_timer, 0, &in_a_while, NULL) == -1 && errno == EPERM);
    CHECK(timerfd_settime(alarm_timer, 16, &in_a_while, NULL) == -1 && errno == EINVAL);
}

static void alarms(void) {
    /* A Linux without a real-time clock has no alarm timers. */
    alarm_timer = timerfd_create(9 /* CLOCK_BOOTTIME_ALARM */, 0);
    struct itimerspec in_a_while = {{0, 0}, {100, 0}}, off = {{0, 0}, {0, 0}};
    CHECK(alarm_timer >= 0);
    if (timerfd_settime(alarm_timer, 0, &in_a_while, NULL) != 0) return;
    CHECK(timerfd_settime(alarm_timer, 0, &off, NULL) == 0);
    as_user(no_alarms);
    close(alarm_timer);
}

static void settings(void) {
    char old[40];
    long least = number("vm/mmap_min_addr"), marks = number("kernel/tainted");
    CHECK(least >= 4096 && marks >= 0);
    CHECK(put("vm/mmap_min_addr", "0") == 1 && number("vm/mmap_min_addr") == 0);
    as_user(low_is_free);
    CHECK(put("vm/mmap_min_addr", "524288") == 6 && number("vm/mmap_min_addr") == 524288);
    as_user(low_is_not);
    CHECK(page_at(3L * getpagesize()));
    CHECK(put("vm/mmap_min_addr", "-1") == -1 && errno == EINVAL);
    snprintf(old, sizeof old, "%ld", least);
    CHECK(put("vm/mmap_min_addr", old) > 0);
    static const char *const ids[] = {
        "kernel/overflowuid", "kernel/overflowgid", "fs/overflowuid", "fs/overflowgid",
    };
    for (int i = 0; i < 4; i++) {
        CHECK(put(ids[i], "65536") == -1 && errno == EINVAL && put(ids[i], "-1") == -1 && errno == EINVAL);
        CHECK(number(ids[i]) == 65534);
        CHECK(put(ids[i], "65535") == 5 && number(ids[i]) == 65535);
        CHECK(put(ids[i], "0") == 1 && number(ids[i]) == 0);
        CHECK(put(ids[i], i % 2 ? "2000" : "1000") == 4);
    }
    as_user(narrow);
    for (int i = 0; i < 4; i++) CHECK(put(ids[i], "65534") == 5);
    /* Taint flags are added and stay; unknown bits are ignored. */
    CHECK(put("kernel/tainted", "64") == 2 && number("kernel/tainted") == (marks | 64));
    CHECK(put("kernel/tainted", "0") == 1 && put("kernel/tainted", "1073741824") == 10);
    CHECK(number("kernel/tainted") == (marks | 64));
    CHECK(put("kernel/tainted", "-1") == -1 && errno == EINVAL);
}

/* Whether `pid` is among the children of the thread `tid`. */
static int is_child_of(int tid, int pid) {
    char path[64], number[16];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", tid);
    char *text = whole(path);
    snprintf(number, sizeof number, "%d ", pid);
    char *found = strstr(text, number);
    int is = found && (found == text || found[-1] == ' ');
    free(text);
    return is;
}

static volatile int maker;
static volatile pid_t made_child;
static int ready[2], go[2];

static void *makes_child(void *unused) {
    char byte;
    maker = syscall(SYS_gettid);
    made_child = fork();
    if (made_child == 0) {
        struct timespec long_time = {20, 0};
        siginfo_t info;
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        sigprocmask(SIG_BLOCK, &set, NULL);
        prctl(PR_SET_PDEATHSIG, SIGUSR1);
        if (write(ready[1], "r", 1) != 1) _exit(2);
        if (sigtimedwait(&set, &info, &long_time) != SIGUSR1) _exit(1);
        _exit(info.si_pid == getppid() && info.si_uid == getuid() ? 7 : 3);
    }
    if (write(ready[1], "m", 1) != 1 || read(go[0], &byte, 1) != 1) return NULL;
    return unused;
}

/*
 * A child belongs to the thread that made it, and after that thread's end to another thread of the process.
 */
static void children(void) {
    pthread_t thread;
    char bytes[2];
    int me = syscall(SYS_gettid), status;
    CHECK(pipe(ready) == 0 && pipe(go) == 0);
    CHECK(pthread_create(&thread, NULL, makes_child, NULL) == 0);
    CHECK(read(ready[0], bytes, 1) == 1 && read(ready[0], bytes + 1, 1) == 1);
    CHECK(is_child_of(maker, made_child) && !is_child_of(me, made_child));
    CHECK(waitpid(-1, &status, WNOHANG | __WNOTHREAD) == -1 && errno == ECHILD);
    CHECK(waitpid(-1, &status, WNOHANG) == 0);
    CHECK(write(go[1], "g", 1) == 1 && pthread_join(thread, NULL) == 0);
    for (int i = 0; i < 1000 && !is_child_of(me, made_child); i++) usleep(5000);
    CHECK(is_child_of(me, made_child));
    CHECK(waitpid(-1, &status, __WNOTHREAD) == made_child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    pid_t child = fork();
    if (child == 0) _exit(3);
    CHECK(is_child_of(me, child) && waitpid(child, &status, __WNOTHREAD) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    for (int i = 0; i < 2; i++) {
        close(ready[i]);
        close(go[i]);
    }
}

/* What a child of user 1000 that chose `sig` for the death of its parent hears when that one ends as `uid`:
   whether it does. */
static int hears_of_death(int sig, uid_t uid) {
    int tell[2], status;
    char byte;
    CHECK(pipe(ready) == 0 && pipe(tell) == 0);
    pid_t parent = fork();
    if (parent == 0) {
        pid_t me = getpid();
        if (fork() == 0) {
            struct timespec soon = {0, 300000000};
            sigset_t set;
            sigemptyset(&set);
            sigaddset(&set, sig);
            sigprocmask(SIG_BLOCK, &set, NULL);
            if (setuid(1000) != 0 || prctl(PR_SET_PDEATHSIG, sig) != 0) _exit(1);
            if (write(ready[1], "r", 1) != 1) _exit(1);
            while (getppid() == me) usleep(1000);
            byte = sigtimedwait(&set, NULL, &soon) == sig ? 'y' : 'n';
            _exit(write(tell[1], &byte, 1) != 1);
        }
        if (read(ready[0], &byte, 1) != 1 || setuid(uid) != 0) _exit(1);
        _exit(0);
    }
    CHECK(waitpid(parent, &status, 0) == parent && status == 0);
    CHECK(read(tell[0], &byte, 1) == 1);
    for (int i = 0; i < 2; i++) {
        close(ready[i]);
        close(tell[i]);
    }
    return byte == 'y';
}

/* Who may not signal a child does not when it dies either. */
static void deaths_of_parents(void) {
    CHECK(hears_of_death(SIGUSR1, 0));
    CHECK(hears_of_death(SIGUSR1, 1000));
    CHECK(!hears_of_death(SIGUSR1, 2000));
    /* In one session it may be continued. */
    CHECK(hears_of_death(SIGCONT, 2000));
    /* What is left of a process is its user's, too. */
    siginfo_t info;
    int status;
    pid_t zombie = fork();
    if (zombie == 0) _exit(0);
    CHECK(waitid(P_PID, zombie, &info, WEXITED | WNOWAIT) == 0);
    pid_t other = fork();
    if (other == 0) _exit(!(setuid(1000) == 0 && kill(zombie, 0) == -1 && errno == EPERM));
    CHECK(waitpid(other, &status, 0) == other && status == 0);
    CHECK(kill(zombie, 0) == 0 && waitpid(zombie, &status, 0) == zombie);
}

/* A row of /proc/PID/sched; -1: there is none. */
static double scheduled(const char *path, const char *name) {
    char wanted[64];
    char *text = whole(path), *at;
    snprintf(wanted, sizeof wanted, "\n%-45s:", name);
    at = strstr(text, wanted);
    return at ? atof(at + strlen(wanted)) : -1;
}

static void schedules(void) {
    char path[64], wanted[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/sched", getpid());
    snprintf(wanted, sizeof wanted, "answers (%d, #threads: 1)\n-----------", getpid());
    CHECK(strncmp(whole(path), wanted, strlen(wanted)) == 0);
    CHECK(strncmp(whole("/proc/self/sched"), wanted, strlen(wanted)) == 0);
    CHECK(strspn(strchr(whole(path), '\n') + 1, "-") == 67);
    double before = scheduled(path, "se.sum_exec_runtime");
    double switches = scheduled(path, "nr_voluntary_switches");
    CHECK(before > 0 && switches > 0 && scheduled(path, "se.exec_start") > 0);
    CHECK(scheduled(path, "se.vruntime") >= 0 && scheduled(path, "nr_involuntary_switches") >= 0);
    CHECK(scheduled(path, "nr_switches") >= switches);
    /* Counted at the next tick, which a fast host may reach only after many turns. */
    for (int turns = 0; turns < 5000 && scheduled(path, "se.sum_exec_runtime") <= before; turns++)
        for (volatile int i = 0; i < 100000; i++) {}
    CHECK(scheduled(path, "se.sum_exec_runtime") > before);
    /* On a busy host a sleep may be over before it began, or be preempted on its way. */
    for (int i = 0; i < 200 && scheduled(path, "nr_voluntary_switches") <= switches; i++) usleep(1000);
    CHECK(scheduled(path, "nr_voluntary_switches") > switches);
    CHECK(scheduled(path, "policy") == 0 && scheduled(path, "prio") == 120);
    CHECK(scheduled(path, "se.load.weight") == (sizeof(long) == 8 ? 1024 * 1024 : 1024));
    /* Pinned here and there. */
    double moves = scheduled(path, "se.nr_migrations");
    cpu_set_t all, one;
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
    for (int i = 0; i < 4; i++) {
        CPU_ZERO(&one);
        CPU_SET(i % 2, &one);
        sched_setaffinity(0, sizeof one, &one);
    }
    CHECK(sched_setaffinity(0, sizeof all, &all) == 0);
    CHECK(CPU_COUNT(&all) < 2 || scheduled(path, "se.nr_migrations") >= moves + 3);
    struct sched_param param = {7};
    CHECK(sched_setscheduler(0, SCHED_FIFO, &param) == 0);
    CHECK(scheduled(path, "policy") == 1 && scheduled(path, "prio") == 92);
    param.sched_priority = 0;
    CHECK(sched_setscheduler(0, SCHED_OTHER, &param) == 0);
    int fd = open(path, O_WRONLY);
    CHECK(fd >= 0 && write(fd, "0\n", 2) == 2);
    close(fd);
}

/* A line of smaps for the mapping that begins at `start`, in KiB; -1: there is none. */
static long row(const void *start, const char *name) {
    char begin[32], wanted[32];
    char *text = whole("/proc/self/smaps"), *at;
    snprintf(begin, sizeof begin, "\n%08lx-", (unsigned long)start);
    snprintf(wanted, sizeof wanted, "\n%s:", name);
    at = strstr(text, begin);
    if (at) at = strstr(at, wanted);
    long kib = at ? atol(at + strlen(wanted)) : -1;
    free(text);
    return kib;
}

static long in_rollup(const char *name) {
    char wanted[32];
    char *text = whole("/proc/self/smaps_rollup"), *at;
    snprintf(wanted, sizeof wanted, "\n%s:", name);
    at = strstr(text, wanted);
    long kib = at ? atol(at + strlen(wanted)) : -1;
    free(text);
    return kib;
}

/* The sum of two lines. */
static long sum(const void *start, const char *name, const char *other) {
    return row(start, name) + row(start, other);
}

/* A shared page counts for each process that maps it with its share (Pss). */
static void shares(void) {
    size_t size = 64 * getpagesize();
    long kib = size / 1024;
    char byte;
    int stop[2];
    /* Holes around it, so that it is not merged with neighbours. */
    char *own = mmap(NULL, 3 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    own += size;
    CHECK(mprotect(own, size, PROT_READ | PROT_WRITE) == 0);
    char *common = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(common != MAP_FAILED && pipe(stop) == 0);
    memset(own, 1, size);
    memset(common, 1, size);
    CHECK(row(own, "Rss") == kib && row(own, "Pss") == kib);
    CHECK(row(own, "Private_Dirty") == kib && row(own, "Shared_Dirty") == 0);
    CHECK(row(own, "Locked") == 0 && row(common, "Pss") == kib);
    CHECK(sum(common, "Private_Dirty", "Private_Clean") == kib);
    CHECK(sum(common, "Shared_Clean", "Shared_Dirty") == 0);
    long before = in_rollup("Pss");
    CHECK(before >= 2 * kib && before <= in_rollup("Rss") && in_rollup("Pss_Anon") >= kib);
    pid_t child = fork();
    if (child == 0) {
        memset(common, 2, size);
        close(stop[1]);
        if (read(stop[0], &byte, 1) != 1) _exit(1);
        memset(own, 3, size / 2);
        _exit(read(stop[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(stop[0]);
    for (int i = 0; i < 1000 && row(common, "Pss") != kib / 2; i++) usleep(5000);
    CHECK(row(common, "Pss") == kib / 2 && row(common, "Rss") == kib);
    CHECK(sum(common, "Private_Dirty", "Private_Clean") == 0);
    CHECK(sum(common, "Shared_Clean", "Shared_Dirty") == kib);
    CHECK(row(own, "Rss") == kib && row(own, "Pss") == kib / 2);
    CHECK(row(own, "Shared_Dirty") == kib && row(own, "Private_Dirty") == 0);
    CHECK(in_rollup("Pss") < in_rollup("Rss") && in_rollup("Pss") <= before - kib / 2);
    /* The child gets private copies of half of it. */
    CHECK(write(stop[1], "x", 1) == 1);
    for (int i = 0; i < 1000 && row(own, "Pss") != kib * 3 / 4; i++) usleep(5000);
    CHECK(row(own, "Pss") == kib * 3 / 4);
    CHECK(row(own, "Shared_Dirty") == kib / 2 && row(own, "Private_Dirty") == kib / 2);
    close(stop[1]);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(mlock(own, size) == 0 && row(own, "Locked") == kib && row(own, "Pss") == kib);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    alarm(240);
    many_groups();
    settings();
    alarms();
    children();
    deaths_of_parents();
    schedules();
    shares();
    return report();
}
