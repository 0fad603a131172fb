/*
 * no_new_privs and seccomp: strict mode, filters and their actions, threads, inheritance, settings. Called by
 * tools/limen/src/test/programs.rs, on every architecture; on Linux it can be run by hand, as root, in an
 * empty folder. (Listeners: listening.c.)
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "common.h"
#include "seccomp.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#elif defined(__arm__)
#define ARCH AUDIT_ARCH_ARM
#else
#define ARCH AUDIT_ARCH_PPC64LE
#endif

/* Runs checks in a child: filters stay for ever. */
static void apart(void (*what)(void), const char *name) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        made = failed = 0;
        what();
        fflush(stdout);
        _exit(failed > 99 ? 99 : failed);
    }
    check(child_good(child), name, __func__, __LINE__);
}
#define APART(what) apart(what, #what)

/* How a child ends that does `what`: its wait status. */
static int end_of(void (*what)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        what();
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

/* The number behind `name` in a thread's status; -1 if there is none. */
static int status_of(pid_t thread, const char *name) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/status", thread);
    FILE *file = fopen(path, "r");
    int found = -1;
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':')
            found = atoi(line + strlen(name) + 1);
    if (file) fclose(file);
    return found;
}

static pid_t gettid_(void) { return syscall(SYS_gettid); }

/* --- no_new_privs --- */

static int privileged(void) { return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); }

static void no_privileges(void) {
    CHECK(privileged() == 0 && status_of(getpid(), "NoNewPrivs") == 0);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0) == -1 && errno == EINVAL);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 1, 0, 0) == -1 && errno == EINVAL);
    CHECK(prctl(PR_GET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1 && errno == EINVAL);
    CHECK(no_new_privs() == 0 && privileged() == 1 && status_of(getpid(), "NoNewPrivs") == 1);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0) == -1 && errno == EINVAL);
    pid_t child = fork();
    if (child == 0) _exit(privileged() != 1);
    CHECK(child_good(child));
}

/* Executes a program that root owns and that sets the user id; returns the effective id that it has. */
static int id_of_set_id_program(int keep) {
    pid_t child = fork();
    if (child == 0) {
        if (setresuid(1000, 1000, 1000) != 0) _exit(99);
        if (keep && no_new_privs() != 0) _exit(98);
        execl("./set-id", "set-id", "id", NULL);
        _exit(97);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void set_id_programs(const char *self) {
    char command[600];
    snprintf(command, sizeof command, "cp %s set-id", self);
    CHECK(system(command) == 0 && chmod("set-id", 04755) == 0 && chmod(".", 0755) == 0);
    CHECK(id_of_set_id_program(0) == 0);
    CHECK(id_of_set_id_program(1) == 10);
}

/* A program does not become another user's while another process shares its directories. */
static void set_id_beside_another(void) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (setresuid(1000, 1000, 1000) != 0) _exit(99);
        pid_t sharer = syscall(SYS_clone, CLONE_FS | SIGCHLD, 0, 0, 0, 0);
        if (sharer == 0) {
            execl("./set-id", "set-id", "id", NULL);
            _exit(97);
        }
        int status = -1;
        waitpid(sharer, &status, 0);
        if (status != 10 << 8) _exit(1);
        /* Alone again. */
        execl("./set-id", "set-id", "id", NULL);
        _exit(97);
    }
    CHECK(child_good(child));
}

static void *becomes_another(void *data) {
    execl("./set-id", "set-id", "trusts", NULL);
    return data;
}
static atomic_int begun;
static void *filters_all(void *wait) {
    begun = 1;
    for (volatile long i = 0; i < (long)wait; i++) {}
    no_new_privs();
    attach_for(SECCOMP_FILTER_FLAG_TSYNC, SYS_getppid, SECCOMP_RET_ERRNO | 7);
    for (;;) pause();
    return NULL;
}

