/*
 * Audit: who may ask over a socket, the order of answers, which records are made of those who ask and change
 * something, what a daemon that stands still gets. Called by tools/limen/src/test/programs.rs, on every
 * architecture; on Linux it can be run by hand, as root, with audit=1 on the command line, if no daemon runs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/netlink.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "audit.h"
#include "common.h"

/* The kind of the next message; -1: there is none. */
static int next(int fd) {
    if (!readable(fd, 2000)) return -1;
    ssize_t length = recv(fd, &answer, sizeof answer - 1, 0);
    if (length < (ssize_t)sizeof answer.header) return -1;
    ((char *)&answer)[length] = 0;
    return answer.header.nlmsg_type;
}

/* Makes a record with a text, and returns whether one of a kind with another text came before it. */
static int came(int fd, int log, int kind, const char *has) {
    static int serial;
    char mark[32];
    int found = 0;
    snprintf(mark, sizeof mark, "op=mark-%d", ++serial);
    CHECK(told(fd, AUDIT_LAST_USER_MSG, mark, strlen(mark) + 1) == 0);
    for (int got; (got = next(log)) != -1;) {
        if (got == AUDIT_LAST_USER_MSG && strstr(answer.data, mark)) return found;
        found += got == kind && strstr(answer.data, has) != NULL;
    }
    CHECK(!"the mark came");
    return -1;
}

/* Who opened the socket must be allowed to ask as well, unless the sender says where it sends to. */
static void openers(void) {
    struct {
        struct nlmsghdr header;
        struct audit_status status;
    } request = { { sizeof request, AUDIT_SET, NLM_F_REQUEST | NLM_F_ACK, 1, 0 }, { 0 } };
    CHECK(seteuid(1000) == 0);
    int theirs = open_socket(NETLINK_AUDIT);
    CHECK(seteuid(0) == 0);
    CHECK(write(theirs, &request, sizeof request) == sizeof request);
    CHECK(next(theirs) == NLMSG_ERROR && *(int *)answer.data == -EPERM);
    CHECK(send(theirs, &request, sizeof request, 0) == sizeof request);
    CHECK(next(theirs) == NLMSG_ERROR && *(int *)answer.data == -EPERM);
    CHECK(send_to(theirs, &request, sizeof request, 0, 0) == sizeof request);
    CHECK(next(theirs) == NLMSG_ERROR && *(int *)answer.data == 0);
    int own = open_socket(NETLINK_AUDIT);
    CHECK(write(own, &request, sizeof request) == sizeof request);
    CHECK(next(own) == NLMSG_ERROR && *(int *)answer.data == 0);
    close(own), close(theirs);
}

/* Acknowledgements come before answers, those of all messages in a datagram. */
static void order(void) {
    int fd = open_socket(NETLINK_AUDIT);
    struct nlmsghdr two[2] = {
        { sizeof *two, AUDIT_GET, NLM_F_REQUEST | NLM_F_ACK, 1, 0 },
        { sizeof *two, AUDIT_GET, NLM_F_REQUEST | NLM_F_ACK, 2, 0 },
    };
    CHECK(send_to(fd, two, sizeof two, 0, 0) == sizeof two);
    CHECK(next(fd) == NLMSG_ERROR && next(fd) == NLMSG_ERROR);
    CHECK(next(fd) == AUDIT_GET && next(fd) == AUDIT_GET);
    CHECK(ask(fd, AUDIT_LIST_RULES, NLM_F_ACK, NULL, 0) == 0);
    CHECK(next(fd) == NLMSG_ERROR && *(int *)answer.data == 0);
    int got;
    while ((got = next(fd)) == AUDIT_LIST_RULES) {}
    CHECK(got == NLMSG_DONE);
    close(fd);
}

