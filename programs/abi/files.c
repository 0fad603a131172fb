/*
 * Files, directories, pipes and sockets in rare situations: calls at the same time, and calls that cannot be
 * completed. Called by tools/limen/src/test/programs.rs, on every architecture; on Linux it can be run by
 * hand, as root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE 2
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8
#endif
#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x20
#endif

/* A slash behind a file's name is an error. */
static void behind_a_file(void) {
    CHECK(open("plain", O_CREAT | O_WRONLY, 0600) >= 0);
    CHECK(open("plain/", O_RDONLY) == -1 && errno == ENOTDIR);
}

/* A file with some bytes. */
static void make_file(const char *name) {
    int fd = open(name, O_CREAT | O_WRONLY, 0600);
    CHECK(fd >= 0 && write(fd, "something", 9) == 9);
    close(fd);
}

/* Waits until a thread sleeps; `path` is its stat file in /proc. */
static void until_asleep(int stat_file) {
    char text[256];
    for (;;) {
        ssize_t n = pread(stat_file, text, sizeof text - 1, 0);
        text[n < 0 ? 0 : n] = 0;
        char *behind = strrchr(text, ')');
        if (!behind || behind[2] == 'S') break;
        usleep(1000);
    }
}
static void until_child_sleeps(pid_t child) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", child);
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0);
    until_asleep(fd);
    close(fd);
}

/*
 * A tree that is bind mounted below itself, with all its mounts: the copy has the mounts that existed before.
 */
static void bound_below_itself(void) {
    CHECK(mkdir("tree", 0700) == 0 && mount("none", "tree", "tmpfs", 0, NULL) == 0 &&
          mount(NULL, "tree", NULL, MS_PRIVATE, NULL) == 0);
    CHECK(mkdir("tree/sub", 0700) == 0 && mount("none", "tree/sub", "tmpfs", 0, NULL) == 0);
    CHECK(mkdir("tree/sub/deep", 0700) == 0 && mount("none", "tree/sub/deep", "tmpfs", 0, NULL) == 0);
    CHECK(mkdir("tree/copy", 0700) == 0);
    make_file("tree/sub/file");
    make_file("tree/sub/deep/file");
    CHECK(mount("tree", "tree/copy", NULL, MS_BIND | MS_REC, NULL) == 0);
    CHECK(access("tree/copy/sub/file", F_OK) == 0 && access("tree/copy/sub/deep/file", F_OK) == 0);
    CHECK(access("tree/copy/copy", F_OK) == 0 && access("tree/copy/copy/sub", F_OK) == -1 && errno == ENOENT);
    CHECK(umount("tree/copy") == -1 && errno == EBUSY && umount2("tree/copy", MNT_DETACH) == 0 &&
          access("tree/sub/deep/file", F_OK) == 0);
    CHECK(umount2("tree", MNT_DETACH) == 0 && rmdir("tree") == 0);
}

