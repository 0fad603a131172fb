/*
 * Live patches: what Linux's selftests/livepatch check of one, of several of one function, of one that takes
 * the place of all others, and of a thread that is in a function while it is replaced; and who must not be
 * missed when the code goes: threads that end, new ones, those that a tracer has sent elsewhere. The modules
 * are those of programs/modules, which are in /modules. Called by tools/limen/src/test/modules.rs, on every
 * architecture.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "common.h"
#include "modules.h"

static char original[4096];

static int is(const char *text, const char *wanted) {
    if (strcmp(text, wanted) == 0) return 1;
    printf("\"%.2000s\" instead of \"%s\"\n", text, wanted);
    return 0;
}

static const char *file_of(const char *patch, const char *file) {
    static char path[100];
    snprintf(path, sizeof path, "/sys/kernel/livepatch/%s/%s", patch, file);
    return path;
}

static int put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY);
    int result = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : errno;
    if (fd >= 0) close(fd);
    return result;
}

static int exists(const char *patch) {
    struct stat st;
    return stat(file_of(patch, "enabled"), &st) == 0;
}

/* Waits until the patch is there, with all threads, or is gone. */
static int settles(const char *patch, int there) {
    for (int i = 0; i < 1500; i++) {
        if (there ? strcmp(text_of(file_of(patch, "transition")), "0\n") == 0 : !exists(patch)) return 1;
        pause_ms(10);
    }
    printf("%s does not settle: enabled %s", patch, text_of(file_of(patch, "enabled")));
    return 0;
}

static int disable(const char *patch) {
    return put(file_of(patch, "enabled"), "0");
}

static int is_shown(const char *by) {
    char wanted[100];
    snprintf(wanted, sizeof wanted, "%s: this has been live patched\n", by ? by : "");
    return is(text_of("/proc/cmdline"), by ? wanted : original);
}

/* One patch: on, in use, off. */
static void single(void) {
    CHECK(load_named("patch_a", "") == 0 && exists("patch_a"));
    CHECK(settles("patch_a", 1) && is_shown("patch_a"));
    CHECK(is(text_of(file_of("patch_a", "enabled")), "1\n"));
    CHECK(is(text_of(file_of("patch_a", "replace")), "0\n"));
    const char *enabled = text_of("/sys/kernel/tracing/enabled_functions");
    CHECK(is(enabled, "cmdline_proc_show (1) R I   O M \n"));
    CHECK(is(text_of("/proc/self/patch_state"), "-1\n"));
    /* It is in use; it is enabled already; nothing is under way; sites must call. */
    CHECK(unload("patch_a") == EAGAIN);
    CHECK(put(file_of("patch_a", "enabled"), "1") == EINVAL);
    CHECK(put(file_of("patch_a", "force"), "1") == EINVAL);
    put("/proc/sys/kernel/ftrace_enabled", "0");
    CHECK(is(text_of("/proc/sys/kernel/ftrace_enabled"), "1\n"));
    CHECK(is_shown("patch_a"));
    CHECK(disable("patch_a") == 0 && settles("patch_a", 0));
    CHECK(is_shown(NULL) && unload("patch_a") == 0);
    CHECK(is(text_of("/sys/kernel/tracing/enabled_functions"), ""));
}

/* One in Rust, which traces what it replaces. */
static void rust(void) {
    CHECK(load_named("patch_rust", "") == 0 && settles("patch_rust", 1));
    CHECK(is_shown("patch_rust") && is_shown("patch_rust"));
    const char *enabled = text_of("/sys/kernel/tracing/enabled_functions");
    CHECK(is(enabled, "cmdline_proc_show (2) R I   O M \n"));
    CHECK(disable("patch_rust") == 0 && settles("patch_rust", 0) && is_shown(NULL));
    enabled = text_of("/sys/kernel/tracing/enabled_functions");
    CHECK(is(enabled, "cmdline_proc_show (1) R     O M \n"));
    CHECK(unload("patch_rust") == 0);
}

