/*
 * Writes into the trace in every way that a module has, when it is loaded and then in an interrupt. Linux's
 * ftracetest knows a module of this name, what its lines are about, and that function.
 */
#include "limen.h"

LIMEN_MODULE("trace_printk", "Dual MIT/GPL");

static struct limen_timer *timer;

/* A format and a text that are not known when this is compiled, so that the trace gets what is made. */
static const char *volatile made_format = "This is made of number %d, that will use trace_printk\n";
static const char *volatile made_format_irq = "(irq) This is made of number %d, that will use trace_printk\n";

static const char text[] = "This is a text with its length that will use trace_puts";
static const char irq_text[] = "(irq) This is a text with its length that will use trace_puts";

static void trace_printk_irq_work(void *data) {
    (void)data;
    limen_trace_puts("(irq) This is a static string that will use trace_bputs\n");
    limen_trace_text(LIMEN_HERE, irq_text, sizeof irq_text - 1);
    limen_trace_printk("(irq) This is a %s that will use trace_bprintk: %d, %ld%%, %x\n", "format", -1,
        100l, 0xabcdu);
    limen_trace_line(made_format_irq, 2);
}

static int start(void) {
    timer = limen_timer_create(trace_printk_irq_work, 0);
    if (!timer)
        return -LIMEN_ENOMEM;
    limen_trace_puts("This is a static string that will use trace_bputs\n");
    limen_trace_text(LIMEN_HERE, text, sizeof text - 1);
    limen_trace_printk("This is a %s that will use trace_bprintk: %c %p\n", "format", 'c', (void *)0x1234);
    limen_trace_line(made_format, 1);
    limen_timer_start(timer, 1000);
    return 0;
}

static void end(void) {
    limen_timer_delete(timer);
}

LIMEN_INIT(start);
LIMEN_EXIT(end);
