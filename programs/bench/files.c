/* Files of a tmpfs: open, stat, list a directory, and copy from and to the page cache. */
#define _GNU_SOURCE
#include "bench.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MIB (1L << 20)

static int make_file(long size) {
    static char block[64 << 10];
    int fd = open("/tmp/file", O_RDWR | O_CREAT | O_TRUNC, 0644);
    MUST(fd >= 0);
    for (long i = 0; i < size; i += (long)sizeof block)
        MUST(write(fd, block, sizeof block) == (long)sizeof block);
    return fd;
}

static void open_close(long n) {
    (void)n;
    close(make_file(0));
    MEASURE(500) {
        int fd = open("/tmp/file", O_RDONLY);
        MUST(fd >= 0);
        close(fd);
    }
}

static void open_close_shared(long n) {
    share_descriptors();
    open_close(n);
}

static void stat_call(long n) {
    struct stat s;
    (void)n;
    close(make_file(0));
    MEASURE(500) stat("/tmp/file", &s);
}

static void stat_shared(long n) {
    share_directories();
    stat_call(n);
}

/* The cost per entry of a directory with n entries. */
static void getdents(long n) {
    static char buffer[32 << 10];
    char name[64];
    MUST(mkdir("/tmp/dir", 0755) == 0);
    for (long i = 0; i < n; i++) {
        snprintf(name, sizeof name, "/tmp/dir/entry-%ld", i);
        int fd = open(name, O_WRONLY | O_CREAT, 0644);
        MUST(fd >= 0);
        close(fd);
    }
    int fd = open("/tmp/dir", O_RDONLY | O_DIRECTORY);
    MUST(fd >= 0);
    long turns = n < 1000 ? 1000 / n : 1;
    for (rounds_start(turns * n); rounds_more();) {
        round_begin();
        for (long i = 0; i < turns; i++) {
            MUST(lseek(fd, 0, SEEK_SET) == 0);
            while (syscall(SYS_getdents64, fd, buffer, sizeof buffer) > 0) {
            }
        }
        round_end();
    }
    for (long i = 0; i < n; i++) {
        snprintf(name, sizeof name, "/tmp/dir/entry-%ld", i);
        unlink(name);
    }
    MUST(rmdir("/tmp/dir") == 0);
}

/* Reads a whole buffer at offset 0 of a file in the page cache; the buffer has been touched before. */
static void read_file(long bytes) {
    static char buffer[MIB];
    int fd = make_file(MIB);
    MEASURE((MIB / bytes < 200 ? MIB / bytes * 4 : 200)) MUST(pread(fd, buffer, (size_t)bytes, 0) == bytes);
}

static void write_file(long bytes) {
    static char buffer[MIB];
    int fd = make_file(MIB);
    for (long i = 0; i < MIB; i += PAGE) ((volatile char *)buffer)[i] = 1;
    MEASURE((MIB / bytes < 200 ? MIB / bytes * 4 : 200)) MUST(pwrite(fd, buffer, (size_t)bytes, 0) == bytes);
}

static const long entry_counts[] = {10, 100, 1000, 10000, 0};
static const long byte_counts[] = {4096, MIB, 0};

const struct row file_rows[] = {
    {"open-close", open_close, 0},
    {"open-close-shared", open_close_shared, 0},
    {"stat", stat_call, 0},
    {"stat-shared", stat_shared, 0},
    {"getdents", getdents, entry_counts},
    {"read-file", read_file, byte_counts},
    {"write-file", write_file, byte_counts},
    {0, 0, 0},
};
