/*
 * POSIX message queues: their names and files, which message comes, who waits, and how much there may be.
 * Called by tools/limen/src/test/programs.rs, on every architecture; on Linux it can be run by hand, as root.
 * With an argument it does not set the clock.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "common.h"
#include "queues.h"

static int keep_clock;

static struct timespec after_ms(long ms) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec += ms / 1000;
    at.tv_nsec += ms % 1000 * 1000000;
    if (at.tv_nsec >= 1000000000) at.tv_nsec -= 1000000000, at.tv_sec++;
    return at;
}

/* --- names and files --- */

static void opening(void) {
    char longer[300];
    memset(longer, 'n', 256);
    longer[256] = 0;
    FAILS(opens(NULL, O_RDWR, 0, NULL), EFAULT);
    FAILS(opens("", O_RDWR, 0, NULL), ENOENT);
    FAILS(opens("/x", O_RDWR | O_CREAT, 0600, NULL), EACCES);
    FAILS(opens("x/y", O_RDWR | O_CREAT, 0600, NULL), EACCES);
    FAILS(opens(".", O_RDWR, 0, NULL), EACCES);
    FAILS(opens("..", O_RDWR, 0, NULL), EACCES);
    FAILS(opens(longer, O_RDWR | O_CREAT, 0600, NULL), ENAMETOOLONG);
    FAILS(opens(NAME, O_RDWR, 0, NULL), ENOENT);
    FAILS(opens(NAME, O_RDWR | O_CREAT, 0600, (void *)8), EFAULT);
    FAILS(unlinks(NAME), ENOENT);
    FAILS(unlinks(""), ENOENT);
    FAILS(unlinks("/x"), EACCES);
    FAILS(unlinks("."), EACCES);
    FAILS(unlinks(longer), ENAMETOOLONG);
    FAILS(unlinks((void *)8), EFAULT);
    longer[255] = 0;
    int fd = opens(longer, O_RDWR | O_CREAT, 0600, NULL);
    CHECK(fd >= 0 && unlinks(longer) == 0 && close(fd) == 0);
    fd = opens(NAME, O_RDWR | O_CREAT, 0600, NULL);
    FAILS(opens(NAME, O_RDWR | O_DIRECT, 0, NULL), EINVAL);
    CHECK(unlinks(NAME) == 0 && close(fd) == 0);

    umask(027);
    fd = opens(NAME, O_RDWR | O_CREAT | O_EXCL, 07777, NULL);
    umask(022);
    struct stat st;
    CHECK(fd >= 0 && fstat(fd, &st) == 0 && st.st_mode == (S_IFREG | 07750) && st.st_size == 80);
    CHECK(st.st_nlink == 1 && st.st_uid == 0 && st.st_gid == 0);
    CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR);
    FAILS(opens(NAME, O_RDWR | O_CREAT | O_EXCL, 0600, NULL), EEXIST);
    FAILS(opens(NAME, 3, 0, NULL), EINVAL);
    /* What it is like is decided once. */
    struct mq_attr attr = { .mq_maxmsg = -1, .mq_msgsize = -1 };
    int again = opens(NAME, O_RDONLY | O_CREAT | O_NONBLOCK, 0, &attr);
    CHECK(again >= 0 && again != fd && mq_getattr(again, &attr) == 0);
    CHECK(attr.mq_flags == O_NONBLOCK && attr.mq_maxmsg == 10 && attr.mq_msgsize == 8192);
    CHECK(attr.mq_curmsgs == 0);
    FAILS(mq_send(again, "x", 1, 0), EBADF);
    int only = opens(NAME, O_WRONLY, 0, NULL);
    char text[8192];
    FAILS(mq_receive(only, text, sizeof text, NULL), EBADF);
    int path = opens(NAME, O_PATH, 0, NULL);
    CHECK(path >= 0 && (fcntl(path, F_GETFL) & O_PATH));
    FAILS(mq_send(path, "x", 1, 0), EBADF);
    close(path);
    /* All are the same queue. */
    CHECK(sends(fd, "abc", 0) == 0 && count(again) == 1 && gets(again, "abc", 0));
    close(only);
    CHECK(fchmod(fd, 0640) == 0 && fchown(fd, 1, 2) == 0);
    AS(1, CHECK(opens(NAME, O_RDWR, 0, NULL) >= 0););
    AS(2, CHECK(opens(NAME, O_RDONLY, 0, NULL) >= 0); FAILS(opens(NAME, O_WRONLY, 0, NULL), EACCES););
    AS(3, FAILS(opens(NAME, O_RDONLY, 0, NULL), EACCES);
       FAILS(opens(NAME, O_CREAT | O_EXCL, 0600, NULL), EEXIST); FAILS(unlinks(NAME), EPERM););
    AS(1, CHECK(unlinks(NAME) == 0); FAILS(unlinks(NAME), ENOENT););
    FAILS(opens(NAME, O_RDWR, 0, NULL), ENOENT);
    CHECK(fstat(fd, &st) == 0 && st.st_nlink == 0 && sends(fd, "still", 7) == 0 && gets(again, "still", 7));
    close(again);
    close(fd);
    FAILS(mq_send(fd, "x", 1, 0), EBADF);
    FAILS(mq_send(0, "x", 1, 0), EBADF);
}
static void files(void) {
    int fd = opens(NAME, O_CREAT | O_EXCL | O_RDWR, 0600, NULL);
    char text[100], path[64], line[200];
    CHECK(reads(fd, "QSIZE:0          NOTIFY:0     SIGNO:0     NOTIFY_PID:0     \n"));
    CHECK(sends(fd, "abcde", 3) == 0 && sends(fd, "fg", 4) == 0);
    CHECK(reads(fd, "QSIZE:7          NOTIFY:0     SIGNO:0     NOTIFY_PID:0     \n"));
    CHECK(read(fd, text, 6) == 6 && memcmp(text, "QSIZE:", 6) == 0 && read(fd, text, 1) == 1 && *text == '7');
    CHECK(lseek(fd, 0, SEEK_CUR) == 7 && lseek(fd, 0, SEEK_END) == 80 && read(fd, text, 10) == 0);
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    FAILS(syscall(SYS_read, fd, (void *)8, 10), EFAULT);
    CHECK(read(fd, text, sizeof text) == 60 && read(fd, text, 1) == 0);
    FAILS(write(fd, "x", 1), EINVAL);
    FAILS(pwrite(fd, "x", 1, 0), EINVAL);
    FAILS((long)mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0), ENODEV);
    FAILS(fsync(fd), EINVAL);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    memset(line, 0, sizeof line);
    CHECK(readlink(path, line, sizeof line - 1) > 0 && strcmp(line, "/" NAME) == 0);
    struct stat st;
    CHECK(fstat(fd, &st) == 0);
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    FILE *info = fopen(path, "r");
    unsigned long position = 1, flags = 0, mount = 0, inode = 0;
    CHECK(info != NULL);
    int read_four =
        fscanf(info, "pos: %lu flags: %lo mnt_id: %lu ino: %lu", &position, &flags, &mount, &inode);
    CHECK(read_four == 4);
    CHECK(position == 60 && (flags & O_ACCMODE) == O_RDWR && (flags & O_CLOEXEC) && mount > 0);
    CHECK(inode == st.st_ino);
    fclose(info);
    CHECK(unlinks(NAME) == 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    memset(line, 0, sizeof line);
    CHECK(readlink(path, line, sizeof line - 1) > 0 && strcmp(line, "/" NAME " (deleted)") == 0);
    CHECK(gets(fd, "fg", 4) && gets(fd, "abcde", 3));
    close(fd);
}

