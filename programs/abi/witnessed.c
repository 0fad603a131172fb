/*
 * Audit: what records tell of a call beside the call: its files, its addresses, whom it is for; rules about
 * files, and watches that follow a name. Called by tools/limen/src/test/programs.rs, on every architecture;
 * on Linux it can be run by hand, as root, with audit=1 on the command line, if no daemon runs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/netlink.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "audit.h"
#include "common.h"

#define BASE "/tmp/witnessed"

/* The text of the next record. */
static char *next_text(int log) {
    ssize_t length = recv(log, &answer, sizeof answer - 1, 0);
    if (length < (ssize_t)sizeof answer.header) return NULL;
    ((char *)&answer)[length] = 0;
    return answer.data;
}

static int has(const char *text, const char *part) { return text != NULL && strstr(text, part) != NULL; }

/* --- the records of one call --- */

enum { MOST = 40, LONGEST = 8200 };
static struct {
    int kind;
    char text[LONGEST];
} got[MOST];
static int got_count;

/* Collects the records of the next call whose first record has a text, up to its last. */
static int collect(int log, const char *has) {
    char serial[64];
    got_count = 0;
    char *found = record(log, AUDIT_SYSCALL, has);
    if (!found) return 0;
    snprintf(serial, sizeof serial, "%.*s", (int)strcspn(found, " "), found);
    do {
        if (strncmp(found, serial, strlen(serial)) != 0) continue;
        int kind = answer.header.nlmsg_type;
        if (kind == AUDIT_EOE) return 1;
        if (got_count < MOST) {
            got[got_count].kind = kind;
            snprintf(got[got_count++].text, LONGEST, "%.*s", LONGEST - 1, found);
        }
    } while ((found = readable(log, 3000) ? next_text(log) : NULL) != NULL);
    return 0;
}

/* The n-th record of a kind of those. */
static const char *of_kind(int kind, int n) {
    for (int i = 0; i < got_count; i++)
        if (got[i].kind == kind && n-- == 0) return got[i].text;
    return "";
}

static int count(int kind) {
    int found = 0;
    for (int i = 0; i < got_count; i++) found += got[i].kind == kind;
    return found;
}

/* Whether the n-th record of a file has a name and a type. */
static int item(int n, const char *name, const char *type) {
    char text[256];
    snprintf(text, sizeof text, "item=%d name=%s ", n, name);
    const char *told = of_kind(AUDIT_PATH, n);
    if (!has(told, text)) return 0;
    snprintf(text, sizeof text, " nametype=%s ", type);
    return has(told, text);
}

/* --- rules --- */

/* A rule for all calls of this process, or for one. */
static void rule_for(int call, const char *key) {
    begin_rule(AUDIT_ALWAYS, key);
    memset(made_rule.rule.mask, 0, sizeof made_rule.rule.mask);
    if (call >= 0) made_rule.rule.mask[call / 32] = 1u << call % 32;
    else memset(made_rule.rule.mask, 0xff, sizeof made_rule.rule.mask);
}

static void text_field(unsigned what, const char *text) {
    field(what, AUDIT_EQUAL, strlen(text));
    memcpy(made_rule.text + made_rule.rule.buflen, text, strlen(text));
    made_rule.rule.buflen += strlen(text);
}

#define RECORDED(call, fd, log, key, ...)            \
    do {                                             \
        rule_for(call, key);                         \
        CHECK(rule(fd, AUDIT_ADD_RULE) == 0);        \
        __VA_ARGS__;                                 \
        CHECK(collect(log, "key=\"" key "\""));      \
        CHECK(rule(fd, AUDIT_DEL_RULE) == 0);        \
    } while (0)

/* --- files --- */

static void touch(const char *path) {
    close(open(path, O_CREAT | O_RDWR, 0600));
}

