/* Two processes and two counters, one of items, one of places: 1 ms to make an item, 0.62 ms to take it.
 * Known answer: as for pipeline_condvar, the maker's line pays until the taker is the slower one, 38 %. */
#include "processes.h"
#include <sys/eventfd.h>

static int items, places;

static void make_item(void) {
    const uint64_t work = shrunk(&o, 1000);
    SPIN(work) // COZ: line
}

static int take(int counter) {
    eventfd_t one;
    return !eventfd_read(counter, &one);
}

static int send_item(void) { return take(places) && !eventfd_write(items, 1); }
static int receive_item(void) { return take(items) && !eventfd_write(places, 1); }

int main(int argc, char **argv) {
    o = parse(argc, argv);
    items = eventfd(0, EFD_SEMAPHORE), places = eventfd(PLACES, EFD_SEMAPHORE);
    return items < 0 || places < 0 ? 1 : processes();
}
