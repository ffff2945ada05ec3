/* Two threads read for 0.2 ms, write for 0.3 ms, and do something else for 0.1 ms.
 * Known answer: writing excludes everything, so a round costs 0.3 ms at least and gains most of what the line does. */
#include "threads.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static uint64_t reading, writing, other;

static void one_round(int thread) {
    (void)thread;
    pthread_rwlock_rdlock(&lock);
    SPIN(reading)
    pthread_rwlock_unlock(&lock);
    pthread_rwlock_wrlock(&lock);
    SPIN(writing) // COZ: line
    pthread_rwlock_unlock(&lock);
    SPIN(other)
}

int main(int argc, char **argv) {
    o = parse(argc, argv);
    reading = steps(&o, 200), writing = shrunk(&o, 300), other = steps(&o, 100);
    return run_threads(2);
}
