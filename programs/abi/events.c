/*
 * Notifications: of exclusive waiters only one is woken; O_ASYNC signals for owners of files; watches of
 * names; queued signals of a user, sockets in flight, and what /proc shows of all this. Called by
 * tools/limen/src/test/programs.rs, on every architecture; on Linux it can be run by hand, as root, in an
 * empty folder.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include "check.h"

static void pause_ms(int ms) {
    struct timespec t = { ms / 1000, ms % 1000 * 1000000L };
    nanosleep(&t, NULL);
}

/* Whether the child ended without a failed check. */
static int child_good(pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    return status == 0;
}

/* --- Of several waiters one is enough --- */

#define WAITERS 8
struct waiter {
    pthread_t thread;
    int fd, tid, epoll;
    uint32_t how;
};
static int woken, at_work;

static void *waits_by_epoll(void *arg) {
    struct waiter *me = arg;
    struct epoll_event event = { EPOLLIN | me->how, { 0 } };
    int epoll = me->epoll;
    if (epoll < 0) {
        epoll = epoll_create1(0);
        epoll_ctl(epoll, EPOLL_CTL_ADD, me->fd, &event);
    }
    __atomic_add_fetch(&at_work, 1, __ATOMIC_SEQ_CST);
    if (epoll_wait(epoll, &event, 1, 3000) == 1) __atomic_add_fetch(&woken, 1, __ATOMIC_SEQ_CST);
    if (me->epoll < 0) close(epoll);
    return NULL;
}

/*
 * Returns how many of the waiters are woken by one event of `fd`, to which `cause` is written; the others are
 * released by further events.
 */
static int woken_by(struct waiter *all, int count, int cause, const void *data, size_t size) {
    at_work = woken = 0;
    for (int i = 0; i < count; i++) pthread_create(&all[i].thread, NULL, waits_by_epoll, &all[i]);
    while (__atomic_load_n(&at_work, __ATOMIC_SEQ_CST) != count) pause_ms(1);
    pause_ms(100);
    CHECK(write(cause, data, size) == (ssize_t)size);
    pause_ms(150);
    int result = __atomic_load_n(&woken, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 20 && __atomic_load_n(&woken, __ATOMIC_SEQ_CST) != count; i++) {
        CHECK(write(cause, data, size) == (ssize_t)size);
        pause_ms(10);
    }
    for (int i = 0; i < count; i++) pthread_join(all[i].thread, NULL);
    CHECK(woken == count);
    return result;
}

static void one_is_enough(void) {
    struct waiter all[WAITERS];
    uint64_t one = 1;
    int ends[2];
    for (int kind = 0; kind < 3; kind++)
        for (int edge = 0; edge < 2; edge++) {
            int from, to;
            size_t size = kind == 0 ? 8 : 1;
            if (kind == 0) from = to = eventfd(0, EFD_NONBLOCK);
            else {
                CHECK((kind == 1 ? pipe(ends) : socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) == 0);
                from = ends[0], to = ends[1];
            }
            uint32_t how = edge ? EPOLLET : 0;
            for (int i = 0; i < WAITERS; i++)
                all[i] = (struct waiter){.fd = from, .epoll = -1, .how = how | EPOLLEXCLUSIVE};
            CHECK(woken_by(all, WAITERS, to, &one, size) == 1);
            /* Two that do not wait exclusively are woken in any case. */
            close(from);
            if (kind == 0) from = to = eventfd(0, EFD_NONBLOCK);
            else {
                close(to);
                CHECK((kind == 1 ? pipe(ends) : socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) == 0);
                from = ends[0], to = ends[1];
            }
            for (int i = 0; i < WAITERS; i++)
                all[i] = (struct waiter){.fd = from, .epoll = -1, .how = how | (i < 2 ? 0 : EPOLLEXCLUSIVE)};
            CHECK(woken_by(all, WAITERS, to, &one, size) == 3);
            close(from);
            if (to != from) close(to);
        }
    /* Threads that wait at the same epoll file: one is woken for each edge-triggered event. */
    CHECK(pipe(ends) == 0);
    struct epoll_event event = { EPOLLIN | EPOLLET, { 0 } };
    int epoll = epoll_create1(0);
    epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event);
    for (int i = 0; i < WAITERS; i++) all[i] = (struct waiter){ .fd = ends[0], .epoll = epoll };
    CHECK(woken_by(all, WAITERS, ends[1], &one, 1) == 1);
    close(epoll), close(ends[0]), close(ends[1]);
}

/* How often a thread went to sleep. */
static long sleeps(int tid) {
    char name[64], text[4096];
    snprintf(name, sizeof name, "/proc/self/task/%d/status", tid);
    int fd = open(name, O_RDONLY), size = read(fd, text, sizeof text - 1);
    close(fd);
    text[size < 0 ? 0 : size] = 0;
    char *at = strstr(text, "\nvoluntary_ctxt_switches:");
    return at ? atol(at + 25) : -1;
}

static void *takes_one(void *arg) {
    struct waiter *me = arg;
    char byte;
    __atomic_store_n(&me->tid, syscall(SYS_gettid), __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&at_work, 1, __ATOMIC_SEQ_CST);
    if (me->how == 0) CHECK(read(me->fd, &byte, 1) == 1);
    else close(accept(me->fd, NULL, NULL));
    __atomic_add_fetch(&woken, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&at_work, __ATOMIC_SEQ_CST)) pause_ms(20);
    return NULL;
}

/*
 * Sleepers in read and accept are not woken for data that one of them takes; and none stays asleep if there
 * is more.
 */
