/* check.h - walks over every block, to check the invariants and to show every piece. */
#ifndef PLEAT_SEGMENTS_CHECK_H
#define PLEAT_SEGMENTS_CHECK_H

#include "segments/pleat/space/space.h"

/* 0, or the number of the first broken invariant: the structure's hundred plus its number. 100
 * segment, 200 runs, 300 index, 400 space, 500 live map, 600 private pools, 700 buffers. Under the
 * lock. What only holds at rest, as I2 of the chunks, is skipped while requests are in flight. */
int pl_check_space(const pl_space *space);
/* As pl_allocator_ops.visit_some, under the lock, for at most `most` pieces. */
bool pl_visit_space(const pl_space *space, size_t most, pleat_devptr *from,
                    void (*see)(void *context, const pl_piece *piece), void *context);

/* ---- figures.c: the statistics, read from counters; no block is looked at ---- */

/* As pl_allocator_ops.stats, under the lock. */
void pl_figures_read(const pl_space *space, pleat_stats *out);

#endif
