/* Two threads meet at a barrier each round; one works 6.7 ms, the other 6.4 ms.
 * Known answer: whatever is done to the longer line, no more than 0.3 of 6.7 ms is to be had. */
#include "common.h"
#include <pthread.h>
#include <stdatomic.h>

static struct options o;
static pthread_barrier_t barrier;
static uint64_t start;
static atomic_uint_fast64_t last = UINT64_MAX;

static void meet(void) {
    if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD) progress();
}

static void *other(void *unused) {
    const uint64_t b = steps(&o, 6400);
    for (uint64_t round = 1;; round++) {
        SPIN(b)
        meet();
        if (round == last) return unused;
    }
}

int main(int argc, char **argv) {
    o = parse(argc, argv);
    pthread_t thread;
    const uint64_t a = shrunk(&o, 6700);
    pthread_barrier_init(&barrier, NULL, 2);
    start = now_ns();
    if (pthread_create(&thread, NULL, other, NULL)) return 1;
    uint64_t round = 1;
    for (;; round++) {
        SPIN(a) // COZ: line
        const int end = finished(&o, round, start);
        if (end) last = round;
        meet();
        if (end) break;
    }
    pthread_join(thread, NULL);
    return report(round, start);
}
