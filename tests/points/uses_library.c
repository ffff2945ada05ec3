/* A program whose probes are all in a library. */
#include <stdio.h>
#include <stdlib.h>

long rounds(long n);

int main(int argc, char **argv) {
    printf("skipped %ld\n", rounds(argc > 1 ? atol(argv[1]) : 100));
    return 0;
}
