/*
 * Walks of paths while names, mounts and directories change: threads that share their root and working
 * directory look for names that others move, exchange, replace and cover with mounts. No answer may be one
 * that was true at no moment. As root, in an empty folder; the same on Linux.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "common.h"

#define READERS 3
/* How long each race lasts, in seconds. */
#define RACE 0.6

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void make_file(const char *name, int size) {
    static const char text[64] = "text";
    int fd = open(name, O_CREAT | O_WRONLY | O_EXCL, 0644);
    CHECK(fd >= 0 && write(fd, text, size) == size);
    close(fd);
}

static ino_t number(const char *name) {
    struct stat st;
    CHECK(stat(name, &st) == 0);
    return st.st_ino;
}

/* A race: readers look until it is over; the first thread changes the names. */
static int over, wrong, looks;
static ino_t one, two;

static void bad(int what) { __atomic_store_n(&wrong, what, __ATOMIC_RELAXED); }

/* `name` exists at every moment, and is one of two files: asked for in each way there is. */
static void always(const char *name, int what) {
    struct stat st;
    __atomic_fetch_add(&looks, 1, __ATOMIC_RELAXED);
    if (stat(name, &st) != 0 || (st.st_ino != one && st.st_ino != two)) bad(what);
    if (lstat(name, &st) != 0 || (st.st_ino != one && st.st_ino != two)) bad(what + 1);
    if (access(name, R_OK) != 0) bad(what + 2);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0 || (st.st_ino != one && st.st_ino != two)) bad(what + 3);
    if (fd >= 0) close(fd);
}

struct reader {
    void (*look)(void);
};
static void *read_on(void *arg) {
    struct reader *reader = arg;
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) reader->look();
    return NULL;
}

static void race(void (*change)(void), void (*look)(void)) {
    over = wrong = looks = 0;
    pthread_t threads[READERS];
    struct reader reader = {look};
    for (int i = 0; i < READERS; i++) CHECK(pthread_create(&threads[i], NULL, read_on, &reader) == 0);
    double until = now() + RACE;
    while (now() < until)
        for (int i = 0; i < 20; i++) change();
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < READERS; i++) pthread_join(threads[i], NULL);
    errno = wrong;
    CHECK(wrong == 0);
    CHECK(looks > 0);
}

static int exchange(const char *a, const char *b) {
    return syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, 2 /* RENAME_EXCHANGE */);
}

/* Two directories that change places, with a file of the same name in each. */
static void change_places(void) {
    if (exchange("e/x", "e/deep/y") != 0) bad(10);
}
static void look_in_both(void) {
    char text[8];
    always("e/x/f", 11);
    always("e/deep/y/f", 21);
    ssize_t n = readlink("e/x/l", text, sizeof text);
    if (n != 2 || (memcmp(text, "l1", 2) != 0 && memcmp(text, "l2", 2) != 0)) bad(31);
    struct stat st;
    if (stat("e/x/in/../f", &st) != 0 || (st.st_ino != one && st.st_ino != two)) bad(32);
    if (stat("e/x/none", &st) == 0 || errno != ENOENT) bad(33);
}
static void exchanged(void) {
    CHECK(mkdir("e", 0755) == 0 && mkdir("e/x", 0755) == 0 && mkdir("e/deep", 0755) == 0);
    CHECK(mkdir("e/deep/y", 0755) == 0 && mkdir("e/x/in", 0755) == 0 && mkdir("e/deep/y/in", 0755) == 0);
    make_file("e/x/f", 1);
    make_file("e/deep/y/f", 2);
    CHECK(symlink("l1", "e/x/l") == 0 && symlink("l2", "e/deep/y/l") == 0);
    one = number("e/x/f"), two = number("e/deep/y/f");
    race(change_places, look_in_both);
}

/*
 * A file that moves on from name to name: who has seen it at one does not see it at an earlier one, and finds
 * it when it is no longer where it was. `round` changes when it goes back to the first name.
 */
#define NAMES 12
static int at;
static unsigned round_number;
static void name_of(char *name, int n) { sprintf(name, n % 2 ? "m/odd/n%d" : "m/n%d", n); }
static void move_on(void) {
    char from[32], to[32];
    if (at == NAMES - 1) __atomic_fetch_add(&round_number, 1, __ATOMIC_SEQ_CST);
    int next = (at + 1) % NAMES;
    name_of(from, at);
    name_of(to, next);
    if (rename(from, to) != 0) bad(40);
    if (next == 0) __atomic_fetch_add(&round_number, 1, __ATOMIC_SEQ_CST);
    at = next;
}
static void look_along(void) {
    char name[32];
    struct stat st;
    unsigned round = __atomic_load_n(&round_number, __ATOMIC_SEQ_CST);
    if (round % 2) return;
    int seen = -1;
    for (int n = 0; n < NAMES; n++) {
        name_of(name, n);
        if (stat(name, &st) != 0) continue;
        if (seen >= 0) {
            /* Moved on meanwhile: then it is no longer where it was. */
            char before[32];
            name_of(before, seen);
            if (stat(before, &st) == 0 && __atomic_load_n(&round_number, __ATOMIC_SEQ_CST) == round) bad(41);
        }
        seen = n;
    }
    if (__atomic_load_n(&round_number, __ATOMIC_SEQ_CST) != round) return;
    __atomic_fetch_add(&looks, 1, __ATOMIC_RELAXED);
    if (seen < 0) bad(42);
}
static void moved_on(void) {
    CHECK(mkdir("m", 0755) == 0 && mkdir("m/odd", 0755) == 0);
    make_file("m/n0", 1);
    at = 0;
    race(move_on, look_along);
}

