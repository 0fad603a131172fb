/*
 * UTS, IPC, network and cgroup namespaces, and what all kinds have in common: flags of clone, clone3 and
 * unshare, the files of nsfs, setns. Time namespaces, if there are any. As root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <mqueue.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "common.h"

#define FAILS(call, error) CHECK((errno = 0, (long)(call) == -1 && errno == (error)))
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
#ifndef CLONE_NEWCGROUP
#define CLONE_NEWCGROUP 0x02000000
#endif
#define NS_USERNS _IO(0xb7, 1)
#define NS_PARENT _IO(0xb7, 2)
#define NS_TYPE _IO(0xb7, 3)
#define NS_OWNER _IO(0xb7, 4)
#define PIDFD_UTS _IO(0xff, 10)
#define NSFS 0x6e736673

struct clone3 {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid,
        set_tid_size, cgroup;
};

static int pidfd_of(pid_t pid) { return syscall(SYS_pidfd_open, pid, 0); }

/* Runs `f` in a child; what it checks counts. */
static void in_child(void (*f)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        failed = 0;
        f();
        _exit(failed != 0);
    }
    CHECK(child_good(child));
}

static unsigned long inode(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 ? (unsigned long)st.st_ino : 0;
}

static unsigned long own(const char *kind) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/ns/%s", kind);
    return inode(path);
}

static int open_own(const char *kind) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/ns/%s", kind);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static int read_text(const char *path, char *to, size_t size) {
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, to, size - 1);
    if (fd >= 0) close(fd);
    to[n > 0 ? n : 0] = 0;
    return n >= 0;
}

static int is_host(const char *name) {
    struct utsname u;
    char text[80], line[80];
    snprintf(line, sizeof line, "%s\n", name);
    return uname(&u) == 0 && strcmp(u.nodename, name) == 0 &&
           read_text("/proc/sys/kernel/hostname", text, sizeof text) && strcmp(text, line) == 0;
}

/* What the files of nsfs say. */
static void files(void) {
    static const struct { const char *name; int flag; } kinds[] = {
        { "cgroup", CLONE_NEWCGROUP }, { "ipc", CLONE_NEWIPC }, { "mnt", CLONE_NEWNS },
        { "net", CLONE_NEWNET },
        { "pid", CLONE_NEWPID }, { "user", CLONE_NEWUSER }, { "uts", CLONE_NEWUTS },
    };
    for (unsigned n = 0; n < sizeof kinds / sizeof *kinds; n++) {
        char path[64], text[64], want[64];
        snprintf(path, sizeof path, "/proc/self/ns/%s", kinds[n].name);
        ssize_t len = readlink(path, text, sizeof text - 1);
        text[len > 0 ? len : 0] = 0;
        snprintf(want, sizeof want, "%s:[%lu]", kinds[n].name, inode(path));
        CHECK(strcmp(text, want) == 0);
        int fd = open(path, O_RDONLY);
        struct stat st;
        struct statfs fs;
        CHECK(fd >= 0 && fstat(fd, &st) == 0 && st.st_ino == inode(path) && S_ISREG(st.st_mode));
        CHECK((st.st_mode & 07777) == 0444 && st.st_nlink == 1 && st.st_uid == 0);
        CHECK(fstatfs(fd, &fs) == 0 && fs.f_type == NSFS);
        CHECK(ioctl(fd, NS_TYPE) == kinds[n].flag);
        FAILS(read(fd, text, 1), EINVAL);
        FAILS(ioctl(fd, _IO(0xb7, 99)), ENOTTY);
        close(fd);
        FAILS(open(path, O_RDONLY | O_CREAT | O_EXCL, 0600), EEXIST);
    }
    int uts = open_own("uts"), user = open_own("user"), fd = ioctl(uts, NS_USERNS);
    struct stat a, b;
    CHECK(fd >= 0 && fstat(fd, &a) == 0 && fstat(user, &b) == 0 && a.st_ino == b.st_ino
        && a.st_dev == b.st_dev);
    CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC);
    close(fd);
    unsigned id = 77;
    CHECK(ioctl(user, NS_OWNER, &id) == 0 && id == 0);
    FAILS(ioctl(user, NS_OWNER, NULL), EFAULT);
    FAILS(ioctl(uts, NS_OWNER, &id), EINVAL);
    FAILS(ioctl(uts, NS_PARENT), EINVAL);
    close(uts), close(user);
    FAILS(open("/proc/self/ns/nothing", O_RDONLY), ENOENT);
}

