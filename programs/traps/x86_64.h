/* Acts of x86-64. */
#include "act.h"

#include <asm/prctl.h>
#include <errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>

unsigned long call(unsigned long number, unsigned long a, unsigned long b, unsigned long c) {
    unsigned long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "memory", "rcx", "r11");
    return result;
}

unsigned long counter(const ucontext_t *context)
{
    return (unsigned long)context->uc_mcontext.gregs[REG_RIP];
}

void describe(char *to, size_t room, const siginfo_t *info, const ucontext_t *context) {
    const greg_t *r = context->uc_mcontext.gregs;
    (void)info;
    int n = snprintf(to, room, ", trap %lld, error %#llx, flags %#llx, cs %#llx", r[REG_TRAPNO], r[REG_ERR],
                     r[REG_EFL] & ~0x8d5ll, r[REG_CSGSFS] & 0xffff);
    if (!hide_addresses)
        snprintf(to + n, room - n, ", rax %#llx, rdi %#llx, cr2 %#llx", r[REG_RAX], r[REG_RDI], r[REG_CR2]);
}

#define X86(name, text) ASSEMBLY(x86_##name, "", " xor %eax, %eax\n " text, " ret\n")

X86(ud2, "ud2");
X86(ud1, "ud1 %eax, %eax");
X86(int3, "int3");
X86(int3_long, ".byte 0xcd, 3");
X86(int1, ".byte 0xf1");
X86(into_old, ".byte 0xce");
X86(int4, "int $4");
X86(int13, "int $13");
X86(int14, "int $14");
X86(int32, "int $32");
X86(int255, "int $255");
X86(hlt, "hlt");
X86(cli, "cli");
X86(sti, "sti");
X86(in, "in $0x80, %al");
X86(out_dx, "mov $0x80, %edx\n out %eax, %dx");
X86(insb, "insb");
X86(iret, "pushq $0\n pushq $0\n pushq $0\n pushq $0\n pushq $0\n iretq");
X86(sysret, "mov %rdi, %rcx\n sysretq");
X86(sysexit, "sysexitl");
X86(swapgs, "swapgs");
X86(wrmsr, "xor %ecx, %ecx\n wrmsr");
X86(rdmsr, "xor %ecx, %ecx\n rdmsr");
X86(rdpmc, "xor %ecx, %ecx\n rdpmc");
X86(rdtsc, "rdtsc\n mov $1, %eax");
X86(rdtscp, "rdtscp\n mov $1, %eax");
X86(mov_cr0, "mov %cr0, %rax");
X86(to_cr3, "mov %rax, %cr3");
X86(mov_dr7, "mov %db7, %rax");
X86(lgdt, "lgdt (%rdi)");
X86(lidt, "lidt (%rdi)");
X86(ltr, "ltr %ax");
X86(lldt, "lldt %ax");
X86(clts, "clts");
X86(invd, "invd");
X86(wbinvd, "wbinvd");
X86(invlpg, "invlpg (%rdi)");
X86(lmsw, "lmsw %ax");
X86(clac, "clac");
X86(stac, "stac");
X86(monitor, "mov %rdi, %rax\n xor %ecx, %ecx\n xor %edx, %edx\n monitor");
X86(mwait, "xor %ecx, %ecx\n mwait");
X86(vmcall, "vmcall");
X86(vmmcall, "vmmcall");
X86(xsetbv, "xor %ecx, %ecx\n xsetbv");
X86(xgetbv_bad, "mov $5, %ecx\n xgetbv");
X86(divide_by_zero, "xor %ecx, %ecx\n xor %edx, %edx\n mov $1, %eax\n div %ecx");
X86(divide_overflow, "mov $0x80000000, %eax\n cltd\n mov $-1, %ecx\n idiv %ecx");
X86(bound, ".byte 0x62, 0x07");
X86(lock_bad, ".byte 0xf0, 0x90");
X86(too_long, ".rept 15\n .byte 0x66\n .endr\n nop");
X86(opcode_bad, ".byte 0x06");
X86(opcode_bad_long, ".byte 0x0f, 0x04");
X86(syscall_old, "mov $20, %eax\n mov $1, %ebx\n .byte 0x0f, 0x34");
X86(load_noncanonical, "mov $0x8000000000000000, %rcx\n mov (%rcx), %eax");
X86(store_noncanonical, "mov $0x7fffffffffffffff, %rcx\n mov %eax, (%rcx)");
X86(stack_noncanonical, "mov %rsp, %rdx\n mov $0x8000000000000000, %rsp\n push %rax\n mov %rdx, %rsp");
X86(jump_noncanonical, "mov $0x8000000000000000, %rcx\n jmp *%rcx");
X86(call_noncanonical, "mov $0x8000000000000000, %rcx\n call *%rcx");
X86(load_across, "mov -3(%rsi), %rax");
X86(store_across, "mov %rax, -3(%rsi)");
X86(movs_across, "mov %rsi, %rdx\n mov %rdi, %rsi\n lea -5(%rdx), %rdi\n mov $16, %ecx\n rep movsb");
X86(stos_fixed, "mov $0x2003fffe, %edi\n mov $8, %ecx\n rep stosb");
X86(cmpxchg_fixed, "mov $0x20040000, %edi\n lock cmpxchg %ecx, (%rdi)");
X86(cmpxchg16b_odd, "xor %edx, %edx\n lock cmpxchg16b 1(%rdi)");
X86(movaps_odd, "movaps 1(%rdi), %xmm0");
X86(movaps_store_odd, "movaps %xmm0, 4(%rdi)");
X86(prefetch_hole, "prefetcht0 (%rsi)\n mov $1, %eax");
X86(clflush_hole, "clflush (%rsi)");
X86(fxrstor_bad, "movl $0xffffffff, 24(%rdi)\n and $-16, %rdi\n fxrstor (%rdi)");
X86(ldmxcsr_bad, "movl $0xffffffff, (%rdi)\n ldmxcsr (%rdi)");
X86(segment_bad, "mov $0x1234, %ecx\n mov %ecx, %ds");
X86(segment_null_stack, "xor %ecx, %ecx\n mov %ecx, %ss");
X86(segment_kernel, "mov $0x10, %ecx\n mov %ecx, %ds");
X86(segment_code, "mov $0x33, %ecx\n mov %ecx, %ss");
X86(segment_null, "xor %ecx, %ecx\n mov %ecx, %ds\n mov %ecx, %es\n mov $1, %eax");
X86(far_jump, "pushq $0x10\n push %rdi\n lretq");
X86(far_stack, "pushq $0x33\n lea 1f(%rip), %rax\n push %rax\n lretq\n 1: mov $2, %eax");
X86(step, "pushf\n orl $0x100, (%rsp)\n popf\n nop\n nop");
X86(iopl, "pushf\n orl $0x3000, (%rsp)\n popf\n pushf\n pop %rax\n and $0x3000, %eax");
X86(interrupts_flag, "pushf\n andl $~0x200, (%rsp)\n popf\n pushf\n pop %rax\n and $0x200, %eax");
X86(nested_task, "pushf\n orl $0x4000, (%rsp)\n popf\n mov $1, %eax\n pushf\n andl $~0x4000, (%rsp)\n popf");
X86(x87_division,
    "fninit\n pushq $0x37b\n fldcw (%rsp)\n pop %rax\n fld1\n fldz\n fdivrp\n fwait\n mov $1, %eax\n fninit");
