/* settle.h - when memory that was freed is quiet: ticks, polling, ordered waits.
 *
 * Every function here is called with the space's lock held and may drop it while it talks to the
 * driver; state seen before the call may be stale after it. */
#ifndef PLEAT_SEGMENTS_SETTLE_H
#define PLEAT_SEGMENTS_SETTLE_H

#include "segments/space.h"

enum { PL_FREES_PER_TICK = 32 };

/* Record a tick on the lane's stream: it will tell when the frees so far are settled. A tick that
 * cannot be recorded (too many in flight, host memory, the driver) is left to a later one. */
void pl_settle_tick(pl_space *space, pl_lane *lane);
/* Query the lane's oldest ticks and settle what they cover. Returns whether anything passed. */
bool pl_settle_poll(pl_space *space, pl_lane *lane);
/* Poll every lane that has ticks, and at most `most_many` of the blocks that pend on several
 * streams; where a lane other than `user` has frees that no tick covers yet, record one. */
bool pl_settle_poll_all(pl_space *space, const pl_lane *user, size_t most_many);
/* The same of the blocks that pend on several streams alone. */
bool pl_settle_poll_many(pl_space *space, size_t most);
/* lane is a stream's second one: if its capture is over, its blocks pend on the first one from now
 * on. Returns whether any does. */
bool pl_settle_rest(pl_space *space, pl_lane *lane);
/* Has the last use of a stale or free block passed? */
bool pl_settle_is_over(const pl_space *space, const pl_block *b);

/* Let `user` have memory that pends on `other`: make it wait on the GPU for what `other` has
 * submitted so far, unless it waits already for enough. Blocks with n_granules whole granules, or
 * all blocks if those have fewer, pend on `user` then; the rest stays with `other`, which can use
 * it without waiting. SIZE_MAX: all. is_private: also what private pools freed. Counts one
 * stream_wait if there was one.
 * Returns PLEAT_OK; ECAPTURE, ESTREAM, ENOMEM_HOST, EDRIVER: nothing has changed. */
pleat_status pl_settle_order(pl_space *space, pl_lane *user, pl_lane *other, size_t n_granules,
                             bool is_private);
/* The same for one block that pends on several streams, the first that can be ordered after, of the
 * default pool or of the private ones; also EPENDING: there is none. */
pleat_status pl_settle_order_many(pl_space *space, pl_lane *user, bool is_private);
/* Block the host until the lane's pending blocks are settled, at most wait_ms.
 * PLEAT_OK; EPENDING; EDRIVER. */
pleat_status pl_settle_wait(pl_space *space, pl_lane *lane, uint32_t wait_ms);
/* The same for the blocks that pend on several streams. *any: some of them do not any more. */
pleat_status pl_settle_wait_many(pl_space *space, bool is_private, uint32_t wait_ms, bool *any);

/* b is being freed and is in nobody's hands but the caller's: note which of its uses are on streams
 * that are being captured. Those are not over before pl_settle_release_uses. */
void pl_settle_mark_captured(pl_space *space, pl_block *b);
/* The graph of that stream is gone: its uses end like others. Waits for flights. */
void pl_settle_release_uses(pl_space *space, const pl_stream *stream);
/* b is live with uses and is being freed by lane `owner`: record a fence on every use's stream (one
 * that cannot be recorded now is tried again when polled) and make it a free block that pends on
 * several streams. */
void pl_settle_free_many(pl_space *space, pl_block *b, pl_lane *owner);
void pl_settle_drop_uses(pl_space *space, pl_block *b); /* returns fences, frees the list */

#endif
