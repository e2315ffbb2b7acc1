/* space.h - the pleat allocator's state for one device; shared by the files that implement it.
 *
 * One lock (rank 20) guards everything in here. The lock is never held across a driver call. A
 * thread that needs the driver takes its blocks out of every index (state FLIGHT), drops the lock
 * and calls the driver. Then the thread takes the lock again, and commits or puts the blocks back.
 *
 * docs/design.md, chapter 2, has the nouns of all layers, and each header has its own. Of the whole
 * space are:
 *   call     an allocation or a free, where calls are counted: the allocator's measure of time
 *   turn     one round of a request through the lanes that it can order after or wait for
 *   hold     the time from taking the lock to dropping it; bounded, except in an attempt after
 *            too many foiled ones (pl_pace)
 *   breathe  to drop the lock for a moment, so that others get the lock */
#ifndef PLEAT_SEGMENTS_SPACE_H
#define PLEAT_SEGMENTS_SPACE_H

#include <stdatomic.h>

#include "segments/base/allocator.h"
#include "segments/base/ptrmap.h"
#include "segments/base/rounding.h"
#include "segments/base/stats.h"
#include "segments/pleat/space/area.h"
#include "segments/pleat/space/block.h"
#include "segments/pleat/space/lane.h"
#include "segments/pleat/space/live.h"
#include "segments/pleat/space/options.h"
#include "segments/pleat/space/segment.h"
#include "vmm/base/lock.h"

enum { PL_BLOCK_QUANTUM = 512, PL_N_BUFFER_SIZES = 64 };

/* Memory that a thread works on while the lock is dropped: in no index and no queue. A request that
 * finds no memory waits until all earlier flights have landed. */
typedef struct pl_flying {
    struct pl_flying *prev;
    struct pl_flying *next;
    uint64_t number; /* in order of taking off */
} pl_flying;

/* The tick of the whole context, which covers every lane's stamps up to its number. At most one
 * tick is recorded and has not passed. */
typedef struct pl_context {
    uint64_t next_tick; /* stamps of new frees are at least this number */
    uint64_t passed_tick;
    pl_tick tick;          /* fence NULL = none */
    bool is_busy;          /* a thread records or queries the tick now, or is about to */
    bool is_gathering;     /* a thread waits for a moment to record the tick: see capturers.h */
    bool is_holding;       /* is_gathering: capturers are kept inside their calls now */
    bool is_recording;     /* a thread records the tick now: no capture may begin */
    bool is_synchronizing; /* is_recording: and it may take long: see context.c */
    bool is_unsupported;   /* the driver has no event of the context */
    bool is_wanted;        /* some memory needs a tick of the context */
    unsigned n_refused;    /* attempts in a row that met an unknown capture */
    unsigned n_missed;     /* attempts in a row that found no good moment */
    uint64_t call;         /* n_calls at the last attempt to record */
    size_t gone_bytes;     /* of gone or silent lanes and released pools, not covered */
    pl_block_queue shared_pending; /* PL_BLOCK_SHARED whose present demand is on the context */
} pl_context;

/* With more lanes, lanes without references are given up. Their streams may be gone or not: drivers
 * do not tell, and a handle may never come again. Builds that walk everything after each call have
 * tests with few streams. There the number is small, so that these tests run the code. */
enum { PL_CROWD = PLEAT_DEBUG_LEVEL >= 2 ? 64 : 1024 };

enum { PL_CAPTURE_HEADS = 1024, PL_MOST_CAPTURERS = 32 };

/* A thread that was seen making captures: see capturers.h. */
typedef struct pl_capturer {
    struct pl_thread_life *life; /* held */
    bool is_inside;              /* in a call that found the thread's stream at rest */
    uint64_t seen_ms;            /* when the thread was last seen capturing */
    uint64_t missed_ms; /* since when the thread is known to be in no call; 0 = not known */
} pl_capturer;

/* Chunks of an order that are mapped nowhere, with room for all chunks of the device. */
typedef struct pl_idle {
    pl_chunk *chunks;
    size_t n;
} pl_idle;

/* Granules at [from, from + 2^PL_MOST_ORDER), of one chunk or several, without a mapping:
 * split.c. */
typedef struct pl_torn {
    pl_segment *segment; /* NULL = nothing is torn */
    size_t from;
    bool is_unmapped[1 << PL_MOST_ORDER];
} pl_torn;

