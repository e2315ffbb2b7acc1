/* torch_options.c - the options of PyTorch's caches: what is refused, what zeros mean.
 *
 * Source: c10/core/AllocatorConfig.cpp, c10/cuda/CUDAAllocatorConfig.cpp. */
#include "segments/classic/torch_cache.h"

static bool is_power_of_two_or_0(unsigned n)
{
    return (n & (n - 1)) == 0;
}

pleat_status pl_torch_settle_options(pl_allocator_options *o)
{
    bool is_good = (o->max_split_bytes == 0 || o->max_split_bytes >= PL_TORCH_LARGE_SEGMENT) &&
                   (o->max_non_split_rounding_bytes == 0 ||
                    o->max_non_split_rounding_bytes >= PL_TORCH_LARGE_SEGMENT) &&
                   o->garbage_collection_threshold >= 0 && o->garbage_collection_threshold < 1;
    for (unsigned i = 0; i < PL_TORCH_N_DIVISIONS; i++) {
        is_good = is_good && is_power_of_two_or_0(o->roundup_divisions[i]);
    }
    if (!is_good) {
        return PLEAT_ECONF;
    }
    if (o->max_split_bytes == 0) {
        o->max_split_bytes = SIZE_MAX;
    }
    if (o->max_non_split_rounding_bytes == 0) {
        o->max_non_split_rounding_bytes = PL_TORCH_LARGE_SEGMENT;
    }
    return PLEAT_OK;
}
