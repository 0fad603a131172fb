/*
 * Readiness: what epoll and poll report, and in which order; nested epoll files; of several waiters only one
 * is woken. Called by tools/limen/src/test/programs.rs, on every architecture; on Linux it can be run by
 * hand.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "common.h"

/* --- Of several waiters one is enough --- */

#define WAITERS 8
struct waiter {
    pthread_t thread;
    int fd, tid, epoll;
    uint32_t how;
};
static int woken, at_work;

/* A line of what /proc says of a thread, behind the name of the line. */
static const char *said_of(int tid, const char *line) {
    static char text[4096];
    char name[64];
    snprintf(name, sizeof name, "/proc/self/task/%d/status", tid);
    int fd = open(name, O_RDONLY), size = read(fd, text, sizeof text - 1);
    close(fd);
    text[size < 0 ? 0 : size] = 0;
    const char *at = strstr(text, line);
    return at ? at + strlen(line) : "";
}

/* How often a thread went to sleep. */
static long sleeps(int tid) {
    const char *said = said_of(tid, "\nvoluntary_ctxt_switches:");
    return *said ? atol(said) : -1;
}

/* Waits until all of them are at work and asleep. */
static void let_sleep(const struct waiter *all, int count) {
    int asleep = SOON(__atomic_load_n(&at_work, __ATOMIC_SEQ_CST) == count);
    for (int i = 0; i < count && asleep; i++) asleep = SOON(thread_state(all[i].tid) == 'S');
    CHECK(asleep);
}

/* How many were woken when `expected` were, and no more for a while; or when no more are woken. */
static int woken_of(int expected) {
    SOON(__atomic_load_n(&woken, __ATOMIC_SEQ_CST) >= expected);
    pause_ms(150);
    return __atomic_load_n(&woken, __ATOMIC_SEQ_CST);
}

static void *waits_by_epoll(void *arg) {
    struct waiter *me = arg;
    struct epoll_event event = { EPOLLIN | me->how, { 0 } };
    int epoll = me->epoll;
    if (epoll < 0) {
        epoll = epoll_create1(0);
        epoll_ctl(epoll, EPOLL_CTL_ADD, me->fd, &event);
    }
    me->tid = syscall(SYS_gettid);
    __atomic_add_fetch(&at_work, 1, __ATOMIC_SEQ_CST);
    if (epoll_wait(epoll, &event, 1, 30000) == 1) __atomic_add_fetch(&woken, 1, __ATOMIC_SEQ_CST);
    if (me->epoll < 0) close(epoll);
    return NULL;
}

/*
 * Whether `expected` of the waiters are woken by one event of `fd`, to which `cause` is written; the others
 * are released by further events.
 */
static int woken_by(struct waiter *all, int count, int expected, int cause, const void *data, size_t size) {
    at_work = woken = 0;
    for (int i = 0; i < count; i++) pthread_create(&all[i].thread, NULL, waits_by_epoll, &all[i]);
    let_sleep(all, count);
    CHECK(write(cause, data, size) == (ssize_t)size);
    int found = woken_of(expected);
    if (found != expected) printf("%d woken, not %d\n", found, expected);
    for (int i = 0; i < 20 && __atomic_load_n(&woken, __ATOMIC_SEQ_CST) != count; i++) {
        CHECK(write(cause, data, size) == (ssize_t)size);
        pause_ms(10);
    }
    for (int i = 0; i < count; i++) pthread_join(all[i].thread, NULL);
    CHECK(woken == count);
    return found == expected;
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
            CHECK(woken_by(all, WAITERS, 1, to, &one, size));
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
            CHECK(woken_by(all, WAITERS, 3, to, &one, size));
            close(from);
            if (to != from) close(to);
        }
    /* Threads that wait at the same epoll file: one is woken for each edge-triggered event. */
    CHECK(pipe(ends) == 0);
    struct epoll_event event = { EPOLLIN | EPOLLET, { 0 } };
    int epoll = epoll_create1(0);
    epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event);
    for (int i = 0; i < WAITERS; i++) all[i] = (struct waiter){ .fd = ends[0], .epoll = epoll };
    CHECK(woken_by(all, WAITERS, 1, ends[1], &one, 1));
    close(epoll), close(ends[0]), close(ends[1]);
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
        let_sleep(all, WAITERS);
        long before[WAITERS];
        int moved = 0;
        for (int i = 0; i < WAITERS; i++) before[i] = sleeps(all[i].tid);
        for (int i = 0; i < WAITERS; i++)
            if (kind == 2) {
                more[i] = socket(AF_UNIX, SOCK_STREAM, 0);
                if (i == 0) CHECK(connect(more[i], (void *)&name, 7) == 0);
            } else if (i == 0) CHECK(write(ends[1], "x", 1) == 1);
        CHECK(woken_of(1) == 1);
        for (int i = 0; i < WAITERS; i++) moved += sleeps(all[i].tid) != before[i];
        CHECK(moved <= 1);
        if (kind == 0) CHECK(write(ends[1], "sevenxx", 7) == 7);
        else
            for (int i = 1; i < WAITERS; i++)
                if (kind == 2) CHECK(connect(more[i], (void *)&name, 7) == 0);
                else CHECK(write(ends[1], "x", 1) == 1);
        CHECK(SOON(__atomic_load_n(&woken, __ATOMIC_SEQ_CST) == WAITERS));
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
        CHECK(woken_by(&all, 1, 1, told, &one, 8));
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