/* I1  the live map holds exactly the live blocks, by base, except those of buffers
 * I2  when nothing is in flight, n_creating == 0 and n_held == n_idle + n_loose + n_pinned
 * I3  n_loose is the sum over the segments; n_pinned counts the granules with a chunk that are not
 *     loose; peak_pinned >= n_pinned
 * I4  every free block is indexed as run.h says
 * I5  each queue holds the blocks that its name says; stale blocks are in `stale`, holes in the
 *     `holes` of their area
 * I6  n_held x granule_bytes <= the limit, if one is set and no limit is being set
 * I7  the statistics of live blocks and the tally of all blocks equal a recount
 * I8  each lane counts what refers to it (lane.h, I5)                                          */
typedef struct pl_space {
    pl_allocator base; /* first member */
    pl_device *dev;    /* const */
    pl_meta meta;
    pl_lock lock;             /* rank 20 */
    pl_cond landed;           /* a flight has landed */
    unsigned n_waiting;       /* threads that wait for `landed` */
    pl_pleat_options options; /* const */
    pl_observer *observer;    /* const */
    uint64_t limit_bytes;     /* 0 = none */
    uint32_t wait_ms;         /* const */
    size_t granule_bytes;     /* const */
    unsigned granule_log2;    /* const */
    bool is_rounding;         /* requests are made larger: pl_space_round */

    pl_block_store store;
    pl_ptrmap live;
    pl_lane **lanes; /* by number - 1; NULL = no lane */
    size_t n_lane_rooms;
    uint32_t n_lanes;
    uint32_t looked_at;   /* index in `lanes`: where the search for gone lanes stopped */
    pl_lane_ring busy;    /* lanes with pending or shared blocks */
    pl_lane_ring ticking; /* lanes with recorded ticks */
    pl_lane_ring ripe;    /* lanes with a passed tick: they may have blocks to settle */
    uint64_t clock;       /* the newest stamp that a free may carry */
    uint64_t n_turns;     /* the last number given to a turn: see pl_lane.tried_turn */
    uint64_t short_call;  /* n_calls when a request last needed pending memory; 0 = never */
    pl_context context;
    pl_area *areas[PL_N_CLASSES][PL_MOST_AREAS]; /* the default pool's; NULL = none yet */
    unsigned n_areas[PL_N_CLASSES];
    struct pl_area_list closed[PL_N_BUFFER_SIZES]; /* areas of closed buffers, by size: buffer.h */
    pl_area *noted;                                /* closed buffers without memory: buffer.h */
    size_t n_noted;                                /* in `noted` */
    size_t n_buffers;                              /* open buffers */
    size_t n_buffer_blocks;                        /* live blocks in buffers: not in the live map */
    struct pl_pool_list pools;                     /* private pools not yet released */
    uint64_t n_pools_made;
    struct pl_private *draining; /* released pools whose graphs may still run; oldest first */
    struct pl_private *last_draining;
    pl_area *released; /* areas of former private pools: see private.h */
    pl_area *last_released;
    pl_tree segments;    /* by address */
    size_t n_walking;    /* walks over segments that may drop the lock: no segment goes */
    pl_segment *opening; /* the first of the list of opening segments */
    struct pl_capture_list captures[PL_CAPTURE_HEADS]; /* by id: see capture.h */
    struct pl_capture_list all_captures;
    struct pl_capture_list under_way; /* not known to have ended */
    struct pl_capture *looked_up;     /* the next to be checked for a gone graph; NULL = all were */
    struct pl_participant *participants[PL_CAPTURE_HEADS]; /* by handle */
    size_t n_captures;
    size_t n_capturing;        /* captures not known to have ended */
    _Atomic size_t n_expected; /* atomic, written under the lock: announced captures not yet over */
    size_t n_disowned;         /* disowned captures: their graphs may still run */
    uint64_t next_capture;     /* number of the newest capture; 0 = none was seen yet */
    uint64_t n_graphs_gone;    /* graphs gone when the look through the captures began */
    pl_capturer capturers[PL_MOST_CAPTURERS];
    unsigned n_capturers;

    pl_idle idle[PL_N_ORDERS];
    size_t n_idle; /* granules of these */

    size_t n_held;     /* granules held from the driver: mapped, idle or in flight */
    size_t n_creating; /* being created */
    size_t n_pinned; /* resident granules that are not loose, and granules that flights reserved */
    size_t n_flying; /* of n_pinned, used by nothing but requests in flight */
    size_t n_loose;
    size_t peak_pinned;
    size_t peak_shown; /* the peak of n_pinned since the peaks of the statistics were reset */
    size_t peak_held;
    size_t full_at;          /* the driver refused further chunks at this count; SIZE_MAX = never */
    uint64_t full_call;      /* n_calls at that refusal */
    size_t limit_granules;   /* SIZE_MAX = no limit set */
    unsigned n_limiting;     /* calls that set a limit now: the limit may still be exceeded */
    size_t total_granules;   /* const: all chunks of the device */
    size_t reserve_granules; /* const: left to others, see policy.h */
    size_t n_others;         /* chunks of others when the driver was last asked */
    size_t ask_free_at;      /* ask the driver again from this n_held on */
    pl_flying *first_flying;
    pl_flying *last_flying;
    unsigned n_flights;   /* in the list; also the live blocks that a restore will make */
    uint64_t n_taken_off; /* flights so far */
    bool is_moving;       /* a flight moves live blocks: see pl_space_begin_move */

    bool has_compacted;   /* a compaction has won memory: see policy.c */
    bool is_compacting;   /* or a heap falls asleep or wakes: see still.h */
    size_t n_asleep;      /* granules without a chunk under sleeping heaps: sleep.h */
    pl_range scratch;     /* addresses where a compaction fills chunks; bytes 0 = none */
    size_t scratch_bytes; /* bytes still mapped in `scratch`, as an unmapping failed */
    bool is_scratch_busy; /* copies into `scratch` may still run */
    pl_torn torn;         /* while something is, no request is served */

    uint64_t n_calls; /* allocations and frees so far */
    uint64_t n_takes; /* chunks that were taken and buy slack: see policy.h */
    pl_block_queue stale;
    size_t n_stale;                /* blocks in it */
    size_t n_pending_bytes;        /* of all lanes */
    size_t n_shared_bytes;         /* PL_BLOCK_SHARED, except private pools' blocks */
    size_t n_private_shared_bytes; /* PL_BLOCK_SHARED of private pools */
    uint64_t n_pieces;             /* pieces of runs looked at so far, and steps of a pl_pace */

    pl_front *fronts; /* those that are bound */
    unsigned n_fronts;
    unsigned n_stops; /* while not 0, no owner is inside a front */

    pl_usages usages; /* of live blocks, including blocks in fronts */
    uint64_t n_taken; /* chunks taken so far */

    unsigned roundup_divisions[PL_N_DIVISIONS]; /* of requests: pl_space_round */
} pl_space;

