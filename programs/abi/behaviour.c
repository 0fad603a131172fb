/*
 * Behaviour that is the same on all architectures and easily implemented slightly wrong: locks of whole files
 * and many locks, seals and mappings, the order of errors, where programs are in memory, writes beyond the
 * end of a file, several messages at once, times that are written back, splice of devices, what other users'
 * files are protected from. Called by tools/limen/src/test/programs.rs, on every architecture; on Linux it
 * can be run by hand, as root, in an empty folder.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "common.h"

/* flock: changing the kind of a lock releases the old one first, so another process may get it. */
static void whole_locks(void) {
    int a = open("whole.lock", O_RDWR | O_CREAT, 0600), b = open("whole.lock", O_RDWR), status;
    CHECK(flock(a, LOCK_EX) == 0 && flock(a, LOCK_EX) == 0 && flock(b, LOCK_SH | LOCK_NB) == -1 &&
          errno == EWOULDBLOCK);
    CHECK(flock(a, LOCK_SH) == 0 && flock(b, LOCK_SH | LOCK_NB) == 0);
    CHECK(flock(a, LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK && flock(b, LOCK_EX | LOCK_NB) == 0);
    CHECK(flock(b, LOCK_UN) == 0 && flock(b, LOCK_UN) == 0 && flock(a, LOCK_EX) == 0);
    pid_t child = fork();
    if (child == 0) {
        int own = open("whole.lock", O_RDWR);
        _exit(flock(own, LOCK_SH));
    }
    usleep(20000);
    CHECK(flock(a, LOCK_SH) == 0 && waitpid(child, &status, 0) == child && status == 0);
    close(a);
    CHECK(flock(b, LOCK_EX | LOCK_NB) == 0);
    close(b);
}

/*
 * Seals and mappings: a seal against writing is refused while a mapping may be written, also after the
 * mapping has been split or copied.
 */
static void seals(void) {
    long page = sysconf(_SC_PAGESIZE);
    int fd = memfd_create("seals", MFD_ALLOW_SEALING), fixed = memfd_create("fixed", 0);
    struct stat before, after;
    CHECK(fd >= 0 && ftruncate(fd, 4 * page) == 0 && fcntl(fixed, F_ADD_SEALS, F_SEAL_GROW) == -1 &&
          errno == EPERM);
    char *map = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED);
    memset(map, 'x', 4 * page);
    CHECK(fstat(fd, &before) == 0 && madvise(map + page, page, MADV_REMOVE) == 0 && fstat(fd, &after) == 0);
    CHECK(map[page] == 0 && map[2 * page - 1] == 0 && map[page - 1] == 'x' && map[2 * page] == 'x');
    CHECK(before.st_blocks - after.st_blocks == page / 512 && after.st_size == 4 * page);
    CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == -1 && errno == EBUSY);
    CHECK(mprotect(map + page, page, PROT_READ) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == -1 &&
          errno == EBUSY);
    CHECK(munmap(map, page) == 0 && munmap(map + 3 * page, page) == 0);
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    CHECK(munmap(map + page, 2 * page) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == -1 && errno == EBUSY);
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    map = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED && fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0);
    map[0] = 'y';
    CHECK(madvise(map, page, MADV_REMOVE) == -1 && errno == EPERM && map[0] == 'y');
    CHECK(mmap(NULL, page, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED && errno == EPERM);
    CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == -1 && errno == EBUSY && munmap(map, page) == 0);
    map = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    CHECK(map != MAP_FAILED && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0 && munmap(map, page) == 0);
    map = mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED && mprotect(map, page, PROT_READ | PROT_WRITE) == -1 && errno == EACCES);
    CHECK(write(fd, "z", 1) == -1 && errno == EPERM && munmap(map, page) == 0);
    CHECK(fcntl(fd, F_GET_SEALS) == (F_SEAL_FUTURE_WRITE | F_SEAL_WRITE));
    close(fd);
    close(fixed);
}

