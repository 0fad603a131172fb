/*
 * Segments of a program's own on x86_64: modify_ldt, 32-bit and 16-bit code and stacks, selectors in all
 * places where a program can put them. Called by tools/limen/src/test/programs.rs; elsewhere there are no
 * segments, and it says so. On Linux it can be run by hand.
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
    puts("no segments here");
    return report();
}
#else

#include <asm/ldt.h>
#include <asm/prctl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>
#include <sys/user.h>
#include <sys/utsname.h>

#include "segments.h"

static void calls(void) {
    struct user_desc d = plain(3);
    unsigned long got[40];
    FAILS(ldt(3, &d, sizeof d), ENOSYS);
    FAILS(ldt(-1, NULL, 0), ENOSYS);
    CHECK(ldt(0, NULL, 64) == 0);
    memset(got, 1, sizeof got);
    CHECK(ldt(2, got, 300) == 128 && got[0] == 0 && got[15] == 0 && got[16] != 0);
    CHECK(ldt(2, got, 3) == 3);
    FAILS(ldt(2, NULL, 8), EFAULT);
    FAILS(ldt(1, &d, sizeof d - 1), EINVAL);
    FAILS(ldt(1, NULL, 1), EINVAL);
    FAILS(ldt(1, NULL, sizeof d), EFAULT);
    d.entry_number = 8192;
    FAILS(ldt(1, &d, sizeof d), EINVAL);
    d = plain(3);
    d.contents = 3;
    FAILS(ldt(1, &d, sizeof d), EINVAL);
    FAILS(ldt(0x11, &d, sizeof d), EINVAL);
    d.seg_not_present = 1;
    FAILS(ldt(1, &d, sizeof d), EINVAL);
    CHECK(ldt(0x11, &d, sizeof d) == 0 && rights(LOCAL(3)) == 0xc07f00);
    CHECK(rights(LOCAL(2)) == 0 && rights(LOCAL(4)) == 0);
    /* In the old way nothing is `useable`, and what has neither base nor limit is none. */
    d = plain(3), d.useable = 1, d.lm = 1, d.base_addr = 0x12345678, d.limit = 0xabcde;
    CHECK(ldt(1, &d, sizeof d) == 0 && rights(LOCAL(3)) == 0xc0f300 && limit(LOCAL(3)) == 0xabcdefff);
    CHECK(ldt(0x11, &d, sizeof d) == 0 && rights(LOCAL(3)) == 0xd0f300);
    memset(got, 1, sizeof got);
    CHECK(ldt(0, got, 40) == 40 && got[0] == 0 && got[3] == 0x12daf3345678bcde && got[4] == 0);
    CHECK(ldt(0, got, 28) == 28);
    FAILS(ldt(0, NULL, 8), EFAULT);
    d.limit = d.base_addr = 0;
    CHECK(ldt(0x11, &d, sizeof d) == 0 && rights(LOCAL(3)) != 0);
    CHECK(ldt(1, &d, sizeof d) == 0 && rights(LOCAL(3)) == 0);
    d = plain(3), d.read_exec_only = 1, d.seg_32bit = 0, d.limit_in_pages = 0, d.limit = 5;
    CHECK(install(d) == 0 && rights(LOCAL(3)) == 0xf100 && limit(LOCAL(3)) == 5);
    CHECK(take_away(3) == 0 && rights(LOCAL(3)) == 0);
    d = plain(8191);
    CHECK(install(d) == 0 && rights(LOCAL(8191)) == 0xc0f300);
    /* Segments of threads are 32-bit programs'. */
    CHECK(syscall(SYS_set_thread_area, &d) == -1 && errno == ENOSYS);
    CHECK(syscall(SYS_get_thread_area, &d) == -1 && errno == ENOSYS);
}

