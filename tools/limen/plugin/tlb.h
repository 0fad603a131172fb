/*
 * A model of the data side of a processor's TLBs, as Arm documents them for the Cortex-A76 and the Neoverse
 * N1 (technical reference manuals, "TLB organization"): a fully associative first level of 48 entries, and a
 * second one of 1,280 in 5 ways. Both replace what was used least recently here; the manuals do not say. The
 * second level is indexed by the lowest bits of the number of the leaf, at its size; the manuals do not say
 * that either.
 *
 * A leaf that a level cannot hold is held in pieces, of the largest size it can: the first level has 4K, 16K,
 * 64K, 2M and 512M, the second also 32M and 1G. Leaves of 1M and 16M, which only 32-bit tables with short
 * descriptors have, are held whole by both, as older processors do.
 *
 * It has nothing of QEMU: `tlb_test.c` checks it.
 */
#ifndef LIMEN_TLB_H
#define LIMEN_TLB_H

#include <stdint.h>
#include <string.h>

enum { TLB_FIRST = 48, TLB_WAYS = 5, TLB_SETS = 1280 / TLB_WAYS };

/* What an access found. */
enum tlb_result { TLB_HIT, TLB_SECOND, TLB_WALK };

/* Most recently used first. An entry is the number of its piece and the log2 of its size; 0 is none. */
struct tlb {
    uint64_t first[TLB_FIRST];
    uint64_t second[TLB_SETS][TLB_WAYS];
};

/* The log2 of the size of the pieces in which the levels hold a leaf, whose size is given so, too. */
static inline unsigned tlb_first_shift(unsigned leaf) {
    if (leaf == 20 || leaf == 24) return leaf;
    return leaf >= 29 ? 29 : leaf >= 21 ? 21 : leaf >= 16 ? 16 : leaf >= 14 ? 14 : 12;
}

static inline unsigned tlb_second_shift(unsigned leaf) {
    return leaf >= 30 ? 30 : leaf == 29 ? 29 : leaf >= 25 ? 25 : tlb_first_shift(leaf);
}

static inline uint64_t tlb_entry(uint64_t address, unsigned shift) {
    return address >> shift << 6 | shift;
}

/* Makes `entry` the first of `n`; whether it was among them. If not, the last one is lost. */
static inline int tlb_use(uint64_t *entries, unsigned n, uint64_t entry) {
    unsigned at = 0;
    while (at < n - 1 && entries[at] != entry) at++;
    int found = entries[at] == entry;
    memmove(entries + 1, entries, at * sizeof *entries);
    entries[0] = entry;
    return found;
}

static inline void tlb_flush(struct tlb *tlb) { memset(tlb, 0, sizeof *tlb); }

/* An access to an address in a leaf of 1 << `leaf` bytes. */
static inline enum tlb_result tlb_access(struct tlb *tlb, uint64_t address, unsigned leaf) {
    uint64_t entry = tlb_entry(address, tlb_first_shift(leaf));
    if (tlb->first[0] == entry || tlb_use(tlb->first, TLB_FIRST, entry)) return TLB_HIT;
    unsigned shift = tlb_second_shift(leaf);
    uint64_t *set = tlb->second[(address >> shift) % TLB_SETS];
    return tlb_use(set, TLB_WAYS, tlb_entry(address, shift)) ? TLB_SECOND : TLB_WALK;
}

#endif
