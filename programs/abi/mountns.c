/*
 * Mount namespaces and propagation: who sees what is mounted, moved and unmounted; what a less privileged
 * namespace may do; when a namespace ends. Needs root. Everything happens in namespaces of its own.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "common.h"

static char base[] = "/tmp/mountnsXXXXXX";

static int is_limen(void) {
    struct utsname name;
    return uname(&name) == 0 && strstr(name.version, "Limen") != NULL;
}

/* A path below the directory of the test; four may be in use at once. */
static const char *in(const char *name) {
    static char paths[8][128];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", base, name);
    return path;
}

/* The line about what is mounted last at a place, in the mountinfo of a process. 1: there is one. */
static int line_of(const char *who, const char *place, char *line, size_t size) {
    char path[64];
    int found = 0;
    snprintf(path, sizeof path, "/proc/%s/mountinfo", who);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    char next[1024], at[512];
    while (fgets(next, sizeof next, file))
        if (sscanf(next, "%*d %*d %*s %*s %511s", at) == 1 && strcmp(at, place) == 0) {
            snprintf(line, size, "%s", next);
            found++;
        }
    fclose(file);
    return found;
}

/* How many mounts there are at a place, as seen from here. */
static int mounted(const char *place) {
    char line[1024];
    return line_of("self", place, line, sizeof line);
}

/* The number behind `shared:` and so on at a place. 0: none. */
static int number(const char *place, const char *what) {
    char line[1024];
    if (!line_of("self", place, line, sizeof line)) return -1;
    char *end = strstr(line, " - ");
    if (end) *end = 0;
    char *found = strstr(line, what);
    return found ? atoi(found + strlen(what)) : 0;
}

static int has_word(const char *place, const char *word) {
    char line[1024];
    if (!line_of("self", place, line, sizeof line)) return 0;
    return strstr(line, word) != NULL;
}

static int dir(const char *name) {
    return mkdir(in(name), 0755);
}
static int tmpfs(const char *name) {
    return mount("none", in(name), "tmpfs", 0, NULL);
}
static int bind_to(const char *from, const char *to, unsigned long more) {
    return mount(in(from), in(to), NULL, MS_BIND | more, NULL);
}
static int become(const char *name, unsigned long type) {
    return mount(NULL, in(name), NULL, type, NULL);
}
static int gives(int result, int error) {
    return result == -1 && errno == error;
}

/* A tmpfs in which a test does what it wants, with a few directories. */
static void fresh(void) {
    CHECK(mount("none", base, "tmpfs", 0, "mode=755") == 0);
    CHECK(mount(NULL, base, NULL, MS_PRIVATE, NULL) == 0);
    CHECK(dir("a") == 0 && dir("b") == 0 && dir("c") == 0 && dir("d") == 0);
}
static void done(void) {
    CHECK(umount2(base, MNT_DETACH) == 0);
}
/* `a` is mounted, with a directory `x` and, in that, `y`. */
static void with_a(unsigned long type) {
    fresh();
    CHECK(tmpfs("a") == 0 && dir("a/x") == 0 && dir("a/x/y") == 0 && dir("a/z") == 0);
    CHECK(become("a", type) == 0);
}

/* Starts a child that tells when it is ready, and ends when its pipe is closed. */
struct child { pid_t pid; int ready, go; };
static struct child start(int flags, int (*body)(void)) {
    int ready[2], go[2];
    struct child child = { -1, -1, -1 };
    if (pipe(ready) || pipe(go)) return child;
    child.pid = fork();
    if (child.pid == 0) {
        char c = 0;
        failed = made = 0;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ready[0]);
        close(go[1]);
        CHECK(unshare(flags) == 0);
        if (write(ready[1], &c, 1) != 1 || read(go[0], &c, 1) != 1) _exit(99);
        CHECK(body() == 0);
        if (write(ready[1], &c, 1) != 1) _exit(98);
        while (read(go[0], &c, 1) == 1) continue;
        _exit(failed);
    }
    close(ready[1]);
    close(go[0]);
    child.ready = ready[0];
    child.go = go[1];
    char c;
    CHECK(read(child.ready, &c, 1) == 1);
    return child;
}
static void let_go(struct child *child) {
    char c = 0;
    CHECK(write(child->go, &c, 1) == 1 && read(child->ready, &c, 1) == 1);
}
static void end(struct child *child) {
    close(child->go);
    CHECK(child_good(child->pid));
    close(child->ready);
}

static void flags(void) {
    with_a(MS_PRIVATE);
    CHECK(gives(become("a", MS_SHARED | MS_PRIVATE), EINVAL));
    CHECK(gives(become("a", MS_SHARED | MS_RDONLY), EINVAL));
    CHECK(gives(become("a/x", MS_SHARED), EINVAL));
    CHECK(become("a", MS_SHARED | MS_SILENT) == 0 && number(in("a"), "shared:") > 0);
    CHECK(become("a", MS_PRIVATE) == 0 && number(in("a"), "shared:") == 0);
    CHECK(become("a", MS_UNBINDABLE) == 0 && has_word(in("a"), " unbindable"));
    CHECK(become("a", MS_SLAVE) == 0 && has_word(in("a"), " unbindable"));
    CHECK(become("a", MS_SHARED) == 0 && !has_word(in("a"), " unbindable"));
    /* A shared mount without peers becomes private when it is to be a slave. */
    CHECK(become("a", MS_SLAVE) == 0);
    CHECK(number(in("a"), "shared:") == 0 && number(in("a"), "master:") == 0);
    done();
}

static void recursive(void) {
    with_a(MS_PRIVATE);
    CHECK(tmpfs("a/x") == 0);
    CHECK(become("a", MS_SHARED | MS_REC) == 0);
    CHECK(number(in("a"), "shared:") > 0 && number(in("a/x"), "shared:") > 0);
    CHECK(number(in("a"), "shared:") != number(in("a/x"), "shared:"));
    CHECK(become("a", MS_PRIVATE) == 0);
    CHECK(number(in("a"), "shared:") == 0 && number(in("a/x"), "shared:") > 0);
    CHECK(become("a", MS_PRIVATE | MS_REC) == 0 && number(in("a/x"), "shared:") == 0);
    done();
}

