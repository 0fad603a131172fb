/*
 * Time namespaces (time_namespaces(7)): what is written to timens_offsets, who is in which one, and every
 * call that shows or takes a time of CLOCK_MONOTONIC or CLOCK_BOOTTIME. No clock is set.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
#define NS_GET_PARENT _IO(0xb7, 2)
#define NS_GET_NSTYPE _IO(0xb7, 3)
#define SECOND 1000000000LL

/* What the namespace of the tests adds, seconds. */
#define MONOTONIC_ADDS 100000
#define BOOTTIME_ADDS 300000

static long long now(int clock) {
    struct timespec t = {0};
    clock_gettime(clock, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

/* The same by a call of the kernel. */
static long long now_by_call(int clock) {
#if defined(SYS_clock_gettime64)
    long long t[2] = {0};
    syscall(SYS_clock_gettime64, clock, t);
#else
    long t[2] = {0};
    syscall(SYS_clock_gettime, clock, t);
#endif
    return t[0] * SECOND + t[1];
}

static struct timespec timespec(long long ns) {
    return (struct timespec){ns / SECOND, ns % SECOND};
}

static int is_near(long long a, long long b) {
    return llabs(a - b) < 600 * SECOND;
}

/* Writes `text` to the file `name`; the number of the error, or how much was written, negative. */
static int put(const char *name, const char *text) {
    int fd = open(name, O_WRONLY);
    if (fd < 0) return errno;
    ssize_t n = write(fd, text, strlen(text));
    int result = n < 0 ? errno : -(int)n;
    close(fd);
    return result;
}

static int put_offsets(const char *text) {
    return put("/proc/self/timens_offsets", text);
}

static void get(const char *name, char *text, size_t size) {
    int fd = open(name, O_RDONLY);
    ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);
    text[n < 0 ? 0 : n] = 0;
    if (fd >= 0) close(fd);
}

static void get_link(const char *name, char *text, size_t size) {
    ssize_t n = readlink(name, text, size - 1);
    text[n < 0 ? 0 : n] = 0;
}

/* Runs `f` in a child; its checks are added to the own ones. */
static void in_child(void (*f)(void)) {
    int results[2];
    fflush(stdout);
    if (pipe(results)) return;
    pid_t child = fork();
    if (child == 0) {
        failed = made = 0;
        f();
        fflush(stdout);
        int counts[2] = {failed, made};
        _exit(write(results[1], counts, sizeof counts) != sizeof counts);
    }
    close(results[1]);
    int counts[2] = {1, 1}, status = -1;
    ssize_t n = read(results[0], counts, sizeof counts);
    close(results[0]);
    waitpid(child, &status, 0);
    failed += counts[0];
    made += counts[1];
    CHECK(n == sizeof counts && status == 0);
}

static void files_and_limits(void) {
    char before[64], own[64], next[64], text[256];
    get_link("/proc/self/ns/time", before, sizeof before);
    CHECK(strncmp(before, "time:[", 6) == 0);
    CHECK(put_offsets("monotonic 1 0\n") == EACCES);
    CHECK(unshare(CLONE_NEWTIME) == 0);
    get_link("/proc/self/ns/time", own, sizeof own);
    get_link("/proc/self/ns/time_for_children", next, sizeof next);
    CHECK(strcmp(before, own) == 0 && strcmp(own, next) != 0);
    get("/proc/self/timens_offsets", text, sizeof text);
    CHECK(strcmp(text, "monotonic           0         0\nboottime            0         0\n") == 0);
    CHECK(put_offsets("") == EINVAL || put_offsets("") == 0);
    CHECK(put_offsets("monotonic\n") == EINVAL);
    CHECK(put_offsets("realtime 1 0\n") == EINVAL);
    CHECK(put_offsets("monotonic 1 1000000000\n") == EINVAL);
    CHECK(put_offsets("monotonic -5000000000 0\n") == ERANGE);
    CHECK(put_offsets("monotonic 5000000000 0\n") == ERANGE);
    CHECK(put_offsets("boottime 9223372036854775807 0\n") == ERANGE);
    /* All or nothing. */
    CHECK(put_offsets("monotonic 7 0\nboottime -5000000000 0\n") == ERANGE);
    get("/proc/self/timens_offsets", text, sizeof text);
    CHECK(strstr(text, "monotonic           0") == text);
    CHECK(put_offsets("7 5 250\n") == -8);
    CHECK(put_offsets("1 -1 999999000\n") == -15);
    get("/proc/self/timens_offsets", text, sizeof text);
    CHECK(strcmp(text, "monotonic          -1 999999000\nboottime            5       250\n") == 0);
    int fd = open("/proc/self/ns/time_for_children", O_RDONLY);
    CHECK(fd >= 0 && ioctl(fd, NS_GET_NSTYPE) == CLONE_NEWTIME);
    CHECK(ioctl(fd, NS_GET_PARENT) == -1 && errno == EINVAL);
    close(fd);
    /* Nobody of this namespace is moved by what its children will have. */
    CHECK(is_near(now(CLOCK_MONOTONIC), now(CLOCK_BOOTTIME)));
    /* A child is in it: nothing can be set any more. */
    pid_t child = fork();
    if (child == 0) _exit(0);
    waitpid(child, NULL, 0);
    CHECK(put_offsets("monotonic 1 0\n") == EACCES);
    /* A new one begins with what the old one for children had. */
    CHECK(unshare(CLONE_NEWTIME) == 0);
    get("/proc/self/timens_offsets", text, sizeof text);
    CHECK(strcmp(text, "monotonic          -1 999999000\nboottime            5       250\n") == 0);
    CHECK(put_offsets("monotonic 1 0\n") == -14);
}

/* When the test began, by the clocks of the initial namespace. */
static long long began_monotonic, began_boottime;

static void clocks(void) {
    static const int monotonic[] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_COARSE};
    for (int i = 0; i < 3; i++) {
        CHECK(is_near(now(monotonic[i]), began_monotonic + MONOTONIC_ADDS * SECOND));
        CHECK(is_near(now_by_call(monotonic[i]), began_monotonic + MONOTONIC_ADDS * SECOND));
    }
    CHECK(is_near(now(CLOCK_BOOTTIME), began_boottime + BOOTTIME_ADDS * SECOND));
    CHECK(is_near(now_by_call(CLOCK_BOOTTIME), began_boottime + BOOTTIME_ADDS * SECOND));
    struct timeval tv;
    CHECK(gettimeofday(&tv, NULL) == 0 && is_near(tv.tv_sec * SECOND, now_by_call(CLOCK_REALTIME)));
    CHECK(is_near(now(CLOCK_REALTIME), now_by_call(CLOCK_REALTIME)));
    CHECK(llabs(time(NULL) - now_by_call(CLOCK_REALTIME) / SECOND) < 600);
    long long last = now(CLOCK_MONOTONIC);
    for (int i = 0; i < 100; i++) {
        long long next = i % 2 ? now(CLOCK_MONOTONIC) : now_by_call(CLOCK_MONOTONIC);
        if (next < last) {
            CHECK(next >= last);
            break;
        }
        last = next;
    }
    struct timespec resolution;
    CHECK(clock_getres(CLOCK_MONOTONIC, &resolution) == 0 && resolution.tv_nsec == 1);
}

