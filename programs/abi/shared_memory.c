/* System V shared memory: what is attached and counted, what goes when, who may, and which errors come. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"
#include "common.h"

#ifndef SHM_REMAP
#define SHM_REMAP 040000
#endif
#ifndef SHM_EXEC
#define SHM_EXEC 0100000
#endif
#ifndef SHM_STAT_ANY
#define SHM_STAT_ANY 15
#endif

static size_t page;
#define BAD ((void *)-1)
#define FAILS(call, error) CHECK((errno = 0, (long)(call) == -1 && errno == (error)))

static unsigned long attached(int id) {
    struct shmid_ds ds;
    return shmctl(id, IPC_STAT, &ds) ? 999 : ds.shm_nattch;
}

/* Whether a line of /proc/self/maps has `text`. */
static int mapped(const char *text) {
    char line[512];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) found += strstr(line, text) != NULL;
    if (maps) fclose(maps);
    return found;
}

static void keys(void) {
    key_t key = 0x5e9 + getpid();
    FAILS(shmget(key, 100, 0), ENOENT);
    int id = shmget(key, page + 1, IPC_CREAT | IPC_EXCL | 0640);
    CHECK(id >= 0);
    FAILS(shmget(key, 100, IPC_CREAT | IPC_EXCL), EEXIST);
    FAILS(shmget(key, page + 2, 0), EINVAL);
    CHECK(shmget(key, 0, 0) == id && shmget(key, page + 1, IPC_CREAT) == id);
    FAILS(shmget(IPC_PRIVATE, 0, 0600), EINVAL);
    FAILS(shmget(IPC_PRIVATE, SIZE_MAX, 0600), EINVAL);
    struct shmid_ds ds;
    CHECK(shmctl(id, IPC_STAT, &ds) == 0 && ds.shm_segsz == page + 1 && ds.shm_nattch == 0);
    CHECK(ds.shm_perm.mode == 0640 && ds.shm_perm.__key == key && ds.shm_cpid == getpid() && !ds.shm_lpid);
    CHECK(ds.shm_perm.uid == geteuid() && ds.shm_perm.cgid == getegid());
    CHECK(ds.shm_atime == 0 && ds.shm_dtime == 0 && labs(ds.shm_ctime - time(NULL)) < 100);
    int second = shmget(IPC_PRIVATE, 10, 0600);
    CHECK(second >= 0 && second != id);
    CHECK(shmctl(second, IPC_RMID, NULL) == 0);
    FAILS(shmctl(second, IPC_STAT, &ds), EINVAL);
    FAILS(shmat(second, NULL, 0), EINVAL);
    ds.shm_perm.mode = 0600;
    CHECK(shmctl(id, IPC_SET, &ds) == 0 && shmctl(id, IPC_STAT, &ds) == 0 && ds.shm_perm.mode == 0600);
    CHECK(shmctl(id, SHM_LOCK, NULL) == 0 && shmctl(id, IPC_STAT, &ds) == 0 && ds.shm_perm.mode == 02600);
    CHECK(shmctl(id, SHM_UNLOCK, NULL) == 0 && shmctl(id, IPC_STAT, &ds) == 0 && ds.shm_perm.mode == 0600);
    struct shm_info info;
    struct shminfo limits;
    int highest = shmctl(0, SHM_INFO, (void *)&info);
    CHECK(highest >= 0 && info.used_ids >= 1 && info.shm_tot >= 2);
    CHECK(shmctl(0, IPC_INFO, (void *)&limits) == highest && limits.shmmin == 1 && limits.shmmni == 4096);
    int found = 0;
    for (int n = 0; n <= highest; n++) found += shmctl(n, SHM_STAT, &ds) == id;
    CHECK(found == 1);
    FAILS(shmctl(id, 99, NULL), EINVAL);
#if __SIZEOF_LONG__ == 8 /* elsewhere the C library looks at it before */
    FAILS(shmctl(id, IPC_STAT, (void *)8), EFAULT);
#endif
    FAILS(shmctl(-1, IPC_RMID, NULL), EINVAL);
    CHECK(shmctl(id, IPC_RMID, NULL) == 0);
    FAILS(shmget(key, 100, 0), ENOENT);
}

