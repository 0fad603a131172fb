/* The values of arguments. Descriptors, paths and addresses are the same numbers in every run. */
#ifndef LIMEN_ERRORS_VALUES_H
#define LIMEN_ERRORS_VALUES_H

#include <fcntl.h>
#include <stddef.h>

#define TREE "/tmp/errors"
#define USER 1000

/* Memory: areas of UNIT bytes, which is a multiple of every page size, each with a hole behind it. */
#define UNIT 0x10000ul
#define OPEN 0x20000000ul  /* read, write; zeros */
#define SHUT 0x20020000ul  /* nothing */
#define FIXED 0x20040000ul /* read; zeros */
#define JUNK 0x20060000ul  /* read, write; all ones */
#define HOLE (OPEN + UNIT)
#define EDGE (HOLE - 4) /* the last four bytes before a hole */
#define PATH_AREA 0x21000000ul
#define RESULTS 0x28000000ul

enum {
    FD_FILE = 20,
    FD_READ_ONLY,
    FD_WRITE_ONLY,
    FD_DIR,
    FD_PIPE_READ,
    FD_PIPE_WRITE,
    FD_STREAM,
    FD_STREAM_PEER,
    FD_DATAGRAM,
    FD_EVENT,
    FD_EPOLL,
    FD_TIMER,
    FD_SIGNAL,
    FD_INOTIFY,
    FD_MEMFD,
    FD_PATH,
    FD_PATH_DIR,
    FD_NULL,
    FD_FIFO,
    FD_PIDFD,
    FD_LISTENER,
    FD_PROC,
    FD_TERMINAL,
    FD_QUEUE,
    FD_QUEUE_READ,
    FD_QUEUE_WRITE,
    FD_CLOSED = 200,
};

enum { PATH_LONG_NAME = 20, PATH_TOO_LONG, PATH_ENDLESS, PATHS };

static const char *const path_texts[PATHS] = {
    "",       "file",     "dir",  "nowhere",  "nowhere/x",   "file/x",      "file/",
    "dir/",   "nowhere/", "loop", "dangling", "link",        "closed/file", ".",
    "dir/..", "/",        "fifo", "own/file", "sticky/file", "empty",       "",
    "",       NULL,
};

/* The address of path `i`; the endless path has no NUL before the hole. */
#define PATH_UNIT(i) (PATH_AREA + 2 * UNIT * (i))
#define PATH_AT(i) ((i) == PATH_ENDLESS ? PATH_UNIT(i) + UNIT - 16 : PATH_UNIT(i))

struct values {
    int count;
    int wide; /* 64 bits, where they do not fit into a register */
    const long *values;
    const char *const *names; /* or NULL: numbers */
};

#define LIST(...) ((const long[]){__VA_ARGS__})
#define OF(...) {sizeof LIST(__VA_ARGS__) / sizeof(long), 0, LIST(__VA_ARGS__), NULL}
#define LIST_OF(kind) {sizeof kind##_values / sizeof(long), 0, kind##_values, kind##_names}
/* Values with names, from rows X(value, name). */
#define VALUE_OF(value, name) value,
#define NAME_OF(value, name) name,
#define VALUES(kind, ROWS)                                     \
    static const long kind##_values[] = {ROWS(VALUE_OF)};      \
    static const char *const kind##_names[] = {ROWS(NAME_OF)};
#define OFFSET(...) {sizeof LIST(__VA_ARGS__) / sizeof(long), 1, LIST(__VA_ARGS__), NULL}

/*
 * Calls left out because Debian's Linux for powerpc64 is 6.12 (its 6.1 has pages of 64 KiB): there pidfds are
 * files of their own file system, policy 7 exists, and negative flags are checked in another order. The
 * machine has no clock that can wake it, either.
 */
#ifdef __powerpc64__
#define NEWER 1
#define OLDER_ONLY(...)
#define OLDER_ROW(row)
#else
#define NEWER 0
#define OLDER_ONLY(...) , __VA_ARGS__
#define OLDER_ROW(row) row
#endif

