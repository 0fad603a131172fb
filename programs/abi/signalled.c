/*
 * Signals: which process gets those about files (O_ASYNC), which thread takes one, how many are queued for a
 * user and for a timer, which end of a process the log reports, what a leader that has ended and a process
 * that is stopping take. Called by tools/limen/src/test/programs.rs, on every architecture; on Linux it can
 * be run by hand, as root, in an empty folder.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "common.h"

/* --- O_ASYNC --- */

static volatile sig_atomic_t signals;
static siginfo_t last;
static void note(int sig, siginfo_t *info, void *context) {
    (void)sig, (void)context;
    signals++;
    last = *info;
}

#define SIG (SIGRTMIN + 3)
static void catch(int sig) {
    struct sigaction action = { .sa_sigaction = note, .sa_flags = SA_SIGINFO };
    sigaction(sig, &action, NULL);
}

/* Turns O_ASYNC on; returns whether it is on. */
static int turn_on(int fd, int sig) {
    catch(SIGIO), catch(SIG);
    fcntl(fd, F_SETOWN, getpid());
    fcntl(fd, F_SETSIG, sig);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC | O_NONBLOCK);
    signals = 0;
    return !!(fcntl(fd, F_GETFL) & O_ASYNC);
}

/* Whether the last signal had these values for `fd`. Signals are taken when a system call returns. */
static int told(int fd, int code, long band) {
    for (int i = 0; i < 100 && signals == 0; i++) pause_ms(5);
    int good = signals >= 1 && last.si_code == code && last.si_band == band && last.si_fd == fd;
    signals = 0;
    return good;
}

#define IN_BAND (POLLIN | POLLRDNORM)
#define OUT_BAND (POLLOUT | POLLWRNORM | POLLWRBAND)
#define HUP_BAND (POLLHUP | POLLERR)

