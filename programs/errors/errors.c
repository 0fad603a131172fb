/*
 * Errors of system calls whose arguments are wrong in more than one way. Every combination of a few values
 * for each argument is tried, most of them wrong, so that the output shows which error is found first. A line
 * of output is for one call with all arguments fixed except the last two (with two arguments, except the
 * last); it has the result of each combination of these: a value, an error, or how the process ended.
 *   errors UID [CALL]     as that user; with CALL (or all) only that call, a line per combination
 * tools/limen/src/test/errors.rs compares the lines with Debian's Linux.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "values.h"

#include "calls.h"

#define MOST 40000 /* combinations of one call */
#define TICK 300   /* ms after which a call that waits is interrupted */
#define PATIENCE 3 /* seconds without a call after which that one is ended */

struct result {
    enum { NOT_YET, CAME_BACK, FAILED, DIED } how;
    long what; /* the value, errno, or signal */
};

static struct result *results;

static void stop(const char *what) {
    fprintf(stderr, "errors: %s: %s\n", what, strerror(errno));
    exit(98);
}

static int forget(const char *path, const struct stat *is, int type, struct FTW *at) {
    (void)is, (void)type;
    return at->level == 0 ? 0 : remove(path);
}

static void make(const char *path, mode_t mode, int uid) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || write(fd, "0123456789", 10) != 10 || fchmod(fd, mode) || fchown(fd, uid, uid)) stop(path);
    close(fd);
}

static void make_dir(const char *path, mode_t mode, int uid) {
    if (mkdir(path, 0700) || chmod(path, mode) || chown(path, uid, uid)) stop(path);
}

/* Makes the files anew to which paths and descriptors refer. */
static void make_tree(void) {
    umask(022);
    if (chdir(TREE)) stop(TREE);
    nftw(TREE, forget, 16, FTW_DEPTH | FTW_PHYS);
    make("file", 0644, 0);
    make("mine", 0600, USER);
    make("secret", 0600, 0);
    make("program", 0755, 0);
    make_dir("dir", 0755, 0);
    make("dir/inner", 0644, 0);
    make_dir("empty", 0755, 0);
    make_dir("closed", 0700, 0);
    make("closed/file", 0644, 0);
    make_dir("sticky", 01777, 0);
    make("sticky/file", 0666, 0);
    make_dir("own", 0755, USER);
    make("own/file", 0644, USER);
    if (symlink("file", "link") || symlink("loop", "loop") || symlink("nowhere", "dangling") ||
        symlink("dir", "dirlink"))
        stop("symlink");
    if (mkfifo("fifo", 0666) || chmod("fifo", 0666)) stop("fifo");
}

static void place(int fd, int at) {
    if (fd < 0) stop("descriptor");
    if (dup2(fd, at) != at) stop("dup2");
    close(fd);
}

/*
 * Makes the queues to which names and descriptors refer: one that all may read, with a message and room for
 * another one of at most eight bytes, and one that only root may use.
 */
static void make_queues(void) {
    long attributes[8] = {0, 2, 8};
    const int flags = O_CREAT | O_NONBLOCK;
    for (int i = 0; i < PATHS; i++)
        if (path_texts[i]) syscall(SYS_mq_unlink, path_texts[i]);
    place(syscall(SYS_mq_open, "file", flags | O_RDWR, 0644, attributes), FD_QUEUE);
    place(syscall(SYS_mq_open, "file", flags | O_RDONLY, 0, NULL), FD_QUEUE_READ);
    place(syscall(SYS_mq_open, "file", flags | O_WRONLY, 0, NULL), FD_QUEUE_WRITE);
    close(syscall(SYS_mq_open, "dir", flags | O_RDONLY, 0600, NULL));
    if (syscall(SYS_mq_timedsend, FD_QUEUE, "text", 4, 1, NULL)) stop("message");
}

