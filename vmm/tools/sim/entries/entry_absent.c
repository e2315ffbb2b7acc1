/* entry_absent.c - exported calls of every driver for abilities that these devices lack. They are
 * multicast and dma-buf (with attributes 0), and streams that wait for a value in memory, which the
 * simulator does not order by. The calls check their arguments and answer NOT_SUPPORTED. */
#include "vmm/tools/sim/entries/call.h"
#include "vmm/tools/sim/memory/memory.h"

/* `is_good`: the arguments meet the reference's demands. */
static cu_result refuse(sim_call *call, bool is_good)
{
    if (call->result == CU_SUCCESS) {
        call->result = is_good ? CU_NOT_SUPPORTED : CU_INVALID_VALUE;
    }
    return sim_call_end(call);
}

static cu_result refuse_device(sim_call *call, cu_device dev)
{
    if (call->result == CU_SUCCESS && sim_device_at(dev) == NULL) {
        call->result = CU_INVALID_DEVICE;
    }
    return refuse(call, true);
}

cu_result cuMemGetHandleForAddressRange(void *handle, cu_devptr ptr, size_t bytes, int type,
                                        unsigned long long flags)
{
    enum { TYPE_DMA_BUF = 1 };
    sim_call call;
    sim_call_begin(&call, SIM_CU_range_handle, ptr, bytes, (uint64_t)type, 0);
    return refuse(&call, handle != NULL && bytes > 0 && type == TYPE_DMA_BUF && flags <= 1 &&
                             sim_mapping_at(ptr) != NULL);
}

cu_result cuMulticastCreate(cu_mem_handle *group, const void *prop)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_multicast_create, 0, 0, 0, 0);
    return refuse(&call, group != NULL && prop != NULL);
}

cu_result cuMulticastGetGranularity(size_t *bytes, const void *prop, int option)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_multicast_granularity, 0, (uint64_t)option, 0, 0);
    return refuse(&call,
                  bytes != NULL && prop != NULL &&
                      (option == CU_GRANULARITY_MINIMUM || option == CU_GRANULARITY_RECOMMENDED));
}

cu_result cuMulticastAddDevice(cu_mem_handle group, cu_device dev)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_multicast_add, group, (uint64_t)dev, 0, 0);
    return refuse_device(&call, dev);
}

cu_result cuMulticastBindMem(cu_mem_handle group, size_t offset, cu_mem_handle handle,
                             size_t handle_offset, size_t bytes, unsigned long long flags)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_multicast_bind_mem, group, offset, handle, bytes);
    return refuse(&call, flags == 0 && bytes > 0 && handle_offset < UINT64_MAX - bytes &&
                             sim_handle_find(handle) != NULL);
}

cu_result cuMulticastBindAddr(cu_mem_handle group, size_t offset, cu_devptr ptr, size_t bytes,
                              unsigned long long flags)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_multicast_bind_addr, group, offset, ptr, bytes);
    return refuse(&call, flags == 0 && bytes > 0 && sim_mapping_at(ptr) != NULL);
}

cu_result cuMulticastUnbind(cu_mem_handle group, cu_device dev, size_t offset, size_t bytes)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_multicast_unbind, group, (uint64_t)dev, offset, bytes);
    return refuse_device(&call, dev);
}

cu_result cuStreamWaitValue32_v2(cu_stream stream, cu_devptr ptr, uint32_t value, unsigned flags)
{
    sim_call call;
    (void)flags;
    sim_call_begin(&call, SIM_CU_stream_wait32, sim_arg(stream), ptr, value, 0);
    return refuse(&call, ptr % sizeof(value) == 0);
}

cu_result cuStreamWaitValue64_v2(cu_stream stream, cu_devptr ptr, uint64_t value, unsigned flags)
{
    sim_call call;
    (void)flags;
    sim_call_begin(&call, SIM_CU_stream_wait64, sim_arg(stream), ptr, value, 0);
    return refuse(&call, ptr % sizeof(value) == 0);
}

cu_result cuStreamBatchMemOp_v2(cu_stream stream, unsigned n, void *operations, unsigned flags)
{
    enum { MOST_OPERATIONS = 256 };
    sim_call call;
    sim_call_begin(&call, SIM_CU_stream_batch, sim_arg(stream), n, 0, 0);
    return refuse(&call, n <= MOST_OPERATIONS && operations != NULL && flags == 0);
}
