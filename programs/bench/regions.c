/* Mapping calls in an address space with n regions: the cost must not grow with n. */
#define _GNU_SOURCE
#include "bench.h"

#include <stddef.h>
#include <sys/mman.h>

/*
 * Makes n one-page regions that the kernel cannot merge: every second page of a reservation has PROT_NONE.
 * Returns the first page. The accessible pages have even numbers.
 */
static char *make_regions(long n) {
    char *p =
        mmap(NULL, (size_t)(2 * n * PAGE), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    MUST(p != MAP_FAILED);
    for (long i = 0; i < n; i++) MUST(mprotect(p + 2 * i * PAGE, PAGE, PROT_READ | PROT_WRITE) == 0);
    return p;
}

#define CALLS 100

/* Maps a page of another kind, which cannot merge with its neighbours. */
static void mmap_regions(long n) {
    char *made[CALLS];
    make_regions(n);
    for (rounds_start(CALLS); rounds_more();) {
        round_begin();
        for (int i = 0; i < CALLS; i++)
            made[i] = mmap(NULL, PAGE, i % 2 ? PROT_READ : PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        round_end();
        for (int i = 0; i < CALLS; i++) MUST(made[i] != MAP_FAILED && munmap(made[i], PAGE) == 0);
    }
}

static void munmap_regions(long n) {
    char *made[CALLS];
    make_regions(n);
    for (rounds_start(CALLS); rounds_more();) {
        for (int i = 0; i < CALLS; i++) {
            made[i] = mmap(NULL, PAGE, i % 2 ? PROT_READ : PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            MUST(made[i] != MAP_FAILED);
        }
        round_begin();
        for (int i = 0; i < CALLS; i++) munmap(made[i], PAGE);
        round_end();
    }
}

static void mprotect_regions(long n) {
    char *p = make_regions(n);
    char *middle = p + n / 2 * 2 * PAGE;
    /* Alternates between two protections: each call changes one whole region. */
    MEASURE(CALLS) mprotect(middle, PAGE, each_ % 2 ? PROT_READ | PROT_WRITE : PROT_READ);
}

static const long region_counts[] = {1, 10, 100, 1000, 10000, 0};

const struct row region_rows[] = {
    {"mmap-regions", mmap_regions, region_counts},
    {"munmap-regions", munmap_regions, region_counts},
    {"mprotect-regions", mprotect_regions, region_counts},
    {0, 0, 0},
};
