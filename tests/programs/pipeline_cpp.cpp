/* The pipeline with two of C++20's counting semaphores: 1 ms to make an item, 0.62 ms to take it.
 * Known answer: as for pipeline_condvar, the producer's line pays until the consumer is the slower one, 38 %. */
#include "common.h"
#include <semaphore>
#include <thread>

static std::counting_semaphore<16> items(0), spaces(16);

static void produce(const uint64_t work) {
    for (;;) {
        SPIN(work) // COZ: line
        spaces.acquire();
        items.release();
    }
}

int main(int argc, char **argv) {
    const options o = parse(argc, argv);
    const uint64_t work = steps(&o, 620), start = now_ns();
    std::thread(produce, shrunk(&o, 1000)).detach();
    uint64_t done = 0;
    do {
        items.acquire();
        spaces.release();
        SPIN(work)
        progress();
    } while (!finished(&o, ++done, start));
    report(done, start);
    fflush(stdout);
    _Exit(0); // the other thread still uses the semaphores
}
