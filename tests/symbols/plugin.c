/* A library that is loaded and unloaded while the program runs; compiled twice, under two names. */
__attribute__((noinline)) unsigned long work(unsigned long rounds) {
    unsigned long sum = rounds;
    for (unsigned long i = 0; i < rounds; i++)
        sum = sum * 6364136223846793005ul + i; /* line: plugin */
    return sum;
}
