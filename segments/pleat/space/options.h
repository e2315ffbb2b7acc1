/* options.h - the options of pleat alone. Sizes in bytes. */
#ifndef PLEAT_SEGMENTS_PLEAT_OPTIONS_H
#define PLEAT_SEGMENTS_PLEAT_OPTIONS_H

#include "segments/base/allocator.h"

typedef enum pl_growth { PL_GROWTH_BALANCED, PL_GROWTH_FRUGAL, PL_GROWTH_AMPLE } pl_growth;
typedef enum pl_cross_stream { PL_CROSS_ORDER, PL_CROSS_SETTLED } pl_cross_stream;
typedef enum pl_chunks { PL_CHUNKS_GRANULE, PL_CHUNKS_MIXED } pl_chunks;
typedef enum pl_short { PL_SHORT_REFUSE, PL_SHORT_COMPACT } pl_short;
typedef enum pl_capture_ask { PL_CAPTURE_ASK, PL_CAPTURE_TOLD } pl_capture_ask;

typedef struct pl_pleat_options {
    pl_growth growth;
    pl_cross_stream cross_stream;
    pl_chunks chunks;
    unsigned chunk_share;   /* see policy.h */
    pl_short when_short;    /* compact: move live memory before a request fails (api/instance) */
    pl_capture_ask capture; /* told: streams are captured only while a capture is announced */
    uint64_t reserve_bytes; /* most of the device left for others */
    const struct pl_policy_calls *policy; /* rules of somebody's own (grow/policy.h); NULL = none */
} pl_pleat_options;

extern const pl_option_table pl_pleat_option_table;

static inline pl_pleat_options pl_pleat_own(const pl_allocator_options *options)
{
    pl_pleat_options own;
    pl_own_get(options, &pl_pleat_option_table, &own);
    return own;
}

#endif
