/* memory.c - device memory, pools, pinned host memory, and queries about addresses. */
#include <stdatomic.h>
#include <string.h>

#include "vmm/base/pleat_sim.h"
#include "vmm/tools/runtime/runtime.h"

rt_error cudaMalloc(void **out, size_t bytes)
{
    cu_devptr ptr = 0;
    cu_result result = rt_enter();
    if (result == CU_SUCCESS && out == NULL) {
        result = CU_INVALID_VALUE;
    } else if (result == CU_SUCCESS && bytes > 0) {
        result = cuMemAlloc_v2(&ptr, bytes);
    }
    if (result == CU_SUCCESS) {
        *out = (void *)(uintptr_t)ptr;
    }
    return rt_end(__func__, result);
}

/* Waits for the device's work first, like the real runtime. */
rt_error cudaFree(void *ptr)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS && ptr != NULL) {
        result = cuStreamSynchronize(NULL);
    }
    if (result == CU_SUCCESS && ptr != NULL) {
        pleat_sim_finish();
    }
    if (result == CU_SUCCESS && ptr != NULL) {
        result = cuMemFree_v2(rt_address(ptr));
    }
    return rt_end(__func__, result);
}

rt_error cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = cuMemGetInfo_v2(free_bytes, total_bytes);
    }
    return rt_end(__func__, result);
}

/* ---- pools ----------------------------------------------------------------------------------- */

/* The pools that programs have set; NULL: the device's default. */
static _Atomic(cu_mempool) current_pools[RT_MAX_DEVICES];

/* From a pool, or from the current device's (NULL). */
static cu_result take_from_pool(void **out, size_t bytes, cu_mempool pool, cu_stream stream)
{
    cu_devptr ptr = 0;
    cu_result result = rt_enter();
    if (pool == NULL) {
        pool = current_pools[rt_device()];
    }
    if (result == CU_SUCCESS && out == NULL) {
        result = CU_INVALID_VALUE;
    } else if (result == CU_SUCCESS && bytes > 0) {
        result = pool == NULL ? cuMemAllocAsync(&ptr, bytes, stream)
                              : cuMemAllocFromPoolAsync(&ptr, bytes, pool, stream);
    }
    if (result == CU_SUCCESS) {
        *out = (void *)(uintptr_t)ptr;
    }
    return result;
}

rt_error cudaMallocAsync(void **out, size_t bytes, cu_stream stream)
{
    return rt_end(__func__, take_from_pool(out, bytes, NULL, stream));
}

rt_error cudaMallocFromPoolAsync(void **out, size_t bytes, cu_mempool pool, cu_stream stream)
{
    return rt_end(__func__,
                  pool == NULL ? CU_INVALID_VALUE : take_from_pool(out, bytes, pool, stream));
}

rt_error cudaFreeAsync(void *ptr, cu_stream stream)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS && ptr != NULL) {
        result = cuMemFreeAsync(rt_address(ptr), stream);
    }
    return rt_end(__func__, result);
}

rt_error cudaDeviceGetDefaultMemPool(cu_mempool *pool, int device)
{
    cu_result result = rt_init();
    if (result == CU_SUCCESS) {
        result = cuDeviceGetDefaultMemPool(pool, device);
    }
    return rt_end(__func__, result);
}

rt_error cudaDeviceGetMemPool(cu_mempool *pool, int device)
{
    rt_error error = cudaDeviceGetDefaultMemPool(pool, device);
    if (error == CU_SUCCESS && current_pools[device] != NULL) {
        *pool = current_pools[device];
    }
    return error;
}

rt_error cudaDeviceSetMemPool(int device, cu_mempool pool)
{
    cu_mempool standard;
    uint64_t any;
    rt_error error = cudaDeviceGetDefaultMemPool(&standard, device);
    if (error != CU_SUCCESS) {
        return error;
    }
    /* Only pools have attributes. */
    cu_result result = cuMemPoolGetAttribute(pool, CU_POOL_RELEASE_THRESHOLD, &any);
    if (result == CU_SUCCESS) {
        current_pools[device] = pool == standard ? NULL : pool;
    }
    return rt_end(__func__, result);
}

rt_error cudaMemPoolCreate(cu_mempool *pool, const cu_mempool_props *props)
{
    cu_result result = rt_init();
    if (result == CU_SUCCESS) {
        result = cuMemPoolCreate(pool, props);
    }
    return rt_end(__func__, result);
}

/* A device whose current pool goes has its default again. */
rt_error cudaMemPoolDestroy(cu_mempool pool)
{
    cu_result result = cuMemPoolDestroy(pool);
    for (int i = 0; i < RT_MAX_DEVICES && result == CU_SUCCESS; i++) {
        cu_mempool gone = pool;
        (void)atomic_compare_exchange_strong(&current_pools[i], &gone, NULL);
    }
    return rt_end(__func__, result);
}

rt_error cudaMemPoolGetAttribute(cu_mempool pool, int attribute, void *value)
{
    return rt_end(__func__, cuMemPoolGetAttribute(pool, attribute, value));
}

