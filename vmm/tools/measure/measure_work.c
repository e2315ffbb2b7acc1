/* measure_work.c - work on the GPU for replays. One thread, no lock, no policy. */
#include "vmm/tools/measure/measure_work.h"

#include "vmm/base/pleat_sim.h"

#define EDGE_BYTES 4096u

/* What the simulator exports beside the driver's calls. */
static bool find_simulator(pl_work *work)
{
    *(void **)&work->sim_work = pl_driver_symbol(work->drv, "pleat_sim_work");
    *(void **)&work->sim_use = pl_driver_symbol(work->drv, "pleat_sim_use");
    *(void **)&work->sim_use_end = pl_driver_symbol(work->drv, "pleat_sim_use_end");
    *(void **)&work->sim_finish = pl_driver_symbol(work->drv, "pleat_sim_finish");
    *(void **)&work->sim_count = pl_driver_symbol(work->drv, "pleat_sim_count");
    *(void **)&work->sim_cost_us = pl_driver_symbol(work->drv, "pleat_sim_cost_us");
    return work->sim_work && work->sim_use && work->sim_use_end && work->sim_finish &&
           work->sim_count && work->sim_cost_us;
}

pleat_status pl_work_open(pl_work *work, pl_driver_kind kind, int ordinal)
{
    *work = (pl_work){ .is_simulated = kind == PL_DRIVER_SIM };
    pleat_status st = pl_driver_open(kind, NULL, &work->drv);
    if (st != PLEAT_OK) {
        return st;
    }
    if (work->is_simulated && !find_simulator(work)) {
        pl_driver_set_detail("the simulator does not export its own interface");
        st = PLEAT_ENODRIVER;
        goto undo_open;
    }
    pl_device_options options = { .chunk_granules = 1 };
    st = pl_device_open(work->drv, ordinal, &options, &work->dev);
    if (st != PLEAT_OK) {
        goto undo_open;
    }
    st = pl_device_enter(work->dev);
    if (st != PLEAT_OK) {
        goto undo_device;
    }
    return PLEAT_OK;

undo_device:
    pl_device_close(work->dev);
undo_open:
    pl_driver_close(work->drv);
    return st;
}

void pl_work_close(pl_work *work)
{
    pl_device_leave(work->dev);
    pl_device_close(work->dev);
    pl_driver_close(work->drv);
    *work = (pl_work){ .drv = NULL };
}

pleat_status pl_work_stream_create(pl_work *work, void **handle)
{
    cu_stream stream;
    cu_result result = pl_cu_stream_create(work->drv, &stream, CU_STREAM_NON_BLOCKING_FLAG);
    if (result == CU_SUCCESS) {
        *handle = stream;
    }
    return pl_driver_status(result);
}

pleat_status pl_work_stream_destroy(pl_work *work, void *handle)
{
    return pl_driver_status(pl_cu_stream_destroy(work->drv, handle));
}

pleat_status pl_work_touch(pl_work *work, void *stream, pleat_devptr ptr, uint64_t bytes)
{
    if (work->is_simulated) {
        struct pleat_sim_access access = { .ptr = ptr, .bytes = bytes, .is_write = true };
        return pl_driver_status(work->sim_work(stream, &access, 1));
    }
    uint64_t edge = bytes < EDGE_BYTES ? bytes : EDGE_BYTES;
    cu_result result = pl_cu_memset_async(work->drv, ptr, 0x5a, edge, stream);
    if (result == CU_SUCCESS && bytes > edge) {
        result = pl_cu_memset_async(work->drv, ptr + bytes - edge, 0xa5, edge, stream);
    }
    return pl_driver_status(result);
}

/* Let `stream` come after the work submitted to `after`. */
static cu_result order(pl_work *work, void *stream, void *after)
{
    cu_event event;
    cu_result result = pl_cu_event_create(work->drv, &event, CU_EVENT_DISABLE_TIMING_FLAG);
    if (result != CU_SUCCESS) {
        return result;
    }
    result = pl_cu_event_record(work->drv, event, after);
    if (result == CU_SUCCESS) {
        result = pl_cu_stream_wait_event(work->drv, stream, event, 0);
    }
    cu_result destroyed = pl_cu_event_destroy(work->drv, event);
    return result == CU_SUCCESS ? destroyed : result;
}

pleat_status pl_work_use(pl_work *work, void *stream, void *after, pleat_devptr ptr, uint64_t bytes,
                         uint64_t *use)
{
    *use = 0;
    if (work->is_simulated) {
        return pl_driver_status(work->sim_use(stream, after, ptr, bytes, use));
    }
    cu_result result = order(work, stream, after);
    return result == CU_SUCCESS ? pl_work_touch(work, stream, ptr, bytes)
                                : pl_driver_status(result);
}

pleat_status pl_work_use_end(pl_work *work, void *stream, uint64_t use)
{
    return work->is_simulated ? pl_driver_status(work->sim_use_end(stream, use)) : PLEAT_OK;
}

pleat_status pl_work_finish(pl_work *work, void *stream)
{
    if (work->is_simulated) {
        work->sim_finish();
        return PLEAT_OK;
    }
    return pl_driver_status(pl_cu_stream_synchronize(work->drv, stream));
}

static struct pleat_sim_counts counts(const pl_work *work)
{
    struct pleat_sim_counts found = { .hazards = 0 };
    if (work->is_simulated) {
        work->sim_count(-1, &found);
    }
    return found;
}

uint64_t pl_work_n_hazards(const pl_work *work)
{
    return counts(work).hazards;
}

double pl_work_cost_us(const pl_work *work)
{
    return work->is_simulated ? work->sim_cost_us() : 0.0;
}

uint64_t pl_work_n_objects(const pl_work *work)
{
    struct pleat_sim_counts found = counts(work);
    return found.reservations + found.handles + found.mappings + found.allocations + found.pools;
}
