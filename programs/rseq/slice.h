// Time-slice extensions.

#include <fcntl.h>
#include <sys/mount.h>

#define SLICE_GET 1ul
#define SLICE_SET 2ul
#define NOT_SUPPORTED 524
// The longest extension and the default, nanoseconds.
#define LONGEST "50000"
#define DEFAULT "5000"

static long slice_prctl(unsigned long a, unsigned long b, unsigned long c)
{
    long r = prctl(PR_SLICE, a, b, c, 0);
    return r < 0 ? -errno : r;
}

static long slice_yield(void)
{
    return syscall(NR_SLICE_YIELD);
}

// Sets the length of extensions, if that can be set. On a slow machine the shortest are over before user mode
// is reached, perhaps before the kernel has granted them.
static void make_slices(const char *ns)
{
    mkdir("/sys/kernel/debug", 0755);
    mount("none", "/sys/kernel/debug", "debugfs", 0, 0);
    int fd = open("/sys/kernel/debug/rseq/slice_ext_nsec", O_WRONLY);
    if (fd >= 0 && write(fd, ns, strlen(ns)) != (ssize_t)strlen(ns))
        fail("slice_ext_nsec", errno, 0);
    if (fd >= 0)
        close(fd);
}

// Spins and asks for an extension until one is granted; at most `ms` milliseconds. `how` ends it: 0 by yield,
// 1 by another system call, 2 by waiting until it is over. Returns whether one was granted.
static int granted_once(volatile struct area *area, int how, int ms)
{
    for (uint64_t end = now_us() + ms * 1000; now_us() < end;) {
        area->request = 1;
        for (volatile int i = 0; i < 2000 && !area->granted; i++)
            ;
        area->request = 0;
        // An extension lasts some microseconds: it may be over before the yield. Then another one is tried.
        if (area->granted && (how != 0 || slice_yield() == 1)) {
            if (how == 1) {
                syscall(SYS_getppid);
            } else if (how == 2) {
                while (area->granted)
                    ;
            }
            CHECK("granted afterwards", area->granted, 0);
            CHECK("yield without an extension", slice_yield(), 0);
            return 1;
        }
    }
    return 0;
}

static void slices(volatile struct area *area, uint32_t len)
{
    if (!extended)
        return;
    CHECK("unknown operation", slice_prctl(3, 0, 0), -EINVAL);
    CHECK("fourth argument", slice_prctl(SLICE_GET, 0, 1), -EINVAL);
    CHECK("argument of get", slice_prctl(SLICE_GET, 1, 0), -EINVAL);
    CHECK("argument of set", slice_prctl(SLICE_SET, 2, 0), -EINVAL);
    CHECK("off at first", slice_prctl(SLICE_GET, 0, 0), 0);
    CHECK("nothing to yield", slice_yield(), 0);
    if (len == 32) {
        CHECK("legacy", slice_prctl(SLICE_SET, 1, 0), -NOT_SUPPORTED);
        CHECK("flags", area->flags, 0);
        return;
    }
    CHECK("available", area->flags, 0x10);
    CHECK("enable", slice_prctl(SLICE_SET, 1, 0), 0);
    CHECK("enabled", slice_prctl(SLICE_GET, 0, 0), 1);
    CHECK("flags", area->flags, 0x30);
    make_slices(LONGEST);
    pthread_t other;
    competed = 0;
    pin(0);
    pthread_create(&other, 0, compete, 0);
    for (int how = 0; how < 3; how++)
        if (!granted_once(area, how, 5000))
            fail("no extension in five seconds", how, how);
    competed = 1;
    pthread_join(other, 0);
    make_slices(DEFAULT);
    unpin();
    CHECK("disable", slice_prctl(SLICE_SET, 0, 0), 0);
    CHECK("disabled", slice_prctl(SLICE_GET, 0, 0), 0);
    CHECK("flags", area->flags, 0x10);
}
