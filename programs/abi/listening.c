/*
 * seccomp's listeners: a supervisor receives and answers calls of threads with a filter. Called by
 * tools/limen/src/test/programs.rs, on every architecture; on Linux it can be run by hand, as root, in an
 * empty folder.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "common.h"
#include "seccomp.h"

/* Attaches a filter that asks a listener about `number`; returns the listener. */
static int listen_to(unsigned flags, unsigned number) {
    no_new_privs();
    return attach_for(flags | SECCOMP_FILTER_FLAG_NEW_LISTENER, number, SECCOMP_RET_USER_NOTIF);
}

static int receive(int listener, struct seccomp_notif *request) {
    memset(request, 0, sizeof *request);
    return ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, request);
}

static int answer(int listener, unsigned long long id, long long value, int error, unsigned flags) {
    struct seccomp_notif_resp response = { .id = id, .val = value, .error = error, .flags = flags };
    return ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

static int valid(int listener, unsigned long long id) {
    return ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id);
}

static int events(int fd, int wait_ms) {
    struct pollfd poll_fd = { fd, POLLIN | POLLOUT, 0 };
    return poll(&poll_fd, 1, wait_ms) < 0 ? -1 : poll_fd.revents;
}

/* A child that makes calls about which its parent decides: `target` runs there, filtered for `number`. */
struct supervised {
    pid_t child;
    int listener;
};

static struct supervised supervise(unsigned flags, unsigned number, int (*target)(void)) {
    int ends[2];
    struct supervised made = { -1, -1 };
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    fflush(stdout);
    made.child = fork();
    char control[CMSG_SPACE(sizeof(int))] = { 0 };
    char byte = 'x';
    struct iovec data = { &byte, 1 };
    struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = control,
                              .msg_controllen = sizeof control };
    if (made.child == 0) {
        int listener = listen_to(flags, number);
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(head), &listener, sizeof listener);
        if (listener < 0 || sendmsg(ends[1], &message, 0) != 1) _exit(99);
        close(listener), close(ends[0]), close(ends[1]);
        _exit(target());
    }
    close(ends[1]);
    CHECK(recvmsg(ends[0], &message, MSG_CMSG_CLOEXEC) == 1);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (head) memcpy(&made.listener, CMSG_DATA(head), sizeof made.listener);
    CHECK(made.listener >= 0);
    close(ends[0]);
    return made;
}

static int status_of_child(struct supervised who) {
    int status = -1;
    waitpid(who.child, &status, 0);
    return status;
}

/* --- answers --- */

static int four_answers(void) {
    if (syscall(SYS_getppid) != 4711) return 1;
    if (syscall(SYS_getppid) != -1 || errno != EPERM) return 2;
    if (syscall(SYS_getppid) != getppid()) return 3;
    if (syscall(SYS_getppid, 1L, 2L, 3L, 4L, 5L, 6L) != 0) return 4;
    return 42;
}