static void readers_in_turn(void) {
    for (int kind = 0; kind < 3; kind++) {
        struct waiter all[WAITERS] = { 0 };
        struct sockaddr_un name = { AF_UNIX, "" };
        int ends[2], more[WAITERS];
        if (kind == 0) CHECK(pipe(ends) == 0);
        else if (kind == 1) CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
        else {
            ends[0] = socket(AF_UNIX, SOCK_STREAM, 0);
            memcpy(name.sun_path, "\0turn", 5);
            CHECK(bind(ends[0], (void *)&name, 7) == 0 && listen(ends[0], WAITERS) == 0);
        }
        at_work = woken = 0;
        for (int i = 0; i < WAITERS; i++) {
            all[i].fd = ends[0], all[i].how = kind == 2;
            pthread_create(&all[i].thread, NULL, takes_one, &all[i]);
        }
        while (__atomic_load_n(&at_work, __ATOMIC_SEQ_CST) != WAITERS) pause_ms(1);
        pause_ms(100);
        long before[WAITERS];
        int moved = 0;
        for (int i = 0; i < WAITERS; i++) before[i] = sleeps(all[i].tid);
        for (int i = 0; i < WAITERS; i++)
            if (kind == 2) {
                more[i] = socket(AF_UNIX, SOCK_STREAM, 0);
                if (i == 0) CHECK(connect(more[i], (void *)&name, 7) == 0);
            } else if (i == 0) CHECK(write(ends[1], "x", 1) == 1);
        pause_ms(100);
        for (int i = 0; i < WAITERS; i++) moved += sleeps(all[i].tid) != before[i];
        CHECK(woken == 1 && moved <= 1);
        if (kind == 0) CHECK(write(ends[1], "sevenxx", 7) == 7);
        else
            for (int i = 1; i < WAITERS; i++)
                if (kind == 2) CHECK(connect(more[i], (void *)&name, 7) == 0);
                else CHECK(write(ends[1], "x", 1) == 1);
        for (int i = 0; i < 100 && __atomic_load_n(&woken, __ATOMIC_SEQ_CST) != WAITERS; i++) pause_ms(10);
        CHECK(woken == WAITERS);
        __atomic_store_n(&at_work, 0, __ATOMIC_SEQ_CST);
        if (woken != WAITERS) return;
        for (int i = 0; i < WAITERS; i++) {
            pthread_join(all[i].thread, NULL);
            if (kind == 2) close(more[i]);
        }
        close(ends[0]);
        if (kind != 2) close(ends[1]);
    }
}

static int stop_moving;
static void *adds_and_takes_out(void *arg) {
    int *fds = arg;
    struct epoll_event event = { EPOLLIN, { 0 } };
    while (!__atomic_load_n(&stop_moving, __ATOMIC_RELAXED)) {
        epoll_ctl(fds[0], EPOLL_CTL_ADD, fds[1], &event);
        epoll_ctl(fds[0], EPOLL_CTL_DEL, fds[1], &event);
    }
    return NULL;
}

static long free_memory(void) {
    char text[4096];
    int fd = open("/proc/meminfo", O_RDONLY), size = read(fd, text, sizeof text - 1);
    close(fd);
    text[size < 0 ? 0 : size] = 0;
    char *at = strstr(text, "MemFree:");
    return at ? atol(at + 8) : 0;
}

/*
 * Events that are reported without being asked for, EPOLL_CTL_MOD while an event is reported, nested epoll
 * files.
 */
static void epoll_edges(void) {
    struct epoll_event event = { 0, { .u64 = 7 } };
    int ends[2], epoll = epoll_create1(0);
    CHECK(pipe(ends) == 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event) == 0);
    CHECK(epoll_wait(epoll, &event, 1, 0) == 0);
    close(ends[1]);
    CHECK(epoll_wait(epoll, &event, 1, 0) == 1 && event.events == EPOLLHUP && event.data.u64 == 7);
    event = (struct epoll_event){ EPOLLONESHOT, { .u64 = 8 } };
    CHECK(epoll_ctl(epoll, EPOLL_CTL_MOD, ends[0], &event) == 0);
    CHECK(epoll_wait(epoll, &event, 1, 0) == 1 && event.data.u64 == 8 &&
          epoll_wait(epoll, &event, 1, 0) == 0);
    close(ends[0]), close(epoll);
    /* Four nested epoll files; the event is in the innermost. */
    int nest[4], told = eventfd(0, 0);
    for (int i = 0; i < 4; i++) {
        nest[i] = epoll_create1(0);
        event = (struct epoll_event){ EPOLLIN | EPOLLET, { 0 } };
        CHECK(epoll_ctl(nest[i], EPOLL_CTL_ADD, i ? nest[i - 1] : told, &event) == 0);
    }
    for (int i = 0; i < 3; i++) {
        struct waiter all = { .epoll = nest[3] };
        uint64_t one = 1;
        CHECK(woken_by(&all, 1, told, &one, 8) == 1);
    }
    for (int i = 0; i < 4; i++) close(nest[i]);
    /* One thread adds what another removes: no entry is left in the end. */
    int pair[2] = { epoll_create1(0), told };
    pthread_t threads[2];
    stop_moving = 0;
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, adds_and_takes_out, pair);
    pause_ms(400);
    __atomic_store_n(&stop_moving, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    close(pair[0]), close(told);
    /* An eventfd reports POLLIN without POLLRDNORM. */
    struct pollfd one = { eventfd(1, 0), POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM, 0 };
    CHECK(poll(&one, 1, 0) == 1 && one.revents == (POLLIN | POLLOUT));
    close(one.fd);
    /* A read from a pipe that was not full is no new EPOLLOUT edge. */
    CHECK(pipe(ends) == 0);
    epoll = epoll_create1(0);
    event = (struct epoll_event){ EPOLLOUT | EPOLLET, { 0 } };
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[1], &event) == 0 && epoll_wait(epoll, &event, 1, 0) == 1);
    CHECK(write(ends[1], "x", 1) == 1 && read(ends[0], &event, 1) == 1 &&
          epoll_wait(epoll, &event, 1, 0) == 0);
    close(ends[0]), close(ends[1]), close(epoll);
}

/* --- O_ASYNC --- */

