/* weigh.h - which device of a snapshot is to be judged. */
#ifndef PLEAT_BENCH_WEIGH_H
#define PLEAT_BENCH_WEIGH_H

#include "bench/import/pickle.h"

/* How much a device's list of events tells. 0: nothing of blocks, as where a process only looked at
 * the device. Else more for more live bytes at once, and UINT64_MAX for a refused request. */
uint64_t bench_trace_weigh(const bench_pickle_value *trace);

#endif