/* --- Epoll files in epoll files --- */

/* Epoll files in epoll files, and files that are closed while they are ready. */
static void nested_readiness(void) {
    struct epoll_event e = {.events = EPOLLIN}, got[4];
    struct pollfd polled;
    int ep[4], fd = eventfd(0, EFD_NONBLOCK), other = eventfd(1, EFD_NONBLOCK);
    uint64_t n = 1;
    for (int i = 0; i < 4; i++) ep[i] = epoll_create1(0);
    for (int i = 0; i < 3; i++) CHECK(epoll_ctl(ep[i], EPOLL_CTL_ADD, ep[i + 1], &e) == 0);
    CHECK(epoll_ctl(ep[3], EPOLL_CTL_ADD, ep[0], &e) == -1 && errno == ELOOP);
    CHECK(epoll_ctl(ep[3], EPOLL_CTL_ADD, fd, &e) == 0 && epoll_wait(ep[0], got, 4, 0) == 0);
    polled = (struct pollfd){ep[0], POLLIN, 0};
    CHECK(write(fd, &n, 8) == 8 && epoll_wait(ep[0], got, 4, 0) == 1 && poll(&polled, 1, 0) == 1);
    CHECK(read(fd, &n, 8) == 8 && epoll_wait(ep[0], got, 4, 0) == 0 && poll(&polled, 1, 0) == 0);
    CHECK(write(fd, &n, 8) == 8 && epoll_wait(ep[2], got, 4, 0) == 1 && epoll_wait(ep[0], got, 4, 0) == 1);
    e.events = EPOLLIN | EPOLLET;
    CHECK(epoll_ctl(ep[3], EPOLL_CTL_ADD, other, &e) == 0);
    close(fd);
    CHECK(epoll_wait(ep[0], got, 4, 0) == 1 && epoll_wait(ep[3], got, 4, 0) == 1 &&
          epoll_wait(ep[0], got, 4, 0) == 0);
    CHECK(write(other, &n, 8) == 8 && epoll_wait(ep[0], got, 4, 0) == 1);
    close(ep[3]);
    CHECK(epoll_wait(ep[0], got, 4, 0) == 0 && epoll_wait(ep[2], got, 4, 0) == 0);
    for (int i = 0; i < 3; i++) close(ep[i]);
    close(other);
}

/* Nested epoll files: the depth is limited, whichever is added first. */
static void nests(void) {
    struct epoll_event e = {.events = EPOLLIN};
    int ep[20], made = 0;
    for (int i = 0; i < 20; i++) ep[i] = epoll_create1(0);
    while (made < 19 && epoll_ctl(ep[made], EPOLL_CTL_ADD, ep[made + 1], &e) == 0) made++;
    CHECK(made >= 3 && made < 10 && errno == ELOOP);
    /* A removed one no longer counts. */
    CHECK(epoll_ctl(ep[0], EPOLL_CTL_DEL, ep[1], NULL) == 0 &&
          epoll_ctl(ep[made], EPOLL_CTL_ADD, ep[made + 1], &e) == 0);
    CHECK(epoll_ctl(ep[made + 1], EPOLL_CTL_ADD, ep[1], &e) == -1 && errno == ELOOP);
    CHECK(epoll_ctl(ep[0], EPOLL_CTL_ADD, ep[1], &e) == -1 && errno == ELOOP);
    for (int i = 0; i < 20; i++) close(ep[i]);
    /* Starting from the innermost. */
    for (int i = 0; i < 20; i++) ep[i] = epoll_create1(0);
    for (made = 0; made < 19 && epoll_ctl(ep[made + 1], EPOLL_CTL_ADD, ep[made], &e) == 0;) made++;
    CHECK(made >= 3 && made < 10 && errno == ELOOP);
    for (int i = 0; i < 20; i++) close(ep[i]);
}

