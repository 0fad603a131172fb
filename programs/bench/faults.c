/* Page faults, and returning touched pages to the kernel. Figures are per page of 4 KiB. */
#define _GNU_SOURCE
#include "bench.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>

#define REGION (64L << 20)
#define PAGES (REGION / PAGE)

static void touch(volatile char *p, long bytes) {
    for (long i = 0; i < bytes; i += PAGE) p[i] = 1;
}

static void look(volatile char *p, long bytes) {
    for (long i = 0; i < bytes; i += PAGE) (void)p[i];
}

static void fault_write(long n) {
    (void)n;
    rounds_few();
    for (rounds_start(PAGES); rounds_more();) {
        char *p = map_pages(REGION);
        round_begin();
        touch(p, REGION);
        round_end();
        munmap(p, REGION);
    }
}

static void fault_read(long n) {
    (void)n;
    rounds_few();
    for (rounds_start(PAGES); rounds_more();) {
        char *p = map_pages(REGION);
        round_begin();
        look(p, REGION);
        round_end();
        munmap(p, REGION);
    }
}

static void munmap_touched(long n) {
    (void)n;
    rounds_few();
    for (rounds_start(PAGES); rounds_more();) {
        char *p = map_pages(REGION);
        touch(p, REGION);
        round_begin();
        munmap(p, REGION);
        round_end();
    }
}

static void mmap_munmap(long n) {
    (void)n;
    MEASURE(500) {
        char *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        munmap(p, PAGE);
    }
}

static void mmap_touch_munmap(long n) {
    (void)n;
    MEASURE(500) {
        volatile char *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        *p = 1;
        munmap((void *)p, PAGE);
    }
}

/*
 * Threads that touch one mapping, each a part of it. They start at a barrier; the round ends when all are
 * done.
 */
#define SHARED (16L << 20)
static pthread_barrier_t start, stop;
static char *volatile shared;
static long share;

static void *toucher(void *argument) {
    long i = (long)argument;
    for (;;) {
        pthread_barrier_wait(&start);
        if (shared == NULL) return NULL;
        touch(shared + i * share, share);
        pthread_barrier_wait(&stop);
    }
}

static void fault_threads(long n) {
    pthread_t threads[16];
    rounds_few();
    share = SHARED / n;
    pthread_barrier_init(&start, NULL, (unsigned)n + 1);
    pthread_barrier_init(&stop, NULL, (unsigned)n + 1);
    for (long i = 0; i < n; i++) MUST(pthread_create(&threads[i], NULL, toucher, (void *)i) == 0);
    for (rounds_start(SHARED / PAGE); rounds_more();) {
        shared = map_pages(SHARED);
        round_begin();
        pthread_barrier_wait(&start);
        pthread_barrier_wait(&stop);
        round_end();
        munmap(shared, SHARED);
    }
    shared = NULL;
    pthread_barrier_wait(&start);
    for (long i = 0; i < n; i++) pthread_join(threads[i], NULL);
}

static const long thread_counts[] = {1, 2, 4, 0};

const struct row fault_rows[] = {
    {"fault-write", fault_write, 0},
    {"fault-read", fault_read, 0},
    {"munmap-touched", munmap_touched, 0},
    {"mmap-munmap", mmap_munmap, 0},
    {"mmap-touch-munmap", mmap_touch_munmap, 0},
    {"fault-threads", fault_threads, thread_counts},
    {0, 0, 0},
};
