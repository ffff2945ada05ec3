/* Four times as many threads as CPUs, which share nothing but the CPUs; half of each one's time is in the line.
 * Known answer: half of the line's own speedup. */
#include "threads.h"
#include <unistd.h>

static uint64_t a, b;

static void one_round(int thread) {
    (void)thread;
    SPIN(a) // COZ: line
    SPIN(b)
}

int main(int argc, char **argv) {
    o = parse(argc, argv);
    const int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    a = shrunk(&o, 430), b = steps(&o, 430);
    return run_threads(4 * cpus);
}
