// refuses HOW: a process that is not to be entered, until its input ends.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

// As in linux/filter.h, which not every libc finds.
struct sock_filter { unsigned short code; unsigned char jt, jf; unsigned k; };
struct sock_fprog { unsigned short len; struct sock_filter *filter; };

static void nothing(int signal_number) { (void)signal_number; }

int main(int argc, char **argv) {
    (void)argc;
    if (!strcmp(argv[1], "seccomp")) {
        struct sock_filter allow = {.code = 6, .k = 0x7fff0000};
        struct sock_fprog filter = {.len = 1, .filter = &allow};
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &filter))
            return 2;
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
