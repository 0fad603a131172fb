/*
 * Processes, threads and signals in rare situations: permissions, notifications, and what exists after their
 * end. Called by tools/limen/src/test/programs.rs, on every architecture; on Linux it can be run by hand, as
 * root.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"

/* An ordinary user. */
#define USER 1234

/*
 * Runs `what` in a child and adds its failed checks to ours. If the child ends in any other way, the kernel
 * has ended it.
 */
static void apart(void (*what)(void)) {
    struct { int made, failed; } sums = {0, 0};
    int ends[2], status = -1;
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        failed = made = 0;
        what();
        sums.made = made;
        sums.failed = failed;
        _exit(write(ends[1], &sums, sizeof sums) != sizeof sums);
    }
    close(ends[1]);
    CHECK(read(ends[0], &sums, sizeof sums) == sizeof sums);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    close(ends[0]);
    made += sums.made;
    failed += sums.failed;
}

/* The calling process becomes the ordinary user's, with capabilities `caps`, and dumpable. */
static void become_user(uint32_t caps) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{caps, caps, 0}, {0, 0, 0}};
    CHECK(prctl(PR_SET_KEEPCAPS, caps != 0) == 0);
    CHECK(setresgid(USER, USER, USER) == 0 && setresuid(USER, USER, USER) == 0);
    CHECK(prctl(PR_GET_DUMPABLE) == 0 && syscall(SYS_capset, &head, data) == 0);
    CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
}

/* waitpid does not find processes that are not children. */
static void no_children(void) {
    CHECK(waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
}

/* The path of a file in /proc/PID; in /proc/self for 0. */
static int open_proc(pid_t pid, const char *name, int flags) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid ? pid : getpid(), name);
    return open(path, flags);
}

/* Reads a file in /proc/PID as a string; returns its length, or -1. */
static int read_proc(pid_t pid, const char *name, char *to, int room) {
    int fd = open_proc(pid, name, O_RDONLY), n = -1;
    if (fd >= 0) n = read(fd, to, room - 1);
    to[n > 0 ? n : 0] = 0;
    if (fd >= 0) close(fd);
    return n;
}

/* 1 in the memory before exec; 0 in that of the new program, which gains privileges. */
static long before;

/*
 * Whether `fd`, a file in /proc/PID about memory, could not be opened or belongs to the memory before exec.
 */
static int outside(int fd, const char *name) {
    static char text[65536];
    unsigned long *word = (unsigned long *)text;
    if (fd < 0) return 1;
    if (strcmp(name, "mem") == 0)
        return pread(fd, text, sizeof before, (off_t)(uintptr_t)&before) != sizeof before || *word != 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    if (strcmp(name, "environ") == 0) return strcmp(text, "A=b") != 0;
    if (strcmp(name, "maps") == 0) return strstr(text, "before") != NULL;
    while ((char *)word < text + n && word[0] != AT_SECURE) word += 2;
    return (char *)word < text + n && word[1] == 0;
}

/*
 * When exec raises privileges, no other process may access the new memory, not even the vfork parent that the
 * exec wakes.
 */
static void raising(void) {
    static const char *const names[] = {"mem", "environ", "maps", "auxv"};
    char *arguments[] = {"./raising", "wait", NULL}, *environment[] = {"A=b", NULL}, byte = 0;
    int held[2], files[4], status;
    struct rlimit many = {30000, 30000};
    before = 1;
    mmap(NULL, 1, PROT_READ, MAP_SHARED, memfd_create("before", 0), 0);
    /* As many files with FD_CLOEXEC as possible, so that exec takes long. */
    if (setrlimit(RLIMIT_NOFILE, &many) != 0) {
        getrlimit(RLIMIT_NOFILE, &many);
        many.rlim_cur = many.rlim_max;
        setrlimit(RLIMIT_NOFILE, &many);
    }
    while (fcntl(0, F_DUPFD_CLOEXEC, 3) >= 0);
    for (int fd = 1000; fd < 1008; fd++) close(fd);
    become_user(0);
    for (int i = 0; i < 4; i++) {
        CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, held) == 0);
        pid_t child = vfork();
        if (child == 0) {
            dup2(held[0], 0);
            execve(arguments[0], arguments, environment);
            _exit(127);
        }
        for (int j = 0; j < 4; j++) {
            files[j] = open_proc(child, names[j], j == 0 ? O_RDWR : O_RDONLY);
            CHECK(files[j] >= 0 || errno == EACCES);
        }
        CHECK(read(held[1], &byte, 1) == 1);
        for (int j = 0; j < 4; j++) {
            CHECK(outside(files[j], names[j]));
            close(files[j]);
            CHECK(open_proc(child, names[j], O_RDONLY) == -1 && errno == EACCES);
        }
        CHECK(write(held[1], &byte, 1) == 1 && waitpid(child, &status, 0) == child && status == 7 << 8);
        close(held[0]);
        close(held[1]);
    }
}

