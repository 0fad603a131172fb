/* A tracer that has `other_word` run instead of `busy_word` of module `busy`; it stays there for a while. */
#include "limen.h"

LIMEN_MODULE("divert", "Dual MIT/GPL");

/* For so many milliseconds. */
static int ms;
LIMEN_PARAM(ms, int, 0644);
/* How many are there. */
static int inside;
LIMEN_PARAM(inside, int, 0444);

static struct limen_tracer *tracer;

static void other_word(struct limen_text *out) {
    __atomic_fetch_add(&inside, 1, __ATOMIC_SEQ_CST);
    if (ms > 0)
        limen_sleep_ms((unsigned int)ms);
    __atomic_fetch_sub(&inside, 1, __ATOMIC_SEQ_CST);
    limen_print(out, "other word\n");
}

static void trace(unsigned long ip, unsigned long parent, void *data, struct limen_regs *regs) {
    (void)ip;
    (void)parent;
    (void)data;
    limen_regs_set_ip(regs, (const void *)other_word);
}

static int start(void) {
    return limen_tracer_register("busy_word", LIMEN_TRACER_IPMODIFY, trace, 0, &tracer);
}

static void end(void) {
    limen_tracer_unregister(tracer);
}

LIMEN_INIT(start);
LIMEN_EXIT(end);
