/* The smallest useful module: parameters, a line of the log, a file in /proc, a timer. */
#include "limen.h"

LIMEN_MODULE("hello", "Dual MIT/GPL");
LIMEN_INFO("description", "greets");

static const char *whom = "world";
static int times = 1;
static bool loud;
static unsigned int mask = 0xff;
static int numbers[4] = { 1, 2 };
static unsigned int count = 2;
static char word[16] = "word";
LIMEN_PARAM(whom, charp, 0644);
LIMEN_PARAM(times, int, 0644);
LIMEN_PARAM(loud, bool, 0444);
LIMEN_PARAM(mask, hexint, 0600);
LIMEN_PARAM_ARRAY(numbers, int, &count, 0644);
LIMEN_PARAM_STRING(word, 0644);

static int constant LIMEN_RO_AFTER_INIT;
static struct limen_proc *file;
static struct limen_timer *timer;
static volatile unsigned int ticks;

static int show(struct limen_text *out, void *data) {
    limen_param_lock();
    for (int i = 0; i < times; i++)
        limen_print(out, "%s %s%s", (const char *)data, whom, loud ? "!\n" : "\n");
    limen_param_unlock();
    limen_print(out, "constant %d, ticks %u\n", constant, ticks);
    return 0;
}

static void tick(void *data) {
    (void)data;
    if (++ticks < 3)
        limen_timer_start(timer, 1000000);
}

static int start(void) {
    constant = 42;
    if (limen_probe_write((unsigned int *)&constant, 43) != 0 || constant != 43)
        return -LIMEN_EIO;
    constant = 42;
    file = limen_proc_create("hello", 0444, show, "hello");
    timer = limen_timer_create(tick, 0);
    if (!file || !timer) {
        limen_proc_remove(file);
        limen_timer_delete(timer);
        return -LIMEN_ENOMEM;
    }
    limen_timer_start(timer, 1000000);
    limen_info("hello: loaded, for %s", whom);
    return 0;
}

static void end(void) {
    /* What is read-only from `init` on, constants and code cannot be written. */
    unsigned int bad = (limen_probe_write((unsigned int *)&constant, 1) == 0)
        + (limen_probe_write((unsigned int *)&limen_param_whom, 1) == 0)
        + (limen_probe_write((unsigned int *)((unsigned long)&show & ~3ul), 0) == 0);
    limen_timer_delete(timer);
    limen_proc_remove(file);
    limen_info("hello: unloaded, %u writable, %u ticks", bad, ticks);
}

LIMEN_INIT(start);
LIMEN_EXIT(end);
