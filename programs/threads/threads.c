/*
 * Behaviour that programs with threads rely on: robust and priority-inheriting locks, futexes in all forms,
 * signals to one thread, exit and exec of a program with many threads, that a task is completely gone once it
 * was waited for, affinity, policies and their permissions, the order of real-time threads, memory barriers.
 * No check depends on speed: where order matters, threads share one processor and priorities decide. Built
 * with glibc and with musl. Each check that fails is printed; the exit status is the number of failures.
 * Called by tools/limen/src/test/programs.rs on four processors, as root.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
enum {
    FUTEX_WAIT_,
    FUTEX_WAKE_,
    FUTEX_REQUEUE_ = 3,
    FUTEX_CMP_REQUEUE_,
    FUTEX_WAKE_OP_,
    FUTEX_LOCK_PI_,
    FUTEX_UNLOCK_PI_,
    FUTEX_TRYLOCK_PI_,
    FUTEX_WAIT_BITSET_,
    FUTEX_WAKE_BITSET_,
    FUTEX_WAIT_REQUEUE_PI_,
    FUTEX_CMP_REQUEUE_PI_,
    PRIVATE_ = 128
};
#define WAITERS 0x80000000u
#define OWNER_DIED 0x40000000u

static atomic_int failed, made;
static void check(int good, const char *what, int line) {
    int e = errno;
    made++;
    if (good) return;
    failed++;
    printf("line %d: %s (errno %d, %s)\n", line, what, e, strerror(e));
}
#define CHECK(condition) check(condition, #condition, __LINE__)

static long futex(void *word, int op, unsigned value, void *fourth, void *second, unsigned third) {
    return syscall(SYS_futex, word, op, value, fourth, second, third);
}
static int tid(void) { return syscall(SYS_gettid); }
static int fails_with(long result, int error) { return result == -1 && errno == error; }
static void nap(long ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&t, &t) && errno == EINTR) {}
}
static pthread_t start(void *(*f)(void *), void *argument) {
    pthread_t t;
    int r = pthread_create(&t, NULL, f, argument);
    if (r) {
        printf("no thread: %s\n", strerror(r));
        exit(99);
    }
    return t;
}
/* Waits until the thread sleeps, so that the test knows it waits for what it was told to wait for. */
static void until_asleep(int thread) {
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    for (;;) {
        int fd = open(path, O_RDONLY);
        if (fd < 0) return;
        long n = read(fd, text, sizeof text - 1);
        close(fd);
        text[n > 0 ? n : 0] = 0;
        char *end = strrchr(text, ')');
        if (end && end[2] == 'S') return;
        nap(1);
    }
}
static void wait_for(atomic_int *flag) {
    while (!*flag) nap(1);
}
static int reap(pid_t child) {
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}
static void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    CHECK(sched_setaffinity(0, sizeof set, &set) == 0 && sched_getcpu() == cpu);
}
static int policy(int thread, int policy, int priority) {
    return syscall(SYS_sched_setscheduler, thread, policy, &priority);
}

/* Robust locks: the owner is a thread, or another process. */
static void *lock_and_end(void *lock) {
    pthread_mutex_lock(lock);
    return NULL;
}
static void robust(int protocol) {
    pthread_mutex_t *lock = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t how;
    pthread_mutexattr_init(&how);
    CHECK(pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST) == 0);
    CHECK(pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_mutexattr_setprotocol(&how, protocol) == 0);
    CHECK(pthread_mutex_init(lock, &how) == 0);
    pthread_join(start(lock_and_end, lock), NULL);
    CHECK(pthread_mutex_lock(lock) == EOWNERDEAD);
    CHECK(pthread_mutex_consistent(lock) == 0 && pthread_mutex_unlock(lock) == 0);
    CHECK(pthread_mutex_lock(lock) == 0 && pthread_mutex_unlock(lock) == 0);
    int ready[2];
    CHECK(pipe(ready) == 0);
    pid_t child = fork();
    if (child == 0) {
        pthread_mutex_lock(lock);
        if (write(ready[1], "x", 1) != 1) _exit(1);
        for (;;) pause();
    }
    char c;
    CHECK(read(ready[0], &c, 1) == 1);
    CHECK(pthread_mutex_trylock(lock) == EBUSY);
    kill(child, SIGKILL);
    CHECK(pthread_mutex_lock(lock) == EOWNERDEAD); /* sleeps until the child is gone, or comes after it */
    CHECK(reap(child) == SIGKILL);
    CHECK(pthread_mutex_unlock(lock) == 0); /* not made consistent: lost */
    CHECK(pthread_mutex_lock(lock) == ENOTRECOVERABLE);
    void *head = NULL;
    size_t size = 0;
    CHECK(syscall(SYS_get_robust_list, 0, &head, &size) == 0 && head && size == 3 * sizeof(long));
    CHECK(fails_with(syscall(SYS_set_robust_list, head, size - 1), EINVAL));
    close(ready[0]);
    close(ready[1]);
    munmap(lock, 4096);
}

