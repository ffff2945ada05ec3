/* One thread, half of its time in each of two lines.
 * Known answer: a line that takes half of the time gives half of its own speedup. */
#include "common.h"

int main(int argc, char **argv) {
    const struct options o = parse(argc, argv);
    const uint64_t a = shrunk(&o, 730), b = steps(&o, 730), start = now_ns();
    uint64_t done = 0;
    do {
        SPIN(a) // COZ: line
        SPIN(b)
        progress();
    } while (!finished(&o, ++done, start));
    return report(done, start);
}
