/* Writes to whatever of the profiler's memory it can get hold of, all the time: claims payments for every thread there is, mostly
 * credible ones. It looks for mappings, tries to make those writable that are not, and catches the descriptors while they are
 * handed over. Says what it could write, and what not; sleeps in between. Works a little, so as to be sampled. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <linux/bpf.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 16384, SLOT_WORDS = 8, CAUGHT = 16 };

static volatile int caught[CAUGHT], count, over;
static __thread sigjmp_buf gone;

static void on_fault(int signal) {
    (void)signal;
    siglongjmp(gone, 1);
}

static int is_ours(int fd) {
    char link[64], target[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, target, sizeof target - 1);
    if (length < 0) return 0;
    target[length] = 0;
    return strstr(target, "bpf") != NULL;
}

/* Descriptors are open in this process for less than a millisecond. */
static void *hunt(void *unused) {
    while (!over && count < CAUGHT) {
        for (int fd = 3; fd < 24 && count < CAUGHT; fd++) {
            if (fcntl(fd, F_GETFD) < 0 || !is_ours(fd)) continue;
            const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 100);
            if (copy >= 0) caught[count++] = copy;
        }
    }
    return unused;
}

/* A pass over a table as long as that of payments. */
static void claim(volatile uint64_t *words, size_t length, unsigned pass) {
    for (size_t i = 0; i + SLOT_WORDS <= length / 8; i += SLOT_WORDS) words[i] += 400000;
    if (pass % 64 != 63) return;
    for (size_t i = 0; i < length / 8; i++) words[i] = (uint64_t)random() << 33 ^ (uint64_t)random();
}

static void scribble(void *at, size_t length, unsigned pass) {
    if (sigsetjmp(gone, 1)) return;
    claim(at, length, pass);
}

static int say_once(const char *what, size_t length) {
    static char said[32][64];
    char line[64];
    snprintf(line, sizeof line, "%s %zu\n", what, length);
    for (int i = 0; i < 32; i++) {
        if (!strcmp(said[i], line)) return 0;
        if (*said[i]) continue;
        strcpy(said[i], line);
        return (int)write(1, line, strlen(line));
    }
    return 0;
}

static int look_at_mappings(unsigned pass) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    int written = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        char access[8];
        /* The shim's own code and data are in here for this process alone. */
        if (!strstr(line, "bpf") || strstr(line, "memfd:coz-bpf (") || sscanf(line, "%lx-%lx %7s", &from, &to, access) != 3) continue;
        if (access[1] != 'w' && mprotect((void *)from, to - from, PROT_READ | PROT_WRITE)) {
            say_once("cannot write", to - from);
            continue;
        }
        say_once(access[1] == 'w' ? "writes" : "MADE WRITABLE", to - from);
        scribble((void *)from, to - from, pass);
        written = 1;
    }
    if (maps) fclose(maps);
    return written;
}

static void use_descriptors(unsigned pass) {
    static void *mapped[CAUGHT];
    static size_t lengths[CAUGHT];
    const size_t sizes[] = {SLOTS * 256, SLOTS * 64, 256 * 128, 4096};
    for (int i = 0; i < count; i++) {
        if (!mapped[i]) {
            mapped[i] = MAP_FAILED;
            for (int s = 0; s < 4 && mapped[i] == MAP_FAILED; s++) {
                lengths[i] = sizes[s];
                mapped[i] = mmap(NULL, sizes[s], PROT_READ | PROT_WRITE, MAP_SHARED, caught[i], 0);
            }
            say_once(mapped[i] == MAP_FAILED ? "caught in vain" : "caught", mapped[i] == MAP_FAILED ? 0 : lengths[i]);
            /* An update by system call, of whatever it is. */
            static char value[4096];
            uint32_t key = 0;
            union bpf_attr attr = {.map_fd = (uint32_t)caught[i], .key = (uintptr_t)&key, .value = (uintptr_t)value};
            if (mapped[i] == MAP_FAILED && !syscall(SYS_bpf, BPF_MAP_UPDATE_ELEM, &attr, sizeof attr))
                say_once("UPDATED", 0);
        }
        if (mapped[i] != MAP_FAILED) scribble(mapped[i], lengths[i], pass);
    }
}

int main(int argc, char **argv) {
    const double seconds = argc > 2 ? atof(argv[2]) : 30;
    const time_t end = time(NULL) + (time_t)seconds;
    signal(SIGSEGV, on_fault);
    signal(SIGBUS, on_fault);
    pthread_t hunter;
    pthread_create(&hunter, NULL, hunt, NULL);
    unsigned found = 0;
    for (unsigned pass = 0; time(NULL) < end; pass++) {
        found += (unsigned)look_at_mappings(pass);
        use_descriptors(pass);
        /* What has not been caught by now will not be. */
        if (found > 100) over = 1;
        const struct timespec wait = {0, 1000000};
        nanosleep(&wait, NULL);
    }
    over = 1;
    pthread_join(hunter, NULL);
    return 0;
}
