/* request.h - an allocation under way: its needs, and the steps taken so far.
 *
 * request.c has the order in which a request looks for memory, as a table; fit.c, grow.c and
 * shortage.c have what the rows do. Guarded by the space's lock. */
#ifndef PLEAT_SEGMENTS_REQUEST_H
#define PLEAT_SEGMENTS_REQUEST_H

#include "segments/pleat/space/keeper.h"

typedef enum pl_ask { PL_ASK_NOT, PL_ASK_NOW, PL_ASK_DONE } pl_ask;

/* What is counted of a request. Each count is bounded, so requests end (request.c). */
typedef enum pl_done {
    PL_POLLED,        /* the first miss: fences were asked */
    PL_REFRESHED,     /* memory that is over was settled */
    PL_FOILED,        /* others may have taken memory during an attempt to grow */
    PL_LANDED,        /* waited for other flights */
    PL_GATHERED,      /* memory was unmapped: for other chunks, or as a capture may not take */
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
    PL_UNCOUNTED = PL_N_DONE, /* what uses something up, or ends the request */
} pl_done;

enum {
    PL_WHOLE_TRIES = 2, /* a page of whole chunks: at first, and after others were released */
    PL_MOST_GATHERED = 2,
    PL_MOST_WAITS = 8, /* for the whole context */
};

typedef struct pl_request {
    pl_lane *lane;
    pl_area *area;
    pl_keeper *keeper; /* in whose areas it looks; NULL = the default pool */
    size_t bytes;      /* rounded */
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
    bool has_passed;     /* in the last poll something had passed */
    pleat_status failed; /* the error of the last wait; ECAPTURE: a capture may be under way */
    pl_ask ask;          /* ask the driver again for memory refused before? */
    uint64_t turn;       /* number of the turn through lanes to order after */
    uint64_t wait_turn;  /* number of the turn through lanes to wait for */
    size_t n_round;      /* granules added to the place, so that large chunks fit */
    size_t n_recast;     /* granules released for this request, and not taken */
} pl_request;

/* What a row of the order came to. */
typedef enum pl_step {
    PL_STEP_NEXT,  /* nothing: go on with the next row */
    PL_STEP_AGAIN, /* something has changed: look again, from the first row */
    PL_STEP_DONE,  /* t->block is the block, or t->st says why there is none */
} pl_step;

/* One pass of a request through the order. */
typedef struct pl_attempt {
    pl_space *space;
    pl_request *rq;
    pl_block *block; /* what was found: a live block, not yet in the map of live blocks */
    pleat_status st; /* why the request cannot grow, and at last the answer */
    bool pends;      /* memory pends that might spare the request that answer */
} pl_attempt;

/* Is it a private pool's? */
static inline bool pl_request_is_private(const pl_request *rq)
{
    return pl_keeper_serves_captures(rq->keeper);
}

/* The fewest granules that can hold the request. */
static inline size_t pl_request_granules(const pl_space *space, const pl_request *rq)
{
    return (rq->bytes + space->granule_bytes - 1) >> space->granule_log2;
}

/* Find memory for the request, within the limit of its keeper, or say why there is none. *out is a
 * live block, not yet in the map of live blocks. Called with the lock; may drop the lock. The
 * caller holds the request's lane, and has no reservation or flight.
 *
 * PLEAT_OK. ENOMEM_DEVICE (THE PROMISE in grow.c; or the keeper's limit). ENOSPACE_VA (no addresses
 * are left). EPENDING (memory would suffice that may not be waited for). ENOMEM_HOST. EASLEEP.
 * EPOISONED. The error of a driver call. */
pleat_status pl_request_serve(pl_space *space, pl_request *rq, pl_block **out);

#endif
