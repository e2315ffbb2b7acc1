/* checkpoint.c - see checkpoint.h. Guarded by the device lock. */
#include "segments/pleat/pools/checkpoint.h"

#include "segments/pleat/pools/pool_ops.h"
#include "segments/pleat/space/live.h"

/* ---- walking --------------------------------------------------------------------------------- */

void pl_pool_walk_begin(pl_pool_walk *walk, pl_space *space, const pl_private *pool)
{
    *walk = (pl_pool_walk){ .space = space, .pool = pool, .since = space->n_pieces };
}

/* The pool's lowest segment that reaches beyond `at`. Segments are few, as every further segment of
 * an area is at least as large as all before. */
static pl_segment *segment_from(const pl_private *pool, pleat_devptr at)
{
    pl_segment *lowest = NULL;

    for (const pl_area *area = pool->areas; area != NULL; area = area->next) {
        for (pl_segment *seg = area->segments; seg != NULL; seg = seg->next) {
            bool is_lower = lowest == NULL || seg->range.base < lowest->range.base;
            lowest = seg->range.base + seg->range.bytes > at && is_lower ? seg : lowest;
            pl_lock_touch(1);
        }
    }
    return lowest;
}

enum { MOST_STEPS = 64, STEPS_A_PIECE = 8 };

/* A block that is not free stays when neighbours are freed and merged. So does the start of a
 * segment. The nearest fixed point below the walk is never far, and the walk steps on from
 * there. */
static void note_below(pl_pool_walk *walk, pl_block *below)
{
    if (below == NULL || below->state != PL_BLOCK_FREE) {
        walk->anchor = below;
        walk->is_near_start = below == NULL;
        walk->n_steps = 0;
    } else if (walk->n_steps++ >= MOST_STEPS) {
        walk->anchor = NULL;
        walk->is_near_start = false;
    }
}

/* The block that covers walk->at. A search among all blocks of a granule is long, so step from the
 * anchor, if set. */
static pl_block *find_at(pl_pool_walk *walk)
{
    pl_block *b = walk->is_near_start ? walk->seg->first : walk->anchor;
    size_t n = 0;

    if (b == NULL) {
        b = pl_segment_find(walk->seg, walk->at);
        note_below(walk, b->prev);
        walk->space->n_pieces += PL_PIECES_A_HOLD / 4; /* to search rarely in one hold */
        return b;
    }
    for (; pl_block_end(b) <= walk->at; n++) {
        b = b->next;
    }
    walk->n_steps = (unsigned)n;
    note_below(walk, b->prev);
    walk->space->n_pieces += n / STEPS_A_PIECE;
    pl_lock_touch(n);
    return b;
}

pl_block *pl_pool_walk_block(pl_pool_walk *walk)
{
    if (walk->seg == NULL || walk->seg->range.base + walk->seg->range.bytes <= walk->at) {
        walk->block = NULL;
        walk->anchor = NULL;
        walk->is_near_start = false;
        walk->seg = segment_from(walk->pool, walk->at);
        if (walk->seg == NULL) {
            return NULL;
        }
        walk->at = walk->at > walk->seg->range.base ? walk->at : walk->seg->range.base;
        walk->is_near_start = walk->at == walk->seg->range.base;
        walk->n_steps = 0;
    }
    if (walk->block == NULL) {
        walk->block = find_at(walk);
    }
    return walk->block;
}

void pl_pool_walk_on(pl_pool_walk *walk, pleat_devptr at, pl_block *block)
{
    pl_space *space = walk->space;

    pl_lock_touch(1);
    space->n_pieces++;
    walk->at = at;
    walk->block = block;
    if (block != NULL) {
        note_below(walk, block->prev);
    }
    if (pl_space_is_tired(space, walk->since)) {
        pl_space_breathe(space);
        walk->since = space->n_pieces;
        walk->block = NULL;
        walk->anchor = NULL;
        walk->is_near_start = false;
    }
}

pl_block *pl_checkpoint_await(pl_space *space, pleat_devptr ptr)
{
    pl_block *b = pl_ptrmap_find(&space->blocks.live, ptr);

    while (b != NULL && pl_block_is_claimed(b)) {
        pl_space_wait_for_flights(space);
        b = pl_ptrmap_find(&space->blocks.live, ptr);
    }
    return b;
}

/* ---- saving ---------------------------------------------------------------------------------- */

static bool save_block(pl_space *space, pl_roster *roster, const pl_block *b)
{
    pl_roster_block *saved = pl_roster_add(roster, &space->meta);
    pl_lane *lane = pl_space_lane_at(space, b->lane);

    if (saved == NULL) {
        return false;
    }
    *saved = (pl_roster_block){
        .base = b->base,
        .bytes = b->bytes,
        .requested = b->requested,
        .stream = pl_stream_handle(lane->stream),
        .stamp = lane->is_capture ? b->stamp : 0,
        .lane = b->lane,
    };
    lane->n_refs++;
    return true;
}

void pl_roster_forget(pl_space *space, pl_roster *roster)
{
    while (roster->first != NULL) {
        const pl_roster_page *page = roster->first;
        for (size_t i = 0; i < page->n && roster->is_holding; i++) {
            pl_space_lane_at(space, page->block[i].lane)->n_refs--;
        }
        for (size_t i = 0; i < page->n; i++) {
            pl_meta_free(&space->meta, page->block[i].waits);
        }
        pl_lock_touch(page->n);
        (void)pl_roster_drop_page(roster, &space->meta);
        pl_space_breathe(space);
    }
}

pleat_status pl_pleat_private_save(pl_allocator *a, pl_private *pool, pl_roster *out)
{
    pl_space *space = (pl_space *)a;
    pl_roster roster = { .pool = pool->number, .is_holding = true };
    pleat_status st = PLEAT_OK;
    pl_pool_walk walk;

    pl_space_enter(space);
    pl_private_keep(pool);
    pl_pool_walk_begin(&walk, space, pool);
    for (pl_block *b; st == PLEAT_OK && (b = pl_pool_walk_block(&walk)) != NULL;) {
        bool is_saved = b->state != PL_BLOCK_LIVE || b->base < walk.at ||
                        save_block(space, &roster, b);
        st = is_saved ? PLEAT_OK : PLEAT_ENOMEM_HOST;
        pl_pool_walk_on(&walk, pl_block_end(b), b->next);
    }
    if (st != PLEAT_OK) {
        pl_roster_forget(space, &roster);
    }
    pl_space_leave(space);
    *out = st == PLEAT_OK ? roster : *out;
    return st;
}

void pl_pleat_roster_drop(pl_allocator *a, pl_roster *roster)
{
    pl_space *space = pl_space_enter((pl_space *)a);

    pl_roster_forget(space, roster);
    pl_space_leave(space);
}
