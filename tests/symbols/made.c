/* made SECONDS: makes two functions while it runs, the second one a while after the first, and tells in a perf map. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

__attribute__((noinline)) void progress(void) { __asm__ volatile("" ::: "memory"); }

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* push rbp; mov rbp, rsp; again: dec rdi; jnz again; pop rbp; ret */
static const unsigned char CODE[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0xff, 0xcf, 0x75, 0xfb, 0x5d, 0xc3};

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 1;
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(path, "w");
    unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!map || code == MAP_FAILED)
        return 1;
    printf("%s\n", path);
    fflush(stdout);
    for (int i = 0; i < 2; i++) {
        unsigned char *place = code + i * 64;
        memcpy(place, CODE, sizeof CODE);
        fprintf(map, "%lx %zx made_%s\n", (unsigned long)place, sizeof CODE, i ? "later" : "first");
        fflush(map);
        void (*run)(unsigned long) = (void (*)(unsigned long))place;
        for (double end = now() + seconds; now() < end;) {
            run(300000);
            progress();
        }
    }
    return 0;
}
