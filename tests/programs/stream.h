/* The pipeline whose items go through two file descriptors: a thread makes them, main takes 0.62 ms for each. */
#ifndef STREAM_H
#define STREAM_H

#include "common.h"
#include <pthread.h>
#include <unistd.h>

enum { ITEM = 4096 }; /* bytes: a page, so that the few pages of a pipe are a short queue */

static struct options o;
static void make_item(void); /* the program's own */

static void *produce_(void *end) {
    static char item[ITEM];
    for (;;) {
        make_item();
        if (write(*(int *)end, item, ITEM) != ITEM) return NULL;
    }
}

static int stream(int in, int out) {
    static char item[ITEM];
    pthread_t thread;
    const uint64_t work = steps(&o, 620), start = now_ns();
    if (pthread_create(&thread, NULL, produce_, &out)) return 1;
    uint64_t done = 0;
    do {
        for (ssize_t have = 0; have < ITEM;) {
            const ssize_t more = read(in, item + have, (size_t)(ITEM - have));
            if (more <= 0) return 1;
            have += more;
        }
        SPIN(work)
        progress();
    } while (!finished(&o, ++done, start));
    return report(done, start); /* the end of the process ends the other thread */
}

#endif
