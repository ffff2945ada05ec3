/* Two processes and a pipe of 16 pages: 1 ms to make an item, 0.62 ms to take it.
 * Known answer: as for pipeline_condvar, the maker's line pays until the taker is the slower one, 38 %. */
#include "processes.h"
#include <fcntl.h>

static int ends[2];

static void make_item(void) {
    const uint64_t work = shrunk(&o, 1000);
    SPIN(work) // COZ: line
}

static int send_item(void) { return whole_item(write_, ends[1]); }
static int receive_item(void) { return whole_item(read_, ends[0]); }

int main(int argc, char **argv) {
    o = parse(argc, argv);
    if (pipe(ends) || fcntl(ends[1], F_SETPIPE_SZ, 16 * ITEM) < 0) return 1;
    return processes();
}
