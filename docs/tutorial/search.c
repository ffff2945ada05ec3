/* Searches a log that is kept in SQLite: one thread searches, one makes pages of what was found. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sqlite3.h"

enum { LINES = 2000, LENGTH = 600, FOUND = 40, WAITING = 4 };

struct result {
    int lines;
    char line[FOUND][LENGTH];
};

static struct result queue[WAITING];
static int head, tail;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static volatile int over;
static sqlite3 *db;
static sqlite3_stmt *query;

/* A search: the progress point. */
__attribute__((noinline)) void search(const char *word, struct result *result) {
    result->lines = 0;
    sqlite3_bind_text(query, 1, word, -1, SQLITE_STATIC);
    while (sqlite3_step(query) == SQLITE_ROW && result->lines < FOUND)
        strcpy(result->line[result->lines++], (const char *)sqlite3_column_text(query, 0));
    sqlite3_reset(query);
}

/* The page's text, escaped. */
__attribute__((noinline)) size_t page(const struct result *result, char *out) {
    size_t n = 0;
    for (int i = 0; i < result->lines; i++)
        for (const char *c = result->line[i]; *c; c++) {
            char escaped[8];
            n += (size_t)snprintf(escaped, sizeof escaped, *c == '<' ? "&lt;" : *c == '&' ? "&amp;" : "%c", *c);
            memcpy(out + n % (FOUND * LENGTH), escaped, sizeof escaped);
        }
    return n;
}

static void *make_pages(void *none) {
    static struct result result;
    static char text[2 * FOUND * LENGTH];
    for (;;) {
        pthread_mutex_lock(&lock);
        while (head == tail && !over) pthread_cond_wait(&changed, &lock);
        if (over) break;
        result = queue[tail++ % WAITING];
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
        page(&result, text);
    }
    pthread_mutex_unlock(&lock);
    return none;
}

static void fill(void) {
    sqlite3_stmt *insert;
    sqlite3_exec(db, "CREATE TABLE log(line TEXT)", NULL, NULL, NULL);
    sqlite3_prepare_v2(db, "INSERT INTO log VALUES(?)", -1, &insert, NULL);
    for (unsigned seed = 1, row = 0; row < LINES; row++) {
        char line[LENGTH];
        for (int i = 0; i < LENGTH - 1; i++) {
            seed = seed * 1664525u + 1013904223u;
            line[i] = "abcdefghijklmnopqrstuvwxyz <>&:/"[seed >> 27];
        }
        line[LENGTH - 1] = 0;
        if (row % 50 == 0) memcpy(line + 100 + row % 400, "error 503", 9);
        sqlite3_bind_text(insert, 1, line, -1, SQLITE_TRANSIENT);
        sqlite3_step(insert);
        sqlite3_reset(insert);
    }
    sqlite3_finalize(insert);
}

int main(int argc, char **argv) {
    const time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 30);
    static struct result result;
    pthread_t making;
    long searches = 0;
    sqlite3_open(":memory:", &db);
    fill();
    sqlite3_prepare_v2(db, "SELECT line FROM log WHERE instr(line, ?)", -1, &query, NULL);
    pthread_create(&making, NULL, make_pages, NULL);
    for (; time(NULL) < end; searches++) {
        search("error 503", &result);
        pthread_mutex_lock(&lock);
        while (head - tail == WAITING) pthread_cond_wait(&changed, &lock);
        queue[head++ % WAITING] = result;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    pthread_mutex_lock(&lock);
    over = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(making, NULL);
    printf("%ld searches\n", searches);
    return 0;
}
