/* private.c - see private.h. Guarded by the device lock. */
#include "segments/private.h"

#include "segments/run.h"
#include "segments/settle.h"

enum { LEAST_SEGMENT = 64, SHARE_LOG2 = 6 };

/* ---- areas ----------------------------------------------------------------------------------- */

/* Does nothing live there, and is nothing on its way? */
static bool is_quiet(const pl_area *area)
{
    for (const pl_segment *seg = area->segments; seg != NULL; seg = seg->next) {
        for (const pl_block *b = seg->first; b != NULL; b = b->next) {
            if (b->state == PL_BLOCK_LIVE || b->state == PL_BLOCK_MANY ||
                b->state == PL_BLOCK_KEPT || b->state == PL_BLOCK_FLIGHT) {
                return false;
            }
        }
    }
    return true;
}

static size_t resident_bytes(const pl_area *area)
{
    size_t n = 0;

    for (const pl_segment *seg = area->segments; seg != NULL; seg = seg->next) {
        for (size_t g = 0; g < seg->n_rooms; g++) {
            n += seg->chunks[g] != 0 ? pl_segment_granule_bytes(seg) : 0;
        }
    }
    return n;
}

/* Take an area out of the released ones; NULL if something lives in each of them. */
static pl_area *recycle(pl_space *space)
{
    for (pl_area **at = &space->released; *at != NULL; at = &(*at)->next) {
        pl_area *area = *at;
        if (is_quiet(area)) {
            *at = area->next;
            return area;
        }
    }
    return NULL;
}

static void tell_memory(const pl_space *space, const pl_area *area, pl_action action)
{
    for (const pl_segment *seg = area->segments; seg != NULL; seg = seg->next) {
        size_t n = 0;
        for (size_t g = 0; g < seg->n_rooms; g += n + 1) {
            for (n = 0; g + n < seg->n_rooms && seg->chunks[g + n] != 0;) {
                n++;
            }
            if (n > 0) {
                pl_space_tell_run(space, action, seg, pl_segment_address(seg, g),
                                  (uint64_t)n << seg->granule_log2);
            }
        }
    }
}

/* Its memory leaves the stream that it was of and comes to another: nothing is mapped for that, but
 * who follows what is told would look for it where it was. */
static void move_to_lane(pl_space *space, pl_area *area, uint32_t number)
{
    if (area->lane != number) {
        tell_memory(space, area, PL_ACTION_SEGMENT_UNMAP);
        area->lane = number;
        tell_memory(space, area, PL_ACTION_SEGMENT_MAP);
    }
}

/* What pends is the pool's from the start: others wait for the default pool's memory only. */
static void pin_pending(pl_space *space, pl_segment *seg)
{
    for (const pl_block *b = seg->first; b != NULL; b = b->next) {
        if (b->state == PL_BLOCK_FREE && b->lane != PL_LANE_SETTLED) {
            size_t n = pl_segment_pin(seg, b->base, pl_block_end(b));
            space->n_loose -= n;
            pl_space_pin(space, n);
        }
    }
}

static void enter(pl_space *space, pl_private *pool, pl_area *area)
{
    area->pool = pool;
    area->next = pool->areas;
    pool->areas = area;
    for (pl_segment *seg = area->segments; seg != NULL; seg = seg->next) {
        pl_run_set_private(space, seg, true);
        pin_pending(space, seg);
    }
    pl_stat_add(&pool->reserved, resident_bytes(area));
}

/* Requests of a capture use both lanes' indexes. */
static pleat_status reach(pl_space *space, pl_area *area, const pl_lane *lane)
{
    pleat_status st = pl_area_reach(&space->host, area, pl_lane_plain(lane->number));

    return st == PLEAT_OK ? pl_area_reach(&space->host, area, lane->number) : st;
}