/* A mount that cannot be moved stays where it is. */
static void moved_nowhere(void) {
    char place[64];
    CHECK(mkdir("moved", 0700) == 0 && mkdir("gone", 0700) == 0 &&
          mount("none", "moved", "tmpfs", 0, NULL) == 0);
    make_file("moved/file");
    int gone = open("gone", O_RDONLY | O_DIRECTORY);
    CHECK(gone >= 0 && rmdir("gone") == 0);
    snprintf(place, sizeof place, "/proc/self/fd/%d", gone);
    CHECK(mount("moved", place, NULL, MS_MOVE, NULL) == -1 && errno == ENOENT &&
          access("moved/file", F_OK) == 0);
    close(gone);
    CHECK(mkdir("moved/next", 0700) == 0 && mount("none", "moved/next", "tmpfs", 0, NULL) == 0 &&
          mkdir("moved/next/old", 0700) == 0);
    make_file("moved/next/file");
    pid_t child = fork();
    if (child == 0) {
        if (chroot("moved") != 0 || chdir("/next/old") != 0 || rmdir("/next/old") != 0) _exit(1);
        if (syscall(SYS_pivot_root, "/next", ".") != -1 || errno != ENOENT) _exit(2);
        _exit(access("/next/file", F_OK) != 0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(access("moved/next/file", F_OK) == 0 && umount2("moved", MNT_DETACH) == 0 && rmdir("moved") == 0);
}

/* A record lock of one process: `fcntl` with a range. */
static int record(int fd, int cmd, short type, off_t start, off_t len) {
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
    return fcntl(fd, cmd, &lock);
}
/* Whether another process can lock the file. */
static int free_for_others(const char *name) {
    int status;
    pid_t child = fork();
    if (child == 0) _exit(record(open(name, O_RDWR), F_SETLK, F_WRLCK, 0, 0) != 0);
    return waitpid(child, &status, 0) == child && status == 0;
}

/* A process that waits for a record lock while its descriptor is closed gets no lock. */
struct waiter {
    int fd, result, error;
};
static void *wait_for_lock(void *arg) {
    struct waiter *w = arg;
    w->result = record(w->fd, F_SETLKW, F_WRLCK, 0, 0);
    w->error = errno;
    return NULL;
}
static void closed_while_waiting(void) {
    struct waiter w = {.fd = open("waited.lock", O_RDWR | O_CREAT, 0600)};
    int held[2], release[2];
    char byte;
    pthread_t thread;
    CHECK(w.fd >= 0 && pipe(held) == 0 && pipe(release) == 0);
    pid_t child = fork();
    if (child == 0) {
        close(release[1]);
        if (record(w.fd, F_SETLK, F_WRLCK, 0, 0) != 0 || write(held[1], "", 1) != 1) _exit(1);
        _exit(read(release[0], &byte, 1) != 0);
    }
    CHECK(read(held[0], &byte, 1) == 1 && pthread_create(&thread, NULL, wait_for_lock, &w) == 0);
    usleep(50000);
    close(w.fd);
    close(release[1]);
    CHECK(waitpid(child, NULL, 0) == child && pthread_join(thread, NULL) == 0);
    CHECK(w.result == -1 && w.error == EBADF && free_for_others("waited.lock"));
    close(held[0]);
    close(held[1]);
    close(release[0]);
}

/*
 * Record locks stay when a call unshares descriptors that are not shared, and when a program that has had
 * threads executes another one.
 */
static void *sleeps(void *arg) {
    for (;;) pause();
    return arg;
}
static void kept_locks(void) {
    int fd = open("kept.lock", O_RDWR | O_CREAT, 0600), status;
    CHECK(fd >= 0 && record(fd, F_SETLK, F_WRLCK, 0, 0) == 0 && !free_for_others("kept.lock"));
    CHECK(unshare(CLONE_FILES) == 0 && !free_for_others("kept.lock"));
    CHECK(syscall(SYS_close_range, ~0u - 1, ~0u, CLOSE_RANGE_UNSHARE) == 0 && !free_for_others("kept.lock"));
    CHECK(record(fd, F_SETLK, F_UNLCK, 0, 0) == 0 && free_for_others("kept.lock"));
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        if (record(fd, F_SETLK, F_WRLCK, 0, 0) != 0 || pthread_create(&thread, NULL, sleeps, NULL) != 0)
            _exit(1);
        execl("/proc/self/exe", "files", "locked", NULL);
        _exit(2);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0 && free_for_others("kept.lock"));
    close(fd);
}

/*
 * A process that was waited for by `waitpid` holds no lock, even if the waiters for its lock have not run
 * since.
 */
static void no_deadlock(void) {
    int fd = open("dead.lock", O_RDWR | O_CREAT, 0600), held[2], status;
    struct sched_param first = {.sched_priority = 1}, none = {0};
    cpu_set_t before, one;
    char byte;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    CHECK(fd >= 0 && pipe(held) == 0 && record(fd, F_SETLK, F_WRLCK, 0, 1) == 0);
    CHECK(sched_getaffinity(0, sizeof before, &before) == 0 && sched_setaffinity(0, sizeof one, &one) == 0);
    pid_t child = fork();
    if (child == 0) {
        if (record(fd, F_SETLK, F_WRLCK, 1, 1) != 0 || write(held[1], "", 1) != 1) _exit(1);
        _exit(record(fd, F_SETLKW, F_WRLCK, 0, 1) != 0);
    }
    CHECK(read(held[0], &byte, 1) == 1);
    until_child_sleeps(child);
    CHECK(record(fd, F_SETLKW, F_WRLCK, 1, 1) == -1 && errno == EDEADLK);
    // No other process runs on this processor until this one waits for the lock.
    CHECK(sched_setscheduler(0, SCHED_FIFO, &first) == 0);
    CHECK(record(fd, F_SETLK, F_UNLCK, 0, 1) == 0 && record(fd, F_SETLKW, F_WRLCK, 1, 1) == 0);
    CHECK(sched_setscheduler(0, SCHED_OTHER, &none) == 0 &&
          sched_setaffinity(0, sizeof before, &before) == 0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    close(held[0]);
    close(held[1]);
    close(fd);
}

/*
 * A file without a name can be executed, also while it is open for writing; seals decide who may make it
 * executable.
 */
static void unnamed_programs(void) {
    static char buffer[1 << 16];
    char *args[] = {"files", "program", NULL}, *no_environment[] = {NULL};
    int from = open("/proc/self/exe", O_RDONLY), fd = memfd_create("program", MFD_ALLOW_SEALING), status;
    size_t page = sysconf(_SC_PAGESIZE);
    ssize_t n;
    CHECK(from >= 0 && fd >= 0);
    while ((n = read(from, buffer, sizeof buffer)) > 0) CHECK(write(fd, buffer, n) == n);
    close(from);
    void *a = mmap(NULL, page, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0),
         *b = mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(a != MAP_FAILED && b != MAP_FAILED && mprotect(b, page, PROT_READ | PROT_EXEC) == 0);
    munmap(a, page);
    munmap(b, page);
    pid_t child = fork();
    if (child == 0) {
        fexecve(fd, args, no_environment);
        _exit(errno);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 77);
    // Linux has F_SEAL_EXEC since 6.3.
    int data = memfd_create("data", MFD_NOEXEC_SEAL);
    if (data >= 0 || errno != EINVAL) {
        CHECK(fcntl(data, F_GET_SEALS) == F_SEAL_EXEC && fchmod(data, 0700) == -1 && errno == EPERM &&
              fchmod(data, 0600) == 0);
        CHECK(fchmod(fd, 0755) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_EXEC) == 0);
        CHECK(fcntl(fd, F_GET_SEALS) ==
              (F_SEAL_EXEC | F_SEAL_WRITE | F_SEAL_FUTURE_WRITE | F_SEAL_GROW | F_SEAL_SHRINK));
        CHECK(fchmod(fd, 0655) == -1 && errno == EPERM && fchmod(fd, 0511) == 0);
        close(data);
    }
    close(fd);
}

/*
 * Calls `with` for each entry of a listing with a small buffer; returns the number of entries, and stops at a
 * limit.
 */
static int list(int fd, void (*with)(const char *)) {
    char buffer[128];
    long n;
    int seen = 0;
    while (seen < 1000 && (n = syscall(SYS_getdents64, fd, buffer, sizeof buffer)) > 0)
        for (long at = 0; at < n;) {
            // `struct linux_dirent64`: two 64-bit words, the record's length, the type, the name.
            const char *name = buffer + at + 19;
            uint16_t length;
            memcpy(&length, buffer + at + 16, sizeof length);
            at += length;
            if (name[0] == '.') continue;
            seen++;
            if (with) with(name);
        }
    return seen;
}
static void rename_longer(const char *name) {
    char from[600], to[600];
    snprintf(from, sizeof from, "list/%s", name);
    snprintf(to, sizeof to, "list/%sx", name);
    if (strlen(name) < 200) CHECK(rename(from, to) == 0);
}
static void make_another(const char *name) {
    char path[600];
    snprintf(path, sizeof path, "list/%sn", name);
    if (strlen(name) < 200) close(open(path, O_CREAT | O_WRONLY, 0600));
}

/* A listing ends even if entries change meanwhile; entries that exist all the time are in it. */
static void lists_that_grow(void) {
    enum { FILES = 20 };
    char name[64];
    CHECK(mkdir("list", 0700) == 0);
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "list/file%d", i);
        make_file(name);
    }
    int fd = open("list", O_RDONLY | O_DIRECTORY);
    CHECK(fd >= 0 && list(fd, rename_longer) == FILES && list(fd, NULL) == 0);
    CHECK(lseek(fd, 0, SEEK_SET) == 0 && list(fd, NULL) == FILES);
    CHECK(lseek(fd, 0, SEEK_SET) == 0 && list(fd, make_another) == FILES);
    make_file("list/last");
    CHECK(lseek(fd, 0, SEEK_SET) == 0 && list(fd, NULL) == 2 * FILES + 1);
    close(fd);
}

