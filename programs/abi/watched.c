/*
 * Breakpoints and watchpoints in the processor, that a tracer sets; steps from branch to branch; on 32-bit
 * Arm, single steps of code that software has to understand. The same on Limen and on Linux, but for these
 * last. Called by tools/limen/src/test/programs.rs, on every architecture.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tracer.h"

#if !defined(__powerpc64__)
#define HAVE 1
/* What a child stopped for. */
static siginfo_t stopped(pid_t pid) {
    siginfo_t info;
    memset(&info, 0, sizeof info);
    CHECK(await(pid) == STATUS(SIGTRAP, 0) && trace(GETSIGINFO, pid, 0, (unsigned long)&info) == 0);
    return info;
}

static volatile uint64_t watched[2], other;
static int in[2];
#endif

__attribute__((noinline)) static int called(int n) {
    __asm__ volatile("" : "+r"(n));
    return n + 1;
}

#ifdef HAVE
/* Meets all that is watched, in an order: a store of its own, the kernel's, a call, one in a thread. */
static void *in_thread(void *arg) {
    watched[0] = 7;
    return arg;
}

static int body(void) {
    char byte;
    pthread_t thread;
    other = 1;
    watched[1] = 3;
    watched[0] = 5;
    int n = called(1);
    if (read(in[0], &byte, 1) != 1 || pthread_create(&thread, NULL, in_thread, NULL) != 0) return 1;
    pthread_join(thread, NULL);
    pid_t pid = fork();
    if (pid == 0) {
        watched[0] = 9;
        _exit(called(2));
    }
    int status = -1;
    if (waitpid(pid, &status, 0) != pid || status != 3 << 8) return 2;
    return n == 2 && watched[0] == 7 ? 40 : 3;
}
#endif

#if defined(__x86_64__)
#define DEBUGREG(n) (848 + 8 * (n))
static int set_break(pid_t pid, void *at) {
    return trace(POKEUSER, pid, DEBUGREG(0), (unsigned long)at) | trace(POKEUSER, pid, DEBUGREG(7), 1);
}
static int set_watch(pid_t pid, volatile void *at) {
    return trace(POKEUSER, pid, DEBUGREG(1), (unsigned long)at)
        | trace(POKEUSER, pid, DEBUGREG(7), 1 << 2 | 9 << 20);
}
static int set_nothing(pid_t pid) { return trace(POKEUSER, pid, DEBUGREG(7), 0); }
#elif defined(__aarch64__)
#define NT_BREAK 0x402
#define NT_WATCH 0x403
struct points {
    uint32_t info, pad;
    struct {
        uint64_t at;
        uint32_t control, pad;
    } point[16];
};
static int set_point(pid_t pid, long note, volatile void *at, uint32_t control) {
    struct points points = {.point[0] = {.at = (unsigned long)at, .control = control}};
    struct iovec io = {&points, offsetof(struct points, point[1])};
    return trace(SETREGSET, pid, note, (unsigned long)&io);
}
static int set_break(pid_t pid, void *at) { return set_point(pid, NT_BREAK, at, 0xf << 5 | 1); }
static int set_watch(pid_t pid, volatile void *at) {
    return set_point(pid, NT_WATCH, at, 0xff << 5 | 2 << 3 | 1);
}
static int set_nothing(pid_t pid) {
    return set_point(pid, NT_BREAK, NULL, 0) | set_point(pid, NT_WATCH, NULL, 0);
}
#elif defined(__arm__)
static int set_point(pid_t pid, long n, unsigned long at, unsigned long control) {
    long next = n < 0 ? n - 1 : n + 1;
    return trace(30, pid, n, (unsigned long)&at) | trace(30, pid, next, (unsigned long)&control);
}
static int set_break(pid_t pid, void *at) {
    unsigned long bytes = (unsigned long)at & 1 ? 3 : 0xf;
    return set_point(pid, 1, (unsigned long)at & ~1ul, bytes << 5 | 1);
}
static int set_watch(pid_t pid, volatile void *at) {
    return set_point(pid, -1, (unsigned long)at, 0xf << 5 | 2 << 3 | 1);
}
static int set_nothing(pid_t pid) {
    return set_point(pid, 1, 0, 0xf << 5) | set_point(pid, -1, 0, 0xf << 5 | 2 << 3);
}
#endif

