/* quick.c - see quick.h. Guarded by the space's lock. An allocation never drops it. A free may, for
 * a tick that is due (pl_settle_freed), when all else is done. */
#include "segments/pleat/ops/quick.h"

#include "segments/pleat/space/ledger.h"
#include "segments/pleat/space/live.h"
#include "segments/pleat/space/run.h"
#include "segments/pleat/streams/settle.h"
#include "segments/pleat/streams/tick.h"

/* For functions inlined everywhere: no calls on the common path. */
#define HOT inline __attribute__((always_inline))

static bool is_free(const pl_block *b)
{
    return b != NULL && b->state == PL_BLOCK_FREE;
}

/* Is the space, and is the lane, doing nothing else? */
static inline bool is_at_rest(const pl_space *space, const pl_lane *lane)
{
    return lane != NULL && lane->capture == NULL && lane->life == PL_LANE_HEARD &&
           space->captures.n_capturers == 0 && space->flights.torn.segment == NULL;
}

/* ---- allocate -------------------------------------------------------------------------------- */

/* The better fit of `best` and the settled index. Sets *index for a settled fit. NULL: the settled
 * fit has free neighbours, so may be part of several runs. */
static inline pl_index_node *better_settled(pl_index *settled, size_t bytes, pl_index_node *best,
                                            pl_index **index)
{
    pl_index_node *other = pl_index_best(settled, bytes);

    best = other != NULL && (best == NULL || other->bytes < best->bytes) ? other : best;
    const pl_block *b = (const pl_block *)best;
    if (b == NULL || b->lane != PL_LANE_SETTLED) {
        return best;
    }
    *index = settled;
    return is_free(b->prev) || is_free(b->next) ? NULL : best;
}

/* The best fit among the lane's runs and the settled blocks of its area, if the fit is a run by
 * itself. *index: where the fit is. */
static inline pl_block *find(const pl_space *space, pl_lane *lane, size_t bytes, pl_index **index)
{
    pl_class class = bytes < space->small_bytes ? PL_CLASS_SMALL : PL_CLASS_LARGE;
    const pl_area *area = lane->areas[class];

    if (area == NULL || (space->places.n_areas[class] == PL_MOST_AREAS &&
                         lane->n_lifetime < PL_LANE_YOUNG)) { /* of a crowd: fit.c */
        return NULL;
    }
    pl_index *own = &lane->runs[class];
    pl_index *settled = area->runs[PL_LANE_SETTLED];
    pl_index_node *best = own->n_nodes > 0 ? pl_index_best(own, bytes) : NULL;
    *index = own;
    if (settled->n_nodes > 0) {
        best = better_settled(settled, bytes, best, index);
    }
    pl_block *b = (pl_block *)best;
    return b != NULL && b->bytes == b->node.bytes ? b : NULL;
}

static void leave_queue(pl_space *space, pl_lane *lane, pl_block *b)
{
    pl_queue_remove(pl_lane_pending(lane), b);
    if (pl_lane_pending(lane)->first == NULL) {
        pl_space_note_busy(space, lane);
    }
}

/* Make a live block of the first `bytes` of b, which begins in granule `from`. A rest of b keeps
 * its place in index and queue. Needs one spare block. */
static HOT pl_block *take(pl_space *space, pl_lane *lane, pl_block *b, pl_index *index, size_t from,
                          size_t bytes)
{
    bool is_pending = b->lane != PL_LANE_SETTLED;

    if (is_pending) {
        pl_ledger_pends_not(space, lane, false, bytes);
    }
    if (b->bytes > bytes) {
        pl_block *low = pl_segment_cut_low(b->segment, &space->blocks.store, b, from,
                                           b->base + bytes);
        pl_index_resize(index, &b->node, b->bytes);
        return low;
    }
    pl_index_remove(index, &b->node);
    b->is_indexed = false;
    if (is_pending) {
        leave_queue(space, lane, b);
    }
    return b;
}

