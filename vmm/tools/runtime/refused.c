/* refused.c - the calls of the CUDA runtime and its libraries that are not simulated. A call says
 * its name once and fails; the runtime's calls fail with cudaErrorNotSupported.
 *
 * Without these names, a library linked with a missing call could not be loaded, or would take the
 * call from the vendor's runtime, which knows nothing of the simulated device. A caller passes
 * arguments that these functions do not read. By the platform's calling convention the caller
 * removes them. */
#include "vmm/tools/runtime/nccl_api.h"
#include "vmm/tools/runtime/refused_list.h"
#include "vmm/tools/runtime/runtime.h"

#define RT_REFUSED(name)                                                                           \
    RT_EXPORT rt_error name(void);                                                                 \
    rt_error name(void)                                                                            \
    {                                                                                              \
        return rt_unsupported(#name);                                                              \
    }

RT_REFUSED_LIST(RT_REFUSED)

enum { BLAS_NOT_SUPPORTED = 15 };

#define RT_REFUSED_OF_LIBRARY(name, result)                                                        \
    RT_EXPORT int name(void);                                                                      \
    int name(void)                                                                                 \
    {                                                                                              \
        (void)rt_unsupported(#name);                                                               \
        return result;                                                                             \
    }
#define RT_REFUSED_NCCL(name) RT_REFUSED_OF_LIBRARY(name, NCCL_INVALID_USAGE)
#define RT_REFUSED_BLAS(name) RT_REFUSED_OF_LIBRARY(name, BLAS_NOT_SUPPORTED)

RT_REFUSED_NCCL_LIST(RT_REFUSED_NCCL)
RT_REFUSED_BLAS_LIST(RT_REFUSED_BLAS)
