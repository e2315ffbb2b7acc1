/* share_op.c - see share_op.h.
 *
 *   granule    g          g + 1      g + 2      g + 3
 *   chunks    |## one of 1 ##|## one of 2 granules #####|## one of 1 ##| ...
 *   block            |###########################################|
 *   *base     ^ all chunks that the block touches are shared, whole
 *
 * Takes the space's lock, rank 20, for a bounded number of chunks at a time. In between a chunk
 * that has no number yet may be moved by a compaction; one that has stays. The block stays where it
 * is, unless its owner frees it, which ends the walk. */
#include "segments/pleat/share_op.h"

#include "segments/pleat/look_ops.h"
#include "segments/pleat/space.h"

enum { CHUNKS_AT_ONCE = 1024 };

typedef struct walk {
    pleat_block_info block;
    pleat_devptr base;
    size_t n;    /* chunks so far */
    size_t next; /* n > 0: the first granule that was not looked at */
    bool is_done;
} walk;

static pleat_status note(pl_space *space, const pl_segment *seg, size_t g, pl_shared_chunk *out)
{
    if (seg->chunks[g] == PL_CHUNK_ASLEEP) {
        return PLEAT_EASLEEP;
    }
    out->chunk = seg->chunks[g];
    out->bytes = (uint64_t)pl_segment_granule_bytes(seg) << seg->orders[g];
    return pl_share_note(space->dev, out->chunk, &out->number);
}

/* The next chunks of the block; those beyond `capacity` are only counted. */
static pleat_status step_locked(pl_space *space, walk *w, pl_shared_chunk *out, size_t capacity)
{
    pl_lock_assert(&space->lock);
    pl_segment *seg = pl_space_segment_at(space, w->block.base);
    const pl_block *b = seg != NULL ? pl_segment_find(seg, w->block.base) : NULL;
    if (b == NULL || b->state != PL_BLOCK_LIVE || b->base != w->block.base ||
        b->bytes != w->block.bytes) {
        return PLEAT_EFOREIGN;
    }
    size_t last = pl_segment_granule(seg, pl_block_end(b) - 1);
    size_t first = pl_segment_chunk_from(seg, pl_segment_granule(seg, b->base));
    size_t g = w->n == 0 ? first : w->next;
    w->base = w->n == 0 ? pl_segment_address(seg, first) : w->base;
    for (size_t i = 0; i < CHUNKS_AT_ONCE && g <= last; i++, w->n++) {
        pleat_status st = w->n < capacity ? note(space, seg, g, &out[w->n]) : PLEAT_OK;
        if (st != PLEAT_OK) {
            return st;
        }
        g = pl_segment_chunk_to(seg, g);
        pl_lock_touch(1);
    }
    w->next = g;
    w->is_done = g > last;
    return PLEAT_OK;
}

pleat_status pl_pleat_share(pl_allocator *a, pleat_devptr ptr, pl_shared_chunk *out,
                            size_t capacity, size_t *n, pleat_devptr *base, pleat_block_info *info)
{
    pl_space *space = (pl_space *)a; /* base is its first member */
    walk w = { .n = 0 };
    pleat_status st = pl_pleat_query(a, ptr, &w.block);
    while (st == PLEAT_OK && !w.is_done) {
        pl_lock_acquire(&space->lock);
        st = step_locked(space, &w, out, capacity);
        pl_lock_release(&space->lock);
    }
    if (st == PLEAT_OK) {
        *n = w.n;
        *base = w.base;
        *info = w.block;
    }
    return st;
}
