/*
 * Checks that are counted: each that fails is named, and the exit status is their number. Needs <errno.h>,
 * <stdio.h> and <string.h>.
 */
static int failed, made;

static void check(int good, const char *what, const char *where, int line) {
    made++;
    if (good) return;
    failed++;
    printf("%s, line %d: %s (errno %d, %s)\n", where, line, what, errno, strerror(errno));
}
#define CHECK(condition) check(condition, #condition, __func__, __LINE__)

static int report(void) {
    printf("%d checks, %d failed\n", made, failed);
    return failed > 99 ? 99 : failed;
}
