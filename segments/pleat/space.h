/* space.h - the pleat allocator's state for one device; shared by the files that implement it.
 *
 * One lock (rank 20) guards everything in here. It is never held across a driver call: whoever
 * needs the driver first takes what it works on out of every index (state FLIGHT), drops the lock,
 * calls, takes the lock again and commits or puts things back. */
#ifndef PLEAT_SEGMENTS_SPACE_H
#define PLEAT_SEGMENTS_SPACE_H

#include <stdatomic.h>

#include "segments/base/allocator.h"
#include "segments/base/ptrmap.h"
#include "segments/base/stats.h"
#include "segments/pleat/area.h"
#include "segments/pleat/block.h"
#include "segments/pleat/budget.h"
#include "segments/pleat/lane.h"
#include "segments/pleat/options.h"
#include "segments/pleat/segment.h"
#include "vmm/base/lock.h"

enum { PL_BLOCK_QUANTUM = 512 };

/* What a thread has in its hands while the lock is dropped: in no index and no queue. Who finds
 * nothing waits until those that were there when it came have landed. */
typedef struct pl_flying {
    struct pl_flying *prev;
    struct pl_flying *next;
    uint64_t number; /* in order of taking off */
} pl_flying;

/* A tick of the whole context: it covers every lane's stamps up to its number. At most one is
 * recorded and not yet over. */
typedef struct pl_context {
    uint64_t next_tick; /* stamps are no lower than this */
    uint64_t passed_tick;
    pl_tick tick;          /* fence NULL = none */
    bool is_busy;          /* some thread records or queries it now */
    bool is_gathering;     /* or waits for the moment to record it: see capturers.h, */
    bool is_holding;       /* and keeps those who make captures in their calls meanwhile */
    bool is_recording;     /* or is about to: no capture may begin */
    bool is_synchronizing; /* is_recording: by a synchronisation, which may take long */
    bool is_unsupported;   /* the driver has no such event */
    bool is_wanted;        /* something waits that only it can cover */
    unsigned n_refused;    /* in a row, by captures nobody told of */
    unsigned n_missed;     /* in a row, for want of a good moment */
    uint64_t event;        /* n_events when it was recorded last */
    size_t gone_bytes;     /* since then: of lanes that are gone or silent, covered by no tick */
    pl_block_queue shared_pending; /* PL_BLOCK_SHARED that wait for it now */
} pl_context;

/* How many lanes there may be before those that nothing refers to are given up, whether or not
 * their streams are gone: drivers do not tell, and handles may never come again. A stream that
 * comes back all the same had better kept its lane. Where everything is walked after each call
 * there are few streams: a crowd is small, so that its ways are walked too. */
enum {
    PL_CROWD_LEAST = PLEAT_DEBUG_LEVEL >= 2 ? 64 : 1024,
    PL_CROWD_MOST = 1 << 16,
    PL_CROWD_IDS = 256
};
typedef struct pl_crowd {
    uint32_t most_lanes;         /* without anybody's leaving: from LEAST to MOST */
    uint32_t n_left;             /* since a stream came back, or most_lanes fell */
    unsigned n_looks;            /* by frees, while there were more */
    uint64_t left[PL_CROWD_IDS]; /* ids of the last that had to leave, by their low bits */
} pl_crowd;

enum { PL_CAPTURE_HEADS = 1024, PL_MOST_CAPTURERS = 32 };

/* A thread that makes captures: see capturers.h. */
typedef struct pl_capturer {
    struct pl_thread_life *life; /* held */
    bool is_inside;              /* a call that found its stream at rest */
    uint64_t seen_ms;            /* when it was seen capturing last */
    uint64_t missed_ms;          /* since when it is known to be outside; 0 = not known */
} pl_capturer;

/* Chunks of one order that are mapped nowhere; there is room for all that the device can have. */
typedef struct pl_idle {
    pl_chunk *chunks;
    size_t n;
} pl_idle;

/* I1  the live map holds exactly the live blocks, by base
 * I2  n_chunks + n_creating == n_idle + n_loose + n_pinned, when nothing is in flight
 * I3  n_loose is the sum over the segments; n_pinned counts the granules with a chunk that are not
 *     loose; peak_pinned >= n_pinned
 * I4  every free block is indexed as run.h says
 * I5  queues hold what their names say; stale blocks are in `stale`, holes in their area's
 * I6  n_chunks x chunk_bytes <= the limit, if one is set and no limit is being set
 * I7  the statistics of live blocks and the tally of all blocks equal a recount
 * I8  what refers to a lane is counted in it (lane.h, I5)                                     */