X86(x87_invalid,
    "fninit\n pushq $0x37e\n fldcw (%rsp)\n pop %rax\n fldz\n fldz\n fdivrp\n fwait\n mov $1, %eax");
X86(x87_stack, "fninit\n pushq $0x37e\n fldcw (%rsp)\n pop %rax\n fstp %st(0)\n fwait");
X86(sse_division, "movl $0x1d80, (%rdi)\n ldmxcsr (%rdi)\n mov $1, %eax\n cvtsi2sd %eax, %xmm0\n pxor %xmm1, "
                  "%xmm1\n divsd %xmm1, %xmm0");
X86(sse_invalid,
    "movl $0x1f00, (%rdi)\n ldmxcsr (%rdi)\n pxor %xmm0, %xmm0\n pxor %xmm1, %xmm1\n divsd %xmm1, %xmm0");
X86(sse_inexact, "movl $0x0f80, (%rdi)\n ldmxcsr (%rdi)\n mov $1, %eax\n cvtsi2sd %eax, %xmm0\n mov $3, "
                 "%eax\n cvtsi2sd %eax, %xmm1\n divsd %xmm1, %xmm0");
X86(sse_overflow, "movl $0x1b80, (%rdi)\n ldmxcsr (%rdi)\n mov $0x7fe0000000000000, %rax\n movq %rax, "
                  "%xmm0\n mulsd %xmm0, %xmm0");
