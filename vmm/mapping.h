/* mapping.h - map and unmap runs: one map per chunk, one set-access per run, one unmap per run. */
#ifndef PLEAT_VMM_MAPPING_H
#define PLEAT_VMM_MAPPING_H

#include "vmm/chunk.h"
#include "vmm/device.h"

/* Map chunks[0..n) one after another from `at`, and grant read and write to the run with one
 * set-access. All or nothing: after a failure what was mapped is unmapped again; a failed undo is
 * counted (n_undo_failures), and PLEAT_EPOISONED is returned instead of the first error: then some
 * of the run may still be mapped. Counts one map operation on success.
 * Returns PLEAT_OK; EDRIVER; ENOMEM_DEVICE (page tables); EPOISONED. Blocks on the driver. */
pleat_status pl_mapping_map(pl_device *dev, pleat_devptr at, const pl_chunk *chunks, size_t n);

/* Unmap [at, at + bytes), whole mappings without holes, with one call. Waits for nothing: the
 * caller knows that no work touches it. Counts one unmap operation on success. */
pleat_status pl_mapping_unmap(pl_device *dev, pleat_devptr at, size_t bytes);

#endif
