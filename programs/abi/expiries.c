/*
 * Signals of timers that have expired: nobody gets one after its timer was set again or deleted; one that is
 * ignored comes when it is not ignored any more; the thread that runs gets it; it keeps its place while it is
 * pending. What Linux does since 6.4 and 6.13 is left out on an older one. Called by
 * tools/limen/src/test/programs.rs, on every architecture; on Linux it can be run by hand, as root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "common.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif
#ifndef PTRACE_PEEKSIGINFO_SHARED
#define PTRACE_PEEKSIGINFO_SHARED 1
#endif

/* Whether this is Limen, or a Linux that is not older. */
static int since(int major, int minor) {
    struct utsname name;
    int its_major = 0, its_minor = 0;
    uname(&name);
    sscanf(name.release, "%d.%d", &its_major, &its_minor);
    return strstr(name.version, "Limen") || its_major > major || (its_major == major && its_minor >= minor);
}

static sigset_t only(int sig) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, sig);
    return set;
}
static void block(int sig) { sigset_t set = only(sig); pthread_sigmask(SIG_BLOCK, &set, NULL); }
static void unblock(int sig) { sigset_t set = only(sig); pthread_sigmask(SIG_UNBLOCK, &set, NULL); }
static int is_pending(int sig) {
    sigset_t set;
    sigpending(&set);
    return sigismember(&set, sig);
}
/* Takes a signal that is pending. */
static int take(int sig, siginfo_t *info) {
    sigset_t set = only(sig);
    struct timespec now = {0, 0};
    return sigtimedwait(&set, info, &now);
}

static volatile sig_atomic_t calls;
static siginfo_t last;
static void note(int sig, siginfo_t *info, void *context) {
    (void)sig, (void)context;
    calls++;
    last = *info;
}
static void catch(int sig) {
    struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(sig, &action, NULL);
}

/* A timer that sends `sig` with the value 7 to `tid` or, with 0, to the process. */
static timer_t timer_of(int sig, pid_t tid) {
    struct sigevent event = {.sigev_notify = tid ? SIGEV_THREAD_ID : SIGEV_SIGNAL, .sigev_signo = sig};
    timer_t timer;
    event.sigev_value.sival_int = 7;
    if (tid) event.sigev_notify_thread_id = tid;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    return timer;
}
static void set_to(timer_t timer, long ms, long interval_ms) {
    struct itimerspec at = {
        {interval_ms / 1000, interval_ms % 1000 * 1000000},
        {ms / 1000, ms % 1000 * 1000000},
    };
    CHECK(timer_settime(timer, 0, &at, NULL) == 0);
}

/* --- Set again or deleted while the signal is pending --- */

static void set_again(int sig) {
    siginfo_t info;
    union sigval value = {.sival_int = 9};
    timer_t timer = timer_of(sig, 0);
    catch(sig);
    block(sig);
    for (int interval = 0; interval < 2; interval++) {
        /* To a later time; off. The signal stays pending, but there is none. */
        for (long ms = 0; ms < 200000; ms += 100000) {
            set_to(timer, 1, interval);
            CHECK(SOON(is_pending(sig)));
            set_to(timer, ms, interval);
            CHECK(is_pending(sig) && take(sig, &info) == -1 && errno == EAGAIN && !is_pending(sig));
            set_to(timer, 1, interval);
            CHECK(SOON(is_pending(sig)));
            set_to(timer, ms, interval);
            calls = 0;
            unblock(sig);
            CHECK(calls == 0);
            block(sig);
        }
    }
    /* The next signal of the same number is found behind it. */
    set_to(timer, 1, 0);
    CHECK(SOON(is_pending(sig)));
    set_to(timer, 0, 0);
    if (sig >= SIGRTMIN)
        CHECK(sigqueue(getpid(), sig, value) == 0 && take(sig, &info) == sig && info.si_code == SI_QUEUE &&
              info.si_value.sival_int == 9);
    else
        CHECK(take(sig, &info) == -1);
    /* A descriptor finds nothing either. */
    sigset_t set = only(sig);
    struct signalfd_siginfo record;
    int fd = signalfd(-1, &set, SFD_NONBLOCK);
    set_to(timer, 1, 0);
    CHECK(SOON(is_pending(sig)));
    set_to(timer, 0, 0);
    CHECK(read(fd, &record, sizeof record) == -1 && errno == EAGAIN);
    /* It makes a repeating timer continue, as every way to take the signal does. */
    set_to(timer, 1, 1);
    pause_ms(20);
    CHECK(read(fd, &record, sizeof record) == sizeof record && record.ssi_code == SI_TIMER &&
          record.ssi_overrun >= 10 && record.ssi_int == 7 && SOON(is_pending(sig)));
    close(fd);
    set_to(timer, 0, 0);
    CHECK(take(sig, &info) == -1);
    /* Expired again while the former signal is pending: there is one, which is the new setting's. */
    set_to(timer, 1, 1);
    pause_ms(20);
    set_to(timer, 1, 0);
    pause_ms(20);
    CHECK(take(sig, &info) == sig && info.si_code == SI_TIMER && info.si_overrun == 0 &&
          timer_getoverrun(timer) == 0 && take(sig, &info) == -1);
    /* A sleeper is not woken for good by what nobody gets. */
    set_to(timer, 1, 0);
    CHECK(SOON(is_pending(sig)));
    CHECK(timer_delete(timer) == 0 && is_pending(sig));
    calls = 0;
    struct timespec moment = {0, 20000000}, left = {0, 0};
    unblock(sig);
    CHECK(nanosleep(&moment, &left) == 0 && calls == 0 && !is_pending(sig));
}

