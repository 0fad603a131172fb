/* System V message queues: which message comes, who waits, and which errors come. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "common.h"

#ifndef MSG_COPY
#define MSG_COPY 040000
#endif
#define FAILS(call, error) CHECK((errno = 0, (long)(call) == -1 && errno == (error)))

static struct { long type; char text[9000]; } message;

static int send(int id, long type, const char *text, int flags) {
    message.type = type;
    strcpy(message.text, text);
    return msgsnd(id, &message, strlen(text), flags);
}

/* Receives, and says whether it was `text` of this type. */
static int gets(int id, long type, int flags, long is, const char *text) {
    memset(&message, 0, 200);
    long got = msgrcv(id, &message, 100, type, flags);
    return got == (long)strlen(text) && message.type == is && strcmp(message.text, text) == 0;
}

static void keys(void) {
    key_t key = 0x3e90000 + getpid();
    FAILS(msgget(key, 0), ENOENT);
    int id = msgget(key, IPC_CREAT | 0640);
    CHECK(id >= 0 && msgget(key, 0) == id);
    FAILS(msgget(key, IPC_CREAT | IPC_EXCL), EEXIST);
    struct msqid_ds ds;
    CHECK(msgctl(id, IPC_STAT, &ds) == 0 && ds.msg_qnum == 0 && ds.msg_qbytes == 16384 && !ds.msg_stime);
    CHECK(ds.msg_perm.mode == 0640 && ds.msg_lspid == 0 && labs(ds.msg_ctime - time(NULL)) < 100);
    CHECK(send(id, 1, "abc", 0) == 0 && send(id, 1, "", 0) == 0);
    CHECK(msgctl(id, IPC_STAT, &ds) == 0 && ds.msg_qnum == 2 && ds.__msg_cbytes == 3);
    CHECK(ds.msg_lspid == getpid() && ds.msg_stime && !ds.msg_rtime);
    struct msginfo info;
    int highest = msgctl(0, MSG_INFO, (void *)&info);
    CHECK(highest >= 0 && info.msgpool >= 1 && info.msgmap >= 2 && info.msgtql >= 3);
    CHECK(msgctl(0, IPC_INFO, (void *)&info) == highest && info.msgmax == 8192 && info.msgmnb == 16384);
    int found = 0;
    for (int n = 0; n <= highest; n++) found += msgctl(n, MSG_STAT, &ds) == id;
    CHECK(found == 1);
    CHECK(gets(id, 0, 0, 1, "abc") && gets(id, 0, 0, 1, ""));
    CHECK(msgctl(id, IPC_STAT, &ds) == 0 && ds.msg_lrpid == getpid() && ds.msg_rtime);
    FAILS(msgctl(id, 55, NULL), EINVAL);
#if __SIZEOF_LONG__ == 8 /* elsewhere the C library looks at it before */
    FAILS(msgctl(id, IPC_STAT, (void *)8), EFAULT);
#endif
    CHECK(msgctl(id, IPC_RMID, NULL) == 0);
    FAILS(msgctl(id, IPC_RMID, NULL), EINVAL);
    FAILS(send(id, 1, "x", 0), EINVAL);
}

