/*
 * Modules of the kernel: loading, unloading, what /proc and /sys show of them, errors. It loads those of
 * programs/modules, which are in /modules. Called by tools/limen/src/test/modules.rs, on every architecture.
 * Arguments: `percent=80` and the like for vmap80, or none.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "common.h"
#include "modules.h"

#define IGNORE_VERSIONS 3
#define COMPRESSED 4

/* Loads a module's file; returns 0 or the error. */
static int load_path(const char *path, const char *args) {
    int fd = open(path, O_RDONLY);
    int result = syscall(SYS_finit_module, fd, args, 0) == 0 ? 0 : errno;
    close(fd);
    return result;
}

static int load_file(const char *name, int mode, int flags) {
    int fd = open(path_of(name), mode);
    int result = syscall(SYS_finit_module, fd, "", flags) == 0 ? 0 : errno;
    if (fd >= 0) close(fd);
    return result;
}

/* The text of a file of a module in sysfs. */
static const char *sys(const char *module, const char *file) {
    char path[150];
    snprintf(path, sizeof path, "/sys/module/%s/%s", module, file);
    return text_of(path);
}

/* Writes a parameter; returns 0 or the error. */
static int put(const char *module, const char *parameter, const char *value) {
    char path[150];
    snprintf(path, sizeof path, "/sys/module/%s/parameters/%s", module, parameter);
    int fd = open(path, O_WRONLY);
    int result = fd >= 0 && write(fd, value, strlen(value)) == (ssize_t)strlen(value) ? 0 : errno;
    if (fd >= 0) close(fd);
    return result;
}

static int is(const char *text, const char *wanted) {
    if (strcmp(text, wanted) == 0) return 1;
    printf("\"%s\" instead of \"%s\"\n", text, wanted);
    return 0;
}

/* Whether a file comes to have this text, and keeps it. */
static int becomes(const char *file, const char *wanted) {
    SOON(strcmp(text_of(file), wanted) == 0);
    pause_ms(50);
    return is(text_of(file), wanted);
}

/* Whether the log has this text. */
static int logged(const char *text) {
    static char log[1 << 20];
    int n = klogctl(3, log, sizeof log - 1);
    log[n > 0 ? n : 0] = 0;
    return strstr(log, text) != NULL;
}

/* A module in Rust. */
static void hello_rust(void) {
    CHECK(load_named("hello_rust", "times=2") == 0);
    CHECK(logged("hello_rust: loaded, 2 times"));
    CHECK(becomes("/proc/hello_rust", "hello from Rust, 0\nhello from Rust, 1\nticks 1\n"));
    CHECK(is(sys("hello_rust", "parameters/times"), "2\n") && put("hello_rust", "times", "1\n") == 0);
    CHECK(is(text_of("/proc/hello_rust"), "hello from Rust, 0\nticks 1\n"));
    CHECK(unload("hello_rust") == 0 && logged("hello_rust: unloaded, 1 ticks"));
    CHECK(access("/proc/hello_rust", F_OK) == -1 && errno == ENOENT);
}

/* What a module says may fault ends with an error, all else with the kernel. */
static void faults(void) {
    CHECK(load_named("faults", "") == 0 && logged("faults: 300 accesses, 400 errors"));
    CHECK(is(sys("faults", "parameters/bad"), "400\n") && unload("faults") == 0);
}

