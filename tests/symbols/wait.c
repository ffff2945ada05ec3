/* Says where its main is, and waits until its input ends. */
#include <stdio.h>

int main(void) {
    printf("%p\n", (void *)main);
    fflush(stdout);
    return getchar() == EOF ? 0 : 1;
}
