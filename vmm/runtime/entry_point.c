/* entry_point.c - serves programs that open the driver themselves: entry points by name,
 * synchronous copies.
 *
 * An entry point that is missing here is not found; the caller reports that when it needs it. Like
 * the driver's, the copies work on the current context and wait. */
#include "vmm/runtime/entry_point.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "vmm/runtime/runtime.h"

/* Some of the driver's names have several versions; the last one is meant. */
void *rt_find_symbol(const char *name)
{
    static const char *const versions[] = { "_v3", "_v2", "" };
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        char symbol[128];
        snprintf(symbol, sizeof(symbol), "%s%s", name, versions[i]);
        void *address = dlsym(RTLD_DEFAULT, symbol);
        if (address != NULL) {
            return address;
        }
    }
    return NULL;
}

cu_result cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags,
                              int *status)
{
    (void)version;
    (void)flags;
    *out = name[0] != '\0' ? rt_find_symbol(name) : NULL;
    if (status != NULL) {
        *status = *out != NULL ? RT_SYMBOL_FOUND : RT_SYMBOL_NOT_FOUND;
    }
    return *out != NULL ? CU_SUCCESS : CU_NOT_FOUND;
}

cu_result cuDeviceGetUuid_v2(rt_uuid *uuid, cu_device dev)
{
    int count = 0;
    cu_result result = cuDeviceGetCount(&count);
    if (result == CU_SUCCESS && (dev < 0 || dev >= count)) {
        result = CU_INVALID_DEVICE;
    }
    if (result == CU_SUCCESS) {
        *uuid = (rt_uuid){ .bytes = { 'p', 'l', 'e', 'a', 't', (unsigned char)dev } };
    }
    return result;
}

/* ---- copies ---- */

static cu_result wait_after(cu_result result)
{
    return result == CU_SUCCESS ? cuStreamSynchronize(NULL) : result;
}

cu_result cuMemcpyHtoD_v2(cu_devptr to, const void *from, size_t bytes)
{
    return wait_after(cuMemcpyHtoDAsync_v2(to, from, bytes, NULL));
}

cu_result cuMemcpyDtoH_v2(void *to, cu_devptr from, size_t bytes)
{
    return wait_after(cuMemcpyDtoHAsync_v2(to, from, bytes, NULL));
}

cu_result cuMemcpyDtoD_v2(cu_devptr to, cu_devptr from, size_t bytes)
{
    return cuMemcpyDtoDAsync_v2(to, from, bytes, NULL);
}

cu_result cuMemsetD8_v2(cu_devptr to, unsigned char value, size_t n)
{
    return cuMemsetD8Async(to, value, n, NULL);
}
