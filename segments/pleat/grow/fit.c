/* fit.c - the best fit in resident memory: see grow.h. Guarded by the space's lock. */
#include "segments/pleat/grow/grow.h"

#include "segments/pleat/grow/place.h"
#include "segments/pleat/grow/trim.h"
#include "segments/pleat/space/keeper.h"
#include "segments/pleat/space/run.h"
#include "segments/pleat/streams/capture_see.h"
#include "segments/pleat/streams/context.h"
#include "segments/pleat/streams/drain.h"
#include "segments/pleat/streams/lanes.h"
#include "segments/pleat/streams/settle.h"
#include "segments/pleat/streams/tick.h"
#include "vmm/base/deadline.h"

/* ---- the request ----------------------------------------------------------------------------- */

/* In a private pool a capture uses memory that the capture freed: such memory pends on the stream's
 * second lane. A heap works like the default pool. */
static pleat_status prepare_private(pl_space *space, pl_stream *stream, pl_class class,
                                    pl_request *rq)
{
    bool is_private = pl_request_is_private(rq);
    pleat_status st = pl_keeper_is_shut(rq->keeper) ? PLEAT_EASLEEP : PLEAT_OK;

    if (rq->is_capturing && is_private) { /* no heap */
        st = pl_lanes_of(space, stream, true, &rq->lane);
    }
    if (st != PLEAT_OK) {
        return st;
    }
    rq->usable = rq->is_capturing && !is_private ? PL_LANE_SETTLED : rq->lane->number;
    return pl_keeper_area(space, rq->keeper, rq->lane, class, &rq->area);
}

pleat_status pl_fit_prepare(pl_space *space, pl_lane *plain, pl_request *rq)
{
    /* In a private pool memory stays in place: a block that outlives its neighbours would fence the
     * larger blocks off. So blocks up to half a granule share granules among themselves. */
    size_t least_large = pl_request_is_private(rq) ? space->granule_bytes / 2 + 1
                                                   : space->small_bytes;
    pl_class class = rq->bytes < least_large ? PL_CLASS_SMALL : PL_CLASS_LARGE;

    rq->lane = plain;
    if (rq->keeper != NULL) {
        return prepare_private(space, plain->stream, class, rq);
    }
    rq->usable = rq->is_capturing ? PL_LANE_SETTLED : plain->number;
    return pl_space_area(space, plain, class, &rq->area);
}

/* ---- the areas ------------------------------------------------------------------------------- */

/* The smallest run seen so far. */
typedef struct fitting {
    pl_block *best; /* NULL: none */
    size_t bytes;
} fitting;

/* The first block of all free memory around b that the lane may use. In *counts the bytes of that
 * memory and of a hole behind it; *n_steps counts the blocks seen. */
static pl_block *whole_run(pl_block *b, uint32_t lane, size_t *counts, size_t *n_steps)
{
    const pl_block *end = b;
    size_t n = 1;

    for (; b->prev != NULL && pl_run_may_use(b->prev, lane); n++) {
        b = b->prev;
    }
    for (; end != NULL && pl_run_may_use(end, lane); n++) {
        end = end->next;
    }
    end = end != NULL && end->state == PL_BLOCK_HOLE ? end->next : end;
    pleat_devptr limit = end != NULL ? end->base : b->segment->range.base + b->segment->range.bytes;
    *counts = (size_t)(limit - b->base);
    *n_steps += n;
    pl_lock_touch(n);
    return b;
}

enum { MOST_STEPS = 64 };

/* What a pool keeps stays in place, so where a block goes matters more than elsewhere. A run that
 * can grow into a hole is where the pool's largest blocks will find room: a small block there
 * would shift all growth behind it. And memory that the capture has just freed belongs to one run
 * with settled memory beside it. So each run counts as a whole, with the hole behind it, and the
 * run that counts least serves. Looks at a bounded number of runs, from the smallest on.
 * Source: wilderness preservation (Korn and Vo 1985), as in PyTorch's expandable segments. */
static pl_block *least_whole(const pl_space *space, const pl_area *area, uint32_t lane,
                             pl_block *best, size_t *counts)
{
    pl_block *next = best;
    size_t bytes = *counts;
    size_t n_steps = 0;

    *counts = SIZE_MAX;
    while (next != NULL && bytes < *counts && n_steps < MOST_STEPS) {
        size_t next_counts;
        next = whole_run(next, lane, &next_counts, &n_steps);
        best = next_counts < *counts ? next : best;
        *counts = next_counts < *counts ? next_counts : *counts;
        next = pl_run_best(space, area, lane, bytes + 1, &bytes);
    }
    return best;
}