/* Pages of a file in another order, in one mapping that is split into several. */
static void reordered(void) {
    long page = sysconf(_SC_PAGESIZE);
    int fd = memfd_create("order", 0);
    CHECK(ftruncate(fd, 4 * page) == 0);
    char *map = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    for (int i = 0; i < 4; i++) map[i * page] = (char)('a' + i);
    for (int i = 0; i < 4; i++)
        CHECK(remap_file_pages(map + i * page, page, 0, 3 - i, i == 0 ? MAP_NONBLOCK : 0) == 0);
    CHECK(map[0] == 'd' && map[page] == 'c' && map[2 * page] == 'b' && map[3 * page] == 'a');
    map[0] = 'D';
    char byte;
    CHECK(pread(fd, &byte, 1, 3 * page) == 1 && byte == 'D');
    CHECK(remap_file_pages(map, 4 * page, 0, 0, 0) == 0 && map[0] == 'a' && map[3 * page] == 'D');
    CHECK(remap_file_pages(map, page, PROT_READ, 0, 0) == -1 && errno == EINVAL &&
          remap_file_pages(map, 0, 0, 0, 0) == -1 && errno == EINVAL);
    CHECK(remap_file_pages(map + page, 4 * page, 0, 0, 0) == -1 && errno == EINVAL);
    CHECK(mprotect(map + page, page, PROT_READ) == 0 && remap_file_pages(map, 2 * page, 0, 2, 0) == -1 &&
          errno == EINVAL);
    CHECK(remap_file_pages(map + page, page, 0, 0, 0) == 0 && map[page] == 'a' && munmap(map, 4 * page) == 0);
    map = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    CHECK(remap_file_pages(map, page, 0, 1, 0) == -1 && errno == EINVAL && munmap(map, page) == 0);
    map = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    map[page] = 'x';
    CHECK(remap_file_pages(map, page, 0, 1, 0) == 0 && map[0] == 'x' && munmap(map, 2 * page) == 0);
    close(fd);
}

/*
 * A large sparse mapping keeps its pages when mremap moves it across a certain address, growing and
 * shrinking.
 */
enum { SPARSE = 128 << 20, STEP = 256 << 10 };
static void mark(char *map, size_t size) {
    for (size_t i = 0; i < size; i += STEP) *(size_t *)(map + i) = i;
}
static int marks_kept(char *map, size_t size) {
    for (size_t i = 0; i < size; i += STEP)
        if (*(size_t *)(map + i) != i) return 0;
    return 1;
}
static void moved(void) {
    const int private = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, move = MREMAP_MAYMOVE | MREMAP_FIXED;
    char *reserved = mmap(NULL, 3ul * SPARSE, PROT_NONE, private, -1, 0);
    CHECK(reserved != MAP_FAILED && munmap(reserved, 3ul * SPARSE) == 0);
    char *middle = (char *)(((uintptr_t)reserved + SPARSE) & ~((4ul << 20) - 1)) + (4 << 20) + 2 * STEP;
    char *map = mmap(middle, SPARSE, PROT_READ | PROT_WRITE, private | MAP_FIXED, -1, 0);
    size_t size = SPARSE, next;
    mark(map, size);
    for (; size > STEP; size = next) {
        next = size / 2;
        map = mremap(map, size, next, move, map == middle ? middle - next : middle);
        CHECK(map != MAP_FAILED && marks_kept(map, next));
    }
    for (; size < SPARSE; size = next) {
        next = size * 2;
        map = mremap(map, size, next, move, map == middle ? middle - next : middle);
        CHECK(map != MAP_FAILED && marks_kept(map, size));
        mark(map, next);
    }
    CHECK(munmap(map, size) == 0);
}

