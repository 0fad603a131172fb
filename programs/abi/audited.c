/*
 * Netlink sockets, and audit over them: settings, rules, records, the daemon's part. Called by
 * tools/limen/src/test/programs.rs, on every architecture; on Linux it can be run by hand, as root, if no
 * daemon runs.
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
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "audit.h"
#include "common.h"

/* --- sockets --- */

static int option(int fd, int level, int name) {
    int value = -1;
    socklen_t length = sizeof value;
    return getsockopt(fd, level, name, &value, &length) == 0 ? value : -1;
}

static void sockets(void) {
    CHECK(socket(AF_NETLINK, SOCK_STREAM, NETLINK_AUDIT) == -1 && errno == ESOCKTNOSUPPORT);
    CHECK(socket(AF_NETLINK, SOCK_RAW, 31) == -1 && errno == EPROTONOSUPPORT);
    int pair[2], one = open_socket(NETLINK_USERSOCK), two = open_socket(NETLINK_USERSOCK);
    CHECK(socketpair(AF_NETLINK, SOCK_RAW, NETLINK_USERSOCK, pair) == -1 && errno == EOPNOTSUPP);
    CHECK(one >= 0 && two >= 0);
    CHECK(address_of(one).nl_family == AF_NETLINK && address_of(one).nl_pid == 0);
    CHECK(bind_to(one, 0, 0) == 0 && address_of(one).nl_pid == (unsigned)getpid());
    CHECK(bind_to(one, 77, 0) == -1 && errno == EINVAL);
    CHECK(bind_to(two, getpid(), 0) == -1 && errno == EADDRINUSE);
    CHECK(bind_to(two, 0, 0) == 0);
    unsigned port = address_of(two).nl_pid;
    CHECK((int)port < 0);
    CHECK(bind(two, (struct sockaddr *)&port, 2) == -1 && errno == EINVAL);
    CHECK(listen(one, 1) == -1 && errno == EOPNOTSUPP);
    CHECK(accept(one, NULL, NULL) == -1 && errno == EOPNOTSUPP);
    CHECK(shutdown(one, SHUT_RDWR) == -1 && errno == EOPNOTSUPP);
    CHECK(option(one, SOL_SOCKET, SO_TYPE) == SOCK_RAW && option(one, SOL_SOCKET, SO_DOMAIN) == AF_NETLINK);
    CHECK(option(one, SOL_SOCKET, SO_PROTOCOL) == NETLINK_USERSOCK && option(one, SOL_SOCKET, SO_ERROR) == 0);
    CHECK(option(one, SOL_NETLINK, NETLINK_CAP_ACK) == 0 && option(one, SOL_NETLINK, 99) == -1);

    /* From port to port. */
    char text[64];
    struct sockaddr_nl from = { 0 };
    socklen_t length = sizeof from;
    CHECK(send_to(one, "hello", 5, port, 0) == 5);
    CHECK(readable(two, 1000));
    CHECK(recvfrom(two, text, 3, MSG_PEEK | MSG_TRUNC, NULL, NULL) == 5);
    CHECK(recvfrom(two, text, sizeof text, 0, (struct sockaddr *)&from, &length) == 5);
    CHECK(memcmp(text, "hello", 5) == 0 && from.nl_pid == (unsigned)getpid() && from.nl_groups == 0);
    CHECK(recv(two, text, sizeof text, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    CHECK(send_to(one, "hello", 5, 0x7ffffff0, 0) == -1 && errno == ECONNREFUSED);
    CHECK(send_to(one, "hello", 5, 0, 0) == -1 && errno == ECONNREFUSED);
    CHECK(sendto(one, "hello", 5, 0, (struct sockaddr *)&from, 4) == -1 && errno == EINVAL);

    /* With a peer. */
    struct sockaddr_nl peer = { .nl_family = AF_NETLINK, .nl_pid = port };
    CHECK(connect(one, (struct sockaddr *)&peer, sizeof peer) == 0 && send(one, "peer", 4, 0) == 4);
    length = sizeof from;
    CHECK(getpeername(one, (struct sockaddr *)&from, &length) == 0 && from.nl_pid == port);
    CHECK(recv(two, text, sizeof text, 0) == 4);

    /* To a group, whose members are all but the sender. */
    int group = 3;
    CHECK(setsockopt(two, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group) == 0);
    CHECK(address_of(two).nl_groups == 4);
    CHECK(bind_to(one, getpid(), 4) == 0);
    CHECK(send_to(one, "all", 3, port, 4) == 3);
    CHECK(recv(two, text, sizeof text, 0) == 3 && recv(two, text, sizeof text, MSG_DONTWAIT) == -1);
    CHECK(send_to(one, "all", 3, 0, 4) == -1 && errno == ECONNREFUSED);
    length = sizeof from;
    CHECK(recvfrom(two, text, sizeof text, MSG_DONTWAIT, (struct sockaddr *)&from, &length) == 3);
    CHECK(from.nl_groups == 4);
    CHECK(recv(one, text, sizeof text, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    CHECK(setsockopt(two, SOL_NETLINK, NETLINK_DROP_MEMBERSHIP, &group, sizeof group) == 0);
    CHECK(address_of(two).nl_groups == 0);
    group = 0;
    int joined = setsockopt(two, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group);
    CHECK(joined == -1 && errno == EINVAL);

    /* Who has no room loses what a group is told, and learns of that. */
    int small = 4000;
    CHECK(setsockopt(one, SOL_SOCKET, SO_RCVBUF, &small, sizeof small) == 0);
    for (int i = 0; i < 100; i++) send_to(two, text, sizeof text, 0, 4);
    CHECK(recv(one, text, sizeof text, MSG_DONTWAIT) == -1 && errno == ENOBUFS);
    CHECK(recv(one, text, sizeof text, MSG_DONTWAIT) == sizeof text);
    while (recv(one, text, sizeof text, MSG_DONTWAIT) > 0) {}
    CHECK(errno == EAGAIN);
    /* Unless it wants to hear of no losses: then it gets what there is room for again. */
    int yes = 1;
    CHECK(setsockopt(one, SOL_NETLINK, NETLINK_NO_ENOBUFS, &yes, sizeof yes) == 0);
    for (int i = 0; i < 100; i++) send_to(two, text, sizeof text, 0, 4);
    for (int i = 0; i < 3; i++) CHECK(recv(one, text, sizeof text, MSG_DONTWAIT) == sizeof text);
    CHECK(send_to(two, "last", 4, 0, 4) == -1);
    ssize_t last = 0;
    for (ssize_t got; (got = recv(one, text, sizeof text, MSG_DONTWAIT)) > 0;) last = got;
    CHECK(last == 4 && ioctl(one, FIONREAD, &last) == -1 && errno == ENOTTY);
    close(two);
    CHECK(send_to(one, "hello", 5, port, 0) == -1 && errno == ECONNREFUSED);
    close(one);
}

/* --- requests --- */

static void settings(int fd) {
    CHECK(told(fd, NLMSG_NOOP, NULL, 0) == -EINVAL && told(fd, AUDIT_TTY_GET, NULL, 0) == 0);
    CHECK(told(fd, 1099, NULL, 0) == -EINVAL && told(fd, AUDIT_LIST, NULL, 0) == -EOPNOTSUPP);
    CHECK(state(fd).enabled <= 1 && state(fd).pid == 0 && state(fd).feature_bitmap & 1);
    CHECK(change(fd, AUDIT_STATUS_ENABLED, (struct audit_status){ .enabled = 3 }) == -EINVAL);
    CHECK(change(fd, AUDIT_STATUS_FAILURE, (struct audit_status){ .failure = 3 }) == -EINVAL);
    CHECK(change(fd, AUDIT_STATUS_ENABLED, (struct audit_status){ .enabled = 1 }) == 0);
    CHECK(change(fd, AUDIT_STATUS_BACKLOG_LIMIT, (struct audit_status){ .backlog_limit = 777 }) == 0);
    CHECK(change(fd, AUDIT_STATUS_FAILURE, (struct audit_status){ .failure = 0 }) == 0);
    CHECK(state(fd).enabled == 1 && state(fd).backlog_limit == 777 && state(fd).failure == 0);
    CHECK(change(fd, AUDIT_STATUS_PID, (struct audit_status){ .pid = 1 + getpid() }) == -EINVAL);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        made = failed = 0;
        CHECK(setresuid(1000, 1000, 1000) == 0);
        int own = open_socket(NETLINK_AUDIT);
        CHECK(told(own, AUDIT_GET, NULL, 0) == -EPERM && told(own, AUDIT_USER, "text", 5) == -EPERM);
        CHECK(bind_to(own, 0, 1) == -1 && errno == EINVAL);
        CHECK(bind_to(open_socket(NETLINK_AUDIT), 0, 1) == -1 && errno == EPERM);
        fflush(stdout);
        _exit(failed);
    }
    CHECK(child_good(child));
}

/* --- rules and records --- */

static int rules_with(int fd, const char *key) {
    int found = 0;
    CHECK(ask(fd, AUDIT_LIST_RULES, 0, NULL, 0) == 0);
    for (int got; (got = answered(fd)) == AUDIT_LIST_RULES;) {
        struct audit_rule_data *told = (void *)answer.data;
        found += told->buflen == strlen(key) && memcmp(told->buf, key, told->buflen) == 0;
    }
    CHECK(answer.header.nlmsg_type == NLMSG_DONE);
    return found;
}

/* Lists begun by who has just lost something come whole; nobody can begin lists without end. */
static void lists(int fd) {
    enum { MANY = 200 };
    int small = 4000, slow = open_socket(NETLINK_AUDIT), done = 0;
    CHECK(setsockopt(slow, SOL_SOCKET, SO_RCVBUF, &small, sizeof small) == 0);
    begin_rule(AUDIT_ALWAYS, "listed");
    CHECK(rule(fd, AUDIT_ADD_RULE) == 0);
    for (int i = 0; i < 100; i++) CHECK(ask(slow, 1099, 0, NULL, 0) == 0);
    CHECK(recv(slow, &answer, sizeof answer, MSG_DONTWAIT) == -1 && errno == ENOBUFS);
    CHECK(rules_with(slow, "listed") == 1);
    CHECK(answer.header.nlmsg_flags == NLM_F_MULTI && answer.header.nlmsg_pid == 0);
    for (int i = 0; i < MANY; i++) CHECK(ask(slow, AUDIT_LIST_RULES, 0, NULL, 0) == 0);
    while (readable(slow, 1000)) {
        if (recv(slow, &answer, sizeof answer, MSG_DONTWAIT) < 0) continue;
        done += answer.header.nlmsg_type == NLMSG_DONE;
    }
    /* Linux makes a thread for each list, which gives up if the receiver is slow. */
    CHECK(done >= 1 && (!on_limen() || (done >= 64 && done < MANY)));
    begin_rule(AUDIT_ALWAYS, "listed");
    CHECK(rule(fd, AUDIT_DEL_RULE) == 0);
    close(slow);
}

static void records(int fd, int log) {
    char serial[64] = { 0 }, text[64], parent[32], number[32];
    begin_rule(AUDIT_ALWAYS, "limen");
    CHECK(rule(fd, AUDIT_DEL_RULE) == -ENOENT);
    CHECK(rule(fd, AUDIT_ADD_RULE) == 0 && rule(fd, AUDIT_ADD_RULE) == -EEXIST);
    CHECK(rules_with(fd, "limen") == 1 && rules_with(fd, "other") == 0);
    CHECK(record(log, AUDIT_CONFIG_CHANGE, " op=add_rule key=\"limen\" list=4 res=1") != NULL);
    syscall(SYS_getppid, 1L, 2L, 3L, 0x44L);
    /* On 32-bit Arm every program's personality is shown in between. */
    snprintf(text, sizeof text, " success=yes exit=%d a0=1 a1=2 a2=3 a3=44 ", getppid());
    snprintf(number, sizeof number, " syscall=%d ", SYS_getppid);
    snprintf(parent, sizeof parent, " pid=%d ", getpid());
    char *found = record(log, AUDIT_SYSCALL, text);
    CHECK(found && strncmp(found, "audit(", 6) == 0 && strstr(found, parent) && strstr(found, " uid=0 ") &&
          strstr(found, number));
    CHECK(found && strstr(found, " comm=\"audited\" exe=\"/") && strstr(found, " key=\"limen\""));
    if (found) snprintf(serial, sizeof serial, "%.*s", (int)strcspn(found, " "), found);
    found = record(log, AUDIT_PROCTITLE, serial);
    CHECK(found && strstr(found, "proctitle=") && strlen(serial) > 20);
    CHECK(record(log, AUDIT_EOE, serial) != NULL);
    CHECK(rule(fd, AUDIT_DEL_RULE) == 0 && rules_with(fd, "limen") == 0);
    CHECK(record(log, AUDIT_CONFIG_CHANGE, " op=remove_rule key=\"limen\" list=4 res=1") != NULL);

    /* The first that matches decides; only what failed is recorded. */
    begin_rule(AUDIT_ALWAYS, "second");
    made_rule.rule.mask[SYS_close / 32] |= 1u << SYS_close % 32;
    field(AUDIT_SUCCESS, AUDIT_EQUAL, 0);
    CHECK(rule(fd, AUDIT_ADD_RULE) == 0);
    close(4000), close(4001);
    found = record(log, AUDIT_SYSCALL, "key=\"second\"");
    CHECK(found && strstr(found, " success=no exit=-9 a0=fa0 "));
    begin_rule(AUDIT_NEVER, "first");
    made_rule.rule.flags |= AUDIT_FILTER_PREPEND;
    made_rule.rule.mask[SYS_close / 32] |= 1u << SYS_close % 32;
    field(AUDIT_ARG0, AUDIT_EQUAL, 4002);
    CHECK(rule(fd, AUDIT_ADD_RULE) == 0);
    close(4002), close(4003);
    CHECK((found = record(log, AUDIT_SYSCALL, " a0=fa3 ")) != NULL && rule(fd, AUDIT_DEL_RULE) == -ENOENT);
    made_rule.rule.flags = AUDIT_FILTER_EXIT;
    CHECK(rule(fd, AUDIT_DEL_RULE) == 0);
    begin_rule(AUDIT_ALWAYS, "second");
    made_rule.rule.mask[SYS_close / 32] |= 1u << SYS_close % 32;
    field(AUDIT_SUCCESS, AUDIT_EQUAL, 0);
    CHECK(rule(fd, AUDIT_DEL_RULE) == 0);

    /* Results have no sign: errors are greater than all numbers. */
    begin_rule(AUDIT_ALWAYS, "large");
    made_rule.rule.mask[SYS_close / 32] |= 1u << SYS_close % 32;
    field(AUDIT_EXIT, AUDIT_GREATER_THAN, 1000000);
    CHECK(rule(fd, AUDIT_ADD_RULE) == 0);
    close(4004);
    CHECK(record(log, AUDIT_SYSCALL, "key=\"large\"") != NULL && rule(fd, AUDIT_DEL_RULE) == 0);

    /* Only the least negative ones are errors: where addresses look negative, they are none. */
    begin_rule(AUDIT_ALWAYS, "high");
    made_rule.rule.mask[SYS_mremap / 32] |= 1u << SYS_mremap % 32;
    field(AUDIT_SUCCESS, AUDIT_EQUAL, 1);
    CHECK(rule(fd, AUDIT_ADD_RULE) == 0);
    char *high = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mremap(high, 4096, 4096, 0) == high);
    found = record(log, AUDIT_SYSCALL, "key=\"high\"");
    CHECK(found && strstr(found, " success=yes ") && rule(fd, AUDIT_DEL_RULE) == 0);
    munmap(high, 4096);

    /* A call of which a rule says never is not recorded because of other records in it. */
    begin_rule(AUDIT_NEVER, "never");
    memset(made_rule.rule.mask, 0xff, sizeof made_rule.rule.mask);
    CHECK(rule(fd, AUDIT_ADD_RULE) == 0);
    while (readable(log, 300)) recv(log, &answer, sizeof answer, 0);
    CHECK(told(fd, 1112, "a\xff\x01z", 5) == 0 && record(log, 1112, " msg='a\xff\x01z'") != NULL);
    CHECK(record(log, AUDIT_SYSCALL, "") == NULL && rule(fd, AUDIT_DEL_RULE) == 0);

    /* Rules that are none. */
    static const char *const paths[] = { "sh", "/bin/" };
    for (int i = 0; i < 2; i++) {
        begin_rule(AUDIT_ALWAYS, "k");
        field(AUDIT_EXE, AUDIT_EQUAL, strlen(paths[i]));
        made_rule.rule.buflen += strlen(paths[i]);
        strcat(made_rule.text, paths[i]);
        CHECK(rule(fd, AUDIT_ADD_RULE) == -EINVAL);
    }
    begin_rule(AUDIT_POSSIBLE, "k");
    CHECK(rule(fd, AUDIT_ADD_RULE) == -EINVAL);
    begin_rule(AUDIT_ALWAYS, "k");
    field(AUDIT_UID, AUDIT_BIT_MASK, 0);
    CHECK(rule(fd, AUDIT_ADD_RULE) == -EINVAL);
    begin_rule(AUDIT_ALWAYS, "k");
    made_rule.rule.buflen = 0;
    CHECK(rule(fd, AUDIT_ADD_RULE) == -EINVAL);

    /* Kinds of records that nobody wants; programs' own records. */
    memset(&made_rule, 0, sizeof made_rule);
    made_rule.rule.flags = AUDIT_FILTER_EXCLUDE, made_rule.rule.action = AUDIT_ALWAYS;
    memset(made_rule.rule.mask, 0xff, sizeof made_rule.rule.mask);
    field(AUDIT_MSGTYPE, AUDIT_EQUAL, 1111);
    CHECK(rule(fd, AUDIT_ADD_RULE) == 0);
    CHECK(told(fd, 1111, "op=left-out", 12) == 0 && told(fd, 1112, "op=told", 8) == 0);
    found = record(log, 1112, " msg='op=told'");
    CHECK(found && strstr(found, parent + 1) && strstr(found, " ses="));
    CHECK(rule(fd, AUDIT_DEL_RULE) == 0 && told(fd, 1112, "x", 1) == -EINVAL);
}

/* --- the daemon --- */

static void daemon_part(int fd) {
    struct { unsigned user; int pid; } sender = { 0 };
    int other = open_socket(NETLINK_AUDIT);
    begin_rule(AUDIT_ALWAYS, "daemon");
    /* Its own calls are not recorded. */
    made_rule.rule.fields[0] = AUDIT_PPID;
    CHECK(rule(fd, AUDIT_ADD_RULE) == 0);
    CHECK(change(fd, AUDIT_STATUS_PID, (struct audit_status){ .pid = getpid() }) == 0);
    CHECK(state(fd).pid == (unsigned)getpid());
    CHECK(change(other, AUDIT_STATUS_PID, (struct audit_status){ .pid = getpid() }) == -EEXIST);
    CHECK(record(fd, AUDIT_REPLACE, "") != NULL && *(int *)answer.data == getpid());
    fflush(stdout);
    signal(SIGUSR1, SIG_IGN);
    pid_t child = fork();
    if (child == 0) _exit(kill(getppid(), SIGUSR1) != 0);
    CHECK(child_good(child));
    char *found = record(fd, AUDIT_SYSCALL, "key=\"daemon\"");
    /* The daemon is told the length of the text alone. */
    CHECK(found && answer.header.nlmsg_len == strlen(found));
    CHECK(ask(other, AUDIT_SIGNAL_INFO, 0, NULL, 0) == 0 && answered(other) == AUDIT_SIGNAL_INFO);
    memcpy(&sender, answer.data, sizeof sender);
    CHECK(sender.pid == child && sender.user == 0);
    CHECK(change(other, AUDIT_STATUS_PID, (struct audit_status){ .pid = 0 }) == 0 && state(other).pid == 0);
    CHECK(rule(other, AUDIT_DEL_RULE) == 0);
    close(other);
}

/* Where a daemon has died anybody can have its port. On Linux they get its records, and nobody else can be
 * the daemon. */
static void daemon_dies(int fd) {
    int ready[2], over[2];
    char byte = 0;
    CHECK(pipe(ready) == 0 && pipe(over) == 0);
    fflush(stdout);
    pid_t dead = fork();
    if (dead == 0) {
        struct audit_status own = { .pid = getpid() };
        _exit(change(open_socket(NETLINK_AUDIT), AUDIT_STATUS_PID, own) != 0);
    }
    CHECK(child_good(dead));
    pid_t child = fork();
    if (child == 0) {
        made = failed = 0;
        int thief = open_socket(NETLINK_AUDIT);
        CHECK(setresuid(1000, 1000, 1000) == 0 && bind_to(thief, dead, 0) == 0);
        CHECK(write(ready[1], "", 1) == 1 && read(over[0], &byte, 1) == 1);
        CHECK(!readable(thief, 300));
        fflush(stdout);
        _exit(failed);
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    CHECK(told(fd, 1112, "op=secret", 10) == 0);
    CHECK(change(fd, AUDIT_STATUS_PID, (struct audit_status){ .pid = getpid() }) == 0);
    CHECK(change(fd, AUDIT_STATUS_PID, (struct audit_status){ .pid = 0 }) == 0);
    CHECK(write(over[1], "", 1) == 1 && child_good(child));
    for (int i = 0; i < 2; i++) close(ready[i]), close(over[i]);
}

/* --- who logged in --- */

static long login(const char *name) {
    char text[32] = { 0 }, path[64];
    snprintf(path, sizeof path, "/proc/self/%s", name);
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
    close(fd);
    return atol(text);
}


static void logins(int log) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        made = failed = 0;
        CHECK(login("loginuid") == 4294967295L || sizeof(long) == 4);
        int own = open("/proc/self/loginuid", O_WRONLY);
        CHECK(write(own, "1000", 4) == 4 && login("loginuid") == 1000);
        long session = login("sessionid");
        CHECK(session > 0);
        CHECK(record(log, AUDIT_LOGIN, " auid=1000 ") != NULL && strstr(answer.data, " res=1"));
        CHECK(pwrite(own, "1001", 4, 0) == 4 && login("sessionid") == session + 1);
        pid_t grandchild = fork();
        if (grandchild == 0) _exit(login("loginuid") != 1001);
        CHECK(child_good(grandchild));
        CHECK(setresuid(1000, 1000, 1000) == 0 && pwrite(own, "1002", 4, 0) == -1 && errno == EPERM);
        fflush(stdout);
        _exit(failed);
    }
    CHECK(child_good(child));
}

int main(void) {
    sockets();
    int fd = open_socket(NETLINK_AUDIT), log = open_socket(NETLINK_AUDIT);
    CHECK(fd >= 0 && bind_to(log, 0, 1) == 0 && address_of(log).nl_groups == 1);
    struct audit_status before = state(fd);
    settings(fd);
    /* Linux audits threads that were made since audit is on. */
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        made = failed = 0;
        lists(fd);
        records(fd, log);
        daemon_part(fd);
        if (on_limen()) daemon_dies(fd);
        logins(log);
        fflush(stdout);
        _exit(failed);
    }
    CHECK(child_good(child));
    change(fd, AUDIT_STATUS_BACKLOG_LIMIT, before);
    change(fd, AUDIT_STATUS_FAILURE, before);
    CHECK(change(fd, AUDIT_STATUS_ENABLED, before) == 0);
    return report();
}
