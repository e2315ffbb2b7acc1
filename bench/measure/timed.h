/* timed.h - an allocator's own time, from separate replays. */
#ifndef PLEAT_BENCH_TIMED_H
#define PLEAT_BENCH_TIMED_H

#include "bench/run/replay.h"

enum { BENCH_MOST_TIMED = 1000 };

/** Replay `n_runs` times more, each with a fresh instance, and set record->own. Other programs only
 *  add time. So the least run is nearest to the truth, and the spread tells how near.
 *
 *  Params   options: of the replay that gave `record`. Its snapshot and later passes are left out,
 *           a timeline is taken in the first run. n_runs may be 0: `own` says that nothing was
 *           measured.
 *  Returns  as bench_replay. */
bool bench_timed(const bench_work *work, const bench_replay_options *options, unsigned n_runs,
                 bench_record *record, bench_failure *failure);

#endif
