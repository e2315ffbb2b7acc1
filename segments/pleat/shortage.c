/* shortage.c - the remedies when no place can be had, in order, and the verdict without them.
 *
 * Upholds its share of the promise (grow.c): before "out of device memory" is said, nobody else is
 * in flight, all that is over was settled, what pends on other streams was ordered after or waited
 * for, and a driver that refused before was asked again.
 *
 * Why it ends. A request looks again after each remedy that has changed something; the table is
 * then gone through from its start, so it must run dry. All remedies but two have their bound in
 * can_help, whatever others do meanwhile. Those two go from lane to lane. A turn of it begins with
 * the request and after each wait for the whole context, of which there are at most MOST_WAITS;
 * only such a wait lets all fences be polled once more. In a turn the host waits for a lane once,
 * and an order is tried until the lane yields nothing: what it yields is a block at least, which
 * pends on the request's own lane from then on. A lane remembers the last turn only, so requests
 * that run beside this one may make it be tried again, each as often as it goes there itself.
 *
 * Guarded by the device lock, dropped around driver calls and waits; nothing is reserved then. */
#include "segments/pleat/shortage.h"

#include "segments/pleat/capture.h"
#include "segments/pleat/context.h"
#include "segments/pleat/handover.h"
#include "segments/pleat/run.h"
#include "segments/pleat/settle.h"
#include "segments/pleat/stale.h"
#include "segments/pleat/tick.h"
#include "segments/pleat/trim.h"
#include "vmm/base/deadline.h"
#include "vmm/driver.h"

enum { MOST_LANDINGS = 8, MOST_GATHERED = 2, MOST_WAITS = 8 };

/* ---- what pends ------------------------------------------------------------------------------ */

static bool pends_in_pool(const pl_space *space, const pl_private *pool, const pl_lane *lane)
{
    pl_area_cursor cursor = { 0 };

    for (const pl_area *area; (area = pl_space_next_area(space, pool, &cursor)) != NULL;) {
        pl_lock_touch(1);
        if (pl_run_has_pending(space, area, lane->number)) {
            return true;
        }
    }
    return false;
}

/* What pends on the lane and may help: of private pools' memory the own pool's only. */
static size_t bytes_on(const pl_space *space, const pl_request *rq, const pl_lane *lane)
{
    bool is_own = rq->pool != NULL && lane->private_bytes > 0 &&
                  pends_in_pool(space, rq->pool, lane);

    return lane->pending_bytes + (is_own ? lane->private_bytes : 0);
}

/* Of all that pends on another lane, on whichever. */
static const pl_lane *find_pending(const pl_space *space, const pl_request *rq)
{
    const pl_lane *best = NULL;
    size_t best_bytes = 0;
    size_t n_looks = PL_LANE_LOOKS;

    for (const pl_lane *lane = space->busy.first; lane != NULL && n_looks > 0;
         lane = lane->busy.next, n_looks--) {
        size_t bytes = lane != rq->lane ? bytes_on(space, rq, lane) : 0;
        if (bytes > best_bytes) {
            best = lane;
            best_bytes = bytes;
        }
    }
    return best;
}

/* What pends on several streams and may help. */
static size_t shared_bytes(const pl_space *space, const pl_request *rq)
{
    return space->n_shared_bytes + (rq->pool != NULL ? space->n_private_shared_bytes : 0);
}

/* Memory that is pinned, but in the request's own private pool, or in one that drains. What pends
 * on the lane whose memory it may use would have been found; what other pools have on any lane is
 * theirs, also the rests of their granules. */
static bool has_private_pending(const pl_space *space, const pl_request *rq)
{
    bool any = space->draining != NULL || space->opening != NULL;
    size_t n_looks = PL_LANE_LOOKS;

    for (const pl_lane *lane = space->busy.first;
         rq->pool != NULL && !any && lane != NULL && n_looks > 0;
         lane = lane->busy.next, n_looks--) {
        any = lane->number != rq->usable && lane->private_bytes > 0 &&
              pends_in_pool(space, rq->pool, lane);
    }
    return any;
}

