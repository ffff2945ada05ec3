/* trees HOW SECONDS: two at a time, until the time is over, processes do rounds of work, each for a quarter of a second. How they come to be:
 * prefork  children, which are replaced when they have ended
 * vfork    children by vfork, which execute this program anew
 * spawn    the same by posix_spawn
 * daemon   one process forks twice, leads a session of its own, and is the parent of forked ones; the first one has ended by then
 * It begins when there is input, or none will come; in the end the rounds of all are written to standard output. */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* Inherited under this number, across exec. */
enum { SHARED = 9 };
static volatile long *rounds;
static volatile unsigned sink;

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

__attribute__((noinline)) void progress(void) { __atomic_fetch_add(rounds, 1, __ATOMIC_RELAXED); }

static int work(void) {
    for (double end = seconds() + 0.25; seconds() < end; progress())
        for (unsigned i = 0; i < 300000; i++) sink += i * i;
    return 0;
}

static pid_t start(const char *how) {
    char *arguments[] = {"trees", "work", NULL};
    pid_t child = -1;
    if (!strcmp(how, "spawn")) {
        if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ)) return -1;
    } else if (!strcmp(how, "vfork")) {
        child = vfork();
        if (child == 0) {
            execv("/proc/self/exe", arguments);
            _exit(127);
        }
    } else {
        child = fork();
        if (child == 0) _exit(work());
    }
    return child;
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "work")) {
        rounds = mmap(NULL, sizeof *rounds, PROT_READ | PROT_WRITE, MAP_SHARED, SHARED, 0);
        return work();
    }
    const char *how = argv[1];
    const int file = memfd_create("rounds", 0);
    if (ftruncate(file, sizeof *rounds) || dup2(file, SHARED) != SHARED) return 2;
    rounds = mmap(NULL, sizeof *rounds, PROT_READ | PROT_WRITE, MAP_SHARED, SHARED, 0);
    puts("begun");
    fflush(stdout);
    getchar();
    if (!strcmp(how, "daemon")) {
        if (fork()) _exit(0);
        setsid();
        if (fork()) _exit(0);
    }
    const double end = seconds() + atof(argv[2]);
    int children = 0, status = 0;
    while (seconds() < end || children > 0) {
        for (; children < 2 && seconds() < end; children++)
            if (start(how) < 0) return 2;
        if (wait(&status) < 0 || status != 0) return 3;
        children--;
    }
    printf("rounds %ld\n", *rounds);
    return 0;
}
