/* A program whose points are passed a known number of times: so many rounds as its only argument says. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile long sink;

__attribute__((noipa)) void work(long n) {
    for (long i = 0; i < n; i++) sink += i;
}

/* Once a round; returns in three places. */
__attribute__((noipa)) long several(long n) {
    if (n % 3 == 0) return 7;
    work(n % 50);
    if (n % 3 == 1) return sink & 1;
    work(n % 20);
    return 3;
}

/* Once a round; ends with a jump to another function. */
__attribute__((noipa)) long tail(long n) { return several(n + 1); }

/* Four times a round, three of them from within itself. */
__attribute__((noipa)) long again(long n) {
    if (n == 0) return 1;
    const long below = again(n - 1);
    work(5);
    return below + n;
}

/* Once a round, inlined. */
static inline long mixed(long n) {
    sink ^= n;
    return sink + 1; /* line */
}

/* Once a round; hardly ever takes its cold way out. */
__attribute__((noipa)) long rare(long n) {
    if (__builtin_expect(n < 0, 0)) {
        fprintf(stderr, "never %ld\n", n);
        abort();
    }
    work(30);
    return sink;
}

/* Once a round; two milliseconds. */
__attribute__((noipa)) void rest(void) {
    const struct timespec time = {0, 2000000};
    nanosleep(&time, NULL);
}

/* Twice a round: known to the compiler to be called with one value only. */
static __attribute__((noinline)) long special(long n, long scale) {
    work(n);
    return n * scale;
}

int main(int argc, char **argv) {
    const long rounds = argc > 1 ? atol(argv[1]) : 100;
    long sum = 0;
    for (long i = 0; i < rounds; i++) {
        sum += several(i) + tail(i) + again(3) + mixed(i) + rare(i) + special(i % 7, 3) + special(i % 5, 3);
        syscall(SYS_getppid);
        work(20000);
        if (argc > 2) rest();
    }
    printf("sum %ld\n", sum);
    return 0;
}
