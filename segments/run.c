/* run.c - see run.h. Guarded by the device lock. Never fails, never calls the driver. */
#include "segments/run.h"

typedef struct run {
    pl_block *leader; /* first block that pends on the lane; NULL = all settled */
    size_t bytes;
} run;

/* It exists: pl_area_reach came before the block. */
static pl_index *index_of(const pl_block *b)
{
    return b->segment->area->runs[b->lane];
}

void pl_run_drop(pl_block *b)
{
    if (b->is_indexed) {
        pl_index_remove(index_of(b), &b->node);
        b->is_indexed = false;
    }
}

static void enter(pl_block *b, size_t bytes)
{
    if (b->is_indexed) {
        if (b->node.bytes == bytes) {
            return;
        }
        pl_run_drop(b);
    }
    pl_index_insert(index_of(b), &b->node, bytes);
    b->is_indexed = true;
}

/* The run of `lane` that b, which it may use, is part of; only its leader stays indexed. */
static void refresh_run(pl_block *b, uint32_t lane)
{
    run r = { 0 };
    pl_block *at = b;

    while (at->prev != NULL && pl_run_may_use(at->prev, lane)) {
        at = at->prev;
    }
    for (; at != NULL && pl_run_may_use(at, lane); at = at->next) {
        r.bytes += at->bytes;
        if (at->lane != lane) {
            continue;
        }
        if (r.leader == NULL) {
            r.leader = at;
        } else {
            pl_run_drop(at);
        }
    }
    if (r.leader != NULL) {
        enter(r.leader, r.bytes);
    }
}

static bool is_pending(const pl_block *b)
{
    return b != NULL && b->state == PL_BLOCK_FREE && b->lane != PL_LANE_SETTLED;
}

void pl_run_refresh(pl_block *b)
{
    if (b->lane != PL_LANE_SETTLED) {
        refresh_run(b, b->lane);
        return;
    }
    enter(b, b->bytes);
    if (is_pending(b->prev)) {
        refresh_run(b->prev, b->prev->lane);
    }
    if (is_pending(b->next)) {
        refresh_run(b->next, b->next->lane);
    }
}

void pl_run_refresh_beside(pl_block *first, pl_block *last)
{
    if (first->prev != NULL && first->prev->state == PL_BLOCK_FREE) {
        pl_run_refresh(first->prev);
    }
    if (last->next != NULL && last->next->state == PL_BLOCK_FREE) {
        pl_run_refresh(last->next);
    }
}

pl_block *pl_run_first(pl_block *leader)
{
    /* What comes before the leader is settled, and settled neighbours are merged. */
    if (leader->lane != PL_LANE_SETTLED && leader->prev != NULL &&
        leader->prev->state == PL_BLOCK_FREE && leader->prev->lane == PL_LANE_SETTLED) {
        return leader->prev;
    }
    return leader;
}

pl_block *pl_run_best(const pl_area *area, uint32_t lane, size_t bytes, size_t *run_bytes)
{
    const pl_index *own = pl_area_runs(area, lane);
    const pl_index *settled = pl_area_runs(area, PL_LANE_SETTLED);
    pl_index_node *best = own != NULL && own->n_nodes > 0 ? pl_index_best(own, bytes) : NULL;

    if (settled->n_nodes > 0 && lane != PL_LANE_SETTLED) {
        pl_index_node *other = pl_index_best(settled, bytes);
        if (other != NULL && (best == NULL || other->bytes < best->bytes)) {
            best = other;
        }
    }
    if (best == NULL) {
        return NULL;
    }
    *run_bytes = best->bytes;
    return pl_run_first((pl_block *)best);
}

/* ---- changes ----------------------------------------------------------------------------- */

static pl_block_queue *pending_of(pl_lane *lane, const pl_block *b)
{
    return b->segment->is_private ? &lane->apart : &lane->pending;
}

static size_t *pending_bytes_of(pl_lane *lane, const pl_block *b)
{
    return b->segment->is_private ? &lane->apart_bytes : &lane->pending_bytes;
}

static bool is_queued(const pl_space *space, const pl_block *b)
{
    return b->lane != PL_LANE_SETTLED && pl_space_has_many_lanes(space);
}

/* What comes back to the queue with an older tick than the last one's waits for that one. */
static void push(pl_space *space, pl_block *b)
{
    pl_lane *lane = space->lanes[b->lane - 1];
    pl_block_queue *pending = pending_of(lane, b);
    const pl_block *last = pending->last;
    if (last != NULL && b->tick < last->tick) {
        b->tick = last->tick;
    }
    pl_queue_push(pending, b);
    *pending_bytes_of(lane, b) += b->bytes;
}

static inline void queue(pl_space *space, pl_block *b)
{
    if (is_queued(space, b)) {
        push(space, b);
    }
}

