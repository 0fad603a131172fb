/* Signals a process sends to itself: delivery, handler, return. */
#define _GNU_SOURCE
#include "bench.h"

#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile long handled;

static void plain(int number) {
    (void)number;
    handled++;
}

static void with_info(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)info;
    (void)context;
    handled++;
}

static void send(void) {
    pid_t self = getpid();
    handled = 0;
    MEASURE(1000) syscall(SYS_kill, self, SIGUSR1);
    MUST(handled >= 1000);
}

static void signal_plain(long n) {
    struct sigaction action = {.sa_handler = plain};
    (void)n;
    MUST(sigaction(SIGUSR1, &action, NULL) == 0);
    send();
}

static void signal_siginfo(long n) {
    struct sigaction action = {.sa_sigaction = with_info, .sa_flags = SA_SIGINFO};
    (void)n;
    MUST(sigaction(SIGUSR1, &action, NULL) == 0);
    send();
}

static void signal_rseq(long n) {
    register_rseq();
    signal_plain(n);
}

const struct row signal_rows[] = {
    {"signal", signal_plain, 0},
    {"signal-siginfo", signal_siginfo, 0},
    {"signal-rseq", signal_rseq, 0},
    {0, 0, 0},
};
