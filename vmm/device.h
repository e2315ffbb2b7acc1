/* device.h - one GPU of a driver: properties, primary context, budgets; and its chunk counters.
 *
 * A pl_device is made per allocator instance and GPU. All functions may be called from any thread;
 * what is mutable is guarded by the device's own vmm lock (rank 40), which is never held across a
 * driver call. */
#ifndef PLEAT_VMM_DEVICE_H
#define PLEAT_VMM_DEVICE_H

#include "vmm/base/host.h"
#include "vmm/base/lock.h"
#include "vmm/base/pleat_types.h"

typedef struct pl_driver pl_driver;
typedef struct pl_device pl_device;
typedef struct pl_stream pl_stream;

typedef struct pl_device_options {
    unsigned chunk_granules;      /* granules a chunk; 0 = 1 */
    uint64_t address_budget_bytes;/* most address space to reserve; 0 = 32 TiB */
    bool handle_posix_fd;         /* create exportable chunks */
    bool handle_rdma;             /* GPUDirect RDMA capable chunks */
} pl_device_options;

/* Open GPU `ordinal`: retains the primary context, asks granularity, total memory, capabilities.
 * Returns PLEAT_OK; EDEVICE; ENOMEM_HOST; EDRIVER. Succeeds without VMM: see pl_device_has_vmm. */
pleat_status pl_device_open(pl_driver *drv, int ordinal, const pl_device_options *options,
                            pl_device **out);
/* Releases idle chunks, pooled events, the context. Returns the number of driver objects that are
 * still held by callers or could not be given back (0 = clean). */
size_t pl_device_close(pl_device *dev);

pl_driver *pl_device_driver(const pl_device *dev);
int pl_device_ordinal(const pl_device *dev);
const char *pl_device_name(const pl_device *dev);
bool pl_device_has_vmm(const pl_device *dev);
size_t pl_device_granule_bytes(const pl_device *dev); /* bytes of one granule; 2 MiB without VMM */
size_t pl_device_chunk_bytes(const pl_device *dev);   /* chunk_granules x granule_bytes */
uint64_t pl_device_total_bytes(const pl_device *dev);
pleat_status pl_device_free_bytes(pl_device *dev, uint64_t *out); /* cuMemGetInfo's free */

/* Behavioural probe: reserve, create, map, set access, unmap, release, free, once each. PLEAT_OK =
 * works; else ENOVMM or EDRIVER and `why` (n bytes) holds one clear reason. Leaves nothing. */
pleat_status pl_device_probe(pl_device *dev, char *why, size_t n);

/* cuMemAlloc / cuMemFree for the classic caches, in the device's context. */
pleat_status pl_device_malloc(pl_device *dev, size_t bytes, pleat_devptr *out);
pleat_status pl_device_mfree(pl_device *dev, pleat_devptr ptr);

/* Make the device's primary context current / restore what was; pairs nest. */
pleat_status pl_device_enter(pl_device *dev);
void pl_device_leave(pl_device *dev);

/* Counters of everything that went through this pl_device; read without a lock, may lag. */
typedef struct pl_device_counts {
    uint64_t ops_map, ops_unmap, ops_alloc, ops_free;
    uint64_t bytes_created, bytes_mapped;
    uint64_t chunk_bytes;       /* bytes held in chunks now, mapped or idle */
    uint64_t malloc_bytes;      /* bytes held by pl_device_malloc now */
    uint64_t address_bytes;     /* reserved now */
    uint64_t host_syncs, stream_waits, n_undo_failures;
} pl_device_counts;
pl_device_counts pl_device_counted(const pl_device *dev);

#endif
