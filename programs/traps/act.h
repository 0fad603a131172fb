/*
 * The parts of an act. Each act is a few lines that may trap. It runs in a process of its own; its result is
 * one line of output.
 */
#ifndef LIMEN_TRAPS_ACT_H
#define LIMEN_TRAPS_ACT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* The size of a mapping: a multiple of every page size. */
#define UNIT 0x10000ul
/*
 * The addresses of the mappings, one unit each, and their protections. There are holes behind `OPEN` and
 * `FIXED`.
 */
#define OPEN ((char *)0x20000000)  /* read, write */
#define SHUT ((char *)0x20020000)  /* nothing */
#define FIXED ((char *)0x20040000) /* read; the unit before it as OPEN */
#define CODE ((char *)0x20060000)  /* read, write, execute */
#define FILED ((char *)0x20080000) /* two units of a file that has one page */
#define STACK ((char *)0x200b0000) /* read, write: the stack of handlers */
#define HOLE (OPEN + UNIT)

/* The address that acts get; the memory around it is filled with a pattern. */
#define WORDS (OPEN + 0x100)
/* Bytes on both sides of `WORDS` that are checked for changes. */
#define SEEN 64

struct act {
    const char *name;
    unsigned long (*run)(char *words, char *end);
};

/* An act in C. `words` is WORDS; its return value is printed, unless it traps. */
#define ACT(name)                                                                        \
    static unsigned long name(char *words, char *end);                                   \
    static const struct act act_##name                                                   \
        __attribute__((used, section("acts"), aligned(sizeof(void *)))) = {#name, name}; \
    static unsigned long name(char *words __attribute__((unused)), char *end __attribute__((unused)))

/*
 * An act in assembly, a function of two pointers, WORDS and HOLE. `before` and `after` are the instructions
 * with which it begins and ends on this processor.
 */
#define ASSEMBLY(name, before, text, after)                                                     \
    unsigned long code_##name(char *words, char *end);                                          \
    __asm__(".text\n.balign 64\n.globl code_" #name "\n.type code_" #name ",%function\n" before \
            "\ncode_" #name ":\n" text "\n" after "\n.size code_" #name ",.-code_" #name "\n"); \
    static const struct act act_##name                                                          \
        __attribute__((used, section("acts"), aligned(sizeof(void *)))) = {#name, code_##name}

/* An address that is opaque to the compiler. */
static inline unsigned long at(unsigned long address) {
    __asm__("" : "+r"(address));
    return address;
}

/* Jumps to an address. */
static inline unsigned long go_to(unsigned long where) {
    return ((unsigned long (*)(void))at(where))();
}

/* An act sets this if its addresses differ from run to run. */
extern volatile int hide_addresses;
/* As hide_addresses, from the second signal on, which has the address of a signal frame. */
extern volatile int hide_second;
/* An act may set this: called once by the handler before it returns; then the act continues. */
extern void (*volatile then)(ucontext_t *context);

/* A system call as the processor makes it: the result, a negative errno for an error. */
unsigned long call(unsigned long number, unsigned long a, unsigned long b, unsigned long c);
/* Prints the fields of the context beside the general registers. */
void describe(char *to, size_t room, const siginfo_t *info, const ucontext_t *context);
/* The program counter of a context. */
unsigned long counter(const ucontext_t *context);

#endif
