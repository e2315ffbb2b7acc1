/* own.h - sets one of an allocator's own options in a test. */
#ifndef PLEAT_TESTS_OWN_H
#define PLEAT_TESTS_OWN_H

#include "segments/base/allocator.h"

/* SET_OWN(torch, &options, max_split_bytes, 20 << 20) */
#define SET_OWN(family, options, member, value)                                                    \
    do {                                                                                           \
        pl_##family##_options own_ = pl_##family##_own(options);                                   \
        own_.member = (value);                                                                     \
        pl_own_set((options), &pl_##family##_option_table, &own_);                                 \
    } while (0)

#endif