static void peers(void) {
    with_a(MS_SHARED);
    CHECK(bind_to("a", "b", 0) == 0);
    CHECK(number(in("a"), "shared:") == number(in("b"), "shared:") && number(in("a"), "shared:") > 0);
    CHECK(tmpfs("a/x") == 0 && mounted(in("b/x")) == 1);
    CHECK(number(in("a/x"), "shared:") == number(in("b/x"), "shared:") && number(in("a/x"), "shared:") > 0);
    CHECK(umount(in("b/x")) == 0 && mounted(in("a/x")) == 0);
    CHECK(tmpfs("b/x") == 0 && mounted(in("a/x")) == 1);
    /* A peer that shows only a part sees what happens in that part. */
    CHECK(bind_to("a/z", "c", 0) == 0 && dir("a/z/w") == 0);
    CHECK(number(in("c"), "shared:") == number(in("a"), "shared:"));
    CHECK(tmpfs("a/z/w") == 0 && mounted(in("c/w")) == 1 && mounted(in("b/z/w")) == 1);
    CHECK(umount(in("c/w")) == 0 && mounted(in("a/z/w")) == 0 && mounted(in("b/z/w")) == 0);
    /* What is no peer any more sees nothing. */
    CHECK(become("b", MS_PRIVATE) == 0);
    CHECK(umount(in("a/x")) == 0 && mounted(in("b/x")) == 1);
    done();
}

static void slaves(void) {
    with_a(MS_SHARED);
    CHECK(bind_to("a", "b", 0) == 0 && become("b", MS_SLAVE) == 0);
    CHECK(number(in("b"), "shared:") == 0 && number(in("b"), "master:") == number(in("a"), "shared:"));
    CHECK(tmpfs("a/x") == 0 && mounted(in("b/x")) == 1);
    CHECK(number(in("b/x"), "master:") == number(in("a/x"), "shared:"));
    CHECK(tmpfs("b/z") == 0 && mounted(in("a/z")) == 0);
    CHECK(umount(in("b/x")) == 0 && mounted(in("a/x")) == 1);
    /* Both a slave and a peer in a group of its own. */
    CHECK(become("b", MS_SHARED) == 0 && bind_to("b", "c", 0) == 0);
    CHECK(number(in("b"), "shared:") == number(in("c"), "shared:"));
    CHECK(number(in("c"), "master:") == number(in("a"), "shared:"));
    CHECK(dir("a/v") == 0 && tmpfs("a/v") == 0 && mounted(in("b/v")) == 1 && mounted(in("c/v")) == 1);
    CHECK(number(in("b/v"), "shared:") == number(in("c/v"), "shared:"));
    CHECK(number(in("b/v"), "master:") == number(in("a/v"), "shared:"));
    CHECK(umount(in("c/v")) == 0 && mounted(in("b/v")) == 0 && mounted(in("a/v")) == 1);
    CHECK(umount(in("a/v")) == 0);
    /* A slave of a slave. */
    CHECK(bind_to("c", "d", 0) == 0 && become("d", MS_SLAVE) == 0);
    CHECK(number(in("d"), "master:") == number(in("c"), "shared:"));
    CHECK(tmpfs("a/v") == 0 && mounted(in("d/v")) == 1);
    CHECK(number(in("d/v"), "master:") == number(in("c/v"), "shared:"));
    CHECK(umount(in("a/v")) == 0 && mounted(in("d/v")) == 0 && mounted(in("b/v")) == 0);
    /* The masters go: their slaves get those above. */
    int above = number(in("a"), "shared:");
    CHECK(become("b", MS_PRIVATE) == 0 && become("c", MS_PRIVATE) == 0);
    CHECK(number(in("d"), "master:") == above);
    CHECK(tmpfs("a/v") == 0 && mounted(in("d/v")) == 1 && mounted(in("b/v")) == 0);
    CHECK(become("a", MS_PRIVATE) == 0 && number(in("d"), "master:") == 0);
    done();
}

/* In a directory from which not all masters can be seen. */
static int far_master(void) {
    CHECK(chroot(in("d")) == 0 && chdir("/") == 0);
    CHECK(mkdir("/proc", 0755) == 0 || errno == EEXIST);
    CHECK(mount("none", "/proc", "proc", 0, NULL) == 0);
    int master = number("/s", "master:"), from = number("/s", "propagate_from:");
    CHECK(master > 0 && from > 0 && from != master && from == number("/m", "shared:"));
    return 0;
}
static void dominating(void) {
    with_a(MS_SHARED);
    CHECK(tmpfs("d") == 0 && dir("d/m") == 0 && dir("d/s") == 0);
    CHECK(bind_to("a", "d/m", 0) == 0);
    CHECK(bind_to("a", "b", 0) == 0 && become("b", MS_SLAVE) == 0 && become("b", MS_SHARED) == 0);
    CHECK(bind_to("b", "d/s", 0) == 0 && become("d/s", MS_SLAVE) == 0);
    CHECK(number(in("d/s"), "master:") == number(in("b"), "shared:"));
    CHECK(number(in("d/s"), "propagate_from:") == 0);
    pid_t child = fork();
    if (child == 0) {
        failed = 0;
        far_master();
        _exit(failed);
    }
    CHECK(child_good(child));
    done();
}

static void unbindable(void) {
    with_a(MS_PRIVATE);
    CHECK(tmpfs("a/x") == 0 && dir("a/x/in") == 0 && tmpfs("a/x/in") == 0 && tmpfs("a/z") == 0);
    CHECK(become("a/x", MS_UNBINDABLE) == 0);
    CHECK(gives(bind_to("a/x", "b", 0), EINVAL) && gives(bind_to("a/x", "b", MS_REC), EINVAL));
    CHECK(bind_to("a", "b", MS_REC) == 0);
    CHECK(mounted(in("b/z")) == 1 && mounted(in("b/x")) == 0 && mounted(in("b/x/in")) == 0);
    /* It cannot be moved to where it would be copied. */
    CHECK(tmpfs("c") == 0 && become("c", MS_SHARED) == 0 && dir("c/to") == 0);
    CHECK(gives(mount(in("a/x"), in("c/to"), NULL, MS_MOVE, NULL), EINVAL));
    CHECK(gives(mount(in("a"), in("c/to"), NULL, MS_MOVE, NULL), EINVAL));
    CHECK(mount(in("a/x"), in("d"), NULL, MS_MOVE, NULL) == 0);
    done();
}

