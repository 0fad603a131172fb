/*
 * Keeps a kernel busy on many paths at once, so that the lock validator sees many locks taken in many orders:
 *   load SECONDS [KIND...]
 * One process per kind of work below, or per kind that is named (rounds.h). Called by
 * tools/limen/src/test/boots.rs.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include "rounds.h"

/* --- processes --- */

static void forks(void) {
    int pipes[2], status;
    char *const arguments[] = {"load", "0", NULL};
    CHECK(pipe(pipes) == 0);
    pid_t a = fork();
    CHECK(a >= 0);
    if (a == 0) {
        dup2(pipes[1], 1);
        execv("/proc/self/exe", arguments);
        _exit(127);
    }
    close(pipes[1]);
    pid_t b = vfork();
    if (b == 0) _exit(3);
    CHECK(b > 0);
    char text[8];
    CHECK(read(pipes[0], text, sizeof text) == 3);
    close(pipes[0]);
    CHECK(waitpid(b, &status, 0) == b && WEXITSTATUS(status) == 3);
    CHECK(waitpid(a, &status, 0) == a && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static volatile sig_atomic_t seen;
static void on_signal(int n) { (void)n; seen++; }

static void signals(void) {
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &act, NULL);
    sigaction(SIGALRM, &act, NULL);
    struct itimerval timer = {{0, 700}, {0, 700}};
    setitimer(ITIMER_REAL, &timer, NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        setpgid(0, 0);
        for (;;) pause();
    }
    setpgid(child, child);
    for (int i = 0; i < 20; i++) kill(-child, SIGUSR1);
    kill(child, SIGSTOP);
    int status;
    CHECK(waitpid(child, &status, WUNTRACED) == child);
    if (WIFSTOPPED(status)) {
        kill(child, SIGCONT);
        kill(child, SIGKILL);
        CHECK(waitpid(child, &status, 0) == child);
    }
    CHECK(WIFSIGNALED(status));
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, &old);
    int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    CHECK(fd >= 0);
    raise(SIGUSR1);
    struct signalfd_siginfo info;
    CHECK(read(fd, &info, sizeof info) == sizeof info);
    close(fd);
    sigprocmask(SIG_SETMASK, &old, NULL);
    memset(&timer, 0, sizeof timer);
    setitimer(ITIMER_REAL, &timer, NULL);
}

/* --- threads --- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int turns;

static pthread_mutex_t inherits;
static unsigned words[64];

static void *turn(void *which) {
    unsigned *a = &words[(intptr_t)which % 4 * 16], *b = &words[((intptr_t)which + 1) % 4 * 16];
    for (int i = 0; i < 50; i++) {
        struct timespec soon = {0, 50000};
        syscall(SYS_futex, a, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, &soon, NULL, 0);
        syscall(SYS_futex, a, FUTEX_CMP_REQUEUE | FUTEX_PRIVATE_FLAG, 1, 1L, b, 0);
        syscall(SYS_futex, b, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 1, 1L, a,
                FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0));
        pthread_mutex_lock(&inherits);
        if (i % 8 == 0) sched_yield();
        pthread_mutex_unlock(&inherits);
    }
    for (int i = 0; i < 200; i++) {
        pthread_mutex_lock(&mutex);
        turns++;
        pthread_cond_broadcast(&cond);
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        t.tv_nsec = (t.tv_nsec + 100000) % 1000000000;
        pthread_cond_timedwait(&cond, &mutex, &t);
        pthread_mutex_unlock(&mutex);
    }
    void *m = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(m != MAP_FAILED);
    memset(m, (int)(intptr_t)which, 1 << 20);
    munmap(m, 1 << 20);
    return NULL;
}

static void threads(void) {
    pthread_t all[6];
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    CHECK(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT) == 0);
    CHECK(pthread_mutex_init(&inherits, &attributes) == 0);
    for (intptr_t i = 0; i < 6; i++) CHECK(pthread_create(&all[i], NULL, turn, (void *)i) == 0);
    cpu_set_t cpus;
    sched_getaffinity(0, sizeof cpus, &cpus);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(turns & 1, &one);
    pthread_setaffinity_np(all[0], sizeof one, &one);
    for (int i = 0; i < 6; i++) pthread_join(all[i], NULL);
    pthread_mutex_destroy(&inherits);
}

/* --- memory --- */

