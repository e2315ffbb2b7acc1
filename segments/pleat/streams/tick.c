/* tick.c - ticks of lanes and their fences: see tick.h and lane.h.
 *
 * Rule of this file: a tick covers the work of its stream before the recording call, and nothing
 * else. Frees during the recording get stamps above the number of the tick. A fence that can never
 * be seen to pass makes no tick. Guarded by the device lock, dropped around every driver call.
 * Meanwhile n_refs of the lane keeps the lane. */
#include "segments/pleat/streams/tick.h"

#include "segments/pleat/space/back.h"
#include "segments/pleat/streams/context.h"

/* ---- recording ------------------------------------------------------------------------------- */

static const pl_tick *newest_tick(const pl_lane *lane)
{
    return &lane->ticks[(lane->first_tick + lane->n_ticks - 1) % PL_LANE_TICKS];
}

/* In a full ring the newest tick gives way. The new tick covers the same frees, a little later. */
static void push_tick(pl_space *space, pl_lane *lane, pl_tick tick)
{
    if (lane->n_ticks == PL_LANE_TICKS) {
        pl_fence_return(newest_tick(lane)->fence);
        lane->n_ticks--;
    }
    lane->ticks[(lane->first_tick + lane->n_ticks) % PL_LANE_TICKS] = tick;
    lane->n_ticks++;
    lane->recorded_tick = tick.number;
    pl_lane_ring_push_ticking(&space->streams.ticking, lane);
}

/* A fence of a stream out of reach stands for the whole device, and no query finds the fence
 * passed. So the fence makes no tick, and the frees wait for a tick of the context. */
static void keep_tick(pl_space *space, pl_lane *lane, pl_tick tick, size_t freed_bytes)
{
    if (pl_fence_is_whole_device(tick.fence)) {
        pl_fence_return(tick.fence);
        pl_context_leave(space, freed_bytes);
        return;
    }
    push_tick(space, lane, tick);
}

/* Would the driver be asked which stream has the handle, while another thread may begin a capture
 * of the stream? The question would break the capture. The next request of that thread asks, too.
 * It is safe then, as a thread in a call begins no capture. */
static bool is_to_be_asked(const pl_lane *lane)
{
    return !pl_stream_is_idle(lane->stream) && !pl_stream_is_told(lane->stream) &&
           pl_stream_is_anothers(lane->stream);
}

/* The next call that names the stream tries again. */
static void wish_again(pl_space *space, pl_lane *lane)
{
    if (!pl_lane_is_gone(lane) && !lane->is_capture) {
        pl_tick_wish(space, lane, 0);
    }
}

void pl_tick_record(pl_space *space, pl_lane *lane)
{
    pl_tick tick;
    unsigned n_uses = lane->n_uses;
    size_t used_bytes = lane->used_bytes;
    size_t freed_bytes = lane->unticked_bytes;

    pl_lock_assert(&space->lock);
    lane->n_frees = 0;
    lane->unticked_bytes = 0;
    if (!pl_lane_is_gone(lane)) {
        lane->life = PL_LANE_HEARD;
    }
    if (lane->is_recording || pl_lane_is_gone(lane) || lane->is_capture || lane->capture != NULL) {
        wish_again(space, lane);
        return;
    }
    if (is_to_be_asked(lane)) {
        pl_tick_wish(space, lane, 0);
        return;
    }
    tick.number = pl_lane_stamp(space, lane);
    lane->clock.next = ++space->streams.newest_stamp;
    lane->is_recording = true;
    lane->n_refs++;
    pl_away(space);
    pleat_status st = pl_fence_record(lane->stream, &tick.fence);
    pl_back(space);
    lane->n_refs--;
    lane->is_recording = false;
    pl_space_wake(space); /* perhaps pl_lanes_retire waits for the end of the recording */
    if (st == PLEAT_OK) {
        keep_tick(space, lane, tick, freed_bytes + used_bytes);
        lane->n_uses -= n_uses < lane->n_uses ? n_uses : lane->n_uses;
        lane->used_bytes -= used_bytes < lane->used_bytes ? used_bytes : lane->used_bytes;
    } else if (st == PLEAT_EDRIVER || st == PLEAT_ENOMEM_HOST) { /* for a moment, perhaps */
        wish_again(space, lane);
    } else if (st == PLEAT_ECAPTURE) { /* as for a lane in a known capture: a later call records */
        pl_tick_wish(space, lane, 0);
    }
}

