/*
 * The settings under /proc/sys: how they are read and written, permissions, valid values, and that the kernel
 * obeys them. Called by tools/limen/src/test/programs.rs, on every architecture; on Linux it can be run by
 * hand, as root.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"

static int open_setting(const char *name, int flags) {
    char path[100];
    snprintf(path, sizeof path, "/proc/sys/%s", name);
    return open(path, flags);
}

/* Writes; returns the number of bytes, or -1. */
static int put(const char *name, const char *text) {
    int fd = open_setting(name, O_WRONLY);
    int n = fd < 0 ? -1 : write(fd, text, strlen(text)), error = errno;
    if (fd >= 0) close(fd);
    errno = error;
    return n;
}

static int put_number(const char *name, long long value) {
    char text[40];
    snprintf(text, sizeof text, "%lld\n", value);
    return put(name, text) == (int)strlen(text);
}

/* Reads at once. */
static const char *get(const char *name) {
    static char text[4096];
    int fd = open_setting(name, O_RDONLY);
    int n = fd < 0 ? -1 : read(fd, text, sizeof text - 1), error = errno;
    text[n > 0 ? n : 0] = 0;
    if (fd >= 0) close(fd);
    errno = error;
    return text;
}

static long long number(const char *name) {
    return strtoll(get(name), NULL, 10);
}

/* Runs `what` in a child as an ordinary user. */
static void as_user(void (*what)(void)) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        failed = 0;
        CHECK(setresgid(1234, 1234, 1234) == 0 && setresuid(1234, 1234, 1234) == 0);
        what();
        _exit(failed);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* Reading and writing a number, with a harmless setting as an example. */
static void numbers(void) {
    static const char *const name = "fs/protected_regular";
    char text[64];
    long long old = number(name);
    CHECK(put(name, "1") == 1 && strcmp(get(name), "1\n") == 0);
    CHECK(put(name, " \t2\n") == 4 && strcmp(get(name), "2\n") == 0);
    CHECK(put(name, "0x1\n") == 4 && strcmp(get(name), "1\n") == 0);
    CHECK(put(name, "02") == 2 && strcmp(get(name), "2\n") == 0);
    /* Values out of range, and text that is no number. */
    static const char *const wrong[] = {
        "3", "-1", "x", "1x", "\n", " ", "1\v", "4294967297", "99999999999999999999999"};
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK(put(name, wrong[i]) == -1 && errno == EINVAL);
    CHECK(strcmp(get(name), "2\n") == 0);
    int fd = open_setting(name, O_RDWR);
    CHECK(write(fd, "1\0", 2) == -1 && errno == EINVAL);
    CHECK(write(fd, "", 0) == 0);
    CHECK(pwrite(fd, "1 0", 3, 0) == 2 || !"a second number is left");
    /* A write beyond the start is ignored. */
    CHECK(lseek(fd, 0, SEEK_SET) == 0 && write(fd, "0", 1) == 1 && write(fd, "1", 1) == 1 &&
          strcmp(get(name), "0\n") == 0);
    CHECK(pwrite(fd, "x", 1, 5) == 1 && strcmp(get(name), "0\n") == 0);
    /* A read returns the whole number, or its beginning. */
    CHECK(lseek(fd, 0, SEEK_SET) == 0 && read(fd, text, 1) == 1 && text[0] == '0' && read(fd, text, 10) == 0);
    CHECK(pread(fd, text, 10, 1) == 0 && pread(fd, text, 10, 0) == 2);
    close(fd);
    CHECK(put_number(name, old));
}

