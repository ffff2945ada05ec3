/* The pipeline through a pipe of 16 pages: 1 ms to make an item, 0.62 ms to take it.
 * Known answer: as for pipeline_condvar, the producer's line pays until the consumer is the slower one, 38 %. */
#include "stream.h"
#include <fcntl.h>

static void make_item(void) {
    const uint64_t work = shrunk(&o, 1000);
    SPIN(work) // COZ: line
}

int main(int argc, char **argv) {
    int ends[2];
    o = parse(argc, argv);
    if (pipe(ends) || fcntl(ends[1], F_SETPIPE_SZ, 16 * ITEM) < 0) return 1;
    return stream(ends[0], ends[1]);
}
