/* many.c - see many.h. */
#include "segments/pleat/many.h"

#include "segments/pleat/capture.h"
#include "segments/pleat/handover.h"
#include "segments/pleat/private.h"
#include "segments/pleat/run.h"
#include "segments/pleat/tick.h"

/* Where everything is walked after each call blocks have few uses: a few are many, so that their
 * ways are walked too. */
enum {
    USES_MIXED = PLEAT_DEBUG_LEVEL >= 2 ? 4 : 64,   /* unsorted */
    USES_PASSED = PLEAT_DEBUG_LEVEL >= 2 ? 4 : 256, /* before the block is parked */
    USES_SEARCHED = 256, /* of captures, the newest: a stream each of one capture, mostly */
    USES_A_HOLD = 1024,  /* that pass, of all blocks */
};

/* ---- uses ------------------------------------------------------------------------------------ */

static pl_use *last_use(const pl_block *b)
{
    return &b->uses->use[b->uses->n - 1];
}

static void drop_use(pl_space *space, const pl_use *use)
{
    if (use->lane != PL_LANE_CONTEXT) {
        pl_space_lane_at(space, use->lane)->n_refs--;
    }
    if (use->capture != NULL) {
        pl_capture_drop(space, use->capture);
    }
}

void pl_many_drop_uses(pl_space *space, pl_block *b)
{
    pl_uses *uses = b->uses;

    for (uint32_t i = 0; uses != NULL && i < uses->n; i++) {
        drop_use(space, &uses->use[i]);
        pl_lock_touch(1);
    }
    b->uses = NULL;
    pl_host_free(&space->host, uses);
}