/* Reading and writing a line of text. */
static void texts(void) {
    struct utsname uts;
    char text[128], old[65], longer[100];
    gethostname(old, sizeof old);
    CHECK(put("kernel/hostname", "one.example\n") == 12 &&
          strcmp(get("kernel/hostname"), "one.example\n") == 0);
    CHECK(uname(&uts) == 0 && strcmp(uts.nodename, "one.example") == 0);
    CHECK(put("kernel/domainname", "two\nthree") == 9 && uname(&uts) == 0 &&
          strcmp(uts.domainname, "two") == 0);
    int fd = open_setting("kernel/domainname", O_RDWR);
    CHECK(read(fd, text, 1) == 1 && text[0] == 't' && read(fd, text, 10) == 3 &&
          memcmp(text, "wo\n", 3) == 0 && read(fd, text, 10) == 0);
    CHECK(pread(fd, text, 3, 0) == 3 && pread(fd, text, 3, 3) == 1 && text[0] == '\n' &&
          pread(fd, text, 3, 4) == 0);
    /* A write continues at its position; beyond the end it is ignored. */
    CHECK(lseek(fd, 0, SEEK_SET) == 0 && write(fd, "ab", 2) == 2 && write(fd, "cd", 2) == 2 &&
          strcmp(get("kernel/domainname"), "abcd\n") == 0);
    CHECK(pwrite(fd, "x", 1, 9) == 1 && strcmp(get("kernel/domainname"), "abcd\n") == 0);
    close(fd);
    memset(longer, 'n', sizeof longer);
    longer[99] = 0;
    CHECK(put("kernel/hostname", longer) == 99 && uname(&uts) == 0 && strlen(uts.nodename) == 64);
    CHECK(sethostname(old, strlen(old)) == 0 && put("kernel/domainname", "(none)\n") == 7);
    CHECK(put("kernel/core_pattern", "/tmp/core.%p\n") == 13 &&
          strcmp(get("kernel/core_pattern"), "/tmp/core.%p\n") == 0);
    CHECK(put("kernel/core_pattern", "core") == 4);
}

/* Several numbers. */
static void rows(void) {
    int a, b, c, d;
    CHECK(sscanf(get("kernel/printk"), "%d\t%d\t%d\t%d\n", &a, &b, &c, &d) == 4);
    char old[64];
    snprintf(old, sizeof old, "%d %d %d %d\n", a, b, c, d);
    CHECK(put("kernel/printk", "3 4 1 7\n") == 8 && strcmp(get("kernel/printk"), "3\t4\t1\t7\n") == 0);
    CHECK(put("kernel/printk", "5") == 1 && strcmp(get("kernel/printk"), "5\t4\t1\t7\n") == 0);
    CHECK(put("kernel/printk", "6 x") == -1 && errno == EINVAL &&
          strcmp(get("kernel/printk"), "6\t4\t1\t7\n") == 0);
    CHECK(put("kernel/printk", "4 4 1 7 9") == 8);
    /* The console's log level has a minimum. */
    CHECK(put("kernel/printk", "4 4 3 7") == 7 && syscall(SYS_syslog, 8, 0, 1) == 0 &&
          number("kernel/printk") == 3);
    CHECK(put("kernel/printk", old) > 0);
}

static int shared;

static void not_allowed(void) {
    CHECK(open_setting("kernel/hostname", O_WRONLY) == -1 && errno == EACCES);
    CHECK(write(shared, "x", 1) == -1 && errno == EPERM);
    CHECK(open_setting("vm/drop_caches", O_RDONLY) == -1 && errno == EACCES);
}

/* Permissions. */
static void rights(void) {
    static const struct { const char *name; int mode;
    } all[] = {
        {"fs/pipe-max-size", 0644},
        {"fs/inotify/max_user_instances", 0644},
        {"fs/inotify/max_user_watches", 0644},
        {"fs/inotify/max_queued_events", 0644},
        {"fs/epoll/max_user_watches", 0644},
        {"vm/max_map_count", 0644},
        {"kernel/domainname", 0644},
        {"kernel/hostname", 0644},
        {"fs/nr_open", 0644},
        {"fs/file-max", 0644},
        {"fs/file-nr", 0444},
        {"kernel/core_pattern", 0644},
        {"kernel/core_uses_pid", 0644},
        {"kernel/core_pipe_limit", 0644},
        {"fs/suid_dumpable", 0644},
        {"kernel/pid_max", 0644},
        {"kernel/threads-max", 0644},
        {"kernel/ns_last_pid", 0666},
        {"vm/overcommit_memory", 0644},
        {"vm/overcommit_ratio", 0644},
        {"vm/overcommit_kbytes", 0644},
        {"vm/drop_caches", 0200},
        {"vm/panic_on_oom", 0644},
        {"kernel/ostype", 0444},
        {"kernel/random/uuid", 0444},
        {"fs/pipe-user-pages-soft", 0644},
        {"fs/pipe-user-pages-hard", 0644},
        {"kernel/randomize_va_space", 0644},
        {"net/core/somaxconn", 0644},
        {"kernel/sched_rr_timeslice_ms", 0644},
        {"kernel/sysctl_writes_strict", 0644},
        {"kernel/dmesg_restrict", 0644},
        {"kernel/kptr_restrict", 0644},
    };
    char path[100];
    struct stat st;
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        snprintf(path, sizeof path, "/proc/sys/%s", all[i].name);
        int good = stat(path, &st) == 0 && (st.st_mode & 07777) == (mode_t)all[i].mode && st.st_uid == 0;
        if (!good) printf("%s\n", all[i].name);
        CHECK(good);
    }
    /* Being root alone gives no permission. */
    CHECK(open_setting("kernel/ostype", O_WRONLY) == -1 && errno == EACCES);
    CHECK(open_setting("vm/drop_caches", O_RDONLY) == -1 && errno == EACCES);
    CHECK(put("vm/drop_caches", "1") == 1 && put("vm/drop_caches", "5") == -1 && errno == EINVAL);
    /* It is checked at each call, not when the file is opened. */
    shared = open_setting("kernel/hostname", O_WRONLY);
    as_user(not_allowed);
    close(shared);
}

