/*
 * Work on which other work depends must not get lost: ends of files, locks, signals, messages, a program's
 * last output, alarms. Each kind of work (rounds.h) waits for an event that another process causes at the
 * same moment. It fails if the event comes when it must not; if the event is missed, it hangs until an alarm
 * ends it.
 *   arrivals SECONDS [KIND...]
 * Called by tools/limen/src/test/boots.rs; on Linux it can be run by hand.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "rounds.h"

/*
 * A reader and a writer open a FIFO at the same moment: both opens must return, and all written bytes must be
 * read.
 */
static void fifos(void) {
    char path[64], text[8];
    int go[2], status;
    snprintf(path, sizeof path, "/tmp/load-fifo%d", getpid());
    CHECK(mkfifo(path, 0600) == 0 && pipe(go) == 0);
    pid_t writer = fork();
    CHECK(writer >= 0);
    // This ends a process that waits for ever, and with it the other.
    alarm(120);
    if (writer == 0) {
        close(go[1]);
        while (read(go[0], text, 1) == 1) {
            int fd = open(path, O_WRONLY);
            CHECK(fd >= 0 && write(fd, "through", 7) == 7 && close(fd) == 0);
        }
        _exit(0);
    }
    close(go[0]);
    for (int i = 0; i < 30; i++) {
        CHECK(write(go[1], "x", 1) == 1);
        for (volatile int wait = i * 200; wait > 0; wait--) {}
        int fd = open(path, O_RDONLY), n = 0, m;
        CHECK(fd >= 0);
        while ((m = read(fd, text + n, sizeof text - n)) > 0) n += m;
        CHECK(n == 7 && memcmp(text, "through", 7) == 0 && m == 0);
        close(fd);
    }
    close(go[1]);
    CHECK(waitpid(writer, &status, 0) == writer && status == 0);
    alarm(0);
    unlink(path);
}

/*
 * Several readers of one pipe, as with make's jobserver: none sees the end of file before the writer has
 * closed, and every byte is read once.
 */
static void readers(void) {
    enum { READERS = 4, BYTES = 2000 };
    struct {
        volatile int closed, got;
    } *seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int ends[2], status;
    char byte = 'x';
    pid_t pids[READERS];
    CHECK(seen != MAP_FAILED && pipe(ends) == 0);
    for (int i = 0; i < READERS; i++) {
        CHECK((pids[i] = fork()) >= 0);
        if (pids[i]) continue;
        close(ends[1]);
        for (;;) {
            ssize_t n = read(ends[0], &byte, 1);
            if (n == 0) break;
            CHECK(n == 1);
            __atomic_fetch_add(&seen->got, 1, __ATOMIC_SEQ_CST);
        }
        CHECK(seen->closed);
        _exit(0);
    }
    close(ends[0]);
    for (int i = 0; i < BYTES; i++) {
        CHECK(write(ends[1], &byte, 1) == 1);
        if (i % 16 == 0) sched_yield();
    }
    seen->closed = 1;
    close(ends[1]);
    for (int i = 0; i < READERS; i++) CHECK(waitpid(pids[i], &status, 0) == pids[i] && status == 0);
    CHECK(seen->got == BYTES);
    munmap(seen, 4096);
}

/* A lock is released while another process asks for it: that process gets it. */
static void flocks(void) {
    char path[64], token;
    int go[2], back[2], status;
    snprintf(path, sizeof path, "/tmp/load-lock%d", getpid());
    int mine = open(path, O_RDWR | O_CREAT, 0600);
    CHECK(mine >= 0 && pipe(go) == 0 && pipe(back) == 0);
    pid_t other = fork();
    CHECK(other >= 0);
    alarm(120);
    if (other == 0) {
        int own = open(path, O_RDWR);
        close(go[1]), close(back[0]);
        while (read(go[0], &token, 1) == 1) {
            CHECK(flock(own, LOCK_EX) == 0 && flock(own, LOCK_UN) == 0);
            CHECK(write(back[1], &token, 1) == 1);
        }
        _exit(0);
    }
    close(go[0]), close(back[1]);
    for (int i = 0; i < 30; i++) {
        CHECK(flock(mine, LOCK_EX) == 0 && write(go[1], "x", 1) == 1);
        for (volatile int wait = i * 200; wait > 0; wait--) {}
        if (i % 2) sched_yield();
        CHECK(flock(mine, LOCK_UN) == 0 && read(back[0], &token, 1) == 1);
    }
    close(go[1]);
    CHECK(waitpid(other, &status, 0) == other && status == 0);
    alarm(0);
    close(mine), close(back[0]);
    unlink(path);
}

