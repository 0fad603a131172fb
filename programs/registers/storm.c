/*
 * A storm of faults: every thread stores to a page that it may not write and executes an instruction that
 * does not exist, over and over, while its own one-shot timer interrupts it at random moments: between the
 * two, in their handlers, on the way into and out of the kernel. Every fault must call its handler exactly
 * once, with the right address (the handler passes over the instruction, or makes it work); every timer must
 * call its own once; and no register may change that the program did not change itself (stub.h has a pattern
 * in each).
 *
 * Nothing here depends on who is faster: a thread goes on making faults until its timer's signal has come,
 * and then sets it anew.
 *
 * storm THREADS ROUNDS; run by tools/limen/src/test/programs.rs. Prints what it did, and `nothing lost` at
 * last.
 */
#define _GNU_SOURCE
#include "stub.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/*
 * In assembly: stores a byte where argument 0 points, and executes an undefined instruction. Then the lengths
 * of both, and the place of the program counter in the signal context.
 */
void storm_store(struct state *state);
void storm_undefined(struct state *state);
#if defined(__x86_64__)
STUB("storm_store", "movb $1, (%rdi)");
STUB("storm_undefined", "ud2");
#define STORE_LENGTH 3
#define UNDEFINED_LENGTH 2
#define PC(context) (context)->uc_mcontext.gregs[REG_RIP]
#elif defined(__aarch64__)
STUB("storm_store", "strb w8, [x0]");
STUB("storm_undefined", ".inst 0");
#define STORE_LENGTH 4
#define UNDEFINED_LENGTH 4
#define PC(context) (context)->uc_mcontext.pc
#elif defined(__arm__)
STUB("storm_store", "strb r7, [r0]");
STUB("storm_undefined", ".inst 0xe7f000f0");
#define STORE_LENGTH 4
#define UNDEFINED_LENGTH 4
#define PC(context) (context)->uc_mcontext.arm_pc
#elif defined(__powerpc64__)
STUB("storm_store", "stb 0, 0(3)", "");
STUB("storm_undefined", ".long 0", "");
#define STORE_LENGTH 4
#define UNDEFINED_LENGTH 4
#define PC(context) (context)->uc_mcontext.gp_regs[32]
#else
#error "programs/registers/storm.c: add this architecture"
#endif

#define MOST 64

struct thread {
    pthread_t id;
    struct state state, inner;
    uint64_t seed;
    unsigned char *page;
    volatile unsigned long stores, undefined, ticks; /* handlers called */
    unsigned long made_stores, made_undefined;
    volatile unsigned long made_inner;
    int again; /* the handler makes the page writable, else it passes over the store */
    int bad;
};

static struct thread threads[MOST];
static __thread struct thread *volatile me;
static size_t page_size;
static unsigned long rounds;

static uint64_t next(struct thread *t) {
    t->seed ^= t->seed << 13;
    t->seed ^= t->seed >> 7;
    t->seed ^= t->seed << 17;
    return t->seed;
}

static void complain(struct thread *t, const char *what, unsigned long a, unsigned long b) {
    printf("thread %d: %s: %#lx, %#lx\n", (int)(t - threads), what, a, b);
    if (++t->bad > 10) exit(1);
}

/* Values in floating-point registers, which no instruction would produce by chance. */
static void compute(int x) {
    volatile double number = x;
    char bytes[256];
    for (int i = 0; i < 5; i++) number = number * 1.5 + i;
    memset(bytes, (int)number, sizeof bytes);
    __asm__ volatile("" : : "r"(bytes) : "memory");
}

static void on_store(int signal, siginfo_t *info, void *context) {
    struct thread *t = me;
    ucontext_t *uc = context;
    if (info->si_addr != t->page || info->si_code != SEGV_ACCERR)
        complain(t, "a fault at, with code", (unsigned long)info->si_addr, (unsigned long)info->si_code);
    t->stores++;
    compute(signal);
    if (!t->again) PC(uc) += STORE_LENGTH;
    else if (mprotect(t->page, page_size, PROT_READ | PROT_WRITE)) complain(t, "mprotect", 0, 0);
}

static void on_undefined(int signal, siginfo_t *info, void *context) {
    struct thread *t = me;
    ucontext_t *uc = context;
    if ((unsigned long)info->si_addr != (unsigned long)PC(uc))
        complain(t, "an undefined instruction at, and the context's", (unsigned long)info->si_addr,
                 (unsigned long)PC(uc));
    __atomic_fetch_add(&t->undefined, 1, __ATOMIC_RELAXED); /* the timer's handler adds, too */
    compute(signal);
    PC(uc) += UNDEFINED_LENGTH;
}

