/*
 * Calls of 32-bit Arm's old ABI: which one it is, says the instruction. Code is compiled for Arm state; the C
 * library is the EABI's, whose calls programs of the old ABI can make as well. Needs <errno.h>.
 */
#pragma GCC target("arm")

#define FIRST 0x900000
#define OLD_ARCH 0x50000028
#define NEW_ARCH 0x40000028

/* `swi operand` with up to seven arguments and a value in r7; gives r0. */
#define SWI(operand, seventh, ...) SWI_(operand, seventh, __VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)
#define SWI_(operand, in_r7, a, b, c, d, e, f, g, ...) ({ \
    long a_ = (long)(a), b_ = (long)(b), c_ = (long)(c), d_ = (long)(d), e_ = (long)(e), f_ = (long)(f); \
    long g_ = (long)(g), h_ = (long)(in_r7); \
    register long r0 __asm__("r0") = a_; \
    register long r1 __asm__("r1") = b_; \
    register long r2 __asm__("r2") = c_; \
    register long r3 __asm__("r3") = d_; \
    register long r4 __asm__("r4") = e_; \
    register long r5 __asm__("r5") = f_; \
    register long r6 __asm__("r6") = g_; \
    register long r7 __asm__("r7") = h_; \
    __asm__ volatile("swi %[says]" \
                     : "+r"(r0) \
                     : [says] "i"(operand), "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5), "r"(r6), "r"(r7) \
                     : "memory"); \
    r0; \
})

/* A call of the old ABI; r7 has what is no number of any. */
#define OLD(number, ...) SWI(FIRST + (number), 0x7777, __VA_ARGS__)

/* The halves of a 64-bit argument. */
#define HALVES(value) (long)((long long)(value)), (long)((long long)(value) >> 32)