/* Priority-inheriting locks. */
static pthread_mutex_t shared_lock;
static long counter;
static void *count_up(void *unused) {
    for (int i = 0; i < 500; i++) {
        pthread_mutex_lock(&shared_lock);
        counter++;
        if (i % 16 == 0) sched_yield();
        pthread_mutex_unlock(&shared_lock);
    }
    return unused;
}
static atomic_uint word;
static atomic_int step;
static void *own_and_end(void *unused) {
    CHECK(futex((void *)&word, FUTEX_LOCK_PI_ | PRIVATE_, 0, NULL, NULL, 0) == 0);
    step = 1;
    wait_for((atomic_int *)unused);
    return NULL;
}
static void *wait_and_own(void *to) {
    *(atomic_int *)to = tid();
    CHECK(futex((void *)&word, FUTEX_LOCK_PI_ | PRIVATE_, 0, NULL, NULL, 0) == 0);
    unsigned seen = word;
    CHECK((seen & ~(WAITERS | OWNER_DIED)) == (unsigned)tid());
    CHECK(futex((void *)&word, FUTEX_UNLOCK_PI_ | PRIVATE_, 0, NULL, NULL, 0) == 0);
    return (void *)(uintptr_t)(seen & OWNER_DIED);
}
static void inheriting(void) {
    pthread_mutexattr_t how;
    pthread_mutexattr_init(&how);
    pthread_mutexattr_setprotocol(&how, PTHREAD_PRIO_INHERIT);
    CHECK(pthread_mutex_init(&shared_lock, &how) == 0);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) threads[i] = start(count_up, NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    CHECK(counter == 4 * 500);
    pthread_mutex_destroy(&shared_lock);

    /* The owner ends without unlocking: its waiters get the lock, with EOWNERDEAD. */
    atomic_int go = 0, ids[2] = {0, 0};
    pthread_t holder = start(own_and_end, &go);
    wait_for(&step);
    CHECK(fails_with(futex((void *)&word, FUTEX_TRYLOCK_PI_ | PRIVATE_, 0, NULL, NULL, 0), EAGAIN));
    for (int i = 0; i < 2; i++) threads[i] = start(wait_and_own, &ids[i]);
    for (int i = 0; i < 2; i++) {
        wait_for(&ids[i]);
        until_asleep(ids[i]);
    }
    CHECK(word & WAITERS);
    CHECK(fails_with(futex((void *)&word, FUTEX_WAKE_ | PRIVATE_, 1, NULL, NULL, 0), EINVAL));
    CHECK(fails_with(futex((void *)&word, FUTEX_UNLOCK_PI_ | PRIVATE_, 0, NULL, NULL, 0), EPERM));
    go = 1;
    pthread_join(holder, NULL);
    void *died[2];
    for (int i = 0; i < 2; i++) pthread_join(threads[i], &died[i]);
    CHECK(died[0] || died[1]);
    CHECK(word == 0);
    word = 0x3ffffff0;
    CHECK(fails_with(futex((void *)&word, FUTEX_LOCK_PI_ | PRIVATE_, 0, NULL, NULL, 0), ESRCH));
    word = tid();
    CHECK(fails_with(futex((void *)&word, FUTEX_LOCK_PI_ | PRIVATE_, 0, NULL, NULL, 0), EDEADLK));
    word = 0;
}

/*
 * A chain of locks on one processor: `high` waits for a lock of `middleman`, which waits for a lock of `low`.
 * `busy`, of a priority between them, must run after all three.
 */