pleat_status pl_private_area(pl_space *space, pl_private *pool, const pl_lane *lane, pl_class class,
                             pl_area **out)
{
    uint32_t number = pl_lane_plain(lane->number);
    pl_area *area = pool->areas;

    while (area != NULL && (area->lane != number || area->class != class)) {
        area = area->next;
    }
    if (area == NULL) {
        area = recycle(space);
        area = area != NULL ? area : pl_area_create(&space->host, number, class);
        if (area == NULL) {
            return PLEAT_ENOMEM_HOST;
        }
        move_to_lane(space, area, number);
        area->class = class;
        enter(space, pool, area);
    }
    *out = area;
    return reach(space, area, lane);
}

/* Pools may come by the thousand: they begin small and double what they have. */
size_t pl_private_want(const pl_space *space, const pl_area *area)
{
    size_t want = space->total_chunks >> SHARE_LOG2;
    size_t have = 0;

    for (const pl_segment *seg = area->segments; seg != NULL; seg = seg->next) {
        have += seg->range.bytes >> space->granule_log2;
    }
    want = want < LEAST_SEGMENT ? LEAST_SEGMENT : want;
    return want < have ? have : want;
}

/* ---- free ------------------------------------------------------------------------------------ */

/* What was allocated outside a capture may have uses of then to wait for: only what the capture
 * itself allocated is at once the capture's again. */
void pl_private_free(pl_space *space, pl_block *b, bool is_capturing)
{
    pl_lane *lane = space->lanes[b->lane - 1];

    b->segment->area->pool->n_frees++;
    if (!is_capturing && lane->is_capture) {
        b->lane = pl_lane_plain(b->lane);
        lane = space->lanes[b->lane - 1];
    }
    if (b->uses != NULL) {
        pl_settle_free_many(space, b, lane);
        return;
    }
    pl_space_tell_block(space, PL_ACTION_FREE_COMPLETED, b);
    pl_run_free(space, b, lane->number, lane->next_tick);
    if (!is_capturing && pl_space_has_many_lanes(space) && ++lane->n_frees >= PL_FREES_PER_TICK) {
        pl_settle_tick(space, lane);
        (void)pl_settle_poll(space, lane);
    }
}

/* ---- open and rest --------------------------------------------------------------------------- */

pleat_status pl_expandable_private_open(pl_allocator *a, pl_private **out)
{
    pl_space *space = (pl_space *)a;

    pl_lock_acquire(&space->lock);
    pl_private *pool = pl_host_calloc(&space->host, 1, sizeof(*pool));
    if (pool != NULL) {
        pool->next = space->pools;
        space->pools = pool;
        *out = pool;
    }
    pl_lock_release(&space->lock);
    return pool != NULL ? PLEAT_OK : PLEAT_ENOMEM_HOST;
}

void pl_expandable_private_rest(pl_allocator *a, pl_private *pool)
{
    pl_space *space = (pl_space *)a;

    (void)pool; /* lanes are shared, and know themselves whether their capture is
                 over */
    pl_lock_acquire(&space->lock);
    (void)pl_settle_poll_all(space, NULL, SIZE_MAX); /* once to record ticks and fences, */
    (void)pl_settle_poll_all(space, NULL, SIZE_MAX); /* once to see those that have passed */
    pl_lock_release(&space->lock);
}

void pl_expandable_private_reserved(pl_allocator *a, pl_private *pool,
                                    pleat_stat out[PLEAT_N_POOLS])
{
    pl_space *space = (pl_space *)a;

    pl_lock_acquire(&space->lock);
    out[PLEAT_POOL_ALL] = pool->reserved;
    out[PLEAT_POOL_LARGE] = pool->reserved;
    out[PLEAT_POOL_SMALL] = (pleat_stat){ 0 };
    pl_lock_release(&space->lock);
}

/* ---- release --------------------------------------------------------------------------------- */

enum { RECORD_TRIES = 4 };

/* The streams that graphs may have been launched on: those that are alive, with a fence on each,
 * but for the captured ones. Without host memory, none. Drops the lock. */
