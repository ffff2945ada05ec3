/* A program that was instrumented with a coz.h, as users have them: its macro asks whether a profiler is there, once.
 * The points are named here as coz.h names them; no linker flag, no library of ours. */
#define _GNU_SOURCE
#include "common.h"
#include <dlfcn.h>

typedef struct {
    size_t count, backoff;
} own_counter;

static own_counter *own_find(int type, const char *name) {
    own_counter *(*get)(int, const char *);
    *(void **)&get = dlsym(RTLD_DEFAULT, "_coz_get_counter");
    return get ? get(type, name) : NULL;
}

#define COZ_PROGRESS_NAMED(name)                                                                             \
    do {                                                                                                     \
        static own_counter *counter_;                                                                        \
        static int asked_;                                                                                   \
        if (!asked_) asked_ = 1, counter_ = own_find(1, name);                                               \
        if (counter_) __atomic_add_fetch(&counter_->count, 1, __ATOMIC_RELAXED);                             \
    } while (0)

int main(int argc, char **argv) {
    const struct options o = parse(argc, argv);
    const uint64_t a = shrunk(&o, 730), b = steps(&o, 730), start = now_ns();
    uint64_t done = 0;
    do {
        SPIN(a) // COZ: line
        SPIN(b)
        COZ_PROGRESS_NAMED("a round");
    } while (!finished(&o, ++done, start));
    return report(done, start);
}