static atomic_uint first, second;
static atomic_int go_low, go_high, go_busy, low_ready, middle_ready, high_ready, busy_ready, high_ran,
    busy_saw;
static void sleep_on(atomic_int *flag) {
    while (!*flag) futex((void *)flag, FUTEX_WAIT_ | PRIVATE_, 0, NULL, NULL, 0);
}
static void let_go(atomic_int *flag) {
    *flag = 1;
    futex((void *)flag, FUTEX_WAKE_ | PRIVATE_, 1, NULL, NULL, 0);
}
static void *low(void *unused) {
    pin(0);
    futex((void *)&second, FUTEX_LOCK_PI_ | PRIVATE_, 0, NULL, NULL, 0);
    low_ready = tid();
    sleep_on(&go_low);
    futex((void *)&second, FUTEX_UNLOCK_PI_ | PRIVATE_, 0, NULL, NULL, 0);
    return unused;
}
static void *middleman(void *unused) {
    pin(0);
    futex((void *)&first, FUTEX_LOCK_PI_ | PRIVATE_, 0, NULL, NULL, 0);
    middle_ready = tid();
    futex((void *)&second, FUTEX_LOCK_PI_ | PRIVATE_, 0, NULL, NULL, 0);
    futex((void *)&second, FUTEX_UNLOCK_PI_ | PRIVATE_, 0, NULL, NULL, 0);
    futex((void *)&first, FUTEX_UNLOCK_PI_ | PRIVATE_, 0, NULL, NULL, 0);
    return unused;
}
static void *high(void *unused) {
    pin(0);
    CHECK(policy(0, SCHED_FIFO, 20) == 0);
    high_ready = tid();
    sleep_on(&go_high);
    futex((void *)&first, FUTEX_LOCK_PI_ | PRIVATE_, 0, NULL, NULL, 0);
    high_ran = 1;
    futex((void *)&first, FUTEX_UNLOCK_PI_ | PRIVATE_, 0, NULL, NULL, 0);
    return unused;
}
static void *busy(void *unused) {
    pin(0);
    CHECK(policy(0, SCHED_FIFO, 10) == 0);
    busy_ready = tid();
    sleep_on(&go_busy);
    busy_saw = high_ran ? 1 : -1;
    return unused;
}
static void chain(void) {
    pin(0);
    CHECK(policy(0, SCHED_FIFO, 30) == 0);
    pthread_t threads[4];
    void *(*what[4])(void *) = {low, middleman, high, busy};
    atomic_int *ready[4] = {&low_ready, &middle_ready, &high_ready, &busy_ready};
    for (int i = 0; i < 4; i++) {
        threads[i] = start(what[i], NULL);
        policy(tid(), SCHED_FIFO, 30);
        wait_for(ready[i]);
        until_asleep(*ready[i]);
    }
    let_go(&go_high);
    until_asleep(high_ready); /* `high` waits for `first` */
    /* All are released before this thread sleeps, and none runs earlier. */
    let_go(&go_busy);
    let_go(&go_low);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    CHECK(high_ran == 1 && busy_saw == 1);
    CHECK(first == 0 && second == 0);
    CHECK(policy(0, SCHED_OTHER, 0) == 0);
}

