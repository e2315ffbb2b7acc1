/* shortage.c - what a request does once it can neither find memory nor grow; and the answer.
 *
 * The order and the bounds are those of the table in request.c. Besides, the rows that go from lane
 * to lane go in turns. A turn begins with the request, and after each wait for the whole context.
 * In a turn the host waits for each lane once, in slices of wait_ms, and the stream is ordered
 * after a lane until the lane yields nothing. Every yield is at least a block, which pends on the
 * request's own lane from then on. A lane remembers only the last turn that tried it, so each
 * request that runs at the same time may cause one more try.
 *
 * Guarded by the device lock, dropped around driver calls and waits; nothing is reserved then. */
#include "segments/pleat/grow/grow.h"

#include "segments/pleat/grow/policy.h"
#include "segments/pleat/grow/trim.h"
#include "segments/pleat/space/run.h"
#include "segments/pleat/streams/capture.h"
#include "segments/pleat/streams/context.h"
#include "segments/pleat/streams/handover.h"
#include "segments/pleat/streams/settle.h"
#include "segments/pleat/streams/tick.h"
#include "vmm/base/deadline.h"
#include "vmm/driver.h"

/* ---- is there hope --------------------------------------------------------------------------- */

/* Are too few granules left for the request beside the pinned granules? A place can share its two
 * outer granules with live blocks. A place of exactly n granules then lies in n + 1, and saves only
 * one. A place can also lie over tied granules. */
static bool exceeds(const pl_space *space, const pl_request *rq, size_t cap)
{
    size_t n_saved = rq->bytes % space->granule_bytes == 0 ? 1 : 2;
    size_t n_pinned = space->chunks.n_pinned - space->blocks.store.tally.n_tied_granules;

    return n_pinned + pl_request_granules(space, rq) > cap + n_saved;
}

/* Would the request find no memory even if all pending memory were free? Then no wait helps. What
 * others hold counts as the driver told this request: it was asked just before (request.c). */
static bool is_hopeless(const pl_space *space, const pl_request *rq)
{
    size_t cap = pl_space_cap(space);

    return pl_request_granules(space, rq) > cap ||
           (pl_pends_shared_bytes(space, rq) == 0 && exceeds(space, rq, cap) &&
            !pl_pends_in_private(space, rq) && space->captures.n_disowned == 0);
}

/* ---- patience -------------------------------------------------------------------------------- */

/* The rest of wait_ms, which bounds all waits of a call together. */
static uint32_t time_left(const pl_space *space)
{
    return pl_deadline_left(space->wait_ms);
}

/* A thread waits for so long at a time. Meanwhile other threads free memory, or name streams and so
 * cover memory with ticks: then the request looks again. */
enum { SLICE_MS = 16 };

static uint32_t slice_left(const pl_space *space)
{
    uint32_t left_ms = time_left(space);

    return left_ms < SLICE_MS ? left_ms : SLICE_MS;
}

/* What the last wait that ended has come to. A wait whose time is up has not failed. */
static void note_wait(pl_request *rq, pleat_status st)
{
    rq->failed = st == PLEAT_EPENDING ? rq->failed : st;
}

static void begin_turn(pl_space *space, pl_request *rq)
{
    rq->turn = ++space->streams.n_turns;
    rq->wait_turn = ++space->streams.n_turns;
    rq->n_done[PL_ORDERED] = 0;
    rq->n_done[PL_WAITED] = 0;
}

/* Is the only place in use? Then chunks and the reserve help nothing. */
static bool lacks_its_place(const pl_attempt *t)
{
    return t->rq->in != NULL && t->st == PLEAT_ENOSPACE_VA;
}

/* Does a try since then count towards its bound? Not if it was for the only place, other calls or
 * flights came meanwhile, and time is left. For others take the free memory there part by part,
 * each part once, and leave addresses that serve the request. Other memory may stay with them. */
static bool counts(const pl_attempt *t, uint64_t since)
{
    return !lacks_its_place(t) || pl_pace_turn(t->space) == since || time_left(t->space) == 0;
}

/* ---- other flights, fences, the driver ------------------------------------------------------- */

