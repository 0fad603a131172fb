/*
 * For Linux's tests of seccomp, secret memory and clone3, where libcap is not there: what they use of it,
 * made of two system calls.
 */
#pragma once
#include <linux/capability.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef int cap_value_t;
typedef enum { CAP_EFFECTIVE, CAP_PERMITTED, CAP_INHERITABLE } cap_flag_t;
typedef enum { CAP_CLEAR, CAP_SET } cap_flag_value_t;
typedef struct {
    struct __user_cap_header_struct header;
    struct __user_cap_data_struct data[2];
} *cap_t;

static inline cap_t cap_init(void) {
    cap_t caps = calloc(1, sizeof *caps);
    if (caps) caps->header.version = _LINUX_CAPABILITY_VERSION_3;
    return caps;
}

static inline cap_t cap_get_proc(void) {
    cap_t caps = cap_init();
    if (!caps) return NULL;
    if (syscall(SYS_capget, &caps->header, caps->data) == 0) return caps;
    free(caps);
    return NULL;
}

static inline int cap_set_flag(cap_t caps, cap_flag_t set, int count, const cap_value_t *which,
                               cap_flag_value_t value) {
    for (int i = 0; i < count; i++) {
        struct __user_cap_data_struct *data = &caps->data[which[i] / 32];
        unsigned *word = set == CAP_EFFECTIVE ? &data->effective
            : set == CAP_PERMITTED            ? &data->permitted
                                              : &data->inheritable;
        unsigned bit = 1u << which[i] % 32;
        *word = value == CAP_SET ? *word | bit : *word & ~bit;
    }
    return 0;
}

static inline int cap_clear(cap_t caps) {
    for (int i = 0; i < 2; i++) caps->data[i] = (struct __user_cap_data_struct){0, 0, 0};
    return 0;
}

static inline int cap_set_proc(cap_t caps) { return syscall(SYS_capset, &caps->header, caps->data); }

static inline int cap_free(cap_t caps) {
    free(caps);
    return 0;
}
