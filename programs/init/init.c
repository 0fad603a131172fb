/*
 * /init of every `limen run`: the guest agent. It loads the virtio modules the host packed (Linux only),
 * mounts what programs expect, opens the ports to the host, starts the program, and leaves the rest to
 * relay.c (and a trace to trace.c). The host's side is tools/limen; the description of the run is
 * /.limen/run: NUL-ended `key=value` strings.
 */
#include "agent.h"

/* linux/reboot.h and linux/mount.h are not usable without the C library's own types. */
#define REBOOT_MAGIC1 0xfee1dead
#define REBOOT_MAGIC2 672274793
#define REBOOT_POWER_OFF 0x4321fedc
#define MS_NOSUID 2
#define MS_NODEV 4
#define MS_NOEXEC 8

static struct run run;
static char run_text[MAX_TEXT];
static char in_buffer[BUFFER], out_buffer[BUFFER], err_buffer[BUFFER];

void *memset(void *to, int c, size_t n) {
    char *p = to;
    while (n--) *p++ = (char)c;
    return to;
}
void *memcpy(void *to, const void *from, size_t n) {
    char *p = to;
    const char *q = from;
    while (n--) *p++ = *q++;
    return to;
}

size_t text_length(const char *s) {
    size_t n = 0;
    while (s[n]) n++;
    return n;
}

int text_equal(const char *a, const char *b) {
    while (*a && *a == *b) a++, b++;
    return *a == *b;
}

void say(const char *text) {
    sys_write(2, "limen-init: ", 12);
    sys_write(2, text, text_length(text));
    sys_write(2, "\n", 1);
}

char *put_number(char *at, uint64_t value) {
    char digits[20];
    int n = 0;
    do {
        /* Digit by digit on half words: a 64-bit division needs a library on a 32-bit processor. */
        uint32_t rest = 0;
        uint64_t quotient = 0;
        for (int shift = 48; shift >= 0; shift -= 16) {
            rest = rest << 16 | (uint32_t)(value >> shift & 0xffff);
            quotient = quotient << 16 | rest / 10;
            rest %= 10;
        }
        digits[n++] = (char)('0' + rest);
        value = quotient;
    } while (value);
    while (n) *at++ = digits[--n];
    return at;
}

static void power_off(void) {
    sys(__NR_sync, 0, 0, 0, 0, 0);
    sys(__NR_reboot, REBOOT_MAGIC1, REBOOT_MAGIC2, REBOOT_POWER_OFF, 0, 0);
    say("power-off did not work");
    sys_exit(1); /* the end of process 1 ends the machine too */
}

static void fail(const char *text) {
    say(text);
    power_off();
}

static void sleep_a_millisecond(void) {
    sys_sleep(0, 1000000);
}

/*
 * Opens port `number` to the host. The first digit of its name is the index of its virtio device, which
 * depends on the order in which devices were found. The port may not exist yet when we are started.
 */
static int open_port(int number) {
    char path[] = "/dev/vport0p0";
    path[12] = (char)('0' + number);
    for (int tries = 0; tries < 10000; tries++) {
        for (char index = '0'; index <= '9'; index++) {
            long fd;
            path[10] = index;
            fd = sys_open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC, 0);
            if (fd >= 0) return (int)fd;
        }
        sleep_a_millisecond();
    }
    fail("no /dev/vport*: the virtio console driver is missing");
    return -1;
}

/* Opens a device with a fixed name, which may not exist yet either. */
static int open_device(const char *path, int flags) {
    for (int tries = 0; tries < 10000; tries++) {
        long fd = sys_open(path, flags | O_CLOEXEC, 0);
        if (fd >= 0) return (int)fd;
        sleep_a_millisecond();
    }
    say(path);
    fail("this device did not appear; the virtio console driver is missing");
    return -1;
}

static int parse_number(const char *s) {
    int n = 0;
    while (*s >= '0' && *s <= '9') n = n * 10 + (*s++ - '0');
    return n;
}

static void load_module(const char *path) {
    long fd = sys_open(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0 || sys(__NR_finit_module, fd, "", 0, 0, 0) < 0) {
        say(path);
        say("this module was not loaded");
    }
    if (fd >= 0) sys_close((int)fd);
    sys_unlink(path, 0);
}

static const char *value_of(const char *entry, const char *key) {
    while (*key && *entry == *key) entry++, key++;
    return *key == 0 && *entry == '=' ? entry + 1 : NULL;
}

