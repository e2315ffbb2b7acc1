/* settle.c - ticks and their fences: see settle.h and lane.h.
 *
 * The rule it upholds: memory that one stream freed reaches another only after a fence behind the
 * free has passed (settled), or after the other was made to wait for such a fence (handover.h). The
 * host waits in pl_settle_wait* only. Guarded by the device lock, which is dropped around every
 * driver call; a lane that is worked on meanwhile is referred to, so that it stays. */
#include "segments/settle.h"

#include "segments/capture.h"
#include "segments/capturers.h"
#include "segments/many.h"
#include "segments/private.h"
#include "segments/run.h"

/* ---- recording ------------------------------------------------------------------------------- */

static bool is_legacy(const pl_lane *lane)
{
    return lane->stream != NULL && pl_stream_is_legacy(lane->stream);
}

static const pl_tick *newest_tick(const pl_lane *lane)
{
    return &lane->ticks[(lane->first_tick + lane->n_ticks - 1) % PL_LANE_TICKS];
}

/* When the ring is full the newest tick gives way: the new one covers its frees, a little later. */
static void push_tick(pl_space *space, pl_lane *lane, pl_tick tick)
{
    if (lane->n_ticks == PL_LANE_TICKS) {
        pl_fence_return(newest_tick(lane)->fence);
        lane->n_ticks--;
    }
    lane->ticks[(lane->first_tick + lane->n_ticks) % PL_LANE_TICKS] = tick;
    lane->n_ticks++;
    lane->recorded_tick = tick.number;
    pl_lane_ring_push_ticking(&space->ticking, lane);
}

/* A fence of the whole device, as of a stream out of reach, would never be seen to pass. */
static void keep_tick(pl_space *space, pl_lane *lane, pl_tick tick)
{
    if (pl_fence_is_whole_device(tick.fence)) {
        pl_fence_return(tick.fence);
        return;
    }
    push_tick(space, lane, tick);
}

void pl_settle_tick(pl_space *space, pl_lane *lane)
{
    pl_tick tick;

    pl_lock_assert(&space->lock);
    lane->n_frees = 0;
    lane->unticked_bytes = 0;
    lane->wants_tick = false;
    lane->is_silent = false;
    if (lane->is_recording || lane->is_gone || lane->is_capture || lane->capture != NULL) {
        lane->wants_tick = !lane->is_gone && !lane->is_capture;
        return;
    }
    tick.number = pl_lane_stamp(space, lane);
    lane->next_tick = ++space->clock;
    lane->is_recording = true;
    lane->n_refs++;
    pl_lock_release(&space->lock);
    pleat_status st = pl_fence_record(lane->stream, &tick.fence);
    pl_lock_acquire(&space->lock);
    lane->n_refs--;
    lane->is_recording = false;
    if (st == PLEAT_OK) {
        keep_tick(space, lane, tick);
    }
}

void pl_settle_close(pl_space *space, pl_lane *lane)
{
    uint64_t number = pl_lane_stamp(space, lane);

    pl_settle_tick(space, lane);
    lane->is_closed = lane->recorded_tick >= number;
    pl_space_lose_lane(space, lane);
}

void pl_settle_named(pl_space *space, pl_lane *lane)
{
    if (__builtin_expect(lane->wants_tick, false)) {
        pl_settle_tick(space, lane);
    }
}

enum { SHORT_EVENTS = 4096 };

/* Near the limit another stream will soon want what was freed here, and can be ordered only after a
 * tick. */
static bool is_tight(const pl_space *space)
{
    size_t cap = pl_space_cap(space);

    return space->n_chunks + space->n_creating + (cap >> 4) >= cap;
}

/* A request was short of what other streams had freed, not long ago: the next one finds all of it
 * covered. */
static bool is_short(const pl_space *space)
{
    return space->short_event != 0 && space->budget.n_events - space->short_event < SHORT_EVENTS;
}

/* A stream that comes and goes may be destroyed after this free, and then nothing can be put behind
 * it any more: so while a lane is young, it gets a tick when nothing lives on it. */
