/*
 * Functions of modules are traced as the kernel's: filters that were there before the module, all functions,
 * function_graph, direct calls, and what is left when it goes. It loads those of programs/modules, which are
 * in /modules.
 * Called by tools/limen/src/test/modules.rs, on every architecture.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "common.h"
#include "modules.h"

static const char *of(const char *file) {
    static char path[100];
    snprintf(path, sizeof path, "/sys/kernel/tracing/%s", file);
    return path;
}

static const char *get(const char *file) {
    return text_of(of(file));
}

static int put_with(const char *file, const char *text, int flags) {
    int fd = open(of(file), O_WRONLY | flags);
    int result = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : errno;
    if (fd >= 0) close(fd);
    return result;
}

static int put(const char *file, const char *text) {
    return put_with(file, text, O_TRUNC);
}

static int is(const char *text, const char *wanted) {
    if (strcmp(text, wanted) == 0) return 1;
    printf("\"%.2000s\" instead of \"%s\"\n", text, wanted);
    return 0;
}

/* How many lines of `text` have `one`, and `other`, if that is not NULL. */
static int lines_with(const char *text, const char *one, const char *other) {
    int found = 0;
    char line[500];
    for (const char *end; (end = strchr(text, '\n')) != NULL; text = end + 1) {
        snprintf(line, sizeof line, "%.*s", (int)(end - text), text);
        found += strstr(line, one) != NULL && (other == NULL || strstr(line, other) != NULL);
    }
    return found;
}

/* What the file of module hello says: it calls `limen_print` three times, twice for who is greeted. */
static void read_hello(int times) {
    for (int i = 0; i < times; i++) {
        const char *text = text_of("/proc/hello");
        CHECK(strncmp(text, "hello you\nhello you\nconstant 42, ", 33) == 0);
    }
}

static void check_calls(const char *what) {
    const char *trace = get("trace");
    int shows = lines_with(trace, ": show <-", NULL);
    int prints = lines_with(trace, " limen_print", "<-show");
    if (shows < 5 || prints != 3 * shows) printf("%s: %d, %d\n%.3000s\n", what, shows, prints, trace);
    CHECK(shows >= 5 && prints == 3 * shows);
}

/* A filter waits for the module, and is gone with it. */
static void waiting(void) {
    CHECK(put("set_ftrace_filter", "*:mod:hello") == 0);
    CHECK(is(get("set_ftrace_filter"), "#### all functions enabled ####\n*:mod:hello\n"));
    CHECK(put_with("set_ftrace_filter", "sethostname", O_APPEND) == 0);
    CHECK(put("current_tracer", "function") == 0);
    CHECK(load_named("hello", "whom=you times=2") == 0);
    const char *names = get("available_filter_functions");
    CHECK(strstr(names, "\nshow [hello]\n") && strstr(names, "\ncleanup_module [hello]\n"));
    /* What only `init` needed is gone. */
    CHECK(strstr(names, "init_module [hello]") == NULL);
    const char *filter = get("set_ftrace_filter");
    CHECK(strstr(filter, "sethostname\n") && strstr(filter, "show [hello]\n") && !strstr(filter, ":mod:"));
    CHECK(strstr(get("enabled_functions"), "show [hello] (1)") != NULL);
    /* `init` was traced: it has no name any more. */
    CHECK(lines_with(get("trace"), ": 0x", " <-") >= 1);
    read_hello(5);
    check_calls("a filter that waited");
    CHECK(unload("hello") == 0);
    CHECK(lines_with(get("trace"), ": 0x", " <-") >= 2);
    CHECK(strstr(get("available_filter_functions"), "[hello]") == NULL);
    CHECK(is(get("set_ftrace_filter"), "sethostname\n"));
    CHECK(strstr(get("enabled_functions"), "[hello]") == NULL);
    CHECK(put("trace", "") == 0);
    CHECK(load_named("hello", "whom=you times=2") == 0);
    read_hello(2);
    CHECK(lines_with(get("trace"), ": show <-", NULL) == 0);
    CHECK(put("set_ftrace_filter", "show:mod:hello") == 0);
    CHECK(is(get("set_ftrace_filter"), "show [hello]\n"));
    CHECK(put("set_ftrace_filter", "no_such:mod:hello") == 0);
    CHECK(strstr(get("set_ftrace_filter"), "no_such") == NULL);
    CHECK(put("set_ftrace_notrace", "*:mod:hello") == 0);
    CHECK(put("set_ftrace_filter", "show:mod:hello") == 0);
    CHECK(strstr(get("enabled_functions"), "[hello]") == NULL);
    CHECK(put("set_ftrace_notrace", "") == 0);
    CHECK(strstr(get("enabled_functions"), "show [hello] (1)") != NULL);
    CHECK(unload("hello") == 0);
    /* Nothing is left of the filter: that is not everything. */
    CHECK(is(get("enabled_functions"), ""));
    CHECK(put("current_tracer", "nop") == 0);
}

