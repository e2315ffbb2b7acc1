/* request.c - the order in which a request looks for memory, from the hit to the refusal.
 *
 * A request goes through the rows of ORDER. A row that finds the block, or the answer, ends it. A
 * row that has changed something sends the request back to the first row, as what changed may now
 * serve it. Everything else goes on with the next row. Cheap rows come first. Then come rows that
 * ask the driver for memory; then rows that leave the streams alone; then an order between streams,
 * which costs GPU time; then a wait of the host. So a request waits only where nothing else serves.
 *
 * Why requests end. A pass through the rows ends, as the last rows answer. Whatever other threads
 * do, a row sends the request back to the first one only so often: a count stands beside the row.
 * Where there is none, the comment says what is used up. Where tries beside others do not count,
 * the request ends with its time.
 *
 * Upholds a part of THE PROMISE (grow.c). Before the answer is "out of device memory", other
 * requests have landed, and all memory that is over was settled. Memory that pends on other streams
 * was ordered after or waited for. A driver that refused before was asked again.
 *
 * Guarded by the device lock, dropped around driver calls and waits; nothing is reserved then. */
#include "segments/pleat/grow/request.h"

#include "segments/pleat/grow/grow.h"
#include "segments/pleat/space/live.h"

/* When a row is looked at. What pends is judged once the request can neither find memory nor grow,
 * by pl_short_judge: rows before it are looked at always. */
typedef enum when { ALWAYS, IF_PENDING, IF_NOTHING_PENDS } when;

typedef struct row {
    when when;
    bool (*may)(const pl_attempt *t); /* NULL: whenever the row is reached */
    pl_step (*act)(pl_attempt *t);
    /* The row is passed over once this count of the request has come so far. Rows may share a
     * count. The act moves it. */
    pl_done count;
    unsigned most;
} row;

enum { MOST_SETTLES = 1024 }; /* holds, of some hundred blocks each */

static const row ORDER[] = {
    /* ---- memory that is there ---- */
    /* The best fit among memory that the request's lane may use. */
    { ALWAYS, NULL, pl_fit_resident, PL_UNCOUNTED, 0 },
    /* The first miss: wait_ms begins. Record a tick that is wanted, and ask which have passed, as
     * the program may have waited for memory since. */
    { ALWAYS, NULL, pl_fit_poll, PL_POLLED, 1 },
    /* Settle what is over, some at a time. Bounded since threads may go on freeing for ever. */
    { ALWAYS, NULL, pl_fit_settle, PL_REFRESHED, MOST_SETTLES },
    /* Where new chunks cannot serve: areas of the other class, and those that pools left behind. */
    { ALWAYS, pl_fit_may_elsewhere, pl_fit_elsewhere, PL_UNCOUNTED, 0 },

    /* ---- memory that moves: idle, created, or taken from elsewhere ---- */
    /* Goes on only with an answer. What bounds its changes is said in grow.c. */
    { ALWAYS, NULL, pl_grow, PL_UNCOUNTED, 0 },

    /* ---- short, but the streams are left alone ---- */
    { ALWAYS, pl_short_exceeds_device, pl_short_answer, PL_UNCOUNTED, 0 },
    /* Wait for other flights: they may have the missing memory. Bounded: if others keep taking off,
     * their memory counts as held. If the request's only place is taken, waits beside others do
     * not count, and wait_ms is the bound. */
    { ALWAYS, pl_short_has_flights, pl_short_wait_for_flights, PL_LANDED, 8 },
    /* Poll every fence, and settle all that is over. Once, and again after each wait for the whole
     * context: between these waits few further fences pass. */
    { ALWAYS, pl_short_may_poll_all, pl_short_poll_all, PL_POLLED_ALL, 1 },
    /* Ask again a driver that refused: others may have released memory since. Once, before the
     * request waits or is refused. */
    { ALWAYS, pl_short_may_ask_driver, pl_short_ask_driver, PL_UNCOUNTED, 0 },
    /* In a capture: unmap settled memory for a private pool, as its request may not take. At once,
     * and after a wait, which uses up wait_ms. */
    { ALWAYS, pl_short_may_gather_in_capture, pl_short_gather, PL_GATHERED, PL_MOST_GATHERED },
    /* Take from the reserve where nothing else can suffice. */
    { ALWAYS, pl_short_must_use_reserve, pl_short_use_reserve, PL_USED_RESERVE, 1 },
    /* Can a wait, or an order, help? In a capture neither is allowed: EPENDING. */
    { ALWAYS, NULL, pl_short_judge, PL_UNCOUNTED, 0 },

    /* ---- memory pends: order after it, or wait for it ---- */
    /* Let the stream wait on the GPU for another stream. A lane yields until nothing is left, then
     * not again in this turn. What it yields pends on the request's own lane. */
    { IF_PENDING, pl_short_may_order, pl_short_order_next, PL_ORDERED, 1 },
    /* Unmap settled memory in chunks that fit nowhere; without a wait, if nothing was gathered. */
    { IF_PENDING, pl_short_may_gather_large, pl_short_gather, PL_GATHERED, 1 },
    /* Take from the reserve, rather than let the host wait. */
    { IF_PENDING, pl_short_may_use_reserve, pl_short_use_reserve, PL_USED_RESERVE, 1 },
    /* Let the host wait for the newest tick of any stream; with wait_ms 0 it only looks. Each lane
     * once a turn, as a stream may go on freeing and recording for ever. */
    { IF_PENDING, NULL, pl_short_wait_next, PL_WAITED, 1 },
    /* Let the host wait for the whole context, for memory that no tick of a stream covers. Bounded
     * by a count of waits that end, and by wait_ms. None after a failed wait, and only the first
     * without wait_ms left. */
    { IF_PENDING, pl_short_may_wait_for_all, pl_short_wait_for_all, PL_WAITED_ALL, PL_MOST_WAITS },
    { IF_PENDING, NULL, pl_short_answer_pending, PL_UNCOUNTED, 0 },

    /* ---- nothing pends that could help: the last means, and the answer ---- */
    /* Unmap settled memory in chunks that fit nowhere, if nothing was gathered, before the reserve
     * is touched. */
    { IF_NOTHING_PENDS, pl_short_may_gather_for_reserve, pl_short_gather, PL_GATHERED, 1 },
    { IF_NOTHING_PENDS, pl_short_may_use_reserve, pl_short_use_reserve, PL_USED_RESERVE, 1 },
    /* The same without a reserve; at once, and after a wait. From then on the request creates
     * single granules (grow.c), so no such chunks come again. */
    { IF_NOTHING_PENDS, pl_short_may_gather_large, pl_short_gather, PL_GATHERED, PL_MOST_GATHERED },
    /* Unmap stale addresses: a gap may be long enough then, or a place may need a granule less.
     * Once: all that is stale now is unmapped, but others may go on taking for ever. If the
     * request's only place is taken, tries beside others do not count: wait_ms is the bound. */
    { IF_NOTHING_PENDS, pl_short_may_clear_stale, pl_short_clear_stale, PL_CLEARED, 1 },
    { IF_NOTHING_PENDS, NULL, pl_short_answer, PL_UNCOUNTED, 0 },
};

