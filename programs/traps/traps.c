/*
 * The results of forbidden accesses and instructions: memory that is not mapped, undefined instructions,
 * unaligned addresses, system calls with invalid frames. Each act runs in a process of its own and prints one
 * line: the signal with all its details and the context, or the return value of the act and the bytes it
 * changed. tools/limen/src/test/traps.rs compares the lines with Debian's Linux on the same processor. `traps
 * PREFIX` runs the acts whose names begin with PREFIX.
 */
#include "act.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "memory.h"
#if defined(__arm__)
#include "arm.h"
#elif defined(__aarch64__)
#include "arm64.h"
#elif defined(__powerpc64__)
#include "powerpc64.h"
#elif defined(__x86_64__)
#include "x86_64.h"
#endif

volatile int hide_addresses, hide_second;
void (*volatile then)(ucontext_t *context);
static const char *running;

static void say(const char *text) {
    if (write(1, text, strlen(text)) < 0) _exit(99);
}

static void handler(int signal, siginfo_t *info, void *context) {
    char text[1024], more[600] = "";
    describe(more, sizeof more, info, context);
    int n = snprintf(text, sizeof text, "%s: signal %d, errno %d, code %d", running, signal, info->si_errno,
                     info->si_code);
    if (info->si_signo != signal) n += snprintf(text + n, sizeof text - n, ", signo %d", info->si_signo);
    if (!hide_addresses)
        n += snprintf(text + n, sizeof text - n, ", addr %#lx, pc %#lx", (unsigned long)info->si_addr,
                      counter(context));
    snprintf(text + n, sizeof text - n, "%s\n", more);
    say(text);
    if (!then) _exit(0);
    void (*what)(ucontext_t *) = then;
    then = NULL;
    hide_addresses |= hide_second;
    what(context);
}

static void map(char *at, size_t size, int protection, int fd) {
    int flags = MAP_FIXED | MAP_PRIVATE | (fd < 0 ? MAP_ANONYMOUS : 0);
    if (mmap(at, size, protection, flags, fd, 0) != at) {
        perror("mmap");
        _exit(98);
    }
}

static unsigned char pattern(size_t n) { return (unsigned char)(n * 7 + 3); }

static void prepare(void) {
    int fd = open("/tmp/traps.file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, "0123456789", 10) != 10) _exit(97);
    map(OPEN, UNIT, PROT_READ | PROT_WRITE, -1);
    for (size_t n = 0; n < UNIT; n++) OPEN[n] = (char)pattern(n);
    map(SHUT, UNIT, PROT_NONE, -1);
    map(FIXED - UNIT, 2 * UNIT, PROT_READ | PROT_WRITE, -1);
    memset(FIXED, 0x5a, UNIT);
    mprotect(FIXED, UNIT, PROT_READ);
    map(CODE, UNIT, PROT_READ | PROT_WRITE | PROT_EXEC, -1);
    map(FILED, 2 * UNIT, PROT_READ | PROT_WRITE | PROT_EXEC, fd);
    map(STACK, UNIT, PROT_READ | PROT_WRITE, -1);
    close(fd);
    stack_t stack = {.ss_sp = STACK, .ss_size = UNIT};
    sigaltstack(&stack, NULL);
    static const int signals[] = {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, SIGUSR1};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};
        sigaction(signals[i], &action, NULL);
    }
}

static void changes(void) {
    size_t at = WORDS - OPEN - SEEN, last = at + 2 * SEEN;
    char text[16 * SEEN] = "";
    int n = 0;
    for (; at < last; at++)
        if ((unsigned char)OPEN[at] != pattern(at))
            n += snprintf(text + n, sizeof text - n, " %d=%02x", (int)(at - (WORDS - OPEN)),
                          (unsigned char)OPEN[at]);
    for (at = UNIT - 16; at < UNIT; at++)
        if ((unsigned char)OPEN[at] != pattern(at))
            n +=
                snprintf(text + n, sizeof text - n, " end%d=%02x", (int)(at - UNIT), (unsigned char)OPEN[at]);
    if (n) {
        say("   changed");
        say(text);
        say("\n");
    }
}

extern const struct act __start_acts[], __stop_acts[];

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IONBF, 0);
    const char *prefix = argc > 1 ? argv[1] : "";
    for (const struct act *act = __start_acts; act < __stop_acts; act++) {
        if (strncmp(act->name, prefix, strlen(prefix)) != 0) continue;
        pid_t child = fork();
        if (child == 0) {
            struct rlimit none = {0, 0};
            setrlimit(RLIMIT_CORE, &none);
            alarm(20);
            running = act->name;
            prepare();
            unsigned long got = act->run(WORDS, HOLE);
            char text[200];
            snprintf(text, sizeof text, "%s: %#lx\n", act->name, got);
            say(text);
            changes();
            _exit(0);
        }
        int status = 0;
        if (waitpid(child, &status, 0) != child) perror("waitpid");
        if (WIFSIGNALED(status)) printf("%s: killed by %d\n", act->name, WTERMSIG(status));
        else if (WEXITSTATUS(status)) printf("%s: status %d\n", act->name, WEXITSTATUS(status));
    }
    return 0;
}