/* A set-user-ID copy of this program: it runs as root. */
static void make_raising(void) {
    static char buffer[65536];
    int from = open("/proc/self/exe", O_RDONLY), to = open("raising", O_WRONLY | O_CREAT | O_TRUNC, 0755), n,
        whole = 1;
    while ((n = read(from, buffer, sizeof buffer)) > 0) whole &= write(to, buffer, n) == n;
    CHECK(n == 0 && whole && fchmod(to, 04755) == 0);
    close(from);
    close(to);
}

/* An open file about memory stays with the memory for which it was opened. */
static void stays(void) {
    char *arguments[] = {"/proc/self/exe", "wait", NULL}, byte, found[64];
    int held[2], status;
    CHECK(pipe(held) == 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(held[0], 0);
        close(held[1]);
        if (read(0, &byte, 1) == 1) execv(arguments[0], arguments);
        _exit(127);
    }
    int maps = open_proc(child, "maps", O_RDONLY), auxv = open_proc(child, "auxv", O_RDONLY),
        mem = open_proc(child, "mem", O_RDWR);
    CHECK(pread(maps, found, sizeof found, 0) == sizeof found &&
          pread(auxv, found, sizeof found, 0) == sizeof found);
    CHECK(pread(mem, found, 1, (off_t)(uintptr_t)&held) == 1);
    CHECK(write(held[1], &byte, 1) == 1);
    do {
        read_proc(child, "cmdline", found, sizeof found);
    } while (strcmp(found, arguments[0]) != 0);
    CHECK(pread(maps, found, sizeof found, 0) == 0 && pread(mem, found, 1, (off_t)(uintptr_t)&held) == 0);
    CHECK(pwrite(mem, found, 1, (off_t)(uintptr_t)&held) == 0);
    CHECK(write(held[1], &byte, 1) == 1 && waitpid(child, &status, 0) == child && status == 7 << 8);
    close(maps);
    close(auxv);
    close(mem);
    close(held[0]);
    close(held[1]);
}

/*
 * A process that waits in the state that `prepare` made. Its owner has its id, and the end of a pipe that
 * lets it continue.
 */
