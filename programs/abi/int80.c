/*
 * The system calls of 32-bit programs, made by int 0x80 from 64-bit and 32-bit code on x86_64
 * (docs/int80.md). Called by tools/limen/src/test/programs.rs; elsewhere there are none, and it says so. On
 * Linux it needs a kernel with CONFIG_IA32_EMULATION.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/wait.h>
#include "check.h"
#include "common.h"

#ifndef __x86_64__
int main(void) {
    puts("no 32-bit calls here");
    return report();
}
#else

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include "int80.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/un.h>
#include <sys/user.h>
#include <sys/utsname.h>

/* Numbers of these calls. */
enum {
    I_restart = 0, I_exit = 1, I_fork = 2, I_read = 3, I_write = 4, I_open = 5, I_close = 6, I_waitpid = 7,
    I_unlink = 10, I_execve = 11, I_time = 13, I_lseek = 19, I_getpid = 20, I_pause = 29, I_utime = 30,
    I_kill = 37, I_pipe = 42, I_times = 43, I_brk = 45, I_setpgid = 57, I_signal = 48, I_fcntl = 55,
    I_getppid = 64, I_sigaction = 67, I_setrlimit = 75, I_old_getrlimit = 76, I_getrusage = 77,
    I_gettimeofday = 78, I_old_select = 82, I_readdir = 89, I_old_mmap = 90, I_munmap = 91, I_ftruncate = 93,
    I_statfs = 99, I_socketcall = 102, I_setitimer = 104, I_getitimer = 105, I_stat = 106, I_fstat = 108,
    I_wait4 = 114, I_sysinfo = 116, I_clone = 120, I_uname = 122, I_sigprocmask = 126, I_llseek = 140,
    I_getdents = 141, I_newselect = 142, I_readv = 145, I_writev = 146, I_nanosleep = 162, I_mremap = 163,
    I_poll = 168, I_prctl = 172, I_rt_sigaction = 174, I_rt_sigprocmask = 175, I_rt_sigtimedwait = 177,
    I_rt_sigqueueinfo = 178, I_pread64 = 180, I_pwrite64 = 181, I_sigaltstack = 186, I_sendfile = 187,
    I_vfork = 190, I_sched_getaffinity = 242,
    I_ugetrlimit = 191, I_mmap2 = 192, I_ftruncate64 = 194, I_stat64 = 195, I_fstat64 = 197, I_getuid32 = 199,
    I_fcntl64 = 221, I_gettid = 224, I_futex = 240, I_exit_group = 252, I_epoll_create = 254,
    I_epoll_ctl = 255, I_epoll_wait = 256, I_timer_create = 259, I_timer_settime = 260, I_timer_delete = 263,
    I_clock_gettime = 265, I_clock_nanosleep = 267, I_statfs64 = 268, I_waitid = 284, I_openat = 295,
    I_fstatat64 = 300, I_pselect6 = 308, I_ppoll = 309, I_utimensat = 320, I_fallocate = 324,
    I_prlimit64 = 340, I_seccomp = 354, I_process_vm_readv = 347,
    I_socketpair = 360, I_sendto = 369, I_sendmsg = 370, I_recvfrom = 371, I_recvmsg = 372,
    I_pidfd_send = 424,
    I_oldstat = 18, I_ptrace = 26, I_oldfstat = 28, I_oldolduname = 59, I_olduname = 109, I_ipc = 117,
    I_mq_open = 277, I_mq_unlink = 278, I_mq_timedsend = 279, I_mq_timedreceive = 280, I_mq_getsetattr = 282,
    I_set_robust_list = 311, I_get_robust_list = 312, I_arch_prctl = 384, I_semget = 393, I_semctl = 394,
    I_shmctl = 396, I_shmat = 397, I_msgget = 399, I_msgsnd = 400, I_msgrcv = 401, I_msgctl = 402,
    I_clock_gettime64 = 403, I_ppoll_time64 = 414, I_futex_time64 = 422,
};

/* Memory that 32-bit addresses reach: words, and text behind them. */
static uint32_t *low;
static char *text;
enum { LOW = 64 * 1024 };
/* O_LARGEFILE, which the C library has as 0. */
#define LARGE 0100000

static char *put(const char *what) { return strcpy(text, what); }

static void plain_calls(void) {
    CHECK(I0(I_getpid) == getpid());
    CHECK(I0(I_gettid) == gettid());
    CHECK(I0(I_getppid) == getppid());
    /* The number has 32 bits, and so have arguments. */
    CHECK(call(0x700000000l + I_getpid, 0, 0, 0, 0, 0, 0) == getpid());
    CHECK(call(I_kill, 0xabc00000000l + getpid(), 0x500000000l, 0, 0, 0, 0) == 0);
    CHECK(I0(4000) == -ENOSYS && I0(-1) == -ENOSYS && I0(17) == -ENOSYS);
    CHECK(I3(I_write, 1, low, 0) == 0);
    /* What is above is not there: only the lower half of an address counts. */
    CHECK(I3(I_write, -1, "x", 1) == -EBADF);
    int fds[2];
    CHECK(pipe(fds) == 0);
    CHECK(I3(I_write, fds[1], put("hello"), 5) == 5);
    CHECK(I3(I_read, fds[0], (uint64_t)(uintptr_t)(text + 64) | 1l << 45, 64) == 5);
    CHECK(!memcmp(text + 64, "hello", 5));
    CHECK(I1(I_close, fds[0]) == 0 && I1(I_close, fds[1]) == 0 && I1(I_close, fds[1]) == -EBADF);
    CHECK(I1(I_pipe, low) == 0 && low[0] != low[1] && !close(low[0]) && !close(low[1]));
    struct utsname *name = (void *)text, own;
    CHECK(I1(I_uname, name) == 0 && uname(&own) == 0 && !strcmp(name->release, own.release));
    CHECK(I1(I_getuid32, 0) == getuid());
    CHECK(I2(I_kill, getpid(), -1) == -EINVAL && I2(I_setpgid, -2, 0) == -EINVAL);
}

