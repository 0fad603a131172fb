/* Acts of arm64. */
#include "act.h"

#include <asm/sigcontext.h>

unsigned long call(unsigned long number, unsigned long a, unsigned long b, unsigned long c) {
    register unsigned long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b,
                              x2 __asm__("x2") = c;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
}

unsigned long counter(const ucontext_t *context) { return context->uc_mcontext.pc; }

/* The record of a type among those behind the general registers. */
static struct _aarch64_ctx *record(ucontext_t *context, uint32_t magic) {
    char *at = (char *)context->uc_mcontext.__reserved;
    for (;;) {
        struct _aarch64_ctx *head = (struct _aarch64_ctx *)at;
        if (head->magic == magic) return head;
        if (head->magic == 0 || head->size == 0) return NULL;
        at += head->size;
    }
}

void describe(char *to, size_t room, const siginfo_t *info, const ucontext_t *context) {
    const mcontext_t *m = &context->uc_mcontext;
    unsigned long pstate = m->pstate, fault = m->fault_address, x0 = m->regs[0], x1 = m->regs[1];
    const struct esr_context *esr = (const void *)record((ucontext_t *)context, ESR_MAGIC);
    (void)info;
    /* At which level the entry is missing depends, for an address that nobody chose, as the one below a full
     * stack, on what is mapped near it: a table of the last level covers 2 MiB. Aborts are the exception
     * classes 0x20 to 0x25; 4 to 7 is a missing entry of the levels 0 to 3 (Arm ARM, ISS of an abort). */
    unsigned long syndrome = esr ? esr->esr : 0;
    int class = syndrome >> 26, missing = (syndrome & 0x3c) == 4;
    if (hide_addresses && class >= 0x20 && class <= 0x25 && missing) syndrome &= ~3ul;
    int n = snprintf(to, room, ", pstate %#lx", pstate & ~0xf0001000ul);
    if (esr) n += snprintf(to + n, room - n, ", esr %#lx", syndrome);
    if (!hide_addresses) snprintf(to + n, room - n, ", x0 %#lx, x1 %#lx, fault %#lx", x0, x1, fault);
}

#define ARM64(name, text) ASSEMBLY(arm64_##name, "", " " text, " ret\n")

