/*
 * Events of inotify; and that a signal for a process group, or for all processes, reaches processes that are
 * just being created. Called by tools/limen/src/test/programs.rs, on every architecture; on Linux it can be
 * run by hand, as root, in an empty folder.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"

static void pause_us(int us) {
    struct timespec t = { us / 1000000, us % 1000000 * 1000L };
    nanosleep(&t, NULL);
}

/* --- A signal for a group --- */

#define SLEEPERS 60
#define CHAINS 3

/* A process forks and ends, and so does its child, again and again. */
static void chain(void) {
    for (;;) {
        pid_t child = fork();
        if (child > 0) _exit(0);
        if (child < 0) pause_us(100);
    }
}

/*
 * Waits until this process has no children: orphans become its own, and a chain never ends by itself. Each
 * time that ten seconds are not enough, `end` is called to end `whom`. Returns how often, at most 3.
 */
static int left_behind(void (*end)(pid_t whom), pid_t whom) {
    time_t until = time(NULL) + 10;
    for (int left = 0;;) {
        pid_t ended = waitpid(-1, NULL, WNOHANG);
        if (ended < 0) return left;
        if (ended == 0) pause_us(1000);
        if (time(NULL) < until) continue;
        end(whom);
        if (++left == 3) return left;
        until += 10;
    }
}

/* Thirty signals, of both kinds and at different times; `left_by` tells how many were missed. */
static void none_left_by(int line, int (*left_by)(int sig, int wait_us)) {
    int left = 0, before = failed;
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    for (int round = 0; round < 30 && left == 0; round++)
        left += left_by(round % 2 ? SIGKILL : SIGTERM, round * 97);
    CHECK(left == 0);
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 0) == 0);
    if (failed != before) printf("... called from line %d\n", line);
}

static void end_group(pid_t leader) { kill(-leader, SIGKILL); }

/* Whether processes of a group survive a signal to the whole group. */
static int survivors(int sig, int wait_us) {
    int ready[2];
    CHECK(pipe(ready) == 0);
    pid_t leader = fork();
    if (leader == 0) {
        setpgid(0, 0);
        for (int i = 0; i < SLEEPERS; i++)
            if (fork() == 0)
                for (;;) pause();
        for (int i = 0; i < CHAINS; i++)
            if (fork() == 0) chain();
        if (write(ready[1], "x", 1) != 1) _exit(1);
        for (;;) pause();
    }
    char byte;
    CHECK(read(ready[0], &byte, 1) == 1);
    close(ready[0]), close(ready[1]);
    pause_us(wait_us);
    CHECK(kill(-leader, sig) == 0);
    return left_behind(end_group, leader);
}

static void nobody_is_missed(void) { none_left_by(__LINE__, survivors); }

/* --- A signal for everybody --- */

#define NOBODY 54321

/* A child that gets a number from `first` to `first` + 399, the next free one after `*count`. */
static pid_t fork_near(pid_t first, unsigned *count) {
    for (;;) {
        pid_t number = first + ++*count % 400;
        uint64_t arguments[10] = { [4] = SIGCHLD, [8] = (uintptr_t)&number, [9] = 1 };
        pid_t child = syscall(SYS_clone3, arguments, sizeof arguments);
        if (child >= 0 || errno != EEXIST) return child;
    }
}

/* Like a chain, with numbers that are now above and now below those of the ones who sleep. */
static void jumping_chain(int which) {
    for (unsigned count = 0;;) {
        pid_t child = fork_near((count & 1 ? 20000 : 30000) + which * 500, &count);
        if (child > 0) _exit(0);
        if (child < 0) pause_us(100);
    }
}

/* A child that sends a signal to all processes of the user. */
static pid_t fork_killer(int sig) {
    pid_t killer = fork();
    if (killer == 0) {
        if (setuid(NOBODY) != 0) _exit(1);
        _exit(kill(-1, sig) != 0);
    }
    return killer;
}

