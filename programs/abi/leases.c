/*
 * Leases: who may have one, who is kept from opening and until when, who is told.
 * Called by tools/limen/src/test/programs.rs, on every architecture; on Linux it can be run by hand, as root,
 * in an empty folder.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "common.h"

#define NAME "leased"

static int told; /* The signal of the leases. */

/* Whether the holder of `fd` is told within two seconds. */
static int is_told(int fd) {
    struct timespec most = { 2, 0 };
    siginfo_t info;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, told);
    if (sigtimedwait(&set, &info, &most) != told) return 0;
    return info.si_code == POLL_MSG && info.si_fd == fd && info.si_band == 0x441;
}

/* The file with a lease of that kind, whose holder is to be told by `told`. */
static int leased(int flags, int kind) {
    int fd = open(NAME, flags);
    CHECK(fd >= 0 && fcntl(fd, F_SETSIG, told) == 0);
    CHECK(fcntl(fd, F_SETLEASE, kind) == 0 && fcntl(fd, F_GETLEASE) == kind);
    return fd;
}

static int opens(int flags) {
    int fd = open(NAME, flags);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

/*
 * A process that opens (or truncates) the file: it ends well if it could. It closes the open file with the
 * lease, `held`, which would stay open when its holder closes it.
 */
static pid_t opener(int held, int flags, int truncates) {
    pid_t child = fork();
    if (child == 0) {
        close(held);
        if (truncates) _exit(truncate(NAME, 3) == 0 ? 0 : 1);
        _exit(opens(flags) ? 0 : 1);
    }
    return child;
}
static int ends_well(pid_t child) {
    int status = -1;
    return waitpid(child, &status, 0) == child && status == 0;
}
static int is_kept(pid_t child) {
    pause_ms(100);
    return waitpid(child, NULL, WNOHANG) == 0;
}

/* Whether a line of the file is about a lease of `fd`'s file like this, `place` being whether it names it. */
static int shown(const char *file, int fd, const char *what, int pid, int place) {
    char wanted[200], line[200], where[80] = "<none>:0";
    struct stat st;
    int found = 0;
    fstat(fd, &st);
    if (place)
        snprintf(where, sizeof where, "%02x:%02x:%llu", major(st.st_dev), minor(st.st_dev),
                 (unsigned long long)st.st_ino);
    snprintf(wanted, sizeof wanted, "%s %d %s 0 EOF\n", what, pid, where);
    FILE *lines = fopen(file, "r");
    if (!lines) return 0;
    while (fgets(line, sizeof line, lines)) {
        char *rest = strstr(line, ": ");
        if (rest && strcmp(rest + 2, wanted) == 0) found = 1;
    }
    fclose(lines);
    return found;
}

static void who_may(void) {
    int fd = open(NAME, O_RDWR | O_CREAT, 0666), other, ends[2], status;
    CHECK(fd >= 0 && write(fd, "something", 9) == 9 && fcntl(fd, F_GETLEASE) == F_UNLCK);
    CHECK(fcntl(fd, F_SETLEASE, F_UNLCK) == -1 && errno == EAGAIN);
    CHECK(fcntl(fd, F_SETLEASE, 7) == -1 && errno == EINVAL);
    /* Nobody writes what is read, this file included. */
    CHECK(fcntl(fd, F_SETLEASE, F_RDLCK) == -1 && errno == EAGAIN);
    other = open(NAME, O_RDONLY);
    CHECK(fcntl(other, F_SETLEASE, F_RDLCK) == -1 && errno == EAGAIN);
    CHECK(fcntl(fd, F_SETLEASE, F_WRLCK) == -1 && errno == EAGAIN);
    close(fd);
    fd = open(NAME, O_RDONLY);
    CHECK(fcntl(fd, F_SETLEASE, F_WRLCK) == -1 && errno == EAGAIN);
    CHECK(fcntl(fd, F_SETLEASE, F_RDLCK) == 0 && fcntl(other, F_SETLEASE, F_RDLCK) == 0);
    CHECK(fcntl(fd, F_GETLEASE) == F_RDLCK && fcntl(other, F_GETLEASE) == F_RDLCK);
    close(other);
    CHECK(fcntl(fd, F_SETLEASE, F_WRLCK) == 0 && fcntl(fd, F_GETLEASE) == F_WRLCK);
    CHECK(fcntl(fd, F_GETOWN) == getpid());
    /* A place is no open file. */
    other = open(NAME, O_PATH);
    CHECK(fcntl(other, F_SETLEASE, F_RDLCK) == -1 && errno == EBADF);
    close(other);
    CHECK(fcntl(fd, F_SETLEASE, F_UNLCK) == 0 && fcntl(fd, F_GETOWN) == 0 && opens(O_RDWR));
    close(fd);
    /* Memory that is mapped is open still. */
    fd = open(NAME, O_RDONLY);
    void *map = mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    fd = open(NAME, O_RDONLY);
    CHECK(fcntl(fd, F_SETLEASE, F_WRLCK) == -1 && errno == EAGAIN);
    munmap(map, 1);
    CHECK(fcntl(fd, F_SETLEASE, F_WRLCK) == 0);
    close(fd);
    CHECK(pipe(ends) == 0 && fcntl(ends[0], F_SETLEASE, F_RDLCK) == -1 && errno == EINVAL);
    close(ends[0]);
    close(ends[1]);
    pid_t child = fork();
    if (child == 0) {
        if (setuid(1)) _exit(2);
        fd = open(NAME, O_RDONLY);
        _exit(fd >= 0 && fcntl(fd, F_SETLEASE, F_RDLCK) == -1 && errno == EACCES ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void without_waiting(void) {
    char info[64];
    int fd = leased(O_RDWR, F_WRLCK);
    snprintf(info, sizeof info, "/proc/self/fdinfo/%d", fd);
    CHECK(shown("/proc/locks", fd, "LEASE  ACTIVE    WRITE", getpid(), 1));
    CHECK(shown(info, fd, "LEASE  ACTIVE    WRITE", getpid(), 1));
    CHECK(!opens(O_RDONLY | O_NONBLOCK) && errno == EWOULDBLOCK && is_told(fd));
    CHECK(fcntl(fd, F_GETLEASE) == F_RDLCK);
    CHECK(shown("/proc/locks", fd, "LEASE  BREAKING  READ", getpid(), 1));
    /* Once. Who wants more is another matter. */
    CHECK(!opens(O_RDONLY | O_NONBLOCK) && errno == EWOULDBLOCK);
    CHECK(!opens(O_WRONLY | O_NONBLOCK) && errno == EWOULDBLOCK && is_told(fd));
    CHECK(fcntl(fd, F_GETLEASE) == F_UNLCK);
    CHECK(shown("/proc/locks", fd, "LEASE  BREAKING  UNLCK", getpid(), 1));
    CHECK(fcntl(fd, F_SETLEASE, F_UNLCK) == 0 && opens(O_RDONLY | O_NONBLOCK));
    CHECK(fcntl(fd, F_GETSIG) == 0 && !shown("/proc/locks", fd, "LEASE  ACTIVE    WRITE", getpid(), 1));
    close(fd);
    /* What is read may be read. */
    fd = leased(O_RDONLY, F_RDLCK);
    CHECK(opens(O_RDONLY | O_NONBLOCK));
    CHECK(!opens(O_WRONLY | O_NONBLOCK) && errno == EWOULDBLOCK && is_told(fd));
    close(fd);
    CHECK(opens(O_RDWR));
}

static void waited_for(void) {
    /* A reader is let in when the lease becomes a read lease. */
    int fd = leased(O_RDONLY, F_WRLCK);
    pid_t child = opener(fd, O_RDONLY, 0);
    CHECK(is_told(fd) && is_kept(child));
    /* The holder is told before the reader is listed. */
    CHECK(SOON(shown("/proc/locks", fd, "-> LEASE  BREAKER   READ", child, 0)));
    CHECK(fcntl(fd, F_SETLEASE, F_RDLCK) == 0 && ends_well(child) && fcntl(fd, F_GETLEASE) == F_RDLCK);
    /* A writer when it is given up. */
    child = opener(fd, O_WRONLY, 0);
    CHECK(is_told(fd) && is_kept(child));
    CHECK(fcntl(fd, F_SETLEASE, F_RDLCK) == -1 && errno == EAGAIN && is_kept(child));
    CHECK(fcntl(fd, F_SETLEASE, F_UNLCK) == 0 && ends_well(child));
    close(fd);
    /* Or is closed. */
    fd = leased(O_RDONLY, F_RDLCK);
    child = opener(fd, O_RDWR | O_TRUNC, 0);
    CHECK(is_told(fd) && is_kept(child));
    close(fd);
    CHECK(ends_well(child));
    /* Who truncates writes. */
    fd = leased(O_RDONLY, F_RDLCK);
    child = opener(fd, 0, 1);
    CHECK(is_told(fd) && is_kept(child));
    CHECK(fcntl(fd, F_SETLEASE, F_UNLCK) == 0 && ends_well(child));
    close(fd);
    /* Who is killed wants nothing more. */
    fd = leased(O_RDWR, F_WRLCK);
    child = opener(fd, O_RDWR, 0);
    CHECK(is_told(fd) && is_kept(child) && kill(child, SIGKILL) == 0 && !ends_well(child));
    CHECK(!shown("/proc/locks", fd, "-> LEASE  BREAKER   WRITE", child, 0));
    CHECK(fcntl(fd, F_SETLEASE, F_UNLCK) == 0 && fcntl(fd, F_SETLEASE, F_WRLCK) == 0);
    close(fd);
}

static int setting(const char *name, const char *value) {
    int fd = open(name, O_WRONLY), good = fd >= 0 && write(fd, value, strlen(value)) > 0;
    close(fd);
    return good;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void settings(void) {
    CHECK(setting("/proc/sys/fs/lease-break-time", "1\n"));
    int fd = leased(O_RDONLY, F_WRLCK);
    double start = now();
    pid_t child = opener(fd, O_RDONLY, 0);
    CHECK(ends_well(child) && is_told(fd) && now() - start > 0.8 && fcntl(fd, F_GETLEASE) == F_RDLCK);
    start = now();
    child = opener(fd, O_WRONLY, 0);
    CHECK(ends_well(child) && is_told(fd) && now() - start > 0.8 && fcntl(fd, F_GETLEASE) == F_UNLCK);
    close(fd);
    CHECK(setting("/proc/sys/fs/lease-break-time", "45\n"));
    CHECK(setting("/proc/sys/fs/leases-enable", "0\n"));
    fd = open(NAME, O_RDONLY);
    CHECK(fcntl(fd, F_SETLEASE, F_RDLCK) == -1 && errno == EINVAL);
    CHECK(setting("/proc/sys/fs/leases-enable", "1\n") && fcntl(fd, F_SETLEASE, F_RDLCK) == 0);
    close(fd);
}

int main(void) {
    sigset_t set;
    told = SIGRTMIN;
    alarm(60);
    sigemptyset(&set);
    sigaddset(&set, told);
    sigprocmask(SIG_BLOCK, &set, NULL);
    umask(0);
    who_may();
    without_waiting();
    waited_for();
    settings();
    unlink(NAME);
    return report();
}
