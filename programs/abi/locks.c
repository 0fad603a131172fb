/*
 * What /proc/locks says of locks and of those who wait for them, and events that have no place to go.
 * Called by tools/limen/src/test/programs.rs, on every architecture; on Linux it can be run by hand, in an
 * empty folder.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"

static void pause_ms(int ms) {
    struct timespec t = { ms / 1000, ms % 1000 * 1000000L };
    nanosleep(&t, NULL);
}

/* --- Events with nowhere to go --- */

static void events_nowhere(void) {
    int set = epoll_create1(0);
    long page = sysconf(_SC_PAGESIZE);
    char *gone = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(gone, page);
    /* What can be no user's memory is refused at once, though nothing is ready. */
    struct epoll_event *never = (struct epoll_event *)(uintptr_t)-64;
    errno = 0;
    CHECK(epoll_wait(set, never, 1, 0) == -1 && errno == EFAULT);
    errno = 0;
    CHECK(epoll_wait(set, never, 1, 2000) == -1 && errno == EFAULT);
    /* What is merely not there is not touched as long as nothing is ready. */
    CHECK(epoll_wait(set, (struct epoll_event *)gone, 1, 10) == 0);
    close(set);
}

/* --- /proc/locks --- */

/* How many lines about the file are like this, behind the number. */
static int lines(int fd, const char *prefix, const char *what, int pid, const char *range) {
    struct stat st;
    char wanted[256], line[256];
    int found = 0;
    fstat(fd, &st);
    snprintf(wanted, sizeof wanted, " %s%s %d %02x:%02x:%llu %s\n", prefix, what, pid, major(st.st_dev),
             minor(st.st_dev), (unsigned long long)st.st_ino, range);
    FILE *locks = fopen("/proc/locks", "r");
    if (!locks) return -1;
    while (fgets(line, sizeof line, locks)) {
        char *rest = strchr(line, ':');
        if (rest && strcmp(rest + 1, wanted) == 0) found++;
    }
    fclose(locks);
    return found;
}

/* The same, until there is one or it takes too long. */
static int comes(int fd, const char *prefix, const char *what, int pid, const char *range) {
    for (int i = 0; i < 200 && lines(fd, prefix, what, pid, range) != 1; i++) pause_ms(10);
    return lines(fd, prefix, what, pid, range);
}

static int lock_range(int fd, int how, short kind, int start, int len) {
    struct flock lock = { .l_type = kind, .l_whence = SEEK_SET, .l_start = start, .l_len = len };
    return fcntl(fd, how, &lock);
}

static pid_t waits_for(const char *name, int ranges) {
    pid_t child = fork();
    if (child == 0) {
        int fd = open(name, O_RDWR);
        _exit(ranges ? lock_range(fd, F_SETLKW, F_WRLCK, 5, 20) : flock(fd, LOCK_EX));
    }
    return child;
}

static int ended_well(pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    return status == 0;
}

static void locks_in_proc(void) {
    int fd = open("locked", O_RDWR | O_CREAT, 0600), other = open("locked", O_RDWR), me = getpid();
    CHECK(lines(fd, "", "POSIX  ADVISORY  WRITE", me, "0 9") == 0);
    CHECK(lock_range(fd, F_SETLK, F_WRLCK, 0, 10) == 0 && lock_range(fd, F_SETLK, F_RDLCK, 100, 0) == 0);
    CHECK(lock_range(other, F_OFD_SETLK, F_RDLCK, 50, 1) == 0 && flock(other, LOCK_SH) == 0);
    CHECK(lines(fd, "", "POSIX  ADVISORY  WRITE", me, "0 9") == 1);
    CHECK(lines(fd, "", "POSIX  ADVISORY  READ", me, "100 EOF") == 1);
    CHECK(lines(fd, "", "OFDLCK ADVISORY  READ", -1, "50 50") == 1);
    CHECK(lines(fd, "", "FLOCK  ADVISORY  READ", me, "0 EOF") == 1);
    /* Who waits is behind what it waits for, and who waits for somebody who waits is behind that one. */
    pid_t first = waits_for("locked", 1);
    CHECK(comes(fd, "-> ", "POSIX  ADVISORY  WRITE", first, "5 24") == 1);
    pid_t second = waits_for("locked", 1);
    CHECK(comes(fd, " -> ", "POSIX  ADVISORY  WRITE", second, "5 24") == 1);
    pid_t whole = waits_for("locked", 0);
    CHECK(comes(fd, "-> ", "FLOCK  ADVISORY  WRITE", whole, "0 EOF") == 1);
    CHECK(lock_range(fd, F_SETLK, F_UNLCK, 0, 10) == 0 && flock(other, LOCK_UN) == 0);
    CHECK(ended_well(first) && ended_well(second) && ended_well(whole));
    CHECK(lines(fd, "-> ", "POSIX  ADVISORY  WRITE", first, "5 24") == 0);
    CHECK(lines(fd, "", "POSIX  ADVISORY  WRITE", me, "0 9") == 0);
    /* A name is not needed. */
    unlink("locked");
    CHECK(lines(fd, "", "OFDLCK ADVISORY  READ", -1, "50 50") == 1);
    close(other);
    CHECK(lines(fd, "", "OFDLCK ADVISORY  READ", -1, "50 50") == 0);
    close(fd);
}

int main(void) {
    alarm(60);
    events_nowhere();
    locks_in_proc();
    return report();
}
