/* Two threads take turns at a mutex: 0.4 ms with it, 0.3 ms without.
 * Known answer: the lock is the bottleneck until it is held for less than 0.3 ms, then half of the threads' own time
 * is: rounds of 0.4, 0.3, 0.25, 0.2, 0.15 ms, and a little more, since waits for the mutex become fewer. */
#include "threads.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t with, without;

static void one_round(int thread) {
    (void)thread;
    pthread_mutex_lock(&lock);
    SPIN(with) // COZ: line
    pthread_mutex_unlock(&lock);
    SPIN(without)
}

int main(int argc, char **argv) {
    o = parse(argc, argv);
    with = shrunk(&o, 400), without = steps(&o, 300);
    return run_threads(2);
}
