/* recast.h - chunks of a buffer's pages, and chunks of other requests in their place.
 *
 * A page of a buffer goes as a whole. So chunks as large as the page tie nothing, however little
 * headroom there is. The page gets its fewest chunks, at first none smaller than the least of them:
 *
 *   granules   chunks         least order
 *   32         32             5
 *   56         32, 16, 8      3
 *
 * Such chunks are idle, or new within the slack, or loose. Are they too few? Then loose memory in
 * other chunks is released, as much as is missing, and new chunks take its place. Memory held stays
 * the same. This is done once, without a wait. Then the page gets chunks like any other request.
 *
 * Other requests would pin a page's large chunk by parts, as their blocks go one by one. So they
 * take no chunk from a buffer that is larger than those they would create. They have the chunk
 * released instead, and create their own.
 *
 * Guarded by the device lock. */
#ifndef PLEAT_SEGMENTS_RECAST_H
#define PLEAT_SEGMENTS_RECAST_H

#include "segments/pleat/grow/flight.h"

/* Shall the request's place be made of whole chunks in this attempt? */
static inline bool pl_page_is_whole(const pl_request *rq)
{
    return rq->n_page > 1 && rq->n_done[PL_RECAST] < PL_WHOLE_TRIES;
}

/* The least order of the fewest chunks for the flight's holes. */
static inline unsigned pl_page_least_order(const pl_flight *f)
{
    unsigned order = f->need > 0 ? (unsigned)__builtin_ctzll(f->need) : 0;

    return order < PL_MOST_ORDER ? order : PL_MOST_ORDER;
}

/* Are just those chunks missing that are larger, in buffers, than the request would create? */
static inline bool pl_recast_is_due(const pl_request *rq, const pl_flight *f)
{
    return rq->n_done[PL_RECAST] == 0 && f->has_too_large && pl_flight_missing(f) > 0;
}

/* Release n_missing granules, if there are as many. The request's next attempt may create as many.
 * Called with the lock; drops the lock. The caller has no reservation or flight. */
pl_step pl_recast(pl_space *space, pl_request *rq, size_t n_missing);

#endif
