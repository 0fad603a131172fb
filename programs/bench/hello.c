/*
 * /init of the boot rows: prints one line and switches the machine off. With the argument `meminfo` it first
 * prints the first lines of /proc/meminfo. It has no C library, so that only the kernel is counted.
 */
#include "../init/sys.h"

static char text[512];

__attribute__((used)) void agent_main(long *stack) {
    static const char line[] = "hello from init\n";
    sys_write(1, line, sizeof line - 1);
    if (stack[0] > 1) {
        sys_mkdir("/proc", 0755);
        sys_mount("proc", "/proc", "proc", 0, 0);
        long fd = sys_open("/proc/meminfo", O_RDONLY, 0);
        long n = fd < 0 ? 0 : sys_read((int)fd, text, sizeof text);
        if (n > 0) sys_write(1, text, (size_t)n);
        /* Output may still be on its way to the console. */
        sys_sleep(1, 0);
    }
    sys(__NR_reboot, 0xfee1dead, 672274793, 0x4321fedc, 0, 0);
    sys_exit(1);
}
ENTRY;
