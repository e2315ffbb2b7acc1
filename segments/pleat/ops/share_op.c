/* share_op.c - which chunks lie under shared memory.
 *
 *   granule    g          g + 1      g + 2      g + 3      ...     g + 7
 *   chunks    |## one of 1 ##|## one of 2 granules #####|          |## one of 1 ##| ...
 *   blocks           |####|######################|                   |######|
 *   list      |## one of 1 ##|## one of 2 granules #####|## one of 1 ##|
 *                    ^ offset 0 of the first block       offset of the last: ^
 *
 * Every chunk that a block touches is listed once, as a whole. The chunks of a block lie side by
 * side in the list, as in addresses. So one offset gives the position of a block in the list.
 *
 * Takes the space's lock, rank 20, for a bounded number of chunks at a time. In between, a
 * compaction may move a chunk without a number, but no chunk with a number. Nobody looks while a
 * chunk is being moved. A block stays in place, unless its owner frees the block. A free ends the
 * walk of one block, and the walk of a heap takes the block out of the list again. */

#include "segments/pleat/buffers/buffer.h"
#include "segments/pleat/ops/ops.h"
#include "segments/pleat/space/walk.h"

/* To give a chunk its number costs a few steps more than a look (vmm/share.c). */
enum { CHUNKS_AT_ONCE = 256 };

typedef struct walk {
    pl_space *space;
    pl_share_list *out;
    pleat_devptr end; /* of the last chunk in the list; 0 = none of this segment */
    uint64_t bytes;   /* of all chunks in the list */
} walk;

/* ---- chunks ---------------------------------------------------------------------------------- */

static pleat_status add_chunk(walk *w, const pl_segment *seg, size_t g)
{
    pl_share_list *out = w->out;
    pl_shared_chunk chunk = { .chunk = seg->chunks[g],
                              .bytes = (uint64_t)pl_segment_granule_bytes(seg) << seg->orders[g] };
    bool is_asleep = chunk.chunk == PL_CHUNK_ASLEEP ||
                     (pl_keeper_is_shut(seg->area->keeper) &&
                      !pl_share_is_noted(w->space->dev, chunk.chunk));

    if (is_asleep) { /* or about to be: chunks open elsewhere stay */
        return PLEAT_EASLEEP;
    }
    if (out->n_chunks < out->most_chunks) {
        pleat_status st = out->is_look ? PLEAT_OK
                                       : pl_share_note(w->space->dev, chunk.chunk, &chunk.number);
        if (st != PLEAT_OK) {
            return st;
        }
        out->chunks[out->n_chunks] = chunk;
    }
    out->n_chunks++;
    w->bytes += chunk.bytes;
    w->end = pl_segment_address(seg, pl_segment_chunk_to(seg, g));
    pl_lock_touch(1);
    return PLEAT_OK;
}

/* List at most n of the chunks under the live bytes [from, to). *at: everything below is done. */
static pleat_status add_some(walk *w, const pl_segment *seg, pleat_devptr from, pleat_devptr to,
                             size_t n, pleat_devptr *at)
{
    for (; n > 0 && *at < to; n--) {
        if (w->end <= *at) {
            size_t g = pl_segment_granule(seg, *at);
            pleat_status st = add_chunk(w, seg, pl_segment_chunk_from(seg, g));
            if (st != PLEAT_OK) {
                return st;
            }
        }
        if (*at == from) {
            pl_share_list *out = w->out;
            if (out->n_blocks < out->most_blocks) {
                out->blocks[out->n_blocks] = (pl_shared_block){
                    .base = from, .bytes = to - from, .offset = w->bytes - (w->end - from)
                };
            }
        }
        *at = w->end < to ? w->end : to;
    }
    return PLEAT_OK;
}

static const pl_block *live_at(const pl_space *space, pleat_devptr ptr)
{
    const pl_segment *seg = pl_space_segment_at(space, ptr);
    const pl_block *b = seg != NULL ? pl_segment_find(seg, ptr) : NULL;

    return b != NULL && b->state == PL_BLOCK_LIVE ? b : NULL;
}

/* ---- one stretch ----------------------------------------------------------------------------- */

/* A part of a block, or of a buffer's pages. */
typedef struct stretch {
    pleat_block_info block; /* bytes 0 = pages of a buffer */
    pleat_devptr from;
    pleat_devptr to; /* UINT64_MAX = as far as live */
} stretch;

/* The end of the live block at `at`; 0: no block of the stretch. */
static pleat_devptr live_end(const pl_space *space, const stretch *s, pleat_devptr at)
{
    const pl_block *b = live_at(space, at);
    bool is_same = b != NULL &&
                   (s->block.bytes == 0 ? pl_buffer_at(space, at) == pl_buffer_at(space, s->from)
                                        : b->base == s->block.base);

    return is_same ? pl_block_end(b) : 0;
}

/* *at: everything below is done. The caller tells the piece, as its end may not be known yet. */
static pleat_status step_locked(walk *w, stretch *s, pleat_devptr *at)
{
    pl_lock_assert(&w->space->lock);
    pleat_devptr end = live_end(w->space, s, *at);
    bool is_open = s->to == UINT64_MAX;

    if (end == 0 && is_open && *at > s->from) {
        s->to = *at;
        return PLEAT_OK;
    }
    if (end == 0) {
        return PLEAT_EFOREIGN;
    }
    return add_some(w, pl_space_segment_at(w->space, *at), s->from, end < s->to ? end : s->to,
                    CHUNKS_AT_ONCE, at);
}

