/* device.h - one GPU of a driver, with properties, primary context, budgets and chunk counters.
 *
 * An allocator instance has one pl_device per GPU. All functions may be called from any thread. The
 * device's own vmm lock (rank 40) guards the mutable fields and is never held across a driver call.
 * When the driver refuses to take something back (unmap, release, free, destroy, pop), the call is
 * tried once more before the refusal counts as a failure. */
#ifndef PLEAT_VMM_DEVICE_H
#define PLEAT_VMM_DEVICE_H

#include "vmm/base/lock.h"
#include "vmm/base/meta.h"
#include "vmm/base/pleat_types.h"

typedef struct pl_driver pl_driver;
typedef struct pl_device pl_device;
typedef struct pl_stream pl_stream;

/* How pleat tells a known stream from a new stream. By the driver's id, which costs driver calls,
 * or by the handle alone. Handles require that the stream's owner reports each destroyed stream
 * (pl_stream_retire), or destroys none. */
typedef enum pl_stream_identity { PL_STREAM_IS_ID, PL_STREAM_IS_HANDLE } pl_stream_identity;

/* Of what not every device can do. */
typedef enum pl_demand { PL_DEMAND_NONE, PL_DEMAND_FIRM, PL_DEMAND_IF_ABLE } pl_demand;

#define PL_HOST_NODE_NEAR 1024U /* the node of the host that is nearest to the device */

typedef struct pl_device_options {
    unsigned chunk_granules;            /* granules per chunk; 0 = 1 */
    uint64_t address_budget_bytes;      /* most address space to reserve; 0 = 32 TiB, or a part of
                                           64 TiB for each of more than two devices */
    pl_demand handle_posix_fd;          /* create exportable chunks */
    pl_demand handle_rdma;              /* GPUDirect RDMA capable chunks */
    pl_stream_identity stream_identity; /* IS_HANDLE: a known handle is not asked about */
    bool peers;   /* every device that can reach this device may use the mappings, too */
    bool is_host; /* the memory is the host's, pinned, for all devices; the streams are the GPU's */
    unsigned host_node;             /* is_host: the node of the host, or PL_HOST_NODE_NEAR */
    struct pl_mapping_watch *watch; /* told of mappings; NULL = nobody; outlives the device */
} pl_device_options;

/** Open GPU `ordinal`: retain the primary context, ask granularity, total memory, capabilities.
 *
 *  Params   options NULL = all defaults.
 *  Returns  PLEAT_OK, also without VMM (see pl_device_has_vmm); EDEVICE (no such GPU, or it cannot
 *           create the memory that the options ask for); EINVAL (absurd chunk_granules);
 *           ENOMEM_HOST; ENOMEM_DEVICE (not even the context fits); EDRIVER.
 *  Failure  nothing is left behind.
 *  Owner    the caller, until pl_device_close; `drv` must live as long.
 *  Blocks   on the driver; the first context of a process takes long. */
pleat_status pl_device_open(pl_driver *drv, int ordinal, const pl_device_options *options,
                            pl_device **out);

/** Close: destroy the pooled events, release the context, free the metadata.
 *
 *  Returns  the number of driver objects that are still with callers (chunks, ranges, mallocs,
 *           pools, fences) or could not be given back; 0 = clean. A range counts for what is mapped
 *           in it, as the driver takes no mapped range back. NULL is fine.
 *  Threads  the last call on this device; its streams and fences are gone afterwards.
 *  Blocks   on the driver. */
size_t pl_device_close(pl_device *dev);

pl_driver *pl_device_driver(const pl_device *dev);
int pl_device_ordinal(const pl_device *dev);
bool pl_device_is_host(const pl_device *dev); /* is its memory the host's? */
const char *pl_device_name(const pl_device *dev);
/* Are the chunks created for export, or for registration by the GPUs' neighbours? */
bool pl_device_is_exportable(const pl_device *dev);
bool pl_device_is_rdma(const pl_device *dev);
bool pl_device_has_vmm(const pl_device *dev);
size_t pl_device_granule_bytes(const pl_device *dev); /* bytes per granule; 2 MiB without VMM */
size_t pl_device_chunk_bytes(const pl_device *dev);   /* chunk_granules x granule_bytes */
uint64_t pl_device_total_bytes(const pl_device *dev);

/** Ask the driver how much device memory is free, over all processes.
 *
 *  Returns  PLEAT_OK; EDRIVER.
 *  Blocks   on the driver. */
pleat_status pl_device_free_bytes(pl_device *dev, uint64_t *out);
/* Free and total bytes of the GPU itself, even where the device's memory is the host's. */
pleat_status pl_device_gpu_bytes(pl_device *dev, uint64_t *free_bytes, uint64_t *total_bytes);

