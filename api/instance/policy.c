/* policy.c - see policy.h. */
#include "api/instance/policy.h"

#include <dlfcn.h>
#include <string.h>

#include "api/base/error.h"

/* ISO C has no conversion from an object pointer to a function. */
static pleat_policy_fn *find(void *object, const char *name)
{
    pleat_policy_fn *function = NULL;
    void *found = dlsym(object, name);
    memcpy(&function, &found, sizeof function);
    return function;
}

pleat_status pl_policy_load(pl_instance *instance)
{
    pl_config *config = &instance->config;
    if (config->policy[0] == '\0') {
        return PLEAT_OK;
    }
    void *object = dlopen(config->policy, RTLD_NOW | RTLD_LOCAL);
    if (!object) {
        return pl_error_set(PLEAT_ECONF, 0,
                            "policy: %s: a shared object is asked for; a script of Python runs in "
                            "the command pleat only",
                            dlerror());
    }
    instance->policy = (pl_policy_calls){ .order = find(object, "pleat_policy_order"),
                                          .slack = find(object, "pleat_policy_slack"),
                                          .may_order = find(object, "pleat_policy_may_order"),
                                          .place = find(object, "pleat_policy_place") };
    const pl_policy_calls *calls = &instance->policy;
    if (!calls->order && !calls->slack && !calls->may_order && !calls->place) {
        return pl_error_set(PLEAT_ECONF, 0,
                            "policy: %s defines none of pleat_policy_order, pleat_policy_slack, "
                            "pleat_policy_may_order and pleat_policy_place",
                            config->policy);
    }
    pl_pleat_options own = pl_pleat_own(&config->options);
    own.policy = calls;
    pl_own_set(&config->options, &pl_pleat_option_table, &own);
    return PLEAT_OK;
}