/* Which calls are refused. */
static void refused(void) {
    int uts = open_own("uts");
    FAILS(setns(-1, 0), EBADF);
    FAILS(setns(uts, CLONE_NEWIPC), EINVAL);
    FAILS(setns(uts, CLONE_NEWUTS | CLONE_NEWIPC), EINVAL);
    int null = open("/dev/null", O_RDONLY), pidfd = pidfd_of(getpid());
    FAILS(setns(null, 0), EINVAL);
    FAILS(setns(pidfd, 0), EINVAL);
    FAILS(setns(pidfd, CLONE_VM), EINVAL);
    FAILS(setns(pidfd, CLONE_NEWUTS | CLONE_FS), EINVAL);
    FAILS(unshare(0x1), EINVAL);
    CHECK(setns(uts, 0) == 0 && setns(uts, CLONE_NEWUTS) == 0
        && setns(pidfd, CLONE_NEWUTS | CLONE_NEWIPC) == 0);
    struct clone3 args = { .flags = CLONE_NEWIPC | CLONE_SYSVSEM, .exit_signal = SIGCHLD };
    FAILS(syscall(SYS_clone3, &args, sizeof args), EINVAL);
    args.flags = CLONE_NEWNS | CLONE_FS;
    FAILS(syscall(SYS_clone3, &args, sizeof args), EINVAL);
    int path = open("/proc/self/ns/uts", O_PATH);
    FAILS(setns(path, 0), EBADF);
    close(path), close(null), close(pidfd);
    CHECK(setgid(1000) == 0 && setuid(1000) == 0);
    FAILS(unshare(CLONE_NEWUTS), EPERM);
    FAILS(unshare(CLONE_NEWIPC), EPERM);
    FAILS(unshare(CLONE_NEWNET), EPERM);
    FAILS(unshare(CLONE_NEWCGROUP), EPERM);
    FAILS(setns(uts, 0), EPERM);
    args = (struct clone3){ .flags = CLONE_NEWUTS, .exit_signal = SIGCHLD };
    FAILS(syscall(SYS_clone3, &args, sizeof args), EPERM);
    args.flags = CLONE_NEWIPC | CLONE_SYSVSEM;
    FAILS(syscall(SYS_clone3, &args, sizeof args), EPERM);
    FAILS(open("/proc/1/ns/uts", O_RDONLY), EACCES);
    FAILS(readlink("/proc/1/ns/uts", (char[9]){0}, 8), EACCES);
    FAILS(sethostname("x", 1), EPERM);
}

static void names(void) {
    int first = open_own("uts");
    unsigned long number = own("uts");
    CHECK(sethostname("outer", 5) == 0 && setdomainname("od", 2) == 0 && is_host("outer"));
    int reader = open("/proc/sys/kernel/hostname", O_RDONLY);
    CHECK(unshare(CLONE_NEWUTS) == 0 && own("uts") != number && is_host("outer"));
    CHECK(sethostname("inner", 5) == 0 && is_host("inner"));
    char text[80] = "";
    CHECK(pread(reader, text, 79, 0) == 6 && strcmp(text, "inner\n") == 0);
    set("kernel/hostname", "written\n");
    set("kernel/domainname", "dd");
    struct utsname u;
    CHECK(is_host("written") && uname(&u) == 0 && strcmp(u.domainname, "dd") == 0);
    int second = open_own("uts");
    CHECK(setns(first, CLONE_NEWUTS) == 0 && own("uts") == number && is_host("outer"));
    CHECK(uname(&u) == 0 && strcmp(u.domainname, "od") == 0);
    CHECK(setns(second, 0) == 0 && is_host("written"));
    /* A child is where its parent is; another process sees it there. */
    int gate[2];
    CHECK(pipe(gate) == 0);
    pid_t child = fork();
    if (child == 0) {
        char c;
        close(gate[1]);
        _exit(!is_host("written") || read(gate[0], &c, 1) != 0);
    }
    CHECK(setns(first, 0) == 0);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/uts", child);
    CHECK(inode(path) != number && inode(path) != 0);
    int pidfd = pidfd_of(child), fd = ioctl(pidfd, PIDFD_UTS, 0);
    if (fd >= 0) {
        struct stat st;
        CHECK(fstat(fd, &st) == 0 && st.st_ino == inode(path));
        FAILS(ioctl(pidfd, PIDFD_UTS, 1), EINVAL);
        close(fd);
    }
    CHECK(setns(pidfd, CLONE_NEWUTS) == 0 && is_host("written"));
    close(gate[0]), close(gate[1]);
    CHECK(child_good(child));
    FAILS(setns(pidfd, CLONE_NEWUTS), ESRCH);
    if (fd >= 0) FAILS(ioctl(pidfd, PIDFD_UTS, 0), ESRCH);
    close(pidfd);
    /* clone and clone3. */
    struct clone3 args = { .flags = CLONE_NEWUTS, .exit_signal = SIGCHLD };
    child = syscall(SYS_clone3, &args, sizeof args);
    if (child == 0) _exit(!is_host("written") || sethostname("third", 5) || !is_host("third"));
    CHECK(child > 0 && child_good(child) && is_host("written"));
    /* A thread of several may, and the others stay. */
    CHECK(sethostname("", 0) == 0 && is_host(""));
    char long_name[80];
    memset(long_name, 'a', sizeof long_name);
    FAILS(sethostname(long_name, 65), EINVAL);
    FAILS(syscall(SYS_sethostname, long_name, -1), EINVAL);
    CHECK(sethostname(long_name, 64) == 0 && uname(&u) == 0 && strlen(u.nodename) == 64);
    close(first), close(second), close(reader);
}