static void answers(void) {
    struct supervised who = supervise(0, SYS_getppid, four_answers);
    struct seccomp_notif request;
    int fd = who.listener;
    CHECK(receive(fd, &request) == 0 && request.pid == (unsigned)who.child && request.flags == 0);
    CHECK(request.data.nr == SYS_getppid && request.data.instruction_pointer != 0 && request.data.arch != 0);
    CHECK(events(fd, 0) == POLLOUT);
    CHECK(valid(fd, request.id) == 0 && valid(fd, request.id + 1) == -1 && errno == ENOENT);
    CHECK(answer(fd, request.id + 1, 0, 0, 0) == -1 && errno == ENOENT);
    CHECK(answer(fd, request.id, 0, 0, 2) == -1 && errno == EINVAL);
    CHECK(answer(fd, request.id, 1, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE) == -1 && errno == EINVAL);
    CHECK(answer(fd, request.id, 0, -1, SECCOMP_USER_NOTIF_FLAG_CONTINUE) == -1 && errno == EINVAL);
    CHECK(ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, NULL) == -1 && errno == EFAULT);
    unsigned long long first = request.id;
    CHECK(answer(fd, request.id, 4711, 0, 0) == 0);
    CHECK(receive(fd, &request) == 0 && request.id == first + 1);
    CHECK(answer(fd, request.id, 0, -EPERM, 0) == 0);
    CHECK(events(fd, 5000) == POLLIN && receive(fd, &request) == 0);
    CHECK(answer(fd, request.id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE) == 0);
    /* `getppid` in the comparison asks, too. */
    CHECK(receive(fd, &request) == 0);
    CHECK(answer(fd, request.id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE) == 0);
    request.pid = 1;
    CHECK(ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &request) == -1 && errno == EINVAL);
    CHECK(ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, NULL) == -1 && errno == EFAULT);
    CHECK(receive(fd, &request) == 0);
    int same = 1;
    for (int i = 0; i < 6; i++) same &= request.data.args[i] == (unsigned)i + 1;
    CHECK(same);
    CHECK(answer(fd, request.id, 0, 0, 0) == 0);
    CHECK(answer(fd, request.id, 0, 0, 0) == -1 && (errno == ENOENT || errno == EINPROGRESS));
    CHECK(status_of_child(who) == 42 << 8);
    CHECK(events(fd, 5000) == POLLHUP);
    CHECK(read(fd, &request, 8) == -1 && errno == EINVAL && write(fd, "x", 1) == -1 && errno == EINVAL);
    CHECK(ioctl(fd, 0x1234) == -1 && errno == EINVAL);
    close(fd);
}

/* --- one listener per chain; nobody who listens --- */

static void one_listener(void) {
    struct sock_filter allow[] = { RETURN(SECCOMP_RET_ALLOW) };
    int fd = listen_to(0, SYS_getppid);
    CHECK(fd >= 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC));
    CHECK(listen_to(0, SYS_getgid) == -1 && errno == EBUSY);
    CHECK(attach(0, allow, 1) == 0);
    CHECK(listen_to(0, SYS_getgid) == -1 && errno == EBUSY);
    /* No descriptor is lost by that. */
    int next = dup(fd);
    CHECK(next == fd + 1);
    close(next);
    char link[64], target[64] = { 0 };
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    CHECK(readlink(link, target, sizeof target - 1) > 0 && strcmp(target, "anon_inode:seccomp notify") == 0);
    CHECK(events(fd, 0) == 0);
    close(fd);
    CHECK(syscall(SYS_getppid) == -1 && errno == ENOSYS);
    /* A filter without a listener asks nobody. */
    CHECK(attach_for(0, SYS_getgid, SECCOMP_RET_USER_NOTIF) == 0);
    CHECK(syscall(SYS_getgid) == -1 && errno == ENOSYS);
}

static int expects_no_call(void) { return syscall(SYS_getppid) == -1 && errno == ENOSYS ? 43 : 1; }

/* A supervisor that goes away while a target waits, before and after it has received the call. */
static void supervisor_leaves(void) {
    struct seccomp_notif request;
    struct supervised who = supervise(0, SYS_getppid, expects_no_call);
    CHECK(events(who.listener, 5000) == POLLIN);
    close(who.listener);
    CHECK(status_of_child(who) == 43 << 8);
    who = supervise(0, SYS_getppid, expects_no_call);
    CHECK(receive(who.listener, &request) == 0);
    close(who.listener);
    CHECK(status_of_child(who) == 43 << 8);
}

/* --- targets that are interrupted --- */

static int asks(void) { return syscall(SYS_getppid) == 7 ? 44 : 1; }

