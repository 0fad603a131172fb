/*
 * Access control lists: which are valid, who may do what, what new files inherit, and the mode bits. As root,
 * in an empty folder; the same on Linux.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "check.h"

#define ACCESS "system.posix_acl_access"
#define DEFAULT "system.posix_acl_default"

enum { OWNER = 1, USER = 2, OWNING = 4, GROUP = 8, MASK = 16, OTHER = 32 };

struct entry {
    uint16_t tag, perm;
    uint32_t id;
};
struct list {
    uint32_t version;
    struct entry entries[16];
};
#define NONE UINT32_MAX

/* From text like "u::7 u:1000:6 g::5 g:7:4 m::7 o::0": its bytes. */
static size_t make(struct list *to, const char *text) {
    char kind, id[16];
    unsigned perm;
    int n = 0, used;
    to->version = 2;
    while (sscanf(text, " %c:%15[0-9]:%o%n", &kind, id, &perm, &used) == 3 ||
           (id[0] = 0, sscanf(text, " %c::%o%n", &kind, &perm, &used) == 2)) {
        struct entry *e = &to->entries[n++];
        e->tag = kind == 'u'   ? (id[0] ? USER : OWNER)
                 : kind == 'g' ? (id[0] ? GROUP : OWNING)
                 : kind == 'm' ? MASK
                 : kind == 'o' ? OTHER
                               : 3;
        e->perm = perm;
        e->id = id[0] ? (uint32_t)atoi(id) : NONE;
        text += used;
    }
    return 4 + n * sizeof(struct entry);
}
static int set(const char *file, const char *which, const char *text) {
    struct list list;
    size_t size = make(&list, text);
    return setxattr(file, which, &list, size, 0);
}
/* Whether the file has this list. */
static int is(const char *file, const char *which, const char *text) {
    struct list want, got;
    ssize_t size = make(&want, text), there = getxattr(file, which, &got, sizeof got);
    if (there == size && memcmp(&want, &got, size) == 0) return 1;
    printf("%s has %zd bytes:", file, there);
    for (int i = 0; there > 4 && i < (there - 4) / 8; i++)
        printf(" %u:%d:%o", got.entries[i].tag, (int)got.entries[i].id, got.entries[i].perm);
    printf("\n");
    return 0;
}
static int none(const char *file, const char *which) {
    return getxattr(file, which, NULL, 0) == -1 && errno == ENODATA;
}
static unsigned mode(const char *file) {
    struct stat st;
    return stat(file, &st) == 0 ? st.st_mode & 07777 : 0xffff;
}
static void make_file(const char *name) {
    int fd = open(name, O_CREAT | O_RDWR | O_EXCL, 0666);
    CHECK(fd >= 0);
    close(fd);
}

