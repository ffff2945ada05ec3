/* After the paper's memcached: items are guarded by a static array of locks, and the hash of the busy keys leaves two of
 * them; 0.35 ms with a lock, 0.25 ms without.
 * Known answer: 0.35 / 0.6 of the line's own speedup at first, and more, since half of the rounds collide. */
#include "threads.h"

static pthread_mutex_t locks[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static uint64_t with, without;

static void one_round(int thread) {
    static __thread uint64_t key;
    key = key * 6364136223846793005u + 2 * (uint64_t)thread + 1;
    pthread_mutex_t *const lock = &locks[key >> 63];
    pthread_mutex_lock(lock);
    SPIN(with) // COZ: line
    pthread_mutex_unlock(lock);
    SPIN(without)
}

int main(int argc, char **argv) {
    o = parse(argc, argv);
    with = shrunk(&o, 350), without = steps(&o, 250);
    return run_threads(2);
}
