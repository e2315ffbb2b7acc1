/* handover.c - see handover.h. */
#include "segments/pleat/streams/handover.h"

#include "segments/pleat/space/back.h"
#include "segments/pleat/space/run.h"
#include "segments/pleat/streams/shared.h"

static bool is_covered(const pl_space *space, const pl_lane *lane, pl_line_kind kind)
{
    const pl_block *first = lane->clock.lines[kind].queue.first;

    return first != NULL &&
           (first->stamp <= lane->recorded_tick || pl_lane_has_passed(space, lane, first->stamp));
}

bool pl_handover_is_possible(const pl_space *space, const pl_lane *lane, bool is_private)
{
    return is_covered(space, lane, PL_LINE_PENDING) ||
           (is_private && is_covered(space, lane, PL_LINE_PRIVATE)) ||
           (lane->clock.lines[PL_LINE_SHARED].queue.first != NULL &&
            lane->recorded_tick > lane->clock.passed);
}

pl_lane *pl_handover_richest(const pl_space *space, const pl_lane *user, uint64_t turn,
                             bool is_private)
{
    pl_lane *best = NULL;
    size_t n_looks = PL_LANE_LOOKS;

    for (pl_lane *lane = space->streams.busy.first; lane != NULL && n_looks > 0;
         lane = lane->busy.next) {
        n_looks--;
        if (lane != user && !lane->is_capture && lane->tried_turn != turn &&
            pl_handover_is_possible(space, lane, is_private) &&
            (best == NULL || pl_handover_pending_bytes(lane, is_private) >
                                 pl_handover_pending_bytes(best, is_private))) {
            best = lane;
        }
    }
    pl_lock_touch(PL_LANE_LOOKS - n_looks);
    return best;
}

static size_t whole_granules(const pl_block *b)
{
    const pl_segment *seg = b->segment;
    pleat_devptr low = pl_segment_ceil(seg, b->base);
    pleat_devptr high = pl_segment_floor(seg, pl_block_end(b));

    return high > low ? (size_t)((high - low) >> seg->granule_log2) : 0;
}

/* Blocks and granules moved so far. */
typedef struct haul {
    size_t n_blocks;
    size_t n_granules;
} haul;

enum { MOST_SEEN = 512 }; /* blocks of a line, in one hold */

/* Move blocks of another lane's line to `user` until n granules have come. Stamps may not be above
 * `upto`, and each block needs at least `least` whole granules. */
static void adopt(pl_space *space, pl_lane *user, const pl_line *line, uint64_t upto, size_t least,
                  size_t n, haul *h)
{
    pl_block *b = line->queue.first;
    size_t n_seen = 0;

    for (pl_block *next; b != NULL && b->stamp <= upto && n_seen < MOST_SEEN; b = next) {
        size_t whole = whole_granules(b);
        next = b->queue_next; /* in the old line: no merge absorbs the next block */
        n_seen++;
        pl_lock_touch(1);
        if (whole < least) {
            continue;
        }
        if (b->is_apart &&
            pl_area_reserve_index(&space->meta, b->segment->area, user->number) != PLEAT_OK) {
            continue;
        }
        pl_run_move(space, b, user->number, pl_lane_stamp(space, user));
        h->n_blocks++;
        h->n_granules += whole;
        if (h->n_granules >= n) {
            return;
        }
    }
}

/* Move blocks with whole granules first. If they do not suffice, move all blocks, since small
 * pieces may join large runs. Blocks of private pools come last, for requests of their pool only.
 * Returns whether n granules have come. */
static bool adopt_enough(pl_space *space, pl_lane *user, pl_lane *other, uint64_t upto, size_t n,
                         bool is_private, haul *h)
{
    const pl_line *lines = other->clock.lines;

    if (n != SIZE_MAX) {
        adopt(space, user, &lines[PL_LINE_PENDING], upto, 1, n, h);
    }
    if (h->n_granules < n) {
        adopt(space, user, &lines[PL_LINE_PENDING], upto, 0, SIZE_MAX, h);
    }
    if (is_private) {
        adopt(space, user, &lines[PL_LINE_PRIVATE], upto, 0, SIZE_MAX, h);
    }
    return n != SIZE_MAX && h->n_granules >= n;
}

