/* capture_end.c - see capture_end.h, and the end of capture.h. Guarded by the device lock. */
#include "segments/pleat/capture_end.h"

#include "segments/pleat/capture_list.h"
#include "segments/pleat/context.h"
#include "segments/pleat/many.h"
#include "segments/pleat/private.h"
#include "segments/pleat/settle.h"
#include "segments/pleat/tick.h"

enum { LOOK_SOME = 512, RELEASE_SOME = 256 };

/* ---- no more is captured --------------------------------------------------------------------- */

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

/* Its graph is gone, or the pool is. */
static void leave_pool(pl_space *space, pl_capture *capture)
{
    if (capture->pool != NULL) {
        pl_capture_delist(&capture->pool->graphs, capture, PL_CAPTURES_OF_POOL);
        capture->pool->n_graphs--;
        capture->pool = NULL;
        pl_capture_drop(space, capture);
    }
}

void pl_capture_see_end(pl_space *space, pl_capture *capture)
{
    pl_capture_end(space, capture);
    if (capture->is_broken && !capture->is_released) {
        capture->is_released = true;
        capture->over_tick = 0;
        pl_capture_own_up(space, capture);
        pl_capture_forget_parts(space, capture);
        leave_pool(space, capture);
    }
    (void)pl_many_pass_capture(space, capture, RELEASE_SOME);
}

/* ---- the graph is gone ----------------------------------------------------------------------- */

static bool is_gone(const pl_capture *capture)
{
    return capture->watch != NULL && pl_graph_watch_is_gone(capture->watch);
}

/* What waits for it may go on, some now. True: not all has yet. */
static bool release(pl_space *space, pl_capture *capture, uint64_t over_tick)
{
    if (!capture->is_released) {
        capture->is_released = true;
        capture->over_tick = over_tick;
    }
    pl_capture_end(space, capture);
    pl_capture_own_up(space, capture);
    pl_capture_forget_parts(space, capture);
    pl_capture_hold(capture);
    if (is_gone(capture)) {
        leave_pool(space, capture);
    }
    (void)pl_many_pass_capture(space, capture, RELEASE_SOME);
    bool has_more = capture->waiting.first != NULL;
    pl_capture_drop(space, capture);
    return has_more;
}

static bool has_something_to_release(const pl_capture *capture)
{
    return is_gone(capture) &&
           (!capture->is_released || capture->waiting.first != NULL || capture->pool != NULL);
}

/* As much as so many looks, where a few blocks wait for it. */
enum { RELEASE_COST = 7 };

/* What a release lets go may drop other captures, the next one too: pl_capture_drop cares for
 * looked_up. */
bool pl_capture_look(pl_space *space)
{
    uint64_t since = space->n_pieces;
    size_t n = LOOK_SOME;
    bool any = false;

    if (space->looked_up == NULL) {
        uint64_t n_gone = pl_graph_watch_n_gone();
        if (n_gone == space->n_graphs_gone) {
            return false;
        }
        space->n_graphs_gone = n_gone;
        space->looked_up = space->first_capture;
    }
    for (; n > 0 && space->looked_up != NULL && !pl_space_is_tired(space, since); n--) {
        pl_capture *capture = space->looked_up;
        pl_lock_touch(1);
        space->looked_up = capture->links[PL_CAPTURES_ALL].next;
        if (!has_something_to_release(capture)) {
            continue;
        }
        any = true;
        pl_capture_hold(capture);
        if (release(space, capture, 0)) { /* its launches are over, too */
            space->looked_up = capture;   /* there is more of it */
            n = 1;
        }
        n = n > RELEASE_COST ? n - RELEASE_COST : 1;
        pl_capture_drop(space, capture);
    }
    return any;
}

enum { MOST_LOOKS = 64, MOST_VAIN = 16 };

void pl_capture_look_well(pl_space *space)
{
    for (size_t n = MOST_LOOKS + space->n_captures; n > 0; n--) {
        if (!pl_capture_look(space) && space->looked_up == NULL) {
            return;
        }
        pl_space_breathe(space);
    }
}

/* Some at a time: what waits for the graph, not for the end, is passed over. */
static void pass_on(pl_space *space, pl_capture *capture)
{
    for (unsigned n_vain = 0; capture->waiting.first != NULL && n_vain < MOST_VAIN;) {
        n_vain = pl_many_pass_capture(space, capture, RELEASE_SOME) > 0 ? 0 : n_vain + 1;
        pl_space_breathe(space);
    }
}

void pl_capture_end_gone(pl_space *space)
{
    for (pl_capture *c = space->under_way; c != NULL;) {
        pl_capture *next = c->links[PL_CAPTURES_UNDER_WAY].next;
        pl_lock_touch(1);
        if (is_gone(c)) {
            pl_capture_end(space, c);
        }
        c = next;
    }
}

