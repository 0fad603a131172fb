/*
 * What the system calls of 32-bit programs give a thread on x86_64 (docs/int80.md): handlers in 32-bit code,
 * with their frames, and segments of its own. Called by tools/limen/src/test/programs.rs; elsewhere there are
 * none, and it says so. On Linux it needs a kernel with CONFIG_IA32_EMULATION, from 6.14 on: before, the
 * return from such a handler cleared the base of FS.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/wait.h>
#include "check.h"
#include "common.h"

#ifndef __x86_64__
int main(void) {
    puts("no 32-bit calls here");
    return report();
}
#else

#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include "int80.h"
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

enum {
    I_fork = 2, I_kill = 37, I_signal = 48, I_sigaction = 67, I_sigreturn = 119, I_clone = 120,
    I_rt_sigaction = 174, I_sigaltstack = 186, I_set_area = 243, I_get_area = 244,
    RESTORER = 0x04000000, MARK = 0x02000000, CODE_32 = 0x23, CODE_64 = 0x33, DATA = 0x2b,
};

/* Memory that 32-bit addresses reach: words, code, an alternate stack, the stack. */
static uint32_t *low;
enum { LOW = 128 * 1024, CODE = 4096, ALTERNATE = 32 * 1024, STACK = 120 * 1024 };
static unsigned char *code;
static uint32_t address(const void *at) { return (uintptr_t)at; }

/* What a handler notes at `low`, in this order. */
enum { SP, DX, CX, AX, CS, SS, DS, ES, ARGUMENT };
/* Words of frames: of the context's beginning in both, of what lies where in it, of more. */
enum {
    PLAIN = 2, WITH_INFO = 41, C_GS = 0, C_DS = 3, C_DI = 4, C_SI, C_BP, C_SP, C_BX, C_DX, C_CX, C_AX,
    C_IP = 14, C_CS, C_FLAGS, C_SP_AGAIN, C_SS, C_FP, C_MASK,
};

static unsigned char *emit(unsigned char *to, const char *bytes, int len) {
    return memcpy(to, bytes, len) + len;
}
static unsigned char *emit_note(unsigned char *to, const char *bytes, int len, int which) {
    uint32_t at = address(low + which);
    to = emit(to, bytes, len);
    return memcpy(to, &at, 4) + 4;
}

/* A handler of 32-bit code; `changes`: it makes the number on top of the x87's stack 1 in the frame. */
static uint32_t handler(int changes) {
    unsigned char *begin = code + (changes ? 512 : 0), *to = begin;
    to = emit_note(to, "\x89\x25", 2, SP);
    to = emit_note(to, "\x89\x15", 2, DX);
    to = emit_note(to, "\x89\x0d", 2, CX);
    to = emit_note(to, "\xa3", 1, AX);
    to = emit_note(to, "\x8c\xc8\xa3", 3, CS);
    to = emit_note(to, "\x8c\xd0\xa3", 3, SS);
    to = emit_note(to, "\x8c\xd8\xa3", 3, DS);
    to = emit_note(to, "\x8c\xc0\xa3", 3, ES);
    to = emit_note(to, "\x8b\x44\x24\x04\xa3", 5, ARGUMENT);
    /* mov 0x54(%esp), %eax; then the ten bytes at 28(%eax) */
    if (changes) {
        to = emit(to, "\x8b\x44\x24\x54\xc7\x40\x1c\0\0\0\0", 11);
        to = emit(to, "\xc7\x40\x20\0\0\0\x80\x66\xc7\x40\x24\xff\x3f", 13);
    }
    /* fld1; xorps %xmm0, %xmm0; ret */
    emit(to, "\xd9\xe8\x0f\x57\xc0\xc3", 6);
    return address(begin);
}

/* pop %eax; mov $119, %eax; int $0x80; and of rt_sigreturn. */
static uint32_t restorer(void) {
    return emit(code + 1024, "\x58\xb8\x77\0\0\0\xcd\x80", 8), address(code + 1024);
}
static uint32_t rt_restorer(void) {
    return emit(code + 1040, "\xb8\xad\0\0\0\xcd\x80", 7), address(code + 1040);
}

/*
 * Sends itself SIGUSR1 on the low stack, by either ABI's kill, with numbers in the registers that the handler
 * must leave alone; what is on the x87's stack then, and in xmm0.
 */
