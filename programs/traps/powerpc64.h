/* Acts of 64-bit Power, little-endian. */
#include "act.h"

#include <sys/prctl.h>

/* The general registers beyond r31 in `ucontext_t`. */
enum { NIP = 32, MSR, ORIG_R3, CTR, LINK, XER, CCR, SOFTE, TRAP, DAR, DSISR, RESULT };

unsigned long call(unsigned long number, unsigned long a, unsigned long b, unsigned long c) {
    register unsigned long r0 __asm__("r0") = number, r3 __asm__("r3") = a, r4 __asm__("r4") = b,
                              r5 __asm__("r5") = c;
    __asm__ volatile("sc\n bns+ 1f\n neg 3, 3\n1:"
                     : "+r"(r0), "+r"(r3), "+r"(r4), "+r"(r5)
                     :
                     : "memory", "cr0", "ctr", "xer", "r6", "r7", "r8", "r9", "r10", "r11", "r12");
    return r3;
}

unsigned long counter(const ucontext_t *context) { return context->uc_mcontext.gp_regs[NIP]; }

void describe(char *to, size_t room, const siginfo_t *info, const ucontext_t *context) {
    const unsigned long *r = context->uc_mcontext.gp_regs;
    (void)info;
    /*
     * Without the bits that say whether floating point and vectors were used before, and without the lowest
     * bit of the vector number, which Linux uses for itself.
     */
    unsigned long msr = r[MSR] & ~0x200000000282e900ul, trap = r[TRAP] & ~1ul;
    int n = snprintf(to, room, ", trap %#lx, msr %#lx", trap, msr);
    /*
     * QEMU does not set DAR for a prefixed instruction that crosses a block of 64 bytes: DAR has the address
     * of the last data fault of any process.
     */
    if (trap == 0x600 && *(const uint32_t *)r[NIP] >> 26 == 1) hide_addresses = 1;
    if (trap == 0x300 || trap == 0x400) n += snprintf(to + n, room - n, ", dsisr %#lx", r[DSISR]);
    if (!hide_addresses) {
        n += snprintf(to + n, room - n, ", r3 %#lx, r4 %#lx", r[3], r[4]);
        if (trap == 0x300 || trap == 0x600) snprintf(to + n, room - n, ", dar %#lx", r[DAR]);
    }
}

