/*
 * Shared by the files of programs/bench: how a row measures, and the tables of rows. One operation is one
 * function. main.c runs each in a process of its own: a row starts with a small address space that is always
 * the same, and a crash or a hang only costs that row. tools/limen/src/bench reads main.c's output.
 *
 * Under `-icount shift=0,sleep=off` the guest's clock counts executed instructions, so "time" below means
 * instructions; otherwise it means nanoseconds.
 */
#ifndef LIMEN_BENCH_H
#define LIMEN_BENCH_H

#include <stdint.h>
#include <sys/types.h>

/*
 * A row: its name, its function, and the sizes it is measured at (0-terminated; none means the row has no
 * size).
 */
struct row {
    const char *name;
    void (*run)(long n);
    const long *sizes;
};

extern const struct row call_rows[], signal_rows[], fault_rows[], region_rows[], process_rows[],
    switch_rows[], file_rows[], wait_rows[], timer_rows[], watched_rows[], shared_rows[], map_rows[];

/*
 * A measurement: some rounds to warm up, then rounds that count. `operations` is the number of operations in
 * each. The clock is read before and after each round; main.c measures the cost of that and subtracts it.
 */
void rounds_start(long operations);
/* Makes fewer rounds, for rows that take long; to be called before rounds_start. */
void rounds_few(void);
int rounds_more(void);
void round_begin(void);
void round_end(void);

/* Rounds that execute the following statement `count` times, and nothing else. */
#define MEASURE(count)                                                                    \
    for (rounds_start(count); rounds_more() && (round_begin(), 1); round_end())            \
        for (long each_ = 0; each_ < (count); each_++)

/* Ends the row's process with a message, for a condition that does not hold. */
void fail(const char *what) __attribute__((noreturn));
#define MUST(condition) ((condition) ? (void)0 : fail(#condition))

/* Keeps the compiler from removing or moving the measured code. */
#define KEEP(value) __asm__ volatile("" : : "r"(value) : "memory")

/* The page size of both kernels. */
#define PAGE 4096L
/*
 * Private anonymous memory in pages of 4 KiB, without transparent huge pages, which Debian's Linux would use.
 */
char *map_pages(long bytes);

/* Registers an rseq area as the C library would (32 bytes); processes made by fork inherit it. */
void register_rseq(void);

/* Starts a process that shares the descriptors, has used one and sleeps until the caller ends. */
void share_descriptors(void);
/* The same; it also shares the directories and the umask, and has looked up a name. */
void share_directories(void);

/* Tells how the kernel is mapped, before the rows of map.c. */
void map_report(void);

/* Waits for a child; fails unless it exited with 0. */
void reap(pid_t child);

#endif
