/*
 * User namespaces: who may make and map them, which ids programs see in them, what capabilities in them are
 * good for, and which rights nobody gets by them. Some of it needs root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <link.h>
#include <linux/capability.h>
#include <mqueue.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "common.h"

#define FAILS(call, error) CHECK((errno = 0, (long)(call) == -1 && errno == (error)))
/* What is shown for an id that is not mapped. */
#define NOBODY 65534u
/* The ids that are mapped where root maps some: 0 to 999 there are FIRST and following ones outside. */
#define FIRST 100000u

static unsigned outer_uid, outer_gid;
static char directory[64];

/* Writes a file of /proc in one piece; gives what write gives, or -1 with errno. */
static int put(pid_t pid, const char *name, const char *text) {
    char path[64];
    if (pid) snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    else snprintf(path, sizeof path, "/proc/self/%s", name);
    int fd = open(path, O_WRONLY);
    if (fd < 0) return -1;
    int done = write(fd, text, strlen(text)), error = errno;
    close(fd);
    errno = error;
    return done == (int)strlen(text) ? 0 : -1;
}

/* Whether a file of /proc has these words, however far apart. */
static int says(pid_t pid, const char *name, const char *want) {
    char path[64], text[4096], line[4096] = "";
    if (pid) snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    else snprintf(path, sizeof path, "/proc/self/%s", name);
    int fd = open(path, O_RDONLY), size = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    if (size < 0) return 0;
    text[size] = 0;
    for (char *word = strtok(text, " \t\n"); word; word = strtok(NULL, " \t\n")) {
        if (*line) strcat(line, " ");
        strcat(line, word);
    }
    if (strcmp(line, want)) printf("%s says \"%s\", not \"%s\"\n", path, line, want);
    return strcmp(line, want) == 0;
}

static uint64_t effective(void) {
    struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct sets[2];
    if (syscall(SYS_capget, &head, sets)) return 0;
    return sets[0].effective | (uint64_t)sets[1].effective << 32;
}

static int is_full(void) { return (effective() & 0x1ffffffffffull) == 0x1ffffffffffull; }

/* Runs `body` in a child, whose failed checks count. */
static void child(void (*body)(void)) {
    pid_t pid = fork();
    if (pid == 0) {
        failed = 0;
        body();
        _exit(failed);
    }
    CHECK(child_good(pid));
}

/* A child in a new user namespace, and how both tell each other to go on. */
static pid_t mapped;
static int to_child = -1, from_child = -1;

static void tell(int fd) { CHECK(write(fd, "x", 1) == 1); }
static void hear(int fd) {
    char x;
    CHECK(read(fd, &x, 1) == 1);
}

static void begin(void (*body)(int in, int out)) {
    int down[2], up[2];
    CHECK(pipe(down) == 0 && pipe(up) == 0);
    mapped = fork();
    if (mapped == 0) {
        failed = 0;
        close(down[1]), close(up[0]);
        CHECK(unshare(CLONE_NEWUSER) == 0);
        tell(up[1]);
        hear(down[0]);
        body(down[0], up[1]);
        _exit(failed);
    }
    close(down[0]), close(up[1]);
    to_child = down[1], from_child = up[0];
    hear(from_child);
}

static void end(void) {
    CHECK(child_good(mapped));
    close(to_child), close(from_child);
}

/* What a namespace is before it has maps. */
static void fresh(void) {
    unsigned r, e, s;
    struct stat st;
    CHECK(unshare(CLONE_NEWUSER) == 0);
    CHECK(getuid() == NOBODY && geteuid() == NOBODY && getgid() == NOBODY && is_full());
    CHECK(getresuid(&r, &e, &s) == 0 && r == NOBODY && e == NOBODY && s == NOBODY);
    CHECK(stat("/", &st) == 0 && st.st_uid == NOBODY && st.st_gid == NOBODY);
    CHECK(says(0, "uid_map", "") && says(0, "gid_map", "") && says(0, "setgroups", "allow"));
    CHECK(prctl(PR_GET_SECUREBITS) == 0 && prctl(PR_GET_DUMPABLE) == 1);
    FAILS(setuid(0), EINVAL);
    FAILS(setuid(NOBODY), EINVAL);
    FAILS(setresgid(0, -1, -1), EINVAL);
    CHECK(setresuid(-1, -1, -1) == 0);
    FAILS(setgroups(0, NULL), EPERM);
    CHECK((unsigned)setfsuid(0) == NOBODY && (unsigned)setfsuid(-1) == NOBODY);
    FAILS(chown("/", 0, 0), EINVAL);
    FAILS(setpriority(PRIO_USER, 12345, 0), ESRCH);
    /* It is nobody who could have another one. */
    FAILS(unshare(CLONE_NEWUSER), EPERM);
    /* Capabilities for what belongs to others. */
    FAILS(sethostname("x", 1), EPERM);
    FAILS(mount("none", "/", "tmpfs", 0, NULL), EPERM);
    FAILS(syscall(SYS_reboot, 0xfee1dead, 672274793, 0x89abcdef, NULL), EPERM);
    struct timespec now;
    CHECK(clock_gettime(CLOCK_REALTIME, &now) == 0);
    FAILS(clock_settime(CLOCK_REALTIME, &now), EPERM);
    if (outer_uid) FAILS(kill(1, 0), EPERM);
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_CORE, &limit) == 0);
    limit.rlim_max = limit.rlim_cur = 0;
    CHECK(setrlimit(RLIMIT_CORE, &limit) == 0);
    limit.rlim_max = 1;
    FAILS(setrlimit(RLIMIT_CORE, &limit), EPERM);
    /* It may do to itself what it wants. */
    CHECK(chroot("/") == 0 && prctl(PR_CAPBSET_DROP, CAP_SYS_TIME) == 0);
    CHECK(prctl(PR_SET_SECUREBITS, 1) == 0 && prctl(PR_GET_SECUREBITS) == 1);
}