#ifdef HAVE
/* x86_64 stops behind the access, the others before it. */
#ifdef __x86_64__
#define BEHIND 1
#else
#define BEHIND 0
#endif

static void watchpoints(void) {
    siginfo_t info;
    CHECK(pipe(in) == 0);
    pid_t pid = traced(body);
    CHECK(set_watch(pid, &watched[0]) == 0 && trace(CONT, pid, 0, 0) == 0);
    info = stopped(pid);
    CHECK(info.si_signo == SIGTRAP && info.si_code == 4);
#ifndef __x86_64__
    CHECK(info.si_addr == (void *)&watched[0]);
#endif
    char mem[64];
    snprintf(mem, sizeof mem, "/proc/%d/mem", pid);
    FILE *file = fopen(mem, "r");
    uint64_t value = 0;
    CHECK(file != NULL && fseeko(file, (off_t)(unsigned long)&watched[0], SEEK_SET) == 0);
    CHECK(file != NULL && fread(&value, 8, 1, file) == 1 && value == (BEHIND ? 5 : 0));
    if (file != NULL) fclose(file);
#ifdef __x86_64__
    unsigned long words[1];
    CHECK(trace(PEEKUSER, pid, DEBUGREG(6), (unsigned long)words) == 0 && words[0] == 0xffff0ff2);
    CHECK(trace(PEEKUSER, pid, DEBUGREG(1), (unsigned long)words) == 0);
    CHECK(words[0] == (unsigned long)&watched[0]);
#endif
    /* The call, then nothing: what threads and children do is not watched. */
    CHECK(set_nothing(pid) == 0 && set_break(pid, called) == 0 && trace(CONT, pid, 0, 0) == 0);
    info = stopped(pid);
    CHECK(info.si_code == 4 && info.si_addr == (void *)((unsigned long)called & ~1ul));
    CHECK(set_nothing(pid) == 0 && write(in[1], "x", 1) == 1);
    CHECK(set_watch(pid, &other) == 0 && trace(CONT, pid, 0, 0) == 0);
    CHECK(await(pid) == STATUS(SIGCHLD, 0) && trace(CONT, pid, 0, 0) == 0 && await(pid) == 40 << 8);
    close(in[0]);
    close(in[1]);
}

/* Another process at the same addresses, on the same CPU, meets nothing; nor does who is let go. */
static int loops(void) {
    for (int n = 0; n < 2000; n++) {
        watched[0] = (uint64_t)called(n);
        if (n % 100 == 0) usleep(1000);
    }
    return 12;
}

static void others(void) {
    pid_t pid = traced(loops), free = fork();
    if (free == 0) _exit(loops());
    CHECK(set_watch(pid, &watched[0]) == 0);
    int stops = 0, status = 0;
    for (;;) {
        if (trace(CONT, pid, 0, 0) != 0 || (status = await(pid)) != STATUS(SIGTRAP, 0)) break;
        if (++stops < 50) {
            if (!BEHIND) {
                CHECK(set_nothing(pid) == 0 && trace(SINGLESTEP, pid, 0, 0) == 0);
                CHECK(await(pid) == STATUS(SIGTRAP, 0) && set_watch(pid, &watched[0]) == 0);
            }
            continue;
        }
        CHECK(set_nothing(pid) == 0);
    }
    CHECK(stops == 50 && status == 12 << 8 && await(free) == 12 << 8);
    if (!is_limen()) return;
    /* A tracer that forgets them: on Linux they kill. */
    pid = traced(loops);
    CHECK(set_watch(pid, &watched[0]) == 0 && trace(DETACH, pid, 0, 0) == 0 && await(pid) == 12 << 8);
}

/* Stores by the kernel are not watched, and go through. */
static int reads(void) {
    char bytes[8];
    if (read(in[0], (void *)&watched[0], 8) != 8) return 1;
    memcpy(bytes, (void *)&watched[1], 8);
    return 13;
}

static void by_the_kernel(void) {
    CHECK(pipe(in) == 0);
    pid_t pid = traced(reads);
    CHECK(set_watch(pid, &watched[0]) == 0 && write(in[1], "12345678", 8) == 8);
    CHECK(trace(CONT, pid, 0, 0) == 0 && await(pid) == 13 << 8);
    close(in[0]);
    close(in[1]);
}

