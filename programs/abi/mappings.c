/*
 * Mappings and how they change, memory of other processes, and what /proc shows of both. Called by
 * tools/limen/src/test/programs.rs, on every architecture; on Linux it can be run by hand, as root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"

#define PAGE sysconf(_SC_PAGESIZE)
/* The size of memory that takes a while to unmap, copy or write. */
#define MUCH (16l << 20)

static __thread sigjmp_buf back;
static __thread volatile sig_atomic_t trying;

static void refused(int signal) {
    if (!trying) {
        static const char text[] = "a fault that was not expected\n";
        (void)!write(1, text, sizeof text - 1);
        _exit(100 + signal);
    }
    siglongjmp(back, signal);
}

/* Writes, or reads if `value` is negative; returns 0, or the signal that was raised. */
static int try_byte(volatile char *at, int value) {
    int got = sigsetjmp(back, 1);
    if (got == 0) {
        trying = 1;
        if (value < 0) (void)*at;
        else *at = value;
    }
    trying = 0;
    return got;
}

/* Populated memory. */
static char *filled(size_t size) {
    char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

static int memory_file(off_t size) {
    int file = memfd_create("mappings", MFD_ALLOW_SEALING);
    CHECK(file >= 0 && ftruncate(file, size) == 0);
    return file;
}

/* The mapping that will be unmapped: its first page is a page of the file, behind it is much memory. */
struct shown {
    char *at;
    int file;
    atomic_int ready;
    int bad;
};

static void show(struct shown *shown) {
    shown->file = memory_file(PAGE);
    shown->at = filled(PAGE + MUCH);
    CHECK(mmap(shown->at, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, shown->file, 0) == shown->at);
}

/* Unmaps it while `busy` runs. */
static void unmap_under(struct shown *shown, void *(*busy)(void *)) {
    pthread_t thread;
    show(shown);
    CHECK(pthread_create(&thread, NULL, busy, shown) == 0);
    while (!shown->ready) sched_yield();
    CHECK(munmap(shown->at, PAGE + MUCH) == 0);
    pthread_join(thread, NULL);
    CHECK(!shown->bad);
    close(shown->file);
}

/* After a seal against writing succeeded, no thread can write through a mapping. */
static void *seal_and_write(void *argument) {
    struct shown *shown = argument;
    do {
        if (try_byte(shown->at, 2)) break;
        shown->ready = 1;
    } while (fcntl(shown->file, F_ADD_SEALS, F_SEAL_WRITE) != 0);
    shown->bad = try_byte(shown->at, 3) == 0;
    return NULL;
}

/* A page that left the file while it was being unmapped is not written to after it was reused. */
static void *cut_and_write(void *argument) {
    struct shown *shown = argument;
    char *other = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    while (!shown->bad && try_byte(shown->at, 2) == 0) {
        shown->ready = 1;
        if (ftruncate(shown->file, 0) != 0) break;
        for (int i = 0; i < 2; i++) other[i * PAGE] = 5;
        int got = try_byte(shown->at, 3);
        for (int i = 0; i < 2; i++) shown->bad |= other[i * PAGE] != 5;
        madvise(other, 2 * PAGE, MADV_DONTNEED);
        if (got == SIGSEGV || ftruncate(shown->file, PAGE) != 0) break;
    }
    munmap(other, 2 * PAGE);
    return NULL;
}

/* When munmap has returned, no thread can use the mapping. */
static void unmapped_for_all(void) {
    for (int i = 0; i < 4; i++) {
        struct shown sealed = { 0 }, cut = { 0 };
        unmap_under(&sealed, seal_and_write);
        unmap_under(&cut, cut_and_write);
    }
}

/* Has the kernel write to the second page of a file again and again. */
struct grasping {
    char *at;
    int from;
    atomic_int stop;
    /* It pauses while this is odd, and says which number it has seen. */
    atomic_int pause, seen;
    int bad;
};

static void *grasp(void *argument) {
    struct grasping *grasping = argument;
    while (!grasping->stop) {
        grasping->seen = grasping->pause;
        if (grasping->seen % 2) sched_yield();
        else if (read(grasping->from, grasping->at + PAGE, 1) < 0) grasping->bad |= errno != EFAULT;
    }
    return NULL;
}

/*
 * A file that was truncated to 0 has no pages, though a thread touched them meanwhile. It is asked when the
 * thread pauses: while a fault is being handled, Linux counts its page before it looks at the file's size.
 */
static void cut_under_faults(void) {
    struct grasping grasping = { .from = open("/dev/zero", O_RDONLY) };
    pthread_t thread;
    struct stat stat;
    int file = memory_file(2 * PAGE), left = 0;
    grasping.at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(grasping.at != MAP_FAILED && pthread_create(&thread, NULL, grasp, &grasping) == 0);
    for (int i = 0; i < 3000 && !left; i++) {
        if (ftruncate(file, 0) != 0) left = -1;
        for (int asked = ++grasping.pause; grasping.seen != asked;) sched_yield();
        if (fstat(file, &stat) != 0 || stat.st_blocks != 0) left = 1;
        if (ftruncate(file, 2 * PAGE) != 0) left = -1;
        grasping.pause++;
    }
    CHECK(left == 0);
    grasping.stop = 1;
    pthread_join(thread, NULL);
    CHECK(!grasping.bad);
    munmap(grasping.at, 2 * PAGE);
    close(grasping.from);
    close(file);
}

/* Maps a file when told to, and reads its last page after a new hole. */
struct late {
    int file;
    atomic_int step;
    int bad;
};

static void *map_late(void *argument) {
    struct late *late = argument;
    while (late->step != 1) sched_yield();
    char *at = mmap(NULL, MUCH, PROT_READ, MAP_SHARED, late->file, 0);
    volatile char *last = at + MUCH - PAGE;
    (void)*last;
    late->step = 2;
    while (late->step != 3) sched_yield();
    late->bad = *last != 9;
    munmap(at, MUCH);
    return NULL;
}

/* A process that maps a file while a hole is punched sees the hole. */
static void hole_under_mapping(void) {
    struct late late = { .file = memory_file(MUCH) };
    char byte = 9, page[PAGE];
    memset(page, 1, sizeof page);
    for (int i = 0; i < 4 && !late.bad; i++) {
        pthread_t thread;
        for (off_t at = 0; at < MUCH; at += PAGE)
            if (pwrite(late.file, page, PAGE, at) != PAGE)
                late.bad = -1;
        late.step = 0;
        CHECK(pthread_create(&thread, NULL, map_late, &late) == 0);
        late.step = 1;
        sched_yield();
        CHECK(fallocate(late.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, MUCH) == 0);
        while (late.step != 2) sched_yield();
        CHECK(pwrite(late.file, &byte, 1, MUCH - PAGE) == 1);
        late.step = 3;
        pthread_join(thread, NULL);
    }
    CHECK(!late.bad);
    close(late.file);
}

/* Truncates a file when the other thread is about to fork. */
struct cutter {
    int file, done, wait;
    atomic_int go;
};

static void *cut(void *argument) {
    struct cutter *cutter = argument;
    while (!cutter->go) sched_yield();
    for (volatile int i = 0; i < cutter->wait; i++);
    CHECK(ftruncate(cutter->file, 0) == 0);
    CHECK(write(cutter->done, "", 1) == 1);
    return NULL;
}

/* Pages truncated during a fork disappear from the child, too, and so do private copies of them. */
static void cut_under_fork(void) {
    /* In the lower half what takes long, in the upper the file. */
    char *at = filled(MUCH + PAGE);
    for (int i = 0; i < 8; i++) {
        int ends[2], status = 0;
        pthread_t thread;
        struct cutter cutter = { .file = memory_file(PAGE), .wait = i * 8000 };
        CHECK(pipe(ends) == 0);
        cutter.done = ends[1];
        CHECK(mmap(at + MUCH, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, cutter.file, 0) ==
              at + MUCH);
        at[MUCH] = 7;
        CHECK(pthread_create(&thread, NULL, cut, &cutter) == 0);
        cutter.go = 1;
        pid_t child = fork();
        if (child == 0) {
            char byte;
            if (read(ends[0], &byte, 1) != 1) _exit(2);
            _exit(try_byte(at + MUCH, -1) != SIGBUS);
        }
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        pthread_join(thread, NULL);
        close(ends[0]);
        close(ends[1]);
        close(cutter.file);
    }
    munmap(at, MUCH + PAGE);
}

/* A process that is killed during a long write does not complete it. */
static void killed_writer(void) {
    char *from = filled(MUCH);
    int stopped = 0;
    for (int i = 0; i < 20 && !stopped; i++) {
        int file = memory_file(0), status = 0;
        struct stat stat = { 0 };
        pid_t child = fork();
        if (child == 0) _exit(write(file, from, MUCH) != MUCH);
        while (fstat(file, &stat) == 0 && stat.st_size == 0) sched_yield();
        kill(child, SIGKILL);
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(fstat(file, &stat) == 0);
        stopped = stat.st_size < MUCH;
        close(file);
    }
    CHECK(stopped);
    munmap(from, MUCH);
}

/* MADV_REMOVE skips holes and reports ENOMEM at the end. */
static void remove_over_hole(void) {
    int file = memory_file(3 * PAGE);
    char *at = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), byte = 1;
    CHECK(at != MAP_FAILED);
    at[0] = at[PAGE] = at[2 * PAGE] = 1;
    CHECK(munmap(at + PAGE, PAGE) == 0);
    CHECK(madvise(at, 3 * PAGE, MADV_REMOVE) == -1 && errno == ENOMEM);
    CHECK(at[0] == 0 && at[2 * PAGE] == 0);
    CHECK(pread(file, &byte, 1, PAGE) == 1 && byte == 1);
    munmap(at, 3 * PAGE);
    close(file);
}

