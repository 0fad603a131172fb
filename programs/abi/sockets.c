/*
 * Local sockets and epoll files in rare situations: sockets sent through sockets, nested epoll files, full
 * queues, MSG_PEEK on streams, and credentials of messages. Called by tools/limen/src/test/programs.rs, on
 * every architecture; on Linux it can be run by hand, as root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"

/* Sends a byte, and with it control data of one kind. */
static int send_with(int to, int kind, const void *data, size_t size) {
    char byte = 'x', control[CMSG_SPACE(sizeof(struct ucred))] = {0};
    struct iovec io = {&byte, 1};
    struct msghdr m = {
        .msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = CMSG_SPACE(size)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    *c = (struct cmsghdr){.cmsg_len = CMSG_LEN(size), .cmsg_level = SOL_SOCKET, .cmsg_type = kind};
    memcpy(CMSG_DATA(c), data, size);
    return sendmsg(to, &m, MSG_DONTWAIT);
}

/* Receives a byte and its control data. */
static int receive_with(int from, int kind, void *data, size_t size) {
    char byte, control[CMSG_SPACE(sizeof(struct ucred))] = {0};
    struct iovec io = {&byte, 1};
    struct msghdr m = {
        .msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (recvmsg(from, &m, MSG_DONTWAIT) != 1) return -1;
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (!c || c->cmsg_type != kind || c->cmsg_len != CMSG_LEN(size)) return -1;
    memcpy(data, CMSG_DATA(c), size);
    return 1;
}

/* The result of a child, which only has an exit status. */
static int child_failed(pid_t child) {
    int status;
    return waitpid(child, &status, 0) != child || status != 0;
}

/* Sockets in flight inside sockets in flight: the last close closes all of them before it returns. */
static void chain_of_sockets(void) {
    int end[2], s[2], last;
    char byte;
    CHECK(pipe2(end, O_NONBLOCK) == 0);
    last = end[1];
    for (int i = 0; i < 1000; i++) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, s) || send_with(s[0], SCM_RIGHTS, &last, sizeof last) != 1) {
            CHECK(!"a chain of 1000 sockets");
            return;
        }
        close(last);
        close(s[0]);
        last = s[1];
    }
    CHECK(read(end[0], &byte, 1) == -1 && errno == EAGAIN);
    CHECK(close(last) == 0 && read(end[0], &byte, 1) == 0);
    close(end[0]);
}

/* The same for connections that were never accepted. */
static void chain_of_listeners(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    socklen_t size = sizeof(sa_family_t);
    int end[2], last, sent;
    char byte;
    CHECK(pipe2(end, O_NONBLOCK) == 0);
    last = end[1];
    for (int i = 0; i < 300; i++) {
        int listener = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
        socklen_t got = sizeof name;
        bind(listener, (struct sockaddr *)&name, size);
        listen(listener, 1);
        struct sockaddr_un its = {0};
        getsockname(listener, (struct sockaddr *)&its, &got);
        sent = connect(client, (struct sockaddr *)&its, got);
        if (sent || send_with(client, SCM_RIGHTS, &last, sizeof last) != 1) {
            CHECK(!"a chain of 300 listeners");
            return;
        }
        close(last);
        close(client);
        last = listener;
    }
    CHECK(read(end[0], &byte, 1) == -1 && errno == EAGAIN);
    CHECK(close(last) == 0 && read(end[0], &byte, 1) == 0);
    close(end[0]);
}

/* A user may only have a limited number of files in flight. */
static void files_in_flight(void) {
    pid_t child = fork();
    if (child == 0) {
        struct rlimit few = {64, 64};
        int s[2], sent = 0, got;
        if (setrlimit(RLIMIT_NOFILE, &few) || setresuid(1234, 1234, 1234) ||
            socketpair(AF_UNIX, SOCK_STREAM, 0, s))
            _exit(1);
        while (sent < 100 && send_with(s[0], SCM_RIGHTS, &s[0], sizeof s[0]) == 1) sent++;
        if (errno != ETOOMANYREFS || sent != 65) _exit(2);
        /* MSG_PEEK leaves them in flight; receiving them makes room. */
        if (recv(s[1], &got, 1, MSG_PEEK) != 1 || send_with(s[0], SCM_RIGHTS, &s[0], sizeof s[0]) != -1)
            _exit(3);
        if (receive_with(s[1], SCM_RIGHTS, &got, sizeof got) != 1 || close(got)) _exit(4);
        if (send_with(s[0], SCM_RIGHTS, &s[0], sizeof s[0]) != 1 ||
            send_with(s[0], SCM_RIGHTS, &s[0], sizeof s[0]) != -1)
            _exit(5);
        close(s[0]);
        close(s[1]);
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, s) || send_with(s[0], SCM_RIGHTS, &s[0], sizeof s[0]) != 1)
            _exit(6);
        _exit(0);
    }
    CHECK(!child_failed(child));
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

