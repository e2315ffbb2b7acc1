/* entry_copy.c - exported calls: copies and a memset on the legacy default stream. Copies to and
 * from the host wait. Copies between device addresses do not, and memsets only of memory of the
 * host, as the reference says under "API synchronization behavior". */
#include "vmm/tools/sim/entries/call.h"
#include "vmm/tools/sim/memory/memory.h"
#include "vmm/tools/sim/memory/mempool.h"
#include "vmm/tools/sim/work/submit.h"

/* With waits:refuse nothing is submitted, since the host's memory may be gone when it would run. */
static cu_result copy_and_wait(sim_task_kind kind, void *host, const pleat_sim_access *access)
{
    sim_stream *stream;
    cu_result result = host == NULL ? CU_INVALID_VALUE : sim_stream_find(NULL, &stream);
    if (result == CU_SUCCESS && sim.conf.is_wait_refused && access->bytes > 0) {
        result = CU_NOT_READY;
    }
    if (result == CU_SUCCESS) {
        result = sim_submit_checked(NULL, kind, 0, host, access, true);
    }
    if (result == CU_SUCCESS && access->bytes > 0) {
        (void)sim_work_finish_until(stream, stream->submitted, stream->deps);
        sim_mempool_synchronized();
    }
    return result;
}

cu_result cuMemcpyHtoD_v2(cu_devptr to, const void *from, size_t bytes)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_memcpy_htod, to, bytes, sim_arg(from), 0);
    if (call.result == CU_SUCCESS) {
        pleat_sim_access access = { to, bytes, true };
        call.result = copy_and_wait(SIM_TASK_WRITE, (void *)(uintptr_t)from, &access);
    }
    return sim_call_end(&call);
}

cu_result cuMemcpyDtoH_v2(void *to, cu_devptr from, size_t bytes)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_memcpy_dtoh, from, bytes, sim_arg(to), 0);
    if (call.result == CU_SUCCESS) {
        pleat_sim_access access = { from, bytes, false };
        call.result = copy_and_wait(SIM_TASK_READ, to, &access);
    }
    return sim_call_end(&call);
}

cu_result cuMemcpyDtoD_v2(cu_devptr to, cu_devptr from, size_t bytes)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_memcpy_dtod, to, from, bytes, 0);
    if (call.result == CU_SUCCESS) {
        call.result = sim_submit_copy(NULL, to, from, bytes);
    }
    return sim_call_end(&call);
}

cu_result cuMemsetD8_v2(cu_devptr ptr, unsigned char value, size_t bytes)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_memset, ptr, bytes, value, 0);
    if (call.result == CU_SUCCESS) {
        pleat_sim_access access = { ptr, bytes, true };
        call.result = sim_submit_checked(NULL, SIM_TASK_SET, value, NULL, &access, true);
    }
    int device;
    sim_stream *stream;
    if (call.result == CU_SUCCESS && sim_host_find(ptr, &device) != SIM_HOST_NONE &&
        sim_stream_find(NULL, &stream) == CU_SUCCESS &&
        !sim_work_finish_until(stream, stream->submitted, stream->deps)) {
        call.result = CU_NOT_READY;
    }
    return sim_call_end(&call);
}