static void signals_of_files(void) {
    int ends[2], other[2];
    char bytes[4096] = { 0 };
    CHECK(pipe(ends) == 0);
    CHECK(turn_on(ends[0], SIG) && write(ends[1], "x", 1) == 1 && told(ends[0], POLL_IN, IN_BAND));
    CHECK(turn_on(ends[1], SIG) && read(ends[0], bytes, 1) == 1 && told(ends[1], POLL_OUT, OUT_BAND));
    fcntl(ends[0], F_SETSIG, 0);
    CHECK(write(ends[1], "x", 1) == 1 && signals >= 1 && last.si_signo == SIGIO && last.si_code == SI_KERNEL);
    fcntl(ends[0], F_SETSIG, SIG);
    signals = 0;
    close(ends[1]);
    CHECK(told(ends[0], POLL_IN, IN_BAND));
    close(ends[0]);
    CHECK(pipe(ends) == 0 && turn_on(ends[1], SIG));
    close(ends[0]);
    CHECK(told(ends[1], POLL_OUT, OUT_BAND));
    close(ends[1]);
    /* A FIFO; and what splice moves. */
    CHECK(mkfifo("fifo", 0600) == 0);
    int fifo = open("fifo", O_RDWR | O_NONBLOCK);
    CHECK(turn_on(fifo, SIG) && write(fifo, "x", 1) == 1 && told(fifo, POLL_IN, IN_BAND));
    CHECK(pipe(ends) == 0 && turn_on(ends[0], SIG));
    CHECK(splice(fifo, NULL, ends[1], NULL, 1, 0) == 1 && signals >= 1);
    close(fifo), close(ends[0]), close(ends[1]);
    /* O_ASYNC in open only sets the flag. */
    fifo = open("fifo", O_RDWR | O_NONBLOCK | O_ASYNC);
    fcntl(fifo, F_SETOWN, getpid());
    signals = 0;
    CHECK(fcntl(fifo, F_GETFL) & O_ASYNC);
    CHECK(write(fifo, "x", 1) == 1 && signals == 0);
    close(fifo);
    /* Sockets. */
    for (int type = SOCK_STREAM; type <= SOCK_SEQPACKET; type++) {
        if (type > SOCK_DGRAM && type < SOCK_SEQPACKET) continue;
        CHECK(socketpair(AF_UNIX, type, 0, ends) == 0 && turn_on(ends[0], SIG));
        CHECK(write(ends[1], "x", 1) == 1 && told(ends[0], POLL_IN, IN_BAND) && read(ends[0], bytes, 1) == 1);
        while (write(ends[0], bytes, sizeof bytes) > 0) {}
        signals = 0;
        fcntl(ends[1], F_SETFL, O_NONBLOCK);
        while (read(ends[1], bytes, sizeof bytes) > 0) {}
        CHECK(told(ends[0], POLL_OUT, OUT_BAND));
        if (type != SOCK_DGRAM) {
            CHECK(shutdown(ends[1], SHUT_WR) == 0 && told(ends[0], POLL_IN, IN_BAND));
            close(ends[1]);
            CHECK(told(ends[0], POLL_HUP, HUP_BAND));
        } else close(ends[1]);
        close(ends[0]);
    }
    struct sockaddr_un name = { AF_UNIX, "" };
    memcpy(name.sun_path, "\0async", 6);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(listener, (void *)&name, 8) == 0 && listen(listener, 1) == 0 && turn_on(listener, SIG));
    CHECK(connect(client, (void *)&name, 8) == 0 && told(listener, POLL_IN, IN_BAND));
    int id = getpid(), got = 0;
    CHECK(ioctl(client, 0x8901, &id) == 0 && ioctl(client, 0x8903, &got) == 0 && got == id);
    CHECK(fcntl(client, F_GETOWN) == id);
    close(listener), close(client);
    /* inotify and terminals. */
    int watch = inotify_init1(IN_NONBLOCK);
    inotify_add_watch(watch, ".", IN_CREATE);
    CHECK(turn_on(watch, SIG) && mkdir("made", 0700) == 0 && told(watch, POLL_IN, IN_BAND) &&
          rmdir("made") == 0);
    close(watch);
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK), zero = 0, number;
    char path[32];
    ioctl(master, TIOCSPTLCK, &zero), ioctl(master, TIOCGPTN, &number);
    snprintf(path, sizeof path, "/dev/pts/%d", number);
    int slave = open(path, O_RDWR | O_NOCTTY | O_NONBLOCK);
    struct termios raw;
    tcgetattr(slave, &raw), cfmakeraw(&raw), tcsetattr(slave, TCSANOW, &raw);
    CHECK(turn_on(slave, SIG) && write(master, "x", 1) == 1 && told(slave, POLL_IN, IN_BAND));
    CHECK(turn_on(master, SIG) && write(slave, "x", 1) == 1 && told(master, POLL_IN, IN_BAND));
    close(slave), close(master);
    /* Files that do not support O_ASYNC. */
    int on = 1, none[] = {eventfd(0, 0), epoll_create1(0), open("/dev/null", O_RDWR), open(".", O_RDONLY),
                          open("/proc/version", O_RDONLY)};
    for (int i = 0; i < 5; i++) {
        CHECK(!turn_on(none[i], SIG) && ioctl(none[i], FIOASYNC, &on) == -1 && errno == ENOTTY);
        close(none[i]);
    }
    int random = open("/dev/random", O_RDONLY);
    CHECK(turn_on(random, SIG));
    close(random);
    /* si_fd is the descriptor on which it was turned on, while any descriptor of the file is open. */
    CHECK(pipe(ends) == 0);
    int copy = fcntl(ends[0], F_DUPFD, 100);
    CHECK(turn_on(copy, SIG));
    close(copy);
    CHECK(turn_on(ends[0], SIG) && write(ends[1], "x", 1) == 1 && told(copy, POLL_IN, IN_BAND));
    fcntl(ends[0], F_SETFL, 0);
    CHECK(write(ends[1], "x", 1) == 1 && signals == 0);
    /* Owners: one that ended, a group, a thread; signals with other codes; other users. */
    struct f_owner_ex owner = { F_OWNER_PGRP, getpgrp() };
    CHECK(pipe(other) == 0 && fcntl(other[0], F_GETOWN_EX, &owner) == 0 && owner.type == F_OWNER_TID &&
          owner.pid == 0);
    owner = (struct f_owner_ex){ F_OWNER_PGRP, -5 };
    CHECK(fcntl(other[0], F_SETOWN_EX, &owner) == -1 && errno == ESRCH);
    owner.type = 7;
    CHECK(fcntl(other[0], F_SETOWN_EX, &owner) == -1 && errno == EINVAL);
    pid_t child = fork();
    if (child == 0) _exit(0);
    CHECK(fcntl(other[0], F_SETOWN, child) == 0 && fcntl(other[0], F_GETOWN) == child);
    CHECK(child_good(child) && fcntl(other[0], F_GETOWN) == 0);
    catch(SIGCHLD);
    CHECK(turn_on(other[0], SIGCHLD) && write(other[1], "x", 1) == 1 && signals == 1);
    CHECK(last.si_code == SI_SIGIO && last.si_fd == other[0]);
    signal(SIGCHLD, SIG_DFL);
    owner = (struct f_owner_ex){ F_OWNER_TID, getpid() };
    CHECK(fcntl(other[0], F_SETOWN_EX, &owner) == 0 && fcntl(other[0], F_SETSIG, SIG) == 0);
    CHECK(write(other[1], "x", 1) == 1 && told(other[0], POLL_IN, IN_BAND));
    child = fork();
    if (child == 0) {
        /* A user may make a process the owner that he may not signal. */
        if (setuid(1000) != 0 || fcntl(other[0], F_SETOWN, getppid()) != 0) _exit(1);
        _exit(write(other[1], "x", 1) != 1);
    }
    CHECK(child_good(child) && signals == 0);
    close(ends[0]), close(ends[1]), close(other[0]), close(other[1]);
    unlink("fifo");
}

