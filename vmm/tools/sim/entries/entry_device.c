/* entry_device.c - exported calls: initialisation, devices, contexts. */
#include <string.h>

#include "vmm/tools/sim/entries/call.h"
#include "vmm/tools/sim/memory/mempool.h"
#include "vmm/tools/sim/work/capture.h"
#include "vmm/tools/sim/work/sim_context.h"
#include "vmm/tools/sim/work/sim_stream.h"

enum {
    VERSION_FULL = 13020,
    VERSION_HOST_CRASH = 13010,
    VERSION_GREEN_APART = 12090,
    VERSION_OLD = 11020,
    ATTRIBUTE_LAST_OLD = 119
};

cu_result cuInit(unsigned flags)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_init, flags, 0, 0, 0);
    if (call.result == CU_SUCCESS && (flags != 0 || !sim_state_configure())) {
        call.result = CU_INVALID_VALUE;
    }
    if (call.result == CU_SUCCESS) {
        sim.is_initialized = true;
    }
    return sim_call_end(&call);
}

cu_result cuDriverGetVersion(int *version)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_driver_version, 0, 0, 0, 0);
    if (call.result == CU_SUCCESS && version == NULL) {
        call.result = CU_INVALID_VALUE;
    } else if (call.result == CU_SUCCESS) {
        bool is_old = sim.conf.profile == SIM_PROFILE_OLD_DRIVER;
        *version = is_old                      ? VERSION_OLD
                   : sim.conf.is_green_apart   ? VERSION_GREEN_APART
                   : sim.conf.is_host_crashing ? VERSION_HOST_CRASH
                                               : VERSION_FULL;
    }
    return sim_call_end(&call);
}

cu_result cuDeviceGetCount(int *count)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_device_count, 0, 0, 0, 0);
    if (call.result == CU_SUCCESS && count == NULL) {
        call.result = CU_INVALID_VALUE;
    } else if (call.result == CU_SUCCESS) {
        *count = sim.conf.n_devices;
        call.args[0] = (uint64_t)*count;
    }
    return sim_call_end(&call);
}

cu_result cuDeviceGet(cu_device *dev, int ordinal)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_device_get, (uint64_t)ordinal, 0, 0, 0);
    if (call.result == CU_SUCCESS && dev == NULL) {
        call.result = CU_INVALID_VALUE;
    } else if (call.result == CU_SUCCESS && sim_device_at(ordinal) == NULL) {
        call.result = CU_INVALID_DEVICE;
    } else if (call.result == CU_SUCCESS) {
        *dev = ordinal;
    }
    return sim_call_end(&call);
}

cu_result cuDeviceGetName(char *name, int len, cu_device dev)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_device_name, (uint64_t)dev, 0, 0, 0);
    if (call.result == CU_SUCCESS && (name == NULL || len <= 0)) {
        call.result = CU_INVALID_VALUE;
    } else if (call.result == CU_SUCCESS && sim_device_at(dev) == NULL) {
        call.result = CU_INVALID_DEVICE;
    } else if (call.result == CU_SUCCESS) {
        size_t length = strlen(sim.conf.name);
        size_t room = (size_t)len - 1;
        length = length < room ? length : room;
        memcpy(name, sim.conf.name, length);
        name[length] = '\0';
    }
    return sim_call_end(&call);
}

/* The attributes that pleat and others ask for. Every other known number is 0. */
static int attribute_value(int attribute, int device)
{
    bool is_full = sim.conf.profile == SIM_PROFILE_FULL;
    switch (attribute) {
    case CU_ATTR_PCI_BUS_ID:
        return device + 1;
    case CU_ATTR_COMPUTE_MAJOR:
        return sim.conf.compute_major;
    case CU_ATTR_COMPUTE_MINOR:
        return sim.conf.compute_minor;
    case CU_ATTR_CAN_MAP_HOST:
    case CU_ATTR_UNIFIED_ADDRESSING:
    case CU_ATTR_MANAGED_MEMORY:
    case CU_ATTR_HOST_REGISTER_SUPPORTED:
        return 1;
    case CU_ATTR_VMM_SUPPORTED:
    case CU_ATTR_MEMPOOLS_SUPPORTED:
        return sim.conf.profile != SIM_PROFILE_NO_VMM;
    case CU_ATTR_POSIX_FD_SUPPORTED:
    case CU_ATTR_RDMA_WITH_VMM_SUPPORTED:
    case CU_ATTR_64_BIT_STREAM_MEM_OPS:
        return is_full;
    default:
        return 0;
    }
}

cu_result cuDeviceGetAttribute(int *value, int attribute, cu_device dev)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_device_attribute, (uint64_t)attribute, (uint64_t)dev, 0, 0);
    bool is_old = sim.conf.profile == SIM_PROFILE_OLD_DRIVER;
    if (call.result == CU_SUCCESS &&
        (value == NULL || attribute <= 0 || (is_old && attribute > ATTRIBUTE_LAST_OLD))) {
        call.result = CU_INVALID_VALUE;
    } else if (call.result == CU_SUCCESS && sim_device_at(dev) == NULL) {
        call.result = CU_INVALID_DEVICE;
    } else if (call.result == CU_SUCCESS) {
        *value = attribute_value(attribute, dev);
        call.args[2] = (uint64_t)*value;
    }
    return sim_call_end(&call);
}