typedef struct pl_space {
    pl_allocator base; /* first member */
    pl_device *dev;    /* const */
    pl_host host;
    pl_lock lock;             /* rank 20 */
    pl_cond landed;           /* a flight has landed */
    unsigned n_waiting;       /* for that */
    pl_pleat_options options; /* const */
    pl_observer *observer;    /* const */
    uint64_t limit_bytes;     /* 0 = none */
    uint32_t wait_ms;         /* const */
    size_t granule_bytes;     /* const: bytes of a chunk */
    unsigned granule_log2;    /* const */

    pl_block_store store;
    pl_ptrmap live;
    pl_lane **lanes; /* by number - 1; NULL = not seen */
    uint32_t n_lane_rooms;
    uint32_t n_lanes;   /* there now */
    uint32_t looked_at; /* room: where the search for lanes that are gone goes on */
    pl_crowd crowd;
    pl_lane_ring busy;    /* with something that pends */
    pl_lane_ring ticking; /* with recorded ticks */
    pl_lane_ring ripe;    /* of which a tick has passed: there may be something to settle */
    uint64_t clock;       /* of stamps */
    uint64_t n_turns;     /* see pl_lane.tried_turn */
    uint64_t short_event; /* n_events when a request was last short of pending memory; 0 = never */
    pl_context context;
    pl_area *areas[PL_N_CLASSES][PL_MOST_AREAS]; /* the default pool's; NULL = none yet */
    unsigned n_areas[PL_N_CLASSES];
    struct pl_private *pools;    /* the private ones */
    struct pl_private *draining; /* released, but graphs may run yet: see private.h; oldest first */
    struct pl_private *last_draining;
    pl_area *released; /* areas that were a private pool's, see private.h */
    pl_area *last_released;
    pl_segment **segments; /* by address */
    uint32_t n_segments;
    uint32_t n_segment_rooms;
    pl_segment *opening;                           /* first of those that are */
    struct pl_capture *captures[PL_CAPTURE_HEADS]; /* by id: see capture.h */
    struct pl_capture *first_capture;              /* of all */
    struct pl_capture *under_way;                  /* not known to have ended */
    struct pl_capture *looked_up; /* who is looked at next: is its graph gone? NULL = all were */
    struct pl_participant *participants[PL_CAPTURE_HEADS]; /* by handle */
    size_t n_captures;
    size_t n_capturing; /* not known to have ended */
    _Atomic size_t
        n_expected;         /* atomic, written under the lock: calls that say that one may begin */
    size_t n_disowned;      /* whose owner said that their graph is gone; it may run yet */
    uint64_t next_capture;  /* number */
    uint64_t n_graphs_gone; /* when the look through the captures began */
    pl_capturer capturers[PL_MOST_CAPTURERS];
    unsigned n_capturers;

    pl_idle idle[PL_N_ORDERS];
    size_t n_idle; /* granules of these */

    size_t n_chunks;   /* granules held from the driver: mapped, idle or in flight */
    size_t n_creating; /* being created */
    size_t n_pinned;   /* granules with bytes of live, kept or flying blocks */
    size_t n_flying;   /* of these, by requests in flight alone */
    size_t n_loose;
    size_t peak_pinned;
    size_t peak_shown; /* the same since statistics' peaks were reset */
    size_t peak_chunks;
    size_t n_grown_back; /* balanced: granules taken that came back soon, see grow.c */
    size_t full_at;      /* the driver refused to go beyond so many chunks; SIZE_MAX = never */
    uint64_t full_event; /* when it did */
    size_t limit_chunks; /* SIZE_MAX = no limit set */
    unsigned n_limiting; /* calls that set one now: what is held may exceed it yet */
    size_t total_chunks; /* const: what the device has in all */
    pl_flying *first_flying;
    pl_flying *last_flying;
    unsigned n_flights; /* of these */
    uint64_t n_taken_off;

    pl_budget budget;
    pl_block_queue stale;
    size_t n_stale;                /* blocks in it */
    size_t n_pending_bytes;        /* of all lanes */
    size_t n_shared_bytes;         /* PL_BLOCK_SHARED */
    size_t n_private_shared_bytes; /* the same of private pools' blocks */
    size_t n_kept_bytes;
    size_t n_poisoned; /* granules out of service */
    uint64_t n_pieces; /* of runs, looked at so far: settling counts by them */

    pleat_stats stats;
    uint64_t n_taken;
} pl_space;

/* ---- lanes and areas ---- */

static inline pl_lane *pl_space_lane_at(const pl_space *space, uint32_t number)
{
    return space->lanes[number - 1];
}

/* The lane's area of the class in the default pool; made if need be. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_space_area(pl_space *space, pl_lane *lane, pl_class class, pl_area **out);
/* The areas of a pool (NULL = the default one) one by one: `cursor` is zeroed before the first.
 * NULL: no more. */
