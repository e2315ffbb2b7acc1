/* handover.h - giving pending memory of one stream to another, behind an ordered wait.
 *
 * The receiving stream waits on the GPU for a recorded tick of the giving stream. The giving stream
 * itself is not touched, and may be gone. Memory under the tick becomes pending memory of the
 * receiver, and the rest stays. A block that waits for several streams comes once the receiver
 * waits for all of them.
 *
 * Called with the device lock, which is dropped around the order. */
#ifndef PLEAT_SEGMENTS_HANDOVER_H
#define PLEAT_SEGMENTS_HANDOVER_H

#include "segments/pleat/space/space.h"

/* The newest tick of `lane` that `user` waits for on the GPU; 0 = none remembered. */
static inline uint64_t pl_handover_behind(const pl_lane *user, uint32_t lane)
{
    const pl_behind *behind = &user->behind[lane % PL_LANE_BEHIND];

    return behind->lane == lane ? behind->number : 0;
}

/* Bytes that pend on the lane and may help. A private pool's request takes from the default pool,
 * too. */
static inline size_t pl_handover_pending_bytes(const pl_lane *lane, bool is_private)
{
    return lane->clock.lines[PL_LINE_PENDING].bytes +
           (is_private ? lane->clock.lines[PL_LINE_PRIVATE].bytes : 0);
}
/* Does a tick cover any memory that pends on the lane? is_private: also memory of private pools. */
bool pl_handover_is_possible(const pl_space *space, const pl_lane *lane, bool is_private);
/* Find the lane with the most pending bytes, besides `user`. A tick must cover memory of the lane,
 * and this turn has not tried the lane yet. Looks at PL_LANE_LOOKS lanes at most. NULL: none. */
pl_lane *pl_handover_richest(const pl_space *space, const pl_lane *user, uint64_t turn,
                             bool is_private);
/* Give memory that pends on `other` to `user`: covered blocks with n_granules whole granules. If
 * they have fewer, or n_granules is SIZE_MAX, give all covered blocks among the first of each line.
 * The rest stays with `other`,
 * for use without waiting. Counts a stream_wait for each order. *n_moved: blocks that have come; 0
 * = a further call would bring nothing. PLEAT_OK; ECAPTURE, ESTREAM (`user`), ENOMEM_HOST, EDRIVER:
 * no order was made, and only blocks behind earlier orders have come. */
pleat_status pl_handover(pl_space *space, pl_lane *user, pl_lane *other, size_t n_granules,
                         bool is_private, size_t *n_moved);

#endif