static volatile sig_atomic_t signals;
static siginfo_t last;
static void note(int sig, siginfo_t *info, void *context) {
    (void)sig, (void)context;
    signals++;
    last = *info;
}

#define SIG (SIGRTMIN + 3)
static void catch(int sig) {
    struct sigaction action = { .sa_sigaction = note, .sa_flags = SA_SIGINFO };
    sigaction(sig, &action, NULL);
}

/* Turns O_ASYNC on; returns whether it is on. */
static int turn_on(int fd, int sig) {
    catch(SIGIO), catch(SIG);
    fcntl(fd, F_SETOWN, getpid());
    fcntl(fd, F_SETSIG, sig);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC | O_NONBLOCK);
    signals = 0;
    return !!(fcntl(fd, F_GETFL) & O_ASYNC);
}

/* Whether the last signal had these values for `fd`. Signals are taken when a system call returns. */
static int told(int fd, int code, long band) {
    for (int i = 0; i < 100 && signals == 0; i++) pause_ms(5);
    int good = signals >= 1 && last.si_code == code && last.si_band == band && last.si_fd == fd;
    signals = 0;
    return good;
}

#define IN_BAND (POLLIN | POLLRDNORM)
#define OUT_BAND (POLLOUT | POLLWRNORM | POLLWRBAND)
#define HUP_BAND (POLLHUP | POLLERR)

static void signals_of_files(void) {
    int ends[2], other[2];
    char bytes[4096] = { 0 };
    CHECK(pipe(ends) == 0);
    CHECK(turn_on(ends[0], SIG) && write(ends[1], "x", 1) == 1 && told(ends[0], POLL_IN, IN_BAND));
    CHECK(turn_on(ends[1], SIG) && read(ends[0], bytes, 1) == 1 && told(ends[1], POLL_OUT, OUT_BAND));
    fcntl(ends[0], F_SETSIG, 0);
    CHECK(write(ends[1], "x", 1) == 1 && signals >= 1 && last.si_signo == SIGIO && last.si_code == SI_KERNEL);
    fcntl(ends[0], F_SETSIG, SIG);
    signals = 0;
    close(ends[1]);
    CHECK(told(ends[0], POLL_IN, IN_BAND));
    close(ends[0]);
    CHECK(pipe(ends) == 0 && turn_on(ends[1], SIG));
    close(ends[0]);
    CHECK(told(ends[1], POLL_OUT, OUT_BAND));
    close(ends[1]);
    /* A FIFO; and what splice moves. */
    CHECK(mkfifo("fifo", 0600) == 0);
    int fifo = open("fifo", O_RDWR | O_NONBLOCK);
    CHECK(turn_on(fifo, SIG) && write(fifo, "x", 1) == 1 && told(fifo, POLL_IN, IN_BAND));
    CHECK(pipe(ends) == 0 && turn_on(ends[0], SIG));
    CHECK(splice(fifo, NULL, ends[1], NULL, 1, 0) == 1 && signals >= 1);
    close(fifo), close(ends[0]), close(ends[1]);
    /* O_ASYNC in open only sets the flag. */
    fifo = open("fifo", O_RDWR | O_NONBLOCK | O_ASYNC);
    fcntl(fifo, F_SETOWN, getpid());
    signals = 0;
    CHECK(fcntl(fifo, F_GETFL) & O_ASYNC);
    CHECK(write(fifo, "x", 1) == 1 && signals == 0);
    close(fifo);
    /* Sockets. */
    for (int type = SOCK_STREAM; type <= SOCK_SEQPACKET; type++) {
        if (type > SOCK_DGRAM && type < SOCK_SEQPACKET) continue;
        CHECK(socketpair(AF_UNIX, type, 0, ends) == 0 && turn_on(ends[0], SIG));
        CHECK(write(ends[1], "x", 1) == 1 && told(ends[0], POLL_IN, IN_BAND) && read(ends[0], bytes, 1) == 1);
        while (write(ends[0], bytes, sizeof bytes) > 0) {}
        signals = 0;
        fcntl(ends[1], F_SETFL, O_NONBLOCK);
        while (read(ends[1], bytes, sizeof bytes) > 0) {}
        CHECK(told(ends[0], POLL_OUT, OUT_BAND));
        if (type != SOCK_DGRAM) {
            CHECK(shutdown(ends[1], SHUT_WR) == 0 && told(ends[0], POLL_IN, IN_BAND));
            close(ends[1]);
            CHECK(told(ends[0], POLL_HUP, HUP_BAND));
        } else close(ends[1]);
        close(ends[0]);
    }
    struct sockaddr_un name = { AF_UNIX, "" };
    memcpy(name.sun_path, "\0async", 6);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(listener, (void *)&name, 8) == 0 && listen(listener, 1) == 0 && turn_on(listener, SIG));
    CHECK(connect(client, (void *)&name, 8) == 0 && told(listener, POLL_IN, IN_BAND));
    int id = getpid(), got = 0;
    CHECK(ioctl(client, 0x8901, &id) == 0 && ioctl(client, 0x8903, &got) == 0 && got == id);
    CHECK(fcntl(client, F_GETOWN) == id);
    close(listener), close(client);
    /* inotify and terminals. */
    int watch = inotify_init1(IN_NONBLOCK);
    inotify_add_watch(watch, ".", IN_CREATE);
    CHECK(turn_on(watch, SIG) && mkdir("made", 0700) == 0 && told(watch, POLL_IN, IN_BAND) &&
          rmdir("made") == 0);
    close(watch);
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK), zero = 0, number;
    char path[32];
    ioctl(master, TIOCSPTLCK, &zero), ioctl(master, TIOCGPTN, &number);
    snprintf(path, sizeof path, "/dev/pts/%d", number);
    int slave = open(path, O_RDWR | O_NOCTTY | O_NONBLOCK);
    struct termios raw;
    tcgetattr(slave, &raw), cfmakeraw(&raw), tcsetattr(slave, TCSANOW, &raw);
    CHECK(turn_on(slave, SIG) && write(master, "x", 1) == 1 && told(slave, POLL_IN, IN_BAND));
    CHECK(turn_on(master, SIG) && write(slave, "x", 1) == 1 && told(master, POLL_IN, IN_BAND));
    close(slave), close(master);
    /* Files that do not support O_ASYNC. */
    int on = 1, none[] = {eventfd(0, 0), epoll_create1(0), open("/dev/null", O_RDWR), open(".", O_RDONLY),
                          open("/proc/version", O_RDONLY)};
    for (int i = 0; i < 5; i++) {
        CHECK(!turn_on(none[i], SIG) && ioctl(none[i], FIOASYNC, &on) == -1 && errno == ENOTTY);
        close(none[i]);
    }
    int random = open("/dev/random", O_RDONLY);
    CHECK(turn_on(random, SIG));
    close(random);
    /* si_fd is the descriptor on which it was turned on, while any descriptor of the file is open. */
    CHECK(pipe(ends) == 0);
    int copy = fcntl(ends[0], F_DUPFD, 100);
    CHECK(turn_on(copy, SIG));
    close(copy);
    CHECK(turn_on(ends[0], SIG) && write(ends[1], "x", 1) == 1 && told(copy, POLL_IN, IN_BAND));
    fcntl(ends[0], F_SETFL, 0);
    CHECK(write(ends[1], "x", 1) == 1 && signals == 0);
    /* Owners: one that ended, a group, a thread; signals with other codes; other users. */
    struct f_owner_ex owner = { F_OWNER_PGRP, getpgrp() };
    CHECK(pipe(other) == 0 && fcntl(other[0], F_GETOWN_EX, &owner) == 0 && owner.type == F_OWNER_TID &&
          owner.pid == 0);
    owner = (struct f_owner_ex){ F_OWNER_PGRP, -5 };
    CHECK(fcntl(other[0], F_SETOWN_EX, &owner) == -1 && errno == ESRCH);
    owner.type = 7;
    CHECK(fcntl(other[0], F_SETOWN_EX, &owner) == -1 && errno == EINVAL);
    pid_t child = fork();
    if (child == 0) _exit(0);
    CHECK(fcntl(other[0], F_SETOWN, child) == 0 && fcntl(other[0], F_GETOWN) == child);
    CHECK(child_good(child) && fcntl(other[0], F_GETOWN) == 0);
    catch(SIGCHLD);
    CHECK(turn_on(other[0], SIGCHLD) && write(other[1], "x", 1) == 1 && signals == 1);
    CHECK(last.si_code == SI_SIGIO && last.si_fd == other[0]);
    signal(SIGCHLD, SIG_DFL);
    owner = (struct f_owner_ex){ F_OWNER_TID, getpid() };
    CHECK(fcntl(other[0], F_SETOWN_EX, &owner) == 0 && fcntl(other[0], F_SETSIG, SIG) == 0);
    CHECK(write(other[1], "x", 1) == 1 && told(other[0], POLL_IN, IN_BAND));
    child = fork();
    if (child == 0) {
        /* A user may make a process the owner that he may not signal. */
        if (setuid(1000) != 0 || fcntl(other[0], F_SETOWN, getppid()) != 0) _exit(1);
        _exit(write(other[1], "x", 1) != 1);
    }
    CHECK(child_good(child) && signals == 0);
    close(ends[0]), close(ends[1]), close(other[0]), close(other[1]);
    unlink("fifo");
}