static void target_is_killed(void) {
    struct seccomp_notif request;
    struct supervised who = supervise(0, SYS_getppid, asks);
    CHECK(receive(who.listener, &request) == 0);
    kill(who.child, SIGKILL);
    CHECK(status_of_child(who) == SIGKILL);
    CHECK(valid(who.listener, request.id) == -1 && errno == ENOENT);
    CHECK(answer(who.listener, request.id, 0, 0, 0) == -1 && errno == ENOENT);
    CHECK(events(who.listener, 5000) == POLLHUP);
    close(who.listener);
    /* Before it was received. */
    who = supervise(0, SYS_getppid, asks);
    CHECK(events(who.listener, 5000) == POLLIN);
    kill(who.child, SIGKILL);
    CHECK(status_of_child(who) == SIGKILL);
    CHECK(receive(who.listener, &request) == -1 && errno == ENOENT);
    close(who.listener);
}

static volatile sig_atomic_t signals;
static void on_signal(int sig) { (void)sig, signals++; }

static int asks_with(int flags, int seen) {
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = flags };
    sigaction(SIGUSR1, &action, NULL);
    long result = syscall(SYS_getppid);
    if (result == 7 && signals == seen) return 44;
    return result == -1 && errno == EINTR && signals == seen ? 45 : 1;
}
static int asks_and_restarts(void) { return asks_with(SA_RESTART, 1); }
static int asks_without_restart(void) { return asks_with(0, 1); }

static void target_is_interrupted(void) {
    struct seccomp_notif request, again;
    struct supervised who = supervise(0, SYS_getppid, asks_and_restarts);
    CHECK(receive(who.listener, &request) == 0);
    kill(who.child, SIGUSR1);
    CHECK(receive(who.listener, &again) == 0 && again.id != request.id);
    CHECK(valid(who.listener, request.id) == -1 && errno == ENOENT);
    CHECK(answer(who.listener, request.id, 9, 0, 0) == -1 && errno == ENOENT);
    CHECK(answer(who.listener, again.id, 7, 0, 0) == 0);
    CHECK(status_of_child(who) == 44 << 8);
    close(who.listener);
    who = supervise(0, SYS_getppid, asks_without_restart);
    CHECK(receive(who.listener, &request) == 0);
    kill(who.child, SIGUSR1);
    CHECK(status_of_child(who) == 45 << 8);
    close(who.listener);
}

/* With WAIT_KILLABLE_RECV only fatal signals interrupt once the call was received. */
static void target_is_not_interrupted(void) {
    struct seccomp_notif request;
    struct supervised who = supervise(SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, SYS_getppid, asks_and_restarts);
    CHECK(receive(who.listener, &request) == 0);
    kill(who.child, SIGUSR1);
    pause_ms(50);
    CHECK(valid(who.listener, request.id) == 0 && answer(who.listener, request.id, 7, 0, 0) == 0);
    CHECK(status_of_child(who) == 44 << 8);
    close(who.listener);
    who = supervise(SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, SYS_getppid, asks_without_restart);
    CHECK(events(who.listener, 5000) == POLLIN);
    kill(who.child, SIGUSR1);
    CHECK(status_of_child(who) == 45 << 8);
    close(who.listener);
    who = supervise(SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, SYS_getppid, asks);
    CHECK(receive(who.listener, &request) == 0);
    kill(who.child, SIGKILL);
    CHECK(status_of_child(who) == SIGKILL && valid(who.listener, request.id) == -1);
    close(who.listener);
}

/*
 * With WAIT_KILLABLE_RECV a call that was answered is not made again, however a signal and the answer fall
 * together (before Linux 6.17 it sometimes is).
 */
enum { ANSWERS = 4000, STORM = 10 /* seconds: where signals are slow, there are fewer calls */ };