/* The best fit in the area, and in *counts its bytes, or more: to compare with other areas'. */
static pl_block *best_in(const pl_space *space, const pl_area *area, uint32_t lane,
                         const pl_request *rq, size_t *counts)
{
    pl_block *best = pl_run_best(space, area, lane, rq->bytes, counts);
    bool is_kept = __builtin_expect(rq->keeper != NULL, false) && rq->keeper->keeps;

    return is_kept && best != NULL ? least_whole(space, area, lane, best, counts) : best;
}

static void try_area(const pl_space *space, const pl_area *area, const pl_request *rq, fitting *f)
{
    size_t run_bytes;
    uint32_t lane = rq->keeper != NULL ? rq->usable : PL_LANE_SETTLED;

    if (area == rq->area) {
        return;
    }
    pl_block *b = best_in(space, area, lane, rq, &run_bytes);
    if (b != NULL && (f->best == NULL || run_bytes < f->bytes)) {
        *f = (fitting){ .best = b, .bytes = run_bytes };
    }
}

/* The smallest run in the pool's areas of `class`, without the request's own area. In the default
 * pool the search of the own area has covered the lane's pending runs of that class only. */
static pl_block *fit_elsewhere(pl_space *space, const pl_request *rq, pl_class class)
{
    fitting f = { 0 };

    if (rq->keeper == NULL) {
        for (unsigned i = 0; i < space->places.n_areas[class]; i++) {
            try_area(space, space->places.areas[class][i], rq, &f);
        }
        size_t run_bytes;
        pl_block *own = class != rq->area->class && space->places.n_areas[class] > 0
                            ? pl_run_best(space, space->places.areas[class][0], rq->usable,
                                          rq->bytes, &run_bytes)
                            : NULL;
        return own != NULL && (f.best == NULL || run_bytes < f.bytes) ? own : f.best;
    }
    for (const pl_area *area = rq->keeper->areas; area != NULL; area = area->next) {
        pl_lock_touch(1);
        if (area->class == class) {
            try_area(space, area, rq, &f);
        }
    }
    bool is_reserved = f.best == NULL ||
                       pl_grow_reserve_index(space, rq, f.best->segment->area) == PLEAT_OK;
    return is_reserved ? f.best : NULL;
}

enum { RELEASED_LOOKS = 64 };

/* The smallest run in the first areas that private pools left behind. */
static pl_block *fit_in_released(pl_space *space, const pl_request *rq)
{
    fitting f = { 0 };
    unsigned n = RELEASED_LOOKS;

    for (const pl_area *area = space->places.released; area != NULL && n > 0;
         area = area->next, n--) {
        try_area(space, area, rq, &f);
    }
    return f.best;
}

/* ---- what was found -------------------------------------------------------------------------- */

/* Join blocks of the run that starts at b until b holds `bytes`. *lane and *stamp become the last
 * block's, for the rest of that block. */
static void join_run(pl_space *space, pl_block *b, size_t bytes, uint32_t *lane, uint64_t *stamp)
{
    while (b->bytes < bytes) {
        pl_block *next = b->next;
        *lane = next->lane;
        *stamp = next->stamp;
        pl_run_claim(space, next);
        b->is_strange = b->is_strange || next->is_strange;
        pl_segment_absorb(b->segment, &space->blocks.store, b, next);
    }
}

/* Make a live block of the first `bytes` of the run that starts at b. b has `bytes` or less. */
static void take_blocks(pl_space *space, pl_block *b, size_t bytes)
{
    uint32_t lane = b->lane;
    uint64_t stamp = b->stamp;
    pl_block *rest = NULL;

    pl_run_claim(space, b);
    join_run(space, b, bytes, &lane, &stamp);
    if (b->bytes > bytes) {
        rest = pl_segment_split(b->segment, &space->blocks.store, b, b->base + bytes);
    }
    pl_segment_become(b->segment, &space->blocks.store, b, PL_BLOCK_LIVE);
    if (rest != NULL) {
        pl_run_free(space, rest, lane, stamp);
    }
    pl_run_refresh_beside(space, b, b);
}

/* Make a live block of the first `bytes` of the run that starts at b. Needs one spare block. */
static pl_block *take_start(pl_space *space, pl_block *b, size_t bytes)
{
    if (b->bytes > bytes) {
        pl_run_cut(space, b, bytes);
    } else {
        take_blocks(space, b, bytes);
    }
    pl_space_pin_loose(space, pl_segment_pin(b->segment, b->base, pl_block_end(b)));
    return b;
}

