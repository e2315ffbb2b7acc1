/* heap.h - heaps: keepers of the blocks of one tag.
 *
 * A heap's blocks share granules only among themselves. Otherwise they are like the default pool's:
 * for captures, for waits and for requests that need memory. So a heap keeps nothing until it falls
 * asleep, and nothing once it has woken: in between it owns every granule. A heap may have a limit,
 * can sleep (sleep.h), and stays until the device is closed. Guarded by the device lock. */
#ifndef PLEAT_SEGMENTS_PLEAT_HEAP_H
#define PLEAT_SEGMENTS_PLEAT_HEAP_H

#include "segments/pleat/space/keeper.h"

struct pl_slumber;

/* I1  blocks, allocated_bytes and requested_bytes are those of the heap's live blocks, pages of its
 *     buffers included
 * I2  slumber is NULL unless the heap is asleep                                          */
typedef struct pl_heap {
    pl_keeper base;
    pleat_stat blocks;
    pleat_stat allocated_bytes;
    pleat_stat requested_bytes;
    uint64_t promised_bytes; /* to requests under way */
    uint64_t limit_bytes;    /* 0 = none */
    uint64_t n_sleeps;
    struct pl_slumber *slumber;  /* see sleep.h */
    struct pl_slumber *retained; /* see sleep.h; NULL while the heap sleeps */
    bool retains;
    uint64_t n_births;                             /* blocks that became live */
    uint64_t n_births_retained;                    /* n_births when the heap woke with `retained` */
    struct pl_area_list closed[PL_N_BUFFER_SIZES]; /* closed buffers of the heap, by size */
} pl_heap;

extern const pl_keeper_kind pl_heap_kind; /* sleep/heap.c */

/* NULL for NULL. The caller knows that the keeper is a heap: it has a tag, or owns a buffer. */
static inline pl_heap *pl_heap_of(pl_keeper *keeper)
{
    pl_assert(keeper == NULL || keeper->kind == &pl_heap_kind);
    return (pl_heap *)keeper;
}

#endif
