/* settings.h - the settings of the run that a snapshot was taken of. */
#ifndef PLEAT_BENCH_SETTINGS_H
#define PLEAT_BENCH_SETTINGS_H

#include "bench/import/snapshot.h"
#include "bench/pickle/pickle.h"

/* Fill conf, allocator, is_full and is_expandable of `out`, whose entries and segments are read.
 * Older snapshots have no settings, or not all. False and a message when they are absurd. */
bool bench_snapshot_settings(const char *path, const bench_pickle_value *root, bench_snapshot *out,
                             bench_failure *failure);

#endif