static void inherited(const char *self) {
    CHECK(install(plain(5)) == 0);
    pid_t child = fork();
    if (child == 0) {
        int good = rights(LOCAL(5)) != 0 && take_away(5) == 0 && rights(LOCAL(5)) == 0;
        _exit(good ? 0 : 1);
    }
    CHECK(child_good(child));
    CHECK(rights(LOCAL(5)) != 0);
    child = fork();
    if (child == 0) {
        __asm__ volatile("mov %0, %%ds\n mov %0, %%es" : : "r"(LOCAL(5)));
        execl(self, self, "executed", NULL);
        _exit(2);
    }
    CHECK(child_good(child));
}
/* A program begins without. */
static int executed(void) {
    unsigned ds, es;
    __asm__ volatile("mov %%ds, %0\n mov %%es, %1" : "=r"(ds), "=r"(es));
    return !(rights(LOCAL(5)) == 0 && ldt(0, NULL, 8) == 0 && ds == 0 && es == 0);
}

static void other_code(void) {
    struct user_desc d = plain(10);
    unsigned long page = (unsigned long)code;
    d.contents = 2;
    CHECK(install(d) == 0);
    d.seg_32bit = 0, d.limit_in_pages = 0, d.base_addr = page, d.limit = 4095, d.entry_number = 11;
    CHECK(install(d) == 0);
    d.contents = 0, d.entry_number = 12, d.base_addr = (unsigned)(unsigned long)stack, d.limit = 0xffff;
    CHECK(install(d) == 0);
    d.seg_32bit = 1, d.seg_not_present = 1, d.entry_number = 13;
    CHECK(install(d) == 0);

    CHECK(run(CODE_64, DATA, page, 0x123456789abcdef0) == SIGTRAP);
    CHECK((start_flags & STRICT) && (flags & STRICT));
    CHECK(result[REG_RSP] == 0x123456789abcdef0 && result[REG_RCX] == DATA);
    CHECK(run(CODE_32, DATA, page, 0x89abcdef) == SIGTRAP && !(flags & STRICT) && (flags & 2));
    CHECK(selectors(result)[0] == CODE_32 && selectors(result)[3] == DATA && result[REG_RSP] == 0x89abcdef);
    CHECK(selectors(result)[1] == 0 && selectors(result)[2] == 0);
    CHECK(run(LOCAL(10), DATA, page, 0x89abcdef) == SIGTRAP && selectors(result)[0] == LOCAL(10));
    /* In 64-bit code the stack segment means nothing, and stays. */
    CHECK(run(CODE_64, LOCAL(12), page, 0x123456789abcdef0) == SIGTRAP);
    CHECK(result[REG_RSP] == 0x123456789abcdef0 && result[REG_RCX] == LOCAL(12) && (flags & STRICT));

    /* All of ESP comes back, also with a 16-bit stack. */
    int lost = 0;
    for (unsigned n = 0; n < 64; n++) {
        unsigned sp = 0x9e3779b9u * (n + 1);
        unsigned codes[] = { CODE_32, LOCAL(10), LOCAL(11) };
        for (int at = 0; at < 3; at++) {
            if (run(codes[at], LOCAL(12), at == 2 ? 0 : page, sp) != SIGTRAP) lost++;
            unsigned mask = at == 2 ? 0xffff : ~0u;
            if (((unsigned)result[REG_RAX] & mask) != (sp & mask) || (unsigned)result[REG_RSP] != sp) lost++;
            if (selectors(result)[3] != LOCAL(12) || (flags & STRICT)) lost++;
        }
    }
    CHECK(lost == 0);
    /* The same over interrupts. */
    CHECK(run(CODE_32, LOCAL(12), page + 5, 0xcafe1234) == SIGTRAP);
    CHECK((unsigned)result[REG_RAX] == 0xcafe1234);
    memcpy(stack + 16, "word", 4);
    CHECK(run(CODE_32, LOCAL(12), page + 15, 0) == SIGTRAP && memcmp(&result[REG_RAX], "word", 4) == 0);

    /* Exceptions that only 32-bit code can raise. */
    CHECK(run(CODE_32, LOCAL(12), page + 48, 16) == SIGSEGV && result[REG_TRAPNO] == 4);
    CHECK(result[REG_RIP] == (greg_t)page + 57 && (unsigned)result[REG_RSP] == 16);
    memcpy(stack, (const int[]){ 1, 2 }, 8);
    CHECK(run(CODE_32, LOCAL(12), page + 58, 16) == SIGSEGV && result[REG_TRAPNO] == 5);
    CHECK(result[REG_RIP] == (greg_t)page + 60);

    /* Returns that fault, on the ordinary way and on that for 16-bit stacks. */
    CHECK(run(LOCAL(13), DATA, page, 16) == SIGSEGV && result[REG_TRAPNO] == 13);
    CHECK(run(CODE_32, LOCAL(14), page, 16) == SIGSEGV && result[REG_TRAPNO] == 13);
    CHECK(selectors(result)[0] == CODE_32 && selectors(result)[3] == LOCAL(14) && result[REG_RSP] == 16);
    CHECK(run(CODE_32, LOCAL(13), page, 16) == SIGSEGV && result[REG_TRAPNO] == 13 && result[REG_ERR] == 0);
    CHECK(run(CODE_64, LOCAL(13), page, 16) == SIGSEGV && result[REG_TRAPNO] == 13 && result[REG_ERR] == 0);
    CHECK(run(LOCAL(12), LOCAL(12), page, 16) == SIGSEGV);

    if (is_limen) {
        /* There are calls by `int 0x80` only. (`syscall` is an invalid instruction to some processors.) */
        int sig = run(CODE_32, DATA, page + 22, 16);
        CHECK(sig == SIGILL || (sig == SIGTRAP && (int)result[REG_RAX] == -ENOSYS));
        CHECK(run(CODE_32, DATA, page + 30, 16) == SIGTRAP && (int)result[REG_RAX] == getpid());
        sig = run(CODE_32, DATA, page + 38, 16);
        CHECK(sig == SIGSEGV || sig == SIGILL);
    }
    memcpy(code + 42, &page, 4);
    CHECK(run(CODE_32, DATA, page + 41, 0x89abcdef) == SIGTRAP && selectors(result)[0] == CODE_64);
    CHECK(result[REG_RSP] == 0x89abcdef && result[REG_RCX] == DATA && (flags & STRICT));
}