/* Texts that are no maps. */
static void texts(void) {
    CHECK(unshare(CLONE_NEWUSER) == 0);
    static const char *bad[] = {
        "0", "0 0", "0 0 0", "x 0 1", "0 0 1 1", "-1 0 1", "0 0 1x", "0x0 0 1", "4294967295 0 1",
        "0 4294967295 1", "1 0 4294967295", "0 0 2\n1 5 1", "0 0 2\n5 1 1", "0 0 1\n\n", "\n0 0 1",
    };
    for (unsigned n = 0; n < sizeof bad / sizeof *bad; n++) {
        FAILS(put(0, "uid_map", bad[n]), EINVAL);
        FAILS(put(0, "projid_map", bad[n]), EINVAL);
    }
    static char many[(64 << 10) + 1];
    size_t page = sysconf(_SC_PAGESIZE);
    char *at = many;
    for (int n = 0; n < 341; n++) at += sprintf(at, "%d %d 1\n", n, n);
    CHECK(at - many < (long)page);
    FAILS(put(0, "projid_map", many), EINVAL);
    memset(many, ' ', page);
    memcpy(many, "0 0 1", 5);
    FAILS(put(0, "projid_map", many), EINVAL);
    int fd = open("/proc/self/projid_map", O_WRONLY);
    CHECK(fd >= 0 && lseek(fd, 1, SEEK_SET) == 1);
    FAILS(write(fd, "0 0 1", 5), EINVAL);
    FAILS(syscall(SYS_write, fd, 8, 5), EINVAL);
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    FAILS(syscall(SYS_write, fd, 8, 5), EFAULT);
    CHECK(write(fd, "0 7 2\n9 20 1", 12) == 12);
    FAILS(pwrite(fd, "0 7 2", 5, 0), ESPIPE);
    close(fd);
    CHECK(says(0, "projid_map", "0 7 2 9 20 1"));
    FAILS(put(0, "projid_map", "0 7 2"), EPERM);
    FAILS(put(0, "setgroups", "perhaps"), EINVAL);
    FAILS(put(0, "setgroups", "denydeny"), EINVAL);
    FAILS(put(0, "setgroups", " allow"), EINVAL);
    CHECK(put(0, "setgroups", "allow \n") == 0);
    /* Others' ids, or more than one's own. */
    char text[64];
    snprintf(text, sizeof text, "0 %u 2", outer_uid);
    FAILS(put(0, "uid_map", text), EPERM);
    snprintf(text, sizeof text, "0 %u 1", outer_uid + 1);
    FAILS(put(0, "uid_map", text), EPERM);
}

/* What everyone may do: become root of a namespace with one user and one group. */
static void be_root(void) {
    char text[64];
    CHECK(unshare(CLONE_NEWUSER) == 0);
    snprintf(text, sizeof text, "0 %u 1\n", outer_uid);
    CHECK(put(0, "uid_map", text) == 0);
    FAILS(put(0, "uid_map", text), EPERM);
    snprintf(text, sizeof text, "0 %u 1\n", outer_gid);
    FAILS(put(0, "gid_map", text), EPERM);
    CHECK(put(0, "setgroups", "deny\n") == 0);
    FAILS(put(0, "setgroups", "allow"), EPERM);
    CHECK(put(0, "setgroups", "deny") == 0);
    CHECK(put(0, "gid_map", text) == 0);
    FAILS(put(0, "setgroups", "deny"), EPERM);
}

static void root(void) {
    struct stat st;
    char text[64];
    be_root();
    CHECK(getuid() == 0 && getgid() == 0 && is_full() && says(0, "setgroups", "deny"));
    snprintf(text, sizeof text, "0 %u 1", outer_uid);
    CHECK(says(0, "uid_map", text));
    FAILS(setgroups(0, NULL), EPERM);
    FAILS(setuid(1), EINVAL);
    CHECK(setuid(0) == 0 && setresgid(0, 0, 0) == 0);
    int fd = open(directory, O_TMPFILE | O_RDWR, 0600);
    if (fd >= 0) {
        CHECK(fstat(fd, &st) == 0 && st.st_uid == 0 && st.st_gid == 0);
        CHECK(fchown(fd, 0, 0) == 0);
        FAILS(fchown(fd, 1, -1), EINVAL);
        close(fd);
    }
    if (outer_uid) CHECK(stat("/", &st) == 0 && st.st_uid == NOBODY);
    /* All threads of a process are in one. */
    FAILS(syscall(SYS_clone, CLONE_NEWUSER | CLONE_FS | SIGCHLD, 0, 0, 0, 0), EINVAL);
    FAILS(syscall(SYS_clone, CLONE_NEWUSER | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM, 0, 0, 0, 0), EINVAL);
    pid_t pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) _exit(getuid() == NOBODY && is_full() ? 0 : 1);
    CHECK(child_good(pid));
}

static void *stand(void *unused) {
    pause();
    return unused;
}

static void threads(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, stand, NULL) == 0);
    FAILS(unshare(CLONE_NEWUSER), EINVAL);
}

/* One in another, until there is one too many; and only so many as are allowed. */
static void deep(void) {
    int levels = 0;
    while (unshare(CLONE_NEWUSER) == 0) {
        char text[64];
        snprintf(text, sizeof text, "0 %u 1", levels ? 0 : outer_uid);
        CHECK(put(0, "uid_map", text) == 0);
        snprintf(text, sizeof text, "0 %u 1", levels ? 0 : outer_gid);
        CHECK(put(0, "setgroups", "deny") == 0 && put(0, "gid_map", text) == 0);
        if (++levels > 40) break;
    }
    CHECK(errno == ENOSPC && levels > 20 && levels <= 33);
}

static void once(void) {
    CHECK(unshare(CLONE_NEWUSER) == 0);
    pause_ms(300);
}

static void few(void) {
    be_root();
    int fd = open("/proc/sys/user/max_user_namespaces", O_RDWR);
    CHECK(fd >= 0);
    if (fd < 0) return;
    FAILS(write(fd, "-1", 2), EINVAL);
    CHECK(write(fd, "1", 1) == 1);
    close(fd);
    pid_t first = fork();
    if (first == 0) {
        failed = 0;
        once();
        _exit(failed);
    }
    pause_ms(100);
    FAILS(unshare(CLONE_NEWUSER), ENOSPC);
    CHECK(child_good(first));
    CHECK(SOON(unshare(CLONE_NEWUSER) == 0));
    /* A new one has limits of its own. */
    char text[16] = "";
    fd = open("/proc/sys/user/max_user_namespaces", O_RDONLY);
    CHECK(fd >= 0 && read(fd, text, 15) > 0 && atoi(text) == 0x7fffffff);
    close(fd);
    fd = open("/proc/sys/user/max_net_namespaces", O_RDONLY);
    CHECK(fd >= 0 && read(fd, text, 15) > 0 && atoi(text) == 0x7fffffff);
    close(fd);
}