/* vmsplice waits until the pipe has room for one buffer, and no longer. */
static volatile sig_atomic_t woken;
static void wake(int sig) {
    woken = sig;
}
static void spliced_memory(void) {
    static char big[1 << 20] __attribute__((aligned(65536)));
    struct iovec all = {big, sizeof big};
    int ends[2];
    struct sigaction act = {.sa_handler = wake}, old;
    struct itimerval soon = {.it_interval.tv_sec = 1, .it_value.tv_sec = 5}, never = {0};
    CHECK(pipe(ends) == 0 && sigaction(SIGALRM, &act, &old) == 0);
    int size = fcntl(ends[1], F_GETPIPE_SZ);
    CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    CHECK(size > 0 && vmsplice(ends[1], &all, 1, 0) == size && !woken);
    CHECK(vmsplice(ends[1], &all, 1, SPLICE_F_NONBLOCK) == -1 && errno == EAGAIN && !woken);
    CHECK(read(ends[0], big, size) == size && vmsplice(ends[1], &all, 1, SPLICE_F_NONBLOCK) == size &&
          !woken);
    CHECK(vmsplice(ends[0], &all, 1, SPLICE_F_NONBLOCK) == size &&
          vmsplice(ends[0], &all, 1, SPLICE_F_NONBLOCK) == -1 && errno == EAGAIN && !woken);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &old, NULL);
    close(ends[0]);
    close(ends[1]);
}