static void memory(void) {
    size_t size = 1 << 21;
    int fd = memfd_create("load", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
    char *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    char *private = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    CHECK(shared != MAP_FAILED && private != MAP_FAILED);
    for (size_t i = 0; i < size; i += 4096) shared[i] = private[i] = (char)i;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (size_t i = 0; i < size; i += 4096) private[i]++, shared[i]++;
        _exit(0);
    }
    madvise(private + size / 2, size / 4, MADV_DONTNEED);
    char *moved = mremap(private, size, size * 2, MREMAP_MAYMOVE);
    CHECK(moved != MAP_FAILED);
    CHECK(mprotect(moved, size / 2, PROT_READ) == 0);
    CHECK(ftruncate(fd, 4096) == 0);
    waitpid(child, NULL, 0);
    msync(shared, 4096, MS_SYNC);
    munmap(shared, size);
    munmap(moved, size * 2);
    close(fd);
    void *brk = sbrk(1 << 16);
    CHECK(brk != (void *)-1);
    memset(brk, 1, 1 << 16);
    sbrk(-(1 << 16));
}

/* --- files --- */

static void files(void) {
    char a[64], b[64], c[80];
    snprintf(a, sizeof a, "/tmp/load-a%d", getpid());
    snprintf(b, sizeof b, "/tmp/load-b%d", getpid());
    CHECK(mkdir(a, 0755) == 0 && mkdir(b, 0755) == 0);
    int watch = inotify_init1(IN_NONBLOCK);
    CHECK(watch >= 0 && inotify_add_watch(watch, a, IN_ALL_EVENTS) >= 0);
    for (int i = 0; i < 8; i++) {
        snprintf(c, sizeof c, "%s/%d", a, i);
        int fd = open(c, O_CREAT | O_RDWR, 0644);
        CHECK(fd >= 0 && write(fd, a, sizeof a) == sizeof a);
        struct flock lock = {.l_type = F_WRLCK, .l_len = 10};
        fcntl(fd, F_SETLK, &lock);
        flock(fd, LOCK_EX);
        CHECK(ftruncate(fd, 100000) == 0);
        close(fd);
        char d[80];
        snprintf(d, sizeof d, "%s/%d", b, i);
        CHECK(rename(c, d) == 0);
        link(d, c);
        symlink(d, "/tmp/load-link");
        unlink("/tmp/load-link");
        unlink(c);
    }
    snprintf(c, sizeof c, "%s/sub", b);
    CHECK(rename(a, c) == 0);
    CHECK(rename(c, a) == 0);
    char events[4096];
    CHECK(read(watch, events, sizeof events) > 0);
    close(watch);
    for (int i = 0; i < 8; i++) {
        snprintf(c, sizeof c, "%s/%d", b, i);
        unlink(c);
    }
    CHECK(rmdir(a) == 0 && rmdir(b) == 0);
}

static void copies(void) {
    char a[64], b[64];
    snprintf(a, sizeof a, "/tmp/load-c%d", getpid());
    snprintf(b, sizeof b, "/tmp/load-d%d", getpid());
    int from = open(a, O_CREAT | O_RDWR, 0644), to = open(b, O_CREAT | O_RDWR, 0644), pipes[2], more[2];
    CHECK(from >= 0 && to >= 0 && pipe(pipes) == 0 && pipe(more) == 0);
    CHECK(ftruncate(from, 100000) == 0 && pwrite(from, a, sizeof a, 50000) == sizeof a);
    CHECK(sendfile(to, from, NULL, 60000) == 60000);
    CHECK(lseek(from, 0, SEEK_SET) == 0);
    CHECK(copy_file_range(from, NULL, to, NULL, 50000, 0) == 50000);
    CHECK(copy_file_range(to, NULL, from, NULL, 1, 0) >= 0);
    CHECK(splice(from, NULL, pipes[1], NULL, 4096, 0) == 4096);
    CHECK(tee(pipes[0], more[1], 4096, 0) == 4096);
    CHECK(splice(pipes[0], NULL, to, NULL, 4096, 0) == 4096);
    CHECK(splice(more[0], NULL, to, NULL, 4096, 0) == 4096);
    char *map = mmap(NULL, 65536, PROT_READ, MAP_SHARED, from, 0);
    CHECK(map != MAP_FAILED);
    // Copies to a file from a mapping of the same file.
    CHECK(pwrite(from, map, 65536, 4096) == 65536);
    munmap(map, 65536);
    CHECK(fallocate(to, 0, 0, 200000) == 0 || errno == EOPNOTSUPP);
    close(from), close(to), close(pipes[0]), close(pipes[1]), close(more[0]), close(more[1]);
    unlink(a), unlink(b);
}

