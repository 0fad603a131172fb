/*
 * /init of a benchmark run. Options are the words after `--` on the kernel's command line (ARGS of init):
 *   settle=SECONDS   sleep first, so that the kernel finishes what it does after boot
 *   only=NAME,...    rows whose name is one of these, or starts with one that ends in `*`
 *   size=N           only this size of theirs
 *   exec=PATH        run this program instead (its arguments follow, one `arg=` each); several are run in
 *                    turn
 * With SHARED, the rows are those of shared.c, with MAP those of map.c: programs of their own, which leave
 * the other's size alone.
 * Prints, on the console, one line per row and size:
 *   bench NAME SIZE OPERATIONS ROUND...     (what each round took, the clock's own cost taken off)
 *   bench-failed NAME SIZE REASON
 * and `bench-end` at last, and switches the machine off.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define MOST_ROUNDS 9

static uint64_t took[MOST_ROUNDS], began, clock_cost;
static int round_number, rounds_wanted = 7, rounds_warm = 2, clock_known;
static long operations_per_round;

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The profiler (limen bench --profile) counts between these two addresses; they do nothing. */
__attribute__((noinline)) void profile_begin(void) { __asm__ volatile(""); }
__attribute__((noinline)) void profile_end(void) { __asm__ volatile("" : : : "memory"); }

void rounds_few(void) {
    rounds_wanted = 3;
    rounds_warm = 1;
}

void rounds_start(long operations) {
    operations_per_round = operations;
    round_number = -rounds_warm;
}

int rounds_more(void) { return round_number < rounds_wanted; }

void round_begin(void) {
    began = now();
    if (round_number >= 0 && clock_known) profile_begin();
}

void round_end(void) {
    if (round_number >= 0 && clock_known) profile_end();
    uint64_t t = now() - began;
    if (round_number >= 0) took[round_number] = t > clock_cost ? t - clock_cost : 0;
    round_number++;
}

void fail(const char *what) {
    printf("bench-failed %s (errno %d)\n", what, errno);
    fflush(stdout);
    _exit(3);
}

char *map_pages(long bytes) {
    char *p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(p != MAP_FAILED);
    madvise(p, (size_t)bytes, MADV_NOHUGEPAGE);
    return p;
}

void reap(pid_t child) {
    int status = -1;
    MUST(child > 0);
    MUST(waitpid(child, &status, 0) == child);
    if (status != 0) printf("bench-failed a child's status was 0x%x\n", (unsigned)status);
    MUST(status == 0);
}

void register_rseq(void) {
#if defined(__x86_64__)
    enum { CALL = 334, SIGNATURE = 0x53053053 };
#elif defined(__aarch64__)
    enum { CALL = 293, SIGNATURE = (int)0xd428bc00 };
#elif defined(__arm__)
    enum { CALL = 398, SIGNATURE = (int)0xe7f5def3 };
#elif defined(__powerpc64__)
    enum { CALL = 387, SIGNATURE = 0x0fe5000b };
#endif
    static _Alignas(32) char area[32];
    MUST(syscall(CALL, area, sizeof area, 0, SIGNATURE) == 0);
}

/* The cost of an empty round. */
static void measure_clock(void) {
    uint64_t least = UINT64_MAX;
    clock_cost = 0;
    MEASURE(1) KEEP(0);
    for (int i = 0; i < rounds_wanted; i++)
        if (took[i] < least) least = took[i];
    clock_cost = least;
    clock_known = 1;
}

/*
 * Gives the console time for its output, and the kernel for deferred work, before the next row. Sleeping
 * costs nothing under icount.
 */
static void rest(long milliseconds) {
    struct timespec t = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    fflush(stdout);
    tcdrain(1);
    nanosleep(&t, NULL);
}

static void row_process(const struct row *row, long n) {
    setpgid(0, 0);
    /* The program it executes has its addresses randomised as usual. */
    personality(0);
    measure_clock();
    row->run(n);
    if (round_number < rounds_wanted) fail("the row did not finish its rounds");
    printf("bench %s %ld %ld", row->name, n, operations_per_round);
    for (int i = 0; i < rounds_wanted; i++) printf(" %llu", (unsigned long long)took[i]);
    printf("\n");
    fflush(stdout);
    _exit(0);
}

static volatile sig_atomic_t alarmed;
static void on_alarm(int number) {
    (void)number;
    alarmed = 1;
}

