/*
 * Files, directories, pipes and sockets at their edges: what happens when two calls meet, and when a call cannot be done whole.
 * Called by tools/limen/src/test/programs.rs, on every architecture; on Linux it can be run by hand, as root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "check.h"

/* A name ends where a directory does not. */
static void behind_a_file(void) {
    CHECK(open("plain", O_CREAT | O_WRONLY, 0600) >= 0);
    CHECK(open("plain/", O_RDONLY) == -1 && errno == ENOTDIR);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    behind_a_file();
    return report();
}
