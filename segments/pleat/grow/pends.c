/* pends.c - how much memory a wait may bring: see grow.h. */
#include "segments/pleat/grow/grow.h"

#include "segments/pleat/space/run.h"

static bool pends_in_areas(const pl_space *space, const pl_keeper *keeper, const pl_lane *lane)
{
    pl_area_cursor cursor = { 0 };

    for (const pl_area *area; (area = pl_space_next_area(space, keeper, &cursor)) != NULL;) {
        pl_lock_touch(1);
        if (pl_run_has_pending(space, area, lane->number)) {
            return true;
        }
    }
    return false;
}

/* Bytes that pend on the lane and may help. Private pools' bytes count only if the request's own
 * pool has some of them. */
static size_t bytes_on(const pl_space *space, const pl_request *rq, const pl_lane *lane)
{
    bool is_own = pl_request_is_private(rq) && lane->clock.lines[PL_LINE_PRIVATE].bytes > 0 &&
                  pends_in_areas(space, rq->keeper, lane);

    return lane->clock.lines[PL_LINE_PENDING].bytes +
           (is_own ? lane->clock.lines[PL_LINE_PRIVATE].bytes : 0);
}

const pl_lane *pl_pends_most(const pl_space *space, const pl_request *rq)
{
    const pl_lane *best = NULL;
    size_t best_bytes = 0;
    size_t n_looks = PL_LANE_LOOKS;

    for (const pl_lane *lane = space->streams.busy.first; lane != NULL && n_looks > 0;
         lane = lane->busy.next, n_looks--) {
        size_t bytes = lane != rq->lane ? bytes_on(space, rq, lane) : 0;
        if (bytes > best_bytes) {
            best = lane;
            best_bytes = bytes;
        }
    }
    return best;
}

size_t pl_pends_shared_bytes(const pl_space *space, const pl_request *rq)
{
    return space->streams.n_shared_bytes +
           (pl_request_is_private(rq) ? space->streams.n_private_shared_bytes : 0);
}

/* Among more lanes than one hold may look at, all that pends elsewhere is taken for the pool's: a
 * refusal must not overlook memory. */
bool pl_pends_in_private(const pl_space *space, const pl_request *rq)
{
    const pl_space_streams *streams = &space->streams;
    const pl_line *own = rq->lane->clock.lines;
    bool any = space->places.draining != NULL || space->places.opening != NULL;

    if (any || !pl_request_is_private(rq)) {
        return any;
    }
    if (streams->busy.n > PL_LANE_LOOKS) {
        return streams->n_private_pending_bytes > own[PL_LINE_PRIVATE].bytes ||
               streams->n_pending_bytes > own[PL_LINE_PENDING].bytes;
    }
    for (const pl_lane *lane = streams->busy.first; !any && lane != NULL; lane = lane->busy.next) {
        any = lane->number != rq->usable && pends_in_areas(space, rq->keeper, lane);
    }
    return any;
}

/* Is there any memory that a wait or an order might let the request have? Counts answer, since the
 * lanes may be too many to look at. */
static bool at_all(const pl_space *space, const pl_request *rq)
{
    size_t own = rq->lane->clock.lines[PL_LINE_PENDING].bytes;

    return pl_pends_shared_bytes(space, rq) > 0 || space->streams.n_pending_bytes > own ||
           pl_pends_in_private(space, rq) || space->captures.n_disowned > 0;
}

bool pl_pends_for(const pl_space *space, const pl_request *rq, pleat_status verdict)
{
    if (verdict != PLEAT_ENOSPACE_VA || !pl_request_is_private(rq)) {
        return at_all(space, rq);
    }
    return space->streams.n_private_shared_bytes > 0 || pl_pends_in_private(space, rq);
}