/* From here on with root's help. */
static const char *MAP = "0 100000 1000\n1000 0 1";

static void give_maps(void) {
    CHECK(put(mapped, "uid_map", MAP) == 0 && put(mapped, "gid_map", MAP) == 0);
    tell(to_child);
}

static char file_path[128], other_path[128], strange_path[128];

static void ids_inside(int in, int out) {
    (void)in, (void)out;
    gid_t groups[4] = { 5, 6, 7, 70000 };
    struct stat st;
    CHECK(getuid() == 1000 && getgid() == 1000);
    CHECK(says(0, "uid_map", "0 100000 1000 1000 0 1"));
    FAILS(setgroups(4, groups), EINVAL);
    CHECK(setgroups(3, groups) == 0 && getgroups(4, groups) == 3 && groups[0] == 5 && groups[2] == 7);
    CHECK(setresgid(0, 0, 0) == 0 && setresuid(0, 0, 0) == 0 && is_full());
    int fd = open(file_path, O_CREAT | O_RDWR, 0644);
    CHECK(fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == 0 && st.st_gid == 0);
    close(fd);
    /* Of a user who is mapped. */
    CHECK(stat(other_path, &st) == 0 && st.st_uid == 5 && st.st_gid == 5);
    CHECK((fd = open(other_path, O_RDWR)) >= 0 && chmod(other_path, 0640) == 0);
    close(fd);
    CHECK(chown(other_path, 3, 4) == 0 && stat(other_path, &st) == 0 && st.st_uid == 3 && st.st_gid == 4);
    FAILS(chown(other_path, 2000, -1), EINVAL);
    struct statx x;
    CHECK(statx(AT_FDCWD, other_path, 0, STATX_ALL, &x) == 0 && x.stx_uid == 3 && x.stx_gid == 4);
    /* Of one who is not: capabilities do not help. */
    CHECK(stat(strange_path, &st) == 0 && st.st_uid == NOBODY && st.st_gid == NOBODY);
    FAILS(open(strange_path, O_RDONLY), EACCES);
    FAILS(chmod(strange_path, 0777), EPERM);
    FAILS(chown(strange_path, 0, 0), EPERM);
    FAILS(access(strange_path, R_OK), EACCES);
    FAILS(mknod("node", S_IFCHR | 0600, 0x103), EPERM);
    /* User changes and capabilities. */
    CHECK(seteuid(9) == 0 && effective() == 0 && geteuid() == 9);
    CHECK(seteuid(0) == 0 && is_full());
    CHECK(setuid(9) == 0 && effective() == 0 && getuid() == 9);
    FAILS(setuid(0), EPERM);
    FAILS(setuid(5000), EINVAL);
    FAILS(unshare(CLONE_NEWNET | CLONE_NEWUTS), EPERM);
}

static void ids(void) {
    struct stat st;
    begin(ids_inside);
    /* Nobody but the parent's namespace and it itself may write, and whole lines only. */
    FAILS(put(mapped, "uid_map", "0 0"), EINVAL);
    give_maps();
    end();
    CHECK(stat(file_path, &st) == 0 && st.st_uid == FIRST && st.st_gid == FIRST);
    CHECK(stat(other_path, &st) == 0 && st.st_uid == FIRST + 3 && st.st_gid == FIRST + 4);
    FAILS(put(getpid(), "uid_map", "0 0 1"), EPERM);
    FAILS(put(0, "setgroups", "deny"), EPERM);
}

static int pair[2];

static int send_as(int fd, pid_t pid, unsigned uid, unsigned gid) {
    struct ucred cred = { pid, uid, gid };
    char byte = 'x', room[CMSG_SPACE(sizeof cred)] = "";
    struct iovec part = { &byte, 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = room,
        .msg_controllen = sizeof room };
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_CREDENTIALS, head->cmsg_len = CMSG_LEN(sizeof cred);
    memcpy(CMSG_DATA(head), &cred, sizeof cred);
    return sendmsg(fd, &message, 0);
}

static struct ucred receive_cred(int fd) {
    struct ucred cred = { -1, -1, -1 };
    char byte, room[256];
    struct iovec part = { &byte, 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = room,
        .msg_controllen = sizeof room };
    CHECK(recvmsg(fd, &message, 0) == 1);
    for (struct cmsghdr *h = CMSG_FIRSTHDR(&message); h; h = CMSG_NXTHDR(&message, h))
        if (h->cmsg_type == SCM_CREDENTIALS) memcpy(&cred, CMSG_DATA(h), sizeof cred);
    return cred;
}

static siginfo_t signalled(void) {
    sigset_t set;
    siginfo_t info;
    struct timespec limit = { 20, 0 };
    memset(&info, 0, sizeof info);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(sigtimedwait(&set, &info, &limit) == SIGUSR1);
    return info;
}

