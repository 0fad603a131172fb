/*
 * Registers beside the general and vector ones that user mode can write, for each architecture: how each is
 * read and written, and which bits may be changed without harm to the program. Used by apart.c.
 */
#ifndef LIMEN_REGISTERS_APART_H
#define LIMEN_REGISTERS_APART_H

#include <signal.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef unsigned long word;
struct extra {
    const char *name;
    word (*read)(void);
    void (*write)(word value);
    /* The values that three processes write. */
    word values[3];
    /* The bits that can be read back. */
    word mask;
    /* On Linux: kept by system calls and fork, and reset by exec; or the exception. */
    enum { KEPT, NOT_BY_CALLS, BY_EXEC, NOT_BY_FORK } kept;
};

#define REGISTER(name, get, set)                          \
    static word read_##name(void) {                       \
        word value;                                       \
        __asm__ volatile(get : "=r"(value));              \
        return value;                                     \
    }                                                     \
    static void write_##name(word value) { __asm__ volatile(set : : "r"(value) : "memory"); }
/* One that is read into memory and written from there. */
#define IN_MEMORY(name, type, get, set)                   \
    static word read_##name(void) {                       \
        type value;                                       \
        __asm__ volatile(get : "=m"(value));              \
        return (word)value;                               \
    }                                                     \
    static void write_##name(word value) {                \
        type in_memory = (type)value;                     \
        __asm__ volatile(set : : "m"(in_memory));         \
    }
#define ROW(name, a, b, c, mask) {#name, read_##name, write_##name, {a, b, c}, mask, KEPT}
#define ROW_BUT(name, a, b, c, mask, kept) {#name, read_##name, write_##name, {a, b, c}, mask, kept}

/* A floating-point number of 64 bits as a word, and back. */
static inline word bits_of(double value) {
    word bits = 0;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}
static inline double with_bits(word bits) {
    double value = 0;
    __builtin_memcpy(&value, &bits, sizeof bits);
    return value;
}

#if defined(__x86_64__)
#include <asm/prctl.h>
static int bases_writable(void) { return (getauxval(AT_HWCAP2) & 2) != 0; }

REGISTER(ds, "mov %%ds, %0", "mov %0, %%ds")
REGISTER(es, "mov %%es, %0", "mov %0, %%es")
REGISTER(gs, "mov %%gs, %0", "mov %0, %%gs")
static word read_gs_base(void) {
    word base = 0;
    if (bases_writable()) __asm__ volatile("rdgsbase %0" : "=r"(base));
    else syscall(SYS_arch_prctl, ARCH_GET_GS, &base);
    return base;
}
/* In addition to a selector if the processor lets user mode write the base, else instead of one. */
static void write_gs_base(word base) {
    if (bases_writable()) __asm__ volatile("wrgsbase %0" : : "r"(base));
    else if (base) syscall(SYS_arch_prctl, ARCH_SET_GS, base);
}
/* FS: its base belongs to the C library and is lost when another selector is loaded. */
static word read_fs(void) {
    word value;
    __asm__ volatile("mov %%fs, %0" : "=r"(value));
    return value;
}
static void write_fs(word value) {
    word base;
    if (!bases_writable()) return;
    __asm__ volatile("rdfsbase %0\n mov %1, %%fs\n wrfsbase %0" : "=&r"(base) : "r"(value));
}
IN_MEMORY(mxcsr, unsigned, "stmxcsr %0", "ldmxcsr %0")
IN_MEMORY(fcw, unsigned short, "fnstcw %0", "fldcw %0")
static word read_st0(void) {
    double value;
    __asm__ volatile("fstl %0" : "=m"(value));
    return bits_of(value);
}
/* One number on the x87 stack, which nothing else here uses. */
static void write_st0(word bits) {
    double value = with_bits(bits);
    __asm__ volatile("fninit\n fldl %0" : : "m"(value));
}
/* EFLAGS.ID: no code of the program depends on it. */
REGISTER(flags, "pushf\n pop %0", "push %0\n popf")
/* No null selectors 1 to 3: some processors make them 0 on the way to user mode, others do not. */
static const struct extra extras[] = {
    ROW(st0, 0x3ff8000000000000, 0x4008800000000000, 0x4030400000000000, ~0ul),
    ROW(fcw, 0x37f, 0x27f, 0xf7f, 0xffff),
    ROW(mxcsr, 0x1f80, 0x3f80, 0x9fc0, 0xffff),
    ROW(flags, 0x202, 0x200202, 0x202, 0x200000),
    ROW(ds, 0, 0x2b, 0x33, 0xffff),
    ROW(es, 0x2b, 0x33, 0x7b, 0xffff),
    ROW(fs, 0, 0x2b, 0x33, 0xffff),
    ROW(gs, 0, 0x33, 0x2b, 0xffff),
    ROW(gs_base, 0x10000, 0, 0x7f0000000000, ~0ul),
};

