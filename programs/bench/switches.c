/* Switches from one process or thread to another: pipes, futexes, sched_yield. */
#define _GNU_SOURCE
#include "bench.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void stop_child(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* One byte to the other process, and one back. */
static void pipe_round_trip(long n) {
    int there[2], back[2];
    char byte = 0;
    (void)n;
    MUST(pipe(there) == 0 && pipe(back) == 0);
    pid_t child = fork();
    if (child == 0)
        for (;;)
            if (read(there[0], &byte, 1) != 1 || write(back[1], &byte, 1) != 1) _exit(0);
    MEASURE(200) {
        MUST(write(there[1], &byte, 1) == 1);
        MUST(read(back[0], &byte, 1) == 1);
    }
    stop_child(child);
}

static long futex(atomic_int *word, int operation, int value) {
    return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

/* Two threads take turns; each sleeps until `turn` is its own number. */
static atomic_int turn;

static void hand_over(int mine, int other) {
    while (atomic_load(&turn) != mine) futex(&turn, FUTEX_WAIT, other);
    atomic_store(&turn, other);
    futex(&turn, FUTEX_WAKE, 1);
}

static void *partner(void *argument) {
    for (;;) hand_over(1, 0);
    return argument;
}

static void futex_round_trip(long n) {
    pthread_t thread;
    (void)n;
    MUST(pthread_create(&thread, NULL, partner, NULL) == 0);
    MEASURE(200) hand_over(0, 1);
}

/* The cost per yield of this process; the other process yields as often. */
static void yield_pair(long n) {
    (void)n;
    pid_t child = fork();
    if (child == 0)
        for (;;) sched_yield();
    sched_yield();
    MEASURE(500) sched_yield();
    stop_child(child);
}

/* As pipe_round_trip, with a registered rseq area, which fork inherits. */
static void pipe_round_trip_rseq(long n) {
    register_rseq();
    pipe_round_trip(n);
}

static void yield_pair_rseq(long n) {
    register_rseq();
    yield_pair(n);
}

/* n processes in a ring pass a byte around through pipes; the cost per pass, which is one switch. */
static void switch_ring(long n) {
    int pipes[64][2];
    pid_t children[64];
    char byte = 0;
    for (long i = 0; i < n; i++) MUST(pipe(pipes[i]) == 0);
    for (long i = 1; i < n; i++) {
        children[i] = fork();
        if (children[i] == 0)
            for (;;)
                if (read(pipes[i - 1][0], &byte, 1) != 1 || write(pipes[i][1], &byte, 1) != 1) _exit(0);
    }
    long turns = 320 / n;
    for (rounds_start(turns * n); rounds_more();) {
        round_begin();
        for (long i = 0; i < turns; i++) {
            MUST(write(pipes[0][1], &byte, 1) == 1);
            MUST(read(pipes[n - 1][0], &byte, 1) == 1);
        }
        round_end();
    }
    for (long i = 1; i < n; i++) stop_child(children[i]);
}

/*
 * One FUTEX_WAKE for n sleeping threads, until every one of them has run; per thread woken. The last one to
 * come says so to the waker.
 */
static atomic_int generation, arrived, all_arrived;
static long waiters;

static void *waiter(void *argument) {
    int seen = 0;
    for (;;) {
        if (atomic_fetch_add(&arrived, 1) + 1 == waiters) {
            atomic_store(&all_arrived, seen + 1);
            futex(&all_arrived, FUTEX_WAKE, 1);
        }
        while (atomic_load(&generation) == seen) futex(&generation, FUTEX_WAIT, seen);
        seen++;
    }
    return argument;
}

static void wait_for_all(int number) {
    int have;
    while ((have = atomic_load(&all_arrived)) != number) futex(&all_arrived, FUTEX_WAIT, have);
}

static void futex_wake(long n) {
    pthread_t thread;
    pthread_attr_t small;
    int number = 0;
    waiters = n;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    for (long i = 0; i < n; i++) MUST(pthread_create(&thread, &small, waiter, NULL) == 0);
    long turns = n > 16 ? 10 : 50;
    for (rounds_start(turns * n); rounds_more();) {
        wait_for_all(number + 1);
        usleep(1000);
        round_begin();
        for (long i = 0; i < turns; i++) {
            wait_for_all(++number);
            atomic_store(&arrived, 0);
            atomic_store(&generation, number);
            futex(&generation, FUTEX_WAKE, 1 << 30);
            wait_for_all(number + 1);
        }
        round_end();
    }
}

static const long process_counts[] = {2, 8, 32, 0};
static const long waiter_counts[] = {1, 4, 16, 64, 0};

const struct row switch_rows[] = {
    {"pipe", pipe_round_trip, 0},
    {"futex", futex_round_trip, 0},
    {"yield-pair", yield_pair, 0},
    {"pipe-rseq", pipe_round_trip_rseq, 0},
    {"yield-pair-rseq", yield_pair_rseq, 0},
    {"switch-ring", switch_ring, process_counts},
    {"futex-wake", futex_wake, waiter_counts},
    {0, 0, 0},
};
