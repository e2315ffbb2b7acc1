/* reserve.h - memory that is left to others: to libraries of the program, and to other processes.
 *
 * A program that fills its device starves what allocates beside pleat: the driver for a context's
 * kernels, NCCL, cuBLAS. So part of the device is reserved for them. A request gets some of it only
 * if the free memory that pleat holds does not serve it, wherever that is and whatever taking it
 * costs, and before the host would wait for the GPU, or the request fail. What has been given stays
 * given until it is trimmed. In a capture memory may neither be taken nor waited for, so the
 * reserve is open at once.
 *
 * The driver is asked how much of the device is free: what others have got beside pleat is not
 * pleat's to use. It is asked at the first growth, and again whenever half of what pleat might
 * still create has been created; when there is nothing left, at each growth. Where a limit is set,
 * that much was granted, so of the two the lower one counts.
 *
 * Guarded by the space's lock; nothing here fails or drops it. */
#ifndef PLEAT_SEGMENTS_RESERVE_H
#define PLEAT_SEGMENTS_RESERVE_H

#include "segments/pleat/space/space.h"

/* Granules to reserve on the device. */
size_t pl_reserve_of(const pl_space *space);
/* The most chunks that may be held without touching the reserve, if `cap` with it. */
size_t pl_reserve_cap(const pl_space *space, size_t cap);
/* Should the driver be asked for its free memory before it creates more? */
bool pl_reserve_wants_to_know(const pl_space *space);
/* What it has answered, when n_chunks were held. */
void pl_reserve_learn(pl_space *space, size_t n_chunks, uint64_t free_bytes);

#endif
