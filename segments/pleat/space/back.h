/* back.h - the memory behind addresses: where operations drop the lock for the driver.
 *
 *   decide   an operation decides under the lock what is wanted, and reserves it: in flight
 *   away     the operation drops the lock, calls the driver, and takes the lock again
 *   commit   the operation takes over the results, which cannot fail; or puts all back
 *
 * No driver call is made under the lock. Meanwhile the things that a call names belong to the
 * operation: memory in flight, a lane with a reference, a shared fence, beds between pl_still_begin
 * and pl_still_end.
 *
 * One rule for what the driver refuses: what it still maps stays counted, and is tried again.
 * PLEAT_EPOISONED says that nobody knows which part is mapped: then each mapping is cleared by
 * itself. */
#ifndef PLEAT_SEGMENTS_BACK_H
#define PLEAT_SEGMENTS_BACK_H

#include "segments/pleat/space/space.h"
#include "vmm/mapping.h"

/* Around driver calls, in one function: lint looks. */
static inline void pl_away(pl_space *space)
{
    pl_lock_release(&space->lock);
}
static inline void pl_back(pl_space *space)
{
    pl_lock_acquire(&space->lock);
}

/* ---- one call each, away --------------------------------------------------------------------- */

pleat_status pl_back_return(pl_space *space, pl_range range);
/* Create at most n chunks of the order. *n_created is always written; NULL if n is 1. */
pleat_status pl_back_create(pl_space *space, unsigned order, size_t n, pl_chunk *out,
                            size_t *n_created);
/* At n granules from `at` on. */
pleat_status pl_back_map(pl_space *space, pleat_devptr at, const pl_chunk *chunks,
                         const uint8_t *orders, size_t n);
pleat_status pl_back_unmap(pl_space *space, pleat_devptr at, size_t n);
/* The same if nobody knows which part is mapped. */
pleat_status pl_back_clear(pl_space *space, pleat_devptr at, size_t n);

/* ---- piles: chunks that are mapped nowhere, held by the caller alone ------------------------- */

enum { PL_PILE_CHUNKS = 64 };

typedef struct pl_pile {
    pl_chunk chunks[PL_PILE_CHUNKS];
    uint8_t orders[PL_PILE_CHUNKS];
    size_t n;
    size_t n_granules; /* of them */
} pl_pile;

static inline void pl_pile_put(pl_pile *pile, pl_chunk chunk, unsigned order)
{
    pile->chunks[pile->n] = chunk;
    pile->orders[pile->n++] = (uint8_t)order;
    pile->n_granules += (size_t)1 << order;
}
void pl_pile_make_idle(pl_space *space, const pl_pile *pile);
/* Release held chunks, away. Chunks that the driver refuses are idle. So are all chunks while the
 * driver refuses to unmap stale addresses, or while addresses of an earlier compaction stay mapped,
 * which a trim unmaps first: the driver would keep a released chunk that is still mapped somewhere,
 * and no count would have it. Adds to *n_released. Returns the last failure. */
pleat_status pl_pile_release(pl_space *space, pl_pile *pile, size_t *n_released);
pleat_status pl_chunk_give_back(pl_space *space, pl_chunk chunk, unsigned order);

/* ---- scratch addresses: where a compaction copies -------------------------------------------- */

/* Unmap the scratch addresses of a compaction, whose caller excludes other compactions, and give
 * the addresses back. Drops the lock. PLEAT_OK; EPOISONED: the addresses are still mapped. */
pleat_status pl_scratch_close(pl_space *space);
/* If a compaction could not unmap its scratch addresses, ask the driver again, unless another
 * compaction runs, which has done so. What was set aside becomes idle. */
void pl_scratch_clear(pl_space *space);

#endif
