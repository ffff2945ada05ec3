/* One thread, half of its time in each of two lines; from SIGUSR2 on another one beside it, which passes a place 40,000 times a second.
 * Known answer: what half of the first line is worth to the first thread, 25 %, whatever the other one does. */
#include "../programs/common.h"
#include <pthread.h>

static volatile sig_atomic_t told_to_be_busy;

static void busy_soon(int signal_number) {
    (void)signal_number;
    told_to_be_busy = 1;
}

__attribute__((noipa)) void often(void) { __asm__ volatile(""); }

static void *beside(void *steps) {
    const struct timespec moment = {.tv_nsec = 1000000};
    while (!told_to_be_busy) nanosleep(&moment, NULL);
    for (;;) {
        SPIN(*(const uint64_t *)steps)
        often();
    }
    return NULL;
}

int main(int argc, char **argv) {
    const struct options o = parse(argc, argv);
    const uint64_t a = shrunk(&o, 730), b = steps(&o, 730), c = steps(&o, 20);
    pthread_t thread;
    signal(SIGUSR2, busy_soon);
    if (pthread_create(&thread, NULL, beside, (void *)&c)) return 1;
    const uint64_t start = now_ns();
    uint64_t done = 0;
    do {
        SPIN(a) // the line
        SPIN(b)
        progress();
    } while (!finished(&o, ++done, start));
    return report(done, start);
}
