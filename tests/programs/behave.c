/* A program that does one thing, so that tests can see whether it does the same under the profiler. */
#define _GNU_SOURCE
#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

extern char **environ;

/* Echoes standard input, byte for byte. */
static int cat(void) {
    char buffer[4096];
    for (ssize_t n; (n = read(0, buffer, sizeof buffer)) > 0;)
        if (write(1, buffer, (size_t)n) != n) return 1;
    return 0;
}

/* A megabyte of every byte there is, on both outputs. */
static int bytes(void) {
    uint32_t state = 1;
    for (int i = 0; i < 1 << 20; i++) {
        state = state * 1664525u + 1013904223u;
        putc((int)(state >> 24), i % 5 ? stdout : stderr);
    }
    return 0;
}

static int environment(void) {
    for (char **variable = environ; *variable; variable++) puts(*variable);
    return 0;
}

/* Open descriptors, that of the listing itself left out. */
static int descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char path[300], link[300] = "";
        if (entry->d_name[0] == '.' || atoi(entry->d_name) == dirfd(folder)) continue;
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        if (readlink(path, link, sizeof link - 1) < 0) return 1;
        puts(entry->d_name);
    }
    return !folder;
}

/* What it inherits: signals, limits, identity, folder. */
static int inherited(void) {
    char line[256], folder[4096];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, "SigBlk", 6) || !strncmp(line, "SigIgn", 6) || !strncmp(line, "NoNewPrivs", 10)) fputs(line, stdout);
    for (int limit = 0; limit < RLIM_NLIMITS; limit++) {
        struct rlimit value;
        if (getrlimit((__rlimit_resource_t)limit, &value)) return 1;
        printf("limit %d %llu %llu\n", limit, (unsigned long long)value.rlim_cur, (unsigned long long)value.rlim_max);
    }
    printf("uid %d %d gid %d %d\n", getuid(), geteuid(), getgid(), getegid());
    printf("nice %d folder %s\n", getpriority(PRIO_PROCESS, 0), getcwd(folder, sizeof folder));
    return 0;
}

/* The parent leaves at once, with 5; the child speaks later. */
static int forks(void) {
    const pid_t child = fork();
    if (child < 0) return 1;
    if (child > 0) return 5;
    usleep(500000);
    puts("the child speaks");
    return 0;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "exit")) return argc > 2 ? atoi(argv[2]) : 0;
    if (!strcmp(what, "signal") && argc > 2) return raise(atoi(argv[2]));
    if (!strcmp(what, "cat")) return cat();
    if (!strcmp(what, "bytes")) return bytes();
    if (!strcmp(what, "environment")) return environment();
    if (!strcmp(what, "descriptors")) return descriptors();
    if (!strcmp(what, "inherited")) return inherited();
    if (!strcmp(what, "fork")) return forks();
    if (!strcmp(what, "exec") && argc > 2) return execv(argv[2], argv + 2);
    fprintf(stderr, "usage: %s exit N | signal N | cat | bytes | environment | descriptors | inherited | fork | exec PROGRAM\n", argv[0]);
    return 2;
}
