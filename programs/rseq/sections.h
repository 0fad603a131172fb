// Critical sections, what aborts them, and descriptors that are wrong or not there.

struct section {
    uint32_t version, flags;
    uint64_t start, length, abort;
} __attribute__((aligned(32)));

// spin_asm stores 1 to `*in` and spins until `*go` is not zero: 0, or 1 if it was aborted. hold_asm stores
// `me` to the slot of its concurrency id and looks at it for a while: 0, or 1 if it was aborted, or 2 if
// another value was there.
enum { ABORTED = 1, DISTURBED = 2, SLOTS = 64 };

#if defined(__x86_64__)
__asm__(".text\n.globl spin_asm, spin_start, spin_end, spin_abort\n.type spin_asm,@function\nspin_asm:\n"
        "  movq %rcx, 8(%rdi)\n"
        "spin_start:\n  movl $1, (%rsi)\n1: cmpl $0, (%rdx)\n  je 1b\n"
        "spin_end:\n  xorl %eax, %eax\n  ret\n"
        "  .byte 0x0f, 0xb9, 0x3d\n  .long 0x53053053\n"
        "spin_abort:\n  movl $1, %eax\n  ret\n"
        ".globl hold_asm, hold_start, hold_end, hold_abort\n.type hold_asm,@function\nhold_asm:\n"
        "  movq %rcx, 8(%rdi)\n"
        "hold_start:\n  movl 24(%rdi), %eax\n  andl $63, %eax\n  leaq (%rsi,%rax,4), %rsi\n"
        "  movl %edx, (%rsi)\n  movl $500, %ecx\n"
        "1: cmpl %edx, (%rsi)\n  jne 2f\n  decl %ecx\n  jnz 1b\n"
        "hold_end:\n  xorl %eax, %eax\n  ret\n"
        "2: movl $2, %eax\n  ret\n"
        "  .byte 0x0f, 0xb9, 0x3d\n  .long 0x53053053\n"
        "hold_abort:\n  movl $1, %eax\n  ret\n");
#elif defined(__aarch64__)
__asm__(".text\n.globl spin_asm, spin_start, spin_end, spin_abort\n.type spin_asm,%function\nspin_asm:\n"
        "  str x3, [x0, #8]\n"
        "spin_start:\n  mov w4, #1\n  str w4, [x1]\n1: ldr w4, [x2]\n  cbz w4, 1b\n"
        "spin_end:\n  mov w0, #0\n  ret\n"
        "  .inst 0xd428bc00\n"
        "spin_abort:\n  mov w0, #1\n  ret\n"
        ".globl hold_asm, hold_start, hold_end, hold_abort\n.type hold_asm,%function\nhold_asm:\n"
        "  str x3, [x0, #8]\n"
        "hold_start:\n  ldr w4, [x0, #24]\n  and w4, w4, #63\n  add x1, x1, x4, lsl #2\n"
        "  str w2, [x1]\n  mov w5, #500\n"
        "1: ldr w4, [x1]\n  cmp w4, w2\n  b.ne 2f\n  subs w5, w5, #1\n  b.ne 1b\n"
        "hold_end:\n  mov w0, #0\n  ret\n"
        "2: mov w0, #2\n  ret\n"
        "  .inst 0xd428bc00\n"
        "hold_abort:\n  mov w0, #1\n  ret\n");
