/*
 * ptrace and system calls: what a tracer sees of a call that a stop interrupts, what becomes of it when the
 * tracer calls a function of the program meanwhile, as debuggers do, and calls that do not run. The same on
 * Limen and on Linux. Called by tools/limen/src/test/programs.rs, on every architecture.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "seccomp.h"
#include "tracer.h"

#include "common.h"

#define O_SECCOMP 0x80
#define CALL_STOP STATUS(SIGTRAP | 0x80, 0)

/* Where the general registers have what these tests look at. ORIGINAL: the kept first argument. */
#if defined(__x86_64__)
enum { WORDS = 27, PC = 16, SP = 19, ARGUMENT = 14, ORIGINAL = 14, RESULT = 10, NUMBER = 15 };
#elif defined(__aarch64__)
enum { WORDS = 34, PC = 32, SP = 31, ARGUMENT = 0, ORIGINAL = 0, RESULT = 0, NUMBER = 8 };
#elif defined(__arm__)
enum { WORDS = 18, PC = 15, SP = 13, ARGUMENT = 0, ORIGINAL = 0, RESULT = 0, NUMBER = 7 };
enum { PSR = 16, KEPT = 17 };
#else
enum { WORDS = 48, PC = 32, SP = 1, ARGUMENT = 3, ORIGINAL = 34, RESULT = 3, NUMBER = 0 };
enum { CCR = 38, TRAP = 40 };
#endif

static void get_registers(pid_t pid, unsigned long *registers) {
    struct iovec io = {registers, WORDS * sizeof *registers};
    CHECK(trace(GETREGSET, pid, NT_PRSTATUS, (unsigned long)&io) == 0);
    CHECK(io.iov_len == WORDS * sizeof *registers);
}

static void set_registers(pid_t pid, unsigned long *registers) {
    struct iovec io = {registers, WORDS * sizeof *registers};
    CHECK(trace(SETREGSET, pid, NT_PRSTATUS, (unsigned long)&io) == 0);
}

static void set_one(pid_t pid, int which, unsigned long value) {
    unsigned long registers[WORDS];
    get_registers(pid, registers);
    registers[which] = value;
    set_registers(pid, registers);
}

/* Another number of the call at whose entry it stops. */
static void set_number(pid_t pid, int number) {
#if defined(__aarch64__)
    struct iovec io = {&number, sizeof number};
    CHECK(trace(SETREGSET, pid, 0x404, (unsigned long)&io) == 0);
#elif defined(__arm__)
    CHECK(trace(23, pid, 0, number) == 0);
#else
    set_one(pid, NUMBER, (long)number);
#endif
}

/* What there is of a call: its number, or its result. */
struct call_info {
    uint8_t op, pad[23];
    uint64_t value;
    uint8_t is_error;
    uint64_t more[8];
};

static volatile long heard;

/* What the tracer calls: it ends in a stop. */
static void __attribute__((noinline, noreturn)) tells(long number) {
    heard = number;
    for (;;) __builtin_trap();
}

/* Makes of the registers what they are when it is called; `argument`, unless that is 0. */
static void call(unsigned long *registers, long argument) {
    unsigned long at = (unsigned long)tells;
    registers[SP] = (registers[SP] - 2048) & ~15ul;
    if (argument != 0) registers[ARGUMENT] = argument;
#if defined(__x86_64__)
    registers[SP] -= 8;
    registers[NUMBER] = -1;
#elif defined(__arm__)
    registers[PSR] = (registers[PSR] & ~0x20ul) | (at & 1 ? 0x20 : 0);
    at &= ~1ul;
#elif defined(__powerpc64__)
    registers[12] = at;
    registers[TRAP] = -1;
#endif
    registers[PC] = at;
}

static volatile sig_atomic_t handled;

static void handles(int sig) { handled += sig == SIGUSR1; }

static void with_handler(int flags) {
    struct sigaction action = {.sa_handler = handles, .sa_flags = flags};
    sigaction(SIGUSR1, &action, NULL);
}