static struct { pid_t pid; int hold; } prepared;
static void prepare(uint32_t caps, int dumpable) {
    int ready[2], held[2];
    char byte = 0;
    CHECK(pipe(ready) == 0 && pipe(held) == 0);
    prepared.pid = fork();
    if (prepared.pid == 0) {
        failed = 0;
        close(held[1]);
        become_user(caps);
        prctl(PR_SET_DUMPABLE, dumpable);
        _exit(write(ready[1], &byte, 1) == 1 && read(held[0], &byte, 1) == 0 ? failed : 99);
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    close(ready[1]);
    close(held[0]);
    prepared.hold = held[1];
}

/* Lets it continue. */
static void dismiss(void) {
    int status = -1;
    close(prepared.hold);
    CHECK(waitpid(prepared.pid, &status, 0) == prepared.pid && status == 0);
}

/* The ordinary user, without capabilities, tries to access the process. */
static int may_look;
static void look(void) {
    int word = 1;
    struct iovec mine = {&word, sizeof word}, theirs = {&may_look, sizeof may_look};
    become_user(0);
    ssize_t n = process_vm_readv(prepared.pid, &mine, 1, &theirs, 1, 0);
    CHECK(may_look ? n == sizeof word && word == 0 : n == -1 && errno == EPERM);
    n = process_vm_writev(prepared.pid, &mine, 1, &theirs, 1, 0);
    CHECK(may_look ? n == sizeof word : n == -1 && errno == EPERM);
    int fd = open_proc(prepared.pid, "mem", O_RDWR);
    CHECK(may_look ? fd >= 0 : fd == -1 && errno == EACCES);
    close(fd);
    fd = open_proc(prepared.pid, "maps", O_RDONLY);
    CHECK(may_look ? fd >= 0 : fd == -1 && errno == EACCES);
    close(fd);
}

/* An ordinary user may not access processes that are not dumpable or have more capabilities. */
static void looking(void) {
    for (int i = 0; i < 3; i++) {
        prepare(i == 2 ? 1 << CAP_NET_RAW : 0, i != 1);
        may_look = i == 0;
        apart(look);
        dismiss();
        may_look = 0;
    }
    struct iovec word = {&may_look, sizeof may_look};
    CHECK(process_vm_readv(getpid(), &word, 1, &word, 1, 0) == sizeof may_look);
    pid_t child = fork();
    if (child == 0) _exit(0);
    siginfo_t info;
    CHECK(waitid(P_PID, child, &info, WEXITED | WNOWAIT) == 0);
    CHECK(process_vm_readv(child, &word, 1, &word, 1, 0) == -1 && errno == ESRCH);
    CHECK(waitpid(child, NULL, 0) == child);
}

/*
 * Mappings of a file with a name so long that all lines together do not fit into memory: they must be written
 * while they are read, byte by byte.
 */
static void long_names(void) {
    enum { DEPTH = 1500, MAPPINGS = 2500, ROOM = 1 << 20 };
    static char name[251], text[ROOM + 1];
    long page = sysconf(_SC_PAGESIZE);
    int good = 1, length = 0, n;
    memset(name, 'd', 250);
    for (int i = 0; i < DEPTH; i++) good &= mkdir(name, 0700) == 0 && chdir(name) == 0;
    int fd = open("end\n\xff", O_RDWR | O_CREAT, 0600);
    CHECK(good && ftruncate(fd, page) == 0);
    for (int i = 0; i < MAPPINGS; i++) good &= mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED;
    CHECK(good);
    int maps = open("/proc/self/maps", O_RDONLY);
    while (length < ROOM &&
           (n = read(maps, text + length, ROOM - length > 50000 ? 50000 : ROOM - length)) > 0)
        length += n;
    CHECK(length == ROOM && strstr(text, "/end\\012\xff\n") != NULL);
    /* From the middle, the data that was there. */
    CHECK(pread(maps, name, 100, ROOM / 2) == 100 && memcmp(name, text + ROOM / 2, 100) == 0);
    close(maps);
    close(fd);
    memset(name, 'd', 250);
    good = unlink("end\n\xff") == 0;
    for (int i = 0; i < DEPTH; i++) good &= chdir("..") == 0 && rmdir(name) == 0;
    CHECK(good);
}

/* /proc/PID/sessionid and loginuid: if they exist, they can be set, as login programs do. */
static void audited(void) {
    int fd = open_proc(0, "loginuid", O_RDWR);
    CHECK(fd >= 0 ? write(fd, "4294967295", 10) == 10 || errno == EPERM : errno == ENOENT);
    close(fd);
}

/* The owner of a file in the waiting process's directory. */
static int owner(const char *name) {
    char path[64];
    struct stat st = {.st_uid = -1};
    snprintf(path, sizeof path, "/proc/%d/%s", prepared.pid, name);
    stat(path, &st);
    return st.st_uid;
}

/* /proc/PID belongs to the process's user, even if the user may not read the files in it. */
static void owners(void) {
    prepare(0, 1);
    CHECK(owner("") == USER && owner("task") == USER && owner("fd") == USER && owner("stat") == USER &&
          owner("environ") == USER);
    dismiss();
    prepare(0, 0);
    CHECK(owner("") == USER && owner("task") == USER && owner("fdinfo") == USER);
    CHECK(owner("fd") == 0 && owner("stat") == 0 && owner("environ") == 0 && owner("ns") == 0);
    dismiss();
}

/* A zombie keeps its name and its user. */
static void zombies(void) {
    char text[4096], line[64];
    siginfo_t info;
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_NAME, "a zombie\xc3");
        _exit(setresgid(USER, USER, USER) != 0 || setresuid(USER, USER + 1, USER) != 0);
    }
    CHECK(waitid(P_PID, child, &info, WEXITED | WNOWAIT) == 0);
    prepared.pid = child;
    CHECK(read_proc(child, "comm", text, sizeof text) == 10 && strcmp(text, "a zombie\xc3\n") == 0);
    snprintf(line, sizeof line, "%d (a zombie\xc3) Z %d ", child, getpid());
    CHECK(read_proc(child, "stat", text, sizeof text) > 0 && strncmp(text, line, strlen(line)) == 0);
    CHECK(read_proc(child, "status", text, sizeof text) > 0 &&
          strncmp(text, "Name:\ta zombie\xc3\n", 16) == 0);
    snprintf(line, sizeof line, "\nUid:\t%d\t%d\t%d\t%d\n", USER, USER + 1, USER, USER + 1);
    CHECK(strstr(text, line) != NULL && strstr(text, "\nGid:\t1234\t1234\t1234\t1234\n") != NULL);
    CHECK(owner("") == USER + 1 && owner("stat") == 0);
    CHECK(waitpid(child, NULL, 0) == child);
}