static bool is_time_for_tick(const pl_space *space, const pl_lane *lane, size_t bytes)
{
    bool is_young = lane->n_lifetime < PL_LANE_YOUNG;

    if (lane->wants_tick || (is_short(space) && pl_space_has_many_lanes(space))) {
        return true;
    }
    if (is_young && lane->n_live == 0 && !is_legacy(lane)) {
        return true;
    }
    if (!pl_space_has_many_lanes(space)) {
        return false;
    }
    return lane->n_frees >= PL_FREES_PER_TICK || (bytes >= space->granule_bytes && is_young) ||
           ((bytes >= space->granule_bytes || lane->n_frees >= PL_FREES_WHEN_TIGHT) &&
            is_tight(space)) ||
           lane->unticked_bytes >> space->granule_log2 > space->total_chunks >> 6;
}

/* Whom nobody names any more is noticed before memory is short of what pends there. */
enum { FREES_PER_LOOK = 8, LANES_PER_LOOK = 4, LOOKS_PER_POLL = 8 };

static void look_around(pl_space *space, pl_lane *lane)
{
    lane->n_refs++;
    pl_settle_want_ticks(space, lane, LANES_PER_LOOK);
    pl_settle_context_if_due(space);
    if (pl_space_is_crowded(space) && ++space->crowd.n_looks % LOOKS_PER_POLL == 0) {
        (void)pl_settle_poll(space, LANES_PER_LOOK * LOOKS_PER_POLL);
        (void)pl_settle_some(space, PL_SETTLE_SOME); /* a lane may leave if nothing pends there */
    }
    lane->n_refs--;
}

void pl_settle_freed(pl_space *space, pl_lane *lane, size_t bytes)
{
    lane->n_frees++;
    lane->unticked_bytes += bytes;
    if (lane->n_frees % FREES_PER_LOOK == 1 && pl_space_has_many_lanes(space)) {
        look_around(space, lane);
    }
    if (is_time_for_tick(space, lane, bytes)) {
        bool is_due = lane->n_frees >= PL_FREES_PER_TICK;
        pl_settle_tick(space, lane);
        if (is_due) {
            (void)pl_settle_poll_lane(space, lane);
            (void)pl_settle_lane(space, lane, PL_SETTLE_SOME);
        }
    }
    lane->n_lifetime += lane->n_lifetime < PL_LANE_YOUNG;
}

/* ---- polling --------------------------------------------------------------------------------- */

/* Take the oldest tick out of the ring; its fence is the caller's. */
static pl_tick pop_tick(pl_space *space, pl_lane *lane)
{
    pl_tick tick = lane->ticks[lane->first_tick];

    lane->first_tick = (lane->first_tick + 1) % PL_LANE_TICKS;
    lane->n_ticks--;
    if (lane->n_ticks == 0) {
        pl_lane_ring_remove_ticking(&space->ticking, lane);
    }
    return tick;
}

static void pass(pl_space *space, pl_lane *lane, uint64_t number)
{
    if (lane->busy.is_linked) {
        pl_lane_ring_push_ripe(&space->ripe, lane);
    }
    lane->passed_tick = number > lane->passed_tick ? number : lane->passed_tick;
    lane->recorded_tick = number > lane->recorded_tick ? number : lane->recorded_tick;
}

/* A few lanes' oldest ticks, asked about at the price of entering once. */
typedef struct questions {
    pl_lane *lanes[PL_SETTLE_QUERIES + 1]; /* NULL: the context's */
    pl_fence *fences[PL_SETTLE_QUERIES + 1];
    bool passed[PL_SETTLE_QUERIES + 1];
    size_t n;
} questions;

static void ask_about(questions *q, pl_lane *lane)
{
    lane->is_polled = true; /* nobody else pops it meanwhile */
    lane->n_refs++;
    q->lanes[q->n] = lane;
    q->fences[q->n++] = lane->ticks[lane->first_tick].fence;
}