/* Calls that are refused, follow links, and exchange names. `d` has an entry `c`. */
static void more_files(int fd, int log) {
    RECORDED(SYS_openat, fd, log, "excl", openat(AT_FDCWD, "d/c", O_CREAT | O_EXCL | O_RDWR, 0600));
    CHECK(item(0, "\"d/\"", "PARENT") && item(1, "\"d/c\"", "NORMAL") && count(AUDIT_PATH) == 2);
    RECORDED(SYS_mkdirat, fd, log, "exists", mkdirat(AT_FDCWD, "d", 0755));
    CHECK(item(0, "\"" BASE "\"", "PARENT") && count(AUDIT_PATH) == 1);
    RECORDED(SYS_openat, fd, log, "slash", openat(AT_FDCWD, "d/e/", O_CREAT | O_RDWR, 0600));
    CHECK(item(0, "\"d/\"", "PARENT") && count(AUDIT_PATH) == 1);
    RECORDED(SYS_openat, fd, log, "directory", openat(AT_FDCWD, "d", O_CREAT | O_RDWR, 0600));
    CHECK(item(0, "\"" BASE "\"", "PARENT") && item(1, "\"d\"", "NORMAL"));
    RECORDED(SYS_unlinkat, fd, log, "nothing", unlinkat(AT_FDCWD, "d/e", 0));
    CHECK(item(0, "\"d/\"", "PARENT") && count(AUDIT_PATH) == 1);
    RECORDED(SYS_unlinkat, fd, log, "full", unlinkat(AT_FDCWD, "d", AT_REMOVEDIR));
    CHECK(item(0, "\"" BASE "\"", "PARENT") && item(1, "\"d\"", "DELETE") && count(AUDIT_PATH) == 2);
    RECORDED(SYS_openat, fd, log, "unnamed", close(openat(AT_FDCWD, "d", O_TMPFILE | O_RDWR, 0600)));
    CHECK(item(0, "\"d\"", "NORMAL") && has(of_kind(AUDIT_PATH, 0), " mode=0100600 "));
    CHECK(symlink("c", "d/l") == 0);
    RECORDED(SYS_openat, fd, log, "followed", close(openat(AT_FDCWD, "d/l", O_CREAT | O_RDWR, 0600)));
    CHECK(item(0, "\"d/\"", "PARENT") && item(1, "\"d/l\"", "NORMAL") && count(AUDIT_PATH) == 2);
    CHECK(has(of_kind(AUDIT_PATH, 1), " mode=0100600 "));
    RECORDED(SYS_openat, fd, log, "link", openat(AT_FDCWD, "d/l", O_RDWR | O_NOFOLLOW));
    CHECK(item(0, "\"d/l\"", "NORMAL") && has(of_kind(AUDIT_PATH, 0), " mode=0120777 "));
    CHECK(unlink("d/l") == 0);
    touch("d/p");
    RECORDED(SYS_renameat2, fd, log, "exchange",
             CHECK(syscall(SYS_renameat2, AT_FDCWD, "d/p", AT_FDCWD, "d/c", 2) == 0));
    CHECK(item(0, "\"d/\"", "PARENT") && item(1, "\"d/\"", "PARENT") && count(AUDIT_PATH) == 6);
    CHECK(item(2, "\"d/p\"", "DELETE") && item(3, "\"d/c\"", "DELETE"));
    CHECK(item(4, "\"d/c\"", "CREATE") && item(5, "\"d/p\"", "CREATE"));
    RECORDED(SYS_renameat2, fd, log, "over", syscall(SYS_renameat2, AT_FDCWD, "d/p", AT_FDCWD, "d/c", 0));
    CHECK(item(2, "\"d/p\"", "DELETE") && item(3, "\"d/c\"", "DELETE") && item(4, "\"d/c\"", "CREATE"));
    CHECK(count(AUDIT_PATH) == 5);
}