/* ---- shared blocks --------------------------------------------------------------------------- */

/* Count a look at a block or at a use. */
static void count_look(size_t *n_looks)
{
    pl_lock_touch(1);
    *n_looks -= *n_looks > 0 ? 1 : 0;
}

static bool is_met_for(const pl_space *space, const pl_lane *user, const pl_block *b,
                       size_t *n_looks)
{
    for (uint32_t i = 0; i < b->uses->n; i++) {
        const pl_block_use *use = &b->uses->use[i];
        count_look(n_looks);
        bool is_behind = use->lane != PL_LANE_CONTEXT &&
                         (use->lane == user->number ||
                          use->stamp <= pl_handover_behind(user, use->lane));
        if (use->capture != NULL || (!is_behind && !pl_shared_is_met(space, use))) {
            return false;
        }
    }
    uint64_t stamp = b->uses->owner_stamp;
    return b->lane == user->number || stamp <= pl_handover_behind(user, b->lane) ||
           pl_lane_has_passed(space, pl_space_lane_at(space, b->lane), stamp);
}

static void adopt_shared(pl_space *space, pl_lane *user, pl_block *b)
{
    pl_shared_leave_line(space, b);
    pl_shared_end(space, b);
    pl_run_free(space, b, user->number, pl_lane_stamp(space, user));
}

enum { MOST_LOOKS = 1024 };

/* A block in a private pool or a heap can pend on the user only if its area has an index for the
 * user: make the index. */
static bool has_index(pl_space *space, const pl_lane *user, const pl_block *b)
{
    return !pl_segment_is_apart(b->segment) ||
           pl_area_reserve_index(&space->meta, b->segment->area, user->number) == PLEAT_OK;
}

/* Make shared blocks pending memory of `user`. Each demand has passed, or is behind a tick that
 * `user` waits for on the GPU. Looks at a bounded number. is_private: also private pools' blocks.
 * Returns how many. */
static size_t adopt_all_shared(pl_space *space, pl_lane *user, bool is_private)
{
    size_t n_looks = MOST_LOOKS;
    size_t n_lanes = PL_LANE_LOOKS;
    size_t n_adopted = 0;
    pl_lane *next_lane;

    for (pl_lane *lane = space->streams.busy.first; lane != NULL && n_lanes > 0; lane = next_lane) {
        next_lane = lane->busy.next;
        n_lanes--;
        pl_block *next;
        pl_block *b = lane->clock.lines[PL_LINE_SHARED].queue.first;
        for (; b != NULL && n_looks > 0; b = next) {
            next = b->queue_next;
            count_look(&n_looks);
            if ((is_private || !b->is_private) && is_met_for(space, user, b, &n_looks) &&
                has_index(space, user, b)) {
                adopt_shared(space, user, b);
                n_adopted++;
            }
        }
    }
    pl_lock_touch(PL_LANE_LOOKS - n_lanes);
    return n_adopted;
}

/* Has the lane passed `stamp`, or is `user` behind the stamp, or would an order suffice? In the
 * last case *missing is the lane. */
static bool is_behind(const pl_space *space, const pl_lane *user, uint32_t number, uint64_t stamp,
                      pl_lane **missing)
{
    pl_lane *lane = pl_space_lane_at(space, number);

    if (lane == user || stamp <= pl_handover_behind(user, number) ||
        pl_lane_has_passed(space, lane, stamp)) {
        return true;
    }
    *missing = lane;
    return stamp <= lane->recorded_tick;
}

/* A lane that `user` still has to be ordered after to have b. NULL: none, or orders alone are not
 * enough. */