/* A thread that becomes another user's program while a sibling gives all threads a filter has either. */
static void set_id_beside_sync(void) {
    for (int round = 0; round < 60; round++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            pthread_t threads[2];
            if (setresuid(1000, 1000, 1000) != 0) _exit(99);
            pthread_create(&threads[0], NULL, filters_all, (void *)(round % 30 * (round % 30) * 4000L));
            while (!begun) sched_yield();
            if (round % 2) becomes_another(NULL);
            pthread_create(&threads[1], NULL, becomes_another, NULL);
            for (;;) pause();
        }
        int status = -1;
        waitpid(child, &status, 0);
        CHECK(status == 20 << 8 || status == 21 << 8);
    }
}

/* Exit status 20: another user's, and nobody's filters; 21: the user's own. */
static int trusts(void) {
    int filters = status_of(getpid(), "Seccomp_filters"), private = privileged();
    if (geteuid() == 0) return filters == 0 && private == 0 ? 20 : 1;
    return filters == 1 && private == 1 ? 21 : 2;
}

/* --- strict mode --- */

static void strict_and_well(void) {
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0) != 0) _exit(1);
    if (syscall(SYS_write, 1, "", 0) != 0) syscall(SYS_exit, 2);
    syscall(SYS_exit, 3);
}
static void strict_and_ill(void) {
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0);
    syscall(SYS_getpid);
}
static void strict_by_seccomp(void) {
    if (seccomp(SECCOMP_SET_MODE_STRICT, 1, NULL) != -1 || errno != EINVAL) _exit(1);
    if (seccomp(SECCOMP_SET_MODE_STRICT, 0, &failed) != -1 || errno != EINVAL) _exit(1);
    if (seccomp(SECCOMP_SET_MODE_STRICT, 0, NULL) != 0) _exit(1);
    syscall(SYS_exit, 4);
}
static void strict_after_filter(void) {
    if (no_new_privs() || attach_for(0, SYS_getppid, SECCOMP_RET_ALLOW)) _exit(1);
    _exit(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0) == -1 && errno == EINVAL ? 5 : 6);
}

#if defined(__x86_64__)
static void read_counter(void) { __asm__ volatile("rdtsc" : : : "eax", "edx"); }
static void strict_and_counting(void) {
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0);
    read_counter();
    syscall(SYS_exit, 0);
}
static void without_counter(void) {
    prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
    read_counter();
}
static void descendant_without_counter(void) {
    int is = 0;
    prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
    /* The parent and the child are switched to and from. */
    pid_t child = fork();
    if (child == 0) read_counter(), _exit(0);
    int status = -1;
    waitpid(child, &status, 0);
    if (status != SIGSEGV || prctl(PR_GET_TSC, &is, 0, 0, 0) != 0 || is != PR_TSC_SIGSEGV) _exit(1);
    if (prctl(PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0) != 0 || prctl(PR_GET_TSC, &is, 0, 0, 0) != 0) _exit(2);
    if (is != PR_TSC_ENABLE || prctl(PR_SET_TSC, 3, 0, 0, 0) != -1 || errno != EINVAL) _exit(3);
    if (prctl(PR_GET_TSC, NULL, 0, 0, 0) != -1 || errno != EFAULT) _exit(4);
    read_counter();
    _exit(6);
}
/* The counter by which time can be told without a call. */
static void counters(void) {
    CHECK(end_of(strict_and_counting) == SIGSEGV);
    CHECK(end_of(without_counter) == SIGSEGV);
    CHECK(end_of(descendant_without_counter) == 6 << 8);
    CHECK(end_of(read_counter) == 0);
}
#else
static void counters(void) {
    int is;
    CHECK(prctl(PR_GET_TSC, &is, 0, 0, 0) == -1 && errno == EINVAL);
}
#endif

