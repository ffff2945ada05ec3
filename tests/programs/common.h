/* What the C and C++ programs with a known answer share: options, work that is counted and not timed, the last line.
 *
 * Work is a loop of a fixed number of steps on one source line. How many steps a microsecond takes is measured
 * at start, or given as COZ_STEPS_PER_US, so that runs that are compared do the same work.
 */
#ifndef COMMON_H
#define COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_DEFAULT */
#endif
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Takes the time of `steps` steps, at the line where it stands. */
#define SPIN(steps)                                                                                          \
    for (uint64_t i_ = 0, x_ = 1; i_ < (steps); i_++) {                                                      \
        x_ = x_ * 6364136223846793005u + i_;                                                                 \
        __asm__ volatile("" : "+r"(x_));                                                                     \
    }

struct options {
    uint64_t rounds;     /* stop after as many; 0: no limit */
    double seconds;      /* stop after this long; 0: no limit */
    double shrink;       /* by which part of its work the line is shorter, 0 to 1 */
    double steps_per_us; /* speed of this machine */
};

/* Where coz, when it runs us, counts the visits of a point; it exports a function that finds the place. */
struct coz_counter {
    size_t count, unused;
};

static struct coz_counter *coz_counter(void) {
    typedef struct coz_counter *(*finder)(int throughput, const char *name);
    const finder find = (finder)dlsym(RTLD_DEFAULT, "_coz_get_counter");
    return find ? find(1, "progress") : NULL;
}

#ifdef __cplusplus
extern "C"
#endif
/* A round is done. Not inlined, so that it can serve as a progress point by its name. */
__attribute__((noipa)) void progress(void) {
    static struct coz_counter *counter;
    static int known;
    if (!__atomic_load_n(&known, __ATOMIC_ACQUIRE)) {
        __atomic_store_n(&counter, coz_counter(), __ATOMIC_RELAXED);
        __atomic_store_n(&known, 1, __ATOMIC_RELEASE);
    }
    struct coz_counter *c = __atomic_load_n(&counter, __ATOMIC_RELAXED);
    if (c) __atomic_add_fetch(&c->count, 1, __ATOMIC_RELAXED);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double calibrate(void) {
    double best = 0;
    for (int i = 0; i < 7; i++) {
        const uint64_t steps = 1000000, start = now_ns();
        SPIN(steps)
        const double speed = (double)steps * 1000.0 / (double)(now_ns() - start);
        if (speed > best) best = speed;
    }
    return best;
}

/* SIGUSR1: this round is the last one. */
static volatile sig_atomic_t told_to_end;

static void end_soon(int signal_number) {
    (void)signal_number;
    told_to_end = 1;
}

static struct options parse(int argc, char **argv) {
    struct options o = {0, 0, 0, 0};
    const char *speed = getenv("COZ_STEPS_PER_US");
    int only_calibrate = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--calibrate")) only_calibrate = 1;
        else if (i + 1 < argc && !strcmp(argv[i], "--rounds")) o.rounds = strtoull(argv[++i], NULL, 10);
        else if (i + 1 < argc && !strcmp(argv[i], "--seconds")) o.seconds = strtod(argv[++i], NULL);
        else if (i + 1 < argc && !strcmp(argv[i], "--shrink")) o.shrink = strtod(argv[++i], NULL) / 100.0;
        else {
            fprintf(stderr, "usage: %s [--seconds S] [--rounds N] [--shrink PERCENT] [--calibrate]\n", argv[0]);
            exit(2);
        }
    }
    if (!o.rounds && o.seconds <= 0) o.seconds = 2;
    signal(SIGUSR1, end_soon);
    o.steps_per_us = speed ? strtod(speed, NULL) : calibrate();
    if (only_calibrate) {
        printf("%.3f\n", o.steps_per_us);
        exit(0);
    }
    return o;
}

/* Steps that take so many microseconds. */
static uint64_t steps(const struct options *o, double us) { return (uint64_t)(us * o->steps_per_us); }

/* The same for the line that `--shrink` makes shorter. */
static uint64_t shrunk(const struct options *o, double us) { return steps(o, us * (1.0 - o->shrink)); }

/* Whether this was the last round: `done` rounds since `start`. */
static inline int finished(const struct options *o, uint64_t done, uint64_t start) {
    if (told_to_end || (o->rounds && done >= o->rounds)) return 1;
    return o->seconds > 0 && (double)(now_ns() - start) >= o->seconds * 1e9;
}

static int report(uint64_t rounds, uint64_t start) {
    printf("rounds %llu ns %llu\n", (unsigned long long)rounds, (unsigned long long)(now_ns() - start));
    return 0;
}

#endif