/* An event with several paths through epoll files arrives each time. */
static void many_ways(void) {
    struct epoll_event e = {.events = EPOLLIN | EPOLLET}, got[8];
    int inner[5], middle[5], top = epoll_create1(0), other = epoll_create1(0), fd = eventfd(0, EFD_NONBLOCK);
    uint64_t n = 1;
    for (int i = 0; i < 5; i++) {
        inner[i] = epoll_create1(0);
        middle[i] = epoll_create1(0);
        CHECK(epoll_ctl(inner[i], EPOLL_CTL_ADD, fd, &e) == 0);
    }
    for (int i = 0; i < 5; i++) {
        for (int j = 0; j < 5; j++) CHECK(epoll_ctl(middle[i], EPOLL_CTL_ADD, inner[j], &e) == 0);
        CHECK(epoll_ctl(top, EPOLL_CTL_ADD, middle[i], &e) == 0);
    }
    CHECK(epoll_ctl(other, EPOLL_CTL_ADD, middle[0], &e) == 0);
    CHECK(epoll_wait(top, got, 8, 0) == 0 && epoll_wait(other, got, 8, 0) == 0);
    for (int i = 0; i < 3; i++) {
        CHECK(write(fd, &n, 8) == 8 && epoll_wait(top, got, 8, 0) == 5 && epoll_wait(top, got, 8, 0) == 0);
    }
    CHECK(epoll_wait(other, got, 8, 0) == 1 && epoll_wait(other, got, 8, 0) == 0);
    CHECK(write(fd, &n, 8) == 8 && epoll_wait(other, got, 8, 0) == 1);
    for (int i = 0; i < 5; i++) {
        close(inner[i]);
        close(middle[i]);
    }
    close(top);
    close(other);
    close(fd);
}

/* --- What is reported, and where it is written --- */

