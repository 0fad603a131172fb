/*
 * Terminals and clocks in rare situations: pseudo-terminals read in pieces, hang-ups, and sleepers while the
 * clock is set. Called by tools/limen/src/test/programs.rs, on every architecture; on Linux it can be run by
 * hand, as root. With the name of a disk, it also writes there, from memory of which the end is not mapped.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include "check.h"

/* How many milliseconds immediate events may take on a busy machine. */
#define SOON 20000
#define HOUR 3600

/* A pipe is no terminal. */
static void no_terminal(void) {
    int ends[2];
    CHECK(pipe(ends) == 0 && !isatty(ends[0]) && errno == ENOTTY);
}

/* A child, and a pipe from it that reaches its end when the child and its own children have ended. */
struct child {
    pid_t pid;
    int pipe;
};

/*
 * Starts a child that runs `body`, which may write to the pipe it is given; its return value is the exit
 * status.
 */
static struct child start(int (*body)(void *, int), void *with) {
    struct child c;
    int ends[2];
    CHECK(pipe(ends) == 0);
    c.pid = fork();
    if (c.pid == 0) {
        close(ends[0]);
        _exit(body(with, ends[1]));
    }
    close(ends[1]);
    c.pipe = ends[0];
    return c;
}

/* The child's wait status if it ends soon; else -1. */
static int ended(struct child c) {
    struct pollfd end = {c.pipe, POLLIN, 0};
    int status = -1;
    if (poll(&end, 1, SOON) == 1)
        waitpid(c.pid, &status, 0);
    else {
        kill(c.pid, SIGKILL);
        kill(-c.pid, SIGKILL);
    }
    close(c.pipe);
    return status;
}

/* Whether the process sleeps or ends soon. */
static int settled(pid_t pid) {
    char path[32], state;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    for (int i = 0; i < SOON; i++) {
        FILE *file = fopen(path, "r");
        if (!file || fscanf(file, "%*d %*s %c", &state) != 1) state = '?';
        if (file) fclose(file);
        if (state == 'S' || state == 'Z') return 1;
        usleep(1000);
    }
    return 0;
}

/* Both ends of a pseudo-terminal. */
struct line {
    int master, slave;
    char name[32];
};

/* A pseudo-terminal in raw mode. */
static struct line line(void) {
    struct line l = {posix_openpt(O_RDWR | O_NOCTTY), -1, ""};
    struct termios settings;
    CHECK(l.master >= 0 && unlockpt(l.master) == 0 && ptsname_r(l.master, l.name, sizeof l.name) == 0);
    l.slave = open(l.name, O_RDWR | O_NOCTTY);
    CHECK(l.slave >= 0 && tcgetattr(l.slave, &settings) == 0);
    cfmakeraw(&settings);
    CHECK(tcsetattr(l.slave, TCSANOW, &settings) == 0);
    return l;
}

/* Reads one byte of a master; the exit status is that byte. */
static int read_one(void *with, int tell) {
    struct line *l = with;
    unsigned char byte;
    (void)tell;
    return read(l->master, &byte, 1) == 1 ? byte : 100;
}

/*
 * In packet mode a zero byte comes before the data; the buffer may have no room for more. A reader may
 * already sleep when this mode is turned on.
 */
static void packet_mode(void) {
    struct line l = line();
    int on = 1, off = 0;
    char got[4];
    CHECK(ioctl(l.master, TIOCPKT, &on) == 0 && write(l.slave, "ab", 2) == 2);
    CHECK(ended(start(read_one, &l)) == 0);
    CHECK(read(l.master, got, 4) == 3 && memcmp(got, "\0ab", 3) == 0);
    CHECK(ioctl(l.master, TIOCPKT, &off) == 0);
    struct child c = start(read_one, &l);
    CHECK(settled(c.pid) && ioctl(l.master, TIOCPKT, &on) == 0 && tcflush(l.slave, TCIFLUSH) == 0);
    usleep(20000);
    CHECK(settled(c.pid) && write(l.slave, "c", 1) == 1);
    /* On Linux, the mode at the start of the read counts. */
    int status = ended(c);
    CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == TIOCPKT_FLUSHREAD || WEXITSTATUS(status) == 'c'));
    close(l.slave);
    close(l.master);
}

/* Writes one byte to a master. */
static int write_one(void *with, int tell) {
    struct line *l = with;
    (void)tell;
    return write(l->master, "x", 1) != 1;
}