#elif defined(__arm__)
__asm__(".text\n.arm\n"
        ".globl spin_asm, spin_start, spin_end, spin_abort\n.type spin_asm,%function\nspin_asm:\n"
        "  mov r12, #0\n  str r12, [r0, #12]\n  str r3, [r0, #8]\n"
        "spin_start:\n  mov r12, #1\n  str r12, [r1]\n1: ldr r12, [r2]\n  cmp r12, #0\n  beq 1b\n"
        "spin_end:\n  mov r0, #0\n  bx lr\n"
        "  .word 0xe7f5def3\n"
        "spin_abort:\n  mov r0, #1\n  bx lr\n"
        ".globl hold_asm, hold_start, hold_end, hold_abort\n.type hold_asm,%function\nhold_asm:\n"
        "  mov r12, #0\n  str r12, [r0, #12]\n  str r3, [r0, #8]\n"
        "hold_start:\n  ldr r12, [r0, #24]\n  and r12, r12, #63\n  add r1, r1, r12, lsl #2\n"
        "  str r2, [r1]\n  mov r3, #500\n"
        "1: ldr r12, [r1]\n  cmp r12, r2\n  bne 2f\n  subs r3, r3, #1\n  bne 1b\n"
        "hold_end:\n  mov r0, #0\n  bx lr\n"
        "2: mov r0, #2\n  bx lr\n"
        "  .word 0xe7f5def3\n"
        "hold_abort:\n  mov r0, #1\n  bx lr\n");
#elif defined(__powerpc64__)
__asm__(".text\n.globl spin_asm, spin_start, spin_end, spin_abort\n.type spin_asm,@function\nspin_asm:\n"
        "  std 6, 8(3)\n"
        "spin_start:\n  li 7, 1\n  stw 7, 0(4)\n1: lwz 7, 0(5)\n  cmpwi 7, 0\n  beq 1b\n"
        "spin_end:\n  li 3, 0\n  blr\n"
        "  .long 0x0fe5000b\n"
        "spin_abort:\n  li 3, 1\n  blr\n"
        ".globl hold_asm, hold_start, hold_end, hold_abort\n.type hold_asm,@function\nhold_asm:\n"
        "  std 6, 8(3)\n"
        "hold_start:\n  lwz 7, 24(3)\n  clrldi 7, 7, 58\n  sldi 7, 7, 2\n  add 4, 4, 7\n"
        "  stw 5, 0(4)\n  li 8, 500\n"
        "1: lwz 7, 0(4)\n  cmpw 7, 5\n  bne 2f\n  addi 8, 8, -1\n  cmpwi 8, 0\n  bne 1b\n"
        "hold_end:\n  li 3, 0\n  blr\n"
        "2: li 3, 2\n  blr\n"
        "  .long 0x0fe5000b\n"
        "hold_abort:\n  li 3, 1\n  blr\n");
#endif

extern int spin_asm(volatile struct area *, volatile uint32_t *, volatile uint32_t *, struct section *);
extern int hold_asm(volatile struct area *, uint32_t *, uint32_t, struct section *);
extern char spin_start[], spin_end[], spin_abort[], hold_start[], hold_end[], hold_abort[];

static struct section section_of(char *start, char *end, char *abort)
{
    return (struct section){0, 0, (uintptr_t)start, end - start, (uintptr_t)abort};
}

static __thread struct section spinning, holding;

static int spin(volatile struct area *area, volatile uint32_t *in, volatile uint32_t *go)
{
    spinning = section_of(spin_start, spin_end, spin_abort);
    return spin_asm(area, in, go, &spinning);
}

static int hold(volatile struct area *area, uint32_t *owners, uint32_t me)
{
    holding = section_of(hold_start, hold_end, hold_abort);
    return hold_asm(area, owners, me, &holding);
}

// --- aborts

struct victim {
    pthread_t thread;
    volatile uint32_t in, go, done, aborted, handled, tid;
    uint32_t len;
    int cpu;
    volatile uint64_t cs_in_handler;
    volatile uintptr_t ip_seen;
};
static __thread volatile struct area *own_area;
static __thread struct victim *own_victim;

static void on_signal(int sig)
{
    (void)sig;
    if (own_victim) {
        own_victim->cs_in_handler = own_area->rseq_cs;
        own_victim->handled++;
    }
}

