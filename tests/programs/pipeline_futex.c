/* The pipeline again, on semaphores made of raw futex calls: no pthread function waits or wakes.
 * Known answer: as for pipeline_condvar. */
#include "common.h"
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

struct semaphore {
    _Atomic uint32_t value, sleepers;
};

static void down(struct semaphore *s) {
    for (;;) {
        uint32_t value = atomic_load(&s->value);
        if (value > 0) {
            if (atomic_compare_exchange_weak(&s->value, &value, value - 1)) return;
            continue;
        }
        atomic_fetch_add(&s->sleepers, 1);
        syscall(SYS_futex, &s->value, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
        atomic_fetch_sub(&s->sleepers, 1);
    }
}

static void up(struct semaphore *s) {
    atomic_fetch_add(&s->value, 1);
    if (atomic_load(&s->sleepers)) syscall(SYS_futex, &s->value, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static struct options o;
static struct semaphore items = {0, 0}, spaces = {16, 0};
static atomic_int stop;

static void *produce(void *unused) {
    const uint64_t work = shrunk(&o, 1000);
    while (!stop) {
        SPIN(work) // COZ: line
        down(&spaces);
        up(&items);
    }
    return unused;
}

int main(int argc, char **argv) {
    o = parse(argc, argv);
    pthread_t thread;
    const uint64_t work = steps(&o, 620), start = now_ns();
    if (pthread_create(&thread, NULL, produce, NULL)) return 1;
    uint64_t done = 0;
    do {
        down(&items);
        up(&spaces);
        SPIN(work)
        progress();
    } while (!finished(&o, ++done, start));
    report(done, start);
    stop = 1;
    up(&spaces);
    pthread_join(thread, NULL);
    return 0;
}
