/*
 * Descriptors that threads share: read, closed, replaced and opened at the same time. The last use of a file
 * closes it, and no descriptor gives another file's data. Called by tools/limen/src/test/programs.rs, on
 * every architecture; on Linux it can be run by hand, as root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "common.h"

/* The state of a sleeping thread of this process is S. */
static int sleeps(pid_t process, pid_t tid) {
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", process, tid);
    int fd = open(path, O_RDONLY);
    if (fd < 0) return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    char *end = strrchr(text, ')');
    return end && end[1] && end[2] == 'S';
}

static pid_t own_tid(void) { return (pid_t)syscall(SYS_gettid); }

/* Starts a thread with a small stack. */
static pthread_t start(void *(*run)(void *), void *with) {
    pthread_t thread;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 64 << 10);
    if (pthread_create(&thread, &attr, run, with)) {
        printf("no thread\n");
        exit(99);
    }
    pthread_attr_destroy(&attr);
    return thread;
}

/* A thread that reads or writes once and is asleep meanwhile. */
struct use {
    int fd, writes;
    size_t size;
    char *data;
    char byte;
    pid_t tid;
    ssize_t result;
    int error;
    pthread_t thread;
};

static void *use_once(void *argument) {
    struct use *use = argument;
    char *data = use->data ? use->data : &use->byte;
    size_t size = use->data ? use->size : 1;
    __atomic_store_n(&use->tid, own_tid(), __ATOMIC_SEQ_CST);
    use->result = use->writes ? write(use->fd, data, size) : read(use->fd, data, size);
    use->error = errno;
    return NULL;
}

static void begin(struct use *use) {
    use->tid = 0;
    use->thread = start(use_once, use);
    while (!__atomic_load_n(&use->tid, __ATOMIC_SEQ_CST)) sched_yield();
    /* It may still be asleep for another reason, such as a lock of the library. */
    for (int i = 0; i < 3; i++)
        for (pause_ms(2); !sleeps(getpid(), use->tid);) pause_ms(1);
}

/* The other end of a pipe says that this one's last file is closed. */
static int other_end_gone(int fd) {
    struct pollfd p = {fd, POLLIN | POLLOUT, 0};
    poll(&p, 1, 0);
    return (p.revents & (POLLERR | POLLHUP)) != 0;
}

/* A read goes on when its descriptor is closed, and keeps the file open. */
static void closed_in_read(void) {
    int fds[2];
    CHECK(pipe(fds) == 0);
    struct use use = {.fd = fds[0]};
    begin(&use);
    CHECK(close(fds[0]) == 0);
    CHECK(read(fds[0], &use.byte, 1) == -1 && errno == EBADF);
    CHECK(!other_end_gone(fds[1]));
    CHECK(write(fds[1], "x", 1) == 1);
    pthread_join(use.thread, NULL);
    CHECK(use.result == 1 && use.byte == 'x');
    CHECK(other_end_gone(fds[1]));
    CHECK(write(fds[1], "x", 1) == -1 && errno == EPIPE);
    close(fds[1]);
}

/* A write goes on, too: the reader does not see the end before. */
static void closed_in_write(void) {
    /* More than a pipe holds with the largest pages. */
    static char full[2 << 20], buffer[1 << 16];
    int fds[2];
    CHECK(pipe(fds) == 0);
    struct use use = {.fd = fds[1], .writes = 1, .data = full, .size = sizeof full};
    begin(&use);
    CHECK(close(fds[1]) == 0);
    CHECK(!other_end_gone(fds[0]));
    size_t sum = 0;
    for (ssize_t n; (n = read(fds[0], buffer, sizeof buffer)) > 0;) sum += (size_t)n;
    CHECK(sum == sizeof full);
    pthread_join(use.thread, NULL);
    CHECK(use.result == (ssize_t)sizeof full);
    close(fds[0]);
}