static void types(void) {
    int id = msgget(IPC_PRIVATE, 0600);
    FAILS(send(id, 0, "x", 0), EINVAL);
    FAILS(send(id, -1, "x", 0), EINVAL);
    FAILS(msgsnd(id, (void *)8, 1, 0), EFAULT);
    FAILS(msgsnd(id, &message, 8193, 0), EINVAL);
    FAILS(msgsnd(id, &message, -1, 0), EINVAL);
    FAILS(msgrcv(id, &message, -1, 0, 0), EINVAL);
    FAILS(msgrcv(id, &message, 10, 0, IPC_NOWAIT), ENOMSG);
    long sent[] = { 5, 3, 9, 3, 7 };
    char text[2] = "a";
    for (int n = 0; n < 5; n++, text[0]++) CHECK(send(id, sent[n], text, 0) == 0);
    CHECK(gets(id, 2, MSG_COPY | IPC_NOWAIT, 9, "c"));
    FAILS(msgrcv(id, &message, 10, 5, MSG_COPY | IPC_NOWAIT), ENOMSG);
    FAILS(msgrcv(id, &message, 10, 0, MSG_COPY), EINVAL);
    FAILS(msgrcv(id, &message, 10, 0, MSG_COPY | MSG_EXCEPT | IPC_NOWAIT), EINVAL);
    FAILS(msgrcv(id, &message, 10, 4, IPC_NOWAIT), ENOMSG);
    FAILS(msgrcv(id, &message, 10, -2, IPC_NOWAIT), ENOMSG);
    CHECK(gets(id, 5, MSG_EXCEPT, 3, "b"));
    CHECK(gets(id, -8, 0, 3, "d") && gets(id, -8, 0, 5, "a") && gets(id, -8, 0, 7, "e"));
    CHECK(gets(id, LONG_MIN, 0, 9, "c"));
    CHECK(send(id, 1, "0123456789", 0) == 0);
    FAILS(msgrcv(id, &message, 5, 0, 0), E2BIG);
    FAILS(msgrcv(id, &message, 5, 0, MSG_COPY | IPC_NOWAIT | MSG_NOERROR), EINVAL);
    memset(&message, 0, 100);
    CHECK(msgrcv(id, &message, 5, 0, MSG_NOERROR) == 5 && strcmp(message.text, "01234") == 0);
    FAILS(msgrcv(id, &message, 5, 0, IPC_NOWAIT), ENOMSG);
    CHECK(msgctl(id, IPC_RMID, NULL) == 0);
}

static int ended(pid_t child) {
    int status = -1;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 999;
}

static void handler(int number) { (void)number; }

static pid_t receiver(int id, long type, int flags, size_t room) {
    pid_t child = fork();
    if (child == 0) {
        struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
        sigaction(SIGUSR1, &action, NULL);
        _exit(msgrcv(id, &message, room, type, flags) < 0 ? errno : 0);
    }
    CHECK(SOON(thread_state(child) == 'S'));
    return child;
}

static void waiting(void) {
    int id = msgget(IPC_PRIVATE, 0600);
    struct msqid_ds ds;
    pid_t two = receiver(id, 2, 0, 10), any = receiver(id, 0, 0, 10);
    CHECK(send(id, 1, "for any", 0) == 0 && ended(any) == 0);
    CHECK(msgctl(id, IPC_STAT, &ds) == 0 && ds.msg_qnum == 0 && ds.msg_lrpid == any);
    any = receiver(id, 0, 0, 3);
    /* Too long for the one that looks for anything: it is told, and the message stays. */
    CHECK(send(id, 1, "too long", 0) == 0 && ended(any) == E2BIG);
    CHECK(gets(id, 0, 0, 1, "too long"));
    CHECK(send(id, 2, "two", 0) == 0 && ended(two) == 0);
    any = receiver(id, 0, 0, 10);
    kill(any, SIGUSR1);
    CHECK(ended(any) == EINTR);
    any = receiver(id, 0, 0, 10);
    kill(any, SIGKILL);
    waitpid(any, NULL, 0);
    CHECK(send(id, 1, "mine", 0) == 0 && gets(id, 0, IPC_NOWAIT, 1, "mine"));

    /* A full queue. */
    static char big[8001];
    memset(big, 'x', 8000);
    CHECK(send(id, 1, big, 0) == 0 && send(id, 2, big, 0) == 0);
    FAILS(send(id, 3, big, IPC_NOWAIT), EAGAIN);
    pid_t sender = fork();
    if (sender == 0) _exit(send(id, 3, big, 0) ? errno : 0);
    CHECK(SOON(thread_state(sender) == 'S'));
    CHECK(msgrcv(id, &message, 8000, 2, 0) == 8000 && ended(sender) == 0);
    sender = fork();
    if (sender == 0) _exit(send(id, 4, big, 0) ? errno : 0);
    CHECK(SOON(thread_state(sender) == 'S'));
    CHECK(msgctl(id, IPC_STAT, &ds) == 0);
    ds.msg_qbytes = 30000;
    /* Without the capability for more: room in another way. */
    if (msgctl(id, IPC_SET, &ds)) CHECK(errno == EPERM && msgrcv(id, &message, 8000, 1, 0) == 8000);
    CHECK(ended(sender) == 0 && msgrcv(id, &message, 8000, 4, 0) == 8000);

    any = receiver(id, 77, 0, 10), two = receiver(id, 78, 0, 10);
    CHECK(msgctl(id, IPC_RMID, NULL) == 0 && ended(any) == EIDRM && ended(two) == EIDRM);
}