static void end_all(pid_t all) {
    (void)all;
    fork_killer(SIGKILL);
}

/* Whether some of a user's processes outlive a signal that this user sends to all. */
static int escaped(int sig, int wait_us) {
    unsigned count = 0;
    int ready[2];
    char byte;
    CHECK(pipe(ready) == 0);
    for (int i = 0; i < SLEEPERS + CHAINS; i++) {
        pid_t child = i < SLEEPERS ? fork_near(25000, &count) : fork();
        CHECK(child >= 0);
        if (child == 0) {
            /* Only root chooses numbers: a process is found by its real or its saved user. */
            if (setresuid(0, 0, NOBODY) != 0 || write(ready[1], "x", 1) != 1) _exit(1);
            if (i >= SLEEPERS) jumping_chain(i - SLEEPERS);
            for (;;) pause();
        }
    }
    for (int i = 0; i < SLEEPERS + CHAINS; i++) CHECK(read(ready[0], &byte, 1) == 1);
    close(ready[0]), close(ready[1]);
    pause_us(wait_us);
    pid_t killer = fork_killer(sig);
    int status = 1;
    CHECK(waitpid(killer, &status, 0) == killer && status == 0);
    return left_behind(end_all, 0);
}

static void nobody_escapes(void) { none_left_by(__LINE__, escaped); }

/* --- What watchers hear --- */

/* Events as wd:mask in hexadecimal and name. Cookies are kept in an array of their own. */
static unsigned cookies[64];
static const char *happened(int watch) {
    static char text[4096];
    char bytes[4096] __attribute__((aligned(8)));
    int size = read(watch, bytes, sizeof bytes), used = 0, count = 0;
    text[0] = 0;
    for (int at = 0; at < size && count < 64;) {
        struct inotify_event *event = (void *)(bytes + at);
        cookies[count++] = event->cookie;
        const char *name = event->len ? event->name : "";
        used += snprintf(text + used, sizeof text - used, "%d:%x%s ", event->wd, event->mask, name);
        at += sizeof *event + event->len;
    }
    return text;
}

static void check_happened(int watch, const char *what, int line) {
    const char *got = happened(watch);
    if (strcmp(got, what) != 0) printf("line %d: %s, not %s\n", line, got, what);
    check(strcmp(got, what) == 0, what, "happened", line);
}
#define HAPPENED(watch, what) check_happened(watch, what, __LINE__)

static void make(const char *name) {
    close(open(name, O_WRONLY | O_CREAT, 0600));
}

static void cookies_do_not_count(void) {
    CHECK(mkdir("dir", 0700) == 0);
    make("a"), make("b"), make("c");
    int watch = inotify_init1(IN_NONBLOCK);
    CHECK(inotify_add_watch(watch, "dir", IN_MOVED_TO) == 1);
    CHECK(rename("a", "dir/n") == 0 && rename("b", "dir/n") == 0 && rename("c", "dir/m") == 0);
    HAPPENED(watch, "1:80n 1:80m ");
    CHECK(cookies[0] != 0 && cookies[1] != cookies[0]);
    /* IN_IGNORED is sent for each removal of a watch. */
    CHECK(inotify_rm_watch(watch, 1) == 0);
    HAPPENED(watch, "1:8000 ");
    /* Both files of an exchange get move events. */
    CHECK(inotify_add_watch(watch, "dir", IN_MOVE | IN_MOVE_SELF) == 2);
    CHECK(inotify_add_watch(watch, "dir/n", IN_MOVE_SELF) == 3);
    CHECK(inotify_add_watch(watch, "dir/m", IN_MOVE_SELF) == 4);
    CHECK(syscall(SYS_renameat2, AT_FDCWD, "dir/n", AT_FDCWD, "dir/m", 2) == 0);
    HAPPENED(watch, "2:40n 2:80m 3:800 2:40m 2:80n 4:800 ");
    CHECK(cookies[0] == cookies[1] && cookies[3] == cookies[4] && cookies[0] != cookies[3]);
    /* A file that is replaced by a rename gets its events first. */
    CHECK(inotify_add_watch(watch, "dir/n", IN_ATTRIB | IN_DELETE_SELF) == 4);
    CHECK(rename("dir/m", "dir/n") == 0);
    HAPPENED(watch, "2:40m 2:80n 4:4 3:800 4:400 4:8000 ");
    CHECK(mkdir("dir/x", 0700) == 0 && mkdir("dir/y", 0700) == 0);
    CHECK(inotify_add_watch(watch, "dir/y", IN_ATTRIB | IN_DELETE_SELF) == 5);
    CHECK(rename("dir/x", "dir/y") == 0);
    HAPPENED(watch, "2:40000040x 2:40000080y 5:40000004 5:400 5:8000 ");
    close(watch);
    unlink("dir/n"), rmdir("dir/y"), rmdir("dir");
}