static void files(int fd, int log) {
    char text[128];
    struct stat status;
    CHECK(stat(BASE, &status) == 0);
    RECORDED(SYS_openat, fd, log, "made", close(openat(AT_FDCWD, BASE "/a", O_CREAT | O_RDWR, 0640)));
    CHECK(has(of_kind(AUDIT_SYSCALL, 0), " items=2 ") && count(AUDIT_PATH) == 2 && count(AUDIT_CWD) == 1);
    CHECK(has(of_kind(AUDIT_CWD, 0), " cwd=\"" BASE "\""));
    snprintf(text, sizeof text, " inode=%lu dev=%02x:%02x mode=0%o ouid=0 ogid=0 rdev=00:00 ",
             (unsigned long)status.st_ino, (unsigned)(status.st_dev >> 8), (unsigned)(status.st_dev & 0xff),
             status.st_mode);
    CHECK(item(0, "\"" BASE "/\"", "PARENT") && has(of_kind(AUDIT_PATH, 0), text));
    CHECK(item(1, "\"" BASE "/a\"", "CREATE") && has(of_kind(AUDIT_PATH, 1), " mode=0100640 "));
    CHECK(has(of_kind(AUDIT_PATH, 1), " cap_fp=0 cap_fi=0 cap_fe=0 cap_fver=0 cap_frootid=0"));

    RECORDED(SYS_openat, fd, log, "again", close(openat(AT_FDCWD, "a", O_CREAT | O_RDWR, 0640)));
    CHECK(item(0, "\"" BASE "\"", "PARENT") && item(1, "\"a\"", "NORMAL") && count(AUDIT_PATH) == 2);
    RECORDED(SYS_openat, fd, log, "read", close(openat(AT_FDCWD, "a", O_RDONLY)));
    CHECK(item(0, "\"a\"", "NORMAL") && count(AUDIT_PATH) == 1);
    RECORDED(SYS_openat, fd, log, "none", openat(AT_FDCWD, "no thing", O_RDONLY));
    CHECK(item(0, "6E6F207468696E67", "UNKNOWN") && count(AUDIT_PATH) == 1);
    CHECK(!has(of_kind(AUDIT_PATH, 0), " inode="));

    RECORDED(SYS_mkdirat, fd, log, "mkdir", mkdirat(AT_FDCWD, "d", 0755));
    CHECK(item(0, "\"" BASE "\"", "PARENT") && item(1, "\"d\"", "CREATE") && count(AUDIT_PATH) == 2);
    RECORDED(SYS_linkat, fd, log, "link", linkat(AT_FDCWD, "a", AT_FDCWD, "d/b", 0));
    CHECK(item(0, "\"d/\"", "PARENT") && item(1, "\"a\"", "NORMAL") && item(2, "\"d/b\"", "CREATE"));
    RECORDED(SYS_symlinkat, fd, log, "symlink", symlinkat("there", AT_FDCWD, "l"));
    CHECK(item(0, "\"" BASE "\"", "PARENT") && item(1, "\"there\"", "UNKNOWN") && item(2, "\"l\"", "CREATE"));
    RECORDED(SYS_renameat2, fd, log, "rename", syscall(SYS_renameat2, AT_FDCWD, "a", AT_FDCWD, "d/c", 0));
    CHECK(item(0, "\"d/\"", "PARENT") && item(1, "\"" BASE "\"", "PARENT") && count(AUDIT_PATH) == 4);
    CHECK(item(2, "\"a\"", "DELETE") && item(3, "\"d/c\"", "CREATE"));
    RECORDED(SYS_unlinkat, fd, log, "unlink", unlinkat(AT_FDCWD, "d/b", 0));
    CHECK(item(0, "\"d/\"", "PARENT") && item(1, "\"d/b\"", "DELETE") && count(AUDIT_PATH) == 2);
    int own = open("d/c", O_RDWR);
    RECORDED(SYS_fchmod, fd, log, "fchmod", fchmod(own, 0600));
    CHECK(item(0, "(null)", "NORMAL") && count(AUDIT_PATH) == 1);
    CHECK(has(of_kind(AUDIT_PATH, 0), " mode=0100640 "));
    close(own);
    CHECK(unlink("l") == 0);
    more_files(fd, log);
    CHECK(unlink("d/c") == 0 && rmdir("d") == 0);
}

/* --- what else --- */

/* Objects of System V IPC: whose they are, and what a call makes of that. */
static void objects(int fd, int log) {
#ifdef __arm__
    int set = IPC_SET | 0x100;
#else
    int set = IPC_SET;
#endif
    int id = msgget(IPC_PRIVATE, 0640);
    struct msqid_ds ds;
    CHECK(id >= 0 && msgctl(id, IPC_STAT, &ds) == 0);
    RECORDED(SYS_msgrcv, fd, log, "get", syscall(SYS_msgrcv, id, &ds, 0, 0, IPC_NOWAIT));
    CHECK(has(of_kind(AUDIT_IPC, 0), ": ouid=0 ogid=0 mode=0640") && count(AUDIT_IPC) == 1);
    ds.msg_perm.uid = 7;
    ds.msg_perm.gid = 8;
    ds.msg_perm.mode = 0;
    ds.msg_qbytes = 0x123;
    RECORDED(SYS_msgctl, fd, log, "set", CHECK(syscall(SYS_msgctl, id, set, &ds) == 0));
    CHECK(has(of_kind(AUDIT_IPC, 0), ": ouid=0 ogid=0 mode=0640"));
    CHECK(has(of_kind(AUDIT_IPC_SET_PERM, 0), ": qbytes=123 ouid=7 ogid=8 mode=0"));
    RECORDED(SYS_msgctl, fd, log, "remove", CHECK(syscall(SYS_msgctl, id, IPC_RMID, NULL) == 0));
    CHECK(has(of_kind(AUDIT_IPC, 0), ": ouid=7 ogid=8 mode=0") && count(AUDIT_IPC_SET_PERM) == 0);
}

