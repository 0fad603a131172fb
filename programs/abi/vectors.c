/*
 * arm64's scalable vectors (SVE), beyond what Linux's own tests ask: that registers are kept by faults,
 * preemption, moves between processors and handlers, in threads with vectors of different lengths at the same
 * time; that a system call leaves the lower parts of vectors; which lengths threads, children and programs
 * begin with. Called by tools/limen/src/test/programs.rs, as root; it is its own helper. Without SVE there is
 * nothing to check.
 *   vectors
 *   vectors --length    exits with the quadwords of its vectors
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "common.h"

#ifdef __aarch64__

#define SVE (1UL << 22)
#define SET_LENGTH 50
#define GET_LENGTH 51
#define INHERIT (1UL << 17)
#define ON_EXEC (1UL << 18)
#define LONGEST 256
#define DEFAULT "/proc/sys/abi/sve_default_vector_length"

#define EIGHT(op, kind, at, a, b, c, d, e, f, g, h)                                                         \
    op " " kind #a ", [" at ", #" #a ", mul vl]\n" op " " kind #b ", [" at ", #" #b ", mul vl]\n"           \
    op " " kind #c ", [" at ", #" #c ", mul vl]\n" op " " kind #d ", [" at ", #" #d ", mul vl]\n"           \
    op " " kind #e ", [" at ", #" #e ", mul vl]\n" op " " kind #f ", [" at ", #" #f ", mul vl]\n"           \
    op " " kind #g ", [" at ", #" #g ", mul vl]\n" op " " kind #h ", [" at ", #" #h ", mul vl]\n"
#define VECTORS(op, at)                                                                                      \
    EIGHT(op, "z", at, 0, 1, 2, 3, 4, 5, 6, 7) EIGHT(op, "z", at, 8, 9, 10, 11, 12, 13, 14, 15)             \
    EIGHT(op, "z", at, 16, 17, 18, 19, 20, 21, 22, 23) EIGHT(op, "z", at, 24, 25, 26, 27, 28, 29, 30, 31)
#define PREDICATES(op, at)                                                                                   \
    EIGHT(op, "p", at, 0, 1, 2, 3, 4, 5, 6, 7) EIGHT(op, "p", at, 8, 9, 10, 11, 12, 13, 14, 15)

/*
 * hold: loads all registers from x0; x2 times: counts to 1,000, and if x3 is not null stores there and adds
 * x4 to it. Then stores all registers to x1. across: makes the system call `getpid` in between.
 */
#define BEGIN                                                                                                \
    "stp d8, d9, [sp, #-64]!\n stp d10, d11, [sp, #16]\n stp d12, d13, [sp, #32]\n"                         \
    "stp d14, d15, [sp, #48]\n"                                                                             \
    "addvl x5, x0, #16\n addvl x5, x5, #16\n ldr p0, [x5, #16, mul vl]\n wrffr p0.b\n"                       \
    PREDICATES("ldr", "x5") VECTORS("ldr", "x0")
#define END                                                                                                  \
    "addvl x5, x1, #16\n addvl x5, x5, #16\n" VECTORS("str", "x1") PREDICATES("str", "x5")                   \
    "rdffr p0.b\n str p0, [x5, #16, mul vl]\n"                                                               \
    "ldp d10, d11, [sp, #16]\n ldp d12, d13, [sp, #32]\n ldp d14, d15, [sp, #48]\n"                        \
    "ldp d8, d9, [sp], #64\n ret\n"
__asm__(".arch_extension sve\n .text\n .type hold, %function\n hold:\n" BEGIN
        "1: mov x6, #1000\n 2: subs x6, x6, #1\n b.ne 2b\n cbz x3, 3f\n strb wzr, [x3]\n add x3, x3, x4\n"
        "3: subs x2, x2, #1\n b.ne 1b\n" END " .type across, %function\n across:\n" BEGIN
        "mov x8, #172\n svc #0\n" END);
void hold(const void *in, void *out, unsigned long rounds, char *touched, unsigned long step);
void across(const void *in, void *out);

static size_t size_of(size_t length) { return 32 * length + 17 * length / 8; }

/* All registers, as `hold` takes them: any bits, but FFR has ones below zeros. */
struct registers { unsigned char bytes[32 * LONGEST + 17 * LONGEST / 8]; };

static void fill(struct registers *to, size_t length, unsigned seed) {
    size_t ffr = size_of(length) - length / 8;
    for (size_t i = 0; i < sizeof to->bytes; i++) {
        seed = seed * 1103515245 + 12345;
        to->bytes[i] = seed >> 16;
    }
    memset(to->bytes + ffr, 0, length / 8);
    memset(to->bytes + ffr, 0xff, seed % (length / 8 + 1));
}

static int same(const struct registers *a, const struct registers *b, size_t length) {
    return memcmp(a->bytes, b->bytes, size_of(length)) == 0;
}