/*
 * An overflow is reported once, however many events are lost, and also if the lost event equals the last one.
 */
static void too_much(void) {
    char was[32] = { 0 };
    int fd = open("/proc/sys/fs/inotify/max_queued_events", O_RDWR);
    CHECK(read(fd, was, sizeof was - 1) > 0 && pwrite(fd, "2", 1, 0) == 1);
    int watch = inotify_init1(IN_NONBLOCK);
    CHECK(pwrite(fd, "0", 1, 0) == 1);
    int none = inotify_init1(IN_NONBLOCK);
    CHECK(pwrite(fd, was, strlen(was), 0) > 0);
    close(fd);
    CHECK(mkdir("dir", 0700) == 0);
    CHECK(inotify_add_watch(watch, "dir", IN_CREATE | IN_ATTRIB) == 1);
    CHECK(inotify_add_watch(none, "dir", IN_CREATE) == 1);
    make("dir/a"), make("dir/b");
    chmod("dir/b", 0600), chmod("dir/b", 0600);
    char one[64];
    CHECK(read(watch, one, 32) == 32 && read(watch, one, 32) == 32);
    make("dir/c"), make("dir/d"), make("dir/e");
    HAPPENED(watch, "-1:4000 1:100c ");
    make("dir/f"), make("dir/g");
    chmod("dir/g", 0600), chmod("dir/g", 0600);
    HAPPENED(watch, "1:100f 1:100g -1:4000 ");
    HAPPENED(none, "-1:4000 ");
    /* An event equal to the last one, with no room in the queue. */
    make("dir/h");
    chmod("dir/h", 0600), chmod("dir/h", 0600);
    HAPPENED(watch, "1:100h 1:4h -1:4000 ");
    close(watch), close(none);
    for (char name[] = "dir/a"; name[4] <= 'h'; name[4]++) unlink(name);
    rmdir("dir");
}

static void unmounting(void) {
    CHECK(mkdir("place", 0700) == 0);
    CHECK(mount("none", "place", "tmpfs", 0, "") == 0);
    make("place/f"), make("place/g");
    CHECK(mkdir("place/d", 0700) == 0);
    int file = inotify_init1(IN_NONBLOCK), root = inotify_init1(IN_NONBLOCK);
    int below = inotify_init1(IN_NONBLOCK), once = inotify_init1(IN_NONBLOCK);
    CHECK(inotify_add_watch(file, "place/f", IN_ALL_EVENTS) == 1);
    CHECK(inotify_add_watch(root, "place", IN_DELETE_SELF) == 1);
    CHECK(inotify_add_watch(below, "place/d", IN_CREATE) == 1);
    CHECK(inotify_add_watch(once, "place/g", IN_OPEN | IN_ONESHOT) == 1);
    /* While the file system has another mount, there is no event. */
    CHECK(mkdir("other", 0700) == 0 && mount("place", "other", NULL, MS_BIND, NULL) == 0);
    CHECK(umount("place") == 0);
    HAPPENED(file, "");
    int open_one = open("other/d", O_RDONLY | O_DIRECTORY);
    CHECK(umount2("other", MNT_DETACH) == 0);
    HAPPENED(file, "");
    HAPPENED(root, "");
    close(open_one);
    HAPPENED(file, "1:2000 1:8000 ");
    HAPPENED(root, "1:40002000 1:8000 ");
    HAPPENED(below, "1:40002000 1:8000 ");
    HAPPENED(once, "1:2000 1:8000 ");
    CHECK(inotify_rm_watch(file, 1) == -1 && errno == EINVAL);
    close(file), close(root), close(below), close(once);
    rmdir("place"), rmdir("other");
}

