/*
 * Modules of the kernel come and go a thousand times while four processes use memory; then one takes most of
 * the memory, and at last a program does. Nothing is lost, and the kernel's map is what it was. Called by
 * tools/limen/src/test/modules.rs. Arguments: `percent=80` and the like for vmap80.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "common.h"
#include "modules.h"

#define ROUNDS 1000
#define WORKERS 4
#define MIB (1UL << 20)

/* What each word of memory has that is written here. */
static uint32_t mark(size_t n) {
    return (uint32_t)n * 2654435761u + 1;
}

/* Writes and reads so many bytes; returns how many words were wrong. */
static size_t use(size_t bytes) {
    uint32_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return 1;
    size_t words = bytes / sizeof *at, wrong = 0;
    for (size_t n = 0; n < words; n++) at[n] = mark(n);
    for (size_t n = 0; n < words; n++) wrong += at[n] != mark(n);
    munmap(at, bytes);
    return wrong;
}

/* Uses memory, and has children that do, until it is killed. */
static void work(void) {
    for (;;) {
        if (use(4 * MIB) != 0) _exit(1);
        pid_t child = fork();
        if (child == 0) _exit(use(MIB) != 0);
        int status = 0;
        if (child > 0 && (waitpid(child, &status, 0) != child || status != 0)) _exit(2);
    }
}

/* Leaves of the kernel's map by size, how many tables it has, and modules. */
static void figures(char *to, size_t room) {
    size_t n = 0;
    const char *lines[] = { "DirectMap", "leaves ", "linear_tables " };
    const char *files[] = { "/proc/meminfo", "/sys/kernel/debug/kernel_map", "/sys/kernel/debug/kernel_map" };
    to[0] = 0;
    for (int i = 0; i < 3; i++)
        for (const char *at = text_of(files[i]); *at; at = strchr(at, '\n') + 1)
            if (strncmp(at, lines[i], strlen(lines[i])) == 0)
                n += (size_t)snprintf(to + n, room - n, "%.*s", (int)(strchr(at, '\n') - at + 1), at);
    snprintf(to + n, room - n, "%s", text_of("/proc/modules"));
}

static void come_and_go(void) {
    pid_t workers[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = fork();
        if (workers[i] == 0) work();
    }
    for (int round = 0; round < ROUNDS && !failed; round++) {
        CHECK(load_named("hello", "whom=somebody") == 0);
        CHECK(strncmp(text_of("/proc/hello"), "hello somebody\n", 15) == 0);
        if (round % 10 == 0) {
            CHECK(load_named("dep_a", "") == 0 && load_named("dep_b", "") == 0);
            CHECK(strcmp(text_of("/proc/dep_b"), "42\n") == 0);
            CHECK(unload("dep_b") == 0 && unload("dep_a") == 0);
            CHECK(load_named("bad", "error=7 leave") == E2BIG);
        }
        CHECK(unload("hello") == 0);
    }
    for (int i = 0; i < WORKERS; i++) {
        int status = 0;
        /* Alive till now: none has seen a wrong word. */
        CHECK(waitpid(workers[i], &status, WNOHANG) == 0);
        kill(workers[i], SIGKILL);
        waitpid(workers[i], &status, 0);
    }
}

int main(int argc, char **argv) {
    static char before[1 << 16], after[1 << 16];
    char args[200] = "";
    for (int i = 1; i < argc; i++) snprintf(args + strlen(args), sizeof args - strlen(args), "%s ", argv[i]);
    mount("none", "/sys/kernel/debug", "debugfs", 0, NULL);
    /* What is made once, and kept: tables for the addresses, above all. */
    CHECK(load_named("hello", "") == 0 && unload("hello") == 0);
    CHECK(load_named("vmap80", args) == 0 && unload("vmap80") == 0);
    figures(before, sizeof before);
    CHECK(strstr(before, "linear_tables ") && strstr(before, "DirectMap"));
    unsigned long free_before = free_kib();
    come_and_go();
    CHECK(load_named("vmap80", args) == 0 && unload("vmap80") == 0);
    size_t most = (free_kib() - 24 * 1024) * 1024;
    /* The addresses of a 32-bit program. */
    if (sizeof(void *) == 4 && most > 1800 * MIB) most = 1800 * MIB;
    pid_t child = fork();
    if (child == 0) _exit(use(most & ~(MIB - 1)) != 0);
    CHECK(child_good(child));
    /* The last pages of those that ended come back a little later. */
    for (int i = 0; i < 50; i++) {
        figures(after, sizeof after);
        if (strcmp(before, after) == 0 && free_kib() + 2048 >= free_before) break;
        pause_ms(100);
    }
    if (strcmp(before, after) != 0) printf("before:\n%safter:\n%s", before, after);
    CHECK(strcmp(before, after) == 0);
    if (free_kib() + 2048 < free_before) printf("%lu KiB free, then %lu\n", free_before, free_kib());
    CHECK(free_kib() + 2048 >= free_before);
    CHECK(strcmp(text_of("/sys/kernel/debug/check_wx_pages"), "SUCCESS\n") == 0);
    return report();
}
