// Restartable sequences as a program sees them: registration and its errors, identifiers after moves between
// CPUs, aborts by preemption, migration, signals and membarrier, fork, exec and unregistration, a program
// that overwrites cpu_id_start, time-slice extensions. Runs on Linux, too. "rseq [-v]" runs all cases; the
// exit status is the number of failures. The C library must not register an area: main runs the program again
// with GLIBC_TUNABLES set if it did.

#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef __NR_rseq
#error no rseq
#endif
#define NR_SLICE_YIELD 471
#define PR_SLICE 79
#define AT_FEATURE_SIZE 27
#define AT_ALIGNMENT 28

#if defined(__x86_64__)
#define SIG 0x53053053u
#elif defined(__aarch64__)
#define SIG 0xd428bc00u
#elif defined(__arm__)
#define SIG 0xe7f5def3u
#elif defined(__powerpc64__)
#define SIG 0x0fe5000bu
#endif

struct area {
    uint32_t cpu_id_start, cpu_id;
    uint64_t rseq_cs;
    uint32_t flags, node_id, mm_cid;
    uint8_t request, granted;
    uint16_t reserved;
    uint8_t more[32];
} __attribute__((aligned(64)));

struct section {
    uint32_t version, flags;
    uint64_t start, length, abort;
} __attribute__((aligned(32)));

static int failed, verbose, cpus, extended;
static const char *name;

static void fail(const char *what, long got, long wanted)
{
    printf("%s: %s: %ld (%#lx), not %ld\n", name, what, got, got, wanted);
    failed++;
}

#define CHECK(what, got, wanted)                           \
    do {                                                   \
        long got_ = (long)(got), wanted_ = (long)(wanted); \
        if (got_ != wanted_)                               \
            fail(what, got_, wanted_);                     \
    } while (0)

// The result, or the negative errno.
static long rseq(volatile void *area, uint32_t len, int flags, uint32_t sig)
{
    long r = syscall(__NR_rseq, area, len, flags, sig);
    return r < 0 ? -errno : r;
}

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    CHECK("sched_setaffinity", sched_setaffinity(0, sizeof set, &set), 0);
}

static void unpin(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < cpus; i++)
        CPU_SET(i, &set);
    CHECK("sched_setaffinity", sched_setaffinity(0, sizeof set, &set), 0);
}

static void nap(long us)
{
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&t, 0);
}

// A critical section that spins until `*go` is not zero, or is aborted. Returns 1 if it was aborted, 0 if it
// reached its end. Sets `*in` to 1 inside.
static int spin(volatile struct area *area, volatile uint32_t *in, volatile uint32_t *go);

#if defined(__x86_64__)
__asm__(".text\n.globl spin_asm, spin_start, spin_end, spin_abort\n.type spin_asm,@function\nspin_asm:\n"
        "  movq %rcx, 8(%rdi)\n"
        "spin_start:\n  movl $1, (%rsi)\n1: cmpl $0, (%rdx)\n  je 1b\nspin_end:\n  xorl %eax, %eax\n  ret\n"
        "  .byte 0x0f, 0xb9, 0x3d\n  .long 0x53053053\nspin_abort:\n  movl $1, %eax\n  ret\n");
#elif defined(__aarch64__)
__asm__(".text\n.globl spin_asm, spin_start, spin_end, spin_abort\n.type spin_asm,%function\nspin_asm:\n"
        "  str x3, [x0, #8]\n"
        "spin_start:\n  mov w4, #1\n  str w4, [x1]\n1: ldr w4, [x2]\n  cbz w4, 1b\nspin_end:\n  mov w0, #0\n "
        " ret\n"
        "  .inst 0xd428bc00\nspin_abort:\n  mov w0, #1\n  ret\n");
#elif defined(__arm__)
__asm__(
    ".text\n.arm\n.globl spin_asm, spin_start, spin_end, spin_abort\n.type spin_asm,%function\nspin_asm:\n"
    "  mov r12, #0\n  str r12, [r0, #12]\n  str r3, [r0, #8]\n"
    "spin_start:\n  mov r12, #1\n  str r12, [r1]\n1: ldr r12, [r2]\n  cmp r12, #0\n  beq 1b\nspin_end:\n  "
    "mov r0, #0\n  bx lr\n"
    "  .word 0xe7f5def3\nspin_abort:\n  mov r0, #1\n  bx lr\n");
