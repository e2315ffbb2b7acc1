/* default.h - the default instance, as the adapters see it. */
#ifndef PLEAT_API_DEFAULT_H
#define PLEAT_API_DEFAULT_H

#include "api/pleat.h"

/* The default instance as it is, made or not: a handle that is safe to use and answers EGONE if
 * there is none. For those who have nothing to do then; takes no lock. */
pleat pl_default_peek(void);

/* As pleat_malloc, except for memory that pends: as pl_block_alloc_patiently. */
void *pl_default_malloc_patiently(size_t bytes, int device, void *stream);

#endif