#elif defined(__aarch64__)
REGISTER(fpcr, "mrs %0, fpcr", "msr fpcr, %0")
REGISTER(fpsr, "mrs %0, fpsr", "msr fpsr, %0")
REGISTER(tpidr2_el0, "mrs %0, s3_3_c13_c0_5", "msr s3_3_c13_c0_5, %0")
REGISTER(scxtnum_el0, "mrs %0, s3_3_c13_c0_7", "msr s3_3_c13_c0_7, %0")
REGISTER(dit, "mrs %0, s3_3_c4_c2_5", "msr s3_3_c4_c2_5, %0")
REGISTER(ssbs, "mrs %0, s3_3_c4_c2_6", "msr s3_3_c4_c2_6, %0")
REGISTER(tco, "mrs %0, s3_3_c4_c2_7", "msr s3_3_c4_c2_7, %0")
REGISTER(pmuserenr, "mrs %0, pmuserenr_el0", "msr pmuserenr_el0, %0")
REGISTER(pmccntr, "mrs %0, pmcr_el0", "msr pmcr_el0, %0")
REGISTER(cntv_cval, "mrs %0, cntv_cval_el0", "msr cntv_cval_el0, %0")
REGISTER(cntp_cval, "mrs %0, cntp_cval_el0", "msr cntp_cval_el0, %0")
REGISTER(dbgdtr, "mrs %0, dbgdtr_el0", "msr dbgdtr_el0, %0")
static const struct extra extras[] = {
    ROW(fpcr, 0, 0xc00000, 0x3000000, 0x3c00000),
    ROW(fpsr, 0, 0x1f, 0x8000001, 0x800009f),
    ROW(tpidr2_el0, 0x1111, 0x2222, 0x3333, ~0ul),
    ROW(scxtnum_el0, 0x1111, 0x2222, 0x3333, ~0ul),
    ROW(dit, 0, 0x1000000, 0, 0x1000000),
    ROW(ssbs, 0, 0x1000, 0, 0x1000),
    ROW(tco, 0, 0x2000000, 0, 0x2000000),
    ROW(pmuserenr, 0, 0, 0, ~0ul),
    ROW(pmccntr, 0, 1, 0, 1),
    ROW(cntv_cval, 0x1111, 0x2222, 0x3333, ~0ul),
    ROW(cntp_cval, 0x1111, 0x2222, 0x3333, ~0ul),
    ROW(dbgdtr, 0x1111, 0x2222, 0x3333, ~0ul),
};

#elif defined(__arm__)
__asm__(".fpu neon\n");
REGISTER(fpscr, "vmrs %0, fpscr", "vmsr fpscr, %0")
REGISTER(tpidrurw, "mrc p15, 0, %0, c13, c0, 2", "mcr p15, 0, %0, c13, c0, 2")
REGISTER(tpidruro, "mrc p15, 0, %0, c13, c0, 3", "mcr p15, 0, %0, c13, c0, 3")
REGISTER(teehbr, "mrc p14, 6, %0, c1, c0, 0", "mcr p14, 6, %0, c1, c0, 0")
REGISTER(teecr, "mrc p14, 6, %0, c0, c0, 0", "mcr p14, 6, %0, c0, c0, 0")
REGISTER(joscr, "mrc p14, 7, %0, c1, c0, 0", "mcr p14, 7, %0, c1, c0, 0")
REGISTER(jmcr, "mrc p14, 7, %0, c2, c0, 0", "mcr p14, 7, %0, c2, c0, 0")
REGISTER(pmcr, "mrc p15, 0, %0, c9, c12, 0", "mcr p15, 0, %0, c9, c12, 0")
REGISTER(pmuserenr, "mrc p15, 0, %0, c9, c14, 0", "mcr p15, 0, %0, c9, c14, 0")
REGISTER(cntv_tval, "mrc p15, 0, %0, c14, c3, 0", "mcr p15, 0, %0, c14, c3, 0")
REGISTER(dbgdtr, "mrc p14, 0, %0, c0, c5, 0", "mcr p14, 0, %0, c0, c5, 0")
static const struct extra extras[] = {
    ROW(fpscr, 0, 0xc00000, 0x300001f, 0x3c0001f),
    ROW(tpidrurw, 0x1111, 0x2222, 0x3333, ~0ul),
    ROW(tpidruro, 0x1111, 0x2222, 0x3333, 0),
    ROW(teehbr, 0x1110, 0x2220, 0x3330, ~0ul),
    ROW(teecr, 0, 1, 0, 1),
    ROW(joscr, 0, 1, 2, 3),
    ROW(jmcr, 0, 0, 0, 0),
    ROW(pmcr, 0, 1, 0, 1),
    ROW(pmuserenr, 0, 0, 0, ~0ul),
    ROW(cntv_tval, 0, 0, 0, 0),
    ROW(dbgdtr, 0x1111, 0x2222, 0x3333, ~0ul),
};

