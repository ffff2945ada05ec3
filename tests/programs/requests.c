/* Clients whose requests one server answers, each after its turn: the latency of a request is what it waits for its turn and
 * what its answer takes. Clients think for a random time between two requests (a timer ends it), requests are of random
 * sizes, one in ten of them four times as long as the others: so there is a queue, and a tail.
 *
 * What the line does is 70 % of the work for usual requests, and none of the long ones': making it faster shortens the
 * queue, and with it mean, median and tail, by different amounts. The last line of output has the latencies' mean, median and
 * 99th percentile as a client sees them. */
#include "common.h"
#include <math.h>
#include <pthread.h>
#include <time.h>

enum { CLIENTS = 6, KEPT = 1 << 16 };

struct request {
    struct request *next;
    uint64_t line, rest; /* steps */
    int answered;
    pthread_cond_t done;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static struct request *first, **last = &first;
static int stop, closed;
static struct options o;
static uint64_t start, answered;
static uint32_t latencies[KEPT]; /* microseconds */

/* From 0 to 1, never 0. */
static double draw(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(*state >> 11) + 1) / 9007199254740993.0;
}

static double exponential(uint64_t *state, double mean) { return -mean * log(draw(state)); }

/* A client's request, from its being made to its answer. */
__attribute__((noipa)) static void ask(struct request *r) {
    pthread_mutex_lock(&lock);
    r->next = NULL;
    r->answered = 0;
    *last = r;
    last = &r->next;
    pthread_cond_signal(&arrived);
    while (!r->answered) pthread_cond_wait(&r->done, &lock);
    pthread_mutex_unlock(&lock);
}

static void *client(void *argument) {
    uint64_t state = (uint64_t)(uintptr_t)argument * 7919 + 1;
    struct request r = {.done = PTHREAD_COND_INITIALIZER};
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        const double us = exponential(&state, 6000);
        const struct timespec think = {(time_t)(us / 1e6), (long)(fmod(us, 1e6) * 1e3)};
        nanosleep(&think, NULL);
        const int is_long = draw(&state) < 0.1;
        const double size = is_long ? 2000 : 300 + exponential(&state, 200);
        r.line = is_long ? 0 : shrunk(&o, 0.7 * size);
        r.rest = steps(&o, is_long ? size : 0.3 * size);
        const uint64_t before = now_ns();
        ask(&r);
        const uint64_t n = __atomic_fetch_add(&answered, 1, __ATOMIC_RELAXED);
        latencies[n % KEPT] = (uint32_t)((now_ns() - before) / 1000);
        progress();
    }
    return NULL;
}

static void *server(void *unused) {
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!first && !closed) pthread_cond_wait(&arrived, &lock);
        struct request *r = first;
        if (!r) break;
        if (!(first = r->next)) last = &first;
        pthread_mutex_unlock(&lock);
        SPIN(r->line) // COZ: line
        SPIN(r->rest)
        pthread_mutex_lock(&lock);
        r->answered = 1;
        pthread_cond_signal(&r->done);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static int by_size(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    o = parse(argc, argv);
    start = now_ns();
    pthread_t threads[CLIENTS + 1];
    pthread_create(&threads[CLIENTS], NULL, server, NULL);
    for (uintptr_t i = 0; i < CLIENTS; i++) pthread_create(&threads[i], NULL, client, (void *)(i + 1));
    while (!finished(&o, __atomic_load_n(&answered, __ATOMIC_RELAXED), start)) {
        const struct timespec a_while = {0, 20000000};
        nanosleep(&a_while, NULL);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < CLIENTS; i++) pthread_join(threads[i], NULL);
    pthread_mutex_lock(&lock);
    closed = 1;
    pthread_cond_signal(&arrived);
    pthread_mutex_unlock(&lock);
    pthread_join(threads[CLIENTS], NULL);
    const size_t n = answered < KEPT ? answered : KEPT;
    qsort(latencies, n, sizeof latencies[0], by_size);
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += latencies[i];
    printf("latency mean %.0f p50 %u p99 %u us\n", sum / (double)n, latencies[n / 2], latencies[n * 99 / 100]);
    return report(answered, start);
}
