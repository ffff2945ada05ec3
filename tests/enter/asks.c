// asks SIGNAL THREADS [block]: at each byte of input every thread asks itself for a payment, as the kernel would, and prints
// its id, the milliseconds that it took, and what was left of errno.
#include "../shim/subject.h"

static int signal_number, threads;
static pthread_barrier_t barrier;

static void once(void) {
    errno = 1234;
    double begin = milliseconds();
    ask(signal_number);
    double spent = milliseconds() - begin;
    int left = errno;
    printf("%d %.3f %d\n", (int)syscall(SYS_gettid), spent, left);
    fflush(stdout);
}

static void *follow(void *unused) {
    pthread_barrier_wait(&barrier);
    for (;;) {
        pthread_barrier_wait(&barrier);
        once();
        pthread_barrier_wait(&barrier);
    }
    return unused;
}

int main(int argc, char **argv) {
    (void)argc;
    signal_number = atoi(argv[1]);
    threads = atoi(argv[2]);
    pthread_barrier_init(&barrier, NULL, threads);
    for (int i = 1; i < threads; i++) {
        pthread_t t;
        if (pthread_create(&t, NULL, follow, NULL)) return 2;
    }
    // Threads block every signal while they begin.
    pthread_barrier_wait(&barrier);
    puts("begun");
    fflush(stdout);
    for (int byte; (byte = getchar()) != EOF;) {
        if (byte == 'f') {
            // A forked child pays too, and is waited for.
            pid_t child = fork();
            if (child == 0) {
                getppid();
                printf("child %d\n", getpid());
                fflush(stdout);
                byte = getchar();
                once();
                _exit(0);
            }
            waitpid(child, NULL, 0);
            continue;
        }
        pthread_barrier_wait(&barrier);
        once();
        pthread_barrier_wait(&barrier);
        puts("done");
        fflush(stdout);
    }
    return 0;
}
