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

/* Every thread that is woken goes through these; which of them are functions of their own is up to the
 * compiler. */
static const char *const functions[] = { "wake_task", "wake_locked" };

static int start(void) {
    int error = -LIMEN_ENOENT;
    for (unsigned int n = 0; n < sizeof functions / sizeof *functions && error == -LIMEN_ENOENT; n++)
        error = limen_direct_register(functions[n], (const void *)my_direct_func, &direct);
    return error;
}

static void end(void) {
    limen_tracer_unregister(direct);
}

LIMEN_INIT(start);
LIMEN_EXIT(end);