#define POWER(name, text) \
    ASSEMBLY(power_##name, ".machine push\n .machine \"any\"\n", text, " blr\n .machine pop\n")

/* Illegal, privileged and trap instructions. */
POWER(zero, ".long 0");
POWER(ones, ".long 0xffffffff");
POWER(reserved, ".long 0x00000200");
POWER(trap, "trap");
POWER(trap_word, "twi 31, 3, 0");
POWER(trap_double, "tdeqi 3, 0\n td 31, 3, 3");
POWER(trap_not, "twi 0, 3, 0\n tdlgti 3, 0\n li 3, 1");
POWER(mfmsr, "mfmsr 3");
POWER(mtmsrd, "li 3, 0\n mtmsrd 3");
POWER(rfid, "rfid");
POWER(hrfid, "hrfid");
POWER(rfscv, ".long 0x4c0000a4");
POWER(stop, ".long 0x4c0002e4");
POWER(tlbie, "tlbie 3, 4");
POWER(tlbiel, ".long 0x7c001a24");
POWER(slbia, "slbia");
POWER(slbie, "slbie 3");
POWER(slbmte, "slbmte 3, 4");
POWER(tlbsync, "tlbsync");
POWER(dcbi, "dcbi 0, 3");
POWER(mtsprg, "mtspr 272, 3");
POWER(mfsprg3, "mfspr 3, 259\n li 3, 1");
POWER(mtsprg3, "mtspr 259, 3");
POWER(mfsrr0, "mfspr 3, 26");
POWER(mfdar, "mfspr 3, 19");
POWER(mfdec, "mfspr 3, 22");
POWER(mtdec, "mtspr 22, 3");
POWER(mfpvr, "mfspr 3, 287\n srdi 3, 3, 16");
POWER(mtpvr, "mtspr 287, 3");
POWER(mfpir, "mfspr 3, 1023");
POWER(mflpcr, "mfspr 3, 318");
POWER(mfdscr, "mfspr 3, 3");
POWER(mtdscr, "li 3, 5\n mtspr 3, 3\n mfspr 3, 3");
POWER(mfdscr_privileged, "mfspr 3, 17");
POWER(mtdscr_privileged, "li 3, 6\n mtspr 17, 3\n mfspr 3, 3");
POWER(mfamr, "mfspr 3, 13");
POWER(mtamr, "li 3, 0\n mtspr 13, 3\n li 3, 1");
POWER(mfamr_privileged, "mfspr 3, 29");
POWER(mfuamor, "mfspr 3, 157");
POWER(mfctrl, "mfspr 3, 136\n li 3, 1");
POWER(mtctrl, "mtspr 152, 3");
POWER(mftb, "mfspr 3, 268\n li 3, 1");
POWER(mftbu, "mfspr 3, 269\n li 3, 1");
POWER(mttbl, "mtspr 284, 3");
POWER(mfvrsave, "li 3, 77\n mtspr 256, 3\n mfspr 3, 256");
POWER(mftar, "li 3, 78\n mtspr 815, 3\n mfspr 3, 815");
POWER(mfppr, "mfspr 3, 896\n li 3, 1");
POWER(mfmmcr0, "mfspr 3, 779\n li 3, 1");
POWER(mtmmcr0, "li 3, 0\n mtspr 779, 3\n li 3, 1");
POWER(mfpmc1, "mfspr 3, 771\n li 3, 1");
POWER(mtpmc1, "mtspr 771, 3");
POWER(mfsier, "mfspr 3, 768\n li 3, 1");
POWER(mfsiar, "mfspr 3, 780\n li 3, 1");
POWER(rfebb, ".long 0x4c000124");
POWER(mftfhar, "mfspr 3, 128");
POWER(mfspr_none, "mfspr 3, 600");
POWER(mfspr_none_privileged, "mfspr 3, 632");
POWER(mtspr_none, "mtspr 600, 3");
POWER(mfspr_zero, "mfspr 3, 0");
POWER(mtspr_zero, "mtspr 0, 3");
POWER(mfxer, "mfspr 3, 1\n li 3, 1");
POWER(tbegin, ".long 0x7c00051d\n li 3, 1");
POWER(tend, ".long 0x7c00055d");
POWER(msgsndp, ".long 0x7c00191c");
POWER(msgclrp, ".long 0x7c00195c");
POWER(msgsnd, ".long 0x7c00199c");
POWER(doze, ".long 0x4c000324");
POWER(nap, ".long 0x4c000364");
POWER(wait, ".long 0x7c00003c\n li 3, 1");
POWER(attn, ".long 0x00000200");
POWER(darn, "darn 3, 1\n li 3, 1");
POWER(copy, ".long 0x7c201e0c\n li 3, 1");
POWER(paste, ".long 0x7c201f0d\n li 3, 1");
POWER(cp_abort, ".long 0x7c00068c\n li 3, 1");
POWER(sc_hypervisor, "li 3, 0x2c\n sc 1");
POWER(sc_other, "li 0, 20\n sc 2\n li 3, 1");
POWER(scv_one, "li 0, 20\n .machine power9\n scv 1");
POWER(scv_last, "li 0, 20\n .machine power9\n scv 127");
POWER(icbi_hole, "icbi 0, 4\n li 3, 1");
POWER(dcbst_hole, "dcbst 0, 4\n li 3, 1");
POWER(dcbt_hole, "dcbt 0, 4\n dcbtst 0, 4\n li 3, 1");
POWER(dcbz, "addi 3, 3, 5\n dcbz 0, 3\n li 3, 0");
POWER(dcbz_hole, "dcbz 0, 4");
POWER(dcbz_fixed, "lis 5, 0x2004\n dcbz 0, 5");
POWER(popcntb, "li 3, 3\n popcntd 3, 3");
POWER(divide, "li 5, 0\n divd 3, 4, 5\n li 3, 1");
POWER(prefixed, ".balign 64\n .long 0x06000000, 0x38600007");
POWER(prefixed_across, ".balign 64\n .rept 15\n nop\n .endr\n .long 0x06000000, 0x38600007");
POWER(prefixed_bad, ".balign 64\n .long 0x04000000, 0");
POWER(isel, "cmpd 3, 3\n isel 3, 4, 3, 2");
POWER(mcrxr, ".long 0x7c000400\n li 3, 1");
POWER(mcrxrx, ".long 0x7c000480\n li 3, 1");
POWER(mfocrf, "mfocrf 3, 0x80\n li 3, 1");
POWER(lswx_bad, "li 5, 4\n mtxer 5\n .long 0x7ca01c2a");

/* Alignment. */
POWER(ld_odd, "addi 3, 3, 1\n ld 3, 0(3)");
POWER(std_odd, "addi 3, 3, 3\n std 4, 0(3)\n li 3, 0");
POWER(ld_across, "addi 4, 4, -3\n ld 3, 0(4)");
POWER(std_across, "addi 4, 4, -3\n std 3, 0(4)");
POWER(std_across_fixed, "lis 5, 0x2004\n std 3, -4(5)");
POWER(lhbrx, "addi 3, 3, 1\n lhbrx 3, 0, 3");
POWER(stdbrx, "addi 3, 3, 1\n stdbrx 4, 0, 3\n li 3, 0");
POWER(lmw, "mr 7, 30\n mr 8, 31\n .long 0xbbc30000\n xor 3, 30, 31\n mr 30, 7\n mr 31, 8");
POWER(lmw_hole, "addi 4, 4, -8\n .long 0xbba40000");
POWER(stmw_hole, ".long 0xbfc40000");
POWER(lmw_odd, "mr 7, 30\n mr 8, 31\n addi 3, 3, 1\n .long 0xbbc30000\n xor 3, 30, 31\n mr 30, 7\n mr 31, 8");
POWER(stmw, "mr 7, 30\n li 30, 5\n .long 0xbfc30000\n mr 30, 7\n li 3, 0");
POWER(lswi, ".long 0x7ca33caa\n xor 3, 5, 6");
POWER(lswx, "li 5, 6\n mtxer 5\n li 6, 9\n .long 0x7ca3342a\n xor 3, 5, 6");
POWER(stswx, "li 5, 3\n mtxer 5\n li 6, 2\n .long 0x7ca3352a\n li 3, 0");
POWER(lswi_hole, "addi 4, 4, -2\n .long 0x7ca43caa");
POWER(stswi, "li 5, 1\n li 6, 2\n .long 0x7ca33daa\n li 3, 0");
POWER(lwarx_odd, "addi 3, 3, 1\n lwarx 3, 0, 3");
POWER(stwcx_odd, "lwarx 5, 0, 3\n addi 3, 3, 2\n stwcx. 5, 0, 3");
POWER(ldarx_word, "addi 3, 3, 4\n ldarx 3, 0, 3");
POWER(lharx_odd, "addi 3, 3, 1\n lharx 3, 0, 3");
POWER(lqarx_word, "addi 3, 3, 8\n lqarx 6, 0, 3");
POWER(lwarx_hole, "lwarx 3, 0, 4");
POWER(stwcx_fixed, "lis 5, 0x2004\n lwarx 6, 0, 5\n stwcx. 6, 0, 5");
POWER(lq, "lq 6, 0(3)\n xor 3, 6, 7");
POWER(lq_odd, "addi 3, 3, 1\n lq 6, 0(3)\n xor 3, 6, 7");
POWER(stq, "li 6, 1\n li 7, 2\n stq 6, 0(3)\n li 3, 0");
POWER(stq_odd, "addi 3, 3, 8\n li 6, 1\n li 7, 2\n stq 6, 0(3)\n li 3, 0");
POWER(lfd_odd, "addi 3, 3, 1\n lfd 0, 0(3)\n mffprd 3, 0");
POWER(stfd_odd, "addi 3, 3, 1\n mtfprd 0, 4\n stfd 0, 0(3)\n li 3, 0");
POWER(lfdp_odd, "addi 3, 3, 1\n lfdp 0, 0(3)\n mffprd 3, 1");
POWER(lvx_odd, "addi 3, 3, 1\n lvx 0, 0, 3\n mfvsrd 3, 32");
POWER(lxv_odd, "addi 3, 3, 1\n .machine power9\n lxv 32, 0(3)\n mfvsrd 3, 32");
POWER(stxv_across, "addi 4, 4, -8\n xxlxor 0, 0, 0\n .machine power9\n stxv 0, 0(4)");
POWER(lxvl_hole, "li 5, 0\n .machine power9\n lxvl 0, 4, 5\n mfvsrd 3, 0");
POWER(lwat_odd, "addi 3, 3, 2\n li 6, 1\n lwat 5, 3, 0\n mr 3, 5");
POWER(ldat_add, "li 6, 1\n ldat 5, 3, 0\n mr 3, 5");

/* Floating-point exceptions are enabled, and the processor raises an interrupt for each. */
static void with_exceptions(int mode) { prctl(PR_SET_FPEXC, mode, 0, 0, 0); }
static unsigned long floating(double a, double b, unsigned long enables, char operation) {
    unsigned long status = 0;
    double control;
    memcpy(&control, &enables, sizeof control);
    __asm__ volatile("mtfsf 0xff, %0" : : "f"(control));
    volatile double got = 0;
    switch (operation) {
    case '/': got = a / b; break;
    case '*': got = a * b; break;
    case '-': got = a - b; break;
    case 's': __asm__ volatile("fsqrt %0, %1" : "=f"(control) : "f"(a)); break;
    case 'i': __asm__ volatile("fctiwz %0, %1" : "=f"(control) : "f"(a)); break;
    }
    (void)got;
    __asm__ volatile("mffs %0" : "=f"(control));
    memcpy(&status, &control, sizeof status);
    return status & 0xfffffffful;
}
#define FLOAT(name, mode, a, b, enables, operation) \
    ACT(power_float_##name)                         \
    {                                               \
        with_exceptions(mode);                      \
        volatile double x = a, y = b;               \
        return floating(x, y, enables, operation);  \
    }
FLOAT(off, PR_FP_EXC_DISABLED, 1.0, 0.0, 0x10, '/')
FLOAT(untold, PR_FP_EXC_PRECISE, 1.0, 0.0, 0, '/')
FLOAT(division, PR_FP_EXC_PRECISE, 1.0, 0.0, 0x10, '/')
FLOAT(invalid, PR_FP_EXC_PRECISE, 0.0, 0.0, 0x80, '/')
FLOAT(overflow, PR_FP_EXC_PRECISE, 1e300, 1e300, 0x40, '*')
FLOAT(underflow, PR_FP_EXC_PRECISE, 1e-300, 1e-300, 0x20, '*')
FLOAT(inexact, PR_FP_EXC_PRECISE, 1.0, 3.0, 0x08, '/')
FLOAT(root, PR_FP_EXC_PRECISE, -1.0, 0.0, 0x80, 's')
FLOAT(integer, PR_FP_EXC_PRECISE, 1e300, 0.0, 0x80, 'i')
FLOAT(infinities, PR_FP_EXC_NONRECOV, __builtin_inf(), __builtin_inf(), 0x80, '-')
FLOAT(several, PR_FP_EXC_PRECISE, 1.0, 0.0, 0xf8, '/')
ACT(power_fpexc_get) {
    unsigned mode = 99;
    prctl(PR_GET_FPEXC, &mode);
    return mode;
}
ACT(power_fpexc_software)
{
    return (unsigned long)prctl(PR_SET_FPEXC, PR_FP_EXC_SW_ENABLE | PR_FP_EXC_DIV, 0, 0, 0);
}
ACT(power_fpexc_bad) { return (unsigned long)prctl(PR_SET_FPEXC, 0x77, 0, 0, 0); }
ACT(power_endian_get) {
    unsigned endian = 99;
    prctl(PR_GET_ENDIAN, &endian);
    return endian;
}

/* Addresses that user mode must not execute. */
ACT(power_run_kernel) { return go_to(0xc000000000000000); }
ACT(power_load_kernel) { return *(volatile char *)at(0xc000000000000000); }
ACT(power_store_kernel) { return *(volatile char *)at(0xc000000000000000) = 1; }
ACT(power_load_quadrant1) { return *(volatile char *)at(0x4000000000000000); }
ACT(power_load_quadrant2) { return *(volatile char *)at(0x8000000000000000); }
ACT(power_load_last) { return *(volatile char *)at(0xffffffffffffffff); }
ACT(power_load_user_end) { return *(volatile char *)at(0x0010000000000000); }
ACT(power_load_user_end_wide) { return *(volatile char *)at(0x0020000000000000); }
ACT(power_load_below_user_end) { return *(volatile char *)at(0x000ffffffffff000); }
ACT(power_run_user_end) { return go_to(0x0010000000000000); }
ACT(power_run_quadrant1) { return go_to(0x4000000000000000); }
ACT(power_run_odd) { return go_to(0x20060002); }

/*
 * Execute-only memory: instructions run, loads fault, also those of system calls, until loads are allowed.
 * Write-only memory: loads work.
 */
static char *allow(char *where, int what) { return mprotect(where, UNIT, what), where; }
static unsigned long send(char *where) {
    int ends[2];
    return pipe(ends) == 0 ? call(SYS_write, (unsigned long)ends[1], (unsigned long)where, 1) : 99;
}
ACT(power_execute_only_run) {
    ((uint32_t *)CODE)[0] = 0x38600005, ((uint32_t *)CODE)[1] = 0x4e800020;
    __builtin___clear_cache(CODE, CODE + 8);
    return go_to((unsigned long)allow(CODE, PROT_EXEC));
}
ACT(power_execute_only_load) { return *(volatile char *)allow(OPEN, PROT_EXEC); }
ACT(power_execute_only_load_new) { return *(volatile char *)allow(CODE, PROT_EXEC); }
ACT(power_execute_only_store) { return *(volatile char *)allow(OPEN, PROT_EXEC) = 1; }
ACT(power_execute_only_write) {
    unsigned long got = send(allow(OPEN, PROT_EXEC));
    allow(OPEN, PROT_READ);
    return got;
}
ACT(power_execute_only_write_new) { return send(allow(CODE, PROT_EXEC)); }
ACT(power_execute_only_back) { return *(volatile char *)allow(allow(OPEN, PROT_EXEC), PROT_READ); }
ACT(power_store_only_load) { return *(volatile char *)allow(CODE, PROT_WRITE) + send(CODE); }

/* System calls of this architecture only, and both instructions for system calls. */
ACT(power_scv) {
    register unsigned long r0 __asm__("r0") = 5000, r3 __asm__("r3") = 1;
    __asm__ volatile(".machine push\n.machine power9\n scv 0\n.machine pop"
                     : "+r"(r0), "+r"(r3)
                     :
                     : "memory", "cr0", "cr1", "cr5", "cr6", "cr7", "ctr", "lr", "xer", "r4", "r5", "r6",
                       "r7", "r8", "r9", "r10", "r11", "r12");
    return r3;
}
ACT(power_switch_endian) {
    unsigned long got;
    __asm__ volatile("li 0, 363\n sc\n .long 0x6b010038, 0x02000044\n li %0, 1"
                     : "=r"(got)
                     :
                     : "memory", "cr0", "r0", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12",
                       "ctr", "xer");
    return got;
}
ACT(power_swapcontext_size) { return call(249, (unsigned long)words, 0, 100); }
ACT(power_swapcontext_hole) { return call(249, (unsigned long)end, 0, 1696); }
ACT(power_swapcontext_none) { return call(249, 0, 0, 0); }
/*
 * A context that cannot be read is an error (all of it, its end, or at a kernel address). This is checked
 * before the size, and before the old context is stored.
 */
ACT(power_swapcontext_from_hole) { return call(249, 0, (unsigned long)end, 1696); }
ACT(power_swapcontext_from_end) { return call(249, 0, (unsigned long)end - 600, 1696); }
ACT(power_swapcontext_from_kernel) { return call(249, 0, 0xc000000000000000, 1696); }
ACT(power_swapcontext_from_hole_size) { return call(249, 0, (unsigned long)end, 100); }
ACT(power_swapcontext_from_hole_stored)
{
    return call(249, (unsigned long)OPEN, (unsigned long)end, 1696) + (*(unsigned long *)OPEN == 0);
}
/* A thread that takes a context over keeps its own r13 and its byte order. */
static unsigned long __attribute__((aligned(16))) kept[1696 / sizeof(long)];
static volatile unsigned long times_back, thread_before;
ACT(power_swapcontext_thread) {
    unsigned long thread;
    call(249, (unsigned long)kept, 0, 1696);
    __asm__ volatile("mr %0, 13" : "=r"(thread));
    if (times_back++) return times_back << 4 | (thread == thread_before);
    thread_before = thread;
    unsigned long *registers = ((ucontext_t *)kept)->uc_mcontext.gp_regs;
    registers[13] += 0x10000;
    registers[MSR] &= ~1ul;
    call(249, 0, (unsigned long)kept, 1696);
    return 0;
}
ACT(power_subpage) { return call(310, (unsigned long)OPEN, UNIT, 0); }
ACT(power_multiplexer) { return call(201, 0, 0, 0); }
ACT(power_sys_debug_setcontext) { return call(256, 0, 0, 0); }
ACT(power_spu_run) { return call(278, 0, 0, 0); }

/*
 * A handler is entered in the byte order of programs. The context has that of the act, which continues in it:
 * `li 0, 363; sc` in the other byte order.
 */
POWER(other_endian, "li 0, 363\n sc\n .long 0, 0x6b010038, 0x02000044\n li 3, 1");
static void next(ucontext_t *c) { c->uc_mcontext.gp_regs[NIP] += 4; }
ACT(power_other_endian_and_back) {
    then = next;
    return code_power_other_endian(words, end);
}
/* The word behind the signal trampoline, which unwinders look at. */
static volatile unsigned long behind_trampoline;
static void look_behind(int signal) {
    (void)signal;
    memcpy((void *)&behind_trampoline, (char *)__builtin_return_address(0) + 32, sizeof behind_trampoline);
}
ACT(power_trampoline) {
    signal(SIGUSR1, look_behind);
    raise(SIGUSR1);
    return behind_trampoline;
}

/* Changes that handlers may make to a context. */
static void to_kernel_mode(ucontext_t *c)
{
    c->uc_mcontext.gp_regs[MSR] &= ~0x4000ul, c->uc_mcontext.gp_regs[NIP] += 4;
}
static void interrupts_off(ucontext_t *c)
{
    c->uc_mcontext.gp_regs[MSR] &= ~0x8000ul, c->uc_mcontext.gp_regs[NIP] += 4;
}
static void narrow(ucontext_t *c)
{
    c->uc_mcontext.gp_regs[MSR] &= ~0x8000000000000000ul, c->uc_mcontext.gp_regs[NIP] += 4;
}
static void translation_off(ucontext_t *c)
{
    c->uc_mcontext.gp_regs[MSR] &= ~0x30ul, c->uc_mcontext.gp_regs[NIP] += 4;
}
static void stepping(ucontext_t *c)
{
    c->uc_mcontext.gp_regs[MSR] |= 0x400, c->uc_mcontext.gp_regs[NIP] += 4;
}
static void transactional(ucontext_t *c)
{
    c->uc_mcontext.gp_regs[MSR] |= 0x700000000, c->uc_mcontext.gp_regs[NIP] += 4;
}
static void no_vectors(ucontext_t *c) { c->uc_mcontext.v_regs = NULL, c->uc_mcontext.gp_regs[NIP] += 4; }
static void bad_vectors(ucontext_t *c)
{
    c->uc_mcontext.v_regs = (void *)HOLE, c->uc_mcontext.gp_regs[MSR] |= 0x2000000,
    c->uc_mcontext.gp_regs[NIP] += 4;
}
static void into_hole(ucontext_t *c) { c->uc_mcontext.gp_regs[NIP] = (unsigned long)HOLE; }
static void into_kernel(ucontext_t *c) { c->uc_mcontext.gp_regs[NIP] = 0xc000000000000000; }
static void odd_counter(ucontext_t *c) { c->uc_mcontext.gp_regs[NIP] += 6; }
POWER(illegal_load, ".long 0\n lwz 3, 0(3)\n tdi 0, 3, 0x48\n b 1f\n .long 0xa603bb7d, 0x2400004c\n 1:");
#define FRAME(name) ACT(power_frame_##name) { then = name; return code_power_illegal_load(words, end); }
FRAME(to_kernel_mode)
FRAME(interrupts_off)
FRAME(narrow)
FRAME(translation_off)
FRAME(stepping)
FRAME(transactional)
FRAME(no_vectors)
FRAME(bad_vectors)
FRAME(into_hole)
FRAME(into_kernel)
FRAME(odd_counter)
/* sigreturn without a handler. */
POWER(sigreturn_hole, "mr 1, 4\n li 0, 172\n sc");
/*
 * sigreturn with a frame without the vector registers that it names, and with a machine state of the kernel.
 */
POWER(sigreturn_no_vectors,
      "lis 5, 0x280\n ori 5, 5, 0xb033\n li 6, 1\n sldi 6, 6, 60\n or 5, 5, 6\n std 5, 496(3)\n std 3, "
      "488(3)\n std 2, 248(3)\n std 13, 336(3)\n std 4, 880(3)\n mr 1, 3\n li 0, 172\n sc");
