/* mxnet_options.c - the options of MXNet's pools: their table and refusals.
 *
 * Source: the page "Environment variables" of MXNet's documentation. */
#include "segments/classic/mxnet.h"
#include "vmm/driver.h"

enum { LEAST_PAGE = 32, LEAST_CUTOFF = 20, MOST_CUTOFF = 34, MOST_RESERVE = 100 };

#define AT(member) PL_OPTION_AT(pl_mxnet_options, member)

/* clang-format off */
static const pl_option rows[] = {
    { "mxnet_gpu_mem_pool_reserve", PL_OPTION_NUMBER, AT(reserve_percent), .initial = 5,
      .most = MOST_RESERVE,
      .help = "percent of the device that stays free while something cached can be given back" },
    { "mxnet_gpu_pool_page_size", PL_OPTION_SIZE, AT(page_bytes), .initial = 4096,
      .least = LEAST_PAGE, .help = "least size; round: a power of two, at most 2^cutoff" },
    { "mxnet_gpu_mem_pool_page_size", PL_OPTION_SIZE, AT(page_bytes), .least = LEAST_PAGE,
      .is_second_spelling = true, .help = "MXNet's documentation spells it" },
    { "mxnet_gpu_mem_large_alloc_round_size", PL_OPTION_SIZE, AT(large_bytes),
      .initial = 2 << 20, .help = "naive: larger requests are multiples of it" },
    { "mxnet_gpu_mem_pool_round_linear_cutoff", PL_OPTION_NUMBER, AT(cutoff), .initial = 24,
      .least = LEAST_CUTOFF, .most = MOST_CUTOFF,
      .help = "round: log2 where powers of two end" },
};
/* clang-format on */

/* Naive allows any page size. */
static pleat_status check_together(const pl_allocator_options *options,
                                   const pl_allocator_ops *chosen)
{
    const pl_mxnet_options o = pl_mxnet_own(options);
    size_t page = o.page_bytes;
    bool is_round = chosen == &pl_mxnet_round_ops || chosen == &pl_mxnet19_round_ops;
    if (!is_round || ((page & (page - 1)) == 0 && page <= (size_t)1 << o.cutoff)) {
        return PLEAT_OK;
    }
    pl_driver_clear_error();
    pl_driver_set_detail("mxnet_gpu_pool_page_size is %zu, but %s needs a power of two of at most "
                         "2^%u (mxnet_gpu_mem_pool_round_linear_cutoff)",
                         page, chosen->name, o.cutoff);
    return PLEAT_ECONF;
}

const pl_option_table pl_mxnet_option_table = {
    PL_OPTION_ROWS(rows),
    .bytes = sizeof(pl_mxnet_options),
    .check = check_together,
};

/* ---- options of a pool that is made without the configuration -------------------------------- */

static pleat_status refuse(const char *option, uint64_t value, const char *allowed)
{
    pl_driver_clear_error();
    pl_driver_set_detail("%s: %llu is not allowed: %s", option, (unsigned long long)value, allowed);
    return PLEAT_ECONF;
}

static pleat_status check_common(const pl_mxnet_options *o)
{
    if (o->reserve_percent > MOST_RESERVE) {
        return refuse("mxnet_reserve_percent", o->reserve_percent, "0 to 100");
    }
    if (o->page_bytes < LEAST_PAGE || o->page_bytes > PL_CACHE_MOST) {
        return refuse("mxnet_page_bytes", o->page_bytes, "at least 32");
    }
    return PLEAT_OK;
}

pleat_status pl_mxnet_check_naive(const pl_mxnet_options *options)
{
    pleat_status st = check_common(options);
    if (st == PLEAT_OK && (options->large_bytes == 0 || options->large_bytes > PL_CACHE_MOST)) {
        st = refuse("mxnet_large_bytes", options->large_bytes,
                    "more than 0; 1 = no rounding of large sizes");
    }
    return st;
}

pleat_status pl_mxnet_check_round(const pl_mxnet_options *options)
{
    pleat_status st = check_common(options);
    if (st != PLEAT_OK) {
        return st;
    }
    size_t page = options->page_bytes;
    unsigned cutoff = options->cutoff;
    if ((page & (page - 1)) != 0) {
        return refuse("mxnet_page_bytes", page, "Round needs a power of two");
    }
    if (cutoff < LEAST_CUTOFF || cutoff > MOST_CUTOFF) {
        return refuse("mxnet_cutoff", cutoff, "20 to 34");
    }
    if (pl_mxnet_bit_length(page - 1) > cutoff) {
        return refuse("mxnet_cutoff", cutoff, "a page must not be larger than 2 to the cutoff");
    }
    return PLEAT_OK;
}
