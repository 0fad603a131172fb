/* Timers: setting one that never fires, and one that fires at once. */
#define _GNU_SOURCE
#include "bench.h"

#include <stdint.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

/* Set and taken back: two calls. */
static void timer_arm(long n) {
    struct itimerspec far = {.it_value = {.tv_sec = 10000}}, off = {.it_value = {.tv_sec = 0}};
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    (void)n;
    MUST(fd >= 0);
    MEASURE(500) {
        timerfd_settime(fd, 0, &far, NULL);
        timerfd_settime(fd, 0, &off, NULL);
    }
}

/* Set to a nanosecond from now, and waited for: the timer's interrupt and the wake-up are in it. */
static void timer_expire(long n) {
    struct itimerspec soon = {.it_value = {.tv_nsec = 1}};
    uint64_t times;
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    (void)n;
    MUST(fd >= 0);
    MEASURE(200) {
        timerfd_settime(fd, 0, &soon, NULL);
        MUST(read(fd, &times, sizeof times) == sizeof times);
    }
}

const struct row timer_rows[] = {
    {"timer-arm", timer_arm, 0},
    {"timer-expire", timer_expire, 0},
    {0, 0, 0},
};