void pl_tick_record_if_wanted(pl_space *space, pl_lane *lane)
{
    if (__builtin_expect(pl_lane_wants_tick(lane), false)) {
        pl_tick_record(space, lane);
    }
}

void pl_tick_wish(pl_space *space, pl_lane *lane, size_t bytes)
{
    if (pl_lane_is_lost(lane)) {
        pl_context_leave(space, bytes);
    } else if (lane->life == PL_LANE_HEARD) {
        lane->life = PL_LANE_WISHED;
        lane->wish_call = space->n_calls;
    }
}

/* ---- polling --------------------------------------------------------------------------------- */

/* Take the oldest tick out of the ring. The caller owns the fence. */
static pl_tick pop_tick(pl_space *space, pl_lane *lane)
{
    pl_tick tick = lane->ticks[lane->first_tick];

    lane->first_tick = (lane->first_tick + 1) % PL_LANE_TICKS;
    lane->n_ticks--;
    if (lane->n_ticks == 0) {
        pl_lane_ring_remove_ticking(&space->streams.ticking, lane);
    }
    return tick;
}

static void pass(pl_space *space, pl_lane *lane, uint64_t number)
{
    if (lane->busy.is_linked) {
        pl_lane_ring_lead_busy(&space->streams.busy, lane);
    }
    lane->clock.passed = number > lane->clock.passed ? number : lane->clock.passed;
    lane->recorded_tick = number > lane->recorded_tick ? number : lane->recorded_tick;
}

/* The oldest ticks of a few lanes. Queried together, ticks cost one entry into the driver. */
typedef struct questions {
    pl_lane *lanes[PL_TICK_QUERIES + 1]; /* NULL: the context's */
    pl_fence *fences[PL_TICK_QUERIES + 1];
    bool passed[PL_TICK_QUERIES + 1];
    size_t n;
} questions;

static void ask_about(questions *q, pl_lane *lane)
{
    lane->is_polled = true; /* no other thread pops the tick meanwhile */
    lane->n_refs++;
    q->lanes[q->n] = lane;
    q->fences[q->n++] = lane->ticks[lane->first_tick].fence;
}

/* Choose at most n lanes from the front of the ring. Every lane looked at goes to the end. */
static void choose_lanes(pl_space *space, questions *q, size_t n)
{
    size_t n_looks = space->streams.ticking.n < PL_LANE_LOOKS ? space->streams.ticking.n
                                                              : PL_LANE_LOOKS;

    pl_lock_touch(n_looks);
    for (; n_looks > 0 && q->n < n; n_looks--) {
        pl_lane *lane = space->streams.ticking.first;
        pl_lane_ring_remove_ticking(&space->streams.ticking, lane);
        pl_lane_ring_push_ticking(&space->streams.ticking, lane);
        if (!lane->is_polled) {
            ask_about(q, lane);
        }
    }
}

static void choose_context(pl_space *space, questions *q)
{
    if (space->streams.context.tick.fence != NULL &&
        space->streams.context.phase == PL_CONTEXT_AT_REST) {
        space->streams.context.phase = PL_CONTEXT_BUSY;
        q->lanes[q->n] = NULL;
        q->fences[q->n++] = space->streams.context.tick.fence;
    }
}

void pl_tick_end_context(pl_space *space, bool has_passed)
{
    pl_context *context = &space->streams.context;

    if (has_passed && context->tick.number > context->clock.passed) {
        context->clock.passed = context->tick.number;
    }
    pl_fence_return(context->tick.fence);
    context->tick.fence = NULL;
}

