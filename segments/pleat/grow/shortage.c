/* shortage.c - the remedies for a request that finds no memory, in order; and the verdict.
 *
 * Upholds a part of the promise (grow.c). Before the answer is "out of device memory", other
 * requests have landed, and all memory that is over was settled. Memory that pends on other streams
 * was ordered after or waited for. A driver that refused before was asked again.
 *
 * Why the remedies end. After a remedy that has changed something, the request looks for memory
 * again. If the request comes back, the table is gone through from the start. So the remedies must
 * run out. All but order_next and wait_next have a bound in can_help, whatever other threads do.
 * These two go from lane to lane, in turns. A turn begins with the request, and after each wait for
 * the whole context. At most MOST_WAITS such waits come to their end; others are slices of wait_ms.
 * Only such a wait lets all fences be polled once more. In a turn the host waits for each lane
 * once, in slices of wait_ms. The stream is ordered after a lane until the lane yields nothing.
 * Every yield is at least a block, which pends on the request's own lane from then on. A lane
 * remembers only the last turn that tried it, so each request that runs at the same time may cause
 * one more try.
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

enum { MOST_LANDINGS = 8, MOST_GATHERED = 2, MOST_WAITS = 8 };

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

/* Would the request find no memory even if all pending memory were free? Then no wait helps. */
static bool is_hopeless(const pl_space *space, const pl_request *rq)
{
    size_t cap = pl_space_ceiling(space);

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

static void begin_turn(pl_space *space, pl_request *rq)
{
    rq->turn = ++space->streams.n_turns;
    rq->wait_turn = ++space->streams.n_turns;
    rq->n_done[PL_ORDERED] = 0;
    rq->n_done[PL_WAITED] = 0;
}

/* ---- the remedies ---------------------------------------------------------------------------- */

/* State shared by the remedies of a shortage. */
typedef struct trial {
    pl_space *space;
    pl_request *rq;
    pleat_status verdict; /* if nothing helps */
    pleat_status failed;  /* EPENDING, or the error of a wait */
} trial;

static bool has_flights(const trial *t)
{
    return t->space->flights.n > 0 && t->rq->n_done[PL_LANDED] != MOST_LANDINGS;
}

static bool wait_for_flights(trial *t)
{
    t->rq->n_done[PL_LANDED]++;
    pl_space_wait_for_flights(t->space);
    return true;
}

/* In a capture. */
static bool may_gather(const trial *t)
{
    const pl_request *rq = t->rq;

    return rq->is_capturing && pl_request_is_private(rq) && rq->n_done[PL_GATHERED] < MOST_GATHERED;
}

/* Is the only place in use? Then chunks and the reserve help nothing. */
static bool lacks_its_place(const trial *t)
{
    return t->rq->in != NULL && t->verdict == PLEAT_ENOSPACE_VA;
}

/* Outside captures: chunks that may be taken can be too large for any place. */
static bool may_gather_large(const trial *t)
{
    const pl_request *rq = t->rq;

    return !rq->is_capturing && !lacks_its_place(t) &&
           t->space->options.chunks == PL_CHUNKS_MIXED && rq->n_done[PL_GATHERED] < MOST_GATHERED &&
           !is_hopeless(t->space, rq);
}

static bool may_gather_at_once(const trial *t)
{
    return may_gather_large(t) && t->rq->n_done[PL_GATHERED] == 0;
}

static bool may_gather_for_reserve(const trial *t)
{
    return may_gather_at_once(t) && t->space->chunks.reserve_granules > 0;
}

/* The first time without a wait, the second time with a wait. Idle chunks are released only if
 * granules made from them suffice. The place need not be rounded up any more. */
static bool gather(trial *t)
{
    pl_request *rq = t->rq;
    uint32_t wait_ms = rq->n_done[PL_GATHERED] == 0 ? 0 : time_left(t->space);
    bool has_large = t->space->chunks.n_idle > t->space->chunks.idle[0].n &&
                     !exceeds(t->space, rq, pl_space_cap(t->space));

    if ((t->space->chunks.n_loose == 0 && !has_large) ||
        (rq->n_done[PL_GATHERED] > 0 && wait_ms == 0)) {
        return false;
    }
    rq->n_done[PL_GATHERED]++;
    rq->n_round = 0;
    if (!rq->is_capturing && rq->lane->stream != NULL && rq->lane->pending_bytes > 0) {
        pl_tick_record(t->space, rq->lane); /* else the lane's pending memory stays mapped */
    }
    if (rq->n_page > 1) {
        (void)pl_trim_quiesce(t->space, wait_ms);
        rq->n_recast += pl_trim_recast(t->space, pl_request_granules(t->space, rq), false);
        rq->n_done[PL_RECAST] = PL_WHOLE_TRIES - 1;
        return true;
    }
    pl_trim_gather(t->space, pl_request_granules(t->space, rq) + 1, wait_ms);
    return true;
}

static bool may_poll_all(const trial *t)
{
    return !t->rq->is_capturing && t->rq->n_done[PL_POLLED_ALL] == 0;
}

static bool poll_all(trial *t)
{
    t->rq->n_done[PL_POLLED_ALL] = 1;
    pl_settle_want_ticks(t->space, t->rq->lane);
    (void)pl_tick_poll(t->space, SIZE_MAX); /* also those just recorded */
    pl_settle_everything(t->space);
    (void)pl_stale_reap(t->space);
    return true;
}

static bool may_order(const trial *t)
{
    return t->rq->n_done[PL_ORDERED] == 0 && t->space->options.cross_stream == PL_CROSS_ORDER;
}

/* Order the stream after the next lane that has memory for the request. A lane that yields nothing
 * is not tried again in this turn. */
static bool order_next(trial *t)
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
            return true;
        }
        other->tried_turn = rq->turn;
        if (st != PLEAT_OK && st != PLEAT_ESTREAM) {
            break;
        }
    }
    rq->n_done[PL_ORDERED] = 1;
    return false;
}