static void news_inside(int in, int out) {
    CHECK(setresgid(0, 0, 0) == 0 && setresuid(0, 0, 0) == 0);
    siginfo_t info = signalled();
    CHECK(info.si_uid == 1000 && info.si_code == SI_USER);
    tell(out);
    /* Nobody maps the sender. */
    info = signalled();
    CHECK(info.si_uid == NOBODY);
    CHECK(syscall(SYS_kill, getpid(), SIGUSR1) == 0 && signalled().si_uid == 0);
    memset(&info, 0, sizeof info);
    info.si_code = SI_QUEUE, info.si_pid = getpid(), info.si_uid = 12;
    CHECK(syscall(SYS_rt_sigqueueinfo, getpid(), SIGUSR1, &info) == 0 && signalled().si_uid == 12);
    struct ucred cred;
    socklen_t size = sizeof cred;
    CHECK(getsockopt(pair[1], SOL_SOCKET, SO_PEERCRED, &cred, &size) == 0);
    CHECK(cred.uid == 1000 && cred.gid == 1000);
    cred = receive_cred(pair[1]);
    CHECK(cred.uid == 1000 && cred.gid == 1000);
    FAILS(send_as(pair[1], getpid(), 70000, 0), EINVAL);
    CHECK(send_as(pair[1], getpid(), 5, 6) == 1);
    CHECK(send(pair[1], "x", 1, 0) == 1);
    int id = shmget(IPC_PRIVATE, 4096, 0600);
    struct shmid_ds ds;
    CHECK(id >= 0 && shmctl(id, IPC_STAT, &ds) == 0 && ds.shm_perm.uid == 0 && ds.shm_perm.cuid == 0);
    ds.shm_perm.uid = 7;
    CHECK(shmctl(id, IPC_SET, &ds) == 0 && shmctl(id, IPC_STAT, &ds) == 0 && ds.shm_perm.uid == 7);
    ds.shm_perm.uid = 5000;
    FAILS(shmctl(id, IPC_SET, &ds), EINVAL);
    CHECK(write(out, &id, sizeof id) == sizeof id);
    hear(in);
    CHECK(shmctl(id, IPC_RMID, NULL) == 0);
    /* The outside's processes and objects are not its own. */
    FAILS(kill(getppid(), 0), EPERM);
    FAILS(ptrace(PTRACE_ATTACH, getppid(), 0, 0), EPERM);
    char path[64], text[64];
    snprintf(path, sizeof path, "/proc/%d/ns/user", getppid());
    FAILS(readlink(path, text, sizeof text), EACCES);
    id = shmget(0x75736572, 4096, 0600);
    CHECK(id < 0 && errno == EACCES);
    struct rlimit limit;
    FAILS(prlimit(getppid(), RLIMIT_CORE, NULL, &limit), EPERM);
    FAILS(setpriority(PRIO_PROCESS, getppid(), 5), EPERM);
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(setuid(8) == 0);
        _exit(failed);
    }
    memset(&info, 0, sizeof info);
    CHECK(waitid(P_PID, pid, &info, WEXITED) == 0 && info.si_uid == 8 && info.si_status == 0);
}

static void news(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int one = 1, id = 0, key = shmget(0x75736572, 4096, IPC_CREAT | 0600);
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
    for (int n = 0; n < 2; n++) CHECK(setsockopt(pair[n], SOL_SOCKET, SO_PASSCRED, &one, sizeof one) == 0);
    begin(news_inside);
    give_maps();
    CHECK(kill(mapped, SIGUSR1) == 0);
    hear(from_child);
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_code = SI_QUEUE, info.si_pid = getpid(), info.si_uid = 4242;
    CHECK(syscall(SYS_rt_sigqueueinfo, mapped, SIGUSR1, &info) == 0);
    CHECK(send(pair[0], "x", 1, 0) == 1);
    struct ucred cred = receive_cred(pair[0]);
    CHECK(cred.uid == FIRST + 5 && cred.gid == FIRST + 6 && cred.pid == mapped);
    cred = receive_cred(pair[0]);
    CHECK(cred.uid == FIRST && cred.gid == FIRST);
    struct shmid_ds ds;
    CHECK(read(from_child, &id, sizeof id) == sizeof id && shmctl(id, IPC_STAT, &ds) == 0);
    CHECK(ds.shm_perm.uid == FIRST + 7 && ds.shm_perm.cuid == FIRST);
    tell(to_child);
    memset(&info, 0, sizeof info);
    CHECK(waitid(P_PID, mapped, &info, WEXITED | WNOWAIT) == 0 && info.si_uid == FIRST);
    end();
    shmctl(key, IPC_RMID, NULL);
    close(pair[0]), close(pair[1]);
}

/* A namespace in a namespace: ids are those of whoever looks. */
static void nested_inside(int in, int out) {
    (void)out;
    CHECK(setresgid(0, 0, 0) == 0 && setresuid(0, 0, 0) == 0);
    /* Else its memory is for who may trace everybody where it was executed. */
    CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
    int down[2], up[2];
    CHECK(pipe(down) == 0 && pipe(up) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        failed = 0;
        CHECK(unshare(CLONE_NEWUSER) == 0);
        tell(up[1]);
        hear(down[0]);
        CHECK(getuid() == 20 && says(0, "uid_map", "20 0 10"));
        tell(up[1]);
        hear(down[0]);
        _exit(failed);
    }
    hear(up[0]);
    FAILS(put(pid, "uid_map", "0 999 2"), EPERM);
    CHECK(put(pid, "uid_map", "20 0 10") == 0 && says(pid, "uid_map", "20 0 10"));
    tell(down[1]);
    hear(up[0]);
    CHECK(write(out, &pid, sizeof pid) == sizeof pid);
    hear(in);
    /* It belongs to its maker, who may do all to it. */
    CHECK(kill(pid, 0) == 0 && ptrace(PTRACE_SEIZE, pid, 0, 0) == 0);
    CHECK(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
    int status;
    CHECK(waitpid(pid, &status, __WALL) == pid && ptrace(PTRACE_DETACH, pid, 0, 0) == 0);
    tell(down[1]);
    CHECK(child_good(pid));
}

static void nested(void) {
    pid_t inner = 0;
    begin(nested_inside);
    give_maps();
    CHECK(read(from_child, &inner, sizeof inner) == sizeof inner);
    CHECK(says(inner, "uid_map", "20 100000 10") && says(mapped, "uid_map", "0 100000 1000 1000 0 1"));
    FAILS(put(inner, "gid_map", "0 0 1"), EPERM);
    tell(to_child);
    end();
}

static void stay(int in, int out) {
    tell(out);
    hear(in);
}

/* setns. */
static void joining(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/user", mapped);
    int fd = open(path, O_RDONLY), own = open("/proc/self/ns/user", O_RDONLY);
    CHECK(fd >= 0 && own >= 0);
    FAILS(setns(own, CLONE_NEWUSER), EINVAL);
    FAILS(setns(fd, CLONE_NEWNET), EINVAL);
    CHECK(prctl(PR_SET_SECUREBITS, 1) == 0);
    CHECK(setns(fd, CLONE_NEWUSER) == 0);
    CHECK(getuid() == 1000 && is_full() && prctl(PR_GET_SECUREBITS) == 0);
    FAILS(setns(fd, CLONE_NEWUSER), EINVAL);
    FAILS(setns(own, CLONE_NEWUSER), EPERM);
    CHECK(setresuid(0, 0, 0) == 0 && getuid() == 0);
    FAILS(sethostname("x", 1), EPERM);
}

static void joining_threads(void) {
    pthread_t thread;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/user", mapped);
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && pthread_create(&thread, NULL, stand, NULL) == 0);
    FAILS(setns(fd, CLONE_NEWUSER), EINVAL);
}