/* All functions, those of a module that comes among them. */
static void everything(void) {
    CHECK(put("set_ftrace_filter", "") == 0);
    CHECK(put("current_tracer", "function") == 0);
    CHECK(load_named("hello", "whom=you times=2") == 0);
    read_hello(1);
    CHECK(strstr(get("enabled_functions"), "show [hello] (1)") != NULL);
    CHECK(unload("hello") == 0);
    CHECK(strstr(get("enabled_functions"), "[hello]") == NULL);
    CHECK(put("current_tracer", "nop") == 0);
    CHECK(is(get("enabled_functions"), ""));
}

/* Calls with their returns, before and after the module came again. */
static void graph(void) {
    for (int again = 0; again < 2; again++) {
        CHECK(put("set_ftrace_filter", "*:mod:hello") == 0);
        CHECK(put_with("set_ftrace_filter", "sethostname", O_APPEND) == 0);
        CHECK(put("trace", "") == 0);
        CHECK(put("current_tracer", "function_graph") == 0);
        CHECK(load_named("hello", "whom=you times=2") == 0);
        read_hello(5);
        const char *trace = get("trace");
        int shows = lines_with(trace, "  show [hello]() {", NULL);
        int prints = lines_with(trace, "    limen_print", "(");
        if (shows < 5 || prints != 3 * shows) printf("graph: %d, %d\n%.3000s\n", shows, prints, trace);
        CHECK(shows >= 5 && prints == 3 * shows);
        CHECK(put("set_graph_function", "limen_format") == 0);
        CHECK(is(get("set_graph_function"), "limen_format [hello]\n"));
        CHECK(unload("hello") == 0);
        CHECK(strstr(get("set_graph_function"), "[hello]") == NULL);
        CHECK(put("set_graph_function", "") == 0);
        CHECK(put("current_tracer", "nop") == 0);
    }
}

/* No call of a process is lost while the list of processes changes between some that have it. */
static void processes(void) {
    CHECK(load_named("hello", "whom=you times=2") == 0);
    CHECK(put("set_ftrace_filter", "show:mod:hello") == 0);
    CHECK(put("current_tracer", "function") == 0);
    CHECK(put("trace", "") == 0);
    read_hello(10);
    int each = lines_with(get("trace"), ": show <-", NULL) / 10;
    CHECK(each > 0 && put("trace", "") == 0);
    pid_t own = getpid(), writer = fork();
    if (writer == 0)
        for (;;) {
            char list[50];
            snprintf(list, sizeof list, "%d %d", own, getpid());
            put("set_ftrace_pid", list);
        }
    read_hello(300);
    kill(writer, SIGKILL);
    waitpid(writer, NULL, 0);
    int found = lines_with(get("trace"), ": show <-", NULL);
    if (found != 300 * each) printf("%d of %d calls\n", found, 300 * each);
    CHECK(found == 300 * each);
    CHECK(put("set_ftrace_pid", "") == 0 && put("current_tracer", "nop") == 0);
    CHECK(unload("hello") == 0 && put("set_ftrace_filter", "") == 0);
}

/* A file of filters that was opened before a module went and another came has none of its functions. */
static void stale(void) {
    CHECK(load_named("hello", "") == 0);
    CHECK(put("set_ftrace_filter", "*:mod:hello") == 0);
    int fd = open(of("set_ftrace_filter"), O_WRONLY | O_APPEND);
    CHECK(fd >= 0 && write(fd, "*:mod:dep_b ", 12) == 12);
    CHECK(unload("hello") == 0);
    CHECK(load_named("dep_a", "") == 0 && load_named("dep_b", "") == 0);
    close(fd);
    const char *filter = get("set_ftrace_filter");
    CHECK(strstr(filter, "[hello]") == NULL && strstr(filter, "[dep_a]") == NULL);
    CHECK(strstr(filter, " [dep_b]\n") != NULL && strstr(filter, ":mod:") == NULL);
    CHECK(unload("dep_b") == 0 && unload("dep_a") == 0);
    CHECK(put("set_ftrace_filter", "") == 0);
}

