/*
 * The only part of programs/registers that depends on the processor: makes one system call with a pattern in
 * every register that the ABI keeps, and stores their values afterwards. Used by registers.c.
 *
 * The offsets in the assembly are those of `struct state`, W bytes to a word: number 0, args 1, result 7,
 * before 8, after 40, vectors_before 72, vectors_after 72 words and 1024 bytes.
 */
#ifndef LIMEN_REGISTERS_STUB_H
#define LIMEN_REGISTERS_STUB_H

#include <stddef.h>

#define SLOTS 32
#define VECTORS 1024

struct state {
    long number, args[6], result;
    unsigned long before[SLOTS], after[SLOTS];
    unsigned char vectors_before[VECTORS], vectors_after[VECTORS];
};

#define W (sizeof(long))
_Static_assert(offsetof(struct state, result) == 7 * W, "");
_Static_assert(offsetof(struct state, before) == 8 * W, "");
_Static_assert(offsetof(struct state, after) == 40 * W, "");
_Static_assert(offsetof(struct state, vectors_before) == 72 * W, "");
_Static_assert(offsetof(struct state, vectors_after) == 72 * W + 1024, "");

/* Makes the call and stores its result; a negative errno is an error. */
void registers_call(struct state *state);
/* Makes no call, but counts from `number` down to 0. */
void registers_spin(struct state *state);
/* A signal handler that changes every register: the kernel must restore them. */
void registers_trash(int signal);

/* The slot of the call's number, beside those of the arguments. */
#define NUMBER 6
/* A register: its slot, and the number of the argument it has before the call, or -1 for a pattern. */
struct slot {
    const char *name;
    int slot, argument;
};

#if defined(__x86_64__)
#define VECTOR_BYTES (16 * 16)
static const struct slot kept[] = {
    {"rbx", 0, -1}, {"rbp", 1, -1}, {"r12", 2, -1}, {"r13", 3, -1}, {"r14", 4, -1},  {"r15", 5, -1},
    {"rdi", 6, 0},  {"rsi", 7, 1},  {"rdx", 8, 2},  {"r10", 9, 3},  {"r8", 10, 4},   {"r9", 11, 5},
};
#define STUB(name, instruction)                                                                             \
    __asm__(".text\n.globl " name "\n.type " name ",%function\n" name ":\n"                                 \
            " push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n push %rdi\n"          \
            ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n movups 576+16*\\n(%rdi), %xmm\\n\n.endr\n"      \
            " mov 64(%rdi), %rbx\n mov 72(%rdi), %rbp\n mov 80(%rdi), %r12\n mov 88(%rdi), %r13\n mov "     \
            "96(%rdi), %r14\n"                                                                              \
            " mov 104(%rdi), %r15\n mov 0(%rdi), %rax\n mov 16(%rdi), %rsi\n mov 24(%rdi), %rdx\n mov "     \
            "32(%rdi), %r10\n"                                                                              \
            " mov 40(%rdi), %r8\n mov 48(%rdi), %r9\n mov 8(%rdi), %rdi\n"                                  \
            " " instruction "\n"                                                                            \
            " mov (%rsp), %rcx\n mov %rax, 56(%rcx)\n"                                                      \
            " mov %rbx, 320(%rcx)\n mov %rbp, 328(%rcx)\n mov %r12, 336(%rcx)\n mov %r13, 344(%rcx)\n mov " \
            "%r14, 352(%rcx)\n"                                                                             \
            " mov %r15, 360(%rcx)\n mov %rdi, 368(%rcx)\n mov %rsi, 376(%rcx)\n mov %rdx, 384(%rcx)\n mov " \
            "%r10, 392(%rcx)\n"                                                                             \
            " mov %r8, 400(%rcx)\n mov %r9, 408(%rcx)\n"                                                    \
            ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n movups %xmm\\n, 1600+16*\\n(%rcx)\n.endr\n"     \
            " pop %rdi\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n"           \
            ".size " name ", .-" name "\n")
STUB("registers_call", "syscall");
STUB("registers_spin", "1: sub $1, %rax\n jnz 1b");
__asm__(".text\n.globl registers_trash\n.type registers_trash,%function\nregisters_trash:\n"
        ".irp n,rbx,rbp,r12,r13,r14,r15,rdi,rsi,rdx,r10,r8,r9,rcx,r11\n mov $-1234567, %\\n\n.endr\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n pcmpeqd %xmm\\n, %xmm\\n\n.endr\n ret\n"
        ".size registers_trash, .-registers_trash\n");

