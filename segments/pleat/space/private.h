/* private.h - private pools: keepers of memory that a CUDA graph may keep using.
 *
 * A pool keeps nothing until a capture uses it, or a checkpoint is taken. From then on the rule of
 * keeper.h keeps for the pool what a graph may touch, or a restore may make live again.
 *
 * Captures. On a stream that is being captured, a request uses settled memory. The request also
 * uses memory that the same stream freed during the capture: such memory pends on the stream's
 * second lane (lane.h). No block of a pool is captured (capture.h), as a pool exists to reuse its
 * memory.
 *
 * Release. Graphs may have been launched on any stream, known or not, and may still run. So a
 * released pool drains: until the driver has said that all graphs captured in the pool are gone
 * (vmm/streams/graph_watch.h), or until a tick of the context has passed. If the driver does not
 * watch all graphs of the pool, the tick is asked for at once. A draining pool's memory stays as it
 * was, but observers hear of the memory as the default pool's. A drained pool's areas become the
 * default pool's, and open. */
#ifndef PLEAT_SEGMENTS_PRIVATE_H
#define PLEAT_SEGMENTS_PRIVATE_H

#include "segments/pleat/space/keeper.h"

typedef struct pl_private {
    pl_keeper base;
    uint64_t over_tick;            /* draining: drained when the context has passed this stamp */
    struct pl_capture_list graphs; /* captures with requests of the pool, whose graphs may live */
    size_t n_graphs;     /* number of captures in `graphs`: at 0 the pool is drained, too, ... */
    uint64_t n_captures; /* all captures that `graphs` ever had */
    bool is_unwatched;   /* ... unless the driver does not watch some graph */
} pl_private;

extern const pl_keeper_kind pl_private_kind; /* pools/private_ops.c */

/* The caller knows that the keeper is a pool: it serves captures, or observers are told of it. */
static inline pl_private *pl_private_of(pl_keeper *keeper)
{
    pl_assert(keeper->kind == &pl_private_kind);
    return (pl_private *)keeper;
}

#endif
