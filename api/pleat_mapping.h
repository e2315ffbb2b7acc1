/* pleat_mapping.h - the physical memory under a pointer, and observers of its changes.
 *
 * For programs that register memory with a network card or a library (RDMA, NCCL, UCX).
 *
 * Part of pleat.h: see there for results that any call may return.
 *
 *   ptr            ptr + bytes
 *    v              v
 *   |##|####|##########|....|##|      pieces of memory of the driver's, mapped side by side
 *    m0  m1      m2           m3      m0, m1, m2: result of pleat_mapping_list
 *
 * A block of pleat may lie over several pieces of memory. cuMemGetAddressRange names one piece
 * only: a registration of that range covers too little. Besides, the memory under an address can
 * change while the address keeps its meaning. Sleep, decommitted pages and moved free memory end
 * registrations; an observer is told before. Compaction would move live memory:
 * pleat_device_compact is refused while somebody observes. */
#ifndef PLEAT_MAPPING_H
#define PLEAT_MAPPING_H

#include "pleat.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    PLEAT_MAPPING_EXPORTABLE = 1, /* cuMemExportToShareableHandle gives a file descriptor */
    PLEAT_MAPPING_RDMA = 2,       /* created with gpuDirectRDMACapable: see the option `rdma` */
    PLEAT_MAPPING_OPENED = 4, /* from another process (pleat_share.h); the flags above are unset */
    PLEAT_MOST_OBSERVERS = 16 /* of an instance */
};

/** A piece of driver memory, mapped as a whole. Units: bytes. */
typedef struct pleat_mapping {
    pleat_devptr base;   /* where the whole piece is mapped */
    uint64_t bytes;      /* of the whole piece */
    uint64_t offset;     /* from base to the first byte of the request in this piece */
    uint64_t used_bytes; /* bytes of the request in this piece */
    unsigned flags;      /* PLEAT_MAPPING_... */
    unsigned reserved;   /* 0 */
} pleat_mapping;

/** List the pieces of memory under [ptr, ptr + bytes), in the order of addresses.
 *
 *  Shape    out has `capacity` elements, and may be NULL if that is 0.
 *  Params   ptr     any address in a live block, in committed pages of a buffer, or in memory from
 *                   pleat_share_open.
 *           bytes   0 = up to the end of the block or the opened memory, or to the first page that
 *                   is not committed.
 *           n [out] the number of pieces; only the first `capacity` of them are written.
 *  Returns  PLEAT_OK; PLEAT_EINVAL (ptr is 0); PLEAT_EFOREIGN (the range is not live memory of one
 *           block, buffer or opened name); PLEAT_EASLEEP (its tag sleeps); PLEAT_EDEVICE;
 *           PLEAT_ENOTSUP (not allocator:pleat; memory of cuMemAlloc is one piece, and the driver
 *           tells its range); PLEAT_ENOMEM_HOST.
 *  Failure  nothing was written.
 *  Owner    nobody: the list holds nothing. It is true until an observer is told otherwise.
 *  Threads  any.
 *  Blocks   never on the GPU; makes no driver call. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_mapping_list(pleat instance, int device,
                                                         pleat_devptr ptr, uint64_t bytes,
                                                         pleat_mapping *out, size_t capacity,
                                                         size_t *n);

typedef enum pleat_mapping_change {
    PLEAT_MAPPING_COME = 0, /* memory was mapped at these addresses, still unused */
    PLEAT_MAPPING_GO = 1    /* memory will be unmapped once the observer returns */
} pleat_mapping_change;

/** Called on the thread that maps or unmaps, with no lock held; several threads may call at once,
 *  for different ranges. Ranges match driver calls: one GO may span several COME, or parts of them,
 *  side by side. If the driver refuses to unmap, pleat tries again, and may report GO again. When
 *  memory changes under live addresses (sleep and wake), GO and COME name the same addresses.
 *
 *  May call the driver and libraries that register memory. May use the program's locks and waits,
 *  as long as no holder waits for pleat. Must not call pleat, since other threads may wait for the
 *  calling thread's work: calls return PLEAT_EBUSY. Must return: no exception, no longjmp; a child
 *  forked in the callback must exec or _exit. No context is promised to be current. The time of the
 *  callback is part of the request, and counts as driver time. */
typedef void (*pleat_mapping_fn)(int device, pleat_mapping_change change, pleat_devptr base,
                                 uint64_t bytes, void *context);

/** Observe all memory that the instance maps and unmaps on its devices from now on, opened memory
 *  of other processes included. Memory already mapped is not reported, nor are the driver's pools
 *  of cuda-async.
 *
 *  Params   context     handed to every call of `see`; stays the caller's.
 *           number [out] for pleat_mapping_unobserve.
 *  Returns  PLEAT_OK; PLEAT_EINVAL (`see` or `number` is NULL); PLEAT_ENOMEM_HOST (there are
 *           PLEAT_MOST_OBSERVERS already); PLEAT_EBUSY (a compaction is under way).
 *  Owner    until pleat_mapping_unobserve, or pleat_destroy, which reports every GO.
 *  Threads  any.
 *  Blocks   never. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_mapping_observe(pleat instance, pleat_mapping_fn see,
                                                            void *context, unsigned *number);

/** Stop observing. On return the observer runs in no thread.
 *
 *  Returns  PLEAT_OK; PLEAT_EINVAL (no observer has that number).
 *  Threads  any.
 *  Blocks   until the observer has returned in all threads. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_mapping_unobserve(pleat instance, unsigned number);

#ifdef __cplusplus
}
#endif

#endif