static void join_as_user(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/user", mapped);
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && setresgid(7, 7, 7) == 0 && setresuid(7, 7, 7) == 0);
    FAILS(setns(fd, CLONE_NEWUSER), EPERM);
}

static void joins(void) {
    begin(stay);
    give_maps();
    hear(from_child);
    child(joining);
    child(joining_threads);
    child(join_as_user);
    int owner = -1, got;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/user", mapped);
    int fd = open(path, O_RDONLY);
    CHECK(ioctl(fd, _IO(0xb7, 4), &owner) == 0 && owner == 0);
    CHECK((got = ioctl(fd, _IO(0xb7, 2))) >= 0);
    close(got), close(fd);
    tell(to_child);
    end();
}

/* Programs that are to run as another user. */
static char program[128];

static int run(const char *path) {
    pid_t pid = fork();
    int status = -1;
    if (pid == 0) {
        execl(path, path, "ids", NULL);
        _exit(99);
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void execs_inside(int in, int out) {
    CHECK(setresgid(0, 0, 0) == 0 && setresuid(0, 0, 0) == 0);
    /* Its owner is user 7 here. */
    CHECK(run(program) == 7);
    tell(out);
    hear(in);
    /* Now it is nobody here. */
    CHECK(run(program) == 0);
    CHECK(setresgid(9, 9, 9) == 0 && setresuid(9, 9, 9) == 0 && run(program) == 9);
}

static int copy_program(void) {
    static char bytes[65536];
    int from = open("/proc/self/exe", O_RDONLY), to = open(program, O_CREAT | O_TRUNC | O_WRONLY, 0755);
    int n, good = from >= 0 && to >= 0;
    while (good && (n = read(from, bytes, sizeof bytes)) > 0) good = write(to, bytes, n) == n;
    close(from), close(to);
    return good;
}

static void execs(void) {
    struct statvfs fs;
    CHECK(statvfs(directory, &fs) == 0);
    if (fs.f_flag & ST_NOSUID) {
        printf("skipped: no set-user-ID programs in %s\n", directory);
        return;
    }
    CHECK(copy_program() && chown(program, FIRST + 7, FIRST + 7) == 0 && chmod(program, 04755) == 0);
    begin(execs_inside);
    give_maps();
    hear(from_child);
    CHECK(chown(program, 4242, FIRST + 7) == 0 && chmod(program, 04755) == 0);
    tell(to_child);
    end();
}

/* Attributes with ids in them. */
static const unsigned char CAPS_2[20] = { 1, 0, 0, 2, 1 };

static void attributes_inside(int in, int out) {
    (void)in, (void)out;
    unsigned char value[128];
    CHECK(setresgid(0, 0, 0) == 0 && setresuid(0, 0, 0) == 0);
    FAILS(setxattr(other_path, "security.other", "x", 1, 0), EPERM);
    FAILS(setxattr(other_path, "trusted.other", "x", 1, 0), EPERM);
    FAILS(setxattr(strange_path, "security.capability", CAPS_2, 20, 0), EPERM);
    FAILS(setxattr(other_path, "security.capability", CAPS_2, 19, 0), EINVAL);
    CHECK(setxattr(other_path, "security.capability", CAPS_2, 20, 0) == 0);
    CHECK(getxattr(other_path, "security.capability", value, sizeof value) == 20 && value[3] == 2);
    static const unsigned char acl[] = {
        2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 4, 0, 7, 0, 0, 0, 4, 0, 4, 0, 255, 255, 255, 255,
        8, 0, 4, 0, 8, 0, 0, 0, 16, 0, 4, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255,
    };
    unsigned char bad[sizeof acl];
    memcpy(bad, acl, sizeof acl);
    bad[18] = 1;
    int good = setxattr(other_path, "system.posix_acl_access", acl, sizeof acl, 0);
    if (good < 0 && errno == EOPNOTSUPP) {
        printf("skipped: no access control lists in %s\n", directory);
        return;
    }
    CHECK(good == 0);
    FAILS(setxattr(other_path, "system.posix_acl_access", bad, sizeof bad, 0), EINVAL);
    CHECK(getxattr(other_path, "system.posix_acl_access", value, sizeof value) == sizeof acl);
    CHECK(memcmp(value, acl, sizeof acl) == 0);
}

static unsigned word(const unsigned char *at) {
    return at[0] | at[1] << 8 | at[2] << 16 | (unsigned)at[3] << 24;
}

static void attributes(void) {
    unsigned char value[128];
    CHECK(chown(other_path, FIRST + 5, FIRST + 5) == 0);
    if (setxattr(other_path, "security.capability", CAPS_2, 20, 0)) {
        printf("skipped: no attributes in %s\n", directory);
        return;
    }
    CHECK(getxattr(other_path, "security.capability", value, sizeof value) == 20);
    begin(attributes_inside);
    give_maps();
    end();
    CHECK(getxattr(other_path, "security.capability", value, sizeof value) == 24);
    CHECK(value[3] == 3 && word(value + 20) == FIRST);
    int size = getxattr(other_path, "system.posix_acl_access", value, sizeof value);
    if (size > 0) CHECK(size == 52 && word(value + 16) == FIRST + 7 && word(value + 32) == FIRST + 8);
}

static void chrooted(void) {
    CHECK(chroot(directory) == 0 && chdir("/") == 0);
    FAILS(unshare(CLONE_NEWUSER), EPERM);
}

/* Without CAP_SETFCAP nobody maps root. */
static void no_setfcap(void) {
    struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct sets[2];
    CHECK(syscall(SYS_capget, &head, sets) == 0);
    sets[0].effective &= ~(1u << CAP_SETFCAP);
    CHECK(syscall(SYS_capset, &head, sets) == 0 && unshare(CLONE_NEWUSER) == 0);
    FAILS(put(0, "uid_map", "0 0 1"), EPERM);
}

/* With nothing but other users' rights. */
static void as_user(void (*body)(void)) {
    pid_t pid = fork();
    if (pid == 0) {
        failed = 0;
        CHECK(setgroups(0, NULL) == 0 && setresgid(4001, 4001, 4001) == 0);
        CHECK(setresuid(4000, 4000, 4000) == 0);
        CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
        outer_uid = 4000, outer_gid = 4001;
        body();
        _exit(failed);
    }
    CHECK(child_good(pid));
}

static void limits_of_others(void) {
    be_root();
    /* Root of a namespace is nobody for the machine's settings. */
    CHECK(open("/proc/sys/kernel/pid_max", O_WRONLY) < 0 && errno == EACCES);
    CHECK(open("/proc/sys/kernel/shmmax", O_WRONLY) < 0 && errno == EACCES);
    CHECK(open("/proc/sys/fs/file-max", O_WRONLY) < 0 && errno == EACCES);
    CHECK(open("/proc/1/environ", O_RDONLY) < 0 && errno == EACCES);
}

/* What a tracer looks for in a program that may only be executed. */
static const long secret = 0x5ec2e7;

/* Whether the running thread, which traces `pid`, sees that by a request and in another way. */
static void sees(pid_t pid, int all) {
    long word = 0;
    struct iovec here = { &word, sizeof word }, there = { (void *)&secret, sizeof word };
    if (all) {
        CHECK(ptrace(PTRACE_PEEKDATA, pid, &secret, 0) == secret);
        CHECK(process_vm_readv(pid, &here, 1, &there, 1, 0) == sizeof word && word == secret);
        return;
    }
    FAILS(ptrace(PTRACE_PEEKDATA, pid, &secret, 0), EIO);
    FAILS(ptrace(PTRACE_POKEDATA, pid, &secret, 1), EIO);
    FAILS(process_vm_readv(pid, &here, 1, &there, 1, 0), EPERM);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    int fd = open(path, O_RDONLY);
    CHECK(fd < 0 || pread(fd, &word, sizeof word, (long)&secret) < 0);
    if (fd >= 0) close(fd);
}

/* A child executes `path` and is traced: by its own wish, or by `PTRACE_SEIZE`. It is asleep then. */
static pid_t traced(const char *path, int seize) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        if (seize) raise(SIGSTOP);
        else ptrace(PTRACE_TRACEME, 0, 0, 0);
        execl(path, path, "ids", NULL);
        _exit(99);
    }
    if (seize) {
        CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
        CHECK(ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACEEXEC) == 0);
        CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
        CHECK(kill(pid, SIGCONT) == 0 && ptrace(PTRACE_CONT, pid, 0, 0) == 0);
    }
    /* The stop of the exec comes after that of SIGCONT. */
    for (;;) {
        if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) return -1;
        if (seize ? status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8) : WSTOPSIG(status) == SIGTRAP) break;
        int passed = status >> 16 == 0 && WSTOPSIG(status) == SIGCONT ? SIGCONT : 0;
        if (ptrace(PTRACE_CONT, pid, 0, passed)) return -1;
    }
    return pid;
}