/* How many signals are queued for the user. */
static long queued(void) {
    char line[128];
    long number = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (number < 0 && fgets(line, sizeof line, status)) sscanf(line, "SigQ: %ld/", &number);
    fclose(status);
    return number;
}

/* The signals of deleted timers keep their places until they are taken, or the program ends. */
static void places(void) {
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {20, 20};
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1};
        struct itimerspec soon = {.it_value.tv_nsec = 100000};
        siginfo_t info;
        timer_t timer;
        int made = 0;
        failed = 0;
        CHECK(setresuid(4711, 4711, 4711) == 0 && setrlimit(RLIMIT_SIGPENDING, &limit) == 0);
        long before = queued();
        pid_t other = fork();
        if (other == 0) {
            block(SIGRTMIN + 1);
            for (int i = 0; i < 10; i++) {
                if (timer_create(CLOCK_MONOTONIC, &event, &timer)) _exit(1);
                if (timer_settime(timer, 0, &soon, NULL)) _exit(1);
                pause_ms(2);
                if (i % 2) timer_delete(timer);
            }
            _exit(0);
        }
        CHECK(child_good(other) && SOON(queued() <= before + 1));
        before = queued();
        block(SIGRTMIN + 1);
        while (made < 40 && timer_create(CLOCK_MONOTONIC, &event, &timer) == 0) {
            made++;
            timer_settime(timer, 0, &soon, NULL);
            CHECK(SOON(queued() == before + made));
            pause_ms(2);
            CHECK(timer_delete(timer) == 0);
        }
        CHECK(made > 10 && made <= 20 && queued() == before + made);
        while (take(SIGRTMIN + 1, &info) > 0) continue;
        CHECK(queued() == before && timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 &&
              queued() == before + 1 && timer_delete(timer) == 0 && queued() == before);
        _exit(failed);
    }
    CHECK(child_good(child));
}

/* Details that look like a timer's are the sender's, and no timer's. */
static void made_up(void) {
    timer_t timer = timer_of(SIGRTMIN + 1, 0);
    siginfo_t info = {0};
    block(SIGRTMIN + 1);
    set_to(timer, 1, 1);
    pause_ms(20);
    info.si_code = SI_TIMER, info.si_errno = 0x54494d45;
    info.si_timerid = 0, info.si_overrun = 55, info.si_value.sival_int = 8;
    CHECK(syscall(SYS_rt_sigqueueinfo, getpid(), SIGRTMIN + 1, &info) == 0);
    memset(&info, 0, sizeof info);
    CHECK(take(SIGRTMIN + 1, &info) > 0 && info.si_value.sival_int == 7 && info.si_errno == 0 &&
          info.si_overrun >= 10);
    set_to(timer, 0, 0);
    CHECK(take(SIGRTMIN + 1, &info) > 0 && info.si_value.sival_int == 8 && info.si_errno == 0x54494d45 &&
          info.si_overrun == 55);
    CHECK(timer_delete(timer) == 0);
    while (take(SIGRTMIN + 1, &info) > 0) continue;
}

/* --- Ignored --- */

