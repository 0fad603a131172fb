/*
 * Core dumps (core(5)): when there is one, what it is called, what is in it, of memory and of every thread,
 * and that it can be written to a program. Called by tools/limen/src/test/programs.rs, as root, in an empty
 * folder; it is its own helper.
 *   dumped
 *   dumped --keep FILE ARGUMENTS...   writes its standard input to FILE, and the arguments to FILE.words
 *   dumped --dumpable                 exits with what PR_GET_DUMPABLE says
 *   dumped --stuck FILE               makes the file; reads nothing until its standard input is closed
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/procfs.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "common.h"

#define PATTERN "/proc/sys/kernel/core_pattern"
#define USES_PID "/proc/sys/kernel/core_uses_pid"
#define PIPE_LIMIT "/proc/sys/kernel/core_pipe_limit"
#define MARK 0x5ca1ab1e
/* The set of floating-point registers. On 32-bit Arm the older one is of a processor that is not there. */
#ifdef __arm__
#define FLOATS NT_ARM_VFP
#else
#define FLOATS NT_FPREGSET
#endif

static volatile uint32_t mark = MARK;
static char *volatile nowhere = (char *)64;
static size_t page;

static int put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_TRUNC);
    ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));
    close(fd);
    return n == (ssize_t)strlen(text);
}

static void limit(rlim_t most) {
    struct rlimit limit = {most, RLIM_INFINITY};
    setrlimit(RLIMIT_CORE, &limit);
}

/* A core file in memory. */
struct core {
    const char *at;
    size_t size;
};