/* Every mount of /proc is a file system of its own; there is one devtmpfs, which is never unmounted. */
static void unmounting_own(void) {
    int watch = inotify_init1(IN_NONBLOCK);
    CHECK(mkdir("one", 0700) == 0 && mkdir("two", 0700) == 0 && mkdir("bound", 0700) == 0);
    CHECK(mount("none", "one", "proc", 0, "") == 0 && mount("none", "two", "proc", 0, "") == 0);
    CHECK(mount("one", "bound", NULL, MS_BIND, NULL) == 0);
    CHECK(inotify_add_watch(watch, "one/version", IN_OPEN) == 1);
    CHECK(inotify_add_watch(watch, "two", IN_ONLYDIR | IN_DELETE) == 2);
    CHECK(inotify_add_watch(watch, "/proc/version", IN_OPEN) == 3);
    close(open("two/version", O_RDONLY));
    HAPPENED(watch, "");
    close(open("bound/version", O_RDONLY));
    HAPPENED(watch, "1:20 ");
    CHECK(umount("one") == 0);
    HAPPENED(watch, "");
    CHECK(umount("bound") == 0);
    HAPPENED(watch, "1:2000 1:8000 ");
    CHECK(umount("two") == 0);
    HAPPENED(watch, "2:40002000 2:8000 ");
    CHECK(mount("none", "one", "devtmpfs", 0, "") == 0);
    CHECK(inotify_add_watch(watch, "one/null", IN_OPEN) == 4);
    CHECK(umount("one") == 0);
    HAPPENED(watch, "");
    CHECK(inotify_rm_watch(watch, 3) == 0 && inotify_rm_watch(watch, 4) == 0);
    HAPPENED(watch, "3:8000 4:8000 ");
    close(watch);
    rmdir("one"), rmdir("two"), rmdir("bound");
}

#define MOVED (IN_ACCESS | IN_MODIFY)

