/* After the paper's streamcluster and fluidanimate: a barrier of the program's own making, where waiting threads poll
 * with pthread_mutex_trylock. One thread works 1 ms a round, the other 0.6 ms.
 * Known answer: the longer thread's line pays until the other one is the slower one, 40 %. */
#include "common.h"
#include <pthread.h>

static struct options o;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t arrived, round_;

static void lock_by_polling(void) {
    while (pthread_mutex_trylock(&lock)) __builtin_ia32_pause();
}

static void meet(void) {
    lock_by_polling();
    const uint64_t mine = round_;
    const int last = ++arrived == 2;
    if (last) arrived = 0, round_++;
    pthread_mutex_unlock(&lock);
    if (last) progress();
    for (int over = last; !over;) {
        lock_by_polling();
        over = round_ != mine;
        pthread_mutex_unlock(&lock);
        for (int i = 0; i < 20; i++) __builtin_ia32_pause();
    }
}

static void *longer(void *unused) {
    const uint64_t work = shrunk(&o, 1000);
    for (;;) {
        SPIN(work) // COZ: line
        meet();
    }
    return unused;
}

int main(int argc, char **argv) {
    o = parse(argc, argv);
    pthread_t thread;
    const uint64_t work = steps(&o, 600), start = now_ns();
    if (pthread_create(&thread, NULL, longer, NULL)) return 1;
    uint64_t done = 0;
    do {
        SPIN(work)
        meet();
    } while (!finished(&o, ++done, start));
    return report(done, start);
}