static void strict_mode(void) {
    CHECK(prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 0 && status_of(getpid(), "Seccomp") == 0);
    CHECK(prctl(PR_SET_SECCOMP, 0, 0, 0, 0) == -1 && errno == EINVAL);
    CHECK(prctl(PR_SET_SECCOMP, 3, 0, 0, 0) == -1 && errno == EINVAL);
    CHECK(end_of(strict_and_well) == 3 << 8);
    CHECK(end_of(strict_and_ill) == SIGKILL);
    CHECK(end_of(strict_by_seccomp) == 4 << 8);
    CHECK(end_of(strict_after_filter) == 5 << 8);
    counters();
}

/* --- which programs are taken --- */

static void refused_programs(void) {
    struct sock_filter allow[] = { RETURN(SECCOMP_RET_ALLOW) };
    struct sock_filter byte[] = { BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0), RETURN(SECCOMP_RET_ALLOW) };
    struct sock_filter far[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 64), RETURN(SECCOMP_RET_ALLOW) };
    struct sock_filter odd[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 2), RETURN(SECCOMP_RET_ALLOW) };
    struct sock_filter open[] = { LOAD(nr) };
    struct sock_fprog lost = { 1, (void *)8 };
    CHECK(setresuid(1000, 1000, 1000) == 0);
    CHECK(attach(0, allow, 1) == -1 && errno == EACCES);
    CHECK(no_new_privs() == 0);
    CHECK(attach(0, allow, 0) == -1 && errno == EINVAL);
    CHECK(attach(0, byte, 2) == -1 && errno == EINVAL);
    CHECK(attach(0, far, 2) == -1 && errno == EINVAL);
    CHECK(attach(0, odd, 2) == -1 && errno == EINVAL);
    CHECK(attach(0, open, 1) == -1 && errno == EINVAL);
    CHECK(seccomp(SECCOMP_SET_MODE_FILTER, 0, NULL) == -1 && errno == EFAULT);
    CHECK(seccomp(SECCOMP_SET_MODE_FILTER, 0, &lost) == -1 && errno == EFAULT);
    CHECK(attach(1 << 6, allow, 1) == -1 && errno == EINVAL);
    CHECK(attach(SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, allow, 1) == -1 && errno == EINVAL);
    CHECK(attach(SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_TSYNC, allow, 1) == -1
          && errno == EINVAL);
    CHECK(seccomp(9, 0, NULL) == -1 && errno == EINVAL);
    CHECK(status_of(getpid(), "Seccomp") == 0 && status_of(getpid(), "Seccomp_filters") == 0);
    CHECK(attach(SECCOMP_FILTER_FLAG_SPEC_ALLOW, allow, 1) == 0);
    struct sock_fprog again = { 1, allow };
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &again, 0, 0) == 0);
    CHECK(prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2);
    CHECK(status_of(getpid(), "Seccomp") == 2 && status_of(getpid(), "Seccomp_filters") == 2);
}

/* All filters of a thread come to so many instructions at most. */
static void too_many(void) {
    static struct sock_filter program[4096];
    for (size_t i = 0; i < COUNT(program) - 1; i++) program[i] = (struct sock_filter)LOAD(nr);
    program[COUNT(program) - 1] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
    CHECK(no_new_privs() == 0);
    int filters = 0;
    while (filters < 100 && attach(0, program, COUNT(program)) == 0) filters++;
    CHECK(errno == ENOMEM && filters == 7);
}

/* Hundreds of filters, of which the last thread to end drops all. */
static void a_long_chain(void) {
    struct sock_filter program[60];
    for (size_t i = 0; i < COUNT(program) - 1; i++) program[i] = (struct sock_filter)LOAD(nr);
    program[COUNT(program) - 1] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
    CHECK(no_new_privs() == 0);
    int filters = 0;
    while (filters < 1000 && attach(0, program, COUNT(program)) == 0) filters++;
    CHECK(errno == ENOMEM && filters == 481 && status_of(getpid(), "Seccomp_filters") == filters);
}