static void mounted(void) {
    CHECK(chmod(".", 0755) == 0 && mkdir("m", 0755) == 0 && mount("q", "m", "mqueue", 0, NULL) == 0);
    FAILS(mount("q", "m", "mqueue", 0, "what=1"), EINVAL);
    FAILS(mount("q", "m", "mqueue", 0, NULL), EBUSY);
    struct statfs fs;
    struct stat st;
    CHECK(statfs("m", &fs) == 0 && fs.f_type == 0x19800202 && fs.f_namelen == 255);
    CHECK(stat("m", &st) == 0 && st.st_mode == (S_IFDIR | 01777) && st.st_nlink == 2);
    long empty = st.st_size;
    int fd = opens(NAME, O_CREAT | O_EXCL | O_RDWR, 0600, NULL);
    CHECK(fd >= 0 && sends(fd, "abc", 0) == 0);
    CHECK(stat("m", &st) == 0 && st.st_size == empty + 20);
    struct stat own;
    CHECK(stat("m/" NAME, &st) == 0 && fstat(fd, &own) == 0);
    CHECK(st.st_ino == own.st_ino && st.st_dev == own.st_dev);
    DIR *dir = opendir("m");
    int found = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        found += strcmp(entry->d_name, NAME) == 0 && entry->d_ino == own.st_ino;
    closedir(dir);
    CHECK(found == 1);
    int file = open("m/" NAME, O_RDWR);
    CHECK(reads(file, "QSIZE:3          NOTIFY:0     SIGNO:0     NOTIFY_PID:0     \n"));
    CHECK(gets(file, "abc", 0) && sends(file, "by file", 5) == 0 && gets(fd, "by file", 5));
    close(file);
    FAILS(mkdir("m/d", 0700), EPERM);
    FAILS(symlink("x", "m/s"), EPERM);
    FAILS(mkfifo("m/f", 0600), EPERM);
    FAILS(link("m/" NAME, "m/other"), EPERM);
    FAILS(rename("m/" NAME, "m/other"), EPERM);
    FAILS(open("m", O_TMPFILE | O_RDWR, 0600), EOPNOTSUPP);
    FAILS(open("m/other", O_RDWR), ENOENT);
    CHECK(chmod("m/" NAME, 0755) == 0 && access("m/" NAME, R_OK | W_OK) == 0);
    FAILS(access("m/" NAME, X_OK), EACCES);
    FAILS(execl("m/" NAME, NAME, NULL), EACCES);
    AS(3, FAILS(unlink("m/" NAME), EPERM); file = open("m/theirs", O_CREAT | O_RDWR | O_EXCL, 0640);
       CHECK(file >= 0););
    CHECK(stat("m/theirs", &st) == 0 && st.st_mode == (S_IFREG | 0640) && st.st_uid == 3 && st.st_gid == 3);
    struct mq_attr attr;
    file = opens("theirs", O_RDONLY, 0, NULL);
    CHECK(file >= 0 && mq_getattr(file, &attr) == 0 && attr.mq_maxmsg == 10 && attr.mq_msgsize == 8192);
    close(file);
    CHECK(unlinks("theirs") == 0);
    FAILS(stat("m/theirs", &st), ENOENT);
    CHECK(unlink("m/" NAME) == 0 && sends(fd, "x", 0) == 0 && close(fd) == 0);
    CHECK(stat("m", &st) == 0 && st.st_size == empty);
    CHECK(mknod("m/" NAME, S_IFREG | 0600, 0) == 0 && unlinks(NAME) == 0);
    CHECK(umount("m") == 0 && rmdir("m") == 0);
    FILE *types = fopen("/proc/filesystems", "r");
    char line[100];
    found = 0;
    while (types && fgets(line, sizeof line, types)) found += strcmp(line, "nodev\tmqueue\n") == 0;
    fclose(types);
    CHECK(found == 1);
}

