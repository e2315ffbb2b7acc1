/* policy.h - prices of memory: when to create, when to take, and how large chunks are.
 *
 * A driver's time is spent by the call and by the chunk, hardly by the byte. Memory held costs
 * nothing while a device is empty, and a failed request when the device is full. So the price of
 * memory grows as the headroom shrinks. Each choice compares these prices:
 *
 *   how large a chunk is    a chunk of c granules costs 1/c of a driver's call a granule, and
 *                           ties about c/2 granules wherever a block ends inside it: a share of
 *                           what may still be created, as on a small device, and near the end of
 *                           any, what is tied decides whether a program completes. Or a larger
 *                           share of the request that it is made for, as that ties little beside
 *                           the block; but a block may be freed and split, so at most twice what
 *                           an empty device would get. Where live memory may move (short:compact)
 *                           chunks are larger, as a move unties
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

#include "segments/pleat/space/space.h"
#include "vmm/base/pleat_policy.h"

/* Rules of somebody's own (policy:PATH), which answer after pleat's; NULL = pleat's holds. */
typedef struct pl_policy_calls {
    pleat_policy_fn *order;
    pleat_policy_fn *slack;
    pleat_policy_fn *may_order;
    pleat_policy_fn *place;
} pl_policy_calls;

/* Granules that may still be created until `target` are held. */
static inline size_t pl_policy_headroom(const pl_space *space, size_t target)
{
    size_t held = space->chunks.n_held + space->chunks.n_creating;

    return target > held ? target - held : 0;
}

/* The largest order of new chunks for a request that needs n_granules of them, where at most `cap`
 * granules may be held. */
unsigned pl_policy_order(const pl_space *space, size_t cap, size_t n_granules);
/* Granules that may be created before taking, for a request that pins n_pin further granules. */
size_t pl_policy_slack(const pl_space *space, size_t cap, size_t n_pin);
/* A flight has taken n_chunks chunks for a request of the lane. */
void pl_policy_note_taken(pl_space *space, const pl_lane *lane, size_t n_chunks);
/* When taking is not enough: may a stream wait on the GPU for another stream's pending memory,
 * instead of creating n_saved granules? */
bool pl_policy_may_order(const pl_space *space, size_t cap, size_t n_saved);
/* Does somebody's own rule choose among places? */
static inline bool pl_policy_ranks_places(const pl_space *space)
{
    return space->options.policy != NULL && space->options.policy->place != NULL;
}

/* What that rule says of a place with n_new new granules that pins n_pin, for a request of `bytes`;
 * `at` counts from the base of the segment. */
uint64_t pl_policy_rank(const pl_space *space, size_t cap, size_t bytes, pleat_devptr at,
                        size_t n_new, size_t n_pin);

/* Granules that a compaction has to win for the request; 0: none. If the request fits with the
 * reserve, as many as keep the reserve closed. */
size_t pl_policy_lacks(const pl_space *space, size_t n_granules);
/* Shall live memory move for the request (short:compact) before the reserve is touched? The reserve
 * is the room in which memory moves. */
bool pl_policy_may_compact(const pl_space *space, size_t n_granules);

/* ---- the reserve ----
 *
 * Memory is left to libraries of the program and to other processes.
 *
 * A program that fills its device starves everybody beside pleat: the driver, which loads kernels
 * of a context, NCCL, cuBLAS. So pleat reserves part of the device for them. A request takes from
 * the reserve only if no free memory that pleat holds serves the request, wherever the memory lies
 * and whatever taking costs. Taking from the reserve comes before a wait of the host for the GPU
 * and before a refusal. Reserved memory that was given stays given until a trim. In a capture pleat
 * may neither take memory nor wait, so the reserve is open at once.
 *
 * The driver is asked how much of the device is free, as pleat may not use the memory of others.
 * The first growth asks, and then a growth whenever half of the chunks that pleat might still
 * create were created. When nothing is left, each growth asks. A limit counts as granted: the lower
 * bound holds, the limit or the device without the reserve and the memory of others. */

/* Granules to reserve on the device. */
size_t pl_reserve_of(const pl_space *space);
/* The most chunks that may be held without touching the reserve; `cap` with the reserve. */
size_t pl_reserve_cap(const pl_space *space, size_t cap);
/* Should the driver be asked for free memory before more chunks are created? */
bool pl_reserve_wants_to_know(const pl_space *space);
/* Note the driver's answer: free_bytes were free when pleat held n_held granules. */
void pl_reserve_learn(pl_space *space, size_t n_held, uint64_t free_bytes);

#endif