/* Each selector as code and as stack, with each kind of the other: a signal comes, and all goes on. */
static void all_selectors(void) {
    unsigned long page = (unsigned long)code;
    int none = 0;
    for (unsigned s = 3; s < 0x10000; s += s < 0x100 ? 4 : 148) {
        none += run(s, DATA, page, 0x1000) == 0;
        none += run(s, LOCAL(12), page, 0x1000) == 0;
        none += run(CODE_64, s, page, 0x1000) == 0;
        none += run(CODE_32, s, page, 0x1000) == 0;
    }
    CHECK(none == 0);
}

/* Without the flag that asks for it, a stack segment that cannot be used is replaced. */
static void lenient(int sig, siginfo_t *info, void *at) {
    ucontext_t *c = at;
    (void)sig, (void)info;
    c->uc_flags &= ~STRICT;
    selectors(c->uc_mcontext.gregs)[3] = wanted.ss;
}
static void replaced_stack(void) {
    struct sigaction action = { .sa_sigaction = lenient, .sa_flags = SA_SIGINFO };
    unsigned ss;
    sigaction(SIGUSR2, &action, NULL);
    wanted.ss = LOCAL(4000);
    raise(SIGUSR2);
    __asm__ volatile("mov %%ss, %0" : "=r"(ss));
    CHECK(ss == DATA);
}

static volatile int turn;
static void *beside(void *wrong) {
    for (int n = 0; n < 200; n++) {
        __asm__ volatile("mov %0, %%gs" : : "r"(LOCAL(20 + n % 2)));
        sched_yield();
        if (gs() != (unsigned)LOCAL(20 + n % 2) || base_of_gs() != 0x1000u * (1 + n % 2)) ++*(int *)wrong;
    }
    __asm__ volatile("mov %0, %%gs" : : "r"(0));
    turn = 1;
    return NULL;
}

