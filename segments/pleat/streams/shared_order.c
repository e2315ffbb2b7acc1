/* shared_order.c - see shared_order.h. */
#include "segments/pleat/streams/shared_order.h"

#include "segments/pleat/space/run.h"
#include "segments/pleat/streams/handover.h"
#include "segments/pleat/streams/shared.h"
#include "segments/pleat/streams/uses.h"

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
                          use->tick <= pl_handover_behind(user, use->lane));
        if (use->capture != NULL || (!is_behind && !pl_shared_is_met(space, use))) {
            return false;
        }
    }
    return b->lane == user->number || b->tick <= pl_handover_behind(user, b->lane) ||
           pl_lane_has_passed(space, pl_space_lane_at(space, b->lane), b->tick);
}

static void adopt(pl_space *space, pl_lane *user, pl_block *b)
{
    pl_shared_leave_line(space, b);
    pl_shared_end(space, b);
    pl_run_free(space, b, user->number, pl_lane_stamp(space, user));
}

enum { MOST_LOOKS = 1024 };

/* A block in a private pool or a room can pend on the user only if its area has an index for the
 * user: make the index. */
static bool has_index(pl_space *space, const pl_lane *user, const pl_block *b)
{
    return !b->segment->is_apart ||
           pl_area_reserve_index(&space->host, b->segment->area, user->number) == PLEAT_OK;
}

size_t pl_shared_adopt(pl_space *space, pl_lane *user, bool is_private)
{
    size_t n_looks = MOST_LOOKS;
    size_t n_lanes = PL_LANE_LOOKS;
    size_t n_adopted = 0;
    pl_lane *next_lane;

    for (pl_lane *lane = space->busy.first; lane != NULL && n_lanes > 0; lane = next_lane) {
        next_lane = lane->busy.next;
        n_lanes--;
        pl_block *next;
        for (pl_block *b = lane->shared_pending.first; b != NULL && n_looks > 0; b = next) {
            next = b->queue_next;
            count_look(&n_looks);
            if ((is_private || !b->is_private) && is_met_for(space, user, b, &n_looks) &&
                has_index(space, user, b)) {
                adopt(space, user, b);
                n_adopted++;
            }
        }
    }
    pl_lock_touch(PL_LANE_LOOKS - n_lanes);
    return n_adopted;
}

/* Has the lane passed `tick`, or is `user` behind the tick, or would an order suffice? In the last
 * case *missing is the lane. */
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
            (!is_context && !is_behind(space, user, use->lane, use->tick, &missing))) {
            return NULL;
        }
    }
    return is_behind(space, user, b->lane, b->tick, &missing) ? missing : NULL;
}

pl_lane *pl_shared_missing(const pl_space *space, const pl_lane *user, const pl_lane *other,
                           bool is_private)
{
    pl_lane *missing = NULL;
    size_t n_looks = MOST_LOOKS;

    for (const pl_block *b = other->shared_pending.first;
         b != NULL && missing == NULL && n_looks > 0; b = b->queue_next) {
        count_look(&n_looks);
        if (is_private || !b->is_private) {
            missing = missing_of(space, user, b, &n_looks);
        }
    }
    return missing;
}
