/* A server that begins with all rights and has a child of its own that does not keep them: `drops UID WHAT --seconds N`. The first process works as
 * `background` does: main must pay for what the other thread does, and nobody waits for that one. On SIGUSR2, or after a second where WHAT ends in
 * "-soon", it forks; the child becomes user UID and works like that too ("works"), or writes all that it can of the profiler's ("writes"). */
#define main background
#include "../programs/background.c"
#undef main
#define main hostile
#include "../programs/hostile.c"
#undef main
#include <sys/prctl.h>
#include <sys/wait.h>

static char **arguments;

static void nap(double seconds) {
    const struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

static void child(uid_t user, int writes) {
    prctl(PR_SET_NAME, "dropped");
    if (setresgid(user, user, user) || setresuid(user, user, user)) _exit(3);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* It ends with the thread that has made it. */
    /* Honest for a while. */
    const uint64_t start = now_ns();
    while (now_ns() - start < 50000000) {
    }
    nap(1.5);
    char *like[] = {arguments[0], "--seconds", "60", NULL};
    _exit(writes ? hostile(3, like) : background(3, like));
}

static void *forks(void *unused) {
    sigset_t told;
    int signal;
    sigemptyset(&told);
    sigaddset(&told, SIGUSR2);
    if (strstr(arguments[2], "-soon")) nap(1);
    else sigwait(&told, &signal);
    const pid_t pid = fork();
    if (!pid) child((uid_t)atoi(arguments[1]), !strncmp(arguments[2], "writes", 6));
    printf("child %d\n", pid);
    fflush(stdout);
    waitpid(pid, NULL, 0);
    return unused;
}

int main(int argc, char **argv) {
    sigset_t told;
    pthread_t thread;
    arguments = argv;
    sigemptyset(&told);
    sigaddset(&told, SIGUSR2);
    sigprocmask(SIG_BLOCK, &told, NULL);
    if (argc != 5 || pthread_create(&thread, NULL, forks, NULL)) return 2;
    char *rest[] = {argv[0], argv[3], argv[4], NULL};
    return background(3, rest);
}
