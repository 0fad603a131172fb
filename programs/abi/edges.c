/*
 * Memory in rare situations: protections a mapping may get later, mincore, addresses and lengths beyond the
 * address space, and that a process killed during long work ends. Called by tools/limen/src/test/programs.rs,
 * on every architecture; on Linux it can be run by hand, as root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "pages.h"

#define HIGHEST 0x7fffffffffffffffll

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

/* mprotect refuses a protection that the mapping may never get. */
static void never_writable(void) {
    int zero = open("/dev/zero", O_RDONLY);
    char *at = mmap(NULL, page, PROT_READ, MAP_SHARED, zero, 0), byte = 1;
    CHECK(at != MAP_FAILED && at[5] == 0);
    FAILS(mprotect(at, page, PROT_READ | PROT_WRITE), EACCES);
    FAILS(syscall(SYS_futex, at, FUTEX_WAKE, 1, NULL, NULL, 0), EFAULT);
    int memory = open("/proc/self/mem", O_RDWR);
    FAILS(pwrite64(memory, &byte, 1, (uintptr_t)at), EIO);
    CHECK(at[0] == 0);
    FAILS(mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, zero, 0), EACCES);
    FAILS(mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_GROWSDOWN, zero, 0), EINVAL);
    at = mmap(NULL, page, PROT_READ, MAP_PRIVATE, zero, 0);
    CHECK(mprotect(at, page, PROT_READ | PROT_WRITE) == 0 && (at[0] = 1));
    close(zero);
    zero = open("/dev/zero", O_RDWR);
    at = mmap(NULL, page, PROT_READ, MAP_SHARED, zero, 0);
    CHECK(mprotect(at, page, PROT_READ | PROT_WRITE) == 0 && (at[0] = 1));
    close(zero);
#ifdef __LP64__
    FAILS(syscall(SYS_mmap, NULL, page, PROT_READ, MAP_PRIVATE, memory_file(1), LONG_MAX & -page), EOVERFLOW);
#endif
    close(memory);
}

/*
 * A file on a file system mounted noexec cannot be mapped executable, whatever the personality; without
 * PROT_EXEC it can be mapped.
 */
static void read_implies_execute(void) {
    int plain = memory_file(1);
    CHECK(mkdir("noexec", 0755) == 0 && mount("none", "noexec", "tmpfs", MS_NOEXEC, "") == 0);
    int data = open("noexec/file", O_RDWR | O_CREAT, 0755);
    CHECK(ftruncate(data, page) == 0 && personality(READ_IMPLIES_EXEC) >= 0);
    char *at = mmap(NULL, page, PROT_READ, MAP_PRIVATE, data, 0);
    CHECK(at != MAP_FAILED && mprotect(at, page, PROT_READ) == 0);
    FAILS(mprotect(at, page, PROT_READ | PROT_EXEC), EACCES);
    munmap(at, page);
    CHECK(personality(0) >= 0);
    FAILS(mmap(NULL, page, PROT_READ | PROT_EXEC, MAP_PRIVATE, data, 0), EPERM);
    close(data);
    close(plain);
    CHECK(umount("noexec") == 0 && rmdir("noexec") == 0);
}

/* A bit for each of `pages` pages from `at` on: whether it is in memory (mincore). */
static int in_memory(char *at, int pages) {
    unsigned char there[16];
    int bits = 0;
    if (syscall(SYS_mincore, at, pages * page, there) != 0) return -1;
    for (int i = 0; i < pages; i++) bits |= (there[i] & 1) << i;
    return bits;
}

