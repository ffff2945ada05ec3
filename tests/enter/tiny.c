/* As independent.c, on threads whose alternate signal stack has no room for a signal's frame: a handler on it would be their end. */
#include "../programs/threads.h"
#include <signal.h>
#include <unistd.h>

static uint64_t a, b;

static void one_round(int thread) {
    (void)thread;
    static _Thread_local char stack[2048];
    static _Thread_local int done;
    if (!done) {
        stack_t tiny = {.ss_sp = stack, .ss_size = sizeof stack};
        done = !sigaltstack(&tiny, 0);
    }
    SPIN(a)
    SPIN(b)
}

int main(int argc, char **argv) {
    o = parse(argc, argv);
    a = shrunk(&o, 430), b = steps(&o, 430);
    return run_threads((int)sysconf(_SC_NPROCESSORS_ONLN));
}