/* Without a free descriptor nothing is opened, created or truncated. */
static void no_number_left(void) {
    struct rlimit before, none;
    struct stat st;
    make_file("full");
    int lowest = dup(0);
    close(lowest);
    CHECK(lowest >= 0 && getrlimit(RLIMIT_NOFILE, &before) == 0);
    none = before;
    none.rlim_cur = lowest;
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    CHECK(open("full", O_WRONLY | O_TRUNC) == -1 && errno == EMFILE);
    CHECK(open("made", O_WRONLY | O_CREAT | O_EXCL, 0600) == -1 && errno == EMFILE);
    CHECK(open("missing", O_RDONLY) == -1 && errno == EMFILE && open("", O_RDONLY) == -1 && errno == ENOENT);
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK(stat("full", &st) == 0 && st.st_size == 9 && stat("made", &st) == -1 && errno == ENOENT);
    CHECK(open("missing", O_RDONLY) == -1 && errno == ENOENT && open("full", O_RDONLY) == lowest &&
          close(lowest) == 0);
}

/* The descriptor of an open call that is not complete is taken, but refers to no file yet. */
static atomic_int opener, go, opened;
static void *open_slowly(void *arg) {
    opener = syscall(SYS_gettid);
    while (!go) sched_yield();
    opened = open("slow.fifo", O_RDONLY);
    return arg;
}
static void number_of_the_slow(void) {
    char path[64];
    pthread_t thread;
    CHECK(mkfifo("slow.fifo", 0600) == 0 && pthread_create(&thread, NULL, open_slowly, NULL) == 0);
    while (!opener) sched_yield();
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", opener);
    int stat_file = open(path, O_RDONLY), number = dup(0);
    CHECK(stat_file >= 0 && number >= 0 && close(number) == 0);
    go = 1;
    until_asleep(stat_file);
    CHECK(dup2(0, number) == -1 && errno == EBUSY && close(number) == -1 && errno == EBADF &&
          fcntl(number, F_GETFD) == -1 && errno == EBADF);
    int other = dup(0), writer = open("slow.fifo", O_WRONLY);
    CHECK(other == number + 1 && writer == number + 2 && pthread_join(thread, NULL) == 0 && opened == number);
    CHECK(fcntl(number, F_GETFD) == 0 && close(number) == 0 && close(other) == 0 && close(writer) == 0 &&
          close(stat_file) == 0);
}

