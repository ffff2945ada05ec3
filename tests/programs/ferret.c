/* After the paper's ferret: four stages with queues between them and badly spread threads: two cut pictures up (0.15 ms)
 * though one ranks them (1 ms); loading and printing take 0.1 ms each.
 * Known answer: the ranking line pays in full until all that the two CPUs do takes longer, about 70 %. */
#include "common.h"
#include "queue.h"

static struct options o;
static struct queue loaded = QUEUE(16), cut = QUEUE(16), ranked = QUEUE(16);

static void *load(void *unused) {
    const uint64_t work = steps(&o, 100);
    for (;;) {
        SPIN(work)
        push(&loaded);
    }
    return unused;
}

static void *cut_up(void *unused) {
    const uint64_t work = steps(&o, 150);
    for (;;) {
        pop(&loaded);
        SPIN(work)
        push(&cut);
    }
    return unused;
}

static void *rank(void *unused) {
    const uint64_t work = shrunk(&o, 1000);
    for (;;) {
        pop(&cut);
        SPIN(work) // COZ: line
        push(&ranked);
    }
    return unused;
}

int main(int argc, char **argv) {
    o = parse(argc, argv);
    void *(*const stages[])(void *) = {load, cut_up, cut_up, rank};
    pthread_t thread;
    const uint64_t work = steps(&o, 100), start = now_ns();
    for (int i = 0; i < 4; i++) {
        if (pthread_create(&thread, NULL, stages[i], NULL)) return 1;
    }
    uint64_t done = 0;
    do {
        pop(&ranked);
        SPIN(work)
        progress();
    } while (!finished(&o, ++done, start));
    return report(done, start);
}
