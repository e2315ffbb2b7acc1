/* request.h - an allocation under way: the needs, and the remedies tried so far. */
#ifndef PLEAT_SEGMENTS_REQUEST_H
#define PLEAT_SEGMENTS_REQUEST_H

#include "segments/pleat/space/private.h"

typedef enum pl_ask { PL_ASK_NOT, PL_ASK_NOW, PL_ASK_DONE } pl_ask;

/* Steps done for a request between its attempts. Each step is bounded, so requests end (grow.c). */
typedef enum pl_done {
    PL_POLLED,        /* fences, after the first miss */
    PL_REFRESHED,     /* looked for memory that is over */
    PL_FOILED,        /* others may have taken memory during an attempt */
    PL_LANDED,        /* waited for other flights */
    PL_GATHERED,      /* memory was unmapped, as the request may not take */
    PL_POLLED_ALL,    /* every fence, and all memory that is over was settled */
    PL_ORDERED_FIRST, /* ordered after another stream instead of creating */
    PL_ORDERED,       /* in this turn no lane is left to order after */
    PL_WAITED,        /* in this turn no lane is left to wait for */
    PL_WAITED_ALL,    /* for the whole context */
    PL_CLEARED,       /* waited for stale addresses to be unmapped */
    PL_MADE_WAY,      /* idle chunks were released for the driver's page tables */
    PL_USED_RESERVE,  /* the request may use the reserve */
    PL_RECAST,        /* chunks of other sizes were released for a chunk as large as a page */
    PL_N_DONE,
} pl_done;

/* A page is to be made of whole chunks, at first and after others were released: recast.h. */
enum { PL_WHOLE_TRIES = 2 };

typedef struct pl_request {
    pl_lane *lane;
    pl_area *area;
    pl_private *pool; /* or heap; NULL = the default pool */
    size_t bytes;     /* rounded */
    uint64_t call;    /* n_calls at the start: the request's number */
    /* The lane whose pending memory the request may use: the own lane. 0 in a capture outside
     * private pools, since the graph may be launched on any stream. */
    uint32_t usable;
    pl_segment *in; /* the block must go to `at` in this segment; NULL: anywhere */
    pleat_devptr at;
    size_t n_page; /* granules of the page that the place is part of, and that goes as a whole; 1:
                        * the place is some pages of a single granule; 0: no pages */
    bool is_capturing; /* no waits, queries, takes */
    bool is_out_of_va; /* no more addresses can be reserved: a place in any area will do */
    bool wants_tick;   /* took pending memory, or was handed some, so a tick of the lane is due */
    uint32_t n_done[PL_N_DONE];
    bool has_passed;    /* in the last poll something had passed */
    bool is_forbidden;  /* a wait for the context failed, since a capture may be under way */
    pl_ask ask;         /* ask the driver again for memory refused before? */
    uint64_t turn;      /* number of the turn through lanes to order after */
    uint64_t wait_turn; /* number of the turn through lanes to wait for */
    size_t n_round;     /* granules added to the place, so that large chunks fit */
    size_t n_recast;    /* granules released for this request, and not taken */
} pl_request;

typedef enum pl_step {
    PL_STEP_DONE,  /* *out is the block, or *st the verdict */
    PL_STEP_AGAIN, /* something has changed: look for a resident fit again */
} pl_step;

/* Is it a private pool's, and no heap's? */
static inline bool pl_request_is_private(const pl_request *rq)
{
    return rq->pool != NULL && rq->pool->heap == NULL;
}

/* The fewest granules that can hold the request. */
static inline size_t pl_request_granules(const pl_space *space, const pl_request *rq)
{
    return (rq->bytes + space->granule_bytes - 1) >> space->granule_log2;
}

#endif