static void read_description(void) {
    long fd = sys_open("/.limen/run", O_RDONLY | O_CLOEXEC, 0);
    size_t used = 0;
    int argc = 0, envc = 0, settings = 0;
    if (fd < 0) fail("/.limen/run is missing");
    for (;;) {
        long n = sys_read((int)fd, run_text + used, sizeof run_text - 1 - used);
        if (n <= 0) break;
        used += (size_t)n;
    }
    sys_close((int)fd);
    for (char *p = run_text; p < run_text + used; p += text_length(p) + 1) {
        const char *v;
        if ((v = value_of(p, "arg")) && argc < MAX_WORDS) run.argv[argc++] = (char *)v;
        else if ((v = value_of(p, "env")) && envc < MAX_WORDS) run.envp[envc++] = (char *)v;
        else if ((v = value_of(p, "cwd"))) run.cwd = (char *)v;
        else if ((v = value_of(p, "module"))) load_module(v);
        else if ((v = value_of(p, "terminal"))) run.terminal = (char *)v;
        else if ((v = value_of(p, "ttyfds"))) run.tty_fds = parse_number(v);
        else if ((value_of(p, "trace") || value_of(p, "trace-try") || value_of(p, "trace-names") ||
                  value_of(p, "trace-raw")) &&
                 settings < MAX_TRACE)
            run.trace[settings++] = p;
        else if ((v = value_of(p, "rows"))) run.rows = parse_number(v);
        else if ((v = value_of(p, "cols"))) run.cols = parse_number(v);
    }
    sys_unlink("/.limen/run", 0);
    sys_unlink("/.limen/modules", AT_REMOVEDIR);
    sys_unlink("/.limen", AT_REMOVEDIR);
    if (argc == 0) fail("/.limen/run names no program");
}

static void mount_file_systems(void) {
    sys_mkdir("/dev", 0755);
    sys_mkdir("/proc", 0555);
    sys_mkdir("/sys", 0555);
    sys_mkdir("/tmp", 01777);
    sys_mkdir("/run", 0755);
    sys_mount("devtmpfs", "/dev", "devtmpfs", MS_NOSUID, "mode=0755");
    sys_mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, 0);
    sys_mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, 0);
    sys_mkdir("/dev/pts", 0755);
    sys_mkdir("/dev/shm", 01777);
    sys_mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "mode=0620,ptmxmode=0666");
    sys_mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777");
    sys(__NR_symlinkat, "/proc/self/fd", AT_FDCWD, "/dev/fd", 0, 0);
    sys(__NR_symlinkat, "/proc/self/fd/0", AT_FDCWD, "/dev/stdin", 0, 0);
    sys(__NR_symlinkat, "/proc/self/fd/1", AT_FDCWD, "/dev/stdout", 0, 0);
    sys(__NR_symlinkat, "/proc/self/fd/2", AT_FDCWD, "/dev/stderr", 0, 0);
}

/* Why the program was not started: an errno, and the number of the refused setting of the trace, else -1. */
struct failure {
    int64_t error, setting;
};

/*
 * Runs in the child, which becomes the program. Does not return; if it fails, `report` passes a `struct
 * failure` to the parent.
 */
static void become_program(const int fds[3], int report) {
    uint64_t none = 0;
    struct failure failure = {0, -1};
    long error;
    /* The descriptors may sit below 3 themselves, so lift them out of the way first. */
    int lifted[3];
    for (int i = 0; i < 3; i++) lifted[i] = (int)sys_fcntl(fds[i], F_DUPFD, 10);
    report = (int)sys_fcntl(report, F_DUPFD_CLOEXEC, 20);
    sys(__NR_setsid, 0, 0, 0, 0, 0);
    for (int i = 0; i < 3; i++) {
        sys_dup(lifted[i], i);
        sys_close(lifted[i]);
    }
    for (int i = 0; i < 3; i++) {
        if (run.tty_fds & (1 << i)) {
            sys_ioctl(i, TIOCSCTTY, 0);
            break;
        }
    }
    sys(__NR_rt_sigprocmask, SIG_SETMASK, &none, 0, sizeof none, 0);
    error = run.cwd ? sys(__NR_chdir, run.cwd, 0, 0, 0, 0) : 0;
    if (error >= 0) error = trace_set(run.trace, &failure.setting);
    if (error >= 0) {
        trace_switch(1);
        error = sys(__NR_execve, run.argv[0], run.argv, run.envp, 0, 0);
        trace_switch(0);
    }
    failure.error = -error;
    sys_write(report, &failure, sizeof failure);
    sys_exit(127);
}

/*
 * Tells the host which files the program looked for and did not find, if this kernel keeps such a list: the
 * host may have them, and may advise to bring them. Nothing else uses the buffer any more.
 */
