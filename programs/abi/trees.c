/*
 * Trees of names and of mounts: walks that must not leave a tree, names that must exist while they are moved,
 * places where nothing can be mounted. As root, in an empty folder; the same on Linux.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"

#define EXCHANGE 2 /* RENAME_EXCHANGE */

static int exchange(const char *a, const char *b) {
    return syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, EXCHANGE);
}

static int open_how(int dir, const char *path, uint64_t flags, uint64_t resolve) {
    struct open_how how = {.flags = flags, .resolve = resolve};
    return syscall(SYS_openat2, dir, path, &how, sizeof how);
}

/* Runs `f` in a process that is killed later, or ends by itself; returns its id. */
static pid_t aside(void (*f)(void)) {
    pid_t child = fork();
    if (child) return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    failed = 0;
    f();
    _exit(failed);
}
static void end(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}
/* Runs `f` in a process of its own and waits for its end. */
static void apart(void (*f)(void)) {
    int status;
    CHECK(waitpid(aside(f), &status, 0) > 0 && status == 0);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}
/* How long each race lasts, in seconds. */
#define RACE 0.7

static void make_file(const char *name) {
    int fd = open(name, O_CREAT | O_WRONLY, 0644);
    CHECK(fd >= 0 && write(fd, name, strlen(name)) > 0);
    close(fd);
}

/*
 * A walk with RESOLVE_BENEATH or RESOLVE_IN_ROOT stays below its start whatever is moved, or fails with
 * EAGAIN.
 */
static void exchange_for_ever(void) {
    for (;;) exchange("s/a/c", "s/b");
}
static void scoped_walks(void) {
    CHECK(mkdir("s", 0755) == 0 && mkdir("s/a", 0755) == 0 && mkdir("s/a/c", 0755) == 0 &&
          mkdir("s/b", 0755) == 0);
    int root = open("s/a", O_PATH);
    struct stat st, in;
    CHECK(root >= 0 && fstat(root, &st) == 0);
    pid_t other = aside(exchange_for_ever);
    static const uint64_t ways[] = {RESOLVE_BENEATH, RESOLVE_IN_ROOT};
    for (int i = 0; i < 2; i++) {
        int outside = 0, wrong = 0;
        double until = now() + 2 * RACE;
        while (now() < until)
            for (int k = 0; k < 50; k++) {
                int fd = open_how(root,
                                  i ? "c/../../c/../../c/../../c/../../c/../../c/../../c/../../c/.."
                                    : "c/../c/../c/../c/../c/../c/../c/../c/..",
                                  O_PATH, ways[i]);
                if (fd < 0) {
                    if (errno != EAGAIN && errno != EXDEV) wrong = errno;
                } else {
                    if (fstat(fd, &in) != 0 || in.st_ino != st.st_ino) outside++;
                    close(fd);
                }
            }
        errno = wrong;
        CHECK(outside == 0 && wrong == 0);
    }
    end(other);
    close(root);
}

/*
 * A name that is exchanged in one step is never missing and never in the way, and can be removed whatever it
 * refers to.
 */
