/*
 * What several of these programs do besides checking. Needs <fcntl.h>, <stdio.h>, <string.h>, <sys/wait.h>,
 * <time.h>, <unistd.h> and "check.h".
 */
static inline void pause_ms(int ms) {
    struct timespec t = { ms / 1000, ms % 1000 * 1000000L };
    nanosleep(&t, NULL);
}

/* Waits for a child that checks; returns whether it ended without a failed check. */
static inline int child_good(pid_t child) {
    int status = -1;
    return waitpid(child, &status, 0) == child && status == 0;
}

/* Writes a setting under /proc/sys. */
static inline void set(const char *name, const char *value) {
    char path[64];
    snprintf(path, sizeof path, "/proc/sys/%s", name);
    int fd = open(path, O_WRONLY);
    CHECK(fd >= 0 && write(fd, value, strlen(value)) == (ssize_t)strlen(value));
    close(fd);
}