/* Each waits for a time that the namespace's clock shows soon: a wait for the machine's would take a day. */
static void waits(void) {
    static const int ids[] = {CLOCK_MONOTONIC, CLOCK_BOOTTIME};
    for (int i = 0; i < 2; i++) {
        long long until = now(ids[i]) + SECOND / 50;
        struct timespec at = timespec(until), past = timespec(1);
        CHECK(clock_nanosleep(ids[i], TIMER_ABSTIME, &at, NULL) == 0 && now(ids[i]) >= until);
        CHECK(clock_nanosleep(ids[i], TIMER_ABSTIME, &past, NULL) == 0);
        at = timespec(SECOND / 1000);
        CHECK(clock_nanosleep(ids[i], 0, &at, NULL) == 0);

        int fd = timerfd_create(ids[i], TFD_CLOEXEC);
        uint64_t count = 0;
        until = now(ids[i]) + SECOND / 50;
        struct itimerspec setting = {.it_value = timespec(until)};
        CHECK(fd >= 0 && timerfd_settime(fd, TFD_TIMER_ABSTIME, &setting, NULL) == 0);
        CHECK(read(fd, &count, sizeof count) == sizeof count && count == 1 && now(ids[i]) >= until);
        setting.it_value = past;
        CHECK(timerfd_settime(fd, TFD_TIMER_ABSTIME, &setting, NULL) == 0);
        CHECK(read(fd, &count, sizeof count) == sizeof count && count == 1);
        setting.it_value = timespec(now(ids[i]) + 3600 * SECOND);
        CHECK(timerfd_settime(fd, TFD_TIMER_ABSTIME, &setting, NULL) == 0);
        CHECK(timerfd_gettime(fd, &setting) == 0 && is_near(setting.it_value.tv_sec * SECOND, 3600 * SECOND));
        setting.it_value = (struct timespec){0};
        CHECK(timerfd_settime(fd, TFD_TIMER_ABSTIME, &setting, NULL) == 0);
        CHECK(timerfd_gettime(fd, &setting) == 0 && setting.it_value.tv_sec + setting.it_value.tv_nsec == 0);
        close(fd);

        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
        timer_t timer;
        sigset_t set;
        siginfo_t info;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        sigprocmask(SIG_BLOCK, &set, NULL);
        CHECK(timer_create(ids[i], &event, &timer) == 0);
        until = now(ids[i]) + SECOND / 50;
        setting = (struct itimerspec){.it_value = timespec(until)};
        CHECK(timer_settime(timer, TIMER_ABSTIME, &setting, NULL) == 0);
        CHECK(sigwaitinfo(&set, &info) == SIGUSR1 && now(ids[i]) >= until);
        setting.it_value = timespec(now(ids[i]) + 3600 * SECOND);
        CHECK(timer_settime(timer, TIMER_ABSTIME, &setting, NULL) == 0);
        CHECK(timer_gettime(timer, &setting) == 0);
        CHECK(is_near(setting.it_value.tv_sec * SECOND, 3600 * SECOND));
        timer_delete(timer);
    }
    uint32_t word = 0;
    long long until = now(CLOCK_MONOTONIC) + SECOND / 50;
    long long at[2] = {until / SECOND, until % SECOND};
#if defined(SYS_futex_time64)
    long number = SYS_futex_time64;
#else
    long number = SYS_futex;
#endif
    CHECK(syscall(number, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, at, NULL, ~0) == -1 && errno == ETIMEDOUT);
    CHECK(now(CLOCK_MONOTONIC) >= until);
}

