/* torch_options.c - the options of PyTorch's caches: what is refused, what zeros mean.
 *
 * Source: c10/core/AllocatorConfig.cpp, c10/cuda/CUDAAllocatorConfig.cpp; setMemoryFraction of
 * c10/cuda/CUDACachingAllocator.cpp. */
#include "segments/classic/torch_cache.h"
#include "vmm/driver.h"

static bool is_power_of_two_or_0(unsigned n)
{
    return (n & (n - 1)) == 0;
}

static bool is_0_or_at_least(size_t bytes, size_t least)
{
    return bytes == 0 || bytes >= least;
}

/* Not a number fits nowhere. */
static bool are_fractions_good(const pl_allocator_options *o)
{
    return o->garbage_collection_threshold >= 0 && o->garbage_collection_threshold < 1 &&
           o->per_process_memory_fraction >= 0 && o->per_process_memory_fraction <= 1;
}

static bool are_divisions_good(const pl_allocator_options *o)
{
    for (unsigned i = 0; i < PL_TORCH_N_DIVISIONS; i++) {
        if (!is_power_of_two_or_0(o->roundup_divisions[i])) {
            return false;
        }
    }
    return true;
}

pleat_status pl_torch_settle_options(pl_allocator_options *o)
{
    if (o->large_segment_bytes == 0) {
        o->large_segment_bytes = PL_TORCH_LARGE_SEGMENT;
    }
    size_t large = o->large_segment_bytes;
    if (large <= PL_TORCH_MIN_LARGE || large % PL_TORCH_MIN_BLOCK != 0 || large > PL_CACHE_MOST ||
        !is_0_or_at_least(o->max_split_bytes, large) ||
        !is_0_or_at_least(o->max_non_split_rounding_bytes, large) || !are_fractions_good(o) ||
        !are_divisions_good(o)) {
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

/* PyTorch maps 2 and 20 MiB whatever the granularity; where that cannot be, the next that can. */
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

pleat_status pl_torch_settle_pages(pl_allocator_options *o, size_t granule_bytes)
{
    pleat_status st = settle_page("expandable_small_page_mb", &o->expandable_small_page_bytes,
                                  PL_TORCH_SMALL_SEGMENT, granule_bytes);
    return st != PLEAT_OK ? st
                          : settle_page("expandable_large_page_mb", &o->expandable_large_page_bytes,
                                        o->large_segment_bytes, granule_bytes);
}

uint64_t pl_torch_fraction_bytes(const pl_allocator_options *o, uint64_t total_bytes)
{
    if (o->per_process_memory_fraction >= 1) {
        return 0;
    }
    double bytes = o->per_process_memory_fraction * (double)total_bytes + 0.5;
    return bytes < 1 ? 1 : (uint64_t)bytes;
}

uint64_t pl_torch_limit(const pl_torch *t)
{
    uint64_t limit = t->base.options.limit_bytes;
    uint64_t fraction = t->fraction_bytes;
    return limit != 0 && (fraction == 0 || limit < fraction) ? limit : fraction;
}
