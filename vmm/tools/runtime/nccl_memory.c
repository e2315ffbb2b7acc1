/* nccl_memory.c - the library's own allocations, and registered buffers.
 *
 * Registering only speeds transfers up. So registering only makes a record, whose address is the
 * handle. */
#include <stdlib.h>

#include "vmm/tools/runtime/nccl_group.h"

enum { GRANULE_BYTES = 2 << 20, RECORD_MAGIC = 0x706c7267 };

typedef struct record {
    unsigned magic;
    nccl_comm *comm;
} record;

/* Whole granules, as the vendor's library creates and maps them. */
int ncclMemAlloc(void **out, size_t bytes)
{
    if (out == NULL || bytes == 0 || bytes > SIZE_MAX - GRANULE_BYTES) {
        return rt_nccl_say(NCCL_INVALID_ARGUMENT, "ncclMemAlloc of %zu bytes", bytes);
    }
    size_t whole_bytes = (bytes + GRANULE_BYTES - 1) / GRANULE_BYTES * GRANULE_BYTES;
    rt_error error = cudaMalloc(out, whole_bytes);
    return error == CU_SUCCESS ? NCCL_SUCCESS
                               : rt_nccl_say(NCCL_CUDA_ERROR, "ncclMemAlloc of %zu bytes: %s",
                                             bytes, cudaGetErrorString(error));
}

int ncclMemFree(void *ptr)
{
    rt_error error = cudaFree(ptr);
    return error == CU_SUCCESS
               ? NCCL_SUCCESS
               : rt_nccl_say(NCCL_CUDA_ERROR, "ncclMemFree: %s", cudaGetErrorString(error));
}

int ncclCommRegister(nccl_comm *comm, void *ptr, size_t bytes, void **handle)
{
    if (!rt_nccl_is_comm(comm) || ptr == NULL || bytes == 0 || handle == NULL) {
        return rt_nccl_say(NCCL_INVALID_ARGUMENT, "a buffer of %zu bytes to register", bytes);
    }
    record *it = malloc(sizeof(*it));
    if (it == NULL) {
        return rt_nccl_say(NCCL_SYSTEM_ERROR, "out of host memory");
    }
    *it = (record){ RECORD_MAGIC, comm };
    *handle = it;
    return NCCL_SUCCESS;
}

int ncclCommDeregister(nccl_comm *comm, void *handle)
{
    record *it = handle;
    if (it == NULL || it->magic != RECORD_MAGIC || it->comm != comm) {
        return rt_nccl_say(NCCL_INVALID_ARGUMENT, "the buffer is not registered");
    }
    it->magic = 0;
    free(it);
    return NCCL_SUCCESS;
}

int ncclCommWindowRegister(nccl_comm *comm, void *ptr, size_t bytes, void **window, int flags)
{
    (void)flags;
    return ncclCommRegister(comm, ptr, bytes, window);
}

int ncclCommWindowDeregister(nccl_comm *comm, void *window)
{
    return ncclCommDeregister(comm, window);
}

/* Kernels that communicate by themselves compute nothing on the simulator. */
int ncclDevCommCreate(nccl_comm *comm, const void *needs, void *out)
{
    (void)comm;
    (void)needs;
    (void)out;
    (void)rt_unsupported(__func__);
    return rt_nccl_say(NCCL_INVALID_USAGE, "communicators for kernels are not simulated");
}

int ncclDevCommDestroy(nccl_comm *comm, const void *device_comm)
{
    return ncclDevCommCreate(comm, device_comm, NULL);
}
