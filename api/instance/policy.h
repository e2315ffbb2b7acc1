/* policy.h - loads the shared object of `policy:PATH`. */
#ifndef PLEAT_API_POLICY_H
#define PLEAT_API_POLICY_H

#include "api/instance/instance.h"

/* Put the functions of the configured policy into the instance and its options. Without one nothing
 * happens. The object stays loaded. PLEAT_OK; ECONF and a text: it cannot be loaded, or has none of
 * the functions. */
pleat_status pl_policy_load(pl_instance *instance);

#endif