static void hello(void) {
    CHECK(load_named("hello", "whom=tester times=2 nonsense=1 numbers=4,5,6 \"word=two words\"") == 0);
    CHECK(logged("hello: loaded, for tester"));
    CHECK(logged("hello: unknown parameter 'nonsense' ignored"));
    CHECK(becomes("/proc/hello", "hello tester\nhello tester\nconstant 42, ticks 3\n"));
    unsigned long bytes = 0, users = 9;
    unsigned long long at = 0;
    char state[20] = "", with[20] = "", mark[20] = "";
    int found = sscanf(line_of("hello"), "hello %lu %lu %19s %19s 0x%llx %19s", &bytes, &users, with, state,
        &at, mark);
    CHECK(found == 6 && bytes >= 8192 && bytes % 4096 == 0 && users == 0 && at != 0 && at % 4096 == 0);
    CHECK(is(with, "-") && is(state, "Live") && is(mark, "(O)"));
    CHECK(is(sys("hello", "refcnt"), "0\n"));
    CHECK(is(sys("hello", "initstate"), "live\n"));
    CHECK(is(sys("hello", "initsize"), "0\n"));
    CHECK(is(sys("hello", "taint"), "O\n"));
    CHECK(strtoul(sys("hello", "coresize"), NULL, 10) == bytes);
    CHECK(is(sys("hello", "parameters/whom"), "tester\n"));
    CHECK(is(sys("hello", "parameters/times"), "2\n"));
    CHECK(is(sys("hello", "parameters/loud"), "N\n"));
    CHECK(is(sys("hello", "parameters/mask"), "0x0000ff\n"));
    CHECK(is(sys("hello", "parameters/numbers"), "4,5,6\n"));
    CHECK(is(sys("hello", "parameters/word"), "two words\n"));
    CHECK(put("hello", "times", "1\n") == 0 && put("hello", "whom", "you") == 0);
    CHECK(is(text_of("/proc/hello"), "hello you\nconstant 42, ticks 3\n"));
    for (int i = 0; i < 1000; i++) CHECK(put("hello", "whom", i & 1 ? "me" : "somebody else") == 0);
    CHECK(is(sys("hello", "parameters/whom"), "me\n"));
    CHECK(put("hello", "times", "many") == EINVAL);
    CHECK(put("hello", "times", "99999999999") == ERANGE);
    CHECK(put("hello", "numbers", "1,2,3,4,5") == EINVAL);
    CHECK(put("hello", "word", "much too long for it") == ENOSPC);
    struct stat st;
    CHECK(stat("/sys/module/hello/parameters/mask", &st) == 0 && (st.st_mode & 07777) == 0600);
    CHECK(stat("/sys/module/hello/sections/.text", &st) == 0 && (st.st_mode & 07777) == 0400);
    unsigned long long text = strtoull(sys("hello", "sections/.text"), NULL, 16);
    CHECK(text >= at && text < at + bytes);
    CHECK(stat("/sys/module/hello/sections/.data..ro_after_init", &st) == 0);
    const char *symbols = text_of("/proc/kallsyms");
    CHECK(strstr(symbols, " show\t[hello]\n") != NULL);
    CHECK(strstr(symbols, " cleanup_module\t[hello]\n") != NULL);
    CHECK(strstr(symbols, " init_module\t[hello]\n") == NULL);
    CHECK(load(size, "") == EEXIST);
    CHECK(load_file("hello", O_RDONLY, 0) == EEXIST);
    int fd = open("/proc/hello", O_RDONLY);
    char c;
    CHECK(fd >= 0 && read(fd, &c, 1) == 1);
    CHECK(unload("hello") == 0);
    CHECK(logged("hello: unloaded, 0 writable, 3 ticks"));
    CHECK(lseek(fd, 0, SEEK_SET) == 0 && read(fd, &c, 1) == -1 && errno == EIO);
    close(fd);
    CHECK(access("/proc/hello", F_OK) == -1 && errno == ENOENT);
    CHECK(access("/sys/module/hello", F_OK) == -1 && errno == ENOENT);
    CHECK(*line_of("hello") == 0 && unload("hello") == ENOENT);
}

static void dependencies(void) {
    CHECK(load_named("dep_b", "") == ENOENT);
    CHECK(logged("dep_b: Unknown symbol dep_a_") && logged(" (err -2)"));
    CHECK(load_named("dep_a", "") == 0 && load_named("dep_b", "") == 0);
    CHECK(is(text_of("/proc/dep_b"), "42\n"));
    CHECK(is(sys("dep_a", "refcnt"), "1\n"));
    CHECK(strstr(line_of("dep_a"), " 1 dep_b, Live 0x") != NULL);
    CHECK(access("/sys/module/dep_a/holders/dep_b/refcnt", F_OK) == 0);
    CHECK(unload("dep_a") == EAGAIN);
    CHECK(syscall(SYS_delete_module, "dep_a", O_NONBLOCK | O_TRUNC) == -1 && errno == EAGAIN);
    CHECK(unload("dep_b") == 0);
    CHECK(is(sys("dep_a", "refcnt"), "0\n"));
    CHECK(unload("dep_a") == 0);
}

