/*
 * Shared by the files of the guest agent: the run description that the host packed, and the state of the
 * relays. docs/running.md describes the protocol with the host.
 */
#ifndef LIMEN_AGENT_H
#define LIMEN_AGENT_H

#include "sys.h"

/*
 * Limits: the number of the program's arguments, and of environment strings; the bytes of the description;
 * the number of settings of a trace.
 * tools/limen/src/image.rs has the same values. Guests of 16 MiB must have room for it.
 */
#define MAX_WORDS 16384
#define MAX_TEXT (1 << 20)
#define MAX_TRACE 1024
#define BUFFER (64 * 1024)

/* The contents of /.limen/run. Pointers go into the text of that file. */
struct run {
    char *argv[MAX_WORDS + 1];
    char *envp[MAX_WORDS + 1];
    char *cwd;
    char *terminal; /* device path of the terminal, or NULL when nothing is a terminal */
    int tty_fds;    /* bit n: descriptor n of the program is the terminal */
    int rows, cols;
    char *trace[MAX_TRACE + 1]; /* settings of the trace, with their keys; none: nothing is traced */
    int signal_ready; /* tell the host when the program is about to start */
};

/* One direction of bytes: from one descriptor to another, through a buffer. */
struct relay {
    int from, to;
    int from_done;  /* no more bytes will be read */
    int to_broken;  /* the reader is gone: what comes is thrown away */
    int told;       /* the host knows that this stream ended */
    uint64_t total; /* bytes written to `to` */
    uint64_t limit; /* bytes after which `from` has ended; all ones while not known */
    uint64_t taken; /* bytes read from `from` */
    size_t start, end;
    char *buffer;
};

void *memset(void *to, int c, size_t n);
void *memcpy(void *to, const void *from, size_t n);
size_t text_length(const char *s);
int text_equal(const char *a, const char *b);
void say(const char *text);
char *put_number(char *at, uint64_t value);

/* Runs until the program has ended and the host has all its output. Returns the program's wait status. */
int relay_until_exit(int control, struct relay *in, struct relay *out, struct relay *err, int terminal,
                     int program);
void send_text(int control, const char *text, size_t size);
void send_message(int control, const char *word, const uint64_t *numbers, int count);

/* trace.c */
long trace_prepare(void);
void trace_switch(int on);
long trace_set(char *const *settings, int64_t *number);
void trace_send(int control, char *const *settings, char *buffer);
void trace_refused(int control, char *const *settings, uint64_t number, uint64_t error, char *buffer);

#endif
