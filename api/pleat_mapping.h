/* pleat_mapping.h - the physical memory under a pointer, and who is told when it comes and goes.
 *
 * For whoever registers memory with a network card or a library (RDMA, NCCL, UCX).
 *
 * Part of pleat.h, which includes it and says what every call may return.
 *
 *   ptr            ptr + bytes
 *    v              v
 *   |##|####|##########|....|##|      pieces of memory of the driver's, mapped side by side
 *    m0  m1      m2           m3      m0, m1, m2: what pleat_mapping_list gives
 *
 * A block of pleat's may lie over several pieces of memory; cuMemGetAddressRange tells one of them
 * only, and a registration that takes its answer for the whole covers too little. And an address
 * keeps its meaning while the memory under it changes: sleep, decommitted pages and free memory
 * that is moved to where it is needed end registrations. An observer is told before. Compaction
 * would move live memory: pleat_device_compact is refused while somebody observes. */
#ifndef PLEAT_MAPPING_H
#define PLEAT_MAPPING_H

#include "pleat.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    PLEAT_MAPPING_EXPORTABLE = 1, /* cuMemExportToShareableHandle gives a file descriptor of it */
    PLEAT_MAPPING_RDMA = 2,       /* created with gpuDirectRDMACapable: see the option `rdma` */
    PLEAT_MAPPING_OPENED = 4, /* another process's (pleat_share.h); the flags above are not told */
    PLEAT_MOST_OBSERVERS = 16 /* of an instance */
};

/** A piece of memory of the driver's, mapped as a whole. Units: bytes. */
typedef struct pleat_mapping {
    pleat_devptr base;   /* where it is mapped, with what else lies in it */
    uint64_t bytes;      /* of all of it */
    uint64_t offset;     /* from there to the first byte of the request that is in it */
    uint64_t used_bytes; /* of the request that are in it */
    unsigned flags;      /* PLEAT_MAPPING_... */
    unsigned reserved;   /* 0 */
} pleat_mapping;

/** List the pieces of memory under [ptr, ptr + bytes), in the order of addresses.
 *
 *  Shape    out has `capacity` elements, and may be NULL if that is 0.
 *  Params   ptr     any address in a live block, in committed pages of a buffer, or in memory that
 *                   pleat_share_open gave.
 *           bytes   0 = up to the end of the block, of what is open, or to the first page that is
 *                   not committed.
 *           n [out] how many there are; those beyond `capacity` were not written.
 *  Returns  PLEAT_OK; PLEAT_EINVAL (ptr is 0); PLEAT_EFOREIGN (not all of it is live memory of one
 *           such thing); PLEAT_EASLEEP (its tag sleeps); PLEAT_EDEVICE; PLEAT_ENOTSUP (only
 *           allocator:pleat tells; memory of cuMemAlloc is one piece, and the driver tells it);
 *           PLEAT_ENOMEM_HOST.
 *  Failure  nothing was written.
 *  Owner    nobody: the list holds nothing. It is true until an observer is told otherwise.
 *  Threads  any.
 *  Blocks   never on the GPU; makes no driver call. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_mapping_list(pleat instance, int device,
                                                         pleat_devptr ptr, uint64_t bytes,
                                                         pleat_mapping *out, size_t capacity,
                                                         size_t *n);

typedef enum pleat_mapping_change {
    PLEAT_MAPPING_COME = 0, /* memory is at those addresses now, and nobody uses it yet */
    PLEAT_MAPPING_GO = 1    /* it is about to be unmapped; until the observer returns it is there */
} pleat_mapping_change;

/** Called on the thread that maps or unmaps, in no hold of a lock, also by several threads at once
 *  for different ranges. Ranges are as the driver's calls have them: one of GO may be several of
 *  COME, or parts of them, side by side. Where the driver refuses to unmap it is tried again, and
 *  GO may be told again; where memory changes under live addresses (sleep and wake) GO and COME are
 *  told of the same addresses.
 *
 *  May call: the driver, libraries that register memory, locks and waits of the program's own, as
 *  long as nobody who has them waits for pleat. Must not call pleat: others may wait for what the
 *  calling thread is doing. Calls there answer PLEAT_EBUSY. Must return: no exception, no longjmp;
 *  a child that is forked in it must exec or _exit. No context is promised to be current.
 *  How long it takes, the request takes; it counts as time of the driver's. */
typedef void (*pleat_mapping_fn)(int device, pleat_mapping_change change, pleat_devptr base,
                                 uint64_t bytes, void *context);

/** Be told, from now on, of all memory that the instance maps and unmaps on its devices: what it
 *  allocates, and what it opens of other processes. What is
 *  there already is not told, and cuda-async's pools are the driver's affair.
 *
 *  Params   context     handed to every call of `see`; stays the caller's.
 *           number [out] for pleat_mapping_unobserve.
 *  Returns  PLEAT_OK; PLEAT_EINVAL (`see` or `number` is NULL); PLEAT_ENOMEM_HOST (there are
 *           PLEAT_MOST_OBSERVERS already); PLEAT_EBUSY (a compaction is under way).
 *  Owner    until pleat_mapping_unobserve, or pleat_destroy, which tells what goes.
 *  Threads  any.
 *  Blocks   never. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_mapping_observe(pleat instance, pleat_mapping_fn see,
                                                            void *context, unsigned *number);

/** Be told no more. On return the observer runs in no thread.
 *
 *  Returns  PLEAT_OK; PLEAT_EINVAL (there is none of that number).
 *  Threads  any.
 *  Blocks   until it has returned everywhere. */
PLEAT_API PLEAT_MUST_USE pleat_status pleat_mapping_unobserve(pleat instance, unsigned number);

#ifdef __cplusplus
}
#endif

#endif
