/*
 * Syscall user dispatch: system calls that become SIGSYS by where they come from and by a selector. Called
 * by tools/limen/src/test/programs.rs, on every architecture; on Linux it can be run by hand. Linux 6.1 has
 * it on x86_64 only, and the mode that names the range of dispatched calls since 6.18.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <fcntl.h>
#include "check.h"
#include "common.h"

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif
enum { OFF, EXCLUSIVE, INCLUSIVE };
enum { ALLOW, BLOCK };

/* `marked` and `other` make a system call with one argument, each in a section of its own. */
long marked(long number, long argument);
long other(long number, long argument);
extern const char __start_marked_calls[], __stop_marked_calls[];

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#define BODY "mov %rdi, %rax\n mov %rsi, %rdi\n syscall\n ret\n"
#define TYPE "@function"
#define SET ""
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#define BODY "mov x8, x0\n mov x0, x1\n svc #0\n ret\n"
#define TYPE "%function"
#define SET ""
#elif defined(__arm__)
#define ARCH AUDIT_ARCH_ARM
#define BODY "push {r7, lr}\n mov r7, r0\n mov r0, r1\n svc #0\n pop {r7, pc}\n"
#define TYPE "%function"
#define SET ".syntax unified\n.arm\n"
#else
#define ARCH AUDIT_ARCH_PPC64LE
#define BODY "mr 0, 3\n mr 3, 4\n sc\n bnslr+\n neg 3, 3\n blr\n"
#define TYPE "@function"
#define SET ""
#endif
#define CALL(name, section)                                                                                 \
    __asm__(".pushsection " section ", \"ax\"\n.balign 4\n" SET ".globl " name "\n.type " name ", " TYPE    \
            "\n" name ":\n" BODY ".size " name ", . - " name "\n.popsection\n")
CALL("marked", "marked_calls");
CALL("other", "other_calls");

static volatile char selector;
static volatile sig_atomic_t signals;
static siginfo_t last;

static void on_dispatch(int sig, siginfo_t *info, void *context) {
    (void)sig, (void)context;
    selector = ALLOW;
    signals++;
    last = *info;
}

static int dispatch(unsigned long mode, const void *from, unsigned long length, volatile char *at) {
    return prctl(PR_SET_SYSCALL_USER_DISPATCH, mode, from, length, at);
}

/* Whether a call with `argument` becomes a signal. */
static int dispatched(long (*call)(long, long), long number, long argument) {
    signals = 0;
    selector = BLOCK;
    long result = call(number, argument);
    char was = selector;
    selector = ALLOW;
    (void)result;
    return signals == 1 && was == ALLOW && last.si_signo == SIGSYS && last.si_code == 2 && last.si_errno == 0
           && last.si_syscall == number && last.si_arch == ARCH && last.si_call_addr != NULL;
}
static int passes(long (*call)(long, long)) {
    signals = 0;
    selector = BLOCK;
    long result = call(SYS_getpid, 0);
    selector = ALLOW;
    return signals == 0 && result == syscall(SYS_getpid);
}

static void arguments(void) {
    CHECK(dispatch(3, NULL, 0, NULL) == -1 && errno == EINVAL);
    CHECK(dispatch(OFF, (void *)1, 0, NULL) == -1 && errno == EINVAL);
    CHECK(dispatch(OFF, NULL, 1, NULL) == -1 && errno == EINVAL);
    CHECK(dispatch(OFF, NULL, 0, &selector) == -1 && errno == EINVAL);
    CHECK(dispatch(EXCLUSIVE, (void *)1, 0, &selector) == -1 && errno == EINVAL);
    CHECK(dispatch(EXCLUSIVE, (void *)1, -1UL, &selector) == -1 && errno == EINVAL);
    CHECK(dispatch(EXCLUSIVE, (void *)8, -16UL, (char *)-1L) == -1 && errno == EFAULT);
    CHECK(dispatch(OFF, NULL, 0, NULL) == 0);
}

