/* mapping.h - map and unmap runs, with one map per chunk, one set-access and one unmap per run. */
#ifndef PLEAT_VMM_MAPPING_H
#define PLEAT_VMM_MAPPING_H

#include "vmm/chunk.h"
#include "vmm/device.h"

/** Map chunks one after another from `at`, and grant read and write to the run with one set-access.
 *  The device gets access and, with the option `peers`, every device that can reach it.
 *
 *  Units    `chunks` has n elements, each of chunk_bytes; [at, at + n * chunk_bytes) lies in one
 *           range, at a granule, and holds no mapping.
 *  Returns  PLEAT_OK (counts one map operation); EINVAL (n is 0); ENOMEM_DEVICE (page tables);
 *           ENOVMM; EDRIVER; EPOISONED.
 *  Failure  what was mapped is unmapped again. When that fails too, n_undo_failures counts it and
 *           EPOISONED is returned instead of the first error: some of the run may still be mapped.
 *  Owner    the chunks stay the caller's.
 *  Threads  any; one at a time per place.
 *  Blocks   on the driver. */
pleat_status pl_mapping_map(pl_device *dev, pleat_devptr at, const pl_chunk *chunks, size_t n);

/** Map chunks of `chunk_bytes`, like pl_mapping_map.
 *
 *  Units    `chunks` has n elements, each of `chunk_bytes`; [at, at + n * chunk_bytes) lies in one
 *           range, at a granule, and holds no mapping.
 *  Returns  as pl_mapping_map.
 *  Failure  as pl_mapping_map.
 *  Owner    the chunks stay the caller's.
 *  Threads  any; one at a time per place.
 *  Blocks   on the driver. */
pleat_status pl_mapping_map_sized(pl_device *dev, pleat_devptr at, const pl_chunk *chunks, size_t n,
                                  size_t chunk_bytes);

/** Map chunks of several sizes, like pl_mapping_map. The chunk in chunks[i] has 1 << log2s[i] times
 *  the device's chunk size, and the next chunk is in chunks[i + (1 << log2s[i])].
 *
 *  Units    `chunks` and `log2s` have n elements, one for each chunk size of [at, at + n chunk
 *           sizes), which lies in one range, at a granule, and holds no mapping. The chunks fill
 *           it.
 *  Returns  as pl_mapping_map.
 *  Failure  as pl_mapping_map.
 *  Owner    the chunks stay the caller's.
 *  Threads  any; one at a time per place.
 *  Blocks   on the driver. */
pleat_status pl_mapping_map_mixed(pl_device *dev, pleat_devptr at, const pl_chunk *chunks,
                                  const uint8_t *log2s, size_t n);

/** Unmap whole mappings without holes with one call. Waits for nothing, so the caller makes sure
 *  that no work touches the mappings.
 *
 *  Units    [at, at + bytes): one or more runs that lie side by side.
 *  Returns  PLEAT_OK (counts one unmap operation); EDRIVER; EPOISONED.
 *  Failure  EDRIVER: still mapped. EPOISONED: a part may be, as the driver unmapped some of it and
 *           refuses the rest, or does not tell what is mapped.
 *  Threads  any; one at a time per place.
 *  Blocks   on the driver. */
pleat_status pl_mapping_unmap(pl_device *dev, pleat_devptr at, size_t bytes);

/** Unmap what EPOISONED has left mapped in a run.
 *
 *  Units    [at, at + bytes): whole granules; a mapping that begins in it ends in it.
 *  Returns  PLEAT_OK: nothing is mapped there any more; EPOISONED: that is not known.
 *  Threads  any; one at a time per place.
 *  Blocks   on the driver: some calls for each mapping, or granule without one. */
pleat_status pl_mapping_clear(pl_device *dev, pleat_devptr at, size_t bytes);

#endif