/* --- What is queued for a user --- */

static int thread_id, thread_may_go;
static void *has_an_id(void *unused) {
    (void)unused;
    __atomic_store_n(&thread_id, syscall(SYS_gettid), __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&thread_may_go, __ATOMIC_SEQ_CST)) pause_ms(1);
    return NULL;
}

static int queue_raw(int call, int id, int sig, int code) {
    siginfo_t info = { 0 };
    info.si_signo = sig, info.si_code = code;
    return call == SYS_rt_tgsigqueueinfo ? syscall(call, getpid(), id, sig, &info)
                                         : syscall(call, id, sig, &info);
}

static void queued_signals(void) {
    pid_t child = fork();
    if (child == 0) {
        failed = 0;
        struct rlimit limit = { 5, 5 };
        union sigval value = { 0 };
        sigset_t set;
        int good = 0;
        timer_t timer;
        sigfillset(&set), sigprocmask(SIG_BLOCK, &set, NULL);
        CHECK(setuid(12345) == 0 && setrlimit(RLIMIT_SIGPENDING, &limit) == 0);
        for (int i = 0; i < 8; i++) good += sigqueue(getpid(), SIG, value) == 0;
        CHECK(good == 5 && errno == EAGAIN);
        CHECK(kill(getpid(), SIG + 1) == 0 && sigqueue(getpid(), SIGUSR1, value) == 0 &&
              kill(getpid(), SIGUSR2) == 0);
        CHECK(syscall(SYS_tgkill, getpid(), getpid(), SIG + 2) == -1 && errno == EAGAIN);
        CHECK(timer_create(CLOCK_MONOTONIC, NULL, &timer) == -1 && errno == EAGAIN);
        sigpending(&set);
        CHECK(sigismember(&set, SIG + 1) && sigismember(&set, SIGUSR1) && !sigismember(&set, SIG + 2));
        /*
         * Another process of the user has no room either, until signals are taken. SIGUSR2 is counted, though
         * beyond the limit.
         */
        pid_t other = fork();
        if (other == 0) _exit(sigqueue(getpid(), SIG, value) == -1 && errno == EAGAIN ? 0 : 1);
        CHECK(child_good(other));
        /* The SIGCHLD of the child that ended is counted, too. */
        sigemptyset(&set), sigaddset(&set, SIG);
        struct timespec now = { 0, 0 };
        for (int i = 0; i < 5; i++) CHECK(sigtimedwait(&set, NULL, &now) == SIG);
        CHECK(sigtimedwait(&set, NULL, &now) == -1 && errno == EAGAIN && sigqueue(getpid(), SIG, value) == 0);
        CHECK(timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0);
        limit.rlim_cur = 0;
        CHECK(setrlimit(RLIMIT_SIGPENDING, &limit) == 0 && sigqueue(getpid(), SIG + 3, value) == -1 &&
              errno == EAGAIN);
        _exit(failed);
    }
    CHECK(child_good(child));
    pthread_t thread;
    pthread_create(&thread, NULL, has_an_id, NULL);
    while (!__atomic_load_n(&thread_id, __ATOMIC_SEQ_CST)) pause_ms(1);
    catch(SIG);
    signals = 0;
    /*
     * A thread's id stands for its process. Only the calling thread itself may get codes that others must not
     * send.
     */
    CHECK(kill(thread_id, 0) == 0 && queue_raw(SYS_rt_sigqueueinfo, thread_id, SIG, SI_QUEUE) == 0);
    CHECK(queue_raw(SYS_rt_sigqueueinfo, thread_id, SIG, SI_TKILL) == -1 && errno == EPERM);
    CHECK(queue_raw(SYS_rt_sigqueueinfo, getpid(), SIG, SI_TKILL) == 0);
    CHECK(queue_raw(SYS_rt_tgsigqueueinfo, thread_id, SIG, SI_USER) == -1 && errno == EPERM);
    CHECK(queue_raw(SYS_rt_tgsigqueueinfo, getpid(), SIG, SI_USER) == 0);
    CHECK(queue_raw(SYS_rt_tgsigqueueinfo, -1, SIG, SI_USER) == -1 && errno == EINVAL);
    pause_ms(5);
    CHECK(signals == 3);
    int fd = syscall(SYS_pidfd_open, getppid(), 0);
    siginfo_t info = { 0 };
    info.si_signo = SIG, info.si_code = SI_USER;
    CHECK(syscall(SYS_pidfd_send_signal, fd, SIG + 1, &info, 0) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_pidfd_send_signal, fd, SIG, &info, 0) == -1 && errno == EPERM);
    close(fd);
    __atomic_store_n(&thread_may_go, 1, __ATOMIC_SEQ_CST);
    pthread_join(thread, NULL);
}

