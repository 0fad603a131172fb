/*
 * The guest agent's one loop: moves bytes between the program's pipes and the ports to the host, obeys the
 * host's messages (window size, signals, end of input), reaps orphans, and ends when the program has ended
 * and all its output is with the host. Called once, by init.c.
 */
#include "agent.h"

#if NEEDS_RESTORER
extern void limen_restorer(void);
#endif

static void on_child(int sig) { (void)sig; /* its only work is to interrupt ppoll */ }

static void catch_children(void) {
    struct kernel_sigaction action;
    uint64_t block = (uint64_t)1 << (SIGCHLD - 1);
    memset(&action, 0, sizeof action);
    action.handler = on_child;
#if NEEDS_RESTORER
    action.flags = 0x04000000; /* SA_RESTORER */
    action.restorer = limen_restorer;
#endif
    /* Blocked except inside ppoll: a SIGCHLD between the check and the wait would not end the wait. */
    sys(__NR_rt_sigprocmask, SIG_BLOCK, &block, 0, sizeof block, 0);
    sys(__NR_rt_sigaction, SIGCHLD, &action, 0, sizeof block, 0);
    /* A write to a pipe whose reader is gone must return an error; by default SIGPIPE would end process 1. */
    memset(&action, 0, sizeof action);
    action.handler = SIG_IGN;
    sys(__NR_rt_sigaction, SIGPIPE, &action, 0, sizeof block, 0);
}

void send_text(int control, const char *text, size_t size) {
    size_t sent = 0;
    while (sent < size) {
        long n = sys_write(control, text + sent, size - sent);
        if (n > 0) {
            sent += (size_t)n;
        } else if (n == -EAGAIN_) {
            struct pollfd wait = {control, POLLOUT, 0};
            int64_t limit[2] = {1, 0};
            sys6(NR_PPOLL, (long)&wait, 1, (long)limit, 0, 0, 0);
        } else if (n != -EINTR_) {
            return;
        }
    }
}

void send_message(int control, const char *word, const uint64_t *numbers, int count) {
    char line[128], *at = line;
    while (*word) *at++ = *word++;
    for (int i = 0; i < count; i++) {
        *at++ = ' ';
        at = put_number(at, numbers[i]);
    }
    *at++ = '\n';
    send_text(control, line, (size_t)(at - line));
}

static void close_end(int *fd) {
    if (*fd >= 0) sys_close(*fd);
    *fd = -1;
}

/* Reads into an empty buffer. */
static void fill(struct relay *r) {
    size_t room = BUFFER;
    long n;
    if (r->limit - r->taken < room) room = (size_t)(r->limit - r->taken);
    if (room == 0) {
        r->from_done = 1;
        return;
    }
    n = sys_read(r->from, r->buffer, room);
    if (n > 0) {
        r->taken += (uint64_t)n;
        r->start = 0;
        r->end = r->to_broken ? 0 : (size_t)n;
    } else if (n == 0) {
        r->from_done = 1;
    } else if (n != -EAGAIN_ && n != -EINTR_) {
        r->from_done = 1;
    }
}

static void drain(struct relay *r) {
    long n = sys_write(r->to, r->buffer + r->start, r->end - r->start);
    if (n > 0) {
        r->start += (size_t)n;
        r->total += (uint64_t)n;
    } else if (n != -EAGAIN_ && n != -EINTR_) {
        r->to_broken = 1;
        r->start = r->end;
    }
    if (r->start == r->end) r->start = r->end = 0;
}

static int pending(const struct relay *r) { return r->end > r->start; }

/* Handles one message of the host: a word and up to two numbers. */
static void obey(const char *line, struct relay *in, struct relay *out, struct relay *err, int terminal,
                 int program)
{
    uint64_t numbers[2] = {0, 0};
    int count = 0;
    char word[16];
    size_t n = 0;
    while (*line && *line != ' ' && n < sizeof word - 1) word[n++] = *line++;
    word[n] = 0;
    while (*line == ' ' && count < 2) {
        line++;
        while (*line >= '0' && *line <= '9') numbers[count] = numbers[count] * 10 + (uint64_t)(*line++ - '0');
        count++;
    }
    if (text_equal(word, "winsize") && terminal >= 0) {
        uint16_t size[4] = {(uint16_t)numbers[0], (uint16_t)numbers[1], 0, 0};
        sys_ioctl(terminal, TIOCSWINSZ, size);
    } else if (text_equal(word, "signal")) {
        /*
         * The program leads its session and group. As a terminal's foreground group, the whole group gets the
         * signal.
         */
        sys_kill(-program, (int)numbers[0]);
    } else if (text_equal(word, "eof")) {
        in->limit = numbers[0];
    } else if (text_equal(word, "broken")) {
        struct relay *r = numbers[0] == 1 ? out : err;
        /*
         * The host's reader of this stream is gone: we close our end, so that the program gets SIGPIPE or
         * EPIPE.
         */
        r->to_broken = 1;
        r->from_done = 1;
        r->start = r->end = 0;
        close_end(&r->from);
    }
}