/* b begins in granule `first` and ends in `last`. */
static HOT void begin_live(pl_space *space, pl_lane *lane, pl_block *b, size_t requested,
                           size_t first, size_t last)
{
    pl_segment *seg = b->segment;

    pl_turn_live(seg, &space->blocks.store.tally, b, first, last);
    pl_space_pin_loose(space, pl_segment_pin_between(seg, first, last));
    b->lane = lane->number;
    b->requested = requested;
    pl_ledger_count_born(space, lane, b, pl_stats_pool(b->bytes));
}

/* Room reserved for flights belongs to other threads. */
static inline bool has_room(const pl_space *space)
{
    return space->blocks.live.count + space->flights.n < space->blocks.live.quick &&
           space->blocks.store.n_spare > 0;
}

static HOT bool alloc(pl_space *space, pl_lane *lane, size_t requested, pleat_devptr *out)
{
    size_t bytes = (requested + PL_BLOCK_QUANTUM - 1) & ~(size_t)(PL_BLOCK_QUANTUM - 1);

    if (!has_room(space)) {
        return false;
    }
    pl_index *index;
    pl_block *b = find(space, lane, bytes, &index);
    if (b == NULL) {
        return false;
    }
    pleat_devptr base = b->base;
    size_t last;
    size_t first = pl_segment_first_and_last(b->segment, base, bytes, &last);
    pl_block_expect(b->prev, offsetof(pl_block, base));
    pl_ptrmap_expect(&space->blocks.live, base);
    space->n_calls++;
    b = take(space, lane, b, index, first, bytes);
    begin_live(space, lane, b, requested, first, last);
    pl_ptrmap_insert(&space->blocks.live, base, b);
    pl_space_tell_block(space, PL_ACTION_ALLOC, b);
    *out = base;
    return true;
}

bool pl_quick_alloc(pl_space *space, const pl_stream *stream, size_t requested, pleat_devptr *out)
{
    pl_lane *lane = pl_space_lane_of(space, stream, false);

    return is_at_rest(space, lane) && alloc(space, lane, requested, out);
}

/* ---- free ------------------------------------------------------------------------------------ */

/* Can a free block of this lane and stamp be merged with the neighbour? Not if the neighbour is
 * part of a longer run. */
static inline bool may_merge(const pl_space *space, const pl_block *neighbour, const pl_lane *lane,
                             uint64_t stamp)
{
    return neighbour->lane == lane->number && neighbour->is_indexed &&
           neighbour->node.bytes == neighbour->bytes && !neighbour->is_apart &&
           (neighbour->stamp == stamp || !pl_space_has_many_lanes(space));
}

/* b has just grown by a freed block, and goes last, even if its stamp stays. To leave b in place
 * would cost less, but the worst of the eight traces would need 1.0220 instead of 1.0194. */
static inline void renew(pl_lane *lane, pl_block *b, uint64_t stamp)
{
    pl_queue_renew(pl_lane_pending(lane), b);
    b->stamp = stamp;
}

/* b becomes a free block by itself. */
static inline void stand_alone(pl_space *space, pl_lane *lane, pl_block *b, uint64_t stamp)
{
    b->stamp = stamp;
    b->is_indexed = false;
    b->marks = 0;
    pl_queue_push(pl_lane_pending(lane), b);
    if (b->queue_prev == NULL) {
        pl_space_note_busy(space, lane);
    }
}

/* b joins the free block below. */
static inline pl_block *join_below(pl_space *space, pl_lane *lane, pl_block *b, uint64_t stamp)
{
    pl_block *low = b->prev;

    renew(lane, low, stamp);
    pl_segment_absorb(b->segment, &space->blocks.store, low, b);
    return low;
}

/* The free block above joins b. */
static inline void join_high(pl_space *space, pl_lane *lane, pl_block *b, pl_index *index)
{
    pl_block *high = b->next;

    pl_index_remove(index, &high->node);
    pl_queue_remove(pl_lane_pending(lane), high);
    pl_segment_absorb(b->segment, &space->blocks.store, b, high);
}

/* b joins the free block above, which keeps its struct and its place in the index. */
static inline pl_block *join_above(pl_space *space, pl_lane *lane, pl_block *b, uint64_t stamp,
                                   size_t first)
{
    pl_block *high = b->next;

    renew(lane, high, stamp);
    pl_segment_take_low(high->segment, &space->blocks.store, high, b, first);
    return high;
}

