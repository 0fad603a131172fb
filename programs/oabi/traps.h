/* Signals: calls that are none, the private ones, returns of handlers, restarts, code that goes away. */
#include <pthread.h>
#include <setjmp.h>
#include <ucontext.h>

static sigjmp_buf after;
static struct {
    int number, code;
    unsigned long at, error, pc;
} got;

static void caught(int number, siginfo_t *info, void *context) {
    const ucontext_t *c = context;
    got.number = number, got.code = info->si_code, got.at = (unsigned long)info->si_addr;
    got.error = c->uc_mcontext.error_code, got.pc = c->uc_mcontext.arm_pc;
    siglongjmp(after, 1);
}

/* What a call returned is not looked at after a signal. */
#pragma GCC diagnostic ignored "-Wclobbered"

/* What becomes of `statement`, which may not end. */
#define CAUGHT(statement) ({ \
    memset(&got, 0, sizeof got); \
    if (sigsetjmp(after, 1) == 0) { statement; } \
    got.number; \
})

static void no_calls(void) {
    struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO};
    sigaction(SIGILL, &action, NULL), sigaction(SIGTRAP, &action, NULL), sigaction(SIGSEGV, &action, NULL);
    /* What is not of the old ABI: Linux tells it with the number as it counts. */
    CHECK(CAUGHT(SWI(5, 0, 0)) == SIGILL && got.code == ILL_ILLTRP && got.error == (5 ^ FIRST));
    CHECK(got.at == got.pc - 4 && *(unsigned *)got.at == 0xef000005);
    CHECK(CAUGHT(SWI(0xffffff, 0, 0)) == SIGILL && got.error == (0xffffff ^ FIRST));
    CHECK(CAUGHT(SWI(0x9f0800, 0, 0)) == SIGILL && got.code == ILL_ILLTRP && got.error == 0xf0800);
    /* r7 names calls of the EABI only. */
    CHECK(CAUGHT(SWI(0, FIRST + SYS_getpid, 0)) == SIGILL && got.error == FIRST + SYS_getpid);
    /* Private calls: a breakpoint, a call of address 0, the 26-bit modes. */
    CHECK(CAUGHT(SWI(0x9f0001, 0, 0)) == SIGTRAP && got.code == TRAP_BRKPT && got.at == got.pc);
    CHECK(*(unsigned *)got.at == 0xef9f0001);
    CHECK(CAUGHT(SWI(0x9f0000, 0, 0)) == SIGSEGV && got.code == SEGV_MAPERR && got.at == 0);
    CHECK(CAUGHT(SWI(0x9f0003, 0, 0)) == SIGILL && CAUGHT(SWI(0x9f0004, 0, 0)) == SIGILL);
    unsigned code[2] = {0, 0};
    CHECK(SWI(0x9f0002, 0, code, code + 2, 0) == 0 && SWI(0x9f0002, 0, code + 2, code, 0) == -EINVAL);
    long tls = SWI(0x9f0006, 0, 0);
    CHECK(tls == (long)__builtin_thread_pointer() && SWI(0x9f0005, 0, tls) == 0);
    CHECK((long)__builtin_thread_pointer() == tls && SWI(0x9f0007, 0, 0) == -ENOSYS);
    signal(SIGILL, SIG_DFL), signal(SIGTRAP, SIG_DFL), signal(SIGSEGV, SIG_DFL);
}

/* Restorers as C libraries of the old ABI have them. */
__asm__(".text\n.arm\n.balign 4\n"
        ".type old_restorer, %function\nold_restorer: swi #0x900000 + 119\n"
        ".type old_rt_restorer, %function\nold_rt_restorer: swi #0x900000 + 173\n"
        ".type old_indirect_restorer, %function\n"
        "old_indirect_restorer: mov r0, #119\n swi #0x900000 + 113\n");
void old_restorer(void), old_rt_restorer(void), old_indirect_restorer(void);

static volatile int handled;
static void handles(int number) { handled = number; }

/* `struct sigaction` of the kernel. */
struct kernel_action {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    unsigned long mask[2];
};