/* What programs say is not lost because much waits: they wait, after it was taken. */
static void many(int fd, int log) {
    enum { MANY = 100 };
    struct {
        struct nlmsghdr header;
        char text[16];
    } said[MANY];
    struct audit_status before = state(fd);
    CHECK(change(fd, AUDIT_STATUS_BACKLOG_LIMIT, (struct audit_status){ .backlog_limit = 1 }) == 0);
    CHECK(change(fd, AUDIT_STATUS_BACKLOG_WAIT_TIME, (struct audit_status){ 0 }) == 0);
    while (readable(log, 300)) recv(log, &answer, sizeof answer, 0);
    for (int i = 0; i < MANY; i++) {
        said[i].header = (struct nlmsghdr){ sizeof *said, 1112, NLM_F_REQUEST, i, 0 };
        snprintf(said[i].text, sizeof said->text, "op=many-%d", i);
    }
    CHECK(send_to(fd, said, sizeof said, 0, 0) == sizeof said);
    int heard = 0;
    while (heard < MANY && next(log) != -1) heard += strstr(answer.data, "op=many-") != NULL;
    CHECK(heard == MANY);
    CHECK(change(fd, AUDIT_STATUS_BACKLOG_WAIT_TIME, before) == 0);
    CHECK(change(fd, AUDIT_STATUS_BACKLOG_LIMIT, before) == 0);
}

/* Rules about records match only if a field does, and ask only for what records have. */
static void left_out(int fd, int log) {
    static const int lists[][2] = {
        { AUDIT_FILTER_EXCLUDE, AUDIT_ALWAYS },
        { AUDIT_FILTER_USER, AUDIT_NEVER },
    };
    for (int i = 0; i < 2; i++)
        for (int fields = 0; fields < 4; fields++) {
            memset(&made_rule, 0, sizeof made_rule);
            made_rule.rule.flags = lists[i][0], made_rule.rule.action = lists[i][1];
            if (fields > 0) field(AUDIT_MSGTYPE, AUDIT_EQUAL, 1113);
            if (fields == 2) field(AUDIT_EUID, AUDIT_EQUAL, 0);
            if (fields == 3) field(AUDIT_GID, AUDIT_EQUAL, 0);
            CHECK(rule(fd, AUDIT_ADD_RULE) == 0 && told(fd, 1113, "op=perhaps", 11) == 0);
            int left = fields == 1 || fields == 3;
            CHECK(came(fd, log, 1113, "op=perhaps") == !left);
            CHECK(rule(fd, AUDIT_DEL_RULE) == 0);
        }
}

/* The group for files is not the thread's group. */
static void groups(int fd, int log) {
    begin_rule(AUDIT_ALWAYS, "group");
    field(AUDIT_GID, AUDIT_EQUAL, 4242);
    CHECK(rule(fd, AUDIT_ADD_RULE) == 0);
    setfsgid(4242);
    syscall(SYS_getppid);
    setfsgid(0);
    CHECK(came(fd, log, AUDIT_SYSCALL, "key=\"group\"") == 0);
    CHECK(setegid(4242) == 0 && setresgid(4242, 0, 0) == 0);
    syscall(SYS_getppid);
    CHECK(setresgid(0, 0, 0) == 0 && came(fd, log, AUDIT_SYSCALL, "key=\"group\"") == 1);
    CHECK(rule(fd, AUDIT_DEL_RULE) == 0);
}

/* Who turns audit off, or adds or removes the only rule, is known. What programs say stands alone. */
static void changes(int fd, int log) {
    char who[32], serial[64];
    snprintf(who, sizeof who, " pid=%d ", getpid());
    const struct audit_status on = { .enabled = 1 }, off = { .enabled = 0 };
    CHECK(change(fd, AUDIT_STATUS_ENABLED, off) == 0);
    char *found = record(log, AUDIT_CONFIG_CHANGE, "audit_enabled=0 old=1");
    CHECK(found != NULL);
    if (found) snprintf(serial, sizeof serial, "%.*s", (int)strcspn(found, " "), found);
    found = record(log, AUDIT_SYSCALL, serial);
    CHECK(found && strstr(found, who) && strstr(found, " success=yes "));
    CHECK(found && strstr(found, " comm=\"recorded\" "));
    CHECK(change(fd, AUDIT_STATUS_ENABLED, on) == 0);
    begin_rule(AUDIT_ALWAYS, "only");
    for (int i = 0; i < 2; i++) {
        CHECK(rule(fd, i == 0 ? AUDIT_ADD_RULE : AUDIT_DEL_RULE) == 0);
        found = record(log, AUDIT_CONFIG_CHANGE, "key=\"only\"");
        CHECK(found != NULL);
        if (found) snprintf(serial, sizeof serial, "%.*s", (int)strcspn(found, " "), found);
        found = record(log, AUDIT_SYSCALL, serial);
        CHECK(found && strstr(found, who));
    }
    CHECK(told(fd, 1112, "op=alone", 9) == 0 && came(fd, log, AUDIT_SYSCALL, who) == 0);
    begin_rule(AUDIT_ALWAYS, "other");
    CHECK(rule(fd, AUDIT_ADD_RULE) == 0 && record(log, AUDIT_SYSCALL, who) != NULL);
    CHECK(told(fd, 1112, "op=alone", 9) == 0 && came(fd, log, AUDIT_SYSCALL, who) == 0);
    CHECK(rule(fd, AUDIT_DEL_RULE) == 0 && record(log, AUDIT_SYSCALL, who) != NULL);
}