static void *victim_thread(void *data)
{
    struct victim *v = data;
    struct area *area = aligned_alloc(64, sizeof *area);
    memset(area, 0, sizeof *area);
    own_area = area;
    own_victim = v;
    v->tid = syscall(SYS_gettid);
    if (v->cpu >= 0)
        pin(v->cpu);
    CHECK("register", rseq(area, v->len, 0, SIG), 0);
    v->aborted = spin(area, &v->in, &v->go);
    CHECK("rseq_cs after an abort", area->rseq_cs, v->aborted ? 0 : (long)(uintptr_t)&spinning);
    v->done = 1;
    // The thread must still exist when another thread sends it a signal, even if a preemption aborted it
    // first.
    while (!v->go)
        nap(1000);
    CHECK("unregister", rseq(area, v->len, 1, SIG), 0);
    free(area);
    return 0;
}

static void begin(struct victim *v, uint32_t len, int cpu)
{
    memset(v, 0, sizeof *v);
    v->len = len;
    v->cpu = cpu;
    pthread_create(&v->thread, 0, victim_thread, v);
    while (!v->in)
        sched_yield();
}

// Waits up to ten seconds for the victim to leave its section; then sets `go`.
static void end(struct victim *v)
{
    for (int i = 0; i < 10000 && !v->done; i++)
        nap(1000);
    v->go = 1;
    pthread_join(v->thread, 0);
}

static void abort_by_signal(uint32_t len)
{
    struct victim v;
    begin(&v, len, -1);
    // A preemption may have aborted it already.
    pthread_kill(v.thread, SIGUSR1);
    for (int i = 0; i < 10000 && !v.handled; i++)
        nap(1000);
    end(&v);
    CHECK("aborted by a signal", v.aborted, 1);
    CHECK("handled", v.handled, 1);
    CHECK("rseq_cs in the handler", v.cs_in_handler, 0);
}

static void abort_by_preemption(uint32_t len)
{
    struct victim v;
    pin(0);
    begin(&v, len, 0);
    // Both threads are on one CPU: this thread runs, so the other has been preempted. The nap lets the other
    // run.
    nap(20000);
    for (volatile int i = 0; i < 100000; i++)
        ;
    nap(20000);
    end(&v);
    unpin();
    CHECK("aborted by preemption", v.aborted, 1);
}

static void abort_by_migration(uint32_t len)
{
    struct victim v;
    if (cpus < 2)
        return;
    pin(0);
    begin(&v, len, 1);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpus - 1 > 1 ? 2 : 0, &set);
    CHECK("sched_setaffinity", sched_setaffinity(v.tid, sizeof set, &set), 0);
    end(&v);
    unpin();
    CHECK("aborted by migration", v.aborted, 1);
}

static long membarrier(int cmd, int flags, int cpu)
{
    long r = syscall(SYS_membarrier, cmd, flags, cpu);
    return r < 0 ? -errno : r;
}

static void abort_by_membarrier(uint32_t len)
{
    struct victim v;
    long has = membarrier(0, 0, 0);
    if (cpus < 2)
        return;
    if (has < 0 || !(has & 128)) {
        printf("%s: membarrier does not know of rseq, left out\n", name);
        return;
    }
    CHECK("register membarrier", membarrier(256, 0, 0), 0);
    pin(0);
    begin(&v, len, 1);
    CHECK("membarrier", membarrier(128, 0, 0), 0);
    end(&v);
    CHECK("aborted by membarrier", v.aborted, 1);
    begin(&v, len, 1);
    CHECK("membarrier on one CPU", membarrier(128, 1, 1), 0);
    end(&v);
    CHECK("aborted by membarrier on its CPU", v.aborted, 1);
    unpin();
}