static void read_messages(int control, struct relay *in, struct relay *out, struct relay *err, int terminal,
                          int program) {
    static char line[256];
    static size_t used;
    for (;;) {
        long n = sys_read(control, line + used, sizeof line - used);
        if (n <= 0) return;
        used += (size_t)n;
        for (;;) {
            size_t end = 0;
            while (end < used && line[end] != '\n') end++;
            if (end == used) break;
            line[end] = 0;
            obey(line, in, out, err, terminal, program);
            memcpy(line, line + end + 1, used - end - 1); /* forward copy: safe towards lower addresses */
            used -= end + 1;
        }
        if (used == sizeof line) used = 0; /* not one of ours */
    }
}

/* Reaps all children that ended. Returns 1 and the status if the program is among them. */
static int reap(int program, int *status) {
    int found = 0;
    for (;;) {
        int s = 0;
        long pid = sys6(__NR_wait4, -1, (long)&s, WNOHANG_, 0, 0, 0);
        if (pid == -EINTR_) continue;
        if (pid <= 0) return found;
        if (pid == program) {
            *status = s;
            found = 1;
        }
    }
}

static int add(struct pollfd *set, int *count, int fd, short events) {
    set[*count].fd = fd;
    set[*count].events = events;
    set[*count].revents = 0;
    return (*count)++;
}

/* Moves the bytes of a stream of the program, as many as possible without waiting. */
static void pump(struct relay *r) {
    if (!r->from_done && r->from >= 0 && !pending(r)) fill(r);
    if (pending(r)) drain(r);
}

static void tell_end(int control, const char *word, struct relay *r, uint64_t number) {
    uint64_t numbers[2] = {number, r->total};
    if (r->told) return;
    r->told = 1;
    send_message(control, word, numbers, 2);
}

int relay_until_exit(int control, struct relay *in, struct relay *out, struct relay *err, int terminal,
                     int program)
{
    struct relay *streams[2] = {out, err};
    int status = 0, ended = 0;
    uint64_t none = 0;

    catch_children();
    if (in->to < 0) in->from_done = 1;
    for (int i = 0; i < 2; i++)
        if (streams[i]->from < 0) streams[i]->from_done = streams[i]->told = 1;

    for (;;) {
        struct pollfd set[8];
        int count = 0, in_slot = -1, slots[2] = {-1, -1};
        int64_t at_once[2] = {0, 0};
        long n;

        if (reap(program, &status) && !ended) {
            ended = 1;
            trace_switch(0);
            /*
             * The pipes may still have output of the program; later output of other processes is not waited
             * for.
             */
            for (int i = 0; i < 2; i++) {
                int left = 0;
                if (streams[i]->from >= 0 && sys_ioctl(streams[i]->from, FIONREAD, &left) >= 0)
                    streams[i]->limit = streams[i]->taken + (uint64_t)left;
            }
        }
        read_messages(control, in, out, err, terminal, program);

        /* Input: its end is known by its length, because a port has no end of file. */
        if (in->to >= 0) {
            if (in->taken >= in->limit) in->from_done = 1;
            if ((in->from_done && !pending(in)) || in->to_broken || ended) {
                close_end(&in->to);
                if (in->to_broken) tell_end(control, "stdin-closed", in, 0);
            }
        }
        /* Output: when every writer has closed a stream, the host is told and closes its own. */
        for (int i = 0; i < 2; i++) {
            struct relay *r = streams[i];
            if (r->from_done && !pending(r)) {
                close_end(&r->from);
                tell_end(control, "closed", r, (uint64_t)i + 1);
            }
        }

        add(set, &count, control, POLLIN);
        if (in->to >= 0) {
            /* Polled also when there is nothing to write: POLLERR says that the pipe's reader went away. */
            in_slot = add(set, &count, pending(in) ? in->to : in->from, pending(in) ? POLLOUT : POLLIN);
            if (!pending(in)) add(set, &count, in->to, 0);
        }
        for (int i = 0; i < 2; i++) {
            struct relay *r = streams[i];
            if (pending(r)) slots[i] = add(set, &count, r->to, POLLOUT);
            else if (!r->from_done && r->from >= 0) slots[i] = add(set, &count, r->from, POLLIN);
        }
        n = sys6(NR_PPOLL, (long)set, count, (long)(ended ? at_once : NULL), (long)&none, sizeof none, 0);
        if (n < 0 && n != -EINTR_) {
            say("poll does not work");
            return status;
        }
        if (n < 0) continue;
        if (in_slot >= 0) {
            if (set[in_slot].revents && !pending(in)) {
                fill(in);
                if (pending(in)) drain(in);
            } else if (set[in_slot].revents) {
                drain(in);
            } else if (in_slot + 1 < count && set[in_slot + 1].fd == in->to &&
                       (set[in_slot + 1].revents & POLLERR)) {
                in->to_broken = 1;
            }
        }
        for (int i = 0; i < 2; i++)
            if (slots[i] >= 0 && set[slots[i]].revents) pump(streams[i]);

        if (ended) {
            /*
             * Output that the program left in its pipes is still passed on; later output of other processes
             * is not.
             */
            int idle = 1;
            for (int i = 0; i < 2; i++) {
                if (pending(streams[i])) {
                    idle = 0;
                } else if (slots[i] >= 0 && set[slots[i]].revents) {
                    idle = 0;
                }
            }
            if (idle) return status;
            if (n == 0) {
                sys_sleep(0, 1000000);
            }
        }
    }
}
