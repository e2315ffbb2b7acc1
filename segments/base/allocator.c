/* allocator.c - the allocators by name, and the defaults of their options. */
#include "segments/base/allocator.h"

#include <string.h>

static const pl_allocator_ops *const allocators[] = {
    &pl_pleat_ops,       &pl_torch_native_ops,  &pl_torch_expandable_ops, &pl_mxnet_naive_ops,
    &pl_mxnet_round_ops, &pl_mxnet19_naive_ops, &pl_mxnet19_round_ops,    &pl_unpooled_ops,
    &pl_tf_bfc_ops,      &pl_cuda_async_ops,
};

enum { N_ALLOCATORS = sizeof allocators / sizeof allocators[0] };

void pl_allocator_options_init(pl_allocator_options *options)
{
    *options = (pl_allocator_options){
        .growth = PL_GROWTH_BALANCED,
        .cross_stream = PL_CROSS_ORDER,
        .wait_ms = 1000,
        .token_refill = 2,
        .token_cap = 200,
        .order_interval = 50000,
        .keep_permille = 10,
        .small_bytes = (size_t)128 << 10,
        .large_segment_bytes = (size_t)20 << 20,
        .per_process_memory_fraction = 1.0,
        .expandable_small_page_bytes = (size_t)2 << 20,
        .mxnet_reserve_percent = 5,
        .mxnet_page_bytes = 4096,
        .mxnet_large_bytes = (size_t)2 << 20,
        .mxnet_cutoff = 24,
        .bfc_allow_growth = true,
        .bfc_garbage_collection = true,
    };
}

const pl_allocator_ops *pl_allocator_find(const char *name)
{
    for (unsigned i = 0; i < N_ALLOCATORS; i++) {
        if (strcmp(allocators[i]->name, name) == 0) {
            return allocators[i];
        }
    }
    return NULL;
}

const char *pl_allocator_name(unsigned index)
{
    return index < N_ALLOCATORS ? allocators[index]->name : NULL;
}