/* Whoever watches a file hears of all that is read and written, whatever kind of file it is. */
static void reading_and_writing(void) {
    char bytes[4096];
    struct iovec some = { bytes, 3 }, none = { bytes, 0 };
    int watch = inotify_init1(IN_NONBLOCK);
    CHECK(mkdir("dir", 0700) == 0 && mkdir("dir/sub", 0700) == 0 && mkfifo("dir/fifo", 0600) == 0);
    CHECK(mknod("null", S_IFCHR | 0600, 0x103) == 0 && mknod("zero", S_IFCHR | 0600, 0x105) == 0);
    CHECK(inotify_add_watch(watch, "dir", MOVED) == 1);
    CHECK(inotify_add_watch(watch, "dir/fifo", MOVED) == 2);
    CHECK(inotify_add_watch(watch, "null", MOVED) == 3);
    CHECK(inotify_add_watch(watch, "zero", MOVED) == 4);
    CHECK(inotify_add_watch(watch, "/proc/version", MOVED) == 5);
    CHECK(inotify_add_watch(watch, "/proc/sys/kernel", MOVED) == 6);
    int fifo = open("dir/fifo", O_RDWR | O_NONBLOCK);
    CHECK(write(fifo, "abcdefgh", 8) == 8 && write(fifo, "", 0) == 0);
    /* The directory tells nothing of pipes and devices in it. */
    HAPPENED(watch, "2:2 ");
    CHECK(read(fifo, bytes, 5) == 5);
    HAPPENED(watch, "2:1 ");
    CHECK(readv(fifo, &some, 1) == 3);
    HAPPENED(watch, "2:1 ");
    CHECK(readv(fifo, &some, 1) == -1 && errno == EAGAIN && read(fifo, bytes, 1) == -1);
    HAPPENED(watch, "");
    int null = open("null", O_RDWR), zero = open("zero", O_RDONLY);
    CHECK(write(null, bytes, 3) == 3 && read(null, bytes, 3) == 0 && read(zero, bytes, 3) == 3);
    HAPPENED(watch, "3:2 4:1 ");
    /* A vector tells even of nothing. */
    CHECK(readv(null, &some, 1) == 0);
    HAPPENED(watch, "3:1 ");
    CHECK(readv(null, &none, 1) == 0);
    HAPPENED(watch, "3:1 ");
    CHECK(writev(null, &none, 1) == 0 && write(null, bytes, 0) == 0);
    HAPPENED(watch, "");
    int version = open("/proc/version", O_RDONLY), name = open("/proc/sys/kernel/hostname", O_RDWR);
    CHECK(pread(version, bytes, 4, 0) == 4 && pread(version, bytes, 4, 4000) == 0);
    HAPPENED(watch, "5:1 ");
    int size = read(name, bytes, sizeof bytes);
    CHECK(size > 0 && write(name, bytes, size) == size);
    HAPPENED(watch, "6:1hostname 6:2hostname ");
    /* Listing a directory reads it, even at its end. */
    int dir = open("dir", O_RDONLY | O_DIRECTORY), sub = open("dir/sub", O_RDONLY | O_DIRECTORY);
    CHECK(syscall(SYS_getdents64, dir, bytes, sizeof bytes) > 0);
    HAPPENED(watch, "1:40000001 ");
    CHECK(syscall(SYS_getdents64, dir, bytes, sizeof bytes) == 0);
    HAPPENED(watch, "1:40000001 ");
    CHECK(syscall(SYS_getdents64, sub, bytes, sizeof bytes) > 0);
    HAPPENED(watch, "1:40000001sub ");
    /* A pipe without a name is heard by those who watch it all the same. */
    char place[64];
    int ends[2];
    CHECK(pipe(ends) == 0);
    snprintf(place, sizeof place, "/proc/self/fd/%d", ends[0]);
    CHECK(inotify_add_watch(watch, place, MOVED) == 7);
    CHECK(write(ends[1], bytes, 3) == 3 && read(ends[0], bytes, 3) == 3);
    HAPPENED(watch, "7:2 7:1 ");
    close(ends[0]), close(ends[1]), close(fifo), close(null), close(zero), close(version), close(name);
    close(dir), close(sub), close(watch);
    unlink("dir/fifo"), rmdir("dir/sub"), rmdir("dir"), unlink("null"), unlink("zero");
}

