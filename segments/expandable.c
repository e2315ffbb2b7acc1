/* expandable.c - the pleat allocator: allocate, free, and what users may ask of one device.
 *
 * alloc: the best resident fit of the stream's own area, then of the other areas; else it grows
 * (grow.c). free: the block becomes free memory that pends on its stream (run.c); no driver call
 * but a tick now and then. Guarded by the space's lock, rank 20. */
#include "segments/expandable.h"

#include <string.h>

#include "segments/capture.h"
#include "segments/grow.h"
#include "segments/private.h"
#include "segments/run.h"
#include "segments/settle.h"
#include "segments/stale.h"
#include "segments/trim.h"
#include "segments/walk.h"

/* Blocks that pend on several streams and are asked about before growing: some; before failing,
 * all. */
enum { POLL_SOME = 32 };

static pl_space *space_of(pl_allocator *a)
{
    return (pl_space *)a; /* base is its first member */
}

/* ---- allocate -------------------------------------------------------------------------------- */

/* The smallest run seen so far. */
typedef struct fitting {
    pl_block *best; /* NULL: none */
    size_t bytes;
} fitting;

static void try_area(const pl_area *area, const pl_request *rq, fitting *f)
{
    size_t run_bytes;

    if (area == NULL || area == rq->area) {
        return;
    }
    pl_block *b = pl_run_best(area, rq->usable, rq->bytes, &run_bytes);
    if (b != NULL && (f->best == NULL || run_bytes < f->bytes)) {
        *f = (fitting){ .best = b, .bytes = run_bytes };
    }
}

/* What it frees there will pend on this lane in that area. */
static pl_block *reach_fit(pl_space *space, const pl_request *rq, const fitting *f)
{
    if (f->best != NULL && pl_grow_reach(space, rq, f->best->segment->area) != PLEAT_OK) {
        return NULL;
    }
    return f->best;
}

/* The smallest run in the pool's areas of `class`, the own one apart. */
static pl_block *fit_elsewhere(pl_space *space, const pl_request *rq, pl_class class)
{
    fitting f = { 0 };

    if (rq->pool == NULL) {
        for (uint32_t i = class; i < space->n_area_rooms; i += PL_N_CLASSES) {
            try_area(space->areas[i], rq, &f);
        }
        return reach_fit(space, rq, &f);
    }
    for (const pl_area *area = rq->pool->areas; area != NULL; area = area->next) {
        if (area->class == class) {
            try_area(area, rq, &f);
        }
    }
    return reach_fit(space, rq, &f);
}

/* The smallest run in what private pools left behind. */
static pl_block *fit_in_released(pl_space *space, const pl_request *rq)
{
    fitting f = { 0 };

    for (const pl_area *area = space->released; area != NULL; area = area->next) {
        try_area(area, rq, &f);
    }
    return reach_fit(space, rq, &f);
}

/* The blocks of the run that starts at b as one, until it holds `bytes`; the lane and tick of the
 * last one stand for the rest. */
static void join_run(pl_space *space, pl_block *b, size_t bytes, uint32_t *lane, uint64_t *tick)
{
    while (b->bytes < bytes) {
        pl_block *next = b->next;
        *lane = next->lane;
        *tick = next->tick;
        pl_run_claim(space, next);
        pl_segment_absorb(b->segment, &space->store, b, next);
    }
}

/* Take the first `bytes` of the run that starts at b, which has no more than that. */
static void take_blocks(pl_space *space, pl_block *b, size_t bytes)
{
    uint32_t lane = b->lane;
    uint64_t tick = b->tick;
    pl_block *rest = NULL;

    pl_run_claim(space, b);
    join_run(space, b, bytes, &lane, &tick);
    if (b->bytes > bytes) {
        rest = pl_segment_split(b->segment, &space->store, b, b->base + bytes);
    }
    b->state = PL_BLOCK_LIVE;
    if (rest != NULL) {
        pl_run_free(space, rest, lane, tick);
    }
    pl_run_refresh_beside(b, b);
}

/* Cut the first `bytes` of the run that starts at b: a live block. Needs one spare. */
static pl_block *take_start(pl_space *space, pl_block *b, size_t bytes)
{
    if (b->bytes > bytes) {
        pl_run_cut(space, b, bytes);
    } else {
        take_blocks(space, b, bytes);
    }
    size_t n = pl_segment_pin(b->segment, b->base, pl_block_end(b));
    if (n > 0) {
        space->n_loose -= n;
        pl_space_pin(space, n);
    }
    return b;
}

