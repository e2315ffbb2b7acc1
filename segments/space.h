/* space.h - the pleat allocator's state for one device; shared by the files that implement it.
 *
 * One lock (rank 20) guards everything in here. It is never held across a driver call: whoever
 * needs the driver first takes what it works on out of every index (state FLIGHT), drops the lock,
 * calls, takes the lock again and commits or puts things back. */
#ifndef PLEAT_SEGMENTS_SPACE_H
#define PLEAT_SEGMENTS_SPACE_H

#include "segments/allocator.h"
#include "segments/area.h"
#include "segments/block.h"
#include "segments/budget.h"
#include "segments/lane.h"
#include "segments/ptrmap.h"
#include "segments/segment.h"
#include "segments/stats.h"
#include "vmm/base/lock.h"

enum { PL_BLOCK_QUANTUM = 512 };

/* I1  the live map holds exactly the live blocks, by base
 * I2  n_chunks + n_creating == n_idle + n_loose + n_pinned, when nothing is in flight
 * I3  n_loose is the sum over the segments; n_pinned counts the granules with a chunk that are not
 *     loose; peak_pinned >= n_pinned
 * I4  every free block is indexed as run.h says
 * I5  queues hold what their names say; stale blocks are in `stale`, holes in their area's
 * I6  n_chunks x chunk_bytes <= the limit, if one is set
 * I7  the statistics of live blocks equal a recount                                           */
typedef struct pl_space {
    pl_allocator base; /* first member */
    pl_device *dev;    /* const */
    pl_host host;
    pl_lock lock;          /* rank 20 */
    pthread_cond_t landed; /* a flight has landed */
    pl_allocator_options options;
    size_t granule_bytes;  /* const: bytes of a chunk */
    unsigned granule_log2; /* const */

    pl_block_store store;
    pl_ptrmap live;
    pl_lane **lanes; /* by number - 1; NULL = not seen */
    uint32_t n_lane_rooms;
    uint32_t n_lanes; /* seen */
    pl_area **areas;  /* the default pool's, by lane and class; NULL = none */
    uint32_t n_area_rooms;
    struct pl_private *pools; /* the private ones */
    pl_area *released;        /* areas that were a private pool's, see private.h */
    pl_segment **segments;    /* by address */
    uint32_t n_segments;
    uint32_t n_segment_rooms;

    pl_chunk *idle; /* mapped nowhere; room for every chunk there is */
    size_t n_idle;
    size_t n_idle_rooms;
    size_t n_chunks;   /* held from the driver: mapped, idle or in flight */
    size_t n_creating; /* being created */
    size_t n_pinned;   /* granules with bytes of live, kept or flying blocks */
    size_t n_loose;
    size_t peak_pinned;
    size_t peak_shown; /* the same since statistics' peaks were reset */
    size_t peak_chunks;
    size_t n_grown_back; /* balanced: granules taken that came back soon, see supply.c */
    size_t full_at;      /* the driver refused to go beyond so many chunks; SIZE_MAX = never */
    uint64_t full_event; /* when it did */
    size_t limit_chunks; /* SIZE_MAX = no limit set */
    size_t total_chunks; /* const: what the device has in all */
    unsigned n_flights;  /* requests between reservation and commit, and blocks of `many` that
                             a thread holds while it asks the driver */

    pl_budget budget;
    pl_block_queue stale;
    size_t n_stale;      /* blocks in it */
    pl_block_queue many; /* PL_BLOCK_MANY */
    size_t n_many_bytes;
    pl_block_queue apart; /* the same of private pools' blocks */
    size_t n_apart_bytes;
    size_t n_kept_bytes;
    size_t n_poisoned; /* granules out of service */

    pleat_stats stats;
    uint64_t n_taken;
} pl_space;

/* ---- lanes and areas (space.c) ---- */

/* When the second lane appears every free block is queued on the first. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_space_add_lane(pl_space *space, pl_stream *stream, bool is_capture, pl_lane **out);

/* The lane of a stream; made if new. PLEAT_OK or ENOMEM_HOST. */
static inline pleat_status pl_space_lane(pl_space *space, pl_stream *stream, bool is_capture,
                                         pl_lane **out)
{
    uint32_t i = pl_lane_number(stream, is_capture) - 1;

    if (__builtin_expect(i < space->n_lane_rooms && space->lanes[i] != NULL, true)) {
        *out = space->lanes[i];
        return PLEAT_OK;
    }
    return pl_space_add_lane(space, stream, is_capture, out);
}

/* Its area of the class; likewise. */
pleat_status pl_space_area(pl_space *space, pl_lane *lane, pl_class class, pl_area **out);
/* The areas of a pool (NULL = the default one) one by one: `cursor` is zeroed before the first.
 * NULL: no more. */
typedef struct pl_area_cursor {
    uint32_t i;
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

/* ---- telling (observer.h); what nobody wants to know costs one branch ---- */

void pl_space_say_block(const pl_space *space, pl_action action, const pl_block *b)
    __attribute__((cold));
void pl_space_say_run(const pl_space *space, pl_action action, const pl_segment *seg,
                      pleat_devptr base, uint64_t bytes) __attribute__((cold));

/* b: live, or being freed, its requested bytes and its owner still in it. */
static inline void pl_space_tell_block(const pl_space *space, pl_action action, const pl_block *b)
{
    if (pl_observer_is_on(space->options.observer)) {
        pl_space_say_block(space, action, b);
    }
}

/* Whole granules became resident, or holes. */
static inline void pl_space_tell_run(const pl_space *space, pl_action action, const pl_segment *seg,
                                     pleat_devptr base, uint64_t bytes)
{
    if (pl_observer_is_on(space->options.observer)) {
        pl_space_say_run(space, action, seg, base, bytes);
    }
}

#endif