/* What is moved from file to file is read and written as well, though not in all ways. */
static void moving_bytes(void) {
    static char bytes[100000];
    int watch = inotify_init1(IN_NONBLOCK), ends[2];
    CHECK(mkfifo("fifo", 0600) == 0 && mknod("null", S_IFCHR | 0600, 0x103) == 0 && pipe(ends) == 0);
    int in = open("in", O_RDWR | O_CREAT, 0600), out = open("out", O_RDWR | O_CREAT, 0600);
    int fifo = open("fifo", O_RDWR), null = open("null", O_RDWR);
    CHECK(write(in, bytes, sizeof bytes) == sizeof bytes && lseek(in, 0, SEEK_SET) == 0);
    CHECK(mkdir("dir", 0700) == 0 && link("out", "dir/out") == 0);
    close(out), out = open("dir/out", O_RDWR);
    CHECK(inotify_add_watch(watch, "in", MOVED) == 1 && inotify_add_watch(watch, "dir/out", MOVED) == 2);
    CHECK(inotify_add_watch(watch, "fifo", MOVED) == 3 && inotify_add_watch(watch, "null", MOVED) == 4);
    CHECK(inotify_add_watch(watch, "dir", MOVED) == 5);
    CHECK(sendfile(out, in, NULL, 5) == 5);
    HAPPENED(watch, "5:2out 2:2 1:1 5:2out 2:2 ");
    CHECK(sendfile(fifo, in, NULL, 5) == 5);
    HAPPENED(watch, "1:1 3:2 ");
    CHECK(sendfile(null, in, NULL, 5) == 5);
    HAPPENED(watch, "1:1 4:2 ");
    CHECK(splice(fifo, NULL, out, NULL, 5, 0) == 5);
    HAPPENED(watch, "5:2out 2:2 ");
    CHECK(splice(in, NULL, fifo, NULL, 9, 0) == 9 && tee(fifo, ends[1], 9, 0) == 9);
    CHECK(splice(fifo, NULL, ends[1], NULL, 9, 0) == 9 && splice(ends[0], NULL, null, NULL, 9, 0) == 9);
    HAPPENED(watch, "");
    CHECK(copy_file_range(in, NULL, out, NULL, 5, 0) == 5);
    HAPPENED(watch, "5:2out 2:2 1:1 5:2out 2:2 ");
    CHECK(lseek(in, 0, SEEK_END) > 0 && sendfile(out, in, NULL, 5) == 0);
    CHECK(copy_file_range(in, NULL, out, NULL, 5, 0) == 0);
    HAPPENED(watch, "");
    CHECK(lseek(in, 0, SEEK_SET) == 0 && sendfile(out, in, NULL, sizeof bytes) == sizeof bytes);
    if (getpagesize() == 4096) HAPPENED(watch, "5:2out 2:2 5:2out 2:2 1:1 5:2out 2:2 ");
    close(in), close(out), close(fifo), close(null), close(ends[0]), close(ends[1]), close(watch);
    unlink("in"), unlink("out"), unlink("dir/out"), rmdir("dir"), unlink("fifo"), unlink("null");
}

/* Files that procfs makes up can be watched, and so can files without a name. */
static void made_up(void) {
    int watch = inotify_init1(IN_NONBLOCK), ends[2];
    char byte;
    CHECK(inotify_add_watch(watch, "/proc/sys/kernel/ostype", IN_ALL_EVENTS) == 1);
    CHECK(inotify_add_watch(watch, "/proc/version", IN_OPEN | IN_CLOSE) == 2);
    HAPPENED(watch, "");
    CHECK(inotify_add_watch(watch, "/proc/version", IN_OPEN | IN_CLOSE) == 2);
    int fd = open("/proc/version", O_RDONLY);
    HAPPENED(watch, "2:20 ");
    CHECK(read(fd, &byte, 1) == 1);
    close(fd);
    HAPPENED(watch, "2:10 ");
    int other = inotify_init1(IN_NONBLOCK);
    CHECK(inotify_add_watch(other, "/proc/version", IN_OPEN | IN_ONESHOT) == 1);
    close(open("/proc/version", O_RDONLY)), close(open("/proc/version", O_RDONLY));
    HAPPENED(other, "1:20 1:8000 ");
    HAPPENED(watch, "2:20 2:10 2:20 2:10 ");
    CHECK(inotify_rm_watch(watch, 2) == 0);
    close(open("/proc/version", O_RDONLY));
    HAPPENED(watch, "2:8000 ");
    /* A directory gets events of its entries. */
    CHECK(inotify_add_watch(other, "/proc/sys/kernel", IN_OPEN) == 2);
    close(open("/proc/sys/kernel/osrelease", O_RDONLY));
    HAPPENED(other, "2:20osrelease ");
    /* A pipe has no name that could be removed. */
    char name[64];
    CHECK(pipe(ends) == 0);
    snprintf(name, sizeof name, "/proc/self/fd/%d", ends[0]);
    CHECK(inotify_add_watch(other, name, IN_DELETE_SELF) == 3);
    close(ends[0]), close(ends[1]);
    HAPPENED(other, "");
    CHECK(inotify_rm_watch(other, 3) == 0);
    HAPPENED(other, "3:8000 ");
    close(watch), close(other);
}