/* fallocate gets the whole room or none; existing data stays. */
static void room_for_all_or_none(void) {
    size_t page = sysconf(_SC_PAGESIZE), last;
    struct stat st;
    struct statvfs before, after;
    char options[64], byte = 0;
    snprintf(options, sizeof options, "size=%zu", 16 * page);
    CHECK(mkdir("small", 0700) == 0 && mount("none", "small", "tmpfs", 0, options) == 0);
    make_file("small/first");
    int fd = open("small/second", O_RDWR | O_CREAT, 0600);
    last = 5 * page;
    CHECK(fd >= 0 && pwrite(fd, "kept", 4, last) == 4 && statvfs("small", &before) == 0 &&
          before.f_bfree == 14);
    CHECK(posix_fallocate(fd, 0, 16 * page) == ENOSPC && fstat(fd, &st) == 0 &&
          st.st_size == (off_t)last + 4);
    CHECK((size_t)st.st_blocks * 512 == page && statvfs("small", &after) == 0 &&
          after.f_bfree == before.f_bfree);
    CHECK(posix_fallocate(fd, 0, 1 << 30) == ENOSPC && posix_fallocate(fd, 0, 15 * page) == 0 &&
          fstat(fd, &st) == 0);
    CHECK((size_t)st.st_blocks * 512 == 15 * page && st.st_size == (off_t)(15 * page) &&
          statvfs("small", &after) == 0 && after.f_bfree == 0);
    CHECK(pread(fd, options, 4, last) == 4 && memcmp(options, "kept", 4) == 0 &&
          pread(fd, &byte, 1, 14 * page) == 1 && byte == 0);
    CHECK(ftruncate(fd, 0) == 0 && statvfs("small", &after) == 0 && after.f_bfree == 15);
    close(fd);
    CHECK(umount("small") == 0 && rmdir("small") == 0);
}

/* Without a mount below it, a name in /proc disappears with its process. */
static _Atomic pid_t short_lived;
static void *live_until_told(void *end) {
    char byte;
    short_lived = syscall(SYS_gettid);
    return read(*(int *)end, &byte, 1) == 1 ? end : NULL;
}
static void mounted_nowhere(void) {
    char name[64];
    int ends[2];
    pthread_t thread;
    CHECK(pipe(ends) == 0 && pthread_create(&thread, NULL, live_until_told, &ends[0]) == 0);
    while (!short_lived) usleep(1000);
    snprintf(name, sizeof name, "/proc/self/task/%d/comm", short_lived);
    CHECK(access(name, F_OK) == 0);
    CHECK(mount(".", name, NULL, MS_BIND, NULL) == -1 && errno == ENOTDIR);
    CHECK(write(ends[1], "", 1) == 1 && pthread_join(thread, NULL) == 0);
    for (int i = 0; i < 2000 && access(name, F_OK) == 0; i++) usleep(1000);
    CHECK(access(name, F_OK) == -1 && errno == ENOENT);
    *strrchr(name, '/') = 0;
    CHECK(access(name, F_OK) == -1 && errno == ENOENT);
    close(ends[0]);
    close(ends[1]);
}

/* --- What splice takes out of a pipe and cannot put anywhere, and what it has not got yet --- */

