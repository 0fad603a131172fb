/*
 * System calls without a C library, for the guest agent: the only file of programs/init that knows the
 * processor. The agent must be small (16 MiB guests) and must not depend on what a C library asks of a kernel,
 * because it is also what reports that the kernel is not there yet. Used by init.c and relay.c.
 */
#ifndef LIMEN_SYS_H
#define LIMEN_SYS_H

#include <asm/ioctls.h>
#include <asm/signal.h>
#include <asm/unistd.h>
#include <linux/fcntl.h>
#include <linux/poll.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
static inline long sys6(long n, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long ret;
    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return ret;
}
#define START_ASM "xor %ebp, %ebp\n mov %rsp, %rdi\n and $-16, %rsp\n call agent_main\n hlt\n"
/* x86-64 signal handlers return through a restorer that user space brings along. */
#define NEEDS_RESTORER 1
__asm__(".text\n.type limen_restorer,@function\nlimen_restorer:\n mov $15, %eax\n syscall\n.size limen_restorer, .-limen_restorer\n");
#elif defined(__aarch64__)
static inline long sys6(long n, long a, long b, long c, long d, long e, long f) {
    register long x8 __asm__("x8") = n;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}
#define START_ASM "mov x29, #0\n mov x0, sp\n and sp, x0, #-16\n bl agent_main\n brk #0\n"
#define NEEDS_RESTORER 0
#else
#error "programs/init/sys.h: add the system call instruction of this architecture"
#endif

#define sys(n, a, b, c, d, e) sys6((n), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)

/* The kernel's struct sigaction, which is not the C library's. */
struct kernel_sigaction {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
};

#define EINTR_ 4
#define EAGAIN_ 11
#define EPIPE_ 32
#define WNOHANG_ 1
#define ALL_SIGNALS (~(uint64_t)0)

static inline long sys_read(int fd, void *p, size_t n) { return sys(__NR_read, fd, p, n, 0, 0); }
static inline long sys_write(int fd, const void *p, size_t n) { return sys(__NR_write, fd, p, n, 0, 0); }
static inline long sys_open(const char *path, int flags, int mode) {
    return sys(__NR_openat, AT_FDCWD, path, flags, mode, 0);
}
static inline long sys_close(int fd) { return sys(__NR_close, fd, 0, 0, 0, 0); }
static inline long sys_dup(int from, int to) { return sys(__NR_dup3, from, to, 0, 0, 0); }
static inline long sys_pipe(int fds[2], int flags) { return sys(__NR_pipe2, fds, flags, 0, 0, 0); }
static inline long sys_fork(void) { return sys(__NR_clone, SIGCHLD, 0, 0, 0, 0); }
static inline long sys_mkdir(const char *path, int mode) { return sys(__NR_mkdirat, AT_FDCWD, path, mode, 0, 0); }
static inline long sys_unlink(const char *path, int flags) { return sys(__NR_unlinkat, AT_FDCWD, path, flags, 0, 0); }
static inline long sys_mount(const char *what, const char *where, const char *type, long flags, const char *data) {
    return sys(__NR_mount, what, where, type, flags, data);
}
static inline long sys_fcntl(int fd, int op, long arg) { return sys(__NR_fcntl, fd, op, arg, 0, 0); }
static inline long sys_ioctl(int fd, long op, void *arg) { return sys(__NR_ioctl, fd, op, arg, 0, 0); }
static inline long sys_kill(int pid, int sig) { return sys(__NR_kill, pid, sig, 0, 0, 0); }
static inline void sys_exit(int code) {
    for (;;) sys(__NR_exit_group, code, 0, 0, 0, 0);
}

#endif