/* The order of ready files: in turn, edge- and level-triggered; which `revents` poll writes. */
static void readiness(void) {
    struct epoll_event e = {0}, got[8];
    struct epoll_event *volatile nowhere = (void *)8;
    struct pollfd polled[3], *volatile no_list = NULL;
    int ep = epoll_create1(EPOLL_CLOEXEC), fds[3], times[3] = {0};
    uint64_t n = 1;
    for (int i = 0; i < 3; i++) {
        fds[i] = eventfd(1, EFD_NONBLOCK);
        e = (struct epoll_event){.events = EPOLLIN, .data.u64 = 0x100000001ull * i};
        CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, fds[i], &e) == 0);
    }
    for (int i = 0; i < 6; i++) {
        CHECK(epoll_wait(ep, got, 1, 0) == 1 && got[0].events == EPOLLIN);
        times[got[0].data.u64 % 3]++;
    }
    CHECK(times[0] == 2 && times[1] == 2 && times[2] == 2);
    CHECK(epoll_wait(ep, got, 8, 0) == 3 &&
          (got[0].data.u64 ^ got[1].data.u64 ^ got[2].data.u64) == 0x300000003ull);
    CHECK(read(fds[1], &n, 8) == 8 && epoll_wait(ep, got, 8, 0) == 2);
    CHECK(read(fds[0], &n, 8) == 8 && read(fds[2], &n, 8) == 8 && epoll_wait(ep, got, 8, 0) == 0);
    e.events = EPOLLIN | EPOLLET;
    CHECK(epoll_ctl(ep, EPOLL_CTL_MOD, fds[1], &e) == 0);
    CHECK(epoll_wait(ep, got, 8, 1) == 0 && write(fds[1], &n, 8) == 8);
    CHECK(epoll_wait(ep, nowhere, 8, 0) == -1 && errno == EFAULT);
    CHECK(epoll_wait(ep, got, 8, 0) == 1 && epoll_wait(ep, got, 8, 0) == 0);
    CHECK(write(fds[1], &n, 8) == 8 && epoll_wait(ep, got, 8, 0) == 1 && epoll_wait(ep, got, 8, 0) == 0);
    e.events = EPOLLIN | EPOLLONESHOT;
    CHECK(epoll_ctl(ep, EPOLL_CTL_MOD, fds[1], &e) == 0 && epoll_wait(ep, got, 8, 0) == 1);
    CHECK(write(fds[1], &n, 8) == 8 && epoll_wait(ep, got, 8, 0) == 0);
    CHECK(epoll_ctl(ep, EPOLL_CTL_MOD, fds[1], &e) == 0 && epoll_wait(ep, got, 8, 0) == 1);
    CHECK(epoll_ctl(ep, EPOLL_CTL_DEL, fds[0], NULL) == 0 && write(fds[0], &n, 8) == 8 &&
          write(fds[2], &n, 8) == 8);
    CHECK(epoll_wait(ep, got, 8, 0) == 1 && epoll_wait(ep, nowhere, 8, 0) == -1 &&
          epoll_wait(ep, got, 8, 0) == 1);

    for (int i = 0; i < 3; i++) polled[i] = (struct pollfd){fds[i], POLLIN | POLLOUT, -1};
    polled[2].fd = -7;
    CHECK(poll(polled, 3, 0) == 2 && polled[0].revents == (POLLIN | POLLOUT) && polled[2].revents == 0);
    CHECK(polled[0].fd == fds[0] && polled[1].events == (POLLIN | POLLOUT) && polled[2].fd == -7);
    char *page =
        mmap(NULL, 2 * sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, polled, sizeof polled);
    CHECK(mprotect(page, sysconf(_SC_PAGESIZE), PROT_READ) == 0);
    CHECK(poll((void *)page, 3, 0) == -1 && errno == EFAULT && poll(no_list, 1, 0) == -1 && errno == EFAULT &&
          poll(NULL, 0, 0) == 0);
    munmap(page, 2 * sysconf(_SC_PAGESIZE));
    close(fds[2]);
    polled[2].fd = fds[2];
    CHECK(poll(polled, 3, 0) == 3 && polled[2].revents == POLLNVAL);
    close(fds[0]);
    close(fds[1]);
    close(ep);
}

/* Memory for events that is not there. */
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

/* --- An epoll file that ends inside another one --- */

static int outer;
static volatile int over;

static void *asks(void *arg) {
    struct epoll_event found;
    while (!over) epoll_wait(outer, &found, 1, 0);
    return arg;
}

/* Whoever asks `outer` may be the last user of a socket that was closed: in it is the last reference to an
   epoll file that watches `outer`. */
static void ends_inside(void) {
    pthread_t thread;
    outer = epoll_create1(0);
    CHECK(outer >= 0 && pthread_create(&thread, NULL, asks, NULL) == 0);
    for (int n = 0; n < 1000; n++) {
        struct epoll_event in = { .events = EPOLLIN };
        int s[2], watches = epoll_create1(0);
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, s) != 0) break;
        CHECK(epoll_ctl(watches, EPOLL_CTL_ADD, outer, &in) == 0);
        union {
            char room[CMSG_SPACE(sizeof(int))];
            struct cmsghdr head;
        } with = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET,
                             .cmsg_type = SCM_RIGHTS } };
        memcpy(CMSG_DATA(&with.head), &watches, sizeof watches);
        struct iovec byte = { "x", 1 };
        struct msghdr message = { .msg_iov = &byte, .msg_iovlen = 1, .msg_control = &with,
                                  .msg_controllen = sizeof with.room };
        CHECK(sendmsg(s[1], &message, 0) == 1);
        close(watches);
        CHECK(epoll_ctl(outer, EPOLL_CTL_ADD, s[0], &in) == 0);
        if (n % 2) usleep(n % 50);
        close(s[0]);
        close(s[1]);
    }
    over = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    close(outer);
}

int main(void) {
    alarm(150);
    one_is_enough();
    readers_in_turn();
    epoll_edges();
    nested_readiness();
    nests();
    many_ways();
    readiness();
    events_nowhere();
    ends_inside();
    return report();
}
