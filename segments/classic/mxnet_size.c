/* mxnet_size.c - MXNet's size classes, to the byte.
 *
 * Sources: NaiveStorageManager and GPUPooledStorageManager, RoundAllocSize;
 * GPUPooledRoundedStorageManager, get_bucket and get_size (1.6 to 1.9). RoundHelper, RoundMultiple
 * and RoundPower2 (2.0).
 */
#include "segments/classic/mxnet.h"

static size_t round_up(size_t n, size_t step)
{
    return (n + step - 1) / step * step;
}

size_t pl_mxnet_round_naive(const pl_mxnet_options *options, size_t bytes)
{
    size_t paged = round_up(bytes, options->page_bytes);
    return paged > options->large_bytes ? round_up(paged, options->large_bytes) : paged;
}

/* Powers of two up to 2^cutoff; above, multiples of 2^cutoff. */
size_t pl_mxnet_round_round(const pl_mxnet_options *options, size_t bytes)
{
    unsigned cutoff = options->cutoff;
    unsigned log2 = pl_mxnet_bit_length(bytes - 1);
    if (log2 > cutoff) {
        return round_up(bytes, (size_t)1 << cutoff);
    }
    size_t power = (size_t)1 << log2;
    return power > options->page_bytes ? power : options->page_bytes;
}

size_t pl_mxnet_round_not(const pl_mxnet_options *options, size_t bytes)
{
    (void)options;
    return bytes;
}