/* POSIX message queues: what is passed, and which names and files the call is about. */
static void queues(int fd, int log) {
    long attr[8] = { 0, 3, 16, 77 };
    int queue = -1;
    char text[128], room[64];
    const char *name = "witnessed-queue";
    RECORDED(SYS_mq_open, fd, log, "open",
             queue = syscall(SYS_mq_open, name, O_CREAT | O_RDWR | O_NONBLOCK, 0640, attr));
    snprintf(text, sizeof text, ": oflag=0x%x mode=0640 ", O_CREAT | O_RDWR | O_NONBLOCK);
    CHECK(queue >= 0 && has(of_kind(AUDIT_MQ_OPEN, 0), text));
    CHECK(has(of_kind(AUDIT_MQ_OPEN, 0), " mq_flags=0x0 mq_maxmsg=3 mq_msgsize=16 mq_curmsgs=77"));
    CHECK(count(AUDIT_MQ_OPEN) == 1 && count(AUDIT_PATH) == 1 && count(AUDIT_CWD) == 1);
    CHECK(has(of_kind(AUDIT_SYSCALL, 0), " items=2 "));
    CHECK(has(of_kind(AUDIT_PATH, 0), ": item=0 name=\"witnessed-queue\" inode="));
    CHECK(has(of_kind(AUDIT_PATH, 0), " mode=0100640 ") && has(of_kind(AUDIT_PATH, 0), " nametype=CREATE"));
    RECORDED(SYS_mq_open, fd, log, "again", close(syscall(SYS_mq_open, name, O_RDONLY, 0, NULL)));
    CHECK(has(of_kind(AUDIT_MQ_OPEN, 0),
              ": oflag=0x0 mode=0 mq_flags=0x0 mq_maxmsg=0 mq_msgsize=0 mq_curmsgs=0"));
    CHECK(count(AUDIT_PATH) == 1 && has(of_kind(AUDIT_SYSCALL, 0), " items=1 "));
    CHECK(has(of_kind(AUDIT_PATH, 0), ": item=0 name=\"witnessed-queue\" inode="));
    CHECK(has(of_kind(AUDIT_PATH, 0), " nametype=NORMAL"));
    long time[2] = { 5, 7 };
    RECORDED(SYS_mq_timedsend, fd, log, "send",
             CHECK(syscall(SYS_mq_timedsend, queue, "abc", 3, 9, time) == 0));
    snprintf(text, sizeof text, ": mqdes=%d msg_len=3 msg_prio=9 ", queue);
    CHECK(has(of_kind(AUDIT_MQ_SENDRECV, 0), text));
    CHECK(has(of_kind(AUDIT_MQ_SENDRECV, 0), " abs_timeout_sec=5 abs_timeout_nsec=7"));
    CHECK(count(AUDIT_PATH) == 1 && has(of_kind(AUDIT_PATH, 0), ": item=0 name=(null) inode="));
    CHECK(has(of_kind(AUDIT_PATH, 0), " nametype=NORMAL"));
    RECORDED(SYS_mq_timedreceive, fd, log, "receive",
             CHECK(syscall(SYS_mq_timedreceive, queue, room, sizeof room, NULL, NULL) == 3));
    snprintf(text, sizeof text, ": mqdes=%d msg_len=64 msg_prio=0 ", queue);
    CHECK(has(of_kind(AUDIT_MQ_SENDRECV, 0), text));
    CHECK(has(of_kind(AUDIT_MQ_SENDRECV, 0), " abs_timeout_sec=0 abs_timeout_nsec=0"));
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2 };
    RECORDED(SYS_mq_notify, fd, log, "notify", CHECK(syscall(SYS_mq_notify, queue, &event) == 0));
    snprintf(text, sizeof text, ": mqdes=%d sigev_signo=%d", queue, SIGUSR2);
    CHECK(has(of_kind(AUDIT_MQ_NOTIFY, 0), text) && count(AUDIT_PATH) == 0);
    RECORDED(SYS_mq_notify, fd, log, "forget", CHECK(syscall(SYS_mq_notify, queue, NULL) == 0));
    snprintf(text, sizeof text, ": mqdes=%d sigev_signo=0", queue);
    CHECK(has(of_kind(AUDIT_MQ_NOTIFY, 0), text));
    attr[0] = O_NONBLOCK;
    RECORDED(SYS_mq_getsetattr, fd, log, "set", CHECK(syscall(SYS_mq_getsetattr, queue, attr, NULL) == 0));
    snprintf(text, sizeof text, ": mqdes=%d mq_flags=0x%x mq_maxmsg=3 ", queue, O_NONBLOCK);
    CHECK(has(of_kind(AUDIT_MQ_GETSETATTR, 0), text));
    CHECK(has(of_kind(AUDIT_MQ_GETSETATTR, 0), " mq_msgsize=16 mq_curmsgs=77 "));
    RECORDED(SYS_mq_getsetattr, fd, log, "get", CHECK(syscall(SYS_mq_getsetattr, queue, NULL, attr) == 0));
    CHECK(count(AUDIT_MQ_GETSETATTR) == 0);
    RECORDED(SYS_mq_unlink, fd, log, "unlink", CHECK(syscall(SYS_mq_unlink, name) == 0));
    CHECK(count(AUDIT_PATH) == 1 && has(of_kind(AUDIT_PATH, 0), ": item=0 name=\"witnessed-queue\" inode="));
    CHECK(has(of_kind(AUDIT_PATH, 0), " nametype=DELETE") && has(of_kind(AUDIT_SYSCALL, 0), " items=2 "));
    close(queue);
}