/* A process that waits for room in a terminal that was hung up can at least be killed. */
static void full_and_hung_up(void) {
    struct line l = line();
    char bytes[512] = {0};
    fcntl(l.master, F_SETFL, O_RDWR | O_NONBLOCK);
    while (write(l.master, bytes, sizeof bytes) > 0) {}
    CHECK(errno == EAGAIN);
    fcntl(l.master, F_SETFL, O_RDWR);
    struct child c = start(write_one, &l);
    CHECK(settled(c.pid) && ioctl(l.slave, TIOCVHANGUP) == 0);
    kill(c.pid, SIGKILL);
    CHECK(ended(c) != -1);
    close(l.slave);
    close(l.master);
}

/* Waits for the output of a slave by all calls for it. */
static int drain(void *with, int tell) {
    struct line *l = with;
    struct termios settings;
    (void)tell;
    tcgetattr(l->slave, &settings);
    if (tcdrain(l->slave) != 0) return 1;
    if (tcsetattr(l->slave, TCSADRAIN, &settings) != 0) return 2;
    return tcsetattr(l->slave, TCSAFLUSH, &settings) != 0 ? 3 : 0;
}

/* Output counts as sent even if the other end of the pseudo-terminal has not read it. */
static void sent(void) {
    struct line l = line();
    char got[4];
    int n = -1;
    CHECK(write(l.slave, "abc", 3) == 3 && ioctl(l.slave, TIOCOUTQ, &n) == 0 && n == 0);
    CHECK(ended(start(drain, &l)) == 0);
    CHECK(read(l.master, got, 4) == 3 && memcmp(got, "abc", 3) == 0);
    close(l.slave);
    close(l.master);
}

/* Makes the calling process the leader of a session with this terminal. */
static int lead(struct line *l) {
    close(l->master);
    setsid();
    close(l->slave);
    return open(l->name, O_RDWR);
}

/* A session's leader and a child in its group, which both wait. */
static int leader_waits(void *with, int tell) {
    if (lead(with) < 0) return 1;
    if (fork() != 0 && write(tell, "", 1) != 1) return 2;
    for (;;) pause();
}

/*
 * A session's leader that handles SIGHUP. Returns 0 if its child in the foreground group gets no signal until
 * the leader ends.
 */
static int leader_stays(void *with, int tell) {
    int terminal = lead(with), sig;
    sigset_t hang_up;
    signal(SIGTTOU, SIG_IGN);
    pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        for (;;) pause();
    }
    sigemptyset(&hang_up);
    sigaddset(&hang_up, SIGHUP);
    sigprocmask(SIG_BLOCK, &hang_up, NULL);
    setpgid(child, child);
    if (tcsetpgrp(terminal, child) != 0 || write(tell, "", 1) != 1) return 1;
    sigwait(&hang_up, &sig);
    usleep(50000);
    return waitpid(child, NULL, WNOHANG) != 0 ? 2 : 0;
}

/* A terminal is hung up: its session's leader gets SIGHUP, and the foreground group when the leader ends. */
static void hang_ups(void) {
    int (*leaders[])(void *, int) = {leader_waits, leader_stays}, status[2];
    for (int i = 0; i < 2; i++) {
        struct line l = line();
        char ready;
        struct child c = start(leaders[i], &l);
        CHECK(read(c.pipe, &ready, 1) == 1);
        close(l.slave);
        close(l.master);
        status[i] = ended(c);
    }
    CHECK(WIFSIGNALED(status[0]) && WTERMSIG(status[0]) == SIGHUP);
    CHECK(status[1] == 0);
}

