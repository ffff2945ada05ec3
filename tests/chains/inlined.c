// Nine tenths of its time are spent in a function that is inlined wherever it is called: six in one line, three, by way of another
// inlined function, in another one. The rest is a loop of its own.
#include <stdlib.h>
#include <time.h>

#define STEPS 70000

void progress(void) { __asm__ volatile("" ::: "memory"); }

static inline __attribute__((always_inline)) unsigned long spin(unsigned long x, unsigned long steps)
{
    for (unsigned long i = 0; i < steps; i++) { x = x * 6364136223846793005u + i; __asm__ volatile("" : "+r"(x)); } // LINE: within
    return x;
}

static inline __attribute__((always_inline)) unsigned long by_way(unsigned long x, unsigned long steps)
{
    return spin(x, steps); // LINE: way
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

int main(int count, char **words)
{
    double seconds = count > 1 ? atof(words[1]) : 1, begin = now();
    unsigned long x = 1;
    while (now() - begin < seconds) {
        x = spin(x, 6 * STEPS); // LINE: six
        x = by_way(x, 3 * STEPS); // LINE: three
        for (unsigned long i = 0; i < STEPS; i++) { x = x * 6364136223846793005u + i; __asm__ volatile("" : "+r"(x)); } // LINE: one
        progress();
    }
    return x == 0;
}