/* Whom a signal is for. */
static void targets(int fd, int log) {
    char text[128];
    pid_t whom[] = { getppid(), getpid() };
    for (int i = 0; i < 2; i++) {
        RECORDED(SYS_kill, fd, log, "kill", CHECK(kill(whom[i], 0) == 0));
        snprintf(text, sizeof text, ": opid=%d oauid=-1 ouid=0 oses=-1 ", whom[i]);
        CHECK(has(of_kind(AUDIT_OBJ_PID, 0), text) || !has(of_kind(AUDIT_OBJ_PID, 0), " oauid=-1 "));
        CHECK(has(of_kind(AUDIT_OBJ_PID, 0), " ocomm=\"witnessed\"") && count(AUDIT_OBJ_PID) == 1);
    }
    RECORDED(SYS_kill, fd, log, "group", CHECK(kill(0, 0) == 0));
    CHECK(count(AUDIT_OBJ_PID) >= 2);
    RECORDED(SYS_ptrace, fd, log, "ptrace", syscall(SYS_ptrace, 16 /* PTRACE_ATTACH */, getpid(), 0, 0));
    CHECK(count(AUDIT_OBJ_PID) == 1);
    /* Whose memory is read is not told. */
    struct iovec here = { text, 1 }, there = { made_rule.text, 1 };
    RECORDED(SYS_process_vm_readv, fd, log, "vm",
             CHECK(syscall(SYS_process_vm_readv, getppid(), &here, 1, &there, 1, 0) == 1));
    CHECK(count(AUDIT_OBJ_PID) == 0);
}