/* --- Names that are gone, and what /proc says of descriptors --- */

/* What happened, as wd:mask in hexadecimal and name. */
static const char *happened(int watch) {
    static char text[4096];
    char bytes[4096];
    int size = read(watch, bytes, sizeof bytes), used = 0;
    text[0] = 0;
    for (int at = 0; at < size;) {
        struct inotify_event *event = (void *)(bytes + at);
        used += snprintf(text + used, sizeof text - used, "%d:%x%s ", event->wd, event->mask,
                         event->len ? event->name : "");
        at += sizeof *event + event->len;
    }
    return text;
}
#define HAPPENED(watch, what) CHECK(strcmp(happened(watch), what) == 0)

static void unlinked_files(void) {
    CHECK(mkdir("watched", 0700) == 0);
    int file = open("watched/f", O_RDWR | O_CREAT, 0600), watch = inotify_init1(IN_NONBLOCK);
    CHECK(inotify_add_watch(watch, "watched", IN_ALL_EVENTS) == 1 &&
          inotify_add_watch(watch, "watched/f", IN_ALL_EVENTS) == 2);
    CHECK(unlink("watched/f") == 0 && write(file, "x", 1) == 1);
    HAPPENED(watch, "2:4 1:200f 1:2f 2:2 ");
    char byte;
    CHECK(pread(file, &byte, 1, 0) == 1 && fchmod(file, 0644) == 0 && ftruncate(file, 0) == 0);
    HAPPENED(watch, "1:1f 2:1 1:4f 2:4 1:2f 2:2 ");
    CHECK(pread(file, &byte, 1, 0) == 0);
    HAPPENED(watch, "");
    close(file);
    HAPPENED(watch, "1:8f 2:8 2:400 2:8000 ");
    /* With IN_EXCL_UNLINK an unlinked file has no events. */
    CHECK(inotify_add_watch(watch, "watched", IN_ALL_EVENTS | IN_EXCL_UNLINK) == 1);
    file = open("watched/g", O_RDWR | O_CREAT, 0600);
    CHECK(link("watched/g", "watched/h") == 0);
    HAPPENED(watch, "1:100g 1:20g 1:100h ");
    CHECK(unlink("watched/g") == 0 && write(file, "x", 1) == 1);
    HAPPENED(watch, "1:200g ");
    CHECK(fchmod(file, 0600) == 0);
    HAPPENED(watch, "1:4g ");
    close(file);
    HAPPENED(watch, "");
    file = open("watched", O_RDONLY | O_DIRECTORY);
    char entries[512];
    CHECK(syscall(SYS_getdents64, file, entries, sizeof entries) > 0);
    HAPPENED(watch, "1:40000020 1:40000001 ");
    close(file), close(watch);
    unlink("watched/h"), rmdir("watched");
}

