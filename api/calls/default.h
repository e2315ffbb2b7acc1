/* default.h - the default instance, as the adapters see it. */
#ifndef PLEAT_API_DEFAULT_H
#define PLEAT_API_DEFAULT_H

#include "api/pleat.h"

/* The handle of the default instance, made or not. Without an instance the handle is safe to use,
 * and calls return EGONE. For callers with nothing to do then; takes no lock. */
pleat pl_default_peek(void);

/* Like pleat_malloc, but patient with pending memory: see pl_block_alloc_patiently. */
void *pl_default_malloc_patiently(size_t bytes, int device, void *stream);

#endif
