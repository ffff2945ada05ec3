/* Two processes that tell each other of items and of places by queued signals: 1 ms to make an item, 0.62 ms to take it.
 * Known answer: as for pipeline_condvar, the maker's line pays until the taker is the slower one, 38 %. */
#include "processes.h"

static pid_t taker;
static sigset_t item, place;
static int places = PLACES;

static void make_item(void) {
    const uint64_t work = shrunk(&o, 1000);
    SPIN(work) // COZ: line
}

static int send_item(void) {
    const struct timespec now = {0, 0};
    if (!places && sigwaitinfo(&place, NULL) > 0) places++;
    while (sigtimedwait(&place, NULL, &now) > 0) places++;
    places--;
    return !sigqueue(taker, SIGRTMIN + 4, (union sigval){0});
}

static int receive_item(void) {
    siginfo_t from;
    return sigwaitinfo(&item, &from) > 0 && !sigqueue(from.si_pid, SIGRTMIN + 5, (union sigval){0});
}

int main(int argc, char **argv) {
    o = parse(argc, argv);
    taker = getpid();
    sigemptyset(&item), sigaddset(&item, SIGRTMIN + 4);
    sigemptyset(&place), sigaddset(&place, SIGRTMIN + 5);
    if (sigprocmask(SIG_BLOCK, &item, NULL) || sigprocmask(SIG_BLOCK, &place, NULL)) return 1;
    return processes();
}