static pl_block *fit(pl_space *space, const pl_request *rq)
{
    size_t run_bytes;
    pl_block *b = pl_run_best(rq->area, rq->usable, rq->bytes, &run_bytes);

    if (b == NULL && (rq->pool != NULL || pl_space_has_many_lanes(space))) {
        b = fit_elsewhere(space, rq, rq->area->class);
    }
    return b != NULL ? take_start(space, b, rq->bytes) : NULL;
}

/* When memory is short the size classes are no wall either, nor is who was there before. */
static pl_block *fit_in_other_class(pl_space *space, const pl_request *rq)
{
    pl_class other = rq->area->class == PL_CLASS_SMALL ? PL_CLASS_LARGE : PL_CLASS_SMALL;
    bool can_grow = pl_grow_can_create(space, rq) && !rq->is_out_of_va;
    pl_block *b = can_grow ? NULL : fit_elsewhere(space, rq, other);

    if (b == NULL && !can_grow && rq->pool == NULL) {
        b = fit_in_released(space, rq);
    }
    return b != NULL ? take_start(space, b, rq->bytes) : NULL;
}

/* In a private pool a capture uses what it freed itself: that pends on a lane of its own. */
static pleat_status prepare_private(pl_space *space, pl_stream *stream, pl_class class,
                                    pl_request *rq)
{
    pleat_status st = PLEAT_OK;

    if (rq->is_capturing) {
        st = pl_space_lane(space, stream, true, &rq->lane);
    }
    rq->usable = rq->lane->number;
    return st == PLEAT_OK ? pl_private_area(space, rq->pool, rq->lane, class, &rq->area) : st;
}

/* Where the request looks. */
static pleat_status prepare(pl_space *space, pl_stream *stream, pl_request *rq)
{
    pl_class class = rq->bytes < space->options.small_bytes ? PL_CLASS_SMALL : PL_CLASS_LARGE;
    pleat_status st = pl_space_lane(space, stream, false, &rq->lane);

    if (st == PLEAT_OK && rq->pool != NULL) {
        st = prepare_private(space, stream, class, rq);
    } else if (st == PLEAT_OK) {
        rq->usable = rq->is_capturing ? PL_LANE_SETTLED : rq->lane->number;
        st = pl_space_area(space, rq->lane, class, &rq->area);
    }
    return st;
}

/* Before growing, once: learn what has settled, and unmap what was taken. True: the lock was
 * dropped, so look again, and reserve again: others have used what was reserved. */
static bool refresh(pl_space *space, pl_request *rq)
{
    if (rq->has_polled || rq->is_capturing) {
        return false;
    }
    rq->has_polled = true;
    if (!pl_space_has_many_lanes(space) && space->n_stale == 0 && space->many.first == NULL &&
        space->apart.first == NULL) {
        return false;
    }
    (void)pl_settle_poll_all(space, rq->lane, POLL_SOME);
    (void)pl_stale_reap(space);
    return true;
}

/* Nothing resident fits where the request looks first. */
static __attribute__((noinline)) pl_step look_further(pl_space *space, pl_request *rq,
                                                      pl_block **out, pleat_status *st)
{
    if (refresh(space, rq)) {
        return PL_STEP_AGAIN;
    }
    *out = fit_in_other_class(space, rq);
    return *out != NULL ? PL_STEP_DONE : pl_grow_step(space, rq, out, st);
}

/* Host memory comes first, for what cannot fail later. */
static pleat_status find(pl_space *space, pl_request *rq, pl_block **out)
{
    for (;;) {
        pleat_status st = pl_ptrmap_reserve(&space->live, &space->host, space->n_flights + 1);
        if (st == PLEAT_OK) {
            st = pl_block_store_reserve(&space->store, 2);
        }
        if (st != PLEAT_OK) {
            return st;
        }
        *out = fit(space, rq);
        if (*out != NULL || look_further(space, rq, out, &st) == PL_STEP_DONE) {
            return st;
        }
    }
}

static void account_alloc(pl_space *space, size_t bytes, size_t requested)
{
    unsigned pool = pl_stats_pool(bytes);
    pleat_stats *s = &space->stats;

    pl_stats_add(s->allocation, pool, 1);
    pl_stats_add(s->allocated_bytes, pool, bytes);
    pl_stats_add(s->requested_bytes, pool, requested);
}

static void account_free(pl_space *space, size_t bytes, size_t requested)
{
    unsigned pool = pl_stats_pool(bytes);
    pleat_stats *s = &space->stats;

    pl_stats_sub(s->allocation, pool, 1);
    pl_stats_sub(s->allocated_bytes, pool, bytes);
    pl_stats_sub(s->requested_bytes, pool, requested);
}