/* A place shares at most its two outer granules with live blocks, and one of n whole granules only
 * saves one of them, since it then lies in n + 1. If even so it cannot fit beside what is pinned,
 * nothing that pends is worth waiting for. */
static bool is_hopeless(const pl_space *space, const pl_request *rq)
{
    size_t cap = space->limit_chunks < space->total_chunks ? space->limit_chunks
                                                           : space->total_chunks;
    size_t whole = pl_request_granules(space, rq);
    size_t n_saved = rq->bytes % space->granule_bytes == 0 ? 1 : 2;

    return whole > cap ||
           (shared_bytes(space, rq) == 0 && space->n_pinned + whole > cap + n_saved &&
            !has_private_pending(space, rq) && space->n_disowned == 0);
}

/* Anything that a wait, or an order, might let the request have. */
static bool has_pending(const pl_space *space, const pl_request *rq)
{
    return shared_bytes(space, rq) > 0 || find_pending(space, rq) != NULL ||
           has_private_pending(space, rq) || space->n_disowned > 0;
}

/* The same of addresses: a private request finds them in its own pool only. */
static bool has_pending_for(const pl_space *space, const pl_request *rq, pleat_status verdict)
{
    if (verdict != PLEAT_ENOSPACE_VA || rq->pool == NULL) {
        return has_pending(space, rq);
    }
    return space->n_private_shared_bytes > 0 || has_private_pending(space, rq);
}

/* ---- patience -------------------------------------------------------------------------------- */

/* What is left of wait_ms, which bounds all waits of a call together. */
static uint32_t time_left(const pl_space *space)
{
    return pl_deadline_left(space->wait_ms);
}

static void begin_turn(pl_space *space, pl_request *rq)
{
    rq->tried.turn = ++space->n_turns;
    rq->tried.wait_turn = ++space->n_turns;
    rq->tried.has_ordered = false;
    rq->tried.has_waited = false;
}

/* ---- the remedies ---------------------------------------------------------------------------- */

/* What the remedies of one shortage share. */
typedef struct trial {
    pl_space *space;
    pl_request *rq;
    pleat_status verdict; /* if nothing helps */
    pleat_status failed;  /* EPENDING, or what broke a wait for what pends */
} trial;

static bool has_flights(const trial *t)
{
    return t->space->n_flights > 0 && t->rq->tried.n_landings != MOST_LANDINGS;
}

static bool wait_for_flights(trial *t)
{
    t->rq->tried.n_landings++;
    pl_space_wait_for_flights(t->space);
    return true;
}

static bool may_gather(const trial *t)
{
    const pl_request *rq = t->rq;

    bool may_take = !rq->is_capturing && t->space->options.chunks == PL_CHUNKS_GRANULE;

    return !may_take && (rq->pool != NULL || !rq->is_capturing) &&
           rq->tried.n_gathered < MOST_GATHERED;
}

/* At first what is settled already, then what a wait settles. */
static bool gather(trial *t)
{
    pl_request *rq = t->rq;
    uint32_t wait_ms = rq->tried.n_gathered == 0 ? 0 : time_left(t->space);

    if (t->space->n_loose == 0 || (rq->tried.n_gathered > 0 && wait_ms == 0)) {
        return false;
    }
    rq->tried.n_gathered++;
    pl_trim_gather(t->space, pl_request_granules(t->space, rq) + 1, wait_ms);
    return true;
}

static bool may_poll_all(const trial *t)
{
    return !t->rq->is_capturing && !t->rq->tried.has_polled_all;
}

static bool poll_all(trial *t)
{
    t->rq->tried.has_polled_all = true;
    (void)pl_tick_poll(t->space, SIZE_MAX);
    pl_settle_want_ticks(t->space, t->rq->lane, PL_LANE_LOOKS);
    pl_settle_everything(t->space);
    (void)pl_stale_reap(t->space);
    return true;
}

static bool may_order(const trial *t)
{
    return !t->rq->tried.has_ordered && t->space->options.cross_stream == PL_CROSS_ORDER;
}