/* --- which message comes --- */

static void order(void) {
    int fd = queue(O_NONBLOCK, 10, 20);
    FAILS(sends(fd, "x", 32768), EINVAL);
    FAILS(sends(fd, "x", -1), EINVAL);
    FAILS(mq_send(fd, "x", 21, 0), EMSGSIZE);
    FAILS(mq_send(fd, (void *)8, 2, 0), EFAULT);
    char text[20], *nowhere = (char *)-1;
    CHECK(mq_send(fd, nowhere, 0, 1) == 0 && mq_receive(fd, nowhere, 20, NULL) == 0);
    FAILS(mq_receive(fd, text, 19, NULL), EMSGSIZE);
    FAILS(mq_receive(fd, text, 20, NULL), EAGAIN);
    CHECK(sends(fd, "a", 5) == 0 && sends(fd, "b", 9) == 0 && sends(fd, "c", 5) == 0);
    CHECK(sends(fd, "d", 32767) == 0 && sends(fd, "e", 0) == 0 && sends(fd, "f", 9) == 0);
    CHECK(sends(fd, "", 5) == 0 && count(fd) == 7);
    CHECK(gets(fd, "d", 32767) && gets(fd, "b", 9) && gets(fd, "f", 9) && gets(fd, "a", 5));
    CHECK(sends(fd, "g", 5) == 0 && gets(fd, "c", 5) && gets(fd, "", 5) && gets(fd, "g", 5));
    CHECK(gets(fd, "e", 0) && count(fd) == 0);
    for (int n = 0; n < 10; n++) CHECK(sends(fd, "full", n) == 0);
    FAILS(sends(fd, "x", 0), EAGAIN);
    /* A message that cannot be told is lost, as on Linux. */
    FAILS(mq_receive(fd, (void *)8, 20, NULL), EFAULT);
    FAILS(mq_receive(fd, text, 20, (void *)8), EFAULT);
    CHECK(count(fd) == 8 && gets(fd, "full", 7));
    close(fd);

    /* Many priorities. */
    struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY }, before;
    CHECK(getrlimit(RLIMIT_MSGQUEUE, &before) == 0 && setrlimit(RLIMIT_MSGQUEUE, &all) == 0);
    enum { MANY = 3000 };
    fd = queue(O_NONBLOCK, MANY, 16);
    unsigned seed = 1, sent[MANY], bad = 0;
    for (unsigned n = 0; n < MANY; n++) {
        seed = seed * 1103515245 + 12345;
        sent[n] = (seed >> 16) % 400;
        bad += mq_send(fd, (char *)&n, sizeof n, sent[n]) != 0;
    }
    unsigned last = 32768, last_number = 0;
    for (unsigned n = 0; n < MANY; n++) {
        unsigned number = MANY, priority = 0;
        char got[16];
        bad += mq_receive(fd, got, sizeof got, &priority) != sizeof number;
        memcpy(&number, got, sizeof number);
        bad += number >= MANY || sent[number] != priority || priority > last;
        bad += priority == last && number < last_number;
        last = priority, last_number = number;
        if (n % 7 == 0 && n < MANY - 100) {
            /* Another one comes meanwhile, and goes at once. */
            bad += sends(fd, "x", 32767) != 0 || !gets(fd, "x", 32767);
        }
    }
    CHECK(bad == 0 && count(fd) == 0);
    close(fd);
    CHECK(setrlimit(RLIMIT_MSGQUEUE, &before) == 0);
}

