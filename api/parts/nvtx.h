/* nvtx.h - names a device's memory to a tool that is injected into the process, such as
 * compute-sanitizer, through the memory extension of NVTX.
 *
 * Resident memory is a heap of the tool's, each block in it a region. A kernel may use regions
 * only, so the tool sees where a block ends and that a block is gone.
 *
 *   heaps      |=========================|     |==============|
 *   regions     [ block ][ bl ]   [ block ]     [ block ]
 *
 * The extension knows no heap that grows or is cut. A block over two heaps that adjoin makes them
 * one, and memory that goes leaves the heap's rest as new heaps: the heaps go with their regions,
 * and come back with them in the same call.
 *
 * Invariants
 *   N1  heaps are disjoint, and so are blocks
 *   N2  a block is told exactly if one heap has all of it; the tool has a region for exactly these
 *
 * Guarded by the lock of the history that it belongs to; the tool is called under that lock. A
 * build without NVTX's headers offers nothing. */
#ifndef PLEAT_API_NVTX_H
#define PLEAT_API_NVTX_H

#include "api/pleat.h"
#include "segments/base/observer.h"
#include "vmm/base/meta.h"

typedef struct pl_nvtx pl_nvtx;

/* Does a tool want to know? The first call of a process loads the tool; hold no lock. */
bool pl_nvtx_is_offered(void);
/* Nothing is named yet. `meta` outlives it. NULL: no host memory. */
pl_nvtx *pl_nvtx_open(pl_meta *meta, int device);
/* The next report of an allocator. Once host memory is short all names are withdrawn for good, as a
 * tool would take a block without a name for a mistake. */
void pl_nvtx_tell(pl_nvtx *nvtx, const pl_event *event, pleat_pool_id pool);
/* Withdraws all names. NULL is fine. */
void pl_nvtx_close(pl_nvtx *nvtx);

#endif
