/* Many threads: `threads once N`, all at once; `threads turn N`, one after the other. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_barrier_t all;
static int together;

static long work(long n) {
    long sum = 1;
    for (long i = 0; i < n; i++)
        sum = sum * 3 + i;
    return sum;
}

static void *thread(void *unused) {
    (void)unused;
    if (together)
        pthread_barrier_wait(&all);
    return (void *)work(20000);
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    int count = atoi(argv[2]);
    together = strcmp(argv[1], "once") == 0;
    int at_once = together ? count : 1;
    pthread_t *threads = calloc((size_t)at_once, sizeof *threads);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    pthread_barrier_init(&all, NULL, (unsigned)at_once);
    unsigned long sum = 0;
    for (int done = 0; done < count; done += at_once) {
        for (int i = 0; i < at_once; i++)
            if (pthread_create(&threads[i], &small, thread, NULL))
                return perror("pthread_create"), 1;
        for (int i = 0; i < at_once; i++) {
            void *result;
            pthread_join(threads[i], &result);
            sum += (unsigned long)result;
        }
    }
    free(threads);
    printf("%d threads, %lu\n", count, sum);
    return 3;
}