/* Futexes. */
struct waiter { uint64_t value, address; uint32_t flags, reserved; };
static atomic_uint words[4];
static void *wait_bits(void *to) {
    *(atomic_int *)to = tid();
    return (void *)futex((void *)&words[0], FUTEX_WAIT_BITSET_ | PRIVATE_, 0, NULL, NULL, 2);
}
static void *wait_many(void *to) {
    struct waiter w[3];
    for (int i = 0; i < 3; i++) w[i] = (struct waiter){0, (uintptr_t)&words[i], 2 | PRIVATE_, 0};
    *(atomic_int *)to = tid();
    return (void *)syscall(SYS_futex_waitv, w, 3, 0, NULL, 0);
}
static void on_words(void) {
    atomic_int id = 0;
    void *result;
    pthread_t t = start(wait_bits, &id);
    wait_for(&id);
    until_asleep(id);
    CHECK(futex((void *)&words[0], FUTEX_WAKE_BITSET_ | PRIVATE_, 9, NULL, NULL, 5) == 0);
    CHECK(fails_with(
        futex((void *)&words[0], FUTEX_CMP_REQUEUE_ | PRIVATE_, 0, (void *)1, (void *)&words[1], 7), EAGAIN));
    CHECK(futex((void *)&words[0], FUTEX_CMP_REQUEUE_ | PRIVATE_, 0, (void *)1, (void *)&words[1], 0) == 1);
    CHECK(futex((void *)&words[0], FUTEX_WAKE_ | PRIVATE_, 9, NULL, NULL, 0) == 0);
    /*
     * Sets words[2] to 1 and wakes no waiter there; its old value was 0, so one waiter of words[1] is woken,
     * too.
     */
    CHECK(futex((void *)&words[2], FUTEX_WAKE_OP_ | PRIVATE_, 1, (void *)1, (void *)&words[1],
                (0u << 28) | (0u << 24) | (1u << 12)) == 1);
    CHECK(words[1] == 1);
    pthread_join(t, &result);
    CHECK(result == NULL);
    words[1] = 0;
    id = 0;
    t = start(wait_many, &id);
    wait_for(&id);
    until_asleep(id);
    CHECK(futex((void *)&words[1], FUTEX_WAKE_ | PRIVATE_, 1, NULL, NULL, 0) == 1);
    pthread_join(t, &result);
    CHECK(result == (void *)1);
    struct waiter bad = {1, (uintptr_t)&words[0], 2 | PRIVATE_, 0};
    CHECK(fails_with(syscall(SYS_futex_waitv, &bad, 1, 0, NULL, 0), EAGAIN));
    CHECK(fails_with(syscall(SYS_futex_waitv, &bad, 0, 0, NULL, 0), EINVAL));
    CHECK(fails_with(syscall(SYS_futex_waitv, &bad, 1, 1, NULL, 0), EINVAL));
    CHECK(fails_with(syscall(SYS_futex_waitv, NULL, 1, 0, NULL, 0), EINVAL));
    CHECK(fails_with(
        futex((void *)&words[0], FUTEX_CMP_REQUEUE_PI_ | PRIVATE_, 2, NULL, (void *)&words[1], 0), EINVAL));
    CHECK(fails_with(
        futex((void *)&words[0], FUTEX_WAIT_REQUEUE_PI_ | PRIVATE_, 0, NULL, (void *)&words[0], 0), EINVAL));
    CHECK(fails_with(futex((char *)&words[0] + 1, FUTEX_WAKE_ | PRIVATE_, 1, NULL, NULL, 0), EINVAL));
    CHECK(fails_with(futex((void *)&words[0], 99, 1, NULL, NULL, 0), ENOSYS));
}

/* Signals to one thread. */
static atomic_int got_by, got_value;
static void on_signal(int sig, siginfo_t *info, void *context) {
    (void)sig, (void)context;
    got_value = info->si_value.sival_int;
    got_by = tid();
}
static atomic_int end_now;
static void *until_ended(void *to) {
    *(atomic_int *)to = tid();
    while (!end_now) nap(1);
    return NULL;
}
static void signals(void) {
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGRTMIN + 3, &action, NULL);
    atomic_int ids[3] = {0, 0, 0};
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) threads[i] = start(until_ended, &ids[i]);
    for (int i = 0; i < 3; i++) wait_for(&ids[i]);
    for (int i = 0; i < 3; i++) {
        got_by = 0;
        CHECK(pthread_kill(threads[i], SIGUSR1) == 0);
        wait_for(&got_by);
        CHECK(got_by == ids[i]);
        got_by = 0;
        CHECK(syscall(SYS_tgkill, getpid(), ids[i], SIGUSR1) == 0);
        wait_for(&got_by);
        CHECK(got_by == ids[i]);
    }
    CHECK(fails_with(syscall(SYS_tgkill, getpid() + 1, ids[0], SIGUSR1), ESRCH));
    CHECK(fails_with(syscall(SYS_tgkill, getpid(), 0, SIGUSR1), EINVAL));
    /* To the process: a thread that does not block the signal gets it. */
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 3);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    got_by = 0;
    CHECK(sigqueue(getpid(), SIGRTMIN + 3, (union sigval){.sival_int = 42}) == 0);
    wait_for(&got_by);
    CHECK(got_by != getpid() && got_value == 42);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    end_now = 1;
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
}