static void reads_status(pid_t of) {
    char path[64], byte;
    snprintf(path, sizeof path, "/proc/%d/status", of);
    int status = open(path, O_RDONLY);
    CHECK(status >= 0 && read(status, &byte, 1) == 1);
    close(status);
}

static pid_t numbered(pid_t number) {
    uint64_t arguments[10] = { [4] = SIGCHLD, [8] = (uintptr_t)&number, [9] = 1 };
    pid_t child = syscall(SYS_clone3, arguments, sizeof arguments);
    if (child == 0)
        for (;;) pause();
    return child;
}

/* Who watches a process hears nothing of the next one with that number. */
static void next_of_a_number(void) {
    char path[64];
    int watch = inotify_init1(IN_NONBLOCK), status;
    pid_t first = fork();
    if (first == 0)
        for (;;) pause();
    snprintf(path, sizeof path, "/proc/%d", first);
    CHECK(inotify_add_watch(watch, path, IN_OPEN) == 1);
    snprintf(path, sizeof path, "/proc/%d/status", first);
    CHECK(inotify_add_watch(watch, path, IN_OPEN) == 2);
    reads_status(first);
    HAPPENED(watch, "1:20status 2:20 ");
    kill(first, SIGKILL);
    CHECK(waitpid(first, &status, 0) == first);
    pid_t second = numbered(first);
    CHECK(second == first);
    reads_status(second);
    HAPPENED(watch, "");
    CHECK(inotify_add_watch(watch, path, IN_OPEN) == 3);
    reads_status(second);
    HAPPENED(watch, "3:20 ");
    kill(second, SIGKILL);
    CHECK(waitpid(second, &status, 0) == second);
    CHECK(inotify_rm_watch(watch, 1) == 0 && inotify_rm_watch(watch, 2) == 0);
    HAPPENED(watch, "1:8000 2:8000 ");
    close(watch);
}

/* A terminal's name comes and goes with its master, the terminal itself with its last user. */
static void terminals_go(void) {
    char path[64], want[64];
    int watch = inotify_init1(IN_NONBLOCK), number = -1, unlock = 0;
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    CHECK(master >= 0 && ioctl(master, TIOCGPTN, &number) == 0 && ioctl(master, TIOCSPTLCK, &unlock) == 0);
    snprintf(path, sizeof path, "/dev/pts/%d", number);
    CHECK(inotify_add_watch(watch, "/dev/pts", IN_CREATE | IN_DELETE) == 1);
    CHECK(inotify_add_watch(watch, path, IN_DELETE_SELF) == 2);
    int slave = open(path, O_RDWR | O_NOCTTY);
    CHECK(slave >= 0);
    close(master);
    snprintf(want, sizeof want, "1:200%d ", number);
    HAPPENED(watch, want);
    close(slave);
    HAPPENED(watch, "2:400 2:8000 ");
    master = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    CHECK(master >= 0 && ioctl(master, TIOCGPTN, &number) == 0);
    snprintf(want, sizeof want, "1:100%d ", number);
    HAPPENED(watch, want);
    snprintf(path, sizeof path, "/dev/pts/%d", number);
    CHECK(inotify_add_watch(watch, path, IN_DELETE_SELF) == 3);
    close(master);
    snprintf(want, sizeof want, "1:200%d 3:400 3:8000 ", number);
    HAPPENED(watch, want);
    close(watch);
}

int main(void) {
    cookies_do_not_count();
    too_much();
    unmounting();
    unmounting_own();
    reading_and_writing();
    moving_bytes();
    made_up();
    next_of_a_number();
    terminals_go();
    nobody_is_missed();
    nobody_escapes();
    return report();
}