static void details(int fd, int log) {
    char text[256];
    int pair[2];
    RECORDED(SYS_pipe2, fd, log, "pair", CHECK(pipe2(pair, 0) == 0));
    snprintf(text, sizeof text, ": fd0=%d fd1=%d", pair[0], pair[1]);
    CHECK(has(of_kind(AUDIT_FD_PAIR, 0), text) && count(AUDIT_CWD) == 0);
    close(pair[0]), close(pair[1]);

    struct sockaddr_un name = { AF_UNIX, BASE "/s" };
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    RECORDED(SYS_bind, fd, log, "bind", CHECK(bind(s, (void *)&name, sizeof name) == 0));
    CHECK(has(of_kind(AUDIT_SOCKADDR, 0), ": saddr=01002F746D702F7769746E6573736564"));
    CHECK(item(0, "\"" BASE "/\"", "PARENT") && item(1, "\"" BASE "/s\"", "CREATE"));
    close(s), unlink(BASE "/s");

    targets(fd, log);
    struct open_how how = { .flags = O_RDONLY | O_DIRECTORY, .resolve = RESOLVE_NO_SYMLINKS };
    RECORDED(SYS_openat2, fd, log, "how", close(syscall(SYS_openat2, AT_FDCWD, ".", &how, sizeof how)));
    snprintf(text, sizeof text, ": oflag=0%o mode=00 resolve=0x4", O_RDONLY | O_DIRECTORY);
    CHECK(has(of_kind(AUDIT_OPENAT2, 0), text) && item(0, "\".\"", "NORMAL"));

    struct { struct open_how how; char more[16]; } longer = { .how = how, .more[15] = 1 };
    RECORDED(SYS_openat2, fd, log, "longer", syscall(SYS_openat2, AT_FDCWD, ".", &longer, sizeof longer));
    CHECK(count(AUDIT_OPENAT2) == 0 && count(AUDIT_PATH) == 0);

    struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct caps[2] = { 0 };
    CHECK(syscall(SYS_capget, &header, caps) == 0);
    RECORDED(SYS_capset, fd, log, "caps", CHECK(syscall(SYS_capset, &header, caps) == 0));
    snprintf(text, sizeof text, ": pid=%d cap_pi=0 cap_pp=%08x%08x cap_pe=", getpid(), caps[1].permitted,
             caps[0].permitted);
    CHECK(has(of_kind(AUDIT_CAPSET, 0), text) && has(of_kind(AUDIT_CAPSET, 0), " cap_pa=0"));

    int file = open("/proc/self/exe", O_RDONLY);
#ifdef SYS_mmap2
    int map = SYS_mmap2;
#else
    int map = SYS_mmap;
#endif
    RECORDED(map, fd, log, "map", munmap(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0), 4096));
    snprintf(text, sizeof text, ": fd=%d flags=0x2", file);
    CHECK(has(of_kind(AUDIT_MMAP, 0), text));
    close(file);
    objects(fd, log);
    queues(fd, log);
}

/* A program's arguments, in pieces if they are long; and the end of a thread, which has no result. */
static void programs(int fd, int log) {
    static char long_one[9001];
    memset(long_one, 'x', sizeof long_one - 1);
    rule_for(SYS_execve, "exec");
    made_rule.rule.fields[0] = AUDIT_PPID;
    CHECK(rule(fd, AUDIT_ADD_RULE) == 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "witnessed", "end", "a b", long_one, NULL);
        _exit(1);
    }
    CHECK(child_good(child) && collect(log, "key=\"exec\""));
    const char *told = of_kind(AUDIT_EXECVE, 0);
    CHECK(has(told, ": argc=4 a0=\"witnessed\" a1=\"end\" a2=612062 a3_len=18000 a3[0]=7878"));
    CHECK(count(AUDIT_EXECVE) == 3 && has(of_kind(AUDIT_EXECVE, 1), " a3[1]=7878"));
    CHECK(item(0, "\"/proc/self/exe\"", "NORMAL") && rule(fd, AUDIT_DEL_RULE) == 0);

    rule_for(SYS_exit_group, "exit");
    made_rule.rule.fields[0] = AUDIT_PPID;
    CHECK(rule(fd, AUDIT_ADD_RULE) == 0);
    child = fork();
    if (child == 0) _exit(7);
    CHECK(waitpid(child, NULL, 0) == child && collect(log, "key=\"exit\""));
    told = of_kind(AUDIT_SYSCALL, 0);
    CHECK(has(told, " a0=7 ") && !has(told, " success=") && !has(told, " exit="));
    CHECK(rule(fd, AUDIT_DEL_RULE) == 0);
}

/* --- rules about files --- */

/* Whether the call before was recorded with a key. */
static int was(int fd, int log, const char *key) {
    static int serial;
    char mark[32], text[64];
    int found = 0;
    snprintf(mark, sizeof mark, "op=mark-%d.", ++serial);
    snprintf(text, sizeof text, " key=\"%s\"", key);
    CHECK(told(fd, AUDIT_LAST_USER_MSG, mark, strlen(mark) + 1) == 0);
    for (const char *at; readable(log, 3000) && (at = next_text(log)) != NULL;) {
        int kind = answer.header.nlmsg_type;
        if (kind == AUDIT_LAST_USER_MSG && strstr(at, mark)) return found;
        found += kind == AUDIT_SYSCALL && strstr(at, text) != NULL;
    }
    CHECK(!"the mark came");
    return -1;
}

/* Whether a call with a key and a rule's end are recorded, in any order. */
static int both(int log, const char *key, const char *gone) {
    int call = 0, went = 0;
    const char *at;
    while (!(call && went) && readable(log, 3000) && (at = next_text(log)) != NULL) {
        call |= answer.header.nlmsg_type == AUDIT_SYSCALL && strstr(at, key) != NULL;
        went |= answer.header.nlmsg_type == AUDIT_CONFIG_CHANGE && strstr(at, gone) != NULL;
    }
    return call && went;
}