ARM64(udf, "udf #0");
ARM64(udf_other, "udf #0x1234");
ARM64(ones, ".inst 0xffffffff");
ARM64(brk, "brk #0");
ARM64(brk_other, "brk #0x1234");
ARM64(brk_bug, "brk #0x800");
ARM64(hlt, "hlt #0");
ARM64(hvc, "hvc #0");
ARM64(smc, "smc #0");
ARM64(svc_number, "mov x8, #172\n svc #0x1234\n mov x0, #1");
ARM64(eret, "eret");
ARM64(dcps, "dcps1");
ARM64(wfi, "mov x0, #1");
ARM64(wfe, "sevl\n wfe\n mov x0, #2");
ARM64(msr_daif, "msr daifset, #2");
ARM64(mrs_daif, "mrs x0, daif");
ARM64(mrs_currentel, "mrs x0, currentel");
ARM64(mrs_midr, "mrs x0, midr_el1");
ARM64(mrs_mpidr, "mrs x0, mpidr_el1");
ARM64(mrs_revidr, "mrs x0, revidr_el1");
ARM64(mrs_isar0, "mrs x0, id_aa64isar0_el1");
ARM64(mrs_isar1, "mrs x0, id_aa64isar1_el1");
ARM64(mrs_pfr0, "mrs x0, id_aa64pfr0_el1");
ARM64(mrs_pfr1, "mrs x0, id_aa64pfr1_el1");
ARM64(mrs_mmfr0, "mrs x0, id_aa64mmfr0_el1");
ARM64(mrs_mmfr1, "mrs x0, id_aa64mmfr1_el1");
ARM64(mrs_mmfr2, "mrs x0, id_aa64mmfr2_el1");
ARM64(mrs_dfr0, "mrs x0, id_aa64dfr0_el1");
ARM64(mrs_zfr0, "mrs x0, s3_0_c0_c4_4");
ARM64(mrs_old, "mrs x0, id_isar0_el1");
ARM64(mrs_reserved, "mrs x0, s3_0_c0_c7_7");
ARM64(mrs_to_zero_register, "mrs xzr, midr_el1\n mov x0, #3");
ARM64(mrs_sctlr, "mrs x0, sctlr_el1");
ARM64(msr_sctlr, "msr sctlr_el1, x0");
ARM64(mrs_ttbr, "mrs x0, ttbr0_el1");
ARM64(mrs_ctr, "mrs x0, ctr_el0");
ARM64(mrs_dczid, "mrs x0, dczid_el0");
ARM64(mrs_tpidr, "mrs x0, tpidr_el0\n mov x0, #1");
ARM64(mrs_tpidrro, "mrs x0, tpidrro_el0");
ARM64(msr_tpidrro, "msr tpidrro_el0, x0");
ARM64(mrs_counter, "mrs x0, cntvct_el0\n mov x0, #1");
ARM64(mrs_counter_physical, "mrs x0, cntpct_el0\n mov x0, #1");
ARM64(mrs_frequency, "mrs x0, cntfrq_el0");
ARM64(mrs_timer, "mrs x0, cntv_ctl_el0");
ARM64(msr_timer, "msr cntv_ctl_el0, x0");
ARM64(mrs_pmu, "mrs x0, pmccntr_el0");
ARM64(mrs_pmuser, "mrs x0, pmuserenr_el0\n mov x0, #1");
ARM64(mrs_fpcr, "mrs x0, fpcr");
ARM64(mrs_dbg, "mrs x0, mdscr_el1");
ARM64(mrs_dcc, "mrs x0, mdccsr_el0");
ARM64(mrs_oslsr, "mrs x0, oslsr_el1");
ARM64(mrs_none, "mrs x0, s3_3_c15_c1_1");
ARM64(msr_spsel, "msr spsel, #1");
ARM64(msr_pan, ".inst 0xd500419f");
ARM64(msr_uao, ".inst 0xd500407f");
ARM64(msr_dit, ".inst 0xd503415f\n mov x0, #1");
ARM64(msr_ssbs, ".inst 0xd503413f\n mov x0, #1");
ARM64(tlbi, "tlbi vmalle1");
ARM64(at, "at s1e0r, x0");
ARM64(dc_zva, "dc zva, x0\n mov x0, #0");
ARM64(dc_zva_hole, "dc zva, x1");
ARM64(dc_zva_fixed, "mov x2, #0x20040000\n dc zva, x2");
ARM64(dc_cvau, "dc cvau, x0\n mov x0, #1");
ARM64(dc_cvau_hole, "dc cvau, x1\n mov x0, #1");
ARM64(dc_civac, "dc civac, x0\n mov x0, #1");
ARM64(dc_civac_fixed, "mov x2, #0x20040000\n dc civac, x2\n mov x0, #1");
ARM64(dc_civac_kernel, "mov x2, #0xffff000000000000\n dc civac, x2\n mov x0, #1");
ARM64(dc_ivac, "dc ivac, x0");
ARM64(dc_isw, "dc isw, x0");
ARM64(ic_ivau, "ic ivau, x0\n mov x0, #1");
ARM64(ic_ivau_hole, "ic ivau, x1\n mov x0, #1");
ARM64(ic_iallu, "ic iallu");
ARM64(prefetch_hole, "prfm pldl1keep, [x1]\n mov x0, #1");
ARM64(udiv, "mov x2, #0\n udiv x0, x1, x2");
ARM64(sdiv_overflow, "mov x2, #-1\n mov x3, #0x8000000000000000\n sdiv x0, x3, x2");
ARM64(ldr_odd, "ldur x0, [x0, #1]");
ARM64(str_across, "sub x2, x1, #3\n str x0, [x2]");
ARM64(str_across_fixed, "mov x2, #0x20040000\n sub x2, x2, #3\n str x0, [x2]");
ARM64(ldp_across, "sub x2, x1, #8\n ldp x2, x3, [x2]");
ARM64(ldxr_odd, "add x0, x0, #1\n ldxr x0, [x0]");
ARM64(ldar_odd, "add x0, x0, #1\n ldar x0, [x0]");
ARM64(stlr_odd, "add x0, x0, #2\n stlr w1, [x0]");
ARM64(ldxp_odd, "add x0, x0, #8\n ldxp x2, x3, [x0]");
ARM64(ldxr_hole, "ldxr x0, [x1]");
ARM64(stxr_fixed, "mov x2, #0x20040000\n ldxr x3, [x2]\n stxr w4, x3, [x2]");
ARM64(ldtr_hole, "ldtr x0, [x1]");
ARM64(ldr_post_across, "mov x2, x1\n ldr x0, [x2, #8]!");
ARM64(sp_odd, "mov x2, sp\n add x3, x0, #8\n mov sp, x3\n ldr x0, [sp]\n mov sp, x2");
ARM64(sp_odd_store, "mov x2, sp\n add x3, x0, #4\n mov sp, x3\n str x0, [sp]\n mov sp, x2");
ARM64(sp_odd_unused, "mov x2, sp\n add x3, x0, #4\n mov sp, x3\n ldr x0, [x0]\n mov sp, x2");
ARM64(br_odd, "mov x2, #0x20060000\n add x2, x2, #2\n br x2");
ARM64(br_tagged, "adr x2, 1f\n orr x2, x2, #0x1000000000000000\n br x2\n 1: mov x0, #5");
ARM64(ldr_tagged, "orr x0, x0, #0x1000000000000000\n ldr w0, [x0]");
ARM64(ldr_tagged_hole, "orr x1, x1, #0x1000000000000000\n ldr w0, [x1]");
ARM64(crypto, ".inst 0x4e284800\n mov x0, #1");
ARM64(sve, ".inst 0x04bf5020");
ARM64(sme, ".inst 0xd503477f");
ARM64(pauth, ".inst 0xd503233f\n .inst 0xd50323bf\n mov x0, #1");
ARM64(pauth_bad, "mov x2, x30\n .inst 0xd503233f\n eor x30, x30, #0x0010000000000000\n .inst 0xd50323bf\n "
                 "mov x30, x2\n mov x0, #1");