static pleat_status begin(pl_allocator *a, pleat_devptr ptr, uint64_t bytes, stretch *s)
{
    pl_space *space = (pl_space *)a;
    pleat_status st = pl_pleat_query(a, ptr, &s->block);

    s->from = ptr;
    s->to = UINT64_MAX;
    if (st == PLEAT_OK) {
        s->to = s->block.base + s->block.bytes;
    } else if (st == PLEAT_EFOREIGN) {
        s->block.bytes = 0;
        pl_space_enter(space);
        st = pl_buffer_at(space, ptr) != NULL ? PLEAT_OK : PLEAT_EFOREIGN;
        pl_space_leave(space);
    }
    if (st == PLEAT_OK && bytes > s->to - ptr) {
        return PLEAT_EFOREIGN;
    }
    s->to = bytes > 0 ? ptr + bytes : s->to;
    return st;
}

pleat_status pl_pleat_share(pl_allocator *a, pleat_devptr ptr, uint64_t bytes, pl_share_list *out)
{
    stretch s = { .from = ptr };
    walk w = { .space = (pl_space *)a, .out = out };
    pleat_devptr at = ptr;

    out->n_chunks = 0;
    out->n_blocks = 0;
    pleat_status st = begin(a, ptr, bytes, &s);
    while (st == PLEAT_OK && at < s.to) {
        pl_space_enter(w.space);
        pl_space_wait_for_move(w.space);
        st = step_locked(&w, &s, &at);
        pl_space_leave(w.space);
    }
    if (st == PLEAT_OK && out->most_blocks > 0) {
        out->blocks[0].bytes = s.to - s.from;
    }
    out->n_blocks = 1;
    return st;
}

/* ---- a heap ---------------------------------------------------------------------------------- */

/* A block of which some chunks are listed, and the list before it. */
typedef struct begun {
    pleat_devptr base;
    size_t bytes; /* 0 = none */
    size_t n_chunks;
    walk before;
} begun;

static bool is_same(const pl_block *b, const begun *part)
{
    return b->state == PL_BLOCK_LIVE && b->base == part->base && b->bytes == part->bytes;
}

/* The block has changed meanwhile: take it out of the list, and look again from its start. */
static void undo(walk *w, pl_walk *position, begun *part)
{
    *w = part->before;
    w->out->n_chunks = part->n_chunks;
    position->at = part->base;
    part->bytes = 0;
    pl_walk_lose(position);
}

/* List the next chunk of a live block. */
static pleat_status add_next(walk *w, pl_walk *position, pl_block *b, begun *part)
{
    pleat_devptr at = position->at;
    pleat_devptr end = pl_block_end(b);

    if (part->bytes == 0) {
        *part = (begun){ b->base, b->bytes, w->out->n_chunks, *w };
        at = b->base;
    }
    pleat_status st = add_some(w, position->seg, b->base, end, 1, &at);
    if (st == PLEAT_OK && at == end) {
        w->out->n_blocks++;
        part->bytes = 0;
    }
    pl_walk_on(position, at, at == end ? b->next : b);
    return st;
}

/* No segment of a heap goes meanwhile (n_walking). */
static pleat_status add_heap(walk *w, const pl_keeper *heap)
{
    pl_walk position = pl_walk_of(w->space, heap, PL_WALK_AS_LISTED);
    pleat_status st = pl_keeper_is_shut(heap) ? PLEAT_EASLEEP : PLEAT_OK;
    const pl_segment *seg = NULL;
    begun part = { 0 };

    for (pl_block *b; st == PLEAT_OK && (b = pl_walk_block(&position)) != NULL;) {
        if (w->space->flights.is_moving) {
            pl_space_wait_for_move(w->space);
            pl_walk_lose(&position);
            continue;
        }
        w->end = position.seg == seg ? w->end : 0;
        seg = position.seg;
        if (part.bytes > 0 && !is_same(b, &part)) {
            undo(w, &position, &part);
            continue;
        }
        bool is_new = b->state == PL_BLOCK_LIVE && b->base >= position.at && !b->is_claimed;
        if (part.bytes > 0 || is_new) {
            st = add_next(w, &position, b, &part);
        } else {
            pl_walk_on(&position, pl_block_end(b), b->next);
        }
    }
    return st == PLEAT_OK && pl_keeper_is_shut(heap) ? PLEAT_EASLEEP : st;
}

pleat_status pl_pleat_heap_share(pl_allocator *a, pl_keeper *heap, pl_share_list *out)
{
    pl_space *space = (pl_space *)a;
    walk w = { .space = space, .out = out };

    out->n_chunks = 0;
    out->n_blocks = 0;
    pl_space_enter(space);
    space->places.n_walking++;
    pleat_status st = add_heap(&w, heap);
    space->places.n_walking--;
    pl_space_leave(space);
    return st == PLEAT_OK && out->n_blocks == 0 ? PLEAT_EFOREIGN : st;
}