/* A process's name may have any bytes; in status it is one line. */
static void names(void) {
    char old[16], text[4096], line[64];
    prctl(PR_GET_NAME, old);
    CHECK(prctl(PR_SET_NAME, "a\nUid:\t0\\\xe2\x82") == 0);
    CHECK(read_proc(0, "status", text, sizeof text) > 0 &&
          strncmp(text, "Name:\ta\\nUid:\t0\\\\\xe2\x82\n", 20) == 0);
    CHECK(read_proc(0, "comm", text, sizeof text) == 12 && strcmp(text, "a\nUid:\t0\\\xe2\x82\n") == 0);
    snprintf(line, sizeof line, "%d (a\nUid:\t0\\\xe2\x82) R ", getpid());
    CHECK(read_proc(0, "stat", text, sizeof text) > 0 && strncmp(text, line, strlen(line)) == 0);
    prctl(PR_SET_NAME, old);
}

/* Memory that is not mapped cannot be written or read. */
static void no_memory(void) {
    char byte = 'x', other = 'y';
    int mem = open_proc(0, "mem", O_RDWR);
    CHECK(pwrite(mem, &byte, 1, 16) == -1 && errno == EIO && pread(mem, &byte, 1, 16) == -1 && errno == EIO);
    CHECK(pwrite(mem, &byte, 0, 16) == 0 && pread(mem, &byte, 0, 16) == 0);
    CHECK(pwrite(mem, &byte, 1, (off_t)(uintptr_t)&other) == 1 && *(volatile char *)&other == 'x');
    close(mem);
}

/* The number of threads, from the running thread's directory. */
static void *thread_count(void *unused) {
    char name[64], text[1024], *at;
    long count = -1;
    (void)unused;
    snprintf(name, sizeof name, "task/%d/stat", (int)syscall(SYS_gettid));
    if (read_proc(0, name, text, sizeof text) > 0 && (at = strrchr(text, ')')) != NULL)
        sscanf(at, ") %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %ld", &count);
    return (void *)count;
}

/* A thread is shown as one of all. */
static void threads_shown(void) {
    pthread_t thread;
    void *count;
    CHECK(pthread_create(&thread, NULL, thread_count, NULL) == 0 && pthread_join(thread, &count) == 0);
    CHECK((long)count == 2);
}