bool pl_short_exceeds_device(const pl_attempt *t)
{
    return pl_request_granules(t->space, t->rq) > t->space->chunks.total_granules;
}

bool pl_short_has_flights(const pl_attempt *t)
{
    return t->space->flights.n > 0;
}

pl_step pl_short_wait_for_flights(pl_attempt *t)
{
    uint64_t since = pl_pace_turn(t->space);

    pl_space_wait_for_flights(t->space);
    t->rq->n_done[PL_LANDED] += counts(t, since);
    return PL_STEP_AGAIN;
}

bool pl_short_may_poll_all(const pl_attempt *t)
{
    return !t->rq->is_capturing;
}

pl_step pl_short_poll_all(pl_attempt *t)
{
    t->rq->n_done[PL_POLLED_ALL]++;
    pl_settle_want_ticks(t->space, t->rq->lane);
    (void)pl_tick_poll(t->space, SIZE_MAX); /* also those just recorded */
    pl_settle_everything(t->space);
    (void)pl_stale_reap(t->space);
    return PL_STEP_AGAIN;
}

bool pl_short_may_ask_driver(const pl_attempt *t)
{
    return t->rq->ask == PL_ASK_NOT && t->space->chunks.full_at < t->space->chunks.total_granules;
}

pl_step pl_short_ask_driver(pl_attempt *t)
{
    t->rq->ask = PL_ASK_NOW;
    return PL_STEP_AGAIN;
}

/* ---- memory in chunks that fit nowhere ------------------------------------------------------- */

bool pl_short_may_gather_in_capture(const pl_attempt *t)
{
    return t->rq->is_capturing && pl_request_is_private(t->rq);
}

bool pl_short_may_gather_large(const pl_attempt *t)
{
    return !t->rq->is_capturing && !lacks_its_place(t) &&
           t->space->options.chunks == PL_CHUNKS_MIXED && !is_hopeless(t->space, t->rq);
}

bool pl_short_may_gather_for_reserve(const pl_attempt *t)
{
    return t->space->chunks.reserve_granules > 0 && pl_short_may_gather_large(t);
}

/* The first time without a wait, the second time with a wait. Idle chunks are released only if
 * granules made from them suffice. The place need not be rounded up any more. */
pl_step pl_short_gather(pl_attempt *t)
{
    pl_space *space = t->space;
    pl_request *rq = t->rq;
    uint32_t wait_ms = rq->n_done[PL_GATHERED] == 0 ? 0 : time_left(space);
    bool has_large = space->chunks.n_idle > space->chunks.idle[0].n &&
                     !exceeds(space, rq, pl_space_cap(space));

    if ((space->chunks.n_loose == 0 && !has_large) ||
        (rq->n_done[PL_GATHERED] > 0 && wait_ms == 0)) {
        return PL_STEP_NEXT;
    }
    rq->n_done[PL_GATHERED]++;
    rq->n_round = 0;
    if (!rq->is_capturing && rq->lane->stream != NULL &&
        rq->lane->clock.lines[PL_LINE_PENDING].bytes > 0) {
        pl_tick_record(space, rq->lane); /* else the lane's pending memory stays mapped */
    }
    if (rq->n_page > 1) {
        (void)pl_trim_quiesce(space, wait_ms);
        rq->n_recast += pl_trim_recast(space, pl_request_granules(space, rq), false);
        rq->n_done[PL_RECAST] = PL_WHOLE_TRIES - 1;
        return PL_STEP_AGAIN;
    }
    pl_trim_gather(space, pl_request_granules(space, rq) + 1, wait_ms);
    return PL_STEP_AGAIN;
}

/* ---- the reserve ----------------------------------------------------------------------------- */

bool pl_short_may_use_reserve(const pl_attempt *t)
{
    return t->space->chunks.reserve_granules > 0 && !lacks_its_place(t) &&
           !pl_policy_may_compact(t->space, pl_request_granules(t->space, t->rq));
}

