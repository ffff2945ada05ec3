/* The pipeline through a pair of Unix sockets: 1 ms to make an item, 0.62 ms to take it.
 * Known answer: as for pipeline_condvar, the producer's line pays until the consumer is the slower one, 38 %. */
#include "stream.h"
#include <sys/socket.h>

static void make_item(void) {
    const uint64_t work = shrunk(&o, 1000);
    SPIN(work) // COZ: line
}

int main(int argc, char **argv) {
    int ends[2], room = 8 * ITEM;
    o = parse(argc, argv);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return 1;
    if (setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room)) return 1;
    return stream(ends[0], ends[1]);
}
