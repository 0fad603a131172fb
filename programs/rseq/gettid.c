// gettid N: calls it N times.

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    for (long n = atol(argv[1]); n > 0; n--)
        syscall(SYS_gettid);
    return 0;
}