/* Many threads, each doing something else; one of them exits or executes a program. */
static int idle_pipe[2];
static atomic_uint never;
static void *busy_somehow(void *number) {
    char c;
    switch ((uintptr_t)number % 4) {
    case 0: futex((void *)&never, FUTEX_WAIT_, 0, NULL, NULL, 0); break;
    case 1: if (read(idle_pipe[0], &c, 1)) break; break;
    case 2: nap(1000000); break;
    default: for (;;) never += 0;
    }
    return NULL;
}
static void *replace(void *self) {
    char *arguments[] = {self, "replaced", NULL};
    execv("/proc/self/exe", arguments);
    _exit(98);
}
static void *end_all(void *unused) {
    (void)unused;
    _exit(7);
}
static int with_many(void *(*what)(void *)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (pipe(idle_pipe)) _exit(97);
        for (uintptr_t i = 0; i < 24; i++) start(busy_somehow, (void *)i);
        start(what, "threads");
        for (;;) pause();
    }
    return reap(child);
}
/* The new program: it has one thread, and the process id of the old one. */
static int replaced(void) {
    int threads = 0;
    DIR *dir = opendir("/proc/self/task");
    for (struct dirent *d; dir && (d = readdir(dir));) threads += d->d_name[0] != '.';
    nap(1); /* long enough for what is left of the old program's leader */
    return threads == 1 && tid() == getpid() && syscall(SYS_tgkill, getpid(), getpid(), 0) == 0 ? 9 : 1;
}

/*
 * A process that was waited for is gone on every processor: its number finds nothing, and its executable can
 * be written.
 */
static void gone(void) {
    int there = 0;
    for (int i = 0; i < 3000; i++) {
        pid_t child = fork();
        if (child == 0) _exit(0);
        while (waitpid(child, NULL, WNOHANG) == 0) {}
        there +=
            !fails_with(kill(child, 0), ESRCH) || !fails_with(syscall(SYS_sched_getscheduler, child), ESRCH);
    }
    CHECK(there == 0);
    int from = open("/proc/self/exe", O_RDONLY), to = open("copy", O_WRONLY | O_CREAT | O_TRUNC, 0755),
        busy = 0;
    while (sendfile(to, from, NULL, 1 << 20) > 0) {}
    close(from);
    close(to);
    for (int i = 0; i < 200; i++) {
        pid_t child = fork();
        if (child == 0) {
            execl("copy", "copy", "ends", NULL);
            _exit(1);
        }
        while (waitpid(child, NULL, WNOHANG) == 0) {}
        to = open("copy", O_WRONLY);
        busy += to < 0;
        close(to);
    }
    CHECK(busy == 0);
    unlink("copy");
}