/* Single bytes need more room than one byte each: a queue has room for some hundreds. */
static void short_writes(void) {
    int s[2], sent = 0, got = 0, n;
    char bytes[4096];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s) == 0);
    while (sent < 4096 && write(s[0], "x", 1) == 1) sent++;
    CHECK(sent > 16 && sent < 4096 && errno == EAGAIN);
    while ((n = read(s[1], bytes, sizeof bytes)) > 0) got += n;
    CHECK(got == sent && write(s[0], "x", 1) == 1);
    close(s[0]);
    close(s[1]);
}

/* A socket that receives datagrams, and its name. */
static int receiver(struct sockaddr_un *name, socklen_t *size) {
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    bind(fd, (struct sockaddr *)name, sizeof(sa_family_t));
    *size = sizeof *name;
    CHECK(getsockname(fd, (struct sockaddr *)name, size) == 0);
    return fd;
}

/* Sends until the queue is full. */
static int fill(int fd) {
    int n = 0;
    while (n < 100000 && send(fd, "x", 1, 0) == 1) n++;
    return errno == EAGAIN ? n : -1;
}

/* Receives until the queue is empty. */
static void drain(int fd) {
    char byte;
    while (recv(fd, &byte, 1, 0) == 1) continue;
}

/*
 * Room in a peer's queue is reported to a sender that was polled before it had this peer, and to one that has
 * sent no message in the queue.
 */
static void room(uint32_t how) {
    struct epoll_event e = {.events = EPOLLOUT | how}, got[2];
    struct sockaddr_un name[2];
    socklen_t size[2];
    int to[2] = {receiver(&name[0], &size[0]), receiver(&name[1], &size[1])}, s[2], ep[2];
    for (int i = 0; i < 2; i++) {
        s[i] = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
        ep[i] = epoll_create1(0);
        CHECK(epoll_ctl(ep[i], EPOLL_CTL_ADD, s[i], &e) == 0 && epoll_wait(ep[i], got, 2, 0) == 1);
        CHECK(connect(s[i], (struct sockaddr *)&name[0], size[0]) == 0);
    }
    CHECK(fill(s[0]) > 0 && fill(s[1]) >= 0);
    for (int i = 0; i < 2; i++) {
        epoll_wait(ep[i], got, 2, 0);
        CHECK(epoll_wait(ep[i], got, 2, 0) == 0);
    }
    drain(to[0]);
    for (int i = 0; i < 2; i++) CHECK(epoll_wait(ep[i], got, 2, 0) == 1 && got[0].events == EPOLLOUT);
    /* The queue is full again, and then the sender gets another peer. */
    CHECK(fill(s[0]) > 0);
    epoll_wait(ep[0], got, 2, 0);
    CHECK(epoll_wait(ep[0], got, 2, 0) == 0);
    CHECK(connect(s[0], (struct sockaddr *)&name[1], size[1]) == 0 && epoll_wait(ep[0], got, 2, 0) == 1);
    /* If the receiver is gone, the sender does not wait. */
    CHECK(fill(s[0]) > 0);
    epoll_wait(ep[0], got, 2, 0);
    CHECK(epoll_wait(ep[0], got, 2, 0) == 0);
    close(to[1]);
    CHECK(epoll_wait(ep[0], got, 2, 0) == 1 && send(s[0], "x", 1, 0) == -1 && errno == ECONNREFUSED);
    for (int i = 0; i < 2; i++) {
        close(s[i]);
        close(ep[i]);
    }
    close(to[0]);
}

/* The same for streams, whose peers are there from the beginning or come later. */
static void room_in_a_stream(void) {
    struct epoll_event e = {.events = EPOLLOUT | EPOLLET}, got[2];
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    socklen_t size = sizeof name;
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), s = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0),
        ep = epoll_create1(0);
    bind(listener, (struct sockaddr *)&name, sizeof(sa_family_t));
    CHECK(listen(listener, 1) == 0 && getsockname(listener, (struct sockaddr *)&name, &size) == 0);
    CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, s, &e) == 0 && connect(s, (struct sockaddr *)&name, size) == 0);
    int other = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    CHECK(other >= 0 && fill(s) > 0);
    epoll_wait(ep, got, 2, 0);
    CHECK(epoll_wait(ep, got, 2, 0) == 0);
    drain(other);
    CHECK(epoll_wait(ep, got, 2, 0) == 1 && got[0].events == EPOLLOUT);
    close(other);
    close(s);
    close(ep);
    close(listener);
}