static inline void unqueue(pl_space *space, pl_block *b)
{
    if (is_queued(space, b)) {
        pl_lane *lane = space->lanes[b->lane - 1];
        pl_queue_remove(pending_of(lane, b), b);
        *pending_bytes_of(lane, b) -= b->bytes;
    }
}

/* Is the neighbour like b, which is free? With one lane the tick is no matter, the later one covers
 * both. */
static inline bool may_merge(const pl_space *space, const pl_block *b, const pl_block *neighbour)
{
    return neighbour != NULL && neighbour->state == PL_BLOCK_FREE && neighbour->lane == b->lane &&
           (b->lane == PL_LANE_SETTLED || neighbour->tick == b->tick ||
            !pl_space_has_many_lanes(space));
}

/* Merge `high`, a free block in no index, into its lower neighbour or the reverse. */
static pl_block *merge(pl_space *space, pl_block *low, pl_block *high)
{
    pl_run_drop(low);
    pl_run_drop(high);
    unqueue(space, low);
    unqueue(space, high);
    if (high->tick > low->tick) {
        low->tick = high->tick;
    }
    pl_segment_absorb(low->segment, &space->store, low, high);
    queue(space, low);
    return low;
}

pl_block *pl_run_free(pl_space *space, pl_block *b, uint32_t lane, uint64_t tick)
{
    b->state = PL_BLOCK_FREE;
    b->lane = lane;
    b->tick = tick;
    b->is_indexed = false;
    queue(space, b);
    if (may_merge(space, b, b->prev)) {
        b = merge(space, b->prev, b);
    }
    if (may_merge(space, b, b->next)) {
        b = merge(space, b, b->next);
    }
    if (!b->segment->is_private) {
        size_t n = pl_segment_loosen(b->segment, b);
        if (n > 0) {
            space->n_loose += n;
            space->n_pinned -= n;
        }
    }
    pl_run_refresh(b);
    return b;
}

void pl_run_claim(pl_space *space, pl_block *b)
{
    pl_run_drop(b);
    unqueue(space, b);
}

/* The rest cannot be merged: b's neighbour was not like b. Its granules are as loose as before, and
 * it pends as long: so it takes b's turn in the queue. A run of another lane reached across b only
 * if b is settled: behind it refreshing the rest cares for that. */
void pl_run_cut(pl_space *space, pl_block *b, size_t bytes)
{
    pl_run_drop(b);
    pl_block *rest = pl_segment_split(b->segment, &space->store, b, b->base + bytes);
    if (is_queued(space, b)) {
        pl_lane *lane = space->lanes[b->lane - 1];
        *pending_bytes_of(lane, b) -= bytes;
        pl_queue_replace(pending_of(lane, b), b, rest);
    }
    b->state = PL_BLOCK_LIVE; /* no run reaches across it any more */
    pl_run_refresh(rest);
    if (b->lane == PL_LANE_SETTLED && is_pending(b->prev)) {
        refresh_run(b->prev, b->prev->lane);
    }
}

pl_block *pl_run_move(pl_space *space, pl_block *b, uint32_t lane, uint64_t tick)
{
    pl_run_claim(space, b);
    b->lane = lane;
    b->tick = tick;
    queue(space, b);
    if (may_merge(space, b, b->prev)) {
        b = merge(space, b->prev, b);
    }
    if (may_merge(space, b, b->next)) {
        b = merge(space, b, b->next);
    }
    pl_run_refresh_beside(b, b);
    pl_run_refresh(b);
    return b;
}

void pl_run_set_private(pl_space *space, pl_segment *seg, bool is_private)
{
    for (pl_block *b = seg->first; b != NULL; b = b->next) {
        if (b->state == PL_BLOCK_FREE) {
            unqueue(space, b);
        }
    }
    seg->is_private = is_private;
    for (pl_block *b = seg->first; b != NULL; b = b->next) {
        if (b->state == PL_BLOCK_FREE) {
            queue(space, b);
        }
    }
}

int pl_run_check(const pl_segment *seg)
{
    for (const pl_block *b = seg->first; b != NULL; b = b->next) {
        if (b->state != PL_BLOCK_FREE) {
            if (b->is_indexed) {
                return 1;
            }
            continue;
        }
        if (b->lane == PL_LANE_SETTLED) {
            if (!b->is_indexed || b->node.bytes != b->bytes) {
                return 1;
            }
            continue;
        }
        const pl_block *first = b;
        bool leads = true;
        while (first->prev != NULL && pl_run_may_use(first->prev, b->lane)) {
            first = first->prev;
            leads = leads && first->lane != b->lane;
        }
        size_t bytes = 0;
        for (; first != NULL && pl_run_may_use(first, b->lane); first = first->next) {
            bytes += first->bytes;
        }
        if (b->is_indexed != leads || (leads && b->node.bytes != bytes)) {
            return 1;
        }
    }
    return 0;
}