/* --- Which thread takes a signal --- */

/*
 * A signal for the process that the thread chosen for it does not take after all wakes another: here two wait
 * for the same signal by call, and two sleep of which the first has the second signal blocked while it
 * handles the first one. All share a processor, and who sends goes before, so that both signals come before
 * either runs.
 */
static atomic_int taken, released, in_time;
static void *take_one(void *set) {
    struct timespec long_time = {10, 0};
    if (sigtimedwait(set, NULL, &long_time) == SIGRTMIN) taken++;
    return NULL;
}
static void wait_for_release(int sig) {
    (void)sig;
    for (int tries = 0; tries < 5000 && !released; tries++) usleep(1000);
    in_time = released;
}
static void release(int sig) {
    (void)sig;
    released = 1;
}
static void *sleep_once(void *unused) {
    struct timespec long_time = {10, 0};
    nanosleep(&long_time, NULL);
    return unused;
}
static void both(int first, int second) {
    struct sched_param high = {1}, normal = {0};
    sched_setscheduler(0, SCHED_FIFO, &high);
    CHECK(kill(getpid(), first) == 0 && kill(getpid(), second) == 0);
    sched_setscheduler(0, SCHED_OTHER, &normal);
}
static void handed_on(void) {
    cpu_set_t all, first;
    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    sched_setaffinity(0, sizeof first, &first);
    sigset_t real_time, two;
    pthread_t threads[2];
    sigemptyset(&real_time);
    sigaddset(&real_time, SIGRTMIN);
    pthread_sigmask(SIG_BLOCK, &real_time, NULL);
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, take_one, &real_time) == 0);
    usleep(50000);
    both(SIGRTMIN, SIGRTMIN);
    for (int tries = 0; tries < 5000 && taken < 2; tries++) usleep(1000);
    CHECK(taken == 2);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);

    struct sigaction waits = {.sa_handler = wait_for_release}, releases = {.sa_handler = release};
    sigaddset(&waits.sa_mask, SIGUSR2);
    sigaction(SIGUSR1, &waits, NULL);
    sigaction(SIGUSR2, &releases, NULL);
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, sleep_once, NULL) == 0);
    sigemptyset(&two);
    sigaddset(&two, SIGUSR1);
    sigaddset(&two, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &two, NULL);
    usleep(50000);
    both(SIGUSR1, SIGUSR2);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    CHECK(in_time);
    pthread_sigmask(SIG_UNBLOCK, &two, NULL);
    sched_setaffinity(0, sizeof all, &all);
}