static void make_descriptors(void) {
    int pair[2];
    sigset_t usr1;
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "listener"};
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    place(open("file", O_RDWR), FD_FILE);
    place(open("file", O_RDONLY), FD_READ_ONLY);
    place(open("file", O_WRONLY), FD_WRITE_ONLY);
    place(open("dir", O_RDONLY | O_DIRECTORY), FD_DIR);
    if (pipe2(pair, O_NONBLOCK)) stop("pipe2");
    place(pair[0], FD_PIPE_READ);
    place(pair[1], FD_PIPE_WRITE);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair)) stop("socketpair");
    place(pair[0], FD_STREAM);
    place(pair[1], FD_STREAM + 1);
    place(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0), FD_DATAGRAM);
    place(eventfd(0, EFD_NONBLOCK), FD_EVENT);
    place(epoll_create1(0), FD_EPOLL);
    place(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), FD_TIMER);
    place(signalfd(-1, &usr1, SFD_NONBLOCK), FD_SIGNAL);
    place(inotify_init1(IN_NONBLOCK), FD_INOTIFY);
    place(memfd_create("m", MFD_ALLOW_SEALING), FD_MEMFD);
    place(open("file", O_PATH), FD_PATH);
    place(open("dir", O_PATH), FD_PATH_DIR);
    place(open("/dev/null", O_RDWR), FD_NULL);
    place(open("fifo", O_RDWR | O_NONBLOCK), FD_FIFO);
    place((int)syscall(SYS_pidfd_open, getpid(), 0), FD_PIDFD);
    place(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0), FD_LISTENER);
    unlink("listener");
    if (bind(FD_LISTENER, (struct sockaddr *)&name, sizeof name) || listen(FD_LISTENER, 2)) stop("listener");
    place(open("/proc/self/status", O_RDONLY), FD_PROC);
    place(open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK), FD_TERMINAL);
    make_queues();
}

