/* trim.c - release free memory whose uses are over; set the limit.
 *
 * No more is released than asked for: idle chunks first, then settled runs from the lowest address.
 * A chunk is released only when it is mapped nowhere, so stale mappings are unmapped first. The
 * lock is dropped around every driver call. Memory under release is in flight meanwhile. */
#include "segments/pleat/grow/trim.h"

#include "segments/pleat/buffers/buffer.h"
#include "segments/pleat/space/back.h"
#include "segments/pleat/space/keeper.h"
#include "segments/pleat/space/run.h"
#include "segments/pleat/streams/capture.h"
#include "segments/pleat/streams/capture_see.h"
#include "segments/pleat/streams/capturers.h"
#include "segments/pleat/streams/context.h"
#include "segments/pleat/streams/settle.h"
#include "segments/pleat/streams/tick.h"
#include "vmm/base/clock.h"
#include "vmm/base/deadline.h"
#include "vmm/driver.h"

enum { SHRINK_TRIES = 64, FEW_LANES = 4, LIVE_TRIES = 8 };

/* Does a stale block wait for a use that no tick covers? Looks once at each; may drop the lock. */
static bool has_uncovered_stale(pl_space *space)
{
    pl_pace pace;
    bool any = false;

    pl_pace_begin(space, &pace, false);
    for (size_t n = pl_space_n_stale(space); n > 0 && space->blocks.stale.first != NULL && !any;
         n--) {
        pl_block *b = space->blocks.stale.first;
        pl_queue_remove(&space->blocks.stale, b);
        pl_queue_push(&space->blocks.stale, b);
        any = b->lane != PL_LANE_SETTLED &&
              b->stamp > pl_space_lane_at(space, b->lane)->recorded_tick;
        pl_pace_step(space, &pace, 1);
    }
    return any;
}

/* May memory wait for what no tick covers? Yes, among more lanes than one hold may look at: a tick
 * of the context costs less there, too. */
static bool has_uncovered(pl_space *space)
{
    bool any = pl_clock_has_waiting(&space->streams.context.clock) ||
               space->places.draining != NULL || space->captures.n_disowned > 0 ||
               space->streams.busy.n > PL_CROWD;

    for (const pl_lane *lane = space->streams.busy.first; lane != NULL && !any;
         lane = lane->busy.next) {
        any = !lane->is_capture && pl_settle_has_uncovered(space, lane);
        pl_lock_touch(1);
    }
    return any || has_uncovered_stale(space);
}

/* Wait for every lane's newest tick: at least least_ms a lane, even when wait_ms is used up. */
static pleat_status wait_for_lanes(pl_space *space, uint32_t wait_ms, uint32_t least_ms)
{
    pleat_status st = PLEAT_OK;

    for (size_t n = space->streams.ticking.n; n > 0 && space->streams.ticking.first != NULL; n--) {
        pl_lane *lane = space->streams.ticking.first;
        pl_lane_ring_remove_ticking(&space->streams.ticking, lane);
        pl_lane_ring_push_ticking(&space->streams.ticking, lane);
        uint32_t left_ms = pl_deadline_left(wait_ms);
        pleat_status failed = pl_tick_wait(space, lane, left_ms > 0 ? left_ms : least_ms);
        st = st == PLEAT_OK ? failed : st;
    }
    return st;
}

/* Wait for a few streams separately: other streams go on undisturbed. With many streams, or with
 * uses that no tick covers, wait once for the whole context. */
static pleat_status wait_for_all(pl_space *space, uint32_t wait_ms)
{
    pleat_status st = PLEAT_OK;

    if (wait_ms > 0 && space->streams.ticking.n <= FEW_LANES) {
        st = wait_for_lanes(space, wait_ms, 1);
    }
    if (has_uncovered(space) || (wait_ms > 0 && space->streams.ticking.n > 0)) {
        pl_care care = wait_ms > 0 ? PL_CARE_LAST : PL_CARE_SOON; /* a mere look can be repeated */
        pleat_status failed = pl_context_tick_wait(space, care, wait_ms, UINT32_MAX);
        if (failed != PLEAT_OK && wait_ms > 0) {
            st = wait_for_lanes(space, wait_ms, 0);
            st = st == PLEAT_OK ? failed : st;
        }
    }
    pl_settle_everything(space);
    return st;
}

