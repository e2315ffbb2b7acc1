/* left.h - driver objects that an undo could not give back: tried again, and told at the end.
 *
 * An undo comes after a failure, and has nobody who could keep what the driver refuses to take. So
 * the device keeps it. A mapping comes before its addresses and its memory, as the driver takes
 * back neither while they are mapped. */
#ifndef PLEAT_VMM_LEFT_H
#define PLEAT_VMM_LEFT_H

#include "vmm/device.h"

typedef enum pl_left_kind {
    PL_LEFT_MAPPING, /* bytes from an address on */
    PL_LEFT_HANDLE,  /* a reference to memory, not a chunk of the device */
    PL_LEFT_RANGE,   /* addresses that count as the device's (pl_range_reserve) */
    PL_LEFT_OBJECT,  /* a user object's one reference */
    PL_LEFT_EVENT,
    PL_LEFT_STREAM,
    PL_LEFT_CONTEXT /* a reference to a GPU's primary context */
} pl_left_kind;

/** Give back what an undo has to. If the driver refuses twice, the undo counts as failed
 *  (n_undo_failures), and the device tries again later.
 *
 *  Params   what  the address, handle, pointer or GPU.
 *  Units    bytes, of a mapping or a range.
 *  Threads  any; takes the device's lock (rank 40).
 *  Blocks   on the driver. */
void pl_left_undo(pl_device *dev, pl_left_kind kind, uint64_t what, uint64_t bytes);

/** Try again to give back what is left. Cheap where nothing is.
 *
 *  Threads  any; takes the device's lock (rank 40).
 *  Blocks   on the driver. */
void pl_left_retry(pl_device *dev);

/* The device is being closed: try once more. Returns the count still held, except ranges, which the
 * device counts. */
size_t pl_left_fini(pl_device *dev);

#endif