static void trees(void) {
    char dir[64], path[80];
    snprintf(dir, sizeof dir, "/tmp/load-t%d", getpid());
    CHECK(mkdir(dir, 0755) == 0);
    if (mount("none", dir, "tmpfs", 0, "size=1m") == 0) {
        snprintf(path, sizeof path, "%s/pipe", dir);
        CHECK(mkfifo(path, 0600) == 0);
        int r = open(path, O_RDONLY | O_NONBLOCK), w = open(path, O_WRONLY);
        CHECK(r >= 0 && w >= 0 && write(w, "x", 1) == 1);
        CHECK(setxattr(path, "trusted.load", "1", 1, 0) == 0 || errno == EPERM || errno == EOPNOTSUPP);
        CHECK(chown(path, 1, 1) == 0 && chmod(path, 0640) == 0);
        struct timespec times[2] = {{1, 0}, {2, 0}};
        CHECK(utimensat(AT_FDCWD, path, times, 0) == 0);
        char cwd[128];
        int old = open(".", O_RDONLY | O_DIRECTORY);
        CHECK(chdir(dir) == 0 && getcwd(cwd, sizeof cwd) && fchdir(old) == 0);
        close(r), close(w), close(old);
        CHECK(umount2(dir, MNT_DETACH) == 0);
    }
    CHECK(rmdir(dir) == 0);
}

static void read_all(const char *dir, int depth) {
    DIR *d = opendir(dir);
    struct dirent *e;
    if (!d) return;
    while ((e = readdir(d))) {
        char path[600], text[4096];
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (e->d_type == DT_DIR && depth > 0) read_all(path, depth - 1);
        if (e->d_type == DT_LNK) CHECK(readlink(path, text, sizeof text) >= 0 || errno != EINVAL);
        // Reading some files waits for data.
        if (e->d_type != DT_REG || strstr(path, "kmsg")) continue;
        int fd = open(path, O_RDONLY | O_NONBLOCK);
        if (fd < 0) continue;
        for (int i = 0; i < 16 && read(fd, text, sizeof text) > 0; i++) {}
        close(fd);
    }
    closedir(d);
}

static void procfs(void) {
    read_all("/proc", 2);
    read_all("/sys", 6);
}

/* --- waiting --- */