static void moves(void) {
    with_a(MS_SHARED);
    CHECK(bind_to("a", "b", 0) == 0);
    CHECK(tmpfs("a/x") == 0);
    /* Nothing is moved out of a shared mount. */
    CHECK(gives(mount(in("a/x"), in("c"), NULL, MS_MOVE, NULL), EINVAL));
    CHECK(umount(in("a/x")) == 0);
    CHECK(tmpfs("c") == 0 && dir("c/deep") == 0 && tmpfs("c/deep") == 0);
    CHECK(mount(in("c"), in("a/x"), NULL, MS_MOVE, NULL) == 0);
    CHECK(mounted(in("c")) == 0 && mounted(in("a/x/deep")) == 1 && mounted(in("b/x/deep")) == 1);
    CHECK(number(in("a/x/deep"), "shared:") == number(in("b/x/deep"), "shared:"));
    CHECK(number(in("a/x"), "shared:") > 0);
    CHECK(gives(mount(in("a"), in("a/x/deep"), NULL, MS_MOVE, NULL), ELOOP));
    CHECK(mount(in("a"), in("d"), NULL, MS_MOVE, NULL) == 0 && mounted(in("d/x/deep")) == 1);
    CHECK(gives(umount(in("d/x")), EBUSY));
    CHECK(umount2(in("d/x"), MNT_DETACH) == 0);
    CHECK(mounted(in("b/x")) == 0 && mounted(in("b/x/deep")) == 0);
    done();
}

/* What a slave has mounted itself comes to lie on top of what it gets from its master. */
static void tucked(void) {
    with_a(MS_SHARED);
    CHECK(bind_to("a", "b", 0) == 0 && become("b", MS_SLAVE) == 0);
    CHECK(tmpfs("b/x") == 0);
    int fd = open(in("b/x/mine"), O_CREAT | O_WRONLY, 0600);
    CHECK(fd >= 0);
    close(fd);
    CHECK(tmpfs("a/x") == 0 && mounted(in("b/x")) == 2);
    CHECK(access(in("b/x/mine"), F_OK) == 0);
    /* It goes from below, and what lies on it stays. */
    CHECK(umount(in("a/x")) == 0 && mounted(in("b/x")) == 1 && access(in("b/x/mine"), F_OK) == 0);
    CHECK(tmpfs("a/x") == 0 && mounted(in("b/x")) == 2);
    CHECK(umount2(in("a/x"), MNT_DETACH) == 0 && mounted(in("b/x")) == 1);
    CHECK(access(in("b/x/mine"), F_OK) == 0);
    CHECK(umount(in("b/x")) == 0 && mounted(in("b/x")) == 0);
    /* What holds something else stays as it is. */
    CHECK(tmpfs("a/x") == 0 && dir("b/x/own") == 0 && tmpfs("b/x/own") == 0);
    CHECK(umount(in("a/x")) == 0 && mounted(in("a/x")) == 0 && mounted(in("b/x")) == 1);
    CHECK(mounted(in("b/x/own")) == 1);
    done();
}

static void busy(void) {
    with_a(MS_SHARED);
    CHECK(bind_to("a", "b", 0) == 0 && tmpfs("a/x") == 0);
    int fd = open(in("b/x"), O_RDONLY | O_DIRECTORY);
    CHECK(fd >= 0 && gives(umount(in("a/x")), EBUSY) && mounted(in("a/x")) == 1 && mounted(in("b/x")) == 1);
    CHECK(umount2(in("a/x"), MNT_DETACH) == 0 && mounted(in("b/x")) == 0);
    close(fd);
    CHECK(tmpfs("a/x") == 0);
    CHECK(gives(umount2(in("a/x"), MNT_EXPIRE | MNT_DETACH), EINVAL));
    CHECK(gives(umount2(in("a/x"), MNT_EXPIRE), EAGAIN) && umount2(in("a/x"), MNT_EXPIRE) == 0);
    CHECK(mounted(in("b/x")) == 0);
    CHECK(gives(umount(in("a/x")), EINVAL));
    done();
}

/* A tree is bound below itself, where its peers are. */
static void below_itself(void) {
    with_a(MS_SHARED);
    CHECK(bind_to("a", "a/x", 0) == 0);
    CHECK(mounted(in("a/x")) == 1 && number(in("a"), "shared:") == number(in("a/x"), "shared:"));
    CHECK(tmpfs("a/z") == 0 && mounted(in("a/x/z")) == 1);
    CHECK(bind_to("a", "b", MS_REC) == 0 && mounted(in("b/x/z")) == 1);
    /* What is mounted in the inner one goes, and so what is mounted at that name in its peers. */
    CHECK(umount2(in("a/x"), MNT_DETACH) == 0 && mounted(in("b/x")) == 0);
    CHECK(mounted(in("a/z")) == 0 && mounted(in("b/z")) == 0);
    done();
}

static int alone_body(void) {
    CHECK(mounted(in("a")) == 1 && tmpfs("b") == 0 && umount(in("a")) == 0);
    CHECK(mounted(in("a")) == 0);
    return 0;
}
static void isolated(void) {
    fresh();
    CHECK(tmpfs("a") == 0);
    struct child child = start(CLONE_NEWNS, alone_body);
    CHECK(tmpfs("c") == 0);
    let_go(&child);
    CHECK(mounted(in("a")) == 1 && mounted(in("b")) == 0 && mounted(in("c")) == 1);
    char line[1024], who[16];
    snprintf(who, sizeof who, "%d", child.pid);
    CHECK(line_of(who, in("b"), line, sizeof line) == 1 && line_of(who, in("a"), line, sizeof line) == 0);
    CHECK(line_of(who, in("c"), line, sizeof line) == 0);
    /* Its mounts are seen through its root, but are not to be changed from here. */
    char path[300];
    snprintf(path, sizeof path, "/proc/%d/root%s", child.pid, in("b"));
    struct stat here, there;
    CHECK(stat(path, &there) == 0 && stat(in("b"), &here) == 0 && here.st_dev != there.st_dev);
    CHECK(gives(umount(path), EINVAL) && gives(umount2(path, MNT_DETACH), EINVAL));
    CHECK(gives(mount("none", path, "tmpfs", 0, NULL), EINVAL));
    CHECK(gives(mount(path, in("d"), NULL, MS_BIND, NULL), EINVAL));
    CHECK(gives(mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL), EINVAL));
    CHECK(gives(mount(path, in("d"), NULL, MS_MOVE, NULL), EINVAL));
    end(&child);
    done();
}