static void files(void) {
    CHECK(I3(I_open, put("own"), O_RDWR | O_CREAT | O_TRUNC | LARGE, 0640) >= 0);
    int fd = I3(I_open, put("own"), O_RDWR | LARGE, 0);
    CHECK(fd >= 0 && I4(I_openat, AT_FDCWD, put("none"), O_RDONLY, 0) == -ENOENT);
    /* Positions beyond 4 GiB, in two registers. */
    CHECK(I5(I_pwrite64, fd, put("abcdefgh"), 8, 16, 1) == 8);
    CHECK(I5(I_pread64, fd, text + 64, 4, 18, 1) == 4 && !memcmp(text + 64, "cdef", 4));
    CHECK(I5(I_llseek, fd, 1, 20, low, SEEK_SET) == 0 && low[0] == 20 && low[1] == 1);
    CHECK(I3(I_lseek, fd, -4, SEEK_CUR) == 0x100000010 && I3(I_lseek, fd, -1, SEEK_SET) == -EINVAL);
    struct stat s;
    CHECK(fstat(fd, &s) == 0 && s.st_size == 0x100000018);
    memset(low, 0xee, 256);
    CHECK(I2(I_fstat64, fd, low) == 0 && *(uint64_t *)(low + 11) == 0x100000018);
    CHECK(*(uint64_t *)low == s.st_dev && low[3] == (uint32_t)s.st_ino && low[4] == s.st_mode && low[5] == 1);
    CHECK(*(uint64_t *)(low + 22) == s.st_ino && low[18] == (uint32_t)s.st_mtime && low[24] == 0xeeeeeeee);
    CHECK(I2(I_fstat, fd, low) == -EOVERFLOW);
    CHECK(I3(I_ftruncate64, fd, 7, 0) == 0 && I2(I_fstat, fd, low) == 0 && low[5] == 7);
    CHECK((low[2] & 0xffff) == s.st_mode && low[2] >> 16 == 1 && low[16] != 7);
    CHECK(I2(I_stat, put("own"), low) == 0 && low[5] == 7 && I2(I_stat64, put("own"), low) == 0);
    CHECK(low[11] == 7);
    CHECK(I4(I_fstatat64, AT_FDCWD, put("own"), low, 0) == 0 && low[11] == 7);
    CHECK(I2(I_ftruncate, fd, 9) == 0 && I2(I_ftruncate, fd, -1) == -EINVAL);
    CHECK(I6(I_fallocate, fd, 0, 0, 0, 100, 0) == 0 && fstat(fd, &s) == 0 && s.st_size == 100);
    /* Lists of buffers. */
    low[0] = (uintptr_t)put("one two"), low[1] = 4, low[2] = (uintptr_t)text + 4, low[3] = 3;
    CHECK(I3(I_lseek, fd, 0, SEEK_SET) == 0 && I3(I_writev, fd, low, 2) == 7);
    low[1] = -1;
    CHECK(I3(I_writev, fd, low, 2) == -EINVAL);
    low[0] = (uintptr_t)text + 64, low[1] = 3;
    CHECK(I3(I_lseek, fd, 0, SEEK_SET) == 0 && I3(I_readv, fd, low, 1) == 3 && !memcmp(text + 64, "one", 3));
    /* Record locks of both widths. */
    short *lock = (void *)low;
    memset(low, 0, 32);
    lock[0] = F_WRLCK, low[1] = 10, low[2] = 5;
    CHECK(I3(I_fcntl, fd, F_SETLK, low) == 0);
    pid_t child = fork();
    if (child == 0) {
        memset(low, 0, 32);
        lock[0] = F_RDLCK;
        CHECK(I3(I_fcntl64, fd, 12, low) == 0 && lock[0] == F_WRLCK && low[1] == 10 && low[2] == 0);
        CHECK(low[3] == 5 && low[5] == (uint32_t)getppid());
        memset(low, 0, 32);
        lock[0] = F_RDLCK;
        CHECK(I3(I_fcntl, fd, F_GETLK, low) == 0 && low[1] == 10 && low[2] == 5);
        CHECK(low[3] == (uint32_t)getppid());
        /* A length that does not fit is cut. */
        struct flock whole = { .l_type = F_WRLCK, .l_start = 100, .l_len = 1l << 40 };
        CHECK(fcntl(fd, F_SETLK, &whole) == 0);
        pid_t asks = fork();
        if (asks == 0) {
            memset(low, 0, 32);
            lock[0] = F_RDLCK, low[1] = 50;
            _exit(I3(I_fcntl, fd, F_GETLK, low) != 0 || low[1] != 100 || low[2] != 0x7fffffff);
        }
        CHECK(child_good(asks));
        _exit(failed);
    }
    CHECK(child_good(child));
    /* Nothing is sent from where the offset could not tell. */
    int fds[2];
    CHECK(pipe(fds) == 0 && ftruncate(fd, 3l << 30) == 0);
    low[0] = 0x7ffff000;
    CHECK(I4(I_sendfile, fds[1], fd, low, 0x2000) == 0xfff && low[0] == 0x7fffffff);
    CHECK(I4(I_sendfile, fds[1], fd, low, 1) == -EOVERFLOW && I4(I_sendfile, fds[1], fd, low, 0) == 0);
    CHECK(ftruncate(fd, 0) == 0 && !close(fds[0]) && !close(fds[1]));
    CHECK(I3(I_fcntl, fd, F_GETFL, 0) >= 0 && (I3(I_fcntl64, fd, F_GETFL, 0) & O_ACCMODE) == O_RDWR);
    struct statfs f;
    CHECK(statfs(".", &f) == 0 && I2(I_statfs, put("."), low) == 0 && low[0] == (uint32_t)f.f_type);
    CHECK(low[1] == f.f_bsize && low[9] == f.f_namelen);
    CHECK(I3(I_statfs64, put("."), 84, low) == 0 && low[0] == (uint32_t)f.f_type && low[14] == f.f_namelen);
    CHECK(I3(I_statfs64, put("."), 88, low) == -EINVAL);
    /* Directories: number, position, length, name, type in the last byte. */
    CHECK(mkdir("folder", 0755) == 0);
    int dir = open("folder", O_RDONLY | O_DIRECTORY);
    CHECK(I3(I_getdents, dir, low, 1024) == 32);
    CHECK(*(unsigned short *)(low + 2) == 16 && !strcmp((char *)low + 10, ".") && ((char *)low)[15] == 4);
    CHECK(lseek(dir, 0, SEEK_SET) == 0 && I3(I_readdir, dir, low, 1) == 1 && !strcmp((char *)low + 10, "."));
    close(dir), rmdir("folder");
    /* Times with 32 bits. */
    low[0] = 1000, low[1] = 2000;
    CHECK(I2(I_utime, put("own"), low) == 0 && stat("own", &s) == 0 && s.st_mtime == 2000);
    low[0] = 5, low[1] = 6, low[2] = 7, low[3] = 8;
    CHECK(I4(I_utimensat, AT_FDCWD, put("own"), low, 0) == 0 && stat("own", &s) == 0);
    CHECK(s.st_atim.tv_sec == 5 && s.st_mtim.tv_sec == 7 && s.st_mtim.tv_nsec == 8);
    CHECK(I1(I_unlink, put("own")) == 0 && I1(I_close, fd) == 0);
}