static void put_down(pid_t pid) {
    int status;
    if (pid <= 0) return;
    kill(pid, SIGKILL);
    CHECK(waitpid(pid, &status, 0) == pid);
}

static const char *looked_at;
static int looked_all;

static void look_inside(void) {
    be_root();
    CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
    for (int seize = 0; seize < 2; seize++) {
        pid_t pid = traced(looked_at, seize);
        CHECK(pid > 0);
        if (pid > 0) sees(pid, looked_all);
        put_down(pid);
    }
}

/* A program whose interpreter is `program`. */
static int make_interpreted(const char *path) {
    static struct {
        ElfW(Ehdr) head;
        ElfW(Phdr) parts[2];
        char interpreter[128], rest[8192];
    } file;
    int from = open("/proc/self/exe", O_RDONLY);
    if (from < 0 || read(from, &file.head, sizeof file.head) != sizeof file.head) return 0;
    close(from);
    file.head.e_type = ET_DYN, file.head.e_entry = 0;
    file.head.e_phoff = sizeof file.head, file.head.e_phnum = 2;
    file.head.e_shoff = 0, file.head.e_shnum = 0, file.head.e_shstrndx = 0;
    strcpy(file.interpreter, program);
    size_t at = (char *)file.interpreter - (char *)&file;
    file.parts[0] = (ElfW(Phdr)) { .p_type = PT_INTERP, .p_flags = PF_R, .p_offset = at, .p_vaddr = at,
        .p_paddr = at, .p_filesz = strlen(program) + 1, .p_memsz = strlen(program) + 1, .p_align = 1 };
    file.parts[1] = (ElfW(Phdr)) { .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_filesz = sizeof file,
        .p_memsz = sizeof file, .p_align = 65536 };
    int to = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0755);
    int good = to >= 0 && write(to, &file, sizeof file) == sizeof file && fchmod(to, 0755) == 0;
    close(to);
    return good;
}

/* Programs that root of a namespace may only execute: as himself, and as the interpreter of his own. */
static void hidden_programs(void) {
    static char own[128];
    snprintf(own, sizeof own, "%s/interpreted", directory);
    CHECK(copy_program() && chown(program, 0, 0) == 0);
    CHECK(make_interpreted(own) && chown(own, 4000, 4001) == 0);
    for (int hidden = 0; hidden < 2; hidden++) {
        CHECK(chmod(program, hidden ? 0711 : 0755) == 0);
        looked_all = !hidden;
        looked_at = program;
        as_user(look_inside);
        looked_at = own;
        as_user(look_inside);
    }
    CHECK(unlink(own) == 0);
}

