/* space.h - the pleat allocator's state for one device; shared by the files that implement it.
 *
 * One lock (rank 20) guards everything in here. The lock is never held across a driver call. A
 * thread that needs the driver takes its blocks out of every index (state FLIGHT) and goes away
 * (back.h). Then the thread commits or puts the blocks back.
 *
 * docs/design.md, part 2, has the nouns of all layers, and each header has its own. Of the whole
 * space are:
 *   call     an allocation or a free, where calls are counted: the allocator's measure of time
 *   turn     one round of a request through the lanes that it can order after or wait for
 *   hold     the time from taking the lock to dropping it; bounded, except in an attempt after
 *            too many foiled ones (pl_pace)
 *   breathe  to drop the lock for a moment, so that others get the lock */
#ifndef PLEAT_SEGMENTS_SPACE_H
#define PLEAT_SEGMENTS_SPACE_H

#include "segments/pleat/space/space_state.h"

/* Take the lock, where an operation begins. Returns the space. */
static inline pl_space *pl_space_enter(pl_space *space)
{
    pl_lock_acquire(&space->lock);
    return space;
}
static inline void pl_space_leave(pl_space *space)
{
    pl_lock_release(&space->lock);
}

/* ---- lanes and areas ---- */

static inline pl_lane *pl_space_lane_at(const pl_space *space, uint32_t number)
{
    return space->streams.lanes[number - 1];
}

/* The lane of a stream, or NULL. */
static inline pl_lane *pl_space_lane_of(const pl_space *space, const pl_stream *stream,
                                        bool is_capture)
{
    uint32_t i = pl_lane_number(stream, is_capture) - 1;

    return i < space->streams.capacity ? space->streams.lanes[i] : NULL;
}
/* The lane's area of the class in the default pool; made if new. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_space_area(pl_space *space, pl_lane *lane, pl_class class, pl_area **out);
/* The next area of a keeper (NULL = the default pool). The caller zeroes `cursor` before the first
 * call. Returns NULL after the last area. */
typedef struct pl_area_cursor {
    unsigned i;
    unsigned class;
    pl_area *listed;
    bool is_listing;
} pl_area_cursor;
pl_area *pl_space_next_area(const pl_space *space, const struct pl_keeper *keeper,
                            pl_area_cursor *cursor);
/* The number of the stream's first lane, given the number of either lane. */
static inline uint32_t pl_lane_plain(uint32_t number)
{
    return ((number - 1) & ~UINT32_C(1)) + 1;
}
static inline size_t pl_space_n_stale(const pl_space *space)
{
    return space->blocks.store.tally.n_blocks[PL_BLOCK_STALE];
}

static inline bool pl_space_has_many_lanes(const pl_space *space)
{
    return space->streams.n_lanes > 1;
}
static inline bool pl_space_is_crowded(const pl_space *space)
{
    return space->streams.n_lanes > PL_CROWD;
}
/* The stamp of a free on the lane now. */
static inline uint64_t pl_lane_stamp(const pl_space *space, const pl_lane *lane)
{
    if (__builtin_expect(lane->life == PL_LANE_CLOSED, false)) {
        return lane->recorded_tick;
    }
    return lane->clock.next > space->streams.context.clock.next ? lane->clock.next
                                                                : space->streams.context.clock.next;
}
/* What the lane's clock has passed, by ticks of its own or of the context. */
static inline uint64_t pl_lane_passed(const pl_space *space, const pl_lane *lane)
{
    return lane->clock.passed > space->streams.context.clock.passed
               ? lane->clock.passed
               : space->streams.context.clock.passed;
}
static inline bool pl_lane_has_passed(const pl_space *space, const pl_lane *lane, uint64_t stamp)
{
    return stamp <= pl_lane_passed(space, lane);
}
/* Has this hold, begun when n_pieces was `since`, done all the work that a hold may do? */
enum { PL_PIECES_A_HOLD = 384 };
static inline bool pl_space_is_tired(const pl_space *space, uint64_t since)
{
    return space->n_pieces - since > PL_PIECES_A_HOLD;
}
/* n pieces of work are done in this hold: looks at blocks, demands or captures. */
static inline void pl_space_work(pl_space *space, size_t n)
{
    pl_lock_touch(n);
    space->n_pieces += n;
}
/* A block waits for the lane, or waits no more: link the lane as busy, or unlink the lane. */
static inline void pl_space_note_busy(pl_space *space, pl_lane *lane)
{
    bool is_busy = pl_clock_has_waiting(&lane->clock);

    if (is_busy != lane->busy.is_linked) {
        if (is_busy) {
            pl_lane_ring_push_busy(&space->streams.busy, lane);
        } else {
            pl_lane_ring_remove_busy(&space->streams.busy, lane);
        }
    }
}
/* Have room for index i in an array. `array`: the address of the pointer to the array; element:
 * bytes of an element. New elements are zero. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_space_reserve_entries(pl_space *space, void *array, size_t element,
                                      size_t *capacity, size_t i);
/* The segments in the order of their addresses. NULL: no further segment. */
pl_segment *pl_space_lowest(const pl_space *space);
pl_segment *pl_segment_above(const pl_segment *seg);
void pl_space_init_segments(pl_space *space);
/* Open a segment of the area: n_want granules of addresses, n_least where these are scarce. It
 * begins at a multiple of n_align granules, a power of two. Drops the lock. PLEAT_OK; ENOSPACE_VA;
 * ENOMEM_HOST; EDRIVER. */