/*
 * A thread that an interrupt took its CPU from, in the kernel, meets what is watched when it goes on: of what
 * the kernel masks for itself nothing is left.
 */
#define ROUNDS 20
static int reads_and_stores(void) {
    static char bytes[1 << 20];
    int zero = open("/dev/zero", O_RDONLY);
    pid_t self = getpid();
    for (int n = 0; n < ROUNDS; n++) {
        for (int i = 0; i < 8; i++)
            if (read(zero, bytes, sizeof bytes) != sizeof bytes) return 1;
        watched[0] = n;
        kill(self, SIGSTOP);
    }
    return 14;
}

/* Wakes all the time, and computes for a moment. */
static int __attribute__((noreturn)) competes(void) {
    for (;;) {
        usleep(300);
        for (int i = 0; i < 1000; i++) other = (uint64_t)called(i);
    }
}

static void after_switches(void) {
    cpu_set_t one, all;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0 && sched_setaffinity(0, sizeof one, &one) == 0);
    pid_t pid = traced(reads_and_stores), beside = untraced(competes);
    CHECK(sched_setaffinity(0, sizeof all, &all) == 0);
    for (int n = 0; n < ROUNDS; n++) {
        CHECK(set_watch(pid, &watched[0]) == 0 && trace(CONT, pid, 0, 0) == 0 && stopped(pid).si_code == 4);
        CHECK(set_nothing(pid) == 0 && trace(CONT, pid, 0, 0) == 0);
        CHECK(await(pid) == STATUS(SIGSTOP, 0));
    }
    CHECK(trace(CONT, pid, 0, 0) == 0 && await(pid) == 14 << 8);
    ended(beside);
}

#endif