ARM64(cas, ".inst 0xc8a07c00\n mov x0, #1");
ARM64(cas_hole, ".inst 0xc8a07c20");
ARM64(cas_odd, "add x0, x0, #1\n .inst 0xc8a27c02");
ARM64(fp_enables, "mrs x2, fpcr\n orr x2, x2, #0x1f00\n msr fpcr, x2\n mrs x0, fpcr");
ARM64(fp_division, "fmov d0, #1.0\n fmov d1, xzr\n fdiv d0, d0, d1\n mrs x0, fpsr");
ARM64(mops, ".inst 0x19010440");

/* Addresses that user mode must not execute. */
ACT(arm64_run_kernel) { return go_to(0xffff800008000000); }
ACT(arm64_load_kernel) { return *(volatile char *)at(0xffff800008000000); }
ACT(arm64_store_kernel) { return *(volatile char *)at(0xffff000000000000) = 1; }
ACT(arm64_load_last) { return *(volatile char *)at(0xffffffffffffffff); }
ACT(arm64_load_noncanonical) { return *(volatile char *)at(0x0100000000000000 >> 4); }
ACT(arm64_load_noncanonical_high) { return *(volatile char *)at(0x00f0000000000000); }
ACT(arm64_run_noncanonical) { return go_to(0x0010000000000000); }
ACT(arm64_load_user_end) { return *(volatile char *)at(0x0001000000000000); }
ACT(arm64_run_user_end) { return go_to(0x0001000000000000); }
ACT(arm64_call_tagged) { return call(SYS_write, 1, (unsigned long)words | 0x1200000000000000, 0); }
ACT(arm64_call_tagged_read) {
    int pipes[2];
    if (pipe(pipes)) return 99;
    return call(SYS_write, pipes[1], (unsigned long)words | 0x1200000000000000, 4);
}

/* Changes that handlers may make to a context. */
static void to_kernel_mode(ucontext_t *c) { c->uc_mcontext.pstate |= 5, c->uc_mcontext.pc += 4; }
static void interrupts_off(ucontext_t *c) { c->uc_mcontext.pstate |= 0x80, c->uc_mcontext.pc += 4; }
static void old_mode(ucontext_t *c) { c->uc_mcontext.pstate |= 0x10, c->uc_mcontext.pc += 4; }
static void stepping(ucontext_t *c) { c->uc_mcontext.pstate |= 0x200000, c->uc_mcontext.pc += 4; }
static void illegal(ucontext_t *c) { c->uc_mcontext.pstate |= 0x100000, c->uc_mcontext.pc += 4; }
static void no_float(ucontext_t *c) { record(c, FPSIMD_MAGIC)->magic = 0, c->uc_mcontext.pc += 4; }
static void bad_float(ucontext_t *c) { record(c, FPSIMD_MAGIC)->size = 16, c->uc_mcontext.pc += 4; }
static void bad_record(ucontext_t *c) { record(c, FPSIMD_MAGIC)->magic = 0x12345678, c->uc_mcontext.pc += 4; }
static void odd_counter(ucontext_t *c) { c->uc_mcontext.pc += 2; }
static void into_hole(ucontext_t *c) { c->uc_mcontext.pc = (unsigned long)HOLE; }
static void into_kernel(ucontext_t *c) { c->uc_mcontext.pc = 0xffff800008000000; }
static void odd_stack(ucontext_t *c) { c->uc_mcontext.sp += 8, c->uc_mcontext.pc += 4; }
ARM64(undefined_load, "mov x2, sp\n udf #0\n ldr w0, [x0]\n ldr x3, [sp]\n mov sp, x2");
#define FRAME(name)                                   \
    ACT(arm64_frame_##name)                           \
    {                                                 \
        then = name, hide_second = 1;                 \
        return code_arm64_undefined_load(words, end); \
    }
FRAME(to_kernel_mode)
FRAME(interrupts_off)
FRAME(old_mode)
FRAME(stepping)
FRAME(illegal)
FRAME(no_float)
FRAME(bad_float)
FRAME(bad_record)
FRAME(odd_counter)
FRAME(into_hole)
FRAME(into_kernel)
FRAME(odd_stack)
/* sigreturn without a handler. */
ARM64(sigreturn_odd, "add x2, x0, #8\n mov sp, x2\n mov x8, #139\n svc 0");
/*
 * sigreturn with a frame at the end of a page, without its records, that is, the floating-point registers. By
 * then the kernel has read the processor state.
 */
#define STRADDLE(name, pstate)                   \
    ARM64(sigreturn_##name,                      \
          "sub x2, x1, #592\n mov x3, #" #pstate \
          "\n str x3, [x2, #576]\n str x0, [x2, #560]\n mov sp, x2\n mov x8, #139\n svc 0")
STRADDLE(straddling_user, 0);
STRADDLE(straddling_kernel, 5);
STRADDLE(straddling_interrupts_off, 0x3c0);