#define DESCRIPTOR_ROWS(X)                                                                      \
    X(-1, "-1") X(FD_CLOSED, "closed") X(FD_FILE, "file") X(FD_READ_ONLY, "read-only")          \
    X(FD_WRITE_ONLY, "write-only") X(FD_DIR, "dir") X(FD_PIPE_READ, "pipe-read")                \
    X(FD_PIPE_WRITE, "pipe-write") X(FD_STREAM, "stream") X(FD_DATAGRAM, "datagram")            \
    X(FD_EVENT, "event") X(FD_EPOLL, "epoll") X(FD_TIMER, "timer") X(FD_SIGNAL, "signal")       \
    X(FD_INOTIFY, "inotify") X(FD_MEMFD, "memfd") X(FD_PATH, "path") X(FD_PATH_DIR, "path-dir") \
    X(FD_NULL, "null") X(FD_FIFO, "fifo") X(FD_LISTENER, "listener") X(FD_PROC, "proc")         \
    X(FD_TERMINAL, "terminal") OLDER_ROW(X(FD_PIDFD, "pidfd"))
VALUES(descriptor, DESCRIPTOR_ROWS)
#define FD LIST_OF(descriptor)
/* Descriptors that can be read, and descriptors that can be written. */
#define READABLE_ROWS(X)                                                                            \
    X(-1, "-1") X(FD_CLOSED, "closed") X(FD_FILE, "file") X(FD_READ_ONLY, "read-only")              \
    X(FD_DIR, "dir") X(FD_PIPE_READ, "pipe-read") X(FD_STREAM, "stream") X(FD_DATAGRAM, "datagram") \
    X(FD_EVENT, "event") X(FD_TIMER, "timer") X(FD_SIGNAL, "signal") X(FD_INOTIFY, "inotify")       \
    X(FD_MEMFD, "memfd") X(FD_PATH, "path") X(FD_PATH_DIR, "path-dir") X(FD_NULL, "null")           \
    X(FD_FIFO, "fifo") X(FD_LISTENER, "listener") X(FD_PROC, "proc") X(FD_TERMINAL, "terminal")
VALUES(readable, READABLE_ROWS)
#define READABLE LIST_OF(readable)
#define WRITABLE_ROWS(X)                                                                  \
    X(-1, "-1") X(FD_CLOSED, "closed") X(FD_FILE, "file") X(FD_WRITE_ONLY, "write-only")  \
    X(FD_PIPE_WRITE, "pipe-write") X(FD_STREAM, "stream") X(FD_DATAGRAM, "datagram")      \
    X(FD_MEMFD, "memfd") X(FD_PATH, "path") X(FD_PATH_DIR, "path-dir") X(FD_NULL, "null") \
    X(FD_FIFO, "fifo") X(FD_LISTENER, "listener") X(FD_TERMINAL, "terminal")
VALUES(writable, WRITABLE_ROWS)
#define WRITABLE LIST_OF(writable)
/* Few types, for calls with many other arguments. */
#define FEW_ROWS(X)                                                                    \
    X(-1, "-1") X(FD_FILE, "file") X(FD_READ_ONLY, "read-only") X(FD_DIR, "dir")       \
    X(FD_PIPE_READ, "pipe-read") X(FD_PIPE_WRITE, "pipe-write") X(FD_STREAM, "stream") \
    X(FD_PATH, "path") X(FD_NULL, "null")
VALUES(few, FEW_ROWS)
#define FEW_FD LIST_OF(few)
#define FEW_READABLE_ROWS(X)                                                                  \
    X(-1, "-1") X(FD_FILE, "file") X(FD_READ_ONLY, "read-only") X(FD_DIR, "dir")              \
    X(FD_PIPE_READ, "pipe-read") X(FD_STREAM, "stream") X(FD_PATH, "path") X(FD_NULL, "null")
VALUES(few_readable, FEW_READABLE_ROWS)
#define FEW_READABLE LIST_OF(few_readable)
#define FEW_WRITABLE_ROWS(X)                                                             \
    X(-1, "-1") X(FD_FILE, "file") X(FD_PIPE_WRITE, "pipe-write") X(FD_STREAM, "stream") \
    X(FD_PATH, "path") X(FD_NULL, "null")
VALUES(few_writable, FEW_WRITABLE_ROWS)
#define FEW_WRITABLE LIST_OF(few_writable)
#define FEW_EPOLL_ROWS(X)                                                  \
    X(-1, "-1") X(FD_FILE, "file") X(FD_EPOLL, "epoll") X(FD_PATH, "path")
