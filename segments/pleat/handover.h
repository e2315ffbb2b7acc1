/* handover.h - pending memory of one stream for another, behind an order.
 *
 * The taking stream is made to wait on the GPU for a tick that the other one has recorded already:
 * the other stream itself is not touched, it may be gone. What that tick covers can then be used by
 * the taking stream as if it were its own. What no tick covers stays. Blocks that wait for several
 * streams come once it waits for each of them.
 *
 * Called with the device lock, which is dropped around the order. */
#ifndef PLEAT_SEGMENTS_HANDOVER_H
#define PLEAT_SEGMENTS_HANDOVER_H

#include "segments/pleat/space.h"

/* Up to which tick does `user` wait for that lane? 0 = for none that is remembered. */
static inline uint64_t pl_handover_behind(const pl_lane *user, uint32_t lane)
{
    const pl_behind *behind = &user->behind[lane % PL_LANE_BEHIND];

    return behind->lane == lane ? behind->number : 0;
}

/* What pends on the lane and may help: a private request takes from the default pool too. */
static inline size_t pl_handover_pending_bytes(const pl_lane *lane, bool is_private)
{
    return lane->pending_bytes + (is_private ? lane->private_bytes : 0);
}
/* Does anything pend on the lane that a tick covers? is_private: private pools' memory counts, too.
 */
bool pl_handover_is_possible(const pl_space *space, const pl_lane *lane, bool is_private);
/* Of the other lanes with pending memory that a tick covers the one with the most, those apart that
 * were tried in this turn already; of very many lanes, among those looked at. NULL: none. */
pl_lane *pl_handover_richest(const pl_space *space, const pl_lane *user, uint64_t turn,
                             bool is_private);
/* Let `user` have memory that pends on `other`. Blocks with n_granules whole granules, or all
 * blocks if those have fewer, pend on `user` then; the rest stays with `other`, which can use it
 * without waiting. SIZE_MAX: all that is covered. Counts a stream_wait for each order.
 * *n_moved: blocks that have come, so that no caller goes on for nothing.
 * Returns PLEAT_OK; ECAPTURE, ESTREAM (`user`), ENOMEM_HOST, EDRIVER: nothing has changed. */
pleat_status pl_handover(pl_space *space, pl_lane *user, pl_lane *other, size_t n_granules,
                         bool is_private, size_t *n_moved);

#endif
