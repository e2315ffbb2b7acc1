/* uses.h - the current uses of blocks on other streams, and the freed bytes waiting for these uses.
 *
 * A block freed during another stream's use is pending until the last use ends. The program does
 * not need the block any more. But no request can get the memory yet.
 *
 *   first_of[slot] -> use <-> use <-> use     a ring: the uses of one block
 *
 * U1  a ring has the uses of one block; each use knows whether the block is freed
 * U2  pending_bytes is the sum over the rings of freed blocks */
#ifndef PLEAT_BENCH_USES_H
#define PLEAT_BENCH_USES_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/work/host.h"

typedef struct bench_use {
    uint64_t bytes;    /* of the used block, rounded; 0 = a free number */
    uint32_t slot;     /* of the used block, while the block is live */
    uint32_t next;     /* next of the ring; of a free number: the next free one, plus 1 */
    uint32_t previous; /* in the ring */
    bool is_freed;     /* the block is freed */
} bench_use;

typedef struct bench_uses {
    bench_use *of; /* by the number of the use */
    uint32_t n;    /* most at once */
    uint32_t capacity;
    uint32_t first_free; /* plus 1; 0 = none */
    uint32_t *first_of;  /* by slot: a use of the live block, plus 1; 0 = none */
    uint32_t n_slots;
    uint64_t pending_bytes;
} bench_uses;

void bench_uses_fini(bench_uses *uses, bench_host *host);
/* Begin a use of the live block in `slot`. False when out of host memory. */
bool bench_uses_begin(bench_uses *uses, bench_host *host, uint32_t slot, uint64_t bytes,
                      uint32_t *use);
/* The block in `slot` is freed. */
void bench_uses_freed(bench_uses *uses, uint32_t slot);
/* `use` must go on. */
void bench_uses_end(bench_uses *uses, uint32_t use);

#endif