/* A file that is replaced by complete ones, and one that comes and goes. */
static void replace(void) {
    make_file("r/new", 40);
    if (rename("r/new", "r/file") != 0) bad(50);
    make_file("r/short-lived", 0);
    if (unlink("r/short-lived") != 0) bad(51);
    if (mkdir("r/dir", 0755) != 0 || rmdir("r/dir") != 0) bad(52);
}
static void look_at_replaced(void) {
    struct stat st;
    char text[64];
    __atomic_fetch_add(&looks, 1, __ATOMIC_RELAXED);
    if (stat("r/file", &st) != 0 || !S_ISREG(st.st_mode) || st.st_size != 40 || st.st_nlink > 1) bad(53);
    int fd = open("r/file", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text) != 40) bad(54);
    if (fd >= 0) close(fd);
    if (stat("r/short-lived", &st) != 0 ? errno != ENOENT : !S_ISREG(st.st_mode) || st.st_size != 0) bad(55);
    if (stat("r/dir/none", &st) == 0 || errno != ENOENT) bad(56);
    if (stat("r/file/none", &st) == 0 || errno != ENOTDIR) bad(57);
}
static void replaced(void) {
    CHECK(mkdir("r", 0755) == 0);
    make_file("r/file", 40);
    race(replace, look_at_replaced);
}

/* A directory with many names, of which some always exist while others make the table grow and shrink. */
static int many;
static void fill(void) {
    char name[32];
    for (int i = 0; i < 40; i++) {
        sprintf(name, "g/%s/extra%d", many / 400 % 2 ? "b" : "a", many % 400);
        if (many / 800 % 2 ? unlink(name) != 0 : mknod(name, S_IFREG | 0600, 0) != 0) bad(60);
        many++;
    }
}
static void look_for_old(void) {
    char name[32];
    for (int i = 0; i < 8; i++) {
        sprintf(name, "g/a/keep%d", i);
        struct stat st;
        if (stat(name, &st) != 0) bad(61);
        sprintf(name, "g/b/keep%d", i);
        if (stat(name, &st) != 0) bad(62);
    }
    __atomic_fetch_add(&looks, 1, __ATOMIC_RELAXED);
}
static void grown(void) {
    CHECK(mkdir("g", 0755) == 0 && mkdir("g/a", 0755) == 0 && mkdir("g/b", 0755) == 0);
    for (int i = 0; i < 8; i++) {
        char name[32];
        sprintf(name, "g/a/keep%d", i);
        make_file(name, 0);
        sprintf(name, "g/b/keep%d", i);
        make_file(name, 0);
    }
    many = 0;
    race(fill, look_for_old);
}

/* A directory on which another one is mounted and unmounted. Both have the file `both`. */
static void cover(void) {
    static int turn;
    if (mount("c/over", "c/place", NULL, MS_BIND, NULL) != 0) bad(70);
    if (turn++ % 2) {
        if (umount2("c/place", MNT_DETACH) != 0) bad(71);
        return;
    }
    /* A reader may have a file there open. */
    while (umount("c/place") != 0)
        if (errno != EBUSY) {
            bad(72);
            return;
        }
}
static void look_under(void) {
    struct stat st;
    always("c/place/both", 73);
    always("c/place/in/../both", 83);
    if (stat("c/place/below", &st) != 0 ? errno != ENOENT : st.st_size != 3) bad(93);
    if (stat("c/place/above", &st) != 0 ? errno != ENOENT : st.st_size != 4) bad(94);
}
static void covered(void) {
    CHECK(mkdir("c", 0755) == 0 && mkdir("c/over", 0755) == 0 && mkdir("c/place", 0755) == 0);
    CHECK(mkdir("c/over/in", 0755) == 0 && mkdir("c/place/in", 0755) == 0);
    make_file("c/over/both", 1);
    make_file("c/place/both", 2);
    make_file("c/place/below", 3);
    make_file("c/over/above", 4);
    one = number("c/over/both"), two = number("c/place/both");
    race(cover, look_under);
}

