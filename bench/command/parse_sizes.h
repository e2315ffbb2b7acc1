/* parse_sizes.h - lists of a device's sizes, and of cards' names, on a command line. */
#ifndef PLEAT_BENCH_PARSE_SIZES_H
#define PLEAT_BENCH_PARSE_SIZES_H

#include <argp.h>

#include "bench/ab/plan.h"

/* For parsers: the list of --card or of --memory into `out`, which has BENCH_MOST_MEMORIES, or
 * argp_error naming the option. */
void bench_parse_sizes(struct argp_state *state, bool is_card, const char *list,
                       bench_ab_memory *out, unsigned *n);

#endif