/* Who listens, or changes what seccomp logs, is recorded; features only if they change. */
static void others(int fd, int log) {
    char who[32];
    const char *const file = "/proc/sys/kernel/seccomp/actions_logged";
    snprintf(who, sizeof who, "pid=%d ", getpid());
    while (readable(log, 300)) recv(log, &answer, sizeof answer, 0);
    int group = 1, ear = open_socket(NETLINK_AUDIT);
    CHECK(bind_to(ear, 0, 1) == 0);
    char *found = record(log, AUDIT_EVENT_LISTENER, " op=connect res=1");
    CHECK(found && strstr(found, who) && strstr(found, " nl-mcgrp=1 "));
    CHECK(found && strstr(found, " comm=\"recorded\" "));
    CHECK(setsockopt(ear, SOL_NETLINK, NETLINK_DROP_MEMBERSHIP, &group, sizeof group) == 0);
    CHECK(record(log, AUDIT_EVENT_LISTENER, " op=disconnect res=1") != NULL);
    CHECK(setsockopt(ear, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group) == 0);
    CHECK(record(log, AUDIT_EVENT_LISTENER, " op=connect res=1") != NULL);
    close(ear);
    CHECK(record(log, AUDIT_EVENT_LISTENER, " op=disconnect res=1") != NULL);

    char before[128] = { 0 };
    int logged = open(file, O_RDWR);
    CHECK(read(logged, before, sizeof before - 1) > 0 && pwrite(logged, "errno trap", 10, 0) == 10);
    found = record(log, AUDIT_CONFIG_CHANGE, " actions=trap,errno old-actions=kill_process,");
    CHECK(found && strstr(found, ",log res=1"));
    CHECK(pwrite(logged, "errno nothing", 13, 0) == -1 && errno == EINVAL);
    found = record(log, AUDIT_CONFIG_CHANGE, " op=seccomp-logging actions=? old-actions=trap,errno res=0");
    CHECK(found != NULL);
    CHECK(pwrite(logged, before, strlen(before), 0) == (ssize_t)strlen(before));
    close(logged);

    CHECK(told(fd, AUDIT_TRIM, NULL, 0) == 0 && record(log, AUDIT_CONFIG_CHANGE, " op=trim res=1") != NULL);
    CHECK(strstr(answer.data, who) != NULL);
    struct audit_tty_status tty = { 0, 1 };
    CHECK(told(fd, AUDIT_TTY_SET, &tty, sizeof tty) == 0);
    found = record(log, AUDIT_CONFIG_CHANGE, " op=tty_set old-enabled=0 new-enabled=0 old-log_passwd=0 ");
    CHECK(found != NULL);
    tty.log_passwd = 0;
    CHECK(told(fd, AUDIT_TTY_SET, &tty, sizeof tty) == 0);
    CHECK(record(log, AUDIT_CONFIG_CHANGE, " new-log_passwd=0 res=1") != NULL);
    struct audit_features features = { 1, 1, 0, 0 };
    CHECK(told(fd, AUDIT_SET_FEATURE, &features, sizeof features) == 0);
    CHECK(came(fd, log, AUDIT_FEATURE_CHANGE, "") == 0);
    features.features = 1;
    CHECK(told(fd, AUDIT_SET_FEATURE, &features, sizeof features) == 0);
    found = record(log, AUDIT_FEATURE_CHANGE, " old=0 new=1 old_lock=0 new_lock=0 res=1");
    CHECK(found && strstr(found, " feature=only_unset_loginuid "));
    CHECK(found && strstr(found, who) && strstr(found, " comm=\"recorded\" "));
    features.features = 0;
    CHECK(told(fd, AUDIT_SET_FEATURE, &features, sizeof features) == 0);
}

