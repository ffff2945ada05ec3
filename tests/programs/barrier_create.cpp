/* Two threads are made each round and joined; one works 6.7 ms, the other 6.4 ms: the example of coz's own paper.
 * Known answer: as for barrier, whatever is done to the longer line, no more than 0.3 of 6.7 ms is to be had. */
#include "common.h"
#include <thread>

static void a(const uint64_t work) {
    SPIN(work) // COZ: line
}

static void b(const uint64_t work) {
    SPIN(work)
}

int main(int argc, char **argv) {
    const options o = parse(argc, argv);
    const uint64_t start = now_ns();
    uint64_t done = 0;
    do {
        std::thread first(a, shrunk(&o, 6700)), second(b, steps(&o, 6400));
        first.join();
        second.join();
        progress();
    } while (!finished(&o, ++done, start));
    return report(done, start);
}
