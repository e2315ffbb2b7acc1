/* recast.c - see recast.h. */
#include "segments/pleat/grow/recast.h"

#include "segments/pleat/grow/trim.h"
#include "segments/pleat/streams/tick.h"

/* Memory can be taken under work of the own stream, but not released. Is the work over? */
static void look_at_own_work(pl_space *space, pl_lane *lane)
{
    if (lane->stream != NULL && lane->clock.lines[PL_LINE_PENDING].bytes > 0) {
        pl_tick_record(space, lane);
        (void)pl_tick_poll(space, PL_TICK_QUERIES);
    }
}

pl_step pl_recast(pl_space *space, pl_request *rq, size_t n_missing)
{
    bool is_page = rq->n_page > 1;
    bool is_first = rq->n_done[PL_RECAST] == 0;

    rq->n_done[PL_RECAST] = PL_WHOLE_TRIES;
    if (is_first && space->chunks.n_loose + space->chunks.n_idle >= n_missing) {
        look_at_own_work(space, rq->lane);
        rq->n_recast = pl_trim_recast(space, n_missing, !is_page);
        rq->n_done[PL_RECAST] -= is_page && rq->n_recast > 0;
    }
    return PL_STEP_AGAIN;
}