/* ---- lanes and areas ---- */

static inline pl_lane *pl_space_lane_at(const pl_space *space, uint32_t number)
{
    return space->lanes[number - 1];
}

/* The lane of a stream, or NULL. */
static inline pl_lane *pl_space_lane_of(const pl_space *space, const pl_stream *stream,
                                        bool is_capture)
{
    uint32_t i = pl_lane_number(stream, is_capture) - 1;

    return i < space->n_lane_rooms ? space->lanes[i] : NULL;
}
/* The lane's area of the class in the default pool; made if new. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_space_area(pl_space *space, pl_lane *lane, pl_class class, pl_area **out);
/* The next area of a pool (NULL = the default pool). The caller zeroes `cursor` before the first
 * call. Returns NULL after the last area. */
typedef struct pl_area_cursor {
    unsigned i;
    unsigned class;
    pl_area *listed;
    bool is_listing;
} pl_area_cursor;
pl_area *pl_space_next_area(const pl_space *space, const struct pl_private *pool,
                            pl_area_cursor *cursor);
/* The number of the stream's first lane, given the number of either lane. */
static inline uint32_t pl_lane_plain(uint32_t number)
{
    return ((number - 1) & ~UINT32_C(1)) + 1;
}
static inline bool pl_space_has_many_lanes(const pl_space *space)
{
    return space->n_lanes > 1;
}
static inline bool pl_space_is_crowded(const pl_space *space)
{
    return space->n_lanes > PL_CROWD;
}
/* The stamp of a free on the lane now. */
static inline uint64_t pl_lane_stamp(const pl_space *space, const pl_lane *lane)
{
    if (__builtin_expect(lane->is_closed, false)) {
        return lane->recorded_tick;
    }
    return lane->next_tick > space->context.next_tick ? lane->next_tick : space->context.next_tick;
}
/* Has a tick of the lane, or of the context, passed and covered this stamp? */
static inline bool pl_lane_has_passed(const pl_space *space, const pl_lane *lane, uint64_t tick)
{
    return tick <= lane->passed_tick || tick <= space->context.passed_tick;
}
/* Has this hold, begun when n_pieces was `since`, done all the work that a hold may do? */
enum { PL_PIECES_A_HOLD = 384 };
static inline bool pl_space_is_tired(const pl_space *space, uint64_t since)
{
    return space->n_pieces - since > PL_PIECES_A_HOLD;
}
/* A queue of the lane has changed: link the lane as busy, or unlink the lane. */
static inline void pl_space_note_busy(pl_space *space, pl_lane *lane)
{
    bool is_busy = lane->pending.first != NULL || lane->private_pending.first != NULL ||
                   lane->shared_pending.first != NULL;

    if (is_busy != lane->busy.is_linked) {
        if (is_busy) {
            pl_lane_ring_push_busy(&space->busy, lane);
        } else {
            pl_lane_ring_remove_busy(&space->busy, lane);
        }
    }
}
/* Have room for index i in an array. `array`: the address of the pointer to the array; element:
 * bytes of an element. New elements are zero. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_space_reserve_room(pl_space *space, void *array, size_t element, size_t *n_rooms,
                                   size_t i);
/* The segments in the order of their addresses. NULL: no further segment. */
pl_segment *pl_space_lowest(const pl_space *space);
pl_segment *pl_segment_above(const pl_segment *seg);
void pl_space_init_segments(pl_space *space);
/* Open a segment of the area: n_want granules of addresses, n_least where these are scarce. Drops
 * the lock. PLEAT_OK; ENOSPACE_VA; ENOMEM_HOST; EDRIVER. */
