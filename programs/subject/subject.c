/*
 * What debuggers are shown in the cases of tests/debuggers: `subject WHAT`. Each prints what it does, so
 * that a debugger can be seen to change it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct pair {
    int first;
    long second;
};

static volatile int watched;
static struct pair pair = {3, 4};

__attribute__((noinline)) int add(int a, int b) {
    return a + b;
}

__attribute__((noinline)) static int deep(int n) {
    if (n == 0)
        return write(1, "deep\n", 5) == 5 ? add(1, 1) : 0;
    return deep(n - 1) + 1;
}

static void caught(int signal) {
    (void)signal;
    watched += 100;
}

static void *run(void *number) {
    long n = (long)number;

    for (int i = 0; i < 3; i++)
        __atomic_add_fetch(&watched, n, __ATOMIC_SEQ_CST);
    return (void *)(n * 2);
}

static int threads(void) {
    pthread_t thread[3];
    long sum = 0;

    for (long n = 0; n < 3; n++) {
        void *result;

        /* One after the other: debuggers are to say the same each time. */
        pthread_create(&thread[n], 0, run, (void *)(n + 1));
        pthread_join(thread[n], &result);
        sum += (long)result;
    }
    printf("watched %d sum %ld\n", watched, sum);
    return 0;
}

static int forks(void) {
    int status;
    pid_t child = fork();

    if (child == 0) {
        watched = add(20, 2);
        _exit(watched);
    }
    waitpid(child, &status, 0);
    printf("child %d\n", WEXITSTATUS(status));
    return 0;
}

static int loop(void) {
    for (int i = 0; i < 5; i++) {
        watched = add(watched, i);
        pair.first = watched;
    }
    printf("watched %d pair %d %ld\n", watched, pair.first, pair.second);
    return watched;
}

static int files(void) {
    char text[16] = "";
    int fd = open("/tmp/subject", O_RDWR | O_CREAT | O_TRUNC, 0600);

    if (fd < 0) {
        printf("open: %s\n", strerror(errno));
        return 1;
    }
    ssize_t n = write(fd, "some text", 9);
    printf("wrote %zd\n", n);
    lseek(fd, 5, SEEK_SET);
    n = read(fd, text, sizeof(text));
    printf("read %zd %s\n", n, text);
    close(fd);
    unlink("/tmp/subject");
    return 0;
}

static int waits(void) {
    signal(SIGUSR1, caught);
    printf("ready\n");
    fflush(stdout);
    while (watched == 0)
        pause();
    printf("watched %d\n", watched);
    return 0;
}

static int crash(const char *what) {
    int local = add(40, 2);

    pair.first = local;
    if (!strcmp(what, "abort"))
        abort();
    *(volatile int *)8 = local;
    return 0;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";

    setvbuf(stdout, 0, _IOLBF, 0);
    if (!strcmp(what, "loop"))
        return loop();
    if (!strcmp(what, "threads"))
        return threads();
    if (!strcmp(what, "forks"))
        return forks();
    if (!strcmp(what, "files"))
        return files();
    if (!strcmp(what, "waits"))
        return waits();
    if (!strcmp(what, "deep"))
        return deep(3);
    if (!strcmp(what, "exec"))
        return execl(argv[0], argv[0], "loop", (char *)0);
    if (!strcmp(what, "crash") || !strcmp(what, "abort"))
        return crash(what);
    fprintf(stderr, "usage: subject loop|threads|forks|files|waits|deep|exec|crash|abort\n");
    return 2;
}