/* The time of this clock in this many milliseconds. */
static struct timespec later(int clock, long ms) {
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_sec += ms / 1000;
    time.tv_nsec += ms % 1000 * 1000000;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

/* Milliseconds of CLOCK_MONOTONIC, which cannot be set. */
static long milliseconds(void) {
    struct timespec time = later(CLOCK_MONOTONIC, 0);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* Sets CLOCK_REALTIME forward by this many seconds. */
static void step(int seconds) {
    struct timespec time = later(CLOCK_REALTIME, 0);
    time.tv_sec += seconds;
    CHECK(clock_settime(CLOCK_REALTIME, &time) == 0);
}

/* System calls that sleep until an absolute time. */
enum { NANOSLEEP, NANOSLEEP_TAI, FUTEX, FUTEX_VECTOR, FUTEX_PI, WAYS };

struct sleeper {
    int way;
    struct timespec until;
    /* The second word is a lock of another thread. */
    uint32_t *words;
};

static long futex(uint32_t *word, int op, uint32_t value, const struct timespec *until) {
#ifdef SYS_futex_time64
    if (sizeof until->tv_sec == 8)
        return syscall(SYS_futex_time64, word, op, value, until, NULL, FUTEX_BITSET_MATCH_ANY);
#endif
    return syscall(SYS_futex, word, op, value, until, NULL, FUTEX_BITSET_MATCH_ANY);
}

/* Sleeps until this time; returns 0 if the time ended the sleep. */
static int sleeps(void *with, int tell) {
    struct sleeper *s = with;
    uint64_t words[3] = {*s->words, (uintptr_t)s->words, 2}, until[2] = {s->until.tv_sec, s->until.tv_nsec};
    if (htole32(1) != 1) words[2] <<= 32;
    (void)tell;
    switch (s->way) {
    case NANOSLEEP: return clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &s->until, NULL);
    case NANOSLEEP_TAI: return clock_nanosleep(CLOCK_TAI, TIMER_ABSTIME, &s->until, NULL);
    case FUTEX:
        return !(futex(s->words, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, *s->words, &s->until) == -1 &&
                 errno == ETIMEDOUT);
    case FUTEX_VECTOR: return !(syscall(449, words, 1, 0, until, CLOCK_REALTIME) == -1 && errno == ETIMEDOUT);
    default: return !(futex(s->words + 1, FUTEX_LOCK_PI, 0, &s->until) == -1 && errno == ETIMEDOUT);
    }
}

/*
 * Everything that can wait until a time of the clock: sleeping children, a timerfd, and a timer that sends
 * SIGUSR1.
 */
struct waiting {
    struct child children[WAYS];
    int file;
    timer_t timer;
};

/* A timer of CLOCK_REALTIME that sends SIGUSR1. */
static timer_t timer(void) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    timer_t made;
    CHECK(timer_create(CLOCK_REALTIME, &event, &made) == 0);
    return made;
}

/* Has all of these wait for this many milliseconds. */
static struct waiting wait_all(long ms) {
    struct waiting w = {.file = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK), .timer = timer()};
    struct itimerspec until = {.it_value = later(CLOCK_REALTIME, ms)};
    struct sleeper s = {.words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)};
    CHECK(timerfd_settime(w.file, TFD_TIMER_ABSTIME, &until, NULL) == 0 &&
          timer_settime(w.timer, TIMER_ABSTIME, &until, NULL) == 0);
    s.words[1] = getpid();
    for (s.way = 0; s.way < WAYS; s.way++) {
        s.until = s.way == NANOSLEEP_TAI ? later(CLOCK_TAI, ms) : until.it_value;
        w.children[s.way] = start(sleeps, &s);
    }
    for (int i = 0; i < WAYS; i++) CHECK(settled(w.children[i].pid));
    munmap(s.words, 4096);
    return w;
}

/* A bit for each of these that has not ended. */
static int still(struct waiting *w) {
    int bits = 0;
    sigset_t pending;
    uint64_t ticks;
    for (int i = 0; i < WAYS; i++) {
        struct pollfd end = {w->children[i].pipe, POLLIN, 0};
        if (poll(&end, 1, 0) == 0) bits |= 1 << i;
    }
    if (read(w->file, &ticks, 8) == -1 && errno == EAGAIN) bits |= 1 << WAYS;
    sigpending(&pending);
    if (!sigismember(&pending, SIGUSR1)) bits |= 2 << WAYS;
    return bits;
}

/* Whether SIGUSR1 comes soon. */
static int signalled(void) {
    struct timespec soon = {SOON / 1000, 0};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    return sigtimedwait(&set, NULL, &soon) == SIGUSR1;
}

/* Waits for all of these to end; returns a bit for each that does not end soon. */
static int end_all(struct waiting *w) {
    int bits = 0;
    struct pollfd file = {w->file, POLLIN, 0};
    for (int i = 0; i < WAYS; i++)
        if (ended(w->children[i]) != 0) bits |= 1 << i;
    if (poll(&file, 1, SOON) != 1) bits |= 1 << WAYS;
    if (!signalled()) bits |= 2 << WAYS;
    timer_delete(w->timer);
    close(w->file);
    return bits;
}

/* The clock is set forward: sleeps until times that have passed end. */
static void set_forward(void) {
    struct waiting w = wait_all(HOUR * 1000);
    CHECK(still(&w) == (4 << WAYS) - 1);
    step(2 * HOUR);
    int left = end_all(&w);
    CHECK(left == 0);
    step(-2 * HOUR);
}

