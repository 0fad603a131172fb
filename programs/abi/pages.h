/*
 * Pages, mapped and in files in memory. Needs _GNU_SOURCE, <errno.h>, <sys/mman.h>, <sys/syscall.h>,
 * <unistd.h> and "check.h".
 */
#ifndef SYS_futex
#define SYS_futex SYS_futex_time64
#endif

#define FAILS(call, error) CHECK((long)(call) == -1 && errno == (error))

/* Bytes of a page; the program sets it. */
static long page;

static char *zeros(long pages, int protection, int flags) {
    return mmap(NULL, pages * page, protection, MAP_ANONYMOUS | flags, -1, 0);
}

static int memory_file(long pages) {
    int file = memfd_create("memory", MFD_ALLOW_SEALING);
    CHECK(file >= 0 && ftruncate(file, pages * page) == 0);
    return file;
}
