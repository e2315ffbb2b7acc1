/* context.c - the tick of the whole context: see context.h.
 *
 * Rule of this file: the tick is recorded beside no known capture, and rarely beside an unknown
 * one. The host waits for other streams only in this file and in pl_tick_wait. Guarded by the
 * device lock, dropped around every driver call. A thread that drops the lock has set the phase, or
 * shares the fence. */
#include "segments/pleat/streams/context.h"

#include "segments/pleat/space/back.h"
#include "segments/pleat/streams/capture.h"
#include "segments/pleat/streams/capturers.h"
#include "segments/pleat/streams/tick.h"
#include "vmm/base/clock.h"
#include "vmm/base/deadline.h"

/* ---- when one may be recorded ---------------------------------------------------------------- */

static void end_recording(pl_space *space)
{
    space->streams.context.phase = PL_CONTEXT_AT_REST;
    pl_space_wake(space);
}

/* How long a tick waits for its moment; how many misses in a row double the time to the next. */
enum { SOON_MS = 2, MOST_PATIENCE_MS = 400, MOST_MISSED = 6 };

/* Wait for a moment in which the tick breaks no capture, as far as can be known. Without a moment,
 * the next tick without a waiting caller is put off, each time for twice as long. */
static bool find_moment(pl_space *space, pl_care care, uint32_t patience_ms)
{
    pl_context *context = &space->streams.context;

    patience_ms = patience_ms < MOST_PATIENCE_MS ? patience_ms : MOST_PATIENCE_MS;
    context->phase = PL_CONTEXT_BUSY;
    bool is_found = pl_capturers_gather(space, care == PL_CARE_NOW ? 0 : patience_ms) ||
                    (care == PL_CARE_LAST && !pl_capture_forbids_tick(space));
    if (is_found) {
        context->n_missed = 0;
        return true;
    }
    end_recording(space);
    context->call = space->n_calls;
    context->n_missed += context->n_missed < MOST_MISSED;
    return false;
}

/* ---- recording ------------------------------------------------------------------------------- */

static uint64_t begin_context_tick(pl_space *space, bool is_long)
{
    pl_context *context = &space->streams.context;
    uint64_t number = space->streams.newest_stamp;

    context->clock.next = ++space->streams.newest_stamp;
    context->phase = is_long ? PL_CONTEXT_SYNCHRONIZING : PL_CONTEXT_RECORDING;
    context->is_wanted = false;
    context->gone_bytes = 0;
    context->call = space->n_calls;
    return number;
}

/* Each refusal in a row doubles the calls before the next try, up to so many refusals. */
enum { MOST_REFUSED = 20 };

/* Record a tick behind all streams, or wait for all streams, at a moment that breaks no capture, as
 * far as is known. is_long: threads without time do not wait for it. *out: the tick; without a
 * fence after a wait.
 * PLEAT_OK; ECAPTURE; ENOTSUP; ENOMEM_HOST; EDRIVER. */
static pleat_status act_behind_all(pl_space *space, bool waits, bool is_long, pl_care care,
                                   uint32_t patience_ms, pl_tick *out)
{
    pl_context *context = &space->streams.context;

    if (pl_capture_forbids_tick(space) || !find_moment(space, care, patience_ms)) {
        return PLEAT_ECAPTURE;
    }
    size_t gone_bytes = context->gone_bytes;
    *out = (pl_tick){ .number = begin_context_tick(space, is_long) };
    if (is_long) {
        pl_space_wake(space);
    }
    pl_away(space);
    pleat_status st = waits ? pl_device_synchronize(space->dev)
                            : pl_fence_record_context(space->dev, &out->fence);
    pl_back(space);
    end_recording(space);
    if (st != PLEAT_OK) {
        pl_context_leave(space, gone_bytes);
    }
    return st;
}

pleat_status pl_context_tick_record(pl_space *space, pl_care care, uint32_t patience_ms)
{
    pl_context *context = &space->streams.context;
    pl_tick tick = { .number = 0 };

    if (context->phase != PL_CONTEXT_AT_REST || context->tick.fence != NULL) {
        return PLEAT_EPENDING;
    }
    if (context->is_unsupported) {
        return PLEAT_ENOTSUP;
    }
    if (pl_capture_forbids_tick(space)) {
        pl_capture_end_gone(space);
    }
    pleat_status st = act_behind_all(space, false, false, care, patience_ms, &tick);
    bool is_refused = st == PLEAT_ECAPTURE && tick.number != 0; /* by the driver */
    context->is_unsupported = context->is_unsupported || st == PLEAT_ENOTSUP;
    context->n_refused += is_refused && context->n_refused < MOST_REFUSED;
    if (st == PLEAT_OK) {
        context->n_refused = 0;
        context->tick = tick;
    }
    return st;
}

