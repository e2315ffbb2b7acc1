/* owner_ops.c - what owners say: a capture may begin, a graph is gone, a stream is about to be
 * destroyed. Guarded by the device lock. */
#include "segments/pleat/streams/owner_ops.h"
#include "segments/pleat/space/back.h"
#include "segments/pleat/streams/capture.h"

#include "segments/pleat/streams/capture_see.h"
#include "segments/pleat/streams/capturers.h"
#include "segments/pleat/streams/context.h"
#include "segments/pleat/streams/lanes.h"
#include "segments/pleat/streams/settle.h"
#include "segments/pleat/streams/tick.h"

/* PLEAT_ECAPTURE: the capture is still under way. PLEAT_OK: the capture has ended, as the stream is
 * at rest, gone, or in another capture. Else why the driver did not answer. Drops the lock. */
static pleat_status ask_whether_over(pl_space *space, const pl_capture *capture, void *handle)
{
    pl_capture_info info = { .is_capturing = false };
    pl_stream *stream = NULL;
    uint64_t id = capture->id;

    pl_away(space);
    pleat_status st = pl_stream_get(space->dev, handle, &stream);
    st = st == PLEAT_OK ? pl_stream_capture(stream, &info) : st;
    pl_back(space);
    if (stream != NULL) {
        pl_stream_put(stream);
    }
    st = pl_stream_is_none(st) ? PLEAT_OK : st;
    return st == PLEAT_OK && info.is_capturing && info.id == id ? PLEAT_ECAPTURE : st;
}

/* Launches may be under way on any stream. Only a tick of the context tells when they are over. */
static void release_launched(pl_space *space, pl_capture *capture)
{
    uint64_t over_tick = space->streams.newest_stamp;

    space->streams.context.clock.next = ++space->streams.newest_stamp;
    pl_capture_hold(capture);
    pl_capture_end(space, capture);
    pl_capture_lose_graph(capture, over_tick);
    pl_capture_forget_parts(space, capture);
    pl_context_tick_want(space, 0);
    (void)pl_tick_poll(space, 0);
    while (pl_clock_has_waiting(&capture->clock)) {
        pl_capture_release(space, capture, over_tick);
        pl_space_breathe(space);
    }
    pl_capture_drop(space, capture);
}

/* Where the driver watches the graph, the word of the owner alone gives no memory away: the graph
 * may live and be launched. */
static pleat_status release_of_stream(pl_space *space, void *handle)
{
    pl_capture_look_well(space);
    pl_capture *capture = pl_capture_find_of_stream(space, handle);
    if (capture == NULL) {
        return PLEAT_OK;
    }
    pl_capture_hold(capture);
    pleat_status st = pl_capture_has_ended(capture) ? PLEAT_OK
                                                    : ask_whether_over(space, capture, handle);
    if (st == PLEAT_OK && !pl_capture_is_released(capture)) {
        pl_capture_end(space, capture);
        (void)pl_capture_pass(space, capture);
        if (capture->watch == NULL) {
            release_launched(space, capture);
        } else if (!capture->is_disowned) {
            capture->is_disowned = true;
            space->captures.n_disowned++;
            pl_capture_forget_parts(space, capture);
        }
    }
    pl_capture_drop(space, capture);
    return st;
}

pleat_status pl_pleat_release_capture_of(pl_allocator *a, void *handle)
{
    pl_space *space = pl_space_enter((pl_space *)a);

    pleat_status st = release_of_stream(space, handle);
    (void)pl_settle_some(space);
    pl_space_leave(space);
    return st;
}

/* A hold keeps the capture in the list while the lock is dropped. */
void pl_pleat_let_captures_go(pl_allocator *a)
{
    pl_space *space = pl_space_enter((pl_space *)a);
    pl_pace pace;

    pl_pace_begin(space, &pace, false);
    for (pl_capture *c = LIST_FIRST(&space->captures.all); c != NULL;) {
        pl_capture_hold(c);
        while (pl_capture_has_ended(c) && pl_clock_has_waiting(&c->clock)) {
            pl_capture_release(space, c, 0);
            pl_space_breathe(space);
        }
        pl_pace_step(space, &pace, 1);
        pl_capture *next = LIST_NEXT(c, all);
        pl_capture_drop(space, c);
        c = next;
    }
    pl_space_leave(space);
}

/* is_expected: a capture may begin when this returns. So the call waits until no thread is
 * recording a tick of the context. Otherwise: an announced capture has ended. */
void pl_pleat_expect_captures(pl_allocator *a, bool is_expected)
{
    pl_space *space = pl_space_enter((pl_space *)a);

    if (is_expected) {
        pl_capturers_note(space); /* the thread may also make captures that it does not announce */
    }
    atomic_fetch_add(&space->captures.n_expected, is_expected ? 1 : SIZE_MAX);
    pl_device_note_capture(space->dev, is_expected);
    while (is_expected && space->streams.context.phase >= PL_CONTEXT_RECORDING) {
        pl_space_wait(space);
    }
    pl_space_leave(space);
    if (is_expected) {
        pl_device_wait_for_recorders(space->dev);
    }
}

/* ---- streams that go ------------------------------------------------------------------------- */

/* The stream may just have ended a capture. Once the stream is retired, no call would see the
 * end. */
static void see(pl_space *space, const pl_stream *stream, pl_capture_info *info)
{
    pl_lane *lane = pl_space_lane_of(space, stream, false);

    if (lane != NULL) {
        lane->n_refs++;
        (void)pl_capture_see(space, lane, info, NULL);
        lane->n_refs--;
    }
}

/* False: the lane does not exist. */
static bool retire(pl_space *space, const pl_stream *stream, bool is_capture)
{
    pl_lane *lane = pl_space_lane_of(space, stream, is_capture);

    if (lane != NULL) {
        lane->n_refs++;
        pl_lanes_retire(space, lane);
        lane->n_refs--;
    }
    return lane != NULL;
}

/* Streams are released under the lock only, so the stream lives on after pl_stream_put. */
void pl_pleat_retire_stream(pl_allocator *a, pl_stream *stream)
{
    pl_space *space = (pl_space *)a;
    pl_capture_info info;
    bool is_seen = pl_capture_ask_about(space, stream, NULL, &info) == PLEAT_OK;

    pl_stream_take_over(stream); /* nobody captures a stream that is about to be destroyed */
    pl_space_enter(space);
    if (is_seen) {
        see(space, stream, &info);
    }
    bool is_known = retire(space, stream, false);
    is_known = retire(space, stream, true) || is_known;
    pl_stream_retire(stream);
    pl_stream_put(stream);
    if (!is_known) {
        pl_stream_release(stream);
    }
    pl_lanes_look_for_gone(space, 1);
    pl_space_leave(space);
}