/* A namespace lives as long as a file of it does, also where that is mounted. */
static void mounted(void) {
    CHECK(unshare(CLONE_NEWUTS) == 0 && sethostname("kept", 4) == 0);
    unsigned long number = own("uts");
    CHECK(mkdir("/tmp/ns.dir", 0700) == 0 || errno == EEXIST);
    int fd = open("/tmp/ns.dir/file", O_CREAT | O_RDWR, 0600);
    close(fd);
    if (mount("/proc/self/ns/uts", "/tmp/ns.dir/file", NULL, MS_BIND, NULL) != 0) {
        CHECK(!"a namespace can be mounted");
        return;
    }
    CHECK(unshare(CLONE_NEWUTS) == 0 && sethostname("other", 5) == 0 && own("uts") != number);
    CHECK(inode("/tmp/ns.dir/file") == number);
    fd = open("/tmp/ns.dir/file", O_RDONLY);
    CHECK(fd >= 0 && ioctl(fd, NS_TYPE) == CLONE_NEWUTS && setns(fd, 0) == 0 && is_host("kept"));
    close(fd);
    CHECK(umount("/tmp/ns.dir/file") == 0 && inode("/tmp/ns.dir/file") != number && is_host("kept"));
    CHECK(unlink("/tmp/ns.dir/file") == 0 && rmdir("/tmp/ns.dir") == 0);
}

static int lines(const char *path) {
    char text[8192];
    int count = -1;
    if (!read_text(path, text, sizeof text)) return -1;
    for (char *at = text; *at; at++) count += *at == '\n';
    return count;
}

