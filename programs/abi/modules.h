/*
 * Modules of the kernel: those of programs/modules, which are in /modules, and what is shown of them. Needs
 * <errno.h>, <fcntl.h>, <stdio.h>, <stdlib.h>, <string.h>, <sys/syscall.h>, <unistd.h> and "check.h".
 */
static char object[1 << 20];
static size_t size;

static inline const char *path_of(const char *name) {
    static char path[100];
    snprintf(path, sizeof path, "/modules/%s.ko", name);
    return path;
}

/* Reads a module's object. */
static inline void fetch(const char *name) {
    int fd = open(path_of(name), O_RDONLY);
    ssize_t n = read(fd, object, sizeof object);
    CHECK(n > 0);
    size = n > 0 ? (size_t)n : 0;
    close(fd);
}

/* Loads the object that was read; returns 0 or the error. */
static inline int load(size_t length, const char *args) {
    return syscall(SYS_init_module, object, length, args) == 0 ? 0 : errno;
}

static inline int load_named(const char *name, const char *args) {
    fetch(name);
    return load(size, args);
}

static inline int unload(const char *name) {
    return syscall(SYS_delete_module, name, O_NONBLOCK) == 0 ? 0 : errno;
}

/* The text of a file, empty if it cannot be read. */
static inline const char *text_of(const char *path) {
    static char text[1 << 20];
    size_t n = 0;
    int fd = open(path, O_RDONLY);
    if (fd >= 0) {
        ssize_t got;
        while ((got = read(fd, text + n, sizeof text - 1 - n)) > 0) n += (size_t)got;
        close(fd);
    }
    text[n] = 0;
    return text;
}

/* The line of /proc/modules. */
static inline const char *line_of(const char *module) {
    static char line[300];
    const char *all = text_of("/proc/modules");
    size_t length = strlen(module);
    line[0] = 0;
    for (const char *at = all; *at; at = strchr(at, '\n') + 1)
        if (strncmp(at, module, length) == 0 && at[length] == ' ')
            snprintf(line, sizeof line, "%.*s", (int)(strchr(at, '\n') - at), at);
    return line;
}

static inline unsigned long free_kib(void) {
    const char *at = strstr(text_of("/proc/meminfo"), "MemFree:");
    return at ? strtoul(at + 8, NULL, 10) : 0;
}