static void exchange_files(void) {
    for (;;) exchange("n/a/x", "n/b/y");
}
static void replace_for_ever(void) {
    char name[32];
    snprintf(name, sizeof name, "n/a/new%d", getpid());
    for (;;) {
        close(open(name, O_CREAT | O_WRONLY, 0644));
        if (rename(name, "n/a/x") != 0) _exit(100);
    }
}
static void make_and_remove(void) {
    for (;;) {
        if (unlink("n/a/x") != 0 && errno != ENOENT) _exit(101);
    }
}
static void names_that_move(void) {
    int missing = 0;
    struct stat st;
    CHECK(mkdir("n", 0755) == 0 && mkdir("n/a", 0755) == 0 && mkdir("n/b", 0755) == 0);
    make_file("n/a/x");
    make_file("n/b/y");
    pid_t other = aside(exchange_files);
    for (double until = now() + RACE; now() < until;)
        missing += stat("n/a/x", &st) != 0 || stat("n/b/y", &st) != 0;
    end(other);
    CHECK(missing == 0);
    pid_t first = aside(replace_for_ever), second = aside(replace_for_ever);
    int status;
    for (double until = now() + 2 * RACE; now() < until;) missing += stat("n/a/x", &st) != 0;
    CHECK(missing == 0 && waitpid(first, &status, WNOHANG) == 0 && waitpid(second, &status, WNOHANG) == 0);
    /* There is always a file to unlink, though not always the same one. */
    int gone = 0;
    for (int i = 0; i < 3000; i++) gone += unlink("n/a/x") == 0;
    CHECK(gone > 0);
    end(second);
    end(first);
    other = aside(make_and_remove);
    int not_made = 0;
    for (double until = now() + RACE; now() < until;) {
        int fd = open("n/a/x", O_CREAT | O_WRONLY, 0644);
        if (fd < 0) not_made = errno;
        close(fd);
    }
    end(other);
    errno = not_made;
    CHECK(not_made == 0);
}
/* One process renames over a name, another renames from it: both always succeed. */
static void replace_forth(void) {
    for (int i = 0; i < 20000; i++) {
        close(open("n/forth", O_CREAT | O_WRONLY, 0644));
        if (rename("n/forth", "n/both") != 0) _exit(errno);
    }
    _exit(0);
}
static void unlink_what_is_there(void) {
    int wrong = 0, status;
    make_file("n/both");
    pid_t other = aside(replace_forth);
    for (;;) {
        /* The name existed before, and only this process removes it. */
        struct stat st;
        if (stat("n/both", &st) == 0 && unlink("n/both") != 0) wrong = errno;
        if (waitpid(other, &status, WNOHANG) > 0) break;
    }
    errno = wrong ? wrong : status;
    CHECK(wrong == 0 && status == 0);
}

/* The working directory's path is one that it had at some moment. */
static void move_both(void) {
    for (;;)
        if (rename("w/a", "w/b") || rename("w/b/p", "w/b/q") || rename("w/b/q", "w/b/p") ||
            rename("w/b", "w/a"))
            _exit(100);
}
static void own_place(void) {
    char base[4096], seen[4200];
    int wrong = 0;
    CHECK(mkdir("w", 0755) == 0 && mkdir("w/a", 0755) == 0 && mkdir("w/a/p", 0755) == 0 &&
          getcwd(base, sizeof base));
    if (!base[1]) base[0] = 0;
    CHECK(chdir("w/a/p") == 0);
    pid_t other = fork();
    if (!other) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (chdir("../../..") == 0) move_both();
        _exit(1);
    }
    for (double until = now() + RACE; now() < until;)
        for (int i = 0; i < 100; i++) {
            if (!getcwd(seen, sizeof seen)) wrong++;
            const char *tail = seen + strlen(base);
            wrong += strcmp(tail, "/w/a/p") && strcmp(tail, "/w/b/p") && strcmp(tail, "/w/b/q");
        }
    CHECK(wrong == 0 && waitpid(other, NULL, WNOHANG) == 0);
    end(other);
    CHECK(chdir("../../..") == 0);
}

/* ".." stops at the root, also if something is mounted on the root, and then goes into the mounted tree. */
static void above_the_root(void) {
    struct stat jail, over, at;
    CHECK(mkdir("jail", 0755) == 0 && mkdir("jail/in", 0755) == 0);
    CHECK(chroot("jail") == 0 && chdir("/") == 0 && stat("/", &jail) == 0);
    CHECK(mount("none", "/", "tmpfs", 0, NULL) == 0 && stat("/..", &over) == 0 && over.st_dev != jail.st_dev);
    CHECK(chdir("/..") == 0 && stat("..", &at) == 0 && at.st_dev == over.st_dev && at.st_ino == over.st_ino);
    CHECK(stat("../..", &at) == 0 && at.st_dev == over.st_dev && stat("/", &at) == 0 &&
          at.st_ino == jail.st_ino && at.st_dev == jail.st_dev);
    CHECK(chdir("/in") == 0 && stat("..", &at) == 0 && at.st_dev == over.st_dev);
    CHECK(chdir("/..") == 0 && open_how(AT_FDCWD, "..", O_PATH, RESOLVE_NO_XDEV) >= 0 &&
          open_how(AT_FDCWD, "/..", O_PATH, RESOLVE_NO_XDEV) == -1 && errno == EXDEV);
}
/* ".." does not leave a bind mount. */
static void above_a_bind(void) {
    char text[4096];
    CHECK(mkdir("part", 0755) == 0 && mkdir("part/show", 0755) == 0 && mkdir("part/show/in", 0755) == 0 &&
          mkdir("part/show/in/deep", 0755) == 0 && mkdir("seen", 0755) == 0);
    CHECK(mount("part/show", "seen", NULL, MS_BIND, NULL) == 0 && chdir("seen/in/deep") == 0);
    int deep = open(".", O_PATH), out = open("../../../part", O_PATH);
    struct stat st;
    CHECK(deep >= 0 && out >= 0 && renameat(out, "show/in", out, "in") == 0);
    CHECK(stat("..", &st) == -1 && errno == ENOENT && stat("../..", &st) == -1 && errno == ENOENT &&
          open("../../../x", O_CREAT, 0600) == -1 && errno == ENOENT);
    CHECK(syscall(SYS_getcwd, text, sizeof text) > 0 && strncmp(text, "(unreachable)/", 14) == 0);
    CHECK(open_how(deep, "..", O_PATH, RESOLVE_IN_ROOT) >= 0 &&
          open_how(deep, "..", O_PATH, RESOLVE_BENEATH) == -1 && errno == EXDEV);
    CHECK(renameat(out, "in", out, "show/in") == 0 && stat("..", &st) == 0 && fchdir(out) == 0 &&
          chdir("..") == 0 && umount2("seen", MNT_DETACH) == 0);
    close(deep);
    close(out);
}