/* A shared block goes from stream to stream, so a wait may show further uses to wait for. */
enum { MOST_WAITS = 4 };

pleat_status pl_trim_quiesce(pl_space *space, uint32_t wait_ms)
{
    pl_capture_look_well(space); /* memory of gone graphs is waited for, too */
    pl_settle_want_ticks(space, NULL);
    (void)pl_tick_poll(space, SIZE_MAX); /* also the legacy stream's, just recorded */
    pl_settle_everything(space);
    pleat_status st = wait_for_all(space, wait_ms);
    for (unsigned n = 1; n < MOST_WAITS && st == PLEAT_OK && wait_ms > 0; n++) {
        if (!has_uncovered(space) && space->streams.ticking.n == 0) {
            break;
        }
        st = wait_for_all(space, wait_ms);
    }
    (void)pl_stale_reap(space);
    if (st == PLEAT_ECAPTURE) {
        (void)pl_capture_name_lasting(space);
    }
    return st == PLEAT_ECAPTURE ? PLEAT_EPENDING : st;
}

/* Count the granules of whole chunks from g on, where a chunk begins, inside [g, g + whole): at
 * most PL_PILE_CHUNKS chunks, and no further chunk once n granules are counted. */
static size_t whole_chunks(const pl_segment *seg, size_t g, size_t whole, size_t n)
{
    size_t from = g;

    for (size_t i = 0; i < PL_PILE_CHUNKS && g - from < n && g < from + whole; i++) {
        size_t to = pl_segment_chunk_to(seg, g);
        if (to > from + whole) {
            break;
        }
        g = to;
    }
    return g - from;
}

/* How many granules from g on are in whole loose chunks of the free block b: about n. Granules that
 * a pool has used need not be loose. */
static size_t quiet_run(const pl_segment *seg, const pl_block *b, size_t g, size_t n)
{
    size_t whole = (size_t)((pl_block_end(b) - pl_segment_address(seg, g)) >> seg->granule_log2);
    if (seg->is_private || seg->is_opening) {
        whole = pl_segment_loose_run(seg, g, whole);
    }
    return whole_chunks(seg, g, whole, n);
}

/* Find the first loose granules of the segment, from *g on, in a free block whose uses are over.
 * *n: wanted; set to the granules of whole chunks in the block, which fit a pile. NULL: none. May
 * drop the lock. A torn segment is skipped, as a part of the segment is not mapped. */
static pl_block *next_quiet(pl_space *space, pl_segment *seg, size_t *g, size_t *n)
{
    pl_pace pace;

    pl_pace_begin(space, &pace, false);
    for (;;) {
        *g = seg == space->flights.torn.segment ? SIZE_MAX : pl_segment_next_chunk(seg, *g);
        if (*g == SIZE_MAX) {
            return NULL;
        }
        pl_block *b = pl_segment_find(seg, pl_segment_address(seg, *g));
        size_t whole = quiet_run(seg, b, *g, *n);
        if (whole > 0 && pl_settle_is_over(space, b)) {
            *n = whole;
            return b;
        }
        size_t next = pl_segment_chunk_to(seg, *g);
        size_t end = pl_segment_granule(seg, pl_block_end(b));
        *g = end > next ? end : next; /* threads may work on the rest of the chunk */
        pl_pace_step(space, &pace, 1);
    }
}

/* ---- giving back ----------------------------------------------------------------------------- */

/* Pop idle chunks of n granules in all, the smallest first. The last chunk may exceed n. */
static void pop_idle(pl_space *space, size_t n, pl_pile *p)
{
    for (unsigned order = 0; order < PL_N_ORDERS; order++) {
        while (space->chunks.idle[order].n > 0 && p->n < PL_PILE_CHUNKS && p->n_granules < n) {
            pl_pile_put(p, pl_space_pop_idle(space, order), order);
        }
    }
}