/* On powerpc64 there are two instructions for calls; the C library has the newer one where there is that. */
#ifdef __powerpc64__
enum { OLDER = 1 };
static int older;

static long read_one(int fd, char *to) {
    if (!older) return read(fd, to, 1);
    register long r0 __asm__("r0") = SYS_read, r3 __asm__("r3") = fd;
    register long r4 __asm__("r4") = (long)to, r5 __asm__("r5") = 1;
    __asm__ volatile("sc\n\tbns+ 1f\n\tneg 3, 3\n1:"
                     : "+r"(r0), "+r"(r3), "+r"(r4), "+r"(r5)
                     :
                     : "r6", "r7", "r8", "r9", "r10", "r11", "r12", "cr0", "ctr", "xer", "memory");
    if (r3 >= 0) return r3;
    errno = -r3;
    return -1;
}
#else
enum { OLDER = 0 };
static int older;

static long read_one(int fd, char *to) { return read(fd, to, 1); }
#endif

/* Descriptor 7 has nothing to read yet, 8 has. */
static int reads(void) {
    char byte = 0;
    long n = read_one(7, &byte);
    if (n < 0) return errno == EINTR ? 6 : errno == 512 ? 7 : 4;
    return n > 1 ? 9 : byte == 'y' ? 8 : byte == 'x' ? 5 : 4;
}

static int reads_after_handler(void) {
    with_handler(0);
    return reads();
}

static int reads_again(void) {
    with_handler(SA_RESTART);
    return reads();
}

/* Milliseconds. */
#define NAP 400

static int naps(void) {
    struct timespec some = {0, NAP * 1000000};
    return nanosleep(&some, &some) == 0 ? 5 : errno == EINTR ? 6 : 7;
}

static int in = -1;

/* A child, traced, that waits in the call that `body` makes; `in` is the other end of its descriptor 7. */
static pid_t waits(int (*body)(void)) {
    int first[2], second[2], third[2];
    char byte;
    CHECK(pipe(first) == 0 && pipe(second) == 0 && pipe(third) == 0 && write(second[1], "y", 1) == 1);
    pid_t pid = fork();
    if (pid == 0) {
        /* Where they are from is above those. */
        int from = fcntl(first[0], F_DUPFD, 20), other = fcntl(second[0], F_DUPFD, 20);
        int ready = fcntl(third[1], F_DUPFD, 20);
        for (int fd = 3; fd < 20; fd++) close(fd);
        dup2(from, 7);
        dup2(other, 8);
        if (write(ready, "r", 1) != 1) _exit(3);
        close(ready);
        _exit(body());
    }
    CHECK(read(third[0], &byte, 1) == 1);
    close(first[0]);
    close(second[0]);
    close(second[1]);
    close(third[0]);
    close(third[1]);
    if (in >= 0) close(in);
    in = first[1];
    SOON(thread_state(pid) == 'S');
    CHECK(trace(SEIZE, pid, 0, SYSGOOD) == 0);
    return pid;
}

/* It stops: for a signal, or (0) because its tracer wants it to. */
static void stops(pid_t pid, int sig, unsigned long *registers) {
    if (sig != 0) {
        CHECK(kill(pid, sig) == 0 && await(pid) == STATUS(sig, 0));
    } else {
        CHECK(trace(INTERRUPT, pid, 0, 0) == 0 && await(pid) == STATUS(SIGTRAP, STOP_EVENT));
    }
    get_registers(pid, registers);
}

/* It goes on, still waits for its byte, and gets that. */
static void reads_on(pid_t pid, int sig) {
    CHECK(trace(CONT, pid, 0, sig) == 0);
    usleep(30000);
    CHECK(waitpid(pid, NULL, WNOHANG | __WALL) == 0);
    CHECK(write(in, "x", 1) == 1 && await(pid) == 5 << 8);
}

/* It has come to the end of the function that it was made to call. */
static void heard_of(pid_t pid, unsigned long number) {
    unsigned long value = 0;
    int status = await(pid);
    CHECK(status == STATUS(SIGTRAP, 0) || status == STATUS(SIGILL, 0));
    CHECK(trace(PEEKDATA, pid, (unsigned long)&heard, (unsigned long)&value) == 0 && value == number);
}