/* What an absolute path, links and magic links mean for openat2. */
static void rules_of_walks(void) {
    char text[64];
    CHECK(mkdir("rules", 0755) == 0 && mkdir("rules/sub", 0755) == 0 && mkdir("rules/over", 0755) == 0 &&
          symlink("sub", "rules/link") == 0 && symlink("/none", "rules/proc") == 0);
    CHECK(mount("none", "rules/over", "tmpfs", 0, NULL) == 0);
    int dir = open("rules", O_PATH), over = open("rules/over", O_PATH), fd;
    CHECK((fd = open_how(over, "/", O_PATH, RESOLVE_NO_XDEV)) >= 0 && close(fd) == 0);
    CHECK((fd = open_how(-5, "/", O_PATH, RESOLVE_NO_XDEV)) >= 0 && close(fd) == 0);
    CHECK(open_how(-5, "/", O_PATH, RESOLVE_BENEATH) == -1 && errno == EXDEV);
    CHECK(open_how(-5, "/", O_PATH, RESOLVE_IN_ROOT) == -1 && errno == EBADF);
    CHECK(open_how(dir, "over", O_PATH, RESOLVE_NO_XDEV) == -1 && errno == EXDEV &&
          open_how(over, "..", O_PATH, RESOLVE_NO_XDEV) == -1 && errno == EXDEV);
    CHECK(open_how(dir, "proc", O_PATH, RESOLVE_NO_XDEV) == -1 && errno == EXDEV &&
          open_how(dir, "proc", O_PATH, RESOLVE_BENEATH) == -1 && errno == EXDEV);
    CHECK(open_how(dir, "proc", O_PATH, RESOLVE_IN_ROOT) == -1 && errno == ENOENT &&
          open_how(dir, "../rules/proc", O_PATH, RESOLVE_NO_XDEV) == -1 && errno == ENOENT);
    CHECK((fd = open_how(dir, "link", O_PATH | O_NOFOLLOW, RESOLVE_NO_SYMLINKS)) >= 0 && close(fd) == 0);
    CHECK(open_how(dir, "link", O_RDONLY | O_NOFOLLOW, RESOLVE_NO_SYMLINKS) == -1 && errno == ELOOP);
    CHECK(open_how(dir, "link", O_PATH | O_NOFOLLOW | O_DIRECTORY, RESOLVE_NO_SYMLINKS) == -1 &&
          errno == ENOTDIR);
    CHECK(open_how(dir, "link/", O_PATH | O_NOFOLLOW, RESOLVE_NO_SYMLINKS) == -1 && errno == ELOOP);
    snprintf(text, sizeof text, "/proc/self/fd/%d", dir);
    CHECK((fd = open_how(AT_FDCWD, text, O_PATH, 0)) >= 0 && close(fd) == 0);
    CHECK(open_how(AT_FDCWD, text, O_PATH, RESOLVE_NO_MAGICLINKS) == -1 && errno == ELOOP);
    CHECK(open_how(AT_FDCWD, text, O_PATH, RESOLVE_NO_SYMLINKS) == -1 && errno == ELOOP);
    int proc = open("/proc", O_PATH);
    static const char *const magic[] = {"self/root", "self/cwd", "self/exe", "self/fd/0"};
    for (int i = 0; i < 4; i++) {
        CHECK(open_how(proc, magic[i], O_PATH, RESOLVE_BENEATH) == -1 && errno == EXDEV);
        CHECK(open_how(proc, magic[i], O_PATH, RESOLVE_IN_ROOT) == -1 && errno == EXDEV);
        CHECK(open_how(proc, magic[i], O_PATH, RESOLVE_NO_XDEV) == -1 && errno == EXDEV);
        CHECK(open_how(proc, magic[i], O_PATH, RESOLVE_NO_MAGICLINKS) == -1 && errno == ELOOP);
        CHECK((fd = open_how(proc, magic[i], O_PATH | O_NOFOLLOW, RESOLVE_NO_MAGICLINKS)) >= 0 &&
              close(fd) == 0);
    }
    CHECK(umount2("rules/over", MNT_DETACH) == 0);
    close(proc);
    close(over);
    close(dir);
}