static void times_and_limits(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    CHECK(I1(I_time, low) - t.tv_sec < 2 && low[0] - t.tv_sec < 2u);
    CHECK(I2(I_gettimeofday, low, 0) == 0 && low[0] - t.tv_sec < 2u && low[1] < 1000000);
    memset(low, 0xee, 64);
    CHECK(I2(I_clock_gettime, CLOCK_REALTIME, low) == 0 && low[0] - t.tv_sec < 2u && low[2] == 0xeeeeeeee);
    CHECK(I2(I_clock_gettime64, CLOCK_REALTIME, low) == 0 && low[0] - t.tv_sec < 2u && low[1] == 0);
    CHECK(low[3] == 0);
    low[0] = 0, low[1] = 1000;
    CHECK(I2(I_nanosleep, low, 0) == 0 && I4(I_clock_nanosleep, CLOCK_MONOTONIC, 0, low, 0) == 0);
    low[1] = -1;
    CHECK(I2(I_nanosleep, low, 0) == -EINVAL);
    low[0] = low[1] = 0, low[2] = 100, low[3] = 0;
    CHECK(I3(I_setitimer, ITIMER_REAL, low, 0) == 0);
    CHECK(I2(I_getitimer, ITIMER_REAL, low) == 0 && low[0] == 0 && low[2] >= 98 && low[2] <= 100);
    CHECK(I3(I_setitimer, ITIMER_REAL, 0, low) == 0 && low[2] >= 98);
    CHECK(I1(I_times, low) > 0);
    memset(low, 0xee, 128);
    CHECK(I2(I_getrusage, RUSAGE_SELF, low) == 0 && low[4] > 0 && low[18] == 0xeeeeeeee);
    memset(low, 0xee, 128);
    CHECK(I1(I_sysinfo, low) == 0 && low[4] > 0 && low[13] >= 1 && low[16] == 0xeeeeeeee);
    struct rlimit limit = { 1l << 40, RLIM_INFINITY }, before;
    CHECK(getrlimit(RLIMIT_DATA, &before) == 0 && setrlimit(RLIMIT_DATA, &limit) == 0);
    CHECK(I2(I_ugetrlimit, RLIMIT_DATA, low) == 0 && low[0] == 0xffffffff && low[1] == 0xffffffff);
    CHECK(I2(I_old_getrlimit, RLIMIT_DATA, low) == 0 && low[0] == 0x7fffffff);
    low[0] = 0x70000000, low[1] = -1;
    CHECK(I2(I_setrlimit, RLIMIT_DATA, low) == 0 && getrlimit(RLIMIT_DATA, &limit) == 0);
    CHECK(limit.rlim_cur == 0x70000000 && limit.rlim_max == RLIM_INFINITY);
    setrlimit(RLIMIT_DATA, &before);
    low[0] = 7, low[1] = SIGUSR1, low[2] = SIGEV_NONE;
    CHECK(I3(I_timer_create, CLOCK_MONOTONIC, low, low + 8) == 0);
    CHECK(I3(I_sched_getaffinity, 0, 12, low) >= 4 && I3(I_sched_getaffinity, 0, 6, low) == -EINVAL);
    CHECK(I1(I_timer_delete, low[8]) == 0 && I1(I_timer_delete, low[8]) == -EINVAL);
}