/* Several of one function: the newest counts, whichever goes. */
static void stacked(void) {
    CHECK(load_named("patch_a", "") == 0 && settles("patch_a", 1));
    CHECK(load_named("patch_b", "") == 0 && settles("patch_b", 1));
    CHECK(is_shown("patch_b"));
    CHECK(disable("patch_b") == 0 && settles("patch_b", 0) && is_shown("patch_a"));
    CHECK(unload("patch_b") == 0);
    CHECK(load_named("patch_b", "") == 0 && settles("patch_b", 1) && is_shown("patch_b"));
    CHECK(disable("patch_a") == 0 && settles("patch_a", 0) && is_shown("patch_b"));
    CHECK(unload("patch_a") == 0);
    CHECK(disable("patch_b") == 0 && settles("patch_b", 0) && is_shown(NULL));
    CHECK(unload("patch_b") == 0);
}

/* One that replaces all others, also those of other functions. */
static void replacing(void) {
    CHECK(load_named("busy", "") == 0);
    CHECK(load_named("patch_busy", "") == 0 && settles("patch_busy", 1));
    CHECK(is(text_of("/proc/busy"), "new work\nnew word\n"));
    /* A module whose functions are patched stays. */
    CHECK(unload("busy") == EAGAIN);
    CHECK(load_named("patch_a", "") == 0 && settles("patch_a", 1));
    CHECK(load_named("patch_b", "replace=1") == 0 && settles("patch_b", 1));
    CHECK(is(text_of(file_of("patch_b", "replace")), "1\n"));
    CHECK(!exists("patch_a") && !exists("patch_busy"));
    CHECK(is_shown("patch_b") && is(text_of("/proc/busy"), "old work\nold word\n"));
    CHECK(unload("patch_a") == 0 && unload("patch_busy") == 0 && unload("busy") == 0);
    /* What it undid is of no concern to the next one: a function of the same number and address is another
     * tracer's. */
    CHECK(load_named("busy", "") == 0 && load_named("divert", "") == 0);
    CHECK(load_named("patch_a", "replace=1") == 0 && settles("patch_a", 1));
    CHECK(!exists("patch_b") && is_shown("patch_a"));
    CHECK(is(text_of("/proc/busy"), "old work\nother word\n"));
    CHECK(unload("divert") == 0 && unload("busy") == 0);
    CHECK(disable("patch_a") == 0 && settles("patch_a", 0) && is_shown(NULL));
    CHECK(unload("patch_a") == 0 && unload("patch_b") == 0);
}

/* A child that reads /proc/busy, which holds it; it ends with 0 if it then reads `wanted`. */
static pid_t reader(const char *wanted) {
    CHECK(put("/sys/module/busy/parameters/hold", "1") == 0);
    pid_t child = fork();
    if (child == 0) _exit(!is(text_of("/proc/busy"), wanted));
    for (int i = 0; i < 1000 && strcmp(text_of("/sys/module/busy/parameters/inside"), "1\n") != 0; i++)
        pause_ms(5);
    return child;
}

static int release(pid_t child) {
    int status = -1;
    int released = put("/sys/module/busy/parameters/hold", "0");
    return released == 0 && waitpid(child, &status, 0) == child && status == 0;
}

static const char *state_of(pid_t task) {
    char path[50];
    snprintf(path, sizeof path, "/proc/%d/patch_state", task);
    return text_of(path);
}

