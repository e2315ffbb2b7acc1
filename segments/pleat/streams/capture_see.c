/* capture_see.c - see capture_see.h. Guarded by the device lock. */
#include "segments/pleat/streams/capture_see.h"

#include "segments/pleat/space/back.h"
#include "segments/pleat/space/private.h"
#include "segments/pleat/streams/capturers.h"

/* ---- the capture that a stream is in --------------------------------------------------------- */

/* The driver was asked about the stream, and then told to watch the graph. If the stream is not in
 * the same capture any more, the graph may be gone, and its handle may be another graph's. The
 * stream was at rest in between, so the call takes the stream for resting. If the capture has
 * broken, no graph will come, and memory kept for the graph would be kept for ever. A broken
 * capture has no id to compare. */
static void ask_again(pl_space *space, pl_stream *stream, pl_capture_info *info)
{
    pl_capture_info now;

    pl_away(space);
    pleat_status st = pl_stream_capture(stream, &now);
    pl_back(space);
    if (st != PLEAT_OK) {
        return;
    }
    info->is_broken = now.is_broken;
    info->is_capturing = now.is_broken || (now.is_capturing && now.id == info->id);
}

/* NULL: the driver cannot tell when the graph is gone, so the owner will. May drop the lock. */
static pl_graph_watch *watch_graph(pl_space *space, pl_stream *stream, pl_capture_info *info)
{
    pl_graph_watch *watch = NULL;

    if (info->graph != NULL) {
        pl_away(space);
        (void)!pl_graph_watch_begin(space->dev, info->graph, &watch);
        pl_back(space);
        ask_again(space, stream, info);
    }
    return watch;
}

/* While the lock is dropped, another thread may see the capture first, on a further stream. *out is
 * NULL if the stream turns out to be at rest. */
static pleat_status find_or_create(pl_space *space, pl_stream *stream, pl_capture_info *info,
                                   pl_capture **out)
{
    *out = pl_capture_find(space, info->id);
    if (*out != NULL) {
        return PLEAT_OK;
    }
    pl_graph_watch *watch = watch_graph(space, stream, info);
    *out = info->is_capturing ? pl_capture_find(space, info->id) : NULL;
    if (*out == NULL && info->is_capturing) {
        *out = pl_capture_create(space, info->id, watch);
        watch = *out != NULL ? NULL : watch;
    }
    pl_graph_watch_end(watch);
    return *out != NULL || !info->is_capturing ? PLEAT_OK : PLEAT_ENOMEM_HOST;
}

/* ---- what a stream is seen doing ------------------------------------------------------------- */

static void leave(pl_space *space, pl_lane *lane)
{
    pl_capture *capture = lane->capture;

    if (capture == NULL) {
        return;
    }
    lane->capture = NULL;
    capture->n_lanes--;
    pl_capture_see_end(space, capture);
    pl_capture_drop(space, capture);
}

void pl_capture_lose_lane(pl_space *space, pl_lane *lane)
{
    pl_capture *capture = lane->capture;

    if (capture == NULL) {
        return;
    }
    lane->capture = NULL;
    if (--capture->n_lanes == 0) {
        pl_capture_see_end(space, capture);
    }
    pl_capture_drop(space, capture);
}

static pleat_status enter(pl_space *space, pl_lane *lane, pl_capture_info *info)
{
    pl_capture *capture;

    lane->n_refs++; /* the lane stays while the lock is dropped */
    leave(space, lane);
    pleat_status st = find_or_create(space, lane->stream, info, &capture);
    lane->n_refs--;
    if (st != PLEAT_OK || capture == NULL) {
        return st;
    }
    pl_capture_hold(capture);
    st = pl_capture_take_part(space, capture, pl_stream_handle(lane->stream));
    if (st != PLEAT_OK) {
        pl_capture_drop(space, capture);
        return st;
    }
    if (lane->capture != NULL) {
        lane->capture->n_lanes--;
        pl_capture_drop(space, lane->capture);
    }
    lane->capture = capture;
    capture->n_lanes++;
    return PLEAT_OK;
}

/* Link the capture to its first pool. The capture ends with the route of the pool. A pool drains
 * without a tick of the context only if all its captures are linked and watched. */
static void use_pool(pl_capture *capture, pl_private *pool)
{
    pl_keeper_keep(&pool->base);
    if (capture->pool == pool) {
        return;
    }
    if (capture->pool != NULL || capture->watch == NULL) {
        pool->is_unwatched = true;
    }
    if (capture->pool != NULL) {
        return;
    }
    capture->pool = pool;
    LIST_INSERT_HEAD(&pool->graphs, capture, of_pool);
    pl_capture_hold(capture);
    pool->n_graphs++;
    pool->n_captures++;
}

void pl_capture_see_use(const pl_capture *capture, pl_keeper *keeper)
{
    pl_private *pool = pl_private_of(keeper);

    pl_keeper_keep(keeper);
    pool->is_unwatched = pool->is_unwatched || (capture->pool != pool && !capture->is_broken);
}

pleat_status pl_capture_see(pl_space *space, pl_lane *lane, pl_capture_info *info,
                            pl_keeper *keeper)
{
    if (__builtin_expect(!info->is_capturing, true)) {
        if (__builtin_expect(lane->capture != NULL, false)) {
            leave(space, lane);
        }
        return PLEAT_OK;
    }
    pl_capturers_note(space);
    bool is_known = lane->capture != NULL && !pl_capture_has_ended(lane->capture) &&
                    lane->capture->id == info->id;
    pleat_status st = is_known ? PLEAT_OK : enter(space, lane, info);
    if (st != PLEAT_OK || !info->is_capturing) {
        return st;
    }
    if (info->is_broken) {
        lane->capture->is_broken = true;
        pl_capture_see_end(space, lane->capture); /* the program may end the capture later */
    }
    if (keeper != NULL) {
        use_pool(lane->capture, pl_private_of(keeper));
    }
    return PLEAT_OK;
}
