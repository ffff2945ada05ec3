// storm|calm: works in threads that come and go, allocate, lock, jump, fork and change masks, while another
// thread has the kernel ask all of them to pay as fast as it can. Prints a checksum that does not depend on it.
//
// The profiler's signal is SIGIO here: the one that a program can have the kernel send to any of its threads.
#include "subject.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 300 };
static int pipes[THREADS][2], storming;
static atomic_int done, asked;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t sum;

static void *storm(void *unused) {
    while (!done)
        for (int i = 0; i < THREADS; i++) {
            struct timespec pause = {.tv_nsec = 50000};
            nanosleep(&pause, NULL);
            asked += write(pipes[i][1], "x", 1) == 1;
        }
    return unused;
}

static uint64_t work(uint64_t seed) {
    char *text = malloc(100 + seed % 1000);
    sprintf(text, "%llu %f", (unsigned long long)seed, seed / 7.0);
    uint64_t hash = 14695981039346656037u;
    for (int again = 0; again < 3000; again++)
        for (char *c = text; *c; c++) hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    free(text);
    return hash;
}

static void *worker(void *index) {
    int me = (int)(intptr_t)index;
    char stack_memory[1 << 14];
    stack_t alternate = {.ss_sp = stack_memory, .ss_size = sizeof stack_memory};
    if (me % 2) sigaltstack(&alternate, NULL);
    struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = syscall(SYS_gettid)};
    if (storming && fcntl(pipes[me][0], F_SETOWN_EX, &owner)) abort();
    for (int round = 0; round < ROUNDS / 10; round++) {
        uint64_t hash = work(round * 31 + me);
        sigjmp_buf back;
        if (sigsetjmp(back, 1) == 0) {
            sigset_t all;
            sigfillset(&all);
            pthread_sigmask(SIG_SETMASK, &all, NULL);
            siglongjmp(back, 1);
        }
        pthread_mutex_lock(&lock);
        sum += hash;
        pthread_mutex_unlock(&lock);
        if (round % 10 == 0) {
            pid_t child = fork();
            if (child == 0) {
                free(malloc(100));
                if (storming) ask(SIGIO);
                execl("/bin/true", "true", NULL);
                _exit(1);
            }
            int status;
            while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
            if (status != 0) abort();
        }
    }
    owner.pid = 0;
    if (storming) fcntl(pipes[me][0], F_SETOWN_EX, &owner);
    if (me % 2) {
        alternate.ss_flags = SS_DISABLE;
        sigaltstack(&alternate, NULL);
    }
    return index;
}

int main(int argc, char **argv) {
    storming = argc > 1 && !strcmp(argv[1], "storm");
    pthread_t stormer, workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        if (pipe2(pipes[i], O_CLOEXEC | O_NONBLOCK)) abort();
        if (fcntl(pipes[i][0], F_SETFL, O_NONBLOCK | O_ASYNC)) abort();
        fcntl(pipes[i][1], F_SETPIPE_SZ, 1 << 20);
    }
    if (storming) pthread_create(&stormer, NULL, storm, NULL);
    for (int again = 0; again < 10; again++) {
        for (int i = 0; i < THREADS; i++) pthread_create(&workers[i], NULL, worker, (void *)(intptr_t)i);
        for (int i = 0; i < THREADS; i++) pthread_join(workers[i], NULL);
    }
    done = 1;
    if (storming) pthread_join(stormer, NULL);
    if (storming && asked < 100) return 1;
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
