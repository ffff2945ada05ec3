// Prints what a program can see of how it was started: environment, auxiliary vector, descriptors.
#include "subject.h"

int main(int argc, char **argv, char **envp) {
    (void)argc;
    printf("argument %s\n", argv[argc - 1]);
    char **end = envp;
    for (; *end; end++) printf("envp %s\n", *end);
    for (char **e = environ; *e; e++) printf("environ %s\n", *e);
    const char *names[] = {"LD_PRELOAD", "COZ_BPF_SOCKET", "COZ_BPF_PADDING"};
    for (int i = 0; i < 3; i++) printf("%s=%s\n", names[i], getenv(names[i]) ? getenv(names[i]) : "(none)");

    // As Go's runtime finds it.
    uint64_t *auxv = (uint64_t *)(end + 1);
    for (; auxv[0]; auxv += 2)
        if (auxv[0] == AT_PAGESZ || auxv[0] == AT_CLKTCK) printf("auxv %d %d\n", (int)auxv[0], (int)auxv[1]);
    printf("getauxval %d\n", (int)getauxval(AT_PAGESZ));

    static char all[1 << 20];
    FILE *f = fopen("/proc/self/environ", "r");
    size_t length = fread(all, 1, sizeof all, f);
    fclose(f);
    for (size_t i = 0; i < length; i += strlen(all + i) + 1)
        if (all[i]) printf("/proc/self/environ %s\n", all + i);

    DIR *dir = opendir("/proc/self/fd");
    for (struct dirent *e; (e = readdir(dir));)
        if (e->d_name[0] != '.' && atoi(e->d_name) != dirfd(dir)) printf("descriptor %s\n", e->d_name);
    closedir(dir);

    sigset_t set;
    sigprocmask(SIG_BLOCK, NULL, &set);
    for (int s = 1; s < 65; s++) {
        struct sigaction a;
        int known = sigaction(s, NULL, &a) == 0;
        if (sigismember(&set, s) == 1) printf("blocked %d\n", s);
        if (known && a.sa_handler != SIG_DFL) printf("disposition %d %d\n", s, a.sa_handler == SIG_IGN);
    }
    return 0;
}
