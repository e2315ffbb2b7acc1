/* heap.c - see space/heap.h: a heap's table as a keeper, and its figures. Guarded by the device
 * lock. */
#include "segments/pleat/space/heap.h"

#include "segments/pleat/sleep/sleep.h"
#include "segments/pleat/sleep/tag_ops.h"

/* ---- as a keeper ----------------------------------------------------------------------------- */

static pleat_status admit(pl_keeper *keeper, uint64_t bytes)
{
    pl_heap *heap = pl_heap_of(keeper);
    uint64_t have = heap->allocated_bytes.current + heap->promised_bytes;

    if (heap->limit_bytes != 0 && (have >= heap->limit_bytes || bytes > heap->limit_bytes - have)) {
        return PLEAT_ENOMEM_DEVICE;
    }
    heap->promised_bytes += bytes;
    return PLEAT_OK;
}

static void dismiss(pl_keeper *keeper, uint64_t bytes)
{
    pl_heap_of(keeper)->promised_bytes -= bytes;
}

/* A buffer's pages that are one block more, or one less, have as many bytes as before. */
static void hear(pl_keeper *keeper, pl_keeper_event event, const pl_block *b)
{
    pl_heap *heap = pl_heap_of(keeper);
    bool is_more = event == PL_KEEPER_BORN || event == PL_KEEPER_DIVIDED;

    (is_more ? pl_stat_add : pl_stat_sub)(&heap->blocks, 1);
    if (event == PL_KEEPER_BORN) {
        heap->n_births++;
        pl_stat_add(&heap->allocated_bytes, b->bytes);
        pl_stat_add(&heap->requested_bytes, b->requested);
    } else if (event == PL_KEEPER_FREED) {
        pl_stat_sub(&heap->allocated_bytes, b->bytes);
        pl_stat_sub(&heap->requested_bytes, b->requested);
    }
}

/* Frees kept contents, too. */
static void fini(pl_space *space, pl_keeper *keeper)
{
    pl_kept_end(space, pl_heap_of(keeper)->slumber);
    pl_kept_end(space, pl_heap_of(keeper)->retained);
}

const pl_keeper_kind pl_heap_kind = {
    .admit = admit, .dismiss = dismiss, .hear = hear, .fini = fini
};

/* ---- heaps come, and tell of themselves ------------------------------------------------------ */

pleat_status pl_pleat_heap_open(pl_allocator *a, const char *tag, pl_keeper **out)
{
    pl_space *space = pl_space_enter((pl_space *)a);

    pl_heap *heap = pl_keeper_make(space, &pl_heap_kind, sizeof(*heap));
    if (heap != NULL) {
        heap->base.tag = tag;
        *out = &heap->base;
    }
    pl_space_leave(space);
    return heap != NULL ? PLEAT_OK : PLEAT_ENOMEM_HOST;
}

void pl_pleat_heap_set_limit(pl_allocator *a, pl_keeper *heap, uint64_t bytes)
{
    pl_space *space = pl_space_enter((pl_space *)a);

    pl_heap_of(heap)->limit_bytes = bytes;
    pl_space_leave(space);
}

void pl_pleat_heap_read(pl_allocator *a, pl_keeper *keeper, pl_heap_figures *out)
{
    pl_space *space = pl_space_enter((pl_space *)a);
    const pl_heap *heap = pl_heap_of(keeper);

    const pl_slumber *slumber = heap->slumber;
    const pl_slumber *kept = slumber != NULL ? slumber : heap->retained;
    uint64_t asleep = slumber != NULL ? (uint64_t)slumber->n_gone << space->granule_log2 : 0;
    *out = (pl_heap_figures){
        .blocks = heap->blocks,
        .allocated_bytes = heap->allocated_bytes,
        .requested_bytes = heap->requested_bytes,
        .resident_bytes = keeper->reserved.current - asleep,
        .asleep_bytes = asleep,
        .kept_bytes = kept != NULL ? (uint64_t)kept->n_kept << space->granule_log2 : 0,
        .limit_bytes = heap->limit_bytes,
        .n_sleeps = heap->n_sleeps,
        .is_asleep = slumber != NULL,
    };
    pl_space_leave(space);
}