/* A page of a file is in memory after it was written or mapped, not when fallocate has only reserved it. */
static void touched(void) {
    int file = memory_file(8);
    char *at = mmap(NULL, 8 * page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), byte = 0;
    CHECK(in_memory(at, 8) == 0);
    at[page] = 1;
    byte += ((volatile char *)at)[3 * page];
    CHECK(in_memory(at, 8) == 0x0a);
    CHECK(pread(file, &byte, 1, 5 * page) == 1 && pwrite(file, &byte, 1, 6 * page) == 1);
    CHECK(in_memory(at, 8) == 0x4a);
    CHECK(fallocate(file, 0, 0, 8 * page) == 0 && in_memory(at, 8) == 0x4a);
    CHECK(lseek(file, 4 * page, SEEK_DATA) == 6 * page && lseek(file, 6 * page, SEEK_HOLE) == 7 * page);
    CHECK(pread(file, &byte, 1, 4 * page) == 1 && in_memory(at, 8) == 0x4a);
    byte += ((volatile char *)at)[4 * page];
    CHECK(pwrite(file, &byte, 1, 7 * page) == 1 && in_memory(at, 8) == 0xda);
    char *private = mmap(NULL, 8 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    CHECK(in_memory(private, 8) == 0xda);
    private[2 * page] = 1;
    CHECK(in_memory(private, 8) == 0xde);
    CHECK(madvise(at, 8 * page, MADV_DONTNEED) == 0 && in_memory(at, 8) == 0xde);
    munmap(at, 8 * page);
    munmap(private, 8 * page);
    close(file);
    at = zeros(8, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    at[page] = 1;
    CHECK(in_memory(at, 8) == 2);
    CHECK(munmap(at + 4 * page, page) == 0 && in_memory(at, 8) == -1 && errno == ENOMEM);
}

static void see_foreign(void) {
    CHECK(setresgid(1000, 1000, 1000) == 0 && setresuid(1000, 1000, 1000) == 0);
    int file = open("foreign", O_RDONLY);
    char *at = mmap(NULL, 2 * page, PROT_READ, MAP_SHARED, file, 0);
    CHECK(at != MAP_FAILED && in_memory(at, 2) == 3);
    at = mmap(NULL, 2 * page, PROT_READ, MAP_PRIVATE, file, 0);
    CHECK(at != MAP_FAILED && in_memory(at, 2) == 3);
}

/* mincore does not tell which pages of a file are used by others, unless the caller may write to the file. */
static void foreign_pages(void) {
    int file = open("foreign", O_RDWR | O_CREAT, 0644);
    CHECK(ftruncate(file, 2 * page) == 0 && chmod(".", 0755) == 0);
    char *at = mmap(NULL, 2 * page, PROT_READ, MAP_SHARED, file, 0);
    CHECK(in_memory(at, 2) == 0);
    CHECK(apart(see_foreign) == 0);
    munmap(at, 2 * page);
    close(file);
    unlink("foreign");
}

/* mremap unmaps its fixed target even if it then fails. */
static void moved_over(void) {
    char *from = zeros(9, PROT_NONE, MAP_PRIVATE), *to = zeros(4, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    CHECK(mprotect(from, page, PROT_READ | PROT_WRITE) == 0);
    FAILS(syscall(SYS_mremap, from, 0l, page, MREMAP_MAYMOVE | MREMAP_FIXED, to), EINVAL);
    CHECK(in_memory(to, 1) == -1 && in_memory(to + page, 3) == 0 && in_memory(from, 1) == 0);
    FAILS(syscall(SYS_mremap, from, 8 * page, 2 * page, MREMAP_MAYMOVE | MREMAP_FIXED, to + page), EFAULT);
    CHECK(in_memory(to + page, 2) == -1 && in_memory(to + 3 * page, 1) == 0);
    FAILS(syscall(SYS_mremap, from, page - 1, page, MREMAP_MAYMOVE | 4, 0), EINVAL);
    int file = memory_file(4);
    char *shared = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    shared[0] = 7;
    CHECK(syscall(SYS_mremap, shared, 0l, 2 * page, MREMAP_MAYMOVE | MREMAP_FIXED, to) == (long)to &&
          to[0] == 7);
    FAILS(syscall(SYS_mremap, shared, 0l, 2 * page, 0, 0), ENOMEM);
    close(file);
}

/* The whole program is in the range. */
static void moved_over_itself(void) {
    char *from = zeros(1, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    for (int bit = sizeof(long) == 8 ? 46 : 30; bit >= 29; bit--)
        syscall(SYS_mremap, from, 0l, 1l << bit, MREMAP_MAYMOVE | MREMAP_FIXED, 0x10000l);
    _exit(0);
}

static void unmap_all(void) {
    signal(SIGSEGV, SIG_IGN);
    for (size_t length = SIZE_MAX & -page; length > (size_t)page; length = length / 2 & -page)
        munmap(NULL, length);
    _exit(0);
}

/* A process that unmaps its own program ends by SIGSEGV, even if it ignores the signal. */
static void without_program(void) {
    CHECK(apart(unmap_all) == 200 + SIGSEGV);
    CHECK(apart(moved_over_itself) == 200 + SIGSEGV);
}

/* Page tables of mappings that were far apart are freed with the mappings. */
static void tables_go(void) {
#ifdef __LP64__
    long before = row("/proc/self/status", NULL, "VmPTE", NULL);
    for (unsigned long i = 0; i < 2000; i++) {
        char *at = (char *)((1ul << 41) + (i << 30));
        if (mmap(at, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
                 0) != at)
            continue;
        at[0] = 1;
        munmap(at, page);
    }
    CHECK(row("/proc/self/status", NULL, "VmPTE", NULL) < before + 1000);
#endif
}

/* MAP_POPULATE fills the pages on both sides of a hole. */
static void populated_over_hole(void) {
    char *at = zeros(3, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    CHECK(munmap(at + page, page) == 0);
    FAILS(madvise(at, 3 * page, MADV_POPULATE_WRITE), ENOMEM);
    CHECK(in_memory(at, 1) == 1 && in_memory(at + 2 * page, 1) == 1);
}

static volatile sig_atomic_t came;

static void come(int signal) {
    came = signal;
}

static void bounds_of(const char *name, unsigned long *start, unsigned long *end) {
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, name)) sscanf(line, "%lx-%lx", start, end);
    if (maps) fclose(maps);
}

/* A handler can return after the vDSO was moved. */
static void moved_vdso(void) {
    unsigned long start = 0, end = 0;
    bounds_of("[vdso]", &start, &end);
    if (!start) return;
    char *to = mmap(NULL, end - start, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    signal(SIGUSR1, come);
    /* It stays in one piece, whatever is to happen to half of it. */
    if (end - start > (unsigned long)page) {
        FAILS(munmap((void *)start, page), EINVAL);
        FAILS(munmap((void *)(end - page), page), EINVAL);
        FAILS(munmap((void *)(end - page), 2 * page), EINVAL);
        FAILS(mprotect((void *)start, page, PROT_NONE), EINVAL);
        FAILS(madvise((void *)start, page, MADV_DONTFORK), EINVAL);
        FAILS(mremap((void *)start, page, page, MREMAP_MAYMOVE | MREMAP_FIXED, to), EINVAL);
        FAILS(mremap((void *)start, end - start, page, 0), EINVAL);
        CHECK(mmap((void *)start, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
                  MAP_FAILED && errno == ENOMEM);
    }
    CHECK(mprotect((void *)start, end - start, PROT_READ | PROT_EXEC) == 0);
    CHECK(mremap((void *)start, end - start, end - start, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
    CHECK(syscall(SYS_kill, getpid(), SIGUSR1) == 0 && came == SIGUSR1);
}

/* The flags of a mapping, as smaps names them. */
static int has_flags(const char *name, const char *flags) {
    char line[512];
    int here = 0, found = 0;
    FILE *maps = fopen("/proc/self/smaps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        if (strstr(line, "[")) here = strstr(line, name) != NULL;
        if (here && strncmp(line, "VmFlags: ", 9) == 0) found = strncmp(line + 9, flags, strlen(flags)) == 0;
    }
    if (maps) fclose(maps);
    return found;
}

/* A program may have a vDSO of its own, but not the kernel's data. One byte of its head says nothing. */
static void own_vdso(void) {
    enum { BYTE = 12 };
    unsigned long start = 0, end = 0, from = 0, to = 0;
    int ends[2], memory = open("/proc/self/mem", O_RDWR), status = -1;
    bounds_of("[vdso]", &start, &end);
    bounds_of("[vvar]", &from, &to);
    if (!start || !from) return;
    char *at = (char *)start, *data = (char *)from, byte;
    size_t size = end - start, length = to - from;
    char was = at[BYTE];
    CHECK(has_flags("[vdso]", "rd ex mr mw me de") && has_flags("[vvar]", "rd mr pf io de dd"));
    /* A debugger may write to it; what is dropped comes back. */
    CHECK(pwrite64(memory, "x", 1, (off64_t)(uintptr_t)(at + BYTE)) == 1 && at[BYTE] == 'x');
    CHECK(madvise(at, page, MADV_DONTNEED) == 0 && at[BYTE] == was);
    FAILS(madvise(at, size, MADV_POPULATE_WRITE), EINVAL);
    CHECK(mprotect(at, size, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
    at[BYTE] = 'y';
    signal(SIGUSR1, come);
    CHECK(syscall(SYS_kill, getpid(), SIGUSR1) == 0 && came == SIGUSR1 && seconds() > 0);
    pid_t child = fork();
    if (child == 0) {
        if (at[BYTE] != 'y') _exit(1);
        at[BYTE] = 'z';
        _exit(at[BYTE] != 'z' || seconds() < 0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0 && at[BYTE] == 'y');
    CHECK(madvise(at, size, MADV_WIPEONFORK) == 0);
    child = fork();
    if (child == 0) _exit(at[BYTE] != was);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(mprotect(at, size, PROT_READ | PROT_EXEC) == 0 && at[BYTE] == 'y');
    CHECK(madvise(at, size, MADV_DOFORK) == 0 && mprotect(at, size, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
    FAILS(madvise(at, size, MADV_DODUMP), EINVAL);
    if (size > (size_t)page) FAILS(mprotect(at, page, PROT_READ | PROT_WRITE), EINVAL);
    FAILS(mremap(at, size, size * 2, MREMAP_MAYMOVE), EFAULT);
    /* The data cannot be written to, not even by a debugger, and others cannot read it. */
    FAILS(mprotect(data, length, PROT_READ | PROT_WRITE), EACCES);
    FAILS(mprotect(data, length, PROT_READ | PROT_EXEC), EACCES);
    CHECK(mprotect(data, length, PROT_READ) == 0);
    FAILS(madvise(data, length, MADV_DONTNEED), EINVAL);
    FAILS(madvise(data, length, MADV_DOFORK), EINVAL);
    FAILS(madvise(data, length, MADV_POPULATE_READ), EINVAL);
    FAILS(pread64(memory, &byte, 1, (off64_t)(uintptr_t)data), EIO);
    FAILS(pwrite64(memory, &byte, 1, (off64_t)(uintptr_t)data), EIO);
    struct iovec own = { &byte, 1 }, its = { data, 1 };
    FAILS(process_vm_readv(getpid(), &own, 1, &its, 1, 0), EFAULT);
    CHECK(pipe(ends) == 0 && write(ends[1], data, 1) == 1);
    close(memory), close(ends[0]), close(ends[1]);
}

#define PRESENT (1ull << 63)
#define OF_FILE (1ull << 61)
#define FRAME ((1ull << 55) - 1)

/* What is said of a page's place in memory, without what was written since. */
static uint64_t entry_of(int map, const void *at) {
    uint64_t entry = 1;
    CHECK(pread64(map, &entry, 8, (off64_t)((uintptr_t)at / page) * 8) == 8);
    return entry & ~(1ull << 55);
}

static void page_map(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/pagemap", getpid());
    int map = open("/proc/self/pagemap", O_RDONLY), again = open(path, O_RDONLY), file = memory_file(3);
    char *private = zeros(3, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    char *shared = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    char *copied = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    CHECK(map >= 0 && again >= 0);
    private[page] = shared[page] = copied[2 * page] = 1;
    (void)*(volatile char *)(copied + page);
    uint64_t three[3], one;
    off64_t at = (off64_t)((uintptr_t)private / page) * 8;
    CHECK(entry_of(map, private) == 0 && entry_of(again, private) == 0 && entry_of(map, shared) == 0);
    one = entry_of(map, private + page);
    CHECK((one & (PRESENT | OF_FILE)) == PRESENT && (one & FRAME) != 0);
    CHECK(entry_of(again, private + page) == one);
    one = entry_of(map, shared + page);
    CHECK((one & (PRESENT | OF_FILE)) == (PRESENT | OF_FILE) && (one & FRAME) != 0);
    CHECK((entry_of(map, copied + page) & FRAME) == (one & FRAME));
    CHECK((entry_of(map, copied + 2 * page) & (PRESENT | OF_FILE)) == PRESENT);
    /* All at once, and by the position. */
    CHECK(pread64(map, three, sizeof three, at) == sizeof three);
    CHECK(!(three[0] & PRESENT) && (three[1] & PRESENT) && !(three[2] & PRESENT));
    CHECK(lseek64(map, at + 8, SEEK_SET) == at + 8 && read(map, &one, 8) == 8 && (one & PRESENT));
    CHECK(lseek64(map, 0, SEEK_CUR) == at + 16);
    FAILS(lseek64(map, 0, SEEK_END), EINVAL);
    FAILS(pread64(map, &one, 7, at), EINVAL);
    FAILS(pread64(map, &one, 8, at + 4), EINVAL);
    FAILS(pread64(map, three, 12, at), EINVAL);
    CHECK(pread64(map, &one, 0, at) == 0);
    FAILS(pread64(map, (void *)-page, 8, at), EFAULT);
    /* Behind all memory there is nothing. */
    CHECK(pread64(map, &one, 8, HIGHEST & ~7ll) <= 0);
    /* Where it is, is not everybody's business. */
    pid_t child = fork();
    if (child == 0) {
        failed = 0;
        CHECK(setuid(1000) == 0);
        FAILS(open("/proc/1/pagemap", O_RDONLY), EACCES);
        _exit(failed);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    child = fork();
    if (child == 0) {
        failed = 0;
        /* Without the privilege, but with what is otherwise needed to look into oneself. */
        struct { unsigned version; int pid; } head = { 0x20080522, 0 };
        struct { unsigned effective, permitted, inheritable; } sets[2];
        CHECK(syscall(SYS_capget, &head, sets) == 0);
        sets[0].effective &= ~(1u << 21);
        CHECK(syscall(SYS_capset, &head, sets) == 0);
        int own = open("/proc/self/pagemap", O_RDONLY);
        private[page] = 2;
        one = entry_of(own, private + page);
        CHECK((one & PRESENT) && (one & FRAME) == 0);
        _exit(failed);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    munmap(private, 3 * page), munmap(shared, 3 * page), munmap(copied, 3 * page);
    close(map), close(again), close(file);
}

/* No byte can be written beyond the highest position. */
static void highest_position(void) {
    char bytes[64] = { 0 };
    struct iovec two[] = { { bytes, 32 }, { bytes, 32 } };
    int file = memory_file(1), zero = open("/dev/zero", O_RDWR), null = open("/dev/null", O_WRONLY);
    for (int i = 0; i < 2; i++) {
        int at = i ? zero : file;
        FAILS(pread64(at, bytes, 64, HIGHEST - 63), EINVAL);
        FAILS(pwrite64(at, bytes, 64, HIGHEST), EINVAL);
        FAILS(preadv64(at, two, 2, HIGHEST - 63), EINVAL);
        FAILS(pwritev64(at, two, 2, HIGHEST - 1), EINVAL);
        CHECK(pread64(at, bytes, 0, HIGHEST) == 0);
        CHECK(pread64(at, bytes, 64, HIGHEST - 64) == (i ? 64 : 0));
    }
    FAILS(pread64(file, (void *)-page, 64, HIGHEST), EFAULT);
    off64_t from = HIGHEST - 63;
    FAILS(sendfile64(null, file, &from, 64), EINVAL);
    if (sizeof(long) == 8) {
        CHECK(lseek64(file, HIGHEST - 1, SEEK_SET) == HIGHEST - 1);
        FAILS(read(file, bytes, 64), EINVAL);
        FAILS(write(file, bytes, 64), EINVAL);
        FAILS(lseek64(file, 2, SEEK_CUR), EINVAL);
        FAILS(lseek64(file, HIGHEST, SEEK_CUR), EINVAL);
        CHECK(lseek64(file, 0, SEEK_CUR) == HIGHEST - 1);
    }
    FAILS(lseek64(file, HIGHEST, SEEK_END), EINVAL);
    int memory = open("/proc/self/mem", O_RDONLY);
    FAILS(pread64(memory, bytes, 64, HIGHEST), EIO);
    close(memory);
    close(file);
    close(zero);
    close(null);
}

/* getdents64 writes up to the end of user space, even if the length of its buffer goes beyond. */
static void listed_at_the_end(void) {
    int directory = open("/", O_RDONLY | O_DIRECTORY);
    uintptr_t end = 0;
    char *last = MAP_FAILED;
    /* The end: the last page that can be mapped. */
    for (int bit = 8 * sizeof end - 2; bit >= 24 && last == MAP_FAILED; bit--)
        for (int steps = 0; steps < 40 && last == MAP_FAILED; steps++) {
            end = ((uintptr_t)1 << bit) * 2 - steps * page;
            if (end == 0) continue;
            last = mmap((void *)(end - page), page, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
            if (last != MAP_FAILED && last != (char *)(end - page)) {
                munmap(last, page);
                last = MAP_FAILED;
            }
        }
    /* On some machines another mapping is there. */
    if (last != MAP_FAILED) {
        CHECK(syscall(SYS_getdents64, directory, end - 256, 1 << 20) > 0);
        CHECK(lseek(directory, 0, SEEK_SET) == 0 &&
              syscall(SYS_getdents64, directory, end - 24, 1 << 20) > 0);
        CHECK(lseek(directory, 0, SEEK_SET) == 0);
        FAILS(syscall(SYS_getdents64, directory, end - 8, 1 << 20), EFAULT);
        munmap(last, page);
    }
    close(directory);
}

#define LARGE (512ul << 20)
static char *large;

static void stir_much(void) {
    for (int to = open("/dev/urandom", O_WRONLY); write(to, large, LARGE) > 0;);
}

static void copy_much(void) {
    struct iovec own = { large, LARGE / 2 }, other = { large + LARGE / 2, LARGE / 2 };
    while (process_vm_readv(getpid(), &own, 1, &other, 1, 0) > 0);
}

static void read_much(void) {
    for (int from = open("/proc/self/mem", O_RDONLY);
         pread64(from, large, LARGE / 2, (uintptr_t)large + LARGE / 2) > 0;)
        ;
}

static void show_much(void) {
    static char text[1 << 20];
    for (long i = 0; i < 20000; i += 2) mprotect(large + i * page, page, PROT_READ);
    for (;;) {
        int from = open("/proc/self/smaps", O_RDONLY);
        while (read(from, text, sizeof text) > 0);
        close(from);
    }
}

/* A process that is killed during long work ends soon. */
static void killed_in(int line, void (*much)(void)) {
    struct timespec some = { 0, 100000000 };
    int status = 0;
    double took = 2;
    /* A virtual CPU may stand still, but not each time. */
    for (int tries = 0; tries < 3 && took >= 2; tries++) {
        pid_t child = fork();
        if (child == 0) {
            much();
            _exit(1);
        }
        nanosleep(&some, NULL);
        double then = seconds();
        kill(child, SIGKILL);
        CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
        took = seconds() - then;
    }
    CHECK(took < 2);
    if (took >= 2) printf("  of line %d: %.1f s\n", line, took);
}

/*
 * A tracee that is killed by a timer, at any moment of its way into a stop, does not stay in it. Its tracer
 * never lets it go on.
 */
static void killed_on_its_way(void) {
    for (int n = 0; n < 1500; n++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL };
            struct itimerspec soon = { .it_value = { 0, 1 + n * 7919L % 400000 } };
            timer_t timer;
            if (timer_create(CLOCK_MONOTONIC, &event, &timer) || ptrace(PTRACE_TRACEME, 0, 0, 0)) _exit(1);
            timer_settime(timer, 0, &soon, NULL);
            raise(SIGUSR1);
            _exit(2);
        }
        double then = seconds();
        pid_t found;
        while ((found = waitpid(child, &status, WNOHANG)) == 0 || (found == child && WIFSTOPPED(status)))
            if (seconds() - then > 20) break;
        CHECK(found == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        if (found != child) break;
    }
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    page = sysconf(_SC_PAGESIZE);
    never_writable();
    read_implies_execute();
    touched();
    foreign_pages();
    moved_over();
    without_program();
    CHECK(apart(tables_go) == 0);
    populated_over_hole();
    CHECK(apart(moved_vdso) == 0);
    CHECK(apart(own_vdso) == 0);
    page_map();
    highest_position();
    listed_at_the_end();
    large = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(large != MAP_FAILED);
    killed_in(__LINE__, stir_much);
    killed_in(__LINE__, copy_much);
    killed_in(__LINE__, read_much);
    killed_in(__LINE__, show_much);
    killed_on_its_way();
    return report();
}
