/* mxnet_options.h - the options of mxnet-* and mxnet19-*, in MXNet's meaning. */
#ifndef PLEAT_SEGMENTS_CLASSIC_MXNET_OPTIONS_H
#define PLEAT_SEGMENTS_CLASSIC_MXNET_OPTIONS_H

#include "segments/base/allocator.h"

typedef struct pl_mxnet_options {
    unsigned reserve_percent; /* of the device; kept free by giving cached blocks back */
    unsigned cutoff;          /* round: log2 where powers of two end, in [20, 34] */
    size_t page_bytes;        /* naive: any >= 32; round: a power of two */
    size_t large_bytes;       /* naive: the unit of larger requests */
} pl_mxnet_options;

extern const pl_option_table pl_mxnet_option_table;

static inline pl_mxnet_options pl_mxnet_own(const pl_allocator_options *options)
{
    pl_mxnet_options own;
    pl_own_get(options, &pl_mxnet_option_table, &own);
    return own;
}

/* PLEAT_OK, or ECONF and the driver error's detail names the option. */
pleat_status pl_mxnet_check_naive(const pl_mxnet_options *options);
pleat_status pl_mxnet_check_round(const pl_mxnet_options *options);

#endif