static pleat_status release_idle(pl_space *space, size_t keep, size_t *n_released)
{
    pleat_status st = PLEAT_OK;

    while (st == PLEAT_OK && space->chunks.n_idle > 0 && space->chunks.n_held > keep) {
        pl_pile p = { .n = 0 };
        pop_idle(space, space->chunks.n_held - keep, &p);
        st = pl_pile_release(space, &p, n_released);
        space->chunks.full_at = SIZE_MAX;
    }
    return st;
}

/* Unmap granules [g, g + n) of b, whole chunks, for the caller. If only a part could be unmapped,
 * the addresses are stale, and the chunks idle. */
static pleat_status unmap_run(pl_space *space, pl_block *b, size_t g, size_t n, pl_pile *p)
{
    pl_segment *seg = b->segment;
    b = pl_carve_take(space, b, pl_segment_address(seg, g), pl_segment_address(seg, g + n));
    pl_carve_settle(b); /* as next_quiet has found */
    for (size_t i = g; i < g + n; i = pl_segment_chunk_to(seg, i)) {
        pl_pile_put(p, seg->chunks[i], seg->orders[i]);
    }
    pleat_status st = pl_back_unmap(space, b->base, n);
    if (st != PLEAT_OK && st != PLEAT_EPOISONED) { /* it is still mapped */
        pl_carve_restore(space, b);
        return st;
    }
    pl_carve_lose(space, b, st == PLEAT_EPOISONED);
    if (st == PLEAT_EPOISONED) {
        pl_pile_make_idle(space, p);
        (void)pl_stale_reap(space);
        return PLEAT_EDRIVER;
    }
    return PLEAT_OK;
}

/* Why memory is unmapped: to release chunks until `keep` are left, or to make `keep` idle. */
typedef struct goal {
    bool is_idle;       /* chunks of a single granule; large chunks are released to make room */
    size_t keep;        /* is_idle: granules to be had */
    size_t n_so_far;    /* released */
    bool is_in_buffers; /* memory of blocks is left alone */
} goal;

static size_t missing(const pl_space *space, const goal *to)
{
    if (to->is_idle) {
        size_t n = space->chunks.idle[0].n + to->n_so_far;
        return to->keep > n ? to->keep - n : 0;
    }
    return space->chunks.n_held > to->keep ? space->chunks.n_held - to->keep : 0;
}

static pleat_status empty_run(pl_space *space, pl_block *b, size_t g, size_t n, goal *to)
{
    pl_pile p = { .n = 0 };
    pleat_status st = unmap_run(space, b, g, n, &p);

    if (st != PLEAT_OK) {
        return st;
    }
    if (!to->is_idle || p.n_granules > p.n) {
        st = pl_pile_release(space, &p, &to->n_so_far);
        space->chunks.full_at = SIZE_MAX;
        return st;
    }
    pl_pile_make_idle(space, &p);
    return PLEAT_OK;
}

static pleat_status empty_segment(pl_space *space, pl_segment *seg, goal *to)
{
    size_t g = 0;

    while (missing(space, to) > 0) {
        size_t n = missing(space, to);
        pl_block *b = next_quiet(space, seg, &g, &n);
        if (b == NULL) {
            return PLEAT_OK;
        }
        pleat_status st = pl_block_store_reserve(&space->blocks.store, 2);
        st = st == PLEAT_OK ? empty_run(space, b, g, n, to) : st;
        if (st != PLEAT_OK) {
            return st;
        }
    }
    return PLEAT_OK;
}

/* A flight: chunks under release are in no table meanwhile. */
pleat_status pl_trim_idle_to(pl_space *space, size_t keep_granules)
{
    size_t n_released = 0;
    pl_flying flying;

    pl_space_take_off(space, &flying);
    pleat_status st = release_idle(space, keep_granules, &n_released);
    pl_space_land(space, &flying);
    return st;
}

