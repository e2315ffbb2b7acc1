/* shared.c - see shared.h. */
#include "segments/pleat/streams/shared.h"

#include <string.h>

#include "segments/pleat/space/keeper.h"
#include "segments/pleat/space/ledger.h"
#include "segments/pleat/space/run.h"
#include "segments/pleat/streams/capture.h"
#include "segments/pleat/streams/tick.h"

/* Builds that walk everything have few uses of a block. A low limit lets tests reach parking. */
enum {
    USES_PASSED = PLEAT_DEBUG_LEVEL >= 2 ? 4 : 256, /* demands of a block passed before parking */
};

/* ---- where a block waits --------------------------------------------------------------------- */

static pl_clock *clock_of(pl_space *space, const pl_block_use *use)
{
    if (use->capture != NULL) {
        return &use->capture->clock;
    }
    return use->lane == PL_LANE_CONTEXT ? &space->streams.context.clock
                                        : &pl_space_lane_at(space, use->lane)->clock;
}

static pl_line *line_of(pl_space *space, const pl_block *b)
{
    const pl_block_use *use = pl_uses_last(b);
    bool is_private = use->capture != NULL && b->is_private;

    return &clock_of(space, use)->lines[is_private ? PL_LINE_PRIVATE : PL_LINE_SHARED];
}

/* b waits in the line of its last use from now on, or does so no more. */
static void count(pl_space *space, const pl_block *b, bool waits)
{
    const pl_block_use *use = pl_uses_last(b);
    size_t *bytes = &line_of(space, b)->bytes;
    size_t *all = b->is_private ? &space->streams.n_private_shared_bytes
                                : &space->streams.n_shared_bytes;

    *bytes = waits ? *bytes + b->bytes : *bytes - b->bytes;
    if (b->state == PL_BLOCK_SHARED) {
        *all = waits ? *all + b->bytes : *all - b->bytes;
    }
    if (use->capture == NULL && use->lane != PL_LANE_CONTEXT) {
        pl_space_note_busy(space, pl_space_lane_at(space, use->lane));
    }
}

/* Let b wait for its last use. is_parked: the use is met, and b goes first. */
static void wait_in_line(pl_space *space, pl_block *b, bool is_parked)
{
    const pl_block_use *use = pl_uses_last(b);
    bool is_captured = use->capture != NULL && use->is_captured;
    pl_line *line = line_of(space, b);

    pl_segment_become(b->segment, &space->blocks.store, b,
                      is_captured ? PL_BLOCK_CAPTURED : PL_BLOCK_SHARED);
    b->stamp = use->capture != NULL ? pl_capture_stamp(b->is_private) : use->stamp;
    if (is_parked) {
        pl_queue_push_first(&line->queue, b);
    } else {
        pl_line_push(line, b);
    }
    count(space, b, true);
}

void pl_shared_leave_line(pl_space *space, pl_block *b)
{
    pl_queue_remove(&line_of(space, b)->queue, b);
    count(space, b, false);
}

/* ---- from one demand to the next ------------------------------------------------------------- */

static void want_tick_for(pl_space *space, const pl_block *b, const pl_block_use *use)
{
    pl_lane *lane = use->lane == PL_LANE_CONTEXT ? NULL : pl_space_lane_at(space, use->lane);

    if (lane != NULL && use->stamp > lane->recorded_tick) {
        pl_due_used(space, lane, b->bytes);
    }
}

bool pl_shared_is_met(const pl_space *space, const pl_block_use *use)
{
    if (use->lane == PL_LANE_CONTEXT) {
        return use->stamp <= space->streams.context.clock.passed;
    }
    return pl_lane_has_passed(space, pl_space_lane_at(space, use->lane), use->stamp);
}

/* The use's capture is over, and the demand goes on, on a lane or the context. If the driver said
 * that the graph is gone, only the stream's own work outside the capture is left. If the owner said
 * so, launches may still run, and only a tick of the context covers launches. A private pool
 * outlives its graphs, so the stream's own use begins now. */
static void end_captured_use(pl_space *space, const pl_block *b, pl_block_use *use)
{
    pl_capture *capture = use->capture;

    use->capture = NULL;
    if (b->is_private) {
        use->stamp = pl_lane_stamp(space, pl_space_lane_at(space, use->lane));
    } else if (capture->over_tick > 0) {
        pl_space_lane_at(space, use->lane)->n_refs--;
        use->lane = PL_LANE_CONTEXT;
        use->stamp = use->stamp > capture->over_tick ? use->stamp : capture->over_tick;
    }
    want_tick_for(space, b, use);
    pl_capture_drop(space, capture);
}

