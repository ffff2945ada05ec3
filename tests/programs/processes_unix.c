/* Two processes and a Unix socket that keeps messages apart: 1 ms to make an item, 0.62 ms to take it.
 * Known answer: as for pipeline_condvar, the maker's line pays until the taker is the slower one, 38 %. */
#include "processes.h"
#include <sys/socket.h>

static int ends[2];

static void make_item(void) {
    const uint64_t work = shrunk(&o, 1000);
    SPIN(work) // COZ: line
}

static int send_item(void) { return send(ends[1], item_, ITEM, 0) == ITEM; }
static int receive_item(void) { return recv(ends[0], item_, ITEM, 0) == ITEM; }

int main(int argc, char **argv) {
    o = parse(argc, argv);
    const int bytes = PLACES * ITEM;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends)) return 1;
    if (setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes)) return 1;
    return processes();
}
