/* A thread that nobody waits for is busy all the time on a CPU of its own; main does the work, 1 ms a round.
 * Known answer: 0, though the line is half of all samples. */
#include "common.h"
#include <pthread.h>

static struct options o;

static void *useless(void *unused) {
    const uint64_t a = shrunk(&o, 800), b = steps(&o, 50);
    for (;;) {
        SPIN(a) // COZ: line
        SPIN(b)
    }
    return unused;
}

int main(int argc, char **argv) {
    o = parse(argc, argv);
    pthread_t thread;
    const uint64_t work = steps(&o, 970), start = now_ns();
    if (pthread_create(&thread, NULL, useless, NULL)) return 1;
    uint64_t done = 0;
    do {
        SPIN(work)
        progress();
    } while (!finished(&o, ++done, start));
    return report(done, start);
}