/* After the next lane that has something for it. A lane that yields nothing is not tried again. */
static bool order_next(trial *t)
{
    pl_space *space = t->space;
    pl_request *rq = t->rq;
    bool is_private = rq->pool != NULL;
    pl_lane *other = NULL;

    while ((other = pl_handover_richest(space, rq->lane, rq->tried.turn, is_private)) != NULL) {
        size_t n_moved = 0;
        pleat_status st = pl_handover(space, rq->lane, other, SIZE_MAX, is_private, &n_moved);
        if (n_moved > 0) {
            rq->wants_tick = true; /* what it adopted and leaves must be orderable in its turn */
            return true;
        }
        other->tried_turn = rq->tried.turn;
        if (st != PLEAT_OK && st != PLEAT_ESTREAM) {
            break;
        }
    }
    rq->tried.has_ordered = true;
    return false;
}

static bool may_wait_next(const trial *t)
{
    return !t->rq->tried.has_waited;
}

/* Until the next lane's newest tick has passed. */
static bool wait_next(trial *t)
{
    pl_space *space = t->space;
    bool any = false;

    for (size_t n = space->ticking.n; n > 0 && !any; n--) {
        pl_lane *lane = space->ticking.first;
        if (lane == NULL) {
            break;
        }
        pl_lane_ring_remove_ticking(&space->ticking, lane);
        pl_lane_ring_push_ticking(&space->ticking, lane);
        if (lane->tried_turn == t->rq->tried.wait_turn || !lane->busy.is_linked) {
            continue;
        }
        lane->tried_turn = t->rq->tried.wait_turn;
        pleat_status failed = pl_tick_wait(space, lane, time_left(space));
        t->failed = failed == PLEAT_OK ? t->failed : failed;
        any = pl_settle_all(space);
    }
    t->rq->tried.has_waited = !any;
    return any;
}

static bool may_wait_for_all(const trial *t)
{
    unsigned n = t->rq->tried.n_waited_all;

    return n != MOST_WAITS && (n == 0 || time_left(t->space) > 0);
}

static bool wait_for_all(trial *t)
{
    pl_request *rq = t->rq;

    rq->tried.n_waited_all++;
    pleat_status failed = pl_context_tick_wait(t->space, PL_CARE_LAST, time_left(t->space));
    if (failed != PLEAT_OK) {
        t->failed = failed;
        rq->tried.n_waited_all = MOST_WAITS;
        rq->tried.is_forbidden = failed == PLEAT_ECAPTURE;
    }
    begin_turn(t->space, rq); /* all others have gone on meanwhile */
    rq->tried.has_polled_all = false;
    return true;
}

static bool may_ask_driver(const trial *t)
{
    return t->rq->tried.ask == PL_ASK_NOT && t->space->full_at < t->space->total_chunks;
}

static bool ask_driver(trial *t)
{
    t->rq->tried.ask = PL_ASK_NOW;
    return true;
}

static bool may_clear_stale(const trial *t)
{
    return !t->rq->is_capturing && t->space->n_stale > 0 && !t->rq->tried.has_cleared &&
           !is_hopeless(t->space, t->rq);
}

static bool clear_stale(trial *t)
{
    pl_space *space = t->space;
    pl_request *rq = t->rq;

    rq->tried.has_cleared = true;
    if (rq->lane->stream != NULL) {
        pl_tick_record(space, rq->lane); /* its own takes may be what stands there */
        (void)!pl_tick_wait(space, rq->lane, time_left(space));
    }
    (void)!pl_context_tick_wait(space, PL_CARE_LAST, time_left(space));
    (void)pl_stale_reap(space);
    return true;
}

/* Which remedies are due. */
typedef enum stage {
    STAGE_FIRST,   /* whatever pends */
    STAGE_PENDING, /* only while memory that pends may help (use_pending) */
    STAGE_LAST,    /* nothing that pends can */
} stage;

typedef struct remedy {
    stage stage;
    bool (*can_help)(const trial *t);
    bool (*apply)(trial *t); /* has anything changed? */
} remedy;

