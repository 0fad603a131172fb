/*
 * System calls without a C library, for the guest agent: the only file of programs/init that depends on the
 * processor. The agent must be small (16 MiB guests) and must not need what a C library expects of a kernel:
 * it also reports what an incomplete kernel lacks. Used by init.c and relay.c.
 */
#ifndef LIMEN_SYS_H
#define LIMEN_SYS_H

#include <asm/ioctls.h>
#include <asm/signal.h>
#include <asm/termios.h>
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
#define ENTRY_MODE ""
#define ENTRY_CODE "xor %ebp, %ebp\n mov %rsp, %rdi\n and $-16, %rsp\n call agent_main\n hlt\n"
/* On x86-64, user space provides the function through which signal handlers return. */
#define NEEDS_RESTORER 1
__asm__(".text\n.type limen_restorer,@function\nlimen_restorer:\n mov $15, %eax\n syscall\n.size "
        "limen_restorer, .-limen_restorer\n");
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
#define ENTRY_MODE ""
#define ENTRY_CODE "mov x29, #0\n mov x0, sp\n and sp, x0, #-16\n bl agent_main\n brk #0\n"
#define NEEDS_RESTORER 0
#elif defined(__arm__)
static inline long sys6(long n, long a, long b, long c, long d, long e, long f) {
    register long r7 __asm__("r7") = n;
    register long r0 __asm__("r0") = a;
    register long r1 __asm__("r1") = b;
    register long r2 __asm__("r2") = c;
    register long r3 __asm__("r3") = d;
    register long r4 __asm__("r4") = e;
    register long r5 __asm__("r5") = f;
    __asm__ volatile("svc #0" : "+r"(r0) : "r"(r7), "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5) : "memory");
    return r0;
}
/* The compiler may generate Thumb code; the entry point must be A32 code. */
#define ENTRY_MODE ".syntax unified\n.arm\n"
#define ENTRY_CODE "mov fp, #0\n mov lr, #0\n mov r0, sp\n bic sp, sp, #7\n bl agent_main\n udf #0\n"
#define NEEDS_RESTORER 0
#elif defined(__powerpc64__)
static inline long sys6(long n, long a, long b, long c, long d, long e, long f) {
    register long r0 __asm__("r0") = n;
    register long r3 __asm__("r3") = a;
    register long r4 __asm__("r4") = b;
    register long r5 __asm__("r5") = c;
    register long r6 __asm__("r6") = d;
    register long r7 __asm__("r7") = e;
    register long r8 __asm__("r8") = f;
    /* On an error the summary overflow bit of CR0 is set, and the number is positive. */
    __asm__ volatile("sc\n bns+ 1f\n neg %1, %1\n 1:"
                     : "+r"(r0), "+r"(r3), "+r"(r4), "+r"(r5), "+r"(r6), "+r"(r7), "+r"(r8)
                     :
                     : "r9", "r10", "r11", "r12", "cr0", "ctr", "xer", "memory");
    return r3;
}
/*
 * The entry point is called like a function through a pointer: r12 has its address, from which the TOC
 * pointer is computed.
 */
#define ENTRY_MODE ""
#define ENTRY_CODE                                                                                    \
    "addis 2, 12, .TOC.-_start@ha\n addi 2, 2, .TOC.-_start@l\n mr 3, 1\n clrrdi 1, 1, 4\n li 0, 0\n" \
    " stdu 0, -64(1)\n mtlr 0\n bl agent_main\n nop\n trap\n"
#define NEEDS_RESTORER 0
#else
#error "programs/init/sys.h: add the system call instruction of this architecture"
#endif

/* Defines the program's entry point, which calls `agent_main` with the stack pointer that the kernel set. */
#define ENTRY                                                                                  \
    __asm__(".text\n" ENTRY_MODE ".globl _start\n.type _start,%function\n_start:\n" ENTRY_CODE \
            ".size _start, .-_start\n")

#define sys(n, a, b, c, d, e) sys6((n), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)

/* The kernel's struct sigaction, which is not the C library's. */
struct kernel_sigaction {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    unsigned long mask[64 / (8 * sizeof(long))];
};

/* 64-bit times: 32-bit architectures have system calls of their own for them. */
#if defined(__NR_ppoll_time64)
#define NR_PPOLL __NR_ppoll_time64
#define NR_CLOCK_NANOSLEEP __NR_clock_nanosleep_time64
#else
#define NR_PPOLL __NR_ppoll
#define NR_CLOCK_NANOSLEEP __NR_clock_nanosleep
#endif

#define ENOENT_ 2
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
static inline long sys_mkdir(const char *path, int mode)
{
    return sys(__NR_mkdirat, AT_FDCWD, path, mode, 0, 0);
}
static inline long sys_unlink(const char *path, int flags)
{
    return sys(__NR_unlinkat, AT_FDCWD, path, flags, 0, 0);
}
static inline long sys_mount(const char *what, const char *where, const char *type, long flags,
                             const char *data)
{
    return sys(__NR_mount, what, where, type, flags, data);
}
static inline long sys_fcntl(int fd, int op, long arg) { return sys(__NR_fcntl, fd, op, arg, 0, 0); }
static inline long sys_ioctl(int fd, long op, void *arg) { return sys(__NR_ioctl, fd, op, arg, 0, 0); }
static inline long sys_kill(int pid, int sig) { return sys(__NR_kill, pid, sig, 0, 0, 0); }
static inline void sys_sleep(int64_t seconds, int64_t nanoseconds) {
    int64_t wait[2] = {seconds, nanoseconds};
    sys(NR_CLOCK_NANOSLEEP, 0 /* CLOCK_REALTIME */, 0, wait, 0, 0);
}
static inline void sys_exit(int code) {
    for (;;) sys(__NR_exit_group, code, 0, 0, 0, 0);
}

#endif
