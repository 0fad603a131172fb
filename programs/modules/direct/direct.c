/*
 * Tracers of a module: one that gets all registers, and a function that is called directly. Both watch
 * `direct_target`, which /proc/direct calls with 11, 22, 33 and 44 whenever it is read, and says how often
 * each was called and whether it saw what it should. What happens is written to the file of parameter `act`.
 */
#include "limen.h"

LIMEN_MODULE("direct", "Dual MIT/GPL");

/* 0: nobody watches; 1: `first` is called directly; 2: `second` is; 3: nothing but a tracer is there. */
static int act = 1;
LIMEN_PARAM(act, int, 0644);

static struct limen_proc *file;
static struct limen_tracer *tracer, *direct;
static int is_now;
static volatile unsigned long firsts, seconds, traced, wrong, sum;

__attribute__((noinline, noclone)) long direct_target(long a, long b, long c, long d);
__attribute__((noinline, noclone)) long direct_target(long a, long b, long c, long d) {
    sum += (unsigned long)(a + b + c + d);
    return a * 2 + b * 3 + c * 5 + d * 7;
}

static bool are_right(unsigned long a, unsigned long b, unsigned long c, unsigned long d) {
    return a == 11 && b == 22 && c == 33 && d == 44;
}

static void first(long a, long b, long c, long d) {
    firsts++;
    wrong += !are_right((unsigned long)a, (unsigned long)b, (unsigned long)c, (unsigned long)d);
}

static void second(long a, long b, long c, long d) {
    seconds++;
    wrong += !are_right((unsigned long)a, (unsigned long)b, (unsigned long)c, (unsigned long)d);
}

/* Where DWARF has the first argument, the stack pointer, and a register that calls leave as it is. */
#if defined(__x86_64__)
enum { FIRST = 5, STACK = 7, KEPT = 12 };
#elif defined(__aarch64__)
enum { FIRST = 0, STACK = 31, KEPT = 20 };
#elif defined(__arm__)
enum { FIRST = 0, STACK = 13, KEPT = 5 };
#else
enum { FIRST = 3, STACK = 1, KEPT = 20 };
#endif

/* Calls the target with this value in the register KEPT, and says whether it is there afterwards. */
#define MARK 0x5a5a1234ul
static long call(bool *is_kept) {
#if defined(__x86_64__)
    register unsigned long kept __asm__("r12") = MARK;
#elif defined(__aarch64__)
    register unsigned long kept __asm__("x20") = MARK;
#elif defined(__arm__)
    register unsigned long kept __asm__("r5") = MARK;
#else
    register unsigned long kept __asm__("r20") = MARK;
#endif
    __asm__ volatile("" : "+r"(kept));
    long result = direct_target(11, 22, 33, 44);
    __asm__ volatile("" : "+r"(kept));
    *is_kept = kept == MARK;
    return result;
}

static void trace(unsigned long ip, unsigned long parent, void *data, struct limen_regs *regs) {
    unsigned long a[4], value, stack, here = (unsigned long)&value;
    traced++;
    for (unsigned int n = 0; n < 4; n++)
        if (limen_regs_argument(regs, n, &a[n]) != 0)
            a[n] = 0;
    wrong += !are_right(a[0], a[1], a[2], a[3]) || data != &traced || ip == parent;
    wrong += limen_regs_get(regs, FIRST, &value) != 0 || value != 11;
    wrong += limen_regs_get(regs, KEPT, &value) != 0 || value != MARK;
    /* This function's own stack is below that of the traced one, and not far. */
    wrong += limen_regs_get(regs, STACK, &stack) != 0 || stack <= here || stack - here > 4096;
    /* It has not said that it would. */
    wrong += limen_regs_set_ip(regs, (const void *)trace) != -LIMEN_EINVAL;
}

/* Does what `act` says. */
static int change(void) {
    int error = 0;
    if (act == is_now)
        return 0;
    if (act == 0 || act == 3) {
        limen_tracer_unregister(direct);
        direct = 0;
    } else if (direct) {
        error = limen_direct_modify(direct, act == 1 ? (const void *)first : (const void *)second);
    } else {
        error = limen_direct_register("direct_target", act == 1 ? (const void *)first : (const void *)second,
            &direct);
    }
    if (error == 0)
        is_now = act;
    return error;
}

static int show(struct limen_text *out, void *data) {
    (void)data;
    /* One reader at a time. */
    limen_param_lock();
    int error = change();
    limen_param_unlock();
    bool is_kept = false;
    firsts = seconds = traced = 0;
    long result = 0;
    for (int i = 0; i < 100; i++) {
        result += call(&is_kept);
        wrong += !is_kept;
    }
    limen_print(out, "error %d, result %ld, first %lu, second %lu, traced %lu, wrong %lu\n", -error, result,
        firsts, seconds, traced, wrong);
    return 0;
}

static int start(void) {
    struct limen_tracer *other = 0;
    unsigned int bad = 0;
    int error =
        limen_tracer_register("direct_target", LIMEN_TRACER_SAVE_REGS, trace, (void *)&traced, &tracer);
    if (error == 0)
        error = limen_direct_register("direct_target", (const void *)first, &direct);
    if (error == 0) {
        is_now = 1;
        /* One only; a function that there is not; several; flags that there are not. */
        bad += limen_direct_register("direct_target", (const void *)second, &other) != -LIMEN_EBUSY;
        bad += limen_direct_register("no_such_function", (const void *)second, &other) != -LIMEN_ENOENT;
        bad += limen_direct_register("*:mod:direct", (const void *)second, &other) != -LIMEN_EINVAL;
        bad += limen_tracer_register("direct_target", 4, trace, 0, &other) != -LIMEN_EINVAL;
        /* It is none that is called directly. */
        bad += limen_direct_modify(tracer, (const void *)second) != -LIMEN_EINVAL;
        file = limen_proc_create("direct", 0444, show, 0);
        error = bad ? -LIMEN_EIO : file ? 0 : -LIMEN_ENOMEM;
    }
    if (error != 0) {
        limen_tracer_unregister(direct);
        limen_tracer_unregister(tracer);
        limen_info("direct: error %d, %u were not refused", -error, bad);
    }
    return error;
}

static void end(void) {
    limen_proc_remove(file);
    limen_tracer_unregister(tracer);
    /* The kernel takes what is left. */
    limen_info("direct: unloaded, %u wrong", (unsigned int)wrong);
}

LIMEN_INIT(start);
LIMEN_EXIT(end);