rt_error cudaMemPoolSetAttribute(cu_mempool pool, int attribute, void *value)
{
    return rt_end(__func__, cuMemPoolSetAttribute(pool, attribute, value));
}

/* All devices reach one another anyway. */
rt_error cudaMemPoolSetAccess(cu_mempool pool, const cu_access_desc *desc, size_t n)
{
    (void)desc;
    (void)n;
    return rt_end(__func__, pool == NULL ? CU_INVALID_VALUE : CU_SUCCESS);
}

rt_error cudaMemPoolTrimTo(cu_mempool pool, size_t keep_bytes)
{
    return rt_end(__func__, cuMemPoolTrimTo(pool, keep_bytes));
}

/* ---- pinned host memory ---------------------------------------------------------------------- */

/* The simulator knows pinned, registered and managed memory. */
static int memory_type(const void *ptr)
{
    int type = 0;
    int is_managed = 0;
    if (cuPointerGetAttribute(&type, CU_POINTER_MEMORY_TYPE, rt_address(ptr)) != CU_SUCCESS) {
        return RT_UNREGISTERED;
    }
    (void)cuPointerGetAttribute(&is_managed, CU_POINTER_IS_MANAGED, rt_address(ptr));
    return is_managed ? RT_MANAGED : type == CU_MEMORY_OF_HOST ? RT_HOST : RT_DEVICE;
}

bool rt_host_is_pinned(const void *ptr)
{
    int type = memory_type(ptr);
    return type == RT_HOST || type == RT_MANAGED;
}

rt_error cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
    void *ptr = NULL;
    cu_result result = rt_enter();
    if (result == CU_SUCCESS && out == NULL) {
        result = CU_INVALID_VALUE;
    } else if (result == CU_SUCCESS && bytes > 0) {
        result = cuMemHostAlloc(&ptr, bytes, flags);
    }
    if (result == CU_SUCCESS) {
        *out = ptr;
    }
    return rt_end(__func__, result);
}

/* Waits for the device's work first, like the real runtime. */
rt_error cudaFreeHost(void *ptr)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS && ptr != NULL) {
        pleat_sim_finish();
        result = cuMemFreeHost(ptr);
    }
    return rt_end(__func__, result);
}

rt_error cudaHostRegister(void *ptr, size_t bytes, unsigned flags)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = cuMemHostRegister_v2(ptr, bytes, flags);
    }
    return rt_end(__func__, result);
}

rt_error cudaHostUnregister(void *ptr)
{
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = cuMemHostUnregister(ptr);
    }
    return rt_end(__func__, result);
}

/* ---- managed memory -------------------------------------------------------------------------- */

rt_error cudaMallocManaged(void **out, size_t bytes, unsigned flags)
{
    cu_devptr ptr = 0;
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = out == NULL ? CU_INVALID_VALUE : cuMemAllocManaged(&ptr, bytes, flags);
    }
    if (result == CU_SUCCESS) {
        *out = (void *)(uintptr_t)ptr;
    }
    return rt_end(__func__, result);
}

/* It has one place. The further arguments have changed with CUDA 13 and are not read. */
static cu_result stay(const void *ptr)
{
    cu_result result = rt_enter();
    return result == CU_SUCCESS && memory_type(ptr) != RT_MANAGED ? CU_INVALID_VALUE : result;
}

rt_error cudaMemPrefetchAsync(const void *ptr)
{
    return rt_end(__func__, stay(ptr));
}

rt_error cudaMemPrefetchAsync_v2(const void *ptr)
{
    return rt_end(__func__, stay(ptr));
}

static cu_result take_advice(const void *ptr, int advice)
{
    enum { FIRST = 1, LAST = 6 };
    return advice < FIRST || advice > LAST ? CU_INVALID_VALUE : stay(ptr);
}

rt_error cudaMemAdvise(const void *ptr, size_t bytes, int advice)
{
    (void)bytes;
    return rt_end(__func__, take_advice(ptr, advice));
}

rt_error cudaMemAdvise_v2(const void *ptr, size_t bytes, int advice)
{
    (void)bytes;
    return rt_end(__func__, take_advice(ptr, advice));
}

/* ---- what an address is ---------------------------------------------------------------------- */

rt_error cudaPointerGetAttributes(rt_pointer_attributes *out, const void *ptr)
{
    cu_result result = rt_init();
    if (result != CU_SUCCESS) {
        return rt_end(__func__, result);
    }
    memset(out, 0, sizeof(*out));
    out->type = memory_type(ptr);
    out->device = -2;
    if (out->type != RT_UNREGISTERED) {
        out->device_pointer = (void *)(uintptr_t)ptr;
        (void)cuPointerGetAttribute(&out->device, CU_POINTER_DEVICE_ORDINAL, rt_address(ptr));
    }
    if (out->type != RT_DEVICE) {
        out->host_pointer = (void *)(uintptr_t)ptr;
    }
    return CU_SUCCESS;
}
