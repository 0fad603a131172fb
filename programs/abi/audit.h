/*
 * Netlink sockets and requests to audit, for the programs that test them. Needs <errno.h>, <linux/audit.h>,
 * <linux/netlink.h>, <poll.h>, <stdio.h>, <string.h>, <sys/socket.h>, <sys/syscall.h>, <sys/utsname.h>,
 * <unistd.h> and "check.h".
 */
static inline int on_limen(void) {
    struct utsname name;
    uname(&name);
    return strstr(name.version, "Limen") != NULL;
}

static inline int open_socket(int protocol) { return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol); }

static inline struct sockaddr_nl address_of(int fd) {
    struct sockaddr_nl address = { 0 };
    socklen_t length = sizeof address;
    CHECK(getsockname(fd, (struct sockaddr *)&address, &length) == 0 && length == sizeof address);
    return address;
}

static inline int bind_to(int fd, unsigned port, unsigned groups) {
    struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_pid = port, .nl_groups = groups };
    return bind(fd, (struct sockaddr *)&address, sizeof address);
}

static inline ssize_t send_to(int fd, const void *data, size_t length, unsigned port, unsigned groups) {
    struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_pid = port, .nl_groups = groups };
    return sendto(fd, data, length, 0, (struct sockaddr *)&address, sizeof address);
}

static inline int readable(int fd, int wait_ms) {
    struct pollfd poll_fd = { fd, POLLIN, 0 };
    return poll(&poll_fd, 1, wait_ms) == 1 && poll_fd.revents & POLLIN;
}

static unsigned sequence;
static struct {
    struct nlmsghdr header;
    char data[9000];
} answer;

static inline int ask(int fd, int kind, int flags, const void *data, size_t length) {
    static struct {
        struct nlmsghdr header;
        char data[9000];
    } request;
    memset(&request, 0, sizeof request.header);
    request.header.nlmsg_len = NLMSG_LENGTH(length);
    request.header.nlmsg_type = kind;
    request.header.nlmsg_flags = NLM_F_REQUEST | flags;
    request.header.nlmsg_seq = ++sequence;
    memcpy(request.data, data, length);
    return send_to(fd, &request, request.header.nlmsg_len, 0, 0) < 0 ? -1 : 0;
}

/* The next message that answers the last request; returns its kind. */
static inline int answered(int fd) {
    for (;;) {
        if (!readable(fd, 2000) || recv(fd, &answer, sizeof answer, 0) < 0) return -1;
        if (answer.header.nlmsg_seq == sequence) return answer.header.nlmsg_type;
    }
}

/* Asks and returns what the acknowledgement says. */
static inline int told(int fd, int kind, const void *data, size_t length) {
    if (ask(fd, kind, NLM_F_ACK, data, length) != 0) return -errno;
    for (int got; (got = answered(fd)) != -1;)
        if (got == NLMSG_ERROR) return *(int *)answer.data;
    return 1;
}

static inline struct audit_status state(int fd) {
    struct audit_status status = { 0 };
    CHECK(ask(fd, AUDIT_GET, 0, NULL, 0) == 0 && answered(fd) == AUDIT_GET);
    memcpy(&status, answer.data, sizeof status);
    return status;
}

static inline int change(int fd, unsigned what, struct audit_status status) {
    status.mask = what;
    return told(fd, AUDIT_SET, &status, sizeof status);
}

static struct {
    struct audit_rule_data rule;
    char text[64];
} made_rule;

static inline void field(unsigned what, unsigned op, unsigned value) {
    unsigned n = made_rule.rule.field_count++;
    made_rule.rule.fields[n] = what, made_rule.rule.fieldflags[n] = op, made_rule.rule.values[n] = value;
}

/* A rule for getppid of this process, with a key. */
static inline void begin_rule(int action, const char *key) {
    memset(&made_rule, 0, sizeof made_rule);
    made_rule.rule.flags = AUDIT_FILTER_EXIT, made_rule.rule.action = action;
    made_rule.rule.mask[SYS_getppid / 32] = 1u << SYS_getppid % 32;
    field(AUDIT_PID, AUDIT_EQUAL, getpid());
    field(AUDIT_FILTERKEY, AUDIT_EQUAL, strlen(key));
    made_rule.rule.buflen = strlen(key);
    strcpy(made_rule.text, key);
}

static inline int rule(int fd, int kind) {
    return told(fd, kind, &made_rule, sizeof made_rule.rule + made_rule.rule.buflen);
}

/* The next record of a kind with a text in it; returns its text from the time on. */
static inline char *record(int fd, int kind, const char *has) {
    for (;;) {
        if (!readable(fd, 3000)) return NULL;
        ssize_t length = recv(fd, &answer, sizeof answer - 1, 0);
        if (length < (ssize_t)sizeof answer.header) return NULL;
        ((char *)&answer)[length] = 0;
        if (answer.header.nlmsg_type == kind && strstr(answer.data, has)) return answer.data;
    }
}