static int pipe_of(int pages, int *error) {
    int ends[2], size = -1;
    *error = 0;
    if (pipe(ends) != 0) {
        *error = errno;
        return -1;
    }
    size = pages ? fcntl(ends[1], F_SETPIPE_SZ, pages * getpagesize()) : fcntl(ends[1], F_GETPIPE_SZ);
    if (size < 0) *error = errno;
    close(ends[0]);
    close(ends[1]);
    return size / getpagesize();
}

static void small_pipes(void) {
    int error;
    CHECK(pipe_of(8, &error) == 8 || pipe_of(0, &error) == 8);
    CHECK(pipe_of(64, &error) < 0 || error == EPERM);
    CHECK(pipe_of(64, &error) <= 0 && error == EPERM);
}

static void few_pages(void) {
    int error, a[2];
    CHECK(pipe(a) == 0);
    CHECK(pipe_of(0, &error) == 2);
    close(a[0]);
    close(a[1]);
}

static void no_pages(void) {
    int error, a[2];
    CHECK(pipe(a) == 0 && pipe_of(0, &error) == -1 && error == ENFILE);
    close(a[0]);
    close(a[1]);
    CHECK(pipe(a) == 0);
    close(a[0]);
    close(a[1]);
}

static void pipes(void) {
    int page = getpagesize(), error, a[2];
    CHECK(pipe(a) == 0);
    int first = fcntl(a[0], F_GETPIPE_SZ) / page;
    close(a[0]);
    close(a[1]);
    CHECK(put_number("fs/pipe-max-size", 3 * page) && number("fs/pipe-max-size") == 4 * page);
    CHECK(put_number("fs/pipe-max-size", 1) && number("fs/pipe-max-size") == page);
    CHECK(put("fs/pipe-max-size", "-1") == -1 && errno == EINVAL &&
          put("fs/pipe-max-size", "2147483649") == -1 && errno == EINVAL);
    CHECK(put_number("fs/pipe-max-size", 8 * page));
    CHECK(pipe_of(64, &error) == 64);
    as_user(small_pipes);
    CHECK(put_number("fs/pipe-max-size", 1048576));
    CHECK(put_number("fs/pipe-user-pages-soft", first));
    if (first > 2) as_user(few_pages);
    CHECK(put_number("fs/pipe-user-pages-soft", 16384) && put_number("fs/pipe-user-pages-hard", first));
    as_user(no_pages);
    CHECK(put_number("fs/pipe-user-pages-hard", 0));
}

static void two_instances(void) {
    int a = inotify_init(), b = inotify_init();
    CHECK(a >= 0 && b >= 0 && inotify_init() == -1 && errno == EMFILE);
    close(a);
    CHECK((a = inotify_init()) >= 0);
    CHECK(inotify_add_watch(a, "/", IN_CREATE) > 0 && inotify_add_watch(b, "/", IN_CREATE) > 0 &&
          inotify_add_watch(a, "/proc", IN_CREATE) > 0);
    CHECK(inotify_add_watch(a, "/dev", IN_CREATE) == -1 && errno == ENOSPC);
    CHECK(inotify_add_watch(a, "/", IN_CREATE | IN_DELETE) > 0);
    CHECK(inotify_rm_watch(b, 1) == 0 && inotify_add_watch(a, "/dev", IN_CREATE) > 0);
    close(a);
    close(b);
}

