/* measure_work.h - work on the GPU for replays: streams, and touches of blocks in stream order.
 *
 * The simulator gets the work declared and checks it for hazards; a real GPU sets the edges of the
 * block. The calls go through a separate driver table, so the counts of the tested allocator
 * exclude them. */
#ifndef PLEAT_VMM_WORK_H
#define PLEAT_VMM_WORK_H

#include "vmm/device.h"
#include "vmm/driver.h"

struct pleat_sim_access;
struct pleat_sim_counts;

typedef struct pl_work {
    pl_driver *drv; /* const, like all fields */
    pl_device *dev;
    bool is_simulated;
    int (*sim_work)(void *stream, const struct pleat_sim_access *accesses, size_t n);
    int (*sim_use)(void *stream, void *after, uint64_t ptr, uint64_t bytes, uint64_t *use);
    int (*sim_use_end)(void *stream, uint64_t use);
    void (*sim_finish)(void);
    int (*sim_count)(int device, struct pleat_sim_counts *out);
    double (*sim_cost_us)(void);
} pl_work;

/** Open GPU `ordinal` of the driver that an instance already uses; the simulator is not reset.
 *
 *  Returns  PLEAT_OK; ENODRIVER; EDEVICE; ENOMEM_HOST; EDRIVER.
 *  Owner    the caller closes it on the same thread; the device's context is current until then. */
pleat_status pl_work_open(pl_work *work, pl_driver_kind kind, int ordinal);
void pl_work_close(pl_work *work);

/* Makes a non-blocking stream. `handle` suits the public interface. */
pleat_status pl_work_stream_create(pl_work *work, void **handle);
pleat_status pl_work_stream_destroy(pl_work *work, void *handle);

/* Submit work that writes the block. A real GPU sets the first and last 4 KiB. Does not wait.
 * PLEAT_OK or EDRIVER. */
pleat_status pl_work_touch(pl_work *work, void *stream, pleat_devptr ptr, uint64_t bytes);
/* Submit work that writes the block on `stream`, after all work submitted to `after`. On the
 * simulator the use lasts until pl_work_use_end or a wait for it. On a real GPU the work sets the
 * block's edges and ends by itself. PLEAT_OK or EDRIVER. */
pleat_status pl_work_use(pl_work *work, void *stream, void *after, pleat_devptr ptr, uint64_t bytes,
                         uint64_t *use);
pleat_status pl_work_use_end(pl_work *work, void *stream, uint64_t use);
/* Wait for the stream's work, or, on the simulator, for all streams. */
pleat_status pl_work_finish(pl_work *work, void *stream);

/* The simulator's count. A real GPU cannot tell, so 0. */
uint64_t pl_work_n_hazards(const pl_work *work);
double pl_work_cost_us(const pl_work *work);
/* The reservations, handles, mappings, allocations and pools that exist now. */
uint64_t pl_work_n_objects(const pl_work *work);

#endif