static void availability(void) {
    unsigned action = SECCOMP_RET_ERRNO, sizes_at[4] = { 0 };
    CHECK(seccomp(SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0);
    CHECK(seccomp(SECCOMP_GET_ACTION_AVAIL, 1, &action) == -1 && errno == EINVAL);
    action = SECCOMP_RET_ERRNO + 1;
    CHECK(seccomp(SECCOMP_GET_ACTION_AVAIL, 0, &action) == -1 && errno == EOPNOTSUPP);
    CHECK(seccomp(SECCOMP_GET_ACTION_AVAIL, 0, NULL) == -1 && errno == EFAULT);
    struct seccomp_notif_sizes *sizes = (void *)sizes_at;
    CHECK(seccomp(SECCOMP_GET_NOTIF_SIZES, 0, sizes) == 0);
    CHECK(sizes->seccomp_notif == 80 && sizes->seccomp_notif_resp == 24 && sizes->seccomp_data == 64);
    CHECK(seccomp(SECCOMP_GET_NOTIF_SIZES, 1, sizes) == -1 && errno == EINVAL);
    CHECK(seccomp(SECCOMP_GET_NOTIF_SIZES, 0, NULL) == -1 && errno == EFAULT);
}

/* --- actions --- */

static void errors(void) {
    CHECK(no_new_privs() == 0);
    struct sock_filter program[] = {
        LOAD(nr), CALL(SYS_getppid, SECCOMP_RET_ERRNO | 7), CALL(SYS_getuid, SECCOMP_RET_ERRNO),
        CALL(SYS_getgid, SECCOMP_RET_ERRNO | 5000), CALL(SYS_getegid, SECCOMP_RET_TRACE | 3),
        CALL(-1, SECCOMP_RET_ERRNO), CALL(-2, SECCOMP_RET_ERRNO | 9), RETURN(SECCOMP_RET_ALLOW),
    };
    CHECK(attach(0, program, COUNT(program)) == 0);
    CHECK(syscall(SYS_getppid) == -1 && errno == 7);
    CHECK(syscall(SYS_getuid) == 0);
    CHECK(syscall(SYS_getgid) == -1 && errno == 4095);
    CHECK(syscall(SYS_getegid) == -1 && errno == ENOSYS);
    /* What no call is has the filter's result, too. */
    CHECK(syscall(-1) == 0);
    CHECK(syscall(-2) == -1 && errno == 9);
#ifndef __arm__
    /* 32-bit Arm sends SIGILL for such numbers. */
    CHECK(syscall(-3) == -1 && errno == ENOSYS);
#endif
    CHECK(syscall(SYS_getpid) == getpid());
    /* Of several filters the strictest counts, and of the same the newest. */
    CHECK(attach_for(0, SYS_getppid, SECCOMP_RET_ALLOW) == 0 && syscall(SYS_getppid) == -1 && errno == 7);
    CHECK(attach_for(0, SYS_getppid, SECCOMP_RET_ERRNO | 8) == 0);
    CHECK(syscall(SYS_getppid) == -1 && errno == 8);
    CHECK(attach_for(0, SYS_getuid, SECCOMP_RET_LOG) == 0 && syscall(SYS_getuid) == 0);
    CHECK(status_of(getpid(), "Seccomp_filters") == 4);
}

static void arguments(void) {
    CHECK(no_new_privs() == 0);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    enum { LOW = 0, HIGH = 4 };
#else
    enum { LOW = 4, HIGH = 0 };
#endif
    struct sock_filter program[] = {
        LOAD(arch), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0), RETURN(SECCOMP_RET_KILL_PROCESS),
        LOAD(nr), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close, 1, 0), RETURN(SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[5]) + HIGH),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned long long)-1L >> 32, 1, 0),
        RETURN(SECCOMP_RET_ERRNO | 11),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0]) + LOW),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x12345678, 1, 0), RETURN(SECCOMP_RET_ERRNO | 12),
        BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0), BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, SECCOMP_RET_ERRNO),
        BPF_STMT(BPF_RET | BPF_A, 0),
    };
    if (sizeof(long) == 4) program[7].k = 0;
    CHECK(attach(0, program, COUNT(program)) == 0);
    if (sizeof(long) == 8) CHECK(syscall(SYS_close, 0x12345678L, 0, 0, 0, 0, 1L) == -1 && errno == 11);
    CHECK(syscall(SYS_close, 3L, 0, 0, 0, 0, -1L) == -1 && errno == 12);
    CHECK(syscall(SYS_close, 0x12345678L, 0, 0, 0, 0, -1L) == -1 && errno == sizeof(struct seccomp_data));
}