static void memory(void) {
    long at = I6(I_mmap2, 0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at > 0 && at < 1l << 32);
    char *page = (char *)at;
    page[0] = 'x';
    low[0] = 0, low[1] = 4096, low[2] = PROT_READ, low[3] = MAP_PRIVATE | MAP_ANONYMOUS, low[4] = -1;
    low[5] = 0;
    long other = I1(I_old_mmap, low);
    CHECK(other > 0 && other < 1l << 32 && I2(I_munmap, other, 4096) == 0);
    /* Something behind it: it has to move, and stays below. */
    long moved = I4(I_mremap, at, 4096, 1 << 20, MREMAP_MAYMOVE);
    CHECK(moved > 0 && moved < 1l << 32 && *(char *)moved == 'x');
    CHECK(I2(I_munmap, moved, 1 << 20) == 0);
    /* What stays without its pages, and what fails: nothing else goes. */
    page[4096] = 'y';
    moved = I4(I_mremap, at + 4096, 4096, 4096, MREMAP_MAYMOVE | 4);
    CHECK(moved > 0 && moved < 1l << 32 && *(char *)moved == 'y' && page[4096] == 0);
    CHECK(I2(I_munmap, moved, 4096) == 0);
    struct rlimit before, none = { 4096, RLIM_INFINITY };
    CHECK(getrlimit(RLIMIT_DATA, &before) == 0 && setrlimit(RLIMIT_DATA, &none) == 0);
    CHECK(I4(I_mremap, at + 4096, 4096, 1 << 20, MREMAP_MAYMOVE) == -ENOMEM && page[4096] == 0);
    CHECK(setrlimit(RLIMIT_DATA, &before) == 0 && I2(I_munmap, at, 8192) == 0);
    CHECK(I6(I_mmap2, 0, 4096, PROT_READ, MAP_PRIVATE, -1, 0) == -EBADF);
}

static int caught;
static void note(int sig) { caught = sig; }

static void waiting(void) {
    int fds[2];
    CHECK(pipe(fds) == 0 && write(fds[1], "y", 1) == 1);
    /* Sets have words of 32 bits, and nothing behind them is touched. */
    memset(low, 0xee, 128);
    low[0] = 1 << fds[0], low[8] = low[9] = 0;
    CHECK(fds[0] < 31 && I5(I_newselect, fds[0] + 1, low, 0, 0, low + 8) == 1 && low[0] == 1u << fds[0]);
    CHECK(low[1] == 0xeeeeeeee);
    low[16] = fds[0] + 1, low[17] = (uintptr_t)low, low[18] = low[19] = 0, low[20] = (uintptr_t)(low + 8);
    CHECK(I1(I_old_select, low + 16) == 1);
    low[24] = 0, low[25] = 8;
    CHECK(I6(I_pselect6, fds[0] + 1, low, 0, 0, low + 8, low + 24) == 1 && low[1] == 0xeeeeeeee);
    struct pollfd *fd = (void *)(low + 32);
    *fd = (struct pollfd){ fds[0], POLLIN, 0 };
    CHECK(I3(I_poll, fd, 1, 0) == 1 && fd->revents == POLLIN);
    CHECK(I5(I_ppoll, fd, 1, low + 8, 0, 0) == 1);
    low[40] = low[41] = low[42] = low[43] = 0;
    CHECK(I5(I_ppoll_time64, fd, 1, low + 40, 0, 0) == 1);
    int ep = I1(I_epoll_create, 1);
    low[0] = EPOLLIN, low[1] = 77, low[2] = 88;
    CHECK(ep >= 0 && I4(I_epoll_ctl, ep, EPOLL_CTL_ADD, fds[0], low) == 0);
    memset(low, 0, 16);
    CHECK(I4(I_epoll_wait, ep, low, 4, 0) == 1 && low[0] == EPOLLIN && low[1] == 77 && low[2] == 88);
    close(ep), close(fds[0]), close(fds[1]);
    low[0] = 5, low[8] = 0, low[9] = 1000000;
    CHECK(I6(I_futex, low, 0, 5, low + 8, 0, 0) == -ETIMEDOUT && I6(I_futex, low, 0, 6, 0, 0, 0) == -EAGAIN);
    low[8] = 0, low[9] = 0, low[10] = 1000000, low[11] = 0;
    CHECK(I6(I_futex_time64, low, 0, 5, low + 8, 0, 0) == -ETIMEDOUT);
    /* Two ends, and calls of the call for all. */
    CHECK(I4(I_socketpair, AF_UNIX, SOCK_STREAM, 0, low) == 0);
    int a = low[0], b = low[1];
    CHECK(I6(I_sendto, a, put("ping"), 4, 0, 0, 0) == 4 && I6(I_recvfrom, b, text + 64, 9, 0, 0, 0) == 4);
    low[0] = b, low[1] = (uintptr_t)put("pong"), low[2] = 4, low[3] = 0;
    CHECK(I2(I_socketcall, 9, low) == 4);
    low[0] = a, low[1] = (uintptr_t)text + 64, low[2] = 9, low[3] = 0;
    CHECK(I2(I_socketcall, 10, low) == 4 && !memcmp(text + 64, "pong", 4));
    CHECK(I2(I_socketcall, 99, low) == -EINVAL);
    /* Messages, with a descriptor: headers of control data have 12 bytes. */
    low[0] = (uintptr_t)put("text"), low[1] = 4;
    memset(low + 8, 0, 28);
    low[10] = (uintptr_t)low, low[11] = 1, low[12] = (uintptr_t)(low + 32), low[13] = 16;
    low[32] = 16, low[33] = SOL_SOCKET, low[34] = SCM_RIGHTS, low[35] = a;
    CHECK(I3(I_sendmsg, a, low + 8, 0) == 4);
    low[0] = (uintptr_t)text + 64, low[1] = 9, low[13] = 64;
    memset(low + 32, 0, 64);
    CHECK(I3(I_recvmsg, b, low + 8, 0) == 4 && !memcmp(text + 64, "text", 4) && low[13] == 16);
    CHECK(low[14] == 0);
    CHECK(low[32] == 16 && low[33] == SOL_SOCKET && low[34] == SCM_RIGHTS && !close(low[35]));
    close(a), close(b);
    low[0] = (uintptr_t)text, low[1] = 4, low[2] = (uintptr_t)text + 64, low[3] = 4, put("from");
    CHECK(I6(I_process_vm_readv, getpid(), low + 2, 1, low, 1, 0) == 4 && !memcmp(text + 64, "from", 4));
}

