/* Functions that the compiler cuts up and copies: nm shows hot and hot.cold, copied.constprop.0, slimmed.constprop.0.isra.0,
 * split.part.0. */
#include <stdio.h>
#include <stdlib.h>

struct pair {
    long first, second;
};

static volatile long sink;

__attribute__((cold, noinline)) static void complain(long n) { fprintf(stderr, "cold %ld\n", n); }

/* Has a part that is hardly ever run. */
__attribute__((noinline)) long hot(long n) {
    if (__builtin_expect(n == 4711, 0)) {
        complain(n);
        complain(n + sink);
        return -1;
    }
    for (long i = 0; i < n; i++) sink += i;
    return sink;
}

/* Is only ever called with one second argument. */
static __attribute__((noinline)) long copied(long n, long scale) {
    for (long i = 0; i < n; i++) sink += i * scale;
    return sink;
}

/* Needs only one member of what it is given. */
static __attribute__((noinline)) long slimmed(const struct pair *p) {
    for (long i = 0; i < p->first; i++) sink += i;
    return sink;
}

/* Has a quick way out, which is all that is inlined. */
static long split(long n) {
    if (n < 10) return 0;
    for (long i = 0; i < n; i++) {
        sink += i;
        if (sink % 7 == 3) printf("%ld\n", sink);
        if (sink % 11 == 3) printf("%ld %ld\n", sink, n);
    }
    return sink;
}

int main(int argc, char **argv) {
    const struct pair p = {argc, 2};
    (void)argv;
    long sum = hot(argc) + copied(argc, 3) + copied(argc + 1, 3) + slimmed(&p);
    for (long i = 0; i < argc * 20; i++) sum += split(i) + split(i + 1) + split(sum);
    printf("%ld\n", sum);
    return 0;
}
