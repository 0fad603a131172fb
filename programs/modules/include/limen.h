/*
 * What modules of the kernel can call (kernel/src/module/interface), and what every module says of itself.
 *
 *     #include "limen.h"
 *     LIMEN_MODULE("hello", "Dual MIT/GPL");
 *     static int start(void) { limen_info("hello"); return 0; }
 *     static void end(void) { }
 *     LIMEN_INIT(start);
 *     LIMEN_EXIT(end);
 *
 * `limen build --module DIR` compiles a module. Nothing else of C's library is there.
 */
#ifndef LIMEN_H
#define LIMEN_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* The version of this interface. The kernel loads no module that was built for another one. */
#define LIMEN_ABI "1"

#define LIMEN_JOIN2(a, b) a##b
#define LIMEN_JOIN(a, b) LIMEN_JOIN2(a, b)

/* A line of `.modinfo`. */
#define LIMEN_INFO(key, value) \
    static const char LIMEN_JOIN(limen_info_, __COUNTER__)[] \
        __attribute__((section(".modinfo"), used, aligned(1))) = key "=" value

/* A row of a table, with no gap before the next: compilers align large objects more than they must. */
#define LIMEN_ROW aligned(sizeof(void *))

/* The module's name and licence. Once per module, in one of its files. */
#define LIMEN_MODULE(module, license_) \
    LIMEN_INFO("name", module); \
    LIMEN_INFO("license", license_); \
    LIMEN_INFO("limen_abi", LIMEN_ABI)

/* Code and data that are freed when `init` has run, and data that cannot be written from then on. */
#define LIMEN_INIT_TEXT __attribute__((section(".init.text"), noinline))
#define LIMEN_INIT_DATA __attribute__((section(".init.data")))
#define LIMEN_RO_AFTER_INIT __attribute__((section(".data..ro_after_init")))

/* What is called to begin: 0, or `-errno`, with which the module is not loaded. And to end: a module that has
 * the first and not the second cannot be unloaded. */
#define LIMEN_INIT(function) \
    int init_module(void); \
    LIMEN_INIT_TEXT int init_module(void) { return function(); } \
    struct limen_unused
#define LIMEN_EXIT(function) \
    void cleanup_module(void); \
    void cleanup_module(void) { function(); } \
    struct limen_unused

/* Lets other modules use a function or an object; the second those with a licence compatible with the GPL. */
#define LIMEN_EXPORT_FLAGS(symbol, flags_) \
    static const char limen_export_name_##symbol[] __attribute__((used)) = #symbol; \
    static const struct limen_export limen_export_##symbol \
        __attribute__((section(".limen.exports"), used, LIMEN_ROW)) = { limen_export_name_##symbol, \
            (const void *)&symbol, flags_ }
#define LIMEN_EXPORT(symbol) LIMEN_EXPORT_FLAGS(symbol, 0)
#define LIMEN_EXPORT_GPL(symbol) LIMEN_EXPORT_FLAGS(symbol, 1)
struct limen_export {
    const char *name;
    const void *address;
    unsigned long flags;
};

/* A parameter: a variable that is set by `name=value` when the module is loaded, and by its file in
 * /sys/module/MODULE/parameters, which has this mode (0: no file). `type` is as Linux has it: bool, invbool,
 * byte, short, ushort, int, uint, long, ulong, ullong, hexint, charp; `string` for an array of char. */
#define LIMEN_PARAM_ENTRY(variable, number, elements, mode_) \
    static const char limen_param_name_##variable[] __attribute__((used)) = #variable; \
    static const struct limen_param limen_param_##variable \
        __attribute__((section(".limen.params"), used, LIMEN_ROW)) = { limen_param_name_##variable, \
            (void *)&variable, number, elements, mode_ }
