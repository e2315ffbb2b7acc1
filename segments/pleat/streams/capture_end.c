/* capture_end.c - ends captures and releases graphs: see capture_see.h. Guarded by the device
 * lock. */
#include "segments/pleat/streams/capture_see.h"

#include "segments/pleat/space/private.h"
#include "segments/pleat/streams/pass.h"

/* Do blocks wait for the capture that need not? */
static bool has_over(const pl_capture *capture)
{
    bool any = false;

    for (int kind = 0; kind < PL_N_LINES; kind++) {
        const pl_block *first = capture->clock.lines[kind].queue.first;
        any = any || (first != NULL && first->stamp <= capture->clock.passed);
    }
    return any;
}

/* In place of n_graphs_gone: another look is due. */
static const uint64_t LOOK_AGAIN = UINT64_MAX;

size_t pl_capture_pass(pl_space *space, pl_capture *capture)
{
    size_t n = pl_pass(space, &capture->clock, capture->clock.passed, space->n_pieces);

    if (has_over(capture)) { /* the rest goes on in later holds */
        if (space->captures.looked_up == NULL) {
            space->captures.looked_up = capture;
        } else {
            space->captures.n_graphs_gone = LOOK_AGAIN;
        }
    }
    return n;
}

void pl_capture_see_end(pl_space *space, pl_capture *capture)
{
    pl_capture_end(space, capture);
    if (capture->is_broken && !pl_capture_is_released(capture)) {
        pl_capture_lose_graph(capture, 0);
        pl_capture_own_up(space, capture);
        pl_capture_forget_parts(space, capture);
    }
    (void)pl_capture_pass(space, capture);
}

/* ---- the graph is gone ----------------------------------------------------------------------- */

void pl_capture_release(pl_space *space, pl_capture *capture, uint64_t over_tick)
{
    pl_capture_end(space, capture);
    pl_capture_lose_graph(capture, over_tick);
    pl_capture_own_up(space, capture);
    pl_capture_forget_parts(space, capture);
    pl_capture_hold(capture);
    if (pl_capture_is_gone(capture)) {
        pl_capture_leave_pool(space, capture);
    }
    (void)pl_capture_pass(space, capture);
    pl_capture_drop(space, capture);
}

static bool has_something_to_release(const pl_capture *capture)
{
    return has_over(capture) || (pl_capture_is_gone(capture) &&
                                 (!pl_capture_is_released(capture) || capture->pool != NULL));
}

/* Let blocks of the capture go on. True: some are left that need not wait. */
static bool go_on(pl_space *space, pl_capture *capture)
{
    if (pl_capture_is_gone(capture)) {
        pl_capture_release(space, capture, 0); /* the launches are over, too */
    } else {
        (void)pl_capture_pass(space, capture);
    }
    return has_over(capture);
}

/* A block that goes on may drop any other capture, even the next: pl_capture_drop keeps looked_up
 * valid. */
bool pl_capture_look(pl_space *space)
{
    uint64_t since = space->n_pieces;
    bool any = false;
    bool has_more = false;

    if (space->captures.looked_up == NULL) {
        uint64_t n_gone = pl_graph_watch_n_gone();
        if (n_gone == space->captures.n_graphs_gone) {
            return false;
        }
        space->captures.n_graphs_gone = n_gone;
        space->captures.looked_up = LIST_FIRST(&space->captures.all);
    }
    while (space->captures.looked_up != NULL && !has_more && !pl_space_is_tired(space, since)) {
        pl_capture *capture = space->captures.looked_up;
        pl_space_work(space, 1);
        space->captures.looked_up = LIST_NEXT(capture, all);
        if (!has_something_to_release(capture)) {
            continue;
        }
        any = true;
        pl_capture_hold(capture);
        has_more = go_on(space, capture);
        if (has_more) {
            space->captures.looked_up = capture;
        }
        pl_capture_drop(space, capture);
    }
    return any;
}

enum { MOST_LOOKS = 64 };

/* A hold that has left blocks of a capture is not counted: such blocks become fewer. */
void pl_capture_look_well(pl_space *space)
{
    for (size_t n = MOST_LOOKS + space->captures.n; n > 0;) {
        bool any = pl_capture_look(space);
        const pl_capture *next = space->captures.looked_up;
        if (!any && next == NULL && space->captures.n_graphs_gone != LOOK_AGAIN) {
            return;
        }
        n -= next == NULL || !has_over(next);
        pl_space_breathe(space);
    }
}

static pl_capture *find_under_way(const pl_space *space, const pl_private *pool)
{
    pl_capture *capture = LIST_FIRST(&space->captures.under_way);

    while (capture != NULL && capture->pool != pool) {
        pl_lock_touch(1);
        capture = LIST_NEXT(capture, under_way);
    }
    return capture;
}

/* The search starts again after a capture, as the lock was dropped. */
void pl_capture_end_of_pool(pl_space *space, const pl_private *pool)
{
    for (pl_capture *c; (c = find_under_way(space, pool)) != NULL;) {
        pl_capture_hold(c);
        pl_capture_end(space, c);
        while (pl_capture_pass(space, c) > 0) {
            pl_space_breathe(space);
        }
        pl_capture_drop(space, c);
    }
}