/* Runs `f` as a user in these groups; returns whether it succeeded. */
static void as(uid_t uid, gid_t gid, size_t groups, const gid_t *more, void (*f)(void)) {
    int status;
    pid_t child = fork();
    if (!child) {
        failed = 0;
        CHECK(setgroups(groups, more) == 0 && setgid(gid) == 0 && setuid(uid) == 0);
        f();
        _exit(failed);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void forms(void) {
    struct list list;
    size_t size = make(&list, "u::6 u:5:4 g::4 m::4 o::0");
    make_file("form");
    CHECK(none("form", ACCESS) && none("form", DEFAULT));
    CHECK(setxattr("form", ACCESS, &list, 0, 0) == -1 && errno == EINVAL &&
          setxattr("form", ACCESS, &list, 3, 0) == -1 && errno == EINVAL);
    CHECK(setxattr("form", ACCESS, &list, size - 1, 0) == -1 && errno == EINVAL &&
          setxattr("form", ACCESS, &list, 4, 0) == 0 && none("form", ACCESS));
    list.version = 1;
    CHECK(setxattr("form", ACCESS, &list, size, 0) == -1 && errno == EOPNOTSUPP &&
          setxattr("form", ACCESS, &list, 5, 0) == -1 && errno == EOPNOTSUPP);
    static const char *const bad[] = {
        "u::6",
        "u::6 g::4",
        "g::4 u::6 o::0",
        "u::6 u:5:4 g::4 o::0",
        "u::6 g::4 g:5:4 o::0",
        "u::6 g::4 m::7 m::7 o::0",
        "u::6 u::6 g::4 o::0",
        "u::6 g::4 o::0 o::0",
        "u::10 g::4 o::0",
        "u::6 g::4 u:5:4 m::7 o::0",
        "u::6 g::4 m::7",
        "u::6 g::4 x::4 o::0",
        "u::6 m::7 g::4 o::0",
        "u::6 g::4 m::7 g:5:4 o::0",
        "u:5:4 u::6 g::4 m::7 o::0",
    };
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        int result = set("form", ACCESS, bad[i]);
        if (result != -1 || errno != EINVAL) printf("\"%s\": %d, errno %d\n", bad[i], result, errno);
        CHECK(result == -1 && errno == EINVAL);
    }
    size = make(&list, "u::6 u:5:4 g::4 m::4 o::0");
    list.entries[1].id = NONE;
    CHECK(setxattr("form", ACCESS, &list, size, 0) == -1 && errno == EINVAL);
    list.entries[1].id = 5;
    list.entries[0].id = 77;
    CHECK(setxattr("form", ACCESS, &list, size, XATTR_REPLACE) == 0 &&
          setxattr("form", ACCESS, &list, size, XATTR_CREATE) == 0 &&
          is("form", ACCESS, "u::6 u:5:4 g::4 m::4 o::0"));
    CHECK(getxattr("form", ACCESS, &list, 8) == -1 && errno == ERANGE &&
          getxattr("form", ACCESS, NULL, 0) == (ssize_t)size);
    CHECK(set("form", ACCESS, "u::6 u:5:4 u:5:0 g::4 m::4 o::0") == 0);
    CHECK(set("form", DEFAULT, "u::6 g::4 o::0") == -1 && errno == EACCES && set("form", DEFAULT, "") == 0 &&
          removexattr("form", DEFAULT) == 0);
    CHECK(setxattr("form", DEFAULT, &list, 3, 0) == -1 && errno == EINVAL &&
          set("form", DEFAULT, "u::6") == -1 && errno == EACCES);
    CHECK(removexattr("form", ACCESS) == 0 && none("form", ACCESS) && removexattr("form", ACCESS) == 0);
    CHECK(setxattr("form", "system.posix_acl", &list, size, 0) == -1 && errno == EOPNOTSUPP);
    CHECK(symlink("form", "pointer") == 0 && lsetxattr("pointer", ACCESS, &list, size, 0) == -1 &&
          errno == EOPNOTSUPP && lgetxattr("pointer", ACCESS, NULL, 0) == -1 && errno == EOPNOTSUPP);
    CHECK(lremovexattr("pointer", ACCESS) == -1 && errno == EOPNOTSUPP);
    CHECK(setxattr("/proc/self/status", ACCESS, &list, size, 0) == -1 && errno == EOPNOTSUPP &&
          getxattr("/proc", DEFAULT, NULL, 0) == -1 && errno == EOPNOTSUPP);
    CHECK(mkfifo("fifo", 0600) == 0 && set("fifo", ACCESS, "u::6 u:5:4 g::0 m::4 o::0") == 0 &&
          mode("fifo") == 0640);
}

static void lists_of_names(void) {
    char names[256], want[] = ACCESS "\0" DEFAULT;
    CHECK(mkdir("named", 0755) == 0 && listxattr("named", NULL, 0) == 0);
    CHECK(set("named", DEFAULT, "u::7 g::5 o::5") == 0 &&
          listxattr("named", names, sizeof names) == sizeof DEFAULT && strcmp(names, DEFAULT) == 0);
    CHECK(set("named", ACCESS, "u::7 u:5:4 g::5 m::5 o::5") == 0 &&
          listxattr("named", names, sizeof names) == sizeof want && memcmp(names, want, sizeof want) == 0);
    CHECK(setxattr("named", "trusted.x", "1", 1, 0) == 0 &&
          listxattr("named", names, sizeof names) == sizeof want + sizeof "trusted.x" &&
          memcmp(names, want, sizeof want) == 0);
    CHECK(listxattr("named", names, 10) == -1 && errno == ERANGE && removexattr("named", DEFAULT) == 0 &&
          removexattr("named", ACCESS) == 0 && listxattr("named", NULL, 0) == sizeof "trusted.x");
}

static void modes(void) {
    make_file("mode");
    CHECK(chmod("mode", 0604) == 0 && set("mode", ACCESS, "u::7 g::5 o::1") == 0 && mode("mode") == 0751 &&
          none("mode", ACCESS));
    CHECK(set("mode", ACCESS, "u::6 u:5:7 g::4 m::6 o::1") == 0 && mode("mode") == 0661 &&
          is("mode", ACCESS, "u::6 u:5:7 g::4 m::6 o::1"));
    CHECK(chmod("mode", 04710) == 0 && mode("mode") == 04710 &&
          is("mode", ACCESS, "u::7 u:5:7 g::4 m::1 o::0"));
    CHECK(set("mode", ACCESS, "u::7 g::4 m::5 o::0") == 0 && mode("mode") == 04750 &&
          is("mode", ACCESS, "u::7 g::4 m::5 o::0"));
    CHECK(removexattr("mode", ACCESS) == 0 && mode("mode") == 04750 && none("mode", ACCESS));
    CHECK(set("mode", ACCESS, "u::6 u:5:7 g::4 m::6 o::1") == 0 &&
          set("mode", ACCESS, "u::7 g::0 o::0") == 0 && mode("mode") == 04700 && none("mode", ACCESS));
    CHECK(chmod("mode", 02777) == 0 && set("mode", ACCESS, "u::7 g::7 o::7") == 0 && mode("mode") == 02777);
}

static int can(const char *file, int how) {
    int fd = open(file, how);
    if (fd >= 0) close(fd);
    return fd >= 0 ? 0 : errno;
}
static void as_5(void) {
    CHECK(can("who", O_RDONLY) == 0 && can("who", O_WRONLY) == EACCES && access("who", R_OK) == 0 &&
          access("who", W_OK) == -1 && can("who", O_RDWR) == EACCES);
    CHECK(can("masked", O_RDONLY) == 0 && can("masked", O_WRONLY) == EACCES);
    CHECK(can("denied", O_RDONLY) == EACCES && can("closed/in", O_RDONLY) == EACCES &&
          access("closed", X_OK) == -1);
    CHECK(can("nobody", O_RDONLY) == 0);
    CHECK(set("who", ACCESS, "u::7 g::7 o::7") == -1 && errno == EPERM && removexattr("who", ACCESS) == -1 &&
          errno == EPERM && getxattr("who", ACCESS, NULL, 0) > 0);
    CHECK(set("who", ACCESS, "u::7") == -1 && errno == EPERM && set("who", ACCESS, "x::7") == -1 &&
          errno == EINVAL && set("who", DEFAULT, "u::7 g::7 o::7") == -1 && errno == EACCES);
    CHECK(can("opened/in", O_RDONLY) == 0 && can("opened/made", O_CREAT | O_WRONLY) == 0);
}
static void as_6(void) {
    CHECK(can("who", O_RDONLY) == EACCES && can("who", O_WRONLY) == EACCES &&
          can("masked", O_RDONLY) == EACCES && can("denied", O_RDONLY) == 0 &&
          can("closed/in", O_RDONLY) == 0);
    CHECK(can("opened/in", O_RDONLY) == EACCES && can("nobody", O_RDONLY) == 0);
}
static void in_group_7(void) {
    CHECK(can("who", O_WRONLY) == 0 && can("who", O_RDONLY) == EACCES && can("who", O_RDWR) == EACCES);
}
static void in_group_8(void) {
    CHECK(can("who", O_RDONLY) == 0 && can("who", O_WRONLY) == EACCES);
}
static void in_both(void) {
    /* One group must allow all requested permissions. */
    CHECK(can("who", O_RDONLY) == 0 && can("who", O_WRONLY) == 0 && can("who", O_RDWR) == EACCES);
}
static void owning(void) {
    CHECK(can("own", O_RDONLY) == EACCES && can("own", O_WRONLY) == 0 &&
          set("own", ACCESS, "u::4 u:5:6 g::6 m::6 o::6") == 0);
    CHECK(can("own", O_RDONLY) == 0 && can("own", O_WRONLY) == EACCES && mode("own") == 0466);
}
static void permissions(void) {
    static const gid_t seven = 7, eight = 8, both[] = {7, 8};
    make_file("who");
    CHECK(chown("who", 0, 8) == 0 && set("who", ACCESS, "u::6 u:5:4 g::4 g:7:2 m::6 o::0") == 0);
    make_file("masked");
    CHECK(set("masked", ACCESS, "u::6 u:5:6 g::0 m::4 o::0") == 0);
    make_file("denied");
    CHECK(set("denied", ACCESS, "u::6 u:5:0 g::6 m::6 o::6") == 0);
    /* With an empty mask the mode bits decide. */
    make_file("nobody");
    CHECK(set("nobody", ACCESS, "u::6 u:5:0 g::4 m::0 o::4") == 0);
    CHECK(mkdir("closed", 0755) == 0 && mkdir("opened", 0700) == 0);
    make_file("closed/in");
    make_file("opened/in");
    CHECK(set("closed", ACCESS, "u::7 u:5:0 g::5 m::5 o::5") == 0 && mode("closed") == 0755 &&
          set("opened", ACCESS, "u::7 u:5:7 g::0 m::7 o::0") == 0);
    as(5, 5, 0, NULL, as_5);
    as(6, 6, 0, NULL, as_6);
    as(6, 6, 1, &seven, in_group_7);
    as(6, 6, 1, &eight, in_group_8);
    as(6, 7, 0, NULL, in_group_7);
    as(6, 6, 2, both, in_both);
    make_file("own");
    CHECK(chown("own", 5, 5) == 0 && set("own", ACCESS, "u::2 u:5:4 g::4 m::7 o::4") == 0);
    as(5, 5, 0, NULL, owning);
    CHECK(can("denied", O_RDWR) == 0 && chmod("opened", 0755) == 0 && unlink("opened/made") == 0);
}

static void inheritance(void) {
    umask(077);
    CHECK(mkdir("heir", 0755) == 0 && set("heir", DEFAULT, "u::7 u:5:7 g::5 g:7:6 m::7 o::5") == 0 &&
          mode("heir") == 0700 && none("heir", ACCESS));
    make_file("heir/file");
    CHECK(mode("heir/file") == 0664 && is("heir/file", ACCESS, "u::6 u:5:7 g::5 g:7:6 m::6 o::4") &&
          none("heir/file", DEFAULT));
    CHECK(mkdir("heir/sub", 0751) == 0 && mode("heir/sub") == 0751 &&
          is("heir/sub", ACCESS, "u::7 u:5:7 g::5 g:7:6 m::5 o::1"));
    CHECK(is("heir/sub", DEFAULT, "u::7 u:5:7 g::5 g:7:6 m::7 o::5"));
    CHECK(chmod("heir/sub", 0777) == 0 && is("heir/sub", ACCESS, "u::7 u:5:7 g::5 g:7:6 m::7 o::7") &&
          is("heir/sub", DEFAULT, "u::7 u:5:7 g::5 g:7:6 m::7 o::5"));
    CHECK(mknod("heir/fifo", S_IFIFO | 0640, 0) == 0 &&
          is("heir/fifo", ACCESS, "u::6 u:5:7 g::5 g:7:6 m::4 o::0") && symlink("file", "heir/link") == 0);
    int fd = open("heir", O_TMPFILE | O_RDWR, 0666);
    struct stat st;
    CHECK(fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 0777) == 0664 &&
          fgetxattr(fd, ACCESS, NULL, 0) == 4 + 6 * 8 && close(fd) == 0);
    CHECK(set("heir", DEFAULT, "u::7 g::6 o::2") == 0 && mkdir("heir/plain", 0777) == 0 &&
          mode("heir/plain") == 0762 && none("heir/plain", ACCESS) &&
          is("heir/plain", DEFAULT, "u::7 g::6 o::2"));
    make_file("heir/plain/file");
    CHECK(mode("heir/plain/file") == 0662 && none("heir/plain/file", ACCESS));
    CHECK(set("heir", DEFAULT, "u::7 g::6 m::5 o::2") == 0 && mkdir("heir/masked", 0777) == 0 &&
          mode("heir/masked") == 0752 && is("heir/masked", ACCESS, "u::7 g::6 m::5 o::2"));
    CHECK(set("heir", DEFAULT, "") == 0 && none("heir", DEFAULT) && mkdir("heir/mine", 0777) == 0 &&
          mode("heir/mine") == 0700 && none("heir/mine", DEFAULT));
    CHECK(rename("heir/file", "heir/mine/file") == 0 &&
          is("heir/mine/file", ACCESS, "u::6 u:5:7 g::5 g:7:6 m::6 o::4"));
    umask(022);
}