// A section with an invalid descriptor, or whose abort handler has no signature, kills the process.
static int dies(uint32_t len, int how)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        static struct area a;
        static struct section s;
        static volatile uint32_t in, go;
        signal(SIGSEGV, SIG_DFL);
        signal(SIGALRM, SIG_IGN);
        if (rseq(&a, len, 0, how == 0 ? SIG + 1 : SIG) != 0)
            _exit(2);
        s = section_of(spin_start, spin_end, spin_abort);
        if (how == 1)
            s.version = 1;
        if (how == 2)
            s.abort = (uintptr_t)spin_start;
        if (how == 3)
            s.abort = ~0ull - 100;
        struct section *at = &s;
        if (how == 4)
            at = (struct section *)16;
        if (how == 5) {
            at = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            munmap(at, 4096);
        }
        pid_t killer = fork();
        if (killer == 0) {
            for (int i = 0; i < 50; i++) {
                nap(20000);
                kill(getppid(), SIGUSR2);
            }
            _exit(0);
        }
        spin_asm(&a, &in, &go, at);
        _exit(3);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

// --- descriptors that do not matter, and descriptors that are not there

// If a thread is not in the section, its pointer is only cleared, whatever else the descriptor says.
static void outside(uint32_t len)
{
    static struct section s;
    pthread_t other;
    volatile struct area *area = &main_area;
    if (!extended)
        return;
    fflush(stdout);
    for (int how = 0; how < 3; how++) {
        pid_t pid = fork();
        if (pid == 0) {
            s = section_of(spin_start, spin_end, how == 2 ? spin_start : spin_abort);
            s.version = how == 0;
            s.flags = how == 1;
            pin(0);
            if (rseq(&main_area, len, 0, SIG) != 0)
                _exit(2);
            competed = 0;
            pthread_create(&other, 0, compete, 0);
            area->rseq_cs = (uintptr_t)&s;
            for (uint64_t end = now_us() + 5000000; area->rseq_cs && now_us() < end;)
                ;
            _exit(area->rseq_cs ? 3 : 0);
        }
        int status = 0;
        waitpid(pid, &status, 0);
        CHECK("outside of a section", status, 0);
    }
}

static struct section *absent;
static volatile uint32_t absent_in, absent_go, absent_tid;

static void *absent_thread(void *len)
{
    static struct area area;
    absent_tid = syscall(SYS_gettid);
    if (rseq(&area, (long)len, 0, SIG) != 0)
        _exit(2);
    do
        madvise(absent, 4096, MADV_DONTNEED);
    while (spin_asm(&area, &absent_in, &absent_go, absent));
    if (rseq(&area, (long)len, 1, SIG) != 0)
        _exit(2);
    return 0;
}

// The page of the descriptor is unmapped again and again while the thread is migrated: every other return to
// user mode finds it missing after the identifiers have been written.
static void absent_descriptors(uint32_t len)
{
    if (cpus < 3)
        return;
    fflush(stdout);
    for (int round = 0; round < 3; round++) {
        pid_t pid = fork();
        if (pid == 0) {
            char name[] = "/tmp/rseq-XXXXXX";
            mkdir("/tmp", 0755);
            int fd = mkstemp(name);
            struct section s = section_of(spin_start, spin_end, spin_abort);
            unlink(name);
            if (fd < 0 || ftruncate(fd, 4096) || write(fd, &s, sizeof s) != sizeof s)
                _exit(4);
            absent = mmap(0, 4096, PROT_READ, MAP_SHARED, fd, 0);
            pthread_t thread;
            pin(0);
            pthread_create(&thread, 0, absent_thread, (void *)(long)len);
            while (!absent_in)
                sched_yield();
            for (uint64_t end = now_us() + 1500000; now_us() < end;)
                for (int i = 0; i < 100; i++) {
                    cpu_set_t set;
                    CPU_ZERO(&set);
                    CPU_SET(1 + i % 2, &set);
                    sched_setaffinity(absent_tid, sizeof set, &set);
                }
            absent_go = 1;
            pthread_join(thread, 0);
            _exit(0);
        }
        int status = 0;
        waitpid(pid, &status, 0);
        CHECK("moved while its descriptor is missing", status, 0);
    }
}
