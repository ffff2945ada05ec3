// refuses HOW: a process that is not to be entered, until its input ends.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

// As in linux/filter.h, which not every libc finds.
struct sock_filter { unsigned short code; unsigned char jt, jf; unsigned k; };
struct sock_fprog { unsigned short len; struct sock_filter *filter; };

// What becomes of a call of clock_nanosleep by this thread.
static void filter(unsigned action) {
    struct sock_filter steps[] = {
        {.code = 0x20}, {.code = 0x15, .jf = 1, .k = SYS_clock_nanosleep}, {.code = 6, .k = action}, {.code = 6, .k = 0x7fff0000},
    };
    struct sock_fprog program = {.len = sizeof steps / sizeof *steps, .filter = steps};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &program)) _exit(2);
}

static volatile int ready;

static void *apart(void *unused) {
    filter(0x80000000);
    ready = 1;
    pause();
    return unused;
}

static void nothing(int signal_number) { (void)signal_number; }

int main(int argc, char **argv) {
    (void)argc;
    if (!strcmp(argv[1], "apart")) {
        // Two threads with one filter each, of which one does not let the other's thread sleep.
        pthread_t thread;
        if (pthread_create(&thread, NULL, apart, NULL)) return 2;
        filter(0x7fff0000);
        while (!ready) usleep(1000);
    } else if (!strcmp(argv[1], "strict")) {
        prctl(PR_SET_SECCOMP, 1);
        syscall(SYS_write, 1, "begun\n", 6);
        char byte;
        while (syscall(SYS_read, 0, &byte, 1) == 1) continue;
        syscall(SYS_write, 1, "ended\n", 6);
        syscall(SYS_exit, 0);
    } else if (!strcmp(argv[1], "handler")) {
        signal(62, nothing);
    } else if (!strcmp(argv[1], "everything")) {
        for (int s = 1; s < 65; s++) signal(s, nothing);
    } else if (!strcmp(argv[1], "descriptors")) {
        struct rlimit few = {.rlim_cur = 10, .rlim_max = 10};
        setrlimit(RLIMIT_NOFILE, &few);
    } else if (!strcmp(argv[1], "memory")) {
        struct rlimit little = {.rlim_cur = 6 << 20, .rlim_max = 6 << 20};
        setrlimit(RLIMIT_AS, &little);
    }
    puts("begun");
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) == 1) continue;
    puts("ended");
    return 0;
}