pleat_status pl_trim_to(pl_space *space, size_t keep_granules, uint32_t wait_ms, size_t *n_released)
{
    goal to = { .keep = keep_granules };

    *n_released = 0;
    if (space->chunks.n_held <= keep_granules) {
        return PLEAT_OK;
    }
    pleat_status st = pl_trim_quiesce(space, wait_ms);
    pl_scratch_clear(space);
    pl_flying flying;
    pl_space_take_off(space, &flying); /* not before: a flight must not wait for the GPU */
    pleat_status failed = release_idle(space, keep_granules, &to.n_so_far);
    failed = failed == PLEAT_OK && space->blocks.n_refused > 0 ? PLEAT_EDRIVER : failed;
    st = st == PLEAT_OK ? failed : st;
    /* The driver keeps a released chunk while a stale mapping of the chunk is left. */
    pl_pace pace;
    pl_pace_begin(space, &pace, false);
    pl_segment *seg = pl_space_lowest(space);
    for (; seg != NULL && pl_space_n_stale(space) == 0 && failed == PLEAT_OK;
         seg = pl_segment_above(seg)) {
        failed = empty_segment(space, seg, &to);
        st = st == PLEAT_OK ? failed : st;
        pl_pace_step(space, &pace, 1);
    }
    pl_space_land(space, &flying);
    *n_released = to.n_so_far;
    return st;
}

/* A flight. The goal is missed where too little is settled, or the driver refuses. */
static void empty_segments(pl_space *space, pleat_status st, goal *to)
{
    pl_pace pace;

    pl_pace_begin(space, &pace, false);
    pl_segment *seg = pl_space_lowest(space);
    for (; seg != NULL && st == PLEAT_OK; seg = pl_segment_above(seg)) {
        bool is_meant = seg->area->buffer != NULL || !to->is_in_buffers;
        st = is_meant ? empty_segment(space, seg, to) : PLEAT_OK;
        pl_pace_step(space, &pace, 1);
    }
}

void pl_trim_gather(pl_space *space, size_t n_granules, uint32_t wait_ms)
{
    goal to = { .is_idle = true, .keep = n_granules };
    pleat_status st = PLEAT_OK;

    (void)pl_trim_quiesce(space, wait_ms);
    pl_flying flying;
    pl_space_take_off(space, &flying);
    if (space->chunks.n_idle > space->chunks.idle[0].n) {
        st = release_idle(space, 0, &to.n_so_far);
    }
    empty_segments(space, st, &to);
    pl_space_land(space, &flying);
}

size_t pl_trim_recast(pl_space *space, size_t n_granules, bool is_in_buffers)
{
    size_t n_held = space->chunks.n_held;
    goal to = { .keep = n_held > n_granules ? n_held - n_granules : 0,
                .is_in_buffers = is_in_buffers };
    pl_flying flying;

    (void)pl_stale_reap(space); /* else the driver keeps the memory of what is released */
    pl_space_take_off(space, &flying);
    empty_segments(space, release_idle(space, to.keep, &to.n_so_far), &to);
    pl_space_land(space, &flying);
    return to.n_so_far;
}

/* With wait_ms:0 a trim that was told to wait waits for a millisecond. Without that wait, a driver
 * that has no event of the whole context would never settle the memory of gone streams. */
pleat_status pl_pleat_trim(pl_allocator *a, uint64_t keep_bytes, bool wait, uint64_t *released)
{
    pl_space *space = (pl_space *)a;
    uint32_t wait_ms = space->wait_ms > 0 ? space->wait_ms : 1;
    size_t n_released;

    pl_deadline_begin();
    pl_space_enter(space);
    bool is_inside = pl_capturers_enter(space, false);
    pleat_status st = pl_trim_to(space, (size_t)(keep_bytes >> space->granule_log2),
                                 wait ? wait_ms : 0, &n_released);
    pl_hollow_let_go(space, 0, SIZE_MAX);
    pl_capturers_leave(space, is_inside);
    pl_space_leave(space);
    *released = st == PLEAT_OK ? (uint64_t)n_released << space->granule_log2 : *released;
    return st;
}

