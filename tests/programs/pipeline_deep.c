/* The pipeline of pipeline_condvar.c with a queue of 256 items: what an experiment leaves in it feeds the consumer for a third of a second.
 * Known answer: the same, 38 %. A baseline that begins before the queue is empty again is as fast as the consumer, and nothing seems to be gained. */
#include "common.h"
#include "queue.h"

static struct options o;
static struct queue items = QUEUE(256);

static void *produce(void *unused) {
    const uint64_t work = shrunk(&o, 1000);
    for (;;) {
        SPIN(work) // COZ: line
        push(&items);
    }
    return unused;
}

int main(int argc, char **argv) {
    o = parse(argc, argv);
    pthread_t thread;
    const uint64_t work = steps(&o, 620), start = now_ns();
    if (pthread_create(&thread, NULL, produce, NULL)) return 1;
    uint64_t done = 0;
    do {
        pop(&items);
        SPIN(work)
        progress();
    } while (!finished(&o, ++done, start));
    return report(done, start);
}
