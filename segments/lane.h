/* lane.h - what the allocator knows of one stream: its pending blocks and its ticks.
 *
 * A stream has a second lane for what private pools' blocks do while it is being captured: they are
 * used again in the capture's order, but what was freed before it may pend yet when the graph is
 * launched. No tick is recorded for that lane: when the capture is over its blocks go to the first
 * one (pl_settle_rest).
 *
 * A free block pends on its lane's tick: a fence recorded now and then. Frees are stamped with
 * next_tick; recording that tick closes it, and once it has passed on the GPU every block with a
 * tick up to it is settled. While the device has one stream only, nothing is queued and no tick is
 * recorded, except to time the unmapping of stale blocks. */
#ifndef PLEAT_SEGMENTS_LANE_H
#define PLEAT_SEGMENTS_LANE_H

#include "segments/block.h"

typedef struct pl_tick {
    uint64_t number;
    pl_fence *fence;
} pl_tick;

enum { PL_LANE_TICKS = 64 }; /* in flight at once; more are not recorded, later ones cover them */

/* I1  passed_tick < next_tick, and the ticks in the ring have rising numbers between them
 * I2  with several lanes, a free block is in its lane's queue if and only if it pends on it: in
 *     `apart` if it is a private pool's, else in `pending`
 * I3  pending_bytes is the sum of that queue's blocks (0 while there is one lane), apart_bytes of
 *     the other's                                                                           */
typedef struct pl_lane {
    pl_stream *stream;    /* const */
    uint32_t number;      /* const: as in pl_block.lane, see pl_lane_number */
    bool is_capture;      /* const: the stream's second lane */
    uint64_t next_tick;   /* stamps the frees from now on */
    uint64_t passed_tick; /* this tick and all before it are over */
    pl_tick ticks[PL_LANE_TICKS];
    unsigned first_tick; /* ring: oldest recorded tick not known to have passed */
    unsigned n_ticks;
    unsigned n_frees;       /* since the last tick */
    bool is_recording;      /* some thread records a tick now */
    bool is_polled;         /* some thread queries the oldest tick now */
    pl_block_queue pending; /* in order of freeing, tick never falls */
    size_t pending_bytes;
    pl_block_queue apart; /* the same of private pools' blocks */
    size_t apart_bytes;
    uint64_t refused_event; /* the request, by n_events, that could last not be ordered after it */
    uint64_t *behind;       /* by lane number - 1: it waits on the GPU for that one's tick */
    uint32_t n_behind;      /* room of `behind` */
    pl_block_queue kept;    /* PL_BLOCK_KEPT: freed during, or from, a capture */
} pl_lane;

static inline uint32_t pl_lane_number(const pl_stream *stream, bool is_capture)
{
    return 2 * pl_stream_index(stream) + 1 + is_capture;
}

#endif