/* System V objects of their own, and limits. */
static void objects(void) {
    key_t key = 0x6e73000 + getpid();
    int shm = shmget(key, 4096, IPC_CREAT | 0600), sem = semget(key, 1, IPC_CREAT | 0600);
    int msg = msgget(key, IPC_CREAT | 0600), first = open_own("ipc");
    CHECK(shm >= 0 && sem >= 0 && msg >= 0);
    struct { long type; char text[4]; } message = { 1, "abc" };
    CHECK(msgsnd(msg, &message, 4, 0) == 0);
    char *at = shmat(shm, NULL, 0);
    CHECK(at != (void *)-1);
    strcpy(at, "shared");
    int outer_text = open("/proc/sysvipc/shm", O_RDONLY);
    struct sembuf up = { 0, 3, SEM_UNDO };
    CHECK(semop(sem, &up, 1) == 0 && semctl(sem, 0, GETVAL) == 3);
    int reader = open("/proc/sys/kernel/msgmni", O_RDWR);
    char before[32];
    CHECK(read_text("/proc/sys/kernel/msgmni", before, sizeof before));

    CHECK(unshare(CLONE_NEWIPC) == 0);
    FAILS(shmget(key, 0, 0), ENOENT);
    FAILS(semget(key, 0, 0), ENOENT);
    FAILS(msgget(key, 0), ENOENT);
    FAILS(semctl(sem, 0, GETVAL), EINVAL);
    FAILS(msgrcv(msg, &message, 4, 0, IPC_NOWAIT), EINVAL);
    FAILS(shmat(shm, NULL, 0), EINVAL);
    CHECK(lines("/proc/sysvipc/shm") == 0 && lines("/proc/sysvipc/sem") == 0
        && lines("/proc/sysvipc/msg") == 0);
    CHECK(strcmp(at, "shared") == 0);
    /* A text is that of the namespace in which it was opened. */
    char text[8192];
    ssize_t n = pread(outer_text, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    CHECK(strchr(text, '\n') && strchr(text, '\n')[1]);
    /* Attachments of a segment elsewhere can be taken away. */
    CHECK(shmdt(at) == 0);
    int own_shm = shmget(key, 8192, IPC_CREAT | 0600), own_sem = semget(key, 2, IPC_CREAT | 0600);
    int own_msg = msgget(key, IPC_CREAT | 0600);
    CHECK(own_shm >= 0 && own_sem >= 0 && own_msg >= 0 && lines("/proc/sysvipc/shm") == 1);
    CHECK(lines("/proc/sysvipc/sem") == 1 && lines("/proc/sysvipc/msg") == 1);
    /* Limits. */
    CHECK(read_text("/proc/sys/kernel/msgmni", text, sizeof text) && strcmp(text, "32000\n") == 0);
    set("kernel/msgmni", "1");
    FAILS(msgget(IPC_PRIVATE, 0600), ENOSPC);
    CHECK(pread(reader, text, 31, 0) > 0 && strncmp(text, before, strlen(before)) == 0);
    set("kernel/shmmax", "10000");
    FAILS(shmget(IPC_PRIVATE, 10001, 0600), EINVAL);
    set("kernel/sem", "3 4 5 6");
    FAILS(semget(IPC_PRIVATE, 4, 0600), EINVAL);
    struct seminfo info;
    CHECK(semctl(0, 0, IPC_INFO, &info) >= 0 && info.semmsl == 3 && info.semmni == 6);
    at = shmat(own_shm, NULL, 0);
    CHECK(at != (void *)-1);
    strcpy(at, "alone");

    /* Back: what was left is gone but for the attachment, and what was to be undone was. */
    CHECK(setns(first, CLONE_NEWIPC) == 0);
    CHECK(strcmp(at, "alone") == 0);
    at[4096] = 1;
    CHECK(shmget(key, 0, 0) == shm && semget(key, 0, 0) == sem && msgget(key, 0) == msg);
    CHECK(semctl(sem, 0, GETVAL) == 0);
    CHECK(msgrcv(msg, &message, 4, 0, IPC_NOWAIT) == 4 && strcmp(message.text, "abc") == 0);
    CHECK(read_text("/proc/sys/kernel/msgmni", text, sizeof text) && strcmp(text, before) == 0);
    struct shmid_ds ds;
    CHECK(shmctl(shm, IPC_STAT, &ds) == 0 && ds.shm_nattch == 0);
    CHECK(strcmp(at, "alone") == 0 && shmdt(at) == 0);
    CHECK(shmctl(shm, IPC_RMID, NULL) == 0 && semctl(sem, 0, IPC_RMID) == 0
        && msgctl(msg, IPC_RMID, NULL) == 0);
    close(first), close(outer_text), close(reader);
}

/* A fork keeps the mapping of a segment whose namespace has gone. */
static void attached(void) {
    int first = open_own("ipc");
    CHECK(unshare(CLONE_NEWIPC) == 0);
    char *at = shmat(shmget(IPC_PRIVATE, 4096, 0600), NULL, 0);
    CHECK(at != (void *)-1);
    int sems[2] = { semget(IPC_PRIVATE, 1, 0600), semget(1, 1, IPC_CREAT | 0600) };
    CHECK(sems[0] >= 0 && sems[1] >= 0);
    struct sembuf up = { 0, 1, SEM_UNDO };
    CHECK(semop(sems[0], &up, 1) == 0);
    CHECK(setns(first, 0) == 0);
    pid_t child = fork();
    if (child == 0) {
        strcpy(at, "child");
        _exit(shmdt(at) != 0);
    }
    CHECK(child_good(child) && strcmp(at, "child") == 0 && shmdt(at) == 0);
    close(first);
}

static mqd_t queue(const char *name, int flags, int count) {
    struct mq_attr attr = { .mq_maxmsg = count, .mq_msgsize = 8 };
    return mq_open(name, flags, 0600, &attr);
}

static void queues(void) {
    mqd_t outer = queue("/ns.queue", O_CREAT | O_RDWR, 2);
    CHECK(outer != -1 && mq_send(outer, "outer", 6, 0) == 0);
    int first = open_own("ipc");
    CHECK(unshare(CLONE_NEWIPC) == 0);
    FAILS(queue("/ns.queue", O_RDWR, 2), ENOENT);
    FAILS(mq_unlink("/ns.queue"), ENOENT);
    mqd_t inner = queue("/ns.queue", O_CREAT | O_EXCL | O_RDWR, 3);
    struct mq_attr attr;
    CHECK(inner != -1 && mq_getattr(inner, &attr) == 0 && attr.mq_curmsgs == 0 && attr.mq_maxmsg == 3);
    char text[16];
    CHECK(mq_receive(outer, text, 8, NULL) == 6 && strcmp(text, "outer") == 0);
    CHECK(mq_send(inner, "inner", 6, 0) == 0);
    CHECK(read_text("/proc/sys/fs/mqueue/msg_max", text, sizeof text) && strcmp(text, "10\n") == 0);
    set("fs/mqueue/queues_max", "2");
    CHECK(read_text("/proc/sys/fs/mqueue/queues_max", text, sizeof text) && strcmp(text, "2\n") == 0);
    /* The directory that is mounted is that of the namespace, and stays when that goes. */
    CHECK(mkdir("/tmp/ns.mq", 0700) == 0 || errno == EEXIST);
    CHECK(mount("none", "/tmp/ns.mq", "mqueue", 0, NULL) == 0);
    struct stat st;
    CHECK(stat("/tmp/ns.mq/ns.queue", &st) == 0 && st.st_size == 80);
    CHECK(stat("/tmp/ns.mq", &st) == 0 && st.st_size == 60 && (st.st_mode & 07777) == 01777);
    int made = open("/tmp/ns.mq/made", O_CREAT | O_RDWR, 0600);
    CHECK(made >= 0 && mq_unlink("/made") == 0);
    close(made);
    CHECK(setns(first, 0) == 0);
    CHECK(read_text("/proc/sys/fs/mqueue/queues_max", text, sizeof text) && strcmp(text, "2\n") != 0);
    CHECK(SOON(open("/tmp/ns.mq/late", O_CREAT | O_RDWR, 0600) == -1 && errno == EACCES));
    CHECK(mq_receive(inner, text, 8, NULL) == 6 && strcmp(text, "inner") == 0);
    CHECK(stat("/tmp/ns.mq/ns.queue", &st) == 0);
    CHECK(mq_close(inner) == 0 && umount("/tmp/ns.mq") == 0 && rmdir("/tmp/ns.mq") == 0);
    CHECK(mq_unlink("/ns.queue") == 0 && mq_close(outer) == 0);
    close(first);
}

static int bound(const char *name, int type) {
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    memcpy(to.sun_path + 1, name, strlen(name));
    int fd = socket(AF_UNIX, type, 0);
    if (bind(fd, (void *)&to, offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name)) == 0) return fd;
    close(fd);
    return -1;
}

