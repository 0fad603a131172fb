/* Replaces the functions of module `busy`. A thread calls the old ones or the new ones, never one of each. */
#include "limen.h"

LIMEN_MODULE("patch_busy", "Dual MIT/GPL");

static volatile unsigned long calls;

static void new_word(struct limen_text *out) {
    calls++;
    limen_print(out, "new word\n");
}

/* What `busy_work` would call, if it could: the function itself, which is replaced. */
static void new_work(struct limen_text *out) {
    calls++;
    limen_print(out, "new work\n");
    new_word(out);
}

static const struct limen_patch_function functions[] = {
    { "busy", "busy_work", (const void *)new_work, 0 },
    { "busy", "busy_word", (const void *)new_word, 0 },
};

static int start(void) {
    return limen_patch_enable(functions, 2, 0);
}

static void end(void) {
    limen_info("patch_busy: called %lu times", calls);
}

LIMEN_INIT(start);
LIMEN_EXIT(end);