/* The lines of fdinfo behind those that all files have. */
static const char *said_of(int fd) {
    static char text[4096];
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fdinfo/%d", fd);
    int file = open(name, O_RDONLY), size = read(file, text, sizeof text - 1);
    close(file);
    text[size < 0 ? 0 : size] = 0;
    char *at = strstr(text, "\nino:\t");
    CHECK(strncmp(text, "pos:\t", 5) == 0 && strstr(text, "\nflags:\t0") && strstr(text, "\nmnt_id:\t") &&
          at);
    at = at ? strchr(at + 1, '\n') : NULL;
    return at ? at + 1 : "";
}

static void descriptors_in_proc(void) {
    char want[512];
    struct stat about;
    int fd = eventfd(5, 0), second = eventfd(0, 0);
    char *first = strdup(said_of(fd));
    CHECK(strncmp(first, "eventfd-count:                5\neventfd-id: ", 44) == 0);
    CHECK(strcmp(strstr(first, "id: "), strstr(said_of(second), "id: ")) != 0);
    fstat(fd, &about);
    int epoll = epoll_create1(0);
    struct epoll_event event = { EPOLLIN | EPOLLET, { .u64 = 0x123456789abcdef0 } };
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    snprintf(want, sizeof want, "tfd: %8d events: 80000019 data: 123456789abcdef0  pos:0 ino:%lx sdev:%lx\n",
             fd, (long)about.st_ino, (long)about.st_dev);
    CHECK(strcmp(said_of(epoll), want) == 0);
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGUSR1), sigaddset(&set, SIGKILL), sigaddset(&set, 64);
    int signals = signalfd(-1, &set, 0);
    CHECK(strcmp(said_of(signals), "sigmask:\t8000000000000200\n") == 0);
    int file = open("f", O_RDWR | O_CREAT, 0600), watch = inotify_init();
    CHECK(inotify_add_watch(watch, ".", IN_MODIFY | IN_ONESHOT) == 1 &&
          inotify_add_watch(watch, "f", IN_ALL_EVENTS | IN_EXCL_UNLINK) == 2);
    stat("f", &about);
    snprintf(want, sizeof want,
             "inotify wd:2 ino:%lx sdev:%lx mask:4000fff ignored_mask:0 fhandle-bytes:", (long)about.st_ino,
             (long)about.st_dev);
    CHECK(strncmp(said_of(watch), want, strlen(want)) == 0 && strstr(said_of(watch), "\ninotify wd:1 ") &&
          strstr(said_of(watch), " mask:80000002 "));
    struct flock range = {.l_type = F_WRLCK, .l_start = 3, .l_len = 4},
                 rest = {.l_type = F_RDLCK, .l_start = 100};
    CHECK(flock(file, LOCK_EX) == 0 && fcntl(file, F_SETLK, &range) == 0 &&
          fcntl(file, F_OFD_SETLK, &rest) == 0);
    char where[64];
    snprintf(where, sizeof where, "%02x:%02x:%lu", (int)(about.st_dev >> 8), (int)(about.st_dev & 255),
             (long)about.st_ino);
    snprintf(want, sizeof want,
             "lock:\t1: FLOCK  ADVISORY  WRITE %d %s 0 EOF\nlock:\t2: POSIX  ADVISORY  WRITE %d %s 3 "
             "6\nlock:\t3: OFDLCK ADVISORY  READ -1 %s 100 EOF\n",
             getpid(), where, getpid(), where, where);
    CHECK(strcmp(said_of(file), want) == 0);
    int again = open("f", O_RDONLY);
    CHECK(strcmp(said_of(again), "") == 0);
    int ends[2], master = open("/dev/ptmx", O_RDWR | O_NOCTTY), number;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && strcmp(said_of(ends[0]), "scm_fds: 0\n") == 0);
    CHECK(ioctl(master, TIOCGPTN, &number) == 0);
    snprintf(want, sizeof want, "tty-index:\t%d\n", number);
    CHECK(strcmp(said_of(master), want) == 0);
    int all[] = { fd, second, epoll, signals, file, watch, again, ends[0], ends[1], master };
    for (int i = 0; i < 10; i++) close(all[i]);
    free(first);
    unlink("f");
}

/* --- Times that stay --- */

static void sticky_times(void) {
    struct timeval time = { 0, 20000 };
    CHECK(select(0, NULL, NULL, NULL, &time) == 0 && time.tv_usec == 0);
    CHECK(personality(0x4000000) != -1);
    time.tv_usec = 20000;
    CHECK(select(0, NULL, NULL, NULL, &time) == 0 && time.tv_usec == 20000);
#ifdef SYS_ppoll
    long left[2] = { 0, 50000000 };
    CHECK(syscall(SYS_ppoll, NULL, 0, left, NULL, 8) == 0 && left[1] == 50000000);
    /* The call is not restarted, whatever SA_RESTART says. */
    struct sigaction action = { .sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_RESTART };
    struct itimerval soon = { { 0, 0 }, { 0, 10000 } };
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
    CHECK(syscall(SYS_ppoll, NULL, 0, left, NULL, 8) == -1 && errno == EINTR && left[1] == 50000000);
#endif
    personality(0);
}

/* --- Sockets that are not to be had --- */

static int refusal(int family, int type, int protocol) {
    int ends[2];
    return socketpair(family, type, protocol, ends) == -1 ? errno : 0;
}

