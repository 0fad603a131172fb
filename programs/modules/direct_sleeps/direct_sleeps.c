/*
 * Functions that are called directly and sleep. Both watch `sleeps_target`, which whoever reads
 * /proc/direct_sleeps calls once; they sleep for `ms` milliseconds and until `hold` is 0, and call it again.
 * Reading /proc/direct_change has the other of them called (`act` 1), or unregisters and registers the first
 * again (`act` 2), and says whether somebody is still in the former, and what was wrong so far.
 */
#include "limen.h"

LIMEN_MODULE("direct_sleeps", "Dual MIT/GPL");

static int act = 1;
LIMEN_PARAM(act, int, 0644);
static unsigned int ms = 20;
LIMEN_PARAM(ms, uint, 0644);
static int hold;
LIMEN_PARAM(hold, int, 0644);

static struct limen_proc *file, *changes;
static struct limen_tracer *direct;
static int is_second;
/* How many threads are in each function, how many calls of each have ended, and what was wrong. */
static unsigned long inside[2], calls[2], wrong, targets;

#define COUNT(what, n) __atomic_add_fetch(&(what), n, __ATOMIC_SEQ_CST)
#define LOOK(what) __atomic_load_n(&(what), __ATOMIC_SEQ_CST)

__attribute__((noinline, noclone)) long sleeps_target(long a, long b, long c, long d);
__attribute__((noinline, noclone)) long sleeps_target(long a, long b, long c, long d) {
    COUNT(targets, 1);
    return a * 2 + b * 3 + c * 5 + d * 7;
}

static void sleep_in(int which, long a, long b, long c, long d) {
    COUNT(inside[which], 1);
    /* Does not come here again. */
    long result = sleeps_target(11, 22, 33, 44);
    if (ms)
        limen_sleep_ms(ms);
    while (LOOK(hold))
        limen_sleep_ms(5);
    result += sleeps_target(11, 22, 33, 44);
    if (result != 2 * 561 || a != 11 || b != 22 || c != 33 || d != 44)
        COUNT(wrong, 1);
    COUNT(calls[which], 1);
    COUNT(inside[which], -1);
}

static void first(long a, long b, long c, long d) {
    sleep_in(0, a, b, c, d);
}

static void second(long a, long b, long c, long d) {
    sleep_in(1, a, b, c, d);
}

static int show(struct limen_text *out, void *data) {
    (void)data;
    long result = sleeps_target(11, 22, 33, 44);
    if (result != 561)
        COUNT(wrong, 1);
    limen_print(out, "%ld\n", result);
    return 0;
}

/* One reader at a time. */
static int change(struct limen_text *out, void *data) {
    (void)data;
    int error = 0, former = is_second;
    if (act == 1) {
        error = limen_direct_modify(direct, former ? (const void *)first : (const void *)second);
        if (error == 0)
            is_second = !former;
    } else if (act == 2) {
        limen_tracer_unregister(direct);
        direct = 0;
    }
    unsigned long in = act == 0 ? LOOK(inside[0]) + LOOK(inside[1]) : LOOK(inside[former]);
    if (act == 2) {
        is_second = 0;
        error = limen_direct_register("sleeps_target", (const void *)first, &direct);
    }
    limen_print(out, "error %d, inside %lu, wrong %lu, first %lu, second %lu\n", -error, in, LOOK(wrong),
        LOOK(calls[0]), LOOK(calls[1]));
    return 0;
}

static int start(void) {
    int error = limen_direct_register("sleeps_target", (const void *)first, &direct);
    if (error != 0)
        return error;
    file = limen_proc_create("direct_sleeps", 0444, show, 0);
    changes = limen_proc_create("direct_change", 0444, change, 0);
    return file && changes ? 0 : -LIMEN_ENOMEM;
}

static void end(void) {
    limen_tracer_unregister(direct);
    unsigned long in = LOOK(inside[0]) + LOOK(inside[1]);
    limen_info("direct_sleeps: unloaded, %lu inside, %lu wrong", in, LOOK(wrong));
    limen_proc_remove(file);
    limen_proc_remove(changes);
}

LIMEN_INIT(start);
LIMEN_EXIT(end);
