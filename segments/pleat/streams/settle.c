/* settle.c - memory that is over becomes available to every stream: see settle.h.
 *
 * Rule of this file: memory freed by one stream reaches another only behind a fence after the free.
 * Either the fence has passed (settled), or the receiver was made to wait for the fence
 * (handover.h). Guarded by the device lock, dropped for queries of fences (tick.c). */
#include "segments/pleat/streams/settle.h"

#include "segments/pleat/space/keeper.h"
#include "segments/pleat/space/run.h"
#include "segments/pleat/streams/capture.h"
#include "segments/pleat/streams/capture_see.h"
#include "segments/pleat/streams/context.h"
#include "segments/pleat/streams/drain.h"
#include "segments/pleat/streams/pass.h"
#include "segments/pleat/streams/tick.h"

/* ---- settling -------------------------------------------------------------------------------- */

bool pl_settle_is_over(const pl_space *space, const pl_block *b)
{
    return b->lane == PL_LANE_SETTLED ||
           pl_lane_has_passed(space, pl_space_lane_at(space, b->lane), b->stamp);
}

static bool has_first_over(const pl_space *space, const pl_lane *lane)
{
    bool has = false;

    for (int kind = 0; kind < PL_N_LINES && !lane->is_capture; kind++) {
        const pl_block *first = lane->clock.lines[kind].queue.first;
        has = has || (first != NULL && pl_lane_has_passed(space, lane, first->stamp));
    }
    return has;
}

static size_t settle_lane(pl_space *space, pl_lane *lane, uint64_t since)
{
    if (lane->is_capture) {
        return pl_capture_is_lasting(space, lane) ? 0 : pl_settle_rest(space, lane, since);
    }
    return pl_pass(space, &lane->clock, pl_lane_passed(space, lane), since);
}

size_t pl_settle_lane(pl_space *space, pl_lane *lane)
{
    return settle_lane(space, lane, space->n_pieces);
}

size_t pl_settle_some(pl_space *space)
{
    size_t n_looks = space->streams.busy.n < PL_LANE_LOOKS ? space->streams.busy.n : PL_LANE_LOOKS;
    uint64_t since = space->n_pieces;
    const pl_clock *context = &space->streams.context.clock;
    size_t n_settled = pl_pass(space, context, context->passed, since);

    pl_lock_touch(n_looks);
    for (; n_looks > 0 && space->streams.busy.first != NULL && !pl_space_is_tired(space, since);
         n_looks--) {
        pl_lane *lane = space->streams.busy.first;
        pl_lane_ring_remove_busy(&space->streams.busy, lane);
        pl_lane_ring_push_busy(&space->streams.busy, lane);
        n_settled += settle_lane(space, lane, since);
        pl_space_note_busy(space, lane);
        if (has_first_over(space, lane)) { /* the hold has done all that it may */
            pl_lane_ring_lead_busy(&space->streams.busy, lane);
            break;
        }
    }
    return n_settled;
}

enum { MOST_PIECES = 1 << 22 };

/* The lock is yielded, not only breathed. A request that may not wait, as in a capture, would leave
 * other threads no time for their streams and captures. Without yielding, some hundreds of 10^6
 * requests were refused, beside three threads that capture and destroy streams. */
bool pl_settle_all(pl_space *space)
{
    uint64_t since = space->n_pieces;
    bool any = false;

    /* Enough looks to see all lanes. A look that settles blocks is not counted, but its work is,
     * since other threads may go on freeing for ever. */
    for (size_t n = space->streams.busy.n / PL_LANE_LOOKS + 1;
         n > 0 && space->n_pieces - since < MOST_PIECES;) {
        bool is_progress = pl_settle_some(space) > 0;
        any = any || is_progress;
        n -= !is_progress;
        pl_space_yield(space);
    }
    return any;
}

enum { MOST_ROUNDS = 64 };

void pl_settle_everything(pl_space *space)
{
    bool is_more = true;

    pl_capture_look_well(space);
    for (unsigned n = MOST_ROUNDS; n > 0 && is_more; n--) {
        is_more = pl_capture_look(space);
        is_more = pl_drain_some(space) || is_more;
        is_more = pl_settle_all(space) || is_more;
    }
    while (space->places.opening != NULL && pl_drain_some(space)) { /* until none is opening */
        pl_space_yield(space);
    }
}

/* A block that came and went in one capture is used by its graph only. The pool keeps memory for
 * its graphs, so the block counts as settled. If the lane has further blocks (is_mixed), all pend
 * on the first lane instead. */
size_t pl_settle_rest(pl_space *space, pl_lane *lane, uint64_t since)
{
    const pl_lane *plain = pl_space_lane_at(space, pl_lane_plain(lane->number));
    uint32_t number = lane->is_mixed ? plain->number : PL_LANE_SETTLED;
    uint64_t stamp = lane->is_mixed ? pl_lane_stamp(space, plain) : 0;
    size_t n_moved = 0;

    for (; !pl_space_is_tired(space, since); n_moved++) {
        pl_block *b = lane->clock.lines[PL_LINE_PRIVATE].queue.first;
        b = b != NULL ? b : pl_lane_pending(lane)->first; /* blocks of pools released since */
        if (b == NULL) {
            break;
        }
        pl_space_work(space, 1);
        pl_run_move(space, b, number, stamp);
    }
    lane->is_mixed = lane->is_mixed && pl_clock_has_waiting(&lane->clock);
    return n_moved;
}