/* Selectors are each thread's own over switches, on one processor, beside programs that have none. */
static void switched(void) {
    cpu_set_t one, before;
    pthread_t thread;
    int wrong = 0, beside_wrong = 0;
    sched_getaffinity(0, sizeof before, &before);
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    sched_setaffinity(0, sizeof one, &one);
    struct user_desc d = plain(20);
    d.base_addr = 0x1000;
    CHECK(install(d) == 0);
    d.entry_number = 21, d.base_addr = 0x2000;
    CHECK(install(d) == 0);
    d.entry_number = 22, d.base_addr = 0x3000;
    CHECK(install(d) == 0);
    pid_t child = fork();
    if (child == 0) {
        /* Another program's: what is removed here stays there, and a selector that has gone is none. */
        for (int n = 20; n < 23; n++) take_away(n);
        for (int n = 0; n < 200; n++) {
            __asm__ volatile("mov %0, %%gs" : : "r"(0));
            sched_yield();
            if (gs() != 0 || rights(LOCAL(22)) != 0) _exit(1);
        }
        _exit(0);
    }
    CHECK(pthread_create(&thread, NULL, beside, &beside_wrong) == 0);
    __asm__ volatile("mov %0, %%gs\n mov %0, %%ds" : : "r"(LOCAL(22)));
    for (int n = 0; n < 10000 && !turn; n++) {
        sched_yield();
        if (gs() != LOCAL(22) || ds() != LOCAL(22) || base_of_gs() != 0x3000) wrong++;
    }
    CHECK(pthread_join(thread, NULL) == 0 && child_good(child));
    CHECK(wrong == 0 && beside_wrong == 0);
    /* A descriptor goes: DS is null at once, GS when the thread has been switched away from. */
    CHECK(take_away(22) == 0 && ds() == 0);
    child = fork();
    if (child == 0) _exit(gs() == 0 ? 0 : 1);
    CHECK(child_good(child));
    pause_ms(2);
    CHECK(gs() == 0);
    syscall(SYS_arch_prctl, ARCH_SET_GS, 0);
    sched_setaffinity(0, sizeof before, &before);
}

/* Another program, without segments: it has none of its neighbours', and keeps its base of GS. */
static int bystander(void) {
    unsigned long base = 0x7000 + (unsigned long)getpid() * 0x1000;
    struct timespec start, now;
    int wrong = 0;
    syscall(SYS_arch_prctl, ARCH_SET_GS, base);
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        for (int n = 0; n < 64; n++) wrong += rights(LOCAL(n)) != 0 || limit(LOCAL(n)) != 0;
        wrong += gs() != 0 || ds() != 0 || base_of_gs() != base;
        sched_yield();
        wrong += gs() != 0 || ds() != 0 || base_of_gs() != base;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (!wrong && now.tv_sec - start.tv_sec < 2);
    return wrong != 0;
}

static volatile int over;
/* Gives the table an entry and takes it away, again and again. */
static void *changing(void *wrong) {
    for (unsigned n = 0; !over; n++) {
        struct user_desc d = plain(30);
        d.base_addr = n << 12;
        if (install(d) != 0 || rights(LOCAL(30)) == 0 || take_away(30) != 0) ++*(int *)wrong;
        if (rights(LOCAL(30)) != 0) ++*(int *)wrong;
    }
    return NULL;
}
/* Finds its own table, whatever else changes in it, and what it loaded from there. */
static void *finding(void *wrong) {
    __asm__ volatile("mov %0, %%ds\n mov %0, %%gs" : : "r"(LOCAL(31)));
    for (unsigned n = 0; !over; n++) {
        if (rights(LOCAL(31)) == 0 || ds() != LOCAL(31) || gs() != LOCAL(31)) ++*(int *)wrong;
        if (n % 64 == 0 && base_of_gs() != 0x31000) ++*(int *)wrong;
        if (n % 1024 == 0) sched_yield();
    }
    __asm__ volatile("mov %0, %%ds\n mov %0, %%gs" : : "r"(0));
    return NULL;
}

/*
 * All at once on all processors: a thread changes the table, one uses it, the first runs 32-bit code on a
 * 16-bit stack and forks programs that change theirs, beside some that have none.
 */