static void attributes(void) {
    int fd = queue(0, 3, 7);
    struct mq_attr attr = { .mq_flags = O_NONBLOCK | O_APPEND }, old;
    FAILS(mq_setattr(fd, &attr, &old), EINVAL);
    FAILS(mq_setattr(-1, &attr, &old), EINVAL);
    attr.mq_flags = O_NONBLOCK, attr.mq_maxmsg = 77;
    FAILS(mq_setattr(-1, &attr, &old), EBADF);
    FAILS(mq_setattr(0, &attr, &old), EBADF);
    CHECK(mq_setattr(fd, &attr, &old) == 0 && old.mq_flags == 0 && old.mq_maxmsg == 3 && old.mq_msgsize == 7);
    CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
    char text[7];
    FAILS(mq_receive(fd, text, 7, NULL), EAGAIN);
    CHECK(syscall(SYS_mq_getsetattr, fd, NULL, NULL) == 0);
    FAILS(syscall(SYS_mq_getsetattr, fd, (void *)8, NULL), EFAULT);
    FAILS(syscall(SYS_mq_getsetattr, fd, NULL, (void *)8), EFAULT);
    CHECK(mq_getattr(fd, &old) == 0 && old.mq_flags == O_NONBLOCK && old.mq_maxmsg == 3);
    CHECK(fcntl(fd, F_SETFL, 0) == 0 && mq_getattr(fd, &old) == 0 && old.mq_flags == 0);
    close(fd);
}

/* --- who waits --- */

static int says(int from, const char *word) {
    char got[3] = "";
    return read(from, got, 2) == 2 && strcmp(got, word) == 0;
}