static inline void enter(pl_index *index, pl_block *b)
{
    if (b->is_indexed) {
        pl_index_resize(index, &b->node, b->bytes);
    } else {
        pl_index_insert(index, &b->node, b->bytes);
        b->is_indexed = true;
    }
}

/* A block to free, and its free neighbours. */
typedef struct freed {
    pl_block *block;
    pl_block *low; /* neighbours, or NULL if not free */
    pl_block *high;
    uint64_t stamp;
} freed;

/* Of the lane's blocks, without uses elsewhere. */
static inline bool may_free(const pl_space *space, const pl_lane *lane, const freed *f)
{
    const pl_segment *seg = f->block->segment;
    const pl_block *last = lane->clock.lines[PL_LINE_PENDING].queue.last;

    return !pl_segment_is_apart(seg) && (last == NULL || last->stamp <= f->stamp) &&
           (f->low == NULL || may_merge(space, f->low, lane, f->stamp)) &&
           (f->high == NULL || may_merge(space, f->high, lane, f->stamp));
}

static inline freed look(const pl_space *space, const pl_lane *lane, pl_block *b)
{
    return (freed){ .block = b,
                    .low = is_free(b->prev) ? b->prev : NULL,
                    .high = is_free(b->next) ? b->next : NULL,
                    .stamp = pl_lane_stamp(space, lane) };
}

/* The life of the block has ended, may_free holds, and the lane is at rest. pl_settle_freed comes
 * next. */
static HOT void free_beside(pl_space *space, pl_lane *lane, const freed *f)
{
    pl_block *b = f->block;
    pl_segment *seg = b->segment;
    pl_index *index = &lane->runs[seg->area->class];
    size_t bytes = b->bytes;
    size_t last;
    size_t first = pl_segment_first_and_last(seg, b->base, bytes, &last);

    pl_turn_free(seg, &space->blocks.store.tally, b, first, last);
    pl_ledger_pends(space, lane, false, bytes);
    if (f->low != NULL) {
        b = join_below(space, lane, b, f->stamp);
        if (f->high != NULL) {
            join_high(space, lane, b, index);
        }
    } else if (f->high != NULL) {
        b = join_above(space, lane, b, f->stamp, first);
    } else {
        stand_alone(space, lane, b, f->stamp);
    }
    enter(index, b);
    pl_space_loosen(space, pl_segment_loosen_between(seg, first, last));
}

/* `slot`: the slot of b in the map. */
static bool free_and_settle(pl_space *space, pl_lane *lane, pl_block *b, size_t slot, bool is_named)
{
    size_t bytes = b->bytes;
    freed f = look(space, lane, b);

    if (b->lane != lane->number || b->uses != NULL || !may_free(space, lane, &f)) {
        return false;
    }
    pl_ptrmap_remove_at(&space->blocks.live, b->base, slot);
    pl_ledger_count_freed(space, lane, b, pl_stats_pool(bytes));
    pl_space_tell_block(space, PL_ACTION_FREE_REQUESTED, b);
    pl_ledger_completed(space, b);
    free_beside(space, lane, &f);
    (void)pl_settle_freed(space, lane, bytes, is_named);
    return true;
}

bool pl_quick_free(pl_space *space, const pl_stream *stream, pleat_devptr ptr)
{
    size_t slot;
    pl_lane *lane = pl_space_lane_of(space, stream, false);
    pl_block *b = pl_ptrmap_find_at(&space->blocks.live, ptr, &slot);

    return b != NULL && !b->is_claimed && is_at_rest(space, lane) &&
           free_and_settle(space, lane, b, slot, true);
}

bool pl_quick_free_own(pl_space *space, pleat_devptr ptr, bool is_told)
{
    size_t slot;
    pl_block *b = pl_ptrmap_find_at(&space->blocks.live, ptr, &slot);

    if (b == NULL || b->is_claimed) {
        return false;
    }
    pl_lane *lane = pl_space_lane_at(space, b->lane);
    bool may = !lane->is_capture && is_at_rest(space, lane) &&
               (is_told || pl_stream_is_legacy(lane->stream));
    return may && free_and_settle(space, lane, b, slot, pl_due_stays(lane));
}
