/* reserve.h - memory left to libraries of the program and to other processes.
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
 * bound holds, the limit or the device without the reserve and the memory of others.
 *
 * Guarded by the space's lock. Nothing here fails or drops the lock. */
#ifndef PLEAT_SEGMENTS_RESERVE_H
#define PLEAT_SEGMENTS_RESERVE_H

#include "segments/pleat/space/space.h"

/* Granules to reserve on the device. */
size_t pl_reserve_of(const pl_space *space);
/* The most chunks that may be held without touching the reserve; `cap` with the reserve. */
size_t pl_reserve_cap(const pl_space *space, size_t cap);
/* Should the driver be asked for free memory before more chunks are created? */
bool pl_reserve_wants_to_know(const pl_space *space);
/* Note the driver's answer: free_bytes were free when pleat held n_chunks. */
void pl_reserve_learn(pl_space *space, size_t n_chunks, uint64_t free_bytes);

#endif
