// "unit MIB": imitates a compiler or assembler. Copies its input to its output in pieces of 4 KiB and touches
// this many MiB of memory, page by page.

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    static char piece[4096];
    if (argc != 2)
        return 2;
    size_t size = strtoul(argv[1], NULL, 10) << 20;
    for (ssize_t n; (n = read(0, piece, sizeof piece)) > 0;)
        if (write(1, piece, n) != n)
            return 1;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return 1;
    madvise(memory, size, MADV_NOHUGEPAGE);
    for (size_t at = 0; at < size; at += 4096)
        *(volatile char *)(memory + at) = 1;
    return 0;
}
