/* A header in scope: what it inlines belongs to its own lines. */
static inline __attribute__((always_inline)) unsigned mix(unsigned a, unsigned b) {
    a = (a ^ b) * 2654435761u; /* line: mix */
    return a ^ (a >> 15);
}
