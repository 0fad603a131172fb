/*
 * Sockets in rare situations: sockets sent through sockets, full queues, MSG_PEEK on streams, credentials of
 * messages, families that are not there. Called by tools/limen/src/test/programs.rs, on every architecture;
 * on Linux it can be run by hand, as root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "common.h"

/* Sends a message, and with it control data of one kind. */
static int send_both(int to, const void *message, size_t length, int kind, const void *data, size_t size) {
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred))] = {0};
    struct iovec io = {(void *)message, length};
    struct msghdr m = {
        .msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = CMSG_SPACE(size)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    *c = (struct cmsghdr){.cmsg_len = CMSG_LEN(size), .cmsg_level = SOL_SOCKET, .cmsg_type = kind};
    memcpy(CMSG_DATA(c), data, size);
    return sendmsg(to, &m, MSG_DONTWAIT);
}

/* Sends a byte, and with it control data of one kind. */
static int send_with(int to, int kind, const void *data, size_t size) {
    return send_both(to, "x", 1, kind, data, size);
}

/* Receives a byte, of which there must be no more, and its control data. */
static int receive_by(int flags, int from, int kind, void *data, size_t size) {
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred))] = {0};
    char bytes[64];
    struct iovec io = {bytes, sizeof bytes};
    struct msghdr m = {
        .msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (recvmsg(from, &m, flags) != 1) return -1;
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (!c || c->cmsg_type != kind || c->cmsg_len != CMSG_LEN(size)) return -1;
    memcpy(data, CMSG_DATA(c), size);
    return 1;
}

static int receive_with(int from, int kind, void *data, size_t size) {
    return receive_by(MSG_DONTWAIT, from, kind, data, size);
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
    CHECK(child_good(child));
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
    CHECK(child_good(child));
    close(s[0]);
    close(s[1]);
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

static long free_memory(void) {
    char text[4096];
    int fd = open("/proc/meminfo", O_RDONLY), size = read(fd, text, sizeof text - 1);
    close(fd);
    text[size < 0 ? 0 : size] = 0;
    char *at = strstr(text, "MemFree:");
    return at ? atol(at + 8) : 0;
}

/* --- Sockets in flight to each other --- */

static int send_fd(int to, int fd, const void *message, size_t length) {
    return send_both(to, message, length, SCM_RIGHTS, &fd, sizeof fd) == (int)length;
}

static int receive_fd(int from, int flags) {
    int fd = -1;
    return receive_by(flags, from, SCM_RIGHTS, &fd, sizeof fd) == 1 ? fd : -1;
}

static const char load[30000];
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

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    signal(SIGPIPE, SIG_IGN);
    short_writes();
    room(0);
    room(EPOLLET);
    room_in_a_stream();
    looks();
    credentials();
    files_in_flight();
    chain_of_sockets();
    chain_of_listeners();
    families();
    lost_in_flight();
    return report();
}