/* From the front of the ring, the lane goes to its end. */
static void choose_lanes(pl_space *space, questions *q, size_t n)
{
    size_t n_looks = space->ticking.n < PL_SETTLE_LANES ? space->ticking.n : PL_SETTLE_LANES;

    pl_lock_touch(n_looks);
    for (; n_looks > 0 && q->n < n; n_looks--) {
        pl_lane *lane = space->ticking.first;
        pl_lane_ring_remove_ticking(&space->ticking, lane);
        pl_lane_ring_push_ticking(&space->ticking, lane);
        if (!lane->is_polled) {
            ask_about(q, lane);
        }
    }
}

static void choose_context(pl_space *space, questions *q)
{
    if (space->context.tick.fence != NULL && !space->context.is_busy) {
        space->context.is_busy = true;
        q->lanes[q->n] = NULL;
        q->fences[q->n++] = space->context.tick.fence;
    }
}

static void end_context_tick(pl_space *space, bool has_passed)
{
    pl_context *context = &space->context;

    if (has_passed && context->tick.number > context->passed_tick) {
        context->passed_tick = context->tick.number;
    }
    pl_fence_return(context->tick.fence);
    context->tick.fence = NULL;
}

static void take_answer(pl_space *space, const questions *q, size_t i)
{
    pl_lane *lane = q->lanes[i];
    bool is_spoiled = pl_fence_is_spoiled(q->fences[i]); /* it never passes */

    if (lane == NULL) {
        space->context.is_busy = false;
        if (q->passed[i] || is_spoiled) {
            end_context_tick(space, q->passed[i]);
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
    } else { /* what only it covered needs another one */
        lane->recorded_tick = lane->n_ticks > 0 ? newest_tick(lane)->number : lane->passed_tick;
        lane->wants_tick = !lane->is_gone;
    }
}

/* Returns whether anything passed. Drops the lock. */
static bool ask(pl_space *space, questions *q)
{
    bool any = false;

    if (q->n == 0) {
        return false;
    }
    pl_lock_release(&space->lock);
    (void)!pl_fence_query_many(q->fences, q->n, q->passed); /* each fence knows of its failure */
    pl_lock_acquire(&space->lock);
    for (size_t i = 0; i < q->n; i++) {
        any = any || q->passed[i];
        take_answer(space, q, i);
    }
    return any;
}

bool pl_settle_poll_lane(pl_space *space, pl_lane *lane)
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

/* A round asks each lane once; those that passed may have passed the next tick, too. */
bool pl_settle_poll(pl_space *space, size_t n)
{
    bool any = false;

    for (unsigned rounds = PL_LANE_TICKS; rounds > 0; rounds--) {
        size_t n_left = space->ticking.n < n ? space->ticking.n : n;
        bool passed = false;
        do {
            questions q = { .n = 0 };
            choose_lanes(space, &q, n_left < PL_SETTLE_QUERIES ? n_left : PL_SETTLE_QUERIES);
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

/* ---- settling -------------------------------------------------------------------------------- */

bool pl_settle_is_over(const pl_space *space, const pl_block *b)
{
    return b->lane == PL_LANE_SETTLED ||
           pl_lane_has_passed(space, pl_space_lane_at(space, b->lane), b->tick);
}

static bool is_first_over(const pl_space *space, const pl_lane *lane, const pl_block_queue *queue)
{
    return queue->first != NULL && pl_lane_has_passed(space, lane, queue->first->tick);
}

static bool has_first_over(const pl_space *space, const pl_lane *lane)
{
    return !lane->is_capture &&
           (is_first_over(space, lane, &lane->pending) ||
            is_first_over(space, lane, &lane->apart) || pl_many_is_first_over(space, lane));
}

static size_t settle_queue(pl_space *space, const pl_lane *lane, const pl_block_queue *queue,
                           size_t n)
{
    uint64_t since = space->n_pieces;
    size_t n_settled = 0;

    while (n_settled < n && queue->first != NULL && !pl_space_is_tired(space, since) &&
           pl_lane_has_passed(space, lane, queue->first->tick)) {
        pl_run_move(space, queue->first, PL_LANE_SETTLED, 0);
        n_settled++;
    }
    pl_lock_touch(n_settled);
    return n_settled;
}

size_t pl_settle_lane(pl_space *space, pl_lane *lane, size_t n)
{
    if (lane->is_capture) {
        return pl_capture_is_lasting(space, lane) ? 0 : pl_settle_rest(space, lane, n);
    }
    size_t n_settled = pl_many_pass(space, lane, n);

    n_settled += settle_queue(space, lane, &lane->pending, n - n_settled);
    return n_settled + settle_queue(space, lane, &lane->apart, n - n_settled);
}

/* Of very many lanes with something that pends most may have nothing that is over: those whose own
 * ticks have passed come first. */
static size_t settle_ripe(pl_space *space, size_t n, uint64_t since)
{
    size_t n_looks = space->ripe.n < PL_SETTLE_LANES ? space->ripe.n : PL_SETTLE_LANES;
    size_t n_settled = 0;

    pl_lock_touch(n_looks);
    for (; n_looks > 0 && n_settled < n && !pl_space_is_tired(space, since); n_looks--) {
        pl_lane *lane = space->ripe.first;
        pl_lane_ring_remove_ripe(&space->ripe, lane);
        n_settled += pl_settle_lane(space, lane, n - n_settled);
        if (has_first_over(space, lane)) {
            pl_lane_ring_push_ripe(&space->ripe, lane);
        }
    }
    return n_settled;
}

size_t pl_settle_some(pl_space *space, size_t n)
{
    size_t n_looks = space->busy.n < PL_SETTLE_LANES ? space->busy.n : PL_SETTLE_LANES;
    uint64_t since = space->n_pieces;
    size_t n_settled = pl_many_pass_context(space, n);

    n_settled += settle_ripe(space, n - n_settled, since);
    pl_lock_touch(n_looks);
    for (; n_looks > 0 && n_settled < n && space->busy.first != NULL &&
           !pl_space_is_tired(space, since);
         n_looks--) {
        pl_lane *lane = space->busy.first;
        pl_lane_ring_remove_busy(&space->busy, lane);
        pl_lane_ring_push_busy(&space->busy, lane);
        n_settled += pl_settle_lane(space, lane, n - n_settled);
        pl_space_note_busy(space, lane);
    }
    return n_settled;
}

enum { MOST_SETTLED = 1 << 22 };

bool pl_settle_all(pl_space *space)
{
    bool any = false;

    /* As often as there are lanes to look at; what settles in between is worth another look, but
     * others may go on for ever. */
    size_t n_blocks = MOST_SETTLED;
    for (size_t n = space->busy.n / PL_SETTLE_LANES + 1; n > 0 && n_blocks > 0;) {
        size_t n_settled = pl_settle_some(space, PL_SETTLE_SOME);
        any = any || n_settled > 0;
        n -= n_settled > 0 ? 0 : 1;
        n_blocks -= n_settled < n_blocks ? n_settled : n_blocks;
        pl_space_breathe(space);
    }
    return any;
}

/* What came and went in one capture was used by its graph only: that uses it after it has been
 * launched, which is the pool's matter. */
enum { MOST_ROUNDS = 64 };

void pl_settle_everything(pl_space *space)
{
    bool is_more = true;

    pl_capture_look_well(space);
    for (unsigned n = MOST_ROUNDS; n > 0 && is_more; n--) {
        is_more = pl_capture_look(space);
        is_more = pl_private_drain(space) || is_more;
        is_more = pl_settle_all(space) || is_more;
    }
    while (space->opening != NULL && pl_private_drain(space)) { /* as long as there is of it */
        pl_space_breathe(space);
    }
}

size_t pl_settle_rest(pl_space *space, pl_lane *lane, size_t n)
{
    const pl_lane *plain = pl_space_lane_at(space, pl_lane_plain(lane->number));
    uint32_t number = lane->is_mixed ? plain->number : PL_LANE_SETTLED;
    uint64_t tick = lane->is_mixed ? pl_lane_stamp(space, plain) : 0;
    uint64_t since = space->n_pieces;
    size_t n_moved = 0;

    for (; n_moved < n && !pl_space_is_tired(space, since); n_moved++) {
        pl_block *b = lane->apart.first;
        b = b != NULL ? b : lane->pending.first; /* of pools released since */
        if (b == NULL) {
            break;
        }
        pl_run_move(space, b, number, tick);
    }
    lane->is_mixed = lane->is_mixed && (lane->apart.first != NULL || lane->pending.first != NULL);
    pl_lock_touch(n_moved);
    return n_moved;
}

/* ---- what no tick covers --------------------------------------------------------------------- */

static bool is_uncovered(const pl_space *space, const pl_lane *lane, const pl_block *last)
{
    return last != NULL && last->tick > lane->recorded_tick &&
           !pl_lane_has_passed(space, lane, last->tick);
}

bool pl_settle_has_uncovered(const pl_space *space, const pl_lane *lane)
{
    return is_uncovered(space, lane, lane->pending.last) ||
           is_uncovered(space, lane, lane->apart.last) || pl_many_is_uncovered(space, lane);
}

void pl_settle_leave_to_context(pl_space *space, pl_lane *lane)
{
    size_t bytes = 0;

    if (is_uncovered(space, lane, lane->pending.last)) {
        bytes += lane->pending_bytes;
    }
    if (is_uncovered(space, lane, lane->apart.last)) {
        bytes += lane->apart_bytes;
    }
    if (pl_many_is_uncovered(space, lane)) {
        bytes += lane->many_bytes;
    }
    space->context.gone_bytes += bytes;
    space->context.is_wanted = space->context.is_wanted || bytes > 0;
}

void pl_settle_wish(pl_space *space, pl_lane *lane, size_t bytes)
{
    if (lane->is_gone || lane->is_silent) {
        space->context.is_wanted = true;
        space->context.gone_bytes += bytes;
    } else if (!lane->wants_tick) {
        lane->wants_tick = true;
        lane->wish_event = space->budget.n_events;
    }
}

/* A wish that is not answered for so long may never be: drivers do not tell when a stream goes. */
enum { WISH_EVENTS = 8 };

static void look_for_answer(pl_space *space, pl_lane *lane)
{
    pl_settle_wish(space, lane, 0);
    if (!lane->is_silent && space->budget.n_events - lane->wish_event > WISH_EVENTS) {
        lane->is_silent = true;
        pl_settle_leave_to_context(space, lane);
    }
}

/* The legacy stream is never destroyed: it may be asked at any time. */
void pl_settle_want_ticks(pl_space *space, const pl_lane *user, size_t n)
{
    size_t n_looks = space->busy.n < n ? space->busy.n : n;
    pl_lane *legacy = NULL;

    pl_lock_touch(n_looks);
    for (; n_looks > 0; n_looks--) {
        pl_lane *lane = space->busy.first;
        pl_lane_ring_remove_busy(&space->busy, lane); /* to its end: the next look sees others */
        pl_lane_ring_push_busy(&space->busy, lane);
        if (lane == user || lane->is_gone || lane->is_capture ||
            !pl_settle_has_uncovered(space, lane)) {
            continue;
        }
        look_for_answer(space, lane);
        legacy = is_legacy(lane) ? lane : legacy;
    }
    if (legacy != NULL) {
        pl_settle_tick(space, legacy);
    }
}

/* ---- the context ----------------------------------------------------------------------------- */

bool pl_settle_is_capturing(const pl_space *space)
{
    return space->n_capturing > 0 || space->n_expected > 0;
}

static uint64_t begin_context_tick(pl_space *space)
{
    pl_context *context = &space->context;
    uint64_t number = space->clock;

    context->next_tick = ++space->clock;
    context->is_busy = true;
    context->is_recording = true;
    context->is_wanted = false;
    context->gone_bytes = 0;
    context->event = space->budget.n_events;
    return number;
}

static void wake_waiters(pl_space *space)
{
    if (space->n_waiting > 0) {
        pthread_cond_broadcast(&space->landed);
    }
}

static void end_recording(pl_space *space)
{
    space->context.is_busy = false;
    space->context.is_recording = false;
    wake_waiters(space);
}

/* Unless somebody waits, it is recorded rarely, since it makes the driver look at every stream; and
 * more rarely where captures were made, but not known by whom, so that it cannot choose its moment.
 * A refusal shows that there are some that nobody tells of: after each, twice as rarely. */
static const uint64_t CONTEXT_EVENTS = 1024;
static const uint64_t WARY_EVENTS = 16384;
enum { CONTEXT_SHARE_LOG2 = 6, URGENT_SHARE_LOG2 = 3, MOST_REFUSED = 20 };

/* Of one tick; and how often one is put off for longer. */
enum { SOON_MS = 2, MOST_PATIENCE_MS = 400, MOST_MISSED = 6 };

/* A moment in which it breaks no capture, as far as can be known. What nobody waits for is put off
 * when there is none, each time for twice as long. */
static bool find_moment(pl_space *space, pl_care care, uint32_t patience_ms)
{
    pl_context *context = &space->context;

    patience_ms = patience_ms < MOST_PATIENCE_MS ? patience_ms : MOST_PATIENCE_MS;
    context->is_busy = true;
    bool is_found = pl_capturers_gather(space, care == PL_CARE_NOW ? 0 : patience_ms) ||
                    (care == PL_CARE_LAST && !pl_settle_is_capturing(space));
    if (is_found) {
        context->n_missed = 0;
        return true;
    }
    end_recording(space);
    context->event = space->budget.n_events;
    context->n_missed += context->n_missed < MOST_MISSED;
    return false;
}

pleat_status pl_settle_context(pl_space *space, pl_care care, uint32_t patience_ms)
{
    pl_context *context = &space->context;
    pl_fence *fence;

    if (context->is_busy || context->tick.fence != NULL) {
        return PLEAT_EPENDING;
    }
    if (context->is_unsupported) {
        return PLEAT_ENOTSUP;
    }
    if (pl_settle_is_capturing(space)) {
        pl_capture_end_gone(space);
    }
    if (pl_settle_is_capturing(space) || !find_moment(space, care, patience_ms)) {
        return PLEAT_ECAPTURE;
    }
    size_t gone_bytes = context->gone_bytes;
    uint64_t number = begin_context_tick(space);
    pl_lock_release(&space->lock);
    pleat_status st = pl_fence_record_context(space->dev, &fence);
    pl_lock_acquire(&space->lock);
    end_recording(space);
    context->gone_bytes += st == PLEAT_OK ? 0 : gone_bytes;
    context->is_unsupported = st == PLEAT_ENOTSUP;
    context->is_wanted = st != PLEAT_OK;
    context->n_refused += st == PLEAT_ECAPTURE && context->n_refused < MOST_REFUSED;
    if (st == PLEAT_OK) {
        context->n_refused = 0;
        context->tick = (pl_tick){ .number = number, .fence = fence };
    }
    return st;
}

void pl_settle_want_context(pl_space *space)
{
    space->context.is_wanted = true;
    if (space->context.n_refused == 0) {
        (void)pl_settle_context(space, PL_CARE_NOW, 0);
    }
}

void pl_settle_context_if_due(pl_space *space)
{
    const pl_context *context = &space->context;
    size_t held = space->n_chunks << space->granule_log2;
    uint64_t n_events = space->budget.n_events - context->event;
    bool is_guarded = space->n_capturers > 0; /* it chooses its moment */
    bool is_wary = context->n_refused > 0 || (space->next_capture > 0 && !is_guarded);
    uint64_t n_least = (is_wary ? WARY_EVENTS : CONTEXT_EVENTS)
                       << (context->n_refused + context->n_missed);
    bool is_time = n_events >= n_least;
    bool is_urgent = context->gone_bytes > held >> URGENT_SHARE_LOG2 && !is_wary && !is_guarded;

    bool is_worth_it = context->gone_bytes > held >> CONTEXT_SHARE_LOG2 ||
                       pl_space_is_crowded(space); /* nobody's lane stays for a few bytes */

    if (context->is_wanted && is_worth_it && (is_time || is_urgent)) {
        (void)pl_settle_context(space, PL_CARE_SOON, SOON_MS);
    }
}

/* For drivers without the event. */
static pleat_status synchronize(pl_space *space, pl_care care, uint32_t patience_ms)
{
    if (pl_settle_is_capturing(space) || !find_moment(space, care, patience_ms)) {
        return PLEAT_ECAPTURE;
    }
    uint64_t number = begin_context_tick(space);
    space->context.is_synchronizing = true;
    wake_waiters(space);
    pl_lock_release(&space->lock);
    pleat_status st = pl_device_synchronize(space->dev);
    pl_lock_acquire(&space->lock);
    space->context.is_synchronizing = false;
    end_recording(space);
    if (st == PLEAT_OK && number > space->context.passed_tick) {
        space->context.passed_tick = number;
    }
    return st;
}

/* Until the tick that is recorded has passed. Some thread may have it in its hands: then that one
 * is waited for by sharing its fence. */
static pleat_status wait_for_context_tick(pl_space *space, uint32_t wait_ms)
{
    pl_context *context = &space->context;
    pl_tick tick = context->tick;

    if (tick.fence == NULL) {
        return PLEAT_OK;
    }
    pl_fence_share(tick.fence, 1);
    pl_lock_release(&space->lock);
    pleat_status st = pl_fence_wait(tick.fence, wait_ms);
    pl_fence_return(tick.fence);
    pl_lock_acquire(&space->lock);
    if (st == PLEAT_OK && tick.number > context->passed_tick) {
        context->passed_tick = tick.number;
    }
    if (context->tick.fence == tick.fence && context->tick.number == tick.number &&
        !context->is_busy && st != PLEAT_EPENDING) {
        end_context_tick(space, st == PLEAT_OK);
    }
    return st;
}

/* A tick that covers what was freed by now. A thread that records one, or asks about one, is waited
 * for: a few calls of the driver. Where there is no such event it synchronises: who may not wait
 * for the GPU does not wait for that thread either. */
static pleat_status have_context_tick(pl_space *space, pl_care care, uint32_t wait_ms)
{
    while (space->context.is_busy) {
        if ((space->context.is_unsupported || space->context.is_gathering) && wait_ms == 0) {
            return PLEAT_EPENDING;
        }
        pl_capturers_pause(space);
    }
    if (pl_settle_is_capturing(space)) {
        pl_capture_end_gone(space);
    }
    uint32_t patience_ms = wait_ms > SOON_MS ? wait_ms : SOON_MS;
    pleat_status st = pl_settle_context(space, care, patience_ms);
    if (st == PLEAT_ENOTSUP && wait_ms > 0) {
        return synchronize(space, care, patience_ms);
    }
    return st == PLEAT_ENOTSUP ? PLEAT_EPENDING : st;
}

/* One that is under way covers less than what was freed by now: so that one is waited for, and one
 * that comes after it, whoever records that. */
enum { MOST_CONTEXT_WAITS = 4 };

pleat_status pl_settle_wait_context(pl_space *space, pl_care care, uint32_t wait_ms)
{
    uint64_t upto = space->clock;
    pleat_status st = PLEAT_OK;

    for (int n = 0; n < MOST_CONTEXT_WAITS && st == PLEAT_OK; n++) {
        st = wait_for_context_tick(space, wait_ms);
        if (st != PLEAT_OK || space->context.passed_tick >= upto) {
            return st;
        }
        st = have_context_tick(space, care, wait_ms);
        if (st == PLEAT_EPENDING && space->context.tick.fence != NULL) {
            st = PLEAT_OK; /* another thread was faster */
        }
        if (st == PLEAT_OK && space->context.passed_tick >= upto) {
            return st;
        }
    }
    return st == PLEAT_OK ? PLEAT_EPENDING : st;
}

/* ---- the host waits for one lane ------------------------------------------------------------- */

pleat_status pl_settle_wait(pl_space *space, pl_lane *lane, uint32_t wait_ms)
{
    if (lane->n_ticks == 0) {
        return PLEAT_OK;
    }
    pl_tick tick = *newest_tick(lane);
    lane->n_refs++;
    pl_fence_share(tick.fence, 1);
    pl_lock_release(&space->lock);
    pleat_status st = pl_fence_wait(tick.fence, wait_ms);
    pl_fence_return(tick.fence);
    pl_lock_acquire(&space->lock);
    lane->n_refs--;
    if (st == PLEAT_OK) {
        pass(space, lane, tick.number);
        (void)pl_settle_poll_lane(space, lane); /* the older ones have passed too: pop them */
    }
    return st;
}
