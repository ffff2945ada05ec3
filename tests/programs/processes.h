/* The pipeline as two processes: a child makes items, its parent takes 0.62 ms for each. How an item gets from one to
 * the other is the program's own. */
#ifndef PROCESSES_H
#define PROCESSES_H

#include "common.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ITEM = 4096, PLACES = 8 }; /* bytes of an item; items that may be under way */

static struct options o;
static char item_[ITEM];

static void make_item(void);   /* these three are the program's own: */
static int send_item(void);    /* waits while there is no place; whether it went well */
static int receive_item(void); /* waits until there is one; whether it went well */

static int processes(void) {
    const pid_t parent = getpid(), child = fork();
    if (child < 0) return 1;
    if (!child) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent) _exit(1);
        do make_item();
        while (send_item());
        _exit(1);
    }
    const uint64_t work = steps(&o, 620), start = now_ns();
    uint64_t done = 0;
    do {
        if (!receive_item()) return 1;
        SPIN(work)
        progress();
    } while (!finished(&o, ++done, start));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return report(done, start);
}

/* Reads or writes a whole item. */
static inline int whole_item(ssize_t (*move)(int, char *, size_t), int end) {
    for (size_t done = 0; done < ITEM;) {
        const ssize_t more = move(end, item_ + done, ITEM - done);
        if (more <= 0) return 0;
        done += (size_t)more;
    }
    return 1;
}

static inline ssize_t read_(int end, char *at, size_t length) { return read(end, at, length); }
static inline ssize_t write_(int end, char *at, size_t length) { return write(end, at, length); }

#endif