static void failing(void) {
    CHECK(load_named("bad", "") == ENODEV);
    CHECK(load_named("bad", "error=7 leave") == E2BIG);
    CHECK(logged("bad: /proc/bad was not removed") && logged("bad: a timer was not deleted"));
    CHECK(access("/proc/bad", F_OK) == -1 && *line_of("bad") == 0);
    CHECK(load_named("bad", "error=0 leave=y") == 0);
    CHECK(access("/sys/module/bad/parameters", F_OK) == -1);
    CHECK(access("/proc/bad", F_OK) == 0);
    CHECK(unload("bad") == 0 && access("/proc/bad", F_OK) == -1);
    CHECK(load_named("bad", "error=x") == EINVAL);
    CHECK(logged("bad: `x' invalid for parameter `error'"));
    CHECK(load(size, (char *)8) == EFAULT);
    CHECK(*line_of("bad") == 0);
}

/* Objects that are none. */
static void hostile(void) {
    fetch("hello");
    CHECK(load(0, "") == ENOEXEC && load(20, "") == ENOEXEC);
    for (size_t length = 52; length < size; length += 1 + size / 200) {
        int error = load(length, "");
        CHECK(error == ENOEXEC);
    }
    CHECK(syscall(SYS_init_module, (char *)8, 4096, "") == -1 && errno == EFAULT);
    CHECK(syscall(SYS_init_module, object, (size_t)-4096, "") == -1 && errno == ENOMEM);
    object[0] = 'X';
    CHECK(load(size, "") == ENOEXEC && logged("module: not an ELF file"));
    object[0] = 0x7f;
    object[18] ^= 1;
    CHECK(load(size, "") == ENOEXEC && logged("module: an object for another processor"));
    object[18] ^= 1;
    char *version = memmem(object, size, "limen_abi=", 10);
    CHECK(version != NULL);
    if (!version) return;
    version[10] = '!';
    CHECK(load(size, "") == ENOEXEC && logged("hello: version '!' should be '1'"));
    int fd = open("/tmp/other.ko", O_RDWR | O_CREAT, 0600);
    CHECK(write(fd, object, size) == (ssize_t)size);
    CHECK(syscall(SYS_finit_module, fd, "", 2) == -1 && errno == ETXTBSY);
    close(fd);
    fd = open("/tmp/other.ko", O_RDONLY);
    CHECK(syscall(SYS_finit_module, fd, "", 1) == -1 && errno == ENOEXEC);
    CHECK(syscall(SYS_finit_module, fd, "", 2) == 0);
    CHECK(is(sys("hello", "taint"), "FO\n"));
    CHECK(unload("hello") == 0);
    close(fd);
    unlink("/tmp/other.ko");
}

static void calls(void) {
    CHECK(load_file("hello", O_RDONLY, 8) == EINVAL);
    CHECK(load_file("hello", O_RDONLY, COMPRESSED) == EOPNOTSUPP);
    CHECK(load_file("nothing", O_RDONLY, 0) == EBADF);
    CHECK(load_file("hello", O_WRONLY, 0) == EBADF);
    CHECK(load_file("hello", O_PATH, 0) == EBADF);
    int fd = open("/modules", O_RDONLY);
    CHECK(syscall(SYS_finit_module, fd, "", 0) == -1 && errno == EINVAL);
    close(fd);
    CHECK(load_file("hello", O_RDONLY, IGNORE_VERSIONS) == 0 && unload("hello") == 0);
    CHECK(unload("") == ENOENT);
    CHECK(unload("no_such_module_has_a_name_that_is_so_long_that_it_does_not_fit") == ENOENT);
    CHECK(syscall(SYS_delete_module, (char *)8, 0) == -1 && errno == EFAULT);
    pid_t child = fork();
    if (child == 0) {
        failed = 0;
        fetch("hello");
        CHECK(setuid(1000) == 0);
        CHECK(load(size, "") == EPERM && unload("hello") == EPERM);
        CHECK(syscall(SYS_finit_module, -1, "", 99) == -1 && errno == EPERM);
        _exit(failed);
    }
    CHECK(child_good(child));
}