/* ---- what no tick covers --------------------------------------------------------------------- */

static bool is_uncovered(const pl_space *space, const pl_lane *lane, const pl_line *line)
{
    const pl_block *last = line->queue.last;

    return last != NULL && last->stamp > lane->recorded_tick &&
           !pl_lane_has_passed(space, lane, last->stamp);
}

bool pl_settle_has_uncovered(const pl_space *space, const pl_lane *lane)
{
    const pl_line *lines = lane->clock.lines;

    return is_uncovered(space, lane, &lines[PL_LINE_PENDING]) ||
           is_uncovered(space, lane, &lines[PL_LINE_PRIVATE]) ||
           is_uncovered(space, lane, &lines[PL_LINE_SHARED]);
}

void pl_settle_leave_to_context(pl_space *space, pl_lane *lane)
{
    size_t bytes = 0;

    for (int kind = 0; kind < PL_N_LINES; kind++) {
        const pl_line *line = &lane->clock.lines[kind];
        bytes += is_uncovered(space, lane, line) ? line->bytes : 0;
    }
    if (bytes > 0) {
        pl_context_leave(space, bytes);
    }
}

/* A wish without an answer for so many calls may never get one: drivers do not tell when a stream
 * is destroyed. */
enum { WISH_CALLS = 8 };

static void look_for_answer(pl_space *space, pl_lane *lane)
{
    pl_tick_wish(space, lane, 0);
    if (lane->life == PL_LANE_WISHED && space->n_calls - lane->wish_call > WISH_CALLS) {
        lane->life = PL_LANE_SILENT;
        pl_settle_leave_to_context(space, lane);
    }
}

enum { MOST_ANSWERS = 8 };

/* Leave wishes. Record the ticks of some streams that stay, in whatever call. Returns whether any
 * tick was recorded. */
static bool want_ticks(pl_space *space, const pl_lane *user, size_t n, bool is_any)
{
    size_t n_looks = space->streams.busy.n < n ? space->streams.busy.n : n;
    pl_lane *staying[MOST_ANSWERS];
    size_t n_staying = 0;

    pl_lock_touch(n_looks);
    for (; n_looks > 0; n_looks--) {
        pl_lane *lane = space->streams.busy.first;
        pl_lane_ring_remove_busy(&space->streams.busy,
                                 lane); /* goes last: the next look sees new lanes */
        pl_lane_ring_push_busy(&space->streams.busy, lane);
        if (lane == user || pl_lane_is_gone(lane) || lane->is_capture ||
            !pl_settle_has_uncovered(space, lane) || !(is_any || pl_due_is_worth(space, lane))) {
            continue;
        }
        look_for_answer(space, lane);
        if (pl_due_stays(lane) && n_staying < MOST_ANSWERS) {
            lane->n_refs++;
            staying[n_staying++] = lane;
        }
    }
    for (size_t i = 0; i < n_staying; i++) {
        pl_tick_record(space, staying[i]);
        staying[i]->n_refs--;
    }
    return n_staying > 0;
}

void pl_settle_want_ticks(pl_space *space, const pl_lane *user)
{
    (void)want_ticks(space, user, PL_LANE_LOOKS, true);
}

bool pl_settle_want_worthy_ticks(pl_space *space, const pl_lane *user, size_t n)
{
    return want_ticks(space, user, n, false);
}

/* ---- after a free ---------------------------------------------------------------------------- */

/* A look at a few lanes notices streams that no call names any more, before memory gets short. */
enum { LANES_PER_LOOK = 4 };

static void look_around(pl_space *space, pl_lane *lane)
{
    lane->n_refs++;
    (void)pl_settle_want_worthy_ticks(space, lane, LANES_PER_LOOK);
    pl_context_tick_record_if_due(space);
    if (pl_space_is_crowded(space)) {
        (void)pl_tick_poll(space, LANES_PER_LOOK);
        (void)pl_settle_some(space); /* a lane without pending memory can leave */
    }
    lane->n_refs--;
}

void pl_settle_counted(pl_space *space, pl_lane *lane, size_t bytes)
{
    if (lane->n_frees % PL_FREES_PER_LOOK == 1 && pl_space_has_many_lanes(space)) {
        look_around(space, lane);
    }
    if (pl_due_is_time(space, lane, bytes)) {
        bool is_due = lane->n_frees >= PL_FREES_PER_TICK;
        pl_tick_record(space, lane);
        if (is_due) {
            (void)pl_tick_poll_lane(space, lane);
            (void)pl_settle_lane(space, lane);
        }
    }
    lane->n_lifetime += lane->n_lifetime < PL_LANE_YOUNG;
}

void pl_settle_unnamed(pl_space *space, pl_lane *lane, size_t bytes)
{
    pl_lane_note_free(lane, bytes, space->n_calls);
    if (pl_lane_is_lost(lane) || pl_due_is_time(space, lane, bytes)) {
        pl_tick_wish(space, lane, bytes);
    }
}