static void texts(void) {
    char text[4096];
    get("/proc/uptime", text, sizeof text);
    CHECK(is_near(atoll(text) * SECOND, now(CLOCK_BOOTTIME)));
    struct sysinfo info;
    CHECK(sysinfo(&info) == 0 && is_near(info.uptime * SECOND, now(CLOCK_BOOTTIME)));
    get("/proc/self/stat", text, sizeof text);
    char *field = strrchr(text, ')');
    for (int i = 0; field && i < 20; i++) field = strchr(field + 1, ' ');
    CHECK(field && is_near(atoll(field) * (SECOND / sysconf(_SC_CLK_TCK)), now(CLOCK_BOOTTIME)));
    FILE *stat = fopen("/proc/stat", "r");
    long long boot = -1;
    while (stat && fgets(text, sizeof text, stat))
        if (strncmp(text, "btime ", 6) == 0) boot = atoll(text + 6);
    if (stat) fclose(stat);
    CHECK(is_near(boot * SECOND, now(CLOCK_REALTIME) - now(CLOCK_BOOTTIME)));
}

static void *wait_for_read(void *fd) {
    char c;
    return (void *)(intptr_t)read((int)(intptr_t)fd, &c, 1);
}

/* Back to the initial namespace, and into the other one again. */
static void joins(void) {
    int ends[2], own = open("/proc/self/ns/time", O_RDONLY);
    char parents[64];
    snprintf(parents, sizeof parents, "/proc/%d/ns/time", getppid());
    int parent = open(parents, O_RDONLY);
    CHECK(own >= 0 && parent >= 0 && pipe(ends) == 0);
    pthread_t thread;
    pthread_create(&thread, NULL, wait_for_read, (void *)(intptr_t)ends[0]);
    CHECK(setns(parent, CLONE_NEWTIME) == -1 && errno == EUSERS);
    CHECK(write(ends[1], "x", 1) == 1);
    pthread_join(thread, NULL);
    CHECK(is_near(now(CLOCK_MONOTONIC), began_monotonic + MONOTONIC_ADDS * SECOND));
    /* The joined thread may not be gone from the process yet. */
    int result = -1;
    for (int i = 0; i < 1000 && (result = setns(parent, CLONE_NEWTIME)) && errno == EUSERS; i++) usleep(1000);
    CHECK(result == 0);
    CHECK(is_near(now(CLOCK_MONOTONIC), began_monotonic));
    CHECK(is_near(now_by_call(CLOCK_MONOTONIC), began_monotonic));
    CHECK(is_near(now(CLOCK_BOOTTIME), began_boottime));
    CHECK(setns(own, 0) == 0);
    CHECK(is_near(now(CLOCK_MONOTONIC), began_monotonic + MONOTONIC_ADDS * SECOND));
    CHECK(is_near(now(CLOCK_BOOTTIME), began_boottime + BOOTTIME_ADDS * SECOND));
    pid_t child = fork();
    if (child == 0) _exit(!is_near(now(CLOCK_MONOTONIC), began_monotonic + MONOTONIC_ADDS * SECOND));
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    close(own);
    close(parent);
}