/* Two loaders of one name: the second waits for the first. */
static void waiting(void) {
    fetch("dep_a");
    pid_t child = fork();
    if (child == 0) _exit(load(size, "slow=3000"));
    for (int i = 0; i < 100 && *line_of("dep_a") == 0; i++) pause_ms(20);
    CHECK(is(sys("dep_a", "initstate"), "coming\n"));
    CHECK(is(sys("dep_a", "refcnt"), "1\n") && strstr(line_of("dep_a"), " (O+)") != NULL);
    CHECK(put("dep_a", "early", "5") == 0);
    CHECK(strstr(line_of("dep_a"), " Loading 0x") != NULL);
    CHECK(strtoul(sys("dep_a", "initsize"), NULL, 10) > 0);
    CHECK(unload("dep_a") == EBUSY);
    /* It uses dep_a, and waits for it, too. */
    pid_t user = fork();
    if (user == 0) _exit(load_named("dep_b", ""));
    CHECK(load(size, "") == EEXIST);
    CHECK(child_good(child) && child_good(user));
    CHECK(is(sys("dep_a", "initstate"), "live\n"));
    CHECK(is(text_of("/proc/dep_b"), "42\n"));
    CHECK(put("dep_a", "early", "6") == EPERM && is(sys("dep_a", "parameters/early"), "5\n"));
    CHECK(unload("dep_b") == 0 && unload("dep_a") == 0);
}

static void nothing(int signal) {
    (void)signal;
}

/* Several loaders of one file: one loads it, all get what it gets. */
static void together(void) {
    fetch("dep_a");
    int fd = open("/tmp/copy.ko", O_WRONLY | O_CREAT, 0600);
    CHECK(write(fd, object, size) == (ssize_t)size);
    close(fd);
    CHECK(link("/tmp/copy.ko", "/tmp/link.ko") == 0);
    pid_t child = fork();
    if (child == 0) _exit(load_path("/tmp/copy.ko", "slow=2000"));
    for (int i = 0; i < 100 && *line_of("dep_a") == 0; i++) pause_ms(20);
    CHECK(is(sys("dep_a", "initstate"), "coming\n"));
    pid_t interrupted = fork();
    if (interrupted == 0) {
        struct sigaction action = {.sa_handler = nothing};
        sigaction(SIGALRM, &action, NULL);
        ualarm(100000, 0);
        _exit(load_path("/tmp/copy.ko", "") != EINTR);
    }
    /* It is another file that has the same content. */
    pid_t other = fork();
    if (other == 0) _exit(load_path(path_of("dep_a"), "") != EEXIST);
    /* The parameters of those that only wait do not matter, nor by what name they know the file. */
    CHECK(child_good(interrupted));
    CHECK(is(sys("dep_a", "initstate"), "coming\n"));
    CHECK(load_path("/tmp/link.ko", "slow=x") == 0);
    CHECK(is(sys("dep_a", "parameters/slow"), "2000\n"));
    CHECK(child_good(child) && child_good(other));
    CHECK(load_path("/tmp/copy.ko", "") == EEXIST && unload("dep_a") == 0);
    unlink("/tmp/copy.ko");
    unlink("/tmp/link.ko");
    pid_t children[4];
    for (int i = 0; i < 4; i++)
        if ((children[i] = fork()) == 0) _exit(load_path(path_of("bad"), "slow=1000 error=7") != E2BIG);
    for (int i = 0; i < 4; i++) CHECK(child_good(children[i]));
    CHECK(*line_of("bad") == 0);
}

