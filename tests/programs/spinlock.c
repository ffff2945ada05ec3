/* As mutex, with a spinlock: who waits for it uses the CPU and never sleeps.
 * Known answer: rounds of 0.4, 0.3, 0.25, 0.2, 0.15 ms, as there. */
#include "threads.h"

static pthread_spinlock_t lock;
static uint64_t with, without;

static void one_round(int thread) {
    (void)thread;
    pthread_spin_lock(&lock);
    SPIN(with) // COZ: line
    pthread_spin_unlock(&lock);
    SPIN(without)
}

int main(int argc, char **argv) {
    o = parse(argc, argv);
    with = shrunk(&o, 400), without = steps(&o, 300);
    pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE);
    return run_threads(2);
}