static void loses_group(void) {
    CHECK(set("setgid", ACCESS, "u::7 g::7 o::1") == 0 && mode("setgid") == 0771);
}
static void makes_setgid(void) {
    int fd = open("bits/file", O_CREAT | O_WRONLY | O_EXCL, 02775);
    CHECK(fd >= 0 && close(fd) == 0 && mode("bits/file") == 0765);
}
static void bits(void) {
    make_file("setgid");
    CHECK(chown("setgid", 5, 9) == 0 && chmod("setgid", 02775) == 0);
    as(5, 5, 0, NULL, loses_group);
    CHECK(mkdir("bits", 0777) == 0 && chown("bits", 0, 9) == 0 && chmod("bits", 02777) == 0);
    /* The setgid bit is removed before the umask is applied. */
    umask(010);
    as(5, 5, 0, NULL, makes_setgid);
    umask(022);
}

/* An owner gives rights to a file while root takes it away: root's file never has them. */
static void taken(void) {
    int status, wrong = 0;
    make_file("taken");
    pid_t owner = fork();
    if (!owner) {
        if (setgid(5) || setuid(5)) _exit(1);
        for (;;) chmod("taken", 04755);
    }
    for (int i = 0; i < 30000; i++) {
        if (chown("taken", 5, 5)) wrong++;
        for (volatile int spin = i % 64; spin > 0; spin--) {}
        if (chown("taken", 0, 0)) wrong++;
        for (int again = 0; again < 2; again++) wrong += (mode("taken") & 04000) != 0;
    }
    CHECK(wrong == 0);
    CHECK(kill(owner, SIGKILL) == 0 && waitpid(owner, &status, 0) == owner && WIFSIGNALED(status));
}