#elif defined(__powerpc64__)
#define SPR(name, number) REGISTER(name, "mfspr %0, " #number, "mtspr " #number ", %0")
SPR(dscr, 3)
SPR(amr, 13)
SPR(ctrl, 136)
SPR(uamor, 157)
SPR(vrsave, 256)
SPR(usprg3, 259)
SPR(siar, 780)
SPR(mmcr2, 769)
SPR(mmcr0, 779)
SPR(bescr, 806)
SPR(ebbhr, 804)
SPR(ebbrr, 805)
SPR(lmrr, 813)
SPR(tar, 815)
SPR(tfhar, 128)
SPR(texasr, 130)
SPR(ppr, 896)
static word read_fpscr(void) {
    double value;
    __asm__ volatile("mffs %0" : "=d"(value));
    return bits_of(value);
}
static void write_fpscr(word bits) {
    __asm__ volatile("mtfsf 255, %0" : : "d"(with_bits(bits)));
}
static word read_vscr(void) {
    word two[2] __attribute__((aligned(16)));
    __asm__ volatile("mfvscr 0\n stvx 0, 0, %0" : : "b"(two) : "memory", "v0");
    return two[0] | two[1];
}
static void write_vscr(word value) {
    word two[2] __attribute__((aligned(16))) = {value, 0};
    __asm__ volatile("lvx 0, 0, %0\n mtvscr 0" : : "b"(two) : "memory", "v0");
}
static const struct extra extras[] = {
    ROW_BUT(dscr, 1, 2, 3, ~0ul, BY_EXEC),
    ROW(amr, 0x4000000000000000, 0x1000000000000000, 0, ~0ul),
    ROW(ctrl, 0, 0, 0, 0),
    ROW(uamor, 0, 0, 0, ~0ul),
    ROW_BUT(vrsave, 0x11111111, 0x22222222, 0x33333333, 0xffffffff, BY_EXEC),
    ROW(usprg3, 0, 0, 0, 0),
    ROW(siar, 0x1111, 0x2222, 0x3333, ~0ul),
    ROW(mmcr2, 0, 0x10, 0, ~0ul),
    ROW(mmcr0, 0, 0x80000000, 0, 0x80000000),
    ROW_BUT(bescr, 0, 0x8000000000000000, 0, ~0ul, NOT_BY_FORK),
    ROW_BUT(ebbhr, 0x1110, 0x2220, 0x3330, ~0ul, NOT_BY_FORK),
    ROW_BUT(ebbrr, 0x1110, 0x2220, 0x3330, ~0ul, NOT_BY_FORK),
    ROW(lmrr, 0x1110, 0x2220, 0x3330, ~0ul),
    ROW_BUT(tar, 0x1110, 0x2220, 0x3330, ~0ul, BY_EXEC),
    ROW(tfhar, 0x1110, 0x2220, 0x3330, ~0ul),
    ROW(texasr, 0, 0, 0, ~0ul),
    ROW_BUT(ppr, 2ul << 50, 2ul << 50, 4ul << 50, 7ul << 50, NOT_BY_CALLS),
    ROW(fpscr, 0, 1, 2, 0xff),
    ROW(vscr, 0, 1, 0, 1),
};
#else
#error "programs/registers/apart.h: add this architecture"
#endif
#endif
