/*
 * A function in which threads stay: whoever reads /proc/busy is in `busy_work` until parameter `hold` is 0,
 * which then says what it is, and calls `busy_word`. Module `patch_busy` replaces both.
 */
#include "limen.h"

LIMEN_MODULE("busy", "Dual MIT/GPL");

static int hold;
LIMEN_PARAM(hold, int, 0644);
/* How many wait. */
static int inside;
LIMEN_PARAM(inside, int, 0444);

static struct limen_proc *file;

__attribute__((noinline, noclone)) void busy_word(struct limen_text *out);
__attribute__((noinline, noclone)) void busy_work(struct limen_text *out);

__attribute__((noinline, noclone)) void busy_word(struct limen_text *out) {
    limen_print(out, "old word\n");
}

__attribute__((noinline, noclone)) void busy_work(struct limen_text *out) {
    __atomic_fetch_add(&inside, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&hold, __ATOMIC_SEQ_CST))
        limen_sleep_ms(5);
    __atomic_fetch_sub(&inside, 1, __ATOMIC_SEQ_CST);
    limen_print(out, "old work\n");
    busy_word(out);
}

static int show(struct limen_text *out, void *data) {
    (void)data;
    busy_work(out);
    return 0;
}

static int start(void) {
    file = limen_proc_create("busy", 0444, show, 0);
    return file ? 0 : -LIMEN_ENOMEM;
}

static void end(void) {
    limen_proc_remove(file);
}

LIMEN_INIT(start);
LIMEN_EXIT(end);