static void families(void) {
    CHECK(refusal(AF_INET, SOCK_STREAM, 0) == EOPNOTSUPP && refusal(AF_INET6, SOCK_DGRAM, 0) == EOPNOTSUPP);
    CHECK(refusal(AF_INET, 0, 0) == ESOCKTNOSUPPORT &&
          refusal(AF_INET, SOCK_SEQPACKET, 0) == ESOCKTNOSUPPORT);
    CHECK(refusal(AF_INET, SOCK_RAW, 0) == EPROTONOSUPPORT &&
          refusal(AF_INET, SOCK_STREAM, 17) == EPROTONOSUPPORT);
    CHECK(refusal(AF_INET, SOCK_DGRAM, 1) == EACCES && refusal(AF_INET, SOCK_STREAM, 300) == EINVAL);
    CHECK(refusal(AF_INET, 11, 0) == EINVAL && refusal(AF_X25, 11, 0) == EINVAL &&
          refusal(46, 11, 0) == EAFNOSUPPORT);
    CHECK(refusal(AF_NETLINK, SOCK_STREAM, 0) == ESOCKTNOSUPPORT &&
          refusal(AF_NETLINK, SOCK_RAW, 1) == EPROTONOSUPPORT);
    CHECK(refusal(AF_PACKET, SOCK_STREAM, 0) == ESOCKTNOSUPPORT &&
          refusal(AF_PACKET, SOCK_RAW, 0) == EOPNOTSUPP);
    CHECK(socket(AF_INET, SOCK_RAW, 0) == -1 && errno == EPROTONOSUPPORT);
    CHECK(socket(AF_INET6, SOCK_STREAM, 17) == -1 && errno == EPROTONOSUPPORT);
    pid_t child = fork();
    if (child == 0) {
        failed = 0;
        CHECK(setuid(1000) == 0 && refusal(AF_PACKET, SOCK_STREAM, 0) == EPERM &&
              refusal(AF_INET, SOCK_RAW, 1) == EPERM);
        _exit(failed);
    }
    CHECK(child_good(child));
}

/* --- splice and sendfile of devices --- */

static void spliced_devices(void) {
    int ends[2], zero = open("/dev/zero", O_RDWR), null = open("/dev/null", O_RDWR),
                 random = open("/dev/urandom", O_RDWR);
    int full = open("/dev/full", O_RDWR), version = open("/proc/version", O_RDONLY),
        status = open("/proc/self/status", O_RDONLY);
    loff_t at = 0;
    off_t from = 0;
    CHECK(pipe(ends) == 0 && write(ends[1], "0123456789", 10) == 10);
    CHECK(splice(zero, NULL, ends[1], NULL, 5, 0) == -1 && errno == EINVAL);
    CHECK(splice(ends[0], NULL, zero, NULL, 5, 0) == -1 && errno == EINVAL);
    CHECK(splice(ends[0], NULL, full, NULL, 5, 0) == -1 && errno == EINVAL);
    CHECK(splice(ends[0], NULL, null, &at, 5, 0) == 5 && at == 0);
    CHECK(splice(ends[0], NULL, random, &at, 5, 0) == 5 && at == 0);
    CHECK(splice(random, &at, ends[1], NULL, 5, 0) == 5 && at == 0);
    CHECK(sendfile(null, random, &from, 5) == 5 && from == 0);
    CHECK(sendfile(null, zero, NULL, 5) == -1 && errno == EINVAL);
    CHECK(sendfile(null, version, &from, 5) == 5 && from == 5);
    CHECK(splice(version, NULL, ends[1], NULL, 5, 0) == 5);
    CHECK(splice(status, NULL, ends[1], NULL, 5, 0) == -1 && errno == EINVAL);
    int all[] = { zero, null, random, full, version, status, ends[0], ends[1] };
    for (int i = 0; i < 8; i++) close(all[i]);
}

/* --- What is queued for a user --- */

static int thread_id, thread_may_go;
static void *has_an_id(void *unused) {
    (void)unused;
    __atomic_store_n(&thread_id, syscall(SYS_gettid), __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&thread_may_go, __ATOMIC_SEQ_CST)) pause_ms(1);
    return NULL;
}

static int queue_raw(int call, int id, int sig, int code) {
    siginfo_t info = { 0 };
    info.si_signo = sig, info.si_code = code;
    return call == SYS_rt_tgsigqueueinfo ? syscall(call, getpid(), id, sig, &info)
                                         : syscall(call, id, sig, &info);
}