static void map(unsigned long at, int protection) {
    if (mmap((void *)at, UNIT, protection, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != (void *)at)
        stop("mmap");
}

static void make_memory(void) {
    map(OPEN, PROT_READ | PROT_WRITE);
    map(SHUT, PROT_NONE);
    map(FIXED, PROT_READ);
    map(JUNK, PROT_READ | PROT_WRITE);
    for (int i = 0; i < PATHS; i++) {
        /* Each path ends where nothing is mapped behind it. */
        unsigned long at = PATH_AT(i) & ~(UNIT - 1);
        map(at, PROT_READ | PROT_WRITE);
        char *text = (char *)PATH_AT(i);
        if (path_texts[i]) strcpy(text, path_texts[i]);
        else memset(text, 'x', at + UNIT - PATH_AT(i));
        if (i == PATH_LONG_NAME) memset(text, 'n', 256), text[256] = 0;
        if (i == PATH_TOO_LONG) {
            for (int k = 0; k < 4096; k++) text[k] = "./"[k % 2];
            text[4096] = 0;
        }
    }
}

/* Makes the first objects of System V IPC, whose ids are 0 and 1. */
static void make_objects(void) {
    const int modes[2] = {0666, 0600};
    for (int n = 0; n < 2; n++) {
        int flags = IPC_CREAT | modes[n];
        if (shmget(n + 1, 4096, flags) != n || semget(n + 1, 2, flags) != n || msgget(n + 1, flags) != n)
            stop("objects of System V IPC");
    }
}

static void nothing(int signal) { (void)signal; }

static void calm(void) {
    memset((void *)OPEN, 0, 4096);
    memset((void *)JUNK, 0xff, 4096);
    struct itimerval tick = {{0, TICK * 1000}, {0, TICK * 1000}};
    setitimer(ITIMER_REAL, &tick, NULL);
}

/* The number of combinations of `call`. */
static int combinations(const struct call *call) {
    int count = 1;
    for (int i = 0; i < call->count; i++) count *= call->args[i].count;
    return count;
}

/* The index of argument `i`'s value in combination `n`: the last argument changes first. */
static int chosen(const struct call *call, int n, int i) {
    for (int k = call->count - 1; k > i; k--) n /= call->args[k].count;
    return n % call->args[i].count;
}

/* Makes the call with combination `n`. */
static long make_call(const struct call *call, int n) {
    long words[8] = {0};
    int at = 0;
    for (int i = 0; i < call->count; i++) {
        long value = call->args[i].values[chosen(call, n, i)];
        if (sizeof(long) == 4 && call->args[i].wide) {
            at += at % 2; /* a pair of registers begins with an even one */
            words[at++] = value;
            words[at++] = value < 0 ? -1 : 0;
        } else words[at++] = value;
    }
    return syscall(call->number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

/*
 * The part of a byte count that is compared. How many of the last bytes before a hole are copied depends on
 * the instructions with which a kernel copies (8 bytes from an address with 4 mapped: all four on most
 * architectures, one by Linux on arm64).
 */
static long compared(const struct call *call, int n, long value) {
    if (call->flags & HIDES) return 0;
    for (int i = 0; i < call->count; i++)
        if (call->args[i].values[chosen(call, n, i)] == EDGE && value > 0 && value < (long)(HOLE - EDGE))
            return HOLE - EDGE;
    return value;
}

/* Makes combinations from `n` on until one ends the process or changes what the following ones depend on. */
static void work(const struct call *call, int n, int uid) {
    struct sigaction action = {.sa_handler = nothing};
    struct rlimit size = {1 << 20, 1 << 20}, none = {0, 0}, files = {256, 256};
    make_memory();
    make_descriptors();
    sigaction(SIGALRM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &size);
    setrlimit(RLIMIT_CORE, &none);
    setrlimit(RLIMIT_NOFILE, &files);
    if (uid && (setgroups(0, NULL) || setgid(uid) || setuid(uid))) stop("setuid");
    prctl(PR_SET_DUMPABLE, 1);
    pid_t self = getpid();
    for (int count = combinations(call); n < count; n++) {
        if (n % 64 == 0 || call->flags & CHANGES) calm();
        memset((void *)OPEN, 0, 512);
        memset((void *)JUNK, 0xff, 512);
        for (int fd = FD_FILE; fd <= FD_WRITE_ONLY; fd++) lseek(fd, 0, SEEK_SET);
        errno = 0;
        long value = make_call(call, n);
        int error = errno;
        if (syscall(SYS_getpid) != self) _exit(0);
        if (value == -1 && error) results[n] = (struct result){FAILED, error};
        else results[n] = (struct result){CAME_BACK, compared(call, n, value)};
        if (results[n].how == CAME_BACK && call->flags & CHANGES) _exit(0);
    }
    _exit(0);
}

static void say(struct result result) {
    if (result.how == DIED) printf("dies:%ld", result.what);
    else if (result.how == CAME_BACK) printf("%ld", result.what);
    else {
        const char *name = strerrorname_np((int)result.what);
        if (name) printf("%s", name);
        else printf("E%ld", result.what);
    }
}

static void say_value(const struct call *call, int n, int i) {
    int which = chosen(call, n, i);
    const struct values *values = &call->args[i];
    if (values->names) printf(" %s", values->names[which]);
    else printf(" %#lx", values->values[which]);
}

static void report(const struct call *call, int in_full) {
    int count = combinations(call), fixed = call->count > 2 ? call->count - 2 : call->count - 1, group = 1;
    if (in_full) fixed = call->count;
    for (int i = fixed; i < call->count; i++) group *= call->args[i].count;
    for (int n = 0; n < count; n += group) {
        printf("%s", call->name);
        for (int i = 0; i < fixed; i++) say_value(call, n, i);
        printf(":");
        for (int k = 0; k < group;) {
            int same = 1;
            while (k + same < group && results[n + k].how == results[n + k + same].how &&
                   results[n + k].what == results[n + k + same].what)
                same++;
            printf(" ");
            say(results[n + k]);
            if (same > 1) printf("*%d", same);
            k += same;
        }
        printf("\n");
    }
}

/*
 * Waits for the end of `child`, kills it if it makes no progress, and returns its status; `n` becomes the
 * first combination of `count` that has no result.
 */
static int wait_for(pid_t child, int count, int *n) {
    struct timespec patience = {PATIENCE, 0};
    sigset_t ended;
    int status, late;
    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    for (late = 0;;) {
        pid_t gone = waitpid(child, &status, WNOHANG);
        int before = *n;
        while (*n < count && results[*n].how != NOT_YET) ++*n;
        if (gone == child) return status;
        if (late && *n == before) kill(child, SIGKILL);
        late = sigtimedwait(&ended, NULL, &patience) < 0;
    }
}

static void test(const struct call *call, int uid, int in_full) {
    int count = combinations(call), n = 0;
    if (count > MOST) stop(call->name);
    memset(results, 0, sizeof *results * (size_t)count);
    while (n < count) {
        int status;
        make_tree();
        fflush(stdout);
        pid_t child = fork();
        if (child < 0) stop("fork");
        if (child == 0) {
            setpgid(0, 0);
            sigset_t none;
            sigemptyset(&none);
            sigprocmask(SIG_SETMASK, &none, NULL);
            work(call, n, uid);
        }
        int began = n;
        status = wait_for(child, count, &n);
        kill(-child, SIGKILL);
        while (waitpid(-1, NULL, 0) > 0) continue;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 98) exit(98);
        if (WIFSIGNALED(status) && n < count) results[n++] = (struct result){DIED, WTERMSIG(status)};
        else if (n == began) results[n++] = (struct result){DIED, 0};
    }
    report(call, in_full);
}

int main(int argc, char **argv) {
    int uid = argc > 1 ? atoi(argv[1]) : 0;
    size_t size = MOST * sizeof *results;
    results =
        mmap((void *)RESULTS, size, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (results == MAP_FAILED) stop("mmap");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    make_objects();
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (NEWER && calls[i].flags & VARIES) continue;
        else if (argc < 3 || strcmp(argv[2], "all") == 0 || strcmp(argv[2], calls[i].name) == 0)
            test(&calls[i], uid, argc > 2);
    return 0;
}