/* Filters change and modules come and go, while others run the functions. */
static void beside(void) {
    CHECK(put("set_ftrace_filter", "*:mod:hello") == 0);
    CHECK(put_with("set_ftrace_filter", "sethostname", O_APPEND) == 0);
    CHECK(put("current_tracer", "function") == 0);
    pid_t readers[2], writer;
    for (int i = 0; i < 2; i++)
        if ((readers[i] = fork()) == 0)
            for (;;) text_of("/proc/hello");
    if ((writer = fork()) == 0)
        for (int i = 0;; i++) {
            put("set_ftrace_filter", i & 1 ? "show:mod:hello" : "*:mod:hello sethostname");
            put("current_tracer", i & 2 ? "function_graph" : "function");
        }
    for (int i = 0; i < 30 && !failed; i++) {
        CHECK(load_named("hello", "") == 0);
        pause_ms(20);
        int error;
        while ((error = unload("hello")) == EAGAIN) pause_ms(1);
        CHECK(error == 0);
    }
    kill(writer, SIGKILL);
    kill(readers[0], SIGKILL);
    kill(readers[1], SIGKILL);
    for (int i = 0; i < 3; i++) wait(NULL);
    CHECK(put("current_tracer", "nop") == 0 && put("set_ftrace_filter", "") == 0);
    CHECK(is(get("enabled_functions"), ""));
}

/* What /proc/direct says: its function has been called 100 times. */
static int is_direct(int first, int second, int traced) {
    char wanted[200];
    snprintf(wanted, sizeof wanted,
        "error 0, result 56100, first %d, second %d, traced %d, wrong 0\n", first, second, traced);
    return is(text_of("/proc/direct"), wanted);
}

static int act(const char *what) {
    int fd = open("/sys/module/direct/parameters/act", O_WRONLY);
    int result = fd >= 0 && write(fd, what, 1) == 1 ? 0 : errno;
    close(fd);
    return result;
}

/* A module's tracer gets all registers; a function of it is called directly, beside tracers and alone. */
static void direct(void) {
    CHECK(put("set_ftrace_filter", "") == 0);
    CHECK(load_named("direct", "") == 0);
    const char *enabled = get("enabled_functions");
    CHECK(lines_with(enabled, "direct_target [direct] (2) R   D O M ", NULL) == 1);
    CHECK(lines_with(enabled, "\tdirect-->first", " [direct]") == 1);
    CHECK(is_direct(100, 0, 100));
    CHECK(act("2") == 0 && is_direct(0, 100, 100));
    CHECK(lines_with(get("enabled_functions"), "\tdirect-->second", " [direct]") == 1);
    /* Others trace the same function, come and go. */
    CHECK(put("set_ftrace_filter", "direct_target") == 0);
    CHECK(put("current_tracer", "function") == 0 && put("trace", "") == 0);
    CHECK(strstr(get("enabled_functions"), "direct_target [direct] (3) R   D O M ") != NULL);
    CHECK(is_direct(0, 100, 100));
    CHECK(lines_with(get("trace"), ": direct_target <-", NULL) == 100);
    CHECK(put("current_tracer", "function_graph") == 0 && put("trace", "") == 0);
    CHECK(is_direct(0, 100, 100));
    CHECK(lines_with(get("trace"), " direct_target [direct]();", NULL) == 100);
    CHECK(act("3") == 0 && is_direct(0, 0, 100));
    CHECK(strstr(get("enabled_functions"), "direct-->") == NULL);
    CHECK(put("current_tracer", "nop") == 0 && act("1") == 0 && is_direct(100, 0, 100));
    /* It changes while others call. */
    pid_t readers[2];
    for (int i = 0; i < 2; i++)
        if ((readers[i] = fork()) == 0)
            for (;;) text_of("/proc/direct");
    for (int i = 0; i < 60; i++) {
        act(i & 1 ? "1" : "2");
        pause_ms(5);
    }
    for (int i = 0; i < 2; i++) {
        kill(readers[i], SIGKILL);
        waitpid(readers[i], NULL, 0);
    }
    CHECK(act("1") == 0 && is_direct(100, 0, 100));
    /* What it has left is taken from it. */
    CHECK(unload("direct") == 0);
    CHECK(is(get("enabled_functions"), ""));
    CHECK(put("set_ftrace_filter", "") == 0);
}