typedef struct pl_area_cursor {
    unsigned i;
    unsigned class;
    pl_area *listed;
    bool is_listing;
} pl_area_cursor;
pl_area *pl_space_next_area(const pl_space *space, const struct pl_private *pool,
                            pl_area_cursor *cursor);
/* The lane that counts outside captures. */
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
    return space->n_lanes > space->crowd.most_lanes;
}
/* What a free on the lane is stamped with now. */
static inline uint64_t pl_lane_stamp(const pl_space *space, const pl_lane *lane)
{
    if (__builtin_expect(lane->is_closed, false)) {
        return lane->recorded_tick;
    }
    return lane->next_tick > space->context.next_tick ? lane->next_tick : space->context.next_tick;
}
/* Has the lane, or the whole context, passed that stamp? */
static inline bool pl_lane_has_passed(const pl_space *space, const pl_lane *lane, uint64_t tick)
{
    return tick <= lane->passed_tick || tick <= space->context.passed_tick;
}
/* Has this hold brought enough runs up to date since n_pieces was `since`? */
enum { PL_PIECES_A_HOLD = 384 };
static inline bool pl_space_is_tired(const pl_space *space, uint64_t since)
{
    return space->n_pieces - since > PL_PIECES_A_HOLD;
}
/* A queue of the lane has changed. */
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
/* Have room for index i in an array of pointers, the space's `lanes` or `segments`; new entries are
 * NULL. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_space_reserve_room(pl_space *space, void *array, uint32_t *n_rooms, uint32_t i);
pleat_status pl_space_add_segment(pl_space *space, pl_area *area, pl_range range);
/* The segment that covers `at`, or NULL. */
pl_segment *pl_space_segment_at(const pl_space *space, pleat_devptr at);
/* Most chunks that may be held now: limit, device and what the driver is known to refuse. */
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

/* ---- flights ---- */

void pl_space_take_off(pl_space *space, pl_flying *flying);
void pl_space_land(pl_space *space, pl_flying *flying);
/* Wait until those that fly now have landed; holding nothing. Others may have taken off since. */
void pl_space_wait_for_flights(pl_space *space);
/* The chunk is mapped nowhere any more, or not yet. */
static inline void pl_space_push_idle(pl_space *space, pl_chunk chunk, unsigned order)
{
    pl_idle *idle = &space->idle[order];

    pl_assert(idle->n < space->total_chunks >> order);
    idle->chunks[idle->n++] = chunk;
    space->n_idle += (size_t)1 << order;
}
/* There is one of this order. */
static inline pl_chunk pl_space_pop_idle(pl_space *space, unsigned order)
{
    pl_idle *idle = &space->idle[order];

    space->n_idle -= (size_t)1 << order;
    return idle->chunks[--idle->n];
}
/* Let others have the lock for a moment. */
void pl_space_breathe(pl_space *space);

/* ---- work that is too long for one hold of the lock ---- */

/* What is in its hands meanwhile is in flight; whatever else it has seen, others may have changed
 * when it has breathed. */
typedef struct pl_pace {
    uint64_t since; /* n_pieces when this hold began */
    uint64_t alone; /* what pl_pace_is_alone compares */
    bool is_unbroken;
    bool has_breathed;
} pl_pace;

static inline uint64_t pl_pace_turn(const pl_space *space)
{
    return space->budget.n_events + space->n_taken_off;
}

/* is_unbroken: it never breathes, however long it takes. */
static inline void pl_pace_begin(const pl_space *space, pl_pace *pace, bool is_unbroken)
{
    *pace = (pl_pace){ .since = space->n_pieces,
                       .alone = pl_pace_turn(space),
                       .is_unbroken = is_unbroken };
}

/* Was nothing taken since it began that nobody else holds? Then it might as well have been one
 * hold: what others gave back meanwhile came after it. */
static inline bool pl_pace_is_alone(const pl_space *space, const pl_pace *pace)
{
    return !pace->has_breathed || pace->alone == pl_pace_turn(space);
}

/* n more have been looked at, and counted. May drop the lock. */
void pl_pace_count(pl_space *space, pl_pace *pace, size_t n);

/* The same, of what nobody has counted yet. */
static inline void pl_pace_step(pl_space *space, pl_pace *pace, size_t n)
{
    pl_lock_touch(n);
    pl_pace_count(space, pace, n);
}

/* ---- telling (observer.h); what nobody wants to know costs one branch ---- */

void pl_space_say_block(const pl_space *space, pl_action action, const pl_block *b)
    __attribute__((cold));
void pl_space_say_run(const pl_space *space, pl_action action, const pl_segment *seg,
                      pleat_devptr base, uint64_t bytes) __attribute__((cold));

/* b: live, or being freed, its requested bytes and its owner still in it. */
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

#endif