static bool may_wait_next(const trial *t)
{
    return t->rq->n_done[PL_WAITED] == 0;
}

/* Wait until a tick of some lane passes, and again until something settles, another call comes, or
 * the time is up. A stream that hangs does not hold up memory of the others. */
static bool wait_next(trial *t)
{
    pl_space *space = t->space;
    uint64_t since = pl_pace_turn(space);
    pleat_status st = PLEAT_OK;
    bool any = false;
    bool is_late = false;

    while (!any && !is_late && pl_tick_wait_any(space, t->rq->wait_turn, slice_left(space), &st)) {
        t->failed = st == PLEAT_OK ? t->failed : st;
        any = pl_settle_all(space);
        is_late = st == PLEAT_EPENDING && time_left(space) == 0;
        any = any || (!is_late && pl_pace_turn(space) != since);
    }
    t->rq->n_done[PL_WAITED] = !any || is_late;
    return any;
}

static bool may_wait_for_all(const trial *t)
{
    unsigned n = t->rq->n_done[PL_WAITED_ALL];

    return n != MOST_WAITS && (n == 0 || time_left(t->space) > 0);
}

static bool wait_for_all(trial *t)
{
    pl_request *rq = t->rq;

    pleat_status failed = pl_context_tick_wait(t->space, PL_CARE_LAST, time_left(t->space),
                                               SLICE_MS);
    bool is_over = failed != PLEAT_EPENDING || t->space->streams.context.is_unsupported ||
                   time_left(t->space) == 0;
    rq->n_done[PL_WAITED_ALL] += is_over;
    if (failed != PLEAT_OK && is_over) {
        t->failed = failed;
        rq->n_done[PL_WAITED_ALL] = MOST_WAITS;
        rq->is_forbidden = failed == PLEAT_ECAPTURE;
    }
    begin_turn(t->space, rq); /* all lanes may have gone on meanwhile */
    rq->n_done[PL_POLLED_ALL] = 0;
    return true;
}

static bool may_use_reserve(const trial *t)
{
    return t->space->chunks.reserve_granules > 0 && t->rq->n_done[PL_USED_RESERVE] == 0 &&
           !lacks_its_place(t) &&
           !pl_policy_may_compact(t->space, pl_request_granules(t->space, t->rq));
}

/* Would the request hardly find memory without the reserve, if all pending memory were free? */
static bool must_use_reserve(const trial *t)
{
    const pl_space *space = t->space;
    size_t n_pinned = space->chunks.n_pinned - space->blocks.store.tally.n_tied_granules;

    return may_use_reserve(t) && n_pinned + pl_request_granules(space, t->rq) >
                                     pl_reserve_cap(space, pl_space_cap(space));
}

