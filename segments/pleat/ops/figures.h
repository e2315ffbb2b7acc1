/* figures.h - the statistics of a space, read from counters: no block is looked at. */
#ifndef PLEAT_SEGMENTS_FIGURES_H
#define PLEAT_SEGMENTS_FIGURES_H

#include "segments/pleat/space/space.h"

/* As pl_allocator_ops.stats, under the lock. */
void pl_figures_read(const pl_space *space, pleat_stats *out);

#endif