static void take_answer(pl_space *space, const questions *q, size_t i)
{
    pl_lane *lane = q->lanes[i];
    bool is_spoiled = pl_fence_is_spoiled(q->fences[i]); /* never passes */

    if (lane == NULL) {
        space->streams.context.phase = PL_CONTEXT_AT_REST;
        if (q->passed[i] || is_spoiled) {
            pl_tick_end_context(space, q->passed[i]);
        }
        return;
    }
    lane->is_polled = false;
    lane->n_refs--;
    if (!q->passed[i] && !is_spoiled) {
        return;
    }
    pl_tick tick = pop_tick(space, lane);
    pl_fence_return(tick.fence);
    if (q->passed[i]) {
        pass(space, lane, tick.number);
    } else { /* frees covered only by this tick need a new one */
        lane->recorded_tick = lane->n_ticks > 0 ? newest_tick(lane)->number : lane->clock.passed;
        wish_again(space, lane);
    }
}

/* Returns whether anything passed. Drops the lock. */
static bool ask(pl_space *space, questions *q)
{
    bool any = false;

    if (q->n == 0) {
        return false;
    }
    pl_away(space);
    (void)!pl_fence_query_many(q->fences, q->n, q->passed); /* a failed fence is marked */
    pl_back(space);
    for (size_t i = 0; i < q->n; i++) {
        any = any || q->passed[i];
        take_answer(space, q, i);
    }
    return any;
}

bool pl_tick_poll_lane(pl_space *space, pl_lane *lane)
{
    bool any = false;

    for (unsigned n = PL_LANE_TICKS; n > 0 && lane->n_ticks > 0 && !lane->is_polled; n--) {
        questions q = { .n = 0 };
        ask_about(&q, lane);
        if (!ask(space, &q)) {
            break;
        }
        any = true;
    }
    return any;
}

/* A round queries each lane once. A tick that passed calls for another round, since the next tick
 * of its lane may have passed, too. */
bool pl_tick_poll(pl_space *space, size_t n)
{
    bool any = false;

    for (unsigned rounds = PL_LANE_TICKS; rounds > 0; rounds--) {
        size_t n_left = space->streams.ticking.n < n ? space->streams.ticking.n : n;
        bool passed = false;
        do {
            questions q = { .n = 0 };
            choose_lanes(space, &q, n_left < PL_TICK_QUERIES ? n_left : PL_TICK_QUERIES);
            choose_context(space, &q);
            n_left -= q.n < n_left ? q.n : n_left;
            passed = ask(space, &q) || passed;
            n_left = q.n > 0 ? n_left : 0;
        } while (n_left > 0);
        any = any || passed;
        if (!passed) {
            break;
        }
    }
    return any;
}

/* ---- the host waits -------------------------------------------------------------------------- */

/* For one of n fences. */
static pleat_status await_any(pl_space *space, pl_fence **fences, size_t n, uint32_t wait_ms,
                              bool *passed)
{
    pl_away(space);
    pleat_status st = pl_fence_wait_any(fences, n, wait_ms, passed);
    pl_back(space);
    return st;
}

pleat_status pl_tick_await(pl_space *space, pl_fence *fence, uint32_t wait_ms)
{
    bool passed;
    pleat_status st = await_any(space, &fence, 1, wait_ms, &passed);

    pl_fence_return(fence);
    return st;
}

pleat_status pl_tick_wait(pl_space *space, pl_lane *lane, uint32_t wait_ms)
{
    if (lane->n_ticks == 0) {
        return PLEAT_OK;
    }
    pl_tick tick = *newest_tick(lane);
    lane->n_refs++;
    pl_fence_share(tick.fence, 1);
    pleat_status st = pl_tick_await(space, tick.fence, wait_ms);
    lane->n_refs--;
    if (st == PLEAT_OK) {
        pass(space, lane, tick.number);
        (void)pl_tick_poll_lane(space, lane); /* older ticks have passed too: pop them */
    }
    return st;
}