static volatile sig_atomic_t trapped;
static siginfo_t trap;
static void on_trap(int sig, siginfo_t *info, void *context) {
    (void)sig, (void)context;
    trapped++;
    trap = *info;
}

static void traps(void) {
    struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };
    CHECK(sigaction(SIGSYS, &action, NULL) == 0 && no_new_privs() == 0);
    CHECK(attach_for(0, SYS_close, SECCOMP_RET_TRAP | 0x1234) == 0);
    syscall(SYS_close, 5);
    CHECK(trapped == 1 && trap.si_signo == SIGSYS && trap.si_code == 1 && trap.si_errno == 0x1234);
    CHECK(trap.si_syscall == SYS_close && trap.si_arch == ARCH && trap.si_call_addr != NULL);
    /* An argument that looks like a code for the kernel is none. */
    syscall(SYS_close, -512L);
    CHECK(trapped == 2);
    syscall(SYS_close, -514L);
    CHECK(trapped == 3);
}
static void trap_blocked(void) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    if (no_new_privs() || attach_for(0, SYS_getppid, SECCOMP_RET_TRAP)) _exit(1);
    syscall(SYS_getppid);
}

static void kill_with(unsigned value) {
    signal(SIGSYS, SIG_IGN);
    if (no_new_privs() || attach_for(0, SYS_getppid, value)) _exit(1);
    syscall(SYS_getppid);
}
static void kill_process(void) { kill_with(SECCOMP_RET_KILL_PROCESS); }
static void kill_thread(void) { kill_with(SECCOMP_RET_KILL_THREAD); }
static void kill_unknown(void) { kill_with(0x12340000); }
static void kill_not_even_known(void) { kill_with(0x90000000); }
static void *asks_parent(void *data) { return syscall(SYS_getppid), data; }
static void kill_other_thread(void) {
    pthread_t thread;
    if (no_new_privs() || attach_for(0, SYS_getppid, SECCOMP_RET_KILL_THREAD)) _exit(1);
    pthread_create(&thread, NULL, asks_parent, NULL);
    while (pthread_tryjoin_np(thread, NULL) != 0) usleep(1000);
    _exit(6);
}
static void kill_from_other_thread(void) {
    pthread_t thread;
    if (no_new_privs() || attach_for(0, SYS_getppid, SECCOMP_RET_KILL_PROCESS)) _exit(1);
    pthread_create(&thread, NULL, asks_parent, NULL);
    for (;;) pause();
}
static int killed(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS; }

static void kills(void) {
    CHECK(killed(end_of(kill_process)));
    CHECK(killed(end_of(kill_thread)));
    CHECK(killed(end_of(kill_unknown)));
    CHECK(killed(end_of(kill_not_even_known)));
    CHECK(killed(end_of(kill_from_other_thread)));
    CHECK(killed(end_of(trap_blocked)));
    CHECK(end_of(kill_other_thread) == 6 << 8);
}

/* --- threads --- */

