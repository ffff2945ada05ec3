// exec HOW PROGRAM: executes PROGRAM with one argument, `done`.
#include "subject.h"

int main(int argc, char **argv) {
    (void)argc;
    const char *how = argv[1];
    char *program = argv[2];
    char *args[] = {program, "done", NULL};
    char *one[] = {"ONLY=one", "LD_LIBRARY_PATH=/nowhere", NULL};
    pid_t pid = 0;
    if (strchr(how, '!')) {
        // With our favourite signal blocked and ignored, which both survive an exec.
        int number = atoi(strchr(how, '!') + 1);
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, number);
        sigprocmask(SIG_BLOCK, &set, NULL);
        signal(number, SIG_IGN);
    }
#define IS(name) (!strncmp(how, name "!", sizeof name) || !strcmp(how, name))
    if (IS("execve")) execve(program, args, one);
    if (IS("execv")) execv(program, args);
    if (IS("execvp")) execvp(strrchr(program, '/') + 1, args);
    if (IS("execvpe")) execvpe(program, args, one);
    if (IS("execl")) execl(program, program, "1", "2", "3", "4", "5", "6", "7", "done", NULL);
    if (IS("execlp")) execlp(strrchr(program, '/') + 1, program, "done", NULL);
    if (IS("execle")) execle(program, program, "1", "2", "3", "4", "5", "done", NULL, one);
    if (IS("fexecve")) {
        FILE *f = fopen(program, "re");
        fexecve(fileno(f), args, one);
    }
    if (IS("missing")) {
        int result = execv("/nonexistent", args);
        printf("%d %d\n", result, errno);
        result = execl("/nonexistent", "a", "b", "c", "d", "e", "f", "g", NULL);
        printf("%d %d\n", result, errno);
        printf("%d\n", posix_spawn(&pid, "/nonexistent", NULL, NULL, args, one));
        for (int fd = 3; fd < 1024; fd++)
            if (close(fd) == 0) printf("open %d\n", fd);
        return 0;
    }
    if (IS("vfork")) {
        if ((pid = vfork()) == 0) {
            execv(program, args);
            _exit(1);
        }
    }
    if (IS("posix_spawn")) posix_spawn(&pid, program, NULL, NULL, args, one);
    if (IS("posix_spawnp")) posix_spawnp(&pid, strrchr(program, '/') + 1, NULL, NULL, args, environ);
    if (IS("closefrom")) {
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addclosefrom_np(&actions, 3);
        posix_spawn(&pid, program, &actions, NULL, args, environ);
    }
    if (!pid) return 1;
    int status;
    waitpid(pid, &status, 0);
    for (int fd = 3; fd < 1024; fd++)
        if (close(fd) == 0) printf("open %d\n", fd);
    return WEXITSTATUS(status);
}
