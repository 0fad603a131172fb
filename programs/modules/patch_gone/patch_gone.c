/*
 * Replaces what is called when a process is gone: by the thread that ends, when it has given its number back,
 * if nobody waits for the process. It stays there until parameter `hold` is 0.
 */
#include "limen.h"

LIMEN_MODULE("patch_gone", "Dual MIT/GPL");

static int hold;
LIMEN_PARAM(hold, int, 0644);
/* Whether the thread stays that ends the next process. */
static int armed;
LIMEN_PARAM(armed, int, 0644);
/* How many are there. */
static int inside;
LIMEN_PARAM(inside, int, 0444);

/* Nothing is mounted where the directories of processes were. */
static void gone(const void *process) {
    (void)process;
    if (!__atomic_exchange_n(&armed, 0, __ATOMIC_SEQ_CST))
        return;
    __atomic_fetch_add(&inside, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&hold, __ATOMIC_SEQ_CST))
        limen_sleep_ms(5);
    __atomic_fetch_sub(&inside, 1, __ATOMIC_SEQ_CST);
}

static const struct limen_patch_function functions[] = {
    { 0, "process_gone", (const void *)gone, 0 },
};

static int start(void) {
    return limen_patch_enable(functions, 1, 0);
}

static void end(void) {
}

LIMEN_INIT(start);
LIMEN_EXIT(end);
