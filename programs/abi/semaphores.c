/* System V semaphores: arrays of operations, who is woken, what is undone, and which errors come. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "common.h"

union semun { int val; struct semid_ds *buf; unsigned short *array; struct seminfo *info; };
#define FAILS(call, error) CHECK((errno = 0, (long)(call) == -1 && errno == (error)))

static int op(int id, int number, int by, int flags) {
    struct sembuf one = { number, by, flags };
    return semop(id, &one, 1);
}

static int value(int id, int number) { return semctl(id, number, GETVAL); }

static int set_to(int id, int number, int to) {
    return semctl(id, number, SETVAL, (union semun){ .val = to });
}

static void keys(void) {
    key_t key = 0x5e90000 + getpid();
    FAILS(semget(key, 1, 0), ENOENT);
    FAILS(semget(key, 0, IPC_CREAT), EINVAL);
    FAILS(semget(key, -1, IPC_CREAT), EINVAL);
    FAILS(semget(key, 32001, IPC_CREAT), EINVAL);
    int id = semget(key, 3, IPC_CREAT | 0600);
    CHECK(id >= 0 && semget(key, 3, 0) == id && semget(key, 0, 0) == id);
    FAILS(semget(key, 4, 0), EINVAL);
    FAILS(semget(key, 3, IPC_CREAT | IPC_EXCL), EEXIST);
    struct semid_ds ds;
    CHECK(semctl(id, 0, IPC_STAT, (union semun){ .buf = &ds }) == 0 && ds.sem_nsems == 3);
    CHECK(ds.sem_otime == 0 && labs(ds.sem_ctime - time(NULL)) < 100 && ds.sem_perm.mode == 0600);
    unsigned short values[3] = { 1, 2, 3 };
    CHECK(semctl(id, 0, SETALL, (union semun){ .array = values }) == 0);
    memset(values, 0, sizeof values);
    CHECK(semctl(id, 0, GETALL, (union semun){ .array = values }) == 0 && values[2] == 3 && values[0] == 1);
    CHECK(value(id, 1) == 2 && semctl(id, 1, GETPID) == getpid());
    values[1] = 40000;
    FAILS(semctl(id, 0, SETALL, (union semun){ .array = values }), ERANGE);
    FAILS(set_to(id, 0, 32768), ERANGE);
    FAILS(set_to(id, 0, -1), ERANGE);
    FAILS(set_to(id, 3, 1), EINVAL);
    FAILS(semctl(id, -1, GETVAL), EINVAL);
    FAILS(semctl(id, 0, GETALL, (union semun){ .array = (void *)8 }), EFAULT);
    FAILS(semctl(id, 0, 77), EINVAL);
    struct seminfo info;
    int highest = semctl(0, 0, SEM_INFO, (union semun){ .info = &info });
    CHECK(highest >= 0 && info.semusz >= 1 && info.semaem >= 3 && info.semvmx == 32767);
    CHECK(semctl(0, 0, IPC_INFO, (union semun){ .info = &info }) == highest && info.semopm == 500);
    int found = 0;
    for (int n = 0; n <= highest; n++)
        found += semctl(n, 0, SEM_STAT, (union semun){ .buf = &ds }) == id;
    CHECK(found == 1);
    ds.sem_perm.mode = 0400;
    CHECK(semctl(id, 0, IPC_SET, (union semun){ .buf = &ds }) == 0);
    CHECK(semctl(id, 0, IPC_RMID) == 0);
    FAILS(op(id, 0, 1, 0), EINVAL);
    FAILS(semctl(id, 0, IPC_RMID), EINVAL);
}

static void operations(void) {
    int id = semget(IPC_PRIVATE, 3, 0600);
    FAILS(op(id, 3, 1, 0), EFBIG);
    FAILS(op(-1, 0, 1, 0), EINVAL);
    FAILS(semop(id, NULL, 0), EINVAL);
    struct sembuf many[501];
    memset(many, 0, sizeof many);
    FAILS(semop(id, many, 501), E2BIG);
    FAILS(semop(id, (void *)8, 1), EFAULT);
    CHECK(semop(id, many, 500) == 0);
    FAILS(op(id, 0, -1, IPC_NOWAIT), EAGAIN);
    CHECK(op(id, 0, 1, 0) == 0);
    FAILS(op(id, 0, 0, IPC_NOWAIT), EAGAIN);
    /* All or none. */
    struct sembuf some[] = { { 0, -1, 0 }, { 1, 5, 0 }, { 2, -1, IPC_NOWAIT } };
    FAILS(semop(id, some, 3), EAGAIN);
    CHECK(value(id, 0) == 1 && value(id, 1) == 0);
    some[2].sem_op = 1;
    CHECK(semop(id, some, 3) == 0 && value(id, 0) == 0 && value(id, 1) == 5 && value(id, 2) == 1);
    struct sembuf same[] = { { 1, -5, 0 }, { 1, 0, 0 }, { 1, 2, 0 } };
    CHECK(semop(id, same, 3) == 0 && value(id, 1) == 2);
    FAILS(op(id, 1, 32766, 0), ERANGE);
    CHECK(op(id, 1, 32765, 0) == 0 && value(id, 1) == 32767);
    struct timespec soon = { 0, 20000000 }, none = { 0, 1000000000 };
    struct sembuf down = { 0, -1, 0 };
    FAILS(semtimedop(id, &down, 1, &soon), EAGAIN);
    FAILS(semtimedop(id, &down, 1, &none), EINVAL);