#define LIMEN_PARAM(variable, type, mode) \
    LIMEN_INFO("parmtype", #variable ":" #type); \
    LIMEN_PARAM_ENTRY(variable, 0, 1, mode)
#define LIMEN_PARAM_ARRAY(variable, type, count, mode) \
    LIMEN_INFO("parmtype", #variable ":array of " #type); \
    LIMEN_PARAM_ENTRY(variable, count, sizeof(variable) / sizeof((variable)[0]), mode)
#define LIMEN_PARAM_STRING(variable, mode) \
    LIMEN_INFO("parmtype", #variable ":string"); \
    LIMEN_PARAM_ENTRY(variable, 0, sizeof(variable), mode)
struct limen_param {
    const char *name;
    void *variable;
    unsigned int *number;
    unsigned long elements;
    unsigned long mode;
};

/* In inline assembly: the instructions from label `from` to before `until` may fault, and the thread goes on
 * at `to` then. No other instruction of a module may. */
#if __SIZEOF_POINTER__ == 8
#define LIMEN_WORDS ".balign 8\n.quad "
#else
#define LIMEN_WORDS ".balign 4\n.long "
#endif
#define LIMEN_MAY_FAULT(from, until, to) \
    ".pushsection .limen.faults, \"a\"\n" LIMEN_WORDS from ", " until ", " to "\n.popsection\n"

#ifdef __powerpc64__
#define LIMEN_BASE(pointer) "b"(pointer)
#else
#define LIMEN_BASE(pointer) "r"(pointer)
#endif
#if defined(__x86_64__)
#define LIMEN_LOAD "mov (%2), %0\nxor %1, %1\n"
#define LIMEN_STORE "mov %0, (%2)\nxor %1, %1\n"
#elif defined(__aarch64__)
#define LIMEN_LOAD "ldr %0, [%2]\nmov %w1, #0\n"
#define LIMEN_STORE "str %0, [%2]\nmov %w1, #0\n"
#elif defined(__arm__)
#define LIMEN_LOAD "ldr %0, [%2]\nmov %1, #0\n"
#define LIMEN_STORE "str %0, [%2]\nmov %1, #0\n"
#else
#define LIMEN_LOAD "ld %0, 0(%2)\nli %1, 0\n"
#define LIMEN_STORE "std %0, 0(%2)\nli %1, 0\n"
#endif

/* Reads a word of the kernel's that may not be there; 0, or -EFAULT. */
static inline int limen_get_nofault(unsigned long *value, const unsigned long *from) {
    int result = -14;
    unsigned long word = 0;
    __asm__ volatile("1: " LIMEN_LOAD "2:\n" LIMEN_MAY_FAULT("1b", "2b", "2b")
                     : "+r"(word), "+r"(result) : LIMEN_BASE(from) : "cc", "memory");
    *value = word;
    return result;
}

/* Writes one that may not be there, or not be written; 0, or -EFAULT. */
static inline int limen_put_nofault(unsigned long *to, unsigned long value) {
    int result = -14;
    __asm__ volatile("1: " LIMEN_STORE "2:\n" LIMEN_MAY_FAULT("1b", "2b", "2b")
                     : "+r"(value), "+r"(result) : LIMEN_BASE(to) : "cc", "memory");
    return result;
}

/* Numbers of errors, as Linux has them. */
#define LIMEN_ENOENT 2
#define LIMEN_EIO 5
#define LIMEN_ENOMEM 12
#define LIMEN_EFAULT 14
#define LIMEN_EBUSY 16
#define LIMEN_EINVAL 22

/* "Atomic" means: anywhere, also in interrupts and with locks held. What is not atomic may sleep. */

/* A line of the log, of one of syslog's levels (3 error, 4 warning, 6 information). Atomic. */
void limen_log_text(int level, const char *text, size_t length);
/* The same, of something that is wrong in the module (Linux's WARN): with a backtrace, and the kernel's mark
 * W. With traceoff_on_warning it ends tracing. Atomic. */
void limen_warn_text(const char *text, size_t length);

/* A file that is read: adds to its text. */
struct limen_text;
void limen_text_add(struct limen_text *out, const char *text, size_t length);

/* Memory, aligned to 16 bytes. Null: there is none. Atomic, up to 16 KiB. */
void *limen_kmalloc(size_t size);
void *limen_kzalloc(size_t size);
void limen_kfree(void *block);

/* Whole pages with consecutive addresses, which can be read and written. Null: there is no memory. */
void *limen_vmalloc(size_t size);
void limen_vfree(void *at);

/* What pages that limen_vmalloc gave allow. 0, or -LIMEN_EINVAL: they are not such pages, or could be both
 * written and executed. */
int limen_set_memory_ro(void *at, int pages);
int limen_set_memory_rw(void *at, int pages);
int limen_set_memory_x(void *at, int pages);
int limen_set_memory_nx(void *at, int pages);

/* Writes a word if that is allowed: 0, or -LIMEN_EFAULT. Atomic. */
int limen_probe_write(unsigned int *at, unsigned int value);

/* Pages of memory: all, and those that are free. Atomic. */
unsigned long limen_total_pages(void);
unsigned long limen_free_pages(void);
#define LIMEN_PAGE_SIZE 4096ul

/* A file at the top of /proc, with a mode of which the bits for reading count. `show` writes its text with
 * limen_text_add; it returns 0 or -errno. Null: there is such a name, or no memory. Removing waits for those
 * who read. */
struct limen_proc;
struct limen_proc *limen_proc_create(const char *name, unsigned int mode,
    int (*show)(struct limen_text *out, void *data), void *data);
void limen_proc_remove(struct limen_proc *file);

/* Between these a parameter that is a text (charp) keeps its value: writing to its file frees the text that
 * it had. Not while holding it already, and not in a timer's function. */
void limen_param_lock(void);
void limen_param_unlock(void);

/* A timer that expires once. `expired` runs in an interrupt. Starting is atomic, and allowed in `expired`;
 * cancelling and deleting wait until it does not run. Cancelling returns whether it was to expire. */
struct limen_timer;
struct limen_timer *limen_timer_create(void (*expired)(void *data), void *data);
void limen_timer_start(struct limen_timer *timer, unsigned long long ns);
int limen_timer_cancel(struct limen_timer *timer);
void limen_timer_delete(struct limen_timer *timer);

/* Tracers of functions. `functions` is a word as set_ftrace_filter takes it: a name, a pattern, `*:mod:NAME`.
 * `trace` is called whenever one of them is, with the address of its beginning, the address that it returns
 * to, `data` and its registers; anywhere, and it must not sleep. It does not trace what it calls itself. 0,
 * or -LIMEN_ENOENT: there is no such function; -LIMEN_EBUSY: another tracer is in its way; -LIMEN_EINVAL,
 * -LIMEN_ENOMEM. Unregistering a tracer, or nothing (null), waits until `trace` does not run. Not atomic. */
struct limen_tracer;
struct limen_regs;
int limen_tracer_register(const char *functions, unsigned int flags,
    void (*trace)(unsigned long ip, unsigned long parent, void *data, struct limen_regs *regs), void *data,
    struct limen_tracer **tracer);
void limen_tracer_unregister(struct limen_tracer *tracer);
/* It wants all registers; and it may have another function run instead, for which it gets them, too: only
 * one tracer of a function may do that. */
#define LIMEN_TRACER_SAVE_REGS 1u
#define LIMEN_TRACER_IPMODIFY 2u

/* For `trace`. An argument, from 0, if it is in a register; the register that has this number in DWARF, if
 * it was saved; and another function, which runs instead of the one that was called, with its arguments. 0,
 * or -LIMEN_EINVAL: it is not there; the tracer is none that does that. A module is freed when no thread is
 * in a function of its to which it was sent so. */
int limen_regs_argument(struct limen_regs *regs, unsigned int n, unsigned long *value);
int limen_regs_get(struct limen_regs *regs, unsigned int n, unsigned long *value);
int limen_regs_set_ip(struct limen_regs *regs, const void *function);

/* A direct call: `direct`, a function, is called whenever the function is that `function` names, before it
 * and with those of its arguments that are in registers, behind its tracers; it may sleep where that may. It
 * is not called by what it calls itself. What it returns is not used. Errors as above; -LIMEN_EINVAL also if
 * several functions have the name, -LIMEN_EBUSY if one has such a call already, or a tracer that changes
 * where it goes. Modifying it leaves no call without one of both, and returns when the former does not run.
 * It ends by limen_tracer_unregister, which waits for those who are in it. */
int limen_direct_register(const char *function, const void *direct, struct limen_tracer **tracer);
int limen_direct_modify(struct limen_tracer *tracer, const void *direct);

/* Live patching: functions that run instead of others, which take and return the same; a function of the
 * kernel is written in Rust, so that is for who knows its source. `object` is a module that is loaded, or
 * null: the kernel. `name` is that of available_filter_functions; if several have it `position` says which,
 * from 1, in that order; 0: it is the only one. The last thing that `init` does is to enable the patch, of
 * this module's name, and to return the result: 0, -LIMEN_ENOENT: there is no such function or module;
 * -LIMEN_EBUSY: another patch comes or goes, a tracer changes where the function goes, it is called directly,
 * or threads are on their way out of a module to which a tracer has sent them; -LIMEN_EINVAL, -LIMEN_ENOMEM.
 * Then each thread changes over to the new functions where it is in none of the old ones. The module is used
 * until its patch was disabled (/sys/kernel/livepatch/NAME/enabled), so that its `exit` does nothing. With
 * LIMEN_PATCH_REPLACE all other patches are gone when this one is there. */
struct limen_patch_function {
    const char *object;
    const char *name;
    const void *replacement;
    unsigned long position;
};
#define LIMEN_PATCH_REPLACE 1u
int limen_patch_enable(const struct limen_patch_function *functions, size_t count, unsigned int flags);

/* Nanoseconds of CLOCK_MONOTONIC. Atomic. */
unsigned long long limen_now_ns(void);
/* Sleeps. 0, or -EINTR: a signal came. */
int limen_sleep_ms(unsigned int ms);

void *memcpy(void *to, const void *from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *at, int byte, size_t size);
int memcmp(const void *a, const void *b, size_t size);

/* Text with numbers in it. */
struct limen_line {
    char text[256];
    size_t length;
};

static inline void limen_put(struct limen_line *line, char c) {
    if (line->length < sizeof line->text)
        line->text[line->length++] = c;
}

static inline void limen_put_number(struct limen_line *line, unsigned long value, unsigned int base) {
    char digits[24];
    unsigned int n = 0;
    do {
        digits[n++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value);
    while (n)
        limen_put(line, digits[--n]);
}

/* Knows %s, %c, %d, %u, %x, %ld, %lu, %lx, %p and %%. What does not fit is cut. */
static inline void limen_format(struct limen_line *line, const char *format, va_list list) {
    for (; *format; format++) {
        if (*format != '%') {
            limen_put(line, *format);
            continue;
        }
        bool wide = *++format == 'l';
        if (wide)
            format++;
        switch (*format) {
        case 's':
            for (const char *text = va_arg(list, const char *); *text; text++)
                limen_put(line, *text);
            break;
        case 'c':
            limen_put(line, (char)va_arg(list, int));
            break;
        case 'd': {
            long value = wide ? va_arg(list, long) : va_arg(list, int);
            if (value < 0)
                limen_put(line, '-');
            limen_put_number(line, value < 0 ? 0 - (unsigned long)value : (unsigned long)value, 10);
            break;
        }
        case 'u':
        case 'x':
            limen_put_number(line, wide ? va_arg(list, unsigned long) : va_arg(list, unsigned int),
                *format == 'u' ? 10 : 16);
            break;
        case 'p':
            limen_put_number(line, (unsigned long)va_arg(list, void *), 16);
            break;
        case 0:
            return;
        default:
            limen_put(line, *format);
        }
    }
}

__attribute__((format(printf, 2, 3), unused)) static void limen_log(int level, const char *format, ...) {
    struct limen_line line;
    va_list list;
    line.length = 0;
    va_start(list, format);
    limen_format(&line, format, list);
    va_end(list);
    limen_log_text(level, line.text, line.length);
}
#define limen_error(...) limen_log(3, __VA_ARGS__)
#define limen_warning(...) limen_log(4, __VA_ARGS__)
#define limen_info(...) limen_log(6, __VA_ARGS__)

/* Lines of the trace of /sys/kernel/tracing, which say of what function they are; text without numbers; and
 * text with a format, of which the trace gets the arguments, so that recording it is quick. A constant format
 * is kept by the kernel when the module is loaded, for those who read the trace later: up to 512 characters,
 * which shows in printk_formats. For formats that are made limen_trace_line. Atomic. */
void limen_trace_text(unsigned long ip, const char *text, size_t length);
void limen_trace_string(unsigned long ip, const char *text);
void limen_trace_binary(unsigned long ip, const char *format, const void *arguments, size_t length);

#define LIMEN_HERE ({ __label__ limen_here; limen_here: (unsigned long)&&limen_here; })
#define LIMEN_KEPT(text) ({ \
    static const char *volatile limen_kept \
        __attribute__((section(".limen.formats"), used, LIMEN_ROW)) = text; \
    limen_kept; })
#define limen_trace_puts(text) limen_trace_string(LIMEN_HERE, LIMEN_KEPT(text))
#define limen_trace_printk(...) \
    limen_trace_pack(LIMEN_HERE, LIMEN_KEPT(LIMEN_FIRST(__VA_ARGS__, )), __VA_ARGS__)
#define limen_trace_line(...) limen_trace_format(LIMEN_HERE, __VA_ARGS__)
#define LIMEN_FIRST(first, ...) first

/* Puts a number of so many bytes behind the arguments that a record has, aligned to four at most. */
static inline void limen_pack(struct limen_line *line, const void *bytes, size_t size) {
    while (line->length % (size < 4 ? size : 4))
        limen_put(line, 0);
    for (size_t n = 0; n < size; n++)
        limen_put(line, ((const char *)bytes)[n]);
}

__attribute__((format(printf, 3, 4), unused))
static void limen_trace_pack(unsigned long ip, const char *kept, const char *format, ...) {
    struct limen_line line;
    va_list list;
    line.length = 0;
    va_start(list, format);
    while (*format) {
        if (*format++ != '%')
            continue;
        bool wide = *format == 'l';
        if (wide)
            format++;
        if (*format == 's') {
            const char *text = va_arg(list, const char *);
            do
                limen_put(&line, *text);
            while (*text++);
        } else if (*format == 'c') {
            char c = (char)va_arg(list, int);
            limen_pack(&line, &c, sizeof c);
        } else if (*format == 'p' || (wide && (*format == 'd' || *format == 'u' || *format == 'x'))) {
            unsigned long number = va_arg(list, unsigned long);
            limen_pack(&line, &number, sizeof number);
        } else if (*format == 'd' || *format == 'u' || *format == 'x') {
            unsigned int number = va_arg(list, unsigned int);
            limen_pack(&line, &number, sizeof number);
        } else if (!*format) {
            break;
        }
        format++;
    }
    va_end(list);
    limen_trace_binary(ip, kept, line.text, line.length);
}

__attribute__((format(printf, 2, 3), unused))
static void limen_trace_format(unsigned long ip, const char *format, ...) {
    struct limen_line line;
    va_list list;
    line.length = 0;
    va_start(list, format);
    limen_format(&line, format, list);
    va_end(list);
    limen_trace_text(ip, line.text, line.length);
}

__attribute__((format(printf, 2, 3), unused))
static void limen_print(struct limen_text *out, const char *format, ...) {
    struct limen_line line;
    va_list list;
    line.length = 0;
    va_start(list, format);
    limen_format(&line, format, list);
    va_end(list);
    limen_text_add(out, line.text, line.length);
}

#endif
