/*
 * Do system calls keep the registers that the ABI says they keep? Makes every call with a pattern in each of
 * these registers (stub.h) and compares them afterwards: after plain returns, interrupted calls with a
 * handler, restarted calls with and without a handler, in a fork's child, after a failed exec, and after
 * large copies. Run by tools/limen/src/test/programs.rs; prints one line per kind, and `registers kept` at
 * the end.
 */
#define _GNU_SOURCE
#include "stub.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NUMBERS 480      /* beyond the highest number of any of our architectures */
#define ROUNDS 20
#define MOST_LOST 16     /* numbers whose call may not come back: those that wait or end */

static struct state state;
static uint64_t seed = 0x9e3779b97f4a7c15;
static volatile int handled;
static void (*const first_way)(struct state *) = registers_call;
static void (*enter)(struct state *) =
    registers_call; /* or the processor's other instruction for system calls, or none */
static int bad;

static uint64_t next(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

/* Makes a system call and reports every register that changed. */
static long call(const char *when, long number, long a, long b, long c, long d, long e, long f) {
    const long args[] = {a, b, c, d, e, f, number};
    state.number = number;
    memcpy(state.args, args, sizeof state.args);
    for (int i = 0; i < SLOTS; i++) state.before[i] = (unsigned long)next();
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (kept[i].argument >= 0) state.before[kept[i].slot] = (unsigned long)args[kept[i].argument];
#if defined(__powerpc64__)
    state.before[1] &= 0xfff000;
#endif
    for (size_t i = 0; i < VECTOR_BYTES; i += 8) {
        /* Normal numbers, which no processor changes when they are loaded and stored. */
        double x = (double)(next() % 1000000) + 0.5;
        memcpy(state.vectors_before + i, &x, sizeof x);
    }
    enter(&state);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        int slot = kept[i].slot;
#if defined(LINK_REGISTER)
        if (slot == LINK_REGISTER && enter == registers_call_scv) continue;
#endif
#if defined(COUNTER)
        if (slot == COUNTER && enter == registers_spin) continue;
#endif
        if (state.before[slot] == state.after[slot]) continue;
        printf("%s: call %ld: %s was %#lx and is %#lx (result %ld%s)\n", when, number, kept[i].name,
               state.before[slot], state.after[slot], state.result,
               enter == first_way ? "" : ", the other way");
        bad++;
    }
    for (size_t i = 0; i < VECTOR_BYTES; i += 8) {
        if (memcmp(state.vectors_before + i, state.vectors_after + i, 8) == 0) continue;
        printf("%s: call %ld: vector registers, byte %zu, changed (result %ld)\n", when, number, i,
               state.result);
        bad++;
        break;
    }
    if (bad > 20) exit(1);
    return state.result;
}

static void want(const char *when, int right) {
    if (right) return;
    printf("%s: the result is %ld\n", when, state.result);
    bad++;
}

/* A handler that uses all registers it may use. */
static void handler(int signal) {
    volatile double x = signal;
    char bytes[256];
    for (int i = 0; i < 10; i++) x = x * 1.5 + i;
    memset(bytes, (int)x, sizeof bytes);
    __asm__ volatile("" : : "r"(bytes) : "memory");
    handled++;
}

static void on(int signal, int flags, int trash) {
    struct sigaction action = {.sa_handler = trash ? registers_trash : handler, .sa_flags = flags};
    sigaction(signal, &action, NULL);
}

/* Sends SIGALRM after this many milliseconds and at this interval; 0: never. */
static void alarm_after(long milliseconds) {
    struct itimerval at = {{0, milliseconds * 1000}, {0, milliseconds * 1000}};
    setitimer(ITIMER_REAL, &at, NULL);
}

static void nap(long milliseconds) {
    struct timespec t = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    while (nanosleep(&t, &t) && errno == EINTR) {
    }
}

/* Calls that end the caller, duplicate it, or change its identity. */
static int left_out(long n) {
    switch (n) {
    case SYS_exit:
    case SYS_exit_group:
    case SYS_clone:
    case 435: /* clone3 */
    case SYS_rt_sigreturn:
#ifdef SYS_sigreturn
    case SYS_sigreturn:
#endif
#ifdef SYS_fork
    case SYS_fork:
    case SYS_vfork:
#endif
#ifdef SYS_switch_endian
    case SYS_switch_endian:
#endif
        return 1;
    }
    return 0;
}