static pl_uses *use_by_all(pl_space *space)
{
    unsigned n = pl_stream_count(space->dev);
    pl_uses *all = pl_host_alloc(&space->host, sizeof(*all) + n * sizeof(all->use[0]));

    if (all == NULL) {
        return NULL;
    }
    all->n = 0;
    all->room = n;
    pl_lock_release(&space->lock);
    for (unsigned i = 0; i < n; i++) {
        bool is_capturing;
        pl_use use = { .stream = pl_stream_at(space->dev, i) };
        if (pl_stream_is_still_capturing(use.stream, &is_capturing) == PLEAT_OK) {
            (void)!pl_fence_record(use.stream, &use.fence); /* if not now, then when polled */
            all->use[all->n++] = use;
        }
    }
    pl_lock_acquire(&space->lock);
    return all;
}

static void drop_fences(pl_uses *all)
{
    for (uint32_t i = 0; all != NULL && i < all->n; i++) {
        pl_fence_return(all->use[i].fence);
        all->use[i].fence = NULL;
    }
}

static pl_uses *share(pl_space *space, const pl_uses *all)
{
    pl_uses *uses = NULL;

    if (all != NULL && all->n > 0) {
        uses = pl_host_alloc(&space->host, sizeof(*uses) + all->n * sizeof(uses->use[0]));
    }
    if (uses == NULL) {
        return NULL;
    }
    uses->n = all->n;
    uses->room = all->n;
    for (uint32_t i = 0; i < all->n; i++) {
        uses->use[i] = all->use[i];
        if (uses->use[i].fence != NULL) {
            pl_fence_share(uses->use[i].fence, 1);
        }
    }
    return uses;
}

/* Free memory that the pool's blocks have touched. */
static bool is_touched(const pl_block *b)
{
    const pl_segment *seg = b->segment;
    size_t n = pl_segment_granule(seg, pl_block_end(b) - 1) - pl_segment_granule(seg, b->base) + 1;

    return b->state == PL_BLOCK_FREE && pl_segment_count_loose(seg, b->base, pl_block_end(b)) < n;
}

/* b and the touched blocks behind it, as one, pend on all streams. Returns the block. */
static pl_block *hand_over(pl_space *space, pl_block *b, const pl_uses *all)
{
    pl_segment *seg = b->segment;

    pl_run_claim(space, b);
    while (b->next != NULL && is_touched(b->next)) {
        pl_run_claim(space, b->next);
        pl_segment_absorb(seg, &space->store, b, b->next);
    }
    size_t n = pl_segment_pin(seg, b->base, pl_block_end(b));
    space->n_loose -= n;
    pl_space_pin(space, n);
    const pl_lane *owner = space->lanes[seg->area->lane - 1];
    b->requested = 0; /* nobody's: its free was told long ago */
    b->uses = share(space, all);
    if (b->uses == NULL) {
        return pl_run_free(space, b, owner->number, owner->next_tick);
    }
    b->state = PL_BLOCK_MANY;
    b->lane = owner->number;
    b->tick = owner->next_tick;
    pl_queue_push(&space->many, b);
    space->n_many_bytes += b->bytes;
    pl_run_refresh_beside(b, b);
    return b;
}

static void leave_block(pl_space *space, pl_block *b)
{
    if (b->state != PL_BLOCK_LIVE && b->state != PL_BLOCK_MANY) {
        return;
    }
    b->lane = pl_lane_plain(b->lane);
    if (b->state == PL_BLOCK_MANY) {
        pl_queue_remove(&space->apart, b);
        space->n_apart_bytes -= b->bytes;
        pl_queue_push(&space->many, b);
        space->n_many_bytes += b->bytes;
    }
}

static void leave(pl_space *space, pl_area *area, const pl_uses *all)
{
    for (pl_segment *seg = area->segments; seg != NULL; seg = seg->next) {
        pl_run_set_private(space, seg, false);
        for (pl_block *b = seg->first; b != NULL; b = b->next) {
            leave_block(space, b);
        }
        for (pl_block *b = seg->first; b != NULL; b = b->next) {
            if (is_touched(b)) {
                b = hand_over(space, b, all);
            }
        }
    }
    area->pool = NULL;
    area->next = space->released;
    space->released = area;
}

/* Does some thread take memory that the pool has not used, or ask about a block of the pool? */
static bool is_in_hand(const pl_space *space, const pl_block *b)
{
    bool is_queued = b->queue_prev != NULL || space->apart.first == b;

    return b->state == PL_BLOCK_FLIGHT || (b->state == PL_BLOCK_MANY && !is_queued);
}