/* A signal for the process is sent while the thread that would take it ends: another thread takes it. */
static volatile int taken, leave;
static void take(int sig) {
    (void)sig;
    taken++;
}
static void *leaver(void *unused) {
    while (!leave) {}
    return unused;
}
static void *stayer(void *from) {
    char byte;
    while (read(*(int *)from, &byte, 1) != 1) {}
    return NULL;
}
static void leavers(void) {
    struct sigaction act = {.sa_handler = take};
    sigset_t set, old;
    int ends[2];
    pthread_t one, other;
    CHECK(sigaction(SIGUSR2, &act, NULL) == 0 && pipe(ends) == 0);
    for (int i = 0; i < 30; i++) {
        taken = leave = 0;
        CHECK(pthread_create(&one, NULL, leaver, NULL) == 0 &&
              pthread_create(&other, NULL, stayer, &ends[0]) == 0);
        sigemptyset(&set);
        sigaddset(&set, SIGUSR2);
        pthread_sigmask(SIG_BLOCK, &set, &old);
        nap(200);
        leave = 1;
        for (volatile int wait = i * 100; wait > 0; wait--) {}
        CHECK(kill(getpid(), SIGUSR2) == 0);
        for (int tries = 0; tries < 60000 && !taken; tries++) nap(500);
        CHECK(taken == 1 && write(ends[1], "x", 1) == 1);
        pthread_join(one, NULL);
        pthread_join(other, NULL);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
    }
    close(ends[0]), close(ends[1]);
}

/* Data that one process looks at or reads in part does not disappear for another process. */
static void peeks(void) {
    int ends[2], status;
    char text[64];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && write(ends[0], text, sizeof text) == sizeof text);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (int i = 0; i < 1000; i++) CHECK(recv(ends[1], text, sizeof text, MSG_PEEK) == sizeof text);
        for (int i = 1; i < (int)sizeof text; i++) CHECK(read(ends[1], text, 1) == 1);
        _exit(0);
    }
    do {
        struct pollfd in = {ends[1], POLLIN, 0};
        CHECK(poll(&in, 1, 0) == 1);
    } while (waitpid(child, &status, WNOHANG) == 0);
    CHECK(status == 0);
    close(ends[0]), close(ends[1]);
}

/* A program's last output to its terminal is read before the hang-up. */
static void farewells(void) {
    for (int i = 0; i < 20; i++) {
        int master = posix_openpt(O_RDWR | O_NOCTTY), status;
        CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
        int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
        CHECK(slave >= 0);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            for (volatile int wait = i * 300; wait > 0; wait--) {}
            CHECK(write(slave, "farewell", 8) == 8);
            _exit(0);
        }
        close(slave);
        char text[64];
        size_t got = 0;
        ssize_t n;
        while ((n = read(master, text + got, sizeof text - got)) > 0) got += (size_t)n;
        CHECK(n < 0 && errno == EIO && got == 8 && memcmp(text, "farewell", 8) == 0);
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        close(master);
    }
}

static void on_alarm(int sig) { (void)sig; }

/* A periodic timer that expires while it is set to expire once more does so. */
static void resets(void) {
    struct itimerval often = {{0, 1000}, {0, 1000}}, once = {{0, 0}, {0, 3000}};
    struct itimerspec often_file = {{0, 500000}, {0, 500000}}, once_file = {{0, 0}, {0, 3000000}};
    struct sigaction act = {.sa_handler = on_alarm};
    uint64_t ticks;
    int file = timerfd_create(CLOCK_MONOTONIC, 0);
    CHECK(file >= 0 && sigaction(SIGALRM, &act, NULL) == 0);
    for (int i = 0; i < 20; i++) {
        CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0 && timerfd_settime(file, 0, &often_file, NULL) == 0);
        for (volatile int wait = i * 2000; wait > 0; wait--) {}
        CHECK(setitimer(ITIMER_REAL, &once, NULL) == 0 && timerfd_settime(file, 0, &once_file, NULL) == 0);
        /* When it has expired, it is off. */
        struct itimerval left = once;
        for (int tries = 0; tries < 60000 && (left.it_value.tv_sec || left.it_value.tv_usec); tries++) {
            nap(500);
            getitimer(ITIMER_REAL, &left);
        }
        CHECK(!left.it_value.tv_sec && !left.it_value.tv_usec);
        CHECK(read(file, &ticks, sizeof ticks) == sizeof ticks && ticks == 1);
    }
    close(file);
}

static const struct kind kinds[] = {
    {"fifos", fifos}, {"readers", readers},     {"flocks", flocks}, {"leavers", leavers},
    {"peeks", peeks}, {"farewells", farewells}, {"resets", resets},
};

int main(int argc, char **argv) {
    return rounds(kinds, sizeof kinds / sizeof kinds[0], argc, argv);
}