/* Who wants to be traced gains nothing by a privileged tracer; who is traced by that one's wish does. */
static void set_id_traced(void) {
    struct statvfs fs;
    CHECK(statvfs(directory, &fs) == 0);
    if (fs.f_flag & ST_NOSUID) return;
    CHECK(copy_program() && chown(program, 7, 7) == 0 && chmod(program, 04755) == 0);
    for (int seize = 0; seize < 2; seize++) {
        int status = -1;
        pid_t pid = fork();
        if (pid == 0) {
            if (setgroups(0, NULL) || setresgid(40, 40, 40) || setresuid(40, 40, 40)) _exit(98);
            if (seize) raise(SIGSTOP);
            else ptrace(PTRACE_TRACEME, 0, 0, 0);
            execl(program, program, "ids", NULL);
            _exit(99);
        }
        if (seize) {
            CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
            CHECK(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0 && kill(pid, SIGCONT) == 0);
        }
        while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) ptrace(PTRACE_CONT, pid, 0, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == (seize ? 7 : 40));
    }
}

/* Files in memory are the machine's, whoever makes the first. */
static void memory_files_inside(void) {
    be_root();
    int fd = syscall(SYS_memfd_create, "x", 0);
    CHECK(fd >= 0 && fchown(fd, 0, 0) == 0);
    CHECK(fsetxattr(fd, "security.other", "x", 1, 0) < 0 && (errno == EPERM || errno == EOPNOTSUPP));
}

static void memory_files(void) {
    as_user(memory_files_inside);
    struct stat st;
    int fd = syscall(SYS_memfd_create, "x", 0);
    CHECK(fd >= 0 && fchown(fd, 4242, -1) == 0 && fchown(fd, -1, 4243) == 0);
    CHECK(fstat(fd, &st) == 0 && st.st_uid == 4242 && st.st_gid == 4243);
    close(fd);
}

/* A file of a mapped user with a group that is not. */
static void half_known_inside(int in, int out) {
    (void)in, (void)out;
    CHECK(setresgid(0, 0, 0) == 0 && setresuid(0, 0, 0) == 0);
    CHECK(chmod(other_path, 0604) == 0 && utimensat(AT_FDCWD, other_path, NULL, 0) == 0);
    struct timespec times[2] = { { 5, 0 }, { 5, 0 } };
    CHECK(utimensat(AT_FDCWD, other_path, times, 0) == 0);
    FAILS(chown(other_path, 3, -1), EPERM);
    FAILS(open(other_path, O_WRONLY), EACCES);
}

static void half_known(void) {
    struct stat st;
    CHECK(chown(other_path, FIRST + 5, 4242) == 0 && chmod(other_path, 0600) == 0);
    begin(half_known_inside);
    give_maps();
    end();
    CHECK(stat(other_path, &st) == 0 && (st.st_mode & 07777) == 0604 && st.st_mtime == 5);
}

/* A setting that was opened by who may write it, and is written by who may not. */
static void given_up(void) {
    be_root();
    int fd = open("/proc/sys/user/max_user_namespaces", O_RDWR);
    CHECK(fd >= 0 && write(fd, "70", 2) == 2);
    struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct none[2] = { { 0, 0, 0 }, { 0, 0, 0 } };
    CHECK(syscall(SYS_capset, &head, none) == 0);
    FAILS(pwrite(fd, "71", 2, 0), EPERM);
    char text[16] = "";
    CHECK(pread(fd, text, 15, 0) > 0 && atoi(text) == 70);
    close(fd);
}

/* Details of a signal by a pidfd mean the sender's users. */
static void told_by_pidfd(void) {
    sigset_t set;
    siginfo_t info;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    pid_t pid = fork();
    if (pid == 0) {
        failed = 0;
        be_root();
        int fd = syscall(SYS_pidfd_open, getppid(), 0);
        memset(&info, 0, sizeof info);
        info.si_signo = SIGUSR1, info.si_code = SI_QUEUE, info.si_uid = 0, info.si_pid = getpid();
        CHECK(fd >= 0 && syscall(SYS_pidfd_send_signal, fd, SIGUSR1, &info, 0) == 0);
        _exit(failed);
    }
    info = signalled();
    CHECK(info.si_code == SI_QUEUE && info.si_uid == outer_uid && info.si_pid == pid);
    CHECK(child_good(pid));
}

/* Who has many users in a namespace has no more with all of them than the maker's limits allow. */
static void limit(int which, unsigned soft, unsigned hard) {
    struct rlimit to = { soft, hard };
    CHECK(setrlimit(which, &to) == 0);
}

static int queue_of(const char *name) {
    struct mq_attr attr = { .mq_maxmsg = 10, .mq_msgsize = 1024 };
    return syscall(SYS_mq_open, name, O_CREAT | O_RDWR, 0600, &attr);
}

/* How many signals can still be queued for the running process. */
static int more_signals(int most) {
    int sent = 0;
    union sigval value = { 0 };
    while (sent < most && sigqueue(getpid(), SIGRTMIN, value) == 0) sent++;
    return sent;
}

/* inotify's: the machine's setting counts for the maker. */
static int watchers(int most) {
    int had = 0;
    while (had < most && inotify_init() >= 0) had++;
    return had;
}