static void tell_missing(int control) {
    size_t used = 0, start = 0;
    long fd, n;
    sys_mount("debugfs", "/sys/kernel/debug", "debugfs", 0, 0);
    fd = sys_open("/sys/kernel/debug/limen/missing", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) return;
    while ((n = sys_read((int)fd, in_buffer + used, sizeof in_buffer - used)) > 0) used += (size_t)n;
    for (size_t end = 0; end < used; end++) {
        if (in_buffer[end] != '\n') continue;
        send_text(control, "missing ", 8);
        send_text(control, in_buffer + start, end + 1 - start);
        start = end + 1;
    }
}

/* Waits until the host has all output: output still on its way when the machine ends is lost. */
static void wait_until_taken(int control) {
    static const char word[] = "done\n";
    size_t found = 0;
    while (found < sizeof word - 1) {
        char c;
        long n = sys_read(control, &c, 1);
        if (n == -EINTR_) continue;
        if (n <= 0) return;
        found = c == word[found] ? found + 1 : c == word[0];
    }
}

/* Ends the run because a setting of the trace was refused; 0 is the trace as a whole. */
static void not_traced(int control, uint64_t setting, uint64_t error) {
    sys_fcntl(control, F_SETFL, 0);
    trace_refused(control, run.trace, setting, error, in_buffer);
    wait_until_taken(control);
    power_off();
}

static void check_pipe(int fds[2]) {
    if (sys_pipe(fds, O_CLOEXEC) < 0) fail("pipe2 does not work");
}

__attribute__((used)) void agent_main(void) {
    struct relay in = {.from = -1, .to = -1, .limit = ~0ull, .buffer = in_buffer};
    struct relay out = {.from = -1, .to = -1, .limit = ~0ull, .buffer = out_buffer};
    struct relay err = {.from = -1, .to = -1, .limit = ~0ull, .buffer = err_buffer};
    int control, stdio, errors, terminal = -1, fds[3], ends[3] = {-1, -1, -1}, report[2], status;
    struct failure failure = {0, -1};
    long program;

    mount_file_systems();
    read_description();
    sys(__NR_sethostname, "limen", 5, 0, 0, 0);

    control = open_port(1);
    stdio = open_port(2);
    errors = open_port(3);
    if (run.terminal) {
        uint16_t size[4] = {(uint16_t)run.rows, (uint16_t)run.cols, 0, 0};
        terminal = open_device(run.terminal, O_RDWR | O_NOCTTY);
        if (run.rows) sys_ioctl(terminal, TIOCSWINSZ, size);
    }

    for (int i = 0; i < 3; i++) {
        int pair[2];
        if (run.tty_fds & (1 << i)) {
            fds[i] = terminal;
            continue;
        }
        check_pipe(pair);
        fds[i] = pair[i == 0 ? 0 : 1];
        ends[i] = pair[i == 0 ? 1 : 0];
        sys_fcntl(ends[i], F_SETFL, O_NONBLOCK);
    }
    in.from = stdio, in.to = ends[0];
    out.from = ends[1], out.to = stdio;
    err.from = ends[2], err.to = errors;

    if (run.trace[0]) {
        long error = trace_prepare();
        if (error < 0) not_traced(control, 0, (uint64_t)-error);
    }
    check_pipe(report);
    program = sys_fork();
    if (program < 0) fail("fork does not work");
    if (program == 0) become_program(fds, report[1]);
    sys_close(report[1]);
    for (int i = 0; i < 3; i++)
        if (fds[i] != terminal) sys_close(fds[i]);
    if (sys_read(report[0], &failure, sizeof failure) == (long)sizeof failure && failure.error) {
        uint64_t number = (uint64_t)failure.error;
        if (failure.setting >= 0) not_traced(control, (uint64_t)failure.setting, number);
        sys_fcntl(control, F_SETFL, 0);
        tell_missing(control);
        send_message(control, "exec", &number, 1);
        power_off();
    }
    sys_close(report[0]);

    status = relay_until_exit(control, &in, &out, &err, terminal, (int)program);
    {
        uint64_t numbers[3] = {(uint64_t)status, out.total, err.total};
        if (terminal >= 0)
            sys_ioctl(terminal, TCSBRK, (void *)1); /* wait until the terminal's output is out */
        sys_fcntl(control, F_SETFL, 0);
        trace_send(control, run.trace, in_buffer);
        if (status != 0) tell_missing(control);
        send_message(control, "exit", numbers, 3);
        wait_until_taken(control);
    }
    power_off();
}

ENTRY;
