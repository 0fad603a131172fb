/* Processes and threads: from creation until they have been waited for. */
#define _GNU_SOURCE
#include "bench.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

static void fork_exit(long n) {
    (void)n;
    MEASURE(20) {
        pid_t child = fork();
        if (child == 0) _exit(0);
        reap(child);
    }
}

/*
 * A function of its own: its caller's variables must not be in registers or stack slots that the child of
 * vfork could change.
 */
__attribute__((noinline)) static void one_vfork(const char *path) {
    char *const arguments[] = {(char *)path, NULL}, *const environment[] = {NULL};
    pid_t child = vfork();
    if (child == 0) {
        if (path) execve(path, arguments, environment);
        _exit(path ? errno : 0);
    }
    reap(child);
}

static void vfork_exit(long n) {
    (void)n;
    MEASURE(20) one_vfork(NULL);
}

static void fork_exec(const char *path) {
    char *const arguments[] = {(char *)path, NULL}, *const environment[] = {NULL};
    MUST(access(path, X_OK) == 0);
    MEASURE(20) {
        pid_t child = fork();
        if (child == 0) {
            execve(path, arguments, environment);
            _exit(errno);
        }
        reap(child);
    }
}

static void fork_exec_tiny(long n) {
    (void)n;
    fork_exec("/tiny");
}

static void fork_exec_static(long n) {
    (void)n;
    fork_exec("/static");
}

static void fork_exec_dynamic(long n) {
    (void)n;
    fork_exec("/dynamic");
}

static void vfork_exec_tiny(long n) {
    (void)n;
    MEASURE(20) one_vfork("/tiny");
}

/* With n MiB of memory touched before, in pages of 4 KiB. */
static void fork_touched(long n) {
    long bytes = n << 20;
    char *p = map_pages(bytes);
    for (long i = 0; i < bytes; i += PAGE) p[i] = 1;
    rounds_few();
    MEASURE(4) {
        pid_t child = fork();
        if (child == 0) _exit(0);
        reap(child);
    }
}

static void *nothing(void *argument) { return argument; }

static void pthread(long n) {
    (void)n;
    MEASURE(50) {
        pthread_t thread;
        MUST(pthread_create(&thread, NULL, nothing, NULL) == 0);
        MUST(pthread_join(thread, NULL) == 0);
    }
}

static const long mebibytes[] = {1, 16, 256, 0};

const struct row process_rows[] = {
    {"fork", fork_exit, 0},
    {"vfork", vfork_exit, 0},
    {"fork-exec-tiny", fork_exec_tiny, 0},
    {"vfork-exec-tiny", vfork_exec_tiny, 0},
    {"fork-exec-static", fork_exec_static, 0},
    {"fork-exec-dynamic", fork_exec_dynamic, 0},
    {"pthread", pthread, 0},
    {"fork-touched", fork_touched, mebibytes},
    {0, 0, 0},
};
