/* capture.c - see capture.h: what streams are seen doing. Guarded by the device lock. */
#include "segments/pleat/capture.h"

#include "segments/pleat/capture_end.h"
#include "segments/pleat/capture_list.h"
#include "segments/pleat/capturers.h"
#include "segments/pleat/private.h"
#include "vmm/driver.h"

/* ---- the captures there are ------------------------------------------------------------------ */

void pl_capture_drop(pl_space *space, pl_capture *capture)
{
    if (--capture->n_refs > 0) {
        return;
    }
    pl_capture **at = pl_capture_head_of(space, capture->id);
    while (*at != capture) {
        pl_lock_touch(1);
        at = &(*at)->next;
    }
    *at = capture->next;
    if (space->looked_up == capture) {
        space->looked_up = capture->links[PL_CAPTURES_ALL].next;
    }
    pl_capture_delist(&space->first_capture, capture, PL_CAPTURES_ALL);
    pl_capture_end(space, capture);
    pl_capture_forget_parts(space, capture);
    pl_capture_own_up(space, capture);
    space->n_captures--;
    pl_graph_watch_end(capture->watch);
    pl_host_free(&space->host, capture);
}

static pl_capture *create(pl_space *space, uint64_t id, pl_graph_watch *watch)
{
    pl_capture *capture = pl_host_calloc(&space->host, 1, sizeof(*capture));

    if (capture == NULL) {
        return NULL;
    }
    capture->id = id;
    capture->number = ++space->next_capture;
    capture->watch = watch;
    capture->next = *pl_capture_head_of(space, id);
    *pl_capture_head_of(space, id) = capture;
    pl_capture_enlist(&space->first_capture, capture, PL_CAPTURES_ALL);
    pl_capture_enlist(&space->under_way, capture, PL_CAPTURES_UNDER_WAY);
    space->n_captures++;
    space->n_capturing++;
    pl_device_note_capture(space->dev, true);
    return capture;
}

/* A capture that broke since its stream was asked has no graph to watch: whoever did not notice
 * would keep its memory for a graph that never comes. A broken one has no id any more. */
static bool has_broken(pl_stream *stream)
{
    pl_capture_info now;

    return pl_stream_capture(stream, &now) == PLEAT_OK && now.is_broken;
}

/* Where the driver cannot tell of its end, its owner will. Drops the lock. */
static pl_graph_watch *watch_graph(pl_space *space, pl_stream *stream, pl_capture_info *info)
{
    pl_graph_watch *watch = NULL;

    if (info->graph == NULL) {
        return NULL;
    }
    pl_lock_release(&space->lock);
    pleat_status st = pl_graph_watch_begin(space->dev, info->graph, &watch);
    if (st != PLEAT_OK && st != PLEAT_ENOTSUP) {
        info->is_broken = has_broken(stream);
    }
    pl_lock_acquire(&space->lock);
    return watch;
}

/* Two streams of one capture may be seen for the first time at once. */
static pleat_status find_or_create(pl_space *space, pl_stream *stream, pl_capture_info *info,
                                   pl_capture **out)
{
    *out = pl_capture_find(space, info->id);
    if (*out != NULL) {
        return PLEAT_OK;
    }
    pl_graph_watch *watch = watch_graph(space, stream, info);
    *out = pl_capture_find(space, info->id);
    if (*out == NULL) {
        *out = create(space, info->id, watch);
        watch = *out != NULL ? NULL : watch;
    }
    pl_graph_watch_end(watch);
    return *out != NULL ? PLEAT_OK : PLEAT_ENOMEM_HOST;
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

    lane->n_refs++; /* the lock is dropped */
    leave(space, lane);
    pleat_status st = find_or_create(space, lane->stream, info, &capture);
    lane->n_refs--;
    if (st != PLEAT_OK) {
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

/* While the driver watches its graph, the pool need not wait for the whole context. The pool's end
 * is the capture's in any case. */
static void use_pool(pl_capture *capture, pl_private *pool)
{
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
    pl_capture_enlist(&pool->graphs, capture, PL_CAPTURES_OF_POOL);
    pl_capture_hold(capture);
    pool->n_graphs++;
}

pleat_status pl_capture_see(pl_space *space, pl_lane *lane, const pl_capture_info *info,
                            pl_private *pool)
{
    if (__builtin_expect(!info->is_capturing, true)) {
        if (__builtin_expect(lane->capture != NULL, false)) {
            leave(space, lane);
        }
        return PLEAT_OK;
    }
    pl_capture_info now = *info;
    pl_capturers_note(space);
    bool is_known = lane->capture != NULL && !lane->capture->has_ended &&
                    lane->capture->id == info->id;
    pleat_status st = is_known ? PLEAT_OK : enter(space, lane, &now);
    if (st == PLEAT_OK && now.is_broken) {
        lane->capture->is_broken = true;
        pl_capture_see_end(space, lane->capture); /* whenever the program ends it */
    }
    if (st == PLEAT_OK && pool != NULL) {
        use_pool(lane->capture, pool);
    }
    return st;
}

bool pl_capture_is_lasting(const pl_space *space, const pl_lane *lane)
{
    uint32_t plain = pl_lane_plain(lane->number);
    const pl_capture *capture = pl_space_lane_at(space, plain)->capture;

    return capture != NULL && !capture->has_ended;
}

bool pl_capture_name_lasting(const pl_space *space)
{
    const pl_capture *capture = space->under_way;

    if (capture != NULL && capture->parts != NULL) {
        pl_driver_set_detail("it waits for all work of the device, and for that a capture on the "
                             "stream %p has to end: if it has, name that stream in a call, or "
                             "retire it before it is destroyed, or destroy the graph",
                             capture->parts->participant->handle);
    } else if (space->n_expected > 0) {
        pl_driver_set_detail("it waits for all work of the device, and for that no private pool "
                             "may be routed: see pleat_pool_end");
    }
    return capture != NULL || space->n_expected > 0;
}
