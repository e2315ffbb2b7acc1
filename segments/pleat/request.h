/* request.h - one allocation on its way: what is asked for, and what was tried for it already. */
#ifndef PLEAT_SEGMENTS_REQUEST_H
#define PLEAT_SEGMENTS_REQUEST_H

#include "segments/pleat/space.h"

typedef enum pl_ask { PL_ASK_NOT, PL_ASK_NOW, PL_ASK_DONE } pl_ask;

/* What has been done for a request between its attempts, so that nothing is done for ever: grow.c
 * says why it ends. */
typedef struct pl_tried {
    bool has_polled;       /* fences were queried since the request began, or waited */
    bool has_polled_all;   /* every fence was, and all that is over was settled */
    bool has_ordered;      /* in this turn: no lane is left that it could be ordered after, */
    bool has_waited;       /* or waited for */
    uint64_t turn;         /* of going after all lanes that it can be ordered after, */
    uint64_t wait_turn;    /* and of waiting for all of them */
    unsigned n_waited_all; /* how often it waited for the whole context */
    bool is_forbidden;     /* or did not, since a capture may last */
    bool has_cleared;      /* it waited for stale addresses */
    bool has_made_way;     /* idle chunks were released for the driver's page tables */
    pl_ask ask;            /* the driver, for memory it refused before the request began */
    uint32_t n_ordered;    /* ordered waits so far that were made instead of creating */
    unsigned n_landings;   /* how often it waited for those in flight */
    unsigned n_refreshed;  /* how often it was looked at what is over */
    unsigned n_foiled;     /* how often others took, while it breathed, what it was to have */
    unsigned n_gathered;   /* how often memory was unmapped for it, since it may not take */
} pl_tried;

typedef struct pl_request {
    pl_lane *lane;
    pl_area *area;
    pl_private *pool;  /* NULL = the default one */
    size_t bytes;      /* rounded */
    uint64_t event;    /* n_events when it began: its number */
    uint32_t usable;   /* whose pending memory it may use: its lane's; a capture's nobody's, as
                             a graph may be launched on any stream, but in a private pool its own */
    bool is_capturing; /* no waits, queries, takes */
    bool is_out_of_va; /* no more addresses can be reserved: any area will do */
    bool wants_tick;   /* it took pending memory: the stale mappings need a tick of its lane */
    pl_tried tried;
} pl_request;

typedef enum pl_step {
    PL_STEP_DONE,  /* *out is the block, or *st the verdict */
    PL_STEP_AGAIN, /* something has changed: look for a resident fit again */
} pl_step;

/* The least that its bytes fill. */
static inline size_t pl_request_granules(const pl_space *space, const pl_request *rq)
{
    return (rq->bytes + space->granule_bytes - 1) >> space->granule_log2;
}

#endif