/* On the Arms the call is already where it is made again. */
static void seen(void) {
    for (int sig = 0; sig <= SIGUSR2; sig += SIGUSR2) {
        unsigned long registers[WORDS];
        pid_t pid = waits(reads);
        stops(pid, sig, registers);
#if defined(__x86_64__)
        CHECK(registers[RESULT] == -512ul && registers[NUMBER] == SYS_read && registers[ARGUMENT] == 7);
#elif defined(__powerpc64__)
        int old = registers[TRAP] == 0xc00;
        CHECK(old || registers[TRAP] == 0x3000);
        CHECK(registers[RESULT] == (old ? 512ul : -512ul) && registers[NUMBER] == SYS_read);
        CHECK(registers[ORIGINAL] == 7 && (registers[CCR] >> 28 & 1) == (unsigned long)old);
#else
        unsigned long there = 0;
        CHECK(trace(PEEKDATA, pid, registers[PC], (unsigned long)&there) == 0);
        CHECK(registers[ARGUMENT] == 7 && registers[NUMBER] == SYS_read);
#if defined(__aarch64__)
        int number = 0;
        struct iovec io = {&number, sizeof number};
        CHECK((uint32_t)there == 0xd4000001);
        CHECK(trace(GETREGSET, pid, 0x404, (unsigned long)&io) == 0 && number == -1);
#else
        CHECK(registers[KEPT] == 7);
        CHECK(registers[PSR] & 0x20 ? (there & 0xffff) == 0xdf00 : there == 0xef000000);
#endif
#endif
        set_registers(pid, registers);
        reads_on(pid, 0);
    }
}

/* A child that is stopped in its nap; another one if this took so long that the nap may have been over. */
static pid_t stopped_nap(unsigned long *registers) {
    for (int tries = 1;; tries++) {
        struct timespec then, now;
        int before = failed;
        clock_gettime(CLOCK_MONOTONIC, &then);
        pid_t pid = waits(naps);
        stops(pid, 0, registers);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((now.tv_sec - then.tv_sec) * 1000 + (now.tv_nsec - then.tv_nsec) / 1000000 < NAP) return pid;
        if (tries == 5) return pid;
        printf("nap %d was too short\n", tries);
        failed = before;
        if (waitpid(pid, NULL, WNOHANG | __WALL) == 0) ended(pid);
    }
}

/* A function is called in between, with and without an argument of its own. */
static void called(void) {
    for (int round = 0; round < 4; round++) {
        unsigned long before[WORDS], registers[WORDS];
        long argument = round & 1 ? 40 + round : 0;
        pid_t pid = waits(reads);
        stops(pid, round & 2 ? SIGUSR2 : 0, before);
        memcpy(registers, before, sizeof before);
        call(registers, argument);
        set_registers(pid, registers);
        CHECK(trace(CONT, pid, 0, 0) == 0);
        heard_of(pid, argument != 0 ? (unsigned long)argument : registers[ARGUMENT]);
        set_registers(pid, before);
        reads_on(pid, 0);
    }
    /* What can only be restarted with the time that is left. */
    for (int moves = 0; moves < 2; moves++) {
        unsigned long before[WORDS], registers[WORDS];
        struct call_info info;
        pid_t pid = stopped_nap(before);
        memcpy(registers, before, sizeof before);
        if (moves) {
            call(registers, 50);
            set_registers(pid, registers);
            CHECK(trace(CONT, pid, 0, 0) == 0);
            heard_of(pid, 50);
            set_registers(pid, before);
            CHECK(trace(CONT, pid, 0, 0) == 0 && await(pid) == 5 << 8);
            continue;
        }
        CHECK(trace(SYSCALL, pid, 0, 0) == 0 && await(pid) == CALL_STOP);
        CHECK(trace(GET_SYSCALL_INFO, pid, sizeof info, (unsigned long)&info) == 80 && info.op == 1);
        CHECK(info.value == SYS_restart_syscall);
        CHECK(trace(CONT, pid, 0, 0) == 0 && await(pid) == 5 << 8);
    }
}