static void spliced_back(void) {
    int ends[2], refused = 0, same = 1;
    size_t page = sysconf(_SC_PAGESIZE), size = 16 * page;
    char *big = malloc(size), *back = malloc(size);
    for (size_t i = 0; i < size; i++) big[i] = i % 251;
    /* A file system of one page, which is in use. */
    CHECK(mkdir("little", 0700) == 0 && mount("none", "little", "tmpfs", 0, "size=4096") == 0);
    int full = open("little/full", O_WRONLY | O_CREAT, 0600);
    while (write(full, big, 4096) > 0) {}
    CHECK(errno == ENOSPC);
    CHECK(pipe(ends) == 0 && fcntl(ends[1], F_SETPIPE_SZ, size) == (int)size);
    CHECK(write(ends[1], big, page) == (ssize_t)page);
    /* splice fails and puts the bytes back: the pipe is not fuller than before. */
    for (int len = 100; len > 60; len--)
        refused += splice(ends[0], NULL, full, NULL, len, SPLICE_F_NONBLOCK) == -1 && errno == ENOSPC;
    CHECK(refused == 40);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    CHECK(write(ends[1], big + page, 15 * page) == (ssize_t)(15 * page));
    CHECK(write(ends[1], big, 1) == -1 && errno == EAGAIN);
    CHECK(splice(ends[0], NULL, full, NULL, page, SPLICE_F_NONBLOCK) == -1 && errno == ENOSPC);
    CHECK(write(ends[1], big, 1) == -1 && errno == EAGAIN && fcntl(ends[1], F_GETPIPE_SZ) == (int)size);
    CHECK(read(ends[0], back, size) == (ssize_t)size);
    for (size_t i = 0; i < size; i++) same &= big[i] == back[i];
    CHECK(same);
    close(ends[0]);
    close(ends[1]);
    /* A pipe in packet mode keeps packets apart. */
    CHECK(pipe2(ends, O_DIRECT | O_NONBLOCK) == 0 && write(ends[1], "0123456789", 10) == 10 &&
          write(ends[1], "next", 4) == 4);
    CHECK(splice(ends[0], NULL, full, NULL, 10, 0) == -1 && errno == ENOSPC);
    CHECK(splice(ends[0], NULL, full, NULL, 3, 0) == -1 && errno == ENOSPC);
    CHECK(read(ends[0], back, 100) == 10 && memcmp(back, "0123456789", 10) == 0);
    CHECK(read(ends[0], back, 100) == 4 && memcmp(back, "next", 4) == 0);
    close(ends[0]);
    close(ends[1]);
    close(full);
    CHECK(umount("little") == 0 && rmdir("little") == 0);
    free(big);
    free(back);
}