static bool is_in_flight(const pl_space *space, const pl_private *pool)
{
    if (space->n_flights == 0) {
        return false;
    }
    for (const pl_area *area = pool->areas; area != NULL; area = area->next) {
        for (const pl_segment *seg = area->segments; seg != NULL; seg = seg->next) {
            for (const pl_block *b = seg->first; b != NULL; b = b->next) {
                if (is_in_hand(space, b)) {
                    return true;
                }
            }
        }
    }
    return false;
}

static void unlink_pool(pl_space *space, const pl_private *pool)
{
    pl_private **at = &space->pools;

    while (*at != pool) {
        at = &(*at)->next;
    }
    *at = pool->next;
}

/* Nobody allocates from the pool any more, but its blocks are freed yet: a fence stands for those
 * only that came before it. Where they do not stop coming, every block gets fences of its own. */
static pl_uses *cover_frees(pl_space *space, const pl_private *pool)
{
    pl_uses *all = NULL;

    for (unsigned i = 0; i < RECORD_TRIES; i++) {
        uint64_t n_frees = pool->n_frees;
        all = use_by_all(space);
        while (is_in_flight(space, pool)) {
            pl_lock_wait(&space->lock, &space->landed);
        }
        if (all == NULL || pool->n_frees == n_frees) {
            return all;
        }
        drop_fences(all);
        if (i + 1 < RECORD_TRIES) {
            pl_host_free(&space->host, all);
        }
    }
    return all;
}

void pl_expandable_private_release(pl_allocator *a, pl_private *pool)
{
    pl_space *space = (pl_space *)a;

    pl_lock_acquire(&space->lock);
    pl_uses *all = cover_frees(space, pool);
    unlink_pool(space, pool);
    while (pool->areas != NULL) {
        pl_area *area = pool->areas;
        pool->areas = area->next;
        leave(space, area, all);
    }
    drop_fences(all);
    pl_host_free(&space->host, all);
    pl_host_free(&space->host, pool);
    (void)pl_settle_poll_many(space, SIZE_MAX); /* once to record the fences, */
    (void)pl_settle_poll_many(space, SIZE_MAX); /* once to see those that have passed already */
    pl_lock_release(&space->lock);
}

/* ---- the end, and the walker ----------------------------------------------------------------- */

static void destroy_areas(pl_space *space, pl_area *area)
{
    while (area != NULL) {
        pl_area *next = area->next;
        pl_area_destroy(&space->host, area);
        area = next;
    }
}

void pl_private_destroy_all(pl_space *space)
{
    destroy_areas(space, space->released);
    while (space->pools != NULL) {
        pl_private *pool = space->pools;
        space->pools = pool->next;
        destroy_areas(space, pool->areas);
        pl_host_free(&space->host, pool);
    }
}

static bool has_stray_block(const pl_segment *seg)
{
    for (const pl_block *b = seg->first; b != NULL; b = b->next) {
        if (b->state == PL_BLOCK_KEPT) {
            return true;
        }
        if (b->state == PL_BLOCK_FREE && b->lane != PL_LANE_SETTLED &&
            pl_segment_count_loose(seg, b->base, pl_block_end(b)) > 0) {
            return true;
        }
    }
    return false;
}

int pl_private_check(const pl_space *space)
{
    for (const pl_private *pool = space->pools; pool != NULL; pool = pool->next) {
        size_t bytes = 0;
        for (const pl_area *area = pool->areas; area != NULL; area = area->next) {
            bytes += resident_bytes(area);
            for (const pl_segment *seg = area->segments; seg != NULL; seg = seg->next) {
                if (area->pool != pool || !seg->is_private || has_stray_block(seg)) {
                    return 1;
                }
            }
        }
        if (space->n_flights == 0 && bytes != pool->reserved.current) {
            return 1;
        }
    }
    for (uint32_t i = 0; i < space->n_segments; i++) {
        const pl_segment *seg = space->segments[i];
        if (seg->is_private != (seg->area->pool != NULL)) {
            return 1;
        }
    }
    return 0;
}