static bool is_due(const row *r, const pl_attempt *t)
{
    if (r->when != ALWAYS && (r->when == IF_PENDING) != t->pends) {
        return false;
    }
    return (r->count == PL_UNCOUNTED || t->rq->n_done[r->count] < r->most) &&
           (r->may == NULL || r->may(t));
}

/* Where the first row of a pass serves, this is all that a hit costs. */
static pl_step go_through(pl_attempt *t)
{
    for (const row *r = ORDER;; r++) {
        pl_step step = is_due(r, t) ? r->act(t) : PL_STEP_NEXT;
        if (step != PL_STEP_NEXT) {
            return step;
        }
    }
}

/* May the request look? While the lock was dropped, a compaction may have failed, or a sleep have
 * begun. Host memory for the block is reserved first, so that later steps cannot fail. */
static pleat_status prepare(pl_space *space, const pl_request *rq)
{
    if (__builtin_expect(space->flights.torn.segment != NULL, false)) {
        return PLEAT_EPOISONED;
    }
    if (pl_keeper_is_shut(rq->keeper)) {
        return PLEAT_EASLEEP;
    }
    pleat_status st = pl_ptrmap_reserve(&space->blocks.live, &space->meta, space->flights.n + 1);
    return st == PLEAT_OK ? pl_block_store_reserve(&space->blocks.store, 2) : st;
}

static pleat_status serve(pl_space *space, pl_request *rq, pl_block **out)
{
    for (;;) {
        pl_attempt t = { .space = space, .rq = rq };
        t.st = prepare(space, rq);
        if (t.st != PLEAT_OK || go_through(&t) == PL_STEP_DONE) {
            *out = t.block;
            return t.st;
        }
    }
}

pleat_status pl_request_serve(pl_space *space, pl_request *rq, pl_block **out)
{
    pl_keeper *keeper = rq->keeper;

    rq->turn = ++space->streams.n_turns;
    rq->wait_turn = ++space->streams.n_turns;
    if (keeper == NULL || keeper->kind->admit == NULL) {
        return serve(space, rq, out);
    }
    pleat_status st = keeper->kind->admit(keeper, rq->bytes);
    if (st == PLEAT_OK) {
        st = serve(space, rq, out);
        keeper->kind->dismiss(keeper, rq->bytes);
    }
    return st;
}