static time_t seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static int asks_beside_signals(void) {
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    sigaction(SIGUSR1, &action, NULL);
    pid_t self = getpid(), sender = fork();
    if (sender == 0) {
        while (kill(self, SIGUSR1) == 0)
            for (volatile int i = 0; i < 200; i++) {}
        _exit(0);
    }
    long good = 0, asked = 0;
    time_t end = seconds() + STORM;
    for (; asked < ANSWERS && seconds() < end; asked++)
        good += syscall(SYS_getppid, asked) == asked + 1;
    kill(sender, SIGKILL);
    waitpid(sender, NULL, 0);
    return asked > 0 && good == asked && signals > 0 ? 48 : 1;
}
static void answered_once(void) {
    struct seccomp_notif request;
    struct supervised who = supervise(SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, SYS_getppid,
                                      asks_beside_signals);
    long next = 0, twice = 0, refused = 0;
    for (;;) {
        if (receive(who.listener, &request) != 0) {
            /* It was interrupted before that. */
            if (errno == ENOENT && !(events(who.listener, 0) & POLLHUP)) continue;
            break;
        }
        long number = request.data.args[0];
        if (number < next) twice++;
        next = number + 1;
        refused += answer(who.listener, request.id, number + 1, 0, 0) != 0;
    }
    CHECK(twice == 0 && refused == 0);
    CHECK(status_of_child(who) == 48 << 8);
    close(who.listener);
}

/* --- descriptors for the target --- */

static int wants_descriptors(void) {
    struct rlimit limit = { 20, 20 };
    if (syscall(SYS_getppid) != 7) return 1;
    if (fcntl(15, F_GETFD) != FD_CLOEXEC) return 2;
    char byte = 0;
    if (read(15, &byte, 1) != 1 || byte != 'a') return 3;
    int fd = syscall(SYS_getppid);
    if (fd < 0 || fcntl(fd, F_GETFD) != 0 || read(fd, &byte, 1) != 1 || byte != 'b') return 4;
    while (dup(0) >= 0 && setrlimit(RLIMIT_NOFILE, &limit) == 0) {}
    return syscall(SYS_getppid) == 8 ? 46 : 5;
}

static int add(int listener, struct seccomp_notif_addfd *how) {
    return ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, how);
}

static void descriptors(void) {
    struct seccomp_notif request;
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0 && write(ends[1], "abc", 3) == 3);
    struct supervised who = supervise(0, SYS_getppid, wants_descriptors);
    int fd = who.listener;
    struct seccomp_notif_addfd how = { .srcfd = ends[0] };
    CHECK(add(fd, &how) == -1 && errno == ENOENT);
    CHECK(events(fd, 5000) == POLLIN);
    CHECK(receive(fd, &request) == 0);
    how.id = request.id;
    how.newfd_flags = O_CLOEXEC | O_NONBLOCK;
    CHECK(add(fd, &how) == -1 && errno == EINVAL);
    how.newfd_flags = O_CLOEXEC, how.flags = 4;
    CHECK(add(fd, &how) == -1 && errno == EINVAL);
    how.flags = 0, how.newfd = 15;
    CHECK(add(fd, &how) == -1 && errno == EINVAL);
    how.flags = SECCOMP_ADDFD_FLAG_SETFD, how.srcfd = 999;
    CHECK(add(fd, &how) == -1 && errno == EBADF);
    how.srcfd = ends[0], how.newfd = 1 << 30;
    CHECK(add(fd, &how) == -1 && errno == EBADF);
    how.newfd = 15;
    CHECK(add(fd, &how) == 15);
    /* Structures of other sizes. */
    struct { struct seccomp_notif_addfd how; long more; } longer = { how, 0 };
    unsigned size_step = 1u << _IOC_SIZESHIFT;
    CHECK(ioctl(fd, SECCOMP_IOCTL_NOTIF_ADDFD + sizeof(long) * size_step, &longer) == 15);
    longer.more = 1;
    CHECK(ioctl(fd, SECCOMP_IOCTL_NOTIF_ADDFD + sizeof(long) * size_step, &longer) == -1 && errno == E2BIG);
    CHECK(ioctl(fd, SECCOMP_IOCTL_NOTIF_ADDFD - 4 * size_step, &how) == -1 && errno == EINVAL);
    CHECK(ioctl(fd, SECCOMP_IOCTL_NOTIF_ADDFD, NULL) == -1 && errno == EFAULT);
    CHECK(answer(fd, request.id, 7, 0, 0) == 0);
    CHECK(receive(fd, &request) == 0);
    struct seccomp_notif_addfd send = { .id = request.id, .srcfd = ends[0],
                                        .flags = SECCOMP_ADDFD_FLAG_SEND };
    CHECK(add(fd, &send) >= 3);
    CHECK(add(fd, &send) == -1 && (errno == ENOENT || errno == EINPROGRESS));
    CHECK(receive(fd, &request) == 0);
    send.id = request.id;
    /* The target has no number left: it still waits. */
    CHECK(add(fd, &send) == -1 && errno == EMFILE);
    CHECK(valid(fd, request.id) == 0);
    CHECK(answer(fd, request.id, 8, 0, 0) == 0);
    CHECK(status_of_child(who) == 46 << 8);
    close(fd), close(ends[0]), close(ends[1]);
}