/* The type of the descriptor is checked before the memory. */
static void first_errors(void) {
    char *volatile nowhere = (void *)-4096l;
    int reader = open("/proc/self/exe", O_RDONLY), path = open("/proc/self/exe", O_PATH), ends[2];
    CHECK(reader >= 0 && path >= 0 && pipe(ends) == 0);
    CHECK(write(reader, nowhere, 1) == -1 && errno == EBADF && pwrite(reader, nowhere, 1, 0) == -1 &&
          errno == EBADF);
    CHECK(read(path, nowhere, 1) == -1 && errno == EBADF && pread(path, nowhere, 1, 0) == -1 &&
          errno == EBADF);
    CHECK(pwrite(path, nowhere, 1, 0) == -1 && errno == EBADF && pread(ends[0], nowhere, 1, 0) == -1 &&
          errno == ESPIPE);
    CHECK(read(ends[1], nowhere, 1) == -1 && errno == EBADF && pwrite(reader, nowhere, 1, -1) == -1 &&
          errno == EINVAL);
    CHECK(read(reader, nowhere, 1) == -1 && errno == EFAULT && pread(reader, nowhere, 1, 0) == -1 &&
          errno == EFAULT);
    CHECK(write(ends[1], nowhere, 1) == -1 && errno == EFAULT);
    close(reader), close(path), close(ends[0]), close(ends[1]);
    /* A listener that was shut down refuses connections. */
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "listener"};
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), caller = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(listener, (struct sockaddr *)&name, sizeof name) == 0 && listen(listener, 1) == 0 &&
          shutdown(listener, SHUT_RD) == 0);
    CHECK(connect(caller, (struct sockaddr *)&name, sizeof name) == -1 && errno == ECONNREFUSED);
    CHECK(accept(listener, NULL, NULL) == -1 && errno == EINVAL);
    close(listener), close(caller);
}

/* Addresses in a program: the strings on its stack, a mapping, the heap. */
struct places { uintptr_t random, mapping, heap; };

static struct places places_here(void) {
    void *mapping = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return (struct places){getauxval(AT_RANDOM), (uintptr_t)mapping, (uintptr_t)sbrk(0)};
}

static struct places places_of_another(int fixed) {
    struct places there = {0, 0, 0};
    int out[2];
    if (pipe(out) != 0) return there;
    pid_t child = fork();
    if (child == 0) {
        if (fixed) personality(ADDR_NO_RANDOMIZE);
        dup2(out[1], 1);
        execl("/proc/self/exe", "behaviour", "places", NULL);
        _exit(1);
    }
    close(out[1]);
    if (read(out[0], &there, sizeof there) != sizeof there) there.random = 0;
    close(out[0]);
    waitpid(child, NULL, 0);
    return there;
}

/*
 * With ADDR_NO_RANDOMIZE addresses are the same in each run; without it, the stack's first bytes are at
 * random addresses, also within their page.
 */
static void places(void) {
    struct places first = places_of_another(1), other = places_of_another(1);
    CHECK(first.random != 0 && memcmp(&first, &other, sizeof first) == 0);
    int elsewhere = 0, elsewhere_in_page = 0;
    first = places_of_another(0);
    CHECK(first.random != 0);
    for (int i = 0; i < 8; i++) {
        other = places_of_another(0);
        elsewhere += other.random >> 12 != first.random >> 12;
        elsewhere_in_page += (other.random & 4095) != (first.random & 4095);
    }
    CHECK(elsewhere != 0);
    CHECK(elsewhere_in_page != 0);
    set("kernel/randomize_va_space", "0");
    first = places_of_another(0), other = places_of_another(0);
    CHECK(first.random != 0 && memcmp(&first, &other, sizeof first) == 0);
    set("kernel/randomize_va_space", "2");
}

/* A write beyond the end changes the file position only if the call uses the file position. */
static void behind_the_end(void) {
    struct iovec piece = {"cd", 2};
    char all[16];
    int fd = open("appended", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(write(fd, "ab", 2) == 2 && lseek(fd, 1, SEEK_SET) == 1);
    CHECK(pwritev2(fd, &piece, 1, 0, RWF_APPEND) == 2 && lseek(fd, 0, SEEK_CUR) == 1);
    CHECK(pwritev2(fd, &piece, 1, -1, RWF_APPEND) == 2 && lseek(fd, 0, SEEK_CUR) == 6);
    CHECK(pread(fd, all, sizeof all, 0) == 6 && memcmp(all, "abcdcd", 6) == 0);
    close(fd);
}

/* recvmmsg checks its timeout after each message, and writes the remaining time back. */
static void several_messages(void) {
    int ends[2];
    char bytes[3];
    struct iovec pieces[3];
    struct mmsghdr messages[3] = {0};
    for (int i = 0; i < 3; i++) {
        pieces[i] = (struct iovec){bytes + i, 1};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &pieces[i], .msg_iovlen = 1};
    }
    struct timespec none = {0, 0}, enough = {5, 0}, wrong = {0, 1000000000};
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0 && write(ends[0], "a", 1) == 1 &&
          write(ends[0], "b", 1) == 1);
    CHECK(recvmmsg(ends[1], messages, 3, 0, &wrong) == -1 && errno == EINVAL);
    CHECK(recvmmsg(ends[1], messages, 3, 0, &none) == 1 && messages[0].msg_len == 1 && bytes[0] == 'a');
    CHECK(write(ends[0], "c", 1) == 1 && recvmmsg(ends[1], messages, 3, MSG_WAITFORONE, NULL) == 2 &&
          bytes[0] == 'b' && bytes[1] == 'c');
    CHECK(write(ends[0], "d", 1) == 1 && write(ends[0], "e", 1) == 1 &&
          recvmmsg(ends[1], messages, 2, 0, &enough) == 2);
    CHECK(enough.tv_sec == 4 && enough.tv_nsec < 1000000000 && bytes[1] == 'e');
    close(ends[0]), close(ends[1]);
}