static void inside(void) {
    char own[64], next[64];
    get_link("/proc/self/ns/time", own, sizeof own);
    get_link("/proc/self/ns/time_for_children", next, sizeof next);
    CHECK(strcmp(own, next) == 0);
    clocks();
    waits();
    texts();
    joins();
}

/* Exec'ed: says by its status whether it is in the namespace of the tests. */
static int says_where(const char *argument) {
    long long began = atoll(argument);
    int by_page = is_near(now(CLOCK_MONOTONIC), began + MONOTONIC_ADDS * SECOND);
    int by_call = is_near(now_by_call(CLOCK_MONOTONIC), began + MONOTONIC_ADDS * SECOND);
    return by_page && by_call ? 0 : 1;
}

/* A child of vfork has its parent's memory, and with it the clocks: it is in the namespace after exec. */
static void by_exec(void) {
    char began[32];
    snprintf(began, sizeof began, "%lld", began_monotonic);
    volatile int early = -1;
    pid_t child = vfork();
    if (child == 0) {
        early = is_near(now_by_call(CLOCK_MONOTONIC), began_monotonic);
        execl("/proc/self/exe", "timens", began, NULL);
        _exit(2);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(early == 1);
}

static void made_by_clone3(void) {
    struct {
        uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
    } args = {.flags = CLONE_NEWTIME, .exit_signal = SIGCHLD};
    char own[64], childs[64];
    get_link("/proc/self/ns/time", own, sizeof own);
    pid_t child = syscall(SYS_clone3, &args, sizeof args);
    if (child == 0) {
        get_link("/proc/self/ns/time", childs, sizeof childs);
        _exit(strcmp(own, childs) == 0 || put_offsets("monotonic 1 0\n") != EACCES);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

/* Only in a user namespace of one's own. */
static void unprivileged(void) {
    CHECK(setresgid(1000, 1000, 1000) == 0 && setresuid(1000, 1000, 1000) == 0);
    CHECK(unshare(CLONE_NEWTIME) == -1 && errno == EPERM);
    if (unshare(CLONE_NEWUSER)) {
        CHECK(errno == EPERM || errno == ENOSPC);
        return;
    }
    CHECK(unshare(CLONE_NEWTIME) == 0);
    pid_t child = fork();
    if (child == 0) _exit(!is_near(now(CLOCK_MONOTONIC), began_monotonic));
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void moved(void) {
    char text[128];
    CHECK(unshare(CLONE_NEWTIME) == 0);
    snprintf(text, sizeof text, "monotonic %d 0\nboottime %d 0\n", MONOTONIC_ADDS, BOOTTIME_ADDS);
    CHECK(put_offsets(text) == -(int)strlen(text));
    by_exec();
    in_child(inside);
}

int main(int argc, char **argv) {
    if (argc > 1) return says_where(argv[1]);
    began_monotonic = now_by_call(CLOCK_MONOTONIC);
    began_boottime = now_by_call(CLOCK_BOOTTIME);
    in_child(files_and_limits);
    in_child(moved);
    in_child(made_by_clone3);
    in_child(unprivileged);
    return report();
}
