/* Fails: `init` returns -error, after it has made things that it does not give back. */
#include "limen.h"

LIMEN_MODULE("bad", "Dual MIT/GPL");

static int error = 19;
static unsigned int slow;
static bool leave;
static bool warns;
LIMEN_PARAM(error, int, 0);
LIMEN_PARAM(slow, uint, 0);
LIMEN_PARAM(leave, bool, 0);
LIMEN_PARAM(warns, bool, 0);

static void expired(void *data) {
    (void)data;
}

static int show(struct limen_text *out, void *data) {
    (void)out;
    (void)data;
    return 0;
}

static int start(void) {
    if (slow)
        limen_sleep_ms(slow);
    if (leave) {
        limen_timer_start(limen_timer_create(expired, 0), 3600000000000ull);
        limen_proc_create("bad", 0444, show, 0);
    }
    if (warns)
        limen_warn_text("bad warns", 9);
    return -error;
}
static void end(void) {
}
LIMEN_INIT(start);
LIMEN_EXIT(end);
