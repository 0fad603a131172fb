/*
 * Who is told of a message in a POSIX message queue: processes by signals, threads by sockets, once, and in
 * which states of the queue. Called by tools/limen/src/test/programs.rs, on every architecture; on Linux it
 * can be run by hand, as root. It is its own helper:
 *   queue_notices
 *   queue_notices receives FD    sends a message to itself, and takes it
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <mqueue.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"
#include "common.h"
#include "queues.h"

#define COOKIE 32

static volatile siginfo_t got_info;
static volatile int got_signals;

static void informed(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    memcpy((void *)&got_info, info, sizeof *info);
    got_signals++;
}

static int notifies(int fd, int how, int number) {
    struct sigevent event = { .sigev_notify = how, .sigev_signo = number, .sigev_value.sival_int = 4711 };
    return syscall(SYS_mq_notify, fd, &event);
}

static int forgets(int fd) { return syscall(SYS_mq_notify, fd, NULL); }

static void signals(void) {
    int fd = queue(0, 3, 20);
    char text[100];
    struct sigaction action = { .sa_sigaction = informed, .sa_flags = SA_SIGINFO | SA_RESTART };
    sigaction(SIGUSR1, &action, NULL);
    FAILS(syscall(SYS_mq_notify, fd, (void *)8), EFAULT);
    FAILS(notifies(-1, 77, 0), EINVAL);
    FAILS(notifies(-1, SIGEV_SIGNAL, 65), EINVAL);
    FAILS(notifies(-1, SIGEV_SIGNAL, -1), EINVAL);
    FAILS(notifies(-1, SIGEV_SIGNAL, SIGUSR1), EBADF);
    FAILS(notifies(0, SIGEV_SIGNAL, SIGUSR1), EBADF);
    FAILS(forgets(-1), EBADF);
    CHECK(forgets(fd) == 0 && notifies(fd, SIGEV_SIGNAL, SIGUSR1) == 0);
    FAILS(notifies(fd, SIGEV_SIGNAL, SIGUSR1), EBUSY);
    snprintf(text, sizeof text, "QSIZE:0          NOTIFY:0     SIGNO:10    NOTIFY_PID:%-6d\n", getpid());
    CHECK(reads(fd, text));
    AS(5, CHECK(sends(fd, "x", 0) == 0););
    CHECK(got_signals == 1 && got_info.si_code == SI_MESGQ && got_info.si_signo == SIGUSR1);
    CHECK(got_info.si_uid == 5 && got_info.si_pid > getpid() && got_info.si_value.sival_int == 4711);
    CHECK(reads(fd, "QSIZE:1          NOTIFY:0     SIGNO:0     NOTIFY_PID:0     \n"));
    /* Only once, and only for an empty queue. */
    CHECK(notifies(fd, SIGEV_SIGNAL, SIGUSR1) == 0 && sends(fd, "y", 0) == 0 && got_signals == 1);
    CHECK(gets(fd, "x", 0) && gets(fd, "y", 0) && sends(fd, "z", 0) == 0 && got_signals == 2);
    CHECK(got_info.si_pid == getpid() && got_info.si_uid == 0 && gets(fd, "z", 0));
    CHECK(sends(fd, "z", 0) == 0 && gets(fd, "z", 0) && got_signals == 2);
    /* Not while somebody waits for it. */
    int told[2];
    CHECK(pipe(told) == 0 && notifies(fd, SIGEV_SIGNAL, SIGUSR1) == 0);
    pid_t child = waiter(fd, 1, 0, 'a', told[1]);
    CHECK(sends(fd, "1", 0) == 0 && ended(child) == 0 && got_signals == 2);
    CHECK(sends(fd, "2", 0) == 0 && got_signals == 3 && gets(fd, "2", 0));
    close(told[0]);
    close(told[1]);
    /* No signal, and nothing at all. */
    CHECK(notifies(fd, SIGEV_SIGNAL, 0) == 0 && sends(fd, "1", 0) == 0 && gets(fd, "1", 0));
    CHECK(notifies(fd, SIGEV_NONE, 99) == 0);
    snprintf(text, sizeof text, "QSIZE:0          NOTIFY:1     SIGNO:0     NOTIFY_PID:%-6d\n", getpid());
    CHECK(reads(fd, text) && sends(fd, "1", 0) == 0 && gets(fd, "1", 0) && got_signals == 3);
    /* Who forgets it is not told; others cannot do that. */
    CHECK(notifies(fd, SIGEV_SIGNAL, SIGUSR1) == 0);
    AS(0, CHECK(forgets(fd) == 0); FAILS(notifies(fd, SIGEV_NONE, 0), EBUSY););
    CHECK(forgets(fd) == 0 && sends(fd, "1", 0) == 0 && gets(fd, "1", 0) && got_signals == 3);
    /* A descriptor that the process closes, and its end. */
    CHECK(notifies(fd, SIGEV_SIGNAL, SIGUSR1) == 0 && close(dup(fd)) == 0);
    CHECK(notifies(fd, SIGEV_SIGNAL, SIGUSR1) == 0 && forgets(fd) == 0);
    fflush(stdout);
    child = fork();
    if (child == 0) _exit(notifies(fd, SIGEV_SIGNAL, SIGUSR1) != 0);
    CHECK(ended(child) == 0 && notifies(fd, SIGEV_NONE, 0) == 0 && forgets(fd) == 0);
    /* Another program does not get the signal, which would end it. */
    fflush(stdout);
    child = fork();
    if (child == 0) {
        char number[20];
        snprintf(number, sizeof number, "%d", fd);
        fcntl(fd, F_SETFD, 0);
        if (notifies(fd, SIGEV_SIGNAL, SIGUSR2)) _exit(97);
        execl("/proc/self/exe", "queues", "receives", number, NULL);
        _exit(96);
    }
    CHECK(ended(child) == 0 && count(fd) == 0);
    signal(SIGUSR1, SIG_DFL);
    close(fd);
}

