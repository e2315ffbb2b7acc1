/* settle.h - when memory that was freed is quiet: ticks, polling, settling.
 *
 * Nothing is asked of a stream but in calls that name it: whoever wants a tick of another stream
 * leaves the wish in its lane, and the next call that names the stream records it. What can name no
 * stream any more waits for a tick of the whole context: one event behind all work of all streams.
 * That would break a capture, so it is recorded only while none is known of, at a moment when none
 * can just have begun (capturers.h); where drivers have no such event the host synchronises
 * instead.
 *
 * What a passed tick covers is over. It is settled by and by, a bounded number of blocks in one
 * hold of the lock.
 *
 * Every function here is called with the space's lock held and may drop it while it talks to the
 * driver; state seen before the call may be stale after it. */
#ifndef PLEAT_SEGMENTS_SETTLE_H
#define PLEAT_SEGMENTS_SETTLE_H

#include "segments/pleat/space.h"

enum {
    PL_FREES_PER_TICK = 32,
    PL_FREES_WHEN_TIGHT = 4,
    PL_SETTLE_SOME = 256,   /* blocks settled in one hold */
    PL_SETTLE_LANES = 64,   /* lanes looked at in one hold */
    PL_SETTLE_QUERIES = 32, /* fences queried before growing */
};

/* The caller named the lane's stream and did nothing that a tick should cover: record one if
 * somebody waits for it. */
void pl_settle_named(pl_space *space, pl_lane *lane);
/* Bytes were freed on the lane, in a call that named its stream: record a tick if it is time to, or
 * if there may be no later call. */
void pl_settle_freed(pl_space *space, pl_lane *lane, size_t bytes);
/* Record a tick, in a call that names the stream. One that cannot be recorded (host memory, the
 * driver, a capture) is left to a later one. */
void pl_settle_tick(pl_space *space, pl_lane *lane);
/* A fence behind all that the stream did: its owner is about to destroy it. */
void pl_settle_close(pl_space *space, pl_lane *lane);

/* Query the oldest ticks of at most n lanes, the longest unasked first, and the context's. Returns
 * whether anything passed. */
bool pl_settle_poll(pl_space *space, size_t n);
/* The same of one lane. */
bool pl_settle_poll_lane(pl_space *space, pl_lane *lane);
/* So many bytes wait for a tick of the lane: leave the wish for one. */
void pl_settle_wish(pl_space *space, pl_lane *lane, size_t bytes);
/* Nothing will cover what pends on the lane but a tick of the context. */
void pl_settle_leave_to_context(pl_space *space, pl_lane *lane);
/* Leave the wish for a tick where frees are covered by none, among the n lanes that nobody looked
 * at for longest, `user` apart. */
void pl_settle_want_ticks(pl_space *space, const pl_lane *user, size_t n);
/* Settle at most n blocks that are over, wherever they are among the lanes it looks at. Returns how
 * many. */
size_t pl_settle_some(pl_space *space, size_t n);
size_t pl_settle_lane(pl_space *space, pl_lane *lane, size_t n);
/* All of it: looks at every lane, dropping the lock now and then. */
bool pl_settle_all(pl_space *space);
/* The same, with what graphs and released pools have left. Bounded, whatever others go on freeing.
 * */
void pl_settle_everything(pl_space *space);
/* Has the last use of a stale or free block passed? */
bool pl_settle_is_over(const pl_space *space, const pl_block *b);

/* Is a capture known of that would be broken by a fence of the context? */
bool pl_settle_is_capturing(const pl_space *space);
/* How well a tick of the context chooses its moment (capturers.h). */
typedef enum pl_care {
    PL_CARE_NOW,  /* now, or not at all */
    PL_CARE_SOON, /* within milliseconds, or not at all */
    PL_CARE_LAST, /* the last remedy: a better moment is waited for, then it is recorded anyway,
                     but never beside a capture that is known */
} pl_care;
/* Record a tick of the context, unless one is under way; waits for other threads at most
 * patience_ms. PLEAT_OK; EPENDING (one is, or some thread is about to); ECAPTURE (one is known, or
 * may have begun); ENOTSUP; ENOMEM_HOST; EDRIVER. */
pleat_status pl_settle_context(pl_space *space, pl_care care, uint32_t patience_ms);
/* Something waits for one that no request needs yet: the same, unless the last one met a capture
 * that nobody had told of. Then it is left to whoever has to wait. */
void pl_settle_want_context(pl_space *space);
/* The same if lanes that are gone, or that no call names any more, have left enough to be worth
 * it. */
void pl_settle_context_if_due(pl_space *space);
/* Block the host until everything freed before the call is over, at most wait_ms; 0 only looks.
 * PLEAT_OK; EPENDING; ECAPTURE; ENOMEM_HOST; EDRIVER. */
pleat_status pl_settle_wait_context(pl_space *space, pl_care care, uint32_t wait_ms);
/* Block the host until the lane's newest tick has passed, at most wait_ms. PLEAT_OK (also when it
 * has none); EPENDING; EDRIVER. */
pleat_status pl_settle_wait(pl_space *space, pl_lane *lane, uint32_t wait_ms);
/* Is anything freed on the lane covered by no tick, and not over? */
bool pl_settle_has_uncovered(const pl_space *space, const pl_lane *lane);

/* lane is a stream's second one, whose capture is over: at most n of its blocks are settled, or
 * pend on the first one from now on. Returns how many. */
size_t pl_settle_rest(pl_space *space, pl_lane *lane, size_t n);

#endif
