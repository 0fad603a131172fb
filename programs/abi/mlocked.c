/*
 * Locked memory: what /proc says of it, lengths that wrap around, limits, a locked stack that grows. Called
 * by tools/limen/src/test/programs.rs, on every architecture; on Linux it can be run by hand, as root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"
#include "pages.h"

static long locked(const char *at) {
    return row("/proc/self/smaps", at, "Locked", NULL);
}

/* Whether smaps shows a two-letter flag for the mapping at `at`. */
static int flagged(const char *at, const char *flag) {
    char text[512] = "";
    row("/proc/self/smaps", at, "VmFlags", text);
    return strstr(text, flag) != NULL;
}

static void shown_locked(void) {
    long kib = page / 1024, before = row("/proc/self/status", NULL, "VmLck", NULL);
    CHECK(before == 0 && row("/proc/self/status", NULL, "VmPin", NULL) == 0);
    char *at = zeros(8, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    at[0] = at[5 * page] = 1;
    CHECK(locked(at) == 0 && !flagged(at, "lo"));
    CHECK(mlock(at, 4 * page) == 0);
    CHECK(locked(at) == 4 * kib && flagged(at, "lo") && locked(at + 4 * page) == 0);
    CHECK(row("/proc/self/status", NULL, "VmLck", NULL) == 4 * kib);
    CHECK(row("/proc/self/smaps_rollup", NULL, "Locked", NULL) == 4 * kib);
    CHECK(munlock(at, 8 * page) == 0 && locked(at) == 0 && !flagged(at, "lo"));
    at = zeros(4, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    at[0] = 1;
    CHECK(mlock2(at, 4 * page, MLOCK_ONFAULT) == 0 && locked(at) == kib && flagged(at, "lo"));
    at[page] = 1;
    CHECK(locked(at) == 2 * kib && row("/proc/self/status", NULL, "VmLck", NULL) == 4 * kib);
    /* Linux moves locked pages to their list later, so the count may be late; it is right in the end. */
    char *much = zeros(256, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_LOCKED);
    CHECK(locked(much) == 256 * kib && row("/proc/meminfo", NULL, "Mlocked", NULL) > 0);
    CHECK(munlockall() == 0 && row("/proc/self/status", NULL, "VmLck", NULL) == 0);
    CHECK(mlockall(MCL_FUTURE) == 0);
    at = zeros(2, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    CHECK(locked(at) == 2 * kib && munlockall() == 0 && locked(at) == 0);
    at = zeros(2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE);
    CHECK(flagged(at, "nr") && !flagged(at, "ac") && !flagged(at, "ms"));
    CHECK(madvise(at, page, MADV_SEQUENTIAL) == 0 && flagged(at, "sr") && !flagged(at + page, "sr"));
    CHECK(madvise(at, page, MADV_RANDOM) == 0 && flagged(at, "rr"));
    CHECK(madvise(at, page, MADV_DONTFORK) == 0 && flagged(at, "dc"));
    at = zeros(2, PROT_READ | PROT_WRITE, MAP_SHARED);
    CHECK(flagged(at, "sh") && flagged(at, "ms"));
    at = mmap(NULL, page, PROT_READ, MAP_SHARED, open("/dev/zero", O_RDONLY), 0);
    CHECK(!flagged(at, "sh") && flagged(at, "ms") && !flagged(at, "mw"));
}

/* Lengths of locks wrap around; the limit is checked before a hole is found. */
static void lock_lengths(void) {
    char *at = zeros(8, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    FAILS(syscall(SYS_mlock, -1l, -1l), EINVAL);
    FAILS(syscall(SYS_munlock, -1l, -1l), EINVAL);
    FAILS(syscall(SYS_mlock, -page, page), EINVAL);
    CHECK(syscall(SYS_mlock, 0l, -1l) == 0 && mlock(at, 0) == 0);
    CHECK(munmap(at + 2 * page, page) == 0);
    FAILS(mlock(at, 8 * page), ENOMEM);
    CHECK(flagged(at, "lo") && !flagged(at + 4 * page, "lo"));
    CHECK(mlock(at + 4 * page, page) == 0);
    FAILS(munlock(at, 8 * page), ENOMEM);
    CHECK(!flagged(at, "lo") && flagged(at + 4 * page, "lo"));
    FAILS(mprotect(at, 8 * page, PROT_READ), ENOMEM);
    CHECK(!flagged(at, "wr") && flagged(at + 4 * page, "wr"));
    FAILS(madvise(at, 8 * page, MADV_RANDOM), ENOMEM);
    CHECK(flagged(at, "rr") && flagged(at + 4 * page, "rr"));
}

static void nothing_to_lock(void) {
    struct rlimit none = { 0, 0 };
    CHECK(setrlimit(RLIMIT_MEMLOCK, &none) == 0 && setresuid(1000, 1000, 1000) == 0);
    FAILS(syscall(SYS_mlock, -page, page), EPERM);
    FAILS(syscall(SYS_mlock, page, -page), EPERM);
}

static void little_to_lock(void) {
    struct rlimit some = { 4 * page + 1, 4 * page + 1 };
    char *at = zeros(8, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    CHECK(setrlimit(RLIMIT_MEMLOCK, &some) == 0 && setresuid(1000, 1000, 1000) == 0);
    FAILS(mlock(at, 5 * page), ENOMEM);
    FAILS(syscall(SYS_mlock, page, -page), ENOMEM);
    CHECK(mlock(at, 4 * page) == 0 && mlock(at, 4 * page) == 0);
    FAILS(mlock(at + page, 4 * page), ENOMEM);
    FAILS(mremap(at, 4 * page, 5 * page, MREMAP_MAYMOVE), EAGAIN);
}

static char *stack;

static void grow_locked(void) {
    struct rlimit some = { 2 * page, 2 * page };
    stack = zeros(1024, PROT_NONE, MAP_PRIVATE);
    munmap(stack, 1024 * page);
    stack += 1000 * page;
    CHECK(setrlimit(RLIMIT_MEMLOCK, &some) == 0 && setresuid(1000, 1000, 1000) == 0);
    CHECK(mmap(stack, page, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_GROWSDOWN | MAP_LOCKED, -1, 0) == stack);
    stack[-1] = 1;
    signal(SIGSEGV, SIG_DFL);
    if (failed == 0) stack[-page - 1] = 1;
}

/* A locked stack grows no further than RLIMIT_MEMLOCK. */
static void locked_stack(void) {
    CHECK(apart(grow_locked) == 200 + SIGSEGV);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    page = sysconf(_SC_PAGESIZE);
    CHECK(apart(shown_locked) == 0);
    CHECK(apart(lock_lengths) == 0);
    CHECK(apart(nothing_to_lock) == 0);
    CHECK(apart(little_to_lock) == 0);
    locked_stack();
    return report();
}
