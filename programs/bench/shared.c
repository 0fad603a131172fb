/*
 * Rows of `limen bench --shared-lines`: four threads, each on a processor of its own, do the same at the same
 * time; a QEMU plugin tells which lines of memory more than one processor wrote. It looks between
 * shared_begin and shared_end, on the processor that calls them; shared_row begins a row. The first two rows
 * show that it sees what it should.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREADS 4
#define TURNS 1000

__attribute__((noinline)) void shared_row(void) { __asm__ volatile("nop"); }
__attribute__((noinline)) void shared_begin(void) { __asm__ volatile(""); }
__attribute__((noinline)) void shared_end(void) { __asm__ volatile("" : : : "memory"); }

struct own {
    _Alignas(256) long word;
    int fd;
    int epoll;
    long number;
    void (*turn)(struct own *);
};

static struct own owns[THREADS];
/* /dev/zero, for all threads; and a process that sleeps. */
static int common_fd;
static pid_t sleeper;
static _Alignas(256) long common;
static pthread_barrier_t start, stop;

static void one_line(struct own *own) {
    (void)own;
    __atomic_fetch_add(&common, 1, __ATOMIC_RELAXED);
}

static void own_lines(struct own *own) { __atomic_fetch_add(&own->word, 1, __ATOMIC_RELAXED); }

static void getpid_turn(struct own *own) {
    (void)own;
    syscall(SYS_getpid);
}

static void read_turn(struct own *own) {
    char byte;
    MUST(read(own->fd, &byte, 1) == 1);
}

static void read_common_turn(struct own *own) {
    char byte;
    (void)own;
    MUST(read(common_fd, &byte, 1) == 1);
}

static void epoll_turn(struct own *own) {
    struct epoll_event found[8];
    MUST(epoll_wait(own->epoll, found, 8, 1000) == 1);
}

static void kill_turn(struct own *own) {
    (void)own;
    MUST(kill(sleeper, 0) == 0);
}

static void getpriority_turn(struct own *own) {
    (void)own;
    MUST(syscall(SYS_getpriority, PRIO_PROCESS, sleeper) == 20);
}

static void affinity_turn(struct own *own) {
    cpu_set_t set;
    (void)own;
    MUST(sched_getaffinity(sleeper, sizeof set, &set) == 0);
}

static void stat_turn(struct own *own) {
    struct stat s;
    (void)own;
    MUST(stat("/tmp/shared", &s) == 0);
}

static void *worker(void *argument) {
    struct own *own = argument;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((int)own->number, &set);
    MUST(sched_setaffinity(0, sizeof set, &set) == 0);
    own->fd = open("/dev/zero", O_RDONLY);
    MUST(own->fd >= 0);
    struct epoll_event event = {.events = EPOLLIN};
    int ready = eventfd(1, 0);
    own->epoll = epoll_create1(0);
    MUST(epoll_ctl(own->epoll, EPOLL_CTL_ADD, ready, &event) == 0);
    for (int i = 0; i < 100; i++) own->turn(own);
    for (;;) {
        pthread_barrier_wait(&start);
        shared_begin();
        for (int i = 0; i < TURNS; i++) own->turn(own);
        shared_end();
        pthread_barrier_wait(&stop);
    }
    return NULL;
}

static void run(void (*turn)(struct own *)) {
    pthread_t threads[THREADS];
    int fd = open("/tmp/shared", O_RDWR | O_CREAT, 0644);
    shared_row();
    MUST(fd >= 0);
    MUST(close(fd) == 0);
    common_fd = open("/dev/zero", O_RDONLY);
    MUST(common_fd >= 0);
    sleeper = fork();
    MUST(sleeper >= 0);
    if (sleeper == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) pause();
    }
    pthread_barrier_init(&start, NULL, THREADS + 1);
    pthread_barrier_init(&stop, NULL, THREADS + 1);
    for (long i = 0; i < THREADS; i++) {
        owns[i].number = i;
        owns[i].turn = turn;
        MUST(pthread_create(&threads[i], NULL, worker, &owns[i]) == 0);
    }
    rounds_few();
    for (rounds_start((long)THREADS * TURNS); rounds_more();) {
        round_begin();
        pthread_barrier_wait(&start);
        pthread_barrier_wait(&stop);
        round_end();
    }
}

static void shared_one_line(long n) { (void)n, run(one_line); }
static void shared_own_lines(long n) { (void)n, run(own_lines); }
static void shared_getpid(long n) { (void)n, run(getpid_turn); }
static void shared_read(long n) { (void)n, run(read_turn); }
static void shared_read_common(long n) { (void)n, run(read_common_turn); }
static void shared_epoll(long n) { (void)n, run(epoll_turn); }
static void shared_stat(long n) { (void)n, run(stat_turn); }
static void shared_kill(long n) { (void)n, run(kill_turn); }
static void shared_getpriority(long n) { (void)n, run(getpriority_turn); }
static void shared_affinity(long n) { (void)n, run(affinity_turn); }

const struct row shared_rows[] = {
    {"one-line", shared_one_line, 0},
    {"own-lines", shared_own_lines, 0},
    {"getpid", shared_getpid, 0},
    {"read-zero", shared_read, 0},
    {"read-common", shared_read_common, 0},
    {"epoll", shared_epoll, 0},
    {"stat", shared_stat, 0},
    {"kill-0", shared_kill, 0},
    {"getpriority", shared_getpriority, 0},
    {"getaffinity", shared_affinity, 0},
    {0, 0, 0},
};
