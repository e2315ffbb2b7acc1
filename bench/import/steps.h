/* steps.h - the steps of a run by its live bytes: how a recording ends, and how it rises.
 *
 *   live  |    /\      /\        /\          A step is a rise and the way back. Between two
 *         |   /  \    /  \    __/  \         steps lies a valley. A run that keeps a little more
 *         |  /    \__/    \__/      \__      in each step has higher and higher valleys.
 *         +---------------------------->  entries
 *
 * A recording shows all that its run needs if three steps after the first one have come down to the
 * level between steps, and neither they nor this level rise. */
#ifndef PLEAT_BENCH_STEPS_H
#define PLEAT_BENCH_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bench_steps {
    bool ends_high;       /* more lives at the end than between two steps before */
    bool is_unrepeated;   /* too few steps to be alike, or the largest came only at first */
    bool is_growing;      /* the last step is the largest one, or the steps grow */
    uint64_t n_steps;     /* that went up and came down; 0 = none was seen */
    uint64_t depth_bytes; /* of the shallowest valley between two of these steps */
    uint64_t rise_bytes;  /* kept by a step, on the mean; 0 = no rise */
    uint64_t n_rise_steps;
} bench_steps;

/* `levels`: live bytes after each of n entries; overwritten. `peak`: their maximum, or more. */
void bench_steps_look(uint64_t *levels, size_t n, uint64_t peak, bench_steps *out);

#endif