/* A thread is in a function that is replaced: it goes on with the old ones, all others have the new ones. */
static void blocked(void) {
    CHECK(load_named("busy", "") == 0);
    pid_t child = reader("old work\nold word\n");
    CHECK(load_named("patch_busy", "") == 0);
    if (!exists("patch_busy")) return;
    pause_ms(200);
    CHECK(is(text_of(file_of("patch_busy", "transition")), "1\n"));
    CHECK(is(state_of(child), "0\n") && is(state_of(getpid()), "1\n"));
    CHECK(is(text_of("/proc/busy"), "new work\nnew word\n"));
    /* One at a time. */
    CHECK(load_named("patch_a", "") == EBUSY);
    /* It turns back, which the thread in the function does not keep it from. */
    CHECK(disable("patch_busy") == 0 && settles("patch_busy", 0));
    CHECK(is(state_of(child), "-1\n"));
    CHECK(unload("patch_busy") == 0);
    /* Again: it is there when the thread has left. */
    CHECK(load_named("patch_busy", "") == 0);
    pause_ms(100);
    CHECK(is(text_of(file_of("patch_busy", "transition")), "1\n"));
    /* A new thread is as who made it. */
    pid_t other = fork();
    if (other == 0) _exit(!is(text_of("/proc/busy"), "new work\nnew word\n"));
    CHECK(child_good(other));
    CHECK(release(child) && settles("patch_busy", 1));
    CHECK(is(text_of("/proc/busy"), "new work\nnew word\n"));
    CHECK(disable("patch_busy") == 0 && settles("patch_busy", 0));
    CHECK(is(text_of("/proc/busy"), "old work\nold word\n"));
    CHECK(unload("patch_busy") == 0);
    /* By force: it finds one old function and one new. */
    child = reader("old work\nnew word\n");
    CHECK(load_named("patch_busy", "") == 0);
    pause_ms(100);
    CHECK(is(text_of(file_of("patch_busy", "transition")), "1\n"));
    CHECK(put(file_of("patch_busy", "force"), "1") == 0 && settles("patch_busy", 1));
    CHECK(release(child));
    CHECK(disable("patch_busy") == 0 && settles("patch_busy", 0) && unload("patch_busy") == 0);
    CHECK(unload("busy") == 0);
}

/* A thread is in a function that is replaced, and the call in which it sleeps is traced until it returns:
 * what it returns to is not on the stack. */
static void traced(void) {
    CHECK(put("/sys/kernel/tracing/current_tracer", "function_graph") == 0);
    CHECK(load_named("busy", "") == 0);
    pid_t child = reader("old work\nold word\n");
    CHECK(load_named("patch_busy", "") == 0);
    pause_ms(300);
    CHECK(is(text_of(file_of("patch_busy", "transition")), "1\n") && is(state_of(child), "0\n"));
    CHECK(release(child) && settles("patch_busy", 1));
    CHECK(disable("patch_busy") == 0 && settles("patch_busy", 0));
    CHECK(unload("patch_busy") == 0 && unload("busy") == 0);
    CHECK(put("/sys/kernel/tracing/current_tracer", "nop") == 0);
}

/* Patches come and go while others call the function, and make threads. */
static void beside(void) {
    pid_t callers[3];
    for (int i = 0; i < 3; i++)
        if ((callers[i] = fork()) == 0)
            for (;;) {
                const char *text = text_of("/proc/cmdline");
                if (strcmp(text, original) != 0 && strcmp(text, "patch_a: this has been live patched\n") != 0)
                    _exit(1);
                if (i == 2) {
                    pid_t child = fork();
                    if (child == 0) _exit(0);
                    waitpid(child, NULL, 0);
                }
            }
    for (int i = 0; i < 15 && !failed; i++) {
        CHECK(load_named("patch_a", "") == 0);
        if (i % 3 != 0) CHECK(settles("patch_a", 1) && is_shown("patch_a"));
        CHECK(disable("patch_a") == 0 && settles("patch_a", 0) && is_shown(NULL));
        CHECK(unload("patch_a") == 0);
    }
    for (int i = 0; i < 3; i++) {
        int status;
        kill(callers[i], SIGKILL);
        CHECK(waitpid(callers[i], &status, 0) == callers[i] && WIFSIGNALED(status));
    }
}

static void wait_for(const char *path, const char *text) {
    for (int i = 0; i < 2000 && strcmp(text_of(path), text) != 0; i++) pause_ms(5);
    CHECK(is(text_of(path), text));
}

