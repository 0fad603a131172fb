/*
 * Changes what is traced, at random, while other programs run: filters, tracers, actions, events, profiles,
 * instances, and modules that come and go. Meanwhile some threads call one function of the kernel, each as
 * often as it counts itself; an instance for each traces that function for that thread, and must have
 * seen exactly as many calls.
 *   tracestorm CHANGES SEED MODULE
 * MODULE is a module's file, or - for none. The exit status is 0 if all counts are right and nothing is
 * traced in the end. Called by tools/limen/src/test/trace_storm.rs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PLACE "/sys/kernel/tracing/"
#define CHANGERS 2
#define COUNTERS 3
/* What is counted: the function behind this system call. */
#define FUNCTION "ioprio_get"
#define CALL() syscall(SYS_ioprio_get, 1, 0)
#define ARRAY(a) (sizeof(a) / sizeof(a)[0])

static atomic_int over;
static atomic_long changes, loads;

static uint32_t next(uint32_t *state) {
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

/* Writes to a file of tracefs. Returns 0 or an errno: many changes are refused. */
static int put(const char *file, const char *text, int flags) {
    char path[256];
    snprintf(path, sizeof path, PLACE "%s", file);
    int fd = open(path, O_WRONLY | flags), error = 0;
    if (fd < 0) return errno;
    if (write(fd, text, strlen(text)) < 0) error = errno;
    if (close(fd) < 0 && !error) error = errno;
    return error;
}

static void must(const char *file, const char *text, int flags) {
    int error = put(file, text, flags);
    if (!error) return;
    printf("%s: %s: %s\n", file, text, strerror(error));
    exit(1);
}

/* One change, in the instance of this changer or at the top. */
static void change(uint32_t *state, int number) {
    static const char *const globs[] = {
        FUNCTION, "*sched*", "*lock*", "*read*", "a*", "*_[a-m]*", "*", "*:mod:hello", "!*sched*", "!*read*",
        "*wake*", "no_such_function", "*::open*", "probe",
    };
    static const char *const tracers[] = {"nop", "function", "function_graph", "function"};
    static const char *const actions[] = {
        FUNCTION ":traceoff:7", "!" FUNCTION ":traceoff:0", "*wake*:stacktrace:5", "!*wake*:stacktrace:0",
        "schedule:traceon", "!schedule:traceon", FUNCTION ":enable_event:sched:sched_switch",
        "!" FUNCTION ":enable_event:sched:sched_switch",
    };
    static const char *const events[] = {"sched:*", "!sched:*", "syscalls:*", "!syscalls:*", "*:*", "!*:*"};
    char base[64] = "", name[128], text[64];
    uint32_t chance = next(state);
    if (chance % 4) snprintf(base, sizeof base, "instances/storm%d/", number);
    const char *glob = globs[next(state) % ARRAY(globs)];
#define FILE_OF(file) (snprintf(name, sizeof name, "%s%s", base, file), name)
    switch (next(state) % 16) {
    case 0: put(FILE_OF("current_tracer"), tracers[next(state) % ARRAY(tracers)], 0); break;
    case 1: put(FILE_OF("set_ftrace_notrace"), glob, O_TRUNC); break;
    case 2: put(FILE_OF("set_ftrace_filter"), actions[next(state) % ARRAY(actions)], O_APPEND); break;
    case 3: put(FILE_OF("set_event"), events[next(state) % ARRAY(events)], O_APPEND); break;
    case 4: put("function_profile_enabled", next(state) % 2 ? "1" : "0", 0); break;
    case 5: put(next(state) % 2 ? "set_graph_function" : "set_graph_notrace", glob, O_TRUNC); break;
    case 6:
        snprintf(text, sizeof text, "%u", next(state) % 300);
        put(FILE_OF("set_ftrace_pid"), text, next(state) % 3 ? O_TRUNC : O_APPEND);
        break;
    case 7: put(FILE_OF("options/function-fork"), next(state) % 2 ? "1" : "0", 0); break;
    case 8: put(FILE_OF("options/event-fork"), next(state) % 2 ? "1" : "0", 0); break;
    case 9:
        snprintf(name, sizeof name, PLACE "instances/storm%d", number);
        rmdir(name);
        mkdir(name, 0700);
        break;
    default: put(FILE_OF("set_ftrace_filter"), glob, next(state) % 2 ? O_TRUNC : O_APPEND); break;
    }
    put(FILE_OF("tracing_on"), "1", 0);
}

struct changer {
    int number;
    long count;
    uint32_t state;
    pthread_t thread;
};

static void *run_changer(void *argument) {
    struct changer *own = argument;
    /* Before the load, which has all processors to itself while a change waits for something. */
    if (setpriority(PRIO_PROCESS, 0, -15) < 0) perror("setpriority"), exit(1);
    for (long n = 0; n < own->count; n++) {
        change(&own->state, own->number);
        atomic_fetch_add(&changes, 1);
    }
    return NULL;
}

static void *run_loader(void *file) {
    while (!atomic_load(&over)) {
        int fd = open(file, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && syscall(SYS_finit_module, fd, "", 0) == 0) atomic_fetch_add(&loads, 1);
        close(fd);
        usleep(2000);
        syscall(SYS_delete_module, "hello", O_NONBLOCK);
    }
    return NULL;
}

struct counter {
    int number;
    atomic_int state; /* 1: its instance traces it; 2: it has ended */
    atomic_int tid;
    long calls;
    pthread_t thread;
};

static void *run_counter(void *argument) {
    struct counter *own = argument;
    atomic_store(&own->tid, (int)syscall(SYS_gettid));
    while (atomic_load(&own->state) == 0) usleep(1000);
    while (!atomic_load(&over)) {
        for (int n = 0; n < 100; n++, own->calls++) CALL();
        usleep(1000);
    }
    return NULL;
}

/* Its instance traces the function for it from now on. */
static void watch(struct counter *own) {
    char name[128], text[32];
    snprintf(name, sizeof name, PLACE "instances/count%d", own->number);
    if (mkdir(name, 0700) < 0) perror(name), exit(1);
#define OWN(file) (snprintf(name, sizeof name, "instances/count%d/%s", own->number, file), name)
    while (!atomic_load(&own->tid)) usleep(1000);
    snprintf(text, sizeof text, "%d", atomic_load(&own->tid));
    must(OWN("buffer_size_kb"), "64", 0);
    must(OWN("set_ftrace_filter"), FUNCTION, O_TRUNC);
    must(OWN("set_ftrace_pid"), text, O_TRUNC);
    must(OWN("current_tracer"), "function", 0);
    atomic_store(&own->state, 1);
}

/* How many records its instance has made: those that are there, and those that were overwritten. */
static long recorded(struct counter *own) {
    long sum = 0;
    for (int cpu = 0;; cpu++) {
        char name[128], line[128], file[32];
        snprintf(file, sizeof file, "per_cpu/cpu%d/stats", cpu);
        snprintf(name, sizeof name, PLACE "instances/count%d/%s", own->number, file);
        FILE *stats = fopen(name, "r");
        if (!stats) return sum;
        while (fgets(line, sizeof line, stats)) {
            long number;
            if (sscanf(line, "entries: %ld", &number) == 1 || sscanf(line, "overrun: %ld", &number) == 1)
                sum += number;
            if (sscanf(line, "dropped events: %ld", &number) == 1 && number) printf("dropped %ld\n", number);
        }
        fclose(stats);
    }
}

/* Whether a file of tracefs is empty. */
static int is_empty(const char *file) {
    char path[128], bytes[256];
    snprintf(path, sizeof path, PLACE "%s", file);
    int fd = open(path, O_RDONLY);
    long n = read(fd, bytes, sizeof bytes - 1);
    close(fd);
    if (n > 0) bytes[n] = 0, printf("%s: %s...\n", file, bytes);
    return n == 0;
}

int main(int argc, char **argv) {
    static struct counter counters[COUNTERS];
    static struct changer changers[CHANGERS];
    pthread_t loader;
    int wrong = 0;
    if (argc != 4) return 2;
    long count = atol(argv[1]);
    int loads_modules = strcmp(argv[3], "-") != 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    mount("tracefs", PLACE, "tracefs", 0, NULL);
    for (int n = 0; n < CHANGERS; n++) {
        char name[64];
        snprintf(name, sizeof name, PLACE "instances/storm%d", n);
        mkdir(name, 0700);
    }
    for (int n = 0; n < COUNTERS; n++) {
        counters[n].number = n;
        pthread_create(&counters[n].thread, NULL, run_counter, &counters[n]);
        watch(&counters[n]);
    }
    if (loads_modules) pthread_create(&loader, NULL, run_loader, argv[3]);
    for (int n = 0; n < CHANGERS; n++) {
        changers[n].number = n;
        changers[n].count = count / CHANGERS;
        changers[n].state = (uint32_t)atol(argv[2]) + 77u * (uint32_t)n;
        pthread_create(&changers[n].thread, NULL, run_changer, &changers[n]);
    }
    for (int n = 0; n < CHANGERS; n++) pthread_join(changers[n].thread, NULL);
    atomic_store(&over, 1);
    if (loads_modules) pthread_join(loader, NULL);
    for (int n = 0; n < COUNTERS; n++) {
        pthread_join(counters[n].thread, NULL);
        long seen = recorded(&counters[n]);
        printf("called %ld times, seen %ld times\n", counters[n].calls, seen);
        wrong |= seen != counters[n].calls || seen == 0;
    }
    /* All of it ends. */
    for (int n = 0; n < CHANGERS + COUNTERS; n++) {
        char name[64];
        int is_storm = n < CHANGERS;
        snprintf(name, sizeof name, PLACE "instances/%s%d", is_storm ? "storm" : "count",
                 is_storm ? n : n - CHANGERS);
        if (rmdir(name) < 0) perror(name), wrong = 1;
    }
    must("current_tracer", "nop", 0);
    must("function_profile_enabled", "0", 0);
    put("set_ftrace_filter", "!" FUNCTION ":traceoff:0", O_APPEND);
    put("set_ftrace_filter", "!*wake*:stacktrace:0", O_APPEND);
    put("set_ftrace_filter", "!schedule:traceon", O_APPEND);
    put("set_ftrace_filter", "!" FUNCTION ":enable_event:sched:sched_switch", O_APPEND);
    /* Last: others may call the function, and what such an action has turned on stays so. */
    must("set_event", "!*:*", O_APPEND);
    wrong |= !is_empty("enabled_functions") || !is_empty("set_event");
    printf("%ld changes, %ld modules\n", atomic_load(&changes), atomic_load(&loads));
    if (loads_modules && atomic_load(&loads) == 0) wrong = 1;
    return wrong;
}