static long set_length(unsigned long length) { return prctl(SET_LENGTH, length, 0, 0, 0); }
static size_t length_now(void) { return prctl(GET_LENGTH, 0, 0, 0, 0) & 0xffff; }

/* The lengths that there are. */
static size_t lengths[LONGEST / 16];
static int count;

static void find_lengths(void) {
    for (size_t length = LONGEST; length >= 16; length -= 16) {
        long got = set_length(length);
        CHECK(got > 0 && (got & 0xffff) <= LONGEST);
        if (got <= 0 || (size_t)(got & 0xffff) > length) break;
        length = got & 0xffff;
        lengths[count++] = length;
    }
    CHECK(count > 0);
    CHECK(set_length(0) == -1 && errno == EINVAL);
    CHECK(set_length(24) == -1 && errno == EINVAL);
    CHECK(set_length(8208) == -1 && errno == EINVAL);
    CHECK(set_length(16 | 1UL << 16) == -1 && errno == EINVAL);
    CHECK(set_length(16 | 1UL << 19) == -1 && errno == EINVAL);
    CHECK(set_length(8192) == (long)lengths[0]);
}

static void calls(void) {
    static struct registers in, out;
    for (int i = 0; i < count; i++) {
        size_t length = lengths[i], wrong = 0;
        CHECK(set_length(length) == (long)length);
        fill(&in, length, i + 1);
        memset(&out, 0x55, sizeof out);
        across(&in, &out);
        for (size_t at = 0; at < size_of(length); at++) {
            int lower = at < 32 * length && at % length < 16;
            wrong += out.bytes[at] != (lower ? in.bytes[at] : 0);
        }
        CHECK(wrong == 0);
    }
}

enum { THREADS = 8, ROUNDS = 60, PAGES = 16 };
static volatile int over;
/* A file of so many pages: who stores to a private mapping of it gets copies. */
static int content;
static struct worker {
    pthread_t thread;
    size_t length;
    volatile pid_t tid;
    int wrong, rounds, number;
} workers[THREADS];

static void *work(void *arg) {
    struct worker *own = arg;
    struct registers in, out;
    size_t page = sysconf(_SC_PAGESIZE);
    /* A thread begins with its maker's. */
    own->wrong += length_now() != lengths[0];
    own->wrong += set_length(own->length) != (long)own->length;
    own->tid = syscall(SYS_gettid);
    for (int n = 0; n < ROUNDS; n++) {
        char *fresh = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE, content, 0);
        own->wrong += fresh == MAP_FAILED;
        fill(&in, own->length, own->number * 1000 + n);
        memset(&out, 0, sizeof out);
        hold(&in, &out, PAGES, fresh == MAP_FAILED ? NULL : fresh, page);
        own->wrong += !same(&in, &out, own->length);
        hold(&in, &out, 300, NULL, 0);
        own->wrong += !same(&in, &out, own->length);
        if (fresh != MAP_FAILED) munmap(fresh, PAGES * page);
        own->rounds++;
    }
    return NULL;
}

/* Moves the threads from processor to processor. */
static void *move(void *arg) {
    (void)arg;
    for (unsigned n = 0; !over; n++) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(n / THREADS % (unsigned)sysconf(_SC_NPROCESSORS_ONLN), &one);
        pid_t tid = workers[n % THREADS].tid;
        if (tid) sched_setaffinity(tid, sizeof one, &one);
        pause_ms(1);
    }
    return NULL;
}

static void threads(void) {
    pthread_t mover;
    content = memfd_create("content", 0);
    for (int n = 0; n < PAGES; n++) {
        static char page[65536];
        CHECK(write(content, page, sysconf(_SC_PAGESIZE)) == sysconf(_SC_PAGESIZE));
    }
    CHECK(set_length(lengths[0]) == (long)lengths[0]);
    for (int n = 0; n < THREADS; n++) {
        workers[n].length = lengths[n % count];
        workers[n].number = n;
        CHECK(pthread_create(&workers[n].thread, NULL, work, &workers[n]) == 0);
    }
    CHECK(pthread_create(&mover, NULL, move, NULL) == 0);
    for (int n = 0; n < THREADS; n++) {
        CHECK(pthread_join(workers[n].thread, NULL) == 0);
        CHECK(workers[n].wrong == 0 && workers[n].rounds == ROUNDS);
    }
    over = 1;
    CHECK(pthread_join(mover, NULL) == 0);
    CHECK(length_now() == lengths[0]);
}

static volatile int handled;

/* Has other registers, with and without a system call behind. */
static void handler(int signal) {
    static struct registers in, out;
    (void)signal;
    fill(&in, length_now(), handled);
    if (handled % 2) across(&in, &out);
    hold(&in, &out, 1, NULL, 0);
    handled++;
}

