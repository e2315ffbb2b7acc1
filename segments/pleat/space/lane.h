/* lane.h - the allocator's record of a stream: its pending blocks and its ticks.
 *
 * A stream has a second lane for the blocks of private pools that the stream uses during captures.
 * The capture can use its own freed blocks again, in its own order. But memory that the stream
 * freed before the capture may still be pending when the graph is launched. No tick is recorded for
 * the second lane. When the capture is over, the second lane's blocks are settled. If the stream
 * itself may have used any of them, they move to the first lane instead (pl_settle_rest).
 *
 * A pending block waits for a tick of its lane, or of the context. A tick is a fence, recorded now
 * and then in calls that name the stream. At any other time the stream may have been destroyed, and
 * drivers promise nothing for the handle of a destroyed stream. A free carries a stamp; the stamps
 * of all lanes are counted together. A tick covers its lane's stamps up to its own number; a tick
 * of the context (context.h) covers the stamps of every lane. When a tick has passed on the GPU,
 * the frees covered by the tick are over: the lane's clock has passed their stamps, and their
 * blocks are settled, some at a time. */
#ifndef PLEAT_SEGMENTS_LANE_H
#define PLEAT_SEGMENTS_LANE_H

#include "segments/pleat/space/area.h"
#include "segments/pleat/space/clock.h"
#include "vmm/streams/stream.h"

typedef struct pl_tick {
    uint64_t number;
    pl_fence *fence;
} pl_tick;

enum {
    PL_LANE_TICKS = 64, /* recorded and not passed; a further tick replaces the newest */
    PL_LANE_BEHIND = 8,
    PL_LANE_YOUNG = 256, /* lanes with fewer frees may be of short-lived streams */
    PL_LANE_LOOKS = 64,  /* lanes looked at in one hold of the lock */
};

/* An order: the lane with this entry waits on the GPU for `lane`'s ticks up to `number`. */
typedef struct pl_behind {
    uint32_t lane;
    uint64_t number;
} pl_behind;

/* What is known of the lane's stream. */
typedef enum pl_lane_life {
    PL_LANE_HEARD,  /* the rule: no wish is open */
    PL_LANE_WISHED, /* the wish: the next call that names the stream records a tick */
    PL_LANE_SILENT, /* the wish had no answer: the stream may be gone */
    PL_LANE_GONE,   /* the stream is gone: no further ticks will be recorded */
    PL_LANE_CLOSED, /* gone, and the last tick covers all frees */
} pl_lane_life;

typedef struct pl_lane_link {
    struct pl_lane *prev;
    struct pl_lane *next;
    bool is_linked;
} pl_lane_link;

/* I1  clock.passed < clock.next; the ticks in the ring have rising numbers between these two;
 *     recorded_tick is the number of the last one, or clock.passed if there is none
 * I2  a free block waits for the clock of a lane if and only if it pends on that lane
 * I3  the last use of each shared block that waits is a demand on this lane
 * I4  n_live counts the live blocks of the lane; n_refs counts everything else that has its number,
 *     except free blocks: uses, stale, shared and captured blocks, private and released areas,
 *     calls under way, and the stream's second lane, whose blocks may move to this one
 * I5  the lane is linked as busy if and only if a block waits for its clock, as ticking if and only
 *     if it has ticks                                                                          */
typedef struct pl_lane {
    pl_stream *stream; /* const */
    uint32_t number;   /* const: as in pl_block.lane, see pl_lane_number */
    pl_lane_life life;
    bool is_capture;            /* const: the stream's second lane */
    bool is_mixed;              /* second lane: blocks came and went in different captures */
    bool is_labelling;          /* an area refers to the stream, so the stream object stays */
    bool is_recording;          /* some thread records a tick now */
    bool is_polled;             /* some thread queries the oldest tick now */
    struct pl_capture *capture; /* capture the stream was last seen in; NULL = at rest */
    pl_clock clock;             /* see pl_lane_stamp for its next stamp */
    uint64_t recorded_tick;     /* no tick of the lane covers stamps above this number */
    pl_tick ticks[PL_LANE_TICKS];
    unsigned first_tick; /* ring: oldest recorded tick not known to have passed */
    unsigned n_ticks;
    unsigned n_frees;      /* since a tick was last tried */
    unsigned n_lifetime;   /* frees so far, at most PL_LANE_YOUNG */
    uint64_t free_call;    /* n_calls at the last free */
    uint64_t wish_call;    /* PL_LANE_WISHED: n_calls at the wish */
    size_t unticked_bytes; /* freed since then */
    unsigned n_uses;       /* demands on the lane (shared.h) begun since the last tick */
    unsigned n_used;       /* such demands so far, at most PL_LANE_YOUNG */
    size_t used_bytes;     /* of the blocks of n_uses */
    size_t n_live;
    size_t n_refs;
    pl_index runs[PL_N_CLASSES];      /* of pending blocks in the default pool, see run.h */
    pl_area *areas[PL_N_CLASSES];     /* where requests look first; NULL = none yet */
    uint64_t tried_turn;              /* last turn in which a request tried the lane */
    pl_behind behind[PL_LANE_BEHIND]; /* orders of this lane after others, by lane number */
    pl_lane_link busy;
    pl_lane_link ticking;
    /* clock.next and n_frees at the last look in a crowd: while both hold, nothing was freed. */
    uint64_t seen_next;
    unsigned seen_n_frees;
    size_t n_seen_live; /* the walker's recount of n_live and n_refs */
    size_t n_seen_refs;
} pl_lane;

/* A list of lanes. Looks that settle, poll or wish move the lanes seen to the end. So bounded looks
 * see all lanes in turn. A busy lane whose tick has passed comes first: of very many, most may have
 * nothing to settle. */
typedef struct pl_lane_ring {
    pl_lane *first;
    pl_lane *last;
    size_t n;
} pl_lane_ring;

/* The line of free blocks, of the default pool or of all but owned granules of private pools. */
static inline pl_block_queue *pl_lane_pending(pl_lane *lane)
{
    return &lane->clock.lines[PL_LINE_PENDING].queue;
}

static inline bool pl_lane_is_gone(const pl_lane *lane)
{
    return lane->life >= PL_LANE_GONE;
}

/* Can only a tick of the context be counted on to cover the lane's memory? */
static inline bool pl_lane_is_lost(const pl_lane *lane)
{
    return lane->life >= PL_LANE_SILENT;
}

static inline bool pl_lane_wants_tick(const pl_lane *lane)
{
    return lane->life == PL_LANE_WISHED || lane->life == PL_LANE_SILENT;
}

static inline uint32_t pl_lane_number(const pl_stream *stream, bool is_capture)
{
    return 2 * pl_stream_index(stream) + 1 + is_capture;
}

/* Count a free of the lane at call `call` for the lane's next tick. The call that frees need not
 * have named the stream: a later call that names the stream records the tick. */
static inline void pl_lane_note_free(pl_lane *lane, size_t bytes, uint64_t call)
{
    lane->n_frees++;
    lane->free_call = call;
    lane->unticked_bytes += bytes;
    lane->n_lifetime += lane->n_lifetime < PL_LANE_YOUNG;
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
#undef PL_DEFINE_LANE_RING

/* The lane, which is in the ring, is looked at first. */
static inline void pl_lane_ring_lead_busy(pl_lane_ring *ring, pl_lane *lane)
{
    pl_lane_ring_remove_busy(ring, lane);
    lane->busy = (pl_lane_link){ NULL, ring->first, true };
    *(ring->first != NULL ? &ring->first->busy.prev : &ring->last) = lane;
    ring->first = lane;
    ring->n++;
}

#endif