pleat_status pl_space_open_segment(pl_space *space, pl_area *area, size_t n_want, size_t n_least);
/* Its last step: the range becomes a segment. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_space_add_segment(pl_space *space, pl_area *area, pl_range range);
/* The highest segment that begins at or below `at`, and the segment that covers `at`; or NULL. */
pl_segment *pl_space_segment_below(const pl_space *space, pleat_devptr at);
pl_segment *pl_space_segment_at(const pl_space *space, pleat_devptr at);
/* The most chunks that may be held now: by the limit, the device and the driver's last refusal. */
size_t pl_space_cap(const pl_space *space);
static inline void pl_space_pin(pl_space *space, size_t n_granules)
{
    space->n_pinned += n_granules;
    if (space->n_pinned > space->peak_pinned) {
        space->peak_pinned = space->n_pinned;
    }
    if (space->n_pinned > space->peak_shown) {
        space->peak_shown = space->n_pinned;
    }
}

/* n granules have become loose, or are pinned from now on. */
static inline void pl_space_loosen(pl_space *space, size_t n)
{
    if (__builtin_expect(n > 0, false)) {
        space->n_loose += n;
        space->n_pinned -= n;
    }
}
static inline void pl_space_pin_loose(pl_space *space, size_t n)
{
    if (__builtin_expect(n > 0, false)) { /* else flights that may fail would lift the peak */
        space->n_loose -= n;
        pl_space_pin(space, n);
    }
}

/* ---- flights ---- */

/* Wait until a flight lands, or anything else changes that threads wait for. Drops the lock. */
void pl_space_wait(pl_space *space);
/* Wake the threads in pl_space_wait. */
static inline void pl_space_wake(pl_space *space)
{
    if (space->n_waiting > 0) {
        pl_cond_broadcast(&space->landed);
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
    pl_idle *idle = &space->idle[order];

    pl_assert(idle->n < space->total_granules >> order);
    idle->chunks[idle->n++] = chunk;
    space->n_idle += (size_t)1 << order;
}
/* An idle chunk of the order exists. */
static inline pl_chunk pl_space_pop_idle(pl_space *space, unsigned order)
{
    pl_idle *idle = &space->idle[order];

    space->n_idle -= (size_t)1 << order;
    return idle->chunks[--idle->n];
}
/* Drop the lock for a moment, so that other threads get the lock. */
void pl_space_breathe(pl_space *space);

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
    return space->n_calls + space->n_taken_off;
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
