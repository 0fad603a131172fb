/*
 * What the files of programs/bench share: how a row measures, and the tables of rows. One operation is one function;
 * main.c runs each in a process of its own, so that a row starts from the same small address space and a crash or a
 * hang costs that row only. tools/limen/src/bench reads what main.c prints.
 *
 * Under `-icount shift=0,sleep=off` the guest's clock counts executed instructions, so "time" below means instructions;
 * without it, nanoseconds.
 */
#ifndef LIMEN_BENCH_H
#define LIMEN_BENCH_H

#include <stdint.h>
#include <sys/types.h>

/* A row: its name, its function, and the sizes it is measured at (0-terminated; none means the row has no size). */
struct row {
    const char *name;
    void (*run)(long n);
    const long *sizes;
};

extern const struct row call_rows[], signal_rows[], fault_rows[], region_rows[], process_rows[], switch_rows[],
    file_rows[], wait_rows[], timer_rows[];

/*
 * A measurement: some rounds to warm up, some that count; `operations` is what one round does. Around each round goes
 * one reading of the clock at either end, whose own cost main.c measures and subtracts.
 */
void rounds_start(long operations);
/* Fewer rounds, for rows that take long; before rounds_start. */
void rounds_few(void);
int rounds_more(void);
void round_begin(void);
void round_end(void);

/* Rounds of `count` times the statement that follows, and nothing else. */
#define MEASURE(count)                                                                    \
    for (rounds_start(count); rounds_more() && (round_begin(), 1); round_end())            \
        for (long each_ = 0; each_ < (count); each_++)

/* Ends the row's process with a message when what must hold does not. */
void fail(const char *what) __attribute__((noreturn));
#define MUST(condition) ((condition) ? (void)0 : fail(#condition))

/* Keeps the compiler from dropping or moving what is measured. */
#define KEEP(value) __asm__ volatile("" : : "r"(value) : "memory")

/* Pages as both kernels map them here. */
#define PAGE 4096L
/* Private anonymous memory in pages of 4 KiB: large pages, which Debian's Linux would use by itself, are refused. */
char *map_pages(long bytes);

/* Registers an rseq area as the C library would (32 bytes); processes made by fork have it, too. */
void register_rseq(void);

/* Waits for a child and insists that it ended with 0. */
void reap(pid_t child);

#endif