/* Only a mount point that can be reached can be mounted on, and only such a tree can be bind mounted. */
static void magic_mounts(void) {
    char text[64], other[64];
    int pipes[2];
    CHECK(mkdir("m", 0755) == 0 && mkdir("m/dir", 0755) == 0 && mkdir("m/gone", 0755) == 0 &&
          mkdir("m/lazy", 0755) == 0);
    make_file("m/file");
    make_file("m/onto");
    CHECK(symlink("dir", "m/link") == 0 && pipe(pipes) == 0);
    int dir = open("m/dir", O_PATH), gone = open("m/gone", O_PATH),
        memory = syscall(SYS_memfd_create, "m", 0), link = open("m/link", O_PATH | O_NOFOLLOW);
    CHECK(rmdir("m/gone") == 0 && mount("none", "m/lazy", "tmpfs", 0, NULL) == 0 &&
          mkdir("m/lazy/in", 0755) == 0);
    int lazy = open("m/lazy", O_PATH), in = open("m/lazy/in", O_PATH);
    CHECK(umount2("m/lazy", MNT_DETACH) == 0);
    struct { int fd; int directory; int onto; int from;
    } cases[] = {
        {gone, 1, ENOENT, 0},      {pipes[0], 0, EINVAL, EINVAL}, {memory, 0, EINVAL, EINVAL},
        {lazy, 1, EINVAL, EINVAL}, {in, 1, EINVAL, EINVAL},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, "/proc/self/fd/%d", cases[i].fd);
        int result = mount(cases[i].directory ? "m/dir" : "m/file", text, NULL, MS_BIND, NULL), error = errno;
        if (result != -1 || error != cases[i].onto) printf("case %u: onto: %d, errno %d\n", i, result, error);
        CHECK(result == -1 && error == cases[i].onto);
        if (!cases[i].from) continue;
        result = mount(text, cases[i].directory ? "m/dir" : "m/file", NULL, MS_BIND, NULL), error = errno;
        if (result != -1 || error != cases[i].from) printf("case %u: from: %d, errno %d\n", i, result, error);
        CHECK(result == -1 && error == cases[i].from);
        CHECK(mount(text, cases[i].directory ? "m/dir" : "m/file", NULL, MS_MOVE, NULL) == -1 &&
              errno == EINVAL);
        CHECK(mount("none", text, NULL, MS_REMOUNT, NULL) == -1 && errno == EINVAL);
        CHECK(umount2(text, MNT_DETACH) == -1 && errno == EINVAL);
    }
    snprintf(text, sizeof text, "/proc/self/fd/%d", lazy);
    CHECK(mount("none", text, "tmpfs", 0, NULL) == -1 && errno == EINVAL);
    snprintf(text, sizeof text, "/proc/self/fd/%d", dir);
    struct stat st, over;
    CHECK(fstat(dir, &st) == 0 && mount("none", text, "tmpfs", 0, NULL) == 0 && stat("m/dir", &over) == 0 &&
          over.st_dev != st.st_dev);
    CHECK(umount("m/dir") == 0 && stat("m/dir", &over) == 0 && over.st_dev == st.st_dev);
    /* A symbolic link can be a mount point, and can be bind mounted. */
    snprintf(text, sizeof text, "/proc/self/fd/%d", link);
    CHECK(mount("m/file", text, NULL, MS_BIND, NULL) == 0 && stat("m/link", &st) == 0 &&
          S_ISREG(st.st_mode) && lstat("m/link", &st) == 0 && S_ISREG(st.st_mode));
    CHECK(umount("m/link") == 0 && stat("m/link", &st) == 0 && S_ISDIR(st.st_mode));
    snprintf(other, sizeof other, "m/onto");
    CHECK(mount(text, other, NULL, MS_BIND, NULL) == 0 && lstat(other, &st) == 0 && S_ISLNK(st.st_mode) &&
          stat(other, &st) == 0 && S_ISDIR(st.st_mode));
    CHECK(stat("m/onto/..", &st) == 0 && umount2(other, UMOUNT_NOFOLLOW) == 0 && lstat(other, &st) == 0 &&
          S_ISREG(st.st_mode));
    CHECK(mount("proc", "m/dir", "proc", 0, NULL) == 0 && mount("proc", "m/dir", "proc", 0, NULL) == 0 &&
          umount("m/dir") == 0 && umount("m/dir") == 0);
    CHECK(mount("sys", "m/dir", "sysfs", 0, NULL) == 0 && mount("sys", "m/dir", "sysfs", 0, NULL) == -1 &&
          errno == EBUSY && umount("m/dir") == 0);
    close(lazy), close(in), close(dir), close(gone), close(memory), close(link), close(pipes[0]),
        close(pipes[1]);
}

