/*
 * Programs of 32-bit Arm's old ABI: which are taken for such, each call whose arguments or structures differ
 * from the EABI's, and what signals, filters, tracers, user dispatch and audit see of such calls. Called by
 * tools/limen/src/test/oabi.rs in an empty folder. It begins as a program of the EABI and executes copies of
 * itself whose header says something else. (Debian's Linux is built without the old ABI.)
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "../abi/check.h"
#include "../abi/common.h"
#include "calls.h"
#include "layouts.h"
#include "sockets.h"
#include "traps.h"
#include "watched.h"

static char self[9 << 20];
static size_t self_size;

static void read_self(void) {
    int fd = open("/proc/self/exe", O_RDONLY);
    self_size = read(fd, self, sizeof self);
    CHECK(fd >= 0 && self_size > 4096 && self_size < sizeof self);
    close(fd);
}

/* Writes a copy of this program, with these flags and this entry point (0: its own). */
static void write_copy(const char *name, unsigned flags, unsigned entry, int without_stack) {
    Elf32_Ehdr *header = (void *)self;
    Elf32_Ehdr was = *header;
    Elf32_Phdr *segments = (void *)(self + header->e_phoff);
    header->e_flags = flags;
    if (entry) header->e_entry = entry;
    for (int i = 0; i < header->e_phnum; i++)
        if (segments[i].p_type == PT_GNU_STACK && without_stack) segments[i].p_type = PT_NULL;
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0755);
    CHECK(fd >= 0 && write(fd, self, self_size) == (ssize_t)self_size);
    close(fd);
    *header = was;
    for (int i = 0; i < header->e_phnum; i++)
        if (segments[i].p_type == PT_NULL && without_stack) segments[i].p_type = PT_GNU_STACK;
}

/* Executes a program in a child; returns its status, or the error of exec as a negative number. */
static int run(const char *name, const char *how) {
    int pipes[2], error = 0, status = -1;
    CHECK(pipe2(pipes, O_CLOEXEC) == 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        execl(name, name, how, NULL);
        error = errno;
        if (write(pipes[1], &error, sizeof error) < 0) _exit(98);
        _exit(99);
    }
    close(pipes[1]);
    if (read(pipes[0], &error, sizeof error) < 0) error = EIO;
    close(pipes[0]);
    CHECK(waitpid(child, &status, 0) == child);
    return error ? -error : status;
}

/* A program of the EABI: what the instruction says does not matter. */
static void eabi(void) {
    CHECK(SWI(FIRST + SYS_getppid, SYS_getpid, 0) == getpid());
    CHECK(SWI(5, SYS_getpid, 0) == getpid());
    CHECK(SWI(0, SYS_getpid, 0) == getpid());
}

/* Which programs there are. */
static void headers(void) {
    Elf32_Ehdr *header = (void *)self;
    write_copy("apcs26", 8, 0, 0);
    CHECK(run("./apcs26", "other") == -ENOEXEC);
    write_copy("half", header->e_flags, (header->e_entry & ~3u) + 2, 0);
    CHECK(run("./half", "other") == -ENOEXEC);
    /* With a version of the EABI the flag means something else. */
    write_copy("eabi26", header->e_flags | 8, 0, 0);
    CHECK(run("./eabi26", "other") == 0);
    write_copy("eabi", header->e_flags, 0, 0);
    write_copy("stack", 0, 0, 1);
    CHECK(run("./stack", "stack") == 0);
    write_copy("soft", 0x200, 0, 0);
    CHECK(run("./soft", "soft") == 0);
    write_copy("old", 0, 0, 0);
    int status = run("./old", "old");
    CHECK(status == 0);
    if (status) printf("as a program of the old ABI: status %#x\n", status);
}

/* A program that does not say whether its stack is to be executable. */
static void no_stack_header(void) {
    CHECK(personality(0xffffffff) & READ_IMPLIES_EXEC);
    /* mov r0, #42; bx lr */
    volatile unsigned code[8] __attribute__((aligned(64))) = {0xe3a0002a, 0xe12fff1e};
    __builtin___clear_cache((char *)code, (char *)(code + 2));
    CHECK(((int (*)(void))code)() == 42);
}