#elif defined(__aarch64__)
#define VECTOR_BYTES (32 * 16)
#define X(n) {"x" #n, n, -1}
static const struct slot kept[] = {
    {"x1", 1, 1}, {"x2", 2, 2}, {"x3", 3, 3}, {"x4", 4, 4}, {"x5", 5, 5}, X(6),  X(7),  X(9),  X(10), X(11),
    X(12),        X(13),        X(14),        X(15),        X(16),        X(17), X(18), X(19), X(20), X(21),
    X(22),        X(23),        X(24),        X(25),        X(26),        X(27), X(28), X(29), X(30),
};
#define PATTERNED "6,7,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30"
#define ALL_VECTORS "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31"
#define STUB(name, instruction)                                                                              \
    __asm__(".text\n.globl " name "\n.type " name ",%function\n" name ":\n"                                  \
            " sub sp, sp, #176\n stp x29, x30, [sp]\n stp x19, x20, [sp, #16]\n stp x21, x22, [sp, #32]\n"   \
            " stp x23, x24, [sp, #48]\n stp x25, x26, [sp, #64]\n stp x27, x28, [sp, #80]\n stp d8, d9, "    \
            "[sp, #96]\n"                                                                                    \
            " stp d10, d11, [sp, #112]\n stp d12, d13, [sp, #128]\n stp d14, d15, [sp, #144]\n str x0, "     \
            "[sp, #160]\n"                                                                                   \
            ".irp n," ALL_VECTORS "\n ldr q\\n, [x0, #576+16*\\n]\n.endr\n"                                  \
            ".irp n," PATTERNED "\n ldr x\\n, [x0, #64+8*\\n]\n.endr\n"                                      \
            " ldr x8, [x0]\n ldp x1, x2, [x0, #16]\n ldp x3, x4, [x0, #32]\n ldr x5, [x0, #48]\n ldr x0, "   \
            "[x0, #8]\n"                                                                                     \
            " " instruction "\n"                                                                             \
            " str x0, [sp, #168]\n ldr x0, [sp, #160]\n"                                                     \
            ".irp n,1,2,3,4,5," PATTERNED "\n str x\\n, [x0, #320+8*\\n]\n.endr\n"                           \
            " ldr x1, [sp, #168]\n str x1, [x0, #56]\n"                                                      \
            ".irp n," ALL_VECTORS "\n str q\\n, [x0, #1600+16*\\n]\n.endr\n"                                 \
            " ldp d14, d15, [sp, #144]\n ldp d12, d13, [sp, #128]\n ldp d10, d11, [sp, #112]\n ldp d8, d9, " \
            "[sp, #96]\n"                                                                                    \
            " ldp x27, x28, [sp, #80]\n ldp x25, x26, [sp, #64]\n ldp x23, x24, [sp, #48]\n ldp x21, x22, "  \
            "[sp, #32]\n"                                                                                    \
            " ldp x19, x20, [sp, #16]\n ldp x29, x30, [sp]\n add sp, sp, #176\n ret\n"                       \
            ".size " name ", .-" name "\n")
STUB("registers_call", "svc #0");
STUB("registers_spin", "1: subs x8, x8, #1\n bne 1b");
__asm__(".text\n.globl registers_trash\n.type registers_trash,%function\nregisters_trash:\n"
        ".irp n,0,1,2,3,4,5,8," PATTERNED "\n .ifnc \\n,30\n mov x\\n, #-1234\n .endif\n.endr\n"
        ".irp n," ALL_VECTORS "\n movi v\\n\\().16b, #0xff\n.endr\n ret\n"
        ".size registers_trash, .-registers_trash\n");

#elif defined(__arm__)
#define VECTOR_BYTES (32 * 8)
#define COUNTER 7 /* what registers_spin counts with */
static const struct slot kept[] = {
    {"r1", 1, 1},
    {"r2", 2, 2},
    {"r3", 3, 3},
    {"r4", 4, 4},
    {"r5", 5, 5},
    {"r6", 6, -1},
    {"r7", COUNTER, NUMBER},
    {"r8", 8, -1},
    {"r9", 9, -1},
    {"r10", 10, -1},
    {"r11", 11, -1},
    {"r12", 12, -1},
    {"lr", 14, -1},
};
#define STUB(name, instruction)                                                                         \
    __asm__(".text\n.syntax unified\n.arm\n.fpu neon\n.globl " name "\n.type " name ",%function\n" name \
            ":\n"                                                                                       \
            " push {r4-r11, lr}\n vpush {d8-d15}\n push {r0}\n"                                         \
            " add r1, r0, #288\n vldmia r1!, {d0-d15}\n vldmia r1!, {d16-d31}\n"                        \
            ".irp n,6,8,9,10,11,12,14\n ldr r\\n, [r0, #32+4*\\n]\n.endr\n"                             \
            " ldr r7, [r0]\n ldr r1, [r0, #8]\n ldr r2, [r0, #12]\n ldr r3, [r0, #16]\n ldr r4, [r0, "  \
            "#20]\n ldr r5, [r0, #24]\n"                                                                \
            " ldr r0, [r0, #4]\n"                                                                       \
            " " instruction "\n"                                                                        \
            " push {r0}\n ldr r0, [sp, #4]\n"                                                           \
            ".irp n,1,2,3,4,5,6,7,8,9,10,11,12,14\n str r\\n, [r0, #160+4*\\n]\n.endr\n"                \
            " pop {r1}\n str r1, [r0, #28]\n"                                                           \
            " add r1, r0, #288\n add r1, r1, #1024\n vstmia r1!, {d0-d15}\n vstmia r1!, {d16-d31}\n"    \
            " pop {r0}\n vpop {d8-d15}\n pop {r4-r11, pc}\n"                                            \
            ".size " name ", .-" name "\n")
