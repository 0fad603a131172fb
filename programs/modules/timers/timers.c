/*
 * Timers that are cancelled: what is cancelled does not expire, what expires does so once, and when
 * cancelling returns the function does not run. `init` fails with -EIO if one of that is not so, and the log
 * says where.
 */
#include "limen.h"

LIMEN_MODULE("timers", "Dual MIT/GPL");

static unsigned int rounds = 1000;
LIMEN_PARAM(rounds, uint, 0444);

static struct limen_timer *timer;
static volatile unsigned int begun, ended;
/* Nanoseconds after which the function starts its timer again, and how long it runs; 0: not. */
static volatile unsigned int again, busy;

static void spin(unsigned long long ns) {
    unsigned long long until = limen_now_ns() + ns;
    while (limen_now_ns() < until)
        ;
}

static void expired(void *data) {
    (void)data;
    begun++;
    if (busy)
        spin(busy);
    if (again)
        limen_timer_start(timer, again);
    ended++;
}

static int wrong(int line) {
    limen_error("timers: line %d, %u begun, %u ended", line, begun, ended);
    return -LIMEN_EIO;
}
#define MUST(condition)            \
    do {                           \
        if (!(condition))          \
            return wrong(__LINE__); \
    } while (0)

/* One that is far away, one that is not armed, one that was put off. */
static int simple(void) {
    MUST(limen_timer_cancel(timer) == 0);
    limen_timer_start(timer, 3600000000000ull);
    MUST(limen_timer_cancel(timer) == 1 && limen_timer_cancel(timer) == 0);
    limen_timer_start(timer, 1000000);
    MUST(limen_timer_cancel(timer) == 1 || begun == 1);
    unsigned int before = begun;
    limen_sleep_ms(20);
    MUST(begun == before);
    limen_timer_start(timer, 1000000);
    limen_sleep_ms(50);
    MUST(begun == before + 1 && ended == begun && limen_timer_cancel(timer) == 0);
    limen_timer_start(timer, 20000000);
    limen_timer_start(timer, 3600000000000ull);
    limen_sleep_ms(1);
    before = begun;
    limen_sleep_ms(60);
    MUST(limen_timer_cancel(timer) == 1 && begun == before);
    return 0;
}

/* About when it expires, perhaps on another CPU. */
static int racing(void) {
    busy = 20000;
    for (unsigned int n = 0; n < rounds; n++) {
        unsigned int before = begun;
        limen_timer_start(timer, 1000 * (n % 64));
        spin(1000 * (n % 53));
        int cancelled = limen_timer_cancel(timer);
        MUST(ended == begun);
        MUST(cancelled ? begun == before : begun == before + 1);
    }
    return 0;
}

/* One that starts itself ends for good. */
static int by_itself(void) {
    busy = 0;
    for (unsigned int n = 0; n < 20; n++) {
        again = 200000;
        limen_timer_start(timer, 1000);
        limen_sleep_ms(2);
        limen_timer_cancel(timer);
        unsigned int before = begun;
        MUST(ended == begun);
        limen_sleep_ms(2);
        MUST(begun == before && limen_timer_cancel(timer) == 0);
    }
    again = 0;
    return 0;
}

static int start(void) {
    timer = limen_timer_create(expired, 0);
    if (!timer)
        return -LIMEN_ENOMEM;
    int error = simple();
    if (!error)
        error = racing();
    if (!error)
        error = by_itself();
    /* It is armed when it is deleted. */
    again = 200000;
    limen_timer_start(timer, 0);
    limen_timer_delete(timer);
    unsigned int before = begun;
    limen_sleep_ms(5);
    if (!error && (begun != before || ended != begun))
        error = wrong(__LINE__);
    limen_info("timers: %u expired", begun);
    return error;
}

static void end(void) {
}

LIMEN_INIT(start);
LIMEN_EXIT(end);