static int shared_body(void) {
    CHECK(mounted(in("a/x")) == 1 && umount(in("a/x")) == 0 && tmpfs("a/z") == 0);
    return 0;
}
static int slave_body(void) {
    CHECK(mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL) == 0);
    CHECK(mounted(in("a/z")) == 1 && tmpfs("a/x") == 0);
    CHECK(umount(in("a/z")) == 0);
    return 0;
}
static void across(void) {
    with_a(MS_SHARED);
    struct child child = start(CLONE_NEWNS, shared_body);
    CHECK(tmpfs("a/x") == 0);
    let_go(&child);
    CHECK(mounted(in("a/x")) == 0 && mounted(in("a/z")) == 1);
    end(&child);
    /* What it had mounted stays when it ends. */
    CHECK(mounted(in("a/z")) == 1);
    child = start(CLONE_NEWNS, slave_body);
    let_go(&child);
    CHECK(mounted(in("a/x")) == 0 && mounted(in("a/z")) == 1);
    end(&child);
    done();
}

/* A name on which only another namespace has mounted something can be removed. */
static int cover_body(void) {
    CHECK(tmpfs("c") == 0 && tmpfs("d") == 0);
    return 0;
}
static void removed(void) {
    fresh();
    struct child child = start(CLONE_NEWNS, cover_body);
    let_go(&child);
    char line[1024], who[16];
    snprintf(who, sizeof who, "%d", child.pid);
    CHECK(line_of(who, in("c"), line, sizeof line) == 1);
    CHECK(rmdir(in("c")) == 0);
    CHECK(line_of(who, in("c"), line, sizeof line) == 0 && line_of(who, in("d"), line, sizeof line) == 1);
    CHECK(rename(in("a"), in("d")) == 0 && line_of(who, in("d"), line, sizeof line) == 0);
    CHECK(tmpfs("b") == 0 && gives(rmdir(in("b")), EBUSY) && gives(rename(in("b"), in("e")), EBUSY));
    end(&child);
    done();
}

static int events(int fd) {
    struct pollfd entry = { fd, POLLPRI, 0 };
    return poll(&entry, 1, 0) >= 0 ? entry.revents & (POLLERR | POLLPRI) : -1;
}
static int tell_body(void) {
    CHECK(tmpfs("b") == 0);
    return 0;
}
static void told(void) {
    fresh();
    struct child child = start(CLONE_NEWNS, tell_body);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mounts", child.pid);
    int own = open("/proc/self/mountinfo", O_RDONLY), its = open(path, O_RDONLY);
    CHECK(own >= 0 && its >= 0 && events(own) == 0 && events(its) == 0);
    let_go(&child);
    CHECK(events(own) == 0 && events(its) == (POLLERR | POLLPRI) && events(its) == 0);
    CHECK(tmpfs("c") == 0 && events(own) == (POLLERR | POLLPRI) && events(own) == 0 && events(its) == 0);
    CHECK(umount(in("c")) == 0 && events(own) == (POLLERR | POLLPRI));
    end(&child);
    close(own);
    close(its);
    done();
}

static int joined_body(void) {
    CHECK(tmpfs("b") == 0);
    return 0;
}
static int idle_thread(void *unused) {
    (void)unused;
    for (;;) pause();
    return 0;
}
static void joined(void) {
    fresh();
    int own = open("/proc/self/ns/mnt", O_RDONLY);
    struct child child = start(CLONE_NEWNS, joined_body);
    let_go(&child);
    char path[64], cwd[256];
    snprintf(path, sizeof path, "/proc/%d/ns/mnt", child.pid);
    int its = open(path, O_RDONLY);
    CHECK(own >= 0 && its >= 0);
    pid_t other = fork();
    if (other == 0) {
        failed = 0;
        CHECK(chdir(in("a")) == 0);
        CHECK(gives(setns(its, CLONE_NEWUTS), EINVAL));
        CHECK(setns(its, CLONE_NEWNS) == 0 && mounted(in("b")) == 1);
        CHECK(getcwd(cwd, sizeof cwd) && strcmp(cwd, "/") == 0);
        CHECK(chroot(in("a")) == 0);
        CHECK(setns(own, 0) == 0 && mounted(in("b")) == 0 && access(in("a"), F_OK) == 0);
        /* Without CAP_SYS_CHROOT and CAP_SYS_ADMIN nobody joins. */
        CHECK(setresuid(1000, 1000, 1000) == 0 && gives(setns(its, 0), EPERM));
        CHECK(gives(unshare(CLONE_NEWNS), EPERM));
        _exit(failed);
    }
    CHECK(child_good(other));
    /* Who shares its directories joins none. */
    other = fork();
    if (other == 0) {
        failed = 0;
        static char stack[16384] __attribute__((aligned(16)));
        pid_t idle = clone(idle_thread, stack + sizeof stack, CLONE_FS | CLONE_VM | SIGCHLD, NULL);
        CHECK(idle > 0 && gives(setns(its, CLONE_NEWNS), EINVAL));
        kill(idle, SIGKILL);
        waitpid(idle, NULL, 0);
        CHECK(setns(its, CLONE_NEWNS) == 0);
        _exit(failed);
    }
    CHECK(child_good(other));
    end(&child);
    /* A file keeps the namespace. */
    other = fork();
    if (other == 0) {
        failed = 0;
        CHECK(setns(its, CLONE_NEWNS) == 0 && mounted(in("b")) == 1);
        _exit(failed);
    }
    CHECK(child_good(other));
    close(its);
    close(own);
    done();
}

static int nothing_body(void) {
    return 0;
}
/* Files of namespaces are bound only in those that are older. */
static void files(void) {
    fresh();
    int fd = open(in("ns"), O_CREAT | O_WRONLY, 0600);
    CHECK(fd >= 0);
    close(fd);
    CHECK(gives(mount("/proc/self/ns/mnt", in("ns"), NULL, MS_BIND, NULL), EINVAL));
    struct child child = start(CLONE_NEWNS, nothing_body);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/mnt", child.pid);
    CHECK(mount(path, in("ns"), NULL, MS_BIND, NULL) == 0 && mounted(in("ns")) == 1);
    struct statfs fs;
    CHECK(statfs(in("ns"), &fs) == 0 && fs.f_type == 0x6e736673);
    let_go(&child);
    end(&child);
    pid_t other = fork();
    if (other == 0) {
        failed = 0;
        fd = open(in("ns"), O_RDONLY);
        CHECK(fd >= 0);
        /* Copies leave it out. */
        CHECK(unshare(CLONE_NEWNS) == 0 && mounted(in("ns")) == 0);
        /* The other one is older than this. */
        char file[32];
        snprintf(file, sizeof file, "/proc/self/fd/%d", fd);
        CHECK(gives(mount(file, in("ns"), NULL, MS_BIND, NULL), EINVAL));
        CHECK(setns(fd, CLONE_NEWNS) == 0);
        _exit(failed);
    }
    CHECK(child_good(other));
    CHECK(umount(in("ns")) == 0);
    done();
}