static long double on_x87;
static uint64_t in_xmm0, kept[4];
static uint32_t behind;
static void hit(int native) {
    static const uint64_t marks[4] = { 0x1122334455667788, 1ul << 40, -1ul, 0x80000000 };
    uint64_t in[4] = { native ? SYS_kill : I_kill, getpid(), SIGUSR1, (uintptr_t)low + STACK }, out[8];
    register uint64_t *from __asm__("r12") = in;
    register uint64_t *to __asm__("r13") = out;
    register long which __asm__("r14") = native;
    register const uint64_t *r15 __asm__("r15") = marks;
    __asm__ volatile(
        "push %%rbp\n push %%rbx\n mov %%rsp, 56(%%r13)\n"
        "mov $0x3c5a, %%eax\n movq %%rax, %%xmm0\n fldpi\n"
        "mov (%%r12), %%rax\n mov 8(%%r12), %%rbx\n mov 16(%%r12), %%rcx\n mov 24(%%r12), %%rsp\n"
        "mov %%rbx, %%rdi\n mov %%rcx, %%rsi\n mov $0x1234567, %%edx\n mov $0x7654321, %%ebp\n"
        "mov (%%r15), %%r8\n mov 8(%%r15), %%r9\n mov 16(%%r15), %%r10\n"
        "test %%r14, %%r14\n jnz 1f\n int $0x80\n"
        "0: jmp 2f\n"
        "1: syscall\n"
        "2: mov %%rax, (%%r13)\n mov %%rbx, 8(%%r13)\n mov %%rbp, 16(%%r13)\n mov %%rsp, 24(%%r13)\n"
        "mov %%r8, 32(%%r13)\n mov %%r9, 40(%%r13)\n mov %%r10, 48(%%r13)\n"
        "mov 56(%%r13), %%rsp\n pop %%rbx\n pop %%rbp\n"
        "fstpt %[x87]\n movq %%xmm0, %[xmm]\n movl $0b, %[behind]"
        : [x87] "=m"(on_x87), [xmm] "=m"(in_xmm0), [behind] "=m"(behind)
        : "r"(from), "r"(to), "r"(which), "r"(r15)
        : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm0", "st", "st(1)", "memory", "cc");
    CHECK(out[0] == 0 && out[1] == in[1] && out[2] == 0x7654321 && out[3] == in[3]);
    memcpy(kept, out + 4, 24);
    CHECK(!memcmp(kept, marks, 24) && in_xmm0 == 0x3c5a);
}

/* What is the same in all frames: registers of the handler, context. */
static const uint32_t *noted(int context, uint32_t to) {
    const uint32_t *frame = (void *)(uintptr_t)low[SP], *c = frame + context;
    CHECK(low[AX] == SIGUSR1 && low[ARGUMENT] == SIGUSR1 && frame[0] == to && frame[1] == SIGUSR1);
    CHECK(low[CS] == CODE_32 && low[SS] == DATA && low[DS] == DATA && low[ES] == DATA);
    CHECK((low[SP] + 4) % 16 == 0);
    CHECK(c[C_DI] == (uint32_t)getpid() && c[C_SI] == SIGUSR1);
    CHECK(c[C_BP] == 0x7654321 && c[C_DX] == 0x1234567);
    CHECK(c[C_SP] == address(low) + STACK && c[C_SP_AGAIN] == c[C_SP] && c[C_AX] == 0);
    CHECK(c[C_CS] == CODE_64 && c[C_SS] == DATA && c[C_GS] == 0 && c[C_DS] == 0 && c[C_FLAGS] & 2);
    return frame;
}

/* The x87 as fsave stores it: pi is in the last of its registers, the others are empty. */
static void check_old_state(const uint32_t *c, int changed) {
    const uint32_t *fp = (void *)(uintptr_t)c[C_FP];
    CHECK((fp[0] & 0xffff) == 0x37f && (fp[1] >> 11 & 7) == 7 && (fp[2] & 0xffff) == 0x3fff);
    CHECK(fp[7] == (changed ? 0 : 0x2168c235u) && fp[8] == (changed ? 0x80000000 : 0xc90fdaa2));
    CHECK((fp[9] & 0xffff) == (changed ? 0x3fff : 0x4000) && fp[27] >> 16 == 0);
    CHECK((fp[27] & 0xffff) == (fp[1] & 0xffff) && (address(fp) + 112) % 64 == 0);
}

static int caught;
static void note(int sig) { caught = sig; }
static const long double pi = 3.14159265358979323851280895940618620443L;

static void plain(void) {
    for (int turn = 0; turn < 4; turn++) {
        int native = turn & 1, changes = turn >> 1;
        memset(low, 0, 256);
        low[32] = handler(changes), low[33] = 1 << (SIGUSR2 - 1);
        low[34] = RESTORER | MARK, low[35] = restorer();
        CHECK(I3(I_sigaction, SIGUSR1, low + 32, 0) == 0);
        hit(native);
        const uint32_t *frame = noted(PLAIN, restorer()), *c = frame + PLAIN;
        CHECK(low[DX] == 0 && low[CX] == 0 && frame[181] == 0x0077b858 && frame[182] == 0x80cd0000);
        CHECK(native || c[C_IP] == behind);
        CHECK(native || (c[C_BX] == (uint32_t)getpid() && c[C_CX] == SIGUSR1));
        check_old_state(c, changes);
        CHECK(on_x87 == (changes ? 1.0L : pi));
    }
    /* Nobody sees the mark, nor sets it by a native call: whose call it was decides. */
    struct { void *handler; unsigned long flags; void *restorer; uint64_t mask; } action;
    CHECK(syscall(SYS_rt_sigaction, SIGUSR1, NULL, &action, 8) == 0 && action.flags == RESTORER);
    CHECK(action.mask == 1 << (SIGUSR2 - 1));
    CHECK(I3(I_sigaction, SIGUSR1, 0, low + 32) == 0 && low[34] == RESTORER && low[35] == restorer());
    signal(SIGUSR1, note);
    CHECK(syscall(SYS_rt_sigaction, SIGUSR1, NULL, &action, 8) == 0);
    action.flags |= MARK;
    CHECK(syscall(SYS_rt_sigaction, SIGUSR1, &action, NULL, 8) == 0);
    CHECK(I2(I_kill, getpid(), SIGUSR1) == 0 && caught == SIGUSR1);
}

static void with_info(void) {
    enum { INFO = 4, UC = 36, UC_STACK = 38, UC_MASK = 63 };
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGHUP), sigaddset(&set, 40);
    sigprocmask(SIG_SETMASK, &set, NULL);
    for (int turn = 0; turn < 4; turn++) {
        int native = turn & 1, alternate = turn >> 1;
        memset(low, 0, 256);
        low[40] = address(low) + ALTERNATE, low[41] = 0, low[42] = 32 * 1024;
        CHECK(I2(I_sigaltstack, low + 40, 0) == 0);
        low[32] = handler(0), low[33] = SA_SIGINFO | RESTORER | (alternate ? SA_ONSTACK : 0);
        low[34] = rt_restorer(), low[35] = low[36] = 0;
        CHECK(I4(I_rt_sigaction, SIGUSR1, low + 32, 0, 8) == 0);
        hit(native);
        const uint32_t *frame = noted(WITH_INFO, rt_restorer()), *c = frame + WITH_INFO;
        CHECK(low[DX] == address(frame + INFO) && low[CX] == address(frame + UC));
        CHECK(frame[2] == low[DX] && frame[3] == low[CX]);
        CHECK(frame[INFO] == SIGUSR1 && frame[INFO + 2] == SI_USER && frame[INFO + 3] == (uint32_t)getpid());
        CHECK(frame[UC] <= 1 && frame[UC + 1] == 0 && frame[UC_STACK] == low[40]);
        CHECK(frame[UC_STACK + 1] == 0 && frame[UC_STACK + 2] == low[42]);
        CHECK(frame[UC_MASK] == 1 && frame[UC_MASK + 1] == 1u << (40 - 33) && c[C_MASK] == 1);
        CHECK((low[SP] > low[40] && low[SP] < low[40] + low[42]) == alternate);
        check_old_state(c, 0);
        CHECK(on_x87 == pi);
        sigset_t now;
        CHECK(sigprocmask(SIG_BLOCK, NULL, &now) == 0 && sigismember(&now, SIGHUP) && sigismember(&now, 40));
        CHECK(!sigismember(&now, SIGUSR1));
    }
    low[40] = 0, low[41] = SS_DISABLE, low[42] = 0;
    CHECK(I2(I_sigaltstack, low + 40, 0) == 0);
    sigemptyset(&set), sigprocmask(SIG_SETMASK, &set, NULL);
}