/* Would the request hardly find memory without the reserve, if all pending memory were free? */
bool pl_short_must_use_reserve(const pl_attempt *t)
{
    const pl_space *space = t->space;
    size_t n_pinned = space->chunks.n_pinned - space->blocks.store.tally.n_tied_granules;

    return pl_short_may_use_reserve(t) && n_pinned + pl_request_granules(space, t->rq) >
                                              pl_reserve_cap(space, pl_space_cap(space));
}

pl_step pl_short_use_reserve(pl_attempt *t)
{
    t->rq->n_done[PL_USED_RESERVE]++;
    t->rq->n_done[PL_FOILED] = 0; /* foiled without the reserve: no matter now */
    return PL_STEP_AGAIN;
}

/* ---- what pends ------------------------------------------------------------------------------ */

/* Write into the error's detail which stream the memory pends on. */
static void name_pending(const pl_space *space, const pl_request *rq)
{
    const pl_lane *other = pl_pends_most(space, rq);

    if (rq->failed == PLEAT_ECAPTURE && pl_capture_name_lasting(space)) {
        return;
    }
    if (other == NULL) {
        pl_driver_set_detail("it pends on several streams, or on a graph that may run");
        return;
    }
    pl_driver_set_detail("most of it pends on the stream %p (id %llu)%s",
                         pl_stream_handle(other->stream),
                         (unsigned long long)pl_stream_id(other->stream),
                         pl_lane_is_gone(other) ? ", which is gone" : "");
}

static pl_step refuse_pending(pl_attempt *t)
{
    t->st = PLEAT_EPENDING;
    name_pending(t->space, t->rq);
    return PL_STEP_DONE;
}

pl_step pl_short_judge(pl_attempt *t)
{
    pl_space *space = t->space;

    t->pends = pl_pends_for(space, t->rq, t->st) && !is_hopeless(space, t->rq);
    if (!t->pends) {
        return PL_STEP_NEXT;
    }
    if (t->rq->is_capturing) {
        return refuse_pending(t);
    }
    space->streams.short_call = space->n_calls;
    return PL_STEP_NEXT;
}

bool pl_short_may_order(const pl_attempt *t)
{
    return t->space->options.cross_stream == PL_CROSS_ORDER;
}

/* Order the stream after the next lane that has memory for the request. A lane that yields nothing
 * is not tried again in this turn. */
pl_step pl_short_order_next(pl_attempt *t)
{
    pl_space *space = t->space;
    pl_request *rq = t->rq;
    bool is_private = pl_request_is_private(rq);
    pl_lane *other = NULL;

    while ((other = pl_handover_richest(space, rq->lane, rq->turn, is_private)) != NULL) {
        size_t n_moved = 0;
        pleat_status st = pl_handover(space, rq->lane, other, SIZE_MAX, is_private, &n_moved);
        if (n_moved > 0) {
            rq->wants_tick = true; /* streams may have to order after this memory */
            return PL_STEP_AGAIN;
        }
        other->tried_turn = rq->turn;
        if (st != PLEAT_OK && st != PLEAT_ESTREAM) {
            break;
        }
    }
    rq->n_done[PL_ORDERED] = 1;
    return PL_STEP_NEXT;
}

/* Wait until a tick of some lane passes, and again until something settles, another call comes, or
 * the time is up. A stream that hangs does not hold up memory of the others. */
pl_step pl_short_wait_next(pl_attempt *t)
{
    pl_space *space = t->space;
    uint64_t since = pl_pace_turn(space);
    pleat_status st = PLEAT_OK;
    bool any = false;
    bool is_late = false;

    while (!any && !is_late && pl_tick_wait_any(space, t->rq->wait_turn, slice_left(space), &st)) {
        note_wait(t->rq, st);
        any = pl_settle_all(space);
        is_late = st == PLEAT_EPENDING && time_left(space) == 0;
        any = any || (!is_late && pl_pace_turn(space) != since);
    }
    t->rq->n_done[PL_WAITED] = !any || is_late;
    return any ? PL_STEP_AGAIN : PL_STEP_NEXT;
}

bool pl_short_may_wait_for_all(const pl_attempt *t)
{
    return t->rq->n_done[PL_WAITED_ALL] == 0 || time_left(t->space) > 0;
}

