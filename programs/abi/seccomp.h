/*
 * What programs that attach seccomp filters have in common. Needs <linux/filter.h>, <linux/seccomp.h>,
 * <stddef.h>, <sys/prctl.h>, <sys/syscall.h>, <unistd.h>.
 */
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, value)
/* Returns `value` for system call `number`. */
#define CALL(number, value) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), RETURN(value)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static inline long seccomp(unsigned operation, unsigned flags, void *argument) {
    return syscall(SYS_seccomp, operation, flags, argument);
}

/* Attaches a program; returns what the call returns. */
static inline long attach(unsigned flags, struct sock_filter *program, size_t length) {
    struct sock_fprog described = { length, program };
    return seccomp(SECCOMP_SET_MODE_FILTER, flags, &described);
}

/* Attaches a filter that returns `value` for system call `number` and allows all others. */
static inline long attach_for(unsigned flags, unsigned number, unsigned value) {
    struct sock_filter program[] = { LOAD(nr), CALL(number, value), RETURN(SECCOMP_RET_ALLOW) };
    return attach(flags, program, COUNT(program));
}

static inline int no_new_privs(void) { return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); }
