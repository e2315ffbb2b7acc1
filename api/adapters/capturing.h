/* capturing.h - captures of streams, for adapters to hosts whose hooks speak of pools only. */
#ifndef PLEAT_ADAPTERS_CAPTURING_H
#define PLEAT_ADAPTERS_CAPTURING_H

#include "api/instance.h"

/* Is any stream that the device knows being captured? One that is out of reach cannot be asked. */
bool pl_capturing_any(const pl_gpu *gpu);
/* Memory outside of private pools that ended captures have kept may be used again: PyTorch's graphs
 * hold their pools only. */
void pl_capturing_let_go(pl_gpu *gpu);

#endif