#if defined(__x86_64__)
static void refusals(void) {
    unsigned long word;
    pid_t pid = traced(pauses);
#define REFUSED(n, value, error) CHECK(trace(POKEUSER, pid, DEBUGREG(n), value) == -1 && errno == error)
    REFUSED(0, 1ul << 63, EINVAL);
    REFUSED(1, ~0ul, EINVAL);
    REFUSED(4, 1, EIO);
    REFUSED(5, 1, EIO);
    CHECK(trace(POKEUSER, pid, DEBUGREG(0), (unsigned long)watched + 1) == 0);
    /* Of four bytes, but not aligned; of eight; ports; instructions longer than a byte. */
    REFUSED(7, 1 | 13 << 16, EINVAL);
    REFUSED(7, 1 | 9 << 16, EINVAL);
    REFUSED(7, 1 | 2 << 16, EINVAL);
    REFUSED(7, 1 | 4 << 16, EINVAL);
    CHECK(trace(PEEKUSER, pid, DEBUGREG(7), (unsigned long)&word) == 0 && word == 0);
    CHECK(trace(POKEUSER, pid, DEBUGREG(7), 1 << 16 | 0xfc00 | 2) == 0);
    CHECK(trace(PEEKUSER, pid, DEBUGREG(7), (unsigned long)&word) == 0 && word == (1 << 16 | 0xfc00 | 2));
    CHECK(trace(PEEKUSER, pid, DEBUGREG(6), (unsigned long)&word) == 0 && word == 0xffff0ff0);
    CHECK(trace(POKEUSER, pid, DEBUGREG(6), 0xffff0ff1) == 0);
    CHECK(trace(PEEKUSER, pid, DEBUGREG(6), (unsigned long)&word) == 0 && word == 0xffff0ff1);
    CHECK(trace(PEEKUSER, pid, DEBUGREG(4), (unsigned long)&word) == 0 && word == 0);
    ended(pid);
}
#elif defined(__aarch64__)
static void refusals(void) {
    struct points points;
    struct iovec io = {&points, sizeof points};
    pid_t pid = traced(pauses);
    CHECK(trace(GETREGSET, pid, NT_WATCH, (unsigned long)&io) == 0 && io.iov_len == sizeof points);
    CHECK((points.info & 0xff) >= 2 && points.info >> 8 >= 6 && points.point[0].control == 0);
    CHECK(trace(GETREGSET, pid, NT_BREAK, (unsigned long)&io) == 0 && (points.info & 0xff) >= 2);
    /* A store at a breakpoint, an execution at a watchpoint, bytes with a gap, none, the kernel's. */
    CHECK(set_point(pid, NT_BREAK, &watched, 0xf << 5 | 2 << 3 | 1) == -1 && errno == EINVAL);
    CHECK(set_point(pid, NT_WATCH, &watched, 0xf << 5 | 1) == -1 && errno == EINVAL);
    CHECK(set_point(pid, NT_WATCH, &watched, 5 << 5 | 2 << 3 | 1) == -1 && errno == EINVAL);
    CHECK(set_point(pid, NT_WATCH, &watched, 2 << 3 | 1) == -1 && errno == EINVAL);
    CHECK(set_point(pid, NT_WATCH, (void *)-4096l, 0xf << 5 | 2 << 3 | 1) == -1 && errno == EINVAL);
    CHECK(set_watch(pid, &watched) == 0);
    io.iov_len = sizeof points;
    CHECK(trace(GETREGSET, pid, NT_WATCH, (unsigned long)&io) == 0);
    CHECK(points.point[0].at == (unsigned long)&watched);
    CHECK(points.point[0].control == (0xff << 5 | 2 << 3 | 2 << 1 | 1));
    ended(pid);
}
#elif defined(__arm__)
static void refusals(void) {
    unsigned long word = 0;
    pid_t pid = traced(pauses);
    CHECK(trace(29, pid, 0, (unsigned long)&word) == 0 && (word & 0xff) >= 1 && (word >> 8 & 0xff) >= 1);
    CHECK(trace(29, pid, 33, (unsigned long)&word) == -1 && errno == EINVAL);
    CHECK(set_point(pid, 1, (unsigned long)&watched, 0xf << 5 | 2 << 3 | 1) == -1 && errno == EINVAL);
    CHECK(set_point(pid, -1, (unsigned long)&watched, 5 << 5 | 2 << 3 | 1) == -1 && errno == EINVAL);
    CHECK(set_point(pid, -1, 0xffff0000, 0xf << 5 | 2 << 3 | 1) == -1 && errno == EINVAL);
    CHECK(set_watch(pid, &watched) == 0 && trace(29, pid, -2, (unsigned long)&word) == 0);
    CHECK(word == (0xf << 5 | 2 << 3 | 2 << 1 | 1));
    ended(pid);
}
#endif

#if defined(__x86_64__) || defined(__powerpc64__)
/* From branch to branch, if the processor can do that. */
#ifdef __x86_64__
#define SINGLEBLOCK 33
#define IP 16
#else
#define SINGLEBLOCK 0x100
#define IP 32
#endif
static int counts(void) {
    int n = 0;
    for (int round = 0; round < 100; round++) {
        __asm__ volatile("nop; nop; nop; nop; nop; nop; nop; nop");
        n = called(n);
    }
    return n == 100 ? 14 : 15;
}

static int stops(long request) {
    int status, count = 0;
    pid_t pid = traced(counts);
    for (;; count++) {
        if (trace(request, pid, 0, 0) != 0) {
            CHECK(errno == EIO && count == 0);
            ended(pid);
            return -1;
        }
        status = await(pid);
        if (status != STATUS(SIGTRAP, 0)) break;
    }
    CHECK(status == 14 << 8);
    return count;
}

static void blocks(void) {
    int by_block = stops(SINGLEBLOCK), by_instruction = stops(SINGLESTEP);
    printf("%d stops by block, %d by instruction\n", by_block, by_instruction);
    CHECK(by_instruction > 1000);
    /* Linux steps by instruction where the processor ignores what it is told. */
    if (is_limen()) CHECK(by_block == -1 || (by_block > 200 && by_block < by_instruction / 2));
}
#endif

#ifdef __powerpc64__
/* What there is: nothing. */
static void information(void) {
    struct {
        uint32_t version, instructions, data, conditions, alignment, condition;
        uint64_t features;
    } info;
    memset(&info, 0xff, sizeof info);
    pid_t pid = traced(counts);
    CHECK(trace(0x89, pid, 0, (unsigned long)&info) == 0 && info.version == 1 && info.instructions == 0);
    CHECK(info.data == 0 && info.conditions == 0 && info.alignment == 8 && info.condition == 0);
    printf("features %llx\n", (unsigned long long)info.features);
    CHECK(info.features == 4);
    ended(pid);
}
#endif

