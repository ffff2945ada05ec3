/* The pipeline through a TCP connection over the loopback device: 1 ms to make an item, 0.62 ms to take it.
 * Known answer: as for pipeline_condvar, the producer's line pays until the consumer is the slower one, 38 %. */
#include "stream.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

static void make_item(void) {
    const uint64_t work = shrunk(&o, 1000);
    SPIN(work) // COZ: line
}

int main(int argc, char **argv) {
    o = parse(argc, argv);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sockaddr *address = (struct sockaddr *)&at;
    socklen_t length = sizeof at;
    const int listening = socket(AF_INET, SOCK_STREAM, 0), out = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    /* A queue of a few items. By default it holds some hundred, a second of work, and what an experiment does to it
     * is still felt in the next ones. */
    const int bytes = 8 * ITEM;
    if (setsockopt(listening, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes)) return 1;
    if (setsockopt(out, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes)) return 1;
    if (listening < 0 || out < 0 || bind(listening, address, length) || listen(listening, 1)) return 1;
    if (getsockname(listening, address, &length) || connect(out, address, length)) return 1;
    if (setsockopt(out, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes)) return 1;
    const int in = accept(listening, NULL, NULL);
    return in < 0 ? 1 : stream(in, out);
}
