/* Probes declared with <sys/sdt.h>: with -DSEMAPHORE they are skipped, and counted, where nobody listens. */
#ifdef SEMAPHORE
#define _SDT_HAS_SEMAPHORES 1
#endif
#include <stdio.h>
#include <stdlib.h>
#include <sys/sdt.h>

#ifdef SEMAPHORE
unsigned short test_step_semaphore __attribute__((section(".probes")));
unsigned short test_other_semaphore __attribute__((section(".probes")));
#define LISTENED __builtin_expect(test_step_semaphore, 0)
#else
#define LISTENED 1
#endif

static volatile long sink;
static long skipped;

static void step(long i) {
    if (LISTENED) STAP_PROBE1(test, step, i);
    else skipped++;
    for (int k = 0; k < 20000; k++) sink += k;
}

/* In a program or in a library. */
__attribute__((visibility("default"))) long rounds(long n) {
    for (long i = 0; i < n; i++) {
        step(i);
        if (i % 2) {
            if (LISTENED) STAP_PROBE1(test, step, -i);
        }
#ifdef SEMAPHORE
        if (test_other_semaphore) STAP_PROBE(test, other);
#else
        STAP_PROBE(test, other);
#endif
    }
    return skipped;
}

#ifndef LIBRARY
int main(int argc, char **argv) {
    printf("skipped %ld\n", rounds(argc > 1 ? atol(argv[1]) : 100));
    return 0;
}
#endif