static void ignored(void) {
    siginfo_t info;
    timer_t timer = timer_of(SIGUSR1, 0);
    /* While it is blocked and pending: it is pending again when it is not ignored any more. */
    catch(SIGUSR1);
    block(SIGUSR1);
    set_to(timer, 1, 1);
    pause_ms(20);
    CHECK(is_pending(SIGUSR1));
    signal(SIGUSR1, SIG_IGN);
    CHECK(!is_pending(SIGUSR1));
    pause_ms(20);
    catch(SIGUSR1);
    CHECK(is_pending(SIGUSR1));
    pause_ms(20);
    CHECK(take(SIGUSR1, &info) == SIGUSR1 && info.si_overrun >= 50 &&
          timer_getoverrun(timer) == info.si_overrun);
    CHECK(SOON(is_pending(SIGUSR1)));
    /* Unblocked. */
    signal(SIGUSR1, SIG_IGN);
    unblock(SIGUSR1);
    set_to(timer, 1, 1);
    pause_ms(20);
    calls = 0;
    catch(SIGUSR1);
    CHECK(calls > 0 && SOON(calls >= 3));
    /* Set again, off or deleted while it waits: there is no signal. */
    for (int i = 0; i < 4; i++) {
        signal(SIGUSR1, SIG_IGN);
        set_to(timer, 1, 1);
        pause_ms(5);
        if (i == 0) set_to(timer, 100000, 1);
        if (i == 1) set_to(timer, 0, 0);
        if (i == 2) set_to(timer, 1, 0), pause_ms(5);
        if (i == 3) CHECK(timer_delete(timer) == 0);
        calls = 0;
        catch(SIGUSR1);
        CHECK(calls == 0);
    }
    /* A timer that does not repeat: its signal is lost, whether it was pending or not. */
    timer = timer_of(SIGUSR1, 0);
    signal(SIGUSR1, SIG_IGN);
    set_to(timer, 1, 0);
    pause_ms(5);
    catch(SIGUSR1);
    CHECK(calls == 0);
    block(SIGUSR1);
    set_to(timer, 1, 0);
    CHECK(SOON(is_pending(SIGUSR1)));
    signal(SIGUSR1, SIG_IGN);
    catch(SIGUSR1);
    CHECK(!is_pending(SIGUSR1));
    unblock(SIGUSR1);
    CHECK(calls == 0 && timer_delete(timer) == 0);
    /* The default action ends the program then. */
    pid_t child = fork();
    if (child == 0) {
        signal(SIGUSR1, SIG_IGN);
        set_to(timer_of(SIGUSR1, 0), 1, 1);
        pause_ms(5);
        signal(SIGUSR1, SIG_DFL);
        _exit(1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
}

/* Signals that are ignored unless they are caught: Linux forgets such a timer. */
static void ignored_by_default(void) {
    timer_t timer = timer_of(SIGURG, 0);
    signal(SIGURG, SIG_DFL);
    set_to(timer, 1, 1);
    pause_ms(10);
    calls = 0;
    catch(SIGURG);
    CHECK(SOON(calls >= 3) && timer_delete(timer) == 0);
}

static volatile pid_t thread_id;
static volatile int thread_may_end, thread_calls;
static void *waits(void *argument) {
    sigset_t set = only(SIGUSR2);
    struct timespec moment = {0, 1000000};
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    __atomic_store_n(&thread_id, syscall(SYS_gettid), __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&thread_may_end, __ATOMIC_SEQ_CST))
        if (sigtimedwait(&set, NULL, &moment) == SIGUSR2)
            __atomic_fetch_add(&thread_calls, 1, __ATOMIC_SEQ_CST);
    return argument;
}

static void ignored_by_thread(void) {
    pthread_t thread;
    block(SIGUSR2);
    pthread_create(&thread, NULL, waits, NULL);
    CHECK(SOON(__atomic_load_n(&thread_id, __ATOMIC_SEQ_CST)));
    timer_t timer = timer_of(SIGUSR2, thread_id);
    signal(SIGUSR2, SIG_IGN);
    set_to(timer, 1, 1);
    pause_ms(20);
    catch(SIGUSR2);
    CHECK(SOON(thread_calls >= 3) && !is_pending(SIGUSR2));
    signal(SIGUSR2, SIG_IGN);
    set_to(timer, 1, 1);
    pause_ms(5);
    __atomic_store_n(&thread_may_end, 1, __ATOMIC_SEQ_CST);
    pthread_join(thread, NULL);
    /* It has ended: nobody gets it. */
    calls = 0;
    catch(SIGUSR2);
    unblock(SIGUSR2);
    pause_ms(5);
    CHECK(calls == 0 && timer_delete(timer) == 0);
}

/* The action and the timer change at the same time as the timer expires. No expiry is lost for ever. */
static volatile int end_of_races;
static void *changes(void *argument) {
    while (!end_of_races) signal(SIGUSR1, SIG_IGN), catch(SIGUSR1);
    return argument;
}
static void races(void) {
    pthread_t thread;
    timer_t timers[4];
    /* Seldom enough that a slow machine does more than to take signals. */
    struct itimerspec often = {{0, 1000000}, {0, 1000000}};
    siginfo_t info;
    catch(SIGUSR1);
    pthread_create(&thread, NULL, changes, NULL);
    for (int i = 0; i < 4; i++) timers[i] = timer_of(SIGUSR1, 0), timer_settime(timers[i], 0, &often, NULL);
    for (int i = 0; i < 3000; i++) {
        if (i % 7 == 0) block(SIGUSR1), take(SIGUSR1, &info), unblock(SIGUSR1);
        if (i % 3 == 0) timer_settime(timers[i % 4], 0, &often, NULL);
        if (i % 11 == 0) {
            CHECK(timer_delete(timers[i % 4]) == 0);
            timers[i % 4] = timer_of(SIGUSR1, 0);
            timer_settime(timers[i % 4], 0, &often, NULL);
        }
    }
    end_of_races = 1;
    pthread_join(thread, NULL);
    catch(SIGUSR1);
    for (int i = 0; i < 4; i++) {
        for (int other = 0; other < 4; other++)
            if (other != i) set_to(timers[other], 0, 0);
        calls = 0;
        if (i) timer_settime(timers[i], 0, &often, NULL);
        CHECK(SOON(calls >= 3));
    }
    for (int i = 0; i < 4; i++) CHECK(timer_delete(timers[i]) == 0);
    calls = 0;
    pause_ms(5);
    CHECK(calls == 0);
}

/* --- Which thread --- */

static volatile int heard_here, heard_elsewhere;
static volatile pthread_t worker;
static void who(int sig) {
    (void)sig;
    if (pthread_equal(pthread_self(), worker)) heard_here++;
    else heard_elsewhere++;
}

/* Uses CPU time until `timers` of one kind have expired 20 times: 0 POSIX, else an interval timer. */
static void *works(void *which) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGPROF};
    struct itimerspec often = {{0, 1000000}, {0, 1000000}};
    struct itimerval quick = {{0, 1000}, {0, 1000}}, none = {{0, 0}, {0, 0}};
    timer_t timer;
    worker = pthread_self();
    pause_ms(10);
    if (*(int *)which == 0)
        CHECK(timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer) == 0 &&
              timer_settime(timer, 0, &often, NULL) == 0);
    else
        CHECK(setitimer(*(int *)which, &quick, NULL) == 0);
    /* The leader may not be asleep yet. */
    while (heard_here + heard_elsewhere < 2) {}
    heard_here = heard_elsewhere = 0;
    while (heard_here + heard_elsewhere < 20) {}
    if (*(int *)which == 0) CHECK(timer_delete(timer) == 0);
    else CHECK(setitimer(*(int *)which, &none, NULL) == 0);
    return NULL;
}