/* Every receiver gets the messages of a sender in order, and none is lost or comes twice. */
static void storm(void) {
    enum { SENDERS = 3, RECEIVERS = 3, MESSAGES = 3000 };
    int id = msgget(IPC_PRIVATE, 0600), sums[2];
    struct { long type; int from, number; } m;
    CHECK(pipe(sums) == 0);
    pid_t senders[SENDERS], receivers[RECEIVERS];
    for (int n = 0; n < RECEIVERS; n++) {
        if ((receivers[n] = fork())) continue;
        long sum[2] = { 0, 0 };
        int last[SENDERS] = { -1, -1, -1 };
        for (;;) {
            if (msgrcv(id, &m, sizeof m - sizeof m.type, 0, 0) < 0) _exit(1);
            if (m.from < 0) break;
            if (m.number <= last[m.from]) _exit(2);
            last[m.from] = m.number;
            sum[0]++, sum[1] += m.number;
        }
        _exit(write(sums[1], sum, sizeof sum) != sizeof sum);
    }
    for (int n = 0; n < SENDERS; n++) {
        if ((senders[n] = fork())) continue;
        for (int i = 0; i < MESSAGES; i++) {
            m.type = 1 + i % 5, m.from = n, m.number = i;
            if (msgsnd(id, &m, sizeof m - sizeof m.type, 0)) _exit(1);
        }
        _exit(0);
    }
    for (int n = 0; n < SENDERS; n++) CHECK(ended(senders[n]) == 0);
    for (int n = 0; n < RECEIVERS; n++) {
        m.type = 1, m.from = -1;
        CHECK(msgsnd(id, &m, sizeof m - sizeof m.type, 0) == 0);
    }
    long all[2] = { 0, 0 }, sum[2];
    for (int n = 0; n < RECEIVERS; n++) {
        CHECK(ended(receivers[n]) == 0);
        CHECK(read(sums[0], sum, sizeof sum) == sizeof sum);
        all[0] += sum[0], all[1] += sum[1];
    }
    CHECK(all[0] == SENDERS * MESSAGES && all[1] == SENDERS * (MESSAGES * (MESSAGES - 1L) / 2));
    struct msqid_ds ds;
    CHECK(msgctl(id, IPC_STAT, &ds) == 0 && ds.msg_qnum == 0 && ds.__msg_cbytes == 0);
    CHECK(msgctl(id, IPC_RMID, NULL) == 0);
}

static void users(void) {
    if (geteuid()) return;
    int id = msgget(IPC_PRIVATE, 0604);
    CHECK(send(id, 1, "a", 0) == 0);
    pid_t child = fork();
    if (child == 0) {
        failed = 0;
        CHECK(setgid(1000) == 0 && setuid(1000) == 0);
        CHECK(gets(id, 0, 0, 1, "a"));
        FAILS(send(id, 1, "b", 0), EACCES);
        FAILS(msgctl(id, IPC_RMID, NULL), EPERM);
        int own = msgget(IPC_PRIVATE, 0600);
        struct msqid_ds ds;
        CHECK(msgctl(own, IPC_STAT, &ds) == 0);
        ds.msg_qbytes = 20000;
        FAILS(msgctl(own, IPC_SET, &ds), EPERM);
        ds.msg_qbytes = 100;
        CHECK(msgctl(own, IPC_SET, &ds) == 0 && msgctl(own, IPC_RMID, NULL) == 0);
        _exit(failed);
    }
    CHECK(child_good(child) && msgctl(id, IPC_RMID, NULL) == 0);
    set("kernel/msgmni", "0");
    FAILS(msgget(IPC_PRIVATE, 0600), ENOSPC);
    set("kernel/msgmni", "32000");
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    keys();
    types();
    waiting();
    storm();
    users();
    return report();
}
