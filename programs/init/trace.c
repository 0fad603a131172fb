/*
 * Tracing for `limen run --trace`: mounts tracefs, makes the host's settings there in the process that
 * becomes the program, and sends the trace when the program has ended. What is traced, and what a refused
 * setting means, is the host's business (tools/limen/src/trace). Used by init.c; relay.c stops the trace.
 */
#include "agent.h"

#define PLACE "/sys/kernel/tracing/"
#define MS_NOSUID 2
#define MS_NODEV 4
#define MS_NOEXEC 8

/* `tracing_on`, open for writing while there is a trace, else -1. */
static int switch_fd = -1;

/* Opens a file of tracefs, or of somewhere else if its name begins with a slash. */
static long open_file(const char *name, size_t length, int flags) {
    char path[256] = PLACE;
    if (name[0] == '/') return sys_open(name, flags | O_CLOEXEC, 0);
    if (length >= sizeof path - sizeof PLACE) return -ENOENT_;
    memcpy(path + sizeof PLACE - 1, name, length);
    path[sizeof PLACE - 1 + length] = 0;
    return sys_open(path, flags | O_CLOEXEC, 0);
}

static const char *after(const char *entry, const char *key) {
    while (*key && *entry == *key) entry++, key++;
    return *key == 0 ? entry : NULL;
}

/* Makes a setting, `FILE VALUE`, where the value @pid is this process's number. Returns 0 or -errno. */
static long set(const char *setting) {
    char text[1024];
    const char *value = setting;
    size_t used = 0;
    long fd, n;
    while (*value && *value != ' ') value++;
    fd = open_file(setting, (size_t)(value - setting), O_WRONLY);
    if (fd < 0) return fd;
    if (*value) value++;
    if (text_equal(value, "@pid")) {
        used = (size_t)(put_number(text, (uint64_t)sys(__NR_getpid, 0, 0, 0, 0, 0)) - text);
    } else {
        used = text_length(value);
        if (used > sizeof text - 1) used = sizeof text - 1;
        memcpy(text, value, used);
    }
    /* The kernel reads words; the last one is complete only when something follows it. */
    text[used++] = '\n';
    do n = sys_write((int)fd, text, used); while (n == -EINTR_);
    sys_close((int)fd);
    return n < 0 ? n : 0;
}

/* Mounts tracefs, and stops what the command line may have started. Returns 0 or -errno. */
long trace_prepare(void) {
    long done = sys_mount("tracefs", PLACE, "tracefs", MS_NOSUID | MS_NODEV | MS_NOEXEC, 0);
    if (done < 0) return done;
    done = open_file("tracing_on", 10, O_WRONLY);
    if (done < 0) return done;
    switch_fd = (int)done;
    trace_switch(0);
    return 0;
}

/* Whether there is a trace: `on` starts it or stops it. */
void trace_switch(int on) {
    if (switch_fd >= 0) sys_write(switch_fd, on ? "1" : "0", 1);
}

/*
 * Makes the settings in their order. After `trace-try` that fails, the next one is left out. Returns 0, or
 * -errno with the number of the setting, from 1.
 */
long trace_set(char *const *settings, int64_t *number) {
    int skip = 0;
    for (int i = 0; settings[i]; i++) {
        const char *setting;
        if (skip) {
            skip = 0;
        } else if ((setting = after(settings[i], "trace-try="))) {
            skip = set(setting) < 0;
        } else if ((setting = after(settings[i], "trace="))) {
            long error = set(setting);
            if (error < 0) {
                *number = i + 1;
                return error;
            }
        }
    }
    return 0;
}

/* Sends a file, in parts, each behind a message with its size. Returns whether the file exists. */
static int send_file(int control, const char *word, const char *name, char *buffer) {
    /* Who reads pages of a trace would wait for more of them. */
    long n = 0, fd = open_file(name, text_length(name), O_RDONLY | O_NONBLOCK);
    if (fd < 0) return 0;
    do {
        uint64_t used = 0;
        while (used < BUFFER) {
            n = sys_read((int)fd, buffer + used, BUFFER - (size_t)used);
            if (n == -EINTR_) continue;
            if (n <= 0) break;
            used += (uint64_t)n;
        }
        if (used == 0) break;
        send_message(control, word, &used, 1);
        send_text(control, buffer, (size_t)used);
    } while (n > 0);
    sys_close((int)fd);
    return 1;
}

