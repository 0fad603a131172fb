/* Checks tlb.h on the host: sweeps whose misses can be computed. Built and run by `cargo test -p limen`. */
#include "tlb.h"

#include <inttypes.h>
#include <stdio.h>

static struct tlb tlb;
static int failed;

/* Sweeps `turns` times over `n` addresses from `base` on; what it found must be as given. */
static void sweep(const char *what, uint64_t base, long n, uint64_t stride, unsigned leaf, long turns,
                  long second, long walks) {
    long found[3] = {0, 0, 0};
    tlb_flush(&tlb);
    for (long i = 0; i < n * turns; i++) found[tlb_access(&tlb, base + (uint64_t)(i % n) * stride, leaf)]++;
    if (found[TLB_SECOND] == second && found[TLB_WALK] == walks) return;
    printf("%s: %ld in the second level, %ld walks; not %ld, %ld\n", what, found[TLB_SECOND],
           found[TLB_WALK], second, walks);
    failed = 1;
}

int main(void) {
    const uint64_t base = UINT64_C(0xffff888000000000), page = 4096, mib = 1 << 20, gib = 1 << 30;
    sweep("what the first level holds", base, 48, page, 12, 10, 0, 48);
    sweep("one more", base, 49, page, 12, 10, 49 * 9, 49);
    sweep("what the second level holds", base, 1280, page, 12, 10, 1280 * 9, 1280);
    sweep("one page more in one set", base, 1281, page, 12, 10, 1275 * 9, 1281 + 6 * 9);
    sweep("six ways everywhere", base, 1536, page, 12, 10, 0, 1536 * 10);
    sweep("bytes of a page", base, 4096, 1, 12, 10, 0, 1);
    sweep("pages of blocks", base, 2048, page, 21, 10, 0, 4);
    sweep("groups of 64K", base, 64, page, 16, 10, 0, 4);
    /* Sixteen pieces of 2M in the first level, one entry of the second. */
    sweep("a group of 32M", base, 16, 2 * mib, 25, 10, 15, 1);
    sweep("groups of 32M", base, 64, 2 * mib, 25, 10, 60 + 64 * 9, 4);
    sweep("1G in the first level", base, 2, gib / 2, 30, 10, 1, 1);
    sweep("1G", base, 128, gib / 2, 30, 10, 64 + 128 * 9, 64);
    sweep("sections", base, 64, mib, 20, 10, 64 * 9, 64);
    tlb_flush(&tlb);
    /* Least recently used: 0 is used again, so 1 goes when the 49th comes. */
    for (uint64_t i = 0; i < 48; i++) tlb_access(&tlb, base + i * page, 12);
    tlb_access(&tlb, base, 12);
    tlb_access(&tlb, base + 48 * page, 12);
    if (tlb_access(&tlb, base, 12) != TLB_HIT || tlb_access(&tlb, base + page, 12) != TLB_SECOND) {
        printf("not the least recently used one was replaced\n");
        failed = 1;
    }
    /* Two leaves of different sizes are different entries, even with the same number. */
    tlb_flush(&tlb);
    tlb_access(&tlb, page, 12);
    if (tlb_access(&tlb, 2 * mib, 21) != TLB_WALK || tlb_access(&tlb, page, 12) != TLB_HIT) {
        printf("entries of different sizes are taken for each other\n");
        failed = 1;
    }
    return failed;
}
