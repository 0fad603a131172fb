/*
 * Tracing through tracefs: markers as text and as pages, pipes that wait, splice, poll, instances, snapshots;
 * sets of threads whose events are recorded, calls that return in another program or thread.
 * Called by tools/limen/src/test/programs.rs, on every architecture; on Linux it can be run by hand, as root,
 * where nothing else traces.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define ROOT "/sys/kernel/tracing/"
#define OWN ROOT "instances/traced/"

static int open_file(const char *name, int flags) {
    char path[128];
    snprintf(path, sizeof path, OWN "%s", name);
    return open(path, flags);
}

static int put(const char *name, const char *text) {
    int fd = open_file(name, O_WRONLY | O_TRUNC);
    if (fd < 0) return -errno;
    int n = write(fd, text, strlen(text)) < 0 ? -errno : 0;
    close(fd);
    return n;
}

/* The text of a file, as far as it fits. */
static char *get(const char *name) {
    static char text[1 << 21];
    int fd = open_file(name, O_RDONLY);
    size_t len = 0;
    ssize_t n;
    while (fd >= 0 && (n = read(fd, text + len, sizeof text - 1 - len)) > 0) len += n;
    text[len] = 0;
    close(fd);
    return text;
}

static int has(const char *name, const char *what) { return strstr(get(name), what) != NULL; }

/* Writes a marker `ms` milliseconds later, in another process. */
static pid_t later(int ms, const char *text) {
    pid_t pid = fork();
    if (pid != 0) return pid;
    usleep(ms * 1000);
    _exit(put("trace_marker", text) != 0);
}

