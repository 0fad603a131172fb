/*
 * Pages, mapped and in files in memory, and what /proc says of them. Needs _GNU_SOURCE, <errno.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h>, <string.h>, <sys/mman.h>, <sys/syscall.h>, <sys/wait.h>, <unistd.h> and
 * "check.h".
 */
#ifndef SYS_futex
#define SYS_futex SYS_futex_time64
#endif

#define FAILS(call, error) CHECK((long)(call) == -1 && errno == (error))

/* Bytes of a page; the program sets it. */
static long page;

static inline char *zeros(long pages, int protection, int flags) {
    return mmap(NULL, pages * page, protection, MAP_ANONYMOUS | flags, -1, 0);
}

static inline int memory_file(long pages) {
    int file = memfd_create("memory", MFD_ALLOW_SEALING);
    CHECK(file >= 0 && ftruncate(file, pages * page) == 0);
    return file;
}

/*
 * Runs `run` in a process of its own; returns the number of its failed checks, or 200 plus the signal that
 * ended it.
 */
static inline int apart(void (*run)(void)) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        failed = 0;
        run();
        _exit(failed);
    }
    if (waitpid(child, &status, 0) != child) return -1;
    return WIFSIGNALED(status) ? 200 + WTERMSIG(status) : WEXITSTATUS(status);
}

/*
 * The value of a line of a file in /proc, of the mapping at `at` if that is given. With `text`: what is
 * behind the name.
 */
static inline long row(const char *path, const char *at, const char *name, char *text) {
    char line[512];
    long value = -1;
    int inside = !at;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        unsigned long start, end;
        char separator;
        if (at && sscanf(line, "%lx%c%lx ", &start, &separator, &end) == 3 && separator == '-')
            inside = (uintptr_t)at >= start && (uintptr_t)at < end;
        else if (inside && strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':') {
            value = strtol(line + strlen(name) + 1, NULL, 10);
            if (text) strcpy(text, line + strlen(name) + 1);
        }
    }
    if (file) fclose(file);
    return value;
}