static void attaching(void) {
    int id = shmget(IPC_PRIVATE, 4 * page, 0600);
    char *at = shmat(id, NULL, 0);
    CHECK(at != BAD && attached(id) == 1);
    strcpy(at + page, "hello");
    char *twice = shmat(id, NULL, SHM_RDONLY);
    CHECK(twice != BAD && strcmp(twice + page, "hello") == 0 && attached(id) == 2);
    FAILS(mprotect(twice, page, PROT_READ | PROT_WRITE), EACCES);
    char name[64];
    snprintf(name, sizeof name, " %d ", id);
    CHECK(mapped("/SYSV00000000 (deleted)") == 2 && mapped(name) == 2);
    CHECK(shmdt(twice) == 0 && attached(id) == 1);
    FAILS(shmdt(twice), EINVAL);
    FAILS(shmdt(at + 1), EINVAL);
    FAILS(shmdt(at + page), EINVAL);

    /* Addresses. */
    char *room = mmap(NULL, 32 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *base = (char *)(((uintptr_t)room + SHMLBA - 1) / SHMLBA * SHMLBA);
    FAILS(shmat(id, base, 0), EINVAL);
    FAILS(shmat(id, base + 1, SHM_REMAP), EINVAL);
    FAILS(shmat(id, NULL, SHM_REMAP), EINVAL);
    FAILS(shmat(id, (char *)1, SHM_RND | SHM_REMAP), EINVAL);
    CHECK(shmat(id, base + 5, SHM_RND | SHM_REMAP) == base && strcmp(base + page, "hello") == 0);
    CHECK(attached(id) == 2);
    FAILS(shmat(id, base + 1, SHM_RND), EINVAL);
    CHECK(shmdt(base) == 0 && attached(id) == 1);
    CHECK(shmat(id, base, 0) == base && shmdt(base) == 0);
    munmap(room, 32 * page);

    /* Pieces: each counts, and all go. */
    CHECK(mprotect(at + page, page, PROT_READ) == 0 && attached(id) == 3);
    CHECK(munmap(at + 2 * page, page) == 0 && attached(id) == 3);
    CHECK(shmdt(at) == 0 && attached(id) == 0);
    unsigned char vec[4];
    FAILS(mincore(at, page, vec), ENOMEM);

    /* Moved: it no longer begins where it was attached, but where it is now. */
    at = shmat(id, NULL, 0);
    char *moved = mremap(at, 4 * page, 4 * page, MREMAP_MAYMOVE | MREMAP_FIXED, at + 64 * page);
    CHECK(moved == at + 64 * page && attached(id) == 1 && strcmp(moved + page, "hello") == 0);
    FAILS(shmdt(at), EINVAL);
    CHECK(shmdt(moved) == 0 && attached(id) == 0);

    struct shmid_ds ds;
    CHECK(shmctl(id, IPC_STAT, &ds) == 0 && ds.shm_lpid == getpid() && ds.shm_atime && ds.shm_dtime);
    ds.shm_perm.mode = 0700;
    CHECK(shmctl(id, IPC_SET, &ds) == 0);
    char *code = shmat(id, NULL, SHM_RDONLY | SHM_EXEC);
    CHECK(code != BAD && mapped("r-xs") >= 1 && shmdt(code) == 0);
    CHECK(shmctl(id, IPC_RMID, NULL) == 0);
}

static void removing(void) {
    key_t key = 0x77000 + getpid();
    int id = shmget(key, page, IPC_CREAT | 0600);
    char *at = shmat(id, NULL, 0);
    *at = 7;
    pid_t child = fork();
    if (child == 0) {
        if (*at != 7 || attached(id) != 2) _exit(1);
        *at = 8;
        /* Held by the mapping only, and still to be attached by its id. */
        char *more = shmat(id, NULL, 0);
        _exit(more == BAD || *more != 8);
    }
    CHECK(child_good(child) && *at == 8 && attached(id) == 1);
    CHECK(shmctl(id, IPC_RMID, NULL) == 0);
    struct shmid_ds ds;
    CHECK(shmctl(id, IPC_STAT, &ds) == 0 && ds.shm_perm.mode == (01000 | 0600));
    CHECK(ds.shm_perm.__key == IPC_PRIVATE);
    FAILS(shmget(key, page, 0), ENOENT);
    char *more = shmat(id, NULL, 0);
    CHECK(more != BAD && *more == 8 && shmdt(more) == 0);
    char name[32];
    snprintf(name, sizeof name, "/SYSV%08x (deleted)", key);
    CHECK(mapped(name) == 1);
    child = fork();
    if (child == 0) execl("/proc/self/exe", "shared_memory", "exec", NULL);
    CHECK(child_good(child) && attached(id) == 1);
    child = fork();
    if (child == 0) pause();
    CHECK(SOON(attached(id) == 2));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    CHECK(SOON(attached(id) == 1));
    CHECK(munmap(at, page) == 0);
    FAILS(shmctl(id, IPC_STAT, &ds), EINVAL);
}

/* Many attach and detach while the segment is removed: the content stays while anyone has it. */
/* What a mapping cannot show, and what old programs expect of one that they can read. */
static void mappings(void) {
    int id = shmget(IPC_PRIVATE, page, 0600);
    char *at = shmat(id, NULL, 0);
    *at = 7;
#if __SIZEOF_LONG__ == 8
    FAILS(syscall(SYS_remap_file_pages, at, page, 0, 1ul << 52, 0), EOVERFLOW);
    FAILS(syscall(SYS_remap_file_pages, at, page, 0, (1ul << 52) - 1, 0), EOVERFLOW);
#endif
    CHECK(madvise(at, page, MADV_NORMAL) == 0 && *at == 7);
    pid_t child = fork();
    if (child == 0) {
        CHECK(shmdt(at) == 0 && personality(READ_IMPLIES_EXEC) != -1);
        CHECK(shmat(id, NULL, 0) != BAD && mapped("rwxs"));
        _exit(failed);
    }
    CHECK(child_good(child) && shmdt(at) == 0 && shmctl(id, IPC_RMID, NULL) == 0);
}

static void races(void) {
    for (int round = 0; round < 12; round++) {
        int id = shmget(IPC_PRIVATE, 8 * page, 0600);
        pid_t children[4];
        for (int n = 0; n < 4; n++) {
            children[n] = fork();
            if (children[n]) continue;
            for (int i = 0; i < 300; i++) {
                int *at = shmat(id, NULL, 0);
                if (at == BAD) _exit(errno != EINVAL && errno != EIDRM);
                __atomic_fetch_add(at, 1, __ATOMIC_RELAXED);
                if (i % 3 == 0) munmap(at + page / sizeof *at, page);
                if (shmdt(at)) _exit(2);
            }
            _exit(0);
        }
        sched_yield();
        if (round % 4) pause_ms(round % 4);
        CHECK(shmctl(id, IPC_RMID, NULL) == 0);
        for (int n = 0; n < 4; n++) CHECK(child_good(children[n]));
        FAILS(shmat(id, NULL, 0), EINVAL);
    }
}

/* A thread that is not the first one makes a segment, and executes a program that is to find it. */
static void *makes_and_execs(void *to) {
    int id = shmget(IPC_PRIVATE, page, 0600);
    char text[16];
    snprintf(text, sizeof text, "%d", id);
    if (write(*(int *)to, &id, sizeof id) == sizeof id)
        execl("/proc/self/exe", "shared_memory", "keeps", text, NULL);
    _exit(1);
}

static void users(void) {
    if (geteuid()) return;
    int id = shmget(0x12340, page, IPC_CREAT | 0640), open = shmget(0x12341, page, IPC_CREAT | 0604);
    pid_t child = fork();
    if (child == 0) {
        failed = 0;
        CHECK(setgid(1000) == 0 && setuid(1000) == 0);
        struct shmid_ds ds;
        FAILS(shmat(id, NULL, 0), EACCES);
        FAILS(shmget(0x12340, page, 0600), EACCES);
        CHECK(shmget(0x12340, page, 0) == id);
        FAILS(shmctl(id, IPC_STAT, &ds), EACCES);
        FAILS(shmctl(id, IPC_RMID, NULL), EPERM);
        FAILS(shmctl(id, SHM_LOCK, NULL), EPERM);
        FAILS(shmat(open, NULL, 0), EACCES);
        CHECK(shmat(open, NULL, SHM_RDONLY) != BAD);
        CHECK(shmctl(open, IPC_STAT, &ds) == 0);
        FAILS(shmctl(open, IPC_SET, &ds), EPERM);

        /* All segments that a user has locked count together. */
        struct rlimit few = { 3 * page, 3 * page };
        CHECK(setrlimit(RLIMIT_MEMLOCK, &few) == 0);
        int first = shmget(IPC_PRIVATE, 2 * page - 1, 0600), second = shmget(IPC_PRIVATE, 2 * page, 0600);
        CHECK(shmctl(first, SHM_LOCK, NULL) == 0 && shmctl(first, SHM_LOCK, NULL) == 0);
        FAILS(shmctl(second, SHM_LOCK, NULL), ENOMEM);
        CHECK(shmctl(second, IPC_STAT, &ds) == 0 && ds.shm_perm.mode == 0600);
        CHECK(shmctl(first, SHM_UNLOCK, NULL) == 0 && shmctl(second, SHM_LOCK, NULL) == 0);
        FAILS(shmctl(first, SHM_LOCK, NULL), ENOMEM);
        CHECK(shmctl(second, IPC_RMID, NULL) == 0 && shmctl(first, SHM_LOCK, NULL) == 0);
        CHECK(shmctl(first, IPC_RMID, NULL) == 0);
        few.rlim_cur = 0;
        CHECK(setrlimit(RLIMIT_MEMLOCK, &few) == 0);
        int third = shmget(IPC_PRIVATE, 1, 0600);
        FAILS(shmctl(third, SHM_LOCK, NULL), EPERM);
        CHECK(shmctl(third, SHM_UNLOCK, NULL) == 0 && shmctl(third, IPC_RMID, NULL) == 0);
        _exit(failed);
    }
    CHECK(child_good(child));
    CHECK(shmctl(id, IPC_RMID, NULL) == 0 && shmctl(open, IPC_RMID, NULL) == 0);

    /* What nobody has attached goes with its creator. */
    set("kernel/shm_rmid_forced", "1");
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    child = fork();
    if (child == 0) {
        int ids[2] = { shmget(IPC_PRIVATE, page, 0600), shmget(IPC_PRIVATE, page, 0600) };
        char *at = shmat(ids[1], NULL, 0);
        pid_t other = fork();
        if (other == 0) pause();
        int all[3] = { ids[0], ids[1], other };
        _exit(at == BAD || write(pipes[1], all, sizeof all) != sizeof all);
    }
    int all[3];
    CHECK(child_good(child) && read(pipes[0], all, sizeof all) == sizeof all);
    CHECK(SOON(attached(all[0]) == 999) && attached(all[1]) == 1);
    kill(all[2], SIGKILL);
    CHECK(SOON(attached(all[1]) == 999));
    set("kernel/shm_rmid_forced", "0");
    CHECK(pipe(pipes) == 0);
    child = fork();
    if (child == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, makes_and_execs, &pipes[1]);
        pause();
    }
    CHECK(child_good(child) && read(pipes[0], &id, sizeof id) == sizeof id);
    CHECK(SOON(attached(id) == 999));
    set("kernel/shm_rmid_forced", "0");

    /* Limits. */
    set("kernel/shmmax", "8192");
    FAILS(shmget(IPC_PRIVATE, 8193, 0600), EINVAL);
    set("kernel/shmmax", sizeof(long) == 8 ? "18446744073692774399" : "4278190079");
    set("kernel/shmmni", "0");
    FAILS(shmget(IPC_PRIVATE, 1, 0600), ENOSPC);
    set("kernel/shmmni", "4096");
}

int main(int argc, char **argv) {
    page = sysconf(_SC_PAGESIZE);
    if (argc > 2) {
        /* What the thread that called exec has made is still this one's. */
        set("kernel/shm_rmid_forced", "1");
        return attached(atoi(argv[2])) != 0;
    }
    if (argc > 1) return mapped("SYSV") || argv[1][0] != 'e';
    setvbuf(stdout, NULL, _IONBF, 0);
    keys();
    attaching();
    removing();
    mappings();
    races();
    users();
    return report();
}
