/*
 * Calls a function of its own whenever a thread is woken, which says so in the trace. Linux's ftracetest
 * knows a module of this name and that function.
 */
#include "limen.h"

LIMEN_MODULE("ftrace_direct", "Dual MIT/GPL");

static struct limen_tracer *direct;

static void my_direct_func(void *thread) {
    limen_trace_printk("waking up a thread (%p)\n", thread);
}

static int start(void) {
    return limen_direct_register("wake_task", (const void *)my_direct_func, &direct);
}

static void end(void) {
    limen_tracer_unregister(direct);
}

LIMEN_INIT(start);
LIMEN_EXIT(end);