/*
 * Makes every call by number, as an ordinary user, with arguments with which no call can do much. A call that
 * waits is interrupted and skipped.
 */
static void every_number(void) {
    struct { volatile long number, returned, bad; } *shared;
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int lost = 0;
    fflush(stdout);
    while (shared->number < NUMBERS) {
        pid_t child = fork();
        if (child == 0) {
            if (getuid() == 0 && setuid(1000)) _exit(2);
            for (; shared->number < NUMBERS; shared->number++) {
                if (left_out(shared->number)) continue;
                call("return", shared->number, -1, -1, -1, -1, -1, -1);
                shared->returned++;
                shared->bad = bad;
            }
            fflush(stdout);
            _exit(0);
        }
        for (long last = -1; waitpid(child, NULL, WNOHANG) == 0; nap(50)) {
            if (shared->number == last) kill(child, SIGKILL);
            last = shared->number;
        }
        bad += (int)shared->bad;
        shared->bad = 0;
        if (shared->number < NUMBERS) {
            shared->number++;
            lost++;
        }
    }
    printf("returns: %ld of %d numbers came back\n", shared->returned, NUMBERS);
    if (lost > MOST_LOST) {
        printf("%d calls did not come back\n", lost);
        bad++;
    }
    munmap(shared, 4096);
}

/* Calls that wait and are ended by a handler. */
static void interrupted(void) {
    int pipes[2];
    struct timespec long_time = {100, 0};
    if (pipe(pipes)) exit(2);
    handled = 0;
    for (int i = 0; i < ROUNDS; i++) {
        on(SIGALRM, 0, i % 2);
        if (i == 0) alarm_after(2);
        char byte;
        call("interrupted read", SYS_read, pipes[0], (long)&byte, 1, -1, -1, -1);
        want("interrupted read", state.result == -EINTR);
        call("interrupted sleep", SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&long_time, 0, -1, -1);
        want("interrupted sleep", state.result == -EINTR);
        call("interrupted ppoll", SYS_ppoll, 0, 0, 0, 0, 0, -1);
        want("interrupted ppoll", state.result == -EINTR);
    }
    alarm_after(0);
    printf("signals: %d handlers\n", handled);
    close(pipes[0]), close(pipes[1]);
}

/* A read that is restarted until there is data: after a handler, and after a stop without one. */
static void restarted(void) {
    int pipes[2], status;
    char byte;
    pid_t self = getpid();
    if (pipe(pipes)) exit(2);
    handled = 0;
    for (int i = 0; i < ROUNDS; i++) {
        on(SIGALRM, SA_RESTART, i % 2);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            nap(10);
            _exit(write(pipes[1], "x", 1) != 1);
        }
        alarm_after(2);
        call("restarted read", SYS_read, pipes[0], (long)&byte, 1, -1, -1, -1);
        alarm_after(0);
        want("restarted read", state.result == 1);
        waitpid(child, &status, 0);
    }
    int handlers = handled;
    for (int i = 0; i < 5; i++) {
        struct timespec t = {0, 60000000};
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            nap(20);
            kill(self, SIGSTOP);
            nap(20);
            kill(self, SIGCONT);
            nap(100);
            _exit(write(pipes[1], "x", 1) != 1);
        }
        /* The kernel continues the sleep by restart_syscall, and the read by making the call again. */
        call("restarted sleep", SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&t, 0, -1, -1);
        want("restarted sleep", state.result == 0);
        call("read after a stop", SYS_read, pipes[0], (long)&byte, 1, -1, -1, -1);
        want("read after a stop", state.result == 1);
        waitpid(child, &status, 0);
    }
    printf("restarts: %d handlers, 5 stops\n", handlers);
    close(pipes[0]), close(pipes[1]);
}

