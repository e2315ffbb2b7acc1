/* quick.h - the commonest requests and frees, each in one straight line.
 *
 * Most frees are of a block among live blocks, or beside free memory that pends on the same lane.
 * Most requests get the first part of a free block of their own. These calls touch a block and its
 * free neighbours, one index and a few counts. They do not need the general way (fit.c, run.h),
 * with runs of several pieces, captures, private pools and growing. The functions check for the
 * common case, and otherwise change nothing. They give the result of the general way: the same
 * block for the same request, and the same order of what is free. `api_quick` plays random
 * sequences both ways.
 *
 * Guarded by the space's lock. */
#ifndef PLEAT_SEGMENTS_QUICK_H
#define PLEAT_SEGMENTS_QUICK_H

#include "segments/pleat/space/space.h"

/* Allocate a block for a stream at rest. False: nothing has changed. */
bool pl_quick_alloc(pl_space *space, const pl_stream *stream, size_t requested, pleat_devptr *out);
/* Free a live block, in a call that names the owner. The owner is at rest. False: nothing has
 * changed. */
bool pl_quick_free(pl_space *space, const pl_stream *stream, pleat_devptr ptr);
/* As pl_quick_free, in a call that names no stream. is_told: no stream is being captured. */
bool pl_quick_free_own(pl_space *space, pleat_devptr ptr, bool is_told);

#endif