static int to_name(int fd, const char *name) {
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    memcpy(to.sun_path + 1, name, strlen(name));
    return connect(fd, (void *)&to, offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
}

struct nl_address { unsigned short family, pad; unsigned pid, groups; };

static int netlink_bound(unsigned port) {
    struct nl_address a = { .family = AF_NETLINK, .pid = port };
    int fd = socket(AF_NETLINK, SOCK_RAW, 2);
    if (bind(fd, (void *)&a, sizeof a) == 0) return fd;
    close(fd);
    return -1;
}

static void networks(void) {
    int first = open_own("net");
    int outer = bound("ns.name", SOCK_STREAM);
    CHECK(outer >= 0 && listen(outer, 4) == 0);
    FAILS(bound("ns.name", SOCK_STREAM), EADDRINUSE);
    int by_path = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un path = { .sun_family = AF_UNIX, .sun_path = "/tmp/ns.sock" };
    unlink(path.sun_path);
    CHECK(bind(by_path, (void *)&path, sizeof path) == 0 && listen(by_path, 4) == 0);
    int before = socket(AF_UNIX, SOCK_STREAM, 0), link = netlink_bound(4242);
    CHECK(link >= 0);
    FAILS(netlink_bound(4242), EADDRINUSE);
    char text[32], outside[32];
    int backlog = open("/proc/sys/net/core/somaxconn", O_RDWR);
    CHECK(backlog >= 0 && pread(backlog, outside, 31, 0) > 0);

    CHECK(unshare(CLONE_NEWNET) == 0);
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    FAILS(to_name(s, "ns.name"), ECONNREFUSED);
    /* A socket belongs where it was made. */
    CHECK(to_name(before, "ns.name") == 0);
    CHECK(connect(s, (void *)&path, sizeof path) == 0);
    int inner = bound("ns.name", SOCK_STREAM), own_link = netlink_bound(4242);
    CHECK(inner >= 0 && own_link >= 0 && listen(inner, 4) == 0);
    int d[2] = { bound("ns.dgram", SOCK_DGRAM), bound("ns.other", SOCK_DGRAM) };
    CHECK(to_name(d[1], "ns.dgram") == 0 && send(d[1], "x", 1, 0) == 1 && recv(d[0], text, 4, 0) == 1);
    /* Netlink: a message goes to the port of the same namespace. */
    struct nl_address to = { .family = AF_NETLINK, .pid = 4242 };
    struct { unsigned len; unsigned short type, flags; unsigned seq, pid; } head = { 16, 100, 0, 1, 0 };
    int sender = socket(AF_NETLINK, SOCK_RAW, 2);
    CHECK(sendto(sender, &head, 16, 0, (void *)&to, sizeof to) == 16);
    CHECK(recv(own_link, text, 32, MSG_DONTWAIT) == 16);
    FAILS(recv(link, text, 32, MSG_DONTWAIT), EAGAIN);
    set("net/core/somaxconn", "77");
    CHECK(read_text("/proc/sys/net/core/somaxconn", text, sizeof text) && strcmp(text, "77\n") == 0);
    memset(text, 0, sizeof text);
    CHECK(pread(backlog, text, 31, 0) > 0 && strncmp(text, outside, strcspn(outside, "\n") + 1) == 0);
    CHECK(setns(first, CLONE_NEWNET) == 0);
    close(s);
    s = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(to_name(s, "ns.name") == 0 && accept(outer, NULL, NULL) >= 0);
    fcntl(inner, F_SETFL, O_NONBLOCK);
    FAILS(accept(inner, NULL, NULL), EAGAIN);
    CHECK(read_text("/proc/sys/net/core/somaxconn", text, sizeof text) && strcmp(text, outside) == 0);
    unlink(path.sun_path);
    close(first);
}

static void cgroups(void) {
    int first = open_own("cgroup");
    unsigned long number = own("cgroup");
    CHECK(unshare(CLONE_NEWCGROUP) == 0 && own("cgroup") != number && own("cgroup") != 0);
    CHECK(setns(first, CLONE_NEWCGROUP) == 0 && own("cgroup") == number);
    close(first);
}

/* Several at once, by a pidfd: all or none. */
static void several(void) {
    int ready[2], gate[2];
    CHECK(pipe(ready) == 0 && pipe(gate) == 0);
    pid_t child = fork();
    if (child == 0) {
        char c;
        close(gate[1]);
        if (unshare(CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWCGROUP)
            || sethostname("several", 7))
            _exit(1);
        if (write(ready[1], "x", 1) != 1 || read(gate[0], &c, 1) != 0) _exit(1);
        _exit(0);
    }
    char c;
    CHECK(read(ready[0], &c, 1) == 1);
    int pidfd = pidfd_of(child);
    unsigned long before[3] = { own("uts"), own("ipc"), own("net") };
    /* A user namespace in which it is already cannot be joined. */
    FAILS(setns(pidfd, CLONE_NEWUSER | CLONE_NEWUTS | CLONE_NEWIPC), EINVAL);
    CHECK(own("uts") == before[0] && own("ipc") == before[1]);
    CHECK(setns(pidfd, CLONE_NEWUTS | CLONE_NEWIPC) == 0 && is_host("several"));
    CHECK(own("uts") != before[0] && own("ipc") != before[1] && own("net") == before[2]);
    close(gate[1]), close(gate[0]);
    CHECK(child_good(child));
    /* It is alive because this process is in it. */
    CHECK(is_host("several"));
}

/* Namespaces that are made and left, over and over. */
static void storm(void) {
    unsigned long number = own("uts");
    for (int n = 0; n < 200; n++) {
        pid_t child = fork();
        if (child == 0) {
            int bad = unshare(CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWCGROUP);
            bad |= shmget(1, 4096, IPC_CREAT | 0600) < 0 || msgget(1, IPC_CREAT | 0600) < 0;
            bad |= queue("/storm", O_CREAT | O_RDWR, 1) == -1;
            _exit(bad != 0);
        }
        if (!child_good(child)) {
            CHECK(!"a child of the storm");
            break;
        }
    }
    CHECK(own("uts") == number);
}

/* What rights and limits are of the machine, and what of a namespace. */

/* Another user, without capabilities. */
static void be_user(void) {
    CHECK(setgroups(0, NULL) == 0 && setgid(1000) == 0 && setuid(1000) == 0);
    prctl(PR_SET_DUMPABLE, 1);
}

/* The capabilities that this process has from now on: those of `keep`, if it has them. */
static void only(uint64_t keep) {
    struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct sets[2];
    CHECK(syscall(SYS_capget, &head, sets) == 0);
    for (int n = 0; n < 2; n++) {
        sets[n].permitted &= (uint32_t)(keep >> 32 * n);
        sets[n].effective = sets[n].permitted;
        sets[n].inheritable = 0;
    }
    CHECK(syscall(SYS_capset, &head, sets) == 0);
}

/* Another user who has these capabilities. */
static void be_user_with(uint64_t keep) {
    CHECK(prctl(PR_SET_KEEPCAPS, 1) == 0);
    be_user();
    only(keep);
}

/* Whether users may make user namespaces. */
static int users_make_namespaces(void) {
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        be_user();
        _exit(unshare(CLONE_NEWUSER) ? errno : 0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    if (status == 0) return 1;
    printf("skipped: users cannot make user namespaces (%s)\n", strerror(WEXITSTATUS(status)));
    return 0;
}

/* Whoever is root in some namespace locks no more memory than others. */
static void locked_segments(void) {
    struct rlimit limit = { 65536, 65536 };
    CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
    be_user();
    CHECK(unshare(CLONE_NEWUSER | CLONE_NEWIPC) == 0);
    int small = shmget(IPC_PRIVATE, 4096, 0600), large = shmget(IPC_PRIVATE, 1 << 20, 0600);
    CHECK(small >= 0 && large >= 0);
    CHECK(shmctl(small, SHM_LOCK, NULL) == 0 && shmctl(small, SHM_UNLOCK, NULL) == 0);
    FAILS(shmctl(large, SHM_LOCK, NULL), ENOMEM);
    limit.rlim_cur = 0;
    CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
    FAILS(shmctl(small, SHM_LOCK, NULL), ENOMEM);
}

/* A setting without effect does not tell one namespace of another. */
static void no_setting(void) {
    char text[8] = "";
    int outer = open("/proc/sys/kernel/auto_msgmni", O_RDWR);
    CHECK(unshare(CLONE_NEWIPC) == 0);
    int inner = open("/proc/sys/kernel/auto_msgmni", O_RDWR);
    CHECK(pwrite(inner, "1", 1, 0) == 1 && pread(outer, text, 7, 0) == 2 && strcmp(text, "0\n") == 0);
    CHECK(pread(inner, text, 7, 0) == 2 && strcmp(text, "0\n") == 0);
    FAILS(pwrite(inner, "2", 1, 0), EINVAL);
    CHECK(pwrite(outer, "1", 1, 0) == 1 && pread(outer, text, 7, 0) == 2 && strcmp(text, "0\n") == 0);
}

/* The number of a new file system of this kind. It is gone afterwards. */
static unsigned instance(int queues) {
    int fd[2];
    unsigned number = 0;
    CHECK(pipe(fd) == 0);
    pid_t child = fork();
    if (child == 0) {
        struct stat st = { 0 };
        int bad = unshare(CLONE_NEWIPC | CLONE_NEWNS);
        if (queues) {
            bad |= fstat(queue("/instance", O_CREAT | O_RDWR, 1), &st);
        } else {
            bad |= mount("none", "/tmp", "tmpfs", 0, NULL) || stat("/tmp", &st) || umount("/tmp");
        }
        number = minor(st.st_dev);
        _exit(bad || write(fd[1], &number, sizeof number) != sizeof number);
    }
    CHECK(child_good(child) && read(fd[0], &number, sizeof number) == sizeof number);
    close(fd[0]), close(fd[1]);
    return number;
}

/* Device numbers of file systems are used again. */
static void device_numbers(void) {
    for (int queues = 0; queues < 2; queues++) {
        unsigned first = instance(queues);
        CHECK(first != 0 && SOON(instance(queues) <= first));
    }
}

static void try_clones(int good) {
    struct clone3 args = { .exit_signal = SIGCHLD };
    for (int n = 0; n < 2; n++) {
        args.flags = n ? CLONE_NEWUSER : 0;
        errno = 0;
        pid_t child = syscall(SYS_clone3, &args, sizeof args);
        if (child == 0) _exit(0);
        if (good) {
            CHECK(child > 0 && child_good(child));
        } else {
            CHECK(child == -1 && errno == EAGAIN);
        }
    }
}

/* Whether a limit holds is asked of who makes a process, not of what the process will be. */
static void process_limit(void) {
    be_user_with(1ull << CAP_SYS_ADMIN);
    struct rlimit limit = { 0, 0 };
    CHECK(setrlimit(RLIMIT_NPROC, &limit) == 0);
    try_clones(1);
    only(0);
    try_clones(0);
}

static int priority(int fd, int n) { return setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &n, sizeof n); }

static int force(int fd, int option) {
    int size = 1 << 20;
    return setsockopt(fd, SOL_SOCKET, option, &size, sizeof size);
}

/* What the administrator of a network may do to its sockets and settings. */
static void network_rights(void) {
    static const char backlog[] = "/proc/sys/net/core/somaxconn";
    be_user();
    int before = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(before >= 0 && priority(before, 6) == 0);
    FAILS(priority(before, 7), EPERM);
    FAILS(open(backlog, O_WRONLY), EACCES);
    CHECK(unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(fd >= 0 && priority(fd, 7) == 0 && priority(fd, -1) == 0);
    FAILS(priority(before, 7), EPERM);
    FAILS(force(fd, SO_SNDBUFFORCE), EPERM);
    FAILS(force(fd, SO_RCVBUFFORCE), EPERM);
    char text[16] = "";
    int setting = open(backlog, O_RDWR);
    CHECK(setting >= 0 && pwrite(setting, "99\n", 3, 0) == 3);
    CHECK(pread(setting, text, 15, 0) == 3 && strcmp(text, "99\n") == 0);
    /* Root of the owner, which is not enough. */
    int map = open("/proc/self/uid_map", O_WRONLY);
    CHECK(write(map, "0 1000 1", 8) == 8 && getuid() == 0);
    only(1ull << CAP_NET_RAW);
    CHECK(priority(fd, 8) == 0);
    FAILS(pwrite(setting, "98\n", 3, 0), EPERM);
    FAILS(open(backlog, O_WRONLY), EACCES);
    CHECK(read_text(backlog, text, sizeof text) && strcmp(text, "99\n") == 0);
    only(0);
    FAILS(priority(fd, 9), EPERM);
}

/* The same of the initial network, and a user who administers it. */
static void administrator(void) {
    char text[16];
    be_user_with(1ull << CAP_NET_ADMIN);
    CHECK(read_text("/proc/sys/net/core/somaxconn", text, sizeof text));
    set("net/core/somaxconn", text);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(priority(fd, 7) == 0 && force(fd, SO_SNDBUFFORCE) == 0 && force(fd, SO_RCVBUFFORCE) == 0);
}

/* Segments go with who made them, wherever that is. */
static void creators(void) {
    int other = open_own("ipc");
    CHECK(unshare(CLONE_NEWIPC) == 0);
    key_t key = 0x6e74;
    for (int late = 0; late < 2; late++) {
        set("kernel/shm_rmid_forced", late ? "0" : "1");
        pid_t child = fork();
        if (child == 0) {
            int own = open_own("ipc");
            int bad = shmget(key, 4096, IPC_CREAT | 0600) < 0 || setns(other, CLONE_NEWIPC);
            bad |= setns(own, CLONE_NEWIPC) || shmget(key, 0, 0) < 0 || setns(other, 0);
            _exit(bad);
        }
        siginfo_t info;
        CHECK(waitid(P_PID, child, &info, WEXITED | WNOWAIT) == 0);
        if (late) {
            CHECK(shmget(key, 0, 0) >= 0);
            set("kernel/shm_rmid_forced", "1");
        }
        FAILS(shmget(key, 0, 0), ENOENT);
        CHECK(child_good(child));
    }
    close(other);
}

static int stage[2][2];
static char place_of_thread[2][256];
static mode_t mask_of_thread;

/* Tells where it is whenever it is asked. */
static void *resident(void *unused) {
    char c;
    (void)unused;
    for (int n = 0; n < 2; n++) {
        CHECK(read(stage[0][0], &c, 1) == 1 && getcwd(place_of_thread[n], sizeof place_of_thread[n]));
        mask_of_thread = umask(077);
        umask(mask_of_thread);
        CHECK(write(stage[1][1], "x", 1) == 1);
    }
    return NULL;
}

static void ask_resident(void) {
    char c;
    CHECK(write(stage[0][1], "x", 1) == 1 && read(stage[1][0], &c, 1) == 1);
}

/* A thread that shares its directories joins a mount namespace only with others, and all move. */
static void sharing_threads(void) {
    int ready[2], gate[2];
    char c;
    CHECK(pipe(ready) == 0 && pipe(gate) == 0 && pipe(stage[0]) == 0 && pipe(stage[1]) == 0);
    pid_t child = fork();
    if (child == 0) {
        close(gate[1]);
        _exit(unshare(CLONE_NEWNS | CLONE_NEWUTS) || write(ready[1], "x", 1) != 1
            || read(gate[0], &c, 1) != 0);
    }
    CHECK(read(ready[0], &c, 1) == 1 && chdir("/tmp") == 0);
    int pidfd = pidfd_of(child);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, resident, NULL) == 0);
    unsigned long mounts = own("mnt"), host = own("uts");
    FAILS(setns(pidfd, CLONE_NEWNS), EINVAL);
    CHECK(own("mnt") == mounts);
    ask_resident();
    CHECK(strcmp(place_of_thread[0], "/tmp") == 0);
    CHECK(setns(pidfd, CLONE_NEWNS | CLONE_NEWUTS) == 0 && own("mnt") != mounts && own("uts") != host);
    umask(0123);
    ask_resident();
    char place[256];
    CHECK(strcmp(place_of_thread[1], "/") == 0 && getcwd(place, sizeof place) && strcmp(place, "/") == 0);
    CHECK(mask_of_thread == 0123);
    pthread_join(thread, NULL);
    close(gate[1]), close(gate[0]);
    CHECK(child_good(child));
}

