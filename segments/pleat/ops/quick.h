/* quick.h - the commonest requests and frees, each in one straight line.
 *
 * What a program does over and over is free a block among live ones, or beside free memory that
 * pends on the same lane, and get the first part of a free block of its own. Both touch one or two
 * blocks, one index and a few counts, and need nothing that the general way (fit.h, run.h) is for:
 * runs of several pieces, captures, private pools, growing. These functions look whether
 * that is so, and otherwise change nothing. What they do is what the general way would do, to the
 * same effect: the same block for the same request; with several streams, or where memory is short,
 * one that fits as well.
 *
 * Guarded by the space's lock. */
#ifndef PLEAT_SEGMENTS_QUICK_H
#define PLEAT_SEGMENTS_QUICK_H

#include "segments/pleat/front/front.h"

/* A live block for a stream at rest. front: the calling thread's before that stream, without late
 * blocks; NULL = it has none. False: nothing has changed. */
bool pl_quick_alloc(pl_space *space, pl_front *front, const pl_stream *stream, size_t requested,
                    pleat_devptr *out);
/* Free a live block, in a call that names its owner, at rest. False: nothing has changed. */
bool pl_quick_free(pl_space *space, const pl_stream *stream, pleat_devptr ptr);
/* The late blocks of the calling thread's front become free memory, in a call that names its
 * stream. May drop the lock. */
void pl_quick_free_late(pl_space *space, pl_front *front);
/* The same, and then pl_quick_alloc. */
bool pl_quick_alloc_past(pl_space *space, pl_front *front, const pl_stream *stream,
                         size_t requested, pleat_devptr *out);
/* Those of all its fronts. named: the lane whose stream the call names; 0 = none, or that stream is
 * being captured. Of other streams no tick is recorded. */
void pl_quick_free_all_late(pl_space *space, uint32_t named);
/* The same in a call that names no stream. is_told: no stream is being captured. */
bool pl_quick_free_own(pl_space *space, pleat_devptr ptr, bool is_told);

/* What the calling thread has put off. Returns its front before the stream, or NULL. */
static inline pl_front *pl_quick_catch_up(pl_space *space, const pl_stream *stream,
                                          const pl_capture_info *info)
{
    uint32_t lane = pl_lane_number(stream, false);

    if (__builtin_expect(space->fronts == NULL, true)) {
        return NULL;
    }
    pl_quick_free_all_late(space, info->is_capturing ? 0 : lane);
    return pl_fronts_own(space->fronts, lane);
}

#endif