/* A directory /proc/PID can be used as a pidfd to send signals. */
static void processes(void) {
    int here = open("/proc/self", O_RDONLY | O_DIRECTORY), thread = open("/proc/thread-self", O_RDONLY),
        pidfd, status;
    pid_t children[2];
    for (int i = 0; i < 2; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            pause();
            _exit(0);
        }
    }
    pid_t child = children[0];
    char name[32];
    snprintf(name, sizeof name, "/proc/%d", child);
    pidfd = open(name, O_RDONLY | O_DIRECTORY);
    CHECK(syscall(SYS_pidfd_send_signal, here, 0, NULL, 0) == 0 &&
          syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) == 0);
    CHECK(syscall(SYS_pidfd_send_signal, thread, 0, NULL, 0) == -1 && errno == EBADF);
    CHECK(syscall(SYS_kcmp, child, children[1], 6, 0, 0) == 0 && kill(children[1], SIGKILL) == 0 &&
          waitpid(children[1], NULL, 0) == children[1]);
    CHECK(syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) == 0);
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    CHECK(syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) == -1 && errno == ESRCH);
    close(here), close(thread), close(pidfd);
}

/* What one user may not do with another user's files in sticky directories: the error, or 0. */
static int try_as(int uid, int (*what)(void)) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        if (setresgid(uid, uid, uid) || setresuid(uid, uid, uid)) _exit(255);
        _exit(what() < 0 ? errno : 0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}