void pl_context_tick_want(pl_space *space, size_t bytes)
{
    pl_context_leave(space, bytes);
    if (space->streams.context.n_refused == 0) {
        (void)pl_context_tick_record(space, PL_CARE_NOW, 0);
    }
}

/* Unless a caller waits for the tick, the tick is rare, since the driver looks at every stream. The
 * tick is rarer after captures by unknown threads, since the tick cannot choose its moment then. A
 * refusal shows an unknown capture, and makes the tick twice as rare again. */
static const uint64_t CONTEXT_CALLS = 1024;
static const uint64_t WARY_CALLS = 16384;
enum { CONTEXT_SHARE_LOG2 = 6, URGENT_SHARE_LOG2 = 3, LATE_LOG2 = 6 };

void pl_context_tick_record_if_due(pl_space *space)
{
    const pl_context *context = &space->streams.context;
    size_t held = space->chunks.n_held << space->granule_log2;
    uint64_t n_calls = space->n_calls - context->call;
    bool is_guarded = space->captures.n_capturers > 0; /* the tick can choose its moment */
    bool is_wary = context->n_refused > 0 || (space->captures.newest > 0 && !is_guarded);
    uint64_t n_least = (is_wary ? WARY_CALLS : CONTEXT_CALLS)
                       << (context->n_refused + context->n_missed);
    bool is_time = n_calls >= n_least;
    bool is_urgent = context->gone_bytes > held >> URGENT_SHARE_LOG2 && !is_wary && !is_guarded;

    /* In a crowd a few bytes are worth a tick, as they keep a lane. And nothing pends for ever. */
    bool is_worth_it = context->gone_bytes > held >> CONTEXT_SHARE_LOG2 ||
                       pl_space_is_crowded(space) || n_calls >= n_least << LATE_LOG2;

    if (context->is_wanted && is_worth_it && (is_time || is_urgent)) {
        (void)pl_context_tick_record(space, PL_CARE_SOON, SOON_MS);
    }
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void note_passed(pl_space *space, uint64_t number)
{
    if (number > space->streams.context.clock.passed) {
        space->streams.context.clock.passed = number;
    }
}

static pleat_status synchronize(pl_space *space, pl_care care, uint32_t patience_ms)
{
    pl_tick tick;
    pleat_status st = act_behind_all(space, true, true, care, patience_ms, &tick);

    if (st == PLEAT_OK) {
        note_passed(space, tick.number);
    }
    return st;
}

/* Wait until the recorded tick has passed. The fence is shared, as another thread may query the
 * fence meanwhile. */
static pleat_status wait_for_context_tick(pl_space *space, uint32_t wait_ms)
{
    pl_context *context = &space->streams.context;
    pl_tick tick = context->tick;

    if (tick.fence == NULL) {
        return PLEAT_OK;
    }
    pl_fence_share(tick.fence, 1);
    pleat_status st = pl_tick_await(space, tick.fence, wait_ms);
    if (st == PLEAT_OK) {
        note_passed(space, tick.number);
    }
    if (context->tick.fence == tick.fence && context->tick.number == tick.number &&
        context->phase == PL_CONTEXT_AT_REST && st != PLEAT_EPENDING) {
        pl_tick_end_context(space, st == PLEAT_OK);
    }
    return st;
}

/* One wait of a caller, for any number of ticks. */
typedef struct waiting {
    uint64_t upto;    /* the wait ends when this stamp is passed */
    uint32_t wait_ms; /* of the whole call; UINT32_MAX: for ever */
    uint64_t began_ms;
} waiting;

/* How long to wait for a good moment. The time counts from the start of the call, as the tick of
 * another thread may have used up the time. */
static uint32_t patience_left(const waiting *w)
{
    uint32_t most_ms = pl_deadline_left(w->wait_ms) < MOST_PATIENCE_MS
                           ? pl_deadline_left(w->wait_ms)
                           : MOST_PATIENCE_MS;
    uint64_t gone_ms = pl_clock_ms() - w->began_ms;
    uint32_t left_ms = gone_ms < most_ms ? most_ms - (uint32_t)gone_ms : 0;

    return left_ms > SOON_MS ? left_ms : SOON_MS;
}

static bool is_covered(const pl_space *space, uint64_t upto)
{
    const pl_context *context = &space->streams.context;

    return context->clock.passed >= upto ||
           (context->tick.fence != NULL && context->tick.number >= upto);
}

/* Record a tick that covers every free until now. Waits for a thread that records or queries a
 * tick, which takes a few driver calls. The thread may take long, if waiting for its moment or
 * synchronising, without the event or for a compaction. Then a caller without time left does not
 * wait. */
static pleat_status have_context_tick(pl_space *space, pl_care care, const waiting *w)
{
    while (space->streams.context.phase != PL_CONTEXT_AT_REST) {
        pl_context_phase phase = space->streams.context.phase;
        bool is_long = space->streams.context.is_unsupported || phase == PL_CONTEXT_GATHERING ||
                       phase == PL_CONTEXT_HOLDING || phase == PL_CONTEXT_SYNCHRONIZING;
        if (is_covered(space, w->upto)) {
            return PLEAT_OK;
        }
        if (is_long && pl_deadline_left(w->wait_ms) == 0) {
            return PLEAT_EPENDING;
        }
        pl_capturers_pause(space);
    }
    if (pl_capture_forbids_tick(space)) {
        pl_capture_end_gone(space);
    }
    pleat_status st = pl_context_tick_record(space, care, patience_left(w));
    if (st == PLEAT_ENOTSUP && w->wait_ms > 0) {
        return synchronize(space, care, patience_left(w));
    }
    return st == PLEAT_ENOTSUP ? PLEAT_EPENDING : st;
}

/* A tick under way covers too little, so the caller records a tick of its own. */
pleat_status pl_context_finish(pl_space *space, uint32_t most_ms)
{
    pl_tick tick;

    while (space->streams.context.phase != PL_CONTEXT_AT_REST) {
        pl_capturers_pause(space);
    }
    pleat_status st = space->streams.context.is_unsupported
                          ? PLEAT_ENOTSUP
                          : act_behind_all(space, false, true, PL_CARE_LAST, MOST_PATIENCE_MS,
                                           &tick);
    if (st == PLEAT_ENOTSUP) {
        space->streams.context.is_unsupported = true;
        return synchronize(space, PL_CARE_LAST, MOST_PATIENCE_MS);
    }
    if (st != PLEAT_OK) {
        return st;
    }
    st = pl_tick_await(space, tick.fence, most_ms);
    if (st == PLEAT_OK) {
        note_passed(space, tick.number);
    }
    return st;
}

/* A tick under way covers older frees only. So the caller waits for the tick, then for a later
 * tick, recorded by any thread. */
enum { MOST_CONTEXT_WAITS = 4 };

pleat_status pl_context_tick_wait(pl_space *space, pl_care care, uint32_t wait_ms, uint32_t most_ms)
{
    waiting w = { .upto = space->streams.newest_stamp,
                  .wait_ms = wait_ms,
                  .began_ms = pl_clock_ms() };
    pleat_status st = PLEAT_OK;

    for (int n = 0; n < MOST_CONTEXT_WAITS && st == PLEAT_OK; n++) {
        uint32_t left_ms = pl_deadline_left(wait_ms);
        left_ms = left_ms < most_ms ? left_ms : most_ms;
        /* a caller with time has 1 ms or more for each tick */
        st = wait_for_context_tick(space, left_ms > 0 || wait_ms == 0 ? left_ms : 1);
        if (st != PLEAT_OK || space->streams.context.clock.passed >= w.upto) {
            return st;
        }
        st = have_context_tick(space, care, &w);
        if (st == PLEAT_EPENDING && space->streams.context.tick.fence != NULL) {
            st = PLEAT_OK; /* another thread was faster */
        }
        if (st == PLEAT_OK && space->streams.context.clock.passed >= w.upto) {
            return st;
        }
    }
    return st == PLEAT_OK ? PLEAT_EPENDING : st;
}
