/* System calls that do nearly nothing: the cost of entering and leaving the kernel. */
#define _GNU_SOURCE
#include "bench.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A loop of two instructions: shows that one instruction is one tick of the clock. */
static void calibrate(long n) {
    (void)n;
    MEASURE(1) {
        long count = 1000000;
#if defined(__x86_64__)
        __asm__ volatile("1: sub $1, %0\n jnz 1b" : "+r"(count));
#elif defined(__aarch64__)
        /* A plain subtraction and a branch on the register, so that it is two here too. */
        __asm__ volatile("1: sub %0, %0, #1\n cbnz %0, 1b" : "+r"(count));
#elif defined(__arm__)
        __asm__ volatile("1: subs %0, %0, #1\n bne 1b" : "+r"(count) : : "cc");
#elif defined(__powerpc64__)
        __asm__ volatile("1: addic. %0, %0, -1\n bne 1b" : "+r"(count) : : "cr0", "xer");
#else
#error "programs/bench/calls.c: add a loop of two instructions for this architecture"
#endif
    }
}

static void getppid_call(long n) {
    (void)n;
    MEASURE(2000) syscall(SYS_getppid);
}

static void getppid_rseq(long n) {
    register_rseq();
    getppid_call(n);
}

static void gettid_call(long n) {
    (void)n;
    MEASURE(2000) syscall(SYS_gettid);
}

static void enosys(long n) {
    (void)n;
    MEASURE(2000) syscall(1000);
}

static void read_zero(long n) {
    char byte;
    int fd = open("/dev/zero", O_RDONLY);
    (void)n;
    MUST(fd >= 0);
    MEASURE(2000) MUST(read(fd, &byte, 1) == 1);
}

static void share(unsigned long what) {
    int fds[2];
    char byte;
    MUST(pipe(fds) == 0);
    /* Not a thread of this process: the C library counts on being alone in its calls. */
    pid_t child = (pid_t)syscall(SYS_clone, what | SIGCHLD, 0, 0, 0, 0);
    MUST(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int fd = open("/dev/zero", O_RDONLY);
        MUST(read(fd, &byte, 1) == 1 && close(fd) == 0 && write(fds[1], &byte, 1) == 1);
        for (;;) pause();
    }
    MUST(read(fds[0], &byte, 1) == 1);
    close(fds[0]);
    close(fds[1]);
}

void share_descriptors(void) { share(CLONE_FILES); }

void share_directories(void) { share(CLONE_FILES | CLONE_FS); }

static void read_zero_shared(long n) {
    share_descriptors();
    read_zero(n);
}

static void write_null(long n) {
    char byte = 0;
    int fd = open("/dev/null", O_WRONLY);
    (void)n;
    MUST(fd >= 0);
    MEASURE(2000) MUST(write(fd, &byte, 1) == 1);
}

static void yield_alone(long n) {
    (void)n;
    MEASURE(2000) sched_yield();
}

static void clock_gettime_vdso(long n) {
    struct timespec t;
    (void)n;
    MEASURE(2000) clock_gettime(CLOCK_MONOTONIC, &t);
}

const struct row call_rows[] = {
    {"calibrate", calibrate, 0},
    {"getppid", getppid_call, 0},
    {"getppid-rseq", getppid_rseq, 0},
    {"gettid", gettid_call, 0},
    {"enosys", enosys, 0},
    {"read-zero", read_zero, 0},
    {"read-zero-shared", read_zero_shared, 0},
    {"write-null", write_null, 0},
    {"yield-alone", yield_alone, 0},
    {"clock-gettime", clock_gettime_vdso, 0},
    {0, 0, 0},
};
