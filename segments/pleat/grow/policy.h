/* policy.h - prices of memory: when to create, when to take, and how large chunks are.
 *
 * A driver's time is spent by the call and by the chunk, hardly by the byte. Memory held costs
 * nothing while a device is empty, and a failed request when the device is full. So the price of
 * memory grows as the room shrinks. Each choice compares these prices:
 *
 *   how large a chunk is    a chunk of c granules costs 1/c of a driver's call a granule, and
 *                           ties about c/2 granules wherever a block ends inside it. The price of a
 *                           tied granule is inverse to the room. Then the sum of both prices is
 *                           least where c grows with the root of the room
 *   take before creating    a take costs as little as a creation and holds nothing more, but may
 *                           have to be made again in each iteration. So takes buy slack: the more
 *                           takes were made, the more may be created before the next take
 *   order before creating   a wait of one stream for another costs the host nothing, and the
 *                           program what its kernels make of it: it must save some granules
 *
 * The option `growth` sets the price: frugal dear, ample nothing. Functions of the state; guarded
 * by the space's lock. Nothing here fails or drops the lock. Figures:
 * docs/experiments/policy.md. */
#ifndef PLEAT_SEGMENTS_POLICY_H
#define PLEAT_SEGMENTS_POLICY_H

#include "segments/pleat/grow/request.h"

/* Granules that may still be created until `target` are held. */
static inline size_t pl_policy_room(const pl_space *space, size_t target)
{
    size_t held = space->n_chunks + space->n_creating;

    return target > held ? target - held : 0;
}

/* The largest order of new chunks, where at most `cap` granules may be held. */
unsigned pl_policy_order(const pl_space *space, size_t cap);
/* Granules that may be created before taking, for a request that pins n_pin further granules. */
size_t pl_policy_slack(const pl_space *space, size_t cap, size_t n_pin);
/* A flight has taken n_chunks chunks for a request of the lane. */
void pl_policy_note_taken(pl_space *space, const pl_lane *lane, size_t n_chunks);
/* When taking is not enough: may a stream wait on the GPU for another stream's pending memory,
 * instead of creating n_saved granules? */
bool pl_policy_may_order(const pl_space *space, size_t cap, size_t n_saved);

#endif