/* Processors and policies. */
static atomic_int spin_cpu;
static void *spin(void *to) {
    *(atomic_int *)to = tid();
    while (!end_now) spin_cpu = sched_getcpu();
    return NULL;
}
static void affinity(void) {
    cpu_set_t all, one;
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
    int count = CPU_COUNT(&all);
    CHECK(count == sysconf(_SC_NPROCESSORS_ONLN));
    atomic_int id = 0;
    end_now = 0;
    pthread_t t = start(spin, &id);
    wait_for(&id);
    for (int round = 0; round < 3; round++)
        for (int cpu = 0; cpu < count; cpu++) {
            pin(cpu);
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            CHECK(sched_setaffinity(id, sizeof one, &one) == 0);
            while (spin_cpu != cpu) nap(1);
        }
    end_now = 1;
    pthread_join(t, NULL);
    CPU_ZERO(&one);
    CHECK(fails_with(sched_setaffinity(0, sizeof one, &one), EINVAL));
    CHECK(sched_setaffinity(0, sizeof all, &all) == 0);
}
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
    uint32_t min, max;
};
static int set(uint32_t policy, uint64_t flags, int nice, unsigned priority) {
    struct attributes a = {
        .size = sizeof a, .policy = policy, .flags = flags, .nice = nice, .priority = priority};
    return syscall(SYS_sched_setattr, 0, &a, 0);
}
static void policies(void) {
    struct attributes a;
    struct {
        uint32_t policy;
        int nice;
        unsigned priority;
    } good[] = {{SCHED_BATCH, 3, 0}, {SCHED_IDLE, 3, 0},   {SCHED_FIFO, 0, 99},
                {SCHED_RR, 0, 1},    {SCHED_OTHER, -5, 0}, {SCHED_OTHER, 0, 0}};
    for (unsigned i = 0; i < sizeof good / sizeof *good; i++) {
        CHECK(set(good[i].policy, 0, good[i].nice, good[i].priority) == 0);
        memset(&a, 0xff, sizeof a);
        CHECK(syscall(SYS_sched_getattr, 0, &a, sizeof a, 0) == 0);
        CHECK(a.size == sizeof a && a.policy == good[i].policy && a.nice == good[i].nice &&
              a.priority == good[i].priority);
        CHECK(syscall(SYS_sched_getscheduler, 0) == (long)good[i].policy);
        struct timespec slice;
        if (good[i].policy == SCHED_RR)
            CHECK(sched_rr_get_interval(0, &slice) == 0 && slice.tv_sec == 0 && slice.tv_nsec == 100000000);
        if (good[i].policy == SCHED_FIFO)
            CHECK(sched_rr_get_interval(0, &slice) == 0 && slice.tv_sec == 0 && slice.tv_nsec == 0);
    }
    CHECK(fails_with(set(SCHED_FIFO, 0, 0, 0), EINVAL));
    CHECK(fails_with(set(SCHED_FIFO, 0, 0, 100), EINVAL));
    CHECK(fails_with(set(SCHED_OTHER, 0, 0, 1), EINVAL));
    CHECK(fails_with(set(77, 0, 0, 0), EINVAL));
    CHECK(fails_with(set(SCHED_OTHER, 1u << 20, 0, 0), EINVAL));
    a.size = 8;
    CHECK(fails_with(syscall(SYS_sched_setattr, 0, &a, 0), E2BIG) && a.size == sizeof a);
    CHECK(fails_with(syscall(SYS_sched_getattr, 0, &a, 40, 0), EINVAL));
    CHECK(fails_with(policy(0x3ffffff0, SCHED_OTHER, 0), ESRCH));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) { /* an ordinary user: as far as RLIMIT_RTPRIO goes */
        int bad = 0;
        struct rlimit limit = {10, 10};
        bad |= setrlimit(RLIMIT_RTPRIO, &limit) || setuid(1000);
        bad |= (policy(0, SCHED_FIFO, 10) != 0) << 1;
        bad |= !fails_with(policy(0, SCHED_FIFO, 11), EPERM) << 2;
        bad |= (policy(0, SCHED_RR, 3) != 0) << 3;
        bad |= (policy(0, SCHED_OTHER, 0) != 0) << 4;
        limit.rlim_cur = 0;
        bad |= setrlimit(RLIMIT_RTPRIO, &limit) != 0;
        bad |= !fails_with(policy(0, SCHED_FIFO, 1), EPERM) << 5;
        bad |= !fails_with(set(SCHED_OTHER, 0, -1, 0), EPERM) << 6;
        bad |= (set(SCHED_BATCH, 0, 5, 0) != 0) << 7;
        _exit(bad);
    }
    CHECK(reap(child) == 0);
    CHECK(policy(0, SCHED_FIFO | 0x40000000, 5) == 0);
    child = fork();
    if (child == 0) _exit(syscall(SYS_sched_getscheduler, 0) != SCHED_OTHER);
    CHECK(reap(child) == 0);
    CHECK(policy(0, SCHED_OTHER, 0) == 0);
}

/*
 * The order of real-time threads on one processor: a higher priority runs at once, equal priorities in turn,
 * and round-robin threads alternate.
 */