/* ---- what is resident ------------------------------------------------------------------------ */

/* Is the lane young, and do streams share all areas? A young lane may not come back to its area, so
 * the best fit in all areas wastes least. */
static bool is_of_a_crowd(const pl_space *space, const pl_request *rq)
{
    return rq->lane->n_lifetime < PL_LANE_YOUNG && rq->keeper == NULL &&
           space->places.n_areas[rq->area->class] == PL_MOST_AREAS;
}

static __attribute__((noinline)) pl_block *fit_in_crowd(const pl_space *space, const pl_request *rq,
                                                        pl_block *own, size_t own_bytes)
{
    fitting f = { .best = own, .bytes = own_bytes };

    for (unsigned i = 0; i < space->places.n_areas[rq->area->class]; i++) {
        try_area(space, space->places.areas[rq->area->class][i], rq, &f);
    }
    return f.best;
}

static pl_block *fit(pl_space *space, const pl_request *rq)
{
    size_t run_bytes;
    pl_block *b = best_in(space, rq->area, rq->usable, rq, &run_bytes);

    if (__builtin_expect(b != NULL && is_of_a_crowd(space, rq), false)) {
        b = fit_in_crowd(space, rq, b, run_bytes);
    }
    if (b == NULL) {
        b = fit_elsewhere(space, rq, rq->area->class);
    }
    return b != NULL ? take_start(space, b, rq->bytes) : NULL;
}

static pl_step found(pl_attempt *t, pl_block *b)
{
    t->block = b;
    return b != NULL ? PL_STEP_DONE : PL_STEP_NEXT;
}

pl_step pl_fit_resident(pl_attempt *t)
{
    bool is_fixed = __builtin_expect(t->rq->in != NULL, false);

    return found(t, is_fixed ? pl_fixed_fit(t->space, t->rq) : fit(t->space, t->rq));
}

bool pl_fit_may_elsewhere(const pl_attempt *t)
{
    return t->rq->in == NULL && (t->rq->is_out_of_va || !pl_grow_can_create(t->space, t->rq));
}

pl_step pl_fit_elsewhere(pl_attempt *t)
{
    const pl_request *rq = t->rq;
    pl_class other = rq->area->class == PL_CLASS_SMALL ? PL_CLASS_LARGE : PL_CLASS_SMALL;
    pl_block *b = fit_elsewhere(t->space, rq, other);

    if (b == NULL && rq->keeper == NULL) {
        b = fit_in_released(t->space, rq);
    }
    return found(t, b != NULL ? take_start(t->space, b, rq->bytes) : NULL);
}

/* ---- what is over ---------------------------------------------------------------------------- */

/* Records worthy ticks where that is allowed, and asks which ticks have passed. */
pl_step pl_fit_poll(pl_attempt *t)
{
    pl_space *space = t->space;
    pl_request *rq = t->rq;

    pl_deadline_begin(); /* nothing was waited for yet */
    rq->n_done[PL_POLLED] = 1;
    if (rq->is_capturing) { /* queries and unmaps nothing */
        return PL_STEP_NEXT;
    }
    pl_tick_record_if_wanted(space, rq->lane); /* the call names its stream */
    (void)pl_settle_want_worthy_ticks(space, rq->lane, PL_LANE_LOOKS);
    rq->has_passed = pl_tick_poll(space, PL_TICK_QUERIES);
    pl_context_tick_record_if_due(space);
    (void)pl_stale_reap(space);
    (void)pl_settle_some(space);
    return PL_STEP_AGAIN;
}

/* A block used by several streams waits for the streams in turn, and then for its owner. */
static bool poll_again(pl_space *space, pl_request *rq)
{
    if (!rq->has_passed) {
        return false;
    }
    rq->has_passed = pl_settle_want_worthy_ticks(space, rq->lane, PL_LANE_LOOKS) &&
                     pl_tick_poll(space, PL_TICK_QUERIES);
    return rq->has_passed;
}

pl_step pl_fit_settle(pl_attempt *t)
{
    pl_space *space = t->space;

    if (pl_settle_some(space) == 0 && !pl_capture_look(space) && !pl_drain_some(space) &&
        !poll_again(space, t->rq)) {
        return PL_STEP_NEXT;
    }
    t->rq->n_done[PL_REFRESHED]++;
    pl_space_breathe(space);
    return PL_STEP_AGAIN;
}
