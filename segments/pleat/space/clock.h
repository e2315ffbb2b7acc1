/* clock.h - what freed memory waits for: a stream's work, the whole context's, or a graph.
 *
 * The three are one kind of thing. A clock passes stamps in their order, and blocks wait for it in
 * the order of their stamps. So one function lets blocks go on, whatever they wait for
 * (streams/pass.h).
 *
 *   clock of     passes a stamp when
 *   a lane       a tick of the stream has passed on the GPU that covers the stamp, or a tick of the
 *                context: lane.h
 *   the context  a tick behind all streams has passed
 *   a capture    the capture has ended (stamp 1); its graph is gone (stamp 2): capture.h
 *
 * A block waits for one stamp of one clock at a time. A block that waits for several goes from
 * clock to clock (shared.h). Blocks of a kind wait in a line of their own: who looks for blocks of
 * one kind, as a handover does, looks at these alone. The stream's second lane is an exception:
 * its clock passes nothing, and all goes on at once when the capture is over (pl_settle_rest).
 *
 * Guarded by the device lock. */
#ifndef PLEAT_SEGMENTS_CLOCK_H
#define PLEAT_SEGMENTS_CLOCK_H

#include "segments/pleat/space/block.h"

typedef enum pl_line_kind {
    PL_LINE_SHARED,  /* shared and captured blocks: they come to their next demand */
    PL_LINE_PENDING, /* free blocks: they are settled */
    PL_LINE_PRIVATE, /* the same, in granules that a keeper owns; in a capture's clock, shared
                      * blocks of keepers that serve captures */
    PL_N_LINES
} pl_line_kind;

/* I1  stamps (pl_block.stamp) do not fall along the queue
 * I2  `bytes` is the sum of the blocks */
typedef struct pl_line {
    pl_block_queue queue;
    size_t bytes;
} pl_line;

typedef struct pl_clock {
    uint64_t next;   /* of a lane or the context: the least stamp of frees from now on */
    uint64_t passed; /* this stamp and all earlier ones */
    pl_line lines[PL_N_LINES];
} pl_clock;

/* Put b last in the line. A stamp older than the last one's is raised to it: a search for the place
 * would take long. The caller counts the bytes. */
static inline void pl_line_push(pl_line *line, pl_block *b)
{
    const pl_block *last = line->queue.last;

    if (last != NULL && b->stamp < last->stamp) {
        b->stamp = last->stamp;
    }
    pl_queue_push(&line->queue, b);
}

static inline bool pl_clock_has_waiting(const pl_clock *clock)
{
    return clock->lines[PL_LINE_PENDING].queue.first != NULL ||
           clock->lines[PL_LINE_SHARED].queue.first != NULL ||
           clock->lines[PL_LINE_PRIVATE].queue.first != NULL;
}

#endif