#ifdef __arm__
/* Each of these is stepped through: where it goes is compared with what the same code notes of its way. */
extern char arm_code[], thumb_code[], arm_end[], thumb_end[];
__asm__(".syntax unified\n"
        ".text\n"
        ".arm\n"
        ".balign 4\n"
        ".globl arm_code, arm_end\n"
        ".type arm_code, %function\n"
        "arm_code:\n"
        "    push {r4, r5, r6, r7, r8, lr}\n"
        "    mov r4, #0\n"
        "    bl 1f\n"
        "    blx 2f\n"
        "    adr r1, 3f\n"
        "    mov pc, r1\n"
        "    b .\n"
        "3:  add r4, r4, #1\n"
        "    mov r2, #1\n"
        "    add pc, pc, r2, lsl #2\n"
        "    b .\n"
        "    b .\n"
        "    add r4, r4, #1\n"
        "    adr r1, 4f\n"
        "    push {r1}\n"
        "    ldr pc, [sp], #4\n"
        "    b .\n"
        "4:  adr r1, 5f\n"
        "    push {r0, r1}\n"
        "    pop {r0, pc}\n"
        "    b .\n"
        "5:  cmp r4, r4\n"
        "    bne .\n"
        "    addeq r4, r4, #1\n"
        "    addne r4, r4, #100\n"
        "    sub sp, sp, #8\n"
        "6:  ldrex r1, [sp]\n"
        "    add r1, r1, #1\n"
        "    strex r2, r1, [sp]\n"
        "    cmp r2, #0\n"
        "    bne 6b\n"
        "    add sp, sp, #8\n"
        "    movw r3, #0x0fc0\n"
        "    movt r3, #0xffff\n"
        "    mov r0, #5\n"
        "    mov r1, #6\n"
        "    push {r0, lr}\n"
        "    mov r2, sp\n"
        "    blx r3\n" /* the kernel's compare and exchange */
        "    pop {r5, lr}\n"
        "    cmp r5, #6\n"
        "    addeq r4, r4, #1\n"
        "    mov r7, #20\n"
        "    svc #0\n"
        "    mov r0, r4\n"
        "    pop {r4, r5, r6, r7, r8, pc}\n"
        "1:  add r4, r4, #1\n"
        "    bx lr\n"
        "arm_end:\n"
        ".thumb\n"
        "2:  adds r4, #1\n"
        "    bx lr\n"
        ".balign 4\n"
        ".globl thumb_code, thumb_end\n"
        ".thumb_func\n"
        "thumb_code:\n"
        "    push {r4, lr}\n"
        "    movs r4, #0\n"
        "    bl 1f\n"
        "    movs r1, #1\n"
        "    tbb [pc, r1]\n"
        "2:  .byte 0, (3f - 2b) / 2\n"
        "    b .\n"
        "3:  adds r4, #1\n"
        "    tbh [pc, r1, lsl #1]\n"
        "4:  .short 0, (5f - 4b) / 2\n"
        "    b .\n"
        "5:  cbz r1, 12f\n"
        "    cbnz r1, 6f\n"
        "12: b .\n"
        "6:  cmp r1, #1\n"
        "    itte eq\n"
        "    addeq r4, #1\n"
        "    addeq r4, #1\n"
        "    addne r4, #50\n"
        "    ite ne\n"
        "    addne r4, #50\n"
        "    beq 7f\n"
        "    b .\n"
        "7:  bne.w .\n"
        "    beq.w 8f\n"
        "    b .\n"
        ".balign 4\n"
        "8:  bx pc\n"
        "    nop\n"
        ".arm\n"
        "    add r4, r4, #1\n"
        "    adr r1, 9f + 1\n"
        "    bx r1\n"
        ".thumb\n"
        ".balign 4\n"
        "9:  sub sp, #8\n"
        "10: ldrex r1, [sp]\n"
        "    cmp r1, #0\n"
        "    beq.n 11f\n"
        "11: strex r2, r1, [sp]\n"
        "    cmp r2, #0\n"
        "    bne 10b\n"
        "    add sp, #8\n"
        "    mov r0, r4\n"
        "    pop {r4, pc}\n"
        "1:  adds r4, #1\n"
        "    bx lr\n"
        "thumb_end:\n"
        ".arm\n"
        ".balign 4\n");
