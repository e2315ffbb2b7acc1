/* block.h - allocating for callers within the library. */
#ifndef PLEAT_API_BLOCK_H
#define PLEAT_API_BLOCK_H

#include "api/pleat.h"

/* As pleat_block_alloc; but where the memory is there and pends, perhaps behind a capture that
 * another thread is to end, the request is made again until `wait_ms` have passed since its first
 * wait. Only then it is refused: the history is told once. */
pleat_status pl_block_alloc_patiently(pleat handle, int device, size_t bytes, void *stream,
                                      pleat_devptr *out);

#endif