X86(sse_masked,
    "pxor %xmm0, %xmm0\n divsd %xmm0, %xmm0\n stmxcsr (%rdi)\n mov (%rdi), %eax\n movl $0, (%rdi)");
X86(alignment_check, "pushf\n orl $0x40000, (%rsp)\n popf\n mov 1(%rdi), %eax");
X86(enter_deep, "mov %rsp, %rdx\n mov %rsi, %rsp\n sub $8, %rsp\n push %rax\n mov %rdx, %rsp");

/* Addresses that user mode must not execute. */
ACT(x86_run_kernel) { return go_to(0xffffffff81000000); }
ACT(x86_load_kernel) { return *(volatile char *)at(0xffffffff81000000); }
ACT(x86_store_kernel) { return *(volatile char *)at(0xffff888000000000) = 1; }
ACT(x86_load_last) { return *(volatile char *)at(0xffffffffffffffff); }
ACT(x86_load_user_end) { return *(volatile char *)at(0x7ffffffff000); }
ACT(x86_load_user_end_across) { return *(volatile unsigned long *)at(0x7fffffffeffc) & 0; }
ACT(x86_run_user_end) { return go_to(0x7ffffffff000); }
ACT(x86_run_noncanonical) { return go_to(0x800000000000); }
ACT(x86_vsyscall_load) { return *(volatile char *)at(0xffffffffff600000) & 0; }
ACT(x86_vsyscall_time) { return ((long (*)(long *))at(0xffffffffff600400))(NULL) > 1000000000; }
ACT(x86_vsyscall_time_null) { return ((unsigned long (*)(long *))at(0xffffffffff600400))((long *)8); }
ACT(x86_vsyscall_clock) {
    hide_addresses = 1;
    long t[2] = {0, 0};
    return (((unsigned long (*)(long *, void *))at(0xffffffffff600000))(t, NULL)) + (t[0] > 1000000000);
}
ACT(x86_vsyscall_cpu)
{
    return ((unsigned long (*)(unsigned *, unsigned *, void *))at(0xffffffffff600800))(NULL, NULL, NULL);
}
ACT(x86_vsyscall_odd) { return go_to(0xffffffffff600401); }
ACT(x86_vsyscall_last) { return go_to(0xffffffffff600c00); }