static void crowd(const char *self) {
    unsigned long page = (unsigned long)code;
    pthread_t threads[2];
    pid_t beside[2];
    int wrong[2] = { 0, 0 }, lost = 0, status, left = 2;
    struct user_desc d = plain(31);
    d.base_addr = 0x31000;
    CHECK(install(d) == 0);
    for (int n = 0; n < 2; n++) {
        beside[n] = fork();
        if (beside[n] == 0) {
            execl(self, self, "bystander", NULL);
            _exit(2);
        }
    }
    CHECK(pthread_create(&threads[0], NULL, changing, &wrong[0]) == 0);
    CHECK(pthread_create(&threads[1], NULL, finding, &wrong[1]) == 0);
    for (unsigned n = 0; left > 0; n++) {
        unsigned sp = 0x9e3779b9u * (n + 1);
        if (run(CODE_32, LOCAL(12), page + 68, sp) != SIGTRAP) lost++;
        if ((unsigned)result[REG_RAX] != sp || (unsigned)result[REG_RSP] != sp) lost++;
        if (n % 4 == 0) {
            pid_t child = fork();
            if (child == 0) {
                int good = rights(LOCAL(31)) != 0 && take_away(31) == 0 && rights(LOCAL(31)) == 0;
                if (n % 8 != 0) _exit(good ? 0 : 1);
                /* Not alone, every other time. */
                if (n % 16 != 0) good &= pthread_create(&threads[0], NULL, changing, &wrong[0]) == 0;
                execl(self, self, good ? "executed" : "", NULL);
                _exit(2);
            }
            if (!child_good(child)) lost++;
        }
        for (int at = 0; at < 2; at++) {
            if (beside[at] == 0 || waitpid(beside[at], &status, WNOHANG) != beside[at]) continue;
            if (status != 0) lost++;
            beside[at] = 0, left--;
        }
    }
    over = 1;
    for (int n = 0; n < 2; n++) CHECK(pthread_join(threads[n], NULL) == 0 && wrong[n] == 0);
    CHECK(lost == 0);
}

/* What a tracer reads and writes. */
static void traced(void) {
    struct user_regs_struct regs;
    struct user_desc d = plain(20);
    int status, refused = 0, lost = 0;
    d.base_addr = 0x5000;
    CHECK(install(d) == 0);
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        __asm__ volatile("mov %0, %%gs\n mov %1, %%es\n int3" : : "r"(LOCAL(20)), "r"(DATA));
        for (;;) __asm__ volatile("int3");
    }
    CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
    CHECK(ptrace(PTRACE_GETREGS, child, NULL, &regs) == 0);
    CHECK(regs.gs == LOCAL(20) && regs.gs_base == 0x5000 && regs.es == DATA && regs.ds == 0 && regs.fs == 0);
    CHECK(regs.cs == CODE_64 && regs.ss == DATA);
    /* A selector asks with user mode's rights, or is null. */
