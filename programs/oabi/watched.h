/* What filters, tracers, user dispatch, /proc and audit see of calls of the old ABI. */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/utsname.h>
#include "../abi/audit.h"
#undef CALL
#include "../abi/seccomp.h"

static struct {
    int code, number;
    unsigned arch;
    long r0;
} refused;

/* User dispatch's choice. The handler's return is a call as well. */
static volatile char selector;

static void on_sigsys(int number, siginfo_t *info, void *context) {
    (void)number, selector = 0;
    ucontext_t *c = context;
    refused.code = info->si_code, refused.number = info->si_syscall, refused.arch = info->si_arch;
    refused.r0 = c->uc_mcontext.arm_r0;
    c->uc_mcontext.arm_r0 = 4321;
}

static void catch_sigsys(void) {
    struct sigaction action = {.sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSYS, &action, NULL) == 0);
}

/* A filter tells the ABIs apart by `arch`; the numbers are those of the instruction. */
static void filters(void) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct sock_filter program[] = {
            LOAD(arch),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OLD_ARCH, 1, 0),
            RETURN(SECCOMP_RET_ALLOW),
            LOAD(nr),
            CALL(FIRST + SYS_getpid, SECCOMP_RET_ERRNO | 99),
            CALL(SYS_getpid, SECCOMP_RET_KILL_PROCESS),
            CALL(FIRST + SYS_getppid, SECCOMP_RET_TRAP | 5),
            CALL(FIRST + (7 ^ FIRST), SECCOMP_RET_ERRNO | 98),
            RETURN(SECCOMP_RET_ALLOW),
        };
        catch_sigsys();
        CHECK(no_new_privs() == 0 && attach(0, program, COUNT(program)) == 0);
        CHECK(OLD(SYS_getpid, 0) == -99 && getpid() > 0 && OLD(SYS_gettid, 0) == getpid());
        CHECK(OLD(SYS_getppid, 17) == 4321 && refused.code == 1 && refused.arch == OLD_ARCH);
        CHECK(refused.number == FIRST + SYS_getppid && refused.r0 == 17);
        CHECK(SWI(7, 0, 0) == -98);
        /* A filter that does not look at `arch` does not mean it either. */
        CHECK(attach_for(0, SYS_gettid, SECCOMP_RET_ERRNO | 97) == 0);
        CHECK(OLD(SYS_gettid, 0) == getpid() && SWI(0, SYS_gettid, 0) == -97);
        _exit(failed);
    }
    CHECK(child_good(child));
    for (int bad = 0; bad < 2; bad++) {
        child = fork();
        if (child == 0) {
            OLD(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0);
            OLD(SYS_write, 1, "", 0);
            if (bad) OLD(SYS_getpid, 0);
            OLD(SYS_exit, 3);
        }
        int status = -1;
        CHECK(waitpid(child, &status, 0) == child && status == (bad ? SIGKILL : 3 << 8));
    }
}

static void dispatched(void) {
    catch_sigsys();
    CHECK(prctl(59, 1, 0, 0, &selector) == 0);
    selector = 1;
    long result = OLD(SYS_getppid, 18);
    CHECK(prctl(59, 0, 0, 0, 0) == 0);
    CHECK(result == 4321 && refused.code == 2 && refused.arch == OLD_ARCH && refused.r0 == 18);
    CHECK(refused.number == FIRST + SYS_getppid);
    signal(SIGSYS, SIG_DFL);
}

/* The tracee goes on to its next stop at a call; gives what the tracer is told. */
static struct __ptrace_syscall_info next_stop(pid_t child) {
    struct __ptrace_syscall_info info = {0};
    int status = -1;
    CHECK(ptrace(PTRACE_SYSCALL, child, 0, 0) == 0 && waitpid(child, &status, 0) == child);
    if (WIFSTOPPED(status)) CHECK(ptrace(0x420e, child, sizeof info, &info) > 0);
    return info;
}

