// crowd KIND THREADS MILLISECONDS: threads that wait in one way (or, "all", in every way) again and again, and count how often
// they were told that they were interrupted, and how often they computed nonsense. One thread: the first one itself.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { FUTEX_WAIT_PRIVATE = 128 };

static atomic_long interrupted, wrong, rounds;
static double end;

static double milliseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static long check(long result) {
    if (result == -1 && errno == EINTR) interrupted++;
    return result;
}

static const struct timespec LIMIT = {.tv_nsec = 10000000};
static int pair[2];

static void in_futex(void) {
    static int word;
    check(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &LIMIT));
}
static void in_nanosleep(void) { check(nanosleep(&LIMIT, NULL)); }
static void in_poll(void) { check(poll(NULL, 0, 10)); }
static void in_select(void) {
    struct timeval limit = {.tv_usec = 10000};
    check(select(0, NULL, NULL, NULL, &limit));
}
static void in_epoll(void) {
    static _Thread_local int epoll = -1;
    if (epoll < 0) epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event;
    check(epoll_wait(epoll, &event, 1, 10));
}
static void in_read(void) {
    static _Thread_local int timer = -1;
    if (timer < 0) {
        timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
        struct itimerspec every = {.it_interval = LIMIT, .it_value = LIMIT};
        timerfd_settime(timer, 0, &every, NULL);
    }
    uint64_t ticks;
    check(read(timer, &ticks, sizeof ticks));
}
static void in_recv(void) {
    char byte;
    check(recv(pair[0], &byte, 1, 0));
}
static void in_sigtimedwait(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    check(sigtimedwait(&set, NULL, &LIMIT));
}
static void in_condition(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 10000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_mutex_lock(&mutex);
    if (pthread_cond_timedwait(&condition, &mutex, &until) == EINTR) interrupted++;
    pthread_mutex_unlock(&mutex);
}
// Integers and floating point: whatever a stop may spoil.
static void computes(void) {
    uint64_t x = 1;
    double y = 1;
    for (int i = 0; i < 200000; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        y = y * 0.999 + (double)(x >> 60);
    }
    static _Atomic uint64_t first;
    uint64_t bits, none = 0;
    memcpy(&bits, &y, 8);
    bits ^= x;
    if (!atomic_compare_exchange_strong(&first, &none, bits) && none != bits) wrong++;
}

static const struct {
    const char *name;
    void (*once)(void);
} KINDS[] = {
    {"futex", in_futex}, {"nanosleep", in_nanosleep}, {"poll", in_poll},
    {"select", in_select}, {"epoll", in_epoll}, {"read", in_read},
    {"recv", in_recv}, {"sigtimedwait", in_sigtimedwait}, {"condition", in_condition},
    {"computes", computes},
};
enum { MANY = sizeof KINDS / sizeof *KINDS };

static void *live(void *once) {
    while (milliseconds() < end) {
        ((void (*)(void))once)();
        rounds++;
    }
    return NULL;
}

int main(int argc, char **argv) {
    (void)argc;
    int kind = 0, threads = atoi(argv[2]);
    while (kind < MANY && strcmp(KINDS[kind].name, argv[1])) kind++;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    struct timeval limit = {.tv_usec = 10000};
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    end = milliseconds() + atof(argv[3]);
    puts("begun");
    fflush(stdout);
    if (threads == 1) {
        live((void *)KINDS[kind].once);
    } else {
        pthread_t *t = calloc(threads, sizeof *t);
        for (int i = 0; i < threads; i++) {
            // Two of many compute: more would leave no CPU to the others.
            int what = kind < MANY ? kind : i < 2 ? MANY - 1 : i % (MANY - 1);
            if (pthread_create(&t[i], NULL, live, (void *)KINDS[what].once)) return 2;
        }
        for (int i = 0; i < threads; i++) pthread_join(t[i], NULL);
    }
    printf("interrupted %ld wrong %ld alive %d\n", interrupted, wrong, rounds > 0);
    return 0;
}