static int try_link(void) {
    return link("links/file", "links/other");
}
static int try_follow(void) {
    return open("shared/symlink", O_RDONLY);
}
static int try_through(void) {
    return open("shared/here/symlink/../target", O_RDONLY);
}
static int try_name(void) {
    char name[16];
    return (int)readlink("shared/symlink", name, sizeof name);
}
static int try_fifo(void) {
    return open("shared/fifo", O_RDWR | O_CREAT, 0600);
}
static int try_regular(void) {
    return open("shared/regular", O_RDWR | O_CREAT, 0600);
}
static int try_without_creating(void) {
    return open("shared/regular", O_RDWR);
}
static int try_log(void) {
    return klogctl(3, (char[16]){0}, 16);
}
static int try_log_device(void) {
    return open("/dev/kmsg", O_RDONLY);
}
static void other_users_files(void) {
    CHECK(mkdir("links", 0700) == 0 && chmod("links", 0777) == 0 &&
          close(open("links/file", O_CREAT | O_WRONLY, 0600)) == 0);
    set("fs/protected_hardlinks", "1");
    CHECK(try_as(1000, try_link) == EPERM);
    set("fs/protected_hardlinks", "0");
    CHECK(try_as(1000, try_link) == 0 && unlink("links/other") == 0);
    set("fs/protected_hardlinks", "1");

    umask(0);
    CHECK(mkdir("shared", 01777) == 0 && close(open("shared/target", O_CREAT | O_WRONLY, 0644)) == 0 &&
          mkdir("shared/here", 0777) == 0);
    CHECK(symlink("target", "shared/symlink") == 0 && lchown("shared/symlink", 1001, 1001) == 0);
    CHECK(symlink("..", "shared/here/symlink") == 0 && lchown("shared/here/symlink", 1001, 1001) == 0);
    CHECK(mkfifo("shared/fifo", 0666) == 0 && chown("shared/fifo", 1001, 1001) == 0);
    CHECK(close(open("shared/regular", O_CREAT | O_WRONLY, 0666)) == 0 &&
          chown("shared/regular", 1001, 1001) == 0);
    umask(022);
    set("fs/protected_symlinks", "1");
    CHECK(try_as(1000, try_follow) == EACCES && try_as(0, try_follow) == EACCES &&
          try_as(1001, try_follow) == 0);
    CHECK(try_as(1000, try_name) == 0);
    set("fs/protected_symlinks", "0");
    CHECK(try_as(1000, try_follow) == 0 && try_as(1000, try_through) == ENOENT);
    set("fs/protected_symlinks", "1");
    CHECK(try_as(1000, try_through) == ENOENT && lchown("shared/symlink", 0, 0) == 0 &&
          try_as(1000, try_follow) == 0);

    set("fs/protected_fifos", "0");
    set("fs/protected_regular", "0");
    CHECK(try_as(1000, try_fifo) == 0 && try_as(1000, try_regular) == 0);
    set("fs/protected_fifos", "1");
    CHECK(try_as(1000, try_fifo) == EACCES && try_as(0, try_fifo) == EACCES && try_as(1001, try_fifo) == 0 &&
          try_as(1000, try_regular) == 0);
    set("fs/protected_regular", "1");
    CHECK(try_as(1000, try_regular) == EACCES && try_as(1001, try_regular) == 0 &&
          try_as(1000, try_without_creating) == 0);
    CHECK(chmod("shared", 01775) == 0 && try_as(1000, try_fifo) == 0 && try_as(1000, try_regular) == 0);
    set("fs/protected_fifos", "2");
    CHECK(try_as(1000, try_fifo) == EACCES && try_as(1000, try_regular) == 0);
    set("fs/protected_regular", "2");
    CHECK(try_as(1000, try_regular) == EACCES);
    set("fs/protected_fifos", "0");
    set("fs/protected_regular", "0");

    set("kernel/dmesg_restrict", "0");
    CHECK(chmod("/dev/kmsg", 0644) == 0 && try_as(1000, try_log) == 0 && try_as(1000, try_log_device) == 0);
    set("kernel/dmesg_restrict", "1");
    CHECK(try_as(1000, try_log) == EPERM && try_as(1000, try_log_device) == EPERM &&
          try_as(0, try_log) == 0 && try_as(0, try_log_device) == 0);
}

/* Very many locks of one file that cannot be merged: taken, queried, split, replaced and released. */
static void many_locks(void) {
    enum { COUNT = 6000 };
    int fd = open("locks", O_RDWR | O_CREAT | O_TRUNC, 0600), refused = 0, status;
    CHECK(fd >= 0);
    for (int i = 0; i < COUNT; i++) {
        /* From both ends, so that a new lock is not always the last one. */
        int at = i % 2 ? COUNT - i : i;
        struct flock f = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 4L * at, .l_len = 3};
        refused += fcntl(fd, F_SETLK, &f) != 0;
    }
    CHECK(refused == 0);
    /* The middle of each gets another type: three locks instead of one. */
    for (int i = 0; i < COUNT; i += 3) {
        struct flock f = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 4L * i + 1, .l_len = 1};
        refused += fcntl(fd, F_SETLK, &f) != 0;
    }
    CHECK(refused == 0);
    pid_t child = fork();
    if (child == 0) {
        int wrong = 0;
        for (int i = 0; i < COUNT; i += 3) {
            struct flock f = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 4L * i + 1, .l_len = 1};
            struct flock g = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 4L * i + 1, .l_len = 1};
            struct flock h = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 4L * i + 3, .l_len = 1};
            wrong += fcntl(fd, F_GETLK, &f) != 0 || f.l_type != F_UNLCK;
            wrong +=
                fcntl(fd, F_GETLK, &g) != 0 || g.l_type != F_RDLCK || g.l_start != 4L * i + 1 || g.l_len != 1;
            wrong += fcntl(fd, F_GETLK, &h) != 0 || h.l_type != F_UNLCK;
        }
        _exit(wrong != 0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    /* One lock over all of them, with one hole in it. */
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0};
    CHECK(fcntl(fd, F_SETLK, &all) == 0);
    struct flock hole = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = 100, .l_len = 10};
    CHECK(fcntl(fd, F_SETLK, &hole) == 0);
    child = fork();
    if (child == 0) {
        struct flock f = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 100, .l_len = 0};
        int good = fcntl(fd, F_GETLK, &f) == 0 && f.l_type == F_WRLCK && f.l_start == 110 && f.l_len == 0;
        f = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 110};
        good = good && fcntl(fd, F_GETLK, &f) == 0 && f.l_start == 0 && f.l_len == 100;
        f = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 100, .l_len = 10};
        good = good && fcntl(fd, F_SETLK, &f) == 0;
        _exit(!good);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    CHECK(close(fd) == 0 && unlink("locks") == 0);
}