#elif defined(__powerpc64__)
__asm__(".text\n.globl spin_asm, spin_start, spin_end, spin_abort\n.type spin_asm,@function\nspin_asm:\n"
        "  std 6, 8(3)\n"
        "spin_start:\n  li 7, 1\n  stw 7, 0(4)\n1: lwz 7, 0(5)\n  cmpwi 7, 0\n  beq 1b\nspin_end:\n  li 3, "
        "0\n  blr\n"
        "  .long 0x0fe5000b\nspin_abort:\n  li 3, 1\n  blr\n");
#endif

extern int spin_asm(volatile struct area *, volatile uint32_t *, volatile uint32_t *, struct section *);
extern char spin_start[], spin_end[], spin_abort[];

static __thread struct section spinning;

static int spin(volatile struct area *area, volatile uint32_t *in, volatile uint32_t *go)
{
    spinning.version = spinning.flags = 0;
    spinning.start = (uintptr_t)spin_start;
    spinning.length = spin_end - spin_start;
    spinning.abort = (uintptr_t)spin_abort;
    return spin_asm(area, in, go, &spinning);
}

static struct area main_area;

// --- registration

static void errors(uint32_t len)
{
    static struct area areas[3];
    char *at = (char *)&areas[0];
    CHECK("probe", rseq(0, 0, 0, 0), -EINVAL);
    CHECK("unknown flag", rseq(at, len, 4, SIG), -EINVAL);
    CHECK("unregister with another flag", rseq(at, len, 3, SIG), -EINVAL);
    CHECK("unregister what is not", rseq(at, len, 1, SIG), -EINVAL);
    CHECK("too short", rseq(at, 31, 0, SIG), -EINVAL);
    CHECK("length 0", rseq(at, 0, 0, SIG), -EINVAL);
    CHECK("not aligned", rseq(at + 8, len, 0, SIG), -EINVAL);
    if (len > 32)
        CHECK("aligned for 32 bytes only", rseq(at + 32, len, 0, SIG), -EINVAL);
    CHECK("not user memory", rseq((void *)(-4096ul), len, 0, SIG), -EFAULT);
    void *hole = mmap(0, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK("no access", rseq(hole, len, 0, SIG), -EFAULT);
    areas[0].rseq_cs = 1;
    areas[0].flags = 0;
    CHECK("register", rseq(at, len, 0, SIG), 0);
    CHECK("rseq_cs", areas[0].rseq_cs, 0);
    CHECK("again", rseq(at, len, 0, SIG), -EBUSY);
    CHECK("again, other signature", rseq(at, len, 0, SIG + 1), -EPERM);
    CHECK("again, other length", rseq(at, len + 1, 0, SIG), -EINVAL);
    CHECK("another area", rseq(&areas[1], len, 0, SIG), -EINVAL);
    CHECK("unregister, other length", rseq(at, len + 32, 1, SIG), -EINVAL);
    CHECK("unregister, other area", rseq(&areas[1], len, 1, SIG), -EINVAL);
    CHECK("unregister, other signature", rseq(at, len, 1, SIG + 1), -EPERM);
    CHECK("cpu_id", areas[0].cpu_id < (uint32_t)cpus, 1);
    CHECK("cpu_id_start", areas[0].cpu_id_start, areas[0].cpu_id);
    CHECK("unregister", rseq(at, len, 1, SIG), 0);
    CHECK("cpu_id afterwards", areas[0].cpu_id, 0xffffffffu);
    CHECK("cpu_id_start afterwards", areas[0].cpu_id_start, 0);
    CHECK("mm_cid afterwards", areas[0].mm_cid, 0);
    CHECK("unregister again", rseq(at, len, 1, SIG), -EINVAL);
    nap(1000);
    CHECK("cpu_id still", areas[0].cpu_id, 0xffffffffu);
    munmap(hole, 8192);
}

// --- identifiers

static void moves(volatile struct area *area)
{
    for (int round = 0; round < 3; round++)
        for (int cpu = 0; cpu < cpus; cpu++) {
            pin(cpu);
            CHECK("cpu_id after a move", area->cpu_id, cpu);
            CHECK("cpu_id_start after a move", area->cpu_id_start, cpu);
            CHECK("getcpu", sched_getcpu(), cpu);
            CHECK("node_id", area->node_id, 0);
            CHECK("mm_cid", area->mm_cid < (uint32_t)cpus, 1);
        }
    unpin();
}

// Concurrency ids: threads that run at the same time have different ids, all below the number of CPUs.
static uint32_t owner[64];
static volatile uint32_t stop, clashes, too_large;
static uint32_t area_len;

static void *cid_thread(void *unused)
{
    (void)unused;
    struct area *area = aligned_alloc(64, sizeof *area);
    memset(area, 0, sizeof *area);
    volatile struct area *a = area;
    if (rseq(area, area_len, 0, SIG) != 0)
        __atomic_fetch_add(&clashes, 1000000, __ATOMIC_RELAXED);
    // Enters the slot of its concurrency id and checks that no other thread is in it. This only counts if the
    // thread was not preempted: same CPU and same id throughout, which the kernel would have changed.
    for (uint32_t n = 0; !stop; n++) {
        uint32_t cid = a->mm_cid;
        if (cid >= (uint32_t)cpus)
            __atomic_fetch_add(&too_large, 1, __ATOMIC_RELAXED);
        if (n % 512 == 0)
            sched_yield();
    }
    rseq(area, area_len, 1, SIG);
    free(area);
    return 0;
}

static void cids(uint32_t len)
{
    pthread_t threads[12];
    memset(owner, 0, sizeof owner);
    stop = clashes = too_large = 0;
    area_len = len;
    for (int i = 0; i < 12; i++)
        pthread_create(&threads[i], 0, cid_thread, 0);
    nap(200000);
    stop = 1;
    for (int i = 0; i < 12; i++)
        pthread_join(threads[i], 0);
    CHECK("threads that could not register, or clashes", clashes, 0);
    CHECK("concurrency ids beyond the CPUs", too_large, 0);
}

// --- aborts

struct victim {
    pthread_t thread;
    volatile uint32_t in, go, done, aborted, handled, tid;
    uint32_t len;
    int cpu;
    volatile uint64_t cs_in_handler;
    volatile uintptr_t ip_seen;
};
static __thread volatile struct area *own_area;
static __thread struct victim *own_victim;

static void on_signal(int sig)
{
    (void)sig;
    if (own_victim) {
        own_victim->cs_in_handler = own_area->rseq_cs;
        own_victim->handled++;
    }
}

static void *victim_thread(void *data)
{
    struct victim *v = data;
    struct area *area = aligned_alloc(64, sizeof *area);
    memset(area, 0, sizeof *area);
    own_area = area;
    own_victim = v;
    v->tid = syscall(SYS_gettid);
    if (v->cpu >= 0)
        pin(v->cpu);
    CHECK("register", rseq(area, v->len, 0, SIG), 0);
    v->aborted = spin(area, &v->in, &v->go);
    CHECK("rseq_cs after an abort", area->rseq_cs, v->aborted ? 0 : (long)(uintptr_t)&spinning);
    v->done = 1;
    // The thread must still exist when another thread sends it a signal, even if a preemption aborted it
    // first.
    while (!v->go)
        nap(1000);
    CHECK("unregister", rseq(area, v->len, 1, SIG), 0);
    free(area);
    return 0;
}

static void begin(struct victim *v, uint32_t len, int cpu)
{
    memset(v, 0, sizeof *v);
    v->len = len;
    v->cpu = cpu;
    pthread_create(&v->thread, 0, victim_thread, v);
    while (!v->in)
        sched_yield();
}

// Waits up to two seconds for the victim to leave its section; then sets `go`.
static void end(struct victim *v)
{
    for (int i = 0; i < 2000 && !v->done; i++)
        nap(1000);
    v->go = 1;
    pthread_join(v->thread, 0);
}

static void abort_by_signal(uint32_t len)
{
    struct victim v;
    begin(&v, len, -1);
    // A preemption may have aborted it already.
    pthread_kill(v.thread, SIGUSR1);
    for (int i = 0; i < 2000 && !v.handled; i++)
        nap(1000);
    end(&v);
    CHECK("aborted by a signal", v.aborted, 1);
    CHECK("handled", v.handled, 1);
    CHECK("rseq_cs in the handler", v.cs_in_handler, 0);
}

static void abort_by_preemption(uint32_t len)
{
    struct victim v;
    pin(0);
    begin(&v, len, 0);
    // Both threads are on one CPU: this thread runs, so the other has been preempted. The nap lets the other
    // run.
    nap(20000);
    for (volatile int i = 0; i < 100000; i++)
        ;
    nap(20000);
    CHECK("out of its section", v.done, 1);
    end(&v);
    unpin();
    CHECK("aborted by preemption", v.aborted, 1);
}

static void abort_by_migration(uint32_t len)
{
    struct victim v;
    if (cpus < 2)
        return;
    pin(0);
    begin(&v, len, 1);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpus - 1 > 1 ? 2 : 0, &set);
    CHECK("sched_setaffinity", sched_setaffinity(v.tid, sizeof set, &set), 0);
    end(&v);
    unpin();
    CHECK("aborted by migration", v.aborted, 1);
}

