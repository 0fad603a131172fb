/*
 * What several of these programs do besides checking. Needs <fcntl.h>, <stdio.h>, <string.h>, <sys/wait.h>,
 * <time.h>, <unistd.h> and "check.h"; `on_one` is there behind <sched.h> with _GNU_SOURCE.
 */
static inline void pause_ms(int ms) {
    struct timespec t = { ms / 1000, ms % 1000 * 1000000L };
    nanosleep(&t, NULL);
}

/*
 * Waits until `condition` holds; gives whether it does. Gives up after 10,000 pauses of a millisecond, which
 * are counted because a virtual CPU may stand still for any time.
 */
#define SOON(condition) ({ \
    int pauses_left = 10000; \
    while (!(condition) && pauses_left > 0) pauses_left--, pause_ms(1); \
    pauses_left > 0; \
})

#ifdef CPU_SET
/* Runs on one processor from now on, or on all. On one, timers and sleeps end in the order of their times. */
static inline void on_one(int one) {
    cpu_set_t cpus;
    memset(&cpus, one ? 0 : 0xff, sizeof cpus);
    CPU_SET(0, &cpus);
    CHECK(sched_setaffinity(0, sizeof cpus, &cpus) == 0);
}
#endif

/* The letter that /proc shows for the state of a thread; 0: there is no such thread. */
static inline char thread_state(pid_t tid) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", tid);
    int fd = open(path, O_RDONLY), size = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    text[size > 0 ? size : 0] = 0;
    const char *at = strrchr(text, ')');
    return at && at[1] ? at[2] : 0;
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
