/* torch_options.c - the options of PyTorch's caches: their table, refusals and defaults.
 *
 * Source: c10/core/AllocatorConfig.cpp, c10/cuda/CUDAAllocatorConfig.cpp; setMemoryFraction of
 * c10/cuda/CUDACachingAllocator.cpp. */
#include "segments/classic/torch/torch_cache.h"
#include "vmm/driver.h"

#define AT(member) PL_OPTION_AT(pl_torch_options, member)

/* clang-format off */
static const pl_option rows[] = {
    { "large_segment_size_mb", PL_OPTION_NUMBER, AT(large_segment_bytes), .initial = 20,
      .least = 11, .most = 1 << 24, .scale = 1 << 20,
      .help = "segment of requests from 1 to 10 MiB" },
    { "max_split_size_mb", PL_OPTION_NUMBER, AT(max_split_bytes), .least = 11, .most = 1 << 24,
      .scale = 1 << 20, .help = "blocks this big are not split" },
    { "max_non_split_rounding_mb", PL_OPTION_NUMBER, AT(max_non_split_rounding_bytes),
      .least = 11, .most = 1 << 24, .scale = 1 << 20,
      .help = "slack accepted for such a block" },
    { "garbage_collection_threshold", PL_OPTION_PART, AT(garbage_collection_threshold),
      .help = "of the limit: from here on old segments are given back" },
    { "per_process_memory_fraction", PL_OPTION_SHARE, AT(per_process_memory_fraction),
      .initial = 1, .help = "of the device: a further limit" },
    { "expandable_small_page_mb", PL_OPTION_NUMBER, AT(expandable_small_page_bytes), .initial = 2,
      .least = 1, .most = 1 << 20, .scale = 1 << 20,
      .help = "what torch-expandable maps at a time; multiples of the granule" },
    { "expandable_large_page_mb", PL_OPTION_NUMBER, AT(expandable_large_page_bytes), .least = 1,
      .most = 1 << 20, .scale = 1 << 20,
      .help = "what torch-expandable maps at a time; multiples of the granule" },
};
/* clang-format on */

/* PyTorch's rule: both sizes are at least a large segment. 0 = not given. */
static pleat_status check_sizes(const pl_allocator_options *options, const pl_allocator_ops *chosen)
{
    const pl_torch_options o = pl_torch_own(options);
    const struct {
        const char *name;
        size_t bytes;
    } sizes[] = { { "max_split_size_mb", o.max_split_bytes },
                  { "max_non_split_rounding_mb", o.max_non_split_rounding_bytes } };
    (void)chosen;
    for (unsigned i = 0; i < 2; i++) {
        if (sizes[i].bytes != 0 && sizes[i].bytes < o.large_segment_bytes) {
            pl_driver_clear_error();
            pl_driver_set_detail("the key '%s' is %zu, less than 'large_segment_size_mb', %zu",
                                 sizes[i].name, sizes[i].bytes >> 20, o.large_segment_bytes >> 20);
            return PLEAT_ECONF;
        }
    }
    return PLEAT_OK;
}

const pl_option_table pl_torch_option_table = {
    PL_OPTION_ROWS(rows),
    .bytes = sizeof(pl_torch_options),
    .check = check_sizes,
};

/* ---- options that are made without the configuration; what zeros mean ------------------------ */

static bool is_0_or_at_least(size_t bytes, size_t least)
{
    return bytes == 0 || bytes >= least;
}

/* NaN is refused, since every comparison with NaN is false. */
static bool are_fractions_good(const pl_torch_options *o)
{
    return o->garbage_collection_threshold >= 0 && o->garbage_collection_threshold < 1 &&
           o->per_process_memory_fraction >= 0 && o->per_process_memory_fraction <= 1;
}

pleat_status pl_torch_settle_options(pl_torch_options *o)
{
    if (o->large_segment_bytes == 0) {
        o->large_segment_bytes = PL_TORCH_LARGE_SEGMENT;
    }
    size_t large = o->large_segment_bytes;
    if (large <= PL_TORCH_MIN_LARGE || large % PL_TORCH_MIN_BLOCK != 0 || large > PL_CACHE_MOST ||
        !is_0_or_at_least(o->max_split_bytes, large) ||
        !is_0_or_at_least(o->max_non_split_rounding_bytes, large) || !are_fractions_good(o)) {
        return PLEAT_ECONF;
    }
    if (o->max_split_bytes == 0) {
        o->max_split_bytes = SIZE_MAX;
    }
    if (o->max_non_split_rounding_bytes == 0) {
        o->max_non_split_rounding_bytes = large;
    }
    if (o->per_process_memory_fraction == 0) {
        o->per_process_memory_fraction = 1;
    }
    return PLEAT_OK;
}

static pleat_status refuse_page(const char *option, size_t bytes, size_t granule)
{
    pl_driver_clear_error();
    pl_driver_set_detail("%s: %zu bytes are not allowed: whole granules of %zu bytes, at most 2^60",
                         option, bytes, granule);
    return PLEAT_ECONF;
}

/* PyTorch maps 2 and 20 MiB whatever the granularity is. If the granule does not divide these
 * sizes, they are rounded up. A size given by the user is refused instead. */
static pleat_status settle_page(const char *option, size_t *page, size_t usual, size_t granule)
{
    size_t bytes = *page != 0 ? *page : usual;
    size_t over = bytes % granule;
    if ((over != 0 && bytes != usual) || bytes > PL_CACHE_MOST) {
        return refuse_page(option, bytes, granule);
    }
    *page = over != 0 ? bytes + granule - over : bytes;
    return PLEAT_OK;
}

pleat_status pl_torch_settle_pages(pl_torch_options *o, size_t granule_bytes)
{
    pleat_status st = settle_page("expandable_small_page_mb", &o->expandable_small_page_bytes,
                                  PL_TORCH_SMALL_SEGMENT, granule_bytes);
    return st != PLEAT_OK ? st
                          : settle_page("expandable_large_page_mb", &o->expandable_large_page_bytes,
                                        o->large_segment_bytes, granule_bytes);
}

uint64_t pl_torch_fraction_bytes(const pl_torch_options *o, uint64_t total_bytes)
{
    if (o->per_process_memory_fraction >= 1) {
        return 0;
    }
    double bytes = o->per_process_memory_fraction * (double)total_bytes + 0.5;
    return bytes < 1 ? 1 : (uint64_t)bytes;
}

uint64_t pl_torch_limit(const pl_torch *t)
{
    uint64_t limit = t->base.limit_bytes;
    uint64_t fraction = t->fraction_bytes;
    return limit != 0 && (fraction == 0 || limit < fraction) ? limit : fraction;
}
