/* Acts of 32-bit Arm, in both instruction sets. */
#include "act.h"

unsigned long call(unsigned long number, unsigned long a, unsigned long b, unsigned long c) {
    register unsigned long r7 __asm__("r7") = number, r0 __asm__("r0") = a, r1 __asm__("r1") = b,
                              r2 __asm__("r2") = c;
    __asm__ volatile("svc 0" : "+r"(r0) : "r"(r7), "r"(r1), "r"(r2) : "memory");
    return r0;
}

unsigned long counter(const ucontext_t *context) { return context->uc_mcontext.arm_pc; }

/*
 * Prints a fault status without its level. It has the format of either kind of page tables; the kernel
 * decides which kind it uses.
 */
static const char *fault(unsigned long status) {
    if (status & 0x200) {
        if ((status & 0x3c) == 4 || (status & 0x3c) == 12) return status & 8 ? "permission" : "translation";
        return (status & 0x3f) == 0x21 ? "alignment" : (status & 0x3f) == 0x22 ? "debug" : "other";
    }
    static const char *const said[16] = {
        [1] = "alignment",  "debug", [5] = "translation", [7] = "translation", [13] = "permission",
        [15] = "permission"};
    return said[status & 15] ? said[status & 15] : "other";
}

void describe(char *to, size_t room, const siginfo_t *info, const ucontext_t *context) {
    const mcontext_t *m = &context->uc_mcontext;
    int n = snprintf(to, room, ", trap %lu, psr %#lx", m->trap_no, m->arm_cpsr & 0x0e00ffff);
    unsigned long now;
    __asm__ volatile("mrs %0, cpsr" : "=r"(now));
    /* The mode in which the handler runs: user mode, whatever was interrupted. */
    if ((now & 31) != 16) n += snprintf(to + n, room - n, ", mode %#lx", now & 31);
    if (m->trap_no == 14 || info->si_signo == SIGBUS || info->si_code == TRAP_HWBKPT)
        n += snprintf(to + n, room - n, ", error %s%s%s", fault(m->error_code),
                      m->error_code & 0x800 ? ", write" : "", m->error_code >> 31 ? ", fetch" : "");
    else
        n += snprintf(to + n, room - n, ", error %#lx", m->error_code);
    if (!hide_addresses)
        snprintf(to + n, room - n, ", r0 %#lx, r1 %#lx, fault %#lx", m->arm_r0, m->arm_r1, m->fault_address);
}

