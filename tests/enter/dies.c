// For LD_PRELOAD: kills its process at the DIES_AT-th of its calls of ptrace and pwrite: at an even number before the call with half that number, at
// an odd one after it. When nobody is to die, the number of calls is written to the file that DIES_COUNT names.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

static long calls;

static void die_at(long moment) {
    const char *wanted = getenv("DIES_AT");
    if (wanted && atol(wanted) == moment) kill(getpid(), SIGKILL);
}

#define AROUND(type, real_call)                 \
    long number = __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED); \
    die_at(2 * number);                         \
    type result = real_call;                    \
    die_at(2 * number + 1);                     \
    return result

long ptrace(int request, ...) {
    static long (*real)(long, long, void *, void *);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "ptrace");
    va_list list;
    va_start(list, request);
    long tid = va_arg(list, int);
    void *address = va_arg(list, void *), *data = va_arg(list, void *);
    va_end(list);
    AROUND(long, real(request, tid, address, data));
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t at) {
    static ssize_t (*real)(int, const void *, size_t, off64_t);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "pwrite64");
    AROUND(ssize_t, real(fd, bytes, length, at));
}

__attribute__((destructor)) static void count(void) {
    const char *name = getenv("DIES_COUNT");
    FILE *file = name ? fopen(name, "w") : NULL;
    if (file) fprintf(file, "%ld\n", calls), fclose(file);
}
