// behind FILTER PROGRAM ARGUMENTS...: executes a program whose system calls are filtered (seccomp) by what the file holds.
#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

// As in linux/filter.h, which not every libc finds.
struct sock_filter { unsigned short code; unsigned char jt, jf; unsigned k; };
struct sock_fprog { unsigned short len; struct sock_filter *filter; };

int main(int argc, char **argv) {
    static struct sock_filter filter[4096];
    (void)argc;
    int file = open(argv[1], O_RDONLY | O_CLOEXEC);
    struct sock_fprog program = {.len = read(file, filter, sizeof filter) / sizeof *filter, .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &program)) {
        perror("behind");
        return 2;
    }
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 127;
}
