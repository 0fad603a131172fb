/*
 * Wake-ups, stops, forks and ends in rare situations: no sleeper misses its wake-up, and no stopped or killed
 * task runs. Called by tools/limen/src/test/programs.rs, on every architecture; on Linux it can be run by
 * hand, as root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "common.h"

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
/* Nanoseconds of a clock. */
static int64_t now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Longer than a virtual CPU stands still. */
#define LIMIT_S 60

/*
 * Waits up to LIMIT_S for a child; returns whether it ended. If it does not, it is killed, if that is
 * possible.
 */
static int ends(pid_t child, int *status) {
    int64_t end = now(CLOCK_MONOTONIC) + LIMIT_S * 1000000000LL;
    while (now(CLOCK_MONOTONIC) < end) {
        if (waitpid(child, status, WNOHANG) == child) return 1;
        pause_ms(1);
    }
    kill(child, SIGKILL);
    pause_ms(20);
    waitpid(child, status, WNOHANG);
    return 0;
}

struct waitv {
    uint64_t val, uaddr;
    uint32_t flags, reserved;
};
#define VECTOR 16
static uint32_t words[VECTOR];
static uint32_t seen;

static int over;

/* Changes the first word and wakes its waiter again and again, with pauses of different lengths. */
static void *waker(void *unused) {
    (void)unused;
    for (uint32_t i = 1;; i++) {
        while (__atomic_load_n(&seen, __ATOMIC_ACQUIRE) != i - 1) {
            if (__atomic_load_n(&over, __ATOMIC_ACQUIRE)) return NULL;
            sched_yield();
        }
        for (volatile uint32_t n = 0; n < i * 7 % 4001; n++) {}
        __atomic_store_n(&words[0], i, __ATOMIC_RELEASE);
        syscall(SYS_futex, &words[0], FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

/* A waiter for several words is woken by a change of one, whenever that happens. */
static void one_of_several(void) {
    pthread_t thread;
    int lost = 0;
    CHECK(pthread_create(&thread, NULL, waker, NULL) == 0);
    int64_t end = now(CLOCK_MONOTONIC) + 600000000LL;
    for (uint32_t i = 1; !lost && now(CLOCK_MONOTONIC) < end; i++) {
        while (__atomic_load_n(&words[0], __ATOMIC_ACQUIRE) == i - 1) {
            struct waitv vector[VECTOR];
            for (int n = 0; n < VECTOR; n++)
                vector[n] = (struct waitv){ n ? 0 : i - 1, (uintptr_t)&words[n], 2 | FUTEX_PRIVATE_FLAG, 0 };
            int64_t limit[2] = { now(CLOCK_MONOTONIC) / 1000000000 + LIMIT_S, 0 };
            if (syscall(SYS_futex_waitv, vector, VECTOR, 0, limit, CLOCK_MONOTONIC) == -1 &&
                errno == ETIMEDOUT)
                lost += __atomic_load_n(&words[0], __ATOMIC_ACQUIRE) == i;
        }
        __atomic_store_n(&seen, i, __ATOMIC_RELEASE);
    }
    CHECK(lost == 0);
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
}

/* A process that is about to stop while its timer kills it dies, in any order of the two. */
static void killed_while_stopping(void) {
    int stuck = 0;
    int64_t end = now(CLOCK_MONOTONIC) + 1000000000LL;
    for (int i = 0; i < 600 && !stuck && now(CLOCK_MONOTONIC) < end; i++) {
        pid_t child = fork();
        if (child == 0) {
            struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL };
            struct itimerspec soon = { { 0, 0 }, { 0, 1000 * (1 + i * 7 % 120) } };
            timer_t timer;
            timer_create(CLOCK_MONOTONIC, &event, &timer);
            timer_settime(timer, 0, &soon, NULL);
            for (;;) raise(SIGSTOP);
        }
        int status = 0;
        if (!ends(child, &status)) stuck = 1;
        else CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    CHECK(!stuck);
}

/* A signal that would kill a stopped process takes effect after SIGCONT. */
static void signalled_while_stopped(void) {
    pid_t child = fork();
    if (child == 0)
        for (;;) pause();
    int status = 0;
    kill(child, SIGSTOP);
    CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    kill(child, SIGTERM);
    pause_ms(20);
    CHECK(waitpid(child, &status, WNOHANG) == 0);
    kill(child, SIGCONT);
    CHECK(ends(child, &status) && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

static volatile sig_atomic_t alarms;

static void count_alarm(int sig) {
    (void)sig;
    alarms++;
}

/* fork succeeds although a timer fires more often than the fork takes. */
static void fork_under_timer(void) {
    pid_t child = fork();
    if (child == 0) {
        /* Every second page is a mapping of its own: fork takes long. */
        size_t page = sysconf(_SC_PAGESIZE), mappings = 24000;
        char *memory = mmap(NULL, mappings * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (size_t i = 0; i < mappings; i += 2) mprotect(memory + i * page, page, PROT_READ | PROT_WRITE);
        struct sigaction action = { .sa_handler = count_alarm };
        sigaction(SIGALRM, &action, NULL);
        struct itimerval fast = { { 0, 500 }, { 0, 500 } };
        setitimer(ITIMER_REAL, &fast, NULL);
        pid_t grandchild = fork();
        _exit(grandchild < 0);
    }
    int status = -1;
    CHECK(ends(child, &status) && status == 0);
}

static volatile int *progress;

static void *count_one(void *unused) {
    (void)unused;
    (*progress)++;
    return NULL;
}

/*
 * A process that creates threads all the time: a stop and a continuation reach all threads, including new
 * ones.
 */
static void stops_while_making_threads(void) {
    progress = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (child == 0) {
        for (;;) {
            pthread_t thread;
            if (pthread_create(&thread, NULL, count_one, NULL) == 0) pthread_join(thread, NULL);
        }
    }
    int moved = 0;
    for (int i = 0; i < 10; i++) {
        int before = *progress, status = 0;
        while (*progress == before) pause_ms(1);
        kill(child, SIGSTOP);
        CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
        before = *progress;
        pause_ms(10);
        moved += *progress != before;
        kill(child, SIGCONT);
    }
    CHECK(moved == 0);
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child);
    munmap((void *)progress, 4096);
}

static char *lent;

/* Waits on a word that will be unmapped. */
static void *wait_there(void *unused) {
    (void)unused;
    long limit[2] = { LIMIT_S, 0 };
    syscall(SYS_futex, lent, FUTEX_WAIT, 0, limit, NULL, 0);
    return NULL;
}

/* Waiters in unmapped memory are not woken through other memory, even if the kernel reuses the same pages. */
static void memory_gone(void) {
    int fd = memfd_create("one", 0), woken = 0;
    pid_t child = fork();
    if (child) {
        close(fd);
        int status = -1;
        CHECK(ends(child, &status) && status == 0);
        return;
    }
    ftruncate(fd, 4096);
    lent = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    pthread_t thread;
    pthread_create(&thread, NULL, wait_there, NULL);
    /*
     * Until the thread waits, requeueing moves nobody. When it waits, it is moved from one word to the next,
     * and the return value says so.
     */
    while (syscall(SYS_futex, lent, FUTEX_REQUEUE, 0, (void *)1, lent + 4, 0) < 1) pause_ms(1);
    munmap(lent, 4096);
    close(fd);
    for (int i = 0; i < 200; i++) {
        fd = memfd_create("other", 0);
        ftruncate(fd, 4096);
        char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        woken += syscall(SYS_futex, at + 4, FUTEX_WAKE, 1, NULL, NULL, 0);
        if (i % 2) munmap(at, 4096);
        close(fd);
    }
    _exit(woken != 0);
}

static int short_thread(void *word) {
    (void)word;
    struct timespec t = { 0, 30000000 };
    syscall(SYS_sched_yield);
    nanosleep(&t, NULL);
    return 0;
}

/* A futex waiter in shared memory is woken by the end of a thread (CLONE_CHILD_CLEARTID). */
static void end_told_in_shared_memory(void) {
    char *memory = mmap(NULL, 1 << 17, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int *word = (int *)memory;
    *word = 1;
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                CLONE_CHILD_CLEARTID;
    CHECK(clone(short_thread, memory + (1 << 17), flags, word, NULL, NULL, word) > 0);
    long limit[2] = { LIMIT_S, 0 };
    int timed_out = 0;
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) && !timed_out)
        timed_out = syscall(SYS_futex, word, FUTEX_WAIT, 1, limit, NULL, 0) == -1 && errno == ETIMEDOUT;
    CHECK(!timed_out);
}

/* Works until this process has used this much more CPU time. */
static void use_ms(int ms) {
    int64_t end = now(CLOCK_PROCESS_CPUTIME_ID) + ms * 1000000LL;
    while (now(CLOCK_PROCESS_CPUTIME_ID) < end) {}
}

static int64_t microseconds(const struct rusage *r) {
    return (r->ru_utime.tv_sec + r->ru_stime.tv_sec) * 1000000LL + r->ru_utime.tv_usec + r->ru_stime.tv_usec;
}

/* The CPU time of a child includes that of its own children, and is counted once. */
static void used_by_grandchildren(void) {
    struct rusage before, after, told;
    getrusage(RUSAGE_CHILDREN, &before);
    pid_t child = fork();
    if (child == 0) {
        pid_t grandchild = fork();
        if (grandchild == 0) {
            use_ms(60);
            _exit(0);
        }
        waitpid(grandchild, NULL, 0);
        _exit(0);
    }
    CHECK(wait4(child, NULL, 0, &told) == child);
    getrusage(RUSAGE_CHILDREN, &after);
    int64_t more = microseconds(&after) - microseconds(&before) - microseconds(&told);
    CHECK(microseconds(&told) >= 59000);
    CHECK(more >= -10 && more <= 10);
}

/*
 * Runs this program again in a child as another user; returns its status, or 100 plus the errno. `late`: the
 * limit is set after the user.
 */
static int run_as(uid_t uid, int late) {
    pid_t child = fork();
    if (child == 0) {
        struct rlimit one = { 1, 1 };
        if (!late) setrlimit(RLIMIT_NPROC, &one);
        if (setresuid(uid, uid, uid)) _exit(99);
        if (late) setrlimit(RLIMIT_NPROC, &one);
        execl("/proc/self/exe", "wakes", "again", NULL);
        _exit(100 + errno);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* exec checks RLIMIT_NPROC only after a change of user that exceeded it. */
static void limit_of_processes(void) {
    enum { USER = 4711 };
    pid_t others[3];
    int fds[2];
    CHECK(pipe(fds) == 0);
    for (int i = 0; i < 3; i++) {
        others[i] = fork();
        if (others[i] == 0) {
            if (setresuid(USER, USER, USER)) _exit(1);
            if (write(fds[1], "x", 1) != 1) _exit(1);
            for (;;) pause();
        }
    }
    char byte;
    for (int i = 0; i < 3; i++) CHECK(read(fds[0], &byte, 1) == 1);
    CHECK(run_as(USER, 0) == 100 + EAGAIN);
    CHECK(run_as(USER, 1) == 42);
    for (int i = 0; i < 3; i++) {
        kill(others[i], SIGKILL);
        waitpid(others[i], NULL, 0);
    }
    CHECK(run_as(USER, 0) == 42);
    close(fds[0]);
    close(fds[1]);
}

/* Reads a process's times; returns whether one of them is less than before. */
static int went_back(struct rusage *last, int64_t *all) {
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    int64_t time = now(CLOCK_PROCESS_CPUTIME_ID);
    int back =
        timercmp(&r.ru_utime, &last->ru_utime, <) || timercmp(&r.ru_stime, &last->ru_stime, <) || time < *all;
    *last = r;
    *all = time;
    return back;
}

static void *sleeps_and_works(void *unused) {
    (void)unused;
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
        struct timespec t = { 0, 20000 };
        nanosleep(&t, NULL);
        for (volatile int i = 0; i < 2000; i++) {}
    }
    return NULL;
}

/* User time, system time and their sum never decrease, with work in both modes and in another thread. */
static void times_go_forward(void) {
    struct rusage last;
    int64_t all = now(CLOCK_PROCESS_CPUTIME_ID);
    int back = 0;
    pthread_t thread;
    over = 0;
    getrusage(RUSAGE_SELF, &last);
    pthread_create(&thread, NULL, sleeps_and_works, NULL);
    for (int turn = 0; turn < 6; turn++) {
        int64_t end = now(CLOCK_MONOTONIC) + 80000000LL;
        while (now(CLOCK_MONOTONIC) < end) {
            if (turn % 2)
                for (volatile int i = 0; i < 100000; i++) {}
            else
                for (int i = 0; i < 200; i++) syscall(SYS_getppid);
            back += went_back(&last, &all);
        }
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    CHECK(back == 0);
}

static pid_t sleeper;

static void *sleeps_shortly(void *unused) {
    (void)unused;
    __atomic_store_n(&sleeper, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
        struct timespec t = { 0, 5000 };
        nanosleep(&t, NULL);
    }
    return NULL;
}

/* A thread that is moved from CPU to CPU while timers wake it continues. */
static void moved_while_woken(void) {
    cpu_set_t all;
    pthread_t thread;
    sched_getaffinity(0, sizeof all, &all);
    over = 0;
    pthread_create(&thread, NULL, sleeps_shortly, NULL);
    while (!__atomic_load_n(&sleeper, __ATOMIC_ACQUIRE)) sched_yield();
    int cpus = 0, bad = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) cpus += CPU_ISSET(cpu, &all) != 0;
    for (int i = 0; i < 1500; i++) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(i % cpus, &one);
        if (CPU_ISSET(i % cpus, &all)) bad += sched_setaffinity(sleeper, sizeof one, &one) != 0;
    }
    CHECK(bad == 0);
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* The device of `/`. */
static dev_t device_of_root(void) {
    struct stat s;
    return stat("/", &s) ? 0 : s.st_dev;
}

/*
 * In the tree `tree`, with another mount on `tree/in`: exchanges the two as roots while one process walks
 * paths and another sleeps.
 */
static int exchange_roots(const char *tree) {
    if (chroot(tree) || chdir("/")) return 1;
    dev_t devices[2] = { device_of_root(), 0 };
    struct stat s;
    if (stat("/in", &s)) return 2;
    devices[1] = s.st_dev;
    int fds[2];
    if (pipe(fds)) return 3;
    pid_t walker = fork();
    if (walker == 0) {
        fcntl(fds[0], F_SETFL, O_NONBLOCK);
        char byte;
        close(fds[1]);
        while (read(fds[0], &byte, 1) < 0) {
            if (stat("/mark", &s) || (s.st_dev != devices[0] && s.st_dev != devices[1])) _exit(1);
            if (stat("mark", &s)) _exit(2);
        }
        _exit(device_of_root() == devices[0] ? 0 : 3);
    }
    int more[2];
    if (pipe(more)) return 3;
    pid_t asleep = fork();
    if (asleep == 0) {
        char byte;
        close(fds[1]);
        close(more[1]);
        if (read(more[0], &byte, 1)) _exit(1);
        _exit(device_of_root() == devices[0] ? 0 : 3);
    }
    int bad = 0;
    for (int i = 0; i < 20; i++) {
        /* The old root is mounted where the new one was. */
        if (syscall(SYS_pivot_root, "/in", "/in/in")) bad = 10;
        if (device_of_root() != devices[~i & 1]) bad = 11;
    }
    close(fds[1]);
    close(more[1]);
    int status;
    if (waitpid(walker, &status, 0) != walker || status) bad = 20 + WEXITSTATUS(status);
    if (waitpid(asleep, &status, 0) != asleep || status) bad = 30 + WEXITSTATUS(status);
    return bad;
}

static void mark(const char *tree) {
    char name[64];
    snprintf(name, sizeof name, "%s/in", tree);
    CHECK(mkdir(name, 0755) == 0);
    snprintf(name, sizeof name, "%s/mark", tree);
    int fd = open(name, O_CREAT | O_WRONLY, 0644);
    CHECK(fd >= 0);
    close(fd);
}

/*
 * pivot_root changes the root of every process that has the old one, including those that walk paths at that
 * moment and those that sleep.
 */
static void others_roots(void) {
    CHECK(mkdir("tree", 0755) == 0);
    CHECK(mount("none", "tree", "tmpfs", 0, NULL) == 0);
    mount(NULL, "tree", NULL, MS_PRIVATE, NULL);
    mark("tree");
    CHECK(mount("none", "tree/in", "tmpfs", 0, NULL) == 0);
    mark("tree/in");
    pid_t child = fork();
    if (child == 0) _exit(exchange_roots("tree"));
    int status = -1;
    CHECK(ends(child, &status));
    if (status) printf("exchange_roots: %#x\n", status);
    CHECK(status == 0);
    CHECK(umount2("tree", MNT_DETACH) == 0);
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) return 42;
    setvbuf(stdout, NULL, _IONBF, 0);
    one_of_several();
    killed_while_stopping();
    signalled_while_stopped();
    fork_under_timer();
    stops_while_making_threads();
    memory_gone();
    end_told_in_shared_memory();
    used_by_grandchildren();
    limit_of_processes();
    times_go_forward();
    moved_while_woken();
    others_roots();
    return report();
}