#define ARM(name, text) \
    ASSEMBLY(arm_##name, ".arm\n", " push {r4-r11, lr}\n " text, " pop {r4-r11, pc}\n .ltorg\n")
#define THUMB(name, text)                                                                          \
    ASSEMBLY(thumb_##name, ".syntax unified\n.thumb\n.thumb_func\n", " push {r4-r11, lr}\n " text, \
             " pop {r4-r11, pc}\n .ltorg\n")

/* Undefined and privileged instructions. */
ARM(udf, "udf #0");
ARM(udf_other, "udf #0x1234");
ARM(udf_breakpoint, ".inst 0xe7f001f0");
ARM(udf_breakpoint_conditional, "cmp r0, r0\n .inst 0x07f001f0");
ARM(udf_breakpoint_not_taken, "cmp r0, r0\n .inst 0x17f001f0");
ARM(bkpt, "bkpt #0");
ARM(bkpt_other, "bkpt #0x1234");
THUMB(udf, "udf #0");
THUMB(udf_other, "udf #0x12");
THUMB(udf_breakpoint, "udf #1");
THUMB(udf_wide, "udf.w #0");
THUMB(udf_wide_breakpoint, ".inst.w 0xf7f0a000");
THUMB(udf_in_it, "cmp r0, r0\n it eq\n udfeq #0");
THUMB(udf_not_taken, "cmp r0, r0\n it ne\n udfne #0");
THUMB(bkpt, "bkpt #0");
THUMB(bkpt_in_it, "cmp r0, r0\n itt ne\n movne r0, #1\n bkpt #3");
ARM(all_zero, ".inst 0x00000000\n mov r0, #7");
ARM(all_ones, ".inst 0xffffffff");
THUMB(all_ones, ".inst.w 0xffffffff");
ARM(mcr_control, "mcr p15, 0, r0, c1, c0, 0");
ARM(mrc_control, "mrc p15, 0, r0, c1, c0, 0");
ARM(mrc_midr, "mrc p15, 0, r0, c0, c0, 0");
ARM(mrc_tls, "mrc p15, 0, r0, c13, c0, 3\n mov r0, #1");
ARM(mcr_tls_ro, "mcr p15, 0, r0, c13, c0, 3");
ARM(mcr_tls_rw, "mcr p15, 0, r1, c13, c0, 2\n mrc p15, 0, r0, c13, c0, 2");
ARM(mrc_pmu, "mrc p15, 0, r0, c9, c13, 0");
ARM(barrier_isb, "mov r2, #0\n mcr p15, 0, r2, c7, c5, 4\n mov r0, #2");
ARM(barrier_dsb, "mov r2, #0\n mcr p15, 0, r2, c7, c10, 4\n mov r0, #2");
ARM(barrier_dmb, "mov r2, #0\n mcr p15, 0, r2, c7, c10, 5\n mov r0, #2");
ARM(mcr_icache, "mov r2, #0\n mcr p15, 0, r2, c7, c5, 0");
ARM(counter_virtual, "mrrc p15, 1, r0, r1, c14\n mov r0, #3");
ARM(counter_physical, "mrrc p15, 0, r0, r1, c14\n mov r0, #3");
ARM(counter_frequency, "mrc p15, 0, r0, c14, c0, 0");
ARM(counter_timer, "mrc p15, 0, r0, c14, c3, 1");
ARM(debug_id, "mrc p14, 0, r0, c0, c0, 0");
ARM(coprocessor, "cdp p3, 0, c0, c0, c0, 0");
ARM(coprocessor_load, "ldc p3, c0, [r0]");
ARM(iwmmxt, ".inst 0xee000110");
ARM(smc, ".arch_extension sec\n smc #0");
ARM(hvc, ".arch_extension virt\n hvc #0");
ARM(eret, ".arch_extension virt\n eret");
ARM(swp, "mov r2, #5\n .inst 0xe1003092\n mov r0, r3");
ARM(swpb, "mov r2, #5\n .inst 0xe1403092\n mov r0, r3");
ARM(swp_hole, "mov r2, #5\n .inst 0xe1013092");
ARM(setend, "setend be\n ldr r0, [r0]\n setend le");
THUMB(setend, "setend be\n ldr r0, [r0]\n setend le");
ARM(cps, "cpsid i\n mrs r0, cpsr\n and r0, r0, #0xff");
ARM(msr_mode,
    "mrs r2, cpsr\n bic r2, r2, #31\n orr r2, r2, #19\n msr cpsr_c, r2\n mrs r0, cpsr\n and r0, r0, #31");
ARM(spsr, "mrs r0, spsr\n mov r0, #1");
ARM(wait_for_event, "sev\n wfe\n mov r0, #4");
ARM(srs, "srsia sp!, #19");
ARM(rfe, "rfeia r0");
ARM(user_registers, "stmia r0, {r1, r2}^");
ARM(divide, "mov r2, #0\n udiv r0, r1, r2");
ARM(ldrt, "ldrt r2, [r0]\n mov r0, r2");
ARM(ldrt_hole, "ldrt r0, [r1]");
ARM(crc, ".inst 0xe1000042");
ARM(aes, ".inst 0xf3b00300");
THUMB(tbb, "mov r2, #0\n tbb [r1, r2]");
THUMB(clrex, "clrex\n movs r0, #9");
ARM(svc_number, "mov r7, #20\n mov r0, #0\n svc #0x123\n cmp r0, #0\n movgt r0, #1");
ARM(svc_old, "mov r7, #0\n svc #0x900014");

/* Floating point. */
ARM(vmsr_fpexc, ".fpu neon-vfpv4\n vmsr fpexc, r0");
ARM(vmrs_fpexc, "vmrs r0, fpexc");
ARM(vmrs_fpsid, "vmrs r0, fpsid");
ARM(vmrs_mvfr0, "vmrs r0, mvfr0");
ARM(fp_enables, "vmrs r2, fpscr\n orr r2, r2, #0x9f00\n vmsr fpscr, r2\n vmrs r0, fpscr");
ARM(fp_division,
    "vmov.f64 d0, #1.0\n vsub.f64 d1, d0, d0\n vdiv.f64 d0, d0, d1\n vmrs r0, fpscr\n and r0, r0, #31");

/* Alignment. */
ARM(ldr_odd, "ldr r0, [r0, #1]");
ARM(ldrh_odd, "ldrh r0, [r0, #1]");
ARM(str_odd, "str r1, [r0, #3]\n mov r0, #0");
ARM(ldrd_odd, "ldrd r2, r3, [r0, #2]\n eor r0, r2, r3");
ARM(ldrd_word, "ldrd r2, r3, [r0, #4]\n eor r0, r2, r3");
ARM(strd_odd, "mov r2, #0x12\n mov r3, #0x34\n strd r2, r3, [r0, #1]!\n");
ARM(strd_post, "mov r2, #0x12\n mov r3, #0x34\n add r0, r0, #2\n strd r2, r3, [r0], #-8\n");
ARM(strd_register, "mov r2, #0x12\n mov r3, #0x34\n mov r4, #9\n strd r2, r3, [r0, -r4]\n");
ARM(ldm_odd, "add r0, r0, #1\n ldmia r0!, {r2-r5}\n eor r2, r2, r3\n eor r2, r2, r4\n eor r2, r2, r5\n eor "
             "r0, r0, r2");
ARM(ldm_below, "add r0, r0, #2\n ldmdb r0!, {r2-r4}\n eor r2, r2, r3\n eor r2, r2, r4\n eor r0, r0, r2");
ARM(ldm_after_base, "add r0, r0, #3\n ldmib r0, {r0, r2}\n eor r0, r0, r2");
ARM(stm_odd, "add r0, r0, #1\n mov r2, #1\n mov r3, #2\n stmda r0!, {r2, r3}");
ARM(stm_across, "sub r1, r1, #6\n mov r2, #1\n mov r3, #2\n stmia r1!, {r2, r3}");
ARM(ldm_across, "sub r1, r1, #6\n ldmia r1!, {r2, r3}");
ARM(ldm_hole, "add r1, r1, #1\n ldmia r1!, {r2, r3}");
ARM(ldm_pc, "adr r2, 1f\n str r2, [r0, #5]\n add r0, r0, #1\n ldmia r0, {r3, pc}\n 1: mov r0, #6");
ARM(ldrex_odd, "add r0, r0, #1\n ldrex r0, [r0]");
ARM(strex_odd, "add r0, r0, #1\n strex r2, r1, [r0]");
ARM(ldrexd_word, "add r0, r0, #4\n ldrexd r2, r3, [r0]");
ARM(ldrex_hole, "ldrex r0, [r1]");
ARM(ldrex_fixed, "mov r2, #0x20000000\n add r2, r2, #0x40000\n ldrex r0, [r2]\n strex r3, r1, [r2]");
ARM(ldrexb, "add r0, r0, #1\n ldrexb r0, [r0]");
ARM(ldrexh_odd, "add r0, r0, #1\n ldrexh r0, [r0]");
ARM(vldr_odd, "add r0, r0, #2\n vldr d0, [r0]\n vmov r0, r2, d0\n eor r0, r0, r2");
ARM(vstr_odd, "add r0, r0, #1\n vmov d0, r1, r1\n vstr d0, [r0]\n mov r0, #0");
ARM(vldm_odd, "add r0, r0, #1\n vldmia r0!, {d0-d3}\n vmov r2, r3, d3\n eor r0, r0, r2");
ARM(vpush_odd, "mov r2, sp\n sub r3, r1, #63\n mov sp, r3\n vpush {d0}\n mov sp, r2\n mov r0, #0");
ARM(vld1_odd, "add r0, r0, #1\n vld1.8 {d0}, [r0]\n vmov r0, r2, d0\n eor r0, r0, r2");
ARM(vld1_aligned_odd, "add r0, r0, #1\n vld1.8 {d0}, [r0:64]\n mov r0, #0");
ARM(vld1_wide_odd, "add r0, r0, #1\n vld1.32 {d0}, [r0]\n vmov r0, r2, d0\n eor r0, r0, r2");
ARM(ldrd_literal, "ldrd r2, r3, 1f + 2\n eor r0, r2, r3\n b 2f\n .balign 4\n 1: .word 1, 2, 3, 4\n 2:");
THUMB(ldm_odd, "adds r0, #1\n ldmia r0!, {r2-r5}\n eors r2, r3\n eors r2, r4\n eors r2, r5\n eors r0, r2");
THUMB(ldm_narrow_base, "adds r0, #1\n ldmia r0, {r0, r2, r3}\n eors r0, r2\n eors r0, r3");
THUMB(stm_odd, "adds r0, #1\n movs r2, #1\n movs r3, #2\n stmia r0!, {r2, r3}");
THUMB(stm_wide_odd, "adds r0, #2\n movs r2, #1\n movs r3, #2\n mov r8, #3\n stmdb.w r0!, {r2, r3, r8}");
THUMB(ldm_wide_odd, "adds r0, #2\n ldmia.w r0, {r2, r8}\n eor r0, r2, r8");
THUMB(ldrd_odd, "ldrd r2, r3, [r0, #4]!\n adds r0, #1\n ldrd r4, r5, [r0], #8\n eors r4, r5\n eors r0, r4");
THUMB(strd_odd, "adds r0, #3\n movs r2, #0x12\n movs r3, #0x34\n strd r2, r3, [r0, #-12]!");
THUMB(ldr_odd, "ldr r0, [r0, #1]");
THUMB(push_odd, "mov r2, sp\n sub r3, r1, #62\n mov sp, r3\n push {r0, r1}\n mov sp, r2\n movs r0, #0");
THUMB(pop_odd, "mov r2, sp\n sub r3, r1, #61\n mov sp, r3\n pop {r0, r1}\n mov sp, r2\n eors r0, r1");
THUMB(ldm_in_it, "adds r0, #1\n cmp r1, r1\n ittt eq\n ldmiaeq r0!, {r2, r3}\n moveq r4, #1\n eoreq r2, r2, "
                 "r4\n eors r2, r3\n eors r0, r2");
THUMB(vldr_odd, "adds r0, #1\n vldr d0, [r0]\n vmov r0, r2, d0\n eors r0, r2");

/* Addresses that user mode must not execute. */
ACT(arm_run_kernel) { return go_to(0xc0008000); }
ACT(arm_load_kernel) { return *(volatile char *)at(0xc0008000); }
ACT(arm_store_kernel) { return *(volatile char *)at(0xc0008000) = 1; }
ACT(arm_load_last) { return *(volatile char *)at(0xffffffff); }
ACT(arm_load_across_last) { return *(volatile unsigned *)at(0xbffffffe); }
ACT(arm_load_vectors) { return *(volatile char *)at(0xffff0000) & 0; }
ACT(arm_store_vectors) { return *(volatile char *)at(0xffff0000) = 1; }
ACT(arm_run_odd_word) { return go_to(0x20060002); }
ACT(arm_kuser_version) { return *(volatile int *)at(0xffff0ffc); }
ACT(arm_kuser_store) { return *(volatile int *)at(0xffff0ffc) = 1; }
ACT(arm_kuser_tls)
{
    return ((unsigned long (*)(void))0xffff0fe0)() == (unsigned long)__builtin_thread_pointer();
}
ACT(arm_kuser_exchange) {
    int v = 5;
    int a = ((int (*)(int, int, volatile int *))0xffff0fc0)(5, 6, &v),
        b = ((int (*)(int, int, volatile int *))0xffff0fc0)(5, 7, &v);
    return (unsigned long)(a * 100 + (b != 0) * 10 + v);
}
ACT(arm_kuser_exchange_null)
{
    return (unsigned long)((int (*)(int, int, volatile int *))0xffff0fc0)(5, 6, 0);
}
ACT(arm_kuser_exchange_wide) {
    int64_t old = 5, new = 6, v = 5;
    int a = ((int (*)(const int64_t *, const int64_t *, volatile int64_t *))0xffff0f60)(&old, &new, &v);
    int b = ((int (*)(const int64_t *, const int64_t *, volatile int64_t *))0xffff0f60)(&old, &new, &v);
    return (unsigned long)(a * 100 + (b != 0) * 10 + (int)v);
}
ACT(arm_kuser_barrier) {
    ((void (*)(void))0xffff0fa0)();
    return 1;
}

/* The architecture's own system calls, and unused numbers beside them. */
#define NUMBER(n) ACT(arm_call_##n) { return call(0x##n, 0x20000000, 0x20000000, 0); }
NUMBER(1ff)
NUMBER(effff)
NUMBER(f0000)
NUMBER(f0001)
NUMBER(f0002)
NUMBER(f0003)
NUMBER(f0004)
NUMBER(f0007)
NUMBER(f07fe)
NUMBER(f07ff)
NUMBER(f0800)
NUMBER(fffff)
NUMBER(100000)
NUMBER(7fffffff)
NUMBER(80000000)
NUMBER(900014)
NUMBER(9f0002)
ACT(arm_call_tls) {
    unsigned long before = call(0xf0006, 0, 0, 0), other;
    call(0xf0005, 0x12345678, 0, 0);
    __asm__ volatile("mrc p15, 0, %0, c13, c0, 3" : "=r"(other));
    other = other == call(0xf0006, 0, 0, 0) ? other : 0;
    call(0xf0005, before, 0, 0);
    return other;
}
#define FLUSH(name, from, to, flags)                                             \
    ACT(arm_flush_##name)                                                        \
    {                                                                            \
        return call(0xf0002, (unsigned long)(from), (unsigned long)(to), flags); \
    }
FLUSH(open, OPEN, OPEN + UNIT, 0)
FLUSH(backwards, OPEN + 8, OPEN, 0)
FLUSH(flags, OPEN, OPEN + UNIT, 1)
FLUSH(hole, HOLE, HOLE + 64, 0)
FLUSH(across, OPEN + 64, HOLE + 64, 0)
FLUSH(shut, SHUT, SHUT + 64, 0)
FLUSH(kernel, 0xc0000000, 0xc0001000, 0)
FLUSH(all, 0, 0xffffffff, 0)

/* Changes that handlers may make to a context. */
static void to_kernel_mode(ucontext_t *c)
{
    c->uc_mcontext.arm_cpsr = (c->uc_mcontext.arm_cpsr & ~31ul) | 19;
}
static void interrupts_off(ucontext_t *c) { c->uc_mcontext.arm_cpsr |= 0x80; }
static void fiqs_off(ucontext_t *c) { c->uc_mcontext.arm_cpsr |= 0x1c0, c->uc_mcontext.arm_pc += 4; }
static void old_mode(ucontext_t *c) { c->uc_mcontext.arm_cpsr &= ~31ul; }
static void no_float_mark(ucontext_t *c) { memset(c->uc_regspace, 0, 4); }
static void odd_counter(ucontext_t *c) { c->uc_mcontext.arm_pc = 0x20060002; }
static void into_hole(ucontext_t *c) { c->uc_mcontext.arm_pc = (unsigned long)HOLE; }
static void into_kernel(ucontext_t *c) { c->uc_mcontext.arm_pc = 0xc0008000; }
static void into_thumb(ucontext_t *c)
{
    c->uc_mcontext.arm_cpsr |= 0x20, c->uc_mcontext.arm_pc = (unsigned long)CODE;
}
static void big_endian(ucontext_t *c) { c->uc_mcontext.arm_cpsr |= 0x200, c->uc_mcontext.arm_pc += 4; }
static void jazelle(ucontext_t *c) { c->uc_mcontext.arm_cpsr |= 0x01000000, c->uc_mcontext.arm_pc += 4; }
extern unsigned long code_arm_undefined_load(char *, char *);
ARM(undefined_load, "udf #0\n ldr r0, [r0]\n setend le");
#define FRAME(name) ACT(arm_frame_##name) { then = name; return code_arm_undefined_load(words, end); }
FRAME(to_kernel_mode)
FRAME(interrupts_off)
FRAME(fiqs_off)
FRAME(old_mode)
FRAME(no_float_mark)
FRAME(odd_counter)
FRAME(into_hole)
FRAME(into_kernel)
FRAME(into_thumb)
FRAME(big_endian)
FRAME(jazelle)
/* sigreturn without a handler. */
ARM(sigreturn_odd, "add sp, r0, #4\n mov r7, #119\n svc 0");
ARM(sigreturn_hole, "add sp, r1, #64\n mov r7, #173\n svc 0");
/*
 * sigreturn with a frame at the end of a page, of which only the first `at` bytes of the context are mapped:
 * without the signal mask, or without the floating-point registers. By then the kernel has read the processor
 * state `psr`; the handler of the SIGSEGV must not start with it.
 */
#define STRADDLE(name, number, info, at, psr)                     \
    ARM(sigreturn_##name, "sub r2, r1, #" #at "\n mov r3, #" #psr \
                          "\n str r3, [r2, #96]\n sub sp, r2, #" #info "\n mov r7, #" #number "\n svc 0")
STRADDLE(straddling_user, 119, 0, 232, 0x10);
STRADDLE(straddling_system, 119, 0, 232, 0x1f);
STRADDLE(straddling_supervisor, 119, 0, 232, 0x13);
STRADDLE(straddling_interrupts_off, 119, 0, 232, 0x90);
STRADDLE(straddling_rt_system, 173, 128, 232, 0x1f);
STRADDLE(straddling_rt_supervisor, 173, 128, 232, 0x13);
STRADDLE(straddling_mask, 119, 0, 104, 0x1f);