#define POKE(name, value) ptrace(PTRACE_POKEUSER, child, offsetof(struct user_regs_struct, name), value)
    for (int n = 0; n < 3; n++) refused += POKE(ds, (LOCAL(20) & ~3u) | n) == -1;
    CHECK(refused == 3);
    CHECK(POKE(cs, 0) == -1 && errno == EIO);
    CHECK(POKE(ss, 0) == -1 && errno == EIO);
    CHECK(POKE(gs_base, 0x77) == 0);
    CHECK(POKE(ds, LOCAL(20)) == 0);
    ptrace(PTRACE_CONT, child, NULL, NULL);
    CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
    CHECK(ptrace(PTRACE_GETREGS, child, NULL, &regs) == 0 && regs.ds == LOCAL(20) && regs.gs == LOCAL(20));
    if (getauxval(AT_HWCAP2) & 2) CHECK(regs.gs_base == 0x77);
    /* Any: those that there are stay, the others are null. */
    for (unsigned s = 7; s < 0x10000; s += s < 0x100 ? 4 : 1028) {
        regs.ds = regs.es = regs.gs = s;
        if (ptrace(PTRACE_SETREGS, child, NULL, &regs) || ptrace(PTRACE_CONT, child, NULL, NULL)) refused++;
        if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) break;
        ptrace(PTRACE_GETREGS, child, NULL, &regs);
        unsigned r = rights(s), usable = (r & 0x9000) == 0x9000 && (r & 0xa00) != 0x800;
        if (regs.ds != (usable ? s : 0) || regs.es != regs.ds || regs.gs != regs.ds) lost++;
    }
    CHECK(refused == 3 && lost == 0);
    /* Interrupted on a 16-bit stack: these are the program's registers, and they stay. */
    pid_t other = fork();
    if (other == 0) {
        run(CODE_32, LOCAL(12), (unsigned long)code + 78, 0xbeef1234);
        _exit(1);
    }
    int strange = 0;
    pause_ms(10);
    CHECK(ptrace(PTRACE_SEIZE, other, NULL, NULL) == 0);
    for (int n = 0; n < 50; n++) {
        ptrace(PTRACE_INTERRUPT, other, NULL, NULL);
        if (waitpid(other, &status, 0) != other || !WIFSTOPPED(status)) break;
        ptrace(PTRACE_GETREGS, other, NULL, &regs);
        /* (At first it may still be on its way there, by a signal.) */
        if (n == 0 && regs.cs == CODE_64) n = -1;
        else if (regs.cs != CODE_32 || regs.ss != LOCAL(12) || (unsigned)regs.rsp != 0xbeef1234) strange++;
        else if (regs.rip != (unsigned long)code + 78) strange++;
        ptrace(PTRACE_CONT, other, NULL, status >> 16 == 0 ? (long)WSTOPSIG(status) : 0L);
        if (n < 0 || n % 8 == 0) pause_ms(1);
    }
    CHECK(strange == 0);
    kill(other, SIGKILL);
    CHECK(waitpid(other, &status, 0) == other && WIFSIGNALED(status));
    /* Code and stack that cannot be. */
    for (unsigned s = 3; s < 0x100; s += 4) {
        ptrace(PTRACE_GETREGS, child, NULL, &regs);
        struct user_regs_struct bad = regs;
        if (s & 0x80) bad.ss = s & 0x7f;
        else bad.cs = s, bad.ss = LOCAL(12);
        ptrace(PTRACE_SETREGS, child, NULL, &bad);
        ptrace(PTRACE_CONT, child, NULL, NULL);
        if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) break;
        ptrace(PTRACE_SETREGS, child, NULL, &regs);
    }
    CHECK(WIFSTOPPED(status));
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
}

int main(int argc, char **argv) {
    struct utsname name;
    struct sigaction action = { .sa_sigaction = enter, .sa_flags = SA_SIGINFO };
    char self[512];
    if (argc > 1 && strcmp(argv[1], "executed") == 0) return executed();
    if (argc > 1 && strcmp(argv[1], "bystander") == 0) return bystander();
    if (argc > 1) return 3;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length < 0 ? 0 : length] = 0;
    uname(&name);
    is_limen = strstr(name.version, "Limen") != NULL;
    const int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT;
    code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, kind, -1, 0);
    stack = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, kind, -1, 0);
    CHECK(code != MAP_FAILED && stack != MAP_FAILED);
    memcpy(code, what, sizeof what);
    static char alternate[1 << 16];
    stack_t alternative = { .ss_sp = alternate, .ss_size = sizeof alternate };
    CHECK(sigaltstack(&alternative, NULL) == 0);
    calls();
    inherited(self);
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    action.sa_sigaction = leave;
    action.sa_flags |= SA_ONSTACK;
    int traps[] = { SIGTRAP, SIGSEGV, SIGBUS, SIGILL };
    for (int n = 0; n < 4; n++) CHECK(sigaction(traps[n], &action, NULL) == 0);
    other_code();
    all_selectors();
    replaced_stack();
    switched();
    crowd(self);
    traced();
    return report();
}
#endif