/* --- Timers that repeat --- */

/*
 * A periodic timer has at most one signal queued, with the number of expiries since; the next one is queued
 * after that was taken.
 */
static int expiries, overruns;
static void count_expiry(int sig, siginfo_t *info, void *context) {
    (void)sig, (void)context;
    expiries++;
    overruns += info->si_overrun;
}
static void repeating_timers(void) {
    struct sigevent event = {
        .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1, .sigev_value.sival_int = 7};
    struct itimerspec often = {{0, 1000000}, {0, 1000000}}, off = {{0, 0}, {0, 0}}, left;
    struct timespec at_once = {0, 0}, moment = {0, 50000000}, soon = {1, 0};
    struct sigaction counts = {.sa_sigaction = count_expiry, .sa_flags = SA_SIGINFO},
                     ignore = {.sa_handler = SIG_IGN};
    sigset_t set;
    siginfo_t info;
    timer_t timer, other;
    on_one(1);
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &often, NULL) == 0);
    nanosleep(&moment, NULL);
    CHECK(timer_getoverrun(timer) == 0);
    CHECK(sigtimedwait(&set, &info, &at_once) == SIGRTMIN + 1 && info.si_code == SI_TIMER &&
          info.si_value.sival_int == 7 && info.si_errno == 0);
    CHECK(info.si_overrun >= 30 && timer_getoverrun(timer) == info.si_overrun);
    CHECK(timer_gettime(timer, &left) == 0 && left.it_value.tv_nsec > 0 && left.it_value.tv_nsec <= 1000000 &&
          left.it_interval.tv_nsec == 1000000);
    CHECK(sigtimedwait(&set, &info, &soon) == SIGRTMIN + 1 && timer_settime(timer, 0, &off, NULL) == 0);
    while (sigtimedwait(&set, &info, &at_once) > 0) continue;
    /* Set again while its signal is queued: still one. */
    often.it_interval.tv_nsec = 0;
    for (int i = 0; i < 3; i++) {
        CHECK(timer_settime(timer, 0, &often, NULL) == 0);
        nanosleep(&moment, NULL);
    }
    CHECK(sigtimedwait(&set, &info, &at_once) == SIGRTMIN + 1 && sigtimedwait(&set, &info, &at_once) == -1 &&
          errno == EAGAIN);
    CHECK(timer_settime(timer, 0, &often, NULL) == 0 && sigtimedwait(&set, &info, &soon) == SIGRTMIN + 1 &&
          info.si_overrun == 0);
    /* Two timers have one signal each, also of an ordinary signal; ignoring the signal stops neither. */
    event.sigev_signo = SIGUSR1;
    often.it_interval.tv_nsec = often.it_value.tv_nsec = 500000;
    sigaction(SIGUSR1, &counts, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    timer_delete(timer);
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 &&
          timer_create(CLOCK_REALTIME, &event, &other) == 0);
    CHECK(timer_settime(timer, 0, &often, NULL) == 0 && timer_settime(other, 0, &often, NULL) == 0);
    nanosleep(&moment, NULL);
    CHECK(sigtimedwait(&set, &info, &at_once) == SIGUSR1 && sigtimedwait(&set, &info, &at_once) == SIGUSR1);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    while (nanosleep(&moment, &moment) != 0) continue;
    CHECK(expiries >= 2 && expiries + overruns >= 100);
    moment = (struct timespec){0, 50000000};
    sigprocmask(SIG_BLOCK, &set, NULL);
    nanosleep(&moment, NULL);
    sigaction(SIGUSR1, &ignore, NULL);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    nanosleep(&moment, NULL);
    timer_settime(other, 0, &often, NULL);
    nanosleep(&moment, NULL);
    expiries = 0;
    sigaction(SIGUSR1, &counts, NULL);
    nanosleep(&moment, NULL);
    CHECK(expiries > 0);
    timer_delete(timer);
    timer_delete(other);
    /* An interval timer (setitimer) also continues when its signal is taken. */
    struct itimerval quick = {{0, 1000}, {0, 1000}}, none = {{0, 0}, {0, 0}}, now;
    sigaddset(&set, SIGALRM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    CHECK(setitimer(ITIMER_REAL, &quick, NULL) == 0);
    for (int i = 0; i < 5; i++)
        CHECK(sigtimedwait(&set, &info, &soon) == SIGALRM && info.si_code == SI_KERNEL && info.si_errno == 0);
    CHECK(getitimer(ITIMER_REAL, &now) == 0 && now.it_interval.tv_usec == 1000 &&
          setitimer(ITIMER_REAL, &none, NULL) == 0);
    while (sigtimedwait(&set, &info, &at_once) > 0) continue;
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    on_one(0);
}

