/* mxnet_size.c - MXNet's size classes, to the byte, and the options that define them.
 *
 * Source: NaiveStorageManager / GPUPooledStorageManager::RoundAllocSize, GPUPooledRoundedStorage-
 * Manager::get_bucket and get_size (1.6 to 1.9); RoundHelper, RoundMultiple and RoundPower2 (2.0).
 */
#include "segments/classic/mxnet.h"
#include "vmm/driver.h"

enum { LEAST_PAGE = 32, LEAST_CUTOFF = 20, MOST_CUTOFF = 34, MOST_RESERVE = 100 };

static size_t round_up(size_t n, size_t step)
{
    return (n + step - 1) / step * step;
}

/* ilog2ul: bits of `n`, and 1 for 0. */
static unsigned bit_length(size_t n)
{
    return n == 0 ? 1 : 64 - (unsigned)__builtin_clzll((unsigned long long)n);
}

size_t pl_mxnet_round_naive(const pl_allocator_options *options, size_t bytes)
{
    size_t paged = round_up(bytes, options->mxnet_page_bytes);
    return paged > options->mxnet_large_bytes ? round_up(paged, options->mxnet_large_bytes) : paged;
}

/* Powers of two up to 2^cutoff, multiples of it beyond. */
size_t pl_mxnet_round_round(const pl_allocator_options *options, size_t bytes)
{
    unsigned cutoff = options->mxnet_cutoff;
    unsigned log2 = bit_length(bytes - 1);
    if (log2 > cutoff) {
        return round_up(bytes, (size_t)1 << cutoff);
    }
    size_t power = (size_t)1 << log2;
    return power > options->mxnet_page_bytes ? power : options->mxnet_page_bytes;
}

size_t pl_mxnet_round_not(const pl_allocator_options *options, size_t bytes)
{
    (void)options;
    return bytes;
}

static pleat_status refuse(const char *option, uint64_t value, const char *allowed)
{
    pl_driver_clear_error();
    pl_driver_set_detail("%s: %llu is not allowed: %s", option, (unsigned long long)value, allowed);
    return PLEAT_ECONF;
}

static pleat_status check_common(const pl_allocator_options *o)
{
    if (o->mxnet_reserve_percent > MOST_RESERVE) {
        return refuse("mxnet_reserve_percent", o->mxnet_reserve_percent, "0 to 100");
    }
    if (o->mxnet_page_bytes < LEAST_PAGE || o->mxnet_page_bytes > PL_CACHE_MOST) {
        return refuse("mxnet_page_bytes", o->mxnet_page_bytes, "at least 32");
    }
    return PLEAT_OK;
}

pleat_status pl_mxnet_check_naive(const pl_allocator_options *options)
{
    pleat_status st = check_common(options);
    if (st == PLEAT_OK &&
        (options->mxnet_large_bytes == 0 || options->mxnet_large_bytes > PL_CACHE_MOST)) {
        st = refuse("mxnet_large_bytes", options->mxnet_large_bytes,
                    "more than 0; 1 = no rounding of large sizes");
    }
    return st;
}

pleat_status pl_mxnet_check_round(const pl_allocator_options *options)
{
    pleat_status st = check_common(options);
    if (st != PLEAT_OK) {
        return st;
    }
    size_t page = options->mxnet_page_bytes;
    unsigned cutoff = options->mxnet_cutoff;
    if ((page & (page - 1)) != 0) {
        return refuse("mxnet_page_bytes", page, "Round needs a power of two");
    }
    if (cutoff < LEAST_CUTOFF || cutoff > MOST_CUTOFF) {
        return refuse("mxnet_cutoff", cutoff, "20 to 34");
    }
    if (bit_length(page - 1) > cutoff) {
        return refuse("mxnet_cutoff", cutoff, "a page must not be larger than 2 to the cutoff");
    }
    return PLEAT_OK;
}
