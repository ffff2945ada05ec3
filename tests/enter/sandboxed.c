/* As independent.c, but it filters its own system calls (seccomp) when it has begun: all of them pass, or, with KILLS in its
 * environment, none that a delay takes. */
#include "../programs/threads.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t a, b;

static void one_round(int thread) {
    (void)thread;
    SPIN(a)
    SPIN(b)
}

int main(int argc, char **argv) {
    o = parse(argc, argv);
    a = shrunk(&o, 430), b = steps(&o, 430);
    const int kills = getenv("KILLS") != NULL;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_nanosleep, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, kills ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 2;
    return run_threads((int)sysconf(_SC_NPROCESSORS_ONLN));
}
