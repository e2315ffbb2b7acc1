/* trim.h - giving memory back to the driver. */
#ifndef PLEAT_SEGMENTS_TRIM_H
#define PLEAT_SEGMENTS_TRIM_H

#include "segments/pleat/space/space.h"

/* Release idle chunks, then free chunks from the lowest address, until at most keep_granules are
 * held. Waits for pending memory at most wait_ms (of pl_deadline_left; 0 only looks). Called with
 * the lock; drops the lock. *n_released is always written. PLEAT_OK; EPENDING; EDRIVER. */
pleat_status pl_trim_to(pl_space *space, size_t keep_granules, uint32_t wait_ms,
                        size_t *n_released);

/* Unmap settled memory, lowest address first, until n_granules are idle as single granules,
 * or released in larger chunks. For a request that may not take, or that finds only chunks too
 * large. Waits for fences at most wait_ms. Called with the lock; drops the lock. */
void pl_trim_gather(pl_space *space, size_t n_granules, uint32_t wait_ms);

/* Release about n_granules, or all: idle chunks, then settled memory, of buffers only or of all,
 * lowest address first, without a wait. For a request that wants new chunks in their place. Called
 * with the lock; drops the lock. Returns how many granules were released. */
size_t pl_trim_recast(pl_space *space, size_t n_granules, bool is_in_buffers);

/* Release idle chunks while more than keep_granules are held. Called with the lock; drops the lock.
 * PLEAT_OK; EDRIVER. */
pleat_status pl_trim_idle_to(pl_space *space, size_t keep_granules);

/* Wait until everything freed so far is over, settle the memory, and unmap stale addresses. Waits
 * for the rest of wait_ms at most. Called with the lock; drops the lock. PLEAT_OK; EPENDING if some
 * use may not be over; or the error of a wait. */
pleat_status pl_trim_quiesce(pl_space *space, uint32_t wait_ms);

/* ---- stale.c: addresses that taken chunks left behind ----
 *
 * A taken chunk is mapped at its new place at once. Its old mapping is unmapped later, as the last
 * use of the old addresses may take a while. Stale neighbours are unmapped in one call. */

/* Unmap every stale block whose last use is over. Called with the lock, drops it around the driver.
 * Returns how many blocks became holes. */
size_t pl_stale_reap(pl_space *space);

/* Members of pl_pleat_ops, which take the space's lock, rank 20: segments/base/allocator.h. */
pleat_status pl_pleat_trim(pl_allocator *a, uint64_t keep_bytes, bool wait, uint64_t *released);
pleat_status pl_pleat_set_limit(pl_allocator *a, uint64_t bytes);

#endif
