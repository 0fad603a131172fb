/* Calls whose arguments or structures are others than the EABI's, and those that only the old ABI has. */
#include <dirent.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/vfs.h>

enum {
    OLD_TIME = 13, OLD_UMOUNT = 22, OLD_STIME = 25, OLD_ALARM = 27, OLD_UTIME = 30, OLD_GETRLIMIT = 76,
    OLD_SELECT = 82, OLD_READDIR = 89, OLD_MMAP = 90,
};

struct old_stat64 {
    unsigned long long st_dev;
    unsigned pad1, short_ino, st_mode, st_nlink, st_uid, st_gid;
    unsigned long long st_rdev;
    unsigned pad2;
    long long st_size;
    unsigned st_blksize;
    unsigned long long st_blocks;
    unsigned st_atime_, st_atime_ns, st_mtime_, st_mtime_ns, st_ctime_, st_ctime_ns;
    unsigned long long st_ino;
} __attribute__((packed, aligned(4)));

struct old_flock64 {
    short l_type, l_whence;
    long long l_start, l_len;
    int l_pid;
} __attribute__((packed, aligned(4)));

struct old_event {
    unsigned events;
    unsigned long long data;
} __attribute__((packed, aligned(4)));

_Static_assert(sizeof(struct old_stat64) == 96 && sizeof(struct old_flock64) == 24, "as GCC 3 laid them out");
_Static_assert(sizeof(struct old_event) == 12, "as GCC 3 laid it out");

/* 64-bit arguments in any registers. */
static void positions(void) {
    int fd = open64("sparse", O_RDWR | O_CREAT | O_TRUNC, 0600);
    const long long far = (5LL << 32) + 0x1234;
    char text[8] = "";
    CHECK(fd >= 0 && OLD(SYS_pwrite64, fd, "abc", 3, HALVES(far)) == 3);
    CHECK(OLD(SYS_pread64, fd, text, 8, HALVES(far)) == 3 && memcmp(text, "abc", 3) == 0);
    CHECK(OLD(SYS_pread64, fd, text, 8, HALVES(-1)) == -EINVAL);
    CHECK(lseek64(fd, 0, SEEK_END) == far + 3);
    CHECK(OLD(SYS_ftruncate64, fd, HALVES((3LL << 32) + 1)) == 0);
    CHECK(lseek64(fd, 0, SEEK_END) == (3LL << 32) + 1);
    CHECK(OLD(SYS_truncate64, "sparse", HALVES((2LL << 32) + 5)) == 0);
    CHECK(lseek64(fd, 0, SEEK_END) == (2LL << 32) + 5);
    CHECK(OLD(SYS_truncate64, "sparse", HALVES(-1)) == -EINVAL);
    CHECK(OLD(SYS_readahead, fd, HALVES(0), 4096) == 0 && OLD(SYS_readahead, -1, HALVES(0), 4096) == -EBADF);
    /* These are the same in both ABIs: the arguments begin in even registers. */
    CHECK(OLD(SYS_arm_fadvise64_64, fd, POSIX_FADV_NORMAL, HALVES(0), HALVES(100)) == 0);
    CHECK(OLD(SYS_arm_fadvise64_64, fd, POSIX_FADV_NORMAL, HALVES(0), HALVES(-1)) == -EINVAL);
    CHECK(OLD(SYS_arm_sync_file_range, fd, 0, HALVES(0), HALVES(100)) == 0);
    CHECK(OLD(SYS_arm_sync_file_range, fd, 0, HALVES(-1), HALVES(100)) == -EINVAL);
    CHECK(OLD(SYS_fallocate, fd, 0, HALVES(0), HALVES(-1)) == -EINVAL);
    close(fd);
    unlink("sparse");
}

static void same_stat(const struct old_stat64 *old) {
    struct stat64 now;
    CHECK(stat64("file", &now) == 0);
    CHECK(old->st_dev == now.st_dev && old->st_ino == now.st_ino && old->short_ino == (unsigned)now.st_ino);
    CHECK(old->st_mode == now.st_mode && old->st_nlink == now.st_nlink && old->st_uid == now.st_uid);
    CHECK(old->st_gid == now.st_gid && old->st_rdev == now.st_rdev && old->st_size == now.st_size);
    CHECK(old->st_blksize == (unsigned)now.st_blksize && old->st_blocks == (unsigned long long)now.st_blocks);
    CHECK(old->st_atime_ == (unsigned)now.st_atim.tv_sec);
    CHECK(old->st_atime_ns == (unsigned)now.st_atim.tv_nsec);
    CHECK(old->st_mtime_ == (unsigned)now.st_mtim.tv_sec);
    CHECK(old->st_mtime_ns == (unsigned)now.st_mtim.tv_nsec);
    CHECK(old->st_ctime_ == (unsigned)now.st_ctim.tv_sec);
    CHECK(old->st_ctime_ns == (unsigned)now.st_ctim.tv_nsec);
}