static void pivoted(void) {
    with_a(MS_PRIVATE);
    struct child child = start(CLONE_NEWNS, nothing_body);
    let_go(&child);
    end(&child);
    pid_t other = fork();
    if (other == 0) {
        failed = 0;
        CHECK(unshare(CLONE_NEWNS) == 0);
        CHECK(bind_to("a", "b", 0) == 0);
        /* In a shared mount nothing is exchanged. */
        CHECK(mount(NULL, base, NULL, MS_SHARED, NULL) == 0);
        CHECK(gives(syscall(SYS_pivot_root, in("a"), in("a/x")), EINVAL));
        CHECK(mount(NULL, base, NULL, MS_PRIVATE, NULL) == 0 && become("a", MS_SHARED) == 0);
        CHECK(gives(syscall(SYS_pivot_root, in("a"), in("a/x")), EINVAL));
        CHECK(become("a", MS_PRIVATE) == 0);
        /* The root must be a mount that is mounted in another one. */
        CHECK(chroot(base) == 0 && chdir("/") == 0);
        CHECK(gives(syscall(SYS_pivot_root, "/c", "/c"), EBUSY));
        CHECK(syscall(SYS_pivot_root, "/a", "/a/x") == 0);
        CHECK(access("/z", F_OK) == 0 && access("/x/b", F_OK) == 0);
        CHECK(umount2("/x", MNT_DETACH) == 0 && access("/x/b", F_OK) == -1);
        _exit(failed);
    }
    CHECK(child_good(other));
    CHECK(mounted(in("a")) == 1 && mounted(in("b")) == 0);
    done();
}

static void limit(void) {
    with_a(MS_SHARED);
    CHECK(bind_to("a", "b", 0) == 0 && bind_to("a", "c", 0) == 0);
    FILE *file = fopen("/proc/self/mountinfo", "r");
    int count = 0, c;
    while (file && (c = fgetc(file)) != EOF) count += c == '\n';
    if (file) fclose(file);
    char text[16];
    snprintf(text, sizeof text, "%d", count + 2);
    set("fs/mount-max", text);
    /* All or nothing: three would be mounted. */
    CHECK(gives(tmpfs("a/x"), ENOSPC) && mounted(in("a/x")) == 0 && mounted(in("c/x")) == 0);
    CHECK(tmpfs("d") == 0 && umount(in("d")) == 0);
    snprintf(text, sizeof text, "%d", count + 3);
    set("fs/mount-max", text);
    CHECK(tmpfs("a/x") == 0 && mounted(in("c/x")) == 1);
    CHECK(gives(tmpfs("d"), ENOSPC));
    set("fs/mount-max", "100000");
    done();
}

static int write_to(const char *path, const char *text) {
    int fd = open(path, O_WRONLY), good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0) close(fd);
    return good;
}

/* In a user namespace, which has a copy of the mounts. */
static void less(void) {
    CHECK(unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0);
    CHECK(write_to("/proc/self/setgroups", "deny") && write_to("/proc/self/uid_map", "0 0 1"));
    CHECK(write_to("/proc/self/gid_map", "0 0 1"));
    /* It hears of what is mounted outside, but does not tell. */
    CHECK(number(in("a"), "shared:") == 0 && number(in("a"), "master:") > 0);
    CHECK(number(in("b"), "shared:") == 0 && number(in("b"), "master:") == 0);
    /* What is locked is not unmounted or moved alone. */
    CHECK(gives(umount(in("b")), EINVAL) && gives(umount2(in("b"), MNT_DETACH), EINVAL));
    CHECK(gives(mount(in("b"), in("c"), NULL, MS_MOVE, NULL), EINVAL));
    CHECK(gives(umount2(base, MNT_DETACH), EINVAL));
    /* Nor is what it covers bound without it. */
    CHECK(gives(mount(base, in("c"), NULL, MS_BIND, NULL), EINVAL));
    CHECK(mount(base, in("c"), NULL, MS_BIND | MS_REC, NULL) == 0 && mounted(in("c/b")) == 1);
    CHECK(gives(umount(in("c/b")), EINVAL) && access(in("c/b/secret"), F_OK) == -1);
    /* The whole may go, but then covers what it covered to the end. */
    int top = open(in("c"), O_RDONLY | O_DIRECTORY);
    CHECK(top >= 0 && umount2(in("c"), MNT_DETACH) == 0 && mounted(in("c")) == 0);
    CHECK(faccessat(top, "b/secret", F_OK, 0) == -1 && faccessat(top, "b/above", F_OK, 0) == 0);
    close(top);
    /* Its flags stay. */
    unsigned long all = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME,
        bind = MS_REMOUNT | MS_BIND;
    CHECK(gives(become("d", bind), EPERM));
    CHECK(gives(become("d", bind | (all & ~MS_RDONLY)), EPERM));
    CHECK(gives(become("d", bind | (all & ~MS_NOSUID)), EPERM));
    CHECK(gives(become("d", bind | (all & ~MS_NODEV)), EPERM));
    CHECK(gives(become("d", bind | (all & ~MS_NOEXEC)), EPERM));
    CHECK(gives(become("d", bind | (all & ~MS_NOATIME) | MS_STRICTATIME), EPERM));
    CHECK(become("d", bind | all) == 0 && become("b", bind | MS_NOSUID) == 0);
    CHECK(become("b", bind) == 0);
    CHECK(gives(mount(NULL, in("d"), NULL, MS_REMOUNT | all, NULL), EPERM));
    /* What it mounts itself is its own. */
    CHECK(tmpfs("c") == 0 && dir("c/e") == 0 && tmpfs("c/e") == 0);
    CHECK(mount(NULL, in("c"), NULL, MS_REMOUNT | MS_RDONLY, "size=1M") == 0);
    CHECK(mount(NULL, in("c"), NULL, MS_REMOUNT, "size=1M") == 0);
    CHECK(gives(mknod(in("c/null"), S_IFCHR | 0666, makedev(1, 3)), EPERM));
    CHECK(umount(in("c/e")) == 0);
    CHECK(dir("c/r") == 0 && mount("none", in("c/r"), "ramfs", 0, NULL) == 0);
    /* What these show is not its own. */
    const char *others[] = { "proc", "sysfs", "mqueue" };
    for (int i = 0; i < 3; i++)
        CHECK(gives(mount("none", in("c/e"), others[i], 0, NULL), EPERM) || errno == ENODEV);
    CHECK(gives(mount("none", in("c/e"), "debugfs", 0, NULL), EPERM) || errno == ENODEV);
    CHECK(gives(mount("none", in("c/e"), "devtmpfs", 0, NULL), EPERM) || errno == ENODEV);
    /* What others mount outside is locked in here if it is more than one. */
    _exit(failed);
}
static void locked(void) {
    with_a(MS_SHARED);
    int fd = open(in("b/secret"), O_CREAT | O_WRONLY, 0600);
    CHECK(fd >= 0);
    close(fd);
    CHECK(tmpfs("b") == 0);
    fd = open(in("b/above"), O_CREAT | O_WRONLY, 0600);
    CHECK(fd >= 0);
    close(fd);
    CHECK(mount("none", in("d"), "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME,
        NULL) == 0);
    pid_t child = fork();
    if (child == 0) {
        failed = 0;
        less();
    }
    CHECK(child_good(child));
    done();
}