/* Mounts in the directory of a process disappear with it, and its names are then made anew. */
static void wait_for_ever(void) {
    for (;;) pause();
}
static int lines_with(const char *what) {
    char line[8192];
    int found = 0;
    FILE *file = fopen("/proc/self/mountinfo", "r");
    while (file && fgets(line, sizeof line, file)) found += strstr(line, what) != NULL;
    if (file) fclose(file);
    return found;
}
static void mounts_of_the_dead(void) {
    char text[64], number[32];
    struct stat st, again;
    pid_t child = aside(wait_for_ever);
    snprintf(text, sizeof text, "/proc/%d/fdinfo", child);
    snprintf(number, sizeof number, "/proc/%d/", child);
    CHECK(mount("none", text, "tmpfs", 0, NULL) == 0 && stat(text, &st) == 0 && st.st_ino == 1 &&
          lines_with(number) == 1);
    snprintf(text, sizeof text, "/proc/%d/task/%d/fdinfo", child, child);
    CHECK(mount("none", text, "tmpfs", 0, NULL) == 0 && lines_with(number) == 2 && umount(text) == 0 &&
          lines_with(number) == 1);
    CHECK(mount("none", text, "tmpfs", 0, NULL) == 0);
    snprintf(number, sizeof number, "/proc/%d", child);
    DIR *dir = opendir(number);
    int named = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) named += strcmp(e->d_name, "fdinfo") == 0;
    CHECK(dir && named == 1 && closedir(dir) == 0);
    end(child);
    CHECK(lines_with(number) == 0 && stat(number, &again) == -1 && errno == ENOENT);
}

/* No mount can come to be below itself. */
static void pivot_in_a_jail(void) {
    CHECK(chdir("p/a") == 0 && chroot("b") == 0);
    CHECK(syscall(SYS_pivot_root, ".", "./c") == -1 && errno == EINVAL);
}
static void pivot_roots(void) {
    CHECK(mkdir("p", 0755) == 0 && mkdir("p/a", 0755) == 0 && mount("none", "p/a", "tmpfs", 0, NULL) == 0 &&
          mkdir("p/a/b", 0755) == 0 && mkdir("p/a/c", 0755) == 0);
    CHECK(mount("none", "p/a/b", "tmpfs", 0, NULL) == 0);
    apart(pivot_in_a_jail);
    CHECK(umount("p/a/b") == 0 && umount("p/a") == 0);
}

/*
 * Mounting on a directory that is being removed: one of both succeeds, and no mount is on a removed
 * directory.
 */
static void make_and_rmdir(void) {
    for (;;) {
        mkdir("r/d", 0755);
        rmdir("r/d");
    }
}
static void mount_and_remove(void) {
    CHECK(mkdir("r", 0755) == 0);
    pid_t other = aside(make_and_rmdir);
    int wrong = 0, hung = 0;
    for (double until = now() + RACE; now() < until;) {
        if (mount("none", "r/d", "tmpfs", 0, NULL) != 0) {
            if (errno != ENOENT) wrong = errno;
            continue;
        }
        hung++;
        if (umount("r/d") != 0) wrong = errno;
    }
    end(other);
    errno = wrong;
    CHECK(wrong == 0 && lines_with("/r/d") == 0);
}