static void exclusive(void) {
    size_t length = __stop_marked_calls - __start_marked_calls;
    selector = ALLOW;
    CHECK(dispatch(EXCLUSIVE, NULL, 0, &selector) == 0);
    CHECK(dispatched(other, SYS_getpid, 0) && dispatched(marked, SYS_getppid, 0));
    /* A number that no call has, and arguments that look like codes for the kernel. */
    CHECK(dispatched(other, 100000, 0) && dispatched(other, SYS_close, -512) && dispatched(other, -1, 0));
    CHECK(dispatched(other, SYS_close, -514) && dispatched(other, SYS_close, -516));
    CHECK(dispatch(EXCLUSIVE, __start_marked_calls, length, &selector) == 0);
    CHECK(passes(marked) && dispatched(other, SYS_getpid, 0));
    /* Neither a new process nor another thread is dispatched. */
    selector = BLOCK;
    pid_t child = marked(SYS_getpid, 0);
    selector = ALLOW;
    CHECK(child == getpid());
    child = fork();
    if (child == 0) _exit(!passes(other));
    CHECK(child_good(child));
    CHECK(dispatch(OFF, NULL, 0, NULL) == 0 && passes(other));
}

static void inclusive(void) {
    size_t length = __stop_marked_calls - __start_marked_calls;
    if (dispatch(INCLUSIVE, __start_marked_calls, length, NULL) == -1 && errno == EINVAL) {
        struct utsname name;
        uname(&name);
        CHECK(strstr(name.version, "Limen") == NULL);
        return;
    }
    CHECK(dispatched(marked, SYS_getpid, 0) && passes(other));
    CHECK(dispatch(INCLUSIVE, __start_marked_calls, 0, NULL) == -1 && errno == EINVAL);
    CHECK(dispatch(INCLUSIVE, __start_marked_calls, -1UL, NULL) == -1 && errno == EINVAL);
    CHECK(dispatched(marked, SYS_getpid, 0) && passes(other));
    CHECK(dispatch(INCLUSIVE, __start_marked_calls, length, &selector) == 0);
    selector = ALLOW;
    CHECK(marked(SYS_getpid, 0) == getpid());
    CHECK(dispatched(marked, SYS_getpid, 0) && passes(other));
    CHECK(dispatch(OFF, NULL, 0, NULL) == 0);
}

/* How a child ends that makes a call with this selector. */
static int end_with(volatile char *at, char value) {
    pid_t child = fork();
    if (child == 0) {
        if (at == &selector) selector = ALLOW;
        if (dispatch(EXCLUSIVE, NULL, 0, at) != 0) _exit(1);
        if (at == &selector) selector = value;
        other(SYS_getpid, 0);
        selector = ALLOW;
        _exit(2);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -1;
}

static void bad_selectors(void) {
    void *nothing = mmap(NULL, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(end_with(&selector, 2) == SIGSYS);
    CHECK(end_with(nothing, 0) == SIGSEGV);
    signal(SIGSYS, SIG_IGN);
    CHECK(end_with(&selector, BLOCK) == SIGSYS);
}

/* exec ends it; the new program has no handler. */
static void ended_by_exec(const char *self) {
    pid_t child = fork();
    if (child == 0) {
        selector = ALLOW;
        if (dispatch(EXCLUSIVE, __start_marked_calls, __stop_marked_calls - __start_marked_calls, &selector))
            _exit(1);
        execl(self, self, "executed", NULL);
        _exit(2);
    }
    CHECK(child_good(child));
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "executed") == 0) return 0;
    struct sigaction action = { .sa_sigaction = on_dispatch, .sa_flags = SA_SIGINFO };
    CHECK(sigaction(SIGSYS, &action, NULL) == 0);
    if (dispatch(OFF, NULL, 0, NULL) == -1 && errno == EINVAL) {
        struct utsname name;
        uname(&name);
        CHECK(strstr(name.version, "Limen") == NULL);
        return report();
    }
    char self[512];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length < 0 ? 0 : length] = 0;
    arguments();
    exclusive();
    inclusive();
    ended_by_exec(self);
    bad_selectors();
    return report();
}