static bool use_reserve(trial *t)
{
    t->rq->n_done[PL_USED_RESERVE] = 1;
    t->rq->n_done[PL_FOILED] = 0; /* foiled without the reserve: no matter now */
    return true;
}

static bool may_ask_driver(const trial *t)
{
    return t->rq->ask == PL_ASK_NOT && t->space->chunks.full_at < t->space->chunks.total_granules;
}

static bool ask_driver(trial *t)
{
    t->rq->ask = PL_ASK_NOW;
    return true;
}

static bool may_clear_stale(const trial *t)
{
    size_t n_waiting = pl_space_n_stale(t->space) - t->space->blocks.n_refused;

    return !t->rq->is_capturing && n_waiting > 0 && t->rq->n_done[PL_CLEARED] == 0 &&
           !is_hopeless(t->space, t->rq);
}

static bool clear_stale(trial *t)
{
    pl_space *space = t->space;
    pl_request *rq = t->rq;

    rq->n_done[PL_CLEARED] = 1;
    if (rq->lane->stream != NULL) {
        pl_tick_record(space, rq->lane); /* own takes may have left stale addresses */
        (void)!pl_tick_wait(space, rq->lane, time_left(space));
    }
    (void)!pl_context_tick_wait(space, PL_CARE_LAST, time_left(space), UINT32_MAX);
    (void)pl_stale_reap(space);
    return true;
}

/* Which remedies are due. */
typedef enum stage {
    STAGE_FIRST,   /* always */
    STAGE_PENDING, /* only while pending memory may help (use_pending) */
    STAGE_LAST,    /* when no pending memory can help */
} stage;

typedef struct remedy {
    stage stage;
    bool (*can_help)(const trial *t);
    bool (*apply)(trial *t); /* returns whether anything has changed */
} remedy;

/* In the order of trying. Outside captures, remedies that leave the streams alone come first. Then
 * the stream is ordered after other streams. At last the host waits for the GPU. */
static const remedy REMEDIES[] = {
    /* Wait for other flights: they may have the missing memory. Bounded by a count: if others keep
     * taking off, their memory counts as held. */
    { STAGE_FIRST, has_flights, wait_for_flights },
    /* Poll every fence, and settle all memory that is over. Once, and once more after each wait for
     * the whole context: between these waits few further fences pass. */
    { STAGE_FIRST, may_poll_all, poll_all },
    /* Ask again a driver that refused memory: other users of the device may have released memory
     * since. Once, before the request waits or is refused. */
    { STAGE_FIRST, may_ask_driver, ask_driver },
    /* Unmap settled memory for a private request that may not take. Twice: at once, and after a
     * wait, which uses up wait_ms. */
    { STAGE_FIRST, may_gather, gather },
    /* Take from the reserve, if no other remedy can suffice. Once. */
    { STAGE_FIRST, must_use_reserve, use_reserve },
    /* Let the stream wait on the GPU for another stream. Repeated with a lane until the lane yields
     * nothing, then not again in this turn. Yielded memory pends on the request's own lane. */
    { STAGE_PENDING, may_order, order_next },
    /* Unmap settled memory in chunks that fit nowhere. Once, without a wait. */
    { STAGE_PENDING, may_gather_at_once, gather },
    /* Take from the reserve, rather than let the host wait. Once. */
    { STAGE_PENDING, may_use_reserve, use_reserve },
    /* Let the host wait for the newest tick of any stream; with wait_ms 0 the host only looks. Each
     * lane once a turn, as the lane's stream may go on freeing and recording for ever. */
    { STAGE_PENDING, may_wait_next, wait_next },
    /* Let the host wait for the whole context, for memory that no tick of a stream covers or can
     * cover. Bounded by a count of waits that end, and by wait_ms. None after a failed wait, and
     * only the first without wait_ms left. */
    { STAGE_PENDING, may_wait_for_all, wait_for_all },
    /* Where nothing pends: unmap settled memory, then take from the reserve. */
    { STAGE_LAST, may_gather_for_reserve, gather },
    { STAGE_LAST, may_use_reserve, use_reserve },
    /* Unmap memory in chunks that fit nowhere. At most twice in all: at once, and after a wait.
     * From then on the request creates single granules (grow.c), so no such chunks come again. */
    { STAGE_LAST, may_gather_large, gather },
    /* Unmap stale addresses. Then a gap may be long enough, or a place may need a granule less.
     * Once: all addresses that are stale now are unmapped, but others may go on taking for ever. */
    { STAGE_LAST, may_clear_stale, clear_stale },
};

