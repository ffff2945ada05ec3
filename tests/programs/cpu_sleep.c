/* One thread: 2 ms of work, then a timed wait of 3 ms, as if for a device.
 * Known answer: the line is two fifths of the round, the wait stays as it is. */
#include "common.h"

int main(int argc, char **argv) {
    const struct options o = parse(argc, argv);
    const struct timespec wait = {0, 3000000};
    const uint64_t work = shrunk(&o, 2000), start = now_ns();
    uint64_t done = 0;
    do {
        SPIN(work) // COZ: line
        nanosleep(&wait, NULL);
        progress();
    } while (!finished(&o, ++done, start));
    return report(done, start);
}
