/* entry_linear.c - exported calls: cuMemAlloc and friends, memset, copies, stream writes. */
#include "vmm/tools/sim/entries/call.h"
#include "vmm/tools/sim/memory/memory.h"
#include "vmm/tools/sim/memory/mempool.h"
#include "vmm/tools/sim/work/hazard.h"
#include "vmm/tools/sim/work/sim_context.h"
#include "vmm/tools/sim/work/submit.h"

cu_result cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    sim_call call;
    sim_context *context;
    sim_call_begin(&call, SIM_CU_mem_get_info, 0, 0, 0, 0);
    if (call.result == CU_SUCCESS && (free_bytes == NULL || total_bytes == NULL)) {
        call.result = CU_INVALID_VALUE;
    } else if (call.result == CU_SUCCESS) {
        call.result = sim_context_current(&context);
    }
    if (call.result == CU_SUCCESS) {
        *total_bytes = sim.conf.capacity_bytes;
        *free_bytes = *total_bytes - sim.devices[context->device].physical_bytes;
        call.args[0] = *free_bytes;
        call.args[1] = *total_bytes;
    }
    return sim_call_end(&call);
}

cu_result cuMemAlloc_v2(cu_devptr *ptr, size_t bytes)
{
    sim_call call;
    sim_context *context;
    sim_call_begin(&call, SIM_CU_mem_alloc, 0, bytes, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = sim_context_current(&context);
    }
    if (call.result == CU_SUCCESS) {
        call.result = sim_linear_alloc(sim_context_root(context), bytes, ptr);
    }
    if (call.result == CU_SUCCESS) {
        call.args[0] = *ptr;
    }
    return sim_call_end(&call);
}

/* The reference says that cuMemFree may or may not synchronise. By default the simulator does
 * not. */
static cu_result free_now(cu_devptr ptr)
{
    int device;
    sim_piece *piece = sim_mempool_find_live(ptr);
    sim_mapping *mapping = sim_linear_find(ptr);
    if (sim_host_find(ptr, &device) == SIM_HOST_MANAGED) {
        return sim_host_free(ptr, SIM_HOST_MANAGED);
    }
    if (piece == NULL && (mapping == NULL || mapping->handle->is_host)) {
        return CU_INVALID_VALUE;
    }
    if (sim.conf.is_free_waiting) {
        sim_work_finish_all();
    }
    if (piece != NULL) {
        sim_mempool_free_now(piece);
        return CU_SUCCESS;
    }
    sim_hazard_check_unmap(ptr, mapping->bytes, "cuMemFree");
    sim_linear_free(mapping);
    return CU_SUCCESS;
}

cu_result cuMemFree_v2(cu_devptr ptr)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_mem_free, ptr, 0, 0, 0);
    if (call.result == CU_SUCCESS && ptr != 0) {
        call.result = free_now(ptr);
    }
    return sim_call_end(&call);
}

cu_result cuMemsetD8Async(cu_devptr ptr, unsigned char value, size_t bytes, cu_stream stream)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_memset_async, ptr, bytes, value, sim_arg(stream));
    if (call.result == CU_SUCCESS) {
        pleat_sim_access access = { ptr, bytes, true };
        call.result = sim_submit_checked(stream, SIM_TASK_SET, value, NULL, &access, true);
    }
    return sim_call_end(&call);
}

cu_result cuMemcpyDtoHAsync_v2(void *to, cu_devptr from, size_t bytes, cu_stream stream)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_memcpy_dtoh_async, from, bytes, sim_arg(to), sim_arg(stream));
    if (call.result == CU_SUCCESS) {
        pleat_sim_access access = { from, bytes, false };
        call.result = to == NULL ? CU_INVALID_VALUE
                                 : sim_submit_checked(stream, SIM_TASK_READ, 0, to, &access, true);
    }
    return sim_call_end(&call);
}

cu_result cuMemcpyHtoDAsync_v2(cu_devptr to, const void *from, size_t bytes, cu_stream stream)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_memcpy_htod_async, to, bytes, sim_arg(from), sim_arg(stream));
    if (call.result == CU_SUCCESS) {
        pleat_sim_access access = { to, bytes, true };
        void *host = (void *)(uintptr_t)from;
        call.result = from == NULL
                          ? CU_INVALID_VALUE
                          : sim_submit_checked(stream, SIM_TASK_WRITE, 0, host, &access, true);
    }
    return sim_call_end(&call);
}

cu_result cuMemcpyDtoDAsync_v2(cu_devptr to, cu_devptr from, size_t bytes, cu_stream stream)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_memcpy_dtod_async, to, from, bytes, sim_arg(stream));
    if (call.result == CU_SUCCESS) {
        call.result = sim_submit_copy(stream, to, from, bytes);
    }
    return sim_call_end(&call);
}

static cu_result write_value(sim_entry entry, cu_stream stream, cu_devptr ptr, uint64_t value,
                             size_t n, unsigned flags)
{
    sim_call call;
    sim_call_begin(&call, entry, sim_arg(stream), ptr, value, 0);
    if (call.result == CU_SUCCESS) {
        pleat_sim_access access = { ptr, n, true };
        call.result = ptr % n != 0 || flags > 1 ? CU_INVALID_VALUE
                                                : sim_submit_checked(stream, SIM_TASK_WRITE_VALUE,
                                                                     value, NULL, &access, false);
    }
    return sim_call_end(&call);
}

cu_result cuStreamWriteValue64_v2(cu_stream stream, cu_devptr ptr, uint64_t value, unsigned flags)
{
    return write_value(SIM_CU_stream_write64, stream, ptr, value, sizeof(value), flags);
}

cu_result cuStreamWriteValue32_v2(cu_stream stream, cu_devptr ptr, uint32_t value, unsigned flags)
{
    return write_value(SIM_CU_stream_write32, stream, ptr, value, sizeof(value), flags);
}
