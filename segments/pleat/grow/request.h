/* request.h - an allocation under way: what it asks for, and what was tried for it already. */
#ifndef PLEAT_SEGMENTS_REQUEST_H
#define PLEAT_SEGMENTS_REQUEST_H

#include "segments/pleat/space/private.h"

typedef enum pl_ask { PL_ASK_NOT, PL_ASK_NOW, PL_ASK_DONE } pl_ask;

/* What was done for a request between its attempts. Each has its bound: grow.c says why a request
 * ends. */
typedef enum pl_done {
    PL_POLLED,        /* fences, after its first miss */
    PL_REFRESHED,     /* looked for memory that is over */
    PL_EMPTIED,       /* the fronts, since it last tried to grow */
    PL_FOILED,        /* others may have taken its memory during an attempt */
    PL_LANDED,        /* waited for other flights */
    PL_GATHERED,      /* memory was unmapped for it, since it may not take */
    PL_POLLED_ALL,    /* every fence, and all that is over was settled */
    PL_ORDERED_FIRST, /* ordered after another stream instead of creating */
    PL_ORDERED,       /* in this turn no lane is left that it could be ordered after */
    PL_WAITED,        /* in this turn no lane is left that it could wait for */
    PL_WAITED_ALL,    /* for the whole context */
    PL_CLEARED,       /* waited for stale addresses to be unmapped */
    PL_MADE_WAY,      /* idle chunks were released for the driver's page tables */
    PL_USED_RESERVE,  /* it may have what is reserved for others */
    PL_N_DONE,
} pl_done;

typedef struct pl_request {
    pl_lane *lane;
    pl_area *area;
    pl_private *pool; /* or room; NULL = the default one */
    size_t bytes;     /* rounded */
    uint64_t event;   /* n_events when it began: its number */
    /* The lane whose pending memory it may use: its own; but 0 in a capture outside private pools,
     * since the graph may be launched on any stream. */
    uint32_t usable;
    pl_segment *in; /* its block goes to `at` in this segment and nowhere else; NULL: anywhere */
    pleat_devptr at;
    bool is_paged;     /* its chunks have one granule each */
    bool is_capturing; /* no waits, queries, takes */
    bool is_out_of_va; /* no more addresses can be reserved: a place in any area will do */
    bool wants_tick;   /* it took or adopted pending memory, which needs a tick of its lane */
    uint32_t n_done[PL_N_DONE];
    bool has_passed;    /* in the last poll something had passed */
    bool is_forbidden;  /* a wait for the context failed, since a capture may be under way */
    pl_ask ask;         /* ask the driver again for memory that it refused before? */
    uint64_t turn;      /* the number of this turn through the lanes to order after */
    uint64_t wait_turn; /* the number of this turn through the lanes to wait for */
    size_t n_round;     /* granules that its place gets beyond its own, so that large chunks fit */
} pl_request;

typedef enum pl_step {
    PL_STEP_DONE,  /* *out is the block, or *st the verdict */
    PL_STEP_AGAIN, /* something has changed: look for a resident fit again */
} pl_step;

/* Is it a private pool's, and no room's? */
static inline bool pl_request_is_private(const pl_request *rq)
{
    return rq->pool != NULL && rq->pool->room == NULL;
}

/* The least number of granules that can hold the request. */
static inline size_t pl_request_granules(const pl_space *space, const pl_request *rq)
{
    return (rq->bytes + space->granule_bytes - 1) >> space->granule_log2;
}

#endif