static void waiting(void) {
    int told[2], fd = queue(0, 1, 20);
    CHECK(pipe(told) == 0);
    /* The most urgent one first, then who came first. */
    pid_t a = waiter(fd, 1, 0, 'a', told[1]), b = waiter(fd, 1, 20, 'b', told[1]);
    pid_t c = waiter(fd, 1, 30, 'c', told[1]), d = waiter(fd, 1, 20, 'd', told[1]);
    CHECK(sends(fd, "1", 0) == 0 && says(told[0], "c1") && sends(fd, "2", 0) == 0 && says(told[0], "b2"));
    CHECK(sends(fd, "3", 0) == 0 && says(told[0], "d3") && sends(fd, "4", 0) == 0 && says(told[0], "a4"));
    CHECK(ended(a) == 0 && ended(b) == 0 && ended(c) == 0 && ended(d) == 0 && count(fd) == 0);
    /* So do those that send. */
    CHECK(sends(fd, "0", 0) == 0);
    a = waiter(fd, 0, 0, 'a', told[1]), b = waiter(fd, 0, 20, 'b', told[1]);
    c = waiter(fd, 0, 30, 'c', told[1]), d = waiter(fd, 0, 20, 'd', told[1]);
    CHECK(gets(fd, "0", 0) && says(told[0], "c!") && count(fd) == 1);
    CHECK(gets(fd, "c", 0) && says(told[0], "b!"));
    CHECK(gets(fd, "b", 0) && says(told[0], "d!") && gets(fd, "d", 0) && says(told[0], "a!"));
    CHECK(gets(fd, "a", 0) && count(fd) == 0);
    CHECK(ended(a) == 0 && ended(b) == 0 && ended(c) == 0 && ended(d) == 0);
    /* Nicer ones come later. */
    CHECK(setpriority(PRIO_PROCESS, 0, 10) == 0);
    a = waiter(fd, 1, 0, 'a', told[1]);
    CHECK(setpriority(PRIO_PROCESS, 0, 0) == 0);
    b = waiter(fd, 1, 0, 'b', told[1]);
    CHECK(sends(fd, "1", 0) == 0 && says(told[0], "b1") && sends(fd, "2", 0) == 0 && says(told[0], "a2"));
    CHECK(ended(a) == 0 && ended(b) == 0);
    /* Signals: one lets it go on, the other does not. */
    a = waiter(fd, 1, 0, 'a', told[1]);
    CHECK(kill(a, SIGUSR2) == 0);
    pause_ms(20);
    CHECK(SOON(thread_state(a) == 'S') && kill(a, SIGUSR1) == 0 && ended(a) == EINTR);
    CHECK(sends(fd, "1", 0) == 0 && count(fd) == 1);
    a = waiter(fd, 0, 0, 'a', told[1]);
    CHECK(kill(a, SIGUSR2) == 0);
    pause_ms(20);
    CHECK(SOON(thread_state(a) == 'S') && kill(a, SIGUSR1) == 0 && ended(a) == EINTR);
    CHECK(gets(fd, "1", 0) && count(fd) == 0);
    /* Who is killed takes nothing with it. */
    a = waiter(fd, 1, 0, 'a', told[1]);
    int status;
    CHECK(kill(a, SIGKILL) == 0 && waitpid(a, &status, 0) == a && sends(fd, "1", 0) == 0 && gets(fd, "1", 0));
    close(told[0]);
    close(told[1]);
    close(fd);
}

static void times(void) {
    int fd = queue(0, 1, 20);
    char text[20];
    struct timespec past = { 0, 0 }, none = { 0, 1000000000 }, negative = { -1, 0 };
    FAILS(mq_timedreceive(fd, text, 20, NULL, &past), ETIMEDOUT);
    FAILS(syscall(SYS_mq_timedreceive, -1, text, 20, NULL, (void *)8), EFAULT);
    FAILS(mq_timedreceive(-1, text, 20, NULL, &none), EINVAL);
    FAILS(mq_timedsend(-1, text, 20, 99999, &negative), EINVAL);
    FAILS(mq_timedreceive(-1, text, 20, NULL, &past), EBADF);
    struct timespec at = after_ms(50), now;
    FAILS(mq_timedreceive(fd, text, 20, NULL, &at), ETIMEDOUT);
    clock_gettime(CLOCK_REALTIME, &now);
    CHECK(now.tv_sec > at.tv_sec || (now.tv_sec == at.tv_sec && now.tv_nsec >= at.tv_nsec));
    CHECK(sends(fd, "x", 0) == 0);
    at = after_ms(50);
    FAILS(mq_timedsend(fd, "y", 1, 0, &at), ETIMEDOUT);
    /* What need not wait does not look at the time. */
    CHECK(mq_timedreceive(fd, text, 20, NULL, &past) == 1 && *text == 'x');
    CHECK(mq_timedsend(fd, "z", 1, 0, &past) == 0 && count(fd) == 1 && gets(fd, "z", 0));
#ifdef SYS_mq_timedreceive_time64
    int64_t wide[2] = { 5, 0 };
    FAILS(syscall(SYS_mq_timedreceive_time64, fd, text, 20, NULL, wide), ETIMEDOUT);
    FAILS(syscall(SYS_mq_timedsend_time64, fd, text, 20, 99999, wide), EINVAL);
#endif
    long narrow[2] = { 5, 0 };
    FAILS(syscall(SYS_mq_timedreceive, fd, text, 20, NULL, narrow), ETIMEDOUT);
    if (!keep_clock) {
        /* The clock is set to a time behind the end of a wait. */
        at = after_ms(1000000);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) _exit(mq_timedreceive(fd, text, 20, NULL, &at) < 0 ? errno : 0);
        CHECK(SOON(thread_state(child) == 'S'));
        clock_gettime(CLOCK_REALTIME, &now);
        struct timespec then = { now.tv_sec + 2000, 0 };
        CHECK(clock_settime(CLOCK_REALTIME, &then) == 0 && ended(child) == ETIMEDOUT);
        CHECK(clock_settime(CLOCK_REALTIME, &now) == 0);
    }
    close(fd);
}