static void running_thread(int which) {
    struct sigaction action = {.sa_handler = who, .sa_flags = SA_RESTART};
    pthread_t thread;
    int good = 0;
    sigaction(SIGPROF, &action, NULL);
    sigaction(SIGVTALRM, &action, NULL);
    /* While its handler runs it blocks the signal; one that comes then is another's. On a busy host that may
     * be many. */
    for (int i = 0; i < 5 && !good; i++) {
        heard_here = heard_elsewhere = 0;
        pthread_create(&thread, NULL, works, &which);
        pthread_join(thread, NULL);
        good = heard_here >= 15 && heard_elsewhere <= 5;
    }
    CHECK(good);
}

/* --- CPU time --- */

/* Whether a timer's SIGUSR1, which is blocked, comes within ten seconds. */
static int comes(void) {
    struct timespec most = {10, 0};
    sigset_t set = only(SIGUSR1);
    siginfo_t info;
    return sigtimedwait(&set, &info, &most) == SIGUSR1 && info.si_code == SI_TIMER;
}

/* A timer of a clock of CPU time that has passed that time already, of a process that does not run. */
static void passed_already(void) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct itimerspec at = {.it_value.tv_nsec = 1};
    timer_t timer;
    catch(SIGUSR1);
    block(SIGUSR1);
    for (int clock = CLOCK_PROCESS_CPUTIME_ID; clock <= CLOCK_THREAD_CPUTIME_ID; clock++) {
        CHECK(timer_create(clock, &event, &timer) == 0);
        CHECK(timer_settime(timer, TIMER_ABSTIME, &at, NULL) == 0);
        CHECK(comes());
        CHECK(timer_delete(timer) == 0);
    }
}

