/* keeps [alarms]: one thread that computes with known values in every register and sleeps, in turn, until its input ends; then it says what has
 * become of them, of its mask of signals, of its priority and of its descriptors. "alarms": signals come all the time. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Counts down with a value in each register and below the stack; 0, or which one was not kept. */
int spin(long rounds);
/* A system call with three arguments, values in all other registers; its result, or 1000 and more: which one was not kept. */
long call(long number, const void *first, void *second, long third);

__asm__(".intel_syntax noprefix\n"
        ".macro save\n push rbx\n push rbp\n push r12\n push r13\n push r14\n push r15\n .endm\n"
        ".macro restore\n pop r15\n pop r14\n pop r13\n pop r12\n pop rbp\n pop rbx\n .endm\n"
        ".macro is register, value, number\n mov dword ptr which[rip], \\number\n cmp \\register, \\value\n jne 9f\n .endm\n"
        "spin:\n save\n"
        "mov count[rip], rdi\n"
        "mov dword ptr [rsp - 8], 77\n mov dword ptr [rsp - 120], 78\n"
        "mov rax, 101\n mov rbx, 102\n mov rcx, 103\n mov rdx, 104\n mov rsi, 105\n mov rdi, 106\n mov rbp, 107\n mov r8, 108\n"
        "mov r9, 109\n mov r10, 110\n mov r11, 111\n mov r12, 112\n mov r13, 113\n mov r14, 114\n mov r15, 115\n"
        "movq xmm0, rax\n movq xmm15, r15\n"
        "2: dec qword ptr count[rip]\n jnz 2b\n"
        "is rax, 101, 1\n is rbx, 102, 2\n is rcx, 103, 3\n is rdx, 104, 4\n is rsi, 105, 5\n is rdi, 106, 6\n is rbp, 107, 7\n"
        "is r8, 108, 8\n is r9, 109, 9\n is r10, 110, 10\n is r11, 111, 11\n is r12, 112, 12\n is r13, 113, 13\n is r14, 114, 14\n"
        "is r15, 115, 15\n movq rax, xmm0\n is rax, 101, 16\n movq rax, xmm15\n is rax, 115, 17\n"
        "mov eax, [rsp - 8]\n is eax, 77, 18\n mov eax, [rsp - 120]\n is eax, 78, 19\n mov dword ptr which[rip], 0\n"
        "9: mov eax, which[rip]\n restore\n ret\n"
        "call:\n save\n"
        "mov rax, rdi\n mov rdi, rsi\n mov rsi, rdx\n mov rdx, rcx\n mov r12, rdi\n mov r13, rsi\n mov r14, rdx\n"
        "mov rbx, 102\n mov rbp, 107\n mov r8, 108\n mov r9, 109\n mov r10, 110\n mov r15, 115\n movq xmm15, r15\n"
        "syscall\n mov rcx, rax\n"
        "is rbx, 102, 1002\n is rbp, 107, 1007\n is r8, 108, 1008\n is r9, 109, 1009\n is r10, 110, 1010\n is r15, 115, 1015\n"
        "is rdi, r12, 1006\n is rsi, r13, 1005\n is rdx, r14, 1004\n movq rax, xmm15\n is rax, 115, 1017\n"
        "mov which[rip], ecx\n"
        "9: movsxd rax, dword ptr which[rip]\n restore\n ret\n"
        ".att_syntax\n"
        ".local count, which\n .comm count, 8, 8\n .comm which, 4, 4\n");

static double milliseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static volatile long alarms;
static void alarmed(int signal_number) {
    (void)signal_number;
    alarms++;
}

static int descriptors(void) {
    int open = 0;
    for (int fd = 0; fd < 64; fd++) open += fcntl(fd, F_GETFD) >= 0;
    return open;
}

int main(int argc, char **argv) {
    (void)argv;
    sigset_t mine, now;
    sigemptyset(&mine);
    sigaddset(&mine, SIGUSR2);
    sigaddset(&mine, SIGWINCH);
    if (sigprocmask(SIG_SETMASK, &mine, NULL) || setpriority(PRIO_PROCESS, 0, 5)) return 2;
    int with_alarms = argc > 1, open = descriptors();
    if (with_alarms) {
        struct sigaction action = {.sa_handler = alarmed, .sa_flags = SA_RESTART};
        struct itimerval often = {{0, 500}, {0, 500}};
        if (sigaction(SIGALRM, &action, NULL) || setitimer(ITIMER_REAL, &often, NULL)) return 2;
    }
    puts("begun");
    fflush(stdout);
    struct pollfd input = {.fd = 0, .events = POLLIN};
    const double begun = milliseconds();
    /* On a busy machine alarms come more slowly: then it takes longer. */
    while (poll(&input, 1, 0) <= 0 || (with_alarms && alarms < 10 && milliseconds() - begun < 10000)) {
        int lost = spin(300000);
        if (lost) return printf("register %d was not kept\n", lost), 1;
        struct timespec little = {.tv_nsec = 2000000}, rest = {0};
        double before = milliseconds();
        long result = call(SYS_nanosleep, &little, &rest, 0);
        double slept = milliseconds() - before;
        if (result != 0 && !(with_alarms && result == -EINTR)) return printf("the sleep says %ld\n", result), 1;
        if (result == 0 && slept < 2) return printf("slept for %g ms of 2\n", slept), 1;
    }
    sigprocmask(SIG_SETMASK, NULL, &now);
    for (int s = 1; s < 65; s++)
        if (sigismember(&mine, s) != sigismember(&now, s)) return printf("signal %d is blocked: %d\n", s, sigismember(&now, s)), 1;
    if (getpriority(PRIO_PROCESS, 0) != 5) return printf("priority %d\n", getpriority(PRIO_PROCESS, 0)), 1;
    if (with_alarms && alarms < 10) return printf("%ld alarms\n", alarms), 1;
    printf("kept, %d descriptors more\n", descriptors() - open);
    return 0;
}