static atomic_int stage;
static pid_t other_tid;
static void wait_for(int at_least) {
    while (stage < at_least) usleep(500);
}
static void *plain(void *result) {
    other_tid = gettid_();
    stage = 1;
    wait_for(2);
    ((int *)result)[0] = syscall(SYS_getppid) == -1 && errno == 7;
    ((int *)result)[1] = privileged();
    ((int *)result)[2] = status_of(gettid_(), "Seccomp_filters");
    return NULL;
}
static void synchronised(void) {
    int result[3] = { 0 };
    pthread_t thread;
    CHECK(attach_for(0, SYS_getgid, SECCOMP_RET_ALLOW) == 0);
    pthread_create(&thread, NULL, plain, result);
    wait_for(1);
    CHECK(no_new_privs() == 0);
    CHECK(attach_for(SECCOMP_FILTER_FLAG_TSYNC, SYS_getppid, SECCOMP_RET_ERRNO | 7) == 0);
    stage = 2;
    pthread_join(thread, NULL);
    CHECK(result[0] && result[1] == 1 && result[2] == 2);
}
static void *different(void *data) {
    attach_for(0, SYS_getppid, SECCOMP_RET_ALLOW);
    return plain(data);
}
static void not_synchronised(void) {
    int result[3] = { 0 };
    pthread_t thread;
    CHECK(no_new_privs() == 0);
    pthread_create(&thread, NULL, different, result);
    wait_for(1);
    CHECK(attach_for(0, SYS_getgid, SECCOMP_RET_ALLOW) == 0);
    CHECK(attach_for(SECCOMP_FILTER_FLAG_TSYNC, SYS_getppid, SECCOMP_RET_ERRNO | 7) == other_tid);
    CHECK(attach_for(SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_TSYNC_ESRCH, SYS_getppid,
                     SECCOMP_RET_ERRNO | 7) == -1 && errno == ESRCH);
    CHECK(syscall(SYS_getppid) == getppid() && status_of(gettid_(), "Seccomp_filters") == 1);
    stage = 2;
    pthread_join(thread, NULL);
    CHECK(!result[0] && result[2] == 1);
    /* A thread that has ended is in nobody's way (before Linux 6.11: soon after the join). */
    long refused = -1;
    for (int i = 0; i < 100 && refused != 0; i++, pause_ms(10))
        refused = attach_for(SECCOMP_FILTER_FLAG_TSYNC, SYS_getppid, SECCOMP_RET_ERRNO | 7);
    CHECK(refused == 0);
}

/* Threads that are made while all are synchronised have the filter as well. */
static atomic_int goes_on = 1, without;
static void *made_meanwhile(void *data) {
    if (stage == 2 && !(syscall(SYS_getppid) == -1 && errno == 7)) without++;
    return data;
}
static void *makes_threads(void *data) {
    while (goes_on) {
        pthread_t thread;
        int before = stage;
        if (pthread_create(&thread, NULL, made_meanwhile, NULL) != 0) continue;
        pthread_join(thread, NULL);
        if (before == 2) break;
    }
    return data;
}
static void synchronised_beside_clone(void) {
    for (int round = 0; round < 30; round++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            pthread_t makers[4];
            for (int i = 0; i < 4; i++) pthread_create(&makers[i], NULL, makes_threads, NULL);
            usleep(2000 + round * 100);
            if (no_new_privs() || attach_for(SECCOMP_FILTER_FLAG_TSYNC, SYS_getppid, SECCOMP_RET_ERRNO | 7))
                _exit(1);
            stage = 2;
            for (int i = 0; i < 4; i++) pthread_join(makers[i], NULL);
            _exit(without != 0);
        }
        CHECK(child_good(child));
    }
}

/* --- inheritance --- */

static void inherited(const char *self) {
    CHECK(no_new_privs() == 0 && attach_for(0, SYS_getppid, SECCOMP_RET_ERRNO | 7) == 0);
    pid_t child = fork();
    if (child == 0) {
        if (syscall(SYS_getppid) != -1 || errno != 7) _exit(1);
        execl(self, self, "filtered", NULL);
        _exit(2);
    }
    CHECK(child_good(child));
}
static const char *this_program;
static void inherited_by_exec(void) { inherited(this_program); }

/* --- settings and the log --- */

static void read_setting(const char *name, char *text, size_t size) {
    int fd = open(name, O_RDONLY);
    ssize_t length = read(fd, text, size - 1);
    text[length < 0 ? 0 : length] = 0;
    close(fd);
}
static int write_setting(const char *name, const char *text) {
    int fd = open(name, O_WRONLY);
    ssize_t written = write(fd, text, strlen(text));
    int error = errno;
    close(fd);
    errno = error;
    return written == (ssize_t)strlen(text) ? 0 : -1;
}

