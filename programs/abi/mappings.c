/*
 * Memory as programs see it from outside and inside: mappings and what becomes of them, memory of other processes, and what /proc says of both.
 * Called by tools/limen/src/test/programs.rs, on every architecture; on Linux it can be run by hand, as root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include "check.h"

/* Nothing is mapped without a length. */
static void no_length(void) {
    CHECK(mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == EINVAL);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    no_length();
    return report();
}
