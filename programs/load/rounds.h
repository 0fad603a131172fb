/*
 * Shared by `load` and `arrivals`: kinds of work. Each is a process that repeats its work until the time is
 * over, and fails if a result is wrong. Needs <errno.h>, <stdio.h>, <stdlib.h>, <string.h>, <sys/mman.h>,
 * <sys/wait.h>, <time.h> and <unistd.h>.
 */
#define CHECK(x) do { if (!(x)) { \
    fprintf(stderr, "%s:%d: %s: %s\n", __func__, __LINE__, #x, strerror(errno)); _exit(1); } } while (0)
#define MOST_KINDS 32

struct kind { const char *name; void (*work)(void); };

static time_t end;

static int going(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec < end;
}

static void nap(long us) {
    struct timespec t = {0, us * 1000};
    nanosleep(&t, NULL);
}

static int wanted(const char *kind, char **names) {
    if (!*names) return 1;
    while (*names && strcmp(*names, kind)) names++;
    return *names != NULL;
}

/*
 * The arguments are SECONDS [KIND...]. Prints one line with the number of rounds of each kind; returns 0 if
 * none failed. With 0 seconds it prints `ok`.
 */
static int rounds(const struct kind *kinds, size_t count, int argc, char **argv) {
    int seconds = argc > 1 ? atoi(argv[1]) : 10;
    if (seconds == 0) return write(1, "ok\n", 3) != 3;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    end = now.tv_sec + seconds;
    volatile int *done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(done != MAP_FAILED && count <= MOST_KINDS);
    pid_t pids[MOST_KINDS] = {0};
    for (size_t i = 0; i < count; i++) {
        if (!wanted(kinds[i].name, argv + (argc > 1) + 1)) continue;
        pids[i] = fork();
        CHECK(pids[i] >= 0);
        if (pids[i] == 0) {
            do {
                kinds[i].work();
                done[i]++;
            } while (going());
            _exit(0);
        }
    }
    int failed = 0, said = 0;
    for (size_t i = 0; i < count; i++) {
        int status;
        if (!pids[i]) continue;
        CHECK(waitpid(pids[i], &status, 0) == pids[i]);
        failed |= status;
        printf("%s%s %d", said++ ? ", " : "", kinds[i].name, done[i]);
        if (status) fprintf(stderr, "%s: status %#x\n", kinds[i].name, status);
    }
    printf("\n");
    return failed != 0 || !said;
}
