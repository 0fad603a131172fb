/*
 * For `queues.c` and `queue_notices.c`: the calls themselves, and what both ask of a queue. Needs what these
 * include.
 */
#define FAILS(call, error) CHECK((errno = 0, (long)(call) == -1 && errno == (error)))
#define NAME "limen-queue"

/* The calls themselves: the C library takes a slash off, and fixes other things. */
static int opens(const char *name, int flags, int mode, void *attr) {
    return syscall(SYS_mq_open, name, flags, mode, attr);
}
static int unlinks(const char *name) { return syscall(SYS_mq_unlink, name); }

/* A queue without a name. */
static int queue(int flags, long messages, long size) {
    struct mq_attr attr = { .mq_maxmsg = messages, .mq_msgsize = size };
    int fd = opens(NAME, O_CREAT | O_EXCL | O_RDWR | flags, 0600, &attr);
    CHECK(fd >= 0 && unlinks(NAME) == 0);
    return fd;
}

static int sends(int fd, const char *text, unsigned priority) {
    return mq_send(fd, text, strlen(text), priority);
}

/* Receives, and says whether it was `text` with this priority. */
static int gets(int fd, const char *text, unsigned priority) {
    char got[9000];
    unsigned with = 12345;
    memset(got, 0, sizeof got);
    long length = mq_receive(fd, got, sizeof got, &with);
    return length == (long)strlen(text) && strcmp(got, text) == 0 && with == priority;
}

static long count(int fd) {
    struct mq_attr attr;
    return mq_getattr(fd, &attr) ? -1 : attr.mq_curmsgs;
}

static int ended(pid_t child) {
    int status = -1;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 999;
}

/* Does the rest of a block in a child as this user. */
#define AS(user, ...) do { \
    fflush(stdout); \
    pid_t child_of_block = fork(); \
    if (child_of_block == 0) { \
        made = failed = 0; \
        CHECK(setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0); \
        __VA_ARGS__ \
        fflush(stdout); \
        _exit(failed); \
    } \
    CHECK(child_good(child_of_block)); \
} while (0)

static int reads(int fd, const char *text) {
    char got[100] = "";
    long length = pread(fd, got, sizeof got, 0);
    if (length == (long)strlen(text) && strcmp(got, text) == 0) return 1;
    printf("it says %s", got);
    return 0;
}

static void handler(int number) { (void)number; }

/* A child that receives or sends, at a real-time priority unless that is 0. What it did comes by the pipe. */
static pid_t waiter(int fd, int receives, int level, char name, int told) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct sched_param param = { .sched_priority = level };
        if (level && sched_setscheduler(0, SCHED_FIFO, &param)) _exit(99);
        struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
        sigaction(SIGUSR2, &action, NULL);
        action.sa_flags = 0;
        sigaction(SIGUSR1, &action, NULL);
        char text[20] = { name };
        long result = receives ? mq_receive(fd, text, sizeof text, NULL) : mq_send(fd, text, 1, 0);
        char word[2] = { name, receives ? text[0] : '!' };
        if (result < 0) _exit(errno);
        if (write(told, word, 2) != 2) _exit(98);
        _exit(0);
    }
    CHECK(SOON(thread_state(child) == 'S'));
    return child;
}