/* MSG_PEEK on a stream shows as much as reading would return; bytes that were not read stay. */
static void looks(void) {
    int s[2], d[2];
    char bytes[16] = {0};
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s) == 0 &&
          socketpair(AF_UNIX, SOCK_DGRAM, 0, d) == 0);
    CHECK(write(s[0], "abcd", 4) == 4 && write(s[0], "efgh", 4) == 4);
    CHECK(recv(s[1], bytes, 8, MSG_PEEK) == 8 && !memcmp(bytes, "abcdefgh", 8));
    CHECK(recv(s[1], bytes, 6, MSG_PEEK | MSG_WAITALL) == 6 && !memcmp(bytes, "abcdef", 6));
    CHECK(recv(s[1], bytes, 1, 0) == 1 && recv(s[1], bytes, 16, MSG_PEEK) == 7 &&
          !memcmp(bytes, "bcdefgh", 7));
    CHECK(recv(s[1], bytes, 1, MSG_TRUNC) == 1 && recv(s[1], bytes, 2, MSG_TRUNC | MSG_PEEK) == 2);
    struct iovec io = {bytes, 3};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1};
    CHECK(recvmsg(s[1], &m, MSG_TRUNC) == 3 && !(m.msg_flags & MSG_TRUNC));
    CHECK(read(s[1], bytes, 16) == 3 && !memcmp(bytes, "fgh", 3));
    CHECK(recv(s[1], bytes, 1, MSG_PEEK) == -1 && errno == EAGAIN);
    CHECK(send(d[0], "abcd", 4, 0) == 4 && recv(d[1], bytes, 1, MSG_TRUNC | MSG_PEEK) == 4 &&
          recvmsg(d[1], &m, MSG_TRUNC) == 4);
    CHECK(m.msg_flags & MSG_TRUNC);
    for (int i = 0; i < 2; i++) {
        close(s[i]);
        close(d[i]);
    }
}

/*
 * A message has the credentials that its sender gives, if permitted; else the process with its real ids. A
 * connection has the effective ids of its creator.
 */
static void credentials(void) {
    int s[2], own[2], on = 1;
    struct ucred c = {getppid(), 77, 88}, got = {0};
    socklen_t size = sizeof got;
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, s) == 0 &&
          setsockopt(s[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0);
    c.pid = getpid();
    CHECK(send_with(s[0], SCM_CREDENTIALS, &c, sizeof c) == 1);
    CHECK(receive_with(s[1], SCM_CREDENTIALS, &got, sizeof got) == 1 && got.pid == c.pid && got.uid == 77 &&
          got.gid == 88);
    pid_t child = fork();
    if (child == 0) {
        if (setresgid(1001, 0, 1002) || setresuid(1003, 0, 1004)) _exit(1);
        /* Real ids in the message, effective ids of the connection. */
        if (send(s[0], "x", 1, 0) != 1 || receive_with(s[1], SCM_CREDENTIALS, &got, sizeof got) != 1)
            _exit(2);
        if (got.pid != getpid() || got.uid != 1003 || got.gid != 1001) _exit(3);
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, own) ||
            getsockopt(own[0], SOL_SOCKET, SO_PEERCRED, &got, &size))
            _exit(4);
        if (got.pid != getpid() || got.uid != 0 || got.gid != 0) _exit(5);
        /* Another process, which must exist. */
        c = (struct ucred){getppid(), 5, 6};
        if (send_with(s[0], SCM_CREDENTIALS, &c, sizeof c) != 1 ||
            receive_with(s[1], SCM_CREDENTIALS, &got, sizeof got) != 1)
            _exit(6);
        if (got.pid != getppid() || got.uid != 5 || got.gid != 6) _exit(7);
        c.pid = 0x3fffffff;
        if (send_with(s[0], SCM_CREDENTIALS, &c, sizeof c) != -1 || errno != ESRCH) _exit(8);
        c = (struct ucred){getpid(), -1, 6};
        if (send_with(s[0], SCM_CREDENTIALS, &c, sizeof c) != -1 || errno != EINVAL) _exit(9);
        /* Without capabilities, only its own ids. */
        if (setresgid(1001, 1000, 1002) || setresuid(1003, 1000, 1004)) _exit(10);
        c = (struct ucred){getpid(), 1000, 1002};
        if (send_with(s[0], SCM_CREDENTIALS, &c, sizeof c) != 1 ||
            receive_with(s[1], SCM_CREDENTIALS, &got, sizeof got) != 1)
            _exit(11);
        if (got.uid != 1000 || got.gid != 1002) _exit(12);
        c.uid = 0;
        if (send_with(s[0], SCM_CREDENTIALS, &c, sizeof c) != -1 || errno != EPERM) _exit(13);
        c = (struct ucred){getpid(), 1004, 0};
        if (send_with(s[0], SCM_CREDENTIALS, &c, sizeof c) != -1 || errno != EPERM) _exit(14);
        c = (struct ucred){getppid(), 1004, 1001};
        if (send_with(s[0], SCM_CREDENTIALS, &c, sizeof c) != -1 || errno != EPERM) _exit(15);
        _exit(0);
    }
    CHECK(!child_failed(child));
    close(s[0]);
    close(s[1]);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    signal(SIGPIPE, SIG_IGN);
    nests();
    many_ways();
    short_writes();
    room(0);
    room(EPOLLET);
    room_in_a_stream();
    looks();
    credentials();
    files_in_flight();
    chain_of_sockets();
    chain_of_listeners();
    return report();
}
