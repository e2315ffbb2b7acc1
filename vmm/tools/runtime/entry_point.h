/* entry_point.h - the driver's entry points by name, and the entry points that Python's bindings of
 * the driver (cuda.bindings, and Numba on top) need beyond PyTorch's. Shapes as in cuda.h of CUDA
 * 13.0. */
#ifndef PLEAT_RUNTIME_ENTRY_POINT_H
#define PLEAT_RUNTIME_ENTRY_POINT_H

#include "vmm/tools/runtime/runtime_api.h"

typedef struct rt_uuid {
    unsigned char bytes[16];
} rt_uuid;

RT_EXPORT cu_result cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags,
                                        int *status);
RT_EXPORT cu_result cuDeviceGetUuid_v2(rt_uuid *uuid, cu_device dev);

#endif
