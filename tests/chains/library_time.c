// Spends nearly all of its time in the C library and in the kernel, each part called from one known line, and says at
// its end how much CPU time each part took: `name ns` a line.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { COPY, HEAP, READ, SORT, PARTS };
static const char *const names[PARTS] = {"copy", "heap", "read", "sort"};
static double spent[PARTS];
static char from[1 << 16], to[1 << 16];
static int zero, numbers[1 << 15];

void progress(void) { __asm__ volatile("" ::: "memory"); }

static double cpu(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

static int above(const void *a, const void *b) { return *(const int *)a - *(const int *)b; } // PART: sort

__attribute__((noinline)) static void copy(int rounds)
{
    for (int i = 0; i < rounds; i++) { memcpy(to, from, sizeof to - i % 64); __asm__ volatile("" ::: "memory"); } // PART: copy
}

__attribute__((noinline)) static void heap(int rounds)
{
    for (int i = 0; i < rounds; i++) { void *p = malloc(100 + i % 5000); __asm__ volatile("" : "+r"(p)); free(p); } // PART: heap
}

__attribute__((noinline)) static void read_zero(int rounds)
{
    for (int i = 0; i < rounds; i++) { if (read(zero, to, sizeof to / 2) < 0) abort(); } // PART: read
}

__attribute__((noinline)) static void sort(int rounds)
{
    for (int i = 0; i < rounds; i++) { qsort(numbers, sizeof numbers / sizeof *numbers, sizeof *numbers, above); __asm__ volatile(""); } // PART: sort
}

int main(int count, char **words)
{
    double seconds = count > 1 ? atof(words[1]) : 1, begin = cpu(), now = begin;
    zero = open("/dev/zero", O_RDONLY);
    static void (*const work[PARTS])(int) = {copy, heap, read_zero, sort};
    static const int rounds[PARTS] = {4000, 400000, 4000, 8};
    while (now - begin < seconds) {
        for (int part = 0; part < PARTS; part++) {
            work[part](rounds[part]);
            double then = now;
            now = cpu();
            spent[part] += now - then;
        }
        progress();
    }
    for (int part = 0; part < PARTS; part++) printf("%s %.0f\n", names[part], spent[part] * 1e9);
    return 0;
}
