/*
 * Terminals and clocks at their edges: pseudo-terminals read in pieces, hang-ups, and what sleeps while the clock is set.
 * Called by tools/limen/src/test/programs.rs, on every architecture; on Linux it can be run by hand, as root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "check.h"

/* A pipe is no terminal. */
static void no_terminal(void) {
    int ends[2];
    CHECK(pipe(ends) == 0 && !isatty(ends[0]) && errno == ENOTTY);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    no_terminal();
    return report();
}