/* What comes from a namespace with more rights is locked as a whole. */
static int receive_body(void) {
    CHECK(mounted(in("a/x")) == 1 && mounted(in("a/x/in")) == 1);
    CHECK(gives(umount(in("a/x/in")), EINVAL) && gives(umount(in("a/x")), EBUSY));
    CHECK(umount2(in("a/x"), MNT_DETACH) == 0 && mounted(in("a/x")) == 0 && mounted(in("a/x/in")) == 0);
    return 0;
}
static void received(void) {
    with_a(MS_SHARED);
    struct child child = start(CLONE_NEWUSER | CLONE_NEWNS, receive_body);
    CHECK(tmpfs("c") == 0 && dir("c/in") == 0 && tmpfs("c/in") == 0);
    CHECK(bind_to("c", "a/x", MS_REC) == 0 && mounted(in("a/x/in")) == 1);
    let_go(&child);
    CHECK(mounted(in("a/x/in")) == 1);
    end(&child);
    done();
}

/* Many namespaces at once, each of which hears of the others' mounts and forgets them with its end. */
static void many(void) {
    with_a(MS_SHARED);
    enum { COUNT = 40 };
    pid_t children[COUNT];
    for (int i = 0; i < COUNT; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            failed = 0;
            CHECK(unshare(CLONE_NEWNS) == 0);
            for (int round = 0; round < 10; round++) {
                /* EINVAL: what was mounted there, as the path was looked up, has just been unmounted. */
                CHECK(tmpfs("a/x") == 0 || errno == EINVAL);
                umount2(in("a/x"), MNT_DETACH);
            }
            _exit(failed);
        }
    }
    for (int i = 0; i < COUNT; i++) CHECK(child_good(children[i]));
    CHECK(mounted(in("a")) == 1);
    while (mounted(in("a/x")) > 0)
        if (umount2(in("a/x"), MNT_DETACH) != 0) break;
    CHECK(mounted(in("a/x")) == 0);
    done();
}

/* Becomes root of a new user namespace with a copy of the mounts. */
static void lessen(int more) {
    CHECK(unshare(CLONE_NEWUSER | CLONE_NEWNS | more) == 0);
    CHECK(write_to("/proc/self/setgroups", "deny") && write_to("/proc/self/uid_map", "0 0 1"));
    CHECK(write_to("/proc/self/gid_map", "0 0 1"));
}

static int make_file(const char *name) {
    int fd = open(in(name), O_CREAT | O_WRONLY, 0600);
    if (fd < 0) return -1;
    return close(fd);
}

/* What a locked mount covers is not seen while its tree is bound and unmounted. */
enum { WIDE = 300, BINDS = 40 };
static void *look_in(void *stop) {
    char path[128], other[128];
    snprintf(path, sizeof path, "%s/c/b/secret", base);
    snprintf(other, sizeof other, "%s/c/./b/secret", base);
    long found = 0;
    while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED)) {
        found += access(path, F_OK) == 0;
        found += access(other, F_OK) == 0;
    }
    return (void *)found;
}
static void hide(void) {
    cpu_set_t all;
    memset(&all, 0xff, sizeof all);
    sched_setaffinity(0, sizeof all, &all);
    lessen(0);
    CHECK(access(in("a/b/secret"), F_OK) == -1 && access(in("a/b/above"), F_OK) == 0);
    /* The copies of these come between. */
    char name[32];
    CHECK(tmpfs("a/w") == 0);
    for (int i = 0; i < WIDE; i++) {
        snprintf(name, sizeof name, "a/w/%d", i);
        if (dir(name) != 0 || bind_to("d", name, 0) != 0) failed++;
    }
    int stop = 0;
    pthread_t lookers[2];
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&lookers[i], NULL, look_in, &stop) == 0);
    for (int i = 0; i < BINDS; i++) {
        if (bind_to("a", "c", MS_REC) != 0) failed++;
        if (umount2(in("c"), MNT_DETACH) != 0) failed++;
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++) {
        void *found;
        CHECK(pthread_join(lookers[i], &found) == 0 && found == NULL);
    }
    _exit(failed);
}
static void hidden(void) {
    fresh();
    CHECK(tmpfs("a") == 0 && dir("a/b") == 0 && dir("a/w") == 0 && make_file("a/b/secret") == 0);
    CHECK(tmpfs("a/b") == 0 && make_file("a/b/above") == 0);
    pid_t child = fork();
    if (child == 0) {
        failed = 0;
        hide();
    }
    CHECK(child_good(child));
    done();
}