/* Programs that end by a fault leave a record. */
static void faults(int fd, int log) {
    char who[32];
    static const int ends[] = { SIGABRT, SIGQUIT };
    for (int i = 0; i < 2; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            signal(ends[i], SIG_DFL);
            raise(ends[i]);
            _exit(0);
        }
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child && WTERMSIG(status) == ends[i]);
        snprintf(who, sizeof who, " pid=%d comm=\"recorded\" ", child);
        CHECK(came(fd, log, AUDIT_ANOM_ABEND, who) == (i == 0));
    }
}

static void logins(int fd, int log) {
    const struct audit_status on = { .enabled = 1 }, off = { .enabled = 0 };
    CHECK(change(fd, AUDIT_STATUS_ENABLED, off) == 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int own = open("/proc/self/loginuid", O_WRONLY);
        _exit(write(own, "1000", 4) != 4);
    }
    CHECK(child_good(child) && change(fd, AUDIT_STATUS_ENABLED, on) == 0);
    CHECK(came(fd, log, AUDIT_LOGIN, "") == 0);
    child = fork();
    if (child == 0) {
        int own = open("/proc/self/loginuid", O_WRONLY);
        int set = write(own, "1000", 4) == 4 && setresuid(1000, 1000, 1000) == 0;
        _exit(!set || pwrite(own, "1001", 4, 0) != -1 || errno != EPERM);
    }
    CHECK(child_good(child));
    char *found = record(log, AUDIT_LOGIN, " res=0");
    CHECK(found && strstr(found, " old-auid=1000 auid=1001 ") && strstr(found, " ses=4294967295 res=0"));
}

/* A daemon that takes nothing for a while is still the daemon, and gets what it was to get. */
static void daemon_waits(int fd) {
    enum { MANY = 50 };
    int small = 4000, slow = open_socket(NETLINK_AUDIT), heard = 0, last = -1;
    CHECK(setsockopt(slow, SOL_SOCKET, SO_RCVBUF, &small, sizeof small) == 0);
    struct audit_status own = { .pid = getpid(), .mask = AUDIT_STATUS_PID };
    CHECK(ask(slow, AUDIT_SET, NLM_F_ACK, &own, sizeof own) == 0);
    /* What it is told first is that it is the daemon. */
    CHECK(next(slow) == NLMSG_ERROR && *(int *)answer.data == 0);
    char text[32];
    for (int i = 0; i < MANY; i++) {
        snprintf(text, sizeof text, "op=wait-%d-", i);
        CHECK(told(fd, 1112, text, strlen(text) + 1) == 0);
    }
    pause_ms(1500);
    CHECK(state(fd).pid == (unsigned)getpid());
    for (int tries = 0; tries < 200 && heard < MANY; tries++) {
        while (readable(slow, 100)) {
            ssize_t length = recv(slow, &answer, sizeof answer - 1, 0);
            if (length <= 0) continue;
            ((char *)&answer)[length] = 0;
            char *found = strstr(answer.data, "op=wait-");
            if (found) heard++, last = atoi(found + 8);
        }
        /* Linux tries again when there is another record. */
        if (heard < MANY) CHECK(told(fd, 1112, "op=more", 8) == 0);
    }
    CHECK(heard == MANY && last >= 0 && (!on_limen() || last == MANY - 1));
    CHECK(state(fd).pid == (unsigned)getpid());
    CHECK(change(fd, AUDIT_STATUS_PID, (struct audit_status){ 0 }) == 0 && state(fd).pid == 0);
    close(slow);
}

int main(void) {
    int fd = open_socket(NETLINK_AUDIT), log = open_socket(NETLINK_AUDIT);
    CHECK(fd >= 0 && bind_to(log, 0, 1) == 0);
    struct audit_status before = state(fd);
    CHECK(change(fd, AUDIT_STATUS_ENABLED, (struct audit_status){ .enabled = 1 }) == 0);
    CHECK(change(fd, AUDIT_STATUS_BACKLOG_LIMIT, (struct audit_status){ .backlog_limit = 777 }) == 0);
    /* Linux audits threads that were made since audit is on. */
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        made = failed = 0;
        openers();
        order();
        many(fd, log);
        left_out(fd, log);
        groups(fd, log);
        changes(fd, log);
        others(fd, log);
        faults(fd, log);
        logins(fd, log);
        daemon_waits(fd);
        fflush(stdout);
        _exit(failed);
    }
    CHECK(child_good(child));
    change(fd, AUDIT_STATUS_BACKLOG_LIMIT, before);
    CHECK(change(fd, AUDIT_STATUS_ENABLED, before) == 0);
    return report();
}
