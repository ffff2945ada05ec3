/* A program without any progress point: what is said of it then? */
#include "common.h"

static struct options o;

__attribute__((noipa)) static void handle_request(void) {
    const uint64_t work = shrunk(&o, 500);
    SPIN(work) // COZ: line
}

int main(int argc, char **argv) {
    o = parse(argc, argv);
    const uint64_t start = now_ns();
    uint64_t done = 0;
    do {
        handle_request();
    } while (!finished(&o, ++done, start));
    return report(done, start);
}
