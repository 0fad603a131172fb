/*
 * Processes, threads and signals at their edges: who may do what to whom, who is told, and what is left when they end.
 * Called by tools/limen/src/test/programs.rs, on every architecture; on Linux it can be run by hand, as root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"

/* Nobody waits for children that are none. */
static void no_children(void) {
    CHECK(waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    no_children();
    return report();
}
