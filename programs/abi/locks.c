/*
 * What is told of files: /proc/locks of locks and of those who wait for them, inotify of names that are gone,
 * /proc/<pid>/fdinfo of descriptors. Called by tools/limen/src/test/programs.rs, on every architecture; on
 * Linux it can be run by hand, in an empty folder.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "common.h"

/* --- /proc/locks --- */

/* How many lines about the file are like this, behind the number. */
static int lines(int fd, const char *prefix, const char *what, int pid, const char *range) {
    struct stat st;
    char wanted[256], line[256];
    int found = 0;
    fstat(fd, &st);
    snprintf(wanted, sizeof wanted, " %s%s %d %02x:%02x:%llu %s\n", prefix, what, pid, major(st.st_dev),
             minor(st.st_dev), (unsigned long long)st.st_ino, range);
    FILE *locks = fopen("/proc/locks", "r");
    if (!locks) return -1;
    while (fgets(line, sizeof line, locks)) {
        char *rest = strchr(line, ':');
        if (rest && strcmp(rest + 1, wanted) == 0) found++;
    }
    fclose(locks);
    return found;
}

/* The same, until there is one or it takes too long. */
static int comes(int fd, const char *prefix, const char *what, int pid, const char *range) {
    for (int i = 0; i < 200 && lines(fd, prefix, what, pid, range) != 1; i++) pause_ms(10);
    return lines(fd, prefix, what, pid, range);
}

static int lock_range(int fd, int how, short kind, int start, int len) {
    struct flock lock = { .l_type = kind, .l_whence = SEEK_SET, .l_start = start, .l_len = len };
    return fcntl(fd, how, &lock);
}

static pid_t waits_for(const char *name, int ranges) {
    pid_t child = fork();
    if (child == 0) {
        int fd = open(name, O_RDWR);
        _exit(ranges ? lock_range(fd, F_SETLKW, F_WRLCK, 5, 20) : flock(fd, LOCK_EX));
    }
    return child;
}

static void locks_in_proc(void) {
    int fd = open("locked", O_RDWR | O_CREAT, 0600), other = open("locked", O_RDWR), me = getpid();
    CHECK(lines(fd, "", "POSIX  ADVISORY  WRITE", me, "0 9") == 0);
    CHECK(lock_range(fd, F_SETLK, F_WRLCK, 0, 10) == 0 && lock_range(fd, F_SETLK, F_RDLCK, 100, 0) == 0);
    CHECK(lock_range(other, F_OFD_SETLK, F_RDLCK, 50, 1) == 0 && flock(other, LOCK_SH) == 0);
    CHECK(lines(fd, "", "POSIX  ADVISORY  WRITE", me, "0 9") == 1);
    CHECK(lines(fd, "", "POSIX  ADVISORY  READ", me, "100 EOF") == 1);
    CHECK(lines(fd, "", "OFDLCK ADVISORY  READ", -1, "50 50") == 1);
    CHECK(lines(fd, "", "FLOCK  ADVISORY  READ", me, "0 EOF") == 1);
    /* Who waits is behind what it waits for, and who waits for somebody who waits is behind that one. */
    pid_t first = waits_for("locked", 1);
    CHECK(comes(fd, "-> ", "POSIX  ADVISORY  WRITE", first, "5 24") == 1);
    pid_t second = waits_for("locked", 1);
    CHECK(comes(fd, " -> ", "POSIX  ADVISORY  WRITE", second, "5 24") == 1);
    pid_t whole = waits_for("locked", 0);
    CHECK(comes(fd, "-> ", "FLOCK  ADVISORY  WRITE", whole, "0 EOF") == 1);
    CHECK(lock_range(fd, F_SETLK, F_UNLCK, 0, 10) == 0 && flock(other, LOCK_UN) == 0);
    CHECK(child_good(first) && child_good(second) && child_good(whole));
    CHECK(lines(fd, "-> ", "POSIX  ADVISORY  WRITE", first, "5 24") == 0);
    CHECK(lines(fd, "", "POSIX  ADVISORY  WRITE", me, "0 9") == 0);
    /* A name is not needed. */
    unlink("locked");
    CHECK(lines(fd, "", "OFDLCK ADVISORY  READ", -1, "50 50") == 1);
    close(other);
    CHECK(lines(fd, "", "OFDLCK ADVISORY  READ", -1, "50 50") == 0);
    close(fd);
}

/* --- Names that are gone, and what /proc says of descriptors --- */

/* What happened, as wd:mask in hexadecimal and name. */
static const char *happened(int watch) {
    static char text[4096];
    char bytes[4096];
    int size = read(watch, bytes, sizeof bytes), used = 0;
    text[0] = 0;
    for (int at = 0; at < size;) {
        struct inotify_event *event = (void *)(bytes + at);
        used += snprintf(text + used, sizeof text - used, "%d:%x%s ", event->wd, event->mask,
                         event->len ? event->name : "");
        at += sizeof *event + event->len;
    }
    return text;
}
#define HAPPENED(watch, what) CHECK(strcmp(happened(watch), what) == 0)

