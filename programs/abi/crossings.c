/*
 * The counters of the threshold, /sys/kernel/debug/entry: exactly what a program does is counted, and a call
 * that touches no memory of the program opens no window to it. Limen's own files. Called by
 * tools/limen/src/test/programs.rs, on every architecture, on one processor.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "common.h"

enum { CALLS, INTERRUPTS, USER_FAULTS, KERNEL_FAULTS, TURNS, RESTARTS, RESCHEDULES, WINDOWS, COUNTERS };
static const char *const names[COUNTERS] = { "\ncalls: ", "\ninterrupts: ", "\nuser_faults: ",
    "\nkernel_faults: ", "\nwork_turns: ", "\nrestarts: ", "\nreschedules: ", "\nwindows: " };

static const char folder[] = "/sys/kernel/debug/entry";
static int stats = -1;
static char text[1 << 16];

/* Reads the counters' sums, with one call. */
static void read_sums(long long sums[COUNTERS]) {
    ssize_t length = pread(stats, text, sizeof text - 1, 0);
    CHECK(length > 0);
    text[length > 0 ? length : 0] = 0;
    for (int i = 0; i < COUNTERS; i++) {
        char *line = strstr(text, names[i]);
        CHECK(line != NULL);
        sums[i] = line ? strtoll(line + strlen(names[i]), NULL, 10) : -1;
    }
}

static int turn(const char *to) {
    char path[64];
    snprintf(path, sizeof path, "%s/enable", folder);
    int fd = open(path, O_WRONLY);
    int done = fd >= 0 && write(fd, to, strlen(to)) == (ssize_t)strlen(to);
    close(fd);
    return done;
}

/*
 * How much of each `work` adds. An interrupt may come in between, and others may run then: what is seen in
 * the quietest of many times is the work's own.
 */
static void measure(void (*work)(void), long long least[COUNTERS]) {
    long long before[COUNTERS], after[COUNTERS];
    for (int i = 0; i < COUNTERS; i++) least[i] = 1LL << 60;
    for (int time = 0; time < 60; time++) {
        read_sums(before);
        work();
        read_sums(after);
        for (int i = 0; i < COUNTERS; i++)
            if (after[i] - before[i] < least[i]) least[i] = after[i] - before[i];
    }
}

enum { MANY = 100 };
static int each(long long counted) { return counted >= MANY && counted % MANY == 0; }

static void nothing(void) {}
static void silent_calls(void) {
    for (int i = 0; i < MANY; i++) syscall(SYS_getppid);
}
static char path[4096];
static void calls_with_memory(void) {
    for (int i = 0; i < MANY; i++) syscall(SYS_getcwd, path, sizeof path);
}
static char *page;
static void faults(void) {
    for (int i = 0; i < MANY; i++) {
        madvise(page, 4096, MADV_DONTNEED);
        *(volatile char *)page = 1;
    }
}
/* The kernel's own copy finds no page. */
static void faults_in_copies(void) {
    for (int i = 0; i < MANY; i++) {
        madvise(page, 4096, MADV_DONTNEED);
        syscall(SYS_getcwd, page, 4096L);
    }
}
static void signals(void) {
    for (int i = 0; i < MANY; i++) {
        union sigval none = { 0 };
        sigqueue(getpid(), SIGUSR1, none);
    }
}

/* Waits until a thread sleeps in a call. */
static int sleeps(pid_t pid) {
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    for (int time = 0; time < 500 && state != 'S'; time++, pause_ms(10)) {
        FILE *file = fopen(path, "r");
        if (!file || fscanf(file, "%*d %*s %c", &state) != 1) state = 0;
        if (file) fclose(file);
    }
    return state == 'S';
}

/* A pipe's reader is stopped and goes on: its call is restarted, and nobody sees it in user mode. */
static void restarted(void) {
    int ends[2], status;
    char byte = 0;
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) _exit(read(ends[0], &byte, 1) != 1);
    CHECK(sleeps(child) && kill(child, SIGSTOP) == 0);
    CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    CHECK(kill(child, SIGCONT) == 0 && sleeps(child));
    CHECK(write(ends[1], "", 1) == 1 && child_good(child));
    close(ends[0]), close(ends[1]);
}

static void handler(int signal) { (void)signal; }

int main(void) {
    long long none[COUNTERS], some[COUNTERS], more[COUNTERS];
    mount("none", "/sys/kernel/debug", "debugfs", 0, NULL);
    snprintf(path, sizeof path, "%s/stats", folder);
    stats = open(path, O_RDONLY);
    CHECK(stats >= 0);
    page = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED && signal(SIGUSR1, handler) != SIG_ERR);

    /* Off: nothing moves. */
    CHECK(turn("0"));
    read_sums(none);
    silent_calls(), calls_with_memory(), faults();
    read_sums(some);
    CHECK(memcmp(none, some, sizeof none) == 0);
    CHECK(!turn("2") && !turn("x") && turn("1"));

    measure(nothing, none);
    CHECK(none[CALLS] == 1 && none[WINDOWS] >= 0);
    measure(silent_calls, some);
    CHECK(some[CALLS] - none[CALLS] == MANY && some[WINDOWS] == none[WINDOWS]);
    CHECK(some[USER_FAULTS] == none[USER_FAULTS] && some[KERNEL_FAULTS] == none[KERNEL_FAULTS]);
    CHECK(some[TURNS] == none[TURNS] && some[RESTARTS] == 0 && some[RESCHEDULES] == none[RESCHEDULES]);
    measure(calls_with_memory, some);
    CHECK(some[CALLS] - none[CALLS] == MANY && each(some[WINDOWS] - none[WINDOWS]));
    measure(faults, some);
    CHECK(some[CALLS] - none[CALLS] == MANY && each(some[USER_FAULTS] - none[USER_FAULTS]));
    CHECK(some[WINDOWS] == none[WINDOWS] && some[KERNEL_FAULTS] == none[KERNEL_FAULTS]);
    measure(faults_in_copies, some);
    CHECK(some[CALLS] - none[CALLS] == 2 * MANY && each(some[KERNEL_FAULTS] - none[KERNEL_FAULTS]));
    CHECK(some[USER_FAULTS] == none[USER_FAULTS]);
    measure(signals, some);
    CHECK(each(some[TURNS] - none[TURNS]));

    read_sums(some);
    restarted();
    read_sums(more);
    CHECK(more[RESTARTS] - some[RESTARTS] == 1 && more[RESCHEDULES] >= some[RESCHEDULES]);
    struct timespec wait = { 0, 50000000 };
    nanosleep(&wait, NULL);
    read_sums(some);
    CHECK(some[INTERRUPTS] > more[INTERRUPTS]);

    /* Off again: as it was. */
    CHECK(turn("0"));
    read_sums(none);
    silent_calls();
    read_sums(some);
    CHECK(memcmp(none, some, sizeof none) == 0);
    return report();
}