/* --- many threads --- */

enum { ASKERS = 16, ROUNDS = 50 };
static void *asks_often(void *number) {
    long good = 0;
    for (long i = 0; i < ROUNDS; i++)
        good += syscall(SYS_getppid, (long)number, i) == (long)number * 1000 + i;
    return (void *)good;
}
static int many_ask(void) {
    pthread_t threads[ASKERS];
    long good = 0;
    for (long i = 0; i < ASKERS; i++) pthread_create(&threads[i], NULL, asks_often, (void *)i);
    for (int i = 0; i < ASKERS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        good += (long)result;
    }
    return good == ASKERS * ROUNDS ? 47 : 1;
}
static void *serves(void *data) {
    int fd = *(int *)data;
    long served = 0;
    struct seccomp_notif request;
    for (;;) {
        int now = events(fd, 10000);
        if (!(now & POLLIN)) {
            if (now & POLLHUP || now == 0) return (void *)served;
            sched_yield();
            continue;
        }
        /* Another one may have received it. */
        if (receive(fd, &request) != 0) continue;
        served += answer(fd, request.id, request.data.args[0] * 1000 + request.data.args[1], 0, 0) == 0;
    }
}
static void many(void) {
    struct supervised who = supervise(0, SYS_getppid, many_ask);
    void *served;
    pthread_t server;
    pthread_create(&server, NULL, serves, &who.listener);
    CHECK(status_of_child(who) == 47 << 8);
    pthread_join(server, &served);
    CHECK((long)served == ASKERS * ROUNDS);
    close(who.listener);
}

/* --- epoll; descendants keep the listener --- */

static int leaves_a_child(void) {
    pid_t child = fork();
    if (child == 0) {
        pause_ms(100);
        _exit(syscall(SYS_getppid) != 7);
    }
    return 0;
}
static void descendants(void) {
    struct seccomp_notif request;
    struct supervised who = supervise(0, SYS_getppid, leaves_a_child);
    int epoll = epoll_create1(0);
    struct epoll_event event = { .events = EPOLLIN | EPOLLET };
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, who.listener, &event) == 0);
    CHECK(status_of_child(who) == 0);
    CHECK(epoll_wait(epoll, &event, 1, 5000) == 1 && event.events == EPOLLIN);
    CHECK(receive(who.listener, &request) == 0 && answer(who.listener, request.id, 7, 0, 0) == 0);
    int hung_up = 0;
    for (int i = 0; i < 100 && !hung_up; i++)
        hung_up = epoll_wait(epoll, &event, 1, 100) == 1 && event.events & EPOLLHUP;
    CHECK(hung_up);
    close(epoll), close(who.listener);
}

int main(void) {
    answers();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        made = failed = 0;
        one_listener();
        fflush(stdout);
        _exit(failed);
    }
    CHECK(child_good(child));
    supervisor_leaves();
    target_is_killed();
    target_is_interrupted();
    target_is_not_interrupted();
    answered_once();
    descriptors();
    many();
    descendants();
    return report();
}
