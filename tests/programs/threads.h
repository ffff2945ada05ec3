/* Threads that all do the same, a round at a time. */
#ifndef THREADS_H
#define THREADS_H

#include "common.h"
#include <pthread.h>

enum { MOST_THREADS = 256 };

static struct options o;
static void one_round(int thread); /* what a round is: the program's own */

static uint64_t start_, taken_, done_;

static void *rounds_(void *number) {
    for (;;) {
        const uint64_t taken = __atomic_fetch_add(&taken_, 1, __ATOMIC_RELAXED);
        if (taken && finished(&o, taken, start_)) return NULL;
        one_round((int)(intptr_t)number);
        __atomic_fetch_add(&done_, 1, __ATOMIC_RELAXED);
        progress();
    }
}

/* Runs so many threads until the rounds are done, and reports. */
static int run_threads(int threads) {
    pthread_t thread[MOST_THREADS];
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    start_ = now_ns();
    for (int i = 0; i < threads; i++) {
        if (pthread_create(&thread[i], NULL, rounds_, (void *)(intptr_t)i)) return 1;
    }
    for (int i = 0; i < threads; i++) pthread_join(thread[i], NULL);
    return report(done_, start_);
}

#endif
