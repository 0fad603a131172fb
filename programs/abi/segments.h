/*
 * For `segments.c`: asking the processor about selectors, descriptors, and code that runs with any selectors
 * until it traps. Needs what that includes.
 */
enum { CODE_64 = 0x33, CODE_32 = 0x23, DATA = 0x2b };
#define LOCAL(index) ((index) << 3 | 7)
#define STRICT 4ul

static int is_limen;
/* A page of code and 64 KiB of data that 32-bit addresses reach. */
static unsigned char *code;
static unsigned char *stack;

/* The raw result: errors have 32 bits. */
static unsigned long ldt(int func, const void *at, unsigned long len) {
    unsigned long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_modify_ldt), "D"((long)func), "S"(at), "d"(len)
                     : "rcx", "r11", "memory");
    return result;
}
#define FAILS(call, error) CHECK((call) == (unsigned)-(error))

/* What the processor says of a selector; 0: nothing. */
static unsigned rights(unsigned selector) {
    unsigned bits = 0, found;
    __asm__ volatile("lar %2, %0\n setz %b1" : "+r"(bits), "=q"(found) : "r"(selector) : "cc");
    return found & 1 ? bits & 0xf0ff00 : 0;
}
static unsigned limit(unsigned selector) {
    unsigned bits = 0;
    __asm__ volatile("lsl %1, %0" : "+r"(bits) : "r"(selector) : "cc");
    return bits;
}

static struct user_desc plain(int index) {
    return (struct user_desc){ .entry_number = index, .limit = 0xfffff, .seg_32bit = 1, .limit_in_pages = 1 };
}
static int install(struct user_desc d) { return (int)ldt(0x11, &d, sizeof d); }
static int take_away(int index) {
    struct user_desc none = { .entry_number = index, .read_exec_only = 1, .seg_not_present = 1 };
    return install(none);
}

/* Registers at the start of code that `run` runs, and what they were when it trapped. */
static gregset_t saved, result;
static unsigned long flags, start_flags;
static volatile int caught;
static struct { unsigned cs, ss; unsigned long ip, sp; } wanted;

static unsigned short *selectors(gregset_t regs) { return (unsigned short *)&regs[REG_CSGSFS]; }

static void enter(int sig, siginfo_t *info, void *at) {
    ucontext_t *c = at;
    gregset_t *regs = &c->uc_mcontext.gregs;
    (void)sig, (void)info;
    memcpy(saved, *regs, sizeof saved);
    start_flags = c->uc_flags;
    selectors(*regs)[0] = wanted.cs;
    selectors(*regs)[3] = wanted.ss;
    (*regs)[REG_RIP] = wanted.ip;
    (*regs)[REG_RSP] = wanted.sp;
}
static void leave(int sig, siginfo_t *info, void *at) {
    ucontext_t *c = at;
    gregset_t *regs = &c->uc_mcontext.gregs;
    (void)info;
    caught = sig;
    flags = c->uc_flags;
    memcpy(result, *regs, sizeof result);
    memcpy(*regs, saved, sizeof saved);
    c->uc_flags |= STRICT;
}

/* Runs code until it traps; returns the signal. */
static int run(unsigned cs, unsigned ss, unsigned long ip, unsigned long sp) {
    wanted.cs = cs, wanted.ss = ss, wanted.ip = ip, wanted.sp = sp;
    caught = 0;
    syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1);
    /* The headers say that a system call changes nothing of this file's. */
    __asm__ volatile("" : : : "memory");
    return caught;
}

static const unsigned char what[] = {
    /* 0: ESP and SS. */ 0x89, 0xe0, 0x8c, 0xd1, 0xcc,
    /* 5: waits, then ESP; */ 0xb9, 0, 0, 0, 4, 0xe2, 0xfe, 0x89, 0xe0, 0xcc,
    /* 15: a word from the stack segment; */ 0x36, 0xa1, 0x10, 0, 0, 0, 0xcc,
    /* 22: system calls by `syscall`, `int 0x80`, `sysenter`; */
    0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xcc,
    /* 30 */ 0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xcc,
    /* 38 */ 0x0f, 0x34, 0xcc,
    /* 41: a jump to 64-bit code, the first line; */ 0xea, 0, 0, 0, 0, CODE_64, 0,
    /* 48: an overflow that traps; */ 0xb8, 0xff, 0xff, 0xff, 0x7f, 0x83, 0xc0, 1, 0xce, 0xcc,
    /* 58: an index that is not within its bounds, the stack segment's first words; */
    0x31, 0xc0, 0x36, 0x62, 0x05, 0, 0, 0, 0, 0xcc,
    /* 68: waits a moment, then ESP; */ 0xb9, 0, 0, 1, 0, 0xe2, 0xfe, 0x89, 0xe0, 0xcc,
    /* 78: for ever. */ 0xeb, 0xfe,
};

static unsigned long base_of_gs(void) {
    unsigned long base = 0;
    syscall(SYS_arch_prctl, ARCH_GET_GS, &base);
    return base;
}
static unsigned gs(void) {
    unsigned value;
    __asm__ volatile("mov %%gs, %0" : "=r"(value));
    return value;
}
static unsigned ds(void) {
    unsigned value;
    __asm__ volatile("mov %%ds, %0" : "=r"(value));
    return value;
}
