/*
 * Unwinders go through the frame of a signal: a thread is cancelled while it sleeps in a call, and a handler
 * looks at the code that it interrupted, on its own stack and on another. Called by
 * tools/limen/src/test/programs.rs, on every architecture; says the same on Linux.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>
#include "check.h"

/* --- cancelled */

static atomic_int asleep, cleaned;

static void clean(void *what) { cleaned += *(int *)what; }

/* What the cleanup handlers use lies in frames of their own, whose registers are to be right again. */
static void __attribute__((noinline)) sleeps(int depth) {
    int own = 1 << depth;
    pthread_cleanup_push(clean, &own);
    if (depth > 0) {
        sleeps(depth - 1);
    } else {
        asleep = 1;
        while (asleep) pause();
    }
    pthread_cleanup_pop(0);
}

static void *sleeper(void *unused) {
    sleeps(9);
    return unused;
}

static void cancelled(int microseconds) {
    pthread_t thread;
    void *result = NULL;
    asleep = cleaned = 0;
    if (pthread_create(&thread, NULL, sleeper, NULL)) exit(99);
    while (!asleep) usleep(100);
    if (microseconds) usleep(microseconds);
    CHECK(pthread_cancel(thread) == 0);
    CHECK(pthread_join(thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED);
    CHECK(cleaned == 1023);
}

/* --- looked at */

static uintptr_t wanted, wanted_end;
static volatile sig_atomic_t found, frames;

static _Unwind_Reason_Code look(struct _Unwind_Context *context, void *unused) {
    uintptr_t at = _Unwind_GetIP(context);
    (void)unused;
    found |= at >= wanted && at < wanted_end;
    return ++frames < 64 ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static void handler(int number) {
    (void)number;
    _Unwind_Backtrace(look, NULL);
}

static volatile int turns;

static int __attribute__((noinline, noclone)) computes(timer_t timer) {
    struct itimerspec soon = {.it_value = {0, 2000000}};
    timer_settime(timer, 0, &soon, NULL);
    while (!frames) turns++;
    return turns;
}

static int __attribute__((noinline, noclone)) calls(timer_t timer) {
    struct itimerspec soon = {.it_value = {0, 2000000}};
    struct timespec second = {1, 0};
    timer_settime(timer, 0, &soon, NULL);
    int early = nanosleep(&second, NULL);
    return early + turns;
}

static void looked_at(int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    static char other[65536] __attribute__((aligned(16)));
    stack_t stack = {.ss_sp = other, .ss_size = sizeof other};
    timer_t timer;
    CHECK(sigaltstack(&stack, NULL) == 0);
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    int (*const looked[])(timer_t) = {computes, calls};
    for (int i = 0; i < 2; i++) {
        found = frames = 0;
        wanted = (uintptr_t)looked[i];
        wanted_end = wanted + 256;
        looked[i](timer);
        CHECK(found);
        CHECK(frames > 2);
    }
    CHECK(timer_delete(timer) == 0);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; i < 40; i++) cancelled(i % 4 * 300);
#ifdef __arm__
    /* There a function has no tables without an option of the compiler's. */
    (void)looked_at;
#else
    looked_at(0);
    looked_at(SA_RESTART);
    looked_at(SA_ONSTACK | SA_SIGINFO);
#endif
    return report();
}
