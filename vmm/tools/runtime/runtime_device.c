/* runtime_device.c - devices: their number, properties and attributes, and entry points by name.
 *
 * Memory, name, compute capability and what virtual memory management needs come from the simulated
 * driver. The rest (multiprocessors, shared memory, limits) is an A100's or, from compute
 * capability 9.0 on, an H100's. PyTorch picks kernels and workspace sizes by these numbers. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/base/pleat_sim.h"
#include "vmm/tools/runtime/runtime.h"

/* ---- attributes ------------------------------------------------------------------------------ */

/* { number, up to compute capability 8.x, from 9.0 on } */
static const int attributes[][3] = {
    { 1, 1024, 1024 }, /* threads per block */
    { 2, 1024, 1024 }, /* block dimensions */
    { 3, 1024, 1024 },
    { 4, 64, 64 },
    { 5, 2147483647, 2147483647 }, /* grid dimensions */
    { 6, 65535, 65535 },
    { 7, 65535, 65535 },
    { 8, 49152, 49152 }, /* shared memory per block */
    { 9, 65536, 65536 }, /* constant memory */
    { 10, 32, 32 },      /* warp */
    { 11, 2147483647, 2147483647 },
    { 12, 65536, 65536 },     /* registers per block */
    { 13, 1410000, 1980000 }, /* clock, kHz */
    { 14, 512, 512 },
    { 15, 1, 1 },
    { 16, 108, 132 },           /* multiprocessors */
    { 31, 1, 1 },               /* concurrent kernels */
    { 32, 1, 1 },               /* ECC */
    { 36, 1593000, 2619000 },   /* memory clock, kHz */
    { 37, 5120, 5120 },         /* bus width, bits */
    { 38, 41943040, 52428800 }, /* L2 */
    { 39, 2048, 2048 },         /* threads per multiprocessor */
    { 40, 3, 3 },               /* copy engines */
    { 78, 1, 1 },               /* stream priorities */
    { 79, 1, 1 },
    { 80, 1, 1 },
    { 81, 167936, 233472 }, /* shared memory per multiprocessor */
    { 82, 65536, 65536 },   /* registers per multiprocessor */
    { 90, 1, 1 },           /* compute preemption */
    { 91, 1, 1 },
    { 95, 1, 1 },           /* cooperative launch */
    { 97, 166912, 232448 }, /* shared memory per block, opt-in */
    { 106, 32, 32 },        /* blocks per multiprocessor */
    { 111, 1024, 1024 },    /* shared memory reserved per block */
    { 120, 0, 1 },          /* clusters */
};

static int driver_attribute(int attribute, int device)
{
    int value = 0;
    return cuDeviceGetAttribute(&value, attribute, device) == CU_SUCCESS ? value : 0;
}

int rt_attribute(int attribute, int device)
{
    int column = driver_attribute(CU_ATTR_COMPUTE_MAJOR, device) >= 9 ? 2 : 1;
    for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++) {
        if (attributes[i][0] == attribute) {
            return attributes[i][column];
        }
    }
    return driver_attribute(attribute, device);
}

/* CU_SUCCESS if the device exists. */
static cu_result find_device(int device)
{
    int count = 0;
    cu_result result = rt_init();
    if (result == CU_SUCCESS) {
        result = cuDeviceGetCount(&count);
    }
    if (result == CU_SUCCESS && (device < 0 || device >= count)) {
        result = CU_INVALID_DEVICE;
    }
    return result;
}

rt_error cudaDeviceGetAttribute(int *value, int attribute, int device)
{
    cu_result result = find_device(device);
    if (result == CU_SUCCESS) {
        *value = rt_attribute(attribute, device);
    }
    return rt_end(__func__, result);
}

static void fill_limits(rt_device_prop *prop, int device)
{
    prop->shared_per_block = (size_t)rt_attribute(8, device);
    prop->const_bytes = (size_t)rt_attribute(9, device);
    prop->warp_size = rt_attribute(10, device);
    prop->mem_pitch = (size_t)rt_attribute(11, device);
    prop->regs_per_block = rt_attribute(12, device);
    prop->max_threads_per_block = rt_attribute(1, device);
    for (int i = 0; i < 3; i++) {
        prop->max_block_dim[i] = rt_attribute(2 + i, device);
        prop->max_grid_dim[i] = rt_attribute(5 + i, device);
    }
    prop->n_multiprocessors = rt_attribute(16, device);
    prop->bus_width = rt_attribute(37, device);
    prop->l2_bytes = rt_attribute(38, device);
    prop->max_threads_per_multiprocessor = rt_attribute(39, device);
    prop->shared_per_multiprocessor = (size_t)rt_attribute(81, device);
    prop->regs_per_multiprocessor = rt_attribute(82, device);
    prop->shared_per_block_optin = (size_t)rt_attribute(97, device);
    prop->max_blocks_per_multiprocessor = rt_attribute(106, device);
    prop->shared_reserved_per_block = (size_t)rt_attribute(111, device);
}

