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
#define OFFSET(...) {sizeof LIST(__VA_ARGS__) / sizeof(long), 1, LIST(__VA_ARGS__), NULL}

/*
 * Calls left out because Debian's Linux for powerpc64 is 6.12 (its 6.1 has pages of 64 KiB): there pidfds are
 * files of their own file system, policy 7 exists, and negative flags are checked in another order. The
 * machine has no clock that can wake it, either.
 */
#ifdef __powerpc64__
#define NEWER 1
#define OLDER_ONLY(...)
#else
#define NEWER 0
#define OLDER_ONLY(...) , __VA_ARGS__
#endif

static const long descriptor_values[] = {-1,
                                         FD_CLOSED,
                                         FD_FILE,
                                         FD_READ_ONLY,
                                         FD_WRITE_ONLY,
                                         FD_DIR,
                                         FD_PIPE_READ,
                                         FD_PIPE_WRITE,
                                         FD_STREAM,
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
                                         FD_LISTENER,
                                         FD_PROC,
                                         FD_TERMINAL OLDER_ONLY(FD_PIDFD)};
static const char *const descriptor_names[] = {
    "-1",     "closed",   "file",  "read-only", "write-only", "dir",    "pipe-read", "pipe-write",
    "stream", "datagram", "event", "epoll",     "timer",      "signal", "inotify",   "memfd",
    "path",   "path-dir", "null",  "fifo",      "listener",   "proc",   "terminal",  "pidfd"};
#define FD LIST_OF(descriptor)
/* Descriptors that can be read, and descriptors that can be written. */
static const long readable_values[] = {-1,           FD_CLOSED,  FD_FILE,     FD_READ_ONLY, FD_DIR,
                                       FD_PIPE_READ, FD_STREAM,  FD_DATAGRAM, FD_EVENT,     FD_TIMER,
                                       FD_SIGNAL,    FD_INOTIFY, FD_MEMFD,    FD_PATH,      FD_PATH_DIR,
                                       FD_NULL,      FD_FIFO,    FD_LISTENER, FD_PROC,      FD_TERMINAL};
static const char *const readable_names[] = {"-1",        "closed",  "file",     "read-only", "dir",
                                             "pipe-read", "stream",  "datagram", "event",     "timer",
                                             "signal",    "inotify", "memfd",    "path",      "path-dir",
                                             "null",      "fifo",    "listener", "proc",      "terminal"};
#define READABLE LIST_OF(readable)
static const long writable_values[] = {-1,        FD_CLOSED,   FD_FILE,     FD_WRITE_ONLY, FD_PIPE_WRITE,
                                       FD_STREAM, FD_DATAGRAM, FD_MEMFD,    FD_PATH,       FD_PATH_DIR,
                                       FD_NULL,   FD_FIFO,     FD_LISTENER, FD_TERMINAL};
static const char *const writable_names[] = {"-1",     "closed",   "file",     "write-only", "pipe-write",
                                             "stream", "datagram", "memfd",    "path",       "path-dir",
                                             "null",   "fifo",     "listener", "terminal"};
#define WRITABLE LIST_OF(writable)
/* Few types, for calls with many other arguments. */
static const long few_values[] = {-1,        FD_FILE, FD_READ_ONLY, FD_DIR, FD_PIPE_READ, FD_PIPE_WRITE,
                                  FD_STREAM, FD_PATH, FD_NULL};
static const char *const few_names[] = {"-1",         "file",   "read-only", "dir", "pipe-read",
                                        "pipe-write", "stream", "path",      "null"};
#define FEW_FD LIST_OF(few)
static const long few_readable_values[] = {-1,           FD_FILE,   FD_READ_ONLY, FD_DIR,
                                           FD_PIPE_READ, FD_STREAM, FD_PATH,      FD_NULL};
static const char *const few_readable_names[] = {"-1",        "file",   "read-only", "dir",
                                                 "pipe-read", "stream", "path",      "null"};
#define FEW_READABLE LIST_OF(few_readable)
static const long few_writable_values[] = {-1, FD_FILE, FD_PIPE_WRITE, FD_STREAM, FD_PATH, FD_NULL};
static const char *const few_writable_names[] = {"-1", "file", "pipe-write", "stream", "path", "null"};
#define FEW_WRITABLE LIST_OF(few_writable)
static const long few_epoll_values[] = {-1, FD_FILE, FD_EPOLL, FD_PATH};
static const char *const few_epoll_names[] = {"-1", "file", "epoll", "path"};
#define FEW_EPOLL LIST_OF(few_epoll)
/* Directories that paths may be relative to. */
static const long from_values[] = {-1, AT_FDCWD, FD_FILE, FD_DIR, FD_PATH, FD_PATH_DIR, FD_PIPE_READ};
static const char *const from_names[] = {"-1", "cwd", "file", "dir", "path", "path-dir", "pipe-read"};
#define FROM LIST_OF(from)
static const long few_from_values[] = {-1, AT_FDCWD, FD_FILE, FD_DIR};
static const char *const few_from_names[] = {"-1", "cwd", "file", "dir"};
#define FEW_FROM LIST_OF(few_from)

static const long path_values[] = {0,           HOLE,        PATH_AT(0),  PATH_AT(1),  PATH_AT(2),
                                   PATH_AT(3),  PATH_AT(4),  PATH_AT(5),  PATH_AT(6),  PATH_AT(7),
                                   PATH_AT(8),  PATH_AT(9),  PATH_AT(10), PATH_AT(11), PATH_AT(12),
                                   PATH_AT(13), PATH_AT(14), PATH_AT(15), PATH_AT(16), PATH_AT(17),
                                   PATH_AT(18), PATH_AT(19), PATH_AT(20), PATH_AT(21), PATH_AT(22)};
static const char *const path_names[] = {
    "null", "hole",     "''",          "file",     "dir",       "nowhere",     "nowhere/x", "file/x", "file/",
    "dir/", "nowhere/", "loop",        "dangling", "link",      "closed/file", ".",         "dir/..", "/",
    "fifo", "own/file", "sticky/file", "empty",    "long-name", "too-long",    "endless"};
#define PATH LIST_OF(path)
static const long few_path_values[] = {0,          PATH_AT(0), PATH_AT(1),  PATH_AT(2),  PATH_AT(3),
                                       PATH_AT(5), PATH_AT(9), PATH_AT(11), PATH_AT(12), PATH_AT(17)};
static const char *const few_path_names[] = {"null",   "''",   "file", "dir",         "nowhere",
                                             "file/x", "loop", "link", "closed/file", "own/file"};
#define FEW_PATHS LIST_OF(few_path)

static const long memory_values[] = {0, HOLE, -4096, SHUT, FIXED, OPEN, EDGE, JUNK};
static const char *const memory_names[] = {"null", "hole", "kernel", "shut", "fixed", "open", "edge", "junk"};
#define MEMORY LIST_OF(memory)
static const long few_memory_values[] = {0, HOLE, FIXED, OPEN, JUNK};
static const char *const few_memory_names[] = {"null", "hole", "fixed", "open", "junk"};
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