static void elsewhere(void) {
    CHECK(mkdir("other", 0755) == 0 && mount("none", "other", "tmpfs", MS_RDONLY, NULL) == 0);
    CHECK(set("other", ACCESS, "u::7 g::7 o::7") == -1 && errno == EROFS &&
          removexattr("other", DEFAULT) == -1 && errno == EROFS && none("other", DEFAULT) &&
          umount("other") == 0);
    CHECK(mount("none", "other", "ramfs", 0, NULL) == 0 && set("other", ACCESS, "u::7 g::7 o::7") == -1 &&
          errno == EOPNOTSUPP && getxattr("other", ACCESS, NULL, 0) == -1 && errno == EOPNOTSUPP);
    CHECK(umount("other") == 0);
    int memory = syscall(SYS_memfd_create, "m", 0), pipes[2];
    struct list list;
    size_t size = make(&list, "u::6 u:5:4 g::4 m::4 o::0");
    struct stat st;
    CHECK(memory >= 0 && fsetxattr(memory, ACCESS, &list, size, 0) == 0 && fstat(memory, &st) == 0 &&
          (st.st_mode & 0777) == 0640 && fgetxattr(memory, ACCESS, NULL, 0) == (ssize_t)size);
    CHECK(pipe(pipes) == 0 && fsetxattr(pipes[0], ACCESS, &list, size, 0) == -1 && errno == EOPNOTSUPP &&
          fgetxattr(pipes[0], ACCESS, NULL, 0) == -1 && errno == EOPNOTSUPP);
    close(memory), close(pipes[0]), close(pipes[1]);
}

