/*
 * Instructions of a module that may fault: what can be read is read, what cannot be accessed is an error.
 * Fails with EIO if it was otherwise.
 */
#include "limen.h"

LIMEN_MODULE("faults", "Dual MIT/GPL");

/* How many accesses went well, and how many were errors. */
static int good;
LIMEN_PARAM(good, int, 0444);
static int bad;
LIMEN_PARAM(bad, int, 0444);

static unsigned long variable = 1234567;
static const unsigned long constant = 7654321;

static void read(const unsigned long *from, unsigned long expected) {
    unsigned long value;
    if (limen_get_nofault(&value, from) != 0)
        bad++;
    else if (value == expected)
        good++;
}

static void write(unsigned long *to, unsigned long value) {
    if (limen_put_nofault(to, value) != 0)
        bad++;
    else
        good++;
}

static int start(void) {
    unsigned long *constants = (unsigned long *)&constant;
    __asm__("" : "+r"(constants));
    for (int round = 0; round < 100; round++) {
        read(&variable, 1234567);
        read(constants, 7654321);
        write(&variable, 1234567);
        /* Code can be read, and written as little as constants. */
        write(constants, 1);
        write((unsigned long *)&start, 1);
        /* A program's first page, which is not there; the last word of all. */
        read((const unsigned long *)16, 0);
        read((const unsigned long *)-sizeof(long), 0);
    }
    limen_info("faults: %d accesses, %d errors\n", good, bad);
    return good == 300 && bad == 400 && constant == 7654321 ? 0 : -LIMEN_EIO;
}

static void end(void) {
}

LIMEN_INIT(start);
LIMEN_EXIT(end);