static int choose(const char *parameter, const char *what) {
    char path[100];
    snprintf(path, sizeof path, "/sys/module/direct_sleeps/parameters/%s", parameter);
    int fd = open(path, O_WRONLY);
    int result = fd >= 0 && write(fd, what, strlen(what)) == (ssize_t)strlen(what) ? 0 : errno;
    close(fd);
    return result;
}

/* How many are in a function that is no longer called, or in any (`act` 0). */
static unsigned long still_inside(unsigned long *calls) {
    unsigned long error, in, wrong, first, second;
    const char *text = text_of("/proc/direct_change");
    int read = sscanf(text, "error %lu, inside %lu, wrong %lu, first %lu, second %lu", &error, &in, &wrong,
        &first, &second);
    if (read != 5 || error != 0 || wrong != 0) printf("%s", text);
    CHECK(read == 5 && error == 0 && wrong == 0);
    if (calls != NULL) *calls = first + second;
    return read == 5 ? in : 1000;
}

/* Waits until so many are inside. */
static int comes_to(unsigned long wanted) {
    unsigned long in = 0;
    for (int i = 0; i < 2000 && in != 1000; i++) {
        if ((in = still_inside(NULL)) == wanted) return 1;
        pause_ms(5);
    }
    printf("%lu inside\n", in);
    return 0;
}

static pid_t start_sleeper(int times) {
    pid_t pid = fork();
    if (pid == 0) {
        int bad = 0;
        for (int i = 0; times == 0 || i < times; i++)
            bad += strcmp(text_of("/proc/direct_sleeps"), "561\n") != 0;
        _exit(bad != 0);
    }
    return pid;
}

static void end_sleeper(pid_t pid) {
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* What is called directly may sleep: meanwhile tracers of the same function come and go, which do not wait
 * for it, and another is called or none, which do. */
static void direct_sleeps(void) {
    CHECK(put("set_ftrace_filter", "") == 0);
    CHECK(load_named("direct_sleeps", "ms=0 hold=1 act=0") == 0);
    CHECK(put("set_ftrace_filter", "sleeps_target") == 0);
    const char *tracers[] = { "function", "function_graph", "nop" };
    for (int i = 0; i < 3; i++) {
        pid_t one = start_sleeper(1);
        CHECK(comes_to(1));
        CHECK(put("current_tracer", tracers[i]) == 0);
        CHECK(still_inside(NULL) == 1);
        pid_t other = start_sleeper(1);
        CHECK(comes_to(2) && choose("hold", "0") == 0);
        end_sleeper(one);
        end_sleeper(other);
        CHECK(choose("hold", i < 2 ? "1" : "0") == 0);
    }
    /* Two at a time, while everything changes. */
    CHECK(choose("ms", "15") == 0);
    unsigned long before, after;
    CHECK(still_inside(&before) == 0);
    pid_t sleepers[4];
    for (int i = 0; i < 4; i++) sleepers[i] = start_sleeper(i < 2 ? 60 : 0);
    for (int i = 0; i < 40; i++) {
        CHECK(choose("act", i % 3 == 2 ? "2" : "1") == 0);
        CHECK(still_inside(NULL) == 0);
        CHECK(put("current_tracer", tracers[i % 3]) == 0);
    }
    end_sleeper(sleepers[0]);
    end_sleeper(sleepers[1]);
    CHECK(choose("act", "1") == 0 && still_inside(&after) == 0);
    CHECK(after >= before + 60);
    /* It goes while somebody is in it, who is waited for. */
    CHECK(put("current_tracer", "function") == 0 && choose("ms", "300") == 0);
    pause_ms(100);
    int error;
    while ((error = unload("direct_sleeps")) == EAGAIN) pause_ms(1);
    CHECK(error == 0);
    for (int i = 2; i < 4; i++) {
        kill(sleepers[i], SIGKILL);
        waitpid(sleepers[i], NULL, 0);
    }
    CHECK(put("current_tracer", "nop") == 0 && put("set_ftrace_filter", "") == 0);
    CHECK(is(get("enabled_functions"), ""));
}

int main(void) {
    mount("none", "/sys/kernel/tracing", "tracefs", 0, NULL);
    waiting();
    everything();
    graph();
    processes();
    stale();
    beside();
    direct();
    direct_sleeps();
    mount("none", "/sys/kernel/debug", "debugfs", 0, NULL);
    CHECK(is(text_of("/sys/kernel/debug/check_wx_pages"), "SUCCESS\n"));
    return report();
}