static long membarrier(int cmd, int flags, int cpu)
{
    long r = syscall(SYS_membarrier, cmd, flags, cpu);
    return r < 0 ? -errno : r;
}

static void abort_by_membarrier(uint32_t len)
{
    struct victim v;
    long has = membarrier(0, 0, 0);
    if (cpus < 2)
        return;
    if (has < 0 || !(has & 128)) {
        printf("%s: membarrier does not know of rseq, left out\n", name);
        return;
    }
    CHECK("register membarrier", membarrier(256, 0, 0), 0);
    pin(0);
    begin(&v, len, 1);
    CHECK("membarrier", membarrier(128, 0, 0), 0);
    end(&v);
    CHECK("aborted by membarrier", v.aborted, 1);
    begin(&v, len, 1);
    CHECK("membarrier on one CPU", membarrier(128, 1, 1), 0);
    end(&v);
    CHECK("aborted by membarrier on its CPU", v.aborted, 1);
    unpin();
}

// A section with an invalid descriptor, or whose abort handler has no signature, kills the process.
static int dies(uint32_t len, int how)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        static struct area a;
        static struct section s;
        static volatile uint32_t in, go;
        signal(SIGSEGV, SIG_DFL);
        signal(SIGALRM, SIG_IGN);
        if (rseq(&a, len, 0, how == 0 ? SIG + 1 : SIG) != 0)
            _exit(2);
        s.start = (uintptr_t)spin_start;
        s.length = spin_end - spin_start;
        s.abort = (uintptr_t)spin_abort;
        if (how == 1)
            s.version = 1;
        if (how == 2)
            s.abort = (uintptr_t)spin_start;
        if (how == 3)
            s.abort = ~0ull - 100;
        struct section *at = &s;
        if (how == 4)
            at = (struct section *)16;
        if (how == 5) {
            at = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            munmap(at, 4096);
        }
        pid_t killer = fork();
        if (killer == 0) {
            for (int i = 0; i < 50; i++) {
                nap(20000);
                kill(getppid(), SIGUSR2);
            }
            _exit(0);
        }
        spin_asm(&a, &in, &go, at);
        _exit(3);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

