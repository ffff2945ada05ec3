/* Two levels of inlining, a loop, a hot and a cold part. */
#include <stdio.h>
#include <stdlib.h>
#include "inline.h"

static inline __attribute__((always_inline)) unsigned twice(unsigned a) {
    a = mix(a, 3);  /* line: twice first */
    a = mix(a, 5);  /* line: twice second */
    return a;
}

__attribute__((noinline)) unsigned work(unsigned rounds) {
    unsigned sum = 0;
    for (unsigned i = 0; i < rounds; i++) /* line: loop */
        sum += twice(i);                  /* line: call */
    return sum;
}

__attribute__((noinline, cold)) void fail(const char *why) {
    fprintf(stderr, "%s\n", why); /* line: cold */
    exit(1);
}

int main(int argc, char **argv) {
    unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 1000;
    if (rounds == 7)
        fail("seven");
    printf("%u\n", work(rounds)); /* line: report */
    return 0;
}