/* dup2 during a read: that one gets the old file's data, the next one the new one's. */
static void replaced_in_read(void) {
    int old[2], new[2];
    char byte = 0;
    CHECK(pipe(old) == 0 && pipe(new) == 0);
    struct use use = {.fd = old[0]};
    begin(&use);
    CHECK(dup2(new[0], old[0]) == old[0]);
    CHECK(write(new[1], "n", 1) == 1);
    CHECK(read(old[0], &byte, 1) == 1 && byte == 'n');
    CHECK(!other_end_gone(old[1]));
    CHECK(write(old[1], "o", 1) == 1);
    pthread_join(use.thread, NULL);
    CHECK(use.result == 1 && use.byte == 'o');
    CHECK(other_end_gone(old[1]));
    close(new[0]);
    CHECK(!other_end_gone(new[1]));
    close(old[0]);
    CHECK(other_end_gone(new[1]));
    close(old[1]);
    close(new[1]);
}

/* Of many uses the last one closes the file, also through several descriptors. */
static void many_in_read(int count) {
    struct use *uses = calloc((size_t)count, sizeof *uses);
    int fds[2];
    CHECK(pipe(fds) == 0);
    int more = dup(fds[0]);
    CHECK(more >= 0);
    for (int i = 0; i < count; i++) {
        uses[i].fd = i % 2 ? fds[0] : more;
        begin(&uses[i]);
    }
    close(fds[0]);
    CHECK(!other_end_gone(fds[1]));
    close(more);
    for (int i = 0; i < count; i++) {
        CHECK(!other_end_gone(fds[1]));
        CHECK(write(fds[1], "x", 1) == 1);
    }
    for (int i = 0; i < count; i++) {
        pthread_join(uses[i].thread, NULL);
        CHECK(uses[i].result == 1 && uses[i].byte == 'x');
    }
    CHECK(other_end_gone(fds[1]));
    close(fds[1]);
    free(uses);
}

static char child_stack[64 << 10] __attribute__((aligned(16)));

static int reads_forever(void *argument) {
    char byte;
    while (read(*(int *)argument, &byte, 1) != -2) {
    }
    return 0;
}

/* A process that shares the descriptors is killed while it uses a file that was closed meanwhile. */
static void killed_in_read(void) {
    int fds[2], status;
    CHECK(pipe(fds) == 0);
    pid_t child = clone(reads_forever, child_stack + sizeof child_stack, CLONE_FILES | CLONE_VM | SIGCHLD,
                        &fds[0]);
    CHECK(child > 0);
    for (int i = 0; i < 3; i++)
        for (pause_ms(2); !sleeps(child, child);) pause_ms(1);
    CHECK(close(fds[0]) == 0);
    CHECK(!other_end_gone(fds[1]));
    kill(child, SIGKILL);
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    CHECK(other_end_gone(fds[1]));
    close(fds[1]);
}

/* exec ends the other threads, also one that uses a descriptor that is closed then. */
static void exec_in_read(void) {
    int fds[2], status;
    CHECK(pipe(fds) == 0);
    pid_t child = fork();
    if (child == 0) {
        close(fds[1]);
        struct use use = {.fd = fds[0]}, other = {.fd = fds[0]};
        fcntl(fds[0], F_SETFD, FD_CLOEXEC);
        begin(&use);
        begin(&other);
        execl("/proc/self/exe", "descriptors", "again", NULL);
        _exit(1);
    }
    close(fds[0]);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 42);
    CHECK(other_end_gone(fds[1]));
    close(fds[1]);
}

static void *unshares(void *argument) {
    int *fds = argument;
    int good = unshare(CLONE_FILES) == 0 && close(fds[0]) == 0 && close(fds[1]) == 0;
    return good ? argument : NULL;
}

/* Who has unshared the descriptors closes its own ones only. */
static void unshared_in_read(void) {
    int fds[2];
    void *good;
    CHECK(pipe(fds) == 0);
    struct use use = {.fd = fds[0]};
    begin(&use);
    pthread_join(start(unshares, fds), &good);
    CHECK(good != NULL);
    close(fds[0]);
    CHECK(!other_end_gone(fds[1]));
    CHECK(write(fds[1], "x", 1) == 1);
    pthread_join(use.thread, NULL);
    CHECK(use.result == 1);
    CHECK(other_end_gone(fds[1]));
    close(fds[1]);
}