static void polling(void) {
    int fd = queue(0, 2, 20), all = epoll_create1(0);
    struct pollfd ask = { fd, POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM, 0 };
    CHECK(poll(&ask, 1, 0) == 1 && ask.revents == (POLLOUT | POLLWRNORM));
    struct epoll_event event = { .events = EPOLLIN | EPOLLET };
    CHECK(epoll_ctl(all, EPOLL_CTL_ADD, fd, &event) == 0 && epoll_wait(all, &event, 1, 0) == 0);
    CHECK(sends(fd, "x", 0) == 0 && poll(&ask, 1, 0) == 1);
    CHECK(ask.revents == (POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM));
    CHECK(epoll_wait(all, &event, 1, 1000) == 1 && event.events == EPOLLIN);
    CHECK(epoll_wait(all, &event, 1, 0) == 0 && sends(fd, "y", 0) == 0);
    CHECK(epoll_wait(all, &event, 1, 1000) == 1 && event.events == EPOLLIN);
    CHECK(poll(&ask, 1, 0) == 1 && ask.revents == (POLLIN | POLLRDNORM));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct pollfd room = { fd, POLLOUT, 0 };
        _exit(poll(&room, 1, 10000) == 1 && room.revents == POLLOUT ? 0 : 1);
    }
    CHECK(SOON(thread_state(child) == 'S') && gets(fd, "x", 0) && ended(child) == 0);
    close(all);
    close(fd);
}

/* --- how much there may be --- */

static int made_with(long messages, long size) {
    struct mq_attr attr = { .mq_maxmsg = messages, .mq_msgsize = size };
    int fd = opens(NAME, O_CREAT | O_EXCL | O_RDWR, 0600, &attr), error = errno;
    if (fd < 0) return errno = error, -1;
    unlinks(NAME);
    close(fd);
    return 0;
}

static long setting(const char *name) {
    char path[64], text[32] = "";
    snprintf(path, sizeof path, "/proc/sys/fs/mqueue/%s", name);
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
    close(fd);
    return atol(text);
}

static int refuses(const char *name, const char *value) {
    char path[64];
    snprintf(path, sizeof path, "/proc/sys/fs/mqueue/%s", name);
    int fd = open(path, O_WRONLY), refused = write(fd, value, strlen(value)) == -1 && errno == EINVAL;
    close(fd);
    return refused;
}

/* Waits until the other process is here, too. */
static void meet(_Atomic int *came, int me) {
    int now = ++came[me];
    while (came[!me] < now) sched_yield();
}

/* Two processes open what neither has made; one of them makes it, and there is room for no other. */
static void together(void) {
    _Atomic int *came = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct mq_attr attr = { .mq_maxmsg = 1, .mq_msgsize = 1 };
    struct rlimit one = { 12 * sizeof(long) + 1, 12 * sizeof(long) + 1 };
    AS(9, CHECK(setrlimit(RLIMIT_MSGQUEUE, &one) == 0); pid_t child = fork(); int me = child == 0, bad = 0;
       for (int n = 0; n < 300; n++) {
           meet(came, me);
           int fd = opens(NAME, O_CREAT | O_RDWR, 0600, &attr);
           bad += fd < 0;
           meet(came, me);
           if (me) unlinks(NAME);
           close(fd);
           meet(came, me);
       }
       if (me) _exit(bad != 0);
       CHECK(ended(child) == 0 && bad == 0););
    munmap((void *)came, 4096);
}