/* In the order in which they are tried: outside captures what leaves the streams alone comes first,
 * then what orders one after another, then what blocks the host until the GPU is done. */
static const remedy REMEDIES[] = {
    /* What others have in their hands may be what is missing. Counted: where they keep taking off,
     * what they hold counts as held. */
    { STAGE_FIRST, has_flights, wait_for_flights },
    /* A private request that may not take has settled memory unmapped for it. Twice: at once, and
     * after a wait, which uses up wait_ms. */
    { STAGE_FIRST, may_gather, gather },
    /* Every stream's fences are asked about, and all that is over is settled. Once, and once more
     * after each wait for the whole context: nothing else makes much of it pass. */
    { STAGE_FIRST, may_poll_all, poll_all },
    /* The stream goes after another one on the GPU. Each lane until it yields nothing, then not
     * again in this turn: what it has yielded pends on the own lane from then on. */
    { STAGE_PENDING, may_order, order_next },
    /* The host waits for one stream's newest tick; with wait_ms 0 it only looks. Each lane once in
     * a turn: it may go on freeing and recording for ever. */
    { STAGE_PENDING, may_wait_next, wait_next },
    /* The host waits for the whole context: for what no tick of a stream covers, and cannot any
     * more. Counted; a wait that fails is the last one, and after the first one wait_ms ends it. */
    { STAGE_PENDING, may_wait_for_all, wait_for_all },
    /* The driver refused memory before the request began; others may have left since. Once: the
     * next refusal is the request's own. */
    { STAGE_LAST, may_ask_driver, ask_driver },
    /* Stale addresses may stand in the gap that is missing, or in one that needs a granule less
     * than others do. Once: what is stale now is unmapped then, but others may go on taking for
     * ever. */
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

/* Whoever reads the error learns whom the memory waits for. */
static void name_pending(const pl_space *space, const pl_request *rq)
{
    const pl_lane *other = find_pending(space, rq);

    if (rq->tried.is_forbidden && pl_capture_name_lasting(space)) {
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

/* Other streams' memory: order, or wait on the host, as the options allow. */
static pl_step use_pending(trial *t, pleat_status *st)
{
    if (!has_pending_for(t->space, t->rq, t->verdict) || is_hopeless(t->space, t->rq)) {
        return PL_STEP_DONE;
    }
    *st = PLEAT_EPENDING;
    if (t->rq->is_capturing) {
        return PL_STEP_DONE;
    }
    t->space->short_event = t->space->budget.n_events;
    if (try_remedies(t, STAGE_PENDING)) {
        return PL_STEP_AGAIN;
    }
    *st = t->failed == PLEAT_ECAPTURE ? PLEAT_EPENDING : t->failed;
    return PL_STEP_DONE;
}

/* Free memory that a capture may not use: what it would have to take, and what pends on its own
 * stream, also in granules that live blocks share. */
static bool is_withheld(const pl_space *space, const pl_request *rq, pleat_status verdict)
{
    bool any = space->n_loose > 0 && (rq->pool == NULL || verdict != PLEAT_ENOSPACE_VA);

    pl_area_cursor cursor = { 0 };
    for (const pl_area *area; !any;) {
        area = pl_space_next_area(space, rq->pool, &cursor);
        if (area == NULL) {
            break;
        }
        any = pl_run_has_pending(space, area, pl_lane_plain(rq->lane->number));
    }
    return any;
}

pl_step pl_shortage_relieve(pl_space *space, pl_request *rq, pleat_status verdict, pleat_status *st)
{
    trial t = { .space = space, .rq = rq, .verdict = verdict, .failed = PLEAT_EPENDING };

    *st = verdict;
    if (pl_request_granules(space, rq) > space->total_chunks) {
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
    if (rq->is_capturing && is_withheld(space, rq, verdict) && !is_hopeless(space, rq)) {
        *st = PLEAT_EPENDING; /* without the capture it might have been taken or waited for */
    }
    return PL_STEP_DONE;
}