static pl_lane *missing_of(const pl_space *space, const pl_lane *user, const pl_block *b,
                           size_t *n_looks)
{
    pl_lane *missing = NULL;

    for (uint32_t i = 0; i < b->uses->n; i++) {
        const pl_block_use *use = &b->uses->use[i];
        count_look(n_looks);
        bool is_context = use->lane == PL_LANE_CONTEXT;
        if (use->capture != NULL || (is_context && !pl_shared_is_met(space, use)) ||
            (!is_context && !is_behind(space, user, use->lane, use->stamp, &missing))) {
            return NULL;
        }
    }
    return is_behind(space, user, b->lane, b->uses->owner_stamp, &missing) ? missing : NULL;
}

/* Find a lane that `user` must still be ordered after to get a block that waits for `other`. Ticks
 * must cover all demands of the block. NULL = none. Looks at a bounded number. */
static pl_lane *missing_for(const pl_space *space, const pl_lane *user, const pl_lane *other,
                            bool is_private)
{
    pl_lane *missing = NULL;
    size_t n_looks = MOST_LOOKS;

    const pl_block *b = other->clock.lines[PL_LINE_SHARED].queue.first;
    for (; b != NULL && missing == NULL && n_looks > 0; b = b->queue_next) {
        count_look(&n_looks);
        if (is_private || !b->is_private) {
            missing = missing_of(space, user, b, &n_looks);
        }
    }
    return missing;
}

/* ---- orders ---------------------------------------------------------------------------------- */

/* After the newest tick of `other`. */
static pleat_status order(pl_space *space, pl_lane *user, pl_lane *other)
{
    pl_assert(other->n_ticks > 0);
    pl_tick tick = other->ticks[(other->first_tick + other->n_ticks - 1) % PL_LANE_TICKS];

    pl_fence_share(tick.fence, 1);
    other->n_refs++;
    pl_away(space);
    pleat_status st = pl_fence_order(user->stream, tick.fence);
    pl_back(space);
    pl_fence_return(tick.fence);
    other->n_refs--;
    if (st == PLEAT_OK) {
        user->behind[other->number % PL_LANE_BEHIND] = (pl_behind){ other->number, tick.number };
    }
    return st;
}

enum { MOST_ORDERS = 8 };

/* Blocks that wait for `other` also wait for further lanes: order after lanes that have a tick. */
static size_t order_the_rest(pl_space *space, pl_lane *user, pl_lane *other, bool is_private)
{
    size_t n_moved = 0;

    other->n_refs++;
    for (unsigned n = 0; n < MOST_ORDERS && n_moved == 0; n++) {
        pl_lane *lane = missing_for(space, user, other, is_private);
        if (lane == NULL || order(space, user, lane) != PLEAT_OK) {
            break;
        }
        n_moved = adopt_all_shared(space, user, is_private);
    }
    other->n_refs--;
    return n_moved;
}

pleat_status pl_handover(pl_space *space, pl_lane *user, pl_lane *other, size_t n_granules,
                         bool is_private, size_t *n_moved)
{
    uint64_t behind = pl_handover_behind(user, other->number);
    haul h = { 0 };

    bool is_enough = adopt_enough(space, user, other, behind, n_granules, is_private, &h);
    pleat_status st = PLEAT_OK;
    /* What has passed is settled for everybody, though not at once: no order is needed for it. */
    if (!is_enough && other->n_ticks > 0 && other->recorded_tick > behind) {
        st = order(space, user, other);
        if (st == PLEAT_OK) {
            behind = pl_handover_behind(user, other->number);
            (void)adopt_enough(space, user, other, behind, n_granules, is_private, &h);
            h.n_blocks += adopt_all_shared(space, user, is_private);
        }
    }
    if (st == PLEAT_OK && h.n_blocks == 0) {
        h.n_blocks = order_the_rest(space, user, other, is_private);
    }
    *n_moved = h.n_blocks;
    return st;
}
