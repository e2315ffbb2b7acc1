/* lane.h - what the allocator knows of one stream: its pending blocks and its ticks.
 *
 * A stream has a second lane for what private pools' blocks do while it is being captured: they are
 * used again in the capture's order, but what was freed before it may pend yet when the graph is
 * launched. No tick is recorded for that lane: when the capture is over its blocks are settled, or
 * go to the first one if the stream itself may have used any (pl_settle_rest).
 *
 * A free block pends on its lane's tick: a fence recorded now and then, and only in calls that name
 * the stream: at any other time it may be destroyed, and drivers promise nothing for its handle.
 * Frees are stamped; the stamps of all lanes come from one clock. A tick covers its lane's stamps
 * up to its number, a tick of the context (context.h) those of every lane. Once it has passed on
 * the GPU what it covers is over, and settled by and by. */
#ifndef PLEAT_SEGMENTS_LANE_H
#define PLEAT_SEGMENTS_LANE_H

#include "segments/pleat/area.h"
#include "segments/pleat/block.h"

typedef struct pl_tick {
    uint64_t number;
    pl_fence *fence;
} pl_tick;

enum {
    PL_LANE_TICKS = 64, /* in flight at once; then the newest two become one */
    PL_LANE_BEHIND = 8,
    PL_LANE_YOUNG = 256, /* frees in its life: until then it may be one that comes and goes */
    PL_LANE_LOOKS = 64,  /* lanes looked at in one hold of the lock */
};

/* "This lane waits on the GPU for that one's ticks up to this number." */
typedef struct pl_behind {
    uint32_t lane;
    uint64_t number;
} pl_behind;

typedef struct pl_lane_link {
    struct pl_lane *prev;
    struct pl_lane *next;
    bool is_linked;
} pl_lane_link;

/* I1  passed_tick < next_tick; the ticks in the ring have rising numbers between them; the last
 *     one's, or passed_tick without any, is recorded_tick
 * I2  a free block is in its lane's queue if and only if it pends on it: in `private_pending` if it
 *     is_private, else in `pending`; ticks do not fall along a queue
 * I3  pending_bytes is the sum of `pending`, private_bytes and shared_bytes of the others
 * I4  blocks in `shared_pending` have a last use that waits for this lane, with rising ticks
 * I5  n_live counts the live blocks with its number; n_refs everything else that has it but free
 *     blocks: uses, stale, shared and kept blocks, requests in the middle, and the stream's second
 *     lane, whose blocks may go over to it
 * I6  it is linked as busy if a queue of it is not empty, as ticking if it has ticks           */
typedef struct pl_lane {
    pl_stream *stream;          /* const */
    uint32_t number;            /* const: as in pl_block.lane, see pl_lane_number */
    bool is_capture;            /* const: the stream's second lane */
    bool is_mixed;              /* a second one: not all there came and went in one capture */
    bool is_gone;               /* its stream is: no tick will be recorded any more */
    bool is_closed;             /* and its last one covers all it ever did */
    bool is_labelling;          /* an area is told to be its stream's, so the stream stays */
    bool wants_tick;            /* somebody waits for a tick: the next call that names it records */
    bool is_silent;             /* no call has named it for a while since: it may be gone */
    bool is_recording;          /* some thread records a tick now */
    bool is_polled;             /* some thread queries the oldest tick now */
    struct pl_capture *capture; /* that its stream was last seen in; NULL = last seen at rest */
    uint64_t next_tick;         /* stamps the frees from now on, but see pl_lane_stamp */
    uint64_t passed_tick;       /* this tick and all before it are over */
    uint64_t recorded_tick;
    pl_tick ticks[PL_LANE_TICKS];
    unsigned first_tick; /* ring: oldest recorded tick not known to have passed */
    unsigned n_ticks;
    unsigned n_frees;      /* since the last tick */
    unsigned n_lifetime;   /* frees so far, at most PL_LANE_YOUNG */
    uint64_t wish_event;   /* wants_tick: n_events then */
    size_t unticked_bytes; /* freed since the last tick */
    size_t n_live;
    size_t n_refs;
    pl_block_queue pending; /* in order of freeing, tick never falls */
    size_t pending_bytes;
    pl_block_queue private_pending; /* the same of private pools' blocks */
    size_t private_bytes;
    pl_block_queue
        shared_pending;  /* PL_BLOCK_SHARED: wait for this lane now, as for one of several */
    size_t shared_bytes; /* of them */
    pl_index runs[PL_N_CLASSES];  /* of its pending blocks in the default pool, see run.h */
    pl_area *areas[PL_N_CLASSES]; /* where its requests look first; NULL = none yet */
    uint64_t tried_turn; /* of a request that has ordered after it, or waited for it, last */
    pl_behind behind[PL_LANE_BEHIND]; /* by lane number */
    pl_lane_link busy;
    pl_lane_link ticking;
    pl_lane_link ripe; /* a tick has passed since it was settled last */
    uint64_t
        seen_next_tick; /* next_tick and n_frees when it was last looked at in a crowd: both as */
    unsigned seen_n_frees; /* before mean that nothing was freed since */
    size_t n_seen_live;    /* the walker's recount of n_live and n_refs */
    size_t n_seen_refs;
} pl_lane;

/* Lanes one after the other; who looks at one moves it to the end, so that a bounded look sees all
 * by and by. */
typedef struct pl_lane_ring {
    pl_lane *first;
    pl_lane *last;
    size_t n;
} pl_lane_ring;

static inline uint32_t pl_lane_number(const pl_stream *stream, bool is_capture)
{
    return 2 * pl_stream_index(stream) + 1 + is_capture;
}

#define PL_DEFINE_LANE_RING(name)                                                                  \
    static inline void pl_lane_ring_push_##name(pl_lane_ring *ring, pl_lane *lane)                 \
    {                                                                                              \
        if (lane->name.is_linked) {                                                                \
            return;                                                                                \
        }                                                                                          \
        lane->name = (pl_lane_link){ ring->last, NULL, true };                                     \
        *(ring->last != NULL ? &ring->last->name.next : &ring->first) = lane;                      \
        ring->last = lane;                                                                         \
        ring->n++;                                                                                 \
    }                                                                                              \
    static inline void pl_lane_ring_remove_##name(pl_lane_ring *ring, pl_lane *lane)               \
    {                                                                                              \
        pl_lane_link link = lane->name;                                                            \
        if (!link.is_linked) {                                                                     \
            return;                                                                                \
        }                                                                                          \
        *(link.prev != NULL ? &link.prev->name.next : &ring->first) = link.next;                   \
        *(link.next != NULL ? &link.next->name.prev : &ring->last) = link.prev;                    \
        lane->name = (pl_lane_link){ NULL, NULL, false };                                          \
        ring->n--;                                                                                 \
    }
PL_DEFINE_LANE_RING(busy)
PL_DEFINE_LANE_RING(ticking)
PL_DEFINE_LANE_RING(ripe)
#undef PL_DEFINE_LANE_RING

#endif
