/* sizing.h - how large new chunks are. */
#ifndef PLEAT_SEGMENTS_SIZING_H
#define PLEAT_SEGMENTS_SIZING_H

#include "segments/pleat/space.h"

/* The largest order of new chunks for a request of n_granules, where at most `cap` granules may be
 * held. */
unsigned pl_sizing_order(const pl_space *space, size_t cap, size_t n_granules);
/* Instead of `order`: a smaller one where much of what is held is tied, the request lifts the peak,
 * and the driver has time to spare, which the caller spends. */
unsigned pl_sizing_frugal_order(const pl_space *space, size_t n_granules, unsigned order);

#endif
