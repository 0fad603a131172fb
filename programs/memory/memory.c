/*
 * Puts memory under pressure, for the tests of tools/limen/src/test/memory.rs:
 *   eat      maps and touches memory until it is refused (exit 12, ENOMEM) or the process is killed
 *   touch    the same by one large mapping that is promised first and touched afterwards
 *   bomb     forks as fast as it can under a process limit of 200, as an ordinary user, until fork is refused
 *   large N  fills N MiB, has a fork's child change part of it, sends it through files and pipes, and looks
 *            whether all is as it was
 *   locks    has two processes take 2,500 record locks of one file at a time and give them up, five times:
 *            all are to be had
 *   rounds N forks and executes itself N times, and says how much free memory that cost
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
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
                /* Every child forks, too. */
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

/* The value that the large mapping has at byte `at`. */
static unsigned word_at(size_t at) {
    return (unsigned)at ^ 0x1234567;
}

static int large(size_t mib) {
    const size_t size = mib << 20, part = 1 << 20;
    char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *buffer = malloc(part);
    int pipes[2], status, file = open("/tmp/large", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (p == MAP_FAILED || !buffer || file < 0 || pipe(pipes)) return errno;
    for (size_t i = 0; i < size; i += sizeof(unsigned) * 128) *(unsigned *)(p + i) = word_at(i);
    pid_t child = fork();
    if (child < 0) return errno;
    if (child == 0) {
        for (size_t i = 0; i < size; i += 64 * 4096) memset(p + i, 0, 4096);
        _exit(0);
    }
    if (waitpid(child, &status, 0) != child || status) return 2;
    for (size_t i = 0; i < size; i += sizeof(unsigned) * 128)
        if (*(unsigned *)(p + i) != word_at(i)) return 3;
    /* Parts from all over the mapping, through a file's pages (read, mapped, by sendfile) and a pipe's. */
    for (size_t n = 0, at = 0; n < 64; n++, at += size / 64 & ~(part - 1)) {
        if (pwrite(file, p + at, part, (off_t)(n * part)) != (ssize_t)part) return 4;
        if (write(pipes[1], p + at, 65536) != 65536 || read(pipes[0], buffer, 65536) != 65536) return 5;
        if (memcmp(buffer, p + at, 65536)) return 6;
    }
    char *mapped = mmap(NULL, 64 * part, PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) return errno;
    for (size_t n = 0, at = 0; n < 64; n++, at += size / 64 & ~(part - 1)) {
        off_t from = (off_t)(n * part);
        if (pread(file, buffer, part, from) != (ssize_t)part || memcmp(buffer, p + at, part)) return 7;
        if (memcmp(mapped + n * part, p + at, part)) return 8;
        if (sendfile(pipes[1], file, &from, 65536) != 65536 || read(pipes[0], buffer, 65536) != 65536)
            return 9;
        if (memcmp(buffer, p + at, 65536)) return 10;
    }
    unlink("/tmp/large");
    return 0;
}

static int locks(void) {
    int bad = 0, status;
    for (int p = 0; p < 2; p++) {
        pid_t child = fork();
        if (child < 0) return 7;
        if (child > 0) continue;
        for (int round = 0; round < 5; round++) {
            int fd = open("/tmp/locks", O_RDWR | O_CREAT, 0600);
            if (fd < 0) _exit(2);
            for (int i = 0; i < 2500; i++) {
                struct flock f = {
                    .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 4 * i + 2 * p, .l_len = 1};
                if (fcntl(fd, F_SETLK, &f)) _exit(3);
            }
            close(fd);
        }
        _exit(0);
    }
    while (wait(&status) > 0) bad |= status;
    unlink("/tmp/locks");
    return bad != 0;
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
    /* Caches may have grown a little; a leak of one page per round would be 4,000 kB. What is freed later
     * than the wait may take a while on a busy host. */
    usleep(300000);
    after = free_kilobytes();
    for (int i = 0; i < 100 && before - after > 1024; i++) {
        usleep(100000);
        after = free_kilobytes();
    }
    printf("free %ld kB before, %ld kB after %d rounds\n", before, after, count);
    return before - after > 1024 ? 10 : 0;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "eat")) return eat();
    if (!strcmp(what, "touch")) return touch();
    if (!strcmp(what, "large")) return large(argc > 2 ? strtoul(argv[2], NULL, 0) : 64);
    if (!strcmp(what, "bomb")) return bomb();
    if (!strcmp(what, "locks")) return locks();
    if (!strcmp(what, "rounds")) return rounds(argc > 2 ? atoi(argv[2]) : 1000);
    if (!strcmp(what, "nothing")) return 0;
    return 64;
}
