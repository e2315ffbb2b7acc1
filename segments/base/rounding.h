/* rounding.h - larger requests by PyTorch's option roundup_power2_divisions. The stretch from a
 * power of two to the next is divided into equal steps, and a request is rounded up to a step.
 *
 * The divisions are a table by log2(bytes) - 20, clamped. If the divisions are 0 or 1, or a step is
 * shorter than the quantum, a request is rounded up to the quantum only.
 *
 * Source: roundup_power2_next_division and round_size of c10/cuda/CUDACachingAllocator.cpp. */
#ifndef PLEAT_SEGMENTS_ROUNDING_H
#define PLEAT_SEGMENTS_ROUNDING_H

#include <stdbool.h>
#include <stddef.h>

#include "segments/base/option.h"

enum { PL_ROUNDING_QUANTUM = 512, PL_ROUNDING_FIRST_LOG2 = 20, PL_ROUNDING_MOST = 64 };

static inline bool pl_rounding_is_division(size_t n)
{
    return n <= PL_ROUNDING_MOST && (n & (n - 1)) == 0;
}

static inline bool pl_rounding_is_good(const unsigned divisions[PL_N_DIVISIONS])
{
    bool is_good = true;
    for (unsigned i = 0; i < PL_N_DIVISIONS; i++) {
        is_good = is_good && pl_rounding_is_division(divisions[i]);
    }
    return is_good;
}

/* Does the table make any request larger than the quantum does? */
static inline bool pl_rounding_is_on(const unsigned divisions[PL_N_DIVISIONS])
{
    bool is_on = false;
    for (unsigned i = 0; i < PL_N_DIVISIONS; i++) {
        is_on = is_on || divisions[i] > 1;
    }
    return is_on;
}

static inline size_t pl_rounding_up(size_t bytes, size_t step) /* a power of two */
{
    return (bytes + step - 1) & ~(step - 1);
}

/* bytes: at most 2^60. */
static inline size_t pl_rounding_of(const unsigned divisions[PL_N_DIVISIONS], size_t bytes)
{
    if (bytes < PL_ROUNDING_QUANTUM) {
        return PL_ROUNDING_QUANTUM;
    }
    unsigned log2 = 63 - (unsigned)__builtin_clzll((unsigned long long)bytes);
    unsigned at = log2 < PL_ROUNDING_FIRST_LOG2 ? 0 : log2 - PL_ROUNDING_FIRST_LOG2;
    size_t d = divisions[at < PL_N_DIVISIONS ? at : PL_N_DIVISIONS - 1];
    if (d <= 1 || bytes <= PL_ROUNDING_QUANTUM * d) {
        return pl_rounding_up(bytes, PL_ROUNDING_QUANTUM);
    }
    return pl_rounding_up(bytes, ((size_t)1 << log2) / d);
}

#endif