static void signals(void) {
    signal(SIGUSR1, note);
    CHECK(I2(I_kill, getpid(), SIGUSR1) == 0 && caught == SIGUSR1);
    /* What a native call set, seen by this one. */
    memset(low, 0xee, 64);
    CHECK(I4(I_rt_sigaction, SIGUSR1, 0, low, 8) == 0 && low[0] == (uint32_t)(uintptr_t)note);
    CHECK(low[5] == 0xeeeeeeee);
    memset(low, 0, 64);
    low[0] = (uintptr_t)SIG_IGN;
    CHECK(I4(I_rt_sigaction, SIGUSR2, low, low + 8, 8) == 0 && low[8] == (uintptr_t)SIG_DFL);
    CHECK(I2(I_kill, getpid(), SIGUSR2) == 0);
    CHECK(I4(I_rt_sigaction, SIGUSR2, 0, low, 4) == -EINVAL);
    low[0] = (uintptr_t)SIG_DFL, low[1] = low[2] = low[3] = 0;
    CHECK(I3(I_sigaction, SIGUSR2, low, low + 8) == 0 && low[8] == (uintptr_t)SIG_IGN);
    CHECK(I2(I_signal, SIGUSR2, SIG_IGN) == (long)SIG_DFL && signal(SIGUSR2, SIG_DFL) == SIG_IGN);
    low[0] = 1 << (SIGUSR1 - 1);
    CHECK(I3(I_sigprocmask, SIG_BLOCK, low, low + 1) == 0);
    low[2] = 1 << (SIGUSR1 - 1), low[3] = 0;
    CHECK(I3(I_kill, getpid(), SIGUSR1, 0) == 0);
    low[8] = low[9] = 0;
    memset(low + 16, 0xee, 132);
    CHECK(I4(I_rt_sigtimedwait, low + 2, low + 16, low + 8, 8) == SIGUSR1);
    CHECK(low[16] == SIGUSR1 && low[18] == SI_USER && low[19] == (uint32_t)getpid() && low[20] == getuid());
    CHECK(low[48] == 0xeeeeeeee);
    /* A queued one's value. */
    memset(low + 16, 0, 128);
    low[18] = SI_QUEUE, low[19] = getpid(), low[20] = 3, low[21] = 0x12345;
    CHECK(I3(I_rt_sigqueueinfo, getpid(), SIGUSR1, low + 16) == 0);
    siginfo_t info;
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGUSR1);
    CHECK(sigwaitinfo(&set, &info) == SIGUSR1 && info.si_code == SI_QUEUE);
    CHECK(info.si_value.sival_ptr == (void *)0x12345);
    CHECK(info.si_uid == 3);
    int pidfd = syscall(SYS_pidfd_open, getpid(), 0);
    low[16] = SIGUSR1, low[21] = 0x54321;
    CHECK(I4(I_pidfd_send, pidfd, SIGUSR1, low + 16, 0) == 0 && sigwaitinfo(&set, &info) == SIGUSR1);
    CHECK(info.si_value.sival_ptr == (void *)0x54321 && !close(pidfd));
    CHECK(I4(I_rt_sigprocmask, SIG_UNBLOCK, low + 2, 0, 8) == 0);
    low[0] = (uintptr_t)text, low[1] = 0, low[2] = 32768;
    stack_t stack;
    CHECK(I2(I_sigaltstack, low, low + 8) == 0 && sigaltstack(NULL, &stack) == 0 && stack.ss_sp == text);
    CHECK(stack.ss_size == 32768 && low[9] == SS_DISABLE);
    low[1] = SS_DISABLE;
    CHECK(I2(I_sigaltstack, low, 0) == 0);
}

static void processes(void) {
    pid_t child = I0(I_fork);
    if (child == 0) call(I_exit, 7, 0, 0, 0, 0, 0);
    CHECK(child > 0 && I3(I_waitpid, child, low, 0) == child && low[0] == 7 << 8);
    child = I0(I_fork);
    if (child == 0) _exit(I0(I_getpid) == getpid() ? 3 : 4);
    memset(low, 0xee, 256);
    CHECK(I4(I_wait4, child, low, 0, low + 8) == child && low[0] == 3 << 8 && low[26] == 0xeeeeeeee);
    child = call(I_clone, SIGCHLD, 0, 0, 0, 0, 0);
    if (child == 0) call(I_exit_group, 9, 0, 0, 0, 0, 0);
    memset(low, 0xee, 256);
    CHECK(I5(I_waitid, P_PID, child, low, WEXITED, low + 32) == 0);
    CHECK(low[0] == SIGCHLD && low[2] == CLD_EXITED && low[3] == (uint32_t)child && low[5] == 9);
    /* Lists of 32-bit pointers; the program that runs is an ordinary one. */
    child = fork();
    if (child == 0) {
        strcpy(text, "/proc/self/exe"), strcpy(text + 32, "again"), strcpy(text + 64, "A=B");
        low[0] = low[1] = (uintptr_t)text + 32, low[2] = 0, low[3] = (uintptr_t)text + 64, low[4] = 0;
        call(I_execve, (long)text, (long)low, (long)(low + 3), 0, 0, 0);
        _exit(99);
    }
    CHECK(child_good(child));
}

