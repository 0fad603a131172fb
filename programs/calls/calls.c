/*
 * System calls that every processor has, with arguments that are the same everywhere: what
 * `limen run --trace-syscalls` shows of them is compared with tools/limen/src/test/command/calls.txt. The
 * first and the last call say where they begin and end. The status is 3.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALL(name, ...) syscall(SYS_##name, ##__VA_ARGS__)
#define FAULT 0x10L

int main(void) {
    static const char far_away[] = "/a/name/that/is/longer/than/what/a/record/keeps/of/the/strings/of/calls";
    long fd;
    CALL(dup3, 1000L, 1000L, 0L);
    CALL(openat, (long)AT_FDCWD, "/no such file", (long)(O_RDONLY | O_DIRECTORY | O_CLOEXEC), 0L);
    CALL(openat, 1000L, "relative", (long)(O_RDWR | O_APPEND | O_NOFOLLOW), 0L);
    CALL(openat, (long)AT_FDCWD, "", (long)O_WRONLY, 0L);
    CALL(openat, (long)AT_FDCWD, 0L, (long)O_RDONLY, 0L);
    CALL(openat, (long)AT_FDCWD, FAULT, (long)O_RDONLY, 0L);
    CALL(openat, (long)AT_FDCWD, far_away, (long)(O_WRONLY | O_CREAT | O_EXCL), 0640L);
    CALL(openat, (long)AT_FDCWD, "/tmp/\303\244\n\"", (long)O_RDONLY, 0L);
    fd = CALL(openat, (long)AT_FDCWD, "/proc/version", (long)O_RDONLY, 0L);
    CALL(read, fd, FAULT, 8L);
    CALL(write, fd, 0L, 0L);
    CALL(close, fd);
    CALL(close, -1L);
    CALL(mkdirat, (long)AT_FDCWD, "/no/such", 0750L);
    CALL(unlinkat, (long)AT_FDCWD, "/no/such", (long)AT_REMOVEDIR);
    CALL(renameat2, (long)AT_FDCWD, "/no/one", (long)AT_FDCWD, "/no/other", 1L);
    CALL(symlinkat, "to", (long)AT_FDCWD, "/no/link");
    CALL(linkat, (long)AT_FDCWD, "/no/one", (long)AT_FDCWD, "/no/two", (long)AT_SYMLINK_FOLLOW);
    CALL(faccessat, (long)AT_FDCWD, "/no/access", (long)(R_OK | X_OK));
    CALL(fchmodat, (long)AT_FDCWD, "/no/mode", 0644L);
    CALL(chdir, "/no/folder");
    CALL(pipe2, FAULT, (long)(O_NONBLOCK | O_CLOEXEC));
    CALL(socket, (long)AF_UNIX, (long)(SOCK_DGRAM | SOCK_CLOEXEC), 99L);
    CALL(epoll_create1, 1L);
    CALL(epoll_ctl, 1000L, (long)EPOLL_CTL_ADD, 0L, 0L);
    CALL(getrandom, 0L, 0L, (long)GRND_NONBLOCK);
    CALL(memfd_create, FAULT, 1L);
    CALL(mprotect, 0L, 0L, (long)(PROT_READ | PROT_EXEC));
    CALL(madvise, 0L, 0L, (long)MADV_DONTNEED);
    CALL(mremap, 1L, 4096L, 8192L, (long)MREMAP_MAYMOVE, 0L);
    CALL(kill, 0x7fffffffL, (long)SIGTERM);
    CALL(tgkill, 0L, 0L, 34L);
    CALL(rt_sigaction, (long)SIGKILL, FAULT, 0L, 8L);
    CALL(wait4, -1L, 0L, (long)WNOHANG, 0L);
    CALL(prlimit64, 0L, (long)RLIMIT_NOFILE, 0L, FAULT);
    CALL(prctl, (long)PR_SET_DUMPABLE, 9L, 0L, 0L, 0L);
    CALL(flock, 1000L, 6L);
    CALL(exit_group, 3L);
    return 0;
}