static void unlinked_files(void) {
    CHECK(mkdir("watched", 0700) == 0);
    int file = open("watched/f", O_RDWR | O_CREAT, 0600), watch = inotify_init1(IN_NONBLOCK);
    CHECK(inotify_add_watch(watch, "watched", IN_ALL_EVENTS) == 1 &&
          inotify_add_watch(watch, "watched/f", IN_ALL_EVENTS) == 2);
    CHECK(unlink("watched/f") == 0 && write(file, "x", 1) == 1);
    HAPPENED(watch, "2:4 1:200f 1:2f 2:2 ");
    char byte;
    CHECK(pread(file, &byte, 1, 0) == 1 && fchmod(file, 0644) == 0 && ftruncate(file, 0) == 0);
    HAPPENED(watch, "1:1f 2:1 1:4f 2:4 1:2f 2:2 ");
    CHECK(pread(file, &byte, 1, 0) == 0);
    HAPPENED(watch, "");
    close(file);
    HAPPENED(watch, "1:8f 2:8 2:400 2:8000 ");
    /* With IN_EXCL_UNLINK an unlinked file has no events. */
    CHECK(inotify_add_watch(watch, "watched", IN_ALL_EVENTS | IN_EXCL_UNLINK) == 1);
    file = open("watched/g", O_RDWR | O_CREAT, 0600);
    CHECK(link("watched/g", "watched/h") == 0);
    HAPPENED(watch, "1:100g 1:20g 1:100h ");
    CHECK(unlink("watched/g") == 0 && write(file, "x", 1) == 1);
    HAPPENED(watch, "1:200g ");
    CHECK(fchmod(file, 0600) == 0);
    HAPPENED(watch, "1:4g ");
    close(file);
    HAPPENED(watch, "");
    file = open("watched", O_RDONLY | O_DIRECTORY);
    char entries[512];
    CHECK(syscall(SYS_getdents64, file, entries, sizeof entries) > 0);
    HAPPENED(watch, "1:40000020 1:40000001 ");
    close(file), close(watch);
    unlink("watched/h"), rmdir("watched");
}

/* The lines of fdinfo behind those that all files have. */
static const char *said_of(int fd) {
    static char text[4096];
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fdinfo/%d", fd);
    int file = open(name, O_RDONLY), size = read(file, text, sizeof text - 1);
    close(file);
    text[size < 0 ? 0 : size] = 0;
    char *at = strstr(text, "\nino:\t");
    CHECK(strncmp(text, "pos:\t", 5) == 0 && strstr(text, "\nflags:\t0") && strstr(text, "\nmnt_id:\t") &&
          at);
    at = at ? strchr(at + 1, '\n') : NULL;
    return at ? at + 1 : "";
}

static void descriptors_in_proc(void) {
    char want[512];
    struct stat about;
    int fd = eventfd(5, 0), second = eventfd(0, 0);
    char *first = strdup(said_of(fd));
    CHECK(strncmp(first, "eventfd-count:                5\neventfd-id: ", 44) == 0);
    CHECK(strcmp(strstr(first, "id: "), strstr(said_of(second), "id: ")) != 0);
    fstat(fd, &about);
    int epoll = epoll_create1(0);
    struct epoll_event event = { EPOLLIN | EPOLLET, { .u64 = 0x123456789abcdef0 } };
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    snprintf(want, sizeof want, "tfd: %8d events: 80000019 data: 123456789abcdef0  pos:0 ino:%lx sdev:%lx\n",
             fd, (long)about.st_ino, (long)about.st_dev);
    CHECK(strcmp(said_of(epoll), want) == 0);
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGUSR1), sigaddset(&set, SIGKILL), sigaddset(&set, 64);
    int signals = signalfd(-1, &set, 0);
    CHECK(strcmp(said_of(signals), "sigmask:\t8000000000000200\n") == 0);
    int file = open("f", O_RDWR | O_CREAT, 0600), watch = inotify_init();
    CHECK(inotify_add_watch(watch, ".", IN_MODIFY | IN_ONESHOT) == 1 &&
          inotify_add_watch(watch, "f", IN_ALL_EVENTS | IN_EXCL_UNLINK) == 2);
    stat("f", &about);
    snprintf(want, sizeof want,
             "inotify wd:2 ino:%lx sdev:%lx mask:4000fff ignored_mask:0 fhandle-bytes:", (long)about.st_ino,
             (long)about.st_dev);
    CHECK(strncmp(said_of(watch), want, strlen(want)) == 0 && strstr(said_of(watch), "\ninotify wd:1 ") &&
          strstr(said_of(watch), " mask:80000002 "));
    struct flock range = {.l_type = F_WRLCK, .l_start = 3, .l_len = 4},
                 rest = {.l_type = F_RDLCK, .l_start = 100};
    CHECK(flock(file, LOCK_EX) == 0 && fcntl(file, F_SETLK, &range) == 0 &&
          fcntl(file, F_OFD_SETLK, &rest) == 0);
    char where[64];
    snprintf(where, sizeof where, "%02x:%02x:%lu", (int)(about.st_dev >> 8), (int)(about.st_dev & 255),
             (long)about.st_ino);
    snprintf(want, sizeof want,
             "lock:\t1: FLOCK  ADVISORY  WRITE %d %s 0 EOF\nlock:\t2: POSIX  ADVISORY  WRITE %d %s 3 "
             "6\nlock:\t3: OFDLCK ADVISORY  READ -1 %s 100 EOF\n",
             getpid(), where, getpid(), where, where);
    CHECK(strcmp(said_of(file), want) == 0);
    int again = open("f", O_RDONLY);
    CHECK(strcmp(said_of(again), "") == 0);
    int ends[2], master = open("/dev/ptmx", O_RDWR | O_NOCTTY), number;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && strcmp(said_of(ends[0]), "scm_fds: 0\n") == 0);
    CHECK(ioctl(master, TIOCGPTN, &number) == 0);
    snprintf(want, sizeof want, "tty-index:\t%d\n", number);
    CHECK(strcmp(said_of(master), want) == 0);
    int all[] = { fd, second, epoll, signals, file, watch, again, ends[0], ends[1], master };
    for (int i = 0; i < 10; i++) close(all[i]);
    free(first);
    unlink("f");
}

int main(void) {
    alarm(60);
    locks_in_proc();
    unlinked_files();
    descriptors_in_proc();
    return report();
}