static struct core load(const char *path) {
    struct core core = {NULL, 0};
    struct stat is;
    int fd = open(path, O_RDONLY);
    if (fd >= 0 && fstat(fd, &is) == 0 && is.st_size > 0) {
        core.size = (size_t)is.st_size;
        core.at = mmap(NULL, core.size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (core.at == MAP_FAILED) core = (struct core){NULL, 0};
    }
    close(fd);
    return core;
}

static void forget(struct core core) {
    if (core.at) munmap((void *)core.at, core.size);
}

static const ElfW(Phdr) *headers(struct core core, int *count) {
    const ElfW(Ehdr) *file = (const void *)core.at;
    *count = 0;
    if (core.size < sizeof *file || memcmp(file->e_ident, ELFMAG, SELFMAG) != 0) return NULL;
    *count = file->e_phnum;
    return (const void *)(core.at + file->e_phoff);
}

/* The mapping with an address. */
static const ElfW(Phdr) *mapping(struct core core, const volatile void *address) {
    int count;
    const ElfW(Phdr) *header = headers(core, &count);
    for (; count > 0; count--, header++) {
        if (header->p_type != PT_LOAD) continue;
        if ((uintptr_t)address - header->p_vaddr < header->p_memsz) return header;
    }
    return NULL;
}

/* What the file has at an address; NULL: nothing. */
static const void *kept(struct core core, const volatile void *address) {
    const ElfW(Phdr) *found = mapping(core, address);
    uintptr_t offset = found ? (uintptr_t)address - found->p_vaddr : 0;
    if (!found || offset >= found->p_filesz || found->p_offset + offset >= core.size) return NULL;
    return core.at + found->p_offset + offset;
}

/* Note number `nth` of a kind, and its size. */
static const void *note(struct core core, unsigned kind, int nth, size_t *size) {
    int count;
    const ElfW(Phdr) *header = headers(core, &count);
    for (; count > 0; count--, header++) {
        if (header->p_type != PT_NOTE) continue;
        const char *at = core.at + header->p_offset, *end = at + header->p_filesz;
        while (at < end) {
            const ElfW(Nhdr) *note = (const void *)at;
            const char *data = at + sizeof *note + (note->n_namesz + 3) / 4 * 4;
            if (note->n_type == kind && nth-- == 0) {
                *size = note->n_descsz;
                return data;
            }
            at = data + (note->n_descsz + 3) / 4 * 4;
        }
    }
    *size = 0;
    return NULL;
}

static int crashes(void) {
    *(volatile char *)nowhere = 1;
    return 0;
}

/* The status of a child that runs `body` with a limit for its core file. */
static int after(int (*body)(void), rlim_t most) {
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        limit(most);
        _exit(body());
    }
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static int dumped(int status, int signal) {
    return WIFSIGNALED(status) && WTERMSIG(status) == signal && WCOREDUMP(status);
}

static int not_dumped(int status, int signal) {
    return WIFSIGNALED(status) && WTERMSIG(status) == signal && !WCOREDUMP(status);
}

/* A child without a limit for its core file, that waits for a signal. */
static pid_t waiting(void) {
    int limited[2];
    char byte;
    CHECK(pipe(limited) == 0);
    pid_t child = fork();
    if (child == 0) {
        limit(RLIM_INFINITY);
        if (write(limited[1], "x", 1) != 1) _exit(1);
        while (pause() < 0) continue;
    }
    CHECK(read(limited[0], &byte, 1) == 1);
    close(limited[0]);
    close(limited[1]);
    return child;
}

static int is_secretive(void) {
    prctl(PR_SET_DUMPABLE, 0);
    return crashes();
}

static void when(void) {
    siginfo_t info;
    CHECK(not_dumped(after(crashes, 0), SIGSEGV) && access("core", F_OK) == -1);
    CHECK(not_dumped(after(crashes, page - 1), SIGSEGV) && access("core", F_OK) == -1);
    CHECK(not_dumped(after(is_secretive, RLIM_INFINITY), SIGSEGV) && access("core", F_OK) == -1);
    /* Signals that mean no error. */
    pid_t child = waiting();
    CHECK(kill(child, SIGTERM) == 0 && waitid(P_PID, child, &info, WEXITED) == 0);
    CHECK(info.si_code == CLD_KILLED && access("core", F_OK) == -1);
    child = waiting();
    CHECK(kill(child, SIGQUIT) == 0 && waitid(P_PID, child, &info, WEXITED) == 0);
    CHECK(info.si_code == CLD_DUMPED && info.si_status == SIGQUIT && unlink("core") == 0);
    /* More than the limit: what fits. Linux 6.1 does not count memory. */
    struct utsname name;
    struct stat is;
    int status = after(crashes, 4 * page);
    uname(&name);
    CHECK(not_dumped(status, SIGSEGV) || strstr(name.version, "Limen") == NULL);
    CHECK(stat("core", &is) == 0 && (is.st_size <= (off_t)(4 * page) || WCOREDUMP(status)));
    CHECK(unlink("core") == 0);
}

static void content(void) {
    struct stat is;
    size_t size;
    CHECK(dumped(after(crashes, RLIM_INFINITY), SIGSEGV));
    CHECK(stat("core", &is) == 0 && (is.st_mode & 07777) == 0600 && is.st_uid == 0);
    struct core core = load("core");
    const ElfW(Ehdr) *file = (const void *)core.at;
    CHECK(core.at != NULL && file->e_type == ET_CORE && file->e_version == 1);
    if (!core.at) return;
    const prstatus_t *status = note(core, NT_PRSTATUS, 0, &size);
    CHECK(status && size == sizeof *status && status->pr_cursig == SIGSEGV && status->pr_ppid == getpid());
    CHECK(status && status->pr_pgrp == getpgrp() && status->pr_sid == getsid(0));
    CHECK(note(core, NT_PRSTATUS, 1, &size) == NULL);
    const prpsinfo_t *info = note(core, NT_PRPSINFO, 0, &size);
    CHECK(info && size == sizeof *info && strcmp(info->pr_fname, "dumped") == 0 && info->pr_sname == 'R');
    CHECK(info && status && info->pr_pid == status->pr_pid && strstr(info->pr_psargs, "dumped") != NULL);
    const siginfo_t *why = note(core, NT_SIGINFO, 0, &size);
    CHECK(why && size == 128 && why->si_signo == SIGSEGV && why->si_code == SEGV_MAPERR);
    CHECK(why && why->si_addr == nowhere);
    const ElfW(auxv_t) *auxv = note(core, NT_AUXV, 0, &size);
    CHECK(auxv && size % sizeof *auxv == 0 && size > 8 * sizeof *auxv);
    CHECK(auxv && auxv[size / sizeof *auxv - 1].a_type == AT_NULL);
    const char *files = note(core, NT_FILE, 0, &size);
    CHECK(files && memmem(files, size, "/dumped", 8) != NULL);
    CHECK(note(core, FLOATS, 0, &size) != NULL && size > 0);
    /* Memory: data that was written, the stack, the program's first page. */
    const uint32_t *seen = kept(core, &mark);
    CHECK(seen && *seen == MARK);
    CHECK(kept(core, &is) != NULL);
    extern const char __ehdr_start[];
    const char *magic = kept(core, __ehdr_start);
    CHECK(magic && memcmp(magic, ELFMAG, SELFMAG) == 0);
    const ElfW(Phdr) *text = mapping(core, (void *)(uintptr_t)&memmem);
    CHECK(text && text->p_flags & PF_X);
    forget(core);
    /* The next one replaces it, and a link is not followed. */
    CHECK(unlink("core") == 0 && symlink("elsewhere", "core") == 0);
    CHECK(dumped(after(crashes, RLIM_INFINITY), SIGSEGV) && access("elsewhere", F_OK) == -1);
    CHECK(lstat("core", &is) == 0 && S_ISREG(is.st_mode) && unlink("core") == 0);
    CHECK(mkdir("core", 0700) == 0 && not_dumped(after(crashes, RLIM_INFINITY), SIGSEGV));
    CHECK(rmdir("core") == 0);
}

static char *private_memory, *left_out, *shared, *untouched;

static int crashes_with_memory(void) {
    int zero = open("/dev/zero", O_RDWR);
    private_memory = mmap((void *)0x20000000, 16 * page, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    left_out = mmap((void *)0x21000000, page, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    shared = mmap((void *)0x22000000, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, zero, 0);
    untouched = mmap((void *)0x23000000, 1 << 24, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    strcpy(private_memory + 9 * page, "nine");
    strcpy(left_out, "out");
    strcpy(shared, "shared");
    madvise(left_out, page, MADV_DONTDUMP);
    mprotect(private_memory, 16 * page, PROT_NONE);
    return crashes();
}

static int keeps_nothing(void) {
    if (!put("/proc/self/coredump_filter", "0x0\n")) return 1;
    return crashes_with_memory();
}

static void memory(void) {
    char *at[] = {(char *)0x20000000, (char *)0x21000000, (char *)0x22000000, (char *)0x23000000};
    CHECK(dumped(after(crashes_with_memory, RLIM_INFINITY), SIGSEGV));
    struct core core = load("core");
    const char *nine = kept(core, at[0] + 9 * page), *zeros = kept(core, at[0]);
    /* What the program itself could not read any more, too. */
    CHECK(nine && strcmp(nine, "nine") == 0 && zeros && zeros[0] == 0);
    CHECK(mapping(core, at[1]) && kept(core, at[1]) == NULL);
    const char *both = kept(core, at[2]);
    CHECK(both && strcmp(both, "shared") == 0);
    CHECK(mapping(core, at[3]) && kept(core, at[3]) == NULL);
    forget(core);
    CHECK(dumped(after(keeps_nothing, RLIM_INFINITY), SIGSEGV));
    core = load("core");
    size_t size;
    CHECK(mapping(core, at[0]) && kept(core, at[0]) == NULL && kept(core, &mark) == NULL);
    CHECK(kept(core, at[2]) == NULL && note(core, NT_PRSTATUS, 0, &size) != NULL);
    forget(core);
    unlink("core");
    /* The filter is inherited. */
    char text[32] = "";
    int fd = open("/proc/self/coredump_filter", O_RDONLY);
    CHECK(read(fd, text, sizeof text) == 9 && strcmp(text, "00000033\n") == 0);
    close(fd);
    CHECK(put("/proc/self/coredump_filter", "3"));
    pid_t child = fork();
    if (child == 0) {
        fd = open("/proc/self/coredump_filter", O_RDONLY);
        _exit(read(fd, text, sizeof text) == 9 && strcmp(text, "00000003\n") == 0 ? 0 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(put("/proc/self/coredump_filter", "0x33"));
}

static void *idles(void *arg) {
    if (arg) pthread_barrier_wait(arg);
    while (pause() < 0) continue;
    return NULL;
}

static void *works(void *arg) {
    pthread_barrier_wait(arg);
    for (volatile unsigned long n = 0;; n++) continue;
    return NULL;
}

static void *crashes_late(void *arg) {
    pthread_barrier_wait(arg);
    usleep(10000);
    crashes();
    return NULL;
}

static int crashes_in_a_thread(void) {
    static pthread_barrier_t ready;
    pthread_t thread;
    pthread_barrier_init(&ready, NULL, 6);
    for (int n = 0; n < 4; n++) pthread_create(&thread, NULL, n < 2 ? idles : works, &ready);
    pthread_create(&thread, NULL, crashes_late, &ready);
    idles(&ready);
    return 0;
}

/* A thread's stack pointer. */
static uintptr_t stack_of(const prstatus_t *status) {
    const unsigned long *registers = (const void *)&status->pr_reg;
#if defined(__x86_64__)
    return registers[19];
#elif defined(__aarch64__)
    return registers[31];
#elif defined(__arm__)
    return registers[13];
#else
    return registers[1];
#endif
}

static void threads(void) {
    size_t size;
    CHECK(dumped(after(crashes_in_a_thread, RLIM_INFINITY), SIGSEGV));
    struct core core = load("core");
    const prpsinfo_t *info = note(core, NT_PRPSINFO, 0, &size);
    uintptr_t stacks[6] = {0};
    int count = 0, leaders = 0;
    for (; count < 7; count++) {
        const prstatus_t *status = note(core, NT_PRSTATUS, count, &size);
        if (!status) break;
        if (count == 6) continue;
        stacks[count] = stack_of(status);
        CHECK(status->pr_cursig == SIGSEGV && kept(core, (void *)stacks[count]) != NULL);
        for (int other = 0; other < count; other++) CHECK(stacks[other] != stacks[count]);
        if (info && status->pr_pid == info->pr_pid) leaders++;
        /* The one that was killed comes first, and is not the leader. */
        if (count == 0) CHECK(info && status->pr_pid > info->pr_pid);
    }
    CHECK(count == 6 && leaders == 1);
    for (int n = 0; n < 6; n++) CHECK(note(core, FLOATS, n, &size) != NULL);
    forget(core);
    unlink("core");
}

static void names(void) {
    char name[128], text[64];
    CHECK(put(USES_PID, "1\n"));
    pid_t child = fork();
    int status;
    if (child == 0) {
        limit(RLIM_INFINITY);
        crashes();
    }
    CHECK(waitpid(child, &status, 0) == child && dumped(status, SIGSEGV));
    snprintf(name, sizeof name, "core.%d", child);
    CHECK(unlink(name) == 0 && put(USES_PID, "0\n"));
    CHECK(put(PATTERN, "here/%e.%p.%s.%u.%%.x%x\n") && mkdir("here", 0700) == 0);
    child = fork();
    if (child == 0) {
        prctl(PR_SET_NAME, "a/b c");
        limit(RLIM_INFINITY);
        crashes();
    }
    CHECK(waitpid(child, &status, 0) == child && dumped(status, SIGSEGV));
    snprintf(name, sizeof name, "here/a!b c.%d.11.0.%%.x", child);
    CHECK(unlink(name) == 0 && rmdir("here") == 0);
    CHECK(not_dumped(after(crashes, RLIM_INFINITY), SIGSEGV));
    int fd = open(PATTERN, O_RDONLY);
    ssize_t n = read(fd, text, sizeof text);
    CHECK(n == 24 && memcmp(text, "here/%e.%p.%s.%u.%%.x%x\n", 24) == 0);
    close(fd);
    CHECK(put(PATTERN, "\n") && not_dumped(after(crashes, RLIM_INFINITY), SIGSEGV));
    CHECK(put(PATTERN, "core\n"));
}

static int has_no_rights(void) {
    umask(0777);
    return crashes();
}

/* Files and programs that are not for whom they would be. */
static void rights(const char *self) {
    CHECK(not_dumped(after(has_no_rights, RLIM_INFINITY), SIGSEGV) && unlink("core") == 0);
    int from = open(self, O_RDONLY), to = open("hidden", O_WRONLY | O_CREAT, 0711);
    while (sendfile(to, from, NULL, 1 << 20) > 0) continue;
    close(from);
    close(to);
    for (int readable = 0; readable < 2; readable++) {
        int status = -1;
        CHECK(chmod("hidden", readable ? 0755 : 0711) == 0);
        pid_t child = fork();
        if (child == 0) {
            if (setuid(1000) == 0) execl("hidden", "hidden", "--dumpable", NULL);
            _exit(9);
        }
        CHECK(waitpid(child, &status, 0) == child && status == readable << 8);
    }
    CHECK(unlink("hidden") == 0);
}

/* A program that is dumped to another's standard input. */
static void pipes(const char *self) {
    char pattern[128], words[64] = "";
    size_t size;
    char folder[64];
    CHECK(getcwd(folder, sizeof folder) != NULL);
    snprintf(pattern, sizeof pattern, "|%s --keep %s/kept %%s  %%e%%%%\n", self, folder);
    CHECK(put(PATTERN, pattern) && put(PIPE_LIMIT, "4\n"));
    CHECK(dumped(after(crashes_in_a_thread, 0), SIGSEGV));
    struct core core = load("kept");
    CHECK(note(core, NT_PRSTATUS, 5, &size) != NULL);
    const uint32_t *seen = kept(core, &mark);
    CHECK(seen && *seen == MARK);
    forget(core);
    int fd = open("kept.words", O_RDONLY);
    CHECK(read(fd, words, sizeof words) == 10 && memcmp(words, "11\ndumped%", 10) == 0);
    close(fd);
    CHECK(unlink("kept") == 0 && unlink("kept.words") == 0);
    /* A limit of one byte says that this is a helper's end. */
    CHECK(not_dumped(after(crashes, 1), SIGSEGV) && access("kept", F_OK) == -1);
    CHECK(put(PATTERN, "|/nonexistent %p\n") && not_dumped(after(crashes, 0), SIGSEGV));
    /* One that does not read: the program waits in its dump, and can be killed. */
    snprintf(pattern, sizeof pattern, "|%s --stuck %s/stuck\n", self, folder);
    CHECK(put(PATTERN, pattern) && put(PIPE_LIMIT, "0\n"));
    pid_t child = fork();
    int status;
    if (child == 0) {
        memset(mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, 1 << 20);
        crashes();
    }
    CHECK(SOON(access("stuck", F_OK) == 0) && unlink("stuck") == 0);
    CHECK(waitpid(child, &status, WNOHANG) == 0 && kill(child, SIGTERM) == 0);
    usleep(50000);
    CHECK(waitpid(child, &status, WNOHANG) == 0 && kill(child, SIGKILL) == 0);
    CHECK(waitpid(child, &status, 0) == child && not_dumped(status, SIGKILL));
    CHECK(put(PATTERN, "core\n"));
}

static int keep(int argc, char **argv) {
    char bytes[4096], name[128];
    ssize_t n;
    int file = open(argv[2], O_WRONLY | O_CREAT | O_EXCL, 0600);
    while ((n = read(0, bytes, sizeof bytes)) > 0)
        if (write(file, bytes, (size_t)n) != n) return 1;
    snprintf(name, sizeof name, "%s.words", argv[2]);
    FILE *words = fopen(name, "w");
    for (int i = 3; words && i < argc; i++) fprintf(words, i > 3 ? "\n%s" : "%s", argv[i]);
    return words ? fclose(words) : 1;
}

int main(int argc, char **argv) {
    if (argc > 2 && strcmp(argv[1], "--keep") == 0) return keep(argc, argv);
    if (argc > 1 && strcmp(argv[1], "--dumpable") == 0) return prctl(PR_GET_DUMPABLE);
    if (argc > 2 && strcmp(argv[1], "--stuck") == 0) {
        close(open(argv[2], O_WRONLY | O_CREAT, 0600));
        /* Until the other end is closed. */
        struct pollfd input = {.fd = 0, .events = 0};
        return poll(&input, 1, -1) < 0;
    }
    char self[128] = "";
    alarm(100);
    page = (size_t)sysconf(_SC_PAGESIZE);
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    when();
    content();
    memory();
    threads();
    names();
    pipes(self);
    rights(self);
    return report();
}
