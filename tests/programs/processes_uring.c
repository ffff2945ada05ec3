/* Two processes and a pipe that is read by a ring (io_uring): 1 ms to make an item, 0.62 ms to take it.
 * Known answer: as for pipeline_condvar, the maker's line pays until the taker is the slower one, 38 %. */
#include "processes.h"
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static int ends[2], ring = -1;
static struct io_uring_params at;
static char *rings;
static struct io_uring_sqe *entries;

static void make_item(void) {
    const uint64_t work = shrunk(&o, 1000);
    SPIN(work) // COZ: line
}

static int send_item(void) { return whole_item(write_, ends[1]); }

/* Asks for some bytes and waits for them: one entry in, one out. */
static ssize_t asked(int end, char *into, size_t length) {
    unsigned *tail = (unsigned *)(rings + at.sq_off.tail), *head = (unsigned *)(rings + at.cq_off.head);
    const unsigned *mask = (unsigned *)(rings + at.sq_off.ring_mask), *out = (unsigned *)(rings + at.cq_off.ring_mask);
    const unsigned index = *tail & *mask;
    entries[index] = (struct io_uring_sqe){
        .opcode = IORING_OP_READ, .fd = end, .addr = (uintptr_t)into, .len = (unsigned)length, .off = (uint64_t)-1};
    ((unsigned *)(rings + at.sq_off.array))[index] = index;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1) return -1;
    const struct io_uring_cqe *done = (struct io_uring_cqe *)(rings + at.cq_off.cqes) + (*head & *out);
    const ssize_t got = done->res;
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    return got;
}

static int receive_item(void) { return whole_item(asked, ends[0]); }

int main(int argc, char **argv) {
    o = parse(argc, argv);
    ring = (int)syscall(SYS_io_uring_setup, 4, &at);
    if (ring < 0 || !(at.features & IORING_FEAT_SINGLE_MMAP)) return 1;
    const int both = PROT_READ | PROT_WRITE, shared = MAP_SHARED | MAP_POPULATE;
    rings = mmap(NULL, 65536, both, shared, ring, IORING_OFF_SQ_RING);
    entries = mmap(NULL, at.sq_entries * sizeof *entries, both, shared, ring, IORING_OFF_SQES);
    if (rings == MAP_FAILED || entries == MAP_FAILED) return 1;
    if (pipe(ends) || fcntl(ends[1], F_SETPIPE_SZ, 16 * ITEM) < 0) return 1;
    return processes();
}
