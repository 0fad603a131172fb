/*
 * Setting and steering the clocks: what is refused, what is told, and that clocks and sleeps go by it.
 * Called by tools/limen/src/test/programs.rs, on every architecture; on Linux it can be run by hand, as root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"

#ifndef ADJ_SETOFFSET
#define ADJ_SETOFFSET 0x0100
#endif

static struct timex t;

static int adjust(unsigned modes) {
    t.modes = modes;
    return adjtimex(&t);
}

static double now(clockid_t id) {
    struct timespec ts;
    clock_gettime(id, &ts);
    return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* The same without the vDSO. */
static double asked(clockid_t id) {
    struct timespec ts;
#if defined SYS_clock_gettime64
    long long both[2];
    syscall(SYS_clock_gettime64, id, both);
    ts.tv_sec = both[0];
    ts.tv_nsec = both[1];
#else
    syscall(SYS_clock_gettime, id, &ts);
#endif
    return ts.tv_sec + ts.tv_nsec / 1e9;
}

static void refused(void) {
    memset(&t, 0, sizeof t);
    t.tick = 8999;
    CHECK(adjust(ADJ_TICK) == -1 && errno == EINVAL);
    t.tick = 11001;
    CHECK(adjust(ADJ_TICK) == -1 && errno == EINVAL);
    CHECK(adjust(0x8000) == -1 && errno == EINVAL);
    t.time.tv_usec = 1000000;
    CHECK(adjust(ADJ_SETOFFSET) == -1 && errno == EINVAL);
    t.time.tv_usec = -1;
    CHECK(adjust(ADJ_SETOFFSET) == -1 && errno == EINVAL);
    t.time.tv_usec = 1000000000;
    CHECK(adjust(ADJ_SETOFFSET | ADJ_NANO) == -1 && errno == EINVAL);
    /* Before the machine was started, or before 1970. */
    t.time.tv_sec = -now(CLOCK_REALTIME);
    t.time.tv_usec = 0;
    CHECK(adjust(ADJ_SETOFFSET) == -1 && errno == EINVAL);
    struct timespec absurd[] = {{0, 0}, {-1, 0}, {1, -1}, {1, 1000000000}};
    for (unsigned i = 0; i < sizeof absurd / sizeof *absurd; i++)
        CHECK(clock_settime(CLOCK_REALTIME, absurd + i) == -1 && errno == EINVAL);
    if (sizeof(time_t) == 8) {
        struct timespec far = {.tv_sec = (time_t)8277292036LL};
        CHECK(clock_settime(CLOCK_REALTIME, &far) == -1 && errno == EINVAL);
    }
    CHECK(clock_settime(CLOCK_MONOTONIC, absurd) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_settimeofday, &(struct timeval){1, 1000001}, NULL) == -1 && errno == EINVAL);
    /* Other clocks are not adjusted. */
    for (int id = 1; id < 12; id++) {
        t.modes = 0;
        CHECK(clock_adjtime(id, &t) == -1 && errno == (id == 10 ? EINVAL : EOPNOTSUPP));
    }
    CHECK(clock_adjtime(12, &t) == -1 && errno == EINVAL);
    CHECK(clock_adjtime(-6, &t) == -1 && errno == EOPNOTSUPP);
    CHECK(clock_adjtime(3 - 8 * 100, &t) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_adjtimex, 16) == -1 && errno == EFAULT);
    int status;
    pid_t child = fork();
    if (child == 0) {
        failed = 0;
        struct timespec good = {1000000000, 0};
        CHECK(setresuid(1234, 1234, 1234) == 0);
        CHECK(adjust(0) >= 0 && adjust(0xa001) >= 0);
        CHECK(adjust(ADJ_STATUS) == -1 && errno == EPERM && adjust(0x8001) == -1 && errno == EPERM);
        CHECK(adjust(ADJ_SETOFFSET) == -1 && errno == EPERM);
        CHECK(clock_settime(CLOCK_REALTIME, &good) == -1 && errno == EPERM);
        CHECK(clock_settime(CLOCK_REALTIME, absurd + 1) == -1 && errno == EINVAL);
        _exit(failed);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void told(void) {
    memset(&t, 0, sizeof t);
    CHECK(adjust(0) >= 0 && t.tick == 10000 && t.precision == 1 && t.tolerance == 32768000 &&
          t.ppsfreq == 0 && t.shift == 0);
    CHECK(llabs((long long)t.time.tv_sec - time(NULL)) <= 1);
    /* Bits that are only told cannot be set. */
    t.status = 0xff00 | STA_UNSYNC;
    CHECK(adjust(ADJ_STATUS) == TIME_ERROR && t.status == STA_UNSYNC);
    CHECK(adjust(ADJ_NANO) == TIME_ERROR && t.status == (STA_UNSYNC | STA_NANO));
    t.status = 0;
    CHECK(adjust(ADJ_STATUS) == TIME_OK && t.status == STA_NANO);
    CHECK(adjust(ADJ_MICRO) == TIME_OK && t.status == 0);
    /* What is too much is cut. */
    t.freq = 40000000;
    CHECK(adjust(ADJ_FREQUENCY) == TIME_OK && t.freq == 32768000);
    t.freq = -40000000;
    CHECK(adjust(ADJ_FREQUENCY) == TIME_OK && t.freq == -32768000);
    t.freq = 12345;
    CHECK(adjust(ADJ_FREQUENCY) == TIME_OK && t.freq == 12345);
    t.constant = 3;
    CHECK(adjust(ADJ_TIMECONST) == TIME_OK && t.constant == 7);
    t.constant = 100;
    CHECK(adjust(ADJ_TIMECONST) == TIME_OK && t.constant == 10);
    t.constant = -50;
    CHECK(adjust(ADJ_TIMECONST) == TIME_OK && t.constant == 4);
    t.maxerror = 1000;
    t.esterror = 77;
    CHECK(adjust(ADJ_MAXERROR | ADJ_ESTERROR) == TIME_OK && t.maxerror >= 1000 && t.maxerror <= 1500 &&
          t.esterror == 77);
    t.constant = 37;
    CHECK(adjust(ADJ_TAI) == TIME_OK && t.tai == 37 && fabs(now(CLOCK_TAI) - now(CLOCK_REALTIME) - 37) < 0.5);
    t.constant = -1;
    CHECK(adjust(ADJ_TAI) == TIME_OK && t.tai == 37);
    t.constant = 100001;
    CHECK(adjust(ADJ_TAI) == TIME_OK && t.tai == 37);
    t.constant = 0;
    CHECK(adjust(ADJ_TAI) == TIME_OK && t.tai == 0);
    /* An offset needs a loop to put it in; half a second is the most. */
    t.offset = 1000;
    CHECK(adjust(ADJ_OFFSET) == TIME_OK && t.offset == 0);
    t.status = STA_PLL | STA_FREQHOLD;
    CHECK(adjust(ADJ_STATUS) == TIME_OK);
    t.offset = 100000000;
    CHECK(adjust(ADJ_OFFSET) == TIME_OK && labs(t.offset - 500000) <= 1);
    t.status = 0;
    t.freq = 0;
    CHECK(adjust(ADJ_STATUS | ADJ_FREQUENCY) == TIME_OK && t.status == 0);
    t.offset = 0;
    t.status = STA_PLL;
    CHECK(adjust(ADJ_STATUS | ADJ_OFFSET) == TIME_OK && t.offset == 0);
    t.status = 0;
    CHECK(adjust(ADJ_STATUS) == TIME_OK && t.status == 0);
    /* adjtime has a figure of its own. */
    struct timeval delta = {0, 700}, left = {9, 9};
    CHECK(adjtime(&delta, &left) == 0 && left.tv_sec == 0 && left.tv_usec == 0);
    CHECK(adjtime(NULL, &left) == 0 && left.tv_sec == 0 && left.tv_usec > 0 && left.tv_usec <= 700);
    delta.tv_usec = 0;
    CHECK(adjtime(&delta, NULL) == 0 && adjtime(NULL, &left) == 0 && left.tv_usec == 0);
    /* After the clock was set nobody knows how far it is off. */
    t.status = 0;
    t.maxerror = 10;
    adjust(ADJ_STATUS | ADJ_MAXERROR);
    t.time.tv_sec = 100;
    t.time.tv_usec = 0;
    double before = now(CLOCK_REALTIME);
    CHECK(adjust(ADJ_SETOFFSET) == TIME_ERROR && t.status == STA_UNSYNC && t.maxerror == 16000000);
    double moved = now(CLOCK_REALTIME) - before;
    CHECK(moved > 99.9 && moved < 105);
    t.time.tv_sec = -101;
    t.time.tv_usec = 999999;
    CHECK(adjust(ADJ_SETOFFSET) == TIME_ERROR && fabs(now(CLOCK_REALTIME) - before) < 5);
}

static int near(double a, double b) {
    if (fabs(a - b) < 0.01) return 1;
    printf("%f, not %f\n", a, b);
    return 0;
}

/* A clock and the raw one at the same moment: of many pairs the one with the least time in between. */
static double both(double (*read)(clockid_t), clockid_t id, double *raw) {
    double best = 0, least = 1;
    for (int tries = 0; tries < 200 && least > 0.00001; tries++) {
        double before = read(CLOCK_MONOTONIC_RAW), one = read(id);
        double between = read(CLOCK_MONOTONIC_RAW) - before;
        if (between >= least) continue;
        least = between;
        best = one;
        *raw = before + between / 2;
    }
    return best;
}

/* All clocks but the raw one go faster by `rate` than that, and a sleep ends by CLOCK_MONOTONIC. */
static void all_faster(double rate) {
    static const struct { clockid_t id; double (*read)(clockid_t); } ways[] = {
        {CLOCK_MONOTONIC, now}, {CLOCK_MONOTONIC, asked}, {CLOCK_REALTIME, now}, {CLOCK_BOOTTIME, now}};
    struct timespec pause = {0, 400000000};
    double raw[4], then[4];
    for (int i = 0; i < 4; i++) then[i] = both(ways[i].read, ways[i].id, &raw[i]);
    double slept = 9;
    /* A busy host may let a guest sleep for longer, but not always. */
    for (int tries = 0; tries < 5 && slept >= 0.4 / (1 + rate) + 0.2; tries++) {
        double began = now(CLOCK_MONOTONIC_RAW), shown = now(CLOCK_MONOTONIC);
        nanosleep(&pause, NULL);
        slept = now(CLOCK_MONOTONIC_RAW) - began;
        CHECK(now(CLOCK_MONOTONIC) - shown >= 0.4 && slept >= 0.399 / (1 + rate));
    }
    CHECK(slept < 0.4 / (1 + rate) + 0.2);
    for (int i = 0; i < 4; i++) {
        double end, last = both(ways[i].read, ways[i].id, &end);
        CHECK(near((last - then[i]) / (end - raw[i]) - 1, rate));
    }
}

/* Clocks go by it, with and without the vDSO, and sleeps as well. */
static void steered(void) {
    for (int tick = 11000; tick >= 9000; tick -= 1000) {
        t.tick = tick;
        CHECK(adjust(ADJ_TICK) >= 0 && t.tick == tick);
        double rate = tick / 10000.0 - 1;
        all_faster(rate);
        double last = 0;
        for (int i = 0; i < 20000; i++) {
            double one = i & 1 ? asked(CLOCK_MONOTONIC) : now(CLOCK_MONOTONIC);
            if (one < last) {
                CHECK(!"time goes back");
                break;
            }
            last = one;
        }
    }
    t.tick = 10000;
    t.freq = 500 << 16;
    CHECK(adjust(ADJ_TICK | ADJ_FREQUENCY) >= 0 && t.freq == 500 << 16);
    double raw, end, then = both(now, CLOCK_MONOTONIC, &raw);
    sleep(2);
    double gained = both(now, CLOCK_MONOTONIC, &end) - then;
    gained = gained / (end - raw) - 1;
    CHECK(gained > 0.00045 && gained < 0.00055);
    /* What adjtime has to make up for is made up for: half a millisecond in each second that begins. */
    t.freq = 0;
    CHECK(adjust(ADJ_FREQUENCY) >= 0);
    struct timeval left = {9, 9};
    /* A thread that is late in a busy host makes more or less of it. */
    for (int tries = 0; tries < 5; tries++) {
        struct timeval delta = {0, 900};
        then = both(now, CLOCK_MONOTONIC, &raw);
        CHECK(adjtime(&delta, NULL) == 0);
        usleep(3100000);
        gained = both(now, CLOCK_MONOTONIC, &end) - then;
        gained -= end - raw;
        if (gained > 0.0007 && gained < 0.0012) break;
    }
    CHECK(gained > 0.0007 && gained < 0.0012 && adjtime(NULL, &left) == 0 && left.tv_usec == 0);
}

/* Whether the clock is in a state between two times of the raw one; -1: the second one came too early. */
static int comes_to(int state, double from, double end) {
    while (now(CLOCK_MONOTONIC_RAW) < from) usleep(10000);
    while (adjust(0) != state && now(CLOCK_MONOTONIC_RAW) < end - 0.2) usleep(10000);
    int good = adjust(0) == state;
    return now(CLOCK_MONOTONIC_RAW) < end ? good : -1;
}

/*
 * A second is put in at the end of the day. Returns 0 if the machine stood still for so long that a state was
 * over before it was looked for.
 */
static int leap(void) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    time_t midnight = end.tv_sec - end.tv_sec % 86400 + 86400;
    end = (struct timespec){midnight - 2, 0};
    CHECK(clock_settime(CLOCK_REALTIME, &end) == 0);
    t.status = STA_INS;
    t.maxerror = 0;
    adjust(ADJ_STATUS | ADJ_MAXERROR);
    double raw = 0, begun = both(now, CLOCK_REALTIME, &raw);
    /* It is at the end of a second that the kernel looks at the status. */
    if (begun >= midnight - 1) return 0;
    /* What the raw clock shows at midnight, and then when the other one was read. */
    double turn = raw + (midnight - begun), then = 0;
    int good = comes_to(TIME_INS, raw, turn);
    if (good < 0) return 0;
    CHECK(good);
    good = comes_to(TIME_OOP, turn + 0.5, turn + 1);
    if (good < 0) return 0;
    CHECK(good && t.tai == 1);
    double shown = both(now, CLOCK_REALTIME, &then);
    CHECK(near(shown - midnight, then - turn - 1));
    good = comes_to(TIME_WAIT, turn + 1.7, turn + 10);
    if (good < 0) return 0;
    CHECK(good);
    shown = both(now, CLOCK_REALTIME, &then);
    CHECK(near(shown - midnight, then - turn - 1));
    return 1;
}

static void leaps(void) {
    int seen = 0;
    for (int tries = 0; tries < 5 && !seen; tries++) {
        seen = leap();
        t.status = 0;
        adjust(ADJ_STATUS);
        usleep(1200000);
        /* From some states there is another one in between. */
        for (int looks = 0; looks < 200 && adjust(0) != TIME_OK; looks++) usleep(10000);
        CHECK(adjust(0) == TIME_OK);
        t.constant = 0;
        t.status = STA_UNSYNC;
        adjust(ADJ_TAI | ADJ_STATUS);
    }
    CHECK(seen);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    refused();
    told();
    steered();
    leaps();
    return report();
}
