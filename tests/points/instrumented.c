/* Instrumented for coz, with the coz.h of Debian's coz-profiler. */
#include <coz.h>
#include <stdio.h>
#include <stdlib.h>

static volatile long sink;

static void work(long n) {
    for (long i = 0; i < n; i++) sink += i;
}

int main(int argc, char **argv) {
    const long rounds = argc > 1 ? atol(argv[1]) : 100;
    for (long i = 0; i < rounds; i++) {
        COZ_BEGIN("job");
        work(30000);
        COZ_END("job");
        COZ_PROGRESS_NAMED("step");
        COZ_PROGRESS;
        work(10000);
    }
    printf("rounds %ld\n", rounds);
    return 0;
}
