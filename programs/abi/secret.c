/*
 * memfd_secret: memory that only its own program can reach; arm and powerpc64 have no such call. Called by
 * tools/limen/src/test/programs.rs, on every architecture; on Linux it can be run by hand, as root (before
 * 6.5 with `secretmem.enable=1` on its command line).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"
#include "pages.h"

#define PAGES 700

#ifdef SYS_memfd_secret
static int secret(unsigned flags) { return syscall(SYS_memfd_secret, flags); }

struct exchange {
    int fd;
    char *at;
    volatile int *stop;
};

/* Puts secret and other memory at one address, one after the other, until it is told to stop. */
static void *exchange(void *argument) {
    struct exchange *work = argument;
    while (!*work->stop) {
        mmap(work->at, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, work->fd, 0);
        *(volatile char *)work->at;
        mmap(work->at, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    }
    return NULL;
}

static char *mapped(int fd, size_t pages) {
    char *at = mmap(NULL, pages * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

/* It is a file, but it is neither read nor written, and has one size for ever. */
static void as_a_file(void) {
    char text[8] = "secret";
    int fd = secret(O_CLOEXEC);
    struct stat is;
    CHECK(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
    CHECK(fstat(fd, &is) == 0 && S_ISREG(is.st_mode) && is.st_size == 0);
    FAILS(secret(1), EINVAL);
    CHECK(is.st_nlink == 1 && (is.st_mode & 0777) == 0600);
    FAILS(read(fd, text, 4), EINVAL);
    FAILS(write(fd, text, 4), EINVAL);
    FAILS(pread(fd, text, 4, 0), ESPIPE);
    FAILS(pwrite(fd, text, 4, 0), ESPIPE);
    FAILS(lseek(fd, 0, SEEK_SET), ESPIPE);
    CHECK(ftruncate(fd, 2 * page) == 0 && fstat(fd, &is) == 0 && is.st_size == 2 * page);
    FAILS(ftruncate(fd, page), EINVAL);
    FAILS(ftruncate(fd, 4 * page), EINVAL);
    FAILS(mmap(NULL, page, PROT_READ, MAP_PRIVATE, fd, 0), EINVAL);
    FAILS(fcntl(fd, F_GET_SEALS), EINVAL);
    FAILS(fallocate(fd, 0, 0, page), EOPNOTSUPP);
    char *at = mapped(fd, 2);
    strcpy(at + page, "kept");
    CHECK(fstat(fd, &is) == 0 && is.st_blocks == 0);
    CHECK(close(fd) == 0 && strcmp(at + page, "kept") == 0 && at[0] == 0);
    CHECK(munmap(at, 2 * page) == 0);
}

/* Nobody reaches it through the kernel; the program itself may give it to the kernel to copy. */
static void kept_secret(void) {
    int fd = secret(0), ends[2], got = -1;
    CHECK(ftruncate(fd, page) == 0 && pipe(ends) == 0);
    char *at = mapped(fd, 1), text[16] = "";
    strcpy(at, "password");
    struct iovec here = { text, 9 }, there = { at, 9 };
    CHECK(vmsplice(ends[1], &there, 1, 0) == -1 && errno == EFAULT);
    CHECK(write(ends[1], at, 9) == 9 && read(ends[0], text, 9) == 9 && !strcmp(text, "password"));
    memset(text, 0, sizeof text);
    pid_t child = fork();
    if (child == 0) {
        pid_t parent = getppid();
        /* The child has the same memory, by its own right. */
        int bad = strcmp(at, "password") != 0;
        bad |= 2 * (process_vm_readv(parent, &here, 1, &there, 1, 0) != -1);
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/mem", parent);
        int mem = open(path, O_RDONLY);
        bad |= 4 * (mem < 0 || pread(mem, text, 9, (uintptr_t)at) != -1);
        bad |= 8 * (text[0] != 0);
        strcpy(at, "changed");
        _exit(bad);
    }
    CHECK(waitpid(child, &got, 0) == child && got == 0);
    CHECK(strcmp(at, "changed") == 0);
    CHECK(munmap(at, page) == 0 && close(fd) == 0 && close(ends[0]) == 0 && close(ends[1]) == 0);
}

/* It is locked and stays so; nobody fills it but who touches it. */
static void stays_locked(void) {
    int fd = secret(0);
    CHECK(ftruncate(fd, 2 * page) == 0);
    char *at = mapped(fd, 2);
    CHECK(row("/proc/self/status", NULL, "VmLck", NULL) == 2 * page / 1024);
    CHECK(munlock(at, 2 * page) == 0 && munlockall() == 0);
    CHECK(row("/proc/self/status", NULL, "VmLck", NULL) == 2 * page / 1024);
    FAILS(mlock(at, page), ENOMEM);
    FAILS(madvise(at, page, MADV_DONTNEED), EINVAL);
    FAILS(madvise(at, page, 22 /* MADV_POPULATE_READ */), EINVAL);
    FAILS(syscall(SYS_futex, at, 0 /* FUTEX_WAIT */, 1, NULL, NULL, 0), EFAULT);
    FAILS(syscall(SYS_futex, at, 128 /* and FUTEX_PRIVATE_FLAG */, 1, NULL, NULL, 0), EAGAIN);
    CHECK(munmap(at, 2 * page) == 0 && close(fd) == 0);
    CHECK(row("/proc/self/status", NULL, "VmLck", NULL) == 0);
}

/* Nor is it reached while it takes the place of other memory. */
static void exchanged(void) {
    int fd = secret(0), read_any = 0;
    CHECK(ftruncate(fd, page) == 0);
    char *at = zeros(1, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    int *stop = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char *own = mapped(fd, 1);
    strcpy(own, "password");
    pthread_t thread;
    struct exchange work = { fd, at, stop };
    CHECK(pthread_create(&thread, NULL, exchange, &work) == 0);
    for (int n = 0; n < 20000; n++) {
        char text[16] = "";
        struct iovec here = { text, 9 }, there = { at, 9 };
        process_vm_readv(getpid(), &here, 1, &there, 1, 0);
        read_any |= !strcmp(text, "password");
    }
    *stop = 1;
    CHECK(pthread_join(thread, NULL) == 0 && !read_any);
    CHECK(munmap(own, page) == 0 && close(fd) == 0);
}

/* It counts as locked memory. */
static void limited(void) {
    struct rlimit old, small = { 4 * page, 4 * page };
    CHECK(getrlimit(RLIMIT_MEMLOCK, &old) == 0);
    small.rlim_max = old.rlim_max;
    int got = -1;
    pid_t child = fork();
    if (child == 0) {
        int fd = secret(0), bad = ftruncate(fd, 8 * page) != 0;
        bad |= setrlimit(RLIMIT_MEMLOCK, &small) != 0 || setuid(1000) != 0;
        errno = 0;
        bad |= 2 * (mmap(NULL, 8 * page, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED || errno != EAGAIN);
        bad |= 4 * (mmap(NULL, 4 * page, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
        _exit(bad);
    }
    CHECK(waitpid(child, &got, 0) == child && got == 0);
}

/* Behind its end there is nothing. */
static void ends(void) {
    int fd = secret(0), got = -1;
    CHECK(ftruncate(fd, page) == 0);
    char *at = mapped(fd, 2);
    pid_t child = fork();
    if (child == 0) _exit(at[page]);
    CHECK(waitpid(child, &got, 0) == child && WIFSIGNALED(got) && WTERMSIG(got) == SIGBUS);
    CHECK(munmap(at, 2 * page) == 0 && close(fd) == 0);
}

/* Many pages come and go, by several processes at once: what comes back is memory as before. */
static void many(void) {
    pid_t children[2];
    for (int n = 0; n < 2; n++) {
        children[n] = fork();
        if (children[n]) continue;
        int fd = secret(0), bad = ftruncate(fd, PAGES * page) != 0;
        char *at = mapped(fd, PAGES);
        for (int i = 0; i < PAGES; i++) {
            int p = (i * 37 + n) % PAGES;
            bad |= 2 * (at[p * page] != 0);
            at[p * page] = p + n + 1;
        }
        for (int i = 0; i < PAGES; i++) bad |= 4 * (at[i * page] != (char)(i + n + 1));
        bad |= 8 * (munmap(at, PAGES * page) != 0 || close(fd) != 0);
        _exit(bad);
    }
    for (int n = 0; n < 2; n++) {
        int got = -1;
        CHECK(waitpid(children[n], &got, 0) == children[n] && got == 0);
    }
    /* All of that memory is in use by others now. */
    char *at = zeros(4 * PAGES, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    int clean = 1;
    for (int i = 0; i < 4 * PAGES; i++) {
        clean &= at[i * page] == 0;
        at[i * page] = i;
    }
    CHECK(clean && munmap(at, 4 * PAGES * page) == 0);
}

static void run(void) {
    as_a_file();
    kept_secret();
    stays_locked();
    exchanged();
    limited();
    ends();
    many();
}
#else
static void run(void) {
    /* 447 is its number where there is one. */
    FAILS(syscall(447, 0), ENOSYS);
}
#endif

int main(void) {
    page = sysconf(_SC_PAGESIZE);
    run();
    return report();
}