/* Attributes of users are not for files in memory; who may not have any hears of that first. */
static void of_users(void) {
    char value[8];
    close(open("plain", O_WRONLY | O_CREAT, 0600));
    CHECK(setxattr("plain", "user.a", "1", 1, 0) == -1 && errno == EOPNOTSUPP);
    CHECK(getxattr("plain", "user.a", value, sizeof value) == -1 && errno == EOPNOTSUPP);
    CHECK(removexattr("plain", "user.a") == -1 && errno == EOPNOTSUPP);
    CHECK(setxattr(".", "user.a", "1", 1, 0) == -1 && errno == EOPNOTSUPP);
    CHECK(listxattr("plain", NULL, 0) == 0);
    CHECK(mkfifo("queue", 0600) == 0 && setxattr("queue", "user.a", "1", 1, 0) == -1 && errno == EPERM);
    CHECK(getxattr("queue", "user.a", value, sizeof value) == -1 && errno == ENODATA);
    CHECK(setxattr("plain", "trusted.a", "1", 1, 0) == 0 && removexattr("plain", "trusted.a") == 0);
    CHECK(unlink("plain") == 0 && unlink("queue") == 0);
}

int main(void) {
    char place[] = "/tmp/aclsXXXXXX";
    setvbuf(stdout, NULL, _IONBF, 0);
    umask(022);
    mkdir("/tmp", 01777);
    CHECK(mkdtemp(place) && mount("none", place, "tmpfs", 0, "mode=777") == 0 && chdir(place) == 0);
    forms();
    lists_of_names();
    modes();
    permissions();
    inheritance();
    bits();
    taken();
    elsewhere();
    CHECK(chdir("/") == 0 && umount(place) == 0 && rmdir(place) == 0);
    of_users();
    return report();
}
