/* Two processes and a TCP connection over the loopback device: 1 ms to make an item, 0.62 ms to take it.
 * Known answer: as for pipeline_condvar, the maker's line pays until the taker is the slower one, 38 %. */
#include "processes.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

static int in, out;

static void make_item(void) {
    const uint64_t work = shrunk(&o, 1000);
    SPIN(work) // COZ: line
}

static int send_item(void) { return whole_item(write_, out); }
static int receive_item(void) { return whole_item(read_, in); }

int main(int argc, char **argv) {
    o = parse(argc, argv);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sockaddr *address = (struct sockaddr *)&at;
    socklen_t length = sizeof at;
    const int listening = socket(AF_INET, SOCK_STREAM, 0), yes = 1, bytes = PLACES * ITEM;
    out = socket(AF_INET, SOCK_STREAM, 0);
    /* A queue of a few items: see pipeline_tcp. */
    if (setsockopt(listening, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes)) return 1;
    if (setsockopt(out, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes)) return 1;
    if (listening < 0 || out < 0 || bind(listening, address, length) || listen(listening, 1)) return 1;
    if (getsockname(listening, address, &length) || connect(out, address, length)) return 1;
    if (setsockopt(out, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes)) return 1;
    in = accept(listening, NULL, NULL);
    return in < 0 ? 1 : processes();
}
