/* Exports what dep_b uses. */
#include "limen.h"

LIMEN_MODULE("dep_a", "Dual MIT/GPL");

int dep_a_value = 7;
LIMEN_EXPORT_GPL(dep_a_value);

int dep_a_add(int a, int b);
int dep_a_add(int a, int b) {
    return a + b + dep_a_value;
}
LIMEN_EXPORT(dep_a_add);

static unsigned int slow;
LIMEN_PARAM(slow, uint, 0444);

/* It can be set until `init` has returned. */
static int early LIMEN_RO_AFTER_INIT;
LIMEN_PARAM(early, int, 0644);

static unsigned int slow_exit;
LIMEN_PARAM(slow_exit, uint, 0444);

static int start(void) {
    if (slow)
        limen_sleep_ms(slow);
    return 0;
}
static void end(void) {
    if (slow_exit)
        limen_sleep_ms(slow_exit);
}
LIMEN_INIT(start);
LIMEN_EXIT(end);