/* --- What the log says --- */

/* The log reports signals that end a process because of an error in it, unless the process handles them. */
static int said_of(int sig, void (*handler)(int)) {
    static char log[1 << 18];
    char line[64];
    snprintf(line, sizeof line, "potentially unexpected fatal signal %d", sig);
    klogctl(5, NULL, 0);
    pid_t child = fork();
    if (child == 0) {
        signal(sig, handler);
        raise(sig);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    int length = klogctl(3, log, sizeof log - 1);
    log[length < 0 ? 0 : length] = 0;
    return strstr(log, line) != NULL;
}
static void nothing(int sig) {
    (void)sig;
}
static void fatal_signals(void) {
    CHECK(!said_of(SIGSEGV, SIG_DFL));
    set("kernel/print-fatal-signals", "1");
    CHECK(said_of(SIGSEGV, SIG_DFL) && said_of(SIGABRT, SIG_DFL));
    CHECK(!said_of(SIGBUS, nothing) && !said_of(SIGTERM, SIG_DFL) && !said_of(SIGKILL, SIG_DFL));
    set("kernel/print-fatal-signals", "0");
    CHECK(!said_of(SIGILL, SIG_DFL));
}

/* --- A timer that is off has sent its signal --- */

static volatile sig_atomic_t heard;
static void hear(int sig) {
    (void)sig;
    heard++;
}

static void go_to(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
}

/* A timer of either kind, by `setitimer` or `timer_settime`; 0: it is turned off. */
static timer_t timer;
static void set_timer(int posix, long ns) {
    struct itimerval value = { .it_value.tv_usec = ns / 1000 };
    struct itimerspec value_posix = { .it_value.tv_nsec = ns };
    CHECK((posix ? timer_settime(timer, 0, &value_posix, NULL) : setitimer(ITIMER_REAL, &value, NULL)) == 0);
}
/* It expires on the CPU on which it was set, and is asked for, or turned off, on another. (Linux's
   ITIMER_REAL may look as if it were off a moment too early.) */
static void off_means_sent(void) {
    struct sigaction action = { .sa_handler = hear }, before;
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM };
    struct itimerspec left;
    cpu_set_t all;
    int late = 0;
    CHECK(sigaction(SIGALRM, &action, &before) == 0 && timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
    for (int i = 0; i < 300; i++) {
        go_to(0);
        heard = 0;
        set_timer(1, 100000);
        go_to(1);
        while (timer_gettime(timer, &left) == 0 && left.it_value.tv_nsec != 0) {}
        late += heard != 1;
        for (int tries = 0; tries < 1000 && heard != 1; tries++) pause_ms(1);
    }
    CHECK(late == 0 && heard == 1);
    for (int i = 0; i < 600; i++) {
        go_to(0);
        set_timer(i % 2, 100000);
        go_to(1);
        for (volatile int wait = i * 20; wait > 0; wait--) {}
        set_timer(i % 2, 0);
        int so_far = heard;
        for (volatile int wait = 3000; wait > 0; wait--) {}
        getppid();
        late += heard != so_far;
    }
    CHECK(late == 0 && timer_delete(timer) == 0);
    sched_setaffinity(0, sizeof all, &all);
    sigaction(SIGALRM, &before, NULL);
}

/* --- Signals for a leader that has ended, and for a process that is stopping --- */

static void *outlives(void *argument) {
    while (pause() != 0);
    return argument;
}

/* A process whose leader has ended and whose other thread lives. */
static pid_t without_leader(void) {
    char state[64] = { 0 }, name[64];
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, outlives, NULL) == 0) syscall(SYS_exit, 0);
        _exit(1);
    }
    snprintf(name, sizeof name, "/proc/%d/stat", child);
    for (int i = 0; i < 200 && !strstr(state, ") Z "); i++) {
        pause_ms(10);
        int fd = open(name, O_RDONLY);
        if (fd < 0 || read(fd, state, sizeof state - 1) < 0) break;
        close(fd);
    }
    CHECK(strstr(state, ") Z ") != NULL);
    return child;
}

