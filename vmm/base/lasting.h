/* lasting.h - host memory for as long as the process lives. Records outlive their instance, because
 * a thread or the driver still holds them. Callers reuse the memory they took. */
#ifndef PLEAT_BASE_LASTING_H
#define PLEAT_BASE_LASTING_H

#include <stddef.h>

/* Zeroed; NULL when out of memory. Any thread, also in a forked child. Never given back. */
void *pl_lasting_alloc(size_t bytes);

#endif
