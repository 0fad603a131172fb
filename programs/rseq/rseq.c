// Restartable sequences as a program sees them: registration and its errors, identifiers after moves between
// CPUs, aborts by preemption, migration, signals and membarrier, fork, exec and unregistration, a program
// that overwrites cpu_id_start, time-slice extensions. Runs on Linux, too. "rseq [-v]" runs all cases; the
// exit status is the number of failures. The C library must not register an area: main runs the program again
// with GLIBC_TUNABLES set if it did.

#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
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
#include <sys/utsname.h>
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

// `late`: how many checks of times held only when they were made again.
static int failed, verbose, cpus, extended, has_cids, late;
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

static uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000ull + t.tv_nsec / 1000;
}

// A thread that competes for CPU 0 until it is to stop.
static volatile uint32_t competed;

static void *compete(void *unused)
{
    (void)unused;
    pin(0);
    while (!competed)
        for (volatile int i = 0; i < 1000; i++)
            ;
    return 0;
}

static struct area main_area;

#include "sections.h"

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
static uint32_t owners[SLOTS];
static volatile uint32_t stop, clashes, too_large, held;
static uint32_t area_len;

static void *cid_thread(void *me)
{
    struct area *area = aligned_alloc(64, sizeof *area);
    memset(area, 0, sizeof *area);
    CHECK("register", rseq(area, area_len, 0, SIG), 0);
    for (uint32_t n = 0; !stop; n++) {
        if (((volatile struct area *)area)->mm_cid >= (uint32_t)cpus)
            __atomic_fetch_add(&too_large, 1, __ATOMIC_RELAXED);
        int how = hold(area, owners, (uintptr_t)me);
        if (how != ABORTED)
            __atomic_fetch_add(how == DISTURBED ? &clashes : &held, 1, __ATOMIC_RELAXED);
        if (n % 8 == 0)
            sched_yield();
    }
    CHECK("unregister", rseq(area, area_len, 1, SIG), 0);
    free(area);
    return 0;
}

static void cids(uint32_t len)
{
    pthread_t threads[12];
    if (!has_cids)
        return;
    stop = clashes = too_large = held = 0;
    area_len = len;
    for (uintptr_t i = 0; i < 12; i++)
        pthread_create(&threads[i], 0, cid_thread, (void *)(i + 1));
    nap(200000);
    stop = 1;
    for (int i = 0; i < 12; i++)
        pthread_join(threads[i], 0);
    CHECK("threads with the same concurrency id", clashes, 0);
    CHECK("ids were held at all", held > 0, 1);
    CHECK("concurrency ids beyond the CPUs", too_large, 0);
}

// --- fork, exec

// The page frame that holds an address; 0 where only root may ask.
static uint64_t frame_of(volatile void *at)
{
    uint64_t entry = 0;
    unsigned long page = sysconf(_SC_PAGESIZE);
    int fd = open("/proc/self/pagemap", O_RDONLY);
    if (fd >= 0 && pread(fd, &entry, 8, (unsigned long)at / page * 8) != 8)
        entry = 0;
    close(fd);
    return entry & ((1ull << 55) - 1);
}

// A child that runs where its parent ran is told nothing new, so the page that both have is not copied for
// it. Linux writes all the same, except to optimised areas since 6.19.
static void fork_copies_nothing(volatile struct area *area)
{
    struct utsname system;
    if (uname(&system) != 0 || !strstr(system.version, "Limen"))
        return;
    pin(0);
    // A child's id is 0. Where ids belong to CPUs by now, the parent's is only known once it is pinned.
    if (area->mm_cid != 0) {
        unpin();
        return;
    }
    fflush(stdout);
    uint64_t before = frame_of(area);
    pid_t pid = fork();
    if (pid == 0)
        _exit(frame_of(area) != before);
    int status = -1;
    waitpid(pid, &status, 0);
    CHECK("the child's page", status, 0);
    unpin();
}

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
}

// A new thread has no registration.
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

// A program that cannot be begun takes nothing away: the area stays registered and right, wherever it fails.
static void failed_execs(volatile struct area *area, uint32_t len)
{
    char script[64];
    int fd = memfd_create("script", 0);
    CHECK("a script without its interpreter", write(fd, "#!/nowhere/at/all\n", 18), 18);
    CHECK("fchmod", fchmod(fd, 0755), 0);
    snprintf(script, sizeof script, "/proc/self/fd/%d", fd);
    char *const none[] = {0};
    // Not there, a folder, no program, one whose interpreter is missing: that is found out last.
    const struct {
        const char *path;
        int error;
    } bad[] = {{"/nowhere/at/all", ENOENT}, {"/", EACCES}, {"/proc/self/maps", EACCES}, {script, ENOENT}};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
        for (int cpu = cpus - 1; cpu >= 0; cpu--) {
            pin(cpu);
            CHECK("exec fails", execve(bad[i].path, none, none) == -1 ? errno : 0, bad[i].error);
            CHECK("cpu_id after an exec that failed", area->cpu_id, cpu);
            nap(100);
            CHECK("cpu_id later", area->cpu_id, cpu);
            CHECK("cpu_id_start later", area->cpu_id_start, cpu);
            CHECK("still registered", rseq(area, len, 0, SIG), -EBUSY);
        }
    unpin();
    close(fd);
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
    fork_copies_nothing(&main_area);
    CASE("threads");
    threads(&main_area);
    CASE("exec");
    execs(argv);
    failed_execs(&main_area, len);
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
    has_cids = size >= offsetof(struct area, mm_cid) + 4;
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
        printf("rseq works: %d CPUs, feature size %lu", cpus, size);
    if (!failed && late)
        printf(", %d checks not the first time", late);
    if (!failed)
        puts("");
    return failed > 100 ? 100 : failed;
}