static void handlers(void) {
    static struct registers in, out;
    struct sigaction action = {.sa_handler = handler};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    for (int i = 0; i < count; i++) {
        size_t length = lengths[i];
        CHECK(set_length(length) == (long)length);
        struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
        int before = handled, wrong = 0;
        CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
        for (int n = 0; n < 10000 && handled < before + 10; n++) {
            fill(&in, length, n);
            hold(&in, &out, 1000, NULL, 0);
            wrong += !same(&in, &out, length);
        }
        CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
        CHECK(wrong == 0 && handled >= before + 10);
    }
}

/* The length of a program that a child starts, which has called PR_SVE_SET_VL with `arg` before, if it is not
   0; the child's own length is `own`. */
static size_t after_exec(unsigned long arg, size_t own) {
    pid_t child = fork();
    if (child == 0) {
        if (arg && set_length(arg) < 0) _exit(101);
        if (length_now() != own) _exit(102);
        execl("/proc/self/exe", "vectors", "--length", NULL);
        _exit(103);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) * 16 : 0;
}

static int write_default(const char *text) {
    int fd = open(DEFAULT, O_WRONLY);
    int done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
    int error = errno;
    if (fd >= 0) close(fd);
    errno = error;
    return done;
}

static size_t read_default(void) {
    char text[32] = "";
    int fd = open(DEFAULT, O_RDONLY);
    if (fd < 0 || read(fd, text, sizeof text - 1) < 0) return 0;
    close(fd);
    return strtoul(text, NULL, 10);
}

static void programs(void) {
    size_t most = lengths[0], least = lengths[count - 1], first = read_default();
    CHECK(first >= least && first <= 64);
    CHECK(set_length(most) == (long)most);
    CHECK(after_exec(0, most) == first);
    CHECK(after_exec(least, least) == first);
    CHECK(after_exec(least | INHERIT, least) == least);
    CHECK(after_exec(least | ON_EXEC, most) == least);
    CHECK(set_length(least | ON_EXEC | INHERIT) == (long)(least | INHERIT));
    CHECK(prctl(GET_LENGTH, 0, 0, 0, 0) == (long)(most | INHERIT));
    CHECK(after_exec(0, most) == least);
    CHECK(set_length(most) == (long)most);
    CHECK(after_exec(0, most) == first);
    char text[32];
    snprintf(text, sizeof text, "%zu", least);
    CHECK(write_default(text) == 0 && read_default() == least);
    CHECK(after_exec(0, most) == least);
    CHECK(write_default("17") == -1 && errno == EINVAL);
    CHECK(write_default("0") == -1 && errno == EINVAL);
    CHECK(write_default("-2") == -1 && errno == EINVAL);
    CHECK(write_default("-1") == 0 && read_default() == most);
    CHECK(after_exec(0, most) == most);
    snprintf(text, sizeof text, "%zu", first);
    CHECK(write_default(text) == 0 && read_default() == first);
}

/* A tracer sets nothing but a header, with another length for the next program: the tracee, which has not
   used SVE, keeps its vectors. */
static void traced(void) {
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        set_length(LONGEST);
        raise(SIGSTOP);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
    struct user_fpsimd_struct in = {.fpsr = 0}, out;
    for (int n = 0; n < 32; n++) in.vregs[n] = ((__uint128_t)(n + 1) << 64) + n + 100;
    struct iovec simd = {&in, sizeof in};
    CHECK(ptrace(PTRACE_SETREGSET, child, NT_PRFPREG, &simd) == 0);
    struct header {
        uint32_t size, most;
        uint16_t length, longest, flags, unused;
    } head = {.size = 16, .length = 16, .flags = 1 | 4};
    struct iovec vectors = {&head, sizeof head};
    CHECK(ptrace(PTRACE_SETREGSET, child, NT_ARM_SVE, &vectors) == 0);
    vectors.iov_len = sizeof head;
    CHECK(ptrace(PTRACE_GETREGSET, child, NT_ARM_SVE, &vectors) == 0);
    CHECK((head.flags & 1) && head.length == lengths[0] && head.size > size_of(head.length));
    simd.iov_base = &out;
    CHECK(ptrace(PTRACE_GETREGSET, child, NT_PRFPREG, &simd) == 0);
    CHECK(memcmp(in.vregs, out.vregs, sizeof in.vregs) == 0);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--length") == 0) return length_now() / 16;
    if (!(getauxval(AT_HWCAP) & SVE)) {
        CHECK(set_length(16) == -1 && errno == EINVAL);
        CHECK(prctl(GET_LENGTH, 0, 0, 0, 0) == -1 && errno == EINVAL);
        CHECK(access(DEFAULT, F_OK) == -1);
        return report();
    }
    find_lengths();
    calls();
    threads();
    handlers();
    traced();
    programs();
    return report();
}

#else

int main(void) { return report(); }

#endif