/* A handler ends the call or not, and runs first if the program was moved. */
static void with_handlers(void) {
    unsigned long before[WORDS], registers[WORDS], count = 0;
    pid_t pid = waits(reads_after_handler);
    stops(pid, SIGUSR1, registers);
    CHECK(trace(CONT, pid, 0, SIGUSR1) == 0 && await(pid) == 6 << 8);
    /* The handler returns by a call whose result is that of the one which it interrupted. */
    struct call_info info;
    int is_error = 1;
    pid = waits(reads_after_handler);
    stops(pid, SIGUSR1, registers);
#ifdef __powerpc64__
    is_error = registers[TRAP] == 0xc00;
#endif
    CHECK(trace(SYSCALL, pid, 0, SIGUSR1) == 0 && await(pid) == CALL_STOP && message(pid) == 1);
    CHECK(trace(SYSCALL, pid, 0, 0) == 0 && await(pid) == CALL_STOP && message(pid) == 2);
    CHECK(trace(GET_SYSCALL_INFO, pid, sizeof info, (unsigned long)&info) == 33 && info.op == 2);
    CHECK(info.value == (uint64_t)-EINTR && info.is_error == is_error);
    CHECK(trace(CONT, pid, 0, 0) == 0 && await(pid) == 6 << 8);
    pid = waits(reads_again);
    stops(pid, SIGUSR1, registers);
    reads_on(pid, SIGUSR1);
    for (int again = 0; again < 2; again++) {
        pid = waits(again ? reads_again : reads_after_handler);
        stops(pid, SIGUSR1, before);
        memcpy(registers, before, sizeof before);
        call(registers, 60);
        set_registers(pid, registers);
        CHECK(trace(CONT, pid, 0, SIGUSR1) == 0);
        heard_of(pid, 60);
        CHECK(trace(PEEKDATA, pid, (unsigned long)&handled, (unsigned long)&count) == 0);
        CHECK((int)count == 1);
        set_registers(pid, before);
        reads_on(pid, 0);
    }
}

/* The call becomes another one, or none. */
static void changed(void) {
    unsigned long registers[WORDS];
    pid_t pid = waits(reads);
    stops(pid, SIGUSR2, registers);
    registers[ORIGINAL] = 8;
    set_registers(pid, registers);
    CHECK(trace(CONT, pid, 0, 0) == 0 && await(pid) == 8 << 8);
    pid = waits(reads);
    stops(pid, SIGUSR2, registers);
    registers[NUMBER] = SYS_getppid;
    set_registers(pid, registers);
#ifdef __arm__
    reads_on(pid, 0);
#else
    CHECK(trace(CONT, pid, 0, 0) == 0 && await(pid) == 9 << 8);
#endif
    pid = waits(reads);
    stops(pid, 0, registers);
#if defined(__x86_64__)
    registers[NUMBER] = -1;
#elif defined(__powerpc64__)
    registers[TRAP] = 0;
#elif defined(__aarch64__)
    registers[PC] += 4;
    registers[RESULT] = -512;
#else
    registers[PC] += registers[PSR] & 0x20 ? 2 : 4;
    registers[RESULT] = -512;
#endif
    set_registers(pid, registers);
    CHECK(trace(CONT, pid, 0, 0) == 0 && await(pid) == 7 << 8);
    /* And a call again, by what was there first. */
    pid = waits(reads);
    unsigned long other[WORDS];
    stops(pid, 0, registers);
    memcpy(other, registers, sizeof other);
    call(other, 70);
    set_registers(pid, other);
    set_registers(pid, registers);
    reads_on(pid, 0);
}

/* Its first call of umask has the argument 7 and gives 3. Both digits: that result, and what it is then. */
static int masks(void) {
    long was = syscall(SYS_umask, 7);
    if (was < 0) return 100 + errno;
    return 10 * was + syscall(SYS_umask, 0);
}