static pl_capture *find_under_way(const pl_space *space, const pl_private *pool)
{
    pl_capture *capture = space->under_way;

    while (capture != NULL && capture->pool != pool) {
        pl_lock_touch(1);
        capture = capture->links[PL_CAPTURES_UNDER_WAY].next;
    }
    return capture;
}

/* From the head again after each: the lock was dropped. */
void pl_capture_end_of_pool(pl_space *space, const pl_private *pool)
{
    for (pl_capture *c; (c = find_under_way(space, pool)) != NULL;) {
        pl_capture_hold(c);
        pl_capture_end(space, c);
        pass_on(space, c);
        pl_capture_drop(space, c);
    }
}

bool pl_capture_forget_pool(pl_space *space, const pl_private *pool)
{
    size_t n = RELEASE_SOME;

    for (; n > 0 && pool->graphs != NULL; n--) {
        leave_pool(space, pool->graphs);
    }
    pl_lock_touch(RELEASE_SOME - n);
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

/* ---- what its owner says --------------------------------------------------------------------- */

/* PLEAT_ECAPTURE: that capture is still under way. PLEAT_OK: it is over, as the stream is at rest,
 * in another capture, or gone. Else why the driver did not answer. Drops the lock. */
static pleat_status ask_whether_over(pl_space *space, const pl_capture *capture, void *handle)
{
    pl_capture_info info = { .is_capturing = false };
    pl_stream *stream = NULL;
    uint64_t id = capture->id;

    pl_lock_release(&space->lock);
    pleat_status st = pl_stream_get(space->dev, handle, &stream);
    if (st == PLEAT_OK) {
        st = pl_stream_capture(stream, &info);
        pl_stream_put(stream);
    }
    st = pl_stream_is_none(st) ? PLEAT_OK : st;
    pl_lock_acquire(&space->lock);
    return st == PLEAT_OK && info.is_capturing && info.id == id ? PLEAT_ECAPTURE : st;
}

/* Launches may be under way on any stream: what is over is what a tick of the context covers. */
static void release_launched(pl_space *space, pl_capture *capture)
{
    uint64_t over_tick = space->clock;

    space->context.next_tick = ++space->clock;
    pl_capture_hold(capture);
    capture->is_released = true;
    capture->over_tick = over_tick;
    pl_capture_end(space, capture);
    pl_capture_forget_parts(space, capture);
    pl_context_tick_want(space);
    (void)pl_tick_poll(space, 0);
    while (capture->waiting.first != NULL) {
        (void)release(space, capture, over_tick);
        pl_space_breathe(space);
    }
    pl_capture_drop(space, capture);
}

/* While the driver watches the graph it is not taken at its owner's word: what a living graph may
 * launch is not given away. */
static pleat_status release_of_stream(pl_space *space, void *handle)
{
    pl_capture_look_well(space);
    pl_capture *capture = pl_capture_find_of_stream(space, handle);
    if (capture == NULL) {
        return PLEAT_OK;
    }
    pl_capture_hold(capture);
    pleat_status st = capture->has_ended ? PLEAT_OK : ask_whether_over(space, capture, handle);
    if (st == PLEAT_OK && !capture->is_released) {
        pl_capture_end(space, capture);
        (void)pl_many_pass_capture(space, capture, RELEASE_SOME);
        if (capture->watch == NULL) {
            release_launched(space, capture);
        } else if (!capture->is_disowned) {
            capture->is_disowned = true;
            space->n_disowned++;
            pl_capture_forget_parts(space, capture);
        }
    }
    pl_capture_drop(space, capture);
    return st;
}

pleat_status pl_pleat_release_capture_of(pl_allocator *a, void *handle)
{
    pl_space *space = (pl_space *)a;

    pl_lock_acquire(&space->lock);
    pleat_status st = release_of_stream(space, handle);
    (void)pl_settle_some(space, PL_SETTLE_SOME);
    pl_lock_release(&space->lock);
    return st;
}

/* Held while the lock is dropped, it stays in the list. */
void pl_pleat_let_captures_go(pl_allocator *a)
{
    pl_space *space = (pl_space *)a;
    size_t n_looks = 0;

    pl_lock_acquire(&space->lock);
    for (pl_capture *c = space->first_capture; c != NULL;) {
        pl_capture_hold(c);
        while (c->has_ended && c->waiting.first != NULL) {
            (void)release(space, c, 0);
            pl_space_breathe(space);
        }
        pl_lock_touch(1);
        if (++n_looks % LOOK_SOME == 0) {
            pl_space_breathe(space);
        }
        pl_capture *next = c->links[PL_CAPTURES_ALL].next;
        pl_capture_drop(space, c);
        c = next;
    }
    pl_lock_release(&space->lock);
}
