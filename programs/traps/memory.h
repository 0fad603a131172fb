/*
 * Acts for all processors: memory that is not mapped or does not allow the access, and system calls with
 * pointers to such memory.
 */
#include "act.h"

#include <fcntl.h>
#include <sys/mman.h>

#define LOAD(where) (*(volatile unsigned char *)at((unsigned long)(where)))
#define STORE(where) (*(volatile unsigned char *)at((unsigned long)(where)) = 1)
#define LOAD_LONG(where) (*(volatile unsigned long *)at((unsigned long)(where)))

ACT(memory_load_null) { return LOAD(0); }
ACT(memory_store_null) { return STORE(0); }
ACT(memory_run_null) { return go_to(0); }
ACT(memory_load_low) { return LOAD(0x123); }
ACT(memory_load_hole) { return LOAD(end); }
ACT(memory_store_hole) { return STORE(end + 5); }
ACT(memory_run_hole) { return go_to((unsigned long)end); }
ACT(memory_load_shut) { return LOAD(SHUT + 0x18); }
ACT(memory_store_shut) { return STORE(SHUT + 0x18); }
ACT(memory_run_shut) { return go_to((unsigned long)SHUT); }
ACT(memory_store_fixed) { return STORE(FIXED + 0x21); }
ACT(memory_run_fixed) { return go_to((unsigned long)FIXED); }
ACT(memory_run_data) { return go_to((unsigned long)OPEN); }
ACT(memory_load_file) { return LOAD(FILED + 3); }
ACT(memory_load_beyond_file) { return LOAD(FILED + UNIT + 8); }
ACT(memory_store_beyond_file) { return STORE(FILED + UNIT + 8); }
ACT(memory_run_beyond_file) { return go_to((unsigned long)FILED + UNIT); }
/* A word whose second half is not mapped, or not writable. */
ACT(memory_load_across) { return LOAD_LONG(end - 2); }
ACT(memory_store_across) { return LOAD_LONG(end - 2) = 0; }
ACT(memory_store_across_fixed) { return LOAD_LONG(FIXED - 2) = 0; }

/* The errors of system calls with such pointers, and how much of their work they did before. */
ACT(memory_call_write_null) { return call(SYS_write, 1, 0, 1); }
ACT(memory_call_read_fixed) {
    int zero = open("/dev/zero", O_RDONLY);
    return call(SYS_read, zero, (unsigned long)FIXED, 8);
}
ACT(memory_call_read_across) {
    int file = open("/tmp/traps.file", O_RDONLY);
    return call(SYS_read, file, (unsigned long)end - 8, 64);
}
ACT(memory_call_beyond_file) { return call(SYS_write, 1, (unsigned long)FILED + UNIT, 1); }
ACT(memory_call_minus_one) { return call((unsigned long)-1, 0, 0, 0); }
ACT(memory_call_beyond) { return call(5000, 0, 0, 0); }

/* Handlers on a stack that is not mapped, and on a stack that is full. */
ACT(memory_bad_handler_stack) {
    stack_t stack = {.ss_sp = SHUT, .ss_size = UNIT};
    sigaltstack(&stack, NULL);
    return LOAD(end);
}
ACT(memory_handler_stack_around) {
    stack_t stack = {.ss_sp = (void *)at(-(UNIT / 2)), .ss_size = UNIT};
    sigaltstack(&stack, NULL);
    return LOAD(end);
}
ACT(memory_blocked) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    return LOAD(end);
}
ACT(memory_ignored) {
    signal(SIGSEGV, SIG_IGN);
    return LOAD(end);
}
static unsigned long deeper(unsigned long n) {
    volatile char much[4096];
    much[n % sizeof much] = (char)n;
    return n > 1000000 ? 0 : deeper(n + 1) + (unsigned char)much[1];
}
ACT(memory_stack_overflow) {
    hide_addresses = 1;
    return deeper(0);
}

/* The handler makes an inaccessible page accessible; then the act continues as if it had been so before. */
static void open_it(ucontext_t *context) {
    (void)context;
    mprotect(SHUT, UNIT, PROT_READ | PROT_WRITE);
}
ACT(memory_opened_by_handler) {
    then = open_it;
    return LOAD(SHUT + 0x18) + 1;
}

/* Signals from other processes have no address. */
ACT(memory_raise) {
    hide_addresses = 1;
    raise(SIGSEGV);
    return 0;
}
