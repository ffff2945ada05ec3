/* Instrumented for coz, as coz.h does it: a function that is looked for at run time. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int main(void) {
    void *counter = dlsym(RTLD_DEFAULT, "_coz_get_counter");
    printf("%p\n", counter);
    return 0;
}
