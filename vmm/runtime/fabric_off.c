/* fabric_off.c - tells PyTorch that memory is not shared by a fabric between machines.
 *
 * PyTorch 2.13 and later ask the management library (NVML) for that before they map an expandable
 * segment, without a look whether the library is there; here it is not. A preloaded object replaces
 * the function that asks, and PyTorch then shares memory by file descriptors. */
#include <stdbool.h>

#include "vmm/runtime/runtime_api.h"

/* bool c10::cuda::get_fabric_access(c10::DeviceIndex) */
RT_EXPORT bool rt_has_fabric(signed char device) __asm__("_ZN3c104cuda17get_fabric_accessEa");

bool rt_has_fabric(signed char device)
{
    (void)device;
    return false;
}
