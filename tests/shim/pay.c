// pay SIGNAL HOW: asks itself for one payment and prints how long it took and what was left of errno.
#include "subject.h"

static int signal_number;

static void once(void) {
    errno = 1234;
    double begin = milliseconds();
    ask(signal_number);
    double spent = milliseconds() - begin;
    printf("%d %.3f %d\n", (int)syscall(SYS_gettid), spent, errno);
    fflush(stdout);
}

static void *thread(void *unused) {
    once();
    return unused;
}

static void *exiting(void *unused) {
    once();
    pthread_exit(unused);
}

extern void _coz_add_delays(void) __attribute__((weak));

int main(int argc, char **argv) {
    (void)argc;
    signal_number = atoi(argv[1]);
    const char *how = argv[2];
    if (!strcmp(how, "plain")) {
        once();
    } else if (!strcmp(how, "blocked")) {
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, NULL);
        once();
        pthread_sigmask(SIG_BLOCK, &all, NULL);
        once();
    } else if (!strcmp(how, "replaced")) {
        for (int s = 1; s < 65; s++) signal(s, SIG_IGN);
        once();
        struct sigaction a = {.sa_handler = SIG_DFL};
        for (int s = 1; s < 65; s++) sigaction(s, &a, NULL);
        once();
    } else if (!strcmp(how, "thread")) {
        pthread_t t;
        pthread_create(&t, NULL, thread, NULL);
        pthread_join(t, NULL);
        pthread_create(&t, NULL, exiting, NULL);
        pthread_join(t, NULL);
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, NULL);
        pthread_create(&t, NULL, exiting, NULL);
        pthread_join(t, NULL);
    } else if (!strcmp(how, "fork")) {
        if (fork() == 0) {
            once();
            _exit(0);
        }
        wait(NULL);
        if (vfork() == 0) {
            ask(signal_number);
            _exit(0);
        }
        wait(NULL);
        once();
    } else if (!strcmp(how, "closed")) {
        for (int fd = 3; fd < 1024; fd++) close(fd);
        once();
    } else if (!strcmp(how, "altstack")) {
        stack_t big = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
        sigaltstack(&big, NULL);
        once();
        static char tiny[2048] __attribute__((aligned(16)));
        stack_t s = {.ss_sp = tiny, .ss_size = sizeof tiny};
        sigaltstack(&s, NULL);
        // Not delivered: it would not fit. Once there is room again it is.
        once();
        sigset_t now;
        sigprocmask(SIG_BLOCK, NULL, &now);
        if (sigismember(&now, signal_number)) return 1;
        sigprocmask(SIG_SETMASK, &now, NULL);
        s.ss_flags = SS_DISABLE;
        double begin = milliseconds();
        sigaltstack(&s, NULL);
        printf("%d %.3f 1234\n", getpid(), milliseconds() - begin);
    } else if (!strcmp(how, "volunteer")) {
        errno = 1234;
        double begin = milliseconds();
        _coz_add_delays();
        printf("%d %.3f %d\n", getpid(), milliseconds() - begin, errno);
    }
    return 0;
}
