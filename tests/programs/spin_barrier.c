/* Two threads meet each round at a barrier of their own making. Who waits there looks again and again whether the
 * other one has come, 5 us at a time under the same lock that the other one needs for each 10 us of its work.
 * Known answer: the line makes its thread come earlier and disturb the other one longer, so that a round, 1.2 ms,
 * gets longer: by 0.5 * 0.6 ms, a quarter, when the line is gone. */
#include "common.h"
#include <pthread.h>

static struct options o;
static uint64_t next_, serving_; /* a ticket lock: the two take turns */
static uint64_t round_;

static void lock(void) {
    const uint64_t mine = __atomic_fetch_add(&next_, 1, __ATOMIC_RELAXED);
    while (__atomic_load_n(&serving_, __ATOMIC_ACQUIRE) != mine) __builtin_ia32_pause();
}

static void unlock(void) { __atomic_fetch_add(&serving_, 1, __ATOMIC_RELEASE); }

static void *early(void *unused) {
    const uint64_t work = shrunk(&o, 600), look = steps(&o, 5);
    for (uint64_t mine = 1;; mine++) {
        SPIN(work) // COZ: line
        for (int come = 0; !come;) {
            lock();
            SPIN(look)
            come = round_ >= mine;
            unlock();
        }
    }
    return unused;
}

int main(int argc, char **argv) {
    o = parse(argc, argv);
    pthread_t thread;
    const uint64_t piece = steps(&o, 10), start = now_ns();
    if (pthread_create(&thread, NULL, early, NULL)) return 1;
    uint64_t done = 0;
    do {
        for (int i = 0; i < 100; i++) {
            lock();
            SPIN(piece)
            unlock();
        }
        lock();
        round_++;
        unlock();
        progress();
    } while (!finished(&o, ++done, start));
    return report(done, start);
}