#pragma GCC diagnostic ignored "-Wpedantic"
static int runs_arm(void) { return ((int (*)(void))arm_code)(); }
static int runs_thumb(void) { return ((int (*)(void))((unsigned long)thumb_code | 1))(); }

/* Steps through it while another process and another thread run the same: they meet nothing. */
static void *runs_both(void *arg) {
    int good = 1;
    for (int n = 0; n < 300; n++) good &= runs_arm() == 6 && runs_thumb() == 5;
    return good ? arg : NULL;
}

static int with_thread(void) {
    pthread_t thread;
    void *result = NULL;
    char yes;
    pthread_create(&thread, NULL, runs_both, &yes);
    int good = runs_arm() == 6 && runs_thumb() == 5;
    pthread_join(thread, &result);
    return good && result == &yes ? 16 : 17;
}

static void steps(void) {
    static const struct {
        int (*run)(void);
        int result;
    } all[] = {{runs_arm, 6}, {runs_thumb, 5}, {with_thread, 16}};
    for (size_t n = 0; n < sizeof all / sizeof *all; n++) {
        int status = -1, count = 0, still = 0;
        unsigned long last = 0, registers[18];
        pid_t pid = traced(all[n].run), free = fork();
        if (free == 0) _exit(all[n].run());
        for (;; count++) {
            struct iovec io = {registers, sizeof registers};
            if (trace(SINGLESTEP, pid, 0, 0) != 0) break;
            status = await(pid);
            if (status != STATUS(SIGTRAP, 0)) break;
            CHECK(trace(GETREGSET, pid, NT_PRSTATUS, (unsigned long)&io) == 0);
            still += registers[15] == last;
            last = registers[15];
        }
        printf("%d steps, %d of them to where it was\n", count, still);
        CHECK(status == all[n].result << 8 && await(free) == all[n].result << 8);
        CHECK(count > 40);
    }
}

/* A branch to itself, and one to nowhere. */
static void special_steps(void) {
    static const struct {
        unsigned code;
        unsigned long after;
    } all[] = {{0xeafffffe, 0}, {0xe28ff000 /* add pc, pc, #0 */, 8}, {0xe3a0fa01, ~0ul}};
    for (size_t n = 0; n < sizeof all / sizeof *all; n++) {
        pid_t pid = traced(pauses);
        unsigned long registers[18];
        struct iovec io = {registers, sizeof registers};
        CHECK(trace(GETREGSET, pid, NT_PRSTATUS, (unsigned long)&io) == 0);
        unsigned long at = (unsigned long)arm_code;
        CHECK(trace(5, pid, at, all[n].code) == 0);
        registers[15] = at;
        registers[16] &= ~0x20ul;
        registers[17] = 0;
        registers[0] = 0;
        io.iov_len = sizeof registers;
        CHECK(trace(SETREGSET, pid, NT_PRSTATUS, (unsigned long)&io) == 0);
        siginfo_t info;
        CHECK(trace(SINGLESTEP, pid, 0, 0) == 0);
        info = stopped(pid);
        CHECK(info.si_code == 2 && trace(GETREGSET, pid, NT_PRSTATUS, (unsigned long)&io) == 0);
        unsigned long wanted = all[n].after == ~0ul ? 0x1000 : at + all[n].after;
        CHECK(registers[15] == wanted && info.si_addr == (void *)wanted);
        ended(pid);
    }
}
#endif

int main(void) {
    alarm(100);
#ifdef HAVE
    watchpoints();
    others();
    by_the_kernel();
    after_switches();
    refusals();
#endif
#if defined(__x86_64__) || defined(__powerpc64__)
    blocks();
#endif
#ifdef __powerpc64__
    information();
#endif
#ifdef __arm__
    if (is_limen()) {
        steps();
        special_steps();
    }
#endif
    return report();
}