static int send_descriptor(int socket, int fd) {
    char room[CMSG_SPACE(sizeof fd)] = {0}, byte = 0;
    struct iovec iov = {&byte, 1};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    return sendmsg(socket, &m, 0) == 1;
}

/* A file in flight stays open without a descriptor and without a use. */
static void in_flight_in_read(void) {
    int fds[2], pair[2];
    CHECK(pipe(fds) == 0 && socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
    struct use use = {.fd = fds[0]};
    begin(&use);
    CHECK(send_descriptor(pair[0], fds[0]));
    close(fds[0]);
    CHECK(write(fds[1], "x", 1) == 1);
    pthread_join(use.thread, NULL);
    CHECK(use.result == 1);
    CHECK(!other_end_gone(fds[1]));
    close(pair[0]);
    close(pair[1]);
    for (int i = 0; i < 100 && !other_end_gone(fds[1]); i++) pause_ms(1);
    CHECK(other_end_gone(fds[1]));
    close(fds[1]);
}

/* An epoll instance that is closed while it is waited for tells its waiter all the same. */
static int epoll_fd;

static void *waits(void *result) {
    struct epoll_event event = {0};
    int *to = result;
    __atomic_store_n(&to[1], own_tid(), __ATOMIC_SEQ_CST);
    to[0] = epoll_wait(epoll_fd, &event, 1, 10000);
    return NULL;
}

static void epoll_closed_in_wait(void) {
    int fds[2], result[2] = {-1, 0};
    CHECK(pipe(fds) == 0 && (epoll_fd = epoll_create1(0)) >= 0);
    struct epoll_event event = {.events = EPOLLIN};
    CHECK(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fds[0], &event) == 0);
    pthread_t thread = start(waits, result);
    while (!__atomic_load_n(&result[1], __ATOMIC_SEQ_CST)) sched_yield();
    for (int i = 0; i < 3; i++)
        for (pause_ms(2); !sleeps(getpid(), result[1]);) pause_ms(1);
    close(epoll_fd);
    CHECK(write(fds[1], "x", 1) == 1);
    pthread_join(thread, NULL);
    CHECK(result[0] == 1);
    close(fds[0]);
    close(fds[1]);
}

/* Files whose every byte is their number. */
#define FILES 24
#define SLOTS 4
#define FIRST 40
#define SIZE 64

static int files[FILES];
static int stop, wrong, seen[SLOTS];
static const char *what = "";

static int is_stopped(void) { return __atomic_load_n(&stop, __ATOMIC_RELAXED); }

static void bad(const char *why) {
    what = why;
    __atomic_store_n(&wrong, 1, __ATOMIC_SEQ_CST);
}

static unsigned next(unsigned *seed) {
    *seed = *seed * 1103515245 + 12345;
    return *seed >> 16;
}