static void is_over(pid_t pid) {
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void markers(void) {
    CHECK(put("trace", "") == 0 && !has("trace", "tracing_mark_write"));
    CHECK(put("trace_marker", "one") == 0 && put("trace_marker", "two\n") == 0);
    char *text = get("trace");
    CHECK(strstr(text, "# entries-in-buffer/entries-written: 2/2 ") != NULL);
    char *one = strstr(text, ": tracing_mark_write: one\n");
    char *two = strstr(text, ": tracing_mark_write: two\n");
    CHECK(one != NULL && two != NULL && one < two);
    /* Reading leaves it there. */
    CHECK(has("trace", "write: one\n") && has("trace", "write: two\n"));
    CHECK(put("tracing_on", "0") == 0 && put("trace_marker", "three") == -EBADF);
    CHECK(put("tracing_on", "1") == 0 && !has("trace", "three"));
    int fd = open_file("trace_marker", O_WRONLY);
    void *volatile nowhere = (void *)8;
    CHECK(write(fd, nowhere, 5) == -1 && errno == EFAULT);
    CHECK(write(fd, "", 0) == 0 && lseek(fd, 0, SEEK_CUR) == -1 && errno == ESPIPE);
    close(fd);
    CHECK(put("trace_marker_raw", "abc") == -EINVAL && put("trace_marker_raw", "\1\0\0") == -EINVAL);
    fd = open_file("trace_marker_raw", O_WRONLY);
    CHECK(write(fd, "\1\0\0\0wxyz", 8) == 8);
    close(fd);
    CHECK(has("trace", ": # ") && has("trace", " buf: 77 78 79 7a"));
    CHECK(put("trace", "") == 0 && !has("trace", "mark_write") && !has("trace", "buf:"));
}

static void pipes(void) {
    char text[4096];
    int fd = open_file("trace_pipe", O_RDONLY | O_NONBLOCK);
    CHECK(fd >= 0 && read(fd, text, sizeof text) == -1 && errno == EAGAIN);
    struct pollfd poller = {fd, POLLIN, 0};
    CHECK(poll(&poller, 1, 0) == 0);
    pid_t pid = later(100, "for poll");
    fcntl(fd, F_SETFL, 0);
    ssize_t n = read(fd, text, sizeof text - 1);
    CHECK(n > 0);
    text[n > 0 ? n : 0] = 0;
    CHECK(strstr(text, "tracing_mark_write: for poll\n") != NULL);
    is_over(pid);
    CHECK(!has("trace", "for poll"));
    /* Something was read: with recording off, this is the end. */
    CHECK(put("tracing_on", "0") == 0 && read(fd, text, sizeof text) == 0 && put("tracing_on", "1") == 0);
    /* Its text can be spliced. */
    int ends[2];
    CHECK(pipe(ends) == 0 && put("trace_marker", "spliced") == 0);
    n = splice(fd, NULL, ends[1], NULL, 4096, 0);
    CHECK(n > 0 && read(ends[0], text, n) == n);
    text[n > 0 ? n : 0] = 0;
    CHECK(strstr(text, "tracing_mark_write: spliced\n") != NULL);
    close(fd);
    close(ends[0]);
    close(ends[1]);
}

/* How many bytes of events a page has, if it is one. */
static long of_page(const char *page) {
    long commit;
    memcpy(&commit, page + 8, sizeof commit);
    return commit & 0xfffff;
}

static void pages(void) {
    long size = sysconf(_SC_PAGESIZE);
    char *page = malloc(size);
    int ends[2], raw[64], cpus = 0, full = 0, rest = 0;
    CHECK(pipe(ends) == 0 && put("buffer_size_kb", "512") == 0 && put("trace", "") == 0);
    for (; cpus < 64; cpus++) {
        char name[64];
        snprintf(name, sizeof name, "per_cpu/cpu%d/trace_pipe_raw", cpus);
        raw[cpus] = open_file(name, O_RDONLY | O_NONBLOCK);
        if (raw[cpus] < 0) break;
        CHECK(read(raw[cpus], page, size) == -1 && errno == EAGAIN);
        CHECK(splice(raw[cpus], NULL, ends[1], NULL, size, SPLICE_F_NONBLOCK) == -1 && errno == EAGAIN);
    }
    CHECK(cpus > 0);
    int marker = open_file("trace_marker", O_WRONLY);
    char text[101];
    memset(text, 'm', 100);
    text[100] = 0;
    for (long n = 0; n < 3 * size / 100; n++) CHECK(write(marker, text, 100) == 100);
    for (int cpu = 0; cpu < cpus; cpu++) {
        ssize_t n;
        while ((n = splice(raw[cpu], NULL, ends[1], NULL, size, SPLICE_F_NONBLOCK)) > 0) {
            CHECK(n == size && read(ends[0], page, size) == size && of_page(page) > size / 2);
            full++;
        }
        CHECK(n == -1 && errno == EAGAIN);
        while ((n = read(raw[cpu], page, size)) > 0) {
            CHECK(n == size && of_page(page) > 0 && memmem(page, size, text, 100) != NULL);
            rest++;
        }
        close(raw[cpu]);
    }
    CHECK(full >= 2 && rest >= 1 && !has("trace", "mmmm"));
    close(marker);
    close(ends[0]);
    close(ends[1]);
    free(page);
}

static void snapshots(void) {
    CHECK(put("trace", "") == 0 && put("trace_marker", "before") == 0 && put("snapshot", "1") == 0);
    CHECK(has("snapshot", "write: before\n") && !has("trace", "before"));
    CHECK(put("trace_marker", "after") == 0 && has("trace", "write: after\n") && !has("snapshot", "after"));
    CHECK(put("snapshot", "1") == 0 && has("snapshot", "write: after\n") && !has("snapshot", "before"));
    CHECK(put("snapshot", "2") == 0 && has("snapshot", "* Snapshot is allocated *"));
    CHECK(put("per_cpu/cpu0/snapshot", "0") == -EINVAL && put("snapshot", "x") == -EINVAL);
    CHECK(put("snapshot", "0") == 0 && has("snapshot", "* Snapshot is freed *"));
}

static void settings(void) {
    CHECK(put("current_tracer", "nop") == 0 && strcmp(get("current_tracer"), "nop\n") == 0);
    CHECK(put("current_tracer", "no such tracer") == -EINVAL && put("buffer_size_kb", "0") == -EINVAL);
    CHECK(put("trace_options", "noprint-parent") == 0 && has("trace_options", "\nnoprint-parent\n") == 0);
    CHECK(strcmp(get("options/print-parent"), "0\n") == 0 && put("options/print-parent", "1") == 0);
    CHECK(strncmp(get("trace_options"), "print-parent\n", 13) == 0);
    CHECK(put("options/print-parent", "2") == -EINVAL && put("trace_options", "such") == -EINVAL);
    CHECK(put("trace_clock", "counter") == 0 && has("trace_clock", " [counter] "));
    CHECK(put("trace_marker", "counted") == 0 && !has("trace", ".0") && has("trace", "write: counted\n"));
    CHECK(put("trace_clock", "sundial") == -EINVAL && put("trace_clock", "local") == 0);
    CHECK(!has("trace", "counted"));
    char all[64];
    snprintf(all, sizeof all, "%s", get("tracing_cpumask"));
    CHECK(put("tracing_cpumask", "0") == 0 && put("tracing_cpumask", "fffffffff") == -EOVERFLOW);
    CHECK(put("tracing_cpumask", "xyz") == -EINVAL);
    put("trace_marker", "nowhere");
    CHECK(!has("trace", "nowhere") && put("tracing_cpumask", all) == 0);
    /* A small buffer, of which each CPU has one, keeps the newest; without "overwrite" the oldest. */
    cpu_set_t were, one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    CHECK(sched_getaffinity(0, sizeof were, &were) == 0 && sched_setaffinity(0, sizeof one, &one) == 0);
    for (int keeps = 0; keeps < 2; keeps++) {
        CHECK(put("options/overwrite", keeps ? "0" : "1") == 0 && put("buffer_size_kb", "8") == 0);
        CHECK(put("trace", "") == 0);
        for (int n = 0; n < 8000; n++) {
            char text[32];
            snprintf(text, sizeof text, "number %d.", n);
            put("trace_marker", text);
        }
        CHECK(has("trace", keeps ? "number 0." : "number 7999."));
        CHECK(!has("trace", keeps ? "number 7999." : "number 0."));
    }
    CHECK(put("options/overwrite", "1") == 0 && sched_setaffinity(0, sizeof were, &were) == 0);
}

static void instances(void) {
    struct stat st;
    CHECK(mkdir(OWN, 0755) == -1 && errno == EEXIST && stat(OWN, &st) == 0 && (st.st_mode & 07) == 0);
    int fd = open_file("tracing_on", O_RDONLY);
    CHECK(fd >= 0 && rmdir(OWN) == -1 && errno == EBUSY);
    close(fd);
    CHECK(rmdir(OWN) == 0 && rmdir(OWN) == -1 && errno == ENOENT);
    CHECK(open_file("tracing_on", O_RDONLY) == -1 && errno == ENOENT && mkdir(OWN, 0755) == 0);
    CHECK(!has("trace", "number") && strcmp(get("tracing_on"), "1\n") == 0);
    CHECK(unlink(OWN "trace") == -1 && errno == EPERM && rmdir(OWN "options") == -1 && errno == EPERM);
    CHECK(chmod(OWN "trace", 0600) == 0 && stat(OWN "trace", &st) == 0 && (st.st_mode & 0777) == 0600);
    CHECK(chown(OWN "trace", 0, 5) == 0 && stat(OWN "trace", &st) == 0 && st.st_gid == 5);
}

/* Whether a set of threads has this one. */
static int lists(const char *name, pid_t pid) {
    char line[32];
    snprintf(line, sizeof line, "\n%d\n", pid);
    char *text = get(name);
    return strncmp(text, line + 1, strlen(line + 1)) == 0 || strstr(text, line) != NULL;
}

static int put_number(const char *name, int number) {
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    return put(name, text);
}

/* How many lines of the trace have `one` and `other`. */
static int lines_with(const char *one, const char *other) {
    int found = 0;
    char *rest = get("trace");
    for (char *line; (line = strsep(&rest, "\n")) != NULL;)
        found += strstr(line, one) != NULL && strstr(line, other) != NULL;
    return found;
}

/* What a thread in both sets does is left out; a switch is not, as one of its threads is in neither. */
static void switches(void) {
    pid_t pid = fork();
    if (pid == 0)
        for (;;) usleep(5000);
    CHECK(strcmp(get("set_event_pid"), "") == 0 && strcmp(get("set_event_notrace_pid"), "") == 0);
    CHECK(put_number("set_event_pid", pid) == 0 && put_number("set_event_notrace_pid", pid) == 0);
    CHECK(put("trace", "") == 0 && put("events/sched/sched_switch/enable", "1") == 0);
    CHECK(put("events/sched/sched_waking/enable", "1") == 0);
    char prev[32], next[32];
    snprintf(prev, sizeof prev, "prev_pid=%d ", pid);
    snprintf(next, sizeof next, "next_pid=%d ", pid);
    for (int n = 0; n < 100 && lines_with("sched_switch: ", prev) < 4; n++) usleep(50000);
    CHECK(put("set_event", "") == 0);
    int from = lines_with("sched_switch: ", prev), to = lines_with("sched_switch: ", next);
    CHECK(from >= 3 && to >= 3 && lines_with("sched_switch: ", "") == from + to);
    CHECK(!has("trace", "sched_waking: "));
    /* In the second set alone it is the same, and other threads' are recorded. */
    CHECK(put("set_event_pid", "") == 0 && put("set_event", "sched:sched_switch") == 0);
    CHECK(put("trace", "") == 0);
    for (int n = 0; n < 100 && lines_with("sched_switch: ", prev) < 4; n++) usleep(50000);
    CHECK(put("set_event", "") == 0 && lines_with("sched_switch: ", prev) >= 3);
    CHECK(put("set_event_notrace_pid", "") == 0 && put("trace", "") == 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* Threads that are made are in the set of who made them, until they are no more. */
static void forks(void) {
    int ends[2], looked[2];
    char byte;
    fflush(stdout);
    CHECK(pipe(ends) == 0 && pipe(looked) == 0 && put("options/event-fork", "1") == 0);
    CHECK(put_number("set_event_pid", getpid()) == 0 && put("set_event_notrace_pid", "1") == 0);
    pid_t pid = fork();
    if (pid == 0) {
        failed = 0;
        pid_t child = fork();
        if (child == 0) _exit(read(ends[0], &byte, 1) != 1);
        CHECK(lists("set_event_pid", getpid()) && lists("set_event_pid", child));
        CHECK(write(ends[1], "x", 1) == 1);
        is_over(child);
        for (int ms = 0; ms < 3000 && lists("set_event_pid", child); ms += 10) usleep(10000);
        CHECK(!lists("set_event_pid", child) && lists("set_event_pid", getpid()));
        fflush(stdout);
        /* One that has ended may be in no set any more, even if nobody has waited for it. */
        _exit(failed != 0 || read(looked[0], &byte, 1) != 1);
    }
    CHECK(lists("set_event_pid", pid));
    CHECK(write(looked[1], "x", 1) == 1);
    is_over(pid);
    for (int ms = 0; ms < 3000 && lists("set_event_pid", pid); ms += 10) usleep(10000);
    CHECK(!lists("set_event_pid", pid) && lists("set_event_pid", getpid()));
    CHECK(strcmp(get("set_event_notrace_pid"), "1\n") == 0 && put("set_event_notrace_pid", "") == 0);
    /* Many at a time. */
    pid_t pids[40];
    for (int n = 0; n < 40; n++)
        if ((pids[n] = fork()) == 0) {
            for (int i = 0; i < 20; i++) {
                pid_t child = fork();
                if (child == 0) _exit(0);
                waitpid(child, NULL, 0);
            }
            _exit(0);
        }
    for (int n = 0; n < 40; n++) is_over(pids[n]);
    char own[16];
    snprintf(own, sizeof own, "%d\n", getpid());
    for (int ms = 0; ms < 3000 && strcmp(get("set_event_pid"), own) != 0; ms += 10) usleep(10000);
    CHECK(strcmp(get("set_event_pid"), own) == 0);
    close(ends[0]);
    close(ends[1]);
    close(looked[0]);
    close(looked[1]);
}

/* A call that has loaded a program returns, and so does the one that made the thread. */
static void returns(void) {
    static const char *const by[] = {"execve", "execveat"};
    CHECK(put("events/syscalls/sys_exit_execve/enable", "1") == 0);
    CHECK(put("events/syscalls/sys_exit_execveat/enable", "1") == 0);
    CHECK(put("events/syscalls/sys_exit_clone/enable", "1") == 0);
    CHECK(put("events/raw_syscalls/sys_exit/enable", "1") == 0);
    for (int n = 0; n < 2; n++) {
        CHECK(put("trace", "") == 0);
        pid_t pid = fork();
        char *args[] = {"traced", "nothing", NULL}, *none[] = {NULL};
        if (pid == 0) {
            if (n == 0) execve("/proc/self/exe", args, none);
            syscall(SYS_execveat, AT_FDCWD, "/proc/self/exe", args, none, 0);
            _exit(1);
        }
        is_over(pid);
#ifdef __x86_64__
        /* The kernel says that it was this one. */
        const char *name = by[0];
        int number = SYS_execve;
#else
        const char *name = by[n];
        int number = n == 0 ? SYS_execve : SYS_execveat;
#endif
        char named[32], numbered[32];
        snprintf(named, sizeof named, ": sys_%s -> 0x0", name);
        snprintf(numbered, sizeof numbered, ": sys_exit: NR %d = 0", number);
        CHECK(lines_with(named, "") == 1 && lines_with(numbered, "") == 1);
        CHECK(lines_with(": sys_exit: NR -1 ", "") == 0);
        /* In the child and, with another result, in this process. */
        CHECK(lines_with(": sys_clone -> ", "") == 2 && lines_with(": sys_clone -> 0x0", "") == 1);
    }
    CHECK(put("set_event", "") == 0 && put("options/event-fork", "0") == 0);
    CHECK(put("set_event_pid", "") == 0 && put("trace", "") == 0);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "nothing") == 0) return 0;
    mount("nodev", ROOT, "tracefs", 0, NULL);
    CHECK(mkdir(OWN, 0755) == 0);
    markers();
    pipes();
    pages();
    snapshots();
    settings();
    instances();
    switches();
    forks();
    returns();
    CHECK(rmdir(OWN) == 0);
    return report();
}