static void returns(void) {
    enum { RESTORER = 0x04000000 };
    static const struct {
        unsigned long flags;
        void (*restorer)(void);
    } ways[] = {
        {0, NULL}, {SA_SIGINFO, NULL}, {RESTORER, old_restorer}, {RESTORER, old_indirect_restorer},
        {RESTORER | SA_SIGINFO, old_rt_restorer},
    };
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct kernel_action action = {handles, ways[i].flags, ways[i].restorer, {0, 0}};
        CHECK(OLD(SYS_rt_sigaction, SIGUSR1, &action, 0, 8) == 0);
        handled = 0;
        CHECK(OLD(SYS_kill, getpid(), SIGUSR1) == 0 && handled == SIGUSR1);
    }
    /* `sigaction` with one word of signals. */
    struct {
        void (*handler)(int);
        unsigned long mask, flags;
        void (*restorer)(void);
    } older = {handles, 1ul << (SIGUSR2 - 1), 0, NULL}, was;
    CHECK(OLD(SYS_sigaction, SIGUSR1, &older, &was) == 0 && was.restorer == old_rt_restorer);
    handled = 0;
    CHECK(OLD(SYS_kill, getpid(), SIGUSR1) == 0 && handled == SIGUSR1);
    signal(SIGUSR1, SIG_DFL);
}

/* Interrupted calls: again inside the kernel (`restart_syscall`), and after a handler by the instruction. */
static void restarts(void) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct timespec time = {0, 400000000}, left;
        struct kernel_action action = {handles, SA_RESTART, NULL, {0, 0}};
        int pipes[2];
        char text[2];
        if (OLD(SYS_nanosleep, &time, &left) != 0) _exit(1);
        if (pipe(pipes) || OLD(SYS_rt_sigaction, SIGUSR1, &action, 0, 8) != 0) _exit(2);
        pid_t writer = fork();
        if (writer == 0) {
            pause_ms(100), kill(getppid(), SIGUSR1), pause_ms(100);
            _exit(write(pipes[1], "x", 1) != 1);
        }
        if (OLD(SYS_read, pipes[0], text, 1) != 1 || handled != SIGUSR1) _exit(3);
        _exit(0);
    }
    pause_ms(100);
    CHECK(kill(child, SIGSTOP) == 0 && SOON(thread_state(child) == 'T') && kill(child, SIGCONT) == 0);
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    if (status) printf("restarts: status %#x\n", status);
}

/* In a page of its own: `swi 0x900000 + getpid; bx lr`. */
static const unsigned getpid_code[2] = {0xef900014, 0xe12fff1e};
static char *page;
static volatile int leave;

static void *takes(void *how) {
    while (!leave) {
        madvise(page, 4096, MADV_DONTNEED);
        if (how) {
            pause_ms(20);
            munmap(page, 4096);
            return NULL;
        }
    }
    return NULL;
}

/* The page with the instruction may be absent when the kernel reads it, and may be gone for good. */
static void code_goes_away(void) {
    int fd = open("code", O_RDWR | O_CREAT | O_TRUNC, 0700);
    CHECK(fd >= 0 && ftruncate(fd, 4096) == 0 && write(fd, getpid_code, 8) == 8);
    page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    CHECK(page != MAP_FAILED);
    int (*calls)(void) = (int (*)(void))page, wrong = 0;
    pthread_t other;
    leave = 0;
    CHECK(pthread_create(&other, NULL, takes, NULL) == 0);
    for (int i = 0; i < 20000; i++) wrong += calls() != getpid();
    leave = 1;
    CHECK(pthread_join(other, NULL) == 0 && wrong == 0);
    leave = 0;
    fflush(stdout);
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        if (child == 0) {
            struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO};
            sigaction(SIGSEGV, &action, NULL);
            if (pthread_create(&other, NULL, takes, page) != 0) _exit(1);
            if (CAUGHT(for (;;) calls()) != SIGSEGV) _exit(2);
            _exit(got.at - (unsigned long)page >= 8 || got.pc != got.at);
        }
        CHECK(child_good(child));
    }
    /* What can only be executed the processor can read, and so can the kernel. */
    CHECK(mprotect(page, 4096, PROT_EXEC) == 0 && calls() == getpid());
    munmap(page, 4096), close(fd);
}

static void traps(void) {
    no_calls();
    returns();
    restarts();
    code_goes_away();
}