/* What a handler of SIGSYS is told. */
static siginfo_t refused;
static void refuse(int sig, siginfo_t *info, void *context) { (void)sig, (void)context, refused = *info; }

static void filters(void) {
    pid_t child = fork();
    if (child == 0) {
        struct sigaction action = { .sa_sigaction = refuse, .sa_flags = SA_SIGINFO };
        sigaction(SIGSYS, &action, NULL);
        struct sock_filter code[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_I386, 1, 0),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, I_getppid, 0, 6),
            /* The sixth argument, which is in rbp: filters and tracers see all of the register. */
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[5]) + 4),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0xff, 0, 3),
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[5])),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 66, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 55),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, I_gettid, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP | 5),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        /* By these calls, with the 32-bit structure: its pointer is to the copy. */
        memcpy(text, code, sizeof code);
        low[0] = sizeof code / sizeof code[0], low[1] = (uintptr_t)text;
        CHECK(I5(I_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        CHECK(I3(I_seccomp, SECCOMP_SET_MODE_FILTER, 0, low) == 0);
        CHECK(I6(I_getppid, 1, 2, 3, 4, 5, 0xff00000042l) == -55 && I0(I_getppid) == getppid());
        CHECK(syscall(SYS_gettid) == getpid() && I0(I_getpid) == getpid());
        CHECK(I0(I_gettid) == I_gettid && refused.si_arch == AUDIT_ARCH_I386);
        CHECK(refused.si_syscall == I_gettid);
        CHECK(refused.si_errno == 5 && refused.si_code == 1);
        _exit(failed);
    }
    CHECK(child_good(child));
    /* Strict mode: four calls of each ABI. */
    child = fork();
    if (child == 0) {
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
        if (I3(I_write, 1, text, 0) == 0) call(I_exit, 0, 0, 0, 0, 0, 0);
        for (;;) syscall(SYS_exit, 1);
    }
    CHECK(child_good(child));
    child = fork();
    if (child == 0) {
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
        I0(I_getpid);
        syscall(SYS_exit, 0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* What a tracer sees, and may change. */
struct call_info {
    uint8_t op, pad[3];
    uint32_t arch;
    uint64_t ip, sp, nr, args[6];
};

static void traced(void) {
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        /* The second is made another call by the tracer, the third is skipped. */
        int good = I6(I_getppid, 1, 2, 3, 4, 5, 0x700000006l) == getppid() && I0(I_getppid) == getpid();
        good &= I0(I_getpid) == 1234;
        _exit(!good);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
    CHECK(ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) == 0);
    int entries = 0;
    for (int stop = 0; stop < 40; stop++) {
        CHECK(ptrace(PTRACE_SYSCALL, child, 0, 0) == 0 && waitpid(child, &status, 0) == child);
        if (!WIFSTOPPED(status)) break;
        struct user_regs_struct regs;
        struct call_info info = { 0 };
        CHECK(ptrace(PTRACE_GETREGS, child, 0, &regs) == 0);
        CHECK(ptrace(0x420e, child, sizeof info, &info) > 0 && info.ip == regs.rip);
        if (info.arch != AUDIT_ARCH_I386 || info.op != 1) continue;
        CHECK(regs.orig_rax == info.nr && (long)regs.rax == -ENOSYS);
        switch (entries++) {
        case 0:
            CHECK(info.nr == I_getppid && info.args[0] == 1 && info.args[4] == 5);
            CHECK(info.args[5] == 0x700000006);
            CHECK(regs.rbx == 1 && regs.rdi == 5 && regs.rbp == 0x700000006);
            break;
        case 1:
            regs.orig_rax = I_getpid;
            CHECK(ptrace(PTRACE_SETREGS, child, 0, &regs) == 0);
            break;
        case 2:
            regs.orig_rax = -1, regs.rax = 1234;
            CHECK(ptrace(PTRACE_SETREGS, child, 0, &regs) == 0);
            break;
        }
    }
    CHECK(entries == 3 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Interrupted sleeps go on, by the number that restart_syscall has here. */
static void restarts(void) {
    pid_t child = fork();
    if (child == 0) {
        low[0] = 0, low[1] = 300000000;
        _exit(I2(I_nanosleep, low, low + 2) != 0);
    }
    pause_ms(50);
    kill(child, SIGSTOP), kill(child, SIGCONT);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    child = fork();
    if (child == 0) {
        signal(SIGUSR1, note);
        low[0] = 5, low[1] = 0;
        _exit(I2(I_nanosleep, low, low + 2) != -EINTR || low[2] > 4 || caught != SIGUSR1);
    }
    CHECK(SOON(thread_state(child) == 'S'));
    pause_ms(20);
    kill(child, SIGUSR1);
    CHECK(child_good(child));
}

/* 32-bit code makes the same calls, with its own registers. */
static void from_32_bits(void) {
    enum { BACK = 12, CODE = 64, TARGET = CODE + 8 };
    static const unsigned char there[] = {
        0x49, 0x89, 0xe4,                           /* mov %rsp, %r12 */
        0x48, 0x8d, 0xa3, 0x00, 0x40, 0x00, 0x00,   /* lea 0x4000(%rbx), %rsp */
        0xff, 0x2b,                                 /* ljmp *(%rbx) */
        0x4c, 0x89, 0xe4,                           /* mov %r12, %rsp */
        0xc3,                                       /* ret */
    }, code[] = {
        0xb8, I_getpid, 0, 0, 0,                    /* mov $20, %eax */
        0xcd, 0x80,                                 /* int $0x80 */
        0xea, 0, 0, 0, 0, 0x33, 0,                  /* ljmp, to behind the other */
    };
    memcpy(text, there, sizeof there), memcpy(text + CODE, code, sizeof code);
    uint32_t back = (uintptr_t)text + BACK;
    memcpy(text + TARGET, &back, 4);
    CHECK(mprotect(low, LOW, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
    /* (A jump, since QEMU's far returns fail on processors with SMAP.) */
    low[0] = (uintptr_t)text + CODE, low[1] = 0x23;
    long result;
    __asm__ volatile("sub $128, %%rsp\n call *%[there]\n add $128, %%rsp" : "=a"(result)
                     : "b"(low), [there] "d"(text)
                     : "rcx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "memory", "cc");
    CHECK((int)result == getpid());
}

/* Old calls: fewer bits, shorter names. */
static void old_calls(void) {
    int fd = I3(I_open, put("own"), O_RDWR | O_CREAT | O_TRUNC, 0640);
    struct stat s;
    CHECK(fd >= 0 && write(fd, "text", 4) == 4 && fstat(fd, &s) == 0);
    memset(low, 0xee, 64);
    long result = I2(I_oldfstat, fd, low);
    CHECK(s.st_ino > 0xffff ? result == -EOVERFLOW : result == 0);
    if (result == 0) {
        unsigned short *half = (void *)low;
        CHECK(half[1] == s.st_ino && half[2] == s.st_mode && half[3] == 1 && low[4] == 4);
        CHECK(low[6] == (uint32_t)s.st_mtime && low[8] == 0xeeeeeeee);
        CHECK(I2(I_oldstat, put("own"), low) == 0 && low[4] == 4);
    }
    CHECK(I2(I_oldstat, put("none"), low) == -ENOENT);
    close(fd), unlink("own");
    struct utsname own;
    CHECK(uname(&own) == 0);
    memset(low, 0xee, 512);
    char *name = (char *)low;
    CHECK(I1(I_olduname, low) == 0 && !strcmp(name, own.sysname) && !strcmp(name + 130, own.release));
    CHECK(!strcmp(name + 260, own.machine) && name[325] == (char)0xee);
    memset(low, 0xee, 512);
    CHECK(I1(I_oldolduname, low) == 0 && !strcmp(name, own.sysname) && !strncmp(name + 18, own.release, 8));
    CHECK(name[26] == 0 && name[45] == (char)0xee && I1(I_oldolduname, 0) == -EFAULT);
    CHECK(I2(I_arch_prctl, 0x1011, 0) == 1 && I2(I_arch_prctl, 0x1002, 0) == -EINVAL);
}

/* A list of locks of 32-bit words: the one that an ending thread has is marked. */
static void robust_lists(void) {
    enum { OFFSET = 8, DIED = 0x40000000 };
    uint32_t *list = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    CHECK(list != MAP_FAILED);
    pid_t child = fork();
    if (child == 0) {
        list[0] = (uintptr_t)(list + 16), list[1] = OFFSET, list[2] = 0;
        list[16] = (uintptr_t)list, list[18] = getpid();
        CHECK(I2(I_set_robust_list, list, 24) == -EINVAL && I2(I_set_robust_list, list, 12) == 0);
        CHECK(I3(I_get_robust_list, 0, low, low + 1) == 0 && low[0] == (uintptr_t)list && low[1] == 12);
        _exit(failed);
    }
    CHECK(child_good(child) && list[18] == DIED);
    munmap(list, 4096);
}

static void ipc(void) {
    enum { PRIVATE = 0, RMID = 0, STAT = 2, NEW = 0x100, SETVAL = 16, GETVAL = 12 };
    int id = I6(I_ipc, 23, PRIVATE, 8192, 0600, 0, 0);
    CHECK(id >= 0 && I6(I_ipc, 21, id, 0, low, 0, 0) == 0);
    char *at = (char *)(uintptr_t)low[0];
    strcpy(at, "shared");
    CHECK(I6(I_ipc, 21 | 1 << 16, id, 0, low, 0, 0) == -EINVAL);
    long again = I3(I_shmat, id, 0, 0);
    CHECK(again > 0 && again < 1l << 32 && !strcmp((char *)again, "shared"));
    memset(low, 0xee, 128);
    CHECK(I3(I_shmctl, id, STAT, low) == 0 && low[9] == 8192 && low[18] == 2 && low[21] == 0xeeeeeeee);
    CHECK(low[16] == (uint32_t)getpid());
    CHECK(I6(I_ipc, 24, id, STAT | NEW, 0, low, 0) == 0 && I6(I_ipc, 22, 0, 0, 0, at, 0) == 0);
    CHECK(I6(I_ipc, 22, 0, 0, 0, again, 0) == 0 && I3(I_shmctl, id, RMID, 0) == 0);
    id = I3(I_semget, PRIVATE, 2, 0600);
    low[0] = 7;
    CHECK(id >= 0 && I6(I_ipc, 3, id, 1, SETVAL | NEW, low, 0) == 0 && I4(I_semctl, id, 1, GETVAL, 0) == 7);
    memset(low, 0xee, 128);
    CHECK(I4(I_semctl, id, 0, STAT, low) == 0 && low[13] == 2 && low[16] == 0xeeeeeeee);
    short *op = (void *)low;
    op[0] = 1, op[1] = -3, op[2] = 0;
    CHECK(I6(I_ipc, 1, id, 1, 0, low, 0) == 0 && I4(I_semctl, id, 1, GETVAL, 0) == 4);
    op[1] = -9, low[8] = 0, low[9] = 1000000;
    CHECK(I6(I_ipc, 4, id, 1, 0, low, low + 8) == -EAGAIN && I4(I_semctl, id, 0, RMID, 0) == 0);
    id = I2(I_msgget, PRIVATE, 0600);
    low[0] = 5, strcpy((char *)(low + 1), "message");
    CHECK(id >= 0 && I4(I_msgsnd, id, low, 8, 0) == 0 && I6(I_ipc, 11, id, 8, 0, low, 0) == 0);
    CHECK(I4(I_msgsnd, id, low, -1, 0) == -EINVAL && I5(I_msgrcv, id, low, -1, 0, 0) == -EINVAL);
    memset(low, 0xee, 256);
    CHECK(I3(I_msgctl, id, STAT, low) == 0 && low[15] == 16 && low[16] == 2 && low[22] == 0xeeeeeeee);
    CHECK(I5(I_msgrcv, id, low + 8, 64, -6, 0) == 8 && low[8] == 5 && !strcmp((char *)(low + 9), "message"));
    low[0] = (uintptr_t)(low + 8), low[1] = 5, low[8] = low[9] = 0;
    CHECK(I6(I_ipc, 12, id, 64, 0, low, 0) == 8 && low[8] == 5 && !strcmp((char *)(low + 9), "message"));
    CHECK(I3(I_msgctl, id, RMID, 0) == 0 && I6(I_ipc, 99, 0, 0, 0, 0, 0) == -ENOSYS);
    /* Message queues with names: attributes of words of 32 bits. */
    low[0] = 0, low[1] = 4, low[2] = 16, low[3] = 0;
    int queue = I4(I_mq_open, put("int80"), O_RDWR | O_CREAT | O_EXCL, 0600, low);
    if (queue == -ENOSYS) return;
    memset(low, 0xee, 64);
    CHECK(queue >= 0 && I3(I_mq_getsetattr, queue, 0, low) == 0 && low[1] == 4 && low[2] == 16);
    CHECK(low[3] == 0 && low[8] == 0xeeeeeeee);
    CHECK(I5(I_mq_timedsend, queue, put("queued"), 7, 3, 0) == 0);
    CHECK(I5(I_mq_timedreceive, queue, text + 64, 16, low, 0) == 7 && low[0] == 3);
    CHECK(!strcmp(text + 64, "queued"));
    low[0] = 1, low[1] = 0;
    CHECK(I5(I_mq_timedreceive, queue, text + 64, 16, 0, low) == -ETIMEDOUT);
    CHECK(I1(I_mq_unlink, put("int80")) == 0 && I1(I_mq_unlink, put("int80")) == -ENOENT && !close(queue));
}

/*
 * A tracer makes the frame of a fault that of a call to be restarted: the instruction says which ABI's. And
 * requests by the call of 32-bit programs.
 */
static void tracers(void) {
    low[50] = 0x12345678;
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        long result;
        __asm__ volatile("int $0x80\n ud2" : "=a"(result) : "a"(I_getppid) : "memory");
        _exit(result != getpid());
    }
    int status;
    struct user_regs_struct regs;
    CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGILL);
    CHECK(ptrace(PTRACE_GETREGS, child, 0, &regs) == 0 && regs.rax == (unsigned long)getpid());
    memset(low + 50, 0xee, 256);
    CHECK(I4(I_ptrace, PTRACE_PEEKDATA, child, low + 50, low + 51) == 0 && low[51] == 0x12345678);
    CHECK(low[52] == 0xeeeeeeee && I4(I_ptrace, PTRACE_POKEDATA, child, low + 50, 77) == 0);
    CHECK((uint32_t)ptrace(PTRACE_PEEKDATA, child, low + 50, 0) == 77);
    CHECK(I4(I_ptrace, PTRACE_GETSIGINFO, child, 0, low + 60) == 0 && low[60] == SIGILL && low[62] == 2);
    CHECK(low[63] == (uint32_t)regs.rip && I4(I_ptrace, PTRACE_SETSIGINFO, child, 0, low + 60) == 0);
    CHECK(I4(I_ptrace, PTRACE_GETEVENTMSG, child, 0, low + 52) == 0 && low[53] == 0xeeeeeeee);
    CHECK(I4(I_ptrace, 999, child, 0, 0) == -EIO && I4(I_ptrace, PTRACE_PEEKDATA, -5, 0, 0) == -ESRCH);
    regs.orig_rax = I_getpid, regs.rax = -512;
    CHECK(ptrace(PTRACE_SETREGS, child, 0, &regs) == 0 && ptrace(PTRACE_CONT, child, 0, 0) == 0);
    CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGILL);
    CHECK(ptrace(PTRACE_GETREGS, child, 0, &regs) == 0 && regs.rax == (unsigned long)child);
    regs.rip += 2;
    CHECK(ptrace(PTRACE_SETREGS, child, 0, &regs) == 0 && ptrace(PTRACE_CONT, child, 0, 0) == 0);
    CHECK(child_good(child));
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[0], "again"))
        return strcmp(argv[1], "again") || !getenv("A") || strcmp(getenv("A"), "B");
    low = mmap(NULL, LOW, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    if (low == MAP_FAILED) return 1;
    text = (char *)low + LOW / 2;
    plain_calls();
    files();
    times_and_limits();
    memory();
    waiting();
    signals();
    processes();
    filters();
    traced();
    restarts();
    old_calls();
    robust_lists();
    ipc();
    tracers();
    from_32_bits();
    return report();
}
#endif