static __attribute__((noinline)) pleat_status alloc_from(pl_space *space, pl_private *pool,
                                                         size_t bytes, pl_stream *stream,
                                                         pleat_devptr *out)
{
    pl_request rq = {
        .pool = pool,
        .bytes = (bytes + PL_BLOCK_QUANTUM - 1) & ~(size_t)(PL_BLOCK_QUANTUM - 1),
    };
    pl_block *b = NULL;
    pleat_status st = pl_capture_is_active(space, stream, &rq.is_capturing);

    if (st != PLEAT_OK) {
        return st;
    }
    pl_lock_acquire(&space->lock);
    rq.event = ++space->budget.n_events;
    st = prepare(space, stream, &rq);
    if (st == PLEAT_OK) {
        st = find(space, &rq, &b);
    }
    if (st != PLEAT_OK) {
        space->stats.num_ooms += st == PLEAT_ENOMEM_DEVICE;
        pl_lock_release(&space->lock);
        return st;
    }
    b->requested = bytes;
    b->lane = rq.lane->number;
    b->is_captured = rq.is_capturing && pool == NULL;
    pl_ptrmap_insert(&space->live, b->base, b);
    account_alloc(space, b->bytes, bytes);
    pl_space_tell_block(space, PL_ACTION_ALLOC, b);
    *out = b->base;
    if (rq.wants_tick) {
        pl_settle_tick(space, rq.lane);
    }
    pl_lock_release(&space->lock);
    return PLEAT_OK;
}

static pleat_status expandable_alloc(pl_allocator *a, size_t bytes, pl_stream *stream,
                                     pleat_devptr *out)
{
    return alloc_from(space_of(a), NULL, bytes, stream, out);
}

static pleat_status expandable_private_alloc(pl_allocator *a, pl_private *pool, size_t bytes,
                                             pl_stream *stream, pleat_devptr *out)
{
    return alloc_from(space_of(a), pool, bytes, stream, out);
}

/* ---- free ------------------------------------------------------------------------------------ */

/* The live block of `ptr`, or why there is none. */
static pleat_status not_live(pl_space *space, pleat_devptr ptr)
{
    pl_segment *seg = pl_space_segment_at(space, ptr);

    if (seg == NULL) {
        return PLEAT_EFOREIGN;
    }
    const pl_block *b = pl_segment_find(seg, ptr);
    bool is_inside = b->state == PL_BLOCK_LIVE || b->state == PL_BLOCK_FLIGHT;
    return is_inside ? PLEAT_EFOREIGN : PLEAT_EDOUBLEFREE;
}

/* Another stream uses b too. Needs no more than host memory. */
static pleat_status add_use(pl_space *space, pl_block *b, pl_stream *stream)
{
    pl_uses *uses = b->uses;

    for (uint32_t i = 0; uses != NULL && i < uses->n; i++) {
        if (uses->use[i].stream == stream) {
            return PLEAT_OK;
        }
    }
    if (uses == NULL || uses->n == uses->room) {
        uint32_t room = uses == NULL ? 2 : uses->room * 2;
        uses = pl_host_realloc(&space->host, b->uses, sizeof(*uses) + room * sizeof(pl_use));
        if (uses == NULL) {
            return PLEAT_ENOMEM_HOST;
        }
        uses->n = b->uses == NULL ? 0 : uses->n;
        uses->room = room;
        b->uses = uses;
    }
    uses->use[uses->n++] = (pl_use){ .stream = stream };
    return PLEAT_OK;
}

/* Other streams use b yet, or a graph or a private pool has a claim to it. */
static __attribute__((noinline)) void free_claimed(pl_space *space, pl_block *b, pl_lane *capturing)
{
    if (b->uses != NULL) {
        pl_settle_mark_captured(space, b);
    }
    if (b->segment->is_private) {
        pl_private_free(space, b, capturing != NULL);
        return;
    }
    pl_lane *lane = space->lanes[b->lane - 1];
    if (capturing != NULL || b->is_captured) {
        pl_capture_keep(space, b, capturing != NULL ? capturing : lane);
        return;
    }
    pl_settle_free_many(space, b, lane);
}

/* `capturing`: the lane in whose capture this free is, or NULL. */
static void free_block(pl_space *space, pl_block *b, pl_lane *capturing)
{
    pl_space_tell_block(space, PL_ACTION_FREE_REQUESTED, b);
    if (b->uses != NULL || b->is_captured || capturing != NULL || b->segment->is_private) {
        free_claimed(space, b, capturing);
        return;
    }
    pl_lane *lane = space->lanes[b->lane - 1];
    pl_space_tell_block(space, PL_ACTION_FREE_COMPLETED, b);
    pl_run_free(space, b, lane->number, lane->next_tick);
    if (pl_space_has_many_lanes(space) && ++lane->n_frees >= PL_FREES_PER_TICK) {
        pl_settle_tick(space, lane);
        (void)pl_settle_poll(space, lane);
    }
}

