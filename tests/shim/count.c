// Counts with coz.h's way of doing it: the functions are looked up by name.
#include "subject.h"
#include <dlfcn.h>

typedef struct { size_t count, backoff; } counter_t;

int main(void) {
    counter_t *(*get)(int, const char *) = (counter_t * (*)(int, const char *)) dlsym(RTLD_DEFAULT, "_coz_get_counter");
    if (!get) return 1;
    char wide[300];
    memset(wide, 'w', sizeof wide);
    wide[299] = 0;
    counter_t *a = get(1, "a"), *b = get(2, "a"), *c = get(1, "b"), *w = get(3, wide);
    a->count += 3;
    b->count += 5;
    c->count += 7;
    w->count += 9;
    if (get(1, "a") != a || get(3, wide) != w || a == b || a == c) return 2;
    if (fork() == 0) {
        get(1, "a")->count += 10;
        get(1, "child")->count += 1;
        _exit(0);
    }
    wait(NULL);
    for (int i = 0; i < 1000; i++) {
        char name[32];
        snprintf(name, sizeof name, "many %d", i);
        counter_t *many = get(1, name);
        if (!many) return 3;
        many->count++;
    }
    ((void (*)(void))dlsym(RTLD_DEFAULT, "_coz_add_delays"))();
    ((void (*)(void))dlsym(RTLD_DEFAULT, "_coz_pre_block"))();
    ((void (*)(int))dlsym(RTLD_DEFAULT, "_coz_post_block"))(1);
    return 0;
}