#if __SIZEOF_LONG__ == 8 /* elsewhere the C library looks at it before */
    FAILS(semtimedop(id, &down, 1, (void *)8), EFAULT);
#endif
    CHECK(semctl(id, 0, GETNCNT) == 0);
    CHECK(semctl(id, 0, IPC_RMID) == 0);
}

static void handler(int number) { (void)number; }

static pid_t waiter(int id, int number, int by) {
    pid_t child = fork();
    if (child == 0) _exit(op(id, number, by, 0) ? errno : 0);
    return child;
}

static int ended(pid_t child) {
    int status = -1;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 999;
}

static void waiting(void) {
    int id = semget(IPC_PRIVATE, 2, 0600);
    pid_t two = waiter(id, 0, -2);
    CHECK(SOON(semctl(id, 0, GETNCNT) == 1));
    pid_t one = waiter(id, 0, -1);
    CHECK(SOON(semctl(id, 0, GETNCNT) == 2));
    /* The one that can go goes, though it came later. */
    CHECK(op(id, 0, 1, 0) == 0 && ended(one) == 0 && semctl(id, 0, GETNCNT) == 1);
    CHECK(op(id, 0, 2, 0) == 0 && ended(two) == 0 && value(id, 0) == 0 && semctl(id, 0, GETPID) == two);
    CHECK(set_to(id, 1, 1) == 0);
    pid_t zero = waiter(id, 1, 0);
    CHECK(SOON(semctl(id, 1, GETZCNT) == 1) && semctl(id, 1, GETNCNT) == 0);
    CHECK(set_to(id, 1, 0) == 0 && ended(zero) == 0);

    /* A killed one leaves nothing. */
    one = waiter(id, 0, -1);
    CHECK(SOON(semctl(id, 0, GETNCNT) == 1));
    kill(one, SIGKILL);
    waitpid(one, NULL, 0);
    CHECK(semctl(id, 0, GETNCNT) == 0 && op(id, 0, 1, 0) == 0 && value(id, 0) == 1);
    CHECK(set_to(id, 0, 0) == 0);

    /* A signal ends the wait, though the handler asks for restarts. */
    one = fork();
    if (one == 0) {
        struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
        sigaction(SIGUSR1, &action, NULL);
        _exit(op(id, 0, -1, 0) ? errno : 0);
    }
    CHECK(SOON(semctl(id, 0, GETNCNT) == 1));
    kill(one, SIGUSR1);
    CHECK(ended(one) == EINTR);

    one = waiter(id, 0, -1), two = waiter(id, 0, -1);
    CHECK(SOON(semctl(id, 0, GETNCNT) == 2));
    CHECK(semctl(id, 0, IPC_RMID) == 0 && ended(one) == EIDRM && ended(two) == EIDRM);
}

static void *undoing(void *id) { return (void *)(long)op(*(int *)id, 0, 3, SEM_UNDO); }
static void *sleeping(void *id) { return (void *)(long)op(*(int *)id, 1, -1, 0); }