static int filtered_masks(void) {
    umask(3);
    if (no_new_privs() != 0 || attach_for(0, SYS_umask, SECCOMP_RET_TRACE | 9) != 0) return 99;
    return masks();
}

static int plain_masks(void) {
    umask(3);
    raise(SIGSTOP);
    return masks();
}

/* At the stop for a filter, where 32-bit Arm's and arm64's only register for both is the argument. */
static pid_t at_filter(void) {
    unsigned long registers[WORDS];
    pid_t pid = traced(filtered_masks);
    CHECK(trace(SETOPTIONS, pid, 0, O_SECCOMP) == 0 && trace(CONT, pid, 0, 0) == 0);
    CHECK(await(pid) == STATUS(SIGTRAP, 7) && message(pid) == 9);
    get_registers(pid, registers);
    CHECK(registers[ORIGINAL] == 7);
    if (ORIGINAL != RESULT) CHECK(registers[RESULT] == (unsigned long)-ENOSYS);
    return pid;
}

static void filter_ends(pid_t pid, int status) {
    CHECK(trace(CONT, pid, 0, 0) == 0);
    int found = await(pid);
    while (found == STATUS(SIGTRAP, 7) && trace(CONT, pid, 0, 0) == 0) found = await(pid);
    CHECK(found == status << 8);
}

static void filtered(void) {
    filter_ends(at_filter(), 37);
    pid_t pid = at_filter();
    set_one(pid, ORIGINAL, 5);
    if (ORIGINAL != RESULT) set_one(pid, RESULT, 1);
    filter_ends(pid, 35);
    /* Skipped. */
    pid = at_filter();
    set_number(pid, -1);
    filter_ends(pid, ORIGINAL != RESULT ? 100 + ENOSYS : 73);
    pid = at_filter();
    set_number(pid, -1);
    set_one(pid, RESULT, 4);
    filter_ends(pid, 43);
    pid = at_filter();
    set_number(pid, -1);
    set_one(pid, RESULT, -EPERM);
    filter_ends(pid, 100 + EPERM);
    /* A number that is none, but not skipped. */
    pid = at_filter();
    set_number(pid, 0x7000);
    filter_ends(pid, 100 + ENOSYS);
}

/* At the entry of the call of umask. */
static pid_t at_entry(void) {
    unsigned long registers[WORDS];
    pid_t pid = traced(plain_masks);
    CHECK(trace(SETOPTIONS, pid, 0, SYSGOOD) == 0 && trace(CONT, pid, 0, 0) == 0);
    CHECK(await(pid) == STATUS(SIGSTOP, 0));
    do {
        CHECK(trace(SYSCALL, pid, 0, 0) == 0 && await(pid) == CALL_STOP);
        get_registers(pid, registers);
    } while (message(pid) != 1 || registers[NUMBER] != SYS_umask);
    CHECK(registers[ARGUMENT] == 7 && registers[ORIGINAL] == 7);
    return pid;
}

static void entered(void) {
    pid_t pid = at_entry();
    CHECK(trace(CONT, pid, 0, 0) == 0 && await(pid) == 37 << 8);
    pid = at_entry();
    set_one(pid, ARGUMENT, 5);
    CHECK(trace(CONT, pid, 0, 0) == 0 && await(pid) == 35 << 8);
    /* On powerpc64 the argument's register does not become the result. */
    pid = at_entry();
    set_one(pid, RESULT, 4);
    set_number(pid, -1);
#ifdef __powerpc64__
    CHECK(trace(CONT, pid, 0, 0) == 0 && await(pid) == (100 + ENOSYS) << 8);
#else
    CHECK(trace(CONT, pid, 0, 0) == 0 && await(pid) == 43 << 8);
#endif
}

int main(void) {
    /* What failed before a wait that does not end. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    alarm(100);
    for (older = 0; older <= OLDER; older++) {
        seen();
        called();
        with_handlers();
        changed();
    }
    filtered();
    entered();
    return report();
}