/* Lanes that one wait is for, and lanes looked at in one hold. Others come when these are tried. */
enum { MOST_AWAITED = 256, AWAITED_LOOKS = 1024 };

/* Lanes to wait for, each with its newest tick. */
typedef struct awaited {
    pl_lane *lanes[MOST_AWAITED];
    pl_fence *fences[MOST_AWAITED];
    uint64_t numbers[MOST_AWAITED];
    bool passed[MOST_AWAITED];
    size_t n;
} awaited;

static void choose_awaited(pl_space *space, uint64_t turn, awaited *w)
{
    size_t n_looks = space->streams.ticking.n < AWAITED_LOOKS ? space->streams.ticking.n
                                                              : AWAITED_LOOKS;

    pl_lock_touch(n_looks);
    for (; n_looks > 0 && w->n < MOST_AWAITED; n_looks--) {
        pl_lane *lane = space->streams.ticking.first;
        pl_lane_ring_remove_ticking(&space->streams.ticking, lane);
        pl_lane_ring_push_ticking(&space->streams.ticking, lane);
        if (lane->tried_turn == turn || !lane->busy.is_linked) {
            continue;
        }
        const pl_tick *tick = newest_tick(lane);
        lane->n_refs++;
        pl_fence_share(tick->fence, 1);
        w->lanes[w->n] = lane;
        w->fences[w->n] = tick->fence;
        w->numbers[w->n++] = tick->number;
    }
}

/* Has the wait failed for all lanes? If a fence failed, the next wait does without that fence. */
static bool has_failed(const awaited *w, pleat_status st)
{
    bool any = st == PLEAT_OK || st == PLEAT_EPENDING;

    for (size_t i = 0; i < w->n && !any; i++) {
        any = w->passed[i] || pl_fence_is_spoiled(w->fences[i]);
    }
    return !any;
}

bool pl_tick_wait_any(pl_space *space, uint64_t turn, uint32_t wait_ms, pleat_status *st)
{
    awaited w = { .n = 0 };

    choose_awaited(space, turn, &w);
    if (w.n == 0) {
        return false;
    }
    *st = await_any(space, w.fences, w.n, wait_ms, w.passed);
    bool is_for_all = has_failed(&w, *st);
    for (size_t i = 0; i < w.n; i++) {
        pl_lane *lane = w.lanes[i];
        if (is_for_all || w.passed[i] || pl_fence_is_spoiled(w.fences[i])) {
            lane->tried_turn = turn;
        }
        pl_fence_return(w.fences[i]);
        if (w.passed[i]) {
            pass(space, lane, w.numbers[i]);
            (void)pl_tick_poll_lane(space, lane); /* older ticks have passed too: pop them */
        }
        lane->n_refs--;
    }
    return true;
}

/* ---- when a tick is due ---------------------------------------------------------------------- */

enum { FREES_WHEN_TIGHT = 16, SHORT_CALLS = 4096, LANE_LOG2 = 8 };

/* Uses may wait for a tick up to these parts of the held memory, on one lane and on all lanes. */
enum { USES_LANE_LOG2 = 10, USES_ALL_LOG2 = 8 };

/* More than a part of the held memory? */
static bool is_much(const pl_space *space, size_t bytes, unsigned share_log2)
{
    return bytes >> space->granule_log2 > space->chunks.n_held >> share_log2;
}

/* Since its last tick the lane has freed more than a part of the held memory: worth a tick. */
static bool has_freed_much(const pl_space *space, const pl_lane *lane)
{
    return is_much(space, lane->unticked_bytes, LANE_LOG2);
}

/* Near the limit another stream will soon want the freed memory, but can be ordered only after a
 * tick. */