static atomic_int order[3], place, woken, hint[2];
static sem_t door;
static void *in_turn(void *number) {
    int me = (uintptr_t)number;
    for (volatile int i = 0; i < 100000; i++) {}
    order[place++] = me;
    return NULL;
}
static void *urgent(void *to) {
    CHECK(policy(0, SCHED_FIFO, 40) == 0);
    *(atomic_int *)to = tid();
    while (sem_wait(&door)) {}
    woken = 1;
    return NULL;
}
static void *take_turns(void *number) {
    int me = (uintptr_t)number;
    hint[me] = 1;
    while (!hint[!me]) {} /* never ends unless the other gets a turn */
    return NULL;
}
static void first_come(void) {
    pin(0);
    CHECK(policy(0, SCHED_FIFO, 30) == 0);
    pthread_t threads[3];
    for (uintptr_t i = 0; i < 3; i++)
        threads[i] = start(in_turn, (void *)i); /* as urgent as this thread: they wait for it */
    CHECK(place == 0);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    CHECK(order[0] == 0 && order[1] == 1 && order[2] == 2);
    atomic_int id = 0;
    sem_init(&door, 0, 0);
    threads[0] = start(urgent, &id);
    wait_for(&id);
    until_asleep(id);
    sem_post(&door);
    CHECK(woken == 1);
    pthread_join(threads[0], NULL);
    CHECK(policy(0, SCHED_RR, 5) == 0);
    for (uintptr_t i = 0; i < 2; i++) threads[i] = start(take_turns, (void *)i);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    CHECK(policy(0, SCHED_OTHER, 0) == 0);
}

/*
 * Membarrier: of two threads that each set a word and then read the other's, at least one sees the new value.
 */
static long membarrier(int command, unsigned flags) { return syscall(SYS_membarrier, command, flags, 0); }
static atomic_int flag_a, flag_b, saw_b, round_of, done_of;
enum { ROUNDS = 2000 };
static void *light_side(void *unused) {
    for (int i = 1; i <= ROUNDS; i++) {
        while (atomic_load(&round_of) != i) {}
        atomic_store_explicit(&flag_a, i, memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst);
        saw_b = atomic_load_explicit(&flag_b, memory_order_relaxed) == i;
        atomic_store(&done_of, i);
    }
    return unused;
}
static void barriers(void) {
    long known = membarrier(0, 0);
    CHECK(known > 0 && (known & 0x7f) == 0x7f);
    CHECK(fails_with(membarrier(0, 1), EINVAL) && fails_with(membarrier(3, 0), EINVAL) &&
          fails_with(membarrier(1 << 20, 0), EINVAL));
    CHECK(membarrier(1, 0) == 0 && membarrier(2, 0) == 0);
    for (int i = 3; i <= 7; i += 2) {
        if (!(known & 1 << i)) continue;
        CHECK(fails_with(membarrier(1 << i, 0), EPERM));
        CHECK(membarrier(1 << (i + 1), 0) == 0);
        CHECK(membarrier(1 << i, 0) == 0);
        CHECK(i == 7 || fails_with(membarrier(1 << i, 1), EINVAL));
    }
    CHECK(membarrier(4, 0) == 0);
    if (known & 512) CHECK((membarrier(512, 0) & 0x54) == 0x54);
    pthread_t t = start(light_side, NULL);
    int both_blind = 0;
    for (int i = 1; i <= ROUNDS; i++) {
        atomic_store(&round_of, i);
        atomic_store_explicit(&flag_b, i, memory_order_relaxed);
        if (membarrier(8, 0)) break;
        int saw_a = atomic_load_explicit(&flag_a, memory_order_relaxed) == i;
        while (atomic_load(&done_of) != i) {}
        both_blind += !saw_a && !saw_b;
    }
    pthread_join(t, NULL);
    CHECK(both_blind == 0);
}

int main(int count, char **arguments) {
    if (count > 1 && !strcmp(arguments[1], "replaced")) return replaced();
    if (count > 1 && !strcmp(arguments[1], "ends")) return 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    cpu_set_t all;
    sched_getaffinity(0, sizeof all, &all);
    barriers();
    robust(PTHREAD_PRIO_NONE);
    robust(PTHREAD_PRIO_INHERIT);
    inheriting();
    on_words();
    signals();
    for (int i = 0; i < 4; i++) {
        CHECK(with_many(end_all) == 7 << 8);
        CHECK(with_many(replace) == 9 << 8);
    }
    gone();
    affinity();
    policies();
    chain();
    first_come();
    sched_setaffinity(0, sizeof all, &all);
    if (failed) printf("%d of %d checks failed\n", failed, made);
    else printf("%d checks went well\n", made);
    return failed;
}
