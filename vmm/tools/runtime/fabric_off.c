/* fabric_off.c - tells PyTorch that memory is not shared by a fabric between machines.
 *
 * Before mapping an expandable segment, PyTorch 2.13 and later ask the management library (NVML)
 * for a fabric. They do not check that NVML is present, and the simulator has none. A preloaded
 * object replaces the function that asks, and PyTorch then shares memory by file descriptors. */
#include <stdbool.h>

#include "vmm/tools/runtime/runtime_api.h"

/* bool c10::cuda::get_fabric_access(c10::DeviceIndex) */
RT_EXPORT bool rt_has_fabric(signed char device) __asm__("_ZN3c104cuda17get_fabric_accessEa");

bool rt_has_fabric(signed char device)
{
    (void)device;
    return false;
}