/* Files of a module that is gone. */
static void kept_open(void) {
    static const char *const names[] = {
        "refcnt", "initstate", "coresize", "initsize", "taint", "parameters/whom", "sections/.text"};
    enum { N = sizeof names / sizeof *names };
    int fds[N];
    char path[100], text[100];
    CHECK(load_named("hello", "") == 0);
    for (int i = 0; i < N; i++) {
        snprintf(path, sizeof path, "/sys/module/hello/%s", names[i]);
        fds[i] = open(path, i == 5 ? O_RDWR : O_RDONLY);
        CHECK(pread(fds[i], text, sizeof text, 0) > 0);
    }
    int dir = open("/sys/module/hello", O_RDONLY), inner = open("/sys/module/hello/sections", O_RDONLY);
    CHECK(faccessat(dir, "refcnt", F_OK, 0) == 0 && faccessat(inner, ".text", F_OK, 0) == 0);
    CHECK(unload("hello") == 0);
    for (int again = 0; again < 2; again++) {
        for (int i = 0; i < N; i++) CHECK(pread(fds[i], text, sizeof text, 0) == -1 && errno == ENODEV);
        CHECK(write(fds[5], "you", 3) == -1 && errno == ENODEV);
        CHECK(faccessat(dir, "refcnt", F_OK, 0) == -1 && errno == ENOENT);
        CHECK(faccessat(inner, ".text", F_OK, 0) == -1 && errno == ENOENT);
        /* They are not those of another one with its name. */
        if (again == 0) CHECK(load_named("hello", "") == 0);
    }
    CHECK(is(sys("hello", "refcnt"), "0\n") && unload("hello") == 0);
    for (int i = 0; i < N; i++) close(fds[i]);
    close(dir);
    close(inner);
}

/* A module whose exit takes time: it is still there, and is what it was. */
static void leaving(void) {
    CHECK(load_named("dep_a", "slow_exit=1500") == 0);
    pid_t child = fork();
    if (child == 0) _exit(unload("dep_a"));
    for (int i = 0; i < 100 && strcmp(sys("dep_a", "initstate"), "going\n") != 0; i++) pause_ms(10);
    CHECK(is(sys("dep_a", "initstate"), "going\n"));
    CHECK(is(sys("dep_a", "refcnt"), "-1\n") && strstr(line_of("dep_a"), " (O-)") != NULL);
    CHECK(put("dep_a", "early", "6") == EPERM);
    CHECK(load(size, "") == EBUSY && unload("dep_a") == EBUSY);
    /* What it exports is not to be had any more. */
    CHECK(load_named("dep_b", "") == ENOENT);
    CHECK(child_good(child) && *line_of("dep_a") == 0);
}

/* Memory comes back, also while others read what the modules show. */
static void again(void) {
    pid_t reader = fork();
    if (reader == 0)
        for (;;) {
            text_of("/proc/modules");
            text_of("/proc/hello");
            sys("hello", "parameters/whom");
        }
    fetch("hello");
    unsigned long before = 0;
    for (int i = 0; i < 200 && !failed; i++) {
        CHECK(load(size, "whom=again") == 0);
        int error;
        while ((error = unload("hello")) == EAGAIN) pause_ms(1);
        CHECK(error == 0);
        if (i == 20) before = free_kib();
    }
    kill(reader, SIGKILL);
    waitpid(reader, NULL, 0);
    unsigned long after = free_kib();
    if (after + 4096 < before) printf("%lu KiB free before, %lu after\n", before, after);
    CHECK(after + 4096 >= before);
}

int main(int argc, char **argv) {
    char args[200] = "";
    for (int i = 1; i < argc; i++) snprintf(args + strlen(args), sizeof args - strlen(args), "%s ", argv[i]);
    hello();
    hello_rust();
    faults();
    dependencies();
    failing();
    hostile();
    calls();
    waiting();
    together();
    leaving();
    kept_open();
    CHECK(load_named("timers", "rounds=2000") == 0 && unload("timers") == 0);
    again();
    if (argc > 1) {
        CHECK(load_named("vmap80", args) == 0);
        CHECK(logged(" pages, 0 failures, ") && unload("vmap80") == 0);
    }
    mount("none", "/sys/kernel/debug", "debugfs", 0, NULL);
    CHECK(load_named("hello", "") == 0);
    CHECK(is(text_of("/sys/kernel/debug/check_wx_pages"), "SUCCESS\n"));
    CHECK(unload("hello") == 0);
    int fd = open("/proc/sys/kernel/modules_disabled", O_WRONLY);
    CHECK(write(fd, "0", 1) == -1 && errno == EINVAL);
    close(fd);
    set("kernel/modules_disabled", "1");
    CHECK(load_named("hello", "") == EPERM && unload("hello") == EPERM);
    CHECK(is(text_of("/proc/sys/kernel/modules_disabled"), "1\n"));
    return report();
}