/* A namespace has one file: who locks it excludes others, however they came to it. */
static void locked_files(void) {
    for (int made = 0; made < 2; made++) {
        if (made) CHECK(unshare(CLONE_NEWUTS | CLONE_NEWIPC) == 0);
        int one = open_own("uts"), two = open_own("uts"), other = open_own("ipc");
        CHECK(flock(one, LOCK_EX | LOCK_NB) == 0 && flock(other, LOCK_EX | LOCK_NB) == 0);
        FAILS(flock(two, LOCK_EX | LOCK_NB), EWOULDBLOCK);
        int pidfd = pidfd_of(getpid()), three = ioctl(pidfd, PIDFD_UTS, 0);
        if (three >= 0) FAILS(flock(three, LOCK_EX | LOCK_NB), EWOULDBLOCK);
        close(one);
        CHECK(flock(two, LOCK_EX | LOCK_NB) == 0);
        close(two), close(three), close(pidfd), close(other);
        one = open_own("uts");
        CHECK(flock(one, LOCK_EX | LOCK_NB) == 0);
        close(one);
    }
}

/* An open setting does not keep its namespace. */
static void ended_settings(void) {
    int ipc = open_own("ipc"), net = open_own("net");
    CHECK(unshare(CLONE_NEWIPC | CLONE_NEWNET) == 0);
    int settings[2] = { open("/proc/sys/kernel/shmmax", O_RDWR), -1 };
    settings[1] = open("/proc/sys/net/core/somaxconn", O_RDWR);
    char text[32];
    for (int n = 0; n < 2; n++) CHECK(settings[n] >= 0 && pread(settings[n], text, sizeof text, 0) > 0);
    CHECK(setns(ipc, 0) == 0 && setns(net, 0) == 0);
    for (int n = 0; n < 2; n++) {
        CHECK(SOON(pread(settings[n], text, sizeof text, 0) == -1 && errno == ENOENT));
        FAILS(pwrite(settings[n], "99", 2, 0), ENOENT);
        close(settings[n]);
    }
    close(ipc), close(net);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    in_child(files);
    in_child(refused);
    CHECK(unshare(CLONE_NEWUTS | CLONE_NEWNS) == 0 || unshare(CLONE_NEWUTS) == 0);
    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    in_child(names);
    in_child(mounted);
    in_child(objects);
    in_child(attached);
    in_child(queues);
    in_child(networks);
    in_child(cgroups);
    in_child(several);
    in_child(storm);
    int users = users_make_namespaces();
    if (users) in_child(locked_segments);
    in_child(no_setting);
    in_child(device_numbers);
    if (users) in_child(process_limit);
    if (users) in_child(network_rights);
    in_child(administrator);
    in_child(creators);
    in_child(sharing_threads);
    in_child(locked_files);
    in_child(ended_settings);
    return report();
}
