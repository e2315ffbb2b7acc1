/* entry_point.c - serves programs that open the driver themselves: entry points by name, the
 * runtime's and the simulator's.
 *
 * A missing entry point is not found, and the caller reports that when needed. */
#include "vmm/tools/runtime/entry_point.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "vmm/tools/runtime/runtime.h"

/* Some of the driver's names have several versions. The last version is meant. */
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

/* The one name whose versions take different arguments. */
static const char *versioned(const char *name, int version)
{
    enum { SINCE_V3 = 11040, SINCE_V4 = 12050 };
    if (strcmp(name, "cuCtxCreate") != 0) {
        return name;
    }
    return version >= SINCE_V4   ? "cuCtxCreate_v4"
           : version >= SINCE_V3 ? "cuCtxCreate_v3"
                                 : "cuCtxCreate_v2";
}

cu_result cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags,
                              int *status)
{
    (void)flags;
    *out = name[0] != '\0' ? rt_find_symbol(versioned(name, version)) : NULL;
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
