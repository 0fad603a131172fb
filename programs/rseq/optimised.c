// Gives unchanged programs an rseq area of more than 32 bytes, so that the kernel treats it as an optimised
// one (docs/rseq.md). Two ways, neither of which needs the C library, which must leave rseq alone
// (GLIBC_TUNABLES=glibc.pthread.rseq=0): a library for LD_PRELOAD, which registers an area for the first
// thread of every program, and, with WRAP, a part of programs that register for themselves (linked with
// -Wl,--wrap=syscall), whose registrations become longer.

#define _GNU_SOURCE
#include <stdarg.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LENGTH 33

#ifdef WRAP
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

// Passes on six words, as the C library's own does.
long __wrap_syscall(long number, ...)
{
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    if (number == __NR_rseq && a[0])
        a[1] = LENGTH;
    return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
#else
#if defined(__x86_64__)
#define SIGNATURE 0x53053053u
#elif defined(__aarch64__)
#define SIGNATURE 0xd428bc00u
#elif defined(__arm__)
#define SIGNATURE 0xe7f5def3u
#elif defined(__powerpc64__)
#define SIGNATURE 0x0fe5000bu
#endif

static uint8_t area[64] __attribute__((aligned(64)));

__attribute__((constructor)) static void begin(void)
{
    if (syscall(__NR_rseq, area, LENGTH, 0, SIGNATURE))
        _exit(113);
}
#endif
