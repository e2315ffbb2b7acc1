/* default.h - the default instance, as the adapters see it. */
#ifndef PLEAT_API_DEFAULT_H
#define PLEAT_API_DEFAULT_H

#include "api/pleat.h"

/* The handle of the default instance, made or not. If there is none, the handle is safe to use and
 * answers EGONE. For callers that then have nothing to do; takes no lock. */
pleat pl_default_peek(void);

/* As pleat_malloc, except for memory that pends: as pl_block_alloc_patiently. */
void *pl_default_malloc_patiently(size_t bytes, int device, void *stream);

#endif
