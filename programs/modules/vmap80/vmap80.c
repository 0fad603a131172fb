/*
 * Maps most of the memory, writes it, makes it read-only, proves that it cannot be written then, makes it
 * writable again, and frees it. All of it happens in `init`; the log has a line with the times.
 */
#include "limen.h"

LIMEN_MODULE("vmap80", "Dual MIT/GPL");

static unsigned int percent = 80;
/* The most that one area of addresses has room for, in MiB; 0: no limit. */
static unsigned int most;
LIMEN_PARAM(percent, uint, 0444);
LIMEN_PARAM(most, uint, 0444);

static unsigned long failed;

static unsigned int *word(char *at, unsigned long page) {
    return (unsigned int *)(at + page * LIMEN_PAGE_SIZE + (page * 64 & 4032));
}

/* Tries to write every so many pages; counts those for which the answer was not `wanted`. */
static void probe(char *at, unsigned long pages, unsigned long step, int wanted) {
    for (unsigned long page = 0; page < pages; page += step) {
        unsigned int before = *word(at, page);
        int got = limen_probe_write(word(at, page), (unsigned int)page + 1);
        failed += got != wanted || *word(at, page) != (got ? before : (unsigned int)page + 1);
    }
}

static int start(void) {
    unsigned long pages = limen_total_pages() / 100 * percent;
    if (most && pages > (unsigned long)most * 256)
        pages = (unsigned long)most * 256;
    unsigned long long began = limen_now_ns();
    char *at = limen_vmalloc(pages * LIMEN_PAGE_SIZE);
    if (!at)
        return -LIMEN_ENOMEM;
    for (unsigned long page = 0; page < pages; page++)
        *word(at, page) = (unsigned int)page;
    unsigned long long written = limen_now_ns();
    failed += limen_set_memory_ro(at, (int)pages) != 0;
    unsigned long long closed = limen_now_ns();
    probe(at, pages, 61, -LIMEN_EFAULT);
    for (unsigned long page = 0; page < pages; page++)
        failed += *word(at, page) != (unsigned int)page;
    /* A part of it only. */
    failed += limen_set_memory_rw(at + LIMEN_PAGE_SIZE, 1) != 0;
    failed += limen_probe_write(word(at, 0), 0) != -LIMEN_EFAULT;
    failed += limen_probe_write(word(at, 1), 1) != 0;
    failed += limen_probe_write(word(at, 2), 2) != -LIMEN_EFAULT;
    /* Nothing is both written and executed. */
    failed += limen_set_memory_x(at + LIMEN_PAGE_SIZE, 1) != -LIMEN_EINVAL;
    failed += limen_set_memory_x(at, 1) != 0;
    failed += limen_set_memory_rw(at, (int)pages) != -LIMEN_EINVAL;
    failed += limen_set_memory_nx(at, 1) != 0;
    failed += limen_set_memory_ro(at, (int)pages + 1) != -LIMEN_EINVAL;
    failed += limen_set_memory_rw(at, (int)pages) != 0;
    probe(at, pages, 61, 0);
    unsigned long long opened = limen_now_ns();
    limen_vfree(at);
    limen_info("vmap80: %lu pages, %lu failures, written in %lu us, read-only in %lu us, all in %lu us",
        pages, failed, (unsigned long)(written - began) / 1000, (unsigned long)(closed - written) / 1000,
        (unsigned long)(opened - began) / 1000);
    return failed ? -LIMEN_EIO : 0;
}
static void end(void) {
}
LIMEN_INIT(start);
LIMEN_EXIT(end);