/* Changes that handlers may make to a context. */
static void interrupts_off(ucontext_t *c)
{
    c->uc_mcontext.gregs[REG_EFL] &= ~0x200ll, c->uc_mcontext.gregs[REG_RIP] += 2;
}
static void io_allowed(ucontext_t *c)
{
    c->uc_mcontext.gregs[REG_EFL] |= 0x3000, c->uc_mcontext.gregs[REG_RIP] += 2;
}
static void stepping(ucontext_t *c)
{
    c->uc_mcontext.gregs[REG_EFL] |= 0x100, c->uc_mcontext.gregs[REG_RIP] += 2;
}
static void aligned(ucontext_t *c)
{
    c->uc_mcontext.gregs[REG_EFL] |= 0x40000, c->uc_mcontext.gregs[REG_RIP] += 2;
}
static void no_float(ucontext_t *c) { c->uc_mcontext.fpregs = NULL, c->uc_mcontext.gregs[REG_RIP] += 2; }
static void bad_float(ucontext_t *c)
{
    c->uc_mcontext.fpregs = (void *)HOLE, c->uc_mcontext.gregs[REG_RIP] += 2;
}
static void odd_float(ucontext_t *c)
{
    c->uc_mcontext.fpregs = (void *)((char *)c->uc_mcontext.fpregs + 4), c->uc_mcontext.gregs[REG_RIP] += 2;
}
static void bad_mxcsr(ucontext_t *c)
{
    c->uc_mcontext.fpregs->mxcsr = 0xffffffff, c->uc_mcontext.gregs[REG_RIP] += 2;
}
static void into_hole(ucontext_t *c) { c->uc_mcontext.gregs[REG_RIP] = (long)HOLE; }
static void into_kernel(ucontext_t *c) { c->uc_mcontext.gregs[REG_RIP] = (long)0xffffffff81000000; }
static void into_noncanonical(ucontext_t *c) { c->uc_mcontext.gregs[REG_RIP] = (long)0x8000000000000000; }
static void just_noncanonical(ucontext_t *c) { c->uc_mcontext.gregs[REG_RIP] = 0x800000000000; }
static void last_noncanonical(ucontext_t *c) { c->uc_mcontext.gregs[REG_RIP] = (long)0xffff7fffffffffff; }
static void user_end(ucontext_t *c) { c->uc_mcontext.gregs[REG_RIP] = 0x7ffffffff000; }
static void segments(ucontext_t *c, unsigned long code, unsigned long stack) {
    c->uc_mcontext.gregs[REG_CSGSFS] = (long)(code | stack << 48 | 0x12340000);
    c->uc_mcontext.gregs[REG_RIP] += 2;
}
static void code_segment_kernel(ucontext_t *c) { segments(c, 0x10, 0x2b); }
static void code_segment_data(ucontext_t *c) { segments(c, 0x28, 0x2b); }
static void code_segment_none(ucontext_t *c) { segments(c, 0, 0x2b); }
static void code_segment_level(ucontext_t *c) { segments(c, 0x30, 0x28); }
static void stack_segment_code(ucontext_t *c) { segments(c, 0x33, 0x33); }
static void stack_segment_none(ucontext_t *c) { segments(c, 0x33, 0); }
static void stack_segment_beyond(ucontext_t *c) { segments(c, 0x33, 0x1230); }
static void both_segments_bad(ucontext_t *c) { segments(c, 0x28, 0x30); }
static void stack_segment_lenient(ucontext_t *c) { c->uc_flags &= ~4ul, segments(c, 0x33, 0x1230); }
static void code_segment_lenient(ucontext_t *c) { c->uc_flags &= ~4ul, segments(c, 0x28, 0x1230); }
static void stack_noncanonical(ucontext_t *c) { c->uc_mcontext.gregs[REG_RSP] = (long)0x8000000000000000; }
X86(undefined_load, "ud2\n mov 1(%rdi), %eax\n pushf\n pop %rcx\n and $0x3200, %ecx\n xor %ecx, %eax\n "
                    "pushf\n andl $~0x40100, (%rsp)\n popf\n nop");
#define FRAME(name) ACT(x86_frame_##name) { then = name; return code_x86_undefined_load(words, end); }
FRAME(interrupts_off)
FRAME(io_allowed)
FRAME(stepping)
FRAME(aligned)
FRAME(no_float)
FRAME(bad_float)
FRAME(odd_float)
FRAME(bad_mxcsr)
FRAME(into_hole)
FRAME(into_kernel)
FRAME(stack_noncanonical)
FRAME(into_noncanonical)
FRAME(just_noncanonical)
FRAME(last_noncanonical)
FRAME(user_end)
FRAME(code_segment_kernel)
FRAME(code_segment_data)
FRAME(code_segment_none)
FRAME(code_segment_level)
FRAME(stack_segment_code)
FRAME(stack_segment_none)
FRAME(stack_segment_beyond)
FRAME(both_segments_bad)
FRAME(stack_segment_lenient)
FRAME(code_segment_lenient)
/*
 * A frame with null selectors, twice: the handler of the fault must find the registers that the first frame
 * would have set.
 */
static void code_segment_again(ucontext_t *c) { then = code_segment_data, code_segment_none(c); }
FRAME(code_segment_again)
/* sigreturn without a handler. */
X86(sigreturn_hole, "mov %rsi, %rsp\n mov $15, %eax\n syscall");
X86(sigreturn_odd, "lea 4(%rsi), %rsp\n mov $15, %eax\n syscall");
/* sigreturn with a frame without the floating-point registers that it names, and with flags of the kernel. */
X86(sigreturn_no_registers, "lea -304(%rsi), %rsp\n movq $6, (%rsp)\n movq $-257, 176(%rsp)\n movabs "
                            "$0x002b000000000033, %rax\n mov %rax, 184(%rsp)\n mov %rsi, 224(%rsp)\n"
                            " mov $15, %eax\n syscall");

/*
 * 32-bit code makes a system call, which Debian's Linux has and Limen does not: the child exits with 5, or a
 * signal ends it.
 */