/* Sends a file as it is, behind its name. Returns whether it exists. */
static int send_whole(int control, const char *name, char *buffer) {
    uint64_t length = text_length(name);
    send_message(control, "entry", &length, 1);
    send_text(control, name, (size_t)length);
    return send_file(control, "part", name, buffer);
}

/* Joins texts to a name of a file. Returns whether there is room. */
static int join(char *to, size_t room, const char *const *texts) {
    size_t used = 0;
    for (; *texts; texts++) {
        size_t length = text_length(*texts);
        if (length >= room - used) return 0;
        memcpy(to + used, *texts, length);
        used += length;
    }
    to[used] = 0;
    return 1;
}

/* Sends how the records of the events are laid out that are on: `SYSTEM:NAME` each, a line of set_event. */
static void send_formats(int control, char *buffer) {
    char line[160], name[200];
    size_t used = 0;
    long n, fd = open_file("set_event", 9, O_RDONLY);
    if (fd < 0) return;
    for (;;) {
        char letter;
        do n = sys_read((int)fd, &letter, 1); while (n == -EINTR_);
        if (n <= 0) break;
        if (letter != '\n') {
            if (used < sizeof line - 1) line[used++] = letter == ':' ? '/' : letter;
            continue;
        }
        line[used] = 0;
        used = 0;
        const char *const parts[] = {"events/", line, "/format", NULL};
        if (join(name, sizeof name, parts)) send_whole(control, name, buffer);
    }
    sys_close((int)fd);
}

/* Sends what a file for trace-cmd consists of. */
static void send_raw(int control, char *buffer) {
    /* What tracers record, of all kernels. */
    static const char *const kinds[] = {
        "bprint", "bputs", "context_switch", "func_repeats", "funcgraph_entry", "funcgraph_exit",
        "function", "kernel_stack", "print", "raw_data", "user_stack", "wakeup", NULL,
    };
    static const char *const files[] = {
        "events/header_page", "events/header_event", "printk_formats", "saved_cmdlines", "trace_clock",
        "/proc/kallsyms", NULL,
    };
    char name[200];
    for (int i = 0; files[i]; i++) send_whole(control, files[i], buffer);
    for (int i = 0; kinds[i]; i++) {
        const char *const parts[] = {"events/ftrace/", kinds[i], "/format", NULL};
        if (join(name, sizeof name, parts)) send_whole(control, name, buffer);
    }
    send_formats(control, buffer);
    for (int cpu = 0;; cpu++) {
        char number[24];
        *put_number(number, (uint64_t)cpu) = 0;
        const char *const parts[] = {"per_cpu/cpu", number, "/trace_pipe_raw", NULL};
        if (!join(name, sizeof name, parts) || !send_whole(control, name, buffer)) return;
    }
}

/*
 * Sends the trace, as text or (setting `trace-raw`) as it was recorded, and what each processor's buffer
 * lost. The buffer has BUFFER bytes.
 */
void trace_send(int control, char *const *settings, char *buffer) {
    int raw = 0;
    if (switch_fd < 0) return;
    trace_switch(0);
    for (int i = 0; settings[i]; i++) raw |= after(settings[i], "trace-raw=") != NULL;
    if (!raw) send_file(control, "trace", "trace", buffer);
    for (int cpu = 0;; cpu++) {
        char name[64] = "per_cpu/cpu", *end = put_number(name + 11, (uint64_t)cpu);
        memcpy(end, "/stats", 7);
        if (!send_file(control, "stats", name, buffer)) break;
    }
    if (raw) send_raw(control, buffer);
}

/* Tells the host that the setting of this number was refused (0: there is no tracefs), and what exists. */
void trace_refused(int control, char *const *settings, uint64_t number, uint64_t error, char *buffer) {
    uint64_t numbers[2] = {number, error};
    const char *names = NULL;
    for (uint64_t i = 0; i < number; i++) {
        const char *found = after(settings[i], "trace-names=");
        if (found) names = found;
    }
    if (names) send_file(control, "names", names, buffer);
    send_message(control, "untraced", numbers, 2);
}
