/*
 * Calls by int 0x80, for the programs about them. Needs <stdio.h>, <stdint.h> and "check.h".
 */
/* A call; its result, of which errors have all bits. Registers must come back as they were. */
static long call(long nr, long a, long b, long c, long d, long e, long f) {
    static const long marks[4] = { 0x1122334455667788, 1l << 40, -1, 0x80000000 };
    long out[14], in[7] = { nr, a, b, c, d, e, f };
    register long *to __asm__("r12") = out;
    register const long *from __asm__("r13") = in;
    register const long *others __asm__("r14") = marks;
    __asm__ volatile(
        "push %%rbp\n push %%rbx\n"
        "mov (%[from]), %%rax\n mov 8(%[from]), %%rbx\n mov 16(%[from]), %%rcx\n mov 24(%[from]), %%rdx\n"
        "mov 32(%[from]), %%rsi\n mov 40(%[from]), %%rdi\n mov 48(%[from]), %%rbp\n"
        "mov (%[marks]), %%r8\n mov 8(%[marks]), %%r9\n mov 16(%[marks]), %%r10\n mov 24(%[marks]), %%r11\n"
        "int $0x80\n"
        "mov %%rax, (%[to])\n mov %%rbx, 8(%[to])\n mov %%rcx, 16(%[to])\n mov %%rdx, 24(%[to])\n"
        "mov %%rsi, 32(%[to])\n mov %%rdi, 40(%[to])\n mov %%rbp, 48(%[to])\n"
        "mov %%r8, 56(%[to])\n mov %%r9, 64(%[to])\n mov %%r10, 72(%[to])\n mov %%r11, 80(%[to])\n"
        "pop %%rbx\n pop %%rbp"
        : : [to] "r"(to), [from] "r"(from), [marks] "r"(others)
        : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc");
    for (int n = 1; n < 7; n++)
        if (out[n] != in[n]) printf("call %ld changed argument %d\n", nr, n), failed++;
    for (int n = 0; n < 4; n++)
        if (out[7 + n] != marks[n]) printf("call %ld changed r%d\n", nr, 8 + n), failed++;
    return out[0];
}
#define I0(nr) call(nr, 0, 0, 0, 0, 0, 0)
#define I1(nr, a) call(nr, (long)(a), 0, 0, 0, 0, 0)
#define I2(nr, a, b) call(nr, (long)(a), (long)(b), 0, 0, 0, 0)
#define I3(nr, a, b, c) call(nr, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define I4(nr, a, b, c, d) call(nr, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define I5(nr, a, b, c, d, e) call(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)
#define I6(nr, a, b, c, d, e, f) call(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