static void sockets(void) {
    int fd = queue(0, 3, 20), to = socket(AF_NETLINK, SOCK_RAW, 0), other = socket(AF_UNIX, SOCK_DGRAM, 0);
    char cookie[COOKIE], got[100], text[100];
    for (int n = 0; n < COOKIE; n++) cookie[n] = n + 1;
    struct sigevent event = { .sigev_notify = SIGEV_THREAD, .sigev_signo = to };
    event.sigev_value.sival_ptr = (void *)8;
    FAILS(syscall(SYS_mq_notify, -1, &event), EFAULT);
    event.sigev_value.sival_ptr = cookie;
    FAILS(syscall(SYS_mq_notify, -1, &event), EBADF);
    event.sigev_signo = -1;
    FAILS(syscall(SYS_mq_notify, fd, &event), EBADF);
    event.sigev_signo = 0;
    FAILS(syscall(SYS_mq_notify, fd, &event), ENOTSOCK);
    event.sigev_signo = other;
    FAILS(syscall(SYS_mq_notify, fd, &event), EINVAL);
    event.sigev_signo = to;
    CHECK(syscall(SYS_mq_notify, fd, &event) == 0);
    FAILS(syscall(SYS_mq_notify, fd, &event), EBUSY);
    snprintf(text, sizeof text, "QSIZE:0          NOTIFY:2     SIGNO:0     NOTIFY_PID:%-6d\n", getpid());
    CHECK(reads(fd, text));
    FAILS(recv(to, got, sizeof got, MSG_DONTWAIT), EAGAIN);
    CHECK(sends(fd, "x", 0) == 0 && recv(to, got, sizeof got, MSG_DONTWAIT) == COOKIE);
    CHECK(memcmp(got, cookie, COOKIE - 1) == 0 && got[COOKIE - 1] == 1 && gets(fd, "x", 0));
    CHECK(syscall(SYS_mq_notify, fd, &event) == 0 && forgets(fd) == 0);
    CHECK(recv(to, got, sizeof got, MSG_DONTWAIT) == COOKIE && got[0] == 1 && got[COOKIE - 1] == 2);
    CHECK(syscall(SYS_mq_notify, fd, &event) == 0 && close(dup(fd)) == 0);
    CHECK(recv(to, got, sizeof got, MSG_DONTWAIT) == COOKIE && got[0] == 1 && got[COOKIE - 1] == 2);
    /* The socket may be gone before. */
    CHECK(syscall(SYS_mq_notify, fd, &event) == 0 && close(to) == 0 && sends(fd, "x", 0) == 0);
    close(other);
    close(fd);
}

/* Asks for news of one queue after the other, until there is an error. */
static int asked[64], of_socket;
static _Atomic int asked_so_far;
static void *asks(void *unused) {
    char cookie[COOKIE] = "";
    struct sigevent event = { .sigev_notify = SIGEV_THREAD, .sigev_signo = of_socket };
    event.sigev_value.sival_ptr = cookie;
    for (int n = 0; n < 64; n++, asked_so_far++)
        if (syscall(SYS_mq_notify, asked[n], &event) != 0) return (void *)(long)errno;
    return unused;
}

/* A socket that is closed while another thread waits for room in it. */
static void closed(void) {
    int least = 1;
    of_socket = socket(AF_NETLINK, SOCK_RAW, 0);
    CHECK(setsockopt(of_socket, SOL_SOCKET, SO_RCVBUF, &least, sizeof least) == 0);
    for (int n = 0; n < 64; n++) asked[n] = queue(0, 1, 1);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, asks, NULL) == 0);
    CHECK(SOON(asked_so_far > 0));
    for (int before = -1; before != asked_so_far; usleep(100000)) before = asked_so_far;
    CHECK(asked_so_far < 64);
    CHECK(close(of_socket) == 0);
    void *error;
    CHECK(pthread_join(thread, &error) == 0 && (long)error == EBADF);
    for (int n = 0; n < 64; n++) close(asked[n]);
}

static volatile int thread_value;

static void in_thread(union sigval value) { thread_value = value.sival_int; }

/* What the C library makes of it. */
static void threads(void) {
    int fd = queue(0, 3, 20);
    struct sigevent event = { .sigev_notify = SIGEV_THREAD, .sigev_value.sival_int = 4712 };
    event.sigev_notify_function = in_thread;
    CHECK(mq_notify(fd, &event) == 0 && sends(fd, "x", 0) == 0 && SOON(thread_value == 4712));
    CHECK(gets(fd, "x", 0) && mq_notify(fd, &event) == 0 && mq_notify(fd, NULL) == 0);
    close(fd);
}
int main(int argc, char **argv) {
    if (argc > 2 && strcmp(argv[1], "receives") == 0) {
        /* The program that another one has become: it sends a message, and takes it. */
        int fd = atoi(argv[2]);
        return sends(fd, "x", 0) != 0 || !gets(fd, "x", 0);
    }
    signals();
    sockets();
    closed();
    threads();
    return report();
}