ACT(x86_syscall_32) {
    static const unsigned char code[] = {0x0f, 0x05, 0x0f, 0x0b};
    int status = 0;
    memcpy(CODE, code, sizeof code);
    pid_t child = fork();
    if (child == 0) {
        for (int n = 1; n < 32; n++) signal(n, SIG_DFL);
        __asm__ volatile("mov %0, %%rsp\n mov $5, %%ebx\n mov $1, %%eax\n pushq $0x23\n push %1\n lretq"
                         :
                         : "r"(end), "r"(CODE)
                         : "rax", "rbx", "memory");
    }
    if (waitpid(child, &status, 0) != child) return 0;
    return WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 5);
}

/*
 * The thread-local storage of a new thread must be in user space. Returns the error, or how the child ended,
 * which does not read it.
 */
static unsigned long with_tls(unsigned long tls) {
    register unsigned long child_tid __asm__("r10") = 0;
    register unsigned long base __asm__("r8") = tls;
    int status = 0;
    long child;
    __asm__ volatile("syscall\n test %0, %0\n jnz 1f\n mov $7, %%edi\n mov $231, %%eax\n syscall\n 1:"
                     : "=a"(child)
                     : "a"(SYS_clone), "D"(CLONE_SETTLS | SIGCHLD), "S"(0), "d"(0), "r"(child_tid), "r"(base)
                     : "memory", "rcx", "r11");
    if (child < 0) return (unsigned long)-child;
    return waitpid((pid_t)child, &status, 0) == child ? (unsigned long)status : 0;
}
ACT(x86_clone_tls)
{
    return with_tls(0x7fffffffefff) | with_tls(0x7ffffffff000) << 16 | with_tls(0x8000000000000000) << 24 |
           with_tls(-1ul) << 32;
}

/* The base of GS is the value that was set; it can only be a user address. */
ACT(x86_gs_base) {
    unsigned long got = 0, last = call(SYS_arch_prctl, ARCH_SET_GS, 0x7ffffffff000, 0);
    for (unsigned long n = 1; n < 1000; n++)
        if (call(SYS_arch_prctl, ARCH_SET_GS, n << 12, 0) ||
            call(SYS_arch_prctl, ARCH_GET_GS, (unsigned long)&got, 0) || got != n << 12)
            return n;
    return last;
}

/* Setting a base replaces the selector, and setting a selector replaces the base. */
ACT(x86_gs_selector) {
    unsigned long selector = 0x2b, base = 1, after = 1;
    call(SYS_arch_prctl, ARCH_SET_GS, 0x10000, 0);
    __asm__ volatile("mov %0, %%gs" : : "r"(selector));
    call(SYS_sched_yield, 0, 0, 0);
    call(SYS_arch_prctl, ARCH_GET_GS, (unsigned long)&after, 0);
    call(SYS_arch_prctl, ARCH_SET_GS, 0x20000, 0);
    __asm__ volatile("mov %%gs, %0" : "=r"(selector));
    call(SYS_arch_prctl, ARCH_GET_GS, (unsigned long)&base, 0);
    return after | selector << 32 | base << 40;
}

/*
 * Nested handlers until the alternate stack is full: nothing is written below it, and the next signal is
 * SIGSEGV.
 */
static void again(int n) {
    static volatile int times;
    if (times++ < 4) call(SYS_kill, call(SYS_getpid, 0, 0, 0), (unsigned long)n, 0);
}
ACT(x86_altstack_full) {
    size_t below = 0;
    int status = 0;
    unsigned char *at = mmap(NULL, UNIT, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(at, 0xa5, UNIT);
    pid_t child = fork();
    if (child == 0) {
        stack_t stack = {.ss_sp = at + UNIT - 2048, .ss_size = 2048};
        struct sigaction action = {.sa_handler = again, .sa_flags = SA_ONSTACK | SA_NODEFER};
        signal(SIGSEGV, SIG_DFL);
        alarm(10);
        if (sigaltstack(&stack, NULL) || sigaction(SIGUSR1, &action, NULL)) _exit(1);
        raise(SIGUSR1);
        _exit(2);
    }
    if (waitpid(child, &status, 0) != child) return 0;
    while (below < UNIT - 2048 && at[below] == 0xa5) below++;
    return below | (unsigned long)status << 32;
}