static void run_row(const struct row *row, long n) {
    int status = 0;
    printf("bench-begin %s %ld\n", row->name, n);
    rest(100);
    alarmed = 0;
    pid_t child = fork();
    if (child == 0) row_process(row, n);
    alarm(60);
    pid_t got = child < 0 ? -1 : waitpid(child, &status, 0);
    alarm(0);
    if (child > 0) kill(-child, SIGKILL);
    if (got < 0 && alarmed) {
        if (child > 0) waitpid(child, &status, 0);
        printf("bench-failed %s %ld it did not end in 60 seconds\n", row->name, n);
    } else if (got < 0 || status != 0) {
        printf("bench-failed %s %ld status 0x%x\n", row->name, n, (unsigned)status);
    }
    while (waitpid(-1, &status, WNOHANG) > 0) {
    }
}

static int wanted(const char *only, const char *name) {
    if (only == NULL) return 1;
    for (const char *p = only; *p;) {
        const char *end = strchrnul(p, ',');
        size_t length = (size_t)(end - p);
        if (length > 0 && p[length - 1] == '*' ? strncmp(p, name, length - 1) == 0
                                               : strlen(name) == length && strncmp(p, name, length) == 0)
            return 1;
        p = *end ? end + 1 : end;
    }
    return 0;
}

static void run_table(const struct row *rows, const char *only, long size) {
    static const long none[] = {0, 0};
    for (const struct row *row = rows; row->name; row++) {
        if (!wanted(only, row->name)) continue;
        const long *n = row->sizes ? row->sizes : none;
        do
            if (size < 0 || size == *n) run_row(row, *n);
        while (*n && *++n);
    }
}

static void run_program(char **arguments) {
    int status = 0;
    printf("bench-exec %s\n", arguments[0]);
    rest(100);
    pid_t child = fork();
    if (child == 0) {
        setenv("PATH", "/usr/bin:/bin", 1);
        setenv("HOME", "/", 1);
        execv(arguments[0], arguments);
        printf("bench-failed %s %s\n", arguments[0], strerror(errno));
        fflush(stdout);
        _exit(127);
    }
    waitpid(child, &status, 0);
    printf("bench-status 0x%x\n", (unsigned)status);
}

static void run_programs(char **words, int count) {
    char *arguments[64];
    int argc = 0;
    for (int i = 0; i <= count; i++) {
        int begins = i < count && strncmp(words[i], "exec=", 5) == 0;
        if (argc > 0 && (begins || i == count)) {
            arguments[argc] = NULL;
            run_program(arguments);
            argc = 0;
        }
        if (begins) arguments[argc++] = words[i] + 5;
        if (i < count && strncmp(words[i], "arg=", 4) == 0 && argc > 0 && argc < 63)
            arguments[argc++] = words[i] + 4;
    }
}

int main(int argc, char **argv) {
    const char *only = NULL;
    long settle = 0, size = -1;
    int exec = 0;
    struct sigaction action = {.sa_handler = on_alarm};
    struct rlimit files = {4096, 4096};
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "only=", 5) == 0) only = argv[i] + 5;
        if (strncmp(argv[i], "size=", 5) == 0) size = atol(argv[i] + 5);
        if (strncmp(argv[i], "settle=", 7) == 0) settle = atol(argv[i] + 7);
        if (strncmp(argv[i], "exec=", 5) == 0) exec = 1;
    }
    /*
     * Some costs depend on where mappings fall among page tables: the rows run without address space
     * randomisation. The C library must not register an rseq area: its cost is measured by rows of its own.
     */
    if (getenv("GLIBC_TUNABLES") == NULL) {
        setenv("GLIBC_TUNABLES", "glibc.pthread.rseq=0", 1);
        personality(personality(0xffffffff) | ADDR_NO_RANDOMIZE);
        execv("/init", argv);
    }
    sigaction(SIGALRM, &action, NULL);
    setrlimit(RLIMIT_NOFILE, &files);
    mkdir("/proc", 0755);
    mkdir("/dev", 0755);
    mkdir("/tmp", 0755);
    mount("proc", "/proc", "proc", 0, NULL);
    mount("sysfs", "/sys", "sysfs", 0, NULL);
    mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
    mount("tmpfs", "/tmp", "tmpfs", 0, "mode=1777");
    rest(settle * 1000);
    if (exec) {
        run_programs(argv + 1, argc - 1);
    } else {
#ifdef SHARED
        const struct row *tables[] = {shared_rows};
#elif defined(MAP)
        const struct row *tables[] = {map_rows};
        map_report();
#else
        const struct row *tables[] = {call_rows,   signal_rows, fault_rows, region_rows, process_rows,
                                      switch_rows, file_rows,   wait_rows,  timer_rows,
                                      watched_rows};
#endif
        for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) run_table(tables[i], only, size);
    }
    printf("bench-end\n");
    rest(100);
    sync();
    reboot(RB_POWER_OFF);
    for (;;) pause();
}