static bool try_remedies(trial *t, stage due)
{
    for (size_t i = 0; i < sizeof REMEDIES / sizeof *REMEDIES; i++) {
        const remedy *r = &REMEDIES[i];
        if (r->stage == due && r->can_help(t) && r->apply(t)) {
            return true;
        }
    }
    return false;
}

/* ---- the verdict ----------------------------------------------------------------------------- */

/* Write into the error's detail which stream the memory pends on. */
static void name_pending(const pl_space *space, const pl_request *rq)
{
    const pl_lane *other = pl_pends_most(space, rq);

    if (rq->is_forbidden && pl_capture_name_lasting(space)) {
        return;
    }
    if (other == NULL) {
        pl_driver_set_detail("it pends on several streams, or on a graph that may run");
        return;
    }
    pl_driver_set_detail(
        "most of it pends on the stream %p (id %llu)%s", pl_stream_handle(other->stream),
        (unsigned long long)pl_stream_id(other->stream), other->is_gone ? ", which is gone" : "");
}

/* Try to get memory that pends on other streams, by an order or a wait, as the options allow. */
static pl_step use_pending(trial *t, pleat_status *st)
{
    if (!pl_pends_for(t->space, t->rq, t->verdict) || is_hopeless(t->space, t->rq)) {
        return PL_STEP_DONE;
    }
    *st = PLEAT_EPENDING;
    if (t->rq->is_capturing) {
        return PL_STEP_DONE;
    }
    t->space->streams.short_call = t->space->n_calls;
    if (try_remedies(t, STAGE_PENDING)) {
        return PL_STEP_AGAIN;
    }
    *st = t->failed == PLEAT_ECAPTURE ? PLEAT_EPENDING : t->failed;
    return PL_STEP_DONE;
}

/* Private pools may have left ten thousands of areas behind. */
enum { AREA_LOOKS = 1024 };

/* Does the capture keep the request from free memory? Such memory would have to be taken, or pends
 * on the request's own stream, also in granules with live blocks. */
static bool is_withheld(const pl_space *space, const pl_request *rq, pleat_status verdict)
{
    bool any = space->chunks.n_loose > 0 && (rq->pool == NULL || verdict != PLEAT_ENOSPACE_VA);

    pl_area_cursor cursor = { 0 };
    for (size_t n = AREA_LOOKS; !any && n > 0; n--) {
        const pl_area *area = pl_space_next_area(space, rq->pool, &cursor);
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
static bool is_held_up(const trial *t)
{
    return t->verdict == PLEAT_ENOMEM_DEVICE && t->space->options.chunks == PL_CHUNKS_MIXED &&
           t->space->chunks.n_loose > 0 && t->rq->lane->pending_bytes > 0 &&
           time_left(t->space) == 0;
}

pl_step pl_shortage_relieve(pl_space *space, pl_request *rq, pleat_status verdict, pleat_status *st)
{
    trial t = { .space = space, .rq = rq, .verdict = verdict, .failed = PLEAT_EPENDING };

    *st = verdict;
    if (pl_request_granules(space, rq) > space->chunks.total_granules) {
        return PL_STEP_DONE;
    }
    if (try_remedies(&t, STAGE_FIRST) || use_pending(&t, st) == PL_STEP_AGAIN) {
        return PL_STEP_AGAIN;
    }
    if (*st == PLEAT_EPENDING) {
        name_pending(space, rq);
    }
    if (*st != verdict) {
        return PL_STEP_DONE;
    }
    if (try_remedies(&t, STAGE_LAST)) {
        return PL_STEP_AGAIN;
    }
    bool may_help = rq->is_capturing ? is_withheld(space, rq, verdict) : is_held_up(&t);
    if (may_help && !is_hopeless(space, rq)) {
        *st = PLEAT_EPENDING; /* without the capture, a take or a wait might have helped */
    }
    return PL_STEP_DONE;
}