static void forked(void) {
    for (int i = 0; i < ROUNDS; i++) {
        int status = -1;
        fflush(stdout);
        call("fork", SYS_clone, SIGCHLD, 0, 0, 0, 0, -1);
        if (state.result == 0) {
            fflush(stdout);
            _exit(bad != 0);
        }
        want("fork", state.result > 0);
        waitpid((pid_t)state.result, &status, 0);
        if (status) {
            printf("fork: the child's registers changed, or it died: status %#x\n", (unsigned)status);
            bad++;
        }
    }
    printf("forks: %d children\n", ROUNDS);
}

static void exec_failed(void) {
    static char *const none[] = {NULL};
    const char *text = "/tmp/registers-no-program";
    int fd = open(text, O_WRONLY | O_CREAT | O_TRUNC, 0755);
    if (fd < 0 || write(fd, "no program\n", 11) != 11) exit(2);
    close(fd);
    call("exec", SYS_execve, (long)"/tmp/nothing", (long)none, (long)none, -1, -1, -1);
    want("exec of nothing", state.result == -ENOENT);
    call("exec", SYS_execve, (long)"/proc/self/maps", (long)none, (long)none, -1, -1, -1);
    want("exec of no program", state.result == -EACCES);
    call("exec", SYS_execve, (long)text, (long)none, (long)none, -1, -1, -1);
    want("exec of text", state.result == -ENOEXEC);
    call("exec", SYS_execve, -1, -1, -1, -1, -1, -1);
    want("exec of a bad pointer", state.result == -EFAULT);
    unlink(text);
    printf("execs: 4 failures\n");
}

/* No system call: interrupts, other tasks and handlers while user mode counts. */
static void spinning(void) {
    void (*way)(struct state *) = enter;
    enter = registers_spin;
    handled = 0;
    for (int i = 0; i < ROUNDS; i++) {
        on(SIGALRM, SA_RESTART, i % 2);
        if (i == 0) alarm_after(1);
        call("spin", 3000000, -1, -1, -1, -1, -1, -1);
    }
    alarm_after(0);
    printf("spins: %d handlers\n", handled);
    enter = way;
}

/*
 * Large copies, for which a kernel may use vector registers: aligned or not, to pages that are present, that
 * are faulted in, and that are not accessible.
 */
static void copied(void) {
    enum { LENGTH = 40000, ROOM = 65536, ALLOWED = 16384 };
    static unsigned char data[LENGTH + 64];
    const char *name = "/tmp/registers-copies";
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (int i = 0; i < ROUNDS; i++) {
        long at = (long)(next() % 64), to_at = (long)(next() % 64), len = LENGTH - (long)(next() % 3000);
        for (size_t n = 0; n < sizeof data; n++) data[n] = (unsigned char)next();
        lseek(fd, 0, SEEK_SET);
        call("copy", SYS_write, fd, (long)(data + at), len, -1, -1, -1);
        want("copy from user memory", state.result == len);
        unsigned char *to = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (int again = 0; again < 2; again++) {
            lseek(fd, 0, SEEK_SET);
            call("copy", SYS_read, fd, (long)(to + to_at), len, -1, -1, -1);
            want("copy to user memory", state.result == len && memcmp(to + to_at, data + at, len) == 0);
        }
        memset(to, 0, ALLOWED);
        mprotect(to + ALLOWED, ROOM - ALLOWED, PROT_NONE);
        lseek(fd, 0, SEEK_SET);
        call("copy", SYS_read, fd, (long)(to + to_at), len, -1, -1, -1);
        want("copy that ends early", state.result > 0 && state.result <= ALLOWED - to_at &&
                                         memcmp(to + to_at, data + at, state.result) == 0);
        munmap(to, ROOM);
    }
    close(fd);
    unlink(name);
    printf("copies: %d files\n", ROUNDS);
}

static void all(void) {
    every_number();
    interrupted();
    restarted();
    spinning();
    forked();
    exec_failed();
    copied();
}

int main(void) {
    all();
#if defined(SECOND_WAY)
    if (getauxval(AT_HWCAP2) & 0x00100000 /* PPC_FEATURE2_SCV */) {
        enter = registers_call_scv;
        all();
    }
#endif
    if (bad) printf("%d registers or results were wrong\n", bad);
    else printf("registers kept\n");
    return bad != 0;
}
