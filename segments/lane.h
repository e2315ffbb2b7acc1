/* lane.h - what the allocator knows of one stream: its pending blocks and its ticks.
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
 * I2  with several lanes, a free block is in its lane's queue if and only if it pends on it
 * I3  pending_bytes is the sum of the queue's blocks (0 while there is one lane) */
typedef struct pl_lane {
    pl_stream *stream;    /* const */
    uint32_t number;      /* const: the stream's index + 1, as in pl_block.lane */
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
    uint64_t refused_event; /* the request, by n_events, that could last not be ordered after it */
    uint64_t *behind;       /* by stream index: this stream waits on the GPU for that one's tick */
    uint32_t n_behind;      /* room of `behind` */
    pl_block_queue kept;    /* PL_BLOCK_KEPT: freed during, or from, a capture */
} pl_lane;

#endif