static void run(struct thread *t, const char *what, struct state *state, void (*instruction)(struct state *));

/* The timer's handler causes a fault of its own, in whatever it interrupted, which may be another handler. */
static void on_tick(int signal) {
    struct thread *t = me;
    compute(signal);
    t->made_inner++;
    run(t, "in the timer's handler", &t->inner, storm_undefined);
    t->ticks++;
}

static void run(struct thread *t, const char *what, struct state *state, void (*instruction)(struct state *))
{
    for (int i = 0; i < SLOTS; i++) state->before[i] = (unsigned long)next(t);
    state->number = 0x5a;
    for (int i = 0; i < 6; i++) state->args[i] = i ? (long)next(t) : (long)t->page;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        int held = kept[i].argument;
        if (held >= 0)
            state->before[kept[i].slot] = (unsigned long)(held == NUMBER ? state->number : state->args[held]);
    }
#if defined(__powerpc64__)
    state->before[1] &= 0xfff000;
#endif
    for (size_t i = 0; i < VECTOR_BYTES; i += 8) {
        double x = (double)(next(t) % 1000000) + 0.5;
        memcpy(state->vectors_before + i, &x, sizeof x);
    }
    instruction(state);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        int slot = kept[i].slot;
        if (state->before[slot] == state->after[slot]) continue;
        printf("%s: %s: ", what, kept[i].name);
        complain(t, "a register changed", state->before[slot], state->after[slot]);
    }
    if (memcmp(state->vectors_before, state->vectors_after, VECTOR_BYTES))
        complain(t, "vector registers changed", 0, 0);
}

static void *storm(void *argument) {
    struct thread *t = argument;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    timer_t timer;
    me = t;
    t->seed = 0x9e3779b97f4a7c15 + (uint64_t)(t - threads);
    event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
    t->page = mmap(NULL, page_size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (t->page == MAP_FAILED || timer_create(CLOCK_MONOTONIC, &event, &timer)) exit(2);
    for (unsigned long round = 1; round <= rounds; round++) {
        struct itimerspec at = {.it_value = {0, 1 + (long)(next(t) % 200000)}};
        if (timer_settime(timer, 0, &at, NULL)) exit(2);
        do {
            run(t, "undefined instruction", &t->state, storm_undefined);
            t->made_undefined++;
            /*
             * Only sometimes: the other CPUs must flush their TLBs, which takes long if their virtual CPUs
             * are not running.
             */
            t->again = t->made_undefined % 8 == 0;
            run(t, "store", &t->state, storm_store);
            t->made_stores++;
            if (!t->again) continue;
            if (t->page[0] != 0x5a && t->page[0] != 1)
                complain(t, "the store is lost: there is", t->page[0], 0);
            if (t->made_undefined % 16 == 0) madvise(t->page, page_size, MADV_DONTNEED);
            if (mprotect(t->page, page_size, t->made_undefined % 16 ? PROT_READ : PROT_NONE)) exit(2);
        } while (t->ticks < round);
        if (t->ticks != round) complain(t, "the timer's handlers, and its rounds", t->ticks, round);
    }
    timer_delete(timer);
    if (t->stores != t->made_stores) complain(t, "stores' handlers, and stores", t->stores, t->made_stores);
    if (t->undefined != t->made_undefined + t->made_inner)
        complain(t, "undefined instructions' handlers, and instructions", t->undefined,
                 t->made_undefined + t->made_inner);
    return NULL;
}

static void on(int signal, void (*handler)(int, siginfo_t *, void *)) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(signal, &action, NULL);
}

int main(int argc, char **argv) {
    struct sigaction tick = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    int count = argc > 1 ? atoi(argv[1]) : 4, bad = 0;
    unsigned long faults = 0, ticks = 0;
    rounds = argc > 2 ? strtoul(argv[2], NULL, 0) : 200;
    if (count < 1 || count > MOST) return 2;
    page_size = (size_t)sysconf(_SC_PAGESIZE);
    on(SIGSEGV, on_store);
    on(SIGILL, on_undefined);
    sigaction(SIGUSR1, &tick, NULL);
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i].id, NULL, storm, &threads[i])) return 2;
    for (int i = 0; i < count; i++) {
        struct thread *t = &threads[i];
        pthread_join(t->id, NULL);
        faults += t->stores + t->undefined;
        ticks += t->ticks;
        bad += t->bad;
    }
    printf("%d threads: %s, %lu timers\n", count,
           faults >= ticks * 2 ? "at least two faults a timer" : "too few faults", ticks);
    printf(bad ? "%d wrong\n" : "nothing lost\n", bad);
    return bad != 0;
}
