/* loader SECONDS LIBRARY...: loads each library in turn, works in it for so long, unloads it. Prints where its function was. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

volatile unsigned long sink;

__attribute__((noinline)) void progress(void) { __asm__ volatile("" ::: "memory"); }

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 1;
    for (int i = 2; i < argc; i++) {
        void *library = dlopen(argv[i], RTLD_NOW);
        unsigned long (*work)(unsigned long) = library ? (unsigned long (*)(unsigned long))dlsym(library, "work") : 0;
        if (!work) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        printf("%p\n", (void *)work);
        for (double end = now() + seconds; now() < end;) {
            sink = work(200000);
            progress();
        }
        dlclose(library);
    }
    return 0;
}
