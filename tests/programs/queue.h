/* A bounded queue of items that are all alike. */
#ifndef QUEUE_H
#define QUEUE_H

#include <pthread.h>

struct queue {
    unsigned waiting, capacity;
    pthread_mutex_t lock;
    pthread_cond_t filled, emptied;
};

#define QUEUE(capacity)                                                                                      \
    { 0, capacity, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER }

static void push(struct queue *q) {
    pthread_mutex_lock(&q->lock);
    while (q->waiting == q->capacity) pthread_cond_wait(&q->emptied, &q->lock);
    q->waiting++;
    pthread_cond_signal(&q->filled);
    pthread_mutex_unlock(&q->lock);
}

static void pop(struct queue *q) {
    pthread_mutex_lock(&q->lock);
    while (q->waiting == 0) pthread_cond_wait(&q->filled, &q->lock);
    q->waiting--;
    pthread_cond_signal(&q->emptied);
    pthread_mutex_unlock(&q->lock);
}

#endif