STUB("registers_call", "svc #0");
STUB("registers_spin", "1: subs r7, r7, #1\n bne 1b");
__asm__(".text\n.syntax unified\n.arm\n.fpu neon\n.globl registers_trash\n.type "
        "registers_trash,%function\nregisters_trash:\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12\n mvn r\\n, #99\n.endr\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vmov.i8 q\\n, #0xff\n.endr\n bx lr\n"
        ".size registers_trash, .-registers_trash\n");

#elif defined(__powerpc64__)
#define VECTOR_BYTES (64 * 16)
/* System calls keep fields 2 to 4 of the condition register; registers_call masks the others. */
#define R(n) {"r" #n, n, -1}
static const struct slot kept[] = {
    {"lr", 0, -1}, {"cr2-cr4", 1, -1}, R(2),  R(13), R(14), R(15), R(16), R(17), R(18), R(19), R(20),
    R(21),         R(22),              R(23), R(24), R(25), R(26), R(27), R(28), R(29), R(30), R(31),
};
#define LINK_REGISTER 0
#define SECOND_WAY 1 /* `scv 0`, which does not keep the link register */
void registers_call_scv(struct state *state);
#define KEPT_REGISTERS "14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31"
#define KEPT_VECTORS "20,21,22,23,24,25,26,27,28,29,30,31"
#define STUB(name, instruction, error)                                                                     \
    __asm__(                                                                                               \
        ".text\n.machine push\n.machine power9\n.globl " name "\n.type " name ",%function\n" name ":\n"    \
        " mflr 0\n std 0, 16(1)\n mfcr 0\n stw 0, 8(1)\n stdu 1, -544(1)\n std 3, 40(1)\n"                 \
        ".irp n," KEPT_REGISTERS "\n std \\n, 48+8*(\\n-14)(1)\n stfd \\n, 192+8*(\\n-14)(1)\n.endr\n"     \
        ".irp n," KEPT_VECTORS "\n li 4, 336+16*(\\n-20)\n stvx \\n, 1, 4\n.endr\n"                        \
        " std 2, 64+8*2(3)\n std 13, 64+8*13(3)\n"                                                         \
        ".set n, 0\n.rept 64\n li 4, 576+16*n\n lxvd2x n, 3, 4\n.set n, n+1\n.endr\n"                      \
        ".irp n," KEPT_REGISTERS "\n ld \\n, 64+8*\\n(3)\n.endr\n"                                         \
        " ld 4, 64(3)\n mtlr 4\n ld 4, 72(3)\n mtcrf 0x38, 4\n"                                            \
        " ld 0, 0(3)\n ld 4, 16(3)\n ld 5, 24(3)\n ld 6, 32(3)\n ld 7, 40(3)\n ld 8, 48(3)\n ld 3, 8(3)\n" \
        " " instruction "\n"                                                                               \
        " ld 11, 40(1)\n mfcr 12\n" error " std 3, 56(11)\n"                                               \
        " rlwinm 12, 12, 0, 8, 19\n std 12, 320+8(11)\n mflr 12\n std 12, 320(11)\n"                       \
        " std 2, 320+8*2(11)\n std 13, 320+8*13(11)\n"                                                     \
        ".irp n," KEPT_REGISTERS "\n std \\n, 320+8*\\n(11)\n.endr\n"                                      \
        ".set n, 0\n.rept 64\n li 12, 1600+16*n\n stxvd2x n, 11, 12\n.set n, n+1\n.endr\n"                 \
        ".irp n," KEPT_REGISTERS "\n ld \\n, 48+8*(\\n-14)(1)\n lfd \\n, 192+8*(\\n-14)(1)\n.endr\n"       \
        ".irp n," KEPT_VECTORS "\n li 4, 336+16*(\\n-20)\n lvx \\n, 1, 4\n.endr\n"                         \
        " addi 1, 1, 544\n ld 0, 16(1)\n mtlr 0\n lwz 0, 8(1)\n mtcr 0\n blr\n"                            \
        ".size " name ", .-" name "\n.machine pop\n")
STUB("registers_call", "sc", " bns+ 1f\n neg 3, 3\n1:");
STUB("registers_call_scv", "scv 0", "");
STUB("registers_spin", "1: addic. 0, 0, -1\n bne 1b", "");
__asm__(".text\n.globl registers_trash\n.type registers_trash,%function\nregisters_trash:\n"
        ".irp n,0,3,4,5,6,7,8,9,10,11,12," KEPT_REGISTERS
        "\n li \\n, -1234\n.endr\n mtcrf 0xff, 3\n mtctr 3\n"
        ".set n, 0\n.rept 64\n xxlxor n, n, n\n.set n, n+1\n.endr\n blr\n"
        ".size registers_trash, .-registers_trash\n");
#else
#error "programs/registers/stub.h: add this architecture"
#endif

#endif