/* Whether the child's next change within two seconds is this one. */
static int changes(pid_t child, int flags, int code, int value) {
    siginfo_t info = { 0 };
    for (int i = 0; i < 200 && info.si_pid == 0; i++) {
        if (waitid(P_PID, child, &info, flags | WNOHANG) != 0) return 0;
        if (info.si_pid == 0) pause_ms(10);
    }
    return info.si_pid == child && info.si_code == code && info.si_status == value;
}

/* As long as nobody has waited for it, the leader can be sent signals. */
static void takes_signals(pid_t leader) {
    siginfo_t info = { .si_code = SI_QUEUE };
    for (int sig = 0; sig < 2; sig++) {
        int number = sig ? SIGKILL : 0;
        CHECK(syscall(SYS_tgkill, leader, leader, number) == 0 && syscall(SYS_tkill, leader, number) == 0);
        info.si_signo = number;
        CHECK(syscall(SYS_rt_tgsigqueueinfo, leader, leader, number, &info) == 0);
    }
    CHECK(syscall(SYS_tgkill, leader, leader, 65) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_tgkill, leader + 1, leader, 0) == -1 && errno == ESRCH);
    pid_t stranger = fork();
    if (stranger == 0) {
        if (setresuid(1, 1, 1) != 0) _exit(2);
        _exit(syscall(SYS_tgkill, leader, leader, 0) == -1 && errno == EPERM ? 0 : 1);
    }
    CHECK(child_good(stranger));
}

