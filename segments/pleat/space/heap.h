/* heap.h - heaps: the memory of the blocks of one tag.
 *
 * A heap is a set of areas (private.h), so its blocks share granules only among themselves. A heap
 * may have a limit, and can sleep (sleep.h). Guarded by the device lock. */
#ifndef PLEAT_SEGMENTS_PLEAT_HEAP_H
#define PLEAT_SEGMENTS_PLEAT_HEAP_H

#include "segments/pleat/space/private.h"

struct pl_slumber;

/* I1  blocks, allocated_bytes and requested_bytes are those of the heap's live blocks, pages of its
 *     buffers included
 * I2  slumber is NULL while the heap is awake                                          */
typedef struct pl_heap {
    const char *tag; /* const: the caller's, for as long as the process lives */
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

/* Count bytes that a request is about to get. PLEAT_OK; ENOMEM_DEVICE: beyond the heap's limit. */
pleat_status pl_heap_promise(pl_heap *heap, uint64_t bytes);
static inline void pl_heap_forget_promise(pl_heap *heap, uint64_t bytes)
{
    heap->promised_bytes -= bytes;
}

void pl_heap_count_begin(pl_heap *heap, const pl_block *b);
void pl_heap_count_end(pl_heap *heap, const pl_block *b);

static inline pl_heap *pl_heap_of(const pl_block *b)
{
    const pl_private *pool = b->segment->area->pool;

    return pool != NULL ? pool->heap : NULL;
}

/* b has become live. */
static inline void pl_heap_begin_live(const pl_block *b)
{
    pl_heap *heap = pl_heap_of(b);

    if (__builtin_expect(heap != NULL, false)) {
        pl_heap_count_begin(heap, b);
    }
}

/* b is about to be live no more. */
static inline void pl_heap_end_live(const pl_block *b)
{
    pl_heap *heap = pl_heap_of(b);

    if (__builtin_expect(heap != NULL, false)) {
        pl_heap_count_end(heap, b);
    }
}

#endif