static void traced(void) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        OLD(SYS_kill, SWI(0, SYS_getpid, 0), SIGSTOP);
        long first = OLD(SYS_getpid, 21), second = OLD(SYS_getpid, 22), third = OLD(SYS_getpid, 23);
        OLD(SYS_exit, first == getppid() && second == 77 && third == getppid() ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
    CHECK(ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD) == 0);
    struct __ptrace_syscall_info info = next_stop(child);
    if (info.op == PTRACE_SYSCALL_INFO_EXIT) info = next_stop(child);
    CHECK(info.op == PTRACE_SYSCALL_INFO_ENTRY && info.arch == OLD_ARCH);
    CHECK(info.entry.nr == FIRST + SYS_getpid && info.entry.args[0] == 21);
    /* Another call of the same ABI. */
    CHECK(ptrace(23, child, 0, FIRST + SYS_getppid) == 0);
    info = next_stop(child);
    CHECK(info.op == PTRACE_SYSCALL_INFO_EXIT && info.arch == OLD_ARCH && info.exit.rval == getpid());
    /* No call, with a result. */
    info = next_stop(child);
    CHECK(info.op == PTRACE_SYSCALL_INFO_ENTRY && info.entry.nr == FIRST + SYS_getpid);
    CHECK(ptrace(23, child, 0, -1) == 0);
    info = next_stop(child);
    info.exit.rval = 77;
    CHECK(ptrace(0x4212, child, sizeof info, &info) == 0);
    /* A number of the EABI makes it one of its calls. */
    info = next_stop(child);
    CHECK(info.op == PTRACE_SYSCALL_INFO_ENTRY && ptrace(23, child, 0, SYS_getppid) == 0);
    info = next_stop(child);
    CHECK(info.op == PTRACE_SYSCALL_INFO_EXIT && info.arch == NEW_ARCH && info.exit.rval == getpid());
    info = next_stop(child);
    CHECK(info.op == PTRACE_SYSCALL_INFO_ENTRY && info.arch == NEW_ARCH && info.entry.nr == SYS_getppid);
    CHECK(ptrace(PTRACE_CONT, child, 0, 0) == 0 && child_good(child));
}

static void in_proc(void) {
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        char text;
        OLD(SYS_exit, OLD(SYS_read, pipes[0], &text, 1) != 1);
    }
    char path[64], text[128] = "";
    snprintf(path, sizeof path, "/proc/%d/syscall", child);
    long number = 0;
    CHECK(SOON(({
        int fd = open(path, O_RDONLY), size = read(fd, text, sizeof text - 1);
        close(fd);
        text[size > 0 ? size : 0] = 0;
        number = strtol(text, NULL, 10);
        number == FIRST + SYS_read;
    })));
    CHECK(write(pipes[1], "x", 1) == 1 && child_good(child));
    close(pipes[0]), close(pipes[1]);
}

/* A rule about a call means that of both ABIs, unless it says which. */
static void ruled(int fd, int log) {
    begin_rule(AUDIT_ALWAYS, "both");
    CHECK(rule(fd, AUDIT_ADD_RULE) == 0);
    OLD(SYS_getppid, 31);
    char *text = record(log, AUDIT_SYSCALL, "a0=1f");
    CHECK(text && strstr(text, "arch=50000028 syscall=9437248 ") && strstr(text, "key=\"both\""));
    SWI(0, SYS_getppid, 32);
    text = record(log, AUDIT_SYSCALL, "a0=20");
    CHECK(text && strstr(text, "arch=40000028 syscall=64 "));
    CHECK(rule(fd, AUDIT_DEL_RULE) == 0);
    begin_rule(AUDIT_ALWAYS, "old");
    field(AUDIT_ARCH, AUDIT_EQUAL, OLD_ARCH);
    CHECK(rule(fd, AUDIT_ADD_RULE) == 0);
    SWI(0, SYS_getppid, 33), OLD(SYS_getppid, 34);
    text = record(log, AUDIT_SYSCALL, "key=\"old\"");
    CHECK(text && strstr(text, "a0=22"));
    CHECK(rule(fd, AUDIT_DEL_RULE) == 0);
}

static void audited(void) {
    int fd = open_socket(NETLINK_AUDIT), log = open_socket(NETLINK_AUDIT);
    CHECK(fd >= 0 && log >= 0 && bind_to(log, 0, 1) == 0);
    struct audit_status before = state(fd);
    CHECK(change(fd, AUDIT_STATUS_ENABLED, (struct audit_status){.enabled = 1}) == 0);
    /* A program that began before audit was on is not audited. */
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        failed = 0;
        ruled(fd, log);
        fflush(stdout);
        _exit(failed);
    }
    CHECK(child_good(child));
    CHECK(change(fd, AUDIT_STATUS_ENABLED, before) == 0);
    close(fd), close(log);
}

static void watched(void) {
    filters();
    dispatched();
    traced();
    in_proc();
    audited();
}