/* However many others have something mounted on a name, that is nothing to who has not. */
enum { CROWD = 2000, WALKS = 200 };
static long walks(const char *path) {
    long best = -1;
    for (int i = 0; i < 20; i++) {
        struct timespec from, to;
        clock_gettime(CLOCK_MONOTONIC, &from);
        for (int j = 0; j < WALKS; j++)
            if (access(path, F_OK) != 0) return -1;
        clock_gettime(CLOCK_MONOTONIC, &to);
        long took = (to.tv_sec - from.tv_sec) * 1000000000 + (to.tv_nsec - from.tv_nsec);
        if (best < 0 || took < best) best = took;
    }
    return best;
}
static int crowd_body(void) {
    char name[32];
    CHECK(become("a", MS_PRIVATE) == 0 && become("a", MS_SHARED) == 0);
    for (int i = 0; i < CROWD; i++) {
        snprintf(name, sizeof name, "b/%d", i);
        if (dir(name) != 0 || bind_to("a", name, 0) != 0) return 1;
    }
    CHECK(tmpfs("a/x") == 0 && mounted(in("b/0/x")) == 1 && mounted(in("b/1999/x")) == 1);
    CHECK(make_file("b/7/x/own") == 0 && access(in("b/8/x/own"), F_OK) == 0);
    /* One of them that is in use keeps all. */
    int fd = open(in("b/1999/x/own"), O_RDONLY);
    CHECK(fd >= 0 && gives(umount(in("a/x")), EBUSY) && close(fd) == 0);
    CHECK(umount(in("b/3/x")) == 0 && mounted(in("a/x")) == 0 && mounted(in("b/1998/x")) == 0);
    CHECK(access(in("b/8/x/own"), F_OK) == -1);
    CHECK(tmpfs("b/1000/x") == 0 && mounted(in("a/x")) == 1);
    return 0;
}
static void crowded(void) {
    with_a(MS_PRIVATE);
    CHECK(dir("a/x/file") == 0 && dir("a/z/file") == 0);
    struct child child = start(CLONE_NEWNS, crowd_body);
    let_go(&child);
    long here = walks(in("a/x/file")), nothing = walks(in("a/z/file"));
    CHECK(here > 0 && nothing > 0 && here / 8 < nothing);
    /* Their mounts do not keep the name, and go with it. */
    CHECK(rmdir(in("a/x/file")) == 0 && rmdir(in("a/x/y")) == 0 && rmdir(in("a/x")) == 0);
    end(&child);
    done();
}

/* What is mounted below a process's directory goes with the process. */
static void with_process(void) {
    char path[64], link[64];
    int go[2];
    fresh();
    CHECK(pipe(go) == 0);
    pid_t child = fork();
    if (child == 0) {
        char c;
        close(go[1]);
        _exit(read(go[0], &c, 1) == 0 ? 0 : 1);
    }
    close(go[0]);
    snprintf(path, sizeof path, "/proc/%d", child);
    int fd = open(path, O_PATH | O_DIRECTORY);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    snprintf(path, sizeof path, "/proc/%d/fdinfo", child);
    for (int i = 0; i < 40; i++) {
        if (mount("none", path, "tmpfs", 0, NULL) != 0) failed++;
        if (umount(path) != 0) failed++;
    }
    CHECK(fd >= 0 && mount("none", path, "tmpfs", 0, NULL) == 0 && mounted(path) == 1);
    CHECK(mount(path, in("b"), NULL, MS_BIND, NULL) == 0 && mounted(in("b")) == 1);
    /* The directory itself, elsewhere, and something on that. */
    CHECK(mount(link, in("c"), NULL, MS_BIND, NULL) == 0 && tmpfs("c") == 0 && mounted(in("c")) == 2);
    close(go[1]);
    CHECK(child_good(child) && mounted(path) == 0);
    CHECK(mounted(in("b")) == 1 && mounted(in("c")) == 1);
    /* On what is gone nothing is mounted. */
    CHECK(gives(mount("none", link, "tmpfs", 0, NULL), ENOENT));
    CHECK(gives(tmpfs("c"), ENOENT));
    close(fd);
    done();
}

/* The mount of a namespace's file. */
static void namespace_file(void) {
    char name[64], word[80];
    fresh();
    ssize_t size = readlink("/proc/self/ns/uts", name, sizeof name - 1);
    CHECK(size > 0 && make_file("a/uts") == 0);
    name[size > 0 ? size : 0] = 0;
    CHECK(mount("/proc/self/ns/uts", in("a/uts"), NULL, MS_BIND, NULL) == 0);
    snprintf(word, sizeof word, " %s %s rw ", name, in("a/uts"));
    CHECK(has_word(in("a/uts"), word));
    CHECK(has_word(in("a/uts"), " - nsfs nsfs rw") && !has_word(in("a/uts"), "atime"));
    CHECK(umount(in("a/uts")) == 0);
    done();
}

