/*
 * Calls a function of its own whenever a thread may give up its processor, which says so in the trace. For
 * Linux's ftracetest, beside ftrace_direct.
 */
#include "limen.h"

LIMEN_MODULE("ftrace_direct_too", "Dual MIT/GPL");

static struct limen_tracer *direct;

static void my_direct_func(void) {
    limen_trace_puts("schedules\n");
}

static int start(void) {
    return limen_direct_register("schedule", (const void *)my_direct_func, &direct);
}

static void end(void) {
    limen_tracer_unregister(direct);
}

LIMEN_INIT(start);
LIMEN_EXIT(end);
