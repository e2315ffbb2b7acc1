/* sim_list.h - every entry point of the simulated driver: those that pleat calls, those that only
 * other programs on the simulator need (vmm/runtime/), and one without arguments, which does not
 * fit pleat's wrappers. Form: driver_list.h. */
#ifndef PLEAT_SIM_LIST_H
#define PLEAT_SIM_LIST_H

#include "vmm/driver_list.h"

/* clang-format off */
#define SIM_FURTHER_LIST(X) \
    X(ctx_synchronize, cuCtxSynchronize, OPTIONAL, (void), ()) \
    X(pointer_attribute, cuPointerGetAttribute, OPTIONAL, \
      (void *value, int attribute, cu_devptr ptr), (value, attribute, ptr))
/* clang-format on */

#define SIM_LIST(X) PL_DRIVER_LIST(X) SIM_FURTHER_LIST(X)

#endif
