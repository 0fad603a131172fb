/* Asking n descriptors, of which one is ready: poll looks at every one, epoll must not. */
#define _GNU_SOURCE
#include "bench.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define MOST 1000

static void poll_call(long n) {
    static struct pollfd list[MOST];
    for (long i = 0; i < n; i++) {
        list[i].fd = eventfd(i == n - 1, 0);
        list[i].events = POLLIN;
        MUST(list[i].fd >= 0);
    }
    MEASURE(200) MUST(poll(list, (nfds_t)n, 1000) == 1);
}

static void epoll_call(long n) {
    struct epoll_event event, found[8];
    int epoll = epoll_create1(0);
    MUST(epoll >= 0);
    for (long i = 0; i < n; i++) {
        int fd = eventfd(i == n - 1, 0);
        MUST(fd >= 0);
        event.events = EPOLLIN;
        event.data.fd = fd;
        MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
    }
    MEASURE(200) MUST(epoll_wait(epoll, found, 8, 1000) == 1);
}

static void epoll_shared(long n) {
    share_descriptors();
    epoll_call(n);
}

static const long descriptor_counts[] = {1, 10, 100, 1000, 0};
static const long few_descriptors[] = {10, 0};

const struct row wait_rows[] = {
    {"poll", poll_call, descriptor_counts},
    {"epoll", epoll_call, descriptor_counts},
    {"epoll-shared", epoll_shared, few_descriptors},
    {0, 0, 0},
};