static void queued_signals(void) {
    pid_t child = fork();
    if (child == 0) {
        failed = 0;
        struct rlimit limit = { 5, 5 };
        union sigval value = { 0 };
        sigset_t set;
        int good = 0;
        timer_t timer;
        sigfillset(&set), sigprocmask(SIG_BLOCK, &set, NULL);
        CHECK(setuid(12345) == 0 && setrlimit(RLIMIT_SIGPENDING, &limit) == 0);
        for (int i = 0; i < 8; i++) good += sigqueue(getpid(), SIG, value) == 0;
        CHECK(good == 5 && errno == EAGAIN);
        CHECK(kill(getpid(), SIG + 1) == 0 && sigqueue(getpid(), SIGUSR1, value) == 0 &&
              kill(getpid(), SIGUSR2) == 0);
        CHECK(syscall(SYS_tgkill, getpid(), getpid(), SIG + 2) == -1 && errno == EAGAIN);
        CHECK(timer_create(CLOCK_MONOTONIC, NULL, &timer) == -1 && errno == EAGAIN);
        sigpending(&set);
        CHECK(sigismember(&set, SIG + 1) && sigismember(&set, SIGUSR1) && !sigismember(&set, SIG + 2));
        /*
         * Another process of the user has no room either, until signals are taken. SIGUSR2 is counted, though
         * beyond the limit.
         */
        pid_t other = fork();
        if (other == 0) _exit(sigqueue(getpid(), SIG, value) == -1 && errno == EAGAIN ? 0 : 1);
        CHECK(child_good(other));
        /* The SIGCHLD of the child that ended is counted, too. */
        sigemptyset(&set), sigaddset(&set, SIG);
        struct timespec now = { 0, 0 };
        for (int i = 0; i < 5; i++) CHECK(sigtimedwait(&set, NULL, &now) == SIG);
        CHECK(sigtimedwait(&set, NULL, &now) == -1 && errno == EAGAIN && sigqueue(getpid(), SIG, value) == 0);
        CHECK(timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0);
        limit.rlim_cur = 0;
        CHECK(setrlimit(RLIMIT_SIGPENDING, &limit) == 0 && sigqueue(getpid(), SIG + 3, value) == -1 &&
              errno == EAGAIN);
        _exit(failed);
    }
    CHECK(child_good(child));
    pthread_t thread;
    pthread_create(&thread, NULL, has_an_id, NULL);
    while (!__atomic_load_n(&thread_id, __ATOMIC_SEQ_CST)) pause_ms(1);
    catch(SIG);
    signals = 0;
    /*
     * A thread's id stands for its process. Only the calling thread itself may get codes that others must not
     * send.
     */
    CHECK(kill(thread_id, 0) == 0 && queue_raw(SYS_rt_sigqueueinfo, thread_id, SIG, SI_QUEUE) == 0);
    CHECK(queue_raw(SYS_rt_sigqueueinfo, thread_id, SIG, SI_TKILL) == -1 && errno == EPERM);
    CHECK(queue_raw(SYS_rt_sigqueueinfo, getpid(), SIG, SI_TKILL) == 0);
    CHECK(queue_raw(SYS_rt_tgsigqueueinfo, thread_id, SIG, SI_USER) == -1 && errno == EPERM);
    CHECK(queue_raw(SYS_rt_tgsigqueueinfo, getpid(), SIG, SI_USER) == 0);
    CHECK(queue_raw(SYS_rt_tgsigqueueinfo, -1, SIG, SI_USER) == -1 && errno == EINVAL);
    pause_ms(5);
    CHECK(signals == 3);
    int fd = syscall(SYS_pidfd_open, getppid(), 0);
    siginfo_t info = { 0 };
    info.si_signo = SIG, info.si_code = SI_USER;
    CHECK(syscall(SYS_pidfd_send_signal, fd, SIG + 1, &info, 0) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_pidfd_send_signal, fd, SIG, &info, 0) == -1 && errno == EPERM);
    close(fd);
    __atomic_store_n(&thread_may_go, 1, __ATOMIC_SEQ_CST);
    pthread_join(thread, NULL);
}

/* --- Sockets in flight to each other --- */

static int send_fd(int to, int fd, const void *data, size_t size) {
    union { struct cmsghdr header; char bytes[CMSG_SPACE(sizeof(int))]; } control = { { 0 } };
    struct iovec vector = { (void *)data, size };
    struct msghdr message = {
        .msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    control.header =
        (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    return sendmsg(to, &message, MSG_DONTWAIT) == (ssize_t)size;
}

static int receive_fd(int from, int flags) {
    union { struct cmsghdr header; char bytes[CMSG_SPACE(sizeof(int))]; } control = { { 0 } };
    char byte[64];
    struct iovec vector = { byte, sizeof byte };
    struct msghdr message = {
        .msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    int fd = -1;
    if (recvmsg(from, &message, flags) < 1 || message.msg_controllen < CMSG_LEN(sizeof fd)) return -1;
    memcpy(&fd, CMSG_DATA(&control.header), sizeof fd);
    return fd;
}

static char load[30000];
static int quiet;

/* Makes cycles of several kinds and closes them. */
static void *makes_cycles(void *rounds) {
    for (int i = 0; i < (int)(intptr_t)rounds; i++) {
        int a[2], b[2];
        CHECK(socketpair(AF_UNIX, i % 2 ? SOCK_DGRAM : SOCK_STREAM, 0, a) == 0 &&
              socketpair(AF_UNIX, SOCK_STREAM, 0, b) == 0);
        /* Each socket is in its own queue; each in the other's; or there is a third one that leads there. */
        CHECK(send_fd(a[0], a[1], load, sizeof load));
        if (i % 3) CHECK(send_fd(a[1], a[0], load, sizeof load));
        CHECK(send_fd(b[0], a[0], load, sizeof load) && send_fd(a[0], b[1], load, sizeof load));
        close(a[0]), close(b[0]), close(a[1]), close(b[1]);
    }
    return NULL;
}

/* Sends sockets and uses them before they are received: they must be unchanged. */
static void *passes_on(void *unused) {
    (void)unused;
    int way[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, way) == 0);
    while (!__atomic_load_n(&quiet, __ATOMIC_SEQ_CST)) {
        int pair[2], good = 0;
        char byte = 0;
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) break;
        good += send_fd(way[0], pair[0], "x", 1) && write(pair[1], "y", 1) == 1;
        close(pair[0]);
        int looked = receive_fd(way[1], MSG_PEEK);
        good += looked >= 0;
        if (looked % 2) close(looked);
        int taken = receive_fd(way[1], 0);
        if (looked % 2 == 0) close(looked);
        good += taken >= 0 && read(taken, &byte, 1) == 1 && byte == 'y' && write(taken, "z", 1) == 1 &&
                read(pair[1], &byte, 1) == 1;
        CHECK(good == 3);
        close(taken), close(pair[1]);
        if (good != 3) break;
    }
    close(way[0]), close(way[1]);
    return NULL;
}

static void lost_in_flight(void) {
    pthread_t threads[3];
    makes_cycles((void *)20);
    long before = free_memory();
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, i ? makes_cycles : passes_on, (void *)400);
    for (int i = 1; i < 3; i++) pthread_join(threads[i], NULL);
    __atomic_store_n(&quiet, 1, __ATOMIC_SEQ_CST);
    pthread_join(threads[0], NULL);
    for (int i = 0; i < 50 && free_memory() < before - 16000; i++) pause_ms(20);
    CHECK(free_memory() >= before - 16000);
    /* Sockets that can still be reached through others stay open. */
    int a[2], b[2];
    char byte = 0;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, a) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, b) == 0);
    CHECK(send_fd(a[0], b[1], "1", 1) && send_fd(b[0], a[0], "2", 1) && write(b[0], "3", 1) == 1);
    close(b[0]), close(b[1]), close(a[0]);
    close(socket(AF_UNIX, SOCK_STREAM, 0));
    int inner = receive_fd(a[1], 0), outer = receive_fd(inner, 0);
    CHECK(inner >= 0 && outer >= 0 && read(inner, &byte, 1) == 1 && byte == '3');
    CHECK(write(outer, "4", 1) == 1 && read(a[1], &byte, 1) == 1 && byte == '4');
    close(inner), close(outer), close(a[1]);
}

