/*
 * Futexes at their edges: words that are not mapped or may not be written, private and shared ones at one
 * address, a lock whose owner is just ending, the word that the end of a thread clears. Called by
 * tools/limen/src/test/programs.rs, on every architecture; on Linux it can be run by hand, as root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "common.h"
#include "pages.h"

#ifndef CLONE_CHILD_CLEARTID
#define CLONE_CHILD_CLEARTID 0x00200000
#define CLONE_CHILD_SETTID 0x01000000
#endif

static long futex(void *word, int operation, int value, long other, void *second, int third) {
    return syscall(SYS_futex, word, operation, value, other, second, third);
}

/* A futex word in ordinary memory. */
static char *good;

/*
 * A shared futex word whose page does not exist has no waiters, and nobody can be requeued to it. A private
 * futex is only an address.
 */
static void no_word(int line, char *bad) {
    int before = failed;
    struct timespec none = { 0, 0 };
    long now = (long)&none;
    FAILS(futex(bad, FUTEX_WAKE, 1, 0, NULL, 0), EFAULT);
    FAILS(futex(bad, FUTEX_WAKE_BITSET, 1, 0, NULL, 1), EFAULT);
    FAILS(futex(bad, FUTEX_WAIT, 0, now, NULL, 0), EFAULT);
    FAILS(futex(bad, FUTEX_WAIT_BITSET, 0, now, NULL, 1), EFAULT);
    FAILS(futex(bad, FUTEX_REQUEUE, 1, 1, good, 0), EFAULT);
    FAILS(futex(good, FUTEX_REQUEUE, 1, 1, bad, 0), EFAULT);
    FAILS(futex(bad, FUTEX_CMP_REQUEUE, 1, 1, good, 0), EFAULT);
    FAILS(futex(good, FUTEX_CMP_REQUEUE, 1, 1, bad, 0), EFAULT);
    FAILS(futex(bad, FUTEX_WAKE_OP, 1, 1, good, FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0)), EFAULT);
    FAILS(futex(good, FUTEX_WAKE_OP, 1, 1, bad, FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0)), EFAULT);
    FAILS(futex(bad, FUTEX_TRYLOCK_PI, 0, 0, NULL, 0), EFAULT);
    FAILS(futex(bad, FUTEX_LOCK_PI, 0, now, NULL, 0), EFAULT);
    FAILS(futex(good, FUTEX_WAIT_REQUEUE_PI, 7, now, bad, 0), EFAULT);
    FAILS(futex(bad, FUTEX_CMP_REQUEUE_PI, 1, 1, good, 0), EFAULT);
    FAILS(futex(good, FUTEX_CMP_REQUEUE_PI, 1, 1, bad, 0), EFAULT);
    CHECK(futex(bad, FUTEX_WAKE_PRIVATE, 1, 0, NULL, 0) == 0);
    CHECK(futex(good, FUTEX_REQUEUE_PRIVATE, 1, 1, bad, 0) == 0);
    CHECK(futex(good, FUTEX_CMP_REQUEUE_PRIVATE, 1, 1, bad, 0) == 0);
    if (failed != before) printf("  with the word of line %d\n", line);
}

/*
 * Condition and lock of the three functions below. The lock is robust, and its owner ends while it holds it.
 */
static unsigned *condition;
static pthread_mutex_t dying;
static volatile int waiter_there, end_owner, lock_held;

static void *waits_for_lock(void *unused) {
    (void)unused;
    waiter_there = syscall(SYS_gettid);
    long result = futex(condition, FUTEX_WAIT_REQUEUE_PI, 0, 0, &dying, 0);
    if (result != 0) return (void *)(long)errno;
    unsigned word = *(volatile unsigned *)&dying;
    if ((word & FUTEX_TID_MASK) != (unsigned)syscall(SYS_gettid)) return (void *)(long)1000;
    return (void *)(long)(futex(&dying, FUTEX_UNLOCK_PI, 0, 0, NULL, 0) == 0 ? 0 : errno);
}

static void *ends_with_lock(void *unused) {
    pthread_mutex_lock(&dying);
    lock_held = 1;
    while (!end_owner) sched_yield();
    return unused;
}

/*
 * A waiter is requeued to a lock whose owner is just ending: it gets the lock at once, or waits and gets it
 * then.
 */
static void moved_to_dying(void) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    condition = (unsigned *)zeros(1, PROT_READ | PROT_WRITE, MAP_SHARED);
    int bad = 0;
    for (int round = 0; round < 300 && bad == 0; round++) {
        pthread_t owner, waiter;
        void *result;
        pthread_mutex_init(&dying, &attributes);
        waiter_there = end_owner = lock_held = 0;
        CHECK(pthread_create(&owner, NULL, ends_with_lock, NULL) == 0);
        CHECK(pthread_create(&waiter, NULL, waits_for_lock, NULL) == 0);
        while (!lock_held || !waiter_there) sched_yield();
        end_owner = 1;
        for (volatile int i = 0; i < round * 100; i++) {}
        for (;;) {
            long moved = futex(condition, FUTEX_CMP_REQUEUE_PI, 1, 1, &dying, 0);
            if (moved == 1) break;
            /* The waiter does not sleep yet. */
            if (moved == 0) sched_yield();
            else {
                bad++;
                printf("round %d: %ld, %s\n", round, moved, strerror(errno));
                if (bad > 3) _exit(1);
            }
        }
        pthread_join(owner, NULL);
        pthread_join(waiter, &result);
        if (result != NULL) {
            bad++;
            printf("round %d: the waiter %ld\n", round, (long)result);
        }
    }
    CHECK(bad == 0);
}

