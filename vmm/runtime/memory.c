/* memory.c - device memory, pools, pinned host memory, and queries about addresses. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/runtime/runtime.h"
#include "vmm/sim/pleat_sim.h"

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

/* From a pool, or from the current one (NULL). */
static cu_result take_from_pool(void **out, size_t bytes, cu_mempool pool, cu_stream stream)
{
    cu_devptr ptr = 0;
    cu_result result = rt_enter();
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

/* Setting a different pool is not simulated. */
rt_error cudaDeviceGetMemPool(cu_mempool *pool, int device)
{
    return cudaDeviceGetDefaultMemPool(pool, device);
}

rt_error cudaMemPoolCreate(cu_mempool *pool, const cu_mempool_props *props)
{
    cu_result result = rt_init();
    if (result == CU_SUCCESS) {
        result = cuMemPoolCreate(pool, props);
    }
    return rt_end(__func__, result);
}

rt_error cudaMemPoolDestroy(cu_mempool pool)
{
    return rt_end(__func__, cuMemPoolDestroy(pool));
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

typedef struct host_range {
    struct host_range *next;
    uintptr_t base;
    size_t bytes;
    int device;
    void *memory; /* NULL: the program's own memory, only registered */
} host_range;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static host_range *ranges; /* lock */

static cu_result add_range(void *ptr, size_t bytes, void *memory)
{
    host_range *range = malloc(sizeof(*range));
    if (range == NULL) {
        return CU_OUT_OF_MEMORY;
    }
    *range = (host_range){ NULL, (uintptr_t)ptr, bytes, rt_device(), memory };
    pthread_mutex_lock(&lock);
    range->next = ranges;
    ranges = range;
    pthread_mutex_unlock(&lock);
    return CU_SUCCESS;
}

/* Takes the range that starts at ptr out of the list, or returns NULL. */
static host_range *take_range(const void *ptr, bool is_ours)
{
    pthread_mutex_lock(&lock);
    host_range **at = &ranges;
    while (*at != NULL && ((*at)->base != (uintptr_t)ptr || ((*at)->memory != NULL) != is_ours)) {
        at = &(*at)->next;
    }
    host_range *found = *at;
    if (found != NULL) {
        *at = found->next;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* The device of the range that holds ptr, or -1. */
static int host_device(const void *ptr)
{
    int device = -1;
    uintptr_t address = (uintptr_t)ptr;
    pthread_mutex_lock(&lock);
    for (const host_range *it = ranges; it != NULL && device < 0; it = it->next) {
        if (address >= it->base && address - it->base < it->bytes) {
            device = it->device;
        }
    }
    pthread_mutex_unlock(&lock);
    int type = 0;
    if (device < 0 &&
        cuPointerGetAttribute(&type, CU_POINTER_MEMORY_TYPE, rt_address(ptr)) == CU_SUCCESS &&
        type == CU_MEMORY_OF_HOST) {
        device = 0; /* pinned through the driver */
    }
    return device;
}

bool rt_host_is_pinned(const void *ptr)
{
    return host_device(ptr) >= 0;
}

rt_error cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
    (void)flags;
    cu_result result = rt_enter();
    void *memory = NULL;
    if (result == CU_SUCCESS && posix_memalign(&memory, 4096, bytes > 0 ? bytes : 1) != 0) {
        result = CU_OUT_OF_MEMORY;
    }
    if (result == CU_SUCCESS) {
        result = add_range(memory, bytes, memory);
    }
    if (result == CU_SUCCESS) {
        *out = memory;
    }
    return rt_end(__func__, result);
}

rt_error cudaFreeHost(void *ptr)
{
    cu_result result = rt_enter();
    host_range *range = ptr == NULL ? NULL : take_range(ptr, true);
    if (result == CU_SUCCESS && ptr != NULL && range == NULL) {
        result = CU_INVALID_VALUE;
    }
    if (range != NULL) {
        free(range->memory);
        free(range);
    }
    return rt_end(__func__, result);
}

rt_error cudaHostRegister(void *ptr, size_t bytes, unsigned flags)
{
    (void)flags;
    cu_result result = rt_enter();
    if (result == CU_SUCCESS) {
        result = ptr == NULL || bytes == 0 ? CU_INVALID_VALUE : add_range(ptr, bytes, NULL);
    }
    return rt_end(__func__, result);
}

rt_error cudaHostUnregister(void *ptr)
{
    cu_result result = rt_enter();
    host_range *range = take_range(ptr, false);
    if (result == CU_SUCCESS && range == NULL) {
        result = CU_INVALID_VALUE;
    }
    free(range);
    return rt_end(__func__, result);
}

/* ---- what an address is ---------------------------------------------------------------------- */

rt_error cudaPointerGetAttributes(rt_pointer_attributes *out, const void *ptr)
{
    cu_result result = rt_init();
    if (result != CU_SUCCESS) {
        return rt_end(__func__, result);
    }
    memset(out, 0, sizeof(*out));
    int device = host_device(ptr);
    int ordinal = -1;
    if (device >= 0) {
        out->type = RT_HOST;
        out->device = device;
        out->device_pointer = (void *)(uintptr_t)ptr;
        out->host_pointer = (void *)(uintptr_t)ptr;
    } else if (cuPointerGetAttribute(&ordinal, CU_POINTER_DEVICE_ORDINAL, rt_address(ptr)) ==
               CU_SUCCESS) {
        out->type = RT_DEVICE;
        out->device = ordinal;
        out->device_pointer = (void *)(uintptr_t)ptr;
    } else {
        out->type = RT_UNREGISTERED;
        out->device = -2;
        out->host_pointer = (void *)(uintptr_t)ptr;
    }
    return CU_SUCCESS;
}
