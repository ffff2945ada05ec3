/* Takes records in, computes a digest of each, stores them with SQLite: one thread computes, one stores. */
#include <pthread.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BATCH = 64, WAITING = 8, BYTES = 2000 };

struct batch {
    int key[BATCH];
    uint32_t digest[BATCH];
};

static struct batch queue[WAITING];
static int head, tail;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static volatile int over;

static uint32_t digest(const unsigned char *record, int n) {
    uint32_t hash = 2166136261u;
    for (int i = 0; i < n; i++) hash = (hash ^ record[i]) * 16777619u;
    return hash;
}

static void *compute(void *record) {
    for (int next = 0; !over;) {
        struct batch made;
        for (int i = 0; i < BATCH; i++, next++) {
            ((unsigned char *)record)[next % BYTES]++;
            made.key[i] = next % 10000;
            made.digest[i] = digest(record, BYTES);
        }
        pthread_mutex_lock(&lock);
        while (head - tail == WAITING && !over) pthread_cond_wait(&changed, &lock);
        queue[head++ % WAITING] = made;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static sqlite3 *db;

static sqlite3_stmt *insert;

/* A batch is stored: the progress point. */
__attribute__((noinline)) void store(const struct batch *batch) {
    sqlite3_exec(db, "BEGIN", NULL, NULL, NULL);
    for (int i = 0; i < BATCH; i++) {
        sqlite3_bind_int(insert, 1, batch->key[i]);
        sqlite3_bind_int64(insert, 2, batch->digest[i]);
        if (sqlite3_step(insert) != SQLITE_DONE) abort();
        sqlite3_reset(insert);
    }
    sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
}

int main(int argc, char **argv) {
    const time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 30);
    static unsigned char record[BYTES];
    pthread_t computing;
    long stored = 0;
    sqlite3_open(":memory:", &db);
    sqlite3_exec(db, "CREATE TABLE records(id INTEGER PRIMARY KEY, digest INTEGER)", NULL, NULL, NULL);
    sqlite3_prepare_v2(db, "INSERT OR REPLACE INTO records VALUES(?, ?)", -1, &insert, NULL);
    pthread_create(&computing, NULL, compute, record);
    for (; time(NULL) < end; stored += BATCH) {
        pthread_mutex_lock(&lock);
        while (head == tail) pthread_cond_wait(&changed, &lock);
        struct batch batch = queue[tail++ % WAITING];
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
        store(&batch);
    }
    pthread_mutex_lock(&lock);
    over = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(computing, NULL);
    sqlite3_finalize(insert);
    printf("%ld records\n", stored);
    return 0;
}
