/* One thread; the line is all there is in the first half of the rounds, another one in the second half.
 * Known answer: half of the line's own speedup, as for a line that takes half of the time all along. The number of
 * rounds is fixed beforehand, also with --seconds: a shorter first half must not mean a longer second one. */
#include "common.h"

int main(int argc, char **argv) {
    const struct options o = parse(argc, argv);
    const double round_us = 1170;
    const uint64_t rounds = o.rounds ? o.rounds : (uint64_t)(o.seconds * 1e6 / round_us);
    const uint64_t a = shrunk(&o, round_us), b = steps(&o, round_us), start = now_ns();
    for (uint64_t done = 0; done < rounds; done++) {
        if (done < rounds / 2) {
            SPIN(a) // COZ: line
        } else {
            SPIN(b)
        }
        progress();
    }
    return report(rounds, start);
}
