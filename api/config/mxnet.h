/* mxnet.h - reads MXNet's own environment variables about its pools.
 *
 * Each key mxnet_gpu_... is also read from the variable of that name in upper case, in both
 * spellings of the page size. PLEAT_CONF and the string given to pleat_create take precedence. The
 * variables belong to another program: unless an mxnet allocator is chosen, a bad value is ignored.
 * An empty variable counts as unset, as in MXNet. */
#ifndef PLEAT_API_CONFIG_MXNET_H
#define PLEAT_API_CONFIG_MXNET_H

#include "api/config/config.h"

/* Reads an environment variable. config.c passes the function in, since only config.c may read. */
typedef const char *(*pl_variable_fn)(const char *name);

/* The allocator behind `allocator:mxnet` until pl_mxnet_resolve has chosen a pool. */
extern const pl_allocator_ops pl_mxnet_alias;

/* True if the configuration chooses a pool of MXNet, or leaves the choice to MXNet's variables. */
bool pl_mxnet_is_chosen(const pl_config *config);
/* Read the variables into `config`. PLEAT_OK; only if `is_strict`, PLEAT_ECONF for a bad value or
 * for two spellings that differ, and pleat_last_error names both. */
pleat_status pl_mxnet_read(pl_variable_fn variable, bool is_strict, pl_config *config);
/* If the alias is chosen, replace it by the pool that MXNET_USE_NAIVE_STORAGE_MANAGER(S) and
 * MXNET_GPU_MEM_POOL_TYPE choose. PLEAT_OK; PLEAT_ECONF. */
pleat_status pl_mxnet_resolve(pl_variable_fn variable, pl_config *config);

#endif
