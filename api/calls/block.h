/* block.h - allocating for callers within the library. */
#ifndef PLEAT_API_BLOCK_H
#define PLEAT_API_BLOCK_H

#include "api/pleat.h"

/* Like pleat_block_alloc, but patient with pending memory: the request is repeated until `wait_ms`
 * have passed since its first wait. Meanwhile another thread may end a capture that holds memory.
 * Only then the request is refused, and the history is told once. */
pleat_status pl_block_alloc_patiently(pleat handle, int device, size_t bytes, void *stream,
                                      pleat_devptr *out);

/* As pleat_block_free on the device and the stream that the block was allocated on. EFOREIGN and
 * EDOUBLEFREE name the device where the thread's last block was. */
pleat_status pl_block_free_own(pleat handle, pleat_devptr ptr);

#endif