/* The CPU time of another process: its maker sleeps. */
static void of_another(void) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct itimerspec at = {.it_value.tv_nsec = 20000000};
    clockid_t clock;
    timer_t timer;
    block(SIGUSR1);
    pid_t child = fork();
    if (child == 0)
        for (;;) continue;
    CHECK(clock_getcpuclockid(child, &clock) == 0 && timer_create(clock, &event, &timer) == 0);
    CHECK(timer_settime(timer, 0, &at, NULL) == 0);
    CHECK(comes());
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child && timer_delete(timer) == 0);
    unblock(SIGUSR1);
}

static volatile int *volatile nowhere;

/* The signal of a fault is pending and blocked: the fault ends the program all the same. */
static void fault_while_pending(void) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        alarm(20);
        block(SIGSEGV);
        set_to(timer_of(SIGSEGV, syscall(SYS_gettid)), 1, 0);
        CHECK(SOON(is_pending(SIGSEGV)));
        *nowhere = 1;
        _exit(1);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

/* --- Debuggers --- */

static void traced(void) {
    pid_t child = fork();
    if (child == 0) {
        calls = 0;
        catch(SIGUSR1);
        block(SIGUSR1);
        timer_t timer = timer_of(SIGUSR1, 0);
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        set_to(timer, 1, 1);
        pause_ms(20);
        raise(SIGSTOP);
        unblock(SIGUSR1);
        while (calls < 1) {}
        set_to(timer, 0, 0);
        _exit(last.si_code == SI_TIMER && last.si_value.sival_int == 3 && last.si_overrun == 77 ? 0 : 1);
    }
    struct { uint64_t off; uint32_t flags; int32_t nr; } which = {0, PTRACE_PEEKSIGINFO_SHARED, 1};
    siginfo_t info = {0};
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    CHECK(ptrace(PTRACE_PEEKSIGINFO, child, &which, &info) == 1 && info.si_signo == SIGUSR1 &&
          info.si_code == SI_TIMER && info.si_errno == 0 && info.si_value.sival_int == 7);
    /* The signal is taken when the tracer is told: the timer continues, even if the tracer drops it. */
    ptrace(PTRACE_CONT, child, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGUSR1);
        CHECK(ptrace(PTRACE_GETSIGINFO, child, NULL, &info) == 0 && info.si_signo == SIGUSR1 &&
              info.si_code == SI_TIMER && info.si_errno == 0 && info.si_value.sival_int == 7 &&
              (i > 0 || info.si_overrun >= 10));
        if (i < 2) ptrace(PTRACE_CONT, child, NULL, NULL);
    }
    info.si_overrun = 77, info.si_value.sival_int = 3;
    CHECK(ptrace(PTRACE_SETSIGINFO, child, NULL, &info) == 0);
    CHECK(ptrace(PTRACE_DETACH, child, NULL, SIGUSR1) == 0);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    /* More signals may come before the program turns the timer off. */
    child = fork();
    if (child == 0) {
        calls = 0;
        catch(SIGUSR1);
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        set_to(timer_of(SIGUSR1, 0), 1, 0);
        while (calls < 1) {}
        _exit(last.si_signo == SIGUSR1 && last.si_value.sival_int == 3 && last.si_overrun == 77 ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGUSR1);
    /* A number that is none, though its low byte is the signal's: the details are the tracer's. */
    info.si_signo = SIGUSR1 | 1 << 9;
    CHECK(ptrace(PTRACE_SETSIGINFO, child, NULL, &info) == 0);
    memset(&info, 0, sizeof info);
    CHECK(ptrace(PTRACE_GETSIGINFO, child, NULL, &info) == 0 && info.si_signo == (SIGUSR1 | 1 << 9));
    info.si_signo = SIGUSR1, info.si_overrun = 77, info.si_value.sival_int = 3;
    CHECK(ptrace(PTRACE_SETSIGINFO, child, NULL, &info) == 0);
    CHECK(ptrace(PTRACE_CONT, child, NULL, SIGUSR1) == 0);
    CHECK(child_good(child));
}

int main(void) {
    alarm(150);
    setvbuf(stdout, NULL, _IONBF, 0);
    if (since(6, 13)) {
        on_one(1);
        set_again(SIGUSR1);
        set_again(SIGRTMIN + 1);
        ignored();
        ignored_by_thread();
        on_one(0);
        races();
    }
    if (since(6, 4)) running_thread(0);
    running_thread(ITIMER_PROF);
    running_thread(ITIMER_VIRTUAL);
    struct utsname name;
    if (uname(&name) == 0 && (strstr(name.version, "Limen") || !since(6, 13))) ignored_by_default();
    on_one(1);
    places();
    made_up();
    passed_already();
    of_another();
    fault_while_pending();
    traced();
    return report();
}