/* Do pinned granules fit under the limit? Waits for granules that may still become loose: of shared
 * blocks, and of pools that drain or open. */
static pleat_status check_live(pl_space *space, size_t limit)
{
    pleat_status st = PLEAT_OK;

    for (unsigned tries = 0; space->chunks.n_pinned > limit; tries++) {
        bool is_pending = space->streams.n_shared_bytes > 0 || space->places.draining != NULL ||
                          space->places.opening != NULL;
        if (tries == LIVE_TRIES || (space->flights.n == 0 && !is_pending)) {
            return is_pending ? PLEAT_EPENDING : PLEAT_ENOMEM_DEVICE;
        }
        if (space->flights.n > 0) {
            pl_space_wait_for_flights(space);
            continue;
        }
        st = pl_trim_quiesce(space, space->wait_ms);
        if (st != PLEAT_OK) {
            return st;
        }
    }
    return st;
}

/* Release chunks until the limit holds. The limit is already set, so nobody creates beyond the
 * limit. Some tries: flights land, and loose memory may be used while the lock is dropped. */
static pleat_status shrink(pl_space *space, size_t limit)
{
    pleat_status st = PLEAT_OK;

    for (unsigned tries = 0; st == PLEAT_OK && tries < SHRINK_TRIES; tries++) {
        size_t n_released;
        if (space->chunks.n_held + space->chunks.n_creating <= limit) {
            return PLEAT_OK;
        }
        st = pl_trim_to(space, limit, space->wait_ms, &n_released);
        if (st == PLEAT_OK && space->flights.n > 0) {
            pl_space_wait_for_flights(space);
        }
        if (st == PLEAT_OK && space->chunks.n_held > limit) {
            st = check_live(space, limit);
        }
    }
    return st != PLEAT_OK || space->chunks.n_held <= limit ? st : PLEAT_EPENDING;
}

/* Calls set the limit in turn, so that a failed call restores the right limit. A turn is taken in
 * the hold that finds it free. A call without time left still waits for LATE_MS: the earlier call
 * may be inside the driver. PLEAT_OK, and end_turn is due; or EPENDING. */
static pleat_status take_turn(pl_space *space)
{
    enum { LATE_MS = 40 };
    uint64_t late_until = 0;

    while (space->chunks.is_limiting) {
        uint32_t left_ms = pl_deadline_left(space->wait_ms);
        if (left_ms == 0) {
            uint64_t now = pl_clock_ms();
            late_until = late_until == 0 ? now + LATE_MS : late_until;
            if (now >= late_until) {
                pl_driver_set_detail("another call is setting the limit");
                return PLEAT_EPENDING;
            }
            left_ms = (uint32_t)(late_until - now);
        }
        pl_space_wait_at_most(space, left_ms);
    }
    space->chunks.is_limiting = true;
    return PLEAT_OK;
}

static void end_turn(pl_space *space)
{
    space->chunks.is_limiting = false;
    pl_space_wake(space);
}

/* In the caller's turn. */
static pleat_status set_limit(pl_space *space, uint64_t bytes)
{
    size_t limit = bytes == 0 ? SIZE_MAX : (size_t)(bytes >> space->granule_log2);
    size_t limit_before = space->chunks.limit_granules;
    pleat_status st = check_live(space, limit);

    if (st != PLEAT_OK) {
        return st;
    }
    space->chunks.limit_granules = limit;
    st = shrink(space, limit);
    if (st == PLEAT_OK) {
        space->chunks.limit_bytes = bytes;
    } else {
        space->chunks.limit_granules = limit_before;
    }
    return st;
}

pleat_status pl_pleat_set_limit(pl_allocator *a, uint64_t bytes)
{
    pl_space *space = (pl_space *)a;

    pl_deadline_begin();
    pl_space_enter(space);
    bool is_inside = pl_capturers_enter(space, false);
    pleat_status st = take_turn(space);
    if (st == PLEAT_OK) {
        st = set_limit(space, bytes);
        end_turn(space);
    }
    pl_capturers_leave(space, is_inside);
    pl_space_leave(space);
    return st;
}