// --- fork, exec

static void forks(volatile struct area *area, uint32_t len)
{
    fflush(stdout);
    for (int i = 0; i < 8; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            int bad = 0;
            for (int cpu = 0; cpu < cpus; cpu++) {
                pin(cpu);
                bad += area->cpu_id != (uint32_t)cpu || area->cpu_id_start != (uint32_t)cpu;
            }
            bad += rseq(area, len, 0, SIG) != -EBUSY ? 100 : 0;
            _exit(bad);
        }
        int status = 0;
        waitpid(pid, &status, 0);
        CHECK("child", status, 0);
    }
    // A new thread has no registration.
    fflush(stdout);
}

static void *fresh_thread(void *area)
{
    return (void *)rseq(area, 32, 1, SIG);
}

static void threads(volatile struct area *area)
{
    pthread_t thread;
    void *result;
    pthread_create(&thread, 0, fresh_thread, (void *)area);
    pthread_join(thread, &result);
    CHECK("unregister what a new thread does not have", (long)result, -EINVAL);
}

static void execs(char **argv)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        execl(argv[0], argv[0], "fresh", NULL);
        _exit(99);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    CHECK("after exec", status, 0);
}

// --- a program that overwrites cpu_id_start

static void overwrites(volatile struct area *area)
{
    for (int i = 0; i < 20; i++) {
        area->cpu_id_start = 0xffffffff;
        // On a busy machine its time slice may end before the thread sleeps: no switch, so nothing is
        // rewritten.
        for (int naps = 0; naps < 100 && area->cpu_id_start == 0xffffffff; naps++) nap(1000);
        CHECK("cpu_id_start rewritten after sleeping", area->cpu_id_start, area->cpu_id);
    }
    static struct victim unused;
    own_area = area;
    own_victim = &unused;
    area->cpu_id_start = 0xffffffff;
    raise(SIGUSR1);
    CHECK("cpu_id_start rewritten before a handler", area->cpu_id_start, area->cpu_id);
    own_victim = 0;
}