static bool is_tight(const pl_space *space)
{
    size_t cap = pl_space_cap(space);

    return space->chunks.n_held + space->chunks.n_creating + (cap >> 4) >= cap;
}

/* Not long ago a request needed memory that pended on other streams. With several streams every
 * free then gets a tick, so that the next request finds all pending memory covered. */
static bool is_short(const pl_space *space)
{
    return space->streams.short_call != 0 &&
           space->n_calls - space->streams.short_call < SHORT_CALLS;
}

/* A lane in use records a tick by itself before long. Of many lanes nearly all have a little memory
 * without a tick. So an early tick is worth a wish only if the tick covers much, if no free will
 * record a tick, or if memory is short. In very many lanes, small amounts add up. */
bool pl_due_is_worth(const pl_space *space, const pl_lane *lane)
{
    uint64_t n_quiet = space->n_calls - lane->free_call;
    uint32_t n_worth = space->streams.n_lanes > PL_LANE_LOOKS ? PL_FREES_PER_LOOK
                                                              : PL_FREES_PER_TICK;
    uint32_t n = lane->n_frees + lane->n_uses;

    return n == 0 || n >= n_worth || has_freed_much(space, lane) ||
           n_quiet > PL_FREES_PER_TICK + (uint64_t)PL_FREES_PER_LOOK * space->streams.n_lanes ||
           pl_lane_wants_tick(lane) || is_short(space);
}

/* A short-lived stream may be destroyed after this free, too soon for a later tick. So a young lane
 * without a live block gets a tick. */
bool pl_due_is_time(const pl_space *space, const pl_lane *lane, size_t bytes)
{
    bool is_young = lane->n_lifetime < PL_LANE_YOUNG;

    if (pl_stream_is_idle(
            lane->stream)) { /* frees are over at once, and the lane goes with the device */
        return pl_lane_wants_tick(lane);
    }
    if (pl_device_is_host(space->dev) && bytes >= space->granule_bytes) {
        return true; /* no reuse before a tick: no order of streams holds the host back */
    }
    if (pl_lane_wants_tick(lane) || (is_short(space) && pl_space_has_many_lanes(space))) {
        return true;
    }
    if (is_young && lane->n_live == 0 && !pl_due_is_legacy(lane)) {
        return true;
    }
    if (!pl_space_has_many_lanes(space)) {
        return false;
    }
    return lane->n_frees >= PL_FREES_PER_TICK || (bytes >= space->granule_bytes && is_young) ||
           ((has_freed_much(space, lane) || lane->n_frees >= FREES_WHEN_TIGHT) &&
            is_tight(space)) ||
           lane->unticked_bytes >> space->granule_log2 > space->chunks.total_granules >> 6;
}

/* Nobody can have this memory before the tick, nor be ordered behind the uses, unlike memory freed
 * on its own stream. So a tick is due as soon as much memory waits, on this lane or on all lanes.
 * At every use a tick is due if memory is tight, or if the stream may be gone before its next
 * tick. */
static bool is_time_for_uses(const pl_space *space, const pl_lane *lane, size_t bytes)
{
    size_t n_waiting = space->streams.n_shared_bytes + space->streams.n_private_shared_bytes +
                       bytes;

    return lane->n_used < PL_LANE_YOUNG || pl_lane_is_lost(lane) ||
           lane->n_uses >= PL_FREES_PER_TICK || is_much(space, lane->used_bytes, USES_LANE_LOG2) ||
           is_much(space, n_waiting, USES_ALL_LOG2) || is_tight(space) || is_short(space);
}

void pl_due_used(pl_space *space, pl_lane *lane, size_t bytes)
{
    bool is_young = lane->n_used < PL_LANE_YOUNG;

    lane->n_uses++;
    lane->used_bytes += bytes;
    lane->free_call = space->n_calls;
    if (is_time_for_uses(space, lane, bytes)) {
        pl_tick_wish(space, lane, bytes);
    }
    lane->n_used += is_young;
}