#define AVAILABLE "/proc/sys/kernel/seccomp/actions_avail"
#define LOGGED "/proc/sys/kernel/seccomp/actions_logged"

static void settings(void) {
    char text[256], before[256];
    read_setting(AVAILABLE, text, sizeof text);
    CHECK(strcmp(text, "kill_process kill_thread trap errno user_notif trace log allow\n") == 0);
    read_setting(LOGGED, before, sizeof before);
    CHECK(strcmp(before, "kill_process kill_thread trap errno user_notif trace log\n") == 0);
    CHECK(write_setting(LOGGED, "log errno") == 0);
    read_setting(LOGGED, text, sizeof text);
    CHECK(strcmp(text, "errno log\n") == 0);
    CHECK(write_setting(LOGGED, "allow") == -1 && errno == EINVAL);
    CHECK(write_setting(LOGGED, "nonsense") == -1 && errno == EINVAL);
    read_setting(LOGGED, text, sizeof text);
    CHECK(strcmp(text, "errno log\n") == 0);
    CHECK(write_setting(LOGGED, before) == 0);
}

/* Whether the log has a line about a call of process `pid` with the action `code`. */
static int log_has_now(pid_t pid, unsigned code) {
    static char text[1 << 20];
    int length = klogctl(3, text, sizeof text - 1);
    text[length < 0 ? 0 : length] = 0;
    char who[32], what[32];
    snprintf(who, sizeof who, " pid=%d ", pid);
    snprintf(what, sizeof what, " code=0x%x", code);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (strstr(line, "audit: type=1326 audit(") && strstr(line, who) && strstr(line, what)
            && strstr(line, " comm=\"filters\" exe=\"/"))
            return 1;
    return 0;
}

/* The same, soon: a thread of Linux's writes it. */
static int log_has(pid_t pid, unsigned code) {
    for (int i = 0; i < 100 && !log_has_now(pid, code); i++) pause_ms(10);
    return log_has_now(pid, code);
}

static void logged(void) {
    CHECK(no_new_privs() == 0 && attach_for(0, SYS_getppid, SECCOMP_RET_LOG) == 0);
    CHECK(attach_for(SECCOMP_FILTER_FLAG_LOG, SYS_getuid, SECCOMP_RET_ERRNO | 3) == 0);
    CHECK(attach_for(0, SYS_getgid, SECCOMP_RET_ERRNO | 4) == 0);
    CHECK(syscall(SYS_getgid) == -1 && errno == 4);
    CHECK(syscall(SYS_getppid) > 0 && log_has(getpid(), SECCOMP_RET_LOG));
    CHECK(!log_has_now(getpid(), SECCOMP_RET_ERRNO));
    CHECK(syscall(SYS_getuid) == -1 && errno == 3 && log_has(getpid(), SECCOMP_RET_ERRNO));
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "id") == 0) return geteuid() == 0 ? 0 : 10;
    if (argc > 1 && strcmp(argv[1], "trusts") == 0) return trusts();
    if (argc > 1 && strcmp(argv[1], "filtered") == 0)
        return !(syscall(SYS_getppid) == -1 && errno == 7 && status_of(getpid(), "Seccomp_filters") == 1
                 && privileged() == 1);
    char self[512];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length < 0 ? 0 : length] = 0;
    this_program = self;
    APART(logged);
    APART(no_privileges);
    set_id_programs(self);
    set_id_beside_another();
    set_id_beside_sync();
    strict_mode();
    APART(refused_programs);
    APART(too_many);
    APART(a_long_chain);
    availability();
    APART(errors);
    APART(arguments);
    APART(traps);
    kills();
    APART(synchronised);
    APART(not_synchronised);
    synchronised_beside_clone();
    APART(inherited_by_exec);
    settings();
    return report();
}