static void one_watch(void) {
    struct epoll_event event = {.events = EPOLLIN};
    int ep = epoll_create1(0), a[2];
    CHECK(pipe(a) == 0 && epoll_ctl(ep, EPOLL_CTL_ADD, a[0], &event) == 0);
    CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, a[1], &event) == -1 && errno == ENOSPC);
    CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, a[0], &event) == -1 && errno == EEXIST);
    CHECK(epoll_ctl(ep, EPOLL_CTL_DEL, a[0], &event) == 0 && epoll_ctl(ep, EPOLL_CTL_ADD, a[1], &event) == 0);
    close(a[0]);
    close(a[1]);
    close(ep);
}

static void watches(void) {
    long long instances = number("fs/inotify/max_user_instances"),
              most = number("fs/inotify/max_user_watches"), files = number("fs/epoll/max_user_watches");
    CHECK(instances == 128 && number("user/max_inotify_instances") == instances && most >= 8192 &&
          files > 1000);
    CHECK(put_number("fs/inotify/max_user_instances", 2) && put_number("fs/inotify/max_user_watches", 3) &&
          put_number("fs/epoll/max_user_watches", 1));
    CHECK(number("user/max_inotify_watches") == 3);
    as_user(two_instances);
    as_user(one_watch);
    CHECK(put_number("fs/inotify/max_user_instances", instances) &&
          put_number("fs/inotify/max_user_watches", most) && put_number("fs/epoll/max_user_watches", files));
    CHECK(put("fs/inotify/max_user_watches", "-1") == -1 && errno == EINVAL &&
          put("fs/inotify/max_user_watches", "4294967296") == -1 && errno == EINVAL);
    /* A queue's length is that of the setting when its instance was made. */
    CHECK(put_number("fs/inotify/max_queued_events", 2));
    int fd = inotify_init1(IN_NONBLOCK), n, count = 0, over = 0;
    CHECK(put_number("fs/inotify/max_queued_events", 16384));
    char buffer[1024], *at;
    CHECK(inotify_add_watch(fd, ".", IN_CREATE) > 0);
    for (int i = 0; i < 5; i++) {
        char name[4] = {'q', '0' + i, 0};
        close(open(name, O_CREAT | O_WRONLY, 0600));
        unlink(name);
    }
    n = read(fd, buffer, sizeof buffer);
    for (at = buffer; at < buffer + n;
         at += sizeof(struct inotify_event) + ((struct inotify_event *)at)->len) {
        count++;
        over += (((struct inotify_event *)at)->mask & IN_Q_OVERFLOW) != 0;
    }
    CHECK(count == 3 && over == 1);
    close(fd);
}

static void full(void) {
    int first = open("/", O_RDONLY), a[2];
    CHECK(first == -1 && errno == ENFILE && pipe(a) == -1 && errno == ENFILE && epoll_create1(0) == -1 &&
          errno == ENFILE);
    CHECK(dup(1) >= 0);
}

static void files(void) {
    struct rlimit limit = {100, 2000000};
    int open_now = number("fs/nr_open"), fds[64], status;
    CHECK(open_now == 1048576);
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == -1 && errno == EPERM);
    CHECK(put_number("fs/nr_open", 2000000) && number("fs/nr_open") == 2000000);
    pid_t child = fork();
    if (child == 0) {
        failed = 0;
        limit.rlim_cur = 2000000;
        CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0 && dup2(1, 1500000) == 1500000);
        _exit(failed);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    /* Not a multiple of what a table grows by. */
    CHECK(put_number("fs/nr_open", 1000));
    child = fork();
    if (child == 0) {
        failed = 0;
        CHECK(dup2(1, 511) == 511 && dup2(1, 512) == 512 && dup2(1, 959) == 959);
        CHECK(dup2(1, 960) == -1 && errno == EBADF && fcntl(1, F_DUPFD, 960) == -1 && errno == EMFILE);
        CHECK(syscall(SYS_close_range, 0u, ~0u, 4) == 0 && fcntl(959, F_GETFD) == FD_CLOEXEC);
        _exit(failed);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(put("fs/nr_open", "1") == -1 && errno == EINVAL && put_number("fs/nr_open", 1048576));
    /* The number of open files, and its limit. */
    long before = number("fs/file-nr"), after;
    for (int i = 0; i < 64; i++) fds[i] = open("/", O_RDONLY);
    for (int i = 0; i < 64; i++) CHECK(fds[i] >= 0);
    after = number("fs/file-nr");
    /* Other processes may open and close files meanwhile. */
    CHECK(after >= before + 60 && after <= before + 68);
    for (int i = 0; i < 64; i++) close(fds[i]);
    long long most = number("fs/file-max"), third;
    CHECK(sscanf(get("fs/file-nr"), "%ld\t0\t%lld\n", &after, &third) == 2 && third == most && most >= 8192);
    CHECK(put_number("fs/file-max", 1));
    as_user(full);
    CHECK((fds[0] = open("/", O_RDONLY)) >= 0);
    close(fds[0]);
    CHECK(put_number("fs/file-max", most) && put("fs/file-max", "-1") == -1 && errno == EINVAL);
}