static void fill_abilities(rt_device_prop *prop, int device)
{
    prop->can_map_host = rt_attribute(CU_ATTR_CAN_MAP_HOST, device);
    prop->concurrent_kernels = 1;
    prop->ecc = 1;
    prop->n_async_engines = rt_attribute(40, device);
    prop->unified_addressing = rt_attribute(CU_ATTR_UNIFIED_ADDRESSING, device);
    prop->managed_memory = rt_attribute(CU_ATTR_MANAGED_MEMORY, device);
    prop->stream_priorities = 1;
    prop->compute_preemption = 1;
    prop->host_pointer_for_registered = 1;
    prop->cooperative_launch = 1;
    prop->host_register = rt_attribute(CU_ATTR_HOST_REGISTER_SUPPORTED, device);
    prop->memory_pools = rt_attribute(CU_ATTR_MEMPOOLS_SUPPORTED, device);
    prop->cluster_launch = rt_attribute(120, device);
}

rt_error cudaGetDeviceProperties(rt_device_prop *prop, int device)
{
    cu_result result = find_device(device);
    if (result != CU_SUCCESS) {
        return rt_end(__func__, result);
    }
    memset(prop, 0, sizeof(*prop));
    result = cuDeviceGetName(prop->name, sizeof(prop->name), device);
    if (result == CU_SUCCESS) {
        result = cuDeviceTotalMem_v2(&prop->total_bytes, device);
    }
    memcpy(prop->uuid, "pleat simulator", sizeof(prop->uuid));
    prop->uuid[sizeof(prop->uuid) - 1] = (char)device;
    prop->major = rt_attribute(CU_ATTR_COMPUTE_MAJOR, device);
    prop->minor = rt_attribute(CU_ATTR_COMPUTE_MINOR, device);
    prop->texture_alignment = 512;
    prop->texture_pitch_alignment = 32;
    prop->surface_alignment = 512;
    prop->pci_bus = rt_attribute(CU_ATTR_PCI_BUS_ID, device);
    prop->pci_device = rt_attribute(CU_ATTR_PCI_DEVICE_ID, device);
    prop->pci_domain = rt_attribute(CU_ATTR_PCI_DOMAIN_ID, device);
    prop->numa_id = -1;
    prop->host_numa_id = -1;
    fill_limits(prop, device);
    fill_abilities(prop, device);
    return rt_end(__func__, result);
}

/* ---- which device ---------------------------------------------------------------------------- */

/* Runtime and driver tell one version, since programs refuse a runtime newer than the driver. */
rt_error cudaDriverGetVersion(int *version)
{
    return rt_end(__func__, cuDriverGetVersion(version));
}

rt_error cudaRuntimeGetVersion(int *version)
{
    return rt_end(__func__, cuDriverGetVersion(version));
}

rt_error cudaGetDeviceCount(int *count)
{
    cu_result result = rt_init();
    if (result == CU_SUCCESS) {
        result = cuDeviceGetCount(count);
    }
    return rt_end(__func__, result);
}

rt_error cudaGetDevice(int *device)
{
    *device = rt_device();
    return rt_end(__func__, rt_init());
}

rt_error cudaSetDevice(int device)
{
    return rt_end(__func__, rt_set_device(device, true));
}

/* Synchronises the legacy default stream first: during a capture that is refused, as the real call
 * is. */
rt_error cudaDeviceSynchronize(void)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = cuCtxSynchronize();
    }
    return rt_end(__func__, result);
}

rt_error cudaDeviceGetPCIBusId(char *text, int n, int device)
{
    cu_result result = find_device(device);
    if (result == CU_SUCCESS) {
        snprintf(text, (size_t)n, "%04x:%02x:%02x.0", rt_attribute(CU_ATTR_PCI_DOMAIN_ID, device),
                 rt_attribute(CU_ATTR_PCI_BUS_ID, device),
                 rt_attribute(CU_ATTR_PCI_DEVICE_ID, device));
    }
    return rt_end(__func__, result);
}

/* All simulated devices reach one another, as behind a switch. */
rt_error cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    cu_result result = find_device(device);
    if (result == CU_SUCCESS) {
        result = find_device(peer);
    }
    *can = result == CU_SUCCESS && device != peer;
    return rt_end(__func__, result);
}

rt_error cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    (void)flags;
    return rt_end(__func__, find_device(peer));
}

rt_error cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = cuCtxGetStreamPriorityRange(least, greatest);
    }
    return rt_end(__func__, result);
}

rt_error cudaProfilerStart(void)
{
    return CU_SUCCESS;
}

rt_error cudaProfilerStop(void)
{
    return CU_SUCCESS;
}

/* ---- entry points by name -------------------------------------------------------------------- */

rt_error cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version,
                                          unsigned long long flags, int *status)
{
    (void)version;
    (void)flags;
    *out = rt_find_symbol(name);
    if (status != NULL) {
        *status = *out != NULL ? RT_SYMBOL_FOUND : RT_SYMBOL_NOT_FOUND;
    }
    return rt_end(__func__, rt_init());
}

/* Libraries that open the simulator later, such as libpleat, must get this simulator, with the
 * devices that the program knows. */
__attribute__((constructor)) static void say_where_the_simulator_is(void)
{
    Dl_info info;
    pleat_sim_keep("pleat-runtime (its options or PLEAT_SIM)");
    if (dladdr((const void *)&pleat_sim_reset, &info) != 0 && info.dli_fname != NULL) {
        (void)setenv("PLEAT_SIM_LIBRARY", info.dli_fname, 1);
    }
}
