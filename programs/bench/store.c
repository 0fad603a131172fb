/* The key-value store of `limen bench --map`, see store.h. All processes end with the row's group. */
#define _GNU_SOURCE
#include "store.h"
#include "bench.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CLIENTS 4
#define KEYS 16384u
/* Slots of the hash table, a power of two; values are at most as long as a slot's part of the file. */
#define SLOTS (2 * KEYS)
#define SHORTEST 100u
#define LONGEST 4096u
#define PATH "/tmp/store"

enum operation { GET = 1, SET };

struct request {
    uint32_t operation, key, length;
};

struct slot {
    uint32_t key, length;
    char *value;
};

static struct slot slots[SLOTS];
static int file = -1, work[2], done[2];

static uint32_t mixed(uint32_t x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

static uint32_t random_number(uint32_t *state) { return mixed(*state += 0x9e3779b9u); }

static uint32_t random_length(uint32_t *state) {
    return SHORTEST + random_number(state) % (LONGEST - SHORTEST + 1);
}

static void read_all(int fd, void *to, size_t bytes) {
    for (size_t n = 0; n < bytes;) {
        ssize_t got = read(fd, (char *)to + n, bytes - n);
        MUST(got > 0);
        n += (size_t)got;
    }
}

static void write_all(int fd, const void *from, size_t bytes) {
    for (size_t n = 0; n < bytes;) {
        ssize_t got = write(fd, (const char *)from + n, bytes - n);
        MUST(got > 0);
        n += (size_t)got;
    }
}

/* The slot of a key, or the one that it would get. Keys begin at 1. */
static struct slot *slot_of(uint32_t key) {
    uint32_t i = mixed(key) % SLOTS;
    while (slots[i].key && slots[i].key != key) i = (i + 1) % SLOTS;
    return &slots[i];
}

static void set(uint32_t key, const char *value, uint32_t length) {
    struct slot *slot = slot_of(key);
    slot->key = key;
    slot->length = length;
    if (file >= 0) {
        MUST(pwrite(file, value, length, (slot - slots) * (off_t)LONGEST) == (ssize_t)length);
        return;
    }
    free(slot->value);
    slot->value = malloc(length);
    MUST(slot->value != NULL);
    memcpy(slot->value, value, length);
}

/* Makes a value that tells whose it is. */
static void fill(char *value, uint32_t key, uint32_t length) {
    memset(value, (int)(key & 0xff), length);
    memcpy(value, &key, sizeof key);
}

/* Answers one request of a client. */
static void answer(int fd) {
    static char reply[sizeof(uint32_t) + LONGEST];
    struct request request;
    uint32_t length = 0;
    read_all(fd, &request, sizeof request);
    MUST(request.length <= LONGEST);
    if (request.operation == SET) {
        read_all(fd, reply, request.length);
        set(request.key, reply, request.length);
    } else {
        const struct slot *slot = slot_of(request.key);
        MUST(slot->key == request.key);
        length = slot->length;
        char *value = reply + sizeof length;
        if (file >= 0)
            MUST(pread(file, value, length, (slot - slots) * (off_t)LONGEST) == (ssize_t)length);
        else
            memcpy(value, slot->value, length);
    }
    memcpy(reply, &length, sizeof length);
    write_all(fd, reply, sizeof length + length);
}

static void server(int listening) {
    struct pollfd fds[CLIENTS];
    static char value[LONGEST];
    uint32_t state = 1;
    for (uint32_t key = 1; key <= KEYS; key++) {
        uint32_t length = random_length(&state);
        fill(value, key, length);
        set(key, value, length);
    }
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = (struct pollfd){.fd = accept(listening, NULL, NULL), .events = POLLIN};
        MUST(fds[i].fd >= 0);
    }
    for (;;) {
        MUST(poll(fds, CLIENTS, -1) > 0);
        for (int i = 0; i < CLIENTS; i++)
            if (fds[i].revents) answer(fds[i].fd);
    }
}

static void one_request(int fd, uint32_t *state) {
    static char buffer[sizeof(struct request) + LONGEST];
    struct request request = {.operation = GET, .key = 1 + random_number(state) % KEYS};
    uint32_t length, key;
    if (random_number(state) % 10 == 0) {
        request.operation = SET;
        request.length = random_length(state);
        fill(buffer + sizeof request, request.key, request.length);
    }
    memcpy(buffer, &request, sizeof request);
    write_all(fd, buffer, sizeof request + request.length);
    read_all(fd, &length, sizeof length);
    MUST(length <= LONGEST);
    read_all(fd, buffer, length);
    if (request.operation == SET) return;
    memcpy(&key, buffer, sizeof key);
    MUST(length >= SHORTEST && key == request.key);
    MUST(buffer[length - 1] == (char)(key & 0xff));
}

static struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = PATH};

static void client(uint32_t number) {
    uint32_t state = mixed(number + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    long requests;
    MUST(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    for (;;) {
        read_all(work[0], &requests, sizeof requests);
        for (long i = 0; i < requests; i++) one_request(fd, &state);
        write_all(done[1], "", 1);
    }
}

void store_start(int in_file) {
    int listening = socket(AF_UNIX, SOCK_STREAM, 0);
    unlink(PATH);
    MUST(listening >= 0 && bind(listening, (struct sockaddr *)&address, sizeof address) == 0);
    MUST(listen(listening, CLIENTS) == 0 && pipe(work) == 0 && pipe(done) == 0);
    if (in_file) {
        file = open(PATH ".values", O_RDWR | O_CREAT | O_TRUNC, 0644);
        MUST(file >= 0);
        MUST(unlink(PATH ".values") == 0);
    }
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) server(listening);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        child = fork();
        MUST(child >= 0);
        if (child == 0) client(i);
    }
    /* When this has returned, the server has set all keys. */
    store_serve(CLIENTS);
}

void store_serve(long requests) {
    long each = requests / CLIENTS;
    char byte;
    for (int i = 0; i < CLIENTS; i++) write_all(work[1], &each, sizeof each);
    for (int i = 0; i < CLIENTS; i++) read_all(done[0], &byte, 1);
}
