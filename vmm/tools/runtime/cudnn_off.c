/* cudnn_off.c - tells PyTorch that the program has turned cuDNN off.
 *
 * cuDNN carries a runtime of its own, which finds no simulated device. PyTorch calls these two
 * PyTorch functions before using the library. A preloaded object replaces them, so PyTorch takes
 * its own kernels for convolutions, recurrent networks, normalisation and attention. */
#include <stdbool.h>

#include "vmm/tools/runtime/runtime_api.h"

/* bool at::Context::userEnabledCuDNN() const, and its twin for attention. */
RT_EXPORT bool rt_has_cudnn(const void *context) __asm__("_ZNK2at7Context16userEnabledCuDNNEv");
RT_EXPORT bool rt_has_cudnn_attention(const void *context) __asm__(
    "_ZNK2at7Context19userEnabledCuDNNSDPEv");

bool rt_has_cudnn(const void *context)
{
    (void)context;
    return false;
}

bool rt_has_cudnn_attention(const void *context)
{
    (void)context;
    return false;
}