VALUES(few_epoll, FEW_EPOLL_ROWS)
#define FEW_EPOLL LIST_OF(few_epoll)
/* POSIX message queues: all three are the same queue, opened for reading, for writing or for both. */
#define QUEUE_ROWS(X)                                                                 \
    X(-1, "-1") X(FD_FILE, "file") X(FD_PATH, "path") X(FD_QUEUE, "queue")            \
    X(FD_QUEUE_READ, "queue-read") X(FD_QUEUE_WRITE, "queue-write")
VALUES(queue, QUEUE_ROWS)
#define QUEUES LIST_OF(queue)
/* Directories that paths may be relative to. */
#define FROM_ROWS(X)                                                                      \
    X(-1, "-1") X(AT_FDCWD, "cwd") X(FD_FILE, "file") X(FD_DIR, "dir") X(FD_PATH, "path") \
    X(FD_PATH_DIR, "path-dir") X(FD_PIPE_READ, "pipe-read")
VALUES(from, FROM_ROWS)
#define FROM LIST_OF(from)
#define FEW_FROM_ROWS(X)                                               \
    X(-1, "-1") X(AT_FDCWD, "cwd") X(FD_FILE, "file") X(FD_DIR, "dir")
VALUES(few_from, FEW_FROM_ROWS)
#define FEW_FROM LIST_OF(few_from)

#define PATH_ROWS(X)                                                                             \
    X(0, "null") X(HOLE, "hole") X(PATH_AT(0), "''") X(PATH_AT(1), "file") X(PATH_AT(2), "dir")  \
    X(PATH_AT(3), "nowhere") X(PATH_AT(4), "nowhere/x") X(PATH_AT(5), "file/x")                  \
    X(PATH_AT(6), "file/") X(PATH_AT(7), "dir/") X(PATH_AT(8), "nowhere/") X(PATH_AT(9), "loop") \
    X(PATH_AT(10), "dangling") X(PATH_AT(11), "link") X(PATH_AT(12), "closed/file")              \
    X(PATH_AT(13), ".") X(PATH_AT(14), "dir/..") X(PATH_AT(15), "/") X(PATH_AT(16), "fifo")      \
    X(PATH_AT(17), "own/file") X(PATH_AT(18), "sticky/file") X(PATH_AT(19), "empty")             \
    X(PATH_AT(20), "long-name") X(PATH_AT(21), "too-long") X(PATH_AT(22), "endless")
VALUES(path, PATH_ROWS)
#define PATH LIST_OF(path)
#define FEW_PATH_ROWS(X)                                                                          \
    X(0, "null") X(PATH_AT(0), "''") X(PATH_AT(1), "file") X(PATH_AT(2), "dir")                   \
    X(PATH_AT(3), "nowhere") X(PATH_AT(5), "file/x") X(PATH_AT(9), "loop") X(PATH_AT(11), "link") \
    X(PATH_AT(12), "closed/file") X(PATH_AT(17), "own/file")
VALUES(few_path, FEW_PATH_ROWS)
#define FEW_PATHS LIST_OF(few_path)

#define MEMORY_ROWS(X)                                                                \
    X(0, "null") X(HOLE, "hole") X(-4096, "kernel") X(SHUT, "shut") X(FIXED, "fixed") \
    X(OPEN, "open") X(EDGE, "edge") X(JUNK, "junk")
VALUES(memory, MEMORY_ROWS)
#define MEMORY LIST_OF(memory)
#define FEW_MEMORY_ROWS(X)                                                         \
    X(0, "null") X(HOLE, "hole") X(FIXED, "fixed") X(OPEN, "open") X(JUNK, "junk")
VALUES(few_memory, FEW_MEMORY_ROWS)
#define FEW_MEMORY LIST_OF(few_memory)
#define FEW_SIZES OF(0, 1, 8, -1)

/* The call changes something that other calls depend on. */
#define CHANGES 1
/* Its result is not compared. */
#define HIDES 2
/* Linux 6.12 checks in another order, or more: compared only where Linux is older. */
#define VARIES 4

struct call {
    const char *name;
    long number;
    int flags, count;
    struct values args[6];
};

/* The last argument of the macro: the arguments' values, in parentheses' place. */
#define CALL(call, how, ...)                                                                          \
    {                                                                                                 \
#call, SYS_##call, how, sizeof((const struct values[]){__VA_ARGS__}) / sizeof(struct values), \
        {                                                                                             \
            __VA_ARGS__                                                                               \
        }                                                                                             \
    }

#endif