/* A directory that is only empty for now is hidden by what is mounted on it. */
static int fresh_proc(void) {
    pid_t child = fork();
    if (child == 0) {
        lessen(CLONE_NEWPID);
        pid_t first = fork();
        if (first == 0) _exit(mount("none", in("c"), "proc", 0, NULL) == 0 ? 0 : errno);
        int status;
        waitpid(first, &status, 0);
        _exit(WEXITSTATUS(status));
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
static void empty_for_now(void) {
    char path[64];
    fresh();
    int before = fresh_proc();
    CHECK(before == 0 || before == EPERM);
    pid_t child = fork();
    if (child == 0) _exit(0);
    siginfo_t info;
    CHECK(waitid(P_PID, child, &info, WEXITED | WNOWAIT) == 0);
    snprintf(path, sizeof path, "/proc/%d/fd", child);
    CHECK(mount("none", path, "tmpfs", 0, NULL) == 0);
    if (before == 0)
        CHECK(fresh_proc() == EPERM);
    else
        printf("mountns: not checked: here no user namespace may mount proc\n");
    CHECK(child_good(child) && mounted(path) == 0 && fresh_proc() == before);
    done();
}

/* What is mounted below a thread's directory goes with its number, and leaves nothing that hides another. */
static int thread_ends[2];
static volatile int thread_number;
static void *short_thread(void *execs) {
    char c;
    thread_number = gettid();
    while (read(thread_ends[0], &c, 1) == -1) continue;
    if (execs) {
        execl("/proc/self/exe", "mountns", "--wait", (char *)NULL);
        _exit(97);
    }
    return NULL;
}
/* Lets a thread begin; gives its number. */
static pid_t begin_thread(pthread_t *thread, int execs) {
    thread_number = 0;
    CHECK(pipe2(thread_ends, O_CLOEXEC) == 0);
    CHECK(pthread_create(thread, NULL, short_thread, execs ? "" : NULL) == 0);
    SOON(thread_number != 0);
    return thread_number;
}
static void let_end(pthread_t thread) {
    close(thread_ends[1]);
    pthread_join(thread, NULL);
    close(thread_ends[0]);
}
/* A process whose thread, when it may, calls exec; the new program ends when `ends` is closed. */
static pid_t execs_soon(int *tid, int *may, int *ends) {
    int told[2], keeps[2];
    CHECK(pipe2(told, O_CLOEXEC) == 0 && pipe2(keeps, O_CLOEXEC) == 0);
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        failed = 0;
        pid_t number = begin_thread(&thread, 1);
        close(keeps[1]);
        if (dup2(keeps[0], 0) != 0 || write(told[1], &number, sizeof number) != sizeof number) _exit(96);
        char c;
        /* Only then the thread may go on. */
        if (read(0, &c, 1) != 1) _exit(95);
        close(thread_ends[1]);
        for (;;) pause();
    }
    close(told[1]);
    close(keeps[0]);
    CHECK(read(told[0], tid, sizeof *tid) == sizeof *tid);
    close(told[0]);
    *may = *ends = keeps[1];
    return child;
}
/* Whether a thread has a tracer. */
static int traced(pid_t tid) {
    char path[64], line[128];
    int tracer = 0;
    snprintf(path, sizeof path, "/proc/%d/status", tid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) sscanf(line, "TracerPid: %d", &tracer);
    if (file) fclose(file);
    return tracer != 0;
}
static int gone(const char *path) {
    struct stat st;
    return stat(path, &st) == -1 && errno == ENOENT;
}
static void with_thread(void) {
    char path[64], task[96], link[64], top[64];
    pthread_t thread;
    fresh();
    /* It ends; what was mounted and is not any more does not matter. */
    pid_t tid = begin_thread(&thread, 0);
    snprintf(top, sizeof top, "/proc/%d", tid);
    snprintf(path, sizeof path, "/proc/%d/fdinfo", tid);
    snprintf(task, sizeof task, "/proc/%d/task/%d/fdinfo", getpid(), tid);
    for (int i = 0; i < 40; i++) {
        if (mount("none", path, "tmpfs", 0, NULL) != 0) failed++;
        if (umount(path) != 0) failed++;
    }
    CHECK(mount("none", path, "tmpfs", 0, NULL) == 0 && mounted(path) == 1);
    CHECK(mount("none", task, "tmpfs", 0, NULL) == 0 && mounted(task) == 1);
    CHECK(mount(path, in("b"), NULL, MS_BIND, NULL) == 0 && mounted(in("b")) == 1);
    let_end(thread);
    CHECK(SOON(gone(top)) && SOON(mounted(path) == 0) && SOON(mounted(task) == 0));
    CHECK(mounted(in("b")) == 1);
    /* On the directory of one that has ended nothing is mounted. */
    tid = begin_thread(&thread, 0);
    snprintf(top, sizeof top, "/proc/%d", tid);
    snprintf(path, sizeof path, "/proc/%d/fdinfo", tid);
    int fd = open(path, O_PATH | O_DIRECTORY);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    let_end(thread);
    CHECK(SOON(gone(top)));
    CHECK(fd >= 0 && gives(mount("none", link, "tmpfs", 0, NULL), ENOENT) && gone(top) && mounted(path) == 0);
    close(fd);
    /* It becomes the leader by exec, and has another number then. */
    int may, ends;
    pid_t child = execs_soon(&tid, &may, &ends);
    snprintf(top, sizeof top, "/proc/%d", tid);
    snprintf(path, sizeof path, "/proc/%d/fdinfo", tid);
    snprintf(task, sizeof task, "/proc/%d/fdinfo", child);
    CHECK(mount("none", path, "tmpfs", 0, NULL) == 0 && mounted(path) == 1);
    CHECK(mount("none", task, "tmpfs", 0, NULL) == 0 && mounted(task) == 1);
    CHECK(write(may, "", 1) == 1);
    CHECK(SOON(gone(top)) && SOON(mounted(path) == 0) && mounted(task) == 1);
    close(ends);
    CHECK(child_good(child) && mounted(task) == 0);
    /* Its tracer ends, which was to wait for it. */
    tid = begin_thread(&thread, 0);
    snprintf(top, sizeof top, "/proc/%d", tid);
    snprintf(path, sizeof path, "/proc/%d/fdinfo", tid);
    int go[2];
    CHECK(pipe(go) == 0);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    child = fork();
    if (child == 0) {
        char c;
        close(go[1]);
        close(thread_ends[1]);
        if (ptrace(PTRACE_SEIZE, tid, 0, 0) != 0) _exit(1);
        _exit(read(go[0], &c, 1) == 1 && read(go[0], &c, 1) == 0 ? 0 : 2);
    }
    close(go[0]);
    CHECK(write(go[1], "", 1) == 1 && SOON(traced(tid)));
    CHECK(mount("none", path, "tmpfs", 0, NULL) == 0 && mounted(path) == 1);
    let_end(thread);
    CHECK(SOON(thread_state(tid) == 'Z' || gone(top)) && !gone(top) && mounted(path) == 1);
    close(go[1]);
    CHECK(child_good(child));
    CHECK(SOON(gone(top)));
    CHECK(SOON(mounted(path) == 0));
    done();
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--wait") == 0) {
        char c;
        return read(0, &c, 1) != 0;
    }
    setvbuf(stdout, NULL, _IONBF, 0);
    /* On Linux 6.18 which namespace is older is only known for those made on the same CPU. */
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    sched_setaffinity(0, sizeof one, &one);
    mkdir("/tmp", 01777);
    CHECK(mkdtemp(base) != NULL);
    pid_t child = fork();
    if (child == 0) {
        /* From here on nothing is seen outside. */
        if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
            perror("a namespace of its own");
            _exit(1);
        }
        flags();
        recursive();
        peers();
        slaves();
        dominating();
        unbindable();
        moves();
        tucked();
        busy();
        below_itself();
        isolated();
        across();
        removed();
        told();
        joined();
        files();
        pivoted();
        locked();
        received();
        many();
        if (is_limen()) limit();
        hidden();
        crowded();
        with_process();
        namespace_file();
        empty_for_now();
        with_thread();
        _exit(report());
    }
    CHECK(child_good(child));
    rmdir(base);
    return failed != 0;
}
