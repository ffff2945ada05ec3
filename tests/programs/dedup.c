/* After the paper's dedup: a degenerate hash function puts all blocks into one bucket, whose chain is walked for every
 * block, 0.8 ms of 0.9; a second thread compresses them, 0.5 ms each.
 * Known answer: the walk pays until compression is the slower stage, 44 %. */
#include "common.h"
#include "queue.h"

struct node {
    struct node *next;
    char block[56];
};

static struct options o;
static struct queue found = QUEUE(16);
static struct node bucket[64];

static void *deduplicate(void *unused) {
    const uint64_t length = shrunk(&o, 800), fragment = steps(&o, 100);
    const struct node *node = bucket;
    for (;;) {
        SPIN(fragment)
        for (uint64_t i = 0; i < length; i++) { node = node->next; __asm__ volatile("" : "+r"(node)); } // COZ: line
        push(&found);
    }
    return unused;
}

int main(int argc, char **argv) {
    o = parse(argc, argv);
    for (int i = 0; i < 64; i++) bucket[i].next = &bucket[(i + 1) % 64];
    pthread_t thread;
    const uint64_t compress = steps(&o, 500), start = now_ns();
    if (pthread_create(&thread, NULL, deduplicate, NULL)) return 1;
    uint64_t done = 0;
    do {
        pop(&found);
        SPIN(compress)
        progress();
    } while (!finished(&o, ++done, start));
    return report(done, start);
}