void pl_shared_end(pl_space *space, pl_block *b)
{
    pl_uses_drop_all(space, b);
    pl_ledger_completed(space, b);
    pl_space_lane_at(space, b->lane)->n_refs--;
}

/* All demands are met: b pends on its owner, or is settled. If the owner is a second lane and its
 * capture is over, b pends on the first lane. */
static void leave(pl_space *space, pl_block *b)
{
    pl_lane *lane = pl_space_lane_at(space, b->lane);
    uint64_t stamp = b->uses->owner_stamp;

    pl_shared_end(space, b);
    if (lane->is_capture && !pl_capture_is_lasting(space, lane)) {
        lane = pl_space_lane_at(space, pl_lane_plain(lane->number));
        stamp = pl_lane_stamp(space, lane);
    }
    lane->is_mixed = lane->is_capture;
    bool is_over = !lane->is_capture && pl_lane_has_passed(space, lane, stamp);
    bool is_settled = is_over && pl_space_has_many_lanes(space);
    if (!is_over && !lane->is_capture && stamp > lane->recorded_tick) {
        pl_tick_wish(space, lane, b->bytes);
    }
    pl_run_free(space, b, is_settled ? PL_LANE_SETTLED : lane->number, is_settled ? 0 : stamp);
}

/* Must the demand cover the stream's own work, outside the use's capture? Not if the stream is the
 * owner, since the block pends on the owner in the end. Not while the capture is under way,
 * either. */
static bool is_streams_own(const pl_block *b, const pl_lane *lane, const pl_block_use *use)
{
    bool is_owner = pl_lane_plain(b->lane) == lane->number;
    bool is_going_on = use->capture != NULL && lane->capture == use->capture &&
                       !pl_capture_has_ended(use->capture);

    return !is_owner && !is_going_on;
}

/* Make a use a demand. If the stream is being captured now, the graph may use the block, too. */
static void begin_use(pl_space *space, const pl_block *b, pl_block_use *use)
{
    pl_lane *lane = pl_space_lane_at(space, use->lane);

    use->stamp = is_streams_own(b, lane, use) ? pl_lane_stamp(space, lane) : 0;
    if (use->capture == NULL && lane->capture != NULL && !pl_capture_has_ended(lane->capture)) {
        use->capture = lane->capture;
        pl_capture_hold(use->capture);
    }
    if (use->capture == NULL) {
        want_tick_for(space, b, use);
    }
}

/* Let b go on in another hold, with a met demand. The list has room, as demands have gone. */
static void park(pl_space *space, pl_block *b)
{
    pl_assert(b->uses->n < b->uses->room);
    b->uses->use[b->uses->n++] = (pl_block_use){ .lane = PL_LANE_CONTEXT };
    wait_in_line(space, b, true);
}

void pl_shared_go_on(pl_space *space, pl_block *b)
{
    uint64_t since = space->n_pieces;

    /* A demand takes at most two turns. So from the third turn on one has gone. */
    for (size_t n_seen = 0; b->uses->n > 0; n_seen++) {
        pl_block_use *use = pl_uses_last(b);
        pl_space_work(space, 1);
        if (n_seen >= USES_PASSED || (n_seen >= 2 && pl_space_is_tired(space, since))) {
            park(space, b);
            return;
        }
        if (b->uses->n == b->uses->n_late && b->uses->n > b->uses->n_plain) {
            b->uses->n_late--;
            begin_use(space, b, use);
            use->stamp = use->stamp < b->uses->freed_at ? use->stamp : b->uses->freed_at;
        }
        bool is_captured = use->capture != NULL;
        bool is_over = is_captured ? pl_capture_is_over(use->capture, b->is_private)
                                   : pl_shared_is_met(space, use);
        if (is_captured && is_over) {
            end_captured_use(space, b, use);
            continue;
        }
        if (!is_over) {
            wait_in_line(space, b, false);
            return;
        }
        pl_uses_drop(space, use);
        b->uses->n--;
    }
    leave(space, b);
}

/* Freed outside of a capture, a block of the second lane goes to the first, whatever capture is
 * under way once its demands are met. */
void pl_shared_free(pl_space *space, pl_block *b, const pl_capture *in)
{
    b->lane = in != NULL ? b->lane : pl_lane_plain(b->lane);
    pl_lane *owner = pl_space_lane_at(space, b->lane);
    pl_block_uses *uses = b->uses;
    uint32_t n_begun = uses->is_sorted ? uses->n_plain : uses->n;

    b->is_private = b->segment->is_private && pl_keeper_told(b->segment->area) != NULL;
    /* A block that came and went in one capture is used by its graph only, not by the stream. */
    uses->owner_stamp = in != NULL && uses->birth == in ? 0 : pl_lane_stamp(space, owner);
    owner->n_refs++;
    for (uint32_t i = 0; i < n_begun; i++) {
        pl_lock_touch(1);
        begin_use(space, b, &uses->use[i]);
    }
    uses->n_late = uses->is_sorted ? uses->n : 0;
    uses->freed_at = space->streams.newest_stamp;
    pl_shared_go_on(space, b);
}

