/* One thread whose loop takes exactly 1 ms, the length of a usual sampling period: 0.4 ms in the line.
 * Known answer: 0.4 of the line's own speedup. A sampler in step with the loop sees the line always or never. */
#include "common.h"

int main(int argc, char **argv) {
    const struct options o = parse(argc, argv);
    const uint64_t a = shrunk(&o, 400), b = steps(&o, 600), start = now_ns();
    uint64_t done = 0;
    do {
        SPIN(a) // COZ: line
        SPIN(b)
        progress();
    } while (!finished(&o, ++done, start));
    return report(done, start);
}
