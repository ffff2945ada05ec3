// Exceptions pass through a function that is a point.
#include <cstdio>
#include <cstdlib>

static volatile long sink;

__attribute__((noipa)) void work() {
    for (int i = 0; i < 20000; i++) sink = sink + i;
}

__attribute__((noipa)) long inner(long n) {
    work();
    if (n % 4 == 0) throw n;
    return n;
}

// Left by an exception one time in four.
__attribute__((noipa)) long passed(long n) {
    const long result = inner(n);
    work();
    return result + 1;
}

int main(int argc, char **argv) {
    const long rounds = argc > 1 ? atol(argv[1]) : 100;
    long caught = 0, sum = 0;
    for (long i = 0; i < rounds; i++) {
        try {
            sum += passed(i);
        } catch (long) {
            caught++;
        }
    }
    std::printf("caught %ld sum %ld\n", caught, sum);
    return 0;
}