/* A wait that comes to its end counts; others are slices of wait_ms. */
pl_step pl_short_wait_for_all(pl_attempt *t)
{
    pl_space *space = t->space;
    pl_request *rq = t->rq;
    pleat_status failed = pl_context_tick_wait(space, PL_CARE_LAST, time_left(space), SLICE_MS);
    bool is_over = failed != PLEAT_EPENDING || space->streams.context.is_unsupported ||
                   time_left(space) == 0;

    rq->n_done[PL_WAITED_ALL] += is_over;
    note_wait(rq, failed);
    if (failed != PLEAT_OK && is_over) {
        rq->n_done[PL_WAITED_ALL] = PL_MOST_WAITS;
    }
    begin_turn(space, rq); /* all lanes may have gone on meanwhile */
    rq->n_done[PL_POLLED_ALL] = 0;
    return PL_STEP_AGAIN;
}

pl_step pl_short_answer_pending(pl_attempt *t)
{
    if (t->rq->failed == PLEAT_OK || t->rq->failed == PLEAT_ECAPTURE) {
        return refuse_pending(t);
    }
    t->st = t->rq->failed;
    return PL_STEP_DONE;
}

/* ---- the last means, and the answer ---------------------------------------------------------- */

bool pl_short_may_clear_stale(const pl_attempt *t)
{
    size_t n_waiting = pl_space_n_stale(t->space) - t->space->blocks.n_refused;

    return !t->rq->is_capturing && n_waiting > 0 && !is_hopeless(t->space, t->rq);
}

pl_step pl_short_clear_stale(pl_attempt *t)
{
    pl_space *space = t->space;
    pl_request *rq = t->rq;
    uint64_t since = pl_pace_turn(space);

    if (rq->lane->stream != NULL) {
        pl_tick_record(space, rq->lane); /* own takes may have left stale addresses */
        (void)!pl_tick_wait(space, rq->lane, time_left(space));
    }
    (void)!pl_context_tick_wait(space, PL_CARE_LAST, time_left(space), UINT32_MAX);
    (void)pl_stale_reap(space);
    rq->n_done[PL_CLEARED] += counts(t, since);
    return PL_STEP_AGAIN;
}

/* Private pools may have left ten thousands of areas behind. */
enum { AREA_LOOKS = 1024 };

/* Does the capture keep the request from free memory? Such memory would have to be taken, or pends
 * on the request's own stream, also in granules with live blocks. */
static bool is_withheld(const pl_space *space, const pl_request *rq, pleat_status verdict)
{
    bool any = space->chunks.n_loose > 0 && (rq->keeper == NULL || verdict != PLEAT_ENOSPACE_VA);

    pl_area_cursor cursor = { 0 };
    for (size_t n = AREA_LOOKS; !any && n > 0; n--) {
        const pl_area *area = pl_space_next_area(space, rq->keeper, &cursor);
        if (area == NULL) {
            break;
        }
        pl_lock_touch(1);
        any = pl_run_has_pending(space, area, pl_lane_plain(rq->lane->number));
    }
    return any;
}

/* Would only a wait make granules of memory in chunks that fit nowhere? Such memory pends on the
 * request's own stream: memory of all other streams was settled or ordered. */
static bool is_held_up(const pl_attempt *t)
{
    return t->st == PLEAT_ENOMEM_DEVICE && t->space->options.chunks == PL_CHUNKS_MIXED &&
           t->space->chunks.n_loose > 0 && t->rq->lane->clock.lines[PL_LINE_PENDING].bytes > 0 &&
           time_left(t->space) == 0;
}

/* Without the capture, a take or a wait might have helped: EPENDING. */
pl_step pl_short_answer(pl_attempt *t)
{
    const pl_request *rq = t->rq;
    bool may_help = rq->is_capturing ? is_withheld(t->space, rq, t->st) : is_held_up(t);

    if (may_help && !is_hopeless(t->space, rq)) {
        t->st = PLEAT_EPENDING;
    }
    return PL_STEP_DONE;
}
