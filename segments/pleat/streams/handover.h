/* handover.h - giving pending memory of one stream to another, behind an ordered wait.
 *
 * The receiving stream is made to wait on the GPU for a tick that the other stream has recorded
 * already. The other stream itself is not touched; it may be gone. What that tick covers is then
 * the receiver's own pending memory; what no tick covers stays. A block that waits for several
 * streams comes once the receiver waits for each of them.
 *
 * Called with the device lock, which is dropped around the order. */
#ifndef PLEAT_SEGMENTS_HANDOVER_H
#define PLEAT_SEGMENTS_HANDOVER_H

#include "segments/pleat/space/space.h"

/* The last tick of that lane that `user` waits for on the GPU; 0 = none that is remembered. */
static inline uint64_t pl_handover_behind(const pl_lane *user, uint32_t lane)
{
    const pl_behind *behind = &user->behind[lane % PL_LANE_BEHIND];

    return behind->lane == lane ? behind->number : 0;
}

/* Bytes that pend on the lane and may help. A private pool's request takes from the default pool,
 * too. */
static inline size_t pl_handover_pending_bytes(const pl_lane *lane, bool is_private)
{
    return lane->pending_bytes + (is_private ? lane->private_bytes : 0);
}
/* Does anything pend on the lane that a tick covers? is_private: also private pools' memory. */
bool pl_handover_is_possible(const pl_space *space, const pl_lane *lane, bool is_private);
/* Of the other lanes with memory that a tick covers, and not yet tried in this turn, the one with
 * the most pending bytes. Looks at PL_LANE_LOOKS lanes at most. NULL: none. */
pl_lane *pl_handover_richest(const pl_space *space, const pl_lane *user, uint64_t turn,
                             bool is_private);
/* Give memory that pends on `other` to `user`: blocks with n_granules whole granules, or all blocks
 * that are covered if those have fewer, or if it is SIZE_MAX. The rest stays with `other`, which
 * can use it without waiting. Counts a stream_wait for each order. *n_moved: blocks that have come;
 * 0 = another call would bring nothing. Returns PLEAT_OK; ECAPTURE, ESTREAM (`user`), ENOMEM_HOST,
 * EDRIVER: no order was made, and only blocks behind earlier orders have come. */
pleat_status pl_handover(pl_space *space, pl_lane *user, pl_lane *other, size_t n_granules,
                         bool is_private, size_t *n_moved);

#endif