/* A file system that is gone when it is unmounted, with walks in it. */
static void mount_new(void) {
    if (mount("none", "t", "tmpfs", 0, NULL) != 0) bad(100);
    if (mkdir("t/d", 0755) != 0) bad(101);
    make_file("t/d/f", 7);
    for (int i = 0; i < 20; i++) access("t/d/f", R_OK);
    if (umount2("t", MNT_DETACH) != 0) bad(102);
}
static void look_in_new(void) {
    struct stat st;
    __atomic_fetch_add(&looks, 1, __ATOMIC_RELAXED);
    if (stat("t/d/f", &st) != 0 ? errno != ENOENT : st.st_size != 7 && st.st_size != 0) bad(103);
    int fd = open("t/d/f", O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT) bad(104);
    if (fd >= 0) close(fd);
}
static void gone(void) {
    CHECK(mkdir("t", 0755) == 0);
    race(mount_new, look_in_new);
}

/* A thread changes the working directory, and the root, of all. */
static void change_directory(void) {
    static int turn;
    if (chdir(turn++ % 2 ? "/w/a" : "/w/b") != 0) bad(110);
}
static void look_here(void) {
    always("f", 111);
    always("../b/../a/f", 121);
    struct stat st;
    if (stat(".", &st) != 0 || !S_ISDIR(st.st_mode)) bad(131);
}
static int top;
static void change_root(void) {
    static int turn;
    if (fchdir(top) != 0 || chroot(turn++ % 2 ? "w/a" : "w/b") != 0) bad(140);
}
static void look_from_root(void) {
    always("/f", 141);
    always("/../f", 151);
    always("/in/../../../f", 161);
}
static void shared(void) {
    CHECK(chroot(".") == 0 && chdir("/") == 0);
    CHECK(mkdir("w", 0755) == 0 && mkdir("w/a", 0755) == 0 && mkdir("w/b", 0755) == 0);
    CHECK(mkdir("w/a/in", 0755) == 0 && mkdir("w/b/in", 0755) == 0);
    make_file("f", 1);
    make_file("w/f", 1);
    make_file("w/a/f", 1);
    make_file("w/b/f", 1);
    one = number("w/a/f"), two = number("w/b/f");
    top = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    CHECK(chdir("w/a") == 0);
    race(change_directory, look_here);
    CHECK(fchdir(top) == 0 && chroot("w/a") == 0);
    race(change_root, look_from_root);
}

/* A directory that moves between two others: the way up leads to one of them, or it is not there. */
static void move_below(void) {
    static int turn;
    int there = turn++ % 2;
    if (rename(there ? "u/b/sub" : "u/a/sub", there ? "u/a/sub" : "u/b/sub") != 0) bad(170);
}
static void look_up(void) {
    struct stat st;
    __atomic_fetch_add(&looks, 1, __ATOMIC_RELAXED);
    if (stat("u/a/sub/in/../../f", &st) != 0 ? errno != ENOENT : st.st_ino != one && st.st_ino != two)
        bad(171);
    if (stat("u/b/sub/in", &st) != 0 ? errno != ENOENT : !S_ISDIR(st.st_mode)) bad(172);
}
static void moved_below(void) {
    CHECK(mkdir("u", 0755) == 0 && mkdir("u/a", 0755) == 0 && mkdir("u/b", 0755) == 0);
    CHECK(mkdir("u/a/sub", 0755) == 0 && mkdir("u/a/sub/in", 0755) == 0);
    make_file("u/a/f", 1);
    make_file("u/b/f", 1);
    one = number("u/a/f"), two = number("u/b/f");
    race(move_below, look_up);
}

/*
 * What must not wait: the room of a file that is removed, and the place of a mount, are free at once.
 */
static void at_once(void) {
    CHECK(mkdir("o", 0755) == 0 && mount("none", "o", "tmpfs", 0, "size=64k") == 0);
    static char block[48 << 10];
    int good = 1;
    for (int i = 0; i < 200; i++) {
        int fd = open("o/f", O_CREAT | O_WRONLY | O_EXCL, 0644);
        good &= fd >= 0 && write(fd, block, sizeof block) == sizeof block;
        close(fd);
        good &= unlink("o/f") == 0;
    }
    CHECK(good);
    for (int i = 0; i < 200; i++) {
        good &= mkdir("o/d", 0755) == 0 && mount("none", "o/d", "tmpfs", 0, NULL) == 0;
        good &= chdir("o/d") == 0 && umount("../d") == -1 && errno == EBUSY;
        good &= chdir("../..") == 0 && umount("o/d") == 0 && rmdir("o/d") == 0;
    }
    CHECK(good);
    CHECK(umount("o") == 0);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    exchanged();
    moved_on();
    replaced();
    grown();
    covered();
    gone();
    moved_below();
    at_once();
    /* Its root is another one from here on. */
    shared();
    return report();
}
