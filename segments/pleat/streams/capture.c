/* capture.c - see capture.h: captures come, end and go. Guarded by the device lock. */
#include "segments/pleat/streams/capture.h"

#include "segments/pleat/space/private.h"
#include "segments/pleat/streams/capture_list.h"
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

pl_capture *pl_capture_create(pl_space *space, uint64_t id, pl_graph_watch *watch)
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

/* ---- captures end, their graphs go ----------------------------------------------------------- */

void pl_capture_own_up(pl_space *space, pl_capture *capture)
{
    space->n_disowned -= capture->is_disowned ? 1 : 0;
    capture->is_disowned = false;
}

void pl_capture_end(pl_space *space, pl_capture *capture)
{
    if (!capture->has_ended) {
        capture->has_ended = true;
        space->n_capturing--;
        pl_capture_delist(&space->under_way, capture, PL_CAPTURES_UNDER_WAY);
        pl_device_note_capture(space->dev, false);
    }
}

void pl_capture_end_gone(pl_space *space)
{
    for (pl_capture *c = space->under_way; c != NULL;) {
        pl_capture *next = c->links[PL_CAPTURES_UNDER_WAY].next;
        pl_lock_touch(1);
        if (pl_capture_is_gone(c)) {
            pl_capture_end(space, c);
        }
        c = next;
    }
}

void pl_capture_leave_pool(pl_space *space, pl_capture *capture)
{
    if (capture->pool != NULL) {
        pl_capture_delist(&capture->pool->graphs, capture, PL_CAPTURES_OF_POOL);
        capture->pool->n_graphs--;
        capture->pool = NULL;
        pl_capture_drop(space, capture);
    }
}

enum { FORGET_SOME = 256 };

bool pl_capture_forget_pool(pl_space *space, const pl_private *pool)
{
    size_t n = FORGET_SOME;

    for (; n > 0 && pool->graphs != NULL; n--) {
        pl_capture_leave_pool(space, pool->graphs);
    }
    pl_lock_touch(FORGET_SOME - n);
    return pool->graphs == NULL;
}

void pl_capture_free_all(pl_space *space)
{
    while (space->first_capture != NULL) {
        pl_capture *capture = space->first_capture;
        pl_capture_end(space, capture);
        space->first_capture = capture->links[PL_CAPTURES_ALL].next;
        pl_capture_forget_parts(space, capture);
        pl_graph_watch_end(capture->watch);
        pl_host_free(&space->host, capture);
    }
}

/* ---- what is known of them ------------------------------------------------------------------- */

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