pleat_status pl_space_open_segment(pl_space *space, pl_area *area, size_t n_want, size_t n_least,
                                   size_t n_align);
/* Its last step: the range becomes a segment. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_space_add_segment(pl_space *space, pl_area *area, pl_range range);
/* The highest segment that begins at or below `at`, and the segment that covers `at`; or NULL. */
pl_segment *pl_space_segment_below(const pl_space *space, pleat_devptr at);
pl_segment *pl_space_segment_at(const pl_space *space, pleat_devptr at);
/* The most chunks that may ever be held, by the limit and the device. */
static inline size_t pl_space_ceiling(const pl_space *space)
{
    return space->chunks.limit_granules < space->chunks.total_granules
               ? space->chunks.limit_granules
               : space->chunks.total_granules;
}
/* The same, by the driver's last refusal, too. Others may have given memory back since, so the
 * driver is asked again before a request waits or is refused (shortage.c). */
size_t pl_space_cap(const pl_space *space);
static inline void pl_space_pin(pl_space *space, size_t n_granules)
{
    space->chunks.n_pinned += n_granules;
    if (space->chunks.n_pinned > space->chunks.peak_pinned) {
        space->chunks.peak_pinned = space->chunks.n_pinned;
    }
    if (space->chunks.n_pinned > space->chunks.peak_shown) {
        space->chunks.peak_shown = space->chunks.n_pinned;
    }
}

/* n granules have become loose, or are pinned from now on. */
static inline void pl_space_loosen(pl_space *space, size_t n)
{
    if (__builtin_expect(n > 0, false)) {
        space->chunks.n_loose += n;
        space->chunks.n_pinned -= n;
    }
}
static inline void pl_space_pin_loose(pl_space *space, size_t n)
{
    if (__builtin_expect(n > 0, false)) { /* else flights that may fail would lift the peak */
        space->chunks.n_loose -= n;
        pl_space_pin(space, n);
    }
}

/* ---- flights ---- */

/* Wait until a flight lands, or anything else changes that threads wait for. Drops the lock. */
void pl_space_wait(pl_space *space);
/* Like pl_space_wait, for at most `ms`. */
void pl_space_wait_at_most(pl_space *space, uint32_t ms);
/* Wake the threads in pl_space_wait. */
static inline void pl_space_wake(pl_space *space)
{
    if (space->flights.n_waiting > 0) {
        pl_cond_broadcast(&space->flights.landed);
    }
}
void pl_space_take_off(pl_space *space, pl_flying *flying);
void pl_space_land(pl_space *space, pl_flying *flying);
/* Wait until the flights under way now have landed; others may take off meanwhile. The caller has
 * no flight of its own. */
void pl_space_wait_for_flights(pl_space *space);
/* Flights of a compaction, one at a time: the bytes of live blocks move, and chunks that are not
 * loose change. The blocks stay ordinary blocks. */