/* Both ABIs' calls, in both instruction sets. */
static void both(void) {
    CHECK(OLD(SYS_getpid, 0) == getpid());
    CHECK(SWI(0, SYS_getpid, 0) == getpid());
    long r = SYS_getpid;
    /* In Thumb the number is in r7 whatever the instruction says. */
    __asm__ volatile("push {r7}\n mov r7, %0\n adr r1, 1f + 1\n bx r1\n .thumb\n .balign 4\n"
                     "1: svc #64\n adr r1, 2f\n bx r1\n .balign 4\n .arm\n 2: pop {r7}\n mov %0, r0"
                     : "+r"(r)
                     :
                     : "r0", "r1", "r2", "r3", "memory");
    CHECK(r == getpid());
    /* A number of the old ABI in r7 is none of the EABI (and a signal, in `traps`). */
    CHECK(OLD(SYS_write, -1, "", 1) == -EBADF);
    CHECK(OLD(511, 0) == -ENOSYS && OLD(0x2000, 0) == -ENOSYS && OLD(0xefff, 0) == -ENOSYS);
    /* restart_syscall, of a thread that has nothing to restart. */
    CHECK(OLD(0, 0) == -EINTR);
    CHECK((unsigned)personality(0xffffffff) == 0x00800000);
}

/* New threads and new programs. */
static void *thread(void *arg) {
    (void)arg;
    return (void *)OLD(SYS_gettid, 0);
}

static void others(void) {
    CHECK(run("/proc/self/exe", "other-old") == 0);
    fflush(stdout);
    long child = OLD(SYS_fork, 0);
    if (child == 0) OLD(SYS_exit, OLD(SYS_getpid, 0) == getpid() ? 7 : 8);
    int status = -1;
    CHECK(OLD(SYS_wait4, child, &status, 0, 0) == child && status == 7 << 8);
    child = OLD(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) OLD(SYS_exit, 6);
    CHECK(OLD(SYS_wait4, child, &status, 0, 0) == child && status == 6 << 8);
    /* To the EABI and back. */
    child = OLD(SYS_fork, 0);
    if (child == 0) {
        char *const args[] = {"eabi", "from-old", NULL};
        OLD(SYS_exit, OLD(SYS_execve, "./eabi", args, environ) & 0xff);
    }
    CHECK(OLD(SYS_wait4, child, &status, 0, 0) == child && status == 0);
    pthread_t other;
    void *tid = NULL;
    CHECK(pthread_create(&other, NULL, thread, NULL) == 0 && pthread_join(other, &tid) == 0);
    CHECK((long)tid > getpid());
}

/* `syscall`: the call and its arguments one register on. */
static void indirect(void) {
    enum { SYSCALL = 113 };
    CHECK(OLD(SYSCALL, SYS_getpid) == getpid());
    CHECK(OLD(SYSCALL, FIRST + SYS_getpid) == getpid());
    CHECK(OLD(SYSCALL, SYSCALL, SYS_getpid) == -ENOSYS && OLD(SYSCALL, 511) == -ENOSYS);
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    char text[4] = "";
    CHECK(OLD(SYSCALL, SYS_write, pipes[1], "abc", 3) == 3 && read(pipes[0], text, 4) == 3);
    CHECK(memcmp(text, "abc", 3) == 0);
    /* With six arguments. */
    char *page = (char *)OLD(SYSCALL, SYS_mmap2, 0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK((long)page < -4096 || (long)page > 0);
    CHECK(munmap(page, 4096) == 0);
    int status = -1;
    fflush(stdout);
    long child = OLD(SYSCALL, SYS_fork);
    if (child == 0) OLD(SYS_exit, 5);
    CHECK(waitpid(child, &status, 0) == child && status == 5 << 8);
    child = OLD(SYSCALL, SYS_vfork);
    if (child == 0) OLD(SYSCALL, SYS_exit, 4);
    CHECK(waitpid(child, &status, 0) == child && status == 4 << 8);
    child = OLD(SYSCALL, SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        char *const args[] = {"old", "other-old", NULL};
        long result = OLD(SYSCALL, SYS_execve, "./none", args, environ);
        if (result == -ENOENT) OLD(SYSCALL, SYS_execve, "./old", args, environ);
        OLD(SYS_exit, 9);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (strcmp(how, "other") == 0) return 0;
    if (strcmp(how, "other-old") == 0) return OLD(SYS_getpid, 0) != getpid();
    if (strcmp(how, "from-old") == 0) {
        eabi();
        return failed;
    }
    if (strcmp(how, "stack") == 0) {
        no_stack_header();
        return failed;
    }
    if (strcmp(how, "old") == 0 || strcmp(how, "soft") == 0) {
        both();
        if (strcmp(how, "soft") == 0) return failed;
        others();
        indirect();
        layouts();
        sockets();
        traps();
        watched();
        return report();
    }
    read_self();
    eabi();
    headers();
    return report();
}