/* A read-only word works for operations that only read it. */
static void only_read(int line, char *word) {
    int before = failed;
    CHECK(futex(word, FUTEX_WAKE, 1, 0, NULL, 0) == 0);
    FAILS(futex(word, FUTEX_WAIT, 7, 0, NULL, 0), EAGAIN);
    CHECK(futex(good, FUTEX_REQUEUE, 1, 1, word, 0) == 0);
    CHECK(futex(word, FUTEX_CMP_REQUEUE, 1, 1, good, 0) == 0);
    FAILS(futex(good, FUTEX_WAKE_OP, 1, 1, word, FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0)), EFAULT);
    FAILS(futex(word, FUTEX_TRYLOCK_PI, 0, 0, NULL, 0), EFAULT);
    FAILS(futex(word, FUTEX_UNLOCK_PI, 0, 0, NULL, 0), EPERM);
    FAILS(futex(good, FUTEX_WAIT_REQUEUE_PI, 7, 0, word, 0), EFAULT);
    FAILS(futex(good, FUTEX_CMP_REQUEUE_PI, 1, 1, word, 0), EFAULT);
    if (failed != before) printf("  with the word of line %d\n", line);
}

static void futex_words(void) {
    good = zeros(1, PROT_READ | PROT_WRITE, MAP_SHARED);
    char *at = zeros(1, PROT_READ | PROT_WRITE, MAP_SHARED);
    CHECK(munmap(at, page) == 0);
    no_word(__LINE__, at);
    no_word(__LINE__, zeros(1, PROT_NONE, MAP_SHARED));
    no_word(__LINE__, zeros(1, PROT_NONE, MAP_PRIVATE));
    int file = memory_file(1);
    at = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(at != MAP_FAILED);
    no_word(__LINE__, at + page);
    CHECK(ftruncate(file, 0) == 0);
    no_word(__LINE__, at);
    CHECK(ftruncate(file, page) == 0);
    at = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    no_word(__LINE__, at + page);
    only_read(__LINE__, mmap(NULL, page, PROT_READ, MAP_SHARED, file, 0));
    only_read(__LINE__, mmap(NULL, page, PROT_READ, MAP_PRIVATE, file, 0));
    only_read(__LINE__, zeros(1, PROT_READ, MAP_SHARED));
    /* A shared wake needs a word that somebody could change. */
    at = zeros(1, PROT_READ, MAP_PRIVATE);
    FAILS(futex(at, FUTEX_WAKE, 1, 0, NULL, 0), EFAULT);
    FAILS(futex(at, FUTEX_WAIT, 7, 0, NULL, 0), EFAULT);
    CHECK(futex(at, FUTEX_WAKE_PRIVATE, 1, 0, NULL, 0) == 0);
    /* An unknown comparison is found last, after the word was changed; an unknown operation before. */
    int *words = (int *)zeros(1, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    FAILS(futex(words, FUTEX_WAKE_OP, 1, 1, words + 1, FUTEX_OP(FUTEX_OP_SET, 5, 9, 0)), ENOSYS);
    CHECK(words[1] == 5);
    FAILS(futex(words, FUTEX_WAKE_OP, 1, 1, words + 1, FUTEX_OP(6, 1, FUTEX_OP_CMP_EQ, 0)), ENOSYS);
    FAILS(futex(NULL, FUTEX_WAKE_OP, 1, 1, words + 1, FUTEX_OP(6, 1, FUTEX_OP_CMP_EQ, 0)), EFAULT);
    close(file);
}

static int waiter_flag;
static pid_t waiter_tid;

static void *wait_a_while(void *word) {
    struct timespec while_ = { 10, 0 };
    __atomic_store_n(&waiter_tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    return (void *)futex(word, FUTEX_WAIT | waiter_flag, 0, (long)&while_, NULL, 0);
}

/* A private and a shared futex at the same address are different ones. */
static void two_futexes(void) {
    int *word = (int *)zeros(1, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        void *result;
        waiter_flag = i ? FUTEX_PRIVATE_FLAG : 0;
        waiter_tid = 0;
        CHECK(pthread_create(&thread, NULL, wait_a_while, word) == 0);
        CHECK(SOON(__atomic_load_n(&waiter_tid, __ATOMIC_ACQUIRE) && thread_state(waiter_tid) == 'S'));
        CHECK(futex(word, FUTEX_WAKE | (waiter_flag ^ FUTEX_PRIVATE_FLAG), 1, 0, NULL, 0) == 0);
        CHECK(futex(word, FUTEX_WAKE | waiter_flag, 1, 0, NULL, 0) == 1);
        pthread_join(thread, &result);
        CHECK((long)result == 0);
    }
}

/* With CLONE_CHILD_CLEARTID, a process whose memory is not shared does not write the word when it ends. */
static void last_word(void) {
    volatile int *word = (int *)zeros(1, PROT_READ | PROT_WRITE, MAP_SHARED);
    unsigned long flags = SIGCHLD | CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID;
#ifdef __x86_64__
    long child = syscall(SYS_clone, flags, 0, 0, word, 0);
#else
    long child = syscall(SYS_clone, flags, 0, 0, 0, word);
#endif
    if (child == 0) _exit(0);
    CHECK(child > 0 && waitpid(child, NULL, 0) == child && *word == child);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    page = sysconf(_SC_PAGESIZE);
    futex_words();
    two_futexes();
    moved_to_dying();
    last_word();
    return report();
}