/* Memory. */
static void memory(void) {
    long long most = number("vm/max_map_count");
    int status;
    CHECK(most == 65530 && put_number("vm/max_map_count", 100) && number("vm/max_map_count") == 100);
    pid_t child = fork();
    if (child == 0) {
        failed = 0;
        int n = 0, page = getpagesize();
        while (n < 200 && mmap(NULL, page, n % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                               0) != MAP_FAILED)
            n++;
        CHECK(n > 50 && n <= 101 && errno == ENOMEM);
        _exit(failed);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(put("vm/max_map_count", "-1") == -1 && errno == EINVAL && put_number("vm/max_map_count", most));
    /* Only one of the two is in effect. */
    CHECK(put_number("vm/overcommit_kbytes", 40000) && number("vm/overcommit_kbytes") == 40000 &&
          number("vm/overcommit_ratio") == 0);
    CHECK(put_number("vm/overcommit_ratio", 50) && number("vm/overcommit_kbytes") == 0);
    CHECK(put("vm/overcommit_memory", "3") == -1 && errno == EINVAL);
    size_t much = (size_t)1 << (sizeof(long) == 8 ? 36 : 30);
    CHECK(put_number("vm/overcommit_memory", 1));
    void *at = mmap(NULL, much, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED && munmap(at, much) == 0);
    CHECK(put_number("vm/overcommit_kbytes", 1000000) && put_number("vm/overcommit_memory", 2));
    CHECK(mmap(NULL, much, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED &&
          errno == ENOMEM);
    CHECK(put_number("vm/overcommit_memory", 0) && put_number("vm/overcommit_ratio", 50));
}

/* Processes. */
static void processes(void) {
    long long most = number("kernel/pid_max"), threads = number("kernel/threads-max");
    int status;
    CHECK(put("kernel/pid_max", "300") == -1 && errno == EINVAL && put_number("kernel/pid_max", 2000) &&
          number("kernel/pid_max") == 2000);
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0) _exit(0);
        CHECK(child > 0 && child < 2000 && waitpid(child, &status, 0) == child);
    }
    CHECK(put_number("kernel/pid_max", most));
    CHECK(put_number("kernel/ns_last_pid", 1700) && number("kernel/ns_last_pid") == 1700);
    pid_t child = fork();
    if (child == 0) _exit(0);
    CHECK(child == 1701 && waitpid(child, &status, 0) == child);
    CHECK(threads > 0 && put("kernel/threads-max", "0") == -1 && errno == EINVAL);
    CHECK(put_number("kernel/threads-max", 1));
    child = fork();
    if (child == 0) _exit(0);
    CHECK(child == -1 && errno == EAGAIN);
    CHECK(put_number("kernel/threads-max", threads) && number("kernel/threads-max") == threads);
    /* Time slices of round-robin tasks. */
    struct timespec slice;
    struct sched_param param = {1};
    CHECK(put_number("kernel/sched_rr_timeslice_ms", 40));
    child = fork();
    if (child == 0) {
        failed = 0;
        CHECK(sched_setscheduler(0, SCHED_RR, &param) == 0 && sched_rr_get_interval(0, &slice) == 0 &&
              slice.tv_sec == 0 && slice.tv_nsec == 40000000);
        _exit(failed);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(put_number("kernel/sched_rr_timeslice_ms", -1) && number("kernel/sched_rr_timeslice_ms") == 100);
    /* Core dumps of a program that changes its ids (suid_dumpable). */
    for (int mode = 2; mode >= 0; mode--) {
        CHECK(put_number("fs/suid_dumpable", mode));
        child = fork();
        if (child == 0) {
            failed = 0;
            CHECK(setresuid(1234, 1234, 1234) == 0 && prctl(PR_GET_DUMPABLE) == mode);
            _exit(failed);
        }
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    alarm(120);
    chmod(".", 0777);
    numbers();
    texts();
    rows();
    rights();
    pipes();
    watches();
    files();
    memory();
    processes();
    return report();
}