/* If mprotect fails because there would be too many mappings, nothing has changed. */
static void protect_refused(void) {
    long most = 65530, pages, i;
    FILE *setting = fopen("/proc/sys/vm/max_map_count", "r");
    if (setting) {
        CHECK(fscanf(setting, "%ld", &most) == 1);
        fclose(setting);
    }
    pages = most + 4;
    char *at = mmap(NULL, pages * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    /* Pages in a mapping of their own, of which the middle one is to get another protection. */
    char *whole = mmap(NULL, 5 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED && whole != MAP_FAILED);
    memset(whole, 1, 5 * PAGE);
    CHECK(mprotect(whole, 5 * PAGE, PROT_NONE) == 0);
    for (i = 1; i < pages; i += 2) if (mprotect(at + i * PAGE, PAGE, PROT_READ) != 0) break;
    CHECK(i < pages && errno == ENOMEM);
    CHECK(mprotect(whole + 2 * PAGE, PAGE, PROT_READ) == -1 && errno == ENOMEM);
    CHECK(try_byte(whole + 2 * PAGE, -1) == SIGSEGV);
    munmap(at, pages * PAGE);
    CHECK(mprotect(whole + 2 * PAGE, PAGE, PROT_READ) == 0 && whole[2 * PAGE] == 1);
    munmap(whole, 5 * PAGE);
}

/* With a limit of 0, mlock fails with EPERM, not ENOMEM. */
static void nothing_locked(void) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = { 0, 0 };
        failed = made = 0;
        CHECK(setrlimit(RLIMIT_MEMLOCK, &none) == 0 && setresuid(1000, 1000, 1000) == 0);
        CHECK(mlockall(0) == -1 && errno == EINVAL);
        CHECK(mlockall(MCL_FUTURE) == -1 && errno == EPERM);
        CHECK(mlockall(MCL_CURRENT) == -1 && errno == EPERM);
        CHECK(munlockall() == 0);
        CHECK(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0) == MAP_FAILED &&
              errno == EPERM);
        _exit(failed);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    child = fork();
    if (child == 0) {
        struct rlimit some = { PAGE, PAGE };
        failed = made = 0;
        CHECK(setrlimit(RLIMIT_MEMLOCK, &some) == 0 && setresuid(1000, 1000, 1000) == 0);
        CHECK(mlockall(MCL_CURRENT) == -1 && errno == ENOMEM);
        CHECK(mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0) ==
                  MAP_FAILED &&
              errno == EAGAIN);
        CHECK(mlockall(MCL_FUTURE) == 0);
        CHECK(mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED &&
              errno == EAGAIN);
        _exit(failed);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* Nothing is mapped without a length. */
static void no_length(void) {
    CHECK(mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == EINVAL);
}

int main(void) {
    struct sigaction action = { .sa_handler = refused };
    setvbuf(stdout, NULL, _IONBF, 0);
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    no_length();
    unmapped_for_all();
    cut_under_faults();
    hole_under_mapping();
    cut_under_fork();
    killed_writer();
    remove_over_hole();
    protect_refused();
    nothing_locked();
    return report();
}
