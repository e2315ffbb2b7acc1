/* rounding.h - how far an instance's requests are rounded up, which may change at any time. */
#ifndef PLEAT_API_ROUNDING_H
#define PLEAT_API_ROUNDING_H

#include "api/instance.h"

/* The divisions are good (segments/base/rounding.h). Devices that are open follow at once, others
 * when they open. ENOTSUP: the instance's allocator cannot change it. */
pleat_status pl_instance_set_rounding(pl_instance *instance,
                                      const unsigned divisions[PL_N_DIVISIONS]);
/* Let a newly opened device round as the others do; under the instance's lock. */
void pl_rounding_follow(pl_gpu *gpu);
/* The configuration with what has changed since. */
pl_config pl_instance_config_now(pl_instance *instance);

#endif
