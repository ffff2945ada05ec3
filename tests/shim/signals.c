// signals SIGNAL [ask]: uses that very signal for itself, in all the ways there are, and prints what it sees.
// With `ask`, payments are asked for in between: they must change nothing.
#include "subject.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>

static int number, asking;
static volatile sig_atomic_t caught, code, value, usr, blocked_inside;

static void maybe_ask(void) {
    if (asking) ask(number);
}

static void handler(int s, siginfo_t *info, void *context) {
    (void)context;
    caught += s == number;
    code = info->si_code;
    value = info->si_value.sival_int;
}

static void plain(int s) { caught += 100 * (s == number); }
static void on_usr(int s) { usr += s == SIGUSR1; maybe_ask(); }

static void show_mask(const char *where) {
    sigset_t a, b;
    maybe_ask();
    sigprocmask(SIG_BLOCK, NULL, &a);
    pthread_sigmask(SIG_SETMASK, NULL, &b);
    printf("%s:", where);
    for (int s = 1; s < 65; s++)
        if (sigismember(&a, s) == 1) printf(" %d%s", s, sigismember(&b, s) == 1 ? "" : "?");
    printf("\n");
}

static void show_action(const char *where, int s) {
    struct sigaction a;
    maybe_ask();
    sigaction(s, NULL, &a);
    printf("%s: %s flags %x mask", where,
           a.sa_handler == SIG_DFL ? "default" : a.sa_handler == SIG_IGN ? "ignore" :
           a.sa_sigaction == handler ? "handler" : a.sa_handler == plain ? "plain" :
           a.sa_handler == on_usr ? "usr" : "other", a.sa_flags);
    uint64_t mask;
    memcpy(&mask, &a.sa_mask, 8);
    printf(" %llx restorer %d\n", (unsigned long long)mask, a.sa_restorer != NULL);
}

static void show(const char *where) {
    printf("%s: caught %d code %d value %d\n", where, (int)caught, (int)code, (int)value);
}

static void *in_thread(void *unused) {
    show_mask("thread");
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, number);
    raise(number);
    show("thread, blocked");
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    show("thread, open");
    show_mask("thread");
    return unused;
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    number = atoi(argv[1]);
    asking = argc > 2;
    sigset_t one, all, before, pending;
    sigemptyset(&one);
    sigaddset(&one, number);
    sigfillset(&all);

    show_mask("start");
    show_action("start", number);
    struct sigaction a = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigfillset(&a.sa_mask);
    printf("%d\n", sigaction(number, &a, NULL));
    show_action("set", number);
    raise(number);
    show("raised");
    union sigval v = {.sival_int = 77};
    sigqueue(getpid(), number, v);
    show("queued");

    struct sigaction u = {.sa_handler = on_usr, .sa_flags = SA_RESTART};
    sigfillset(&u.sa_mask);
    sigaction(SIGUSR1, &u, NULL);
    show_action("usr", SIGUSR1);
    sigdelset(&u.sa_mask, number);
    sigaction(SIGUSR1, &u, NULL);
    show_action("usr without", SIGUSR1);
    raise(SIGUSR1);
    printf("usr %d\n", usr);

    sigprocmask(SIG_BLOCK, &one, &before);
    show_mask("blocked");
    raise(number);
    kill(getpid(), number);
    show("while blocked");
    sigpending(&pending);
    printf("pending %d\n", sigismember(&pending, number));
    maybe_ask();
    struct timespec short_time = {.tv_nsec = 20000000};
    siginfo_t info;
    printf("timed %d\n", sigtimedwait(&one, &info, &short_time) == number);
    int got = 0;
    int result = sigwait(&one, &got);
    printf("wait %d %d\n", result, got == number);
    maybe_ask();
    errno = 0;
    result = sigtimedwait(&one, &info, &short_time);
    printf("nothing %d %d\n", result, errno == EAGAIN);
    raise(number);
    sigprocmask(SIG_SETMASK, &before, NULL);
    show("unblocked");
    show_mask("unblocked");
    sigpending(&pending);
    printf("pending %d\n", sigismember(&pending, number));

    sigprocmask(SIG_SETMASK, &all, NULL);
    show_mask("all");
    raise(number);
    int fd = signalfd(-1, &one, SFD_CLOEXEC);
    struct signalfd_siginfo s;
    result = read(fd, &s, sizeof s);
    printf("signalfd %d %d\n", result == sizeof s, (int)s.ssi_signo == number);
    close(fd);
    raise(number);
    sigset_t none;
    sigemptyset(&none);
    errno = 0;
    result = sigsuspend(&none);
    printf("suspend %d %d\n", result, errno == EINTR);
    show("suspended");
    raise(number);
    struct timespec second = {.tv_sec = 1};
    result = ppoll(NULL, 0, &second, &none);
    printf("ppoll %d %d\n", result, errno == EINTR);
    show("polled");
    int ep = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event;
    raise(number);
    result = epoll_pwait(ep, &event, 1, 1000, &none);
    printf("epoll_pwait %d %d\n", result, errno == EINTR);
    close(ep);
    show("polled");

    pthread_t t;
    pthread_create(&t, NULL, in_thread, NULL);
    pthread_join(t, NULL);
    fflush(stdout);
    if (fork() == 0) {
        show_mask("child");
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    show_mask("none");

    printf("signal %d\n", signal(number, plain) == (void *)handler);
    show_action("signal", number);
    raise(number);
    show("signal");
    siginterrupt(number, 1);
    show_action("siginterrupt", number);
    printf("sigset %d\n", sigset(number, SIG_HOLD) == plain);
    show_mask("held");
    printf("sigset %d\n", sigset(number, SIG_IGN) == SIG_HOLD);
    show_mask("not held");
    show_action("sigset", number);
    raise(number);
    show("ignored");
    sighold(number);
    show_mask("sighold");
    sigrelse(number);
    show_mask("sigrelse");
    a.sa_flags = SA_SIGINFO | SA_RESETHAND | SA_NODEFER;
    sigaction(number, &a, NULL);
    raise(number);
    show("once");
    show_action("once", number);
    errno = 0;
    result = sigprocmask(1234, &one, NULL);
    printf("bad %d %d", result, errno);
    errno = 0;
    result = sigaction(1234, NULL, &a);
    printf(" %d %d\n", result, errno);
    // Back at the default, which is to die.
    maybe_ask();
    raise(number);
    printf("not reached\n");
    return 0;
}