/* splice reserves its place in the pipe while it waits for data: other writers do not get that place. */
static void place_for_the_slow(void) {
    size_t page = sysconf(_SC_PAGESIZE);
    char *big = calloc(16, page);
    for (int comes = 0; comes < 2; comes++) {
        int ends[2], pair[2], status = -1, bytes = -1;
        CHECK(pipe(ends) == 0 && fcntl(ends[1], F_SETPIPE_SZ, 16 * page) == (int)(16 * page) &&
              write(ends[1], big, 15 * page) == (ssize_t)(15 * page) &&
              socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
        pid_t slow = fork();
        if (slow == 0) {
            close(pair[1]);
            _exit(splice(pair[0], NULL, ends[1], NULL, page, 0) == (comes ? 4 : 0) ? 0 : 1);
        }
        until_child_sleeps(slow);
        /* On Linux other writers wait for the splice, too. */
        pid_t sender = fork();
        if (sender == 0) {
            usleep(300000);
            _exit(comes && write(pair[1], "late", 4) != 4);
        }
        close(pair[1]);
        fcntl(ends[1], F_SETFL, O_NONBLOCK);
        if (comes) CHECK(write(ends[1], big, page) == -1 && errno == EAGAIN);
        CHECK(waitpid(slow, &status, 0) == slow && status == 0);
        CHECK(waitpid(sender, &status, 0) == sender && status == 0);
        if (!comes) CHECK(write(ends[1], big, page) == (ssize_t)page);
        CHECK(ioctl(ends[0], FIONREAD, &bytes) == 0 && bytes == (int)(comes ? 15 * page + 4 : 16 * page));
        CHECK(fcntl(ends[1], F_SETPIPE_SZ, page) == -1 && errno == EBUSY);
        close(ends[0]);
        close(ends[1]);
        close(pair[0]);
    }
    free(big);
}

/* A mount that nobody has used since it was asked last expires. */
static void expiring(void) {
    CHECK(mkdir("idle", 0700) == 0 && mount("none", "idle", "tmpfs", 0, NULL) == 0);
    close(open("idle/file", O_WRONLY | O_CREAT, 0600));
    CHECK(umount2("idle", MNT_EXPIRE | MNT_DETACH) == -1 && errno == EINVAL);
    CHECK(umount2("idle", MNT_EXPIRE | MNT_FORCE) == -1 && errno == EINVAL);
    int file = open("idle/file", O_RDONLY);
    CHECK(umount2("idle", MNT_EXPIRE) == -1 && errno == EBUSY);
    close(file);
    CHECK(umount2("idle", MNT_EXPIRE) == -1 && errno == EAGAIN);
    CHECK(access("idle/file", F_OK) == 0);
    CHECK(umount2("idle", MNT_EXPIRE) == -1 && errno == EAGAIN);
    CHECK(umount2("idle", MNT_EXPIRE) == 0);
    CHECK(umount2("idle", MNT_EXPIRE) == -1 && errno == EINVAL);
    CHECK(rmdir("idle") == 0);
}

#define TO_RO(place) mount(NULL, place, NULL, MS_REMOUNT | MS_RDONLY, NULL)
#define TO_RW(place) mount(NULL, place, NULL, MS_REMOUNT, NULL)
#define MOUNT_TO_RO(place) mount(NULL, place, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL)
#define MOUNT_TO_RW(place) mount(NULL, place, NULL, MS_REMOUNT | MS_BIND, NULL)
#define BUSY(call) CHECK((call) == -1 && errno == EBUSY)

/* Whether such an open gives this error. */
static int refuses(const char *name, int flags, int error) {
    int fd = open(name, flags, 0600);
    if (fd < 0) return errno == error;
    close(fd);
    return 0;
}

/* What is written to does not become read-only, nor does a file system that will have to free a file. */
static void written_to(void) {
    CHECK(mkdir("own", 0700) == 0 && mkdir("again", 0700) == 0);
    CHECK(mount("none", "own", "tmpfs", 0, "") == 0 && mount("own", "again", NULL, MS_BIND, NULL) == 0);
    int fd = open("own/f", O_RDWR | O_CREAT, 0600), other;
    CHECK(fd >= 0 && ftruncate(fd, 9) == 0);
    BUSY(TO_RO("own")), BUSY(TO_RO("again")), BUSY(MOUNT_TO_RO("own"));
    /* Nobody writes through the other mount. */
    CHECK(MOUNT_TO_RO("again") == 0 && refuses("again/g", O_RDWR | O_CREAT, EROFS));
    CHECK(refuses("again/f", O_WRONLY, EROFS) && refuses("again/f", O_RDONLY | O_TRUNC, EROFS));
    BUSY(TO_RO("again"));
    CHECK(MOUNT_TO_RO("again") == 0 && MOUNT_TO_RW("again") == 0 && TO_RW("own") == 0);
    CHECK(mount(NULL, "own", NULL, MS_REMOUNT | MS_RDONLY, "size=much") == -1 && errno == EINVAL);
    /* A mapping keeps the file open, whatever it allows. */
    void *at = mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    BUSY(TO_RO("own"));
    munmap(at, 1);
    CHECK(TO_RO("own") == 0 && TO_RO("own") == 0 && refuses("again/f", O_RDWR, EROFS));
    fd = open("again/f", O_RDONLY);
    CHECK(fd >= 0 && TO_RW("own") == 0 && TO_RO("own") == 0 && TO_RW("own") == 0);
    /* The only name of an open file is removed. */
    CHECK(unlink("own/f") == 0);
    BUSY(TO_RO("own"));
    CHECK(MOUNT_TO_RO("own") == 0 && MOUNT_TO_RW("own") == 0);
    close(fd);
    CHECK(TO_RO("own") == 0 && TO_RW("own") == 0);
    CHECK(mkdir("own/d", 0700) == 0 && (fd = open("own/d", O_RDONLY)) >= 0 && rmdir("own/d") == 0);
    BUSY(TO_RO("own"));
    close(fd);
    char name[64];
    fd = open("own", O_TMPFILE | O_RDWR, 0600);
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    other = open(name, O_RDONLY);
    close(fd);
    BUSY(TO_RO("own"));
    snprintf(name, sizeof name, "/proc/self/fd/%d", other);
    CHECK(linkat(AT_FDCWD, name, AT_FDCWD, "own/f", AT_SYMLINK_FOLLOW) == 0 && TO_RO("own") == 0);
    CHECK(TO_RW("own") == 0);
    close(other);
    /* Pipes and devices are no part of the file system. */
    CHECK(mkfifo("own/p", 0600) == 0 && mknod("own/n", S_IFCHR | 0600, 0x103) == 0);
    fd = open("own/p", O_RDWR), other = open("own/n", O_WRONLY);
    CHECK(fd >= 0 && other >= 0 && TO_RO("own") == 0 && TO_RW("own") == 0);
    close(fd), close(other);
    /* A descriptor for ioctl only (flags 3). */
    fd = open("own/f", 3);
    CHECK(fd >= 0 && TO_RO("own") == 0 && TO_RW("own") == 0);
    close(fd);
    /* A mount without a place has writers, too. */
    fd = open("again/f", O_RDWR);
    CHECK(fd >= 0 && umount2("again", MNT_DETACH) == 0 && MOUNT_TO_RO("own") == 0);
    CHECK(MOUNT_TO_RW("own") == 0);
    BUSY(TO_RO("own"));
    close(fd);
    CHECK(TO_RO("own") == 0 && TO_RW("own") == 0);
    /* What is not named stays: the times of access. */
    char text[4096] = { 0 };
    CHECK(mount(NULL, "own", NULL, MS_REMOUNT | MS_BIND | MS_NOATIME, NULL) == 0 && TO_RO("own") == 0);
    fd = open("/proc/self/mounts", O_RDONLY);
    CHECK(read(fd, text, sizeof text - 1) > 0 && strstr(text, "/own tmpfs ro,noatime"));
    close(fd);
    CHECK(umount("own") == 0);
    /* One instance of /proc becomes read-only, the others do not. */
    CHECK(mount("none", "own", "proc", 0, "") == 0);
    fd = open("own/sys/kernel/hostname", O_RDWR);
    BUSY(TO_RO("own"));
    close(fd);
    CHECK(TO_RO("own") == 0 && refuses("own/sys/kernel/hostname", O_RDWR, EROFS));
    CHECK(!refuses("/proc/sys/kernel/hostname", O_RDWR, EROFS) && umount("own") == 0);
    rmdir("own"), rmdir("again");
}

/* Of opening for writing and becoming read-only one fails: nothing that is open can be written to then. */
static void *to_and_fro(void *stop) {
    while (!*(volatile int *)stop) TO_RO("own"), TO_RW("own");
    return NULL;
}
static void writer_or_read_only(void) {
    pthread_t thread;
    int stop = 0, opened = 0, busy = 1;
    CHECK(mkdir("own", 0700) == 0 && mount("none", "own", "tmpfs", 0, "") == 0);
    close(open("own/f", O_RDWR | O_CREAT, 0600));
    CHECK(pthread_create(&thread, NULL, to_and_fro, &stop) == 0);
    for (int i = 0; i < 3000 && busy; i++) {
        int fd = open("own/f", O_RDWR);
        if (fd < 0) continue;
        opened++;
        busy = TO_RO("own") == -1 && errno == EBUSY && close(fd) == 0;
    }
    CHECK(opened > 0 && busy);
    stop = 1;
    pthread_join(thread, NULL);
    CHECK(umount("own") == 0 && rmdir("own") == 0);
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "locked") == 0) return free_for_others("kept.lock");
    if (argc == 2 && strcmp(argv[1], "program") == 0) return 77;
    setvbuf(stdout, NULL, _IONBF, 0);
    behind_a_file();
    bound_below_itself();
    moved_nowhere();
    closed_while_waiting();
    kept_locks();
    no_deadlock();
    unnamed_programs();
    lists_that_grow();
    spliced_memory();
    mounted_nowhere();
    spliced_back();
    place_for_the_slow();
    no_number_left();
    number_of_the_slow();
    room_for_all_or_none();
    expiring();
    written_to();
    writer_or_read_only();
    return report();
}