static void polls(void) {
    int pipes[2], pair[2], status;
    int outer = epoll_create1(0), inner = epoll_create1(0), event = eventfd(0, EFD_NONBLOCK);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    CHECK(outer >= 0 && inner >= 0 && event >= 0 && timer >= 0);
    CHECK(pipe2(pipes, O_NONBLOCK) == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    struct epoll_event e = {.events = EPOLLIN | EPOLLET};
    int all[] = {event, timer, pipes[0], pair[0]};
    for (int i = 0; i < 4; i++) {
        e.data.fd = all[i];
        CHECK(epoll_ctl(inner, EPOLL_CTL_ADD, all[i], &e) == 0);
    }
    e.events = EPOLLIN;
    e.data.fd = inner;
    CHECK(epoll_ctl(outer, EPOLL_CTL_ADD, inner, &e) == 0);
    struct itimerspec at = {{0, 200000}, {0, 200000}};
    timerfd_settime(timer, 0, &at, NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        uint64_t one = 1;
        for (int i = 0; i < 50; i++) {
            write(event, &one, sizeof one);
            write(pipes[1], "x", 1);
            write(pair[1], "y", 1);
            if (i % 8 == 0) nap(100);
        }
        _exit(0);
    }
    char text[64];
    struct epoll_event got[4];
    for (int i = 0; i < 50; i++) {
        int n = epoll_wait(outer, got, 4, 2);
        struct pollfd p[2] = {{.fd = inner, .events = POLLIN}, {.fd = pipes[0], .events = POLLIN}};
        poll(p, 2, 0);
        n = epoll_wait(inner, got, 4, 0);
        for (int k = 0; k < n; k++) while (read(got[k].data.fd, text, sizeof text) > 0) {}
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    for (int i = 0; i < 4; i++) close(all[i]);
    close(pipes[1]), close(pair[1]), close(inner), close(outer);
}

static void sockets(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int n = snprintf(name.sun_path + 1, 40, "load%d", getpid()) + 1;
    socklen_t size = (socklen_t)(sizeof name.sun_family + (size_t)n);
    int server = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(server >= 0 && bind(server, (struct sockaddr *)&name, size) == 0 && listen(server, 4) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int s = socket(AF_UNIX, SOCK_STREAM, 0);
        CHECK(connect(s, (struct sockaddr *)&name, size) == 0);
        char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 'f';
        struct iovec io = {&byte, 1};
        struct msghdr m = {
            .msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &server, sizeof server);
        CHECK(sendmsg(s, &m, 0) == 1);
        for (int i = 0; i < 50; i++) CHECK(write(s, control, sizeof control) == sizeof control);
        _exit(0);
    }
    int s = accept(server, NULL, NULL);
    CHECK(s >= 0);
    char control[64], text[4096];
    struct iovec io = {text, 1};
    struct msghdr m = {
        .msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    CHECK(recvmsg(s, &m, 0) == 1);
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (c) {
        int fd;
        memcpy(&fd, CMSG_DATA(c), sizeof fd);
        close(fd);
    }
    while (read(s, text, sizeof text) > 0) {}
    waitpid(child, NULL, 0);
    close(s), close(server);
}

static void terminals(void) {
    int master = posix_openpt(O_RDWR | O_NOCTTY), status;
    CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        setsid();
        int slave = open(ptsname(master), O_RDWR);
        CHECK(slave >= 0);
        close(master);
        struct termios t;
        CHECK(tcgetattr(slave, &t) == 0);
        tcsetattr(slave, TCSADRAIN, &t);
        char line[64];
        ssize_t n = read(slave, line, sizeof line);
        CHECK(n > 0 && write(slave, line, (size_t)n) == n);
        for (;;) pause();
    }
    char text[256];
    CHECK(write(master, "hello\n", 6) == 6);
    size_t got = 0;
    while (got < 14) {
        ssize_t n = read(master, text, sizeof text);
        CHECK(n > 0);
        got += (size_t)n;
    }
    CHECK(write(master, "\003", 1) == 1);
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    close(master);
}

static void timers(void) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct sigaction act = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &act, NULL);
    sigaction(SIGVTALRM, &act, NULL);
    sigaction(SIGPROF, &act, NULL);
    timer_t timer;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    struct itimerspec at = {{0, 300000}, {0, 300000}};
    timer_settime(timer, 0, &at, NULL);
    struct itimerval v = {{0, 2000}, {0, 2000}};
    setitimer(ITIMER_VIRTUAL, &v, NULL);
    setitimer(ITIMER_PROF, &v, NULL);
    for (int i = 0; i < 10; i++) nap(500);
    for (volatile int i = 0; i < 3000000; i++) {}
    memset(&v, 0, sizeof v);
    setitimer(ITIMER_VIRTUAL, &v, NULL);
    setitimer(ITIMER_PROF, &v, NULL);
    timer_delete(timer);
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    setpriority(PRIO_PROCESS, 0, turns++ % 5);
    struct sched_param p = {0};
    sched_setscheduler(0, SCHED_BATCH, &p);
    sched_yield();
}

static const struct kind kinds[] = {
    {"forks", forks}, {"signals", signals}, {"threads", threads},     {"memory", memory},
    {"files", files}, {"copies", copies},   {"trees", trees},         {"procfs", procfs},
    {"polls", polls}, {"sockets", sockets}, {"terminals", terminals}, {"timers", timers},
};

int main(int argc, char **argv) {
    return rounds(kinds, sizeof kinds / sizeof kinds[0], argc, argv);
}
