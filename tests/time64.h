/*
 * For Linux's futex tests, in front of everything: with times of 64 bits on a 32-bit processor the futex call
 * is the one that takes them.
 */
#include <sys/syscall.h>
#ifdef SYS_futex_time64
#undef SYS_futex
#define SYS_futex SYS_futex_time64
#endif