static void limits(void) {
    CHECK(setting("msg_max") == 10 && setting("msgsize_max") == 8192 && setting("queues_max") == 256);
    CHECK(setting("msg_default") == 10 && setting("msgsize_default") == 8192);
    CHECK(refuses("msg_max", "0") && refuses("msg_max", "65537") && refuses("msg_default", "0"));
    CHECK(refuses("msgsize_max", "127") && refuses("msgsize_max", "16777217"));
    CHECK(refuses("msgsize_default", "127") && refuses("msg_default", "65537") && setting("msg_max") == 10);
    FAILS(made_with(0, 1), EINVAL);
    FAILS(made_with(1, 0), EINVAL);
    FAILS(made_with(-1, 1), EINVAL);
    FAILS(made_with(1, -1), EINVAL);
    FAILS(made_with(65537, 1), EINVAL);
    FAILS(made_with(1, 16777217), EINVAL);
    struct rlimit before, none = { RLIM_INFINITY, RLIM_INFINITY };
    CHECK(getrlimit(RLIMIT_MSGQUEUE, &before) == 0 && setrlimit(RLIMIT_MSGQUEUE, &none) == 0);
    CHECK(made_with(65536, 1) == 0 && made_with(1, 16777216) == 0);
#if __SIZEOF_LONG__ == 4
    FAILS(made_with(65536, 65536), EOVERFLOW);
    FAILS(made_with(65536, 65500), EOVERFLOW);
#endif
    AS(7, FAILS(made_with(11, 1), EINVAL); FAILS(made_with(1, 8193), EINVAL);
       CHECK(made_with(10, 8192) == 0););
    set("fs/mqueue/msg_max", "12");
    set("fs/mqueue/msgsize_max", "9000");
    set("fs/mqueue/msg_default", "20");
    set("fs/mqueue/msgsize_default", "300");
    AS(7, CHECK(made_with(12, 9000) == 0); FAILS(made_with(13, 1), EINVAL););
    struct mq_attr attr;
    int fd = opens(NAME, O_CREAT | O_RDWR, 0600, NULL);
    CHECK(mq_getattr(fd, &attr) == 0 && attr.mq_maxmsg == 12 && attr.mq_msgsize == 300);
    CHECK(unlinks(NAME) == 0 && close(fd) == 0);
    set("fs/mqueue/msg_max", "10");
    set("fs/mqueue/msgsize_max", "8192");
    set("fs/mqueue/msg_default", "10");
    set("fs/mqueue/msgsize_default", "8192");
    set("fs/mqueue/queues_max", "0");
    AS(7, FAILS(made_with(1, 1), ENOSPC); FAILS(made_with(0, 0), ENOSPC););
    CHECK(made_with(1, 1) == 0);
    set("fs/mqueue/queues_max", "256");

    /* Memory: twelve words and the bytes of a message for each; it counts until the queue is gone. */
    long each = 12 * sizeof(long) + 100;
    struct rlimit two = { 2 * 5 * each, 2 * 5 * each };
    AS(8, CHECK(setrlimit(RLIMIT_MSGQUEUE, &two) == 0); int first = queue(0, 5, 100);
       CHECK(made_with(5, 100) == 0); FAILS(made_with(5, 101), EMFILE); FAILS(made_with(6, 100), EMFILE);
       struct mq_attr five = { .mq_maxmsg = 5 }; five.mq_msgsize = 100;
       CHECK(opens("limen-second", O_CREAT | O_RDWR, 0600, &five) >= 0); FAILS(made_with(1, 1), EMFILE);
       CHECK(close(first) == 0); CHECK(made_with(5, 100) == 0););
    /* The second one still has its name: all of this user's processes have less. */
    AS(8, CHECK(setrlimit(RLIMIT_MSGQUEUE, &two) == 0); CHECK(made_with(5, 100) == 0);
       FAILS(made_with(5, 101), EMFILE); CHECK(unlinks("limen-second") == 0); CHECK(made_with(5, 101) == 0););
    CHECK(setrlimit(RLIMIT_MSGQUEUE, &before) == 0);
}

int main(int argc, char **argv) {
    (void)argv;
    keep_clock = argc > 1;
    opening();
    files();
    mounted();
    order();
    attributes();
    waiting();
    times();
    polling();
    limits();
    together();
    return report();
}
