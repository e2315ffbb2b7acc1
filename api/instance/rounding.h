/* rounding.h - how far an instance's requests are rounded up, which may change at any time. */
#ifndef PLEAT_API_ROUNDING_H
#define PLEAT_API_ROUNDING_H

#include "api/instance/instance.h"

/* Set the rounding, for open devices at once, for other devices when they open. The caller has
 * checked the divisions (segments/base/rounding.h). ENOTSUP: the allocator cannot change rounding.
 * */
pleat_status pl_instance_set_rounding(pl_instance *instance,
                                      const unsigned divisions[PL_N_DIVISIONS]);
/* Let a newly opened device round as older devices do; under the instance's lock. */
void pl_rounding_follow(pl_gpu *gpu);
/* The configuration, with later changes. */
pl_config pl_instance_config_now(pl_instance *instance);

#endif
