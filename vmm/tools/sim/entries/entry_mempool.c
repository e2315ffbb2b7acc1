/* entry_mempool.c - exported calls: pools, and allocation and free in the order of streams. */
#include "vmm/tools/sim/entries/call.h"
#include "vmm/tools/sim/memory/mempool.h"
#include "vmm/tools/sim/work/capture.h"

cu_result cuDeviceGetDefaultMemPool(cu_mempool *pool, cu_device dev)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_pool_default, (uint64_t)dev, 0, 0, 0);
    if (call.result == CU_SUCCESS && pool == NULL) {
        call.result = CU_INVALID_VALUE;
    } else if (call.result == CU_SUCCESS && sim_device_at(dev) == NULL) {
        call.result = CU_INVALID_DEVICE;
    } else if (call.result == CU_SUCCESS) {
        *pool = sim_mempool_handle(sim_mempool_default(dev));
        call.args[1] = sim_arg(*pool);
    }
    return sim_call_end(&call);
}

cu_result cuMemPoolCreate(cu_mempool *pool, const cu_mempool_props *props)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_pool_create, 0, 0, 0, 0);
    if (call.result == CU_SUCCESS && props != NULL) {
        call.args[1] = (uint64_t)props->location.id;
        call.args[2] = props->max_bytes;
        call.args[3] = (uint64_t)props->handle_types;
    }
    if (call.result == CU_SUCCESS) {
        call.result = sim_mempool_create(props, pool);
    }
    if (call.result == CU_SUCCESS) {
        call.args[0] = sim_arg(*pool);
    }
    return sim_call_end(&call);
}

cu_result cuMemPoolDestroy(cu_mempool pool)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_pool_destroy, sim_arg(pool), 0, 0, 0);
    if (call.result == CU_SUCCESS) {
        sim_mempool *it = sim_mempool_find(pool);
        call.result = it == NULL ? CU_INVALID_VALUE : sim_mempool_destroy(it);
    }
    return sim_call_end(&call);
}

cu_result cuMemPoolSetAttribute(cu_mempool pool, int attribute, void *value)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_pool_set, sim_arg(pool), (uint64_t)attribute, 0, 0);
    if (call.result == CU_SUCCESS) {
        sim_mempool *it = sim_mempool_find(pool);
        call.result = it == NULL ? CU_INVALID_VALUE : sim_mempool_set(it, attribute, value);
    }
    if (call.result == CU_SUCCESS) {
        call.args[2] = attribute < CU_POOL_RELEASE_THRESHOLD ? (uint64_t) * (int *)value
                                                             : *(uint64_t *)value;
    }
    return sim_call_end(&call);
}

cu_result cuMemPoolGetAttribute(cu_mempool pool, int attribute, void *value)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_pool_get, sim_arg(pool), (uint64_t)attribute, 0, 0);
    if (call.result == CU_SUCCESS) {
        sim_mempool *it = sim_mempool_find(pool);
        call.result = it == NULL ? CU_INVALID_VALUE : sim_mempool_get(it, attribute, value);
    }
    if (call.result == CU_SUCCESS) {
        call.args[2] = attribute < CU_POOL_RELEASE_THRESHOLD ? (uint64_t) * (int *)value
                                                             : *(uint64_t *)value;
    }
    return sim_call_end(&call);
}

cu_result cuMemPoolSetAccess(cu_mempool pool, const cu_access_desc *desc, size_t count)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_pool_set_access, sim_arg(pool),
                   desc == NULL || count == 0 ? 0 : (uint64_t)desc[0].flags, count, 0);
    sim_mempool *it = sim_mempool_find(pool);
    if (call.result == CU_SUCCESS) {
        call.result = it == NULL ? CU_INVALID_VALUE : sim_mempool_set_access(it, desc, count);
    }
    return sim_call_end(&call);
}

cu_result cuMemPoolTrimTo(cu_mempool pool, size_t keep_bytes)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_pool_trim, sim_arg(pool), keep_bytes, 0, 0);
    sim_mempool *it = sim_mempool_find(pool);
    if (call.result == CU_SUCCESS && it == NULL) {
        call.result = CU_INVALID_VALUE;
    } else if (call.result == CU_SUCCESS) {
        sim_mempool_trim(it, keep_bytes);
    }
    return sim_call_end(&call);
}

/* In a capture both calls would become graph nodes, which the simulator lacks. */
static cu_result find_uncaptured(cu_stream handle, sim_stream **stream)
{
    cu_result result = sim_stream_find(handle, stream);
    if (result == CU_SUCCESS) {
        result = sim_capture_check_use(*stream);
    }
    if (result == CU_SUCCESS) {
        result = sim_capture_forbid(*stream);
    }
    return result;
}

cu_result cuMemAllocFromPoolAsync(cu_devptr *ptr, size_t bytes, cu_mempool pool, cu_stream stream)
{
    sim_call call;
    sim_stream *it;
    sim_call_begin(&call, SIM_CU_pool_alloc_async, 0, bytes, sim_arg(pool), sim_arg(stream));
    sim_mempool *from = sim_mempool_find(pool);
    if (call.result == CU_SUCCESS) {
        call.result = from == NULL ? CU_INVALID_VALUE : find_uncaptured(stream, &it);
    }
    if (call.result == CU_SUCCESS) {
        call.result = sim_mempool_alloc(from, it, bytes, ptr);
    }
    if (call.result == CU_SUCCESS) {
        call.args[0] = *ptr;
    }
    return sim_call_end(&call);
}

cu_result cuMemAllocAsync(cu_devptr *ptr, size_t bytes, cu_stream stream)
{
    sim_call call;
    sim_stream *it;
    sim_call_begin(&call, SIM_CU_mem_alloc_async, 0, bytes, sim_arg(stream), 0);
    if (call.result == CU_SUCCESS) {
        call.result = find_uncaptured(stream, &it);
    }
    if (call.result == CU_SUCCESS) {
        sim_mempool *pool = sim_mempool_default(it->context->device);
        call.result = sim_mempool_alloc(pool, it, bytes, ptr);
    }
    if (call.result == CU_SUCCESS) {
        call.args[0] = *ptr;
    }
    return sim_call_end(&call);
}

/* Memory of cuMemAlloc may be freed in stream order, too. */
static cu_result free_async(cu_devptr ptr, sim_stream *stream)
{
    sim_piece *piece = sim_mempool_find_live(ptr);
    if (piece != NULL) {
        sim_mempool_free(piece, stream);
        return CU_SUCCESS;
    }
    if (sim_linear_find(ptr) == NULL) {
        return CU_INVALID_VALUE;
    }
    sim_task task = { .kind = SIM_TASK_FREE, .value = ptr };
    sim_work_submit(stream, &task, false);
    return CU_SUCCESS;
}

cu_result cuMemFreeAsync(cu_devptr ptr, cu_stream stream)
{
    sim_call call;
    sim_stream *it;
    sim_call_begin(&call, SIM_CU_mem_free_async, ptr, sim_arg(stream), 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = find_uncaptured(stream, &it);
    }
    if (call.result == CU_SUCCESS) {
        call.result = free_async(ptr, it);
    }
    return sim_call_end(&call);
}
