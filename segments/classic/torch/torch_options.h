/* torch_options.h - the options of torch-native and torch-expandable, in PyTorch's meaning. Sizes
 * in bytes; 0 = PyTorch's default. */
#ifndef PLEAT_SEGMENTS_CLASSIC_TORCH_OPTIONS_H
#define PLEAT_SEGMENTS_CLASSIC_TORCH_OPTIONS_H

#include "segments/base/allocator.h"

typedef struct pl_torch_options {
    size_t max_split_bytes;              /* larger blocks are not split; >= a large segment */
    size_t max_non_split_rounding_bytes; /* slack of an unsplit block; >= a large segment */
    double garbage_collection_threshold; /* of the limit, in [0, 1); 0 = off */
    size_t large_segment_bytes;         /* segment of requests from 1 to 10 MiB; more than 10 MiB */
    double per_process_memory_fraction; /* of the device, in (0, 1]: a further limit; 0 = 1 */
    /* torch-expandable: the size of a page; a multiple of the granule. */
    size_t expandable_small_page_bytes; /* 0 = 2 MiB */
    size_t expandable_large_page_bytes; /* 0 = large_segment_bytes */
} pl_torch_options;

extern const pl_option_table pl_torch_option_table;

static inline pl_torch_options pl_torch_own(const pl_allocator_options *options)
{
    pl_torch_options own;
    pl_own_get(options, &pl_torch_option_table, &own);
    return own;
}

/* Turn zeros into PyTorch's defaults. ECONF for values that PyTorch refuses. */
pleat_status pl_torch_settle_options(pl_torch_options *options);
pleat_status pl_torch_settle_pages(pl_torch_options *options, size_t granule_bytes);
/* per_process_memory_fraction in bytes; 0 = no limit. */
uint64_t pl_torch_fraction_bytes(const pl_torch_options *options, uint64_t total_bytes);

#endif
