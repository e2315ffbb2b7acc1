/* capturing.h - captures of streams, for adapters to hosts whose hooks speak of pools only. */
#ifndef PLEAT_ADAPTERS_CAPTURING_H
#define PLEAT_ADAPTERS_CAPTURING_H

#include "api/instance.h"

/* Is anything being captured on any device, or routed to a private pool, as PyTorch does from
 * before a capture to after it? To synchronise one device may break a capture on another. Asks the
 * streams that the instance knows and can reach. */
bool pl_capturing_anywhere(pl_instance *instance);
/* Memory outside of private pools that ended captures have kept may be used again: PyTorch's graphs
 * hold their pools only. */
void pl_capturing_let_go(pl_gpu *gpu);

#endif
