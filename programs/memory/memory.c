/*
 * Puts memory under pressure, for the tests of tools/limen/src/test/memory.rs:
 *   eat      maps and touches memory until it is refused (exit 12, ENOMEM) or the process is killed
 *   touch    the same by one large mapping that is promised first and touched afterwards
 *   bomb     forks as fast as it can under a process limit of 200, as an ordinary user, until fork is refused
 *   rounds N forks and executes itself N times, and says how much free memory that cost
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int eat(void) {
    for (;;) {
        char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) return errno;
        memset(p, 0x5a, 1 << 20);
    }
}

static int touch(void) {
    size_t size = (size_t)1 << 30;
    char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return errno;
    for (size_t i = 0; i < size; i += 4096) p[i] = 1;
    return 0;
}

static int bomb(void) {
    struct rlimit limit = {200, 200};
    int refused = 0, status;
    pid_t leader = fork();
    if (leader == 0) {
        setpgid(0, 0);
        if (setrlimit(RLIMIT_NPROC, &limit) || setgid(1234) || setuid(1234)) _exit(2);
        for (int round = 0; round < 1000; round++) {
            pid_t child = fork();
            if (child < 0) {
                if (errno != EAGAIN) _exit(3);
                refused = 1;
                break;
            }
            if (child == 0) {
                /* Every child tries as well. */
                while (fork() >= 0) {
                }
                pause();
                _exit(0);
            }
        }
        usleep(300000);
        _exit(refused ? 0 : 4);
    }
    if (waitpid(leader, &status, 0) != leader) return 5;
    kill(-leader, SIGKILL);
    usleep(200000);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 6;
}

static long free_kilobytes(void) {
    char line[256];
    long found = -1;
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemFree: %ld", &found) == 1) break;
    if (f) fclose(f);
    return found;
}

static int rounds(int count) {
    long before = free_kilobytes(), after;
    for (int i = 0; i < count; i++) {
        int status;
        pid_t child = fork();
        if (child < 0) return 7;
        if (child == 0) {
            execl("/proc/self/exe", "memory", "nothing", (char *)NULL);
            _exit(8);
        }
        if (waitpid(child, &status, 0) != child || status != 0) return 9;
    }
    usleep(300000); /* what is freed later than the wait */
    after = free_kilobytes();
    printf("free %ld kB before, %ld kB after %d rounds\n", before, after, count);
    /* Caches may have grown a little; a leak of one page per round would be 4,000 kB. */
    return before - after > 1024 ? 10 : 0;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "eat")) return eat();
    if (!strcmp(what, "touch")) return touch();
    if (!strcmp(what, "bomb")) return bomb();
    if (!strcmp(what, "rounds")) return rounds(argc > 2 ? atoi(argv[2]) : 1000);
    if (!strcmp(what, "nothing")) return 0;
    return 64;
}
