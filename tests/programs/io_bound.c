/* A thread makes items, 0.5 ms of work each; another one waits 1 ms for its device for each, and hardly works.
 * Known answer: 0, the device is the bottleneck. */
#include "common.h"
#include "queue.h"

static struct options o;
static struct queue queue = QUEUE(8);

static void *produce(void *unused) {
    const uint64_t work = shrunk(&o, 500);
    for (;;) {
        SPIN(work) // COZ: line
        push(&queue);
    }
    return unused;
}

int main(int argc, char **argv) {
    o = parse(argc, argv);
    const struct timespec device = {0, 1000000};
    pthread_t thread;
    const uint64_t start = now_ns();
    if (pthread_create(&thread, NULL, produce, NULL)) return 1;
    uint64_t done = 0;
    do {
        pop(&queue);
        nanosleep(&device, NULL);
        progress();
    } while (!finished(&o, ++done, start));
    return report(done, start);
}