/** Try virtual memory management once: reserve, create, map, set access, unmap, release, free. No
 *  version is looked at.
 *
 *  Params   why [out] the reason when it does not work, else empty; n bytes.
 *  Returns  PLEAT_OK = works; ENOVMM; EDRIVER; ENOMEM_DEVICE or ENOSPACE_VA: there was no room for
 *           one granule, so the test says nothing. Then the first chunk tries again.
 *  Failure  nothing is left behind. The counts show failed undo steps only.
 *  Blocks   on the driver. */
pleat_status pl_device_probe(pl_device *dev, char *why, size_t n);

/** Allocate whole device memory outside of ranges and chunks, for the classic allocators.
 *
 *  Returns  PLEAT_OK; EINVAL (0 bytes); ENOMEM_DEVICE; ENOMEM_HOST; ECAPTURE; EDRIVER.
 *  Failure  as before.
 *  Owner    the caller, until pl_device_mfree.
 *  Blocks   on the driver. Runs in relaxed capture mode. */
pleat_status pl_device_malloc(pl_device *dev, size_t bytes, pleat_devptr *out);

/** Free what pl_device_malloc gave.
 *
 *  Returns  PLEAT_OK; EFOREIGN (not held; the driver is not called); EDRIVER.
 *  Failure  still held.
 *  Blocks   on the driver, which may wait for running work. */
pleat_status pl_device_mfree(pl_device *dev, pleat_devptr ptr);

/** Make the device's primary context current, or restore the previous context. Pairs nest. The
 *  functions of vmm enter by themselves and leave the caller's current context unchanged.
 *
 *  Returns  PLEAT_OK; EDRIVER (then do not leave). */
pleat_status pl_device_enter(pl_device *dev);
void pl_device_leave(pl_device *dev);

/** Note that a capture in the device's context begins (or is about to) or has ended. In between,
 *  devices with this device as a peer leave its context alone.
 *
 *  Threads  any; each beginning has one end. */
void pl_device_note_capture(const pl_device *dev, bool is_beginning);

/** Wait until no thread is doing to the device's context, as a peer's, what would break a capture
 *  that the caller has noted. Threads that come later see the note.
 *
 *  Blocks   for a few driver calls of other threads; where the driver has no events of a context,
 *           until their wait for the GPU is over. */
void pl_device_wait_for_recorders(const pl_device *dev);

/** Block until all work is over in the device's context, destroyed streams included, and in the
 *  contexts of peers whose streams are known. Counts one host_sync. Breaks a capture under way in
 *  the device's context.
 *
 *  Returns  PLEAT_OK; ECAPTURE; EDRIVER.
 *  Blocks   on the GPU. */
pleat_status pl_device_synchronize(pl_device *dev);

/** Count the contexts of all active peers that may use the device's memory as known. Waits for the
 *  whole device then cover peer streams never seen by this device.
 *
 *  Returns  PLEAT_OK (also without peers); EDRIVER.
 *  Failure  some of them are known.
 *  Threads  any.
 *  Blocks   on the driver. */
pleat_status pl_device_know_peers(pl_device *dev);

/** Like pl_device_synchronize, before everything is unmapped: it does not spare the captures of
 *  peers. */
pleat_status pl_device_drain(pl_device *dev);

/** Take the status of an undo step and count a failed one in n_undo_failures. Not for
 *  pl_chunk_release, which counts its own failures. */
void pl_device_undo(pl_device *dev, pleat_status status);

/* The members of pleat_stats that a device counts. A malloc, or a growth of the
 * driver's own pool, adds to bytes_created and to bytes_mapped. */
/* clang-format off */
#define PL_DEVICE_COUNT_LIST(X) \
    X(ops_map) X(ops_unmap) X(ops_alloc) X(ops_free) X(bytes_created) X(bytes_mapped) \
    X(address_bytes) X(host_syncs) X(stream_waits) X(n_undo_failures)
/* clang-format on */

/* Counters of everything done through this pl_device. Read without a lock, so counters may lag. */
typedef struct pl_device_counts {
#define PL_DEVICE_COUNT(name) uint64_t name;
    PL_DEVICE_COUNT_LIST(PL_DEVICE_COUNT)
#undef PL_DEVICE_COUNT
    uint64_t chunk_bytes;  /* bytes held in chunks now, mapped or idle */
    uint64_t malloc_bytes; /* bytes held by pl_device_malloc now */
    uint64_t pool_bytes;   /* bytes that the driver's own pool held when last asked */
} pl_device_counts;
pl_device_counts pl_device_counted(const pl_device *dev);
/* Physical bytes held from the driver now, mapped or not. A byte counts once. */
uint64_t pl_device_resident_bytes(const pl_device *dev);

#endif