void pl_space_begin_move(pl_space *space, pl_flying *flying);
void pl_space_end_move(pl_space *space, pl_flying *flying);
/* Wait until no chunks of live blocks move, for callers that look at them. May drop the lock. */
void pl_space_wait_for_move(pl_space *space);
/* The chunk is mapped nowhere any more, or not yet. */
static inline void pl_space_push_idle(pl_space *space, pl_chunk chunk, unsigned order)
{
    pl_idle *idle = &space->chunks.idle[order];

    pl_assert(idle->n < space->chunks.total_granules >> order);
    idle->chunks[idle->n++] = chunk;
    space->chunks.n_idle += (size_t)1 << order;
}
/* An idle chunk of the order exists. */
static inline pl_chunk pl_space_pop_idle(pl_space *space, unsigned order)
{
    pl_idle *idle = &space->chunks.idle[order];

    space->chunks.n_idle -= (size_t)1 << order;
    return idle->chunks[--idle->n];
}
/* Drop the lock for a moment, so that other threads get the lock. */
void pl_space_breathe(pl_space *space);
/* Like pl_space_breathe, and give the processor away: another thread has to do something first. */
void pl_space_yield(pl_space *space);

/* ---- work that is too long for one hold of the lock ---- */

/* How long such work has held the lock. Memory of the work is in flight. Other memory seen before
 * may have changed after a breath. */
typedef struct pl_pace {
    uint64_t since; /* n_pieces when this hold began */
    uint64_t alone; /* pl_pace_turn when the work began */
    bool is_unbroken;
    bool has_breathed;
} pl_pace;

/* Changes with every call and with every flight. */
static inline uint64_t pl_pace_turn(const pl_space *space)
{
    return space->n_calls + space->flights.n_taken_off;
}

/* is_unbroken: the work never breathes, however long it takes. */
static inline void pl_pace_begin(const pl_space *space, pl_pace *pace, bool is_unbroken)
{
    *pace = (pl_pace){ .since = space->n_pieces,
                       .alone = pl_pace_turn(space),
                       .is_unbroken = is_unbroken };
}

/* True if nobody can have taken memory since the work began: the work did not breathe, or no call
 * and no flight came. Then the work counts as one hold, before memory given back meanwhile. */
static inline bool pl_pace_is_alone(const pl_space *space, const pl_pace *pace)
{
    return !pace->has_breathed || pace->alone == pl_pace_turn(space);
}

/* n further steps were done, already reported to pl_lock_touch. May drop the lock. */
void pl_pace_count(pl_space *space, pl_pace *pace, size_t n);

/* The same, and report the steps to pl_lock_touch. */
static inline void pl_pace_step(pl_space *space, pl_pace *pace, size_t n)
{
    pl_lock_touch(n);
    pl_pace_count(space, pace, n);
}

/* Put all blocks set aside back. May drop the lock. */
void pl_space_put_aside_back(pl_space *space, pl_block **aside);

/* ---- telling (observer.h); without an observer this costs one branch ---- */

void pl_space_say_block(const pl_space *space, pl_action action, const pl_block *b)
    __attribute__((cold));
void pl_space_say_run(const pl_space *space, pl_action action, const pl_segment *seg,
                      pleat_devptr base, uint64_t bytes) __attribute__((cold));

/* b is live or being freed: `requested` and its owner's `lane` are still valid. */
static inline void pl_space_tell_block(const pl_space *space, pl_action action, const pl_block *b)
{
    if (pl_observer_is_on(space->observer)) {
        pl_space_say_block(space, action, b);
    }
}

/* Whole granules became resident, or holes. */
static inline void pl_space_tell_run(const pl_space *space, pl_action action, const pl_segment *seg,
                                     pleat_devptr base, uint64_t bytes)
{
    if (pl_observer_is_on(space->observer)) {
        pl_space_say_run(space, action, seg, base, bytes);
    }
}

_Static_assert((int)PL_ROUNDING_QUANTUM == PL_BLOCK_QUANTUM, "sizes of blocks");

/* The bytes of a block for the request. */
static inline size_t pl_space_round(const pl_space *space, size_t requested)
{
    return __builtin_expect(space->is_rounding, false)
               ? pl_rounding_of(space->roundup_divisions, requested)
               : pl_rounding_up(requested, PL_BLOCK_QUANTUM);
}

#endif