/* ---- uses of a live block -------------------------------------------------------------------- */

/* Builds that walk everything have few uses of a block. A low limit lets tests reach sorted
 * lists. */
enum {
    USES_MIXED = PLEAT_DEBUG_LEVEL >= 2 ? 4 : 64, /* the most in an unsorted list */
    USES_SEARCHED = 256, /* newest uses by captures to search: mostly streams of one capture */
};

void pl_uses_drop(pl_space *space, const pl_block_use *use)
{
    if (use->lane != PL_LANE_CONTEXT) {
        pl_space_lane_at(space, use->lane)->n_refs--;
    }
    if (use->capture != NULL) {
        pl_capture_drop(space, use->capture);
    }
}

void pl_uses_drop_all(pl_space *space, pl_block *b)
{
    pl_block_uses *uses = b->uses;

    for (uint32_t i = 0; uses != NULL && i < uses->n; i++) {
        pl_uses_drop(space, &uses->use[i]);
        pl_lock_touch(1);
    }
    b->uses = NULL;
    pl_meta_free(&space->meta, uses);
}

/* Make room for one more use. */
static pleat_status reserve(pl_space *space, pl_block *b)
{
    pl_block_uses *uses = b->uses;

    if (uses != NULL && uses->n < uses->room) {
        return PLEAT_OK;
    }
    uint32_t room = uses == NULL ? 2 : uses->room * 2;
    uses = pl_meta_realloc(&space->meta, b->uses, sizeof(*uses) + room * sizeof(pl_block_use));
    if (uses == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    if (b->uses == NULL) {
        *uses = (pl_block_uses){ 0 };
    }
    uses->room = room;
    b->uses = uses;
    return PLEAT_OK;
}

pleat_status pl_uses_copy(pl_space *space, const pl_block *from, pl_block *to)
{
    const pl_block_uses *uses = from->uses;

    if (uses == NULL) {
        return PLEAT_OK;
    }
    size_t bytes = sizeof(*uses) + uses->room * sizeof(pl_block_use);
    pl_block_uses *copy = pl_meta_alloc(&space->meta, bytes);
    if (copy == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    memcpy(copy, uses, sizeof(*uses) + uses->n * sizeof(pl_block_use));
    for (uint32_t i = 0; i < uses->n; i++) {
        if (uses->use[i].lane != PL_LANE_CONTEXT) {
            pl_space_lane_at(space, uses->use[i].lane)->n_refs++;
        }
        if (uses->use[i].capture != NULL) {
            pl_capture_hold(uses->use[i].capture);
        }
    }
    pl_lock_touch(uses->n);
    to->uses = copy;
    return PLEAT_OK;
}

/* Search from the newest use down, since the newest are mostly wanted. */
static pl_block_use *search(pl_block_use *use, size_t n, const pl_lane *lane,
                            const pl_capture *capture)
{
    for (; n > 0; n--) {
        pl_lock_touch(1);
        if (use[n - 1].lane == lane->number && use[n - 1].capture == capture) {
            return &use[n - 1];
        }
    }
    return NULL;
}

static pl_block_use *find_use(pl_block_uses *uses, const pl_lane *lane, const pl_capture *capture)
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

/* Move the use at i, which has no capture, to the front part without captures. */
static void move_forward(pl_block_uses *uses, uint32_t i)
{
    pl_block_use plain = uses->use[i];

    uses->use[i] = uses->use[uses->n_plain];
    uses->use[uses->n_plain++] = plain;
}

static void add(pl_block_uses *uses, pl_block_use use)
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

pleat_status pl_uses_add(pl_space *space, pl_block *b, pl_lane *lane, pl_capture *capture,
                         bool is_captured)
{
    pl_block_use *use = b->uses != NULL ? find_use(b->uses, lane, capture) : NULL;

    if (use != NULL) {
        use->is_captured = use->is_captured || is_captured;
        return PLEAT_OK;
    }
    pleat_status st = reserve(space, b);
    if (st != PLEAT_OK) {
        return st;
    }
    add(b->uses,
        (pl_block_use){ .capture = capture, .lane = lane->number, .is_captured = is_captured });
    lane->n_refs++;
    if (capture != NULL) {
        pl_capture_hold(capture);
    }
    return PLEAT_OK;
}