static void stats(void) {
    struct {
        struct old_stat64 stat;
        unsigned behind;
    } to = {.behind = 0x55};
    int fd = open64("file", O_RDWR | O_CREAT | O_TRUNC, 0640);
    CHECK(fd >= 0 && ftruncate64(fd, 7LL << 32) == 0 && symlink("file", "link") == 0);
    CHECK(OLD(SYS_fstat64, fd, &to) == 0 && (same_stat(&to.stat), 1));
    memset(&to.stat, 0, sizeof to.stat);
    CHECK(OLD(SYS_stat64, "link", &to) == 0 && (same_stat(&to.stat), 1));
    memset(&to.stat, 0, sizeof to.stat);
    CHECK(OLD(SYS_fstatat64, AT_FDCWD, "link", &to, 0) == 0 && (same_stat(&to.stat), 1));
    CHECK(OLD(SYS_lstat64, "link", &to) == 0 && S_ISLNK(to.stat.st_mode) && to.stat.st_size == 4);
    CHECK(OLD(SYS_fstatat64, AT_FDCWD, "link", &to, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(to.stat.st_mode));
    CHECK(to.behind == 0x55);
    CHECK(OLD(SYS_stat64, "none", &to) == -ENOENT && OLD(SYS_stat64, "file", 4) == -EFAULT);
    struct statfs64 fs;
    CHECK(OLD(SYS_statfs64, "/", 84, &fs) == 0 && OLD(SYS_statfs64, "/", 88, &fs) == 0);
    CHECK(OLD(SYS_statfs64, "/", 80, &fs) == -EINVAL && OLD(SYS_fstatfs64, fd, 88, &fs) == 0);
    close(fd);
    unlink("link");
}

static void record_locks(void) {
    int a = open64("file", O_RDWR), b = open64("file", O_RDWR);
    struct old_flock64 lock = {F_WRLCK, SEEK_SET, 5LL << 32, 10LL << 32, 0};
    CHECK(OLD(SYS_fcntl64, a, F_OFD_SETLK, &lock) == 0);
    struct old_flock64 question = {F_RDLCK, SEEK_SET, (5LL << 32) + 7, 3, 0};
    CHECK(OLD(SYS_fcntl64, b, F_OFD_SETLK, &question) == -EAGAIN);
    CHECK(OLD(SYS_fcntl64, b, F_OFD_GETLK, &question) == 0);
    CHECK(question.l_type == F_WRLCK && question.l_start == 5LL << 32 && question.l_len == 10LL << 32);
    CHECK(question.l_pid == -1);
    lock.l_type = F_UNLCK;
    CHECK(OLD(SYS_fcntl64, a, F_OFD_SETLK, &lock) == 0);
    /* Of a process: F_SETLK64 and F_GETLK64, and who has it. */
    lock.l_type = F_WRLCK;
    CHECK(OLD(SYS_fcntl64, a, 13, &lock) == 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        question = (struct old_flock64){F_RDLCK, SEEK_SET, 6LL << 32, 0, 0};
        long result = OLD(SYS_fcntl64, b, 12, &question);
        _exit(result != 0 || question.l_type != F_WRLCK || question.l_pid != getppid() ||
              question.l_start != 5LL << 32);
    }
    CHECK(child_good(child));
    /* With 32 bits it is in neither ABI different, and other commands are the same. */
    struct flock narrow = {F_WRLCK, SEEK_SET, 5, 10, 0};
    CHECK(OLD(SYS_fcntl64, a, 6, &narrow) == 0 && OLD(SYS_fcntl, a, 6, &narrow) == 0);
    CHECK(OLD(SYS_fcntl, a, 13, &lock) == -EINVAL);
    CHECK(OLD(SYS_fcntl64, a, F_GETFL, 0) == fcntl(a, F_GETFL));
    close(a), close(b);
}

static void polls(void) {
    struct {
        struct old_event found[2];
        unsigned behind;
    } to = {.behind = 0x55};
    int pipes[2][2], watch = epoll_create1(0);
    CHECK(watch >= 0 && pipe(pipes[0]) == 0 && pipe(pipes[1]) == 0);
    for (int i = 0; i < 2; i++) {
        struct old_event wanted = {EPOLLIN, 0x1122334455667788LL + i};
        CHECK(OLD(SYS_epoll_ctl, watch, EPOLL_CTL_ADD, pipes[i][0], &wanted) == 0);
        CHECK(write(pipes[i][1], "x", 1) == 1);
    }
    for (int kind = 0; kind < 3; kind++) {
        struct timespec none[2] = {{0, 0}, {0, 0}};
        memset(to.found, 0, sizeof to.found);
        long got = kind == 0   ? OLD(SYS_epoll_wait, watch, &to, 2, 0)
                   : kind == 1 ? OLD(SYS_epoll_pwait, watch, &to, 2, 0, 0, 8)
                               : OLD(441, watch, &to, 2, none, 0, 8);
        CHECK(got == 2 && to.behind == 0x55);
        CHECK(to.found[0].events == EPOLLIN && to.found[1].events == EPOLLIN);
        CHECK((to.found[0].data ^ to.found[1].data) == (0x1122334455667788ULL ^ 0x1122334455667789ULL));
    }
    CHECK(OLD(SYS_epoll_wait, watch, &to, 1, 0) == 1 && OLD(SYS_epoll_wait, watch, &to, 0, 0) == -EINVAL);
    CHECK(OLD(SYS_epoll_wait, watch, 4, 2, 0) == -EFAULT);
    for (int i = 0; i < 2; i++) close(pipes[i][0]), close(pipes[i][1]);
    close(watch);
}

static int alarms;
static void alarmed(int number) { (void)number, alarms++; }

static void only_old(void) {
    long seconds = -1, now = time(NULL);
    CHECK(OLD(OLD_TIME, &seconds) == seconds && seconds >= now && seconds <= now + 5);
    CHECK(OLD(OLD_TIME, 4) == -EFAULT && OLD(OLD_STIME, 4) == -EFAULT);
    CHECK(OLD(OLD_STIME, &seconds) == 0);
    signal(SIGALRM, alarmed);
    CHECK(OLD(OLD_ALARM, 100) == 0 && OLD(OLD_ALARM, 1) >= 99 && SOON(alarms == 1));
    long times[2] = {1000, 2000};
    struct stat64 now_stat;
    CHECK(OLD(OLD_UTIME, "file", times) == 0 && stat64("file", &now_stat) == 0);
    CHECK(now_stat.st_atime == 1000 && now_stat.st_mtime == 2000);
    CHECK(OLD(OLD_UMOUNT, "file") == -EINVAL && OLD(OLD_UMOUNT, "none") == -ENOENT);
    struct rlimit limit = {123, RLIM_INFINITY};
    int shown[2];
    CHECK(setrlimit(RLIMIT_CORE, &limit) == 0 && OLD(OLD_GETRLIMIT, RLIMIT_CORE, shown) == 0);
    CHECK(shown[0] == 123 && shown[1] == 0x7fffffff && OLD(OLD_GETRLIMIT, 99, shown) == -EINVAL);
    int pipes[2];
    CHECK(pipe(pipes) == 0 && write(pipes[1], "x", 1) == 1);
    fd_set read_set;
    FD_ZERO(&read_set);
    FD_SET(pipes[0], &read_set);
    struct {
        long sec, usec;
    } timeout = {0, 0};
    long select_args[5] = {pipes[0] + 1, (long)&read_set, 0, 0, (long)&timeout};
    CHECK(OLD(OLD_SELECT, select_args) == 1 && FD_ISSET(pipes[0], &read_set));
    CHECK(OLD(OLD_SELECT, 4) == -EFAULT);
    close(pipes[0]), close(pipes[1]);
    int fd = open64("file", O_RDWR);
    CHECK(ftruncate(fd, 8192) == 0 && pwrite(fd, "page", 4, 4096) == 4);
    long mmap_args[6] = {0, 4096, PROT_READ, MAP_SHARED, fd, 4096};
    char *page = (char *)OLD(OLD_MMAP, mmap_args);
    CHECK(memcmp(page, "page", 4) == 0 && munmap(page, 4096) == 0);
    mmap_args[5] = 100;
    CHECK(OLD(OLD_MMAP, mmap_args) == -EINVAL && OLD(OLD_MMAP, 4) == -EFAULT);
    close(fd);
}

/* One entry a call. */
static void entries(void) {
    struct {
        unsigned ino, offset;
        unsigned short length;
        char name[256];
    } entry;
    CHECK(mkdir("folder", 0700) == 0);
    for (int i = 0; i < 5; i++) {
        char name[32];
        snprintf(name, sizeof name, "folder/entry-%d", i);
        close(open(name, O_CREAT | O_WRONLY, 0600));
    }
    int fd = open64("folder", O_RDONLY | O_DIRECTORY), found = 0, all = 0;
    long got;
    while ((got = OLD(OLD_READDIR, fd, &entry, 1)) == 1 && all < 100) {
        all++;
        CHECK(entry.length == strlen(entry.name) && entry.ino != 0);
        found += strncmp(entry.name, "entry-", 6) == 0;
    }
    CHECK(got == 0 && all == 7 && found == 5);
    CHECK(lseek(fd, 0, SEEK_SET) == 0 && OLD(OLD_READDIR, fd, 4, 1) == -EFAULT);
    CHECK(OLD(OLD_READDIR, fd, &entry, 1) == 1 && strcmp(entry.name, ".") == 0);
    int file = open64("file", O_RDONLY);
    CHECK(OLD(OLD_READDIR, file, &entry, 1) == -ENOTDIR && OLD(OLD_READDIR, -1, &entry, 1) == -EBADF);
    close(fd), close(file);
}

static void layouts(void) {
    positions();
    stats();
    record_locks();
    polls();
    only_old();
    entries();
}