/* --- Signals for a leader that has ended, and for a process that is stopping --- */

static void *outlives(void *argument) {
    while (pause() != 0);
    return argument;
}

/* A process whose leader has ended and whose other thread lives. */
static pid_t without_leader(void) {
    char state[64] = { 0 }, name[64];
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, outlives, NULL) == 0) syscall(SYS_exit, 0);
        _exit(1);
    }
    snprintf(name, sizeof name, "/proc/%d/stat", child);
    for (int i = 0; i < 200 && !strstr(state, ") Z "); i++) {
        pause_ms(10);
        int fd = open(name, O_RDONLY);
        if (fd < 0 || read(fd, state, sizeof state - 1) < 0) break;
        close(fd);
    }
    CHECK(strstr(state, ") Z ") != NULL);
    return child;
}

/* Whether the child's next change within two seconds is this one. */
static int changes(pid_t child, int flags, int code, int value) {
    siginfo_t info = { 0 };
    for (int i = 0; i < 200 && info.si_pid == 0; i++) {
        if (waitid(P_PID, child, &info, flags | WNOHANG) != 0) return 0;
        if (info.si_pid == 0) pause_ms(10);
    }
    return info.si_pid == child && info.si_code == code && info.si_status == value;
}

/* As long as nobody has waited for it, the leader can be sent signals. */
static void takes_signals(pid_t leader) {
    siginfo_t info = { .si_code = SI_QUEUE };
    for (int sig = 0; sig < 2; sig++) {
        int number = sig ? SIGKILL : 0;
        CHECK(syscall(SYS_tgkill, leader, leader, number) == 0 && syscall(SYS_tkill, leader, number) == 0);
        info.si_signo = number;
        CHECK(syscall(SYS_rt_tgsigqueueinfo, leader, leader, number, &info) == 0);
    }
    CHECK(syscall(SYS_tgkill, leader, leader, 65) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_tgkill, leader + 1, leader, 0) == -1 && errno == ESRCH);
    pid_t stranger = fork();
    if (stranger == 0) {
        if (setresuid(1, 1, 1) != 0) _exit(2);
        _exit(syscall(SYS_tgkill, leader, leader, 0) == -1 && errno == EPERM ? 0 : 1);
    }
    CHECK(child_good(stranger));
}

static void ended_leaders(void) {
    pid_t child = without_leader();
    takes_signals(child);
    /* What stops or continues the whole process still does; a stop signal has to be taken by somebody. */
    CHECK(syscall(SYS_tgkill, child, child, SIGSTOP) == 0 && kill(child, SIGSTOP) == 0);
    CHECK(changes(child, WSTOPPED, CLD_STOPPED, SIGSTOP));
    CHECK(syscall(SYS_tgkill, child, child, SIGCONT) == 0);
    CHECK(changes(child, WCONTINUED, CLD_CONTINUED, SIGCONT));
    kill(child, SIGKILL);
    CHECK(changes(child, WEXITED | WNOWAIT, CLD_KILLED, SIGKILL));
    takes_signals(child);
    CHECK(waitpid(child, NULL, 0) == child);
    CHECK(syscall(SYS_tgkill, child, child, 0) == -1 && errno == ESRCH);
    child = fork();
    if (child == 0) _exit(0);
    CHECK(changes(child, WEXITED | WNOWAIT, CLD_EXITED, 0));
    takes_signals(child);
    CHECK(waitpid(child, NULL, 0) == child);
}

static void *waits_for_child(void *milliseconds) {
    if (vfork() == 0) {
        pause_ms(*(int *)milliseconds);
        _exit(0);
    }
    return NULL;
}

/* A process continues before all its threads have stopped: one of them waits for its child in vfork. */
static void continued_early(void) {
    sigset_t set;
    siginfo_t info = { 0 };
    struct timespec most = { 2, 0 }, none = { 0, 0 };
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        int long_enough = 3000;
        pthread_create(&thread, NULL, waits_for_child, &long_enough);
        for (;;) pause();
    }
    pause_ms(300);
    kill(child, SIGSTOP);
    pause_ms(200);
    CHECK(waitid(P_PID, child, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid == 0);
    CHECK(sigtimedwait(&set, &info, &none) == -1 && errno == EAGAIN);
    kill(child, SIGCONT);
    /* The signal tells of the stop, which nothing caused. */
    CHECK(sigtimedwait(&set, &info, &most) == SIGCHLD && info.si_pid == child);
    CHECK(info.si_code == CLD_STOPPED && info.si_status == 0);
    info.si_pid = 0;
    CHECK(waitid(P_PID, child, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid == 0);
    CHECK(changes(child, WCONTINUED, CLD_CONTINUED, SIGCONT));
    CHECK(sigtimedwait(&set, &info, &none) == -1 && errno == EAGAIN);
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child);
    sigtimedwait(&set, &info, &none);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

int main(void) {
    alarm(150);
    signal(SIGPIPE, SIG_IGN);
    one_is_enough();
    readers_in_turn();
    epoll_edges();
    signals_of_files();
    unlinked_files();
    descriptors_in_proc();
    sticky_times();
    families();
    spliced_devices();
    queued_signals();
    lost_in_flight();
    ended_leaders();
    continued_early();
    return report();
}