/* The clock is set back: sleeps until a time become longer. */
static void set_back(void) {
    for (long ms = 500;; ms *= 2) {
        long begun = milliseconds();
        struct waiting w = wait_all(ms);
        step(-HOUR);
        /* On a busy machine the time may have come already: then this is tried again, with more time. */
        int in_time = milliseconds() < begun + ms;
        while (in_time && milliseconds() < begun + ms + 100) usleep(10000);
        int waiting = still(&w);
        step(HOUR);
        if (in_time) {
            CHECK(waiting == (4 << WAYS) - 1);
            CHECK(end_all(&w) == 0);
            return;
        }
        end_all(&w);
    }
}

/* Relative timers are not affected when the clock is set. */
static void relative(void) {
    struct itimerspec in = {.it_value = {0, 300000000}}, left;
    int file = timerfd_create(CLOCK_REALTIME, 0);
    timer_t made = timer();
    struct pollfd polled = {file, POLLIN, 0};
    CHECK(timerfd_settime(file, 0, &in, NULL) == 0 && timer_settime(made, 0, &in, NULL) == 0);
    step(-HOUR);
    CHECK(timerfd_gettime(file, &left) == 0 && left.it_value.tv_sec == 0);
    CHECK(timer_gettime(made, &left) == 0 && left.it_value.tv_sec == 0);
    CHECK(poll(&polled, 1, SOON) == 1 && signalled());
    step(HOUR);
    timer_delete(made);
    close(file);
}

/* A timer with TFD_TIMER_CANCEL_ON_SET: its reader gets ECANCELED once after the clock was set. */
static void cancelled(void) {
    int flags = TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET,
        file = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK);
    struct itimerspec until = {.it_value = later(CLOCK_REALTIME, HOUR * 1000)}, left;
    struct pollfd polled = {file, POLLIN, 0};
    uint64_t ticks;
    CHECK(timerfd_settime(file, flags, &until, NULL) == 0 && read(file, &ticks, 8) == -1 && errno == EAGAIN);
    step(1);
    CHECK(poll(&polled, 1, 0) == 1 && read(file, &ticks, 8) == -1 && errno == ECANCELED);
    CHECK(poll(&polled, 1, 0) == 0 && read(file, &ticks, 8) == -1 && errno == EAGAIN);
    step(-1);
    CHECK(timerfd_settime(file, flags, &until, NULL) == -1 && errno == ECANCELED);
    CHECK(timerfd_gettime(file, &left) == 0 && left.it_value.tv_sec > HOUR / 2 && poll(&polled, 1, 0) == 0);
    CHECK(timerfd_settime(file, TFD_TIMER_ABSTIME, &until, NULL) == 0);
    step(1);
    CHECK(read(file, &ticks, 8) == -1 && errno == EAGAIN);
    step(-1);
    close(file);
}

/* An ordinary user may query an adjustment of the clock and may not make one. */
static int adjusts(void *with, int tell) {
    struct timeval old, none = {0, 0};
    struct timex t = {.modes = ADJ_OFFSET_SS_READ};
    (void)with, (void)tell;
    if (setresuid(1000, 1000, 1000) != 0) return 1;
    if (adjtime(NULL, &old) != 0) return 2;
    if (adjtimex(&t) < 0) return 3;
    return adjtime(&none, NULL) == -1 && errno == EPERM ? 0 : 4;
}

/* Writes to a disk from memory of which the end is not mapped: the rest of the disk must stay as it was. */
static void disk(const char *name) {
    int fd = open(name, O_RDWR), good = 1;
    long page = sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char got[4096];
    CHECK(fd >= 0 && munmap(memory + page, page) == 0);
    memory += page - 4096;
    memset(memory, 'a', 4096);
    CHECK(pwrite(fd, memory, 4096, 0) == 4096);
    memset(memory, 'b', 4096);
    CHECK(pwrite(fd, memory, 4096, 4096) == 4096);
    memset(memory, 'c', 4096);
    long n = pwrite(fd, memory + 4096 - 700, 2048, 0);
    CHECK(n == 512 || n == 700);
    CHECK(pread(fd, got, 4096, 0) == 4096);
    for (int i = 0; i < 4096; i++) good &= got[i] == (i < n ? 'c' : 'a');
    CHECK(good);
    n = pwrite(fd, memory + 4096 - 100, 512, 8192);
    CHECK(n == 100 || (n == -1 && errno == EFAULT));
    close(fd);
}

int main(int argc, char **argv) {
    sigset_t set;
    setvbuf(stdout, NULL, _IONBF, 0);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    no_terminal();
    sent();
    hang_ups();
    CHECK(ended(start(adjusts, NULL)) == 0);
    relative();
    cancelled();
    set_back();
    set_forward();
    full_and_hung_up();
    packet_mode();
    if (argc > 1) disk(argv[1]);
    return report();
}
