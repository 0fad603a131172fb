/*
 * What lies on the kernel stack from call to call: /proc/stack_place says where on it its reader is,
 * /proc/stack_secret leaves words there, and /proc/stack_left counts those that it finds.
 */
#include "limen.h"

LIMEN_MODULE("stack", "Dual MIT/GPL");

/*
 * The word that is left is WORD ^ key, so that no register that an interrupt saves, while words are counted,
 * looks like it. The compiler must not know the key: it would compare with the word itself.
 */
#define WORD 0x5ec2e75ul
static volatile unsigned long key = 0x1234567ul;
#define WORDS 256
/* How far below itself a function looks, in words. */
#define BELOW 1024

static struct limen_proc *place, *secret, *left;

static int show_place(struct limen_text *out, void *data) {
    (void)data;
    limen_print(out, "%lu\n", (unsigned long)__builtin_frame_address(0));
    return 0;
}

static __attribute__((noinline, noclone)) void leave(void) {
    unsigned long words[WORDS], word = WORD ^ key;

    for (int i = 0; i < WORDS; i++)
        words[i] = word;
    /* Somebody may look at them. */
    __asm__ volatile("" : : "r"(words) : "memory");
}

static int show_secret(struct limen_text *out, void *data) {
    (void)data;
    leave();
    limen_print(out, "%d\n", WORDS);
    return 0;
}

static __attribute__((noinline, noclone)) int count(const volatile unsigned long *at) {
    unsigned long with = key;
    int found = 0;

    for (int i = 1; i <= BELOW; i++)
        found += (at[-i] ^ with) == WORD;
    return found;
}

static int show_left(struct limen_text *out, void *data) {
    unsigned long here[1];

    (void)data;
    /* A way that the compiler cannot follow: what it looks at is below all its variables. */
    __asm__ volatile("" : : "r"(here) : "memory");
    limen_print(out, "%d\n", count(here));
    return 0;
}

static int start(void) {
    place = limen_proc_create("stack_place", 0444, show_place, 0);
    secret = limen_proc_create("stack_secret", 0444, show_secret, 0);
    left = limen_proc_create("stack_left", 0444, show_left, 0);
    if (place && secret && left)
        return 0;
    limen_proc_remove(place);
    limen_proc_remove(secret);
    limen_proc_remove(left);
    return -LIMEN_ENOMEM;
}

static void end(void) {
    limen_proc_remove(place);
    limen_proc_remove(secret);
    limen_proc_remove(left);
}

LIMEN_INIT(start);
LIMEN_EXIT(end);
