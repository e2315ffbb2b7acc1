/* share.h - own chunks mapped by other processes, and other processes' chunks mapped in this
 * process.
 *
 * A shared chunk gets a number that no other chunk of this process ever has. The number is
 * forgotten just before the chunk goes back to the driver, since drivers use handles again. So
 * number and handle together tell whether the handle still means the shared memory. File
 * descriptors are made when somebody asks; none is kept, since one would keep the memory. */
#ifndef PLEAT_VMM_SHARE_H
#define PLEAT_VMM_SHARE_H

#include "vmm/chunk.h"
#include "vmm/device.h"
#include "vmm/range.h"

/* A shared chunk, as named to other processes. */
typedef struct pl_shared_chunk {
    uint64_t number; /* 1, 2, 3... in this process */
    pl_chunk chunk;  /* means nothing elsewhere */
    uint64_t bytes;
} pl_shared_chunk;

/** Give a chunk of the device's memory its number, unless numbered already.
 *
 *  Returns  PLEAT_OK; ENOTSUP (the device's chunks are not created exportable); ENOMEM_HOST.
 *  Failure  as before.
 *  Threads  any; takes the device's lock (rank 40). The chunk is not released meanwhile.
 *  Blocks   never. */
pleat_status pl_share_note(pl_device *dev, pl_chunk chunk, uint64_t *number);

/* Has the chunk a number? A numbered chunk stays in place, since other processes map it. */
bool pl_share_is_noted(pl_device *dev, pl_chunk chunk);

/* The chunk is about to go back to the driver. pl_chunk_release calls this. */
void pl_share_forget(pl_device *dev, pl_chunk chunk);

/** Make a file descriptor for a shared chunk. Executed programs do not inherit the descriptor.
 *
 *  Params   fd [out] the driver writes there, so that a forked child finds what it has to close;
 *           -1 after a failure.
 *  Returns  PLEAT_OK; ESHARE (it went back to the driver); EDRIVER.
 *  Failure  no descriptor is left.
 *  Owner    the caller closes it; until then the physical memory stays.
 *  Threads  any; the chunk may be released meanwhile.
 *  Blocks   on the driver. */
pleat_status pl_share_export(pl_device *dev, const pl_shared_chunk *shared, int *fd);

/* Where descriptors come from: fd_of is asked for chunks 0, 1, 2... in turn. A descriptor stays the
 * source's, and is valid until the next question. What fd_of answers but PLEAT_OK, pl_share_map
 * returns. */
typedef struct pl_fd_source {
    pleat_status (*fd_of)(void *context, size_t i, int *fd);
    void *context;
} pl_fd_source;

/** Map other processes' chunks in sequence, in a new range.
 *
 *  Shape    chunks has n elements, n > 0.
 *  Returns  PLEAT_OK; ESIZE; ENOSPACE_VA; ENOMEM_DEVICE (page tables); ENOVMM; EDRIVER (a
 *           descriptor is no memory, or has another size); what the source answers.
 *  Failure  no handle, mapping or range is left; what cannot be undone is tried again (left.h).
 *  Owner    the caller, until pl_share_unmap.
 *  Threads  any.
 *  Blocks   on the driver. */
pleat_status pl_share_map(pl_device *dev, const pl_shared_chunk *chunks, size_t n,
                          pl_fd_source source, pl_range *out);

/** Unmap a range of pl_share_map and give its addresses back. Waits for nothing, so no work may
 *  touch the range. What the driver refuses stays with the device and is tried again (left.h).
 *
 *  Threads  any.
 *  Blocks   on the driver. */
void pl_share_unmap(pl_device *dev, pl_range range);

/* Tells GPUs apart, however a process numbers them. */
typedef struct pl_bus_place {
    int domain;
    int bus;
    int slot;
} pl_bus_place;

/** Tell where a driver's device is. Needs no open device.
 *
 *  Returns  PLEAT_OK; EDRIVER. */
pleat_status pl_driver_bus_place(pl_driver *drv, int ordinal, pl_bus_place *out);

void pl_shares_fini(pl_device *dev);

#endif
