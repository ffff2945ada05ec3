/* A producer (1 ms an item) and a consumer (0.62 ms an item) with a bounded queue, a mutex and two condition variables.
 * Known answer: the producer's line pays until the consumer is the slower one, 38 %, and no more. */
#include "common.h"
#include <pthread.h>

enum { CAPACITY = 16 };

static struct options o;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, emptied = PTHREAD_COND_INITIALIZER;
static unsigned waiting;
static int stop;

static void *produce(void *unused) {
    const uint64_t work = shrunk(&o, 1000);
    for (;;) {
        SPIN(work) // COZ: line
        pthread_mutex_lock(&lock);
        while (waiting == CAPACITY && !stop) pthread_cond_wait(&emptied, &lock);
        const int end = stop;
        waiting++;
        pthread_cond_signal(&filled);
        pthread_mutex_unlock(&lock);
        if (end) return unused;
    }
}

int main(int argc, char **argv) {
    o = parse(argc, argv);
    pthread_t thread;
    const uint64_t work = steps(&o, 620), start = now_ns();
    if (pthread_create(&thread, NULL, produce, NULL)) return 1;
    uint64_t done = 0;
    do {
        pthread_mutex_lock(&lock);
        while (waiting == 0) pthread_cond_wait(&filled, &lock);
        waiting--;
        pthread_cond_signal(&emptied);
        pthread_mutex_unlock(&lock);
        SPIN(work)
        progress();
    } while (!finished(&o, ++done, start));
    report(done, start);
    pthread_mutex_lock(&lock);
    stop = 1;
    pthread_cond_signal(&emptied);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
    return 0;
}
