/*
 * A patch that does not come to be: half way, if a tracer of another module changes where `busy_word` of
 * module `busy` goes; else because `start` fails when somebody is in `new_word`, who stays there for a while.
 */
#include "limen.h"

LIMEN_MODULE("patch_fails", "Dual MIT/GPL");

/* For so many milliseconds. */
static int ms;
LIMEN_PARAM(ms, int, 0644);
/* How many are there. */
static int inside;
LIMEN_PARAM(inside, int, 0444);

static void shown(struct limen_text *out) {
    limen_print(out, "patch_fails: this has been live patched\n");
}

static void new_word(struct limen_text *out) {
    __atomic_fetch_add(&inside, 1, __ATOMIC_SEQ_CST);
    limen_sleep_ms((unsigned int)ms);
    __atomic_fetch_sub(&inside, 1, __ATOMIC_SEQ_CST);
    limen_print(out, "new word\n");
}

static const struct limen_patch_function functions[] = {
    { 0, "cmdline_proc_show", (const void *)shown, 0 },
    { "busy", "busy_word", (const void *)new_word, 0 },
};

static int start(void) {
    int error = limen_patch_enable(functions, 2, 0);
    if (error != 0)
        return error;
    /* For half a minute. */
    for (int i = 0; i < 6000 && __atomic_load_n(&inside, __ATOMIC_SEQ_CST) == 0; i++)
        limen_sleep_ms(5);
    return -LIMEN_EIO;
}

static void end(void) {
}

LIMEN_INIT(start);
LIMEN_EXIT(end);