/* Reading a mounted tree does not make it busy. */
static void read_mounts(void) {
    for (;;) lines_with("nothing");
}
static void read_and_unmount(void) {
    int wrong = 0;
    CHECK(mkdir("q", 0755) == 0);
    pid_t other = aside(read_mounts);
    for (double until = now() + RACE; now() < until;)
        if (mount("none", "q", "tmpfs", 0, NULL) != 0 || umount("q") != 0) wrong = errno;
    end(other);
    errno = wrong;
    CHECK(wrong == 0);
}

/* poll reports POLLPRI and POLLERR for /proc/mounts after a change. */
static void *mount_later(void *arg) {
    usleep(50000);
    mount("none", "e", "tmpfs", 0, NULL);
    return arg;
}
static void told_of_mounts(void) {
    static const char *const files[] = {"/proc/mounts", "/proc/self/mountinfo"};
    CHECK(mkdir("e", 0755) == 0);
    for (int i = 0; i < 2; i++) {
        struct epoll_event event = {.events = EPOLLPRI}, got;
        char byte;
        int fd = open(files[i], O_RDONLY), set = epoll_create1(0);
        struct pollfd ask = {.fd = fd, .events = POLLPRI | POLLIN};
        CHECK(fd >= 0 && poll(&ask, 1, 0) == 1 && ask.revents == POLLIN);
        CHECK(mount("none", "e", "tmpfs", 0, NULL) == 0 && poll(&ask, 1, 0) == 1 &&
              ask.revents == (POLLIN | POLLPRI | POLLERR));
        CHECK(poll(&ask, 1, 0) == 1 && ask.revents == POLLIN);
        CHECK(mount("none", "e", NULL, MS_REMOUNT | MS_BIND | MS_NOSUID, NULL) == 0 &&
              poll(&ask, 1, 0) == 1 && ask.revents == (POLLIN | POLLPRI | POLLERR));
        CHECK(umount("e") == 0 && read(fd, &byte, 1) == 1 && poll(&ask, 1, 0) == 1 &&
              ask.revents == (POLLIN | POLLPRI | POLLERR));
        CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0 && epoll_wait(set, &got, 1, 0) == 0);
        CHECK(mount("none", "e", "tmpfs", 0, NULL) == 0 && epoll_wait(set, &got, 1, 1000) == 1 &&
              got.events == (EPOLLPRI | EPOLLERR));
        CHECK(epoll_wait(set, &got, 1, 0) == 0 && umount("e") == 0 && epoll_wait(set, &got, 1, 1000) == 1);
        pthread_t thread;
        ask.events = POLLPRI;
        poll(&ask, 1, 0);
        CHECK(pthread_create(&thread, NULL, mount_later, NULL) == 0 && poll(&ask, 1, 5000) == 1 &&
              ask.revents == (POLLPRI | POLLERR));
        CHECK(pthread_join(thread, NULL) == 0 && umount("e") == 0 && epoll_wait(set, &got, 1, 1000) == 1);
        close(set);
        close(fd);
    }
    struct epoll_event event = {.events = EPOLLPRI};
    int fd = open("/proc/self/mountstats", O_RDONLY), set = epoll_create1(0);
    struct stat st;
    char line[256];
    CHECK(fd >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == -1 && errno == EPERM &&
          fstat(fd, &st) == 0 && (st.st_mode & 07777) == 0400);
    CHECK(mount("some thing", "e", "tmpfs", 0, NULL) == 0);
    FILE *file = fdopen(fd, "r");
    int found = 0;
    while (file && fgets(line, sizeof line, file))
        found += strstr(line, "device some\\040thing mounted on /") == line &&
                 strstr(line, "/e with fstype tmpfs\n");
    CHECK(file && found == 1 && fclose(file) == 0 && umount("e") == 0);
    close(set);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    umask(022);
    rules_of_walks();
    scoped_walks();
    names_that_move();
    unlink_what_is_there();
    own_place();
    apart(above_the_root);
    umount2("jail", MNT_DETACH);
    above_a_bind();
    magic_mounts();
    mounts_of_the_dead();
    pivot_roots();
    mount_and_remove();
    read_and_unmount();
    told_of_mounts();
    return report();
}