static void fields(int fd, int log) {
    struct stat status;
    touch("f");
    CHECK(stat("f", &status) == 0 && chown("f", 77, 88) == 0);
    const struct { unsigned what, value; int calls; } asked[] = {
        { AUDIT_INODE, status.st_ino, 1 }, { AUDIT_INODE, 1u << 30, 0 },
        { AUDIT_OBJ_UID, 77, 1 },          { AUDIT_OBJ_UID, 76, 0 },
        { AUDIT_OBJ_GID, 88, 1 },          { AUDIT_FILETYPE, S_IFREG, 1 },
        { AUDIT_FILETYPE, S_IFBLK, 0 },    { AUDIT_DEVMINOR, status.st_dev & 0xff, 1 },
        { AUDIT_PERM, AUDIT_PERM_READ, 1 }, { AUDIT_PERM, AUDIT_PERM_WRITE | AUDIT_PERM_ATTR, 0 },
    };
    for (unsigned i = 0; i < sizeof asked / sizeof *asked; i++) {
        rule_for(SYS_openat, "field");
        field(asked[i].what, AUDIT_EQUAL, asked[i].value);
        CHECK(rule(fd, AUDIT_ADD_RULE) == 0);
        close(openat(AT_FDCWD, "f", O_RDONLY));
        CHECK(was(fd, log, "field") == asked[i].calls);
        CHECK(rule(fd, AUDIT_DEL_RULE) == 0);
    }
    /* Classes of calls stand in a mask as their calls. */
    rule_for(0, "class");
    memset(made_rule.rule.mask, 0, sizeof made_rule.rule.mask);
    made_rule.rule.mask[63] = 1u << 31;
    CHECK(rule(fd, AUDIT_ADD_RULE) == 0);
    CHECK(unlink("f") == 0);
    CHECK(was(fd, log, "class") == 1 && rule(fd, AUDIT_DEL_RULE) == 0);
    rule_for(-1, "twice");
    text_field(AUDIT_WATCH, BASE "/f");
    text_field(AUDIT_DIR, BASE);
    CHECK(rule(fd, AUDIT_ADD_RULE) == -EINVAL);
    rule_for(-1, "missing");
    text_field(AUDIT_DIR, BASE "/none");
    CHECK(rule(fd, AUDIT_ADD_RULE) == -ENOENT);
    rule_for(-1, "missing");
    text_field(AUDIT_WATCH, BASE "/none/f");
    CHECK(rule(fd, AUDIT_ADD_RULE) == -ENOENT);
    rule_for(-1, "missing");
    text_field(AUDIT_EXE, BASE "/none/f");
    CHECK(rule(fd, AUDIT_ADD_RULE) == -ENOENT);
}

#define WATCHED "\"" BASE "/w/x\" key=\"watch\" list=4 res=1"

/* A watch is of a name, whatever file has it. */
static void watches(int fd, int log) {
    CHECK(mkdir("w", 0700) == 0);
    rule_for(-1, "watch");
    text_field(AUDIT_WATCH, BASE "/w/x");
    field(AUDIT_PERM, AUDIT_EQUAL, AUDIT_PERM_WRITE | AUDIT_PERM_ATTR);
    CHECK(rule(fd, AUDIT_ADD_RULE) == 0 && rule(fd, AUDIT_ADD_RULE) == -EEXIST);
    touch("w/other");
    CHECK(was(fd, log, "watch") == 0);
    touch("w/x");
    CHECK(was(fd, log, "watch") == 1);
    close(open("w/x", O_RDONLY));
    CHECK(was(fd, log, "watch") == 0);
    CHECK(chmod("w/x", 0644) == 0 && was(fd, log, "watch") == 1);
    CHECK(rename("w/other", "w/x") == 0 && was(fd, log, "watch") == 1);
    CHECK(chmod("w/x", 0600) == 0 && was(fd, log, "watch") == 1);
    CHECK(unlink("w/x") == 0 && was(fd, log, "watch") == 1);
    touch("w/x");
    CHECK(was(fd, log, "watch") == 1);
    CHECK(rename("w", "v") == 0);
    CHECK(record(log, AUDIT_CONFIG_CHANGE, "op=remove_rule path=" WATCHED) != NULL);
    CHECK(rule(fd, AUDIT_DEL_RULE) == -ENOENT);
    CHECK(unlink("v/x") == 0 && rmdir("v") == 0);
}