static void nothing(int sig) {
    (void)sig;
}

/* select and ppoll write the time that is left back, unless the personality is STICKY_TIMEOUTS. */
static void sticky_times(void) {
    struct timeval time = { 0, 20000 };
    CHECK(select(0, NULL, NULL, NULL, &time) == 0 && time.tv_usec == 0);
    CHECK(personality(STICKY_TIMEOUTS) != -1);
    time.tv_usec = 20000;
    CHECK(select(0, NULL, NULL, NULL, &time) == 0 && time.tv_usec == 20000);
#ifdef SYS_ppoll
    long left[2] = { 0, 50000000 };
    CHECK(syscall(SYS_ppoll, NULL, 0, left, NULL, 8) == 0 && left[1] == 50000000);
    /* The call is not restarted, whatever SA_RESTART says. */
    struct sigaction action = { .sa_handler = nothing, .sa_flags = SA_RESTART };
    struct itimerval often = { { 0, 10000 }, { 0, 10000 } }, never = { { 0, 0 }, { 0, 0 } };
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    left[0] = 60;
    CHECK(syscall(SYS_ppoll, NULL, 0, left, NULL, 8) == -1 && errno == EINTR && left[0] == 60);
    setitimer(ITIMER_REAL, &never, NULL);
#endif
    personality(0);
}

/* splice and sendfile of devices. */
static void spliced_devices(void) {
    int ends[2], zero = open("/dev/zero", O_RDWR), null = open("/dev/null", O_RDWR),
                 random = open("/dev/urandom", O_RDWR);
    int full = open("/dev/full", O_RDWR), version = open("/proc/version", O_RDONLY),
        status = open("/proc/self/status", O_RDONLY);
    loff_t at = 0;
    off_t from = 0;
    CHECK(pipe(ends) == 0 && write(ends[1], "0123456789", 10) == 10);
    CHECK(splice(zero, NULL, ends[1], NULL, 5, 0) == -1 && errno == EINVAL);
    CHECK(splice(ends[0], NULL, zero, NULL, 5, 0) == -1 && errno == EINVAL);
    CHECK(splice(ends[0], NULL, full, NULL, 5, 0) == -1 && errno == EINVAL);
    CHECK(splice(ends[0], NULL, null, &at, 5, 0) == 5 && at == 0);
    CHECK(splice(ends[0], NULL, random, &at, 5, 0) == 5 && at == 0);
    CHECK(splice(random, &at, ends[1], NULL, 5, 0) == 5 && at == 0);
    CHECK(sendfile(null, random, &from, 5) == 5 && from == 0);
    CHECK(sendfile(null, zero, NULL, 5) == -1 && errno == EINVAL);
    CHECK(sendfile(null, version, &from, 5) == 5 && from == 5);
    CHECK(splice(version, NULL, ends[1], NULL, 5, 0) == 5);
    CHECK(splice(status, NULL, ends[1], NULL, 5, 0) == -1 && errno == EINVAL);
    int all[] = { zero, null, random, full, version, status, ends[0], ends[1] };
    for (int i = 0; i < 8; i++) close(all[i]);
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "places") == 0) {
        struct places here = places_here();
        return write(1, &here, sizeof here) != sizeof here;
    }
    setvbuf(stdout, NULL, _IONBF, 0);
    whole_locks();
    many_locks();
    seals();
    reordered();
    moved();
    first_errors();
    places();
    behind_the_end();
    several_messages();
    processes();
    other_users_files();
    sticky_times();
    spliced_devices();
    return report();
}
