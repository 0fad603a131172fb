/*
 * Rows of `limen bench --map`: jobs in which the kernel touches much memory. A QEMU plugin sends its accesses
 * through a model of TLBs from map_row on; they count between the marks of main.c. Before the rows, the
 * program tells how the kernel is mapped. The first rows show that the model sees what it should.
 */
#define _GNU_SOURCE
#include "bench.h"
#include "store.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#define MIB (1L << 20)

/* Called when a row is prepared: the next row begins, with empty TLBs. */
__attribute__((noinline)) void map_row(void) { __asm__ volatile("nop"); }

/*
 * Memory of the rows with known answers, where nothing else is on any architecture. The model takes that at
 * AS_PAGES for pages of 4 KiB, that at AS_BLOCKS for blocks of 2 MiB, whatever it is.
 */
#define AS_PAGES 0x30000000L
#define AS_BLOCKS 0x38000000L
#define STRIDE_PAGES 2048L

/* Prints the lines of a file, those that begin with one of some words, after `name`. */
static void print_file(const char *name, const char *path, const char *const *begins) {
    char line[512];
    FILE *f = fopen(path, "r");
    if (!f) return;
    while (fgets(line, sizeof line, f)) {
        int wanted = begins == NULL;
        for (const char *const *b = begins; b && *b && !wanted; b++)
            wanted = strncmp(line, *b, strlen(*b)) == 0;
        if (wanted) printf("%s %s", name, line);
    }
    fclose(f);
}

void map_report(void) {
    static const char *const memory[] = {"MemTotal:", "MemFree:", "DirectMap", NULL};
    print_file("map-memory", "/proc/meminfo", memory);
    mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
    print_file("map-count", "/sys/kernel/debug/kernel_map", NULL);
    print_file("map-leaf", "/sys/kernel/debug/kernel_page_tables", NULL);
    printf("map-own %lx %lx %lx\n", AS_PAGES, AS_PAGES + STRIDE_PAGES * PAGE, PAGE);
    printf("map-own %lx %lx %lx\n", AS_BLOCKS, AS_BLOCKS + STRIDE_PAGES * PAGE, 2 * MIB);
    printf("map-end\n");
}

/* One load of each page: the only instructions of user mode that the plugin looks at. */
__attribute__((noinline, noclone)) void stride_touch(const volatile char *p, long pages) {
    for (long i = 0; i < pages; i++) (void)p[i * PAGE];
}

static void stride(long at, long pages) {
    char *p = mmap((void *)at, (size_t)(STRIDE_PAGES * PAGE), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    const long sweeps = 50;
    MUST(p == (char *)at);
    for (long i = 0; i < STRIDE_PAGES; i++) p[i * PAGE] = 1;
    map_row();
    rounds_few();
    for (rounds_start(pages * sweeps); rounds_more();) {
        round_begin();
        for (long i = 0; i < sweeps; i++) stride_touch(p, pages);
        round_end();
    }
}

/* Eight pages fall on each set of the second level, which has five ways: every load walks. */
static void stride_far(long n) { (void)n, stride(AS_PAGES, STRIDE_PAGES); }
/* Four pages do: every load misses the first level, and none the second. */
static void stride_near(long n) { (void)n, stride(AS_PAGES, STRIDE_PAGES / 2); }
/* Four entries hold all of it. */
static void stride_blocks(long n) { (void)n, stride(AS_BLOCKS, STRIDE_PAGES); }

/* A file of half of the free memory, at most 256 MiB, from its begin to its end, 64 KiB at a time. */
static void read_large(long n) {
    static char block[64 << 10];
    struct sysinfo info;
    (void)n;
    MUST(sysinfo(&info) == 0);
    long blocks = (long)((uint64_t)info.freeram * info.mem_unit / 2 / sizeof block);
    if (blocks > 256 * MIB / (long)sizeof block) blocks = 256 * MIB / (long)sizeof block;
    int fd = open("/tmp/large", O_RDWR | O_CREAT | O_TRUNC, 0644);
    MUST(fd >= 0);
    memset(block, 1, sizeof block);
    for (long i = 0; i < blocks; i++) MUST(write(fd, block, sizeof block) == (long)sizeof block);
    map_row();
    rounds_few();
    for (rounds_start(blocks * (long)sizeof block / PAGE); rounds_more();) {
        MUST(lseek(fd, 0, SEEK_SET) == 0);
        round_begin();
        for (long i = 0; i < blocks; i++) MUST(read(fd, block, sizeof block) == (long)sizeof block);
        round_end();
    }
    MUST(unlink("/tmp/large") == 0);
}

static void fork_exec_tiny(long n) {
    char *const arguments[] = {"/tiny", NULL}, *const environment[] = {NULL};
    (void)n;
    map_row();
    rounds_few();
    MEASURE(200) {
        pid_t child = fork();
        if (child == 0) {
            execve(arguments[0], arguments, environment);
            _exit(1);
        }
        reap(child);
    }
}

static void store(int in_file) {
    const long requests = 8000;
    store_start(in_file);
    map_row();
    rounds_few();
    for (rounds_start(requests); rounds_more();) {
        round_begin();
        store_serve(requests);
        round_end();
    }
}

static void store_memory(long n) { (void)n, store(0); }
static void store_file(long n) { (void)n, store(1); }

const struct row map_rows[] = {
    {"stride-far", stride_far, 0},
    {"stride-near", stride_near, 0},
    {"stride-blocks", stride_blocks, 0},
    {"read-large", read_large, 0},
    {"fork-exec", fork_exec_tiny, 0},
    {"store-memory", store_memory, 0},
    {"store-file", store_file, 0},
    {0, 0, 0},
};