// In an optimised area this kills the process when the kernel next writes the field.
static int punished(uint32_t len)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        static struct area a;
        volatile struct area *area = &a;
        if (rseq(&main_area, len, 1, SIG) != 0 || rseq(&a, len, 0, SIG) != 0)
            _exit(2);
        pin(0);
        area->cpu_id_start = 0xffffffff;
        pin(cpus - 1);
        pin(0);
        _exit(3);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

// --- descriptors that do not matter, and such that are not there

static volatile uint32_t other_stop;

static void *busy(void *unused)
{
    (void)unused;
    pin(0);
    while (!other_stop)
        ;
    return 0;
}

// If a thread is not in the section, its pointer is only cleared, whatever else the descriptor says.
static void outside(uint32_t len)
{
    static struct section s;
    pthread_t other;
    volatile struct area *area = &main_area;
    if (!extended)
        return;
    fflush(stdout);
    for (int how = 0; how < 3; how++) {
        pid_t pid = fork();
        if (pid == 0) {
            memset(&s, 0, sizeof s);
            s.start = (uintptr_t)spin_start;
            s.length = spin_end - spin_start;
            s.abort = how == 2 ? s.start : (uintptr_t)spin_abort;
            s.version = how == 0;
            s.flags = how == 1;
            pin(0);
            if (rseq(&main_area, len, 0, SIG) != 0)
                _exit(2);
            other_stop = 0;
            pthread_create(&other, 0, busy, 0);
            area->rseq_cs = (uintptr_t)&s;
            struct timespec begin, now;
            clock_gettime(CLOCK_MONOTONIC, &begin);
            do
                clock_gettime(CLOCK_MONOTONIC, &now);
            while (area->rseq_cs && now.tv_sec - begin.tv_sec < 5);
            _exit(area->rseq_cs ? 3 : 0);
        }
        int status = 0;
        waitpid(pid, &status, 0);
        CHECK("outside of a section", status, 0);
    }
}

static struct section *absent;
static volatile uint32_t absent_in, absent_go, absent_tid;

static void *absent_thread(void *len)
{
    static struct area area;
    absent_tid = syscall(SYS_gettid);
    if (rseq(&area, (long)len, 0, SIG) != 0)
        _exit(2);
    do
        madvise(absent, 4096, MADV_DONTNEED);
    while (spin_asm(&area, &absent_in, &absent_go, absent));
    if (rseq(&area, (long)len, 1, SIG) != 0)
        _exit(2);
    return 0;
}