/*
 * A stack is read from a file that a privileged process has opened, by one that might trace. A process that
 * opens maps, environ, auxv or mem has to be allowed to; one that reads them then does not.
 */
static void openers_and_readers(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct all[2], none[2] = {{0, 0, 0}, {0, 0, 0}};
    static const char *const memory[] = {"maps", "environ", "auxv"};
    char text[512], path[64];
    int pipes[2][2], status, admins, others, of_memory[3];
    CHECK(pipe(pipes[0]) == 0 && pipe(pipes[1]) == 0);
    /* Root without capabilities, which may itself be traced by such. */
    pid_t weak = fork();
    if (weak == 0) {
        failed = 0;
        CHECK(syscall(SYS_capset, &header, none) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0);
        char byte = failed;
        if (write(pipes[0][1], &byte, 1) < 0) _exit(1);
        snprintf(path, sizeof path, "/proc/%d/stack", getpid());
        int own = open(path, O_RDONLY);
        CHECK(own >= 0 && read(own, text, sizeof text) == -1 && errno == EACCES);
        /* Which also comes before whether the reader might trace. */
        snprintf(path, sizeof path, "/proc/%d/stack", getppid());
        int parents = open(path, O_RDONLY);
        CHECK(parents >= 0 && read(parents, text, sizeof text) == -1 && errno == EACCES);
        if (write(pipes[0][1], &byte, 1) < 0 || read(pipes[1][0], &byte, 1) < 0) _exit(1);
        _exit(failed);
    }
    CHECK(read(pipes[0][0], text, 1) == 1 && *text == 0);
    snprintf(path, sizeof path, "/proc/%d/stack", weak);
    CHECK((admins = open(path, O_RDONLY)) >= 0 && read(pipes[0][0], text, 1) == 1);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", getpid(), memory[i]);
        CHECK((of_memory[i] = open(path, O_RDONLY)) >= 0);
    }
    pid_t other = fork();
    if (other == 0) {
        failed = 0;
        CHECK(syscall(SYS_capget, &header, all) == 0);
        memcpy(none, all, sizeof all);
        none[0].effective = none[1].effective = 0;
        /* Opened without the capability, read with it. */
        CHECK(syscall(SYS_capset, &header, none) == 0);
        snprintf(path, sizeof path, "/proc/%d/stack", weak);
        CHECK((others = open(path, O_RDONLY)) >= 0 && syscall(SYS_capset, &header, all) == 0);
        CHECK(read(others, text, sizeof text) == -1 && errno == EACCES);
        /* Opened with it, read without any. */
        memset(none, 0, sizeof none);
        CHECK(syscall(SYS_capset, &header, none) == 0);
        CHECK(read(admins, text, sizeof text) > 6 && strncmp(text, "[<0>] ", 6) == 0);
        for (int i = 0; i < 3; i++) {
            CHECK(read(of_memory[i], text, sizeof text) > 0);
            snprintf(path, sizeof path, "/proc/%d/%s", getppid(), memory[i]);
            CHECK(open(path, O_RDONLY) == -1 && errno == EACCES);
        }
        _exit(failed);
    }
    CHECK(waitpid(other, &status, 0) == other && status == 0);
    CHECK(write(pipes[1][1], "", 1) == 1 && waitpid(weak, &status, 0) == weak && status == 0);
    close(admins);
    for (int i = 0; i < 3; i++) close(of_memory[i]);
    for (int i = 0; i < 4; i++) close(pipes[i / 2][i % 2]);
}

int main(int argc, char **argv) {
    char byte = 0;
    if (argc > 1)
        return strcmp(argv[1], "wait") == 0 && write(0, &byte, 1) + 2 > 0 && read(0, &byte, 1) == 1 ? 7 : 8;
    setvbuf(stdout, NULL, _IONBF, 0);
    no_children();
    make_raising();
    apart(raising);
    stays();
    looking();
    openers_and_readers();
    unlink("raising");
    apart(long_names);
    audited();
    owners();
    zombies();
    names();
    threads_shown();
    no_memory();
    return report();
}
