/* Two functions of the same code, which a linker may fold into one; and a part of another that is moved away as cold. */
#include <stdio.h>

__attribute__((noinline)) int first(int a) { return a * 77 + (a >> 3); } /* line: first */
__attribute__((noinline)) int second(int a) { return a * 77 + (a >> 3); } /* line: second */

__attribute__((noinline, cold)) void complain(int a) {
    fprintf(stderr, "%d\n", a);
}

__attribute__((noinline)) int parts(int a) {
    if (a == 12345) {
        complain(a + 1); /* line: moved away */
        a++;
    }
    return a * 3; /* line: stays */
}

int main(int argc, char **argv) {
    (void)argv;
    printf("%d\n", first(argc) ^ second(argc) ^ parts(argc));
    return 0;
}
