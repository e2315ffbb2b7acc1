/* clock.h - what freed memory waits for: a stream's work, the whole context's, or a graph.
 *
 * The three are one kind of thing. A clock passes stamps in their order, and blocks wait for it in
 * the order of their stamps. So one function lets blocks go on, whatever they wait for
 * (streams/pass.h), and what a freed block waits for is told by its queue and its stamp alone.
 *
 *   clock of     passes a stamp when
 *   a lane       a tick of the stream has passed on the GPU that covers the stamp: lane.h
 *   the context  the same, for a tick behind all streams; then every lane has passed it, too
 *   a capture    the capture has ended (stamp 1); its graph is gone (stamp 2): capture.h
 *
 * A block waits for one stamp of one clock at a time. A block that waits for several goes from
 * queue to queue (shared.h). Guarded by the device lock. */
#ifndef PLEAT_SEGMENTS_CLOCK_H
#define PLEAT_SEGMENTS_CLOCK_H

#include "segments/pleat/space/block.h"

/* I1  stamps do not fall along `waiting` */
typedef struct pl_clock {
    uint64_t next;          /* of a lane or the context: the stamp of frees from now on */
    uint64_t passed;        /* this stamp and all earlier ones */
    pl_block_queue waiting; /* by pl_block.stamp */
} pl_clock;

/* Let b wait until the clock has passed b->stamp. A stamp between those that wait already is raised
 * to the last of them: a search for the place would take long. */
static inline void pl_clock_wait(pl_clock *clock, pl_block *b)
{
    const pl_block *last = clock->waiting.last;

    if (last != NULL && b->stamp < last->stamp) {
        if (b->stamp <= clock->waiting.first->stamp) {
            pl_queue_push_first(&clock->waiting, b);
            return;
        }
        b->stamp = last->stamp;
    }
    pl_queue_push(&clock->waiting, b);
}

/* b, which waits, goes last among the blocks of its stamp if none waits for a later one. */
static inline void pl_clock_renew(pl_clock *clock, pl_block *b)
{
    if (b->stamp >= clock->waiting.last->stamp) {
        pl_queue_renew(&clock->waiting, b);
    }
}

#endif