// The page of the descriptor is unmapped again and again while the thread is migrated: every other return to
// user mode finds it missing after the identifiers have been written.
static void absent_descriptors(uint32_t len)
{
    if (cpus < 3)
        return;
    fflush(stdout);
    for (int round = 0; round < 3; round++) {
        pid_t pid = fork();
        if (pid == 0) {
            char name[] = "/tmp/rseq-XXXXXX";
            mkdir("/tmp", 0755);
            int fd = mkstemp(name);
            struct section s = {0, 0, (uintptr_t)spin_start, spin_end - spin_start, (uintptr_t)spin_abort};
            unlink(name);
            if (fd < 0 || ftruncate(fd, 4096) || write(fd, &s, sizeof s) != sizeof s)
                _exit(4);
            absent = mmap(0, 4096, PROT_READ, MAP_SHARED, fd, 0);
            pthread_t thread;
            pin(0);
            pthread_create(&thread, 0, absent_thread, (void *)(long)len);
            while (!absent_in)
                sched_yield();
            struct timespec begin, now;
            clock_gettime(CLOCK_MONOTONIC, &begin);
            do {
                for (int i = 0; i < 100; i++) {
                    cpu_set_t set;
                    CPU_ZERO(&set);
                    CPU_SET(1 + i % 2, &set);
                    sched_setaffinity(absent_tid, sizeof set, &set);
                }
                clock_gettime(CLOCK_MONOTONIC, &now);
            } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < 1500);
            absent_go = 1;
            pthread_join(thread, 0);
            _exit(0);
        }
        int status = 0;
        waitpid(pid, &status, 0);
        CHECK("moved while its descriptor is missing", status, 0);
    }
}

#include "slice.h"
#include "bounds.h"

// --- all of it

static void begin_case(const char *what)
{
    name = what;
    if (verbose)
        printf("%s\n", what);
}

static void on_mode(uint32_t len, const char *mode, char **argv)
{
    static char what[8][64];
    int n = 0;
#define CASE(text) begin_case((snprintf(what[n % 8], 64, "%s, %s", text, mode), what[n++ % 8]))
    CASE("registration");
    errors(len);
    CASE("identifiers");
    CHECK("register", rseq(&main_area, len, 0, SIG), 0);
    moves(&main_area);
    CASE("fork");
    forks(&main_area, len);
    CASE("threads");
    threads(&main_area);
    CASE("exec");
    execs(argv);
    if (len == 32) {
        CASE("overwriting");
        overwrites(&main_area);
    } else if (cpus > 1) {
        CASE("read-only fields");
        CHECK("killed by", punished(len), SIGSEGV);
    }
    CASE("slices");
    slices(&main_area, len);
    CASE("unregistering");
    CHECK("unregister", rseq(&main_area, len, 1, SIG), 0);
    CASE("descriptors that do not matter");
    outside(len);
    CASE("descriptors that are missing");
    absent_descriptors(len);
    CASE("concurrency ids");
    cids(len);
    CASE("signal");
    for (int i = 0; i < 5; i++)
        abort_by_signal(len);
    CASE("preemption");
    for (int i = 0; i < 3; i++)
        abort_by_preemption(len);
    CASE("migration");
    for (int i = 0; i < 5; i++)
        abort_by_migration(len);
    CASE("membarrier");
    for (int i = 0; i < 5; i++)
        abort_by_membarrier(len);
    CASE("bad sections");
    for (int how = 0; how < 6; how++)
        if (dies(len, how) != SIGSEGV)
            fail("bad section does not kill", how, SIGSEGV);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, 0, _IOLBF, 0);
    if (!getenv("GLIBC_TUNABLES")) {
        setenv("GLIBC_TUNABLES", "glibc.pthread.rseq=0", 1);
        execv("/proc/self/exe", argv);
    }
    cpus = sysconf(_SC_NPROCESSORS_ONLN);
    name = "exec";
    if (argc > 1 && !strcmp(argv[1], "fresh")) {
        CHECK("unregister what exec took away", rseq(&main_area, 32, 1, SIG), -EINVAL);
        CHECK("register", rseq(&main_area, 32, 0, SIG), 0);
        return failed;
    }
    verbose = argc > 1;
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, 0);
    sigaction(SIGUSR2, &action, 0);
    unsigned long size = getauxval(AT_FEATURE_SIZE), align = getauxval(AT_ALIGNMENT);
    extended = size >= 33;
    if (extended)
        CHECK("alignment", align, 64);
    char self[64] = "/proc/self/exe";
    char *again[] = {self, 0};
    on_mode(32, "legacy", again);
    if (extended)
        on_mode(33, "optimised", again);
    begin_case("bounds of extensions");
    bounds();
    if (!failed)
        printf("rseq works: %d CPUs, feature size %lu\n", cpus, size);
    return failed > 100 ? 100 : failed;
}