static pleat_status expandable_free(pl_allocator *a, pleat_devptr ptr, pl_stream *stream)
{
    pl_space *space = space_of(a);
    pl_lane *capturing = NULL;
    bool is_capturing;
    size_t slot;
    pleat_status st = pl_capture_is_active(space, stream, &is_capturing);

    if (st != PLEAT_OK) {
        return st;
    }
    pl_lock_acquire(&space->lock);
    pl_block *b = pl_ptrmap_find_at(&space->live, ptr, &slot);
    if (b == NULL) {
        st = not_live(space, ptr);
    } else if (is_capturing) {
        st = pl_space_lane(space, stream, false, &capturing);
    }
    if (st == PLEAT_OK && space->lanes[b->lane - 1]->stream != stream) {
        st = add_use(space, b, stream);
    }
    if (st == PLEAT_OK) {
        space->budget.n_events++;
        pl_ptrmap_remove_at(&space->live, slot);
        account_free(space, b->bytes, b->requested);
        free_block(space, b, capturing);
    }
    pl_lock_release(&space->lock);
    return st;
}

static pleat_status expandable_record_stream(pl_allocator *a, pleat_devptr ptr, pl_stream *stream)
{
    pl_space *space = space_of(a);

    pl_lock_acquire(&space->lock);
    pl_block *b = pl_ptrmap_find(&space->live, ptr);
    pleat_status st = b == NULL ? not_live(space, ptr) : PLEAT_OK;
    if (b != NULL && space->lanes[b->lane - 1]->stream != stream) {
        st = add_use(space, b, stream);
    }
    pl_lock_release(&space->lock);
    return st;
}

static pleat_status expandable_query(pl_allocator *a, pleat_devptr ptr, pleat_block_info *out)
{
    pl_space *space = space_of(a);
    pleat_status st = PLEAT_EFOREIGN;

    pl_lock_acquire(&space->lock);
    pl_segment *seg = pl_space_segment_at(space, ptr);
    const pl_block *b = seg != NULL ? pl_segment_find(seg, ptr) : NULL;
    if (b != NULL && b->state == PL_BLOCK_LIVE && pl_ptrmap_find(&space->live, b->base) == b) {
        pl_stream *owner = space->lanes[b->lane - 1]->stream;
        *out = (pleat_block_info){
            .base = b->base,
            .bytes = b->bytes,
            .requested_bytes = b->requested,
            .stream_id = pl_stream_id(owner),
            .stream = pl_stream_handle(owner),
            .device = pl_device_ordinal(space->dev),
        };
        st = PLEAT_OK;
    }
    pl_lock_release(&space->lock);
    return st;
}

static int expandable_check(pl_allocator *a)
{
    pl_space *space = space_of(a);

    pl_lock_acquire(&space->lock);
    int broken = pl_walk_space(space);
    pl_lock_release(&space->lock);
    return broken;
}

static void expandable_stats(pl_allocator *a, pleat_stats *out)
{
    pl_space *space = space_of(a);

    pl_lock_acquire(&space->lock);
    pl_walk_stats(space, out);
    pl_lock_release(&space->lock);
}

static void expandable_visit(pl_allocator *a, void (*see)(void *context, const pl_piece *piece),
                             void *context)
{
    pl_space *space = space_of(a);

    pl_lock_acquire(&space->lock);
    pl_walk_visit(space, see, context);
    pl_lock_release(&space->lock);
}

static void expandable_reset_peaks(pl_allocator *a)
{
    pl_space *space = space_of(a);

    pl_lock_acquire(&space->lock);
    pl_stats_reset_peaks(&space->stats);
    space->peak_chunks = space->n_chunks;
    space->peak_shown = space->n_pinned;
    pl_lock_release(&space->lock);
}

const pl_allocator_ops pl_expandable_ops = {
    .name = "pleat",
    .needs_vmm = true,
    .create = pl_expandable_create,
    .destroy = pl_expandable_destroy,
    .alloc = expandable_alloc,
    .free = expandable_free,
    .record_stream = expandable_record_stream,
    .query = expandable_query,
    .trim = pl_expandable_trim,
    .set_limit = pl_expandable_set_limit,
    .release_capture = pl_expandable_release_capture,
    .private_open = pl_expandable_private_open,
    .private_alloc = expandable_private_alloc,
    .private_rest = pl_expandable_private_rest,
    .private_release = pl_expandable_private_release,
    .private_reserved = pl_expandable_private_reserved,
    .stats = expandable_stats,
    .reset_peaks = expandable_reset_peaks,
    .visit = expandable_visit,
    .check = expandable_check,
};
