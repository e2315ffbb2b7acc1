/* split.h - replace a chunk that is partly in use by smaller chunks under the granules in use.
 *
 *   before  |#### 64 MiB: live | vacant | vacant | vacant | live | vacant | vacant | vacant ####|
 *   after   |#### 8 MiB: live #|......... hole .........|# live #|......... hole ..............|
 *
 * Granules of the chunk that are not vacant get new chunks, as few as possible. The old chunk is
 * mapped a second time, at scratch addresses, and loses its place. The new chunks are filled from
 * it and mapped in that place, and the old chunk goes back to the driver. So addresses and contents
 * stay. The caller must know that no work runs on the device meanwhile: work that runs all the same
 * finds no memory at its addresses, and faults (swap.c).
 *
 * Every function here is called with the space's lock held. pl_split_chunk drops the lock for
 * driver calls. Others may allocate and free in the chunk meanwhile, but not in the granules that
 * lose their memory. */
#ifndef PLEAT_SEGMENTS_SPLIT_H
#define PLEAT_SEGMENTS_SPLIT_H

#include "segments/pleat/space/space.h"

/* Is the chunk at the address partly in use, so that a split may help? *n_kept: the number of
 * granules to keep. */
bool pl_split_is_worth_it(const pl_space *space, pleat_devptr at, size_t *n_kept);
/* Split the chunk at the address, if a split is still possible. A chunk held by others stays. Adds
 * the work done to *told. May make room first. PLEAT_OK. ENOMEM_DEVICE (no room for the new
 * chunks), ENOMEM_HOST, ENOTSUP, ECAPTURE, EDRIVER: the chunk is as before. EPOISONED: the space is
 * torn, or the scratch addresses stay mapped. */
pleat_status pl_split_chunk(pl_space *space, pleat_devptr at, pleat_compaction *told);

/* ---- swap.c: the driver calls of a split ----
 *
 * Put new chunks with the old bytes in the place of a chunk.
 *
 * The memory under work is in flight, or keeps its mapping. The compaction alone uses the scratch
 * addresses. */

enum { PL_SWAP_GRANULES = 1 << PL_MOST_ORDER, PL_SWAP_SPANS = PL_SWAP_GRANULES / 2 };

/* Granules side by side that keep their memory. */
typedef struct pl_swap_span {
    size_t g;
    size_t n;
    size_t piece; /* of the new chunks' granules, the first */
    bool is_mapped;
} pl_swap_span;

/* How the addresses of the old chunk are mapped. */
typedef enum pl_swap_outcome {
    PL_SWAP_OLD,   /* as before */
    PL_SWAP_NEW,   /* the new chunks are in their places */
    PL_SWAP_GONE,  /* the old chunk is mapped nowhere, nor is a new one */
    PL_SWAP_PARTLY /* some new chunks are in their places */
} pl_swap_outcome;

typedef struct pl_swap {
    pl_segment *seg;
    pleat_devptr at;
    size_t g;
    unsigned order;
    pl_chunk old;
    pl_swap_span spans[PL_SWAP_SPANS];
    size_t n_spans;
    size_t n_kept;
    pl_chunk chunks[PL_SWAP_GRANULES]; /* the new ones, by granule, as in a segment's tables */
    uint8_t orders[PL_SWAP_GRANULES];
    pl_swap_outcome outcome;
    bool is_filling;    /* copies between the scratch addresses may still run */
    bool is_in_scratch; /* the old chunk and the new ones may still be mapped there */
} pl_swap;

static inline size_t pl_swap_granules(const pl_swap *s)
{
    return (size_t)1 << s->order;
}

static inline size_t pl_swap_bytes(const pl_space *space, size_t n_granules)
{
    return n_granules << space->granule_log2;
}

/* Fill the new chunks at the scratch addresses and put them in the place of the old one. Writes
 * `outcome`, is_filling and is_in_scratch. PLEAT_OK. ENOMEM_DEVICE, ENOTSUP,
 * ECAPTURE, EDRIVER: the outcome is OLD. EPOISONED: something could not be undone. */
pleat_status pl_swap_run(pl_space *space, pl_swap *s);

#endif
