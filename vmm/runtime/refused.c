/* refused.c - the calls of the CUDA runtime that are not simulated: each says its name once and
 * fails with cudaErrorNotSupported.
 *
 * Without them a library that is linked with one could not be loaded, or would get it from the
 * vendor's runtime, which knows nothing of the simulated device. A caller passes arguments that
 * these functions do not read; by the platform's calling convention they are the caller's to
 * remove. */
#include "vmm/runtime/refused_list.h"
#include "vmm/runtime/runtime.h"

#define RT_REFUSED(name)                                                                           \
    RT_EXPORT rt_error name(void);                                                                 \
    rt_error name(void)                                                                            \
    {                                                                                              \
        return rt_unsupported(#name);                                                              \
    }

RT_REFUSED_LIST(RT_REFUSED)