/* Reads from places that others change: slot n has only files whose number divided by SLOTS leaves n. */
static void *reads_slots(void *argument) {
    unsigned seed = (unsigned)(long)argument;
    struct stat s;
    while (!is_stopped()) {
        unsigned char data[SIZE];
        int slot = (int)(next(&seed) % SLOTS);
        ssize_t n = pread(FIRST + slot, data, sizeof data, 0);
        if (n == -1 && errno == EBADF) continue;
        if (n != SIZE) bad("a read of a file that was there was short");
        for (int i = 0; i < n; i++)
            if (data[i] != data[0]) bad("a read gave two files' data");
        if (n > 0 && (data[0] >= FILES || data[0] % SLOTS != slot)) bad("a read gave another file's data");
        if (fstat(FIRST + slot, &s) == 0 && (s.st_size <= SIZE || (s.st_size - SIZE - 1) % SLOTS != slot))
            bad("fstat told of another file");
        __atomic_fetch_add(&seen[slot], 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

/* Closes and replaces what is there. */
static void *changes_slots(void *argument) {
    unsigned seed = (unsigned)(long)argument;
    while (!is_stopped()) {
        int slot = (int)(next(&seed) % SLOTS);
        int file = (int)(next(&seed) % (FILES / SLOTS)) * SLOTS + slot;
        if (next(&seed) % 4 == 0) {
            if (close(FIRST + slot) && errno != EBADF) bad("close");
        } else if (dup2(files[file], FIRST + slot) != FIRST + slot) {
            bad("dup2");
        }
    }
    return NULL;
}

/* Opens files of its own, whose numbers were other threads' before. */
static void *opens_own(void *argument) {
    char name[16];
    int number = (int)(long)argument % FILES;
    snprintf(name, sizeof name, "f%d", number);
    while (!is_stopped()) {
        unsigned char data[SIZE];
        int fd = open(name, O_RDONLY), other = dup(fd);
        if (fd < 0 || other < 0) bad("open");
        for (int i = 0; i < 3; i++) {
            if (read(fd, data, 1) != 1 || data[0] != number) bad("an own file gave other data");
            if (pread(other, data, 1, 0) != 1 || data[0] != number) bad("an own duplicate gave other data");
        }
        if (close(fd) || close(other)) bad("close of an own file");
    }
    return NULL;
}

/* Forks: the copy has the files at their places. */
static void *forks(void *argument) {
    (void)argument;
    while (!is_stopped()) {
        pid_t child = fork();
        if (child == 0) {
            unsigned char data[SIZE];
            for (int i = 0; i < FILES; i++)
                if (pread(files[i], data, SIZE, 0) != SIZE || data[0] != i) _exit(1);
            for (int i = 0; i < SLOTS; i++)
                if (pread(FIRST + i, data, SIZE, 0) == SIZE && data[0] % SLOTS != i) _exit(2);
            _exit(0);
        }
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child || status) bad("a copied table is wrong");
        pause_ms(1);
    }
    return NULL;
}

/* Makes the table grow, by and by, and looks at it through /proc. */
static void *grows(void *argument) {
    int end = *(int *)argument;
    for (int from = 64; !is_stopped(); from = from * 2 < end ? from * 2 : from) {
        char path[64], text[64];
        int fd = fcntl(files[1], F_DUPFD, from);
        unsigned char byte = 0;
        if (fd < from || pread(fd, &byte, 1, 0) != 1 || byte != 1) bad("a high descriptor");
        snprintf(path, sizeof path, "/proc/self/fdinfo/%d", files[2]);
        int info = open(path, O_RDONLY);
        if (info < 0 || read(info, text, sizeof text) < 5 || strncmp(text, "pos:", 4)) bad("fdinfo");
        close(info);
        if (close(fd)) bad("close of a high descriptor");
        pause_ms(1);
    }
    return NULL;
}

static void storm(int ms) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    int end = limit.rlim_cur < 4096 ? (int)limit.rlim_cur : 4096;
    for (int i = 0; i < FILES; i++) {
        char name[16], data[SIZE + FILES + 1];
        snprintf(name, sizeof name, "f%d", i);
        memset(data, i, sizeof data);
        int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
        CHECK(fd >= 0 && write(fd, data, (size_t)(SIZE + 1 + i)) == SIZE + 1 + i);
        files[i] = fcntl(fd, F_DUPFD, FIRST - FILES + i < 12 ? 12 : 0);
        close(fd);
    }
    for (int i = 0; i < FILES; i++) CHECK(files[i] >= 0 && files[i] < FIRST);
    pthread_t threads[11];
    int count = 0;
    for (long i = 0; i < 4; i++) threads[count++] = start(reads_slots, (void *)(i + 1));
    for (long i = 0; i < 2; i++) threads[count++] = start(changes_slots, (void *)(i + 10));
    for (long i = 0; i < 3; i++) threads[count++] = start(opens_own, (void *)(i + 3));
    threads[count++] = start(forks, NULL);
    threads[count++] = start(grows, &end);
    for (int i = 0; i < ms / 10 && !__atomic_load_n(&wrong, __ATOMIC_SEQ_CST); i++) pause_ms(10);
    __atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    if (wrong) printf("storm: %s\n", what);
    CHECK(!wrong);
    for (int i = 0; i < SLOTS; i++) {
        CHECK(seen[i] > 0);
        close(FIRST + i);
    }
    for (int i = 0; i < FILES; i++) close(files[i]);
}

/* Threads write bytes until the descriptor is closed: all of them arrive, and then comes the end. */
#define WRITERS 4
static pthread_barrier_t round_starts, round_ends;
static int round_fd;
static long written[WRITERS];

static void *writes_until_closed(void *argument) {
    long n = (long)argument;
    for (;;) {
        pthread_barrier_wait(&round_starts);
        if (round_fd < 0) return NULL;
        while (write(round_fd, "x", 1) == 1) written[n]++;
        if (errno != EBADF) bad("a write failed otherwise");
        pthread_barrier_wait(&round_ends);
    }
}

static void *drains(void *argument) {
    static char buffer[4096];
    long sum = 0;
    for (ssize_t n; (n = read(*(int *)argument, buffer, sizeof buffer)) > 0;) sum += n;
    return (void *)sum;
}

static void ends_exactly(int rounds) {
    pthread_t writers[WRITERS];
    unsigned seed = 5;
    pthread_barrier_init(&round_starts, NULL, WRITERS + 1);
    pthread_barrier_init(&round_ends, NULL, WRITERS + 1);
    for (long i = 0; i < WRITERS; i++) writers[i] = start(writes_until_closed, (void *)i);
    for (int i = 0; i < rounds; i++) {
        int fds[2];
        void *sum;
        CHECK(pipe(fds) == 0);
        round_fd = fds[1];
        memset(written, 0, sizeof written);
        pthread_t reader = start(drains, &fds[0]);
        pthread_barrier_wait(&round_starts);
        for (volatile unsigned k = next(&seed) % 50000; k; k--) {
        }
        CHECK(close(fds[1]) == 0);
        pthread_barrier_wait(&round_ends);
        pthread_join(reader, &sum);
        long all = 0;
        for (int k = 0; k < WRITERS; k++) all += written[k];
        CHECK((long)sum == all);
        close(fds[0]);
    }
    CHECK(!wrong);
    round_fd = -1;
    pthread_barrier_wait(&round_starts);
    for (int i = 0; i < WRITERS; i++) pthread_join(writers[i], NULL);
}

/* A lock goes with any descriptor of the file, whatever another thread does with it meanwhile. */
static void *preads(void *argument) {
    char byte;
    while (!is_stopped()) pread(*(int *)argument, &byte, 1, 0);
    return NULL;
}

static void locks_go(void) {
    int fd = open("locked", O_RDWR | O_CREAT, 0644), other = open("locked", O_RDWR);
    CHECK(fd >= 0 && other >= 0 && write(fd, "x", 1) == 1);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    CHECK(fcntl(fd, F_SETLK, &lock) == 0);
    stop = 0;
    pthread_t thread = start(preads, &other);
    pause_ms(5);
    for (int turn = 0; turn < 2; turn++) {
        pid_t child = fork();
        if (child == 0) {
            struct flock asked = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
            _exit(fcntl(fd, F_GETLK, &asked) || asked.l_type != (turn ? F_UNLCK : F_WRLCK));
        }
        CHECK(child_good(child));
        if (turn == 0) CHECK(close(other) == 0);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
    pthread_join(thread, NULL);
    close(fd);
}

/* Without other threads the last descriptor closes the file at once, as it did before there were any. */
static void alone(void) {
    int fds[2];
    char byte;
    CHECK(pipe(fds) == 0 && write(fds[1], "xx", 2) == 2 && read(fds[0], &byte, 1) == 1);
    close(fds[0]);
    CHECK(other_end_gone(fds[1]));
    close(fds[1]);
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) return 42;
    setvbuf(stdout, NULL, _IONBF, 0);
    signal(SIGPIPE, SIG_IGN);
    alone();
    closed_in_read();
    closed_in_write();
    replaced_in_read();
    many_in_read(3);
    many_in_read(80);
    killed_in_read();
    exec_in_read();
    unshared_in_read();
    in_flight_in_read();
    epoll_closed_in_wait();
    locks_go();
    stop = 0;
    ends_exactly(100);
    storm(1500);
    alone();
    return report();
}