static void many_users(int in, int out) {
    (void)out;
    CHECK(setresgid(0, 0, 0) == 0 && setresuid(0, 0, 0) == 0);
    limit(RLIMIT_NPROC, 100, 100);
    limit(RLIMIT_SIGPENDING, 100, 100);
    limit(RLIMIT_MSGQUEUE, 800000, 800000);
    pid_t pids[8];
    int made_here = 0, down[2], up[2];
    CHECK(pipe(down) == 0 && pipe(up) == 0);
    while (made_here < 8 && (pids[made_here] = fork()) >= 0) {
        int n = made_here++;
        if (pids[n]) {
            hear(up[0]);
            continue;
        }
        close(down[1]);
        failed = 0;
        CHECK(setresuid(n + 1, n + 1, n + 1) == 0);
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGRTMIN);
        sigprocmask(SIG_BLOCK, &set, NULL);
        /* Two of the five are the first one's. */
        CHECK(n ? more_signals(10) == 3 : more_signals(2) == 2);
        if (n) FAILS(fork(), EAGAIN);
        int fd = open("/proc/sys/fs/inotify/max_user_instances", O_RDONLY), most = 0;
        char name[32], x, text[16] = "";
        CHECK(fd >= 0 && read(fd, text, 15) > 0 && (most = atoi(text)) > 0);
        close(fd);
        limit(RLIMIT_NOFILE, 1000, 1000);
        if (most < 900) CHECK(watchers(n ? 900 : most - 5) == (n ? 5 : most - 5));
        else printf("skipped: as many instances of inotify as descriptors\n");
        snprintf(name, sizeof name, "userns-%d", n);
        int error;
        fd = queue_of(name), error = errno;
        if (fd < 0 && error == ENOSYS) printf("skipped: no message queues\n");
        else if (n) CHECK(fd < 0 && error == EMFILE);
        else CHECK(fd >= 0);
        tell(up[1]);
        if (read(down[0], &x, 1) < 0) failed++;
        if (fd >= 0) close(fd), syscall(SYS_mq_unlink, name);
        _exit(failed);
    }
    CHECK(made_here == 2 && errno == EAGAIN);
    close(down[1]), close(down[0]);
    for (int n = 0; n < made_here; n++) CHECK(child_good(pids[n]));
    /* They give back what they had. */
    pid_t pid = fork();
    if (pid == 0) {
        failed = 0;
        CHECK(setresuid(9, 9, 9) == 0);
        signal(SIGRTMIN, SIG_DFL);
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGRTMIN);
        sigprocmask(SIG_BLOCK, &set, NULL);
        CHECK(more_signals(10) == 5);
        int fd = queue_of("userns-x");
        CHECK(fd >= 0 || errno == ENOSYS);
        if (fd >= 0) close(fd), syscall(SYS_mq_unlink, "userns-x");
        _exit(failed);
    }
    CHECK(child_good(pid));
    hear(in);
}

static void makers_limits(void) {
    int down[2], up[2];
    CHECK(pipe(down) == 0 && pipe(up) == 0);
    mapped = fork();
    if (mapped == 0) {
        failed = 0;
        close(down[1]), close(up[0]);
        CHECK(setgroups(0, NULL) == 0 && setresgid(4001, 4001, 4001) == 0);
        CHECK(setresuid(4100, 4100, 4100) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0);
        limit(RLIMIT_NPROC, 3, 100);
        limit(RLIMIT_SIGPENDING, 5, 100);
        limit(RLIMIT_MSGQUEUE, 20000, 800000);
        CHECK(unshare(CLONE_NEWUSER) == 0);
        tell(up[1]);
        hear(down[0]);
        many_users(down[0], up[1]);
        _exit(failed);
    }
    close(down[0]), close(up[1]);
    to_child = down[1], from_child = up[0];
    hear(from_child);
    CHECK(put(mapped, "uid_map", "0 100000 1000") == 0 && put(mapped, "gid_map", "0 100000 1000") == 0);
    tell(to_child), tell(to_child);
    end();
}

/* Whoever ends is counted no more, in whichever namespace he was. */
static void come_and_go(void) {
    limit(RLIMIT_NPROC, 3, 3);
    for (int n = 0; n < 60; n++) {
        pid_t pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
        if (pid == 0) _exit(0);
        CHECK(child_good(pid));
        pid = fork();
        if (pid == 0) {
            failed = 0;
            be_root();
            for (int level = 0; level < 3; level++) {
                CHECK(unshare(CLONE_NEWUSER) == 0 && put(0, "uid_map", "0 0 1") == 0);
                CHECK(put(0, "gid_map", "0 0 1") == 0);
            }
            CHECK(child_good(fork() ?: (_exit(0), 0)));
            _exit(failed);
        }
        CHECK(child_good(pid));
        if (failed) break;
    }
    pid_t one = fork();
    if (one == 0) pause();
    pid_t two = fork();
    if (two == 0) pause();
    FAILS(fork(), EAGAIN);
    put_down(one), put_down(two);
}

static void gains_nothing(void) {
    hidden_programs();
    set_id_traced();
    memory_files();
    half_known();
    as_user(given_up);
    as_user(told_by_pidfd);
    makers_limits();
    as_user(come_and_go);
}

static void small(void) {
    child(fresh);
    child(texts);
    child(root);
    child(threads);
    child(deep);
    child(few);
}

int main(int count, char **arguments) {
    /* Executed by `run`. */
    if (count > 1 && !strcmp(arguments[1], "ids")) return geteuid();
    setvbuf(stdout, NULL, _IONBF, 0);
    outer_uid = geteuid(), outer_gid = getegid();
    pid_t pid = fork();
    int status = -1;
    if (pid == 0) _exit(unshare(CLONE_NEWUSER) ? errno : 0);
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    if (status && (WEXITSTATUS(status) == EPERM || WEXITSTATUS(status) == ENOSPC)) {
        printf("skipped: this system forbids new user namespaces (%s)\n", strerror(WEXITSTATUS(status)));
        return report();
    }
    strcpy(directory, "/tmp/userns-XXXXXX");
    CHECK(mkdtemp(directory) && chmod(directory, 0777) == 0);
    small();
    if (outer_uid == 0) {
        as_user(small);
        as_user(limits_of_others);
        snprintf(file_path, sizeof file_path, "%s/own", directory);
        snprintf(other_path, sizeof other_path, "%s/other", directory);
        snprintf(strange_path, sizeof strange_path, "%s/strange", directory);
        snprintf(program, sizeof program, "%s/program", directory);
        close(open(other_path, O_CREAT | O_WRONLY, 0600));
        close(open(strange_path, O_CREAT | O_WRONLY, 0600));
        CHECK(chown(other_path, FIRST + 5, FIRST + 5) == 0 && chown(strange_path, 4242, 4242) == 0);
        ids();
        news();
        nested();
        joins();
        execs();
        attributes();
        child(chrooted);
        child(no_setfcap);
        gains_nothing();
    }
    unlink(file_path), unlink(other_path), unlink(strange_path), unlink(program);
    CHECK(rmdir(directory) == 0);
    return report();
}
