/*
 * Does each thread have its own values in the registers that user mode can write? Three processes on one CPU
 * have different values in all of them, the general and vector registers (stub.h) as well as the others
 * (apart.h), and yield to each other; a fourth writes none and must find their initial values. A new process
 * has its parent's values, a new program the initial ones. Registers that the processor does not have, or
 * that the kernel does not let user mode write, are left out. Run by tools/limen/src/test/programs.rs; prints
 * the registers it used, and `registers apart` at the end.
 */
#define _GNU_SOURCE
#include "stub.h"

#include "apart.h"

#include <sched.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define EXTRAS (sizeof extras / sizeof *extras)
#define TURNS 300

static int bad;
static int usable[EXTRAS];
static struct state state;
static sigjmp_buf back;

static void refused(int signal) { siglongjmp(back, signal); }

/* Finds the registers that can be written and then hold the value. */
static void probe(void) {
    for (volatile size_t i = 0; i < EXTRAS; i++) {
        volatile word before = 0;
        if (sigsetjmp(back, 1)) continue;
        before = extras[i].read();
        extras[i].write(extras[i].values[1]);
        usable[i] = ((extras[i].read() ^ extras[i].values[1]) & extras[i].mask) == 0 && extras[i].mask != 0;
        extras[i].write(before);
    }
}

/* Reads all readable registers. */
static void read_all(word *to) {
    for (size_t i = 0; i < EXTRAS; i++) {
        to[i] = 0;
        if (usable[i]) to[i] = extras[i].read() & extras[i].mask;
    }
}

/* `written` says by whom: this process (1) or its parent (2). */
static void compare(const char *when, const word *wanted, int written) {
    word now[EXTRAS];
    read_all(now);
    for (size_t i = 0; i < EXTRAS; i++) {
        if (now[i] == wanted[i] || (written && extras[i].kept == NOT_BY_CALLS) ||
            (written == 2 && extras[i].kept == NOT_BY_FORK))
            continue;
        if (bad++ < 20) printf("%s: %s was %#lx and is %#lx\n", when, extras[i].name, wanted[i], now[i]);
    }
}

/* Yields with a pattern in each register that a system call keeps. */
static void turn(unsigned seed) {
    memset(&state, 0, sizeof state);
    state.number = SYS_sched_yield;
    for (int i = 0; i < SLOTS; i++) state.before[i] = (word)seed * 0x1010101 + (word)i;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (kept[i].argument >= 0)
            state.before[kept[i].slot] = kept[i].argument == NUMBER ? SYS_sched_yield : 0;
#if defined(__powerpc64__)
    state.before[1] &= 0xfff000;
#endif
    for (size_t i = 0; i < VECTOR_BYTES; i += 8) {
        double x = seed * 1000 + (double)i + 0.5;
        memcpy(state.vectors_before + i, &x, sizeof x);
    }
    registers_call(&state);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        int slot = kept[i].slot;
        if (state.before[slot] == state.after[slot]) continue;
        if (bad++ < 20)
            printf("%s was %#lx and is %#lx\n", kept[i].name, state.before[slot], state.after[slot]);
    }
    if (memcmp(state.vectors_before, state.vectors_after, VECTOR_BYTES) && bad++ < 20)
        printf("vector registers changed\n");
}

static void take(int who) {
    for (size_t i = 0; i < EXTRAS; i++)
        if (usable[i]) extras[i].write(extras[i].values[who]);
}

/* One process with values of its own, or (-1) without. */
static int one(int who, const word *initial) {
    word mine[EXTRAS];
    char when[40];
    snprintf(when, sizeof when, who < 0 ? "who wrote nothing" : "process %d", who);
    if (who >= 0) take(who);
    read_all(mine);
    if (who < 0) memcpy(mine, initial, sizeof mine);
    for (int n = 0; n < TURNS; n++) {
        turn((unsigned)(who + 2));
        compare(when, mine, who >= 0);
    }
    fflush(stdout);
    if (who < 0) return bad != 0;
    /* A child inherits all values. */
    int status = -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        compare("a child", mine, 2);
        turn(100);
        compare("a child, later,", mine, 2);
        fflush(stdout);
        _exit(bad != 0);
    }
    if (waitpid(child, &status, 0) != child || status) bad++;
    fflush(stdout);
    return bad != 0;
}

/* A new program has the initial values, whatever its process had before. */
static int begins_anew(const char *self, const word *initial) {
    char text[EXTRAS][20], *arguments[EXTRAS + 2] = {(char *)self};
    for (size_t i = 0; i < EXTRAS; i++) {
        snprintf(text[i], sizeof text[i], "%lx", initial[i]);
        arguments[i + 1] = text[i];
    }
    take(1);
    execv("/proc/self/exe", arguments);
    perror("exec");
    return 1;
}

static void children(int first, int last, const word *initial, const char *self) {
    fflush(stdout);
    for (int who = first; who <= last; who++)
        if (fork() == 0) _exit(self ? begins_anew(self, initial) : one(who, initial));
    for (int status; wait(&status) > 0;)
        if (status) printf("a process ended with status %#x\n", (unsigned)status), bad++;
}

int main(int argc, char **argv) {
    word initial[EXTRAS];
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    /* The initial values, before any register is written. */
    static word raw[EXTRAS];
    for (volatile size_t i = 0; i < EXTRAS; i++) {
        signal(SIGILL, refused);
        signal(SIGSEGV, refused);
        signal(SIGBUS, refused);
        if (sigsetjmp(back, 1) == 0) raw[i] = extras[i].read() & extras[i].mask;
    }
    probe();
    for (size_t i = 0; i < EXTRAS; i++) initial[i] = usable[i] ? raw[i] : 0;
    signal(SIGILL, SIG_DFL);
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    if (argc > 1) {
        for (size_t i = 0; i < EXTRAS && (int)i + 1 < argc; i++) {
            word wanted = strtoul(argv[i + 1], NULL, 16);
            if (wanted != initial[i] && extras[i].kept != BY_EXEC && extras[i].kept != NOT_BY_FORK &&
                bad++ < 20)
                printf("a new program: %s was %#lx and is %#lx\n", extras[i].name, wanted, initial[i]);
        }
        return bad != 0;
    }
    if (sched_setaffinity(0, sizeof first, &first)) return 2;
    printf("used:");
    for (size_t i = 0; i < EXTRAS; i++)
        if (usable[i]) printf(" %s", extras[i].name);
    printf("\n");
    children(-1, 2, initial, NULL);
    children(0, 0, initial, argv[0]);
    if (bad) printf("%d registers were somebody else's\n", bad);
    else printf("registers apart\n");
    return bad != 0;
}