/* Without a restorer: here the code is in the frame. On Linux it would be in a vDSO that it lacks. */
static void without_restorer(void) {
    enum { PLAIN_CODE = 181, RT_CODE = 65 };
    struct utsname name;
    if (uname(&name) != 0 || !strstr(name.version, "Limen")) return;
    for (int info = 0; info < 2; info++) {
        memset(low, 0, 256);
        low[32] = handler(0), low[33] = info ? SA_SIGINFO : 0;
        CHECK(I4(I_rt_sigaction, SIGUSR1, low + 32, 0, 8) == 0);
        hit(0);
        noted(info ? WITH_INFO : PLAIN, low[SP] + 4 * (info ? RT_CODE : PLAIN_CODE));
    }
    /* Of the oldest call: once, and the signal is not blocked. */
    memset(low, 0, 256);
    CHECK(I2(I_signal, SIGUSR1, handler(0)) == handler(0) && I2(I_signal, SIGUSR1, handler(0)) == handler(0));
    hit(0);
    CHECK(low[AX] == SIGUSR1 && I2(I_signal, SIGUSR1, SIG_DFL) == 0);
}

/* Places where there is no stack for it. */
static int killed_by(pid_t child) {
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void bad(void) {
    pid_t child = fork();
    if (child == 0) {
        memset(low, 0, 256);
        low[32] = handler(0), low[34] = RESTORER, low[35] = restorer();
        I3(I_sigaction, SIGUSR1, low + 32, 0);
        I2(I_kill, getpid(), SIGUSR1);
        _exit(1);
    }
    CHECK(killed_by(child) == SIGSEGV);
    child = fork();
    if (child == 0) {
        __asm__ volatile("mov $64, %%esp\n int $0x80" : : "a"(I_sigreturn) : "memory");
        _exit(1);
    }
    CHECK(killed_by(child) == SIGSEGV);
}

/* Of code that is 32-bit itself. */
static void from_32_bits(void) {
    enum { BACK = 12, THERE = 2048, HERE = THERE + 64 };
    static const unsigned char there[] = {
        0x49, 0x89, 0xe4,                           /* mov %rsp, %r12 */
        0x48, 0x8d, 0xa3, 0x00, 0xe0, 0x01, 0x00,   /* lea STACK(%rbx), %rsp */
        0xff, 0x2b,                                 /* ljmp *(%rbx) */
        0x4c, 0x89, 0xe4,                           /* mov %r12, %rsp */
        0xc3,                                       /* ret */
    };
    unsigned char *to = memcpy(code + THERE, there, sizeof there);
    uint32_t pid = getpid(), back = address(to + BACK);
    to = code + HERE;
    /* mov $37, %eax; mov $10, %ecx; mov $pid, %ebx; int $0x80; ljmp */
    to = emit(to, "\xb8\x25\0\0\0\xb9\x0a\0\0\0\xbb", 11);
    to = memcpy(to, &pid, 4) + 4;
    to = emit(to, "\xcd\x80\xea", 3);
    uint32_t end = address(to) - 1;
    to = memcpy(to, &back, 4) + 4;
    emit(to, "\x33", 2);
    memset(low, 0, 256);
    low[32] = handler(0), low[34] = RESTORER, low[35] = restorer();
    CHECK(I3(I_sigaction, SIGUSR1, low + 32, 0) == 0);
    low[64] = address(code + HERE), low[65] = CODE_32;
    long result;
    to = code + THERE;
    __asm__ volatile("sub $128, %%rsp\n push %%rbp\n call *%[there]\n pop %%rbp\n add $128, %%rsp"
                     : "=a"(result), [there] "+d"(to), "+c"(pid)
                     : "b"(low + 64)
                     : "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "memory", "cc");
    const uint32_t *c = (uint32_t *)(uintptr_t)low[SP] + PLAIN;
    CHECK((int)result == 0 && low[CS] == CODE_32 && c[C_CS] == CODE_32 && c[C_IP] == end);
}

/* Bits of a description: 32-bit, useable, with a limit in pages. */
enum { GOOD = 0x51, ABSENT = 1 << 5, CODE_INSIDE = 2 << 1, EMPTY = 1 << 3 | ABSENT };
enum { NUMBER, BASE, LIMIT, BITS };
static uint32_t *describe(int number, const void *base, uint32_t limit, uint32_t bits) {
    low[NUMBER] = number, low[BASE] = address(base), low[LIMIT] = limit, low[BITS] = bits;
    return low;
}

static uint32_t in_gs(int number) {
    uint32_t word;
    __asm__ volatile("mov %1, %%gs\n mov %%gs:0, %0" : "=r"(word) : "r"(number << 3 | 3) : "memory");
    return word;
}
static uint32_t at_gs(void) {
    uint32_t word;
    __asm__ volatile("mov %%gs:0, %0" : "=r"(word) : : "memory");
    return word;
}
static int gs(void) {
    int selector;
    __asm__ volatile("mov %%gs, %0" : "=r"(selector));
    return selector;
}
static void no_gs(void) { __asm__ volatile("mov %0, %%gs" : : "r"(0)); }

static void segments(void) {
    low[100] = 0x11111111, low[101] = 0x22222222;
    CHECK(I1(I_set_area, describe(-1, low + 100, 0xfffff, GOOD)) == 0);
    int first = low[NUMBER];
    CHECK(first >= 12 && first <= 14 && in_gs(first) == 0x11111111);
    memset(low, 0xee, 16);
    low[NUMBER] = first;
    CHECK(I1(I_get_area, low) == 0 && low[BASE] == address(low + 100) && low[LIMIT] == 0xfffff);
    CHECK(low[BITS] == GOOD);
    /* It stays across a switch; another one takes its place at once. */
    pause_ms(5), sched_yield();
    CHECK(at_gs() == 0x11111111);
    CHECK(I1(I_set_area, describe(first, low + 101, 0xfffff, GOOD)) == 0 && at_gs() == 0x22222222);
    /* A child has it, too, and what clone gives it. */
    pid_t child = I0(I_fork);
    if (child == 0) _exit(gs() != (first << 3 | 3) || at_gs() != 0x22222222);
    CHECK(child_good(child));
    describe(first, low + 100, 0xfffff, GOOD);
    child = I5(I_clone, SIGCHLD | CLONE_SETTLS, 0, 0, low, 0);
    if (child == 0) _exit(at_gs() != 0x11111111);
    CHECK(child_good(child) && at_gs() == 0x22222222);
    CHECK(I5(I_clone, SIGCHLD | CLONE_SETTLS, 0, 0, describe(-1, low, 1, GOOD), 0) == -EINVAL);
    /* What cannot be. */
    CHECK(I1(I_set_area, describe(11, low, 1, GOOD)) == -EINVAL);
    CHECK(I1(I_set_area, describe(15, low, 1, GOOD)) == -EINVAL);
    CHECK(I1(I_set_area, describe(first, low, 1, GOOD & ~1)) == -EINVAL);
    CHECK(I1(I_set_area, describe(first, low, 1, GOOD | ABSENT)) == -EINVAL);
    CHECK(I1(I_set_area, describe(first, low, 1, GOOD | CODE_INSIDE)) == -EINVAL);
    CHECK(I1(I_set_area, 16) == -EFAULT && I1(I_get_area, 16) == -EFAULT);
    low[NUMBER] = 15;
    CHECK(I1(I_get_area, low) == -EINVAL && at_gs() == 0x22222222);
    /* All three; then none is free. */
    CHECK(I1(I_set_area, describe(-1, low, 1, GOOD)) == 0 && I1(I_set_area, describe(-1, low, 1, GOOD)) == 0);
    CHECK(I1(I_set_area, describe(-1, low, 1, GOOD)) == -ESRCH && low[NUMBER] == -1u);
    /* An empty one, in both ways to say so. */
    CHECK(I1(I_set_area, describe(first, 0, 0, EMPTY)) == 0 && gs() == 0);
    low[NUMBER] = first;
    CHECK(I1(I_get_area, low) == 0 && low[BITS] == EMPTY && low[BASE] == 0);
    for (int number = 12; number < 15; number++) CHECK(I1(I_set_area, describe(number, 0, 0, 0)) == 0);
    no_gs();
    CHECK(syscall(205, low) == -1 && errno == ENOSYS);
}

enum { GET = 25, SET = 26 };
static long area(int request, pid_t pid, int number, uint32_t *own) {
    return syscall(SYS_ptrace, request, pid, number, own);
}

static void segments_of_tracees(void) {
    low[100] = 0x33333333;
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        I1(I_set_area, describe(13, low + 101, 0xfffff, GOOD));
        in_gs(13);
        raise(SIGSTOP);
        _exit(at_gs() != 0x33333333);
    }
    int status;
    uint32_t own[4];
    CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
    CHECK(area(GET, child, 13, own) == 0 && own[NUMBER] == 13 && own[BASE] == address(low + 101));
    CHECK(own[BITS] == GOOD && area(GET, child, 12, own) == 0 && own[BITS] == EMPTY);
    CHECK(area(GET, child, 11, own) == -1 && errno == EINVAL);
    CHECK(area(GET, child, -1, own) == -1 && errno == EIO);
    uint32_t new[4] = { 0, address(low + 100), 0xfffff, GOOD };
    CHECK(area(SET, child, 15, new) == -1 && errno == EINVAL && area(SET, child, 13, new) == 0);
    new[BITS] |= ABSENT;
    CHECK(area(SET, child, 13, new) == -1 && errno == EINVAL);
    CHECK(ptrace(PTRACE_CONT, child, 0, 0) == 0 && child_good(child));
}

int main(void) {
    low = mmap(NULL, LOW, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    if (low == MAP_FAILED) return 1;
    code = (unsigned char *)low + CODE;
    plain();
    with_info();
    without_restorer();
    bad();
    from_32_bits();
    segments();
    segments_of_tracees();
    return report();
}
#endif