cu_result cuDeviceTotalMem_v2(size_t *bytes, cu_device dev)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_device_total_mem, (uint64_t)dev, 0, 0, 0);
    if (call.result == CU_SUCCESS && bytes == NULL) {
        call.result = CU_INVALID_VALUE;
    } else if (call.result == CU_SUCCESS && sim_device_at(dev) == NULL) {
        call.result = CU_INVALID_DEVICE;
    } else if (call.result == CU_SUCCESS) {
        *bytes = sim.conf.capacity_bytes;
        call.args[1] = *bytes;
    }
    return sim_call_end(&call);
}

cu_result cuDeviceCanAccessPeer(int *can, cu_device dev, cu_device peer)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_device_can_access, (uint64_t)dev, (uint64_t)peer, 0, 0);
    if (call.result == CU_SUCCESS && can == NULL) {
        call.result = CU_INVALID_VALUE;
    } else if (call.result == CU_SUCCESS &&
               (sim_device_at(dev) == NULL || sim_device_at(peer) == NULL)) {
        call.result = CU_INVALID_DEVICE;
    } else if (call.result == CU_SUCCESS) {
        *can = dev != peer && sim_device_reaches(dev, peer);
        call.args[2] = (uint64_t)*can;
    }
    return sim_call_end(&call);
}

cu_result cuDevicePrimaryCtxRetain(cu_context *ctx, cu_device dev)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_primary_retain, (uint64_t)dev, 0, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = sim_context_retain(dev, ctx);
    }
    if (call.result == CU_SUCCESS) {
        call.args[1] = sim_arg(*ctx);
    }
    return sim_call_end(&call);
}

cu_result cuDevicePrimaryCtxGetState(cu_device dev, unsigned *flags, int *is_active)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_primary_state, (uint64_t)dev, 0, 0, 0);
    const sim_device *device = sim_device_at(dev);
    if (call.result == CU_SUCCESS && (flags == NULL || is_active == NULL)) {
        call.result = CU_INVALID_VALUE;
    } else if (call.result == CU_SUCCESS && device == NULL) {
        call.result = CU_INVALID_DEVICE;
    } else if (call.result == CU_SUCCESS) {
        *flags = 0;
        *is_active = device->context.n_retained > 0;
        call.args[1] = (uint64_t)*is_active;
    }
    return sim_call_end(&call);
}

cu_result cuDevicePrimaryCtxRelease_v2(cu_device dev)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_primary_release, (uint64_t)dev, 0, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = sim_context_release(dev);
    }
    return sim_call_end(&call);
}

cu_result cuCtxPushCurrent_v2(cu_context ctx)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_ctx_push, sim_arg(ctx), 0, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = sim_context_push(ctx);
    }
    return sim_call_end(&call);
}

cu_result cuCtxPopCurrent_v2(cu_context *ctx)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_ctx_pop, 0, 0, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = sim_context_pop(ctx);
    }
    return sim_call_end(&call);
}

cu_result cuCtxGetCurrent(cu_context *ctx)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_ctx_get_current, 0, 0, 0, 0);
    if (call.result == CU_SUCCESS && ctx == NULL) {
        call.result = CU_INVALID_VALUE;
    } else if (call.result == CU_SUCCESS) {
        sim_context *context = NULL;
        cu_result result = sim_context_current(&context);
        *ctx = result == CU_SUCCESS ? sim_context_handle(context) : NULL;
        call.args[0] = sim_arg(*ctx);
    }
    return sim_call_end(&call);
}

cu_result cuCtxGetDevice(cu_device *dev)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_ctx_get_device, 0, 0, 0, 0);
    if (call.result == CU_SUCCESS && dev == NULL) {
        call.result = CU_INVALID_VALUE;
    } else if (call.result == CU_SUCCESS) {
        sim_context *context = NULL;
        call.result = sim_context_current(&context);
        if (call.result == CU_SUCCESS) {
            *dev = context->device;
            call.args[0] = (uint64_t)*dev;
        }
    }
    return sim_call_end(&call);
}

/* Unsafe in any mode of the threads, since it would wait for captured streams. The evidence is
 * thin: the reference is silent. But cuCtxRecordEvent, which covers the same streams, is refused
 * and invalidates all conflicting captures. Also, captures were reported broken by another thread's
 * device synchronisation. */
static cu_result synchronize(void)
{
    sim_context *context;
    cu_result result = sim_context_current(&context);
    if (result != CU_SUCCESS) {
        return result;
    }
    result = sim_capture_unsafe_call();
    cu_result of_context = sim_capture_forbid_context(context);
    result = result == CU_SUCCESS ? of_context : result;
    if (result == CU_SUCCESS) {
        sim_clock *clock = NULL;
        sim_stream_gather_context(context, &clock);
        result = sim_work_finish_clock(clock) ? CU_SUCCESS : CU_NOT_READY;
        sim_clock_unref(clock);
        sim_mempool_synchronized();
    }
    return result;
}

cu_result cuCtxSynchronize(void)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_ctx_synchronize, 0, 0, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = synchronize();
    }
    return sim_call_end(&call);
}