/* A thread ends, has no number any more, and is in a function of the patch. */
static void ending(void) {
    int go[2];
    char text[20];
    CHECK(load_named("patch_gone", "hold=1") == 0 && settles("patch_gone", 1) && pipe(go) == 0);
    signal(SIGCHLD, SIG_IGN);
    pid_t child = fork();
    if (child == 0) _exit(read(go[0], text, 1) != 1);
    CHECK(put("/sys/module/patch_gone/parameters/armed", "1") == 0 && write(go[1], "x", 1) == 1);
    wait_for("/sys/module/patch_gone/parameters/inside", "1\n");
    CHECK(kill(child, 0) != 0 && errno == ESRCH);
    CHECK(disable("patch_gone") == 0);
    pause_ms(300);
    CHECK(is(text_of(file_of("patch_gone", "transition")), "1\n") && unload("patch_gone") == EAGAIN);
    CHECK(put("/sys/module/patch_gone/parameters/hold", "0") == 0);
    CHECK(settles("patch_gone", 0) && unload("patch_gone") == 0);
    signal(SIGCHLD, SIG_DFL);
    close(go[0]);
    close(go[1]);
}

static long long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* A module's tracer has sent a thread to a function of the module, which is unloaded. */
static void diverted(void) {
    CHECK(load_named("busy", "") == 0 && load_named("divert", "ms=5000") == 0);
    pid_t child = fork();
    if (child == 0) _exit(!is(text_of("/proc/busy"), "old work\nother word\n"));
    wait_for("/sys/module/divert/parameters/inside", "1\n");
    long long began = now_ms();
    CHECK(unload("divert") == 0 && now_ms() - began > 500);
    CHECK(child_good(child));
    CHECK(is(text_of("/proc/busy"), "old work\nold word\n"));
    CHECK(is(state_of(getpid()), "-1\n"));
    CHECK(unload("busy") == 0);
}

/* A patch does not come half way, while others make threads: none of them sees anything of it. */
static void half_way(void) {
    CHECK(load_named("busy", "") == 0 && load_named("divert", "") == 0);
    pid_t makers[3];
    for (int i = 0; i < 3; i++)
        if ((makers[i] = fork()) == 0)
            for (;;) {
                pid_t child = fork();
                if (child == 0) _exit(!is(text_of("/proc/cmdline"), original));
                if (!child_good(child)) _exit(1);
            }
    for (int i = 0; i < 20; i++) CHECK(load_named("patch_fails", "") == EBUSY);
    for (int i = 0; i < 3; i++) {
        int status;
        kill(makers[i], SIGKILL);
        CHECK(waitpid(makers[i], &status, 0) == makers[i] && WIFSIGNALED(status));
    }
    CHECK(unload("divert") == 0 && unload("busy") == 0);
}

/* `init` has failed, and a thread is in the patch, which is forced to go: both modules stay. */
static void forced(void) {
    CHECK(load_named("busy", "") == 0);
    pid_t loader = fork();
    if (loader == 0) _exit(load_named("patch_fails", "ms=8000") != EIO);
    /* The loader, which is in `init`, does not change over. When this thread has, so has the reader. */
    for (int i = 0; i < 2000 && strcmp(text_of("/proc/cmdline"), original) == 0; i++) pause_ms(5);
    CHECK(is_shown("patch_fails"));
    pid_t reader = fork();
    if (reader == 0) _exit(!is(text_of("/proc/busy"), "old work\nnew word\n"));
    /* When the reader is inside, `init` fails; it stays there for eight seconds. */
    wait_for(file_of("patch_fails", "enabled"), "0\n");
    CHECK(put(file_of("patch_fails", "force"), "1") == 0);
    CHECK(child_good(loader) && !exists("patch_fails"));
    CHECK(line_of("patch_fails")[0] != 0 && line_of("busy")[0] != 0);
    CHECK(child_good(reader));
    CHECK(unload("patch_fails") == EBUSY && load_named("patch_fails", "") == EBUSY);
    CHECK(unload("busy") == EAGAIN);
    CHECK(is(text_of("/proc/busy"), "old work\nold word\n") && is_shown(NULL));
}

int main(void) {
    mount("none", "/sys/kernel/tracing", "tracefs", 0, NULL);
    snprintf(original, sizeof original, "%s", text_of("/proc/cmdline"));
    single();
    rust();
    stacked();
    replacing();
    blocked();
    traced();
    beside();
    ending();
    diverted();
    half_way();
    /* Comes last: its modules stay. */
    forced();
    CHECK(is(text_of("/sys/kernel/tracing/enabled_functions"), ""));
    return report();
}