/* Rules about names in a file system go with it. */
static void unmounts(int fd, int log) {
    CHECK(mkdir("w", 0700) == 0 && mount("none", BASE "/w", "tmpfs", 0, NULL) == 0);
    rule_for(-1, "watch");
    text_field(AUDIT_WATCH, BASE "/w/x");
    CHECK(rule(fd, AUDIT_ADD_RULE) == 0);
    touch("w/x");
    CHECK(was(fd, log, "watch") == 1 && umount2(BASE "/w", 0) == 0);
    CHECK(record(log, AUDIT_CONFIG_CHANGE, "op=remove_rule path=" WATCHED) != NULL);
    CHECK(rule(fd, AUDIT_DEL_RULE) == -ENOENT);
    CHECK(mount("none", BASE "/w", "tmpfs", 0, NULL) == 0);
    rule_for(-1, "tree");
    text_field(AUDIT_DIR, BASE "/w");
    CHECK(rule(fd, AUDIT_ADD_RULE) == 0);
    touch("w/x");
    CHECK(was(fd, log, "tree") == 1 && umount2(BASE "/w", 0) == 0);
    const char *gone = "op=remove_rule dir=\"" BASE "/w\" key=\"tree\" list=4 res=1";
    CHECK(both(log, " key=\"tree\"", gone));
    CHECK(rule(fd, AUDIT_DEL_RULE) == -ENOENT && rmdir("w") == 0);
}

static void trees(int fd, int log) {
    CHECK(mkdir("t", 0700) == 0 && mkdir("t/u", 0700) == 0 && mkdir("m", 0700) == 0);
    rule_for(-1, "tree");
    text_field(AUDIT_DIR, BASE "/t");
    field(AUDIT_PERM, AUDIT_EQUAL, AUDIT_PERM_WRITE | AUDIT_PERM_ATTR);
    CHECK(rule(fd, AUDIT_ADD_RULE) == 0);
    touch("t/u/y");
    CHECK(was(fd, log, "tree") == 1 && chmod("t/u/y", 0644) == 0 && was(fd, log, "tree") == 1);
    touch("m/z");
    CHECK(was(fd, log, "tree") == 0 && unlink("m/z") == 0);
    struct {
        unsigned sizes[2];
        char text[2 * sizeof BASE + 4];
    } same = { { sizeof BASE + 1, sizeof BASE + 1 }, BASE "/t" BASE "/m" };
    CHECK(told(fd, AUDIT_MAKE_EQUIV, &same, 8 + 2 * (sizeof BASE + 1)) == 0);
    touch("m/z");
    CHECK(was(fd, log, "tree") == 1 && unlink("m/z") == 0);
    CHECK(told(fd, AUDIT_TRIM, NULL, 0) == 0);
    CHECK(unlink("t/u/y") == 0 && rmdir("t/u") == 0 && was(fd, log, "tree") == 3 && rmdir("t") == 0);
    const char *gone = "op=remove_rule dir=\"" BASE "/t\" key=\"tree\" list=4 res=1";
    CHECK(record(log, AUDIT_CONFIG_CHANGE, gone) != NULL);
    CHECK(rule(fd, AUDIT_DEL_RULE) == -ENOENT && rmdir("m") == 0);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "end") == 0) return 0;
    int fd = open_socket(NETLINK_AUDIT), log = open_socket(NETLINK_AUDIT);
    CHECK(fd >= 0 && bind_to(log, 0, 1) == 0);
    mkdir(BASE, 0755);
    CHECK(chdir(BASE) == 0);
    struct audit_status before = state(fd);
    CHECK(change(fd, AUDIT_STATUS_ENABLED, (struct audit_status){ .enabled = 1 }) == 0);
    CHECK(change(fd, AUDIT_STATUS_BACKLOG_LIMIT, (struct audit_status){ .backlog_limit = 777 }) == 0);
    /* Linux audits threads that were made since audit is on. */
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        made = failed = 0;
        files(fd, log);
        details(fd, log);
        programs(fd, log);
        fields(fd, log);
        watches(fd, log);
        unmounts(fd, log);
        trees(fd, log);
        fflush(stdout);
        _exit(failed);
    }
    CHECK(child_good(child));
    change(fd, AUDIT_STATUS_BACKLOG_LIMIT, before);
    CHECK(change(fd, AUDIT_STATUS_ENABLED, before) == 0);
    CHECK(chdir("/") == 0 && rmdir(BASE) == 0);
    return report();
}