static void ended_leaders(void) {
    pid_t child = without_leader();
    takes_signals(child);
    /* What stops or continues the whole process still does; a stop signal has to be taken by somebody. */
    CHECK(syscall(SYS_tgkill, child, child, SIGSTOP) == 0 && kill(child, SIGSTOP) == 0);
    CHECK(changes(child, WSTOPPED, CLD_STOPPED, SIGSTOP));
    CHECK(syscall(SYS_tgkill, child, child, SIGCONT) == 0);
    CHECK(changes(child, WCONTINUED, CLD_CONTINUED, SIGCONT));
    kill(child, SIGKILL);
    CHECK(changes(child, WEXITED | WNOWAIT, CLD_KILLED, SIGKILL));
    takes_signals(child);
    CHECK(waitpid(child, NULL, 0) == child);
    CHECK(syscall(SYS_tgkill, child, child, 0) == -1 && errno == ESRCH);
    child = fork();
    if (child == 0) _exit(0);
    CHECK(changes(child, WEXITED | WNOWAIT, CLD_EXITED, 0));
    takes_signals(child);
    CHECK(waitpid(child, NULL, 0) == child);
}

static int forked[2], go_on[2];

static void *waits_for_child(void *unused) {
    char byte;
    if (vfork() == 0) _exit(write(forked[1], "x", 1) != 1 || read(go_on[0], &byte, 1) != 1);
    return unused;
}

/* A process continues before all its threads have stopped: one of them waits for its child in vfork. */
static void continued_early(void) {
    sigset_t set;
    siginfo_t info = { 0 };
    struct timespec most = { 10, 0 }, none = { 0, 0 };
    char byte;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    CHECK(pipe(forked) == 0 && pipe(go_on) == 0);
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, waits_for_child, NULL);
        for (;;) pause();
    }
    CHECK(read(forked[0], &byte, 1) == 1);
    kill(child, SIGSTOP);
    CHECK(SOON(thread_state(child) == 'T'));
    pause_ms(50);
    CHECK(waitid(P_PID, child, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid == 0);
    CHECK(sigtimedwait(&set, &info, &none) == -1 && errno == EAGAIN);
    kill(child, SIGCONT);
    /* The signal tells of the stop, which nothing caused. */
    CHECK(sigtimedwait(&set, &info, &most) == SIGCHLD && info.si_pid == child);
    CHECK(info.si_code == CLD_STOPPED && info.si_status == 0);
    info.si_pid = 0;
    CHECK(waitid(P_PID, child, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid == 0);
    CHECK(changes(child, WCONTINUED, CLD_CONTINUED, SIGCONT));
    CHECK(sigtimedwait(&set, &info, &none) == -1 && errno == EAGAIN);
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child && write(go_on[1], "x", 1) == 1);
    for (int i = 0; i < 2; i++) close(forked[i]), close(go_on[i]);
    sigtimedwait(&set, &info, &none);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* --- exec --- */

/* A POSIX timer ends with its program, and so does its signal that is still pending. */
static void timers_of_the_old_program(void) {
    pid_t child = fork();
    if (child == 0) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        sigaddset(&set, SIGUSR2);
        sigprocmask(SIG_BLOCK, &set, NULL);
        timer_t timer;
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
        struct itimerspec at = {.it_value = {0, 1000000}};
        if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &at, NULL)) _exit(2);
        do usleep(1000), sigpending(&set);
        while (!sigismember(&set, SIGUSR1));
        kill(getpid(), SIGUSR2);
        execl("/proc/self/exe", "signalled", "pending", NULL);
        _exit(3);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* What the program finds pending that `timers_of_the_old_program` executes: only what a process sent. */
static int still_pending(void) {
    sigset_t set;
    sigpending(&set);
    if (!sigismember(&set, SIGUSR2)) return 5;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "pending")) return still_pending();
    alarm(150);
    setvbuf(stdout, NULL, _IONBF, 0);
    signal(SIGPIPE, SIG_IGN);
    signals_of_files();
    queued_signals();
    handed_on();
    repeating_timers();
    off_means_sent();
    fatal_signals();
    ended_leaders();
    continued_early();
    timers_of_the_old_program();
    return report();
}