/* Room for one more. */
static pleat_status reserve(pl_space *space, pl_block *b)
{
    pl_uses *uses = b->uses;

    if (uses != NULL && uses->n < uses->room) {
        return PLEAT_OK;
    }
    uint32_t room = uses == NULL ? 2 : uses->room * 2;
    uses = pl_host_realloc(&space->host, b->uses, sizeof(*uses) + room * sizeof(pl_use));
    if (uses == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    if (b->uses == NULL) {
        *uses = (pl_uses){ 0 };
    }
    uses->room = room;
    b->uses = uses;
    return PLEAT_OK;
}

/* From the newest one: mostly it is. */
static pl_use *search(pl_use *use, size_t n, const pl_lane *lane, const pl_capture *capture)
{
    for (; n > 0; n--) {
        pl_lock_touch(1);
        if (use[n - 1].lane == lane->number && use[n - 1].capture == capture) {
            return &use[n - 1];
        }
    }
    return NULL;
}

static pl_use *find_use(pl_uses *uses, const pl_lane *lane, const pl_capture *capture)
{
    size_t n_captured = uses->n - uses->n_plain;

    if (!uses->is_sorted) {
        return search(uses->use, uses->n, lane, capture);
    }
    if (capture == NULL) {
        return search(uses->use, uses->n_plain, lane, NULL);
    }
    n_captured = n_captured < USES_SEARCHED ? n_captured : USES_SEARCHED;
    return search(&uses->use[uses->n - n_captured], n_captured, lane, capture);
}

/* The use at i, which has no capture, goes to the others without one. */
static void move_forward(pl_uses *uses, uint32_t i)
{
    pl_use plain = uses->use[i];

    uses->use[i] = uses->use[uses->n_plain];
    uses->use[uses->n_plain++] = plain;
}

static void add(pl_uses *uses, pl_use use)
{
    uses->use[uses->n++] = use;
    if (!uses->is_sorted && uses->n > USES_MIXED) {
        uses->is_sorted = true;
        for (uint32_t i = 0; i < uses->n; i++) {
            if (uses->use[i].capture == NULL) {
                move_forward(uses, i);
            }
        }
        pl_lock_touch(uses->n);
    } else if (uses->is_sorted && use.capture == NULL) {
        move_forward(uses, uses->n - 1);
    }
}

pleat_status pl_many_add_use(pl_space *space, pl_block *b, pl_lane *lane, pl_capture *capture,
                             bool is_kept)
{
    pl_use *use = b->uses != NULL ? find_use(b->uses, lane, capture) : NULL;

    if (use != NULL) {
        use->is_kept = use->is_kept || is_kept;
        return PLEAT_OK;
    }
    pleat_status st = reserve(space, b);
    if (st != PLEAT_OK) {
        return st;
    }
    add(b->uses, (pl_use){ .capture = capture, .lane = lane->number, .is_kept = is_kept });
    lane->n_refs++;
    if (capture != NULL) {
        pl_capture_hold(capture);
    }
    return PLEAT_OK;
}

/* ---- where a block waits --------------------------------------------------------------------- */

static size_t *bytes_of(pl_space *space, const pl_block *b)
{
    if (b->state == PL_BLOCK_KEPT) {
        return &space->n_kept_bytes;
    }
    return b->is_apart ? &space->n_apart_bytes : &space->n_many_bytes;
}

static pl_block_queue *queue_of(pl_space *space, const pl_block *b)
{
    const pl_use *use = last_use(b);

    if (use->capture != NULL) {
        return &use->capture->waiting;
    }
    return use->lane == PL_LANE_CONTEXT ? &space->context.many
                                        : &pl_space_lane_at(space, use->lane)->many;
}

/* Stamps do not fall along a lane's queue: an older one waits for the one before it. */
static void wait_in_line(pl_space *space, pl_block *b)
{
    pl_block_queue *queue = queue_of(space, b);
    pl_use *use = last_use(b);

    if (use->capture == NULL && queue->last != NULL && use->tick < last_use(queue->last)->tick) {
        use->tick = last_use(queue->last)->tick;
    }
    bool is_kept = use->capture != NULL && use->is_kept;
    pl_segment_become(b->segment, &space->store, b, is_kept ? PL_BLOCK_KEPT : PL_BLOCK_MANY);
    pl_queue_push(queue, b);
    *bytes_of(space, b) += b->bytes;
    if (use->capture == NULL && use->lane != PL_LANE_CONTEXT) {
        pl_lane *lane = pl_space_lane_at(space, use->lane);
        lane->many_bytes += b->bytes;
        pl_space_note_busy(space, lane);
    }
}

static void leave_line(pl_space *space, pl_block *b)
{
    const pl_use *use = last_use(b);

    pl_queue_remove(queue_of(space, b), b);
    *bytes_of(space, b) -= b->bytes;
    if (use->capture == NULL && use->lane != PL_LANE_CONTEXT) {
        pl_lane *lane = pl_space_lane_at(space, use->lane);
        lane->many_bytes -= b->bytes;
        pl_space_note_busy(space, lane);
    }
}

/* ---- from one demand to the next ------------------------------------------------------------- */

static void want_tick_for(pl_space *space, const pl_block *b, const pl_use *use)
{
    pl_lane *lane = use->lane == PL_LANE_CONTEXT ? NULL : pl_space_lane_at(space, use->lane);

    if (lane != NULL && use->tick > lane->recorded_tick) {
        pl_tick_wish(space, lane, b->bytes);
    }
}

static bool is_met(const pl_space *space, const pl_use *use)
{
    if (use->lane == PL_LANE_CONTEXT) {
        return use->tick <= space->context.passed_tick;
    }
    return pl_lane_has_passed(space, pl_space_lane_at(space, use->lane), use->tick);
}

/* The graph is gone, or its owner said so: then what it did last is covered by a tick of the
 * context only. What the stream itself did with the block, outside of the capture, is left. In a
 * private pool, where the pool itself outlives its graphs, only the capture is over: the stream's
 * own use begins. */
static void end_captured_use(pl_space *space, const pl_block *b, pl_use *use)
{
    pl_capture *capture = use->capture;

    use->capture = NULL;
    if (b->is_apart) {
        use->tick = pl_lane_stamp(space, pl_space_lane_at(space, use->lane));
    } else if (capture->over_tick > 0) {
        pl_space_lane_at(space, use->lane)->n_refs--;
        use->lane = PL_LANE_CONTEXT;
        use->tick = use->tick > capture->over_tick ? use->tick : capture->over_tick;
    }
    want_tick_for(space, b, use);
    pl_capture_drop(space, capture);
}

/* Nothing is left but its owner. What a capture's second lane owned pends on the first one now. */
static void leave(pl_space *space, pl_block *b)
{
    pl_lane *lane = pl_space_lane_at(space, b->lane);
    uint64_t tick = b->tick;

    pl_many_drop_uses(space, b);
    pl_space_tell_block(space, PL_ACTION_FREE_COMPLETED, b);
    b->segment->area->n_used--;
    lane->n_refs--;
    if (lane->is_capture && !pl_capture_is_lasting(space, lane)) {
        lane = pl_space_lane_at(space, pl_lane_plain(lane->number));
        tick = pl_lane_stamp(space, lane);
    }
    lane->is_mixed = lane->is_capture;
    bool is_over = !lane->is_capture && pl_lane_has_passed(space, lane, tick);
    bool is_settled = is_over && pl_space_has_many_lanes(space);
    if (!is_over && !lane->is_capture && tick > lane->recorded_tick) {
        pl_tick_wish(space, lane, b->bytes);
    }
    pl_run_free(space, b, is_settled ? PL_LANE_SETTLED : lane->number, is_settled ? 0 : tick);
}

/* Has the stream itself had the block, outside of the capture that the use is of? The owner has:
 * that is what the block pends on it for. Others have if the capture ended while the block was
 * live. */
static bool is_streams_own(const pl_block *b, const pl_lane *lane, const pl_use *use)
{
    bool is_owner = pl_lane_plain(b->lane) == lane->number;
    bool is_going_on = use->capture != NULL && lane->capture == use->capture &&
                       !use->capture->has_ended;

    return !is_owner && !is_going_on;
}

/* A stream that is being captured when the block is freed has it in its graph, perhaps. */
static void begin_use(pl_space *space, const pl_block *b, pl_use *use)
{
    pl_lane *lane = pl_space_lane_at(space, use->lane);

    use->tick = is_streams_own(b, lane, use) ? pl_lane_stamp(space, lane) : 0;
    if (use->capture == NULL && lane->capture != NULL && !lane->capture->has_ended) {
        use->capture = lane->capture;
        pl_capture_hold(use->capture);
    }
    if (use->capture == NULL) {
        want_tick_for(space, b, use);
    }
}

/* It goes on in another hold: the demand is met, and there is room since one was dropped. */
static void park(pl_space *space, pl_block *b)
{
    b->uses->use[b->uses->n++] = (pl_use){ .lane = PL_LANE_CONTEXT };
    pl_segment_become(b->segment, &space->store, b, PL_BLOCK_MANY);
    pl_queue_push_first(&space->context.many, b);
    *bytes_of(space, b) += b->bytes;
}

/* Returns how many of its demands were looked at. */
static size_t go_on(pl_space *space, pl_block *b)
{
    size_t n_seen = 0;

    for (; b->uses->n > 0; n_seen++) {
        pl_use *use = last_use(b);
        pl_lock_touch(1);
        if (n_seen >= USES_PASSED && b->uses->n < b->uses->room) {
            park(space, b);
            return n_seen;
        }
        if (b->uses->n == b->uses->n_late && b->uses->n > b->uses->n_plain) {
            b->uses->n_late--;
            begin_use(space, b, use);
            use->tick = use->tick < b->uses->freed_at ? use->tick : b->uses->freed_at;
        }
        bool is_captured = use->capture != NULL;
        if (is_captured && !pl_capture_is_over(use->capture, b->is_apart)) {
            wait_in_line(space, b);
            return n_seen + 1;
        }
        if (is_captured) {
            end_captured_use(space, b, use);
            continue;
        }
        if (!is_met(space, use)) {
            wait_in_line(space, b);
            return n_seen + 1;
        }
        drop_use(space, use);
        b->uses->n--;
    }
    leave(space, b);
    return n_seen;
}

void pl_many_free(pl_space *space, pl_block *b, const pl_capture *in)
{
    pl_lane *owner = pl_space_lane_at(space, b->lane);
    pl_uses *uses = b->uses;
    uint32_t n_begun = uses->is_sorted ? uses->n_plain : uses->n;

    b->is_apart = pl_private_told(b->segment->area) != NULL;
    /* What came and went in one capture was used in its graph only, never by the streams. */
    b->tick = in != NULL && uses->birth == in ? 0 : pl_lane_stamp(space, owner);
    owner->n_refs++;
    for (uint32_t i = 0; i < n_begun; i++) {
        pl_lock_touch(1);
        begin_use(space, b, &uses->use[i]);
    }
    uses->n_late = uses->is_sorted ? uses->n : 0;
    uses->freed_at = space->clock;
    (void)go_on(space, b);
}

/* ---- passing --------------------------------------------------------------------------------- */

static size_t pass_queue(pl_space *space, const pl_block_queue *queue, size_t n)
{
    uint64_t since = space->n_pieces;
    size_t n_passed = 0;
    size_t n_uses = 0;

    for (; n_passed < n && n_uses < USES_A_HOLD && queue->first != NULL &&
           !pl_space_is_tired(space, since);
         n_passed++) {
        pl_block *b = queue->first;
        if (!is_met(space, last_use(b))) {
            break;
        }
        leave_line(space, b);
        n_uses += go_on(space, b);
    }
    pl_lock_touch(n_passed);
    return n_passed;
}

size_t pl_many_pass(pl_space *space, pl_lane *lane, size_t n)
{
    return pass_queue(space, &lane->many, n);
}

size_t pl_many_pass_context(pl_space *space, size_t n)
{
    return pass_queue(space, &space->context.many, n);
}

/* Private pools' blocks wait for the end of the capture only, others for the end of the graph.
 * Those that cannot go on yet are behind the others in the queue afterwards. */
size_t pl_many_pass_capture(pl_space *space, pl_capture *capture, size_t n)
{
    const pl_block *first_left = NULL;
    uint64_t since = space->n_pieces;
    size_t n_passed = 0;
    size_t n_uses = 0;

    for (size_t n_looks = n;
         n_looks > 0 && n_uses < USES_A_HOLD && capture->waiting.first != first_left &&
         !pl_space_is_tired(space, since);
         n_looks--) {
        pl_block *b = capture->waiting.first;
        if (pl_capture_is_over(capture, b->is_apart)) {
            leave_line(space, b);
            n_uses += go_on(space, b);
            n_passed++;
            continue;
        }
        first_left = first_left != NULL ? first_left : b;
        pl_queue_remove(&capture->waiting, b);
        pl_queue_push(&capture->waiting, b);
    }
    pl_lock_touch(n_passed);
    return n_passed;
}

bool pl_many_is_first_over(const pl_space *space, const pl_lane *lane)
{
    return lane->many.first != NULL && is_met(space, last_use(lane->many.first));
}

bool pl_many_is_uncovered(const pl_space *space, const pl_lane *lane)
{
    const pl_block *last = lane->many.last;

    return last != NULL && last_use(last)->tick > lane->recorded_tick &&
           !is_met(space, last_use(last));
}

/* ---- ordering -------------------------------------------------------------------------------- */

/* At a block, or at one of its uses: how many are left. */
static void count_look(size_t *n_looks)
{
    pl_lock_touch(1);
    *n_looks -= *n_looks > 0 ? 1 : 0;
}

static bool is_met_for(const pl_space *space, const pl_lane *user, const pl_block *b,
                       size_t *n_looks)
{
    for (uint32_t i = 0; i < b->uses->n; i++) {
        const pl_use *use = &b->uses->use[i];
        count_look(n_looks);
        bool is_behind = use->lane != PL_LANE_CONTEXT &&
                         (use->lane == user->number ||
                          use->tick <= pl_handover_behind(user, use->lane));
        if (use->capture != NULL || (!is_behind && !is_met(space, use))) {
            return false;
        }
    }
    return b->lane == user->number || b->tick <= pl_handover_behind(user, b->lane) ||
           pl_lane_has_passed(space, pl_space_lane_at(space, b->lane), b->tick);
}

static void adopt(pl_space *space, pl_lane *user, pl_block *b)
{
    leave_line(space, b);
    pl_space_lane_at(space, b->lane)->n_refs--;
    pl_many_drop_uses(space, b);
    pl_space_tell_block(space, PL_ACTION_FREE_COMPLETED, b);
    b->segment->area->n_used--;
    pl_run_free(space, b, user->number, pl_lane_stamp(space, user));
}

enum { MOST_LOOKS = 1024 };

/* In a private pool's area the user needs an index for what pends on it there. */
static bool is_reached(pl_space *space, const pl_lane *user, const pl_block *b)
{
    return !b->segment->is_private ||
           pl_area_reach(&space->host, b->segment->area, user->number) == PLEAT_OK;
}

size_t pl_many_adopt(pl_space *space, pl_lane *user, bool is_private)
{
    size_t n_looks = MOST_LOOKS;
    size_t n_lanes = PL_LANE_LOOKS;
    size_t n_adopted = 0;
    pl_lane *next_lane;

    for (pl_lane *lane = space->busy.first; lane != NULL && n_lanes > 0; lane = next_lane) {
        next_lane = lane->busy.next;
        n_lanes--;
        pl_block *next;
        for (pl_block *b = lane->many.first; b != NULL && n_looks > 0; b = next) {
            next = b->queue_next;
            count_look(&n_looks);
            if ((is_private || !b->is_apart) && is_met_for(space, user, b, &n_looks) &&
                is_reached(space, user, b)) {
                adopt(space, user, b);
                n_adopted++;
            }
        }
    }
    pl_lock_touch(PL_LANE_LOOKS - n_lanes);
    return n_adopted;
}

/* May `user` have what the lane did up to `tick` without another order? *missing is the lane if an
 * order would do. */
static bool is_behind(const pl_space *space, const pl_lane *user, uint32_t number, uint64_t tick,
                      pl_lane **missing)
{
    pl_lane *lane = pl_space_lane_at(space, number);

    if (lane == user || tick <= pl_handover_behind(user, number) ||
        pl_lane_has_passed(space, lane, tick)) {
        return true;
    }
    *missing = lane;
    return tick <= lane->recorded_tick;
}

/* One that an order after the lane would bring nearer; NULL also if orders alone cannot do. */
static pl_lane *missing_of(const pl_space *space, const pl_lane *user, const pl_block *b,
                           size_t *n_looks)
{
    pl_lane *missing = NULL;

    for (uint32_t i = 0; i < b->uses->n; i++) {
        const pl_use *use = &b->uses->use[i];
        count_look(n_looks);
        bool is_context = use->lane == PL_LANE_CONTEXT;
        if (use->capture != NULL || (is_context && !is_met(space, use)) ||
            (!is_context && !is_behind(space, user, use->lane, use->tick, &missing))) {
            return NULL;
        }
    }
    return is_behind(space, user, b->lane, b->tick, &missing) ? missing : NULL;
}

pl_lane *pl_many_missing(const pl_space *space, const pl_lane *user, const pl_lane *other,
                         bool is_private)
{
    pl_lane *missing = NULL;
    size_t n_looks = MOST_LOOKS;

    for (const pl_block *b = other->many.first; b != NULL && missing == NULL && n_looks > 0;
         b = b->queue_next) {
        count_look(&n_looks);
        if (is_private || !b->is_apart) {
            missing = missing_of(space, user, b, &n_looks);
        }
    }
    return missing;
}
