/* Addresses of local sockets, whose structure had two bytes more, and calls of sockets by `socketcall`. */
#include <sys/socket.h>
#include <sys/un.h>

enum { SOCKETCALL = 102, PADDED = 112 };

/* A call of `socketcall`, from number 1 on. */
#define SOCKET_CALL(number, ...) ({ \
    long args_[6] = {__VA_ARGS__}; \
    OLD(SOCKETCALL, number, args_); \
})

static void padded(const char *name, int by_socketcall) {
    struct {
        struct sockaddr_un address;
        char padding[2];
    } to = {.address = {.sun_family = AF_UNIX}};
    snprintf(to.address.sun_path, sizeof to.address.sun_path, "%s", name);
    int server = socket(AF_UNIX, SOCK_DGRAM, 0), client = socket(AF_UNIX, SOCK_DGRAM, 0);
    struct iovec part = {"message", 7};
    struct msghdr message = {.msg_name = &to, .msg_namelen = PADDED, .msg_iov = &part, .msg_iovlen = 1};
    CHECK(bind(server, (void *)&to, PADDED) != 0 && errno == EINVAL);
    CHECK(by_socketcall ? SOCKET_CALL(2, server, (long)&to, PADDED) == 0
                        : OLD(SYS_bind, server, &to, PADDED) == 0);
    struct stat64 made;
    CHECK(stat64(name, &made) == 0 && S_ISSOCK(made.st_mode));
    CHECK(sendto(client, "a", 1, 0, (void *)&to, PADDED) < 0 && errno == EINVAL);
    if (by_socketcall) {
        CHECK(SOCKET_CALL(11, client, (long)"ab", 2, 0, (long)&to, PADDED) == 2);
        CHECK(SOCKET_CALL(16, client, (long)&message, 0) == 7);
    } else {
        CHECK(OLD(SYS_sendto, client, "ab", 2, 0, &to, PADDED) == 2);
        CHECK(OLD(SYS_sendmsg, client, &message, 0) == 7);
    }
    CHECK(message.msg_namelen == 110);
    char text[16];
    CHECK(OLD(SYS_recv, server, text, sizeof text, 0) == 2);
    CHECK(SOCKET_CALL(10, server, (long)text, sizeof text, 0) == 7);
    CHECK(connect(client, (void *)&to, PADDED) != 0 && errno == EINVAL);
    CHECK(by_socketcall ? SOCKET_CALL(3, client, (long)&to, PADDED) == 0
                        : OLD(SYS_connect, client, &to, PADDED) == 0);
    /* Other lengths, and other families, are what they are. */
    CHECK(OLD(SYS_connect, client, &to, PADDED - 1) == -EINVAL);
    to.address.sun_family = AF_INET;
    CHECK(OLD(SYS_connect, client, &to, PADDED) == -EINVAL);
    close(server), close(client);
}

static void sockets(void) {
    padded("socket", 0);
    padded("socket-2", 1);
    int pair[2], copies[2];
    CHECK(SOCKET_CALL(8, AF_UNIX, SOCK_STREAM, 0, (long)pair) == 0);
    CHECK(SOCKET_CALL(9, pair[0], (long)"x", 1, 0) == 1 && SOCKET_CALL(13, pair[0], SHUT_WR) == 0);
    CHECK(SOCKET_CALL(0) == -EINVAL && SOCKET_CALL(21) == -EINVAL && OLD(SOCKETCALL, 1, 4) == -EFAULT);
    copies[0] = SOCKET_CALL(1, AF_UNIX, SOCK_STREAM, 0);
    CHECK(copies[0] >= 0);
    close(pair[0]), close(pair[1]), close(copies[0]);
}