static void undone(void) {
    int id = semget(IPC_PRIVATE, 2, 0600);
    CHECK(set_to(id, 0, 5) == 0);
    pid_t child = fork();
    if (child == 0) {
        if (op(id, 0, -3, SEM_UNDO) || op(id, 0, 1, SEM_UNDO)) _exit(1);
        pause();
    }
    CHECK(SOON(value(id, 0) == 3));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    CHECK(value(id, 0) == 5 && semctl(id, 0, GETPID) == child);

    /* It never goes below zero; a set value forgets what was to be undone. */
    child = fork();
    if (child == 0) _exit(op(id, 0, 7, SEM_UNDO) || op(id, 0, -10, 0));
    CHECK(ended(child) == 0 && value(id, 0) == 0);
    child = fork();
    if (child == 0) _exit(op(id, 0, 7, SEM_UNDO) || set_to(id, 0, 9));
    CHECK(ended(child) == 0 && value(id, 0) == 9);
    CHECK(set_to(id, 0, 0) == 0);
    child = fork();
    if (child == 0) _exit(op(id, 0, 32767, SEM_UNDO) || op(id, 0, -32767, 0) || op(id, 0, 1, 0) ||
                          op(id, 0, 2, SEM_UNDO) == 0 || errno != ERANGE);
    CHECK(ended(child) == 0 && value(id, 0) == 0);

    /* What a dead one gives back wakes others. */
    int done[2];
    char byte;
    CHECK(pipe(done) == 0);
    child = fork();
    if (child == 0) {
        if (op(id, 0, 1, 0) || op(id, 0, -1, SEM_UNDO) || write(done[1], "", 1) != 1) _exit(1);
        pause();
    }
    CHECK(read(done[0], &byte, 1) == 1);
    close(done[0]), close(done[1]);
    pid_t other = waiter(id, 0, -1);
    CHECK(SOON(semctl(id, 0, GETNCNT) == 1));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    CHECK(ended(other) == 0 && value(id, 0) == 0);

    /* Threads share: only the last one's end undoes. */
    child = fork();
    if (child == 0) {
        pthread_t first, second;
        void *result;
        pthread_create(&second, NULL, sleeping, &id);
        pthread_create(&first, NULL, undoing, &id);
        pthread_join(first, &result);
        if (result || value(id, 0) != 3 || op(id, 1, 1, 0)) _exit(1);
        if (pthread_join(second, &result) || result) _exit(1);
        _exit(value(id, 0) != 3);
    }
    CHECK(ended(child) == 0 && value(id, 0) == 0);
    child = fork();
    if (child == 0) _exit(op(id, 0, 3, SEM_UNDO) || unshare(CLONE_SYSVSEM) || value(id, 0) != 0);
    CHECK(ended(child) == 0);

    /* Removed meanwhile. */
    child = fork();
    if (child == 0) _exit(op(id, 0, 3, SEM_UNDO) || semctl(id, 0, IPC_RMID));
    CHECK(ended(child) == 0);
}

/* Many processes take and give in pairs, some of them are killed: at the end everything is there again. */
static void storm(void) {
    enum { PROCESSES = 6, ROUNDS = 2000 };
    int id = semget(IPC_PRIVATE, 4, 0600);
    for (int n = 0; n < 3; n++) CHECK(set_to(id, n, 2) == 0);
    pid_t children[PROCESSES];
    for (int n = 0; n < PROCESSES; n++) {
        children[n] = fork();
        if (children[n]) continue;
        for (int i = 0; i < ROUNDS || n == 0; i++) {
            struct sembuf take[] = { { (i + n) % 3, -1, SEM_UNDO }, { (i + n + 1) % 3, -1, SEM_UNDO } };
            struct sembuf give[] = { { (i + n) % 3, 1, SEM_UNDO }, { (i + n + 1) % 3, 1, SEM_UNDO } };
            if (semop(id, take, 2)) _exit(1);
            if (n && op(id, 3, 1, 0)) _exit(2);
            if (semop(id, give, 2)) _exit(3);
        }
        _exit(0);
    }
    pause_ms(5);
    kill(children[0], SIGKILL);
    waitpid(children[0], NULL, 0);
    for (int n = 1; n < PROCESSES; n++) CHECK(ended(children[n]) == 0);
    CHECK(value(id, 0) == 2 && value(id, 1) == 2 && value(id, 2) == 2);
    CHECK(value(id, 3) == (PROCESSES - 1) * ROUNDS);
    CHECK(semctl(id, 0, GETNCNT) == 0 && semctl(id, 0, IPC_RMID) == 0);
}

static void users(void) {
    if (geteuid()) return;
    int id = semget(IPC_PRIVATE, 1, 0604);
    pid_t child = fork();
    if (child == 0) {
        failed = 0;
        CHECK(setgid(1000) == 0 && setuid(1000) == 0);
        CHECK(value(id, 0) == 0 && op(id, 0, 0, 0) == 0);
        FAILS(op(id, 0, 1, 0), EACCES);
        FAILS(set_to(id, 0, 1), EACCES);
        FAILS(semctl(id, 0, IPC_RMID), EPERM);
        _exit(failed);
    }
    CHECK(child_good(child) && semctl(id, 0, IPC_RMID) == 0);
    set("kernel/sem", "10 100 5 2");
    FAILS(semget(IPC_PRIVATE, 11, 0600), EINVAL);
    int first = semget(IPC_PRIVATE, 10, 0600), second = semget(IPC_PRIVATE, 10, 0600);
    CHECK(first >= 0 && second >= 0);
    FAILS(semget(IPC_PRIVATE, 1, 0600), ENOSPC);
    set("kernel/sem", "32000 1024000000 -1 32000");
    int unlimited = semget(IPC_PRIVATE, 1, 0600);
    struct sembuf one = {0, 1, 0};
    CHECK(semop(unlimited, &one, 1) == 0 && semctl(unlimited, 0, IPC_RMID) == 0);
    set("kernel/sem", "32000 1024000000 500 32000");
    CHECK(semctl(first, 0, IPC_RMID) == 0 && semctl(second, 0, IPC_RMID) == 0);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    keys();
    operations();
    waiting();
    undone();
    storm();
    users();
    return report();
}
